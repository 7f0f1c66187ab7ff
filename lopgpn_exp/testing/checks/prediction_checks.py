"""Checks of predictions and posteriors."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from lopgpn_exp.graph import Graph, Part
from lopgpn_exp.graph.features import select_rows
from lopgpn_exp.models import GradientModel
from lopgpn_exp.posterior import Posterior
from lopgpn_exp.posterior.special import categorical_entropy
from lopgpn_exp.testing.check_types import check
from lopgpn_exp.testing.model_under_test import ModelUnderTest, same_bits

MEAN_ROUNDING = 1e-5  # rounding error of a mean in float32
MEASURE_ROUNDING = 1e-9  # rounding error of a measure in float64
REORDERED_SUM = {"atol": 1e-6, "rtol": 1e-5}  # difference between sums in different orders
MOSTLY_ZERO = 0.9  # share of zeros of sparse features
RANGE_ERRORS = {"au": "not between 0 and its tu", "eu": "below 0", "eu_pc": "but minus a count is below 0"}


@check(
    "predict returns a posterior: one distribution over the classes per node",
    advice="forward: return a lopgpn_exp.posterior in node order; softmax over the last axis; alpha > 0",
    requires=("fit",),
)
def check_posterior(subject: ModelUnderTest) -> Iterator[str]:
    yield from find_posterior_problems(subject.model.predict(subject.graph), subject.graph)


def find_posterior_problems(posterior: object, graph: Graph) -> Iterator[str]:
    """Yield what is wrong with the posterior of the nodes of a graph."""
    if not isinstance(posterior, Posterior):
        yield f"predict returned a {type(posterior).__name__}"
        return
    mean, expected_shape = posterior.mean, (graph.num_nodes, graph.num_classes)
    if tuple(mean.shape) != expected_shape or posterior.num_nodes != graph.num_nodes:
        yield f"the mean has shape {tuple(mean.shape)}, not {expected_shape}"
    elif not bool(torch.isfinite(mean).all()):
        node = int(torch.nonzero(~torch.isfinite(mean))[0, 0])
        yield f"the mean of node {node} is {mean[node].tolist()}"
    else:
        if mean.min() < 0:
            yield f"the mean of node {int(mean.amin(dim=1).argmin())} has a negative probability, {mean.min():.2g}"
        sums = mean.double().sum(dim=1)
        if (row := _find_most_different_row(sums, torch.ones_like(sums), atol=MEAN_ROUNDING)) is not None:
            yield f"the mean of node {row} sums to {sums[row]:.6g}"


@check(
    "measures are finite, of type float64, within their ranges, and grow with uncertainty",
    advice="the measures of your posterior: their signs, and .double() before any subtraction",
    requires=("posterior",),
)
def check_measures(subject: ModelUnderTest) -> Iterator[str]:
    """Compare TU and LConf, which are functions of the mean, with their definitions, all others with their ranges."""
    posterior = subject.posterior
    values = {name: posterior.measure(name) for name in posterior.measures}
    for name, value in values.items():
        if value.dtype != torch.float64 or value.shape != (subject.graph.num_nodes,):
            yield f"{name} is {str(value.dtype).removeprefix('torch.')} of shape {tuple(value.shape)}"
            return
        if not bool(torch.isfinite(value).all()):
            node = int(torch.nonzero(~torch.isfinite(value))[0])
            yield f"{name} of node {node} is {value[node]}"
    mean = posterior.mean.double()
    by_definition = {"tu": categorical_entropy(mean), "lconf": 1 - mean.amax(dim=1)}
    for name, expected in by_definition.items():
        if (row := _find_most_different_row(values[name], expected, atol=10 * MEAN_ROUNDING)) is not None:
            yield f"{name} of node {row} is {values[name][row]:.4g}, but for its mean it is {expected[row]:.4g}"
    tu = values["tu"]
    low = {"au": -MEASURE_ROUNDING, "eu": 0.0}
    high = {"au": tu + MEASURE_ROUNDING, "eu_pc": torch.full_like(tu, -torch.finfo(tu.dtype).tiny)}
    for name in [name for name in ("au", "eu", "eu_pc") if name in values]:
        too_low, too_high = values[name] < low.get(name, -math.inf), values[name] > high.get(name, torch.inf)
        if len(nodes := torch.nonzero(too_low | too_high)):
            yield f"{name} of node {int(nodes[0])} is {values[name][nodes[0]].item():.4g}, {RANGE_ERRORS[name]}"


@check(
    "predicting twice gives identical results",
    advice="predict and forward: dropout in evaluation mode, random draws, state that a prediction changes",
    requires=("posterior",),
)
def check_predict_twice(subject: ModelUnderTest) -> Iterator[str]:
    first, second = (subject.model.predict(subject.graph).mean for _ in range(2))
    if not same_bits(first, second):
        yield f"means of the same graph differ by up to {(first - second).abs().max():.2g}"


@check(
    "indexing a posterior with nodes returns the posterior of these nodes",
    advice="__getitem__ of your posterior: index every tensor with one row per node",
)
def check_indexing(subject: ModelUnderTest) -> Iterator[str]:
    nodes = _pick_nodes(subject.graph)
    indexed = subject.posterior[nodes]
    if type(indexed) is not type(subject.posterior):
        yield f"indexing a {type(subject.posterior).__name__} returns a {type(indexed).__name__}"
        return
    predictions, expected = _collect_predictions(indexed), _collect_predictions(subject.posterior, nodes)
    yield from _find_differences(predictions, expected, "predicted with all nodes", nodes, **REORDERED_SUM)


@check(
    "prepare(nodes=...) gives these nodes the same predictions as among all nodes",
    advice="prepare and forward: the order of the nodes, and neighbours that are not in `nodes` but still count",
    applies_to=GradientModel,
)
def check_node_subset(subject: ModelUnderTest) -> Iterator[str]:
    model, nodes = subject.model.eval(), _pick_nodes(subject.graph)
    assert isinstance(model, GradientModel)
    with torch.no_grad():
        subset = {"mean": model(model.prepare(subject.graph, nodes=nodes)).mean}
    expected = _collect_predictions(subject.posterior, nodes)
    yield from _find_differences(subset, expected, "predicted with all nodes", nodes, **REORDERED_SUM)


@check(
    "permuting the nodes permutes the predictions",
    advice="dependence on the order of nodes or edges: positions as features, sorting, neighbours sampled by index",
    requires=("same_seed",),
)
def check_node_permutation(subject: ModelUnderTest) -> Iterator[str]:
    """A trained model predicts on the permuted graph; a closed-form model is fitted to it."""
    graph = subject.graph
    order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0))
    if not subject.settings.permute_training_nodes:
        others = torch.nonzero(graph.part != Part.TRAIN).flatten()
        order = torch.arange(graph.num_nodes).scatter(0, others, others[order[: len(others)].argsort()])
    permuted = permute_nodes(graph, order)
    model = subject.fit(permuted) if subject.is_closed_form else subject.model
    predictions, tolerance = _collect_predictions(model.predict(permuted), order), subject.settings.tolerance
    yield from _find_differences(
        predictions, _collect_predictions(subject.posterior), "before the permutation", atol=tolerance, rtol=tolerance
    )


def permute_nodes(graph: Graph, order: Tensor) -> Graph:
    """Return the same graph with node i moved to position order[i]."""
    edges, inverse = order[graph.edge_index], torch.argsort(order)
    return graph.replace(
        features=select_rows(graph.features, inverse),
        labels=graph.labels[inverse],
        part=graph.part[inverse],
        is_ood=graph.is_ood[inverse],
        edge_index=edges[:, torch.argsort(edges[0] * graph.num_nodes + edges[1])],
    )


@check(
    "predictions do not depend on graphs predicted earlier",
    advice="what prepare or forward stores: the features or edges of an earlier graph or of the training graph",
    requires=("checkpoint",),
    applies_to=GradientModel,
)
def check_other_graphs(subject: ModelUnderTest) -> Iterator[str]:
    """Compare with a model loaded from the checkpoint, which has not predicted anything before."""
    graph = subject.graph
    half = torch.arange(graph.num_nodes // 2)
    is_inside = (graph.edge_index < len(half)).all(dim=0)
    other_graphs = {
        "with other features": graph.replace(features=graph.features.to_dense().flip(0) + 1),
        "without edges": remove_edges(graph),
        "of half the size": graph.replace(
            edge_index=graph.edge_index[:, is_inside],
            features=select_rows(graph.features, half),
            **{name: getattr(graph, name)[half] for name in ("labels", "part", "is_ood")},
        ),
    }
    for description, other in other_graphs.items():
        if not same_bits(subject.model.predict(other).mean, subject.load_checkpoint().predict(other).mean):
            yield f"on a graph {description}, a model that has predicted before differs from its checkpoint"


@check(
    "sparse features give the same predictions as dense ones",
    advice="graph.features, a torch.sparse_csr tensor if a user's data are mostly zero: in prepare, call "
    "graph.features.to_dense() or, for a sparse first layer, lopgpn_exp.models.base.to_feature_matrix(graph.features)",
    requires=("node_subset",),
    applies_to=GradientModel,
)
def check_sparse_features(subject: ModelUnderTest) -> Iterator[str]:
    """Compare predictions of all nodes and of some, as in training, on a graph whose features are mostly zero."""
    features = subject.graph.features.to_dense()
    dense = subject.graph.replace(features=features * (features > features.quantile(MOSTLY_ZERO)))
    sparse = dense.replace(features=dense.features.to_sparse_csr())
    model, nodes = subject.model.eval(), _pick_nodes(dense)
    assert isinstance(model, GradientModel)
    expected = _collect_predictions(model.predict(dense))
    predictions = _collect_predictions(model.predict(sparse))
    yield from _find_differences(predictions, expected, "with dense features", None, **REORDERED_SUM)
    with torch.no_grad():
        subset = {"mean": model(model.prepare(sparse, nodes=nodes)).mean}
    expected_subset = {"mean": expected["mean"][nodes]}
    yield from _find_differences(subset, expected_subset, "with dense features", nodes, **REORDERED_SUM)


@check(
    "nodes without neighbours are supported",
    advice="division by a degree or a sum of weights that is 0, and empty edge tensors",
    requires=("measures",),
)
def check_no_edges(subject: ModelUnderTest) -> Iterator[str]:
    """Fit and predict on a graph without any edge."""
    graph = remove_edges(subject.graph)
    posterior = subject.fit(graph).predict(graph)
    yield from find_posterior_problems(posterior, graph)
    for name in posterior.measures:
        if not bool(torch.isfinite(posterior.measure(name)).all()):
            yield f"{name} is not finite"


def remove_edges(graph: Graph) -> Graph:
    return graph.replace(edge_index=torch.empty(2, 0, dtype=torch.int64))


def _pick_nodes(graph: Graph) -> Tensor:
    """Return a few nodes in random order, among them those without neighbours."""
    order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(1))
    has_neighbours = torch.isin(order, graph.edge_index)
    return order[has_neighbours.int().argsort(stable=True)][:7].flip(0)


def _collect_predictions(posterior: Posterior, rows: Tensor | slice = slice(None)) -> dict[str, Tensor]:
    """Return the mean and all measures of some rows."""
    measures = {name: posterior.measure(name) for name in posterior.measures}
    return {name: value[rows].double() for name, value in {"mean": posterior.mean, **measures}.items()}


def _find_differences(
    predictions: dict[str, Tensor],
    expected: dict[str, Tensor],
    reference: str,
    nodes: Tensor | None = None,
    *,
    atol: float,
    rtol: float,
) -> Iterator[str]:
    """Yield the first difference beyond the tolerances, which are ten times larger for measures than for the mean.

    `reference` says how `expected` was computed; `nodes` are the nodes of the rows, by default all.
    """
    for name, value in predictions.items():
        if value.shape != expected[name].shape:
            yield f"the {name} of {len(expected[name])} nodes has shape {tuple(value.shape)}"
            return
        factor = 1 if name == "mean" else 10
        row = _find_most_different_row(value, expected[name], atol=factor * atol, rtol=factor * rtol)
        if row is not None:
            node = row if nodes is None else int(nodes[row])
            difference = (value[row] - expected[name][row]).abs().max()
            yield f"the {name} of node {node} differs by {difference:.2g} from its value {reference}"
            return


def _find_most_different_row(values: Tensor, expected: Tensor, *, atol: float, rtol: float = 0.0) -> int | None:
    """Return the row in which two tensors differ most, or None if no difference exceeds the tolerances."""
    excess = (values - expected).abs() - atol - rtol * expected.abs()
    by_row = excess.reshape(len(expected), -1).amax(dim=1)
    return int(by_row.argmax()) if bool((by_row > 0).any()) else None
