"""The registry of uncertainty measures: what each is called, how it is defined, and what kind of uncertainty it is.

Tables, pages, dashboards, flags and `predict` read this registry. It needs no torch, so that stored results are shown
without it. The formulas are implemented by the posteriors and the post-hoc steps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal, get_args

Role = Literal["total", "aleatoric", "epistemic", "other"]
ROLES = get_args(Role)


@dataclass(frozen=True)
class Measure:
    r"""A measure of uncertainty, which increases with it.

    Args:
        name: of its method, its columns and its metrics.
        symbol: in tables and pages.
        formula: its definition; theta are the class probabilities, Q their distribution.
        posteriors: the classes of `lopgpn_exp.posterior` that have it; empty if a post-hoc step adds it.
        color: in charts.
    """

    name: str
    symbol: str
    role: Role
    formula: str
    posteriors: tuple[str, ...]
    color: str


_DIRICHLETS = ("Dirichlet", "EvidentialDirichlet", "DirichletMixture")
# In the order of tables. The colours of the first six are Paul Tol's bright scheme, the others are from his muted one.
_MEASURES = (
    Measure(
        "tu",
        "TU",
        "total",
        "H(E[theta])",
        ("Categorical", *_DIRICHLETS, "GaussianSimplex", "Samples"),
        "#4477AA",
    ),
    Measure("au", "AU", "aleatoric", "E[H(theta)]", (*_DIRICHLETS, "GaussianSimplex", "Samples"), "#EE6677"),
    Measure("eu", "EU", "epistemic", "H(E[theta]) - E[H(theta)]", (*_DIRICHLETS, "Samples"), "#228833"),
    Measure("eu_pc", "EU_PC", "epistemic", "-alpha_0", _DIRICHLETS, "#CCBB44"),
    Measure("eu_so", "EU_SO", "epistemic", "H(Q)", (*_DIRICHLETS, "GaussianSimplex"), "#66CCEE"),
    Measure(
        "lconf",
        "LConf",
        "total",
        "1 - max E[theta]",
        ("Categorical", *_DIRICHLETS, "GaussianSimplex", "Samples"),
        "#AA3377",
    ),
    Measure("energy", "energy", "epistemic", "-log sum exp(logits)", ("Categorical",), "#332288"),
    Measure("vacuity", "vacuity", "epistemic", "K / alpha_0", ("EvidentialDirichlet",), "#117733"),
    Measure(
        "dissonance",
        "dissonance",
        "aleatoric",
        "sum_k b_k sum_j b_j balance(b_j, b_k) / sum_j b_j over j != k, b = (alpha - 1) / alpha_0",
        ("EvidentialDirichlet",),
        "#882255",
    ),
    Measure("credal_width", "credal width", "epistemic", "sum_k (max theta_k - min theta_k)", ("Samples",), "#999933"),
    Measure("propagated_energy", "propagated energy", "epistemic", "energy, spread along edges", (), "#DDCC77"),
    Measure("gebm", "GEBM", "epistemic", "energies of the node, its neighbours and its cluster", (), "#CC6677"),
    Measure("set_size", "set size", "other", "number of classes in the prediction set", (), "#88CCEE"),
)
_BY_NAME = {measure.name: measure for measure in _MEASURES}
# Which measure flags nodes if a model declares none: the first that its posterior has.
_PREFERRED: dict[str, tuple[str, ...]] = {
    "total": ("tu",),
    "aleatoric": ("au", "tu"),
    "epistemic": ("eu_so", "eu", "eu_pc", "vacuity", "gebm", "propagated_energy", "energy", "credal_width"),
}


def measure_names() -> tuple[str, ...]:
    """Return the names of all registered measures, in the order of tables."""
    return tuple(_BY_NAME)


def find_measure(name: str) -> Measure | None:
    """Return a measure of the registry; None if a user's own posterior defines it."""
    return _BY_NAME.get(name)


def register_measure(measure: Measure) -> None:
    """Add a measure of your own, so that tables and pages show its symbol, role and colour."""
    if measure.name in _BY_NAME and _BY_NAME[measure.name] != measure:
        raise ValueError(f"there is already a measure {measure.name!r}")
    _BY_NAME[measure.name] = measure


def sort_measures(names: Iterable[str]) -> list[str]:
    """Return each measure once: first the registered ones in the order of tables, then the others as they come."""
    distinct = dict.fromkeys(names)
    return [name for name in _BY_NAME if name in distinct] + [name for name in distinct if name not in _BY_NAME]


def choose_measure(role: Role, available: Collection[str], declared: str | None = None) -> str | None:
    """Return the measure that stands for a kind of uncertainty; None if there is none.

    Args:
        declared: the choice of the model, if it has one (see `conf/model`).
    """
    if declared is not None:
        return declared if declared in available else None
    return next((name for name in _PREFERRED[role] if name in available), None)


def measures_of(role: Role, available: Iterable[str]) -> list[str]:
    """Return the available measures of a role or, if there are none, those that stand in for it, such as TU for AU."""
    matching = [name for name in sort_measures(available) if name in _BY_NAME and _BY_NAME[name].role == role]
    return matching or [name for name in _PREFERRED.get(role, ()) if name in set(available)]
