"""What the benchmark runs under each protocol. The protocols themselves are config files in `conf/protocol`."""

from __future__ import annotations

from dataclasses import dataclass

from lopgpn_exp.report.names import MODEL_NAMES, MODEL_NAMES_BEYOND

ALL_MODELS = (*MODEL_NAMES, *MODEL_NAMES_BEYOND)
PAPER_DATASETS = ("cora_ml", "citeseer", "amazon_photos", "amazon_computers", "pubmed")


@dataclass(frozen=True)
class BenchmarkProtocol:
    """A protocol of the benchmark.

    Args:
        title: its name on pages.
        description: splits, scenarios and hyper-parameters in a sentence or two.
        splits: how many splits a complete benchmark has.
    """

    title: str
    description: str
    datasets: tuple[str, ...]
    models: tuple[str, ...]
    splits: int


PROTOCOLS = {
    "per_class_20": BenchmarkProtocol(
        title="20 per class",
        description="20 training nodes per class, 20 % of all nodes for test and the rest for validation; clean, and "
        "with up to five sets of left-out classes (Yu et al., 2025). Methods made of GCNs or GATs, and GPN (sym), "
        "have the hyper-parameters of that source, such as 16 hidden units in GPN (sym); the others have their own.",
        datasets=(
            *("cora_ml", "citeseer", "amazon_photos", "pubmed"),
            *("amazon_computers", "coauthor_cs", "coauthor_physics"),
        ),
        models=ALL_MODELS,
        splits=5,
    ),
    "paper": BenchmarkProtocol(
        title="LOP-GPN paper",
        description="5/15/80 % of each class for training, validation and test; clean, with left-out classes, and with "
        "random features on 10 % of the nodes.",
        datasets=PAPER_DATASETS,
        models=ALL_MODELS,
        splits=10,
    ),
    "shifts": BenchmarkProtocol(
        title="Shifts",
        description="Trained on 5/15/80 % splits and evaluated after features or edges have changed; or trained and "
        "evaluated on different regions of the graph.",
        datasets=("cora_ml", "amazon_photos", "pubmed"),
        models=(
            *("lop_gpn", "gpn_sym", "appnp", "gcn", "gnnsafe"),
            *("gebm", "gcn_dropout", "gcn_ensemble", "cuq_appnp", "epn_reg"),
        ),
        splits=3,
    ),
}

FAMILIES = {
    "appnp": "Softmax",
    "mlp": "Softmax",
    "gcn": "Softmax",
    "gat": "Softmax",
    "gnnsafe": "Energy",
    "gebm": "Energy",
    "gcn_dropout": "Sampling",
    "gcn_ensemble": "Sampling",
    "gpn_sym": "Density",
    "gpn_rw": "Density",
    "gpn_10": "Density",
    "lop_gpn": "Density",
    "cuq_appnp": "Density",
    "cuq_gcn": "Density",
    "cuq_gat": "Density",
    "sgcn": "Evidential",
    "egnn": "Evidential",
    "egnn_vacuity": "Evidential",
    "egnn_evidence": "Evidential",
    "egnn_both": "Evidential",
    "epn": "Evidential",
    "epn_reg": "Evidential",
    "gkde": "Without training",
    "matern_ggp": "Gaussian process",
}
OWN_FAMILY = "Yours"


def family_of(model: str) -> str:
    """Return the family of a method: where its uncertainty comes from."""
    return FAMILIES.get(model, OWN_FAMILY)
