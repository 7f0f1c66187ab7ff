"""One node explained: in the terminal, and as a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lopgpn_exp.evaluation.explanation import NOTHING, UNIFORM_BELOW, Explanation
from lopgpn_exp.graph import Graph
from lopgpn_exp.report.names import MEASURE_COLORS, OTHER_COLORS, measure_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BAR = 10  # characters of the longest bar
MOST_CLASSES = 8  # in the picture's bars
SMALLEST = 0.005  # probability that a bar would show
CLASS_COLORS = ("#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", *OTHER_COLORS)
GREY = "#999999"


class Namer:
    """Names for the numbers of an explanation."""

    def __init__(self, ids: Sequence[Any] | np.ndarray, classes: Sequence[str]) -> None:
        self.ids, self.classes = ids, classes

    def node(self, number: int) -> str:
        return str(self.ids[number])

    def label(self, number: int) -> str:
        return self.classes[number] if number >= 0 else ""

    def said(self, number: int) -> str:
        return "nothing" if number == NOTHING else self.classes[number]

    def color(self, number: int) -> str:
        return GREY if number == NOTHING else CLASS_COLORS[number % len(CLASS_COLORS)]


def explanation_text(found: Explanation, names: Namer, *, pooled_what: str) -> RenderableType:
    """What the node says, what it would say alone, whose opinions made the difference."""
    parts: list[RenderableType] = [
        Text(f"\n{names.node(found.node)}", style="bold"),
        Text(f"with its neighbours  {_said(found.pooled, names)}"),
        Text(f"alone                {_said(found.alone, names)}"),
        "",
        _measures(found),
    ]
    if found.disagreement is not None and found.ignorance is not None:
        parts.append(Text(eu_sentence(found.disagreement, found.ignorance)))
    parts += ["", Text(f"Whose {pooled_what} it was pooled from", style="bold"), _neighbours(found, names)]
    if found.rest > 0.0005:
        parts.append(Text(f"  {found.rest:.1%} from all other nodes", style="dim"))
    said = [*range(len(found.votes) - 1), NOTHING]  # by the places of `votes`
    votes = ", ".join(
        f"{names.said(said[label])} {found.votes[label]:.0%}"
        for label in np.argsort(-found.votes, kind="stable")[:4].tolist()
        if found.votes[label] >= 0.005
    )
    parts.append(Text(f"  by the class that each would say alone: {votes}"))
    return Group(*parts)


def eu_sentence(disagreement: float, ignorance: float) -> str:
    """The two parts of EU, as shares."""
    total = disagreement + ignorance
    if total < 1e-12:
        return "There is no epistemic uncertainty: the opinions agree, and each is sure of itself."
    return (
        f"EU {total:.4f} = {disagreement:.4f} ({disagreement / total:.0%}) because the opinions disagree "
        f"+ {ignorance:.4f} ({ignorance / total:.0%}) because each of them does not know"
    )


def _said(mean: np.ndarray, names: Namer) -> str:
    if mean.max() * len(mean) < UNIFORM_BELOW:
        return f"nothing: each class {mean.mean():.3f}"
    best = np.argsort(-mean, kind="stable")[:3].tolist()
    return ", ".join(f"{names.label(label)} {mean[label]:.3f}" for label in best)


def _measures(found: Explanation) -> Table:
    table = Table(box=None, padding=(0, 2), header_style="bold")
    table.add_column("measure")
    for name in ("with its neighbours", "alone"):
        table.add_column(name, justify="right")
    for row in found.measures.itertuples(index=False):
        table.add_row(measure_name(row.measure), f"{row.pooled:.4g}", f"{row.alone:.4g}")
    return table


def _neighbours(found: Explanation, names: Namer) -> Table:
    rows = found.neighbours
    counted = "eu_pc" in rows
    table = Table(box=None, padding=(0, 1), header_style="bold")
    for name in ("node", "share", "", "hops", "says alone", "sure", *(["counts"] if counted else []), "trained as"):
        table.add_column(name, justify="right" if name in ("share", "hops", "sure", "counts") else "left")
    largest = float(rows["share"].max())
    for row in rows.itertuples(index=False):
        bar = "█" * max(1, round(BAR * row.share / largest))
        given = names.label(row.label)
        table.add_row(
            Text(names.node(row.node)),
            f"{row.share:.1%}",
            Text(bar, style="blue"),
            "itself" if row.node == found.node else str(row.hops) if row.hops >= 0 else "none",
            Text(names.said(row.predicted)),
            f"{row.confidence:.2f}",
            *([f"{-row.eu_pc:.3g}"] if counted else []),
            Text(given),
        )
    return table


def explanation_figure(found: Explanation, names: Namer, edges: np.ndarray, *, title: str) -> Figure:
    """The nodes that count most in rings by distance, and beside them what they add up to.

    Args:
        edges: pairs of nodes that are joined, among those in the explanation.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 5.2), layout="constrained")
    figure.suptitle(_literal(title), fontsize=11)
    left, right = figure.subfigures(1, 2, width_ratios=(1.25, 1))
    _rings(left.subplots(), found, names, edges)
    top, bottom = right.subplots(2, 1, height_ratios=(1.3, 1))
    _class_bars(top, found, names)
    _measure_bars(bottom, found)
    return figure


