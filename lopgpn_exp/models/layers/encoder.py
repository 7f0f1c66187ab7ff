"""The two-layer perceptron that most models start with, and the parts that it shares with encoders on the graph."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from lopgpn_exp.errors import check_in_range
from lopgpn_exp.graph import Graph, Matrix
from lopgpn_exp.graph.features import select_rows
from lopgpn_exp.models.base import to_feature_matrix


class InputLayer(nn.Linear):
    """A linear layer on constant features, dense or sparse: the most expensive product of an epoch.

    A training step that follows a validation with the same weights and features reuses its product.
    """

    def __init__(self, num_features: int, output_dim: int, *, bias: bool = True) -> None:
        super().__init__(num_features, output_dim, bias=bias)
        self._train_features: Matrix | None = None
        self._cached: tuple[int, Tensor] | None = None  # version of the weights and product of the last validation

    def multiply(self, features: Matrix) -> Float[Tensor, "nodes output"]:
        """Return features times weights, without the bias."""
        weight = self.weight
        cached, self._cached = self._cached, None
        if self.training:
            is_valid = cached is not None and features is self._train_features and cached[0] == weight._version
            self._train_features = features
            return features.precomputed_product(weight.T, cached[1]) if cached and is_valid else features @ weight.T
        product = features @ weight.T
        if features is self._train_features:
            self._cached = (weight._version, product.detach())
        return product


class Encoder(nn.Module):
    """Linear - ReLU - dropout - Linear, on dense or sparse features. Source: GPN's public configuration."""

    def __init__(self, num_features: int, hidden_dim: int, output_dim: int, *, dropout: float) -> None:
        super().__init__()
        check_encoder(hidden_dim=hidden_dim, dropout=dropout)
        self.hidden = InputLayer(num_features, hidden_dim)
        self.latent = nn.Linear(hidden_dim, output_dim)
        self.dropout = dropout

    def prepare(self, graph: Graph, nodes: Int[Tensor, " chosen"] | None = None) -> Matrix:
        """Return the input from which `forward` computes the output of `nodes` (default: all)."""
        return to_feature_matrix(graph.features if nodes is None else select_rows(graph.features, nodes))

    def embed(self, prepared: Matrix) -> Float[Tensor, "nodes hidden"]:
        """Return the values of the hidden layer, of all nodes."""
        return relu_dropout(self.hidden.multiply(prepared), self.hidden.bias, self.dropout, self.training)

    def forward(self, prepared: Matrix) -> Float[Tensor, "nodes output"]:
        return self.latent(self.embed(prepared))


def relu_dropout(
    product: Float[Tensor, "nodes hidden"], bias: Float[Tensor, " hidden"], dropout: float, is_training: bool
) -> Float[Tensor, "nodes hidden"]:
    """Return dropout(relu(product + bias)), by a compiled kernel in a training on a CPU, which overwrites `product`."""
    if is_training and product.device.type == "cpu" and product.dtype == torch.float32:
        from lopgpn_exp.models.layers.relu_dropout import ReluDropout  # deferred import: numba is slow to load

        return ReluDropout.apply(product, bias, dropout)
    hidden = (product + bias).relu()  # not in place: the product may be reused
    return nn.functional.dropout(hidden, dropout, is_training)


def check_encoder(*, hidden_dim: int, dropout: float) -> None:
    """Raise an InputError if an option of an encoder is out of range."""
    reason = "each feature has a weight for each hidden unit"
    check_in_range("hidden_dim", hidden_dim, low=1, high=16_384, reason=reason, suggestion=64)
    check_in_range("dropout", dropout, low=0, high=1, suggestion=0.5)
