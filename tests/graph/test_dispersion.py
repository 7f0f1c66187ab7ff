"""The dispersion restricted to some nodes."""

import pytest
import torch

from lopgpn_exp.graph import Dispersion, column_stochastic, symmetric

NODES = torch.tensor([7, 3, 250, 8])


def build(graph, normalise=column_stochastic, **options):
    return Dispersion(normalise(graph), **({"num_steps": 10, "teleport": 0.1} | options))


@pytest.fixture
def values(small_graph):
    return torch.randn(small_graph.num_nodes, 5, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("scheme", ["recursion", "power"])
@pytest.mark.parametrize("num_steps", [0, 1, 10])
@pytest.mark.parametrize("normalise", [symmetric, column_stochastic])
def test_restricted_values_and_gradients_equal_those_of_all_nodes(small_graph, values, normalise, num_steps, scheme):
    disperse = build(small_graph, normalise, num_steps=num_steps, scheme=scheme)
    everywhere, restricted = values.clone().requires_grad_(), values.clone().requires_grad_()
    expected, result = disperse(everywhere)[NODES], disperse.restrict(NODES)(restricted)
    assert torch.equal(result, expected)
    upstream = torch.randn(4, 5, generator=torch.Generator().manual_seed(1))
    expected.backward(upstream)
    result.backward(upstream)
    assert torch.equal(restricted.grad, everywhere.grad)


def test_a_node_that_is_chosen_twice_has_twice_the_gradient(small_graph, values):
    disperse = build(small_graph)
    once, twice = (
        disperse.restrict(torch.tensor(nodes)).apply_transposed(torch.ones(len(nodes), 1)) for nodes in ([7], [7, 7])
    )
    torch.testing.assert_close(twice, 2 * once)


def test_a_row_has_the_weights_of_all_nodes(small_graph, values):
    disperse = build(small_graph)
    torch.testing.assert_close(disperse.row(7) @ values, disperse(values)[7])