def positions(found: Explanation) -> dict[int, tuple[float, float]]:
    """The node in the middle, the others on a ring for each distance, the largest share on top."""
    places = {found.node: (0.0, 0.0)}
    others = found.neighbours[found.neighbours["node"] != found.node]
    distances = sorted(set(others["hops"]), key=lambda hops: (hops < 0, hops))
    for ring, hops in enumerate(distances, start=1):
        nodes = others.loc[others["hops"] == hops, "node"].tolist()
        turn = 0.35 * (ring - 1)
        for at, node in enumerate(nodes):
            angle = math.pi / 2 + turn + 2 * math.pi * at / len(nodes)
            places[node] = (ring * math.cos(angle), ring * math.sin(angle))
    return places


def _rings(axes: Axes, found: Explanation, names: Namer, edges: np.ndarray) -> None:
    places, rows = positions(found), found.neighbours.set_index("node")
    for a, b in edges.T.tolist():
        (x1, y1), (x2, y2) = places[a], places[b]
        axes.plot([x1, x2], [y1, y2], color=GREY, lw=0.8, alpha=0.6, zorder=1)
    for node, (x, y) in places.items():
        counted = node in rows.index
        share = float(rows["share"][node]) if counted else 0.0
        said = int(rows["predicted"][node]) if counted else NOTHING
        edge = "black" if node == found.node else "white"
        axes.scatter([x], [y], s=60 + 1600 * share, color=names.color(said), edgecolors=edge, linewidths=1.4, zorder=2)
        text = _literal(f"{names.node(node)}\n{names.said(said)}, {share:.0%}")
        axes.annotate(
            text,
            (x, y),
            xytext=(0, -9 - 20 * math.sqrt(share)),
            textcoords="offset points",
            fontsize=7,
            ha="center",
            va="top",
            zorder=3,
        )
    axes.set_title("area: share of the pool; colour: what each would say alone", fontsize=8)
    axes.margins(0.22)
    axes.set_aspect("equal")
    axes.axis("off")


def _class_bars(axes: Axes, found: Explanation, names: Namer) -> None:
    either = np.maximum(found.pooled, found.alone)
    order = np.argsort(-either, kind="stable")[:MOST_CLASSES]
    order = order[: max(3, int((either[order] >= SMALLEST).sum()))]
    y = np.arange(len(order))
    colors = [names.color(int(label)) for label in order]
    axes.barh(y - 0.2, found.pooled[order], height=0.36, color=colors)
    axes.barh(y + 0.2, found.alone[order], height=0.36, color=colors, alpha=0.4)
    axes.set_yticks(y, [_literal(names.label(int(label))) for label in order], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_title("class probabilities: with its neighbours (full), alone (pale)", fontsize=8)
    axes.tick_params(axis="x", labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)


def _literal(text: str) -> str:
    """A user's own name, in which a dollar sign is no formula."""
    return text.replace("$", r"\$")


def _measure_bars(axes: Axes, found: Explanation) -> None:
    shown = found.measures[found.measures["measure"].isin(["tu", "au", "eu"])]
    y = np.arange(len(shown))
    colors = [MEASURE_COLORS[name] for name in shown["measure"]]
    axes.barh(y - 0.2, shown["pooled"], height=0.36, color=colors)
    axes.barh(y + 0.2, shown["alone"], height=0.36, color=colors, alpha=0.4)
    if found.disagreement is not None and "eu" in shown["measure"].to_numpy():
        at = shown["measure"].tolist().index("eu") - 0.2
        axes.barh(at, found.disagreement, height=0.36, color="none", edgecolor="black", hatch="///", lw=0.6)
        axes.set_xlabel("hatched: the part of EU that is disagreement; the rest is ignorance", fontsize=7)
    axes.set_yticks(y, [measure_name(name) for name in shown["measure"]], fontsize=8)
    axes.invert_yaxis()
    axes.set_title("uncertainty: with its neighbours (full), alone (pale)", fontsize=8)
    axes.tick_params(axis="x", labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)


def joined(graph: Graph, found: Explanation) -> np.ndarray:
    """Edges among the nodes of an explanation, each once."""
    nodes = np.union1d(found.neighbours["node"].to_numpy(), [found.node])
    source, target = graph.edge_index.numpy()
    kept = (source < target) & np.isin(source, nodes) & np.isin(target, nodes)
    return np.stack([source[kept], target[kept]])
