"""The folder of a user with a model, a dataset and a scenario of their own, and configs for them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path

MODEL = """
from helper import scale
from lopgpn_exp.models import APPNP

class Mine(APPNP):
    def forward(self, prepared):
        return super().forward(prepared)
"""
SCENARIO = """
def flipped(graph, *, seed, fraction: float = 0.5):
    return graph.replace(features=-graph.features, is_ood=graph.labels == 0)
"""
DATASET = """
from lopgpn_exp.data.datasets import block_model

def blocks(*, num_nodes: int = 200):
    return block_model(num_nodes=num_nodes, num_edges=500, num_classes=3, num_features=5, signal=2.0, seed=2)
"""
MODULES = {
    "own_module": MODEL,
    "helper": "scale = 1\n",
    "own_scenario": SCENARIO,
    "own_dataset": DATASET,
    "unrelated": "x = 1\n",
}
CONFIGS = {
    "model/mine.yaml": "name: mine\n_target_: own_module.Mine\nhidden_dim: 8\n",
    "ood/flipped.yaml": "name: flipped\nstage: evaluation\n_target_: own_scenario.flipped\n",
    "dataset/blocks.yaml": "name: blocks\nleft_out_classes: 1\n_target_: own_dataset.blocks\nnum_nodes: 200\n",
}


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


class UserProject:
    """Modules and configs in a folder that is on the path."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.config_dir = folder, folder / "conf"
        write_files(self.config_dir, CONFIGS)
        self.write()

    def write(self, **changes: str) -> None:
        """Write all modules, some of them with other text, and forget those that were imported."""
        write_files(self.folder, {f"{name}.py": text for name, text in {**MODULES, **changes}.items()})
        self.forget(*changes)
        importlib.invalidate_caches()

    def forget(self, *names: str) -> None:
        for name in (*MODULES, "package", "package.inner", *names):
            sys.modules.pop(name, None)
