"""Encoders that use the edges: GCN, GAT and APPNP. All have the interface of `Encoder`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from lopgpn_exp.errors import check_in_range, check_parameter
from lopgpn_exp.graph import Dispersion, Graph, Matrix, SparseMatrix, symmetric
from lopgpn_exp.models.base import to_feature_matrix
from lopgpn_exp.models.layers.encoder import Encoder, InputLayer, check_encoder, relu_dropout

EncoderKind = Literal["mlp", "gcn", "gat", "appnp"]
APPNP_STEPS, APPNP_TELEPORT = 10, 0.1  # as in the public code of GPN and CUQ-GNN


@dataclass(frozen=True)
class ConvolutionInput:
    """Features of all nodes, the normalised adjacency matrix, and its rows of the nodes to predict."""

    features: Matrix
    operator: SparseMatrix
    last_operator: SparseMatrix


class GCNEncoder(nn.Module):
    r"""Two graph convolutions :math:`\hat A X W + b` with ReLU and dropout in between. Source: Kipf and Welling (2017).

    :math:`\hat A` is the symmetric normalisation with self loops. The products use a cached transpose of it, so that an
    epoch takes less time than with PyG's `GCNConv`, to which it is equal up to rounding.

    Args:
        is_embedded: put a linear layer with ReLU and dropout before the convolutions, and a linear layer after them.
    """

    def __init__(
        self, num_features: int, hidden_dim: int, output_dim: int, *, dropout: float, is_embedded: bool = False
    ) -> None:
        super().__init__()
        check_encoder(hidden_dim=hidden_dim, dropout=dropout)
        self.dropout = dropout
        self.hidden = InputLayer(num_features, hidden_dim)
        self.first = nn.Linear(hidden_dim, hidden_dim) if is_embedded else None
        self.second = nn.Linear(hidden_dim, hidden_dim if is_embedded else output_dim)
        self.latent = nn.Linear(hidden_dim, output_dim) if is_embedded else None
        for layer in [self.first, self.second] if is_embedded else [self.hidden, self.second]:
            _initialise_convolution(layer)
        self._inputs: WeakKeyDictionary[Graph, ConvolutionInput] = WeakKeyDictionary()

    def prepare(self, graph: Graph, nodes: Int[Tensor, " chosen"] | None = None) -> ConvolutionInput:
        if graph not in self._inputs:
            operator = SparseMatrix(symmetric(graph))
            self._inputs[graph] = ConvolutionInput(to_feature_matrix(graph.features), operator, operator)
        everywhere = self._inputs[graph]
        return everywhere if nodes is None else replace(everywhere, last_operator=everywhere.operator.rows(nodes))

    def embed(self, prepared: ConvolutionInput) -> Float[Tensor, "nodes hidden"]:
        """Return the values of the last hidden layer, of all nodes."""
        product = self.hidden.multiply(prepared.features)
        if self.first is None:
            return relu_dropout(prepared.operator @ product, self.hidden.bias, self.dropout, self.training)
        hidden = relu_dropout(product, self.hidden.bias, self.dropout, self.training)
        product = prepared.operator @ (hidden @ self.first.weight.T)
        return relu_dropout(product, self.first.bias, self.dropout, self.training)

    def forward(self, prepared: ConvolutionInput) -> Float[Tensor, "nodes output"]:
        output = prepared.last_operator @ (self.embed(prepared) @ self.second.weight.T) + self.second.bias
        return output if self.latent is None else self.latent(output)


@dataclass(frozen=True)
class AttentionInput:
    """Features of all nodes, edges with self loops, and those of them that lead to the nodes to predict."""

    features: Matrix
    edge_index: Int[Tensor, "2 edges"]
    last_edges: Int[Tensor, "2 last_edges"]
    nodes: Int[Tensor, " chosen"] | None


class GATEncoder(nn.Module):
    """Two graph attention layers with ELU and dropout in between: `GATConv` of PyG. Source: Velickovic et al. (2018).

    The first layer has `heads` heads whose outputs are concatenated to `hidden_dim` values, the second has one. Dropout
    applies to hidden values, not to attention weights.

    Args:
        is_embedded: put a linear layer with ReLU and dropout before the attention layers, and a linear one after them.
    """

    def __init__(
        self,
        num_features: int,
        hidden_dim: int,
        output_dim: int,
        *,
        dropout: float,
        heads: int = 8,
        is_embedded: bool = False,
    ) -> None:
        from torch_geometric.nn import GATConv  # deferred import: slow to load

        super().__init__()
        check_encoder(hidden_dim=hidden_dim, dropout=dropout)
        check_in_range("heads", heads, low=1, high=hidden_dim, reason="each has a hidden unit", suggestion=1)
        is_divisible = hidden_dim % heads == 0
        check_parameter("heads", heads, is_divisible, expected=f"a divisor of hidden_dim, {hidden_dim}", suggestion=1)
        width = hidden_dim if is_embedded else output_dim
        self.dropout = dropout
        self.hidden = InputLayer(num_features, hidden_dim, bias=is_embedded)
        self.first = nn.Linear(hidden_dim, hidden_dim, bias=False) if is_embedded else None
        self.second = nn.Linear(hidden_dim, width, bias=False)
        self.latent = nn.Linear(hidden_dim, output_dim) if is_embedded else None
        # Weights are applied outside of the layers: the features may be sparse, which GATConv does not support.
        options: dict[str, Any] = {"add_self_loops": False}
        self.first_attention = GATConv(hidden_dim, hidden_dim // heads, heads=heads, **options)
        self.second_attention = GATConv(width, width, heads=1, **options)
        for attention in (self.first_attention, self.second_attention):
            attention.lin = nn.Identity()
        for layer in [self.first, self.second] if is_embedded else [self.hidden, self.second]:
            _initialise_convolution(layer)
        self._inputs: WeakKeyDictionary[Graph, AttentionInput] = WeakKeyDictionary()

    def prepare(self, graph: Graph, nodes: Int[Tensor, " chosen"] | None = None) -> AttentionInput:
        if graph not in self._inputs:
            loops = torch.arange(graph.num_nodes).expand(2, -1)
            edges = torch.cat([graph.edge_index, loops], dim=1)
            self._inputs[graph] = AttentionInput(to_feature_matrix(graph.features), edges, edges, None)
        everywhere = self._inputs[graph]
        if nodes is None:
            return everywhere
        is_chosen = torch.zeros(graph.num_nodes, dtype=torch.bool)
        is_chosen[nodes] = True
        last_edges = everywhere.edge_index[:, is_chosen[everywhere.edge_index[1]]]
        return replace(everywhere, last_edges=last_edges, nodes=nodes)

    def embed(self, prepared: AttentionInput) -> Float[Tensor, "nodes hidden"]:
        """Return the values of the last hidden layer, of all nodes."""
        product = self.hidden.multiply(prepared.features)
        if self.first is not None:
            hidden = relu_dropout(product, self.hidden.bias, self.dropout, self.training)
            product = hidden @ self.first.weight.T
        attended = self.first_attention(product, prepared.edge_index.to(product.device))
        return nn.functional.dropout(nn.functional.elu(attended), self.dropout, self.training)

    def forward(self, prepared: AttentionInput) -> Float[Tensor, "nodes output"]:
        product = self.embed(prepared) @ self.second.weight.T
        output = self.second_attention(product, prepared.last_edges.to(product.device))
        output = output if prepared.nodes is None else output[prepared.nodes]
        return output if self.latent is None else self.latent(output)


@dataclass(frozen=True)
class PropagatedInput:
    """Features of all nodes, and the dispersion to the nodes to predict."""

    features: Matrix
    disperse: Dispersion


class APPNPEncoder(Encoder):
    """Linear - ReLU - dropout, ten steps of APPNP, Linear. Source: Gasteiger et al. (2019).

    The weights of the last layer are applied before the propagation, which is the same and faster; its bias after it.
    """

    def __init__(self, num_features: int, hidden_dim: int, output_dim: int, *, dropout: float) -> None:
        super().__init__(num_features, hidden_dim, output_dim, dropout=dropout)
        self._inputs: WeakKeyDictionary[Graph, PropagatedInput] = WeakKeyDictionary()

    def prepare(self, graph: Graph, nodes: Int[Tensor, " chosen"] | None = None) -> Any:
        if graph not in self._inputs:
            disperse = Dispersion(symmetric(graph), num_steps=APPNP_STEPS, teleport=APPNP_TELEPORT)
            self._inputs[graph] = PropagatedInput(to_feature_matrix(graph.features), disperse)
        everywhere = self._inputs[graph]
        return everywhere if nodes is None else replace(everywhere, disperse=everywhere.disperse.restrict(nodes))

    def embed(self, prepared: Any) -> Float[Tensor, "nodes hidden"]:
        return super().embed(prepared.features)

    def forward(self, prepared: Any) -> Float[Tensor, "nodes output"]:
        return prepared.disperse(self.embed(prepared) @ self.latent.weight.T) + self.latent.bias


def build_encoder(
    kind: EncoderKind,
    num_features: int,
    hidden_dim: int,
    output_dim: int,
    *,
    dropout: float,
    heads: int = 8,
    is_embedded: bool = False,
) -> Any:
    """Return an encoder from node features to `output_dim` values per node.

    Args:
        kind: `mlp` uses no edges.
        heads: of `gat`.
        is_embedded: see `GCNEncoder` and `GATEncoder`; `mlp` and `appnp` have these layers anyway.
    """
    sizes = (num_features, hidden_dim, output_dim)
    if kind == "gcn":
        return GCNEncoder(*sizes, dropout=dropout, is_embedded=is_embedded)
    if kind == "gat":
        return GATEncoder(*sizes, dropout=dropout, heads=heads, is_embedded=is_embedded)
    return {"mlp": Encoder, "appnp": APPNPEncoder}[kind](*sizes, dropout=dropout)


def _initialise_convolution(layer: nn.Linear | None) -> None:
    """Draw weights as `GCNConv` and `GATConv` do: uniform by Glorot and Bengio (2010), with a bias of zero."""
    assert layer is not None
    nn.init.xavier_uniform_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
