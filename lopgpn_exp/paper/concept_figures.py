"""The paper's figures 1 to 3, drawn from our own distributions and dispersion."""

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
from lopgpn_exp.report.names import measure_color

THETA = np.linspace(0.0025, 0.9975, 399)
# Two confident opinions that contradict each other, as in the paper's figures: pseudo-counts of nodes A and B.
OPINIONS = {"A": (100.0, 10.0), "B": (10.0, 100.0)}
BARS = ("tu", "au", "eu")
BLUE = "#4477AA"


@dataclass(frozen=True)
class Belief:
    """A second-order distribution over two classes, with its density over the probability of the first."""

    title: str
    posterior: Posterior
    density: np.ndarray

    def measure(self, name: str) -> float:
        return float(self.posterior.measure(name)[0])


def create_belief(title: str, *components: tuple[float, tuple[float, float]]) -> Belief:
    """Return the mixture of Beta distributions with these weights and pseudo-counts; a single one is a Dirichlet."""
    alpha = torch.tensor([counts for _, counts in components], dtype=torch.float64)
    weights = torch.tensor([[weight for weight, _ in components]], dtype=torch.float64)
    posterior = Dirichlet(alpha) if len(components) == 1 else DirichletMixture(DenseMatrix(weights), alpha)
    density = np.sum([weight * _beta_density(*counts) for weight, counts in components], axis=0)
    return Belief(title, posterior, density)


def figure1_beliefs() -> list[Belief]:
    """Return the three distributions of figure 1."""
    return [
        create_belief("$Q_1$ = Beta(5, 5)", (1.0, (5.0, 5.0))),
        create_belief("$Q_2$ = U[0, 1]", (1.0, (1.0, 1.0))),
        create_belief("$Q_3$ = ½ Beta(100, 10) + ½ Beta(10, 100)", (0.5, (100.0, 10.0)), (0.5, (10.0, 100.0))),
    ]


def separate_beliefs() -> list[Belief]:
    """Return the beliefs of A and B without each other."""
    return [create_belief(f"{name} alone", (1.0, counts)) for name, counts in OPINIONS.items()]


def pool_with_gpn() -> list[Belief]:
    """Return the beliefs of figure 2: GPN disperses evidence, so both become one confident opinion in the middle."""
    evidence = torch.tensor(list(OPINIONS.values())) - 1
    counts = 1 + _create_dispersion(symmetric)(evidence)
    return [
        create_belief(f"{name}, GPN", (1.0, (float(row[0]), float(row[1]))))
        for name, row in zip(OPINIONS, counts, strict=True)
    ]


def pool_with_lop_gpn() -> list[Belief]:
    """Return the beliefs of figure 3: LOP-GPN mixes the opinions themselves."""
    weights = _create_dispersion(row_stochastic)(torch.eye(2))
    return [
        create_belief(
            f"{name}, LOP-GPN", *((float(w), counts) for w, counts in zip(row, OPINIONS.values(), strict=True))
        )
        for name, row in zip(OPINIONS, weights, strict=True)
    ]


def draw_concept_figures() -> dict[str, Figure]:
    """Return the figures by the name of their files."""
    return {
        "figure1": _draw_beliefs(figure1_beliefs()),
        "figure2": _draw_beliefs([*separate_beliefs(), *pool_with_gpn()]),
        "figure3": _draw_beliefs([*separate_beliefs(), *pool_with_lop_gpn()]),
    }


def _create_dispersion(normalise: Callable[[Graph], sp.csr_array]) -> Dispersion:
    """Return the dispersion of the models on a graph of two nodes and one edge."""
    pair = Graph.build(
        features=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]), labels=torch.tensor([0, 1]), num_classes=2
    )
    return Dispersion(normalise(pair), num_steps=10, teleport=0.1)


def _beta_density(a: float, b: float) -> np.ndarray:
    return np.exp((a - 1) * np.log(THETA) + (b - 1) * np.log1p(-THETA) - betaln(a, b))


def _draw_beliefs(beliefs: list[Belief]) -> Figure:
    """Draw each density, and below it how much of the total uncertainty is aleatoric and how much epistemic."""
    figure = Figure(figsize=(2.7 * len(beliefs), 3.0), layout="constrained")
    top, bottom = figure.subplots(2, len(beliefs), height_ratios=(3, 1.1), sharey="row")
    for upper, lower, belief in zip(top, bottom, beliefs, strict=True):
        upper.fill_between(THETA, belief.density, color=BLUE, alpha=0.25, lw=0)
        upper.plot(THETA, belief.density, color=BLUE, lw=1.3)
        upper.set_title(belief.title, fontsize=8)
        upper.set_xlabel(r"$\theta_1$", fontsize=8)
        upper.set_xlim(0, 1)
        upper.set_xticks([0, 0.5, 1])
        upper.tick_params(labelsize=7)
        _draw_measures(lower, belief)
    top[0].set_ylim(0, 1.05 * max(belief.density.max() for belief in beliefs))
    top[0].set_ylabel("density", fontsize=8)
    return figure


def _draw_measures(axes: Axes, belief: Belief) -> None:
    values = [belief.measure(name) for name in BARS]
    axes.barh(range(len(BARS)), values, color=[measure_color(name) for name in BARS], height=0.7)
    for position, value in enumerate(values):
        axes.text(value + 0.015, position, f"{value:.3f}", va="center", fontsize=7)
    axes.set_yticks(range(len(BARS)), [name.upper() for name in BARS], fontsize=7)
    axes.set_xlim(0, 0.95)
    axes.set_ylim(len(BARS) - 0.5, -0.5)
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
