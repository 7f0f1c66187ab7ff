"""`lopgpn_exp tune`: search config values on the validation nodes, in a study that can be continued."""

from __future__ import annotations

import argparse
import math
import sys
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, Override, RangeSweep
from hydra.errors import HydraException

from lopgpn_exp.commands.dispatch import CommandResult
from lopgpn_exp.commands.overrides import quote_overrides
from lopgpn_exp.config.code_hash import add_code_hash
from lopgpn_exp.config.compose import compose_config
from lopgpn_exp.config.credentials import hide_in_text
from lopgpn_exp.config.plan import plan_run
from lopgpn_exp.errors import InputError, printable
from lopgpn_exp.runs.storage import create_output_dir
from lopgpn_exp.seeds import derive_seed

DESCRIPTION = "Search config values on the validation nodes; test nodes are never looked at."
EXAMPLES = """values are fixed or searched, in Hydra's syntax:
  model.teleport=interval(0.05,0.5)                              any number between
  model.optimizer.learning_rate=tag(log,interval(1e-3,1e-1))     ... on a logarithmic scale
  model.flow_layers=range(4,13,2)                                whole numbers
  model.hidden_dim=choice(32,64,128)                             one of these

example:
  lopgpn_exp tune model=lop_gpn dataset=cora_ml 'model.teleport=interval(0.05,0.5)' --trials 20

The same command continues where it was stopped; a larger --trials adds to the study.
"""
DIRECTIONS: dict[str, Literal["minimize", "maximize"]] = {"val/nll": "minimize", "val/accuracy": "maximize"}
TRIALS_SHOWN = 5
MAX_CHOICES = 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("overrides", nargs="+", metavar="KEY=VALUE", help="fixed values and search ranges")
    parser.add_argument("--trials", type=int, default=20, help="number of trials, including earlier ones (%(default)s)")
    parser.add_argument("--splits", type=int, nargs="+", default=[0], help="splits to average over (default: 0)")
    parser.add_argument("--metric", choices=DIRECTIONS, default="val/nll", help="metric to optimise (%(default)s)")
    parser.add_argument("--study", help="name of the study; by default derived from the fixed and searched values")
    parser.add_argument("--config-dir", type=Path, help="your own folder of configs: model/mine.yaml for model=mine")


def execute(options: argparse.Namespace) -> CommandResult:
    fixed, searched = _parse(options.overrides)
    try:
        import optuna
    except ImportError:
        raise InputError(
            "optuna is not installed", expected="optuna 4", hint="pip install 'lopgpn_exp[tune]'"
        ) from None

    code_hashes = _hash_models(fixed, searched, options)
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # its message on a failed trial does not say why
    create_output_dir(options.output_dir)
    study = optuna.create_study(
        storage=f"sqlite:///{options.output_dir / 'tune.db'}",
        study_name=options.study or hide_in_text(" ".join([options.metric, *sorted(options.overrides), *code_hashes])),
        direction=DIRECTIONS[options.metric],
        load_if_exists=True,
    )
    num_done = sum(trial.state.is_finished() for trial in study.trials)
    # A sampler that starts again with the same seed would propose the first trials again.
    study.sampler = optuna.samplers.TPESampler(seed=derive_seed("tune", num_done) % 2**32)
    num_left = max(0, options.trials - num_done)
    sys.stdout.write(f"study {study.study_name!r}: {num_done} trials done, {num_left} to do\n")
    _optimise(study, fixed, searched, options, num_left)
    _print_best(study, options.metric)
    config_dir = [] if options.config_dir is None else ["--config-dir", str(options.config_dir)]
    best = [f"{key}={value}" for key, value in study.best_params.items()]
    return CommandResult(next_commands=[["run", *config_dir, *fixed, *best]])


def _optimise(
    study: Any, fixed: list[str], searched: dict[str, Any], options: argparse.Namespace, num_trials: int
) -> None:
    failures: list[InputError] = []

    def objective(trial: Any) -> float:
        values = [f"{key}={_suggest(trial, key, sweep)}" for key, sweep in searched.items()]
        try:
            metrics = [_evaluate([*fixed, *values], split, options) for split in options.splits]
        except InputError as error:
            failures.append(error)
            message = f"trial {trial.number} ({' '.join(values)}) failed: {error}"
            sys.stderr.write(f"\n{printable(message)}\n")
            raise
        return sum(metrics) / len(metrics)

    study.optimize(objective, n_trials=num_trials, catch=(InputError,), show_progress_bar=sys.stderr.isatty())
    if not any(trial.value is not None for trial in study.trials):
        if failures:
            raise failures[-1]
        raise InputError("no trial has finished", expected="at least one", hint="other values, or a larger --trials")


