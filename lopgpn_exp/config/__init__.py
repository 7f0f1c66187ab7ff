"""Configs: their schema, composing them with Hydra, and turning a checked config into the plan of a run.

Only this package, `sweeps` and `commands` know the syntax of the command line.
"""

from pathlib import Path


def default_config_dir() -> Path:
    """Return `conf/`: beside the package in a checkout, inside it in an installed copy."""
    package = Path(__file__).resolve().parents[1]
    beside = package.parent / "conf"
    return beside if (beside / "config.yaml").is_file() else package / "conf"
