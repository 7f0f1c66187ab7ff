"""Encoders on the graph, against PyG's convolutions with the same weights and against dense algebra."""

import pytest
import torch
from torch.testing import assert_close
from torch_geometric.nn import GATConv, GCNConv

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Part, symmetric
from lopgpn_exp.models import GPN, LOPGPN, Classifier
from lopgpn_exp.models.layers import build_encoder
from lopgpn_exp.models.layers.graph_encoders import APPNPEncoder, GATEncoder, GCNEncoder
from lopgpn_exp.seeds import seeded

KINDS = ["mlp", "gcn", "gat", "appnp"]


def build(kind, **options):
    with seeded(0):
        return build_encoder(kind, 12, 16, 5, dropout=0.5, **options).eval()


def dense(graph):
    return graph.features.to_dense()


def test_gcn_equals_two_convolutions_of_pyg(small_graph):
    encoder = build("gcn")
    first, second = GCNConv(12, 16), GCNConv(16, 5)
    with torch.no_grad():
        for conv, layer in ((first, encoder.hidden), (second, encoder.second)):
            conv.lin.weight.copy_(layer.weight)
            conv.bias.copy_(layer.bias.normal_(generator=torch.Generator().manual_seed(1)))
        expected = second(first(dense(small_graph), small_graph.edge_index).relu(), small_graph.edge_index)
        assert_close(encoder(encoder.prepare(small_graph)), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("heads", [1, 4])
def test_gat_equals_two_attention_layers_of_pyg(small_graph, heads):
    encoder = build("gat", heads=heads)
    first, second = GATConv(12, 16 // heads, heads=heads), GATConv(16, 5, heads=1)
    with torch.no_grad():
        pairs = ((first, encoder.hidden, encoder.first_attention), (second, encoder.second, encoder.second_attention))
        for conv, layer, attention in pairs:
            conv.lin.weight.copy_(layer.weight)
            for name in ("att_src", "att_dst", "bias"):
                getattr(conv, name).copy_(getattr(attention, name))
        hidden = torch.nn.functional.elu(first(dense(small_graph), small_graph.edge_index))
        expected = second(hidden, small_graph.edge_index)
        assert_close(encoder(encoder.prepare(small_graph)), expected, atol=1e-5, rtol=1e-5)
        assert_close(encoder.embed(encoder.prepare(small_graph)), hidden, atol=1e-5, rtol=1e-5)


def test_appnp_propagates_the_hidden_layer(small_graph):
    """The linear layer after the propagation is computed before it, except for its bias."""
    encoder = build("appnp")
    a = torch.from_numpy(symmetric(small_graph).toarray())
    with torch.no_grad():
        hidden = encoder.hidden(dense(small_graph)).relu().double()
        z = hidden
        for _ in range(10):
            z = 0.9 * a @ z + 0.1 * hidden
        expected = z @ encoder.latent.weight.double().T + encoder.latent.bias.double()
        assert_close(encoder(encoder.prepare(small_graph)).double(), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["gcn", "gat"])
def test_embedded_convolutions_are_between_linear_layers(small_graph, kind):
    encoder = build(kind, heads=1, is_embedded=True)
    with torch.no_grad():
        h = encoder.hidden(dense(small_graph)).relu()
        if kind == "gcn":
            a = torch.from_numpy(symmetric(small_graph).toarray()).float()
            h = (a @ (h @ encoder.first.weight.T) + encoder.first.bias).relu()
            h = a @ (h @ encoder.second.weight.T) + encoder.second.bias
        else:
            edges = torch.cat([small_graph.edge_index, torch.arange(300).expand(2, -1)], dim=1)
            h = torch.nn.functional.elu(encoder.first_attention(h @ encoder.first.weight.T, edges))
            h = encoder.second_attention(h @ encoder.second.weight.T, edges)
        assert_close(encoder(encoder.prepare(small_graph)), encoder.latent(h), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_output_of_some_nodes_is_that_among_all_nodes(small_graph, kind):
    encoder, nodes = build(kind), torch.tensor([7, 3, 299])
    with torch.no_grad():
        everywhere = encoder(encoder.prepare(small_graph))
        assert everywhere.shape == (300, 5)
        assert_close(encoder(encoder.prepare(small_graph, nodes)), everywhere[nodes], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_restricted_nodes_equal_those_of_all(small_graph, kind):
    encoder, nodes = build(kind), torch.tensor([7, 3, 299])
    outputs = (encoder(encoder.prepare(small_graph, nodes)), encoder(encoder.prepare(small_graph))[nodes])
    parameters = list(encoder.parameters())
    gradients = [torch.autograd.grad(output.square().sum(), parameters, allow_unused=True) for output in outputs]
    for restricted, full in zip(*gradients, strict=True):
        assert (restricted is None) == (full is None)
        if full is not None:
            assert_close(restricted, full, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("kind", ["gcn", "gat", "appnp"])
@pytest.mark.parametrize("model_class", [GPN, LOPGPN, Classifier])
def test_models_take_every_encoder(small_graph, kind, model_class):
    """Without edges, an encoder on the graph sees a node's own features alone: other features leave it unchanged."""
    with seeded(0):
        model = model_class(num_features=12, num_classes=3, encoder=kind, hidden_dim=16)
    assert type(model.encoder) in (GCNEncoder, GATEncoder, APPNPEncoder)
    alone = small_graph.replace(edge_index=torch.empty(2, 0, dtype=torch.int64))
    changed = alone.replace(features=dense(alone).index_fill(0, torch.tensor([4]), 3.0))
    first, second = model.predict(alone).mean, model.predict(changed).mean
    others = torch.arange(300) != 4
    assert torch.equal(first[others], second[others])
    assert not torch.equal(first[4], second[4])
    nodes = small_graph.nodes(Part.TRAIN)
    subset = model.eval()(model.prepare(small_graph, nodes=nodes)).mean
    assert_close(subset.double(), model.predict(small_graph).mean[nodes].double(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"heads": 3}, "heads is 3"), ({"heads": 0}, "heads is 0"), ({"hidden_dim": 0}, "hidden_dim is 0")],
)
def test_impossible_sizes_are_refused(options, message):
    with pytest.raises(InputError, match=message) as raised:
        Classifier(num_features=2, num_classes=2, encoder="gat", **options)
    assert raised.value.parameter in options
