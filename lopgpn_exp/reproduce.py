"""`python -m lopgpn_exp.reproduce`: run what is missing of the paper's experiments, then write the report."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lopgpn_exp import NUMERICS_VERSION
from lopgpn_exp.errors import InputError, mistakes_told
from lopgpn_exp.experiment.knobs import Knobs, knobs
from lopgpn_exp.report.names import DATASET_NAMES

if TYPE_CHECKING:
    from lopgpn_exp.report.store import Runs

EXAMPLES = """examples:
  make reproduce-tables     6 models x the datasets that can be had x 10 splits x 4 scenarios
  make reproduce-tables SPLITS=2 DATASETS=cora_ml MODELS=lop_gpn,gpn_rw JOBS=2
  make reproduce-tables INITS=3 ARGS=--extend   add what outputs/reproduction/runs.parquet does not hold yet
  make report               the report alone, from the results that are there
  make report ARGS="--add elsewhere/runs.parquet"   and from those of another machine

The same command goes on where it was stopped.
"""
FAILED = 1


def main(arguments: list[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    try:
        with mistakes_told():
            failed = _report(options) if options.report else _reproduce(options)
    except KeyboardInterrupt:
        sys.stderr.write("\nInterrupted. Finished runs are kept; the same command goes on from there.\n")
        sys.exit(128 + signal.SIGINT)
    if failed:
        sys.exit(FAILED)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m lopgpn_exp.reproduce",
        description="Every number of the paper: ours, beside theirs.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--splits", default="10", help="splits of each dataset, 1 to 10")
    made.add_argument("--inits", default="1", help="initialisations of each split")
    made.add_argument("--datasets", default="all", help="names, separated by commas")
    made.add_argument("--models", default="all", help="names, separated by commas")
    made.add_argument("--jobs", default="all", help="runs at once")
    made.add_argument(
        "--also", action="append", default=[], metavar="OVERRIDES", help="report these runs as another reading"
    )
    made.add_argument("--report", action="store_true", help="run nothing: the report from stored results")
    made.add_argument(
        "--extend", action="store_true", help="runs that runs.parquet holds count as done, and stay in it"
    )
    made.add_argument(
        "--add", action="append", default=[], type=Path, metavar="FILE", help="with --report: another runs.parquet too"
    )
    made.add_argument("--dry-run", action="store_true", help="stop after the plan")
    made.add_argument("--readme", type=Path, metavar="FILE", help="also bring this README's generated parts up to date")
    made.add_argument("--output-dir", type=Path, default=Path("outputs"))
    return made


def _reproduce(options: argparse.Namespace) -> bool:
    """Run what is missing, then report on exactly these runs; whether any failed."""
    asked = knobs(options)
    if options.add:
        raise InputError("--add does not run anything", expected="it beside --report", hint="--report --add FILE")
    from joblib import cpu_count

    from lopgpn_exp.cli import config_dir  # Hydra, torch and pandas: a mistake in a knob is told without them
    from lopgpn_exp.experiment.conduct import conduct
    from lopgpn_exp.experiment.launchers import JoblibLauncher
    from lopgpn_exp.experiment.reproduction import configs, identified, without

    stored = _stored(options) if options.extend else None  # first: reading the datasets takes longer
    output = [f"output_dir={options.output_dir}"] + (["dry_run=true"] if options.dry_run else [])
    available, left_out = _available(asked.datasets, output)
    if not available:
        raise InputError(
            "none of the datasets can be had",
            expected="their files in the data root, or a connection to download them",
            hint="LOPGPN_DATA=FOLDER make reproduce-tables",
        )
    runs = configs(
        config_dir(), models=asked.models, datasets=available, splits=asked.splits, inits=asked.inits, settings=output
    )
    whole = len(runs)
    if stored is not None:
        runs = without(runs, set(stored.results["run_id"]))
        _say(f"{_runs_file(options)} holds {len(stored.results)} runs, which are not run again.")
    start = time.perf_counter()
    attempts = conduct(runs, JoblibLauncher(asked.jobs).attempts, runs[0]) if runs else []
    if options.dry_run:
        return False
    finished = sum(attempt.error is None for attempt in attempts)
    stretch = {"seconds": round(time.perf_counter() - start), "runs": finished, "of": whole}
    stretch |= {"jobs": options.jobs, "cores": cpu_count()}
    run_ids = [job.run_id for job in identified(runs)]
    _store(options, run_ids, asked, left_out, stored, [stretch] if attempts else [])
    _write(options)
    return any(attempt.error is not None for attempt in attempts)


def _report(options: argparse.Namespace) -> bool:
    """Report on all runs that are stored or finished."""
    asked = knobs(options)
    for file in options.add:
        _of_these_numerics(file)  # before anything is written
    stored, found = _stored(options), _finished(options, asked)
    if stored is None and not found and not options.add:
        raise InputError(
            f"no finished runs of the reproduction in {options.output_dir / 'runs'}, and no {_runs_file(options)}",
            expected="at least one run of the default config on a dataset of the paper",
            hint="make reproduce-tables",
        )
    if stored is not None:
        new = len(set(found) - set(stored.results["run_id"]))
        _say(f"{_runs_file(options)} holds {len(stored.results)} runs; {options.output_dir / 'runs'} adds {new}.")
    if stored is not None or found:
        _store(options, found, asked, {}, stored)
    for file in options.add:
        _add(options, file)
    _write(options)
    return False


def _stored(options: argparse.Namespace) -> Runs | None:
    """The runs of `runs.parquet`, if there is one."""
    path = _runs_file(options)
    return _of_these_numerics(path) if path.is_file() else None


def _of_these_numerics(path: Path) -> Runs:
    from lopgpn_exp.report.store import load_runs

    stored = load_runs(path)
    if stored.notes["numerics"] != NUMERICS_VERSION:
        raise InputError(
            f"{path} is of numerics version {stored.notes['numerics']}",
            expected=f"version {NUMERICS_VERSION}: numbers have moved since",
            hint="make reproduce-tables",
        )
    return stored


def _add(options: argparse.Namespace, file: Path) -> None:
    """Take over the runs of another reproduction."""
    from lopgpn_exp.report.store import add_runs

    repeat = add_runs(_runs_file(options), file)
    twice = f"{repeat['runs']} of them made twice, {repeat['same']} with the same metrics to the bit"
    _say(f"{file} holds {len(_of_these_numerics(file).results)} runs, {twice}.")


def _finished(options: argparse.Namespace, asked: Knobs, variant: str = "") -> list[str]:
    """Ids of the finished runs among those asked for, found by identity: another config is another id."""
    from lopgpn_exp.cli import config_dir
    from lopgpn_exp.experiment.reproduction import configs, identified, kinds_with_runs

    present = kinds_with_runs(options.output_dir)
    datasets = [name for name in asked.datasets if any(kind[1] == name for kind in present)]
    available, _ = _available(datasets, [f"output_dir={options.output_dir}"])  # an identity holds the data's content
    if not available:
        return []
    runs = configs(
        config_dir(),
        models=asked.models,
        datasets=available,
        splits=asked.splits,
        inits=max((kind[3] for kind in present), default=0) + 1,
        settings=[f"output_dir={options.output_dir}"],
        variant=variant.split(),
        only=present,
    )
    return [job.run_id for job in identified(runs) if job.done]


def _available(datasets: Sequence[str], output: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Datasets that can be read or downloaded, and of the others what the report says of them."""
    from lopgpn_exp.cli import config_dir
    from lopgpn_exp.experiment.build import plan
    from lopgpn_exp.experiment.reproduction import configs

    available, left_out = [], {}
    for name in datasets:
        (config, *_) = configs(config_dir(), models=["gkde"], datasets=[name], splits=1, inits=1, settings=output)
        try:
            plan(config).read()
        except InputError as error:
            _say(f"{DATASET_NAMES[name]} is left out: {error.what}")
            left_out[name] = "its data was not there and could not be downloaded where these runs were made"
        else:
            available.append(name)
    return available, left_out


