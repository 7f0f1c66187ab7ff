"""Where configs are looked for besides our own `conf/`: a user's folder, and packages that announce one."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from importlib.metadata import entry_points
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig

from lopgpn_exp.errors import InputError
from lopgpn_exp.experiment import schema

GROUP = "lopgpn_exp.conf"  # entry points of a package with configs: any name = the import path of their folder
_own_folder: ContextVar[Path | None] = ContextVar("own_folder", default=None)


class OwnConfigs(SearchPathPlugin):
    """The folder that `composed` was given comes first, as with `--config-dir`; announced packages come last."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        if (folder := _own_folder.get()) is not None:
            search_path.prepend(provider="own folder", path=f"file://{folder.resolve()}")
        for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
            search_path.append(provider=point.name, path=f"pkg://{point.value}")


def register() -> None:
    """Before Hydra looks for a config: the schema, and where else to look."""
    schema.register()
    Plugins.instance().register(OwnConfigs)


def composed(overrides: Sequence[str], *, ours: Path, own: Path | None = None) -> DictConfig:
    """The config of some overrides, without the command line.

    Args:
        ours: our `conf/`.
        own: the user's folder of config groups.
    """
    register()
    if own is not None:
        check_folder(own)
    token = _own_folder.set(own)
    try:
        with initialize_config_dir(str(ours), version_base="1.3"):
            return compose("config", overrides=list(overrides))
    finally:
        _own_folder.reset(token)


def check_folder(folder: Path) -> None:
    """A folder of config groups, which has nothing that takes the place of our main config."""
    expected = "a folder of config groups: model/mine.yaml, dataset/mine.yaml, ood/mine.yaml"
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}", expected=expected, hint="--config-dir conf")
    if (folder / "config.yaml").is_file():
        raise InputError(
            f"{folder / 'config.yaml'} would take the place of ours",
            expected=expected,
            hint="another name for it, which may have config among its defaults: --config-name NAME",
        )
