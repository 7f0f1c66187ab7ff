"""The published values that the benchmark is audited against: Yu et al. (AISTATS 2025), Tables 8 to 13 and 15 to 18.

`literature.csv` has them in percent: mean and standard deviation over 25 runs. Three of the source's names score the
same network by different measures.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

import pandas as pd

RUNS = 25  # five splits, five initialisations
AMAZON = ("amazon_photos", "amazon_computers")


@dataclass(frozen=True)
class PublishedMethod:
    """A method of the source, as a method of ours.

    Args:
        model: our config.
        error_measure, ood_measure: what the source scores errors and out-of-distribution nodes by.
    """

    model: str
    error_measure: str
    ood_measure: str


METHODS = {
    "entropy": PublishedMethod("gcn", "tu", "tu"),
    "max-score": PublishedMethod("gcn", "lconf", "lconf"),
    "energy": PublishedMethod("gcn", "energy", "energy"),
    "gnnsafe": PublishedMethod("gnnsafe", "propagated_energy", "propagated_energy"),
    "dropout": PublishedMethod("gcn_dropout", "lconf", "lconf"),
    "ensemble": PublishedMethod("gcn_ensemble", "lconf", "lconf"),
    "GPN": PublishedMethod("gpn_sym", "lconf", "eu_pc"),  # eu_pc orders nodes as vacuity does
    "GKDE": PublishedMethod("sgcn", "lconf", "vacuity"),
    "EGNN": PublishedMethod("egnn", "lconf", "vacuity"),
    "EGNN-vacuity-prop": PublishedMethod("egnn_vacuity", "lconf", "vacuity"),
    "EGNN-evidence-prop": PublishedMethod("egnn_evidence", "lconf", "vacuity"),
    "EGNN-vacuity-evidence-prop": PublishedMethod("egnn_both", "lconf", "vacuity"),
    "EPN": PublishedMethod("epn", "lconf", "vacuity"),
    "EPN-reg": PublishedMethod("epn_reg", "lconf", "vacuity"),
}
GAT_METHODS = {  # those with another backbone than a GCN that our configs have
    name: PublishedMethod("gat", METHODS[name].error_measure, METHODS[name].ood_measure)
    for name in ("entropy", "max-score", "energy")
}
FLAWS = (
    "PubMed has values for OS-4 and OS-5, but the source defines only three sets of left-out classes for it. These "
    "values are not compared.",
    "EPN-reg differs between two tables of the source: AUC-ROC on CiteSeer, OS-1, is 89.74 in its Table 4 and 88.23 in "
    "Table 10. We compare with Table 10.",
    "GNNSafe's propagation weight is 0.2 in the text of the source and 0.5 in GNNSafe's public code. Ours is 0.5.",
    "The weights of EPN-reg were tuned on the AUC-ROC of OS-1 test nodes, and are not published. Ours are chosen on "
    "validation nodes.",
    "The propagation settings of EGNN are stated in two places, with different values.",
)


def load_literature() -> pd.DataFrame:
    """Return the published values in percent: `table, backbone, dataset, name, scenario, metric, mean, std`."""
    with files(__package__).joinpath("literature.csv").open() as file:
        return pd.read_csv(file)


def find_method(name: str, backbone: str, dataset: str) -> PublishedMethod | None:
    """Return our method for a name of the source, or None if there is none with that backbone.

    On the Amazon graphs, the source uses GPN with the settings of its own paper.
    """
    if backbone == "GAT":
        return GAT_METHODS.get(name)
    method = METHODS[name]
    if name == "GPN" and dataset in AMAZON:
        return PublishedMethod("gpn_10", method.error_measure, method.ood_measure)
    return method
