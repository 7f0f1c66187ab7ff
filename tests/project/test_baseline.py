"""The fast implementation computes the same as the plain baseline: losses, gradients and trainings agree."""

import pytest
import torch

from benchmarks.baseline import PLAIN
from lopgpn_exp.graph import Part
from lopgpn_exp.training import NodeClassification

MODELS = {"lop_gpn": "LOPGPN", "gpn_sym": "GPN", "appnp": "APPNP"}
FLOW_PARAMETERS = ("center", "alpha_raw", "beta_raw")


@pytest.fixture(params=MODELS)
def both(request, small_graph):
    """Return the project's module, the baseline in float64 with the same weights, and the graph.

    Dropout is off, since its masks differ.
    """
    sizes = {"num_features": small_graph.num_features, "num_classes": small_graph.num_classes}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = NodeClassification(
            model_class=f"lopgpn_exp.models.{MODELS[request.param]}", model_options=sizes | {"dropout": 0.0}
        )
    module.model.observe(small_graph.labels[small_graph.nodes(Part.TRAIN)])
    exact = small_graph.replace(features=small_graph.features.double())
    return module, PLAIN[request.param](module.model, exact), small_graph


def parameters(plain):
    """Return the parameters of the baseline by their names in the project; those of the flow as lists over classes."""
    result = {f"encoder.{name}": value for name, value in plain.named_parameters() if not name.startswith("flows.")}
    if hasattr(plain, "flows"):
        for name in FLOW_PARAMETERS:
            result[f"flow.{name}"] = [getattr(flow, name) for flow in plain.flows]
    return result


def stack(values, select):
    """Apply `select` to a parameter, or to all parameters of a list and stack the results."""
    return torch.stack([select(value) for value in values], dim=1) if isinstance(values, list) else select(values)


def losses(module, plain, graph):
    nodes = graph.nodes(Part.TRAIN)
    batch = module.model.prepare(graph, nodes=nodes)
    own = module.model.node_loss(module.model(batch), graph.labels[nodes])
    own = own.sum() if module.model.loss_reduction == "sum" else own.mean()
    return own, plain.loss(plain(), nodes, graph.labels[nodes])


def test_losses_and_gradients_agree_up_to_rounding(both):
    module, plain, graph = both
    own, reference = losses(module, plain, graph)
    assert own.item() == pytest.approx(reference.item(), rel=1e-5)
    own.backward()
    reference.backward()
    expected = parameters(plain)
    gradients = {name: value.grad for name, value in module.model.named_parameters()}
    assert gradients.keys() == expected.keys()
    for name, gradient in gradients.items():
        reference = stack(expected[name], lambda value: value.grad)
        limit = 2e-5 * reference.abs().max().item()
        torch.testing.assert_close(gradient.double(), reference, rtol=0, atol=limit, msg=lambda text, n=name: n + text)


def test_thirty_steps_of_adam_agree(both):
    module, plain, graph = both
    optimizers = [module.configure_optimizers(), torch.optim.Adam(plain.parameters(), lr=module.learning_rate)]
    history = []
    for _ in range(30):
        pair = losses(module, plain, graph)
        history.append([loss.item() for loss in pair])
        for loss, optimizer in zip(pair, optimizers, strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    own, reference = zip(*history, strict=True)
    assert own == pytest.approx(reference, rel=1e-3)
    assert reference[-1] < 0.8 * reference[0]
