"""Reproduce the paper's experiments: run what is missing, and collect the finished runs in `runs.parquet`."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from joblib import cpu_count

from lopgpn_exp import NUMERICS_VERSION
from lopgpn_exp.config.compose import compose_config
from lopgpn_exp.config.plan import plan_run
from lopgpn_exp.errors import InputError
from lopgpn_exp.paper import ReproductionOptions
from lopgpn_exp.paper.recipe_runs import run_recipes
from lopgpn_exp.paper.recipes import load_recipes
from lopgpn_exp.paper.reproduction_notes import Notes, Session
from lopgpn_exp.paper.run_selection import (
    compose_runs,
    find_available_datasets,
    find_finished_runs,
    find_run_keys,
    find_scale_runs,
    identify_runs,
)
from lopgpn_exp.paper.runs_file import StoredRuns, load_runs, merge_runs, save_runs
from lopgpn_exp.records import Attempt, Job, RunResult
from lopgpn_exp.report.names import DATASET_NAMES, MODEL_NAMES
from lopgpn_exp.runs.execute import locate_run
from lopgpn_exp.runs.table import read_results
from lopgpn_exp.sweeps.executors import execute_in_parallel
from lopgpn_exp.sweeps.run_sweep import run_sweep


def run_missing(options: ReproductionOptions) -> list[Attempt]:
    """Execute the runs that are missing, and store exactly the runs that the options ask for."""
    stored = _load_stored(options) if options.extend else None  # first: reading the datasets takes longer
    available = find_available(options.datasets)
    left_out = dict.fromkeys(
        sorted(set(options.datasets) - set(available)), "its data was not available and could not be downloaded"
    )
    if not available:
        raise InputError(
            "none of the datasets is available",
            expected="their files in the data root, or a connection to download them",
            hint="LOPGPN_DATA=FOLDER lopgpn_exp reproduce",
        )
    options = replace(options, datasets=available)
    jobs = _plan_jobs(options)
    planned = len(jobs)
    left_out |= _report_missing_models(options, jobs)
    if stored is not None:
        stored_ids = set(stored.results["run_id"])
        jobs = [job for job in jobs if job.run_id not in stored_ids]
        _print(f"{options.runs_file} contains {stored.num_runs} runs, which are not run again.")
    start = time.perf_counter()
    execute = partial(execute_in_parallel, num_workers=options.num_workers)
    attempts = run_sweep([job.config for job in jobs], execute) if jobs else []
    if options.dry_run:
        return []
    recipes = run_recipes(options, stored=stored) if options.split_name == "published" else {}
    session = Session(
        seconds=round(time.perf_counter() - start),
        runs=sum(not attempt.has_failed for attempt in attempts),
        jobs="all" if options.num_workers == -1 else str(options.num_workers),
        planned=planned,
        cores=cpu_count(),
    )
    _store(
        options,
        [job.run_id for job in jobs],
        recipes=recipes,
        extend=stored is not None,
        left_out=left_out,
        sessions=[session] if attempts else [],
    )
    return attempts


def collect_finished(options: ReproductionOptions, added_files: Sequence[Path] = ()) -> None:
    """Store all finished runs, in addition to those that are stored already and those of other files."""
    for file in added_files:
        _load_current(file, options.split_name)  # before anything is written
    stored, runs_folder = _load_stored(options), options.output_dir / "runs"
    datasets = {key[1] for key in find_run_keys(options.output_dir)} & set(options.datasets)
    options = replace(options, datasets=find_available(sorted(datasets)))
    run_ids = find_finished_runs(options)
    recipes = _run_recipes_of_finished(options, stored)
    if stored is None and not run_ids and not added_files:
        raise InputError(
            f"there are no finished runs of the reproduction in {runs_folder}, and no {options.runs_file}",
            expected="at least one run of the default config on a dataset of the paper",
            hint="lopgpn_exp reproduce",
        )
    if stored is not None:
        new = len(set(run_ids) - set(stored.results["run_id"]))
        _print(f"{options.runs_file} contains {stored.num_runs} runs; {runs_folder} adds {new}.")
    if stored is not None or run_ids:
        _store(options, run_ids, recipes=recipes, extend=stored is not None)
    for file in added_files:
        repeat = merge_runs(options.runs_file, file)
        _print(
            f"{file} contains {load_runs(file).num_runs} runs; {repeat.runs} of them were executed twice, "
            f"{repeat.same} of these with identical metrics."
        )


def _run_recipes_of_finished(options: ReproductionOptions, stored: StoredRuns | None) -> dict[str, list[RunResult]]:
    """Evaluate all finished runs by their recipes, however many initialisations they have."""
    inits = 1 + max((key[3] for key in find_run_keys(options.output_dir)), default=-1)
    if options.split_name != "published" or inits == 0:
        return {}
    trained = tuple(recipe for recipe in load_recipes() if recipe.network == "trained")
    return run_recipes(replace(options, inits=inits), stored=stored, recipes=trained)


def _plan_jobs(options: ReproductionOptions) -> list[Job]:
    settings = [f"output_dir={options.output_dir}"] + (["dry_run=true"] if options.dry_run else [])
    configs = compose_runs(
        models=options.models,
        datasets=options.datasets,
        splits=options.splits,
        inits=options.inits,
        split_name=options.split_name,
        settings=settings,
    )
    return identify_runs(configs)


def _report_missing_models(options: ReproductionOptions, jobs: Sequence[Job]) -> dict[str, str]:
    """Report the models that cannot run on a dataset, such as one without features; return the reasons by dataset."""
    reasons = {}
    for dataset in options.datasets:
        present = {job.model for job in jobs if job.dataset == dataset}
        if missing := [model for model in options.models if model not in present]:
            names = ", ".join(MODEL_NAMES[model] for model in missing)
            reasons[dataset] = f"no runs of {names} ({_find_error(missing[0], dataset)})"
            _print(f"{DATASET_NAMES[dataset]}: {reasons[dataset]}")
    return reasons


def _find_error(model: str, dataset: str) -> str:
    try:
        locate_run(plan_run(compose_config([f"model={model}", f"dataset={dataset}"])))
    except InputError as error:
        return error.what
    return "unknown reason"


def find_available(datasets: Sequence[str]) -> tuple[str, ...]:
    """Return the datasets that can be read or downloaded, and report the others."""
    available, errors = find_available_datasets(datasets)
    for name, error in errors.items():
        _print(f"{DATASET_NAMES[name]} is left out: {error.what}")
    return tuple(available)


def _load_stored(options: ReproductionOptions) -> StoredRuns | None:
    return _load_current(options.runs_file, options.split_name) if options.runs_file.is_file() else None


def _load_current(path: Path, split_name: str) -> StoredRuns:
    """Load a file of runs, and check that their numbers can be compared with those of today's code."""
    stored = load_runs(path)
    if stored.notes.numerics != NUMERICS_VERSION:
        raise InputError(
            f"{path} has numerics version {stored.notes.numerics}",
            expected=f"version {NUMERICS_VERSION}: numbers have changed since",
            hint="lopgpn_exp reproduce",
        )
    if stored.notes.split_name != split_name:
        raise InputError(
            f"{path} contains runs on {stored.notes.split_name} splits",
            expected=f"runs on {split_name} splits: the two are reported separately",
            hint="move the file to the report of its splits (published: reproduction/, random: "
            "reproduction/random_splits/)",
        )
    return stored


