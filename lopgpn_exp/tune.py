"""`python -m lopgpn_exp.tune`: a search over config values, on the validation nodes, with a study that survives."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, Override, RangeSweep
from hydra.errors import HydraException

from lopgpn_exp.cli import composed
from lopgpn_exp.errors import InputError, mistakes_told
from lopgpn_exp.experiment.build import plan
from lopgpn_exp.experiment.own_code import with_code
from lopgpn_exp.experiment.seeds import stream

EXAMPLES = """values are fixed or searched, in Hydra's words:
  model.teleport=interval(0.05,0.5)                              any number between
  model.optimizer.learning_rate=tag(log,interval(1e-3,1e-1))     ... on a logarithmic scale
  model.flow_layers=range(4,13,2)                                whole numbers
  model.hidden_dim=choice(32,64,128)                             one of these

example:
  python -m lopgpn_exp.tune model=lop_gpn dataset=cora_ml 'model.teleport=interval(0.05,0.5)' --trials 20

The same command goes on where it was stopped; more --trials add to the study.
"""
DIRECTIONS = {"val/nll": "minimize", "val/accuracy": "maximize"}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lopgpn_exp.tune",
        description="Search config values on the validation nodes; test nodes are never looked at.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("overrides", nargs="+")
    parser.add_argument("--trials", type=int, default=20, help="of the whole study, earlier ones included")
    parser.add_argument("--splits", type=int, nargs="+", default=[0], help="splits to average over")
    parser.add_argument("--metric", choices=DIRECTIONS, default="val/nll")
    parser.add_argument("--study", default=None, help="name; by default made of what is fixed and searched")
    parser.add_argument("--output-dir", type=Path, default=Path("outputs"))
    parser.add_argument("--config-dir", type=Path, help="your own folder of configs: model/mine.yaml for model=mine")
    with mistakes_told():
        _search(parser.parse_intermixed_args(arguments))


def _search(options: argparse.Namespace) -> None:
    fixed, searched = _parsed(options.overrides)
    try:
        import optuna
    except ImportError:
        raise InputError(
            "optuna is not installed", expected="optuna 4", hint="pip install 'lopgpn_exp[tune]'"
        ) from None

    codes = _own_codes(fixed, searched, options)
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # of a failed trial it only says that it failed
    options.output_dir.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        storage=f"sqlite:///{options.output_dir / 'tune.db'}",
        study_name=options.study or " ".join([options.metric, *sorted(options.overrides), *codes]),
        direction=DIRECTIONS[options.metric],
        load_if_exists=True,
    )
    done = [trial for trial in study.trials if trial.state.is_finished()]
    # A sampler that starts anew with the same seed would propose the first trials again.
    study.sampler = optuna.samplers.TPESampler(seed=stream("tune", len(done)) % 2**32)

    failures: list[InputError] = []

    def objective(trial: Any) -> float:
        values = [f"{key}={_suggested(trial, key, value)}" for key, value in searched.items()]
        try:
            return sum(_value([*fixed, *values], split, options) for split in options.splits) / len(options.splits)
        except InputError as error:
            failures.append(error)
            sys.stderr.write(f"\ntrial {trial.number} ({' '.join(values)}) failed: {error}\n")
            raise

    left = max(0, options.trials - len(done))
    sys.stdout.write(f"study {study.study_name!r}: {len(done)} trials done, {left} to do\n")
    study.optimize(objective, n_trials=left, catch=(InputError,), show_progress_bar=sys.stderr.isatty())
    if len(failures) == left > 0 and not any(trial.value is not None for trial in study.trials):
        raise failures[-1]
    own = [] if options.config_dir is None else ["--config-dir", str(options.config_dir)]
    _show(study, [*own, *fixed], options.metric)


def _parsed(overrides: list[str]) -> tuple[list[str], dict[str, Any]]:
    """Overrides that are fixed, and the searched ones by key."""
    try:
        parsed: list[Override] = OverridesParser.create().parse_overrides(overrides)
    except HydraException as error:
        raise InputError(str(error).partition("\n")[0], expected="overrides: name.of.value=new, or a search") from None
    searched = {o.get_key_element(): o.value() for o in parsed if o.is_sweep_override()}
    if not searched:
        raise InputError(
            "nothing is searched", expected="at least one range of values", hint="'model.teleport=interval(0.05,0.5)'"
        )
    return [o.input_line for o in parsed if not o.is_sweep_override()], searched


def _suggested(trial: Any, key: str, sweep: Any) -> Any:
    if isinstance(sweep, ChoiceSweep):
        return trial.suggest_categorical(key, list(sweep.list))
    if isinstance(sweep, RangeSweep):
        return trial.suggest_categorical(key, [int(x) if float(x).is_integer() else x for x in sweep.range()])
    assert isinstance(sweep, IntervalSweep)
    log = "log" in sweep.tags
    if isinstance(sweep.start, int) and isinstance(sweep.end, int):
        return trial.suggest_int(key, sweep.start, sweep.end, log=log)
    return trial.suggest_float(key, float(sweep.start), float(sweep.end), log=log)


def _value(overrides: list[str], split: int, options: argparse.Namespace) -> float:
    """The metric of one run; a run that was done before costs nothing."""
    from lopgpn_exp.experiment.runner import run  # torch: --help does without

    ours = [f"split.index={split}", "ood=none", "trainer.progress=false", f"output_dir={options.output_dir}"]
    config = composed([*overrides, *ours], own=options.config_dir)
    return run(plan(config)).result["metrics"][options.metric]


def _own_codes(fixed: list[str], searched: dict[str, Any], options: argparse.Namespace) -> list[str]:
    """Hashes of the code of a user's own models: trials of other code belong to another study."""
    models = [[f"model={name}"] for name in searched["model"].list] if "model" in searched else [[]]
    nodes = [with_code(composed([*fixed, *model], own=options.config_dir).model, "model") for model in models]
    return [f"code {node['code_hash']}" for node in nodes if "code_hash" in node]


def _show(study: Any, fixed: list[str], metric: str) -> None:
    finished = [trial for trial in study.trials if trial.value is not None]
    if not finished:
        raise InputError("no trial finished", expected="at least one", hint="other values, or --trials with more")
    ranked = sorted(finished, key=lambda trial: trial.value, reverse=DIRECTIONS[metric] == "maximize")
    for trial in ranked[:5]:
        values = " ".join(f"{key}={value}" for key, value in trial.params.items())
        sys.stdout.write(f"{metric} {trial.value:.4f}  {values}\n")
    best = [*fixed, *(f"{key}={value}" for key, value in study.best_params.items())]
    sys.stdout.write(f"\nrun the best: python -m lopgpn_exp {shlex.join(best)}\n")


if __name__ == "__main__":
    main()
