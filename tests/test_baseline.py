"""Speed is not paid for with accuracy: the same weights trained both ways, by the project and by the plain baseline."""

import pytest
import torch

from benchmarks.baseline import PLAIN
from lopgpn_exp.graph import Part
from lopgpn_exp.training import NodeClassification

MODELS = {"lop_gpn": "LOPGPN", "gpn_sym": "GPN", "appnp": "APPNP"}
OF_FLOW = ("center", "alpha_raw", "beta_raw")


@pytest.fixture(params=MODELS)
def both(request, small_graph):
    """The project's module, and the baseline in float64 with the same weights. Dropout is off: its masks differ."""
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
    """The baseline's parameters and gradients under the names and in the shapes of the project's."""
    found = {f"encoder.{name}": value for name, value in plain.named_parameters() if not name.startswith("flows.")}
    if hasattr(plain, "flows"):
        for name in OF_FLOW:
            found[f"flow.{name}"] = [getattr(flow, name) for flow in plain.flows]
    return found


def stacked(values, of):
    return torch.stack([of(value) for value in values], dim=1) if isinstance(values, list) else of(values)


def losses(module, plain, graph):
    nodes = graph.nodes(Part.TRAIN)
    batch = module.model.prepare(graph, nodes=nodes)
    own = module.model.node_loss(module.model(batch), graph.labels[nodes])
    own = own.sum() if module.model.loss_reduction == "sum" else own.mean()
    return own, plain.loss(plain(), nodes, graph.labels[nodes])


def test_losses_and_gradients_are_equal_to_rounding(both):
    module, plain, graph = both
    own, reference = losses(module, plain, graph)
    assert own.item() == pytest.approx(reference.item(), rel=1e-5)
    own.backward()
    reference.backward()
    expected = parameters(plain)
    gradients = {name: value.grad for name, value in module.model.named_parameters()}
    assert gradients.keys() == expected.keys()
    for name, gradient in gradients.items():
        reference = stacked(expected[name], lambda value: value.grad)
        limit = 2e-5 * reference.abs().max().item()
        torch.testing.assert_close(gradient.double(), reference, rtol=0, atol=limit, msg=lambda text, n=name: n + text)


def test_thirty_steps_of_adam_stay_together(both):
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