def _parse(overrides: list[str]) -> tuple[list[str], dict[str, Any]]:
    """Return the fixed overrides, and the searched ones by key."""
    try:
        parsed: list[Override] = OverridesParser.create().parse_overrides(quote_overrides(overrides, is_sweep=True))
    except HydraException as error:
        raise InputError(
            str(error).partition("\n")[0], expected="overrides of the form key=value, or key=range to search"
        ) from None
    searched = {o.get_key_element(): o.value() for o in parsed if o.is_sweep_override()}
    if not searched:
        raise InputError(
            "there is nothing to search", expected="at least one range", hint="'model.teleport=interval(0.05,0.5)'"
        )
    for key, sweep in searched.items():
        _check_search(key, sweep)
    return [str(o.input_line) for o in parsed if not o.is_sweep_override()], searched


def _check_search(key: str, sweep: Any) -> None:
    if isinstance(sweep, IntervalSweep):
        low, high = float(sweep.start or 0), float(sweep.end or 0)
        if not low <= high or not math.isfinite(high - low) or ("log" in sweep.tags and low <= 0):
            expected = "the smaller end first, and both finite; above 0 on a logarithmic scale"
            raise InputError(f"{key} is searched from {low:g} to {high:g}", expected=expected)
    elif isinstance(sweep, RangeSweep):
        try:
            num_values = sum(1 for _ in islice(sweep.range(), MAX_CHOICES + 1))
        except (HydraException, ValueError, ArithmeticError):  # NaN, or a step of 0
            expected = "range(start, stop, step) with finite numbers and a step other than 0"
            raise InputError(f"{key} is not a valid range", expected=expected) from None
        if not 1 <= num_values <= MAX_CHOICES:
            shown = "no value" if num_values == 0 else f"more than {MAX_CHOICES:,} values"
            raise InputError(f"{key} has {shown}", expected=f"1 to {MAX_CHOICES:,}, or an interval")
    elif not isinstance(sweep, ChoiceSweep):
        raise InputError(f"{key} cannot be searched", expected="choice(...), range(...) or interval(...)")


def _suggest(trial: Any, key: str, sweep: Any) -> Any:
    if isinstance(sweep, ChoiceSweep):
        return trial.suggest_categorical(key, list(sweep.list))
    if isinstance(sweep, RangeSweep):
        return trial.suggest_categorical(key, [int(x) if float(x).is_integer() else x for x in sweep.range()])
    is_int = isinstance(sweep.start, int) and isinstance(sweep.end, int)
    suggest = trial.suggest_int if is_int else trial.suggest_float
    return suggest(key, sweep.start, sweep.end, log="log" in sweep.tags)


def _evaluate(overrides: list[str], split: int, options: argparse.Namespace) -> float:
    """Return the metric of one run; a run that is finished already costs nothing."""
    from lopgpn_exp.runs.execute import run  # deferred import: --help works without torch

    settings = [f"split.index={split}", "ood=none", "trainer.progress=false"]
    values = {"output_dir": str(options.output_dir)}
    config = compose_config([*overrides, *settings], config_dir=options.config_dir, values=values)
    return run(plan_run(config)).result.metrics[options.metric]


def _hash_models(fixed: list[str], searched: dict[str, Any], options: argparse.Namespace) -> list[str]:
    """Return the code hashes of a user's own models: trials with other code belong to another study."""
    models = [[f"model={name}"] for name in searched["model"].list] if "model" in searched else [[]]
    configs = [compose_config([*fixed, *model], config_dir=options.config_dir) for model in models]
    nodes = [add_code_hash(config["model"], "model") for config in configs]
    return [f"code {node['code_hash']}" for node in nodes if "code_hash" in node]


def _print_best(study: Any, metric: str) -> None:
    finished = [trial for trial in study.trials if trial.value is not None]
    ranked = sorted(finished, key=lambda trial: trial.value, reverse=DIRECTIONS[metric] == "maximize")
    for trial in ranked[:TRIALS_SHOWN]:
        values = " ".join(f"{key}={value}" for key, value in trial.params.items())
        sys.stdout.write(f"{metric} {trial.value:.4f}  {printable(values)}\n")
