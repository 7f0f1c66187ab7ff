"""What a model says of nodes."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from lopgpn_exp.graph import Graph, Part
from lopgpn_exp.models import GradientModel
from lopgpn_exp.posterior import Posterior
from lopgpn_exp.posterior.special import categorical_entropy
from lopgpn_exp.testing.promises.promise import promise
from lopgpn_exp.testing.trial import Trial, same_bits

ROUNDING = 1e-5  # of a mean in float32
EXACT = 1e-9  # of a measure in float64
SAME_ROW = {"atol": 1e-6, "rtol": 1e-5}  # summed in another order at most
WRONG = {"au": "not between 0 and its tu", "eu": "below 0", "eu_pc": "and minus a count is below 0"}


@promise(
    "predict gives a posterior: one distribution over the classes for each node",
    look_at="forward: a lopgpn_exp.posterior in the order of nodes; softmax over the last axis; alpha > 0",
    needs=("fits",),
)
def posterior(trial: Trial) -> Iterator[str]:
    yield from unsound(trial.fitted.predict(trial.graph), trial.graph)


def unsound(posterior: object, graph: Graph) -> Iterator[str]:
    """What is wrong with the posterior of a graph's nodes."""
    if not isinstance(posterior, Posterior):
        yield f"predict returned a {type(posterior).__name__}"
        return
    mean, expected = posterior.mean, (graph.num_nodes, graph.num_classes)
    if tuple(mean.shape) != expected or posterior.num_nodes != graph.num_nodes:
        yield f"the mean has shape {tuple(mean.shape)}, not {expected}"
    elif not bool(torch.isfinite(mean).all()):
        node = int(torch.nonzero(~torch.isfinite(mean))[0, 0])
        yield f"the mean of node {node} is {mean[node].tolist()}"
    else:
        if mean.min() < 0:
            yield f"the mean of node {int(mean.amin(dim=1).argmin())} has a negative probability, {mean.min():.2g}"
        sums = mean.double().sum(dim=1)
        if (worst := _furthest(sums, torch.ones_like(sums), atol=ROUNDING)) is not None:
            yield f"the mean of node {worst} adds up to {sums[worst]:.6g}"


@promise(
    "measures are finite float64, within their ranges, and grow with uncertainty",
    look_at="the measures of your posterior: their signs, and .double() before anything is subtracted",
    needs=("posterior",),
)
def measures(trial: Trial) -> Iterator[str]:
    """TU and LConf are functions of the mean, so that theirs can be compared; EU_PC is minus a count."""
    posterior = trial.posterior
    values = {name: posterior.measure(name) for name in posterior.measures}
    for name, value in values.items():
        if value.dtype != torch.float64 or value.shape != (trial.graph.num_nodes,):
            yield f"{name} is {str(value.dtype).removeprefix('torch.')} of shape {tuple(value.shape)}"
            return
        if not bool(torch.isfinite(value).all()):
            node = int(torch.nonzero(~torch.isfinite(value))[0])
            yield f"{name} of node {node} is {value[node]}"
    mean = posterior.mean.double()
    wanted = {"tu": categorical_entropy(mean), "lconf": 1 - mean.amax(dim=1)}
    for name, value in wanted.items():
        if (worst := _furthest(values[name], value, atol=10 * ROUNDING)) is not None:
            yield f"{name} of node {worst} is {values[name][worst]:.4g}, and by its mean {value[worst]:.4g}"
    tu, low = values["tu"], {"au": -EXACT, "eu": 0.0}
    high = {"au": tu + EXACT, "eu_pc": torch.full_like(tu, -torch.finfo(tu.dtype).tiny)}
    for name in [name for name in ("au", "eu", "eu_pc") if name in values]:
        below, above = values[name] < low.get(name, -math.inf), values[name] > high.get(name, torch.inf)
        if len(bad := torch.nonzero(below | above)):
            yield f"{name} of node {int(bad[0])} is {values[name][bad[0]].item():.4g}, {WRONG[name]}"


@promise(
    "a posterior indexed by nodes is the posterior of these nodes",
    look_at="__getitem__ of your posterior: every tensor that has a row a node",
)
def indexing(trial: Trial) -> Iterator[str]:
    nodes = _some_nodes(trial.graph)
    part = trial.posterior[nodes]
    if type(part) is not type(trial.posterior):
        yield f"indexing a {type(trial.posterior).__name__} gives a {type(part).__name__}"
        return
    yield from _differing(_said(part), _said(trial.posterior, nodes), "its row of all", nodes, **SAME_ROW)


@promise(
    "prepare(nodes=...) gives these nodes as they are among all",
    look_at="prepare and forward: their order, and neighbours outside of `nodes`, which still take part",
    of=GradientModel,
)
def some_nodes(trial: Trial) -> Iterator[str]:
    model, nodes = trial.fitted.eval(), _some_nodes(trial.graph)
    assert isinstance(model, GradientModel)
    with torch.no_grad():
        some = {"mean": model(model.prepare(trial.graph, nodes=nodes)).mean}
    yield from _differing(some, _said(trial.posterior, nodes), "its row of all", nodes, **SAME_ROW)


