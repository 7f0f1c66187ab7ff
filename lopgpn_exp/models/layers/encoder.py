"""The two-layer perceptron that every trained model starts with."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lopgpn_exp.errors import check_in_range
from lopgpn_exp.graph import Matrix


class Encoder(nn.Module):
    """Linear - ReLU - dropout - Linear, on dense or sparse features. Source: GPN's public configuration."""

    def __init__(self, num_features: int, hidden_dim: int, output_dim: int, *, dropout: float) -> None:
        super().__init__()
        reason = "each feature has a weight for each hidden unit"
        check_in_range("hidden_dim", hidden_dim, low=1, high=16_384, reason=reason, suggestion=64)
        check_in_range("dropout", dropout, low=0, high=1, suggestion=0.5)
        self.hidden = nn.Linear(num_features, hidden_dim)
        self.latent = nn.Linear(hidden_dim, output_dim)
        self.dropout = dropout
        self._train_features: Matrix | None = None
        self._cached: tuple[int, Tensor] | None = None  # version of the weights and product of the last validation

    def forward(self, features: Matrix) -> Float[Tensor, "nodes output"]:
        product = self._multiply(features)
        if self.training and product.device.type == "cpu" and product.dtype == torch.float32:
            from lopgpn_exp.models.layers.relu_dropout import ReluDropout  # deferred import: numba is slow to load

            return self.latent(ReluDropout.apply(product, self.hidden.bias, self.dropout))
        hidden = (product + self.hidden.bias).relu()  # not in place: the product may be reused
        return self.latent(nn.functional.dropout(hidden, self.dropout, self.training))

    def _multiply(self, features: Matrix) -> Tensor:
        """Return features times weights.

        This is the most expensive product of an epoch. A training step that follows a validation with the same weights
        and features reuses its product.
        """
        weight = self.hidden.weight
        cached, self._cached = self._cached, None
        if self.training:
            is_valid = cached is not None and features is self._train_features and cached[0] == weight._version
            self._train_features = features
            return features.precomputed_product(weight.T, cached[1]) if cached and is_valid else features @ weight.T
        product = features @ weight.T
        if features is self._train_features:
            self._cached = (weight._version, product.detach())
        return product
