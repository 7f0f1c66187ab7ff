"""What tests of several packages share: paths, small configs, and runs of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lopgpn_exp.runs.execute import RunOutcome

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"  # real datasets, beside the project where there are any
MODELS = ("lop_gpn", "gpn_sym", "gpn_rw", "appnp", "matern_ggp", "gkde")

# A run that takes a fraction of a second.
TINY = [
    "dataset=synthetic",
    "dataset.num_nodes=300",
    "dataset.num_edges=700",
    "dataset.num_classes=4",
    "dataset.num_features=8",
    "dataset.signal=2",
    "trainer.max_epochs=6",
    "trainer.progress=false",
    "tracking=none",
]
TRACKED = [word for word in TINY if word != "tracking=none"]  # the same run, written to MLflow
# What makes any documented command line quick.
QUICK = ["trainer.max_epochs=1", "trainer.progress=false", "tracking=none"]
# What makes models small enough for a graph of 300 nodes.
SMALL = {
    "matern_ggp": ["model.num_eigenpairs=100"],
    "gcn_ensemble": ["model.num_members=2"],
    "epn": ["model.posthoc.evidence_probe.max_epochs=20"],
    "epn_reg": [  # a single pair of weights instead of nine to choose from
        "model.posthoc.evidence_probe.ice_weight=0.01",
        "model.posthoc.evidence_probe.pcl_weight=0.0001",
        "model.posthoc.evidence_probe.max_epochs=300",
    ],
}


def config_names(group: str) -> list[str]:
    """Return the names of the configs in a group of `conf/`."""
    return sorted(path.stem for path in (ROOT / "conf" / group).glob("*.yaml"))


def compose(*overrides: str) -> dict[str, Any]:
    """Return the config of some overrides, as plain values."""
    from lopgpn_exp.config.compose import compose_config

    return compose_config(overrides)


def run_tiny(output_dir: Path, *overrides: str) -> RunOutcome:
    """Run the tiny config with some overrides."""
    from lopgpn_exp.config.plan import plan_run
    from lopgpn_exp.runs.execute import run

    return run(plan_run(compose(*TINY, f"output_dir={output_dir}", *overrides)))