def _store(
    options: ReproductionOptions,
    run_ids: Sequence[str],
    *,
    recipes: Mapping[str, Sequence[RunResult]] | None = None,
    extend: bool,
    left_out: dict[str, str] | None = None,
    sessions: Sequence[Session] = (),
) -> None:
    """Write `runs.parquet`: these runs, finished runs of variants, and tests of scale.

    Args:
        recipes: evaluations by recipe, by their variant.
        extend: keep what the file contains. It is read again, since the runs may have taken hours.
    """
    notes = load_runs(options.runs_file).notes if extend else Notes(NUMERICS_VERSION, split_name=options.split_name)
    all_variants = list(dict.fromkeys([*notes.variants, *options.variants]))
    variants: dict[str, str] = {}
    for variant in all_variants:
        # A stored variant may belong to models that are not asked for now.
        with nullcontext() if variant in options.variants else suppress(InputError):
            finished = find_finished_runs(options, variant)
            variants |= dict.fromkeys(finished, variant)
            if finished or variant in options.variants:
                _print(f"{len(finished)} finished runs with {variant}")
    variants |= dict.fromkeys(run_ids, "")
    variants |= find_scale_runs(options.output_dir)
    results = read_results(options.output_dir, run_ids=variants)
    for variant, evaluations in (recipes or {}).items():
        results += evaluations
        variants |= {result.run_id: variant for result in evaluations}
    if not extend and not any(variants[result.run_id] == "" for result in results):
        raise InputError(
            "no run of the reproduction has finished", expected="at least one", hint="see the messages above"
        )
    notes = replace(
        notes,
        left_out=notes.left_out if left_out is None else {**notes.left_out, **left_out},
        variants=all_variants,
        sessions=[*notes.sessions, *sessions],
    )
    if not extend:
        _back_up_other_runs(options.runs_file, variants)
    save_runs(options.runs_file, results, variants=variants, notes=notes, extend=extend)


def _back_up_other_runs(file: Path, run_ids: Collection[str]) -> None:
    """Keep an earlier file if it contains other runs than those that replace it."""
    try:
        num_others = len(set(load_runs(file).results["run_id"]) - set(run_ids))
    except InputError:  # there is none, or it is damaged
        return
    if num_others:
        backup = file.with_name(f"{file.stem}.previous.parquet")
        file.replace(backup)
        _print(f"{num_others} other runs of {file} are kept in {backup}. Use --extend to continue from them.")


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
