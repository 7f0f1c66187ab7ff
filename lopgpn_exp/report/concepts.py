"""The paper's figures 1 to 3, drawn from what our own distributions and dispersion give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import betaln

from lopgpn_exp.graph import DenseMatrix, Dispersion, Graph, row_stochastic, symmetric
from lopgpn_exp.posterior import Dirichlet, DirichletMixture, Posterior
from lopgpn_exp.report.names import MEASURE_COLORS

THETA = np.linspace(0.0025, 0.9975, 399)
# Two sure opinions that contradict each other, as in the paper's figures: pseudo-counts of A and of B.
OPINIONS = {"A": (100.0, 10.0), "B": (10.0, 100.0)}
BARS = ("tu", "au", "eu")
BLUE = "#4477AA"


@dataclass(frozen=True)
class Belief:
    """A second-order distribution on two classes, with its density over the probability of the first."""

    title: str
    posterior: Posterior
    density: np.ndarray

    def measure(self, name: str) -> float:
        return float(self.posterior.measure(name)[0])


def belief(title: str, *components: tuple[float, tuple[float, float]]) -> Belief:
    """The mixture of Beta distributions with these weights and pseudo-counts; a single one is a Dirichlet."""
    alpha = torch.tensor([counts for _, counts in components], dtype=torch.float64)
    weights = torch.tensor([[weight for weight, _ in components]], dtype=torch.float64)
    posterior = Dirichlet(alpha) if len(components) == 1 else DirichletMixture(DenseMatrix(weights), alpha)
    return Belief(title, posterior, sum(weight * _beta(*counts) for weight, counts in components))


def second_order() -> list[Belief]:
    """Figure 1's three distributions."""
    return [
        belief("$Q_1$ = Beta(5, 5)", (1.0, (5.0, 5.0))),
        belief("$Q_2$ = U[0, 1]", (1.0, (1.0, 1.0))),
        belief("$Q_3$ = ½ Beta(100, 10) + ½ Beta(10, 100)", (0.5, (100.0, 10.0)), (0.5, (10.0, 100.0))),
    ]


def opinions() -> list[Belief]:
    return [belief(f"{name} alone", (1.0, counts)) for name, counts in OPINIONS.items()]


def gpn_pooled() -> list[Belief]:
    """Figure 2: GPN disperses evidence, so that two sure opinions become one sure opinion in the middle."""
    evidence = torch.tensor(list(OPINIONS.values())) - 1
    counts = 1 + _dispersion(symmetric)(evidence)
    return [
        belief(f"{name}, GPN", (1.0, (float(row[0]), float(row[1]))))
        for name, row in zip(OPINIONS, counts, strict=True)
    ]


def lop_gpn_pooled() -> list[Belief]:
    """Figure 3: LOP-GPN mixes the opinions themselves."""
    weights = _dispersion(row_stochastic)(torch.eye(2))
    return [
        belief(f"{name}, LOP-GPN", *((float(w), counts) for w, counts in zip(row, OPINIONS.values(), strict=True)))
        for name, row in zip(OPINIONS, weights, strict=True)
    ]


def concept_figures() -> dict[str, Figure]:
    """Each by the name of its files."""
    return {
        "figure1": _row(second_order()),
        "figure2": _row([*opinions(), *gpn_pooled()]),
        "figure3": _row([*opinions(), *lop_gpn_pooled()]),
    }


def _dispersion(normalised: Callable[[Graph], sp.csr_array]) -> Dispersion:
    """That of the models, on two nodes with an edge."""
    pair = Graph.build(
        features=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]), labels=torch.tensor([0, 1]), num_classes=2
    )
    return Dispersion(normalised(pair), num_steps=10, teleport=0.1)


def _beta(a: float, b: float) -> np.ndarray:
    return np.exp((a - 1) * np.log(THETA) + (b - 1) * np.log1p(-THETA) - betaln(a, b))


def _row(beliefs: list[Belief]) -> Figure:
    """Each density, and below it how much of the total uncertainty is aleatoric and how much epistemic."""
    figure = Figure(figsize=(2.7 * len(beliefs), 3.0), layout="constrained")
    top, bottom = figure.subplots(2, len(beliefs), height_ratios=(3, 1.1), sharey="row")
    for upper, lower, each in zip(top, bottom, beliefs, strict=True):
        upper.fill_between(THETA, each.density, color=BLUE, alpha=0.25, lw=0)
        upper.plot(THETA, each.density, color=BLUE, lw=1.3)
        upper.set_title(each.title, fontsize=8)
        upper.set_xlabel(r"$\theta_1$", fontsize=8)
        upper.set_xlim(0, 1)
        upper.set_xticks([0, 0.5, 1])
        upper.tick_params(labelsize=7)
        _bars(lower, each)
    top[0].set_ylim(0, 1.05 * max(each.density.max() for each in beliefs))
    top[0].set_ylabel("density", fontsize=8)
    return figure


def _bars(axes: Axes, each: Belief) -> None:
    values = [each.measure(name) for name in BARS]
    axes.barh(range(len(BARS)), values, color=[MEASURE_COLORS[name] for name in BARS], height=0.7)
    for position, value in enumerate(values):
        axes.text(value + 0.015, position, f"{value:.3f}", va="center", fontsize=7)
    axes.set_yticks(range(len(BARS)), [name.upper() for name in BARS], fontsize=7)
    axes.set_xlim(0, 0.95)
    axes.set_ylim(len(BARS) - 0.5, -0.5)
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