@promise(
    "renaming the nodes renames the predictions",
    look_at="what depends on the order of nodes or edges: positions as features, sorting, neighbours cut off by index",
    needs=("same_seed",),
)
def renaming(trial: Trial) -> Iterator[str]:
    """A trained model is applied to the renamed graph; one that knows only its own graph is fitted to it anew."""
    graph = trial.graph
    order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0))
    if not trial.terms.rename_training_nodes:
        others = torch.nonzero(graph.part != Part.TRAIN).flatten()
        order = torch.arange(graph.num_nodes).scatter(0, others, others[order[: len(others)].argsort()])
    other = renamed(graph, order)
    model = trial.fit(other) if trial.is_closed_form else trial.fitted
    found, loose = _said(model.predict(other), order), trial.terms.tolerance
    yield from _differing(found, _said(trial.posterior), "that under its old name", atol=loose, rtol=loose)


def renamed(graph: Graph, order: Tensor) -> Graph:
    """The same graph with node i renamed order[i]."""
    edges, inverse = order[graph.edge_index], torch.argsort(order)
    return graph.replace(
        features=graph.features[inverse],
        labels=graph.labels[inverse],
        part=graph.part[inverse],
        is_ood=graph.is_ood[inverse],
        edge_index=edges[:, torch.argsort(edges[0] * graph.num_nodes + edges[1])],
    )


@promise(
    "a prediction is of the graph it is asked for, whatever was predicted before",
    look_at="what prepare or forward keeps: the features or edges of an earlier graph, or of the one trained on",
    needs=("checkpoint",),
    of=GradientModel,
)
def other_graphs(trial: Trial) -> Iterator[str]:
    """By a scenario's features, by other edges and by fewer nodes: as a model that was never asked before."""
    graph = trial.graph
    half = torch.arange(graph.num_nodes // 2)
    inside = (graph.edge_index < len(half)).all(dim=0)
    others = {
        "with other features": graph.replace(features=graph.features.flip(0) + 1),
        "without edges": without_edges(graph),
        "half the size": graph.replace(
            edge_index=graph.edge_index[:, inside],
            **{name: getattr(graph, name)[half] for name in ("features", "labels", "part", "is_ood")},
        ),
    }
    for words, other in others.items():
        known, fresh = trial.fitted.predict(other), trial.reopened.predict(other)
        if not same_bits(known.mean, fresh.mean):
            yield f"on the graph {words}, a model that has predicted before and its own checkpoint differ"


@promise(
    "nodes without neighbours are nodes too",
    look_at="a division by a degree or by a sum of weights that is 0, and empty tensors of edges",
    needs=("measures",),
)
def no_edges(trial: Trial) -> Iterator[str]:
    """Fitted and asked on a graph that has no edge at all."""
    graph = without_edges(trial.graph)
    alone = trial.fit(graph).predict(graph)
    yield from unsound(alone, graph)
    for name in alone.measures:
        if not bool(torch.isfinite(alone.measure(name)).all()):
            yield f"{name} is not finite"


def without_edges(graph: Graph) -> Graph:
    return graph.replace(edge_index=torch.empty(2, 0, dtype=torch.int64))


def _some_nodes(graph: Graph) -> Tensor:
    """A few of them, not in their order, those without neighbours among them."""
    order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(1))
    has_neighbours = torch.isin(order, graph.edge_index)
    return order[has_neighbours.int().argsort(stable=True)][:7].flip(0)


def _said(posterior: Posterior, rows: Tensor | slice = slice(None)) -> dict[str, Tensor]:
    """The mean and all measures, of some rows."""
    measures = {name: posterior.measure(name) for name in posterior.measures}
    return {name: value[rows].double() for name, value in {"mean": posterior.mean, **measures}.items()}


def _differing(
    found: dict[str, Tensor],
    wanted: dict[str, Tensor],
    words: str,
    nodes: Tensor | None = None,
    *,
    atol: float,
    rtol: float,
) -> Iterator[str]:
    """What is not what it was: the mean by more than is allowed, or a measure by more than ten times as much."""
    for name, value in found.items():
        if value.shape != wanted[name].shape:
            yield f"the {name} of {len(wanted[name])} nodes has shape {tuple(value.shape)}"
            return
        times = 1 if name == "mean" else 10
        row = _furthest(value, wanted[name], atol=times * atol, rtol=times * rtol)
        if row is not None:
            gap = (value[row] - wanted[name][row]).abs().max()
            yield f"the {name} of node {row if nodes is None else int(nodes[row])} and {words} differ by {gap:.2g}"
            return


def _furthest(values: Tensor, wanted: Tensor, *, atol: float, rtol: float = 0.0) -> int | None:
    """The row in which two tensors differ most, if they do by more than is allowed."""
    excess = (values - wanted).abs() - atol - rtol * wanted.abs()
    by_row = excess.reshape(len(wanted), -1).amax(dim=1)
    return int(by_row.argmax()) if bool((by_row > 0).any()) else None
