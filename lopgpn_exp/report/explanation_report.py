"""Explanation of one node's uncertainty: text for the terminal, and a figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lopgpn_exp.evaluation.explanation import NO_CLASS, UNIFORM_BELOW, Explanation
from lopgpn_exp.graph import Graph
from lopgpn_exp.report.console import new_table
from lopgpn_exp.report.names import OTHER_COLORS, measure_color, measure_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BAR_LENGTH = 8  # characters of the longest bar
MAX_BARS = 8  # classes in the figure
MIN_PROBABILITY = 0.005  # smaller ones would not be visible
CLASS_COLORS = ("#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", *OTHER_COLORS)
GREY = "#999999"


@dataclass(frozen=True)
class NodeNames:
    """Names of nodes and classes by their index."""

    nodes: Sequence[Any] | np.ndarray
    classes: Sequence[str]

    def node(self, index: int) -> str:
        return str(self.nodes[index])

    def class_name(self, index: int) -> str:
        return "none" if index == NO_CLASS else self.classes[index]

    def class_color(self, index: int) -> str:
        return GREY if index == NO_CLASS else CLASS_COLORS[index % len(CLASS_COLORS)]


def render_explanation(explanation: Explanation, names: NodeNames, *, pooled: str) -> RenderableType:
    """Return the prediction of a node with and without its neighbours, and the nodes that it was pooled from.

    Args:
        pooled: what the model pools, for example `beliefs`.
    """
    parts: list[RenderableType] = [
        Text(f"\n{names.node(explanation.node)}", style="bold"),
        Text(f"with its neighbours  {_describe_prediction(explanation.pooled, names)}"),
        Text(f"alone                {_describe_prediction(explanation.alone, names)}"),
        "",
        _build_measure_table(explanation),
    ]
    if explanation.disagreement is not None and explanation.ignorance is not None:
        parts.append(Text(_describe_eu(explanation.disagreement, explanation.ignorance)))
    parts += ["", Text(f"Pooled {pooled} by node", style="bold"), _build_neighbour_table(explanation, names)]
    if explanation.other_share > 0.0005:
        parts.append(Text(f"  {explanation.other_share:.1%} from all other nodes", style="dim"))
    classes = [*range(len(explanation.votes) - 1), NO_CLASS]  # in the order of `votes`
    votes = ", ".join(
        f"{names.class_name(classes[i])} {explanation.votes[i]:.0%}"
        for i in np.argsort(-explanation.votes, kind="stable")[:4].tolist()
        if explanation.votes[i] >= 0.005
    )
    return Group(*parts, Text(f"  share by predicted class: {votes}"))


def _describe_prediction(mean: np.ndarray, names: NodeNames) -> str:
    if mean.max() * len(mean) < UNIFORM_BELOW:
        return f"none: the probability of each class is {mean.mean():.3f}"
    best = np.argsort(-mean, kind="stable")[:3].tolist()
    return ", ".join(f"{names.class_name(index)} {mean[index]:.3f}" for index in best)


def _describe_eu(disagreement: float, ignorance: float) -> str:
    total = disagreement + ignorance
    if total < 1e-12:
        return "There is no epistemic uncertainty: the opinions agree and each of them is certain."
    return (
        f"EU {total:.4f} = {disagreement:.4f} ({disagreement / total:.0%}) because the opinions disagree "
        f"+ {ignorance:.4f} ({ignorance / total:.0%}) because each of them is uncertain"
    )


def _build_measure_table(explanation: Explanation) -> Table:
    table = new_table(["measure", "with its neighbours", "alone"], left=["measure"], padding=2)
    for row in explanation.measures.to_dict("records"):
        table.add_row(Text(measure_name(row["measure"])), f"{row['pooled']:.4g}", f"{row['alone']:.4g}")
    return table


def _build_neighbour_table(explanation: Explanation, names: NodeNames) -> Table:
    rows = explanation.neighbours
    has_counts = "eu_pc" in rows
    columns = ["node", "share", "", "hops", "own prediction", "confidence"]
    columns += [*(["counts"] if has_counts else []), "label"]  # labels of training nodes only
    table = new_table(columns, left=("node", "", "own prediction", "label"))
    largest = float(rows["share"].max())
    for row in rows.to_dict("records"):
        hops = str(row["hops"]) if row["hops"] >= 0 else "none"
        table.add_row(
            Text(names.node(row["node"])),
            f"{row['share']:.1%}",
            Text("█" * max(1, round(BAR_LENGTH * row["share"] / largest)), style="blue"),
            "itself" if row["node"] == explanation.node else hops,
            Text(names.class_name(row["predicted"])),
            f"{row['confidence']:.2f}",
            *([f"{-row['eu_pc']:.3g}"] if has_counts else []),
            Text(names.class_name(row["label"]) if row["label"] >= 0 else ""),
        )
    return table


def draw_explanation(explanation: Explanation, names: NodeNames, graph: Graph, *, title: str) -> Figure:
    """Draw the nodes with the largest shares in rings by distance, and beside them probabilities and uncertainties."""
    from matplotlib.figure import Figure  # deferred import: the text does not need matplotlib

    figure = Figure(figsize=(10, 5.2), layout="constrained")
    figure.suptitle(_escape_formula(title), fontsize=11)
    left, right = np.asarray(figure.subfigures(1, 2, width_ratios=(1.25, 1)))
    _draw_rings(left.subplots(), explanation, names, _find_edges(graph, explanation))
    top, bottom = right.subplots(2, 1, height_ratios=(1.3, 1))
    _draw_class_bars(top, explanation, names)
    _draw_measure_bars(bottom, explanation)
    return figure


def _find_edges(graph: Graph, explanation: Explanation) -> np.ndarray:
    """Return the edges among the nodes of an explanation, each once."""
    nodes = np.union1d(explanation.neighbours["node"].to_numpy(), [explanation.node])
    source, target = graph.edge_index.numpy()
    is_shown = (source < target) & np.isin(source, nodes) & np.isin(target, nodes)
    return np.stack([source[is_shown], target[is_shown]])


def _place_nodes(explanation: Explanation) -> dict[int, tuple[float, float]]:
    """Place the node in the middle, and the others on one ring per distance, starting at the top by share."""
    places = {explanation.node: (0.0, 0.0)}
    others = explanation.neighbours[explanation.neighbours["node"] != explanation.node]
    distances = sorted(set(others["hops"]), key=lambda hops: (hops < 0, hops))
    for ring, hops in enumerate(distances, start=1):
        nodes = others.loc[others["hops"] == hops, "node"].tolist()
        rotation = 0.35 * (ring - 1)
        for i, node in enumerate(nodes):
            angle = math.pi / 2 + rotation + 2 * math.pi * i / len(nodes)
            places[node] = (ring * math.cos(angle), ring * math.sin(angle))
    return places


def _draw_rings(axes: Axes, explanation: Explanation, names: NodeNames, edges: np.ndarray) -> None:
    places, rows = _place_nodes(explanation), explanation.neighbours.set_index("node")
    for source, target in edges.T.tolist():
        (x1, y1), (x2, y2) = places[source], places[target]
        axes.plot([x1, x2], [y1, y2], color=GREY, lw=0.8, alpha=0.6, zorder=1)
    for node, (x, y) in places.items():
        is_listed = node in rows.index
        share = float(rows["share"][node]) if is_listed else 0.0
        predicted = int(rows["predicted"][node]) if is_listed else NO_CLASS
        axes.scatter(
            [x],
            [y],
            s=60 + 1600 * share,
            color=names.class_color(predicted),
            edgecolors="black" if node == explanation.node else "white",
            linewidths=1.4,
            zorder=2,
        )
        axes.annotate(
            _escape_formula(f"{names.node(node)}\n{names.class_name(predicted)}, {share:.0%}"),
            (x, y),
            xytext=(0, -9 - 20 * math.sqrt(share)),
            textcoords="offset points",
            fontsize=7,
            ha="center",
            va="top",
            zorder=3,
        )
    axes.set_title("area: share of the pool; colour: each node's own prediction", fontsize=8)
    axes.margins(0.22)
    axes.set_aspect("equal")
    axes.axis("off")


def _draw_class_bars(axes: Axes, explanation: Explanation, names: NodeNames) -> None:
    larger = np.maximum(explanation.pooled, explanation.alone)
    order = np.argsort(-larger, kind="stable")[:MAX_BARS]
    order = order[: max(3, int((larger[order] >= MIN_PROBABILITY).sum()))]
    colors = [names.class_color(int(index)) for index in order]
    labels = [_escape_formula(names.class_name(int(index))) for index in order]
    _draw_bar_pairs(axes, explanation.pooled[order], explanation.alone[order], colors, labels)
    axes.set_xlim(0, 1)
    axes.set_title("class probabilities: with its neighbours (full), alone (pale)", fontsize=8)


def _draw_measure_bars(axes: Axes, explanation: Explanation) -> None:
    rows = explanation.measures[explanation.measures["measure"].isin(["tu", "au", "eu"])]
    measures = rows["measure"].tolist()
    colors, labels = [measure_color(measure) for measure in measures], [measure_name(measure) for measure in measures]
    _draw_bar_pairs(axes, rows["pooled"].to_numpy(), rows["alone"].to_numpy(), colors, labels)
    if explanation.disagreement is not None and "eu" in measures:
        y = measures.index("eu") - 0.2
        axes.barh(y, explanation.disagreement, height=0.36, color="none", edgecolor="black", hatch="///", lw=0.6)
        axes.set_xlabel("hatched: the part of EU due to disagreement; the other part is ignorance", fontsize=7)
    axes.set_title("uncertainty: with its neighbours (full), alone (pale)", fontsize=8)


def _draw_bar_pairs(
    axes: Axes, pooled: np.ndarray, alone: np.ndarray, colors: Sequence[str], labels: Sequence[str]
) -> None:
    y = np.arange(len(labels))
    axes.barh(y - 0.2, pooled, height=0.36, color=colors)
    axes.barh(y + 0.2, alone, height=0.36, color=colors, alpha=0.4)
    axes.set_yticks(y, labels, fontsize=8)
    axes.invert_yaxis()
    axes.tick_params(axis="x", labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)


def _escape_formula(text: str) -> str:
    """Escape dollar signs, which matplotlib would read as the start of a formula."""
    return text.replace("$", r"\$")
