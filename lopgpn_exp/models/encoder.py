"""The two-layer perceptron in front of every trained model."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lopgpn_exp.graph import Matrix
from lopgpn_exp.models.base import check_in_range


class Encoder(nn.Module):
    """Linear - ReLU - dropout - Linear, on dense or sparse features. Source: GPN's public configuration."""

    def __init__(self, num_features: int, hidden_dim: int, output_dim: int, *, dropout: float) -> None:
        super().__init__()
        check_in_range("hidden_dim", hidden_dim, low=1, hint="64")
        check_in_range("dropout", dropout, low=0, high=1, hint="0.5")
        self.hidden = nn.Linear(num_features, hidden_dim)
        self.latent = nn.Linear(hidden_dim, output_dim)
        self.dropout = dropout
        self._trained_on: Matrix | None = None
        self._kept: tuple[Tensor, Tensor] | None = None

    def forward(self, features: Matrix) -> Float[Tensor, "nodes output"]:
        product = self._product(features)
        dropout = self.dropout if self.training else 0.0
        if product.device.type == "cpu" and product.dtype == torch.float32:
            from lopgpn_exp.models.relu_dropout import ReluDropout  # brings numba

            return self.latent(ReluDropout.apply(product, self.hidden.bias, dropout))
        return self.latent(nn.functional.dropout((product + self.hidden.bias).relu(), dropout))

    def _product(self, features: Matrix) -> Tensor:
        """Features times weights, free for the caller to overwrite.

        A training step follows the validation of the same weights: where both are on the same features, it takes the
        product over. It is the largest of an epoch.
        """
        weight = self.hidden.weight
        kept, self._kept = self._kept, None
        if self.training:
            known = kept is not None and features is self._trained_on and torch.equal(kept[0], weight)
            self._trained_on = features
            return features.known_product(weight.T, kept[1]) if kept and known else features @ weight.T
        product = features @ weight.T
        if features is self._trained_on:
            self._kept = (weight.detach().clone(), product.detach().clone())
        return product
