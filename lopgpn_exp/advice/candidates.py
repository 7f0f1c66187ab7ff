"""The methods that `lopgpn_exp advise` tries, with the reason for each.

Methods that share the predictions of another one, such as `gnnsafe` and `gebm` with `gcn`, are not listed: they differ
in how they detect unknown nodes, which cannot be judged on labelled nodes of the same kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    """A name in `conf/model`, and what it is for.

    Args:
        trainings_of: another method and how many of its trainings this one is made from, if it is an ensemble.
    """

    name: str
    reason: str
    uses_edges: bool = True
    trainings_of: tuple[str, int] | None = None


# From the simplest to the most complex: of methods that nothing separates, the first is recommended. They are also
# trained in this order.
CANDIDATES = (
    Candidate("mlp", "the features of a node alone: what uses edges has to beat it", uses_edges=False),
    Candidate("gcn", "averages over neighbours: the standard, and fast"),
    Candidate("appnp", "spreads predictions over ten steps: for graphs with few labels"),
    Candidate("gat", "weighs its neighbours: for graphs where some edges mislead"),
    Candidate("gpn_sym", "spreads evidence: low where a node is unlike the training data"),
    Candidate("lop_gpn", "pools the opinions of neighbours: tells disagreement from lack of knowledge"),
    Candidate(
        "gcn_ensemble", "averages ten GCNs: often more accurate, at ten times the cost", trainings_of=("gcn", 10)
    ),
)


def select_candidates(names: Sequence[str] | None) -> list[Candidate]:
    """Return the named methods, those of the list first and in its order; by default the whole list."""
    if names is None:
        return list(CANDIDATES)
    listed = [candidate for candidate in CANDIDATES if candidate.name in names]
    others = dict.fromkeys(name for name in names if name not in {candidate.name for candidate in listed})
    return listed + [Candidate(name, "asked for") for name in others]
