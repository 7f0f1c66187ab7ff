"""What is asked of a model, from its class or from its config."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lopgpn_exp.cli import composed
from lopgpn_exp.errors import InputError
from lopgpn_exp.experiment.build import check_model_class, plan
from lopgpn_exp.experiment.schema import call_options, located
from lopgpn_exp.testing.examine import examined
from lopgpn_exp.testing.report import Report
from lopgpn_exp.testing.trial import Terms, Trial


def check_model(model: type | str, /, *, terms: Terms | None = None, **options: Any) -> Report:
    """Raise `BrokenPromiseError` unless a model keeps all its promises.

    Args:
        model: a class, or its import path.
        terms: what is asked of it, where models differ.
        options: its keyword arguments, without `num_features` and `num_classes`.
    """
    return _kept(examine_model(model, terms=terms, **options))


def check_config(
    name: str, /, *overrides: str, config_dir: Path | str | None = None, terms: Terms | None = None
) -> Report:
    """As `check_model`, for the model of a config, with its options and optimiser.

    Args:
        name: as in `model=name`.
        overrides: as on the command line.
        config_dir: your own folder of configs.
    """
    return _kept(examine_config(name, *overrides, config_dir=config_dir, terms=terms))


def examine_model(model: type | str, /, *, terms: Terms | None = None, **options: Any) -> Report:
    """As `check_model`, without raising: what became of every promise."""
    return examined(trial_of_model(model, options, terms))


def examine_config(
    name: str, /, *overrides: str, config_dir: Path | str | None = None, terms: Terms | None = None
) -> Report:
    """As `check_config`, without raising: what became of every promise."""
    return examined(trial_of_config(name, overrides, config_dir, terms))


def trial_of_model(model: type | str, options: dict[str, Any], terms: Terms | None = None) -> Trial:
    path = model if isinstance(model, str) else f"{model.__module__}.{model.__qualname__}"
    if "<locals>" in path:
        raise InputError(
            f"{path} cannot be imported by its name",
            expected="a class at the top of a module, where configs and checkpoints find it",
        )
    check_model_class(located(path, "model"), path)
    _, checked = call_options({"_target_": path, **options}, path="model", given=("num_features", "num_classes"))
    return Trial(path, checked, optimizer={}, terms=terms or Terms())


def trial_of_config(
    name: str, overrides: tuple[str, ...] = (), config_dir: Path | str | None = None, terms: Terms | None = None
) -> Trial:
    own = None if config_dir is None else Path(config_dir)
    planned = plan(composed([f"model={name}", *overrides], own=own))
    if planned.model != name:
        raise InputError(
            f"model={name} has the name {planned.model}",
            expected="one word for the file, the name in it and the tag of its runs",
            hint=f"name: {name}",
        )
    return Trial(planned.model_class, planned.model_options, optimizer=planned.optimizer, terms=terms or Terms())


def _kept(report: Report) -> Report:
    report.raise_if_broken()
    return report
