"""Compose a config with Hydra, and turn the errors of Hydra and OmegaConf into messages with the nearest valid name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, cast

from hydra import compose, initialize_config_dir
from hydra._internal.core_plugins import file_config_source
from hydra._internal.sources_registry import SourcesRegistry
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.errors import HydraException, MissingConfigException
from hydra.plugins.config_source import ConfigResult
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from lopgpn_exp.config import default_config_dir
from lopgpn_exp.config.safe_yaml import parse_yaml
from lopgpn_exp.config.schema import PATH_KEYS, RunConfig
from lopgpn_exp.errors import InputError, nearest

ENTRY_POINT_GROUP = "lopgpn_exp.conf"  # of packages with configs: any name = the import path of their folder
TYPE_NAMES = {"Integer": "a whole number", "Float": "a number", "bool": "true or false"}  # by OmegaConf's names
_user_dir: ContextVar[Path | None] = ContextVar("user_dir", default=None)


class UserConfigs(SearchPathPlugin):
    """Puts the user's config folder first, as `--config-dir` does, and the folders of installed packages last."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        if (folder := _user_dir.get()) is not None:
            search_path.prepend(provider="user", path=f"file://{folder.resolve()}")
        for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: (point.name, point.value)):
            search_path.append(provider=point.name, path=f"pkg://{point.value}")


class FileConfigSource(file_config_source.FileConfigSource):
    """Checks a config file that is not ours before Hydra reads it. The name is the one that Hydra has registered."""

    def load_config(self, config_path: str) -> ConfigResult:
        path = Path(self.path) / self._normalize_file_name(config_path)
        if not path.resolve().is_relative_to(default_config_dir()):
            try:
                parse_yaml(path.read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                raise InputError(f"{path} cannot be read ({error})", expected="a config file in YAML") from None
        return super().load_config(config_path)


def register() -> None:
    """Tell Hydra about the schema and the user's configs, before it composes anything."""
    ConfigStore.instance().store(name="schema", node=RunConfig)
    Plugins.instance().register(UserConfigs)
    SourcesRegistry.instance().types[FileConfigSource.scheme()] = FileConfigSource


def compose_config(
    overrides: Sequence[str], *, config_dir: Path | None = None, values: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the config of some overrides as plain values, as the command line would compose it.

    Args:
        overrides: in Hydra's syntax, such as `model=lop_gpn`.
        config_dir: the user's folder of config groups, as `--config-dir`.
        values: Python values by their dotted keys; they need no override syntax and no quoting.
    """
    config = compose_nodes(overrides, config_dir=config_dir)
    with translate_errors():
        for key, value in (values or {}).items():
            OmegaConf.update(config, key, value, merge=False)
    return resolve(config)


def compose_nodes(overrides: Sequence[str], *, config_dir: Path | None = None) -> DictConfig:
    """Return the config of some overrides with its interpolations unresolved, so that nodes can be exchanged."""
    register()
    if config_dir is not None:
        check_config_dir(config_dir)
    token = _user_dir.set(config_dir)
    GlobalHydra.instance().clear()
    try:
        with translate_errors(), initialize_config_dir(str(default_config_dir()), version_base="1.3"):
            return compose("config", overrides=list(overrides))
    finally:
        _user_dir.reset(token)


def resolve(config: Any) -> dict[str, Any]:
    """Return a config as plain values, after checking its keys and types against the schema.

    Args:
        config: as composed by Hydra, or as read from the `config.yaml` of a run. The latter must not refer to anything:
            resolving `${oc.env:NAME}` would show the environment of this process to whoever wrote the file.
    """
    try:
        if isinstance(config, DictConfig):
            config = OmegaConf.to_container(config, resolve=True)
        elif not isinstance(config, Mapping):
            raise InputError(f"the config is a {type(config).__name__}", expected="a mapping of groups and values")
        elif "${" in repr(config):
            raise InputError("the config contains ${...}", expected="values only")
        with translate_errors():
            checked = OmegaConf.merge(OmegaConf.structured(RunConfig), config)
            for key in PATH_KEYS:
                if isinstance(path := OmegaConf.select(checked, key), str):
                    OmegaConf.update(checked, key, os.path.expanduser(path))
        return cast(dict[str, Any], OmegaConf.to_container(checked, throw_on_missing=True))
    except OmegaConfBaseException as error:
        raise InputError(str(error).partition("\n")[0], expected="a complete config: see --cfg job") from None


def check_config_dir(folder: Path) -> None:
    """Check that a user's config folder exists and does not replace our main config."""
    expected = "a folder of config groups: model/mine.yaml, dataset/mine.yaml, ood/mine.yaml"
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}", expected=expected, hint="--config-dir conf")
    if (folder / "config.yaml").is_file():
        raise InputError(
            f"{folder / 'config.yaml'} would replace the main config of lopgpn_exp",
            expected=expected,
            hint="give it another name, list config among its defaults, and pass --config-name NAME",
        )


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise errors of Hydra and OmegaConf as InputError."""
    try:
        yield
    except (HydraException, OmegaConfBaseException) as error:
        raise translate_error(error) from None


def translate_error(error: Exception) -> InputError:
    """Return an error of Hydra or OmegaConf in our form, with the nearest valid name."""
    for candidate in (error, error.__cause__):
        if isinstance(candidate, InputError):
            return candidate
    cause = error.__cause__ if isinstance(error.__cause__, OmegaConfBaseException) else error
    if isinstance(error, MissingConfigException) and error.options:
        group, _, choice = str(error.missing_cfg_file).rpartition("/")
        close = nearest(choice, error.options)
        return InputError(
            f"there is no {group}={choice}",
            expected="one of " + ", ".join(error.options),
            hint=f"{group}={close}" if close else "lopgpn_exp --help",
        )
    if isinstance(cause, OmegaConfBaseException) and cause.full_key:
        return _translate_key_error(cause)
    first_line, _, details = str(error).strip().partition("\n")
    if first_line.endswith("raised while composing config:"):  # a file that does not fit the schema
        reason = details.partition("\n")[0]
        return InputError(
            f"{first_line.partition(':')[0]}: {reason}",
            expected="a file like those in conf; a protocol begins with # @package _global_",
        )
    if first_line.startswith("Ambiguous value"):  # several values, but no sweep
        expected = "one value; several are a sweep: add -m. A value with a comma in quotes: \"key='a,b'\""
        return InputError(first_line, expected=expected)
    return InputError(first_line, expected="overrides of the form group=option or group.key=value")


def _translate_key_error(cause: OmegaConfBaseException) -> InputError:
    parent, _, key = str(cause.full_key).rpartition(".")
    prefix = f"{parent}." if parent else ""
    siblings = [str(name) for name in cause.parent_node] if isinstance(cause.parent_node, DictConfig) else []
    if siblings and key not in siblings:
        valid_keys = [f"{prefix}{name}" for name in siblings if name not in ("_target_", "hydra")]
        close = nearest(key, siblings)
        return InputError(
            f"there is no {cause.full_key}",
            expected="one of " + ", ".join(valid_keys),
            hint=f"{prefix}{close}=..." if close else "",
        )
    message = str(cause).partition("\n")[0]
    expected = next((name for word, name in TYPE_NAMES.items() if word in message), "a value of the type --help shows")
    value = re.search(r"Value '([^']*)'", message)
    return InputError(f"{cause.full_key} is {value[1]!r}" if value else message, expected=expected)