def _store(
    options: argparse.Namespace,
    run_ids: Sequence[str],
    asked: Knobs,
    left_out: dict[str, str],
    stored: Runs | None,
    stretches: Sequence[dict[str, Any]] = (),
) -> None:
    """`runs.parquet`: these runs, those of other readings that are finished, the tests of scale, and what is stored."""
    from lopgpn_exp.cli import config_dir
    from lopgpn_exp.experiment.collect import read_results
    from lopgpn_exp.experiment.reproduction import scale_runs
    from lopgpn_exp.report.store import save_runs

    held = _stored(options) if stored is not None else None  # as it is now: the runs may have taken hours
    old = held.notes if held else {}
    also = tuple(dict.fromkeys([*old.get("variants", ()), *asked.also]))
    variants = {}
    for words in also:
        with nullcontext() if words in asked.also else suppress(InputError):  # stored readings may be of other models
            finished = _finished(options, asked, words)
            _say(f"{len(finished)} finished runs with {words}")
            variants |= dict.fromkeys(finished, words)
    variants |= dict.fromkeys(run_ids, "")
    variants |= scale_runs(config_dir(), options.output_dir)
    results = read_results(options.output_dir, run_ids=variants)
    if stored is None and not any(variants[result["run_id"]] == "" for result in results):
        raise InputError(
            "no run of the reproduction has finished", expected="at least one", hint="see the messages above"
        )
    notes = old | {
        "numerics": NUMERICS_VERSION,
        "left_out": {**old.get("left_out", {}), **left_out},
        "variants": list(also),
        "stretches": [*old.get("stretches", ()), *stretches],
    }
    if held is None:
        _set_aside(_runs_file(options), set(variants))
    save_runs(_runs_file(options), results, variants=variants, notes=notes, extend=held is not None)


def _set_aside(file: Path, run_ids: set[str]) -> None:
    """Keep an earlier file of other runs, which this one does not go on from."""
    from lopgpn_exp.report.store import load_runs

    try:
        others = len(set(load_runs(file).results["run_id"]) - run_ids)
    except InputError:  # none, or damaged
        return
    if others:
        previous = file.with_name(f"{file.stem}.previous.parquet")
        file.replace(previous)
        _say(f"{others} other runs of {file} are kept in {previous}; ARGS=--extend goes on from them.")


def _runs_file(options: argparse.Namespace) -> Path:
    from lopgpn_exp.report.reproduction import RUNS

    return options.output_dir / "reproduction" / RUNS


def _write(options: argparse.Namespace) -> None:
    from lopgpn_exp.report.outcome import show_reproduction
    from lopgpn_exp.report.readme import update_readme
    from lopgpn_exp.report.reproduction import write_reproduction

    done = write_reproduction(options.output_dir / "reproduction")
    if options.readme is not None:
        update_readme(options.readme, done)
    show_reproduction(done)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
