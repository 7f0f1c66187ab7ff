"""Values of a config from Python: no override syntax, no quoting."""

from collections.abc import Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf


def set_values(config: DictConfig, values: Mapping[str, Any]) -> None:
    """`{"model.teleport": 0.2}` in place; a name that the config does not have is OmegaConf's error."""
    for key, value in values.items():
        OmegaConf.update(config, key, value, merge=False)
