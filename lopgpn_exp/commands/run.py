"""`lopgpn_exp [run]`: one run, or a sweep with `-m`. Hydra parses the command line."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hydra
from hydra.errors import HydraException, InstantiationException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from lopgpn_exp.commands.dispatch import DEFAULT_OUTPUT_DIR, PROGRAM, CommandResult
from lopgpn_exp.commands.overrides import prepare_arguments
from lopgpn_exp.config import default_config_dir
from lopgpn_exp.config.compose import register, resolve, translate_error
from lopgpn_exp.config.foreign_code import find_foreign_targets
from lopgpn_exp.config.plan import RunPlan, plan_run
from lopgpn_exp.errors import InputError
from lopgpn_exp.records import RunResult
from lopgpn_exp.runs.finished_lookup import find_finished_run, lookup_key, remember_run
from lopgpn_exp.sweeps.hydra_plugins import register_plugins
from lopgpn_exp.tracking import FaultTolerantTracker, RecordedRun, find_recorded_run, prepare_tracker


def execute(arguments: list[str]) -> CommandResult:
    """Hand a command line to Hydra, and report what it refuses in our form."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra re-raises errors instead of printing them and exiting
    register()
    register_plugins()
    sys.argv[:] = [f"{PROGRAM} run", *prepare_arguments(arguments)]
    outcomes: list[CommandResult | Exception] = []  # Hydra drops what a job returns, and wraps what it raises

    def run_job(config: DictConfig) -> None:
        try:
            outcomes.append(_run(resolve(config)))
        except Exception as error:
            outcomes.append(error)

    try:
        hydra.main(version_base="1.3", config_path=str(default_config_dir()), config_name="config")(run_job)()
    except Exception as error:
        if not _is_input_error(error):
            raise
        raise translate_error(error) from None
    outcome = outcomes[0] if outcomes else CommandResult()  # a sweep reports its outcome itself
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _run(config: dict[str, Any]) -> CommandResult:
    """Show the run of a config if it is finished, else make it."""
    key = lookup_key(config)
    result = None if key is None else _show_finished_run(config, key)
    if result is None:
        plan = plan_run(config)
        if plan.dry_run:
            return _print_identity(plan)
        result = _run_plan(plan)
        if key is not None and key == lookup_key(config):  # neither data nor code has changed in the meantime
            remember_run(plan.output_dir, key, result.run_id)
    output_dir = Path(config["output_dir"])
    location = [] if output_dir == DEFAULT_OUTPUT_DIR else ["--output-dir", str(output_dir)]
    trust = ["--trust"] if find_foreign_targets(config) else []
    return CommandResult(next_commands=[["predict", result.run_id, *trust, *location]])


def _show_finished_run(config: dict[str, Any], key: str) -> RunResult | None:
    """Print a run that is known to be finished and tracked; return None if it is not."""
    finished = find_finished_run(config, key)
    if finished is None:
        return None
    folder, result = finished
    tracking, recorded = config["tracking"], RecordedRun({}, None)
    if tracking["enabled"]:
        found = find_recorded_run(tracking, Path(config["output_dir"]), folder, result)
        if found is None:
            return None
        recorded = found
    _print_run(result, folder=folder, is_cached=True)
    _print_links(recorded.links, ui=recorded.ui)
    return result


def _run_plan(plan: RunPlan) -> RunResult:
    from lopgpn_exp.runs.execute import run  # deferred import: a typo is reported without torch

    connect: Callable[[], FaultTolerantTracker | None] = lambda: None  # noqa: E731

    def check_store() -> None:  # an unusable store is reported now, not after an hour of training
        nonlocal connect
        connect = prepare_tracker(plan)

    outcome = run(plan, on_located=check_store)
    _print_run(outcome.result, folder=outcome.folder, is_cached=outcome.is_cached)
    if tracker := connect():
        tracker.add(outcome.folder, outcome.result, plan.config)
        _print_links(tracker.finish([plan.dataset]), ui=tracker.ui)
    return outcome.result


def _print_run(result: RunResult, *, folder: Path, is_cached: bool) -> None:
    from lopgpn_exp.report.run_summary import print_run  # deferred import: keeps errors fast

    print_run(result, folder=folder, cached=is_cached)
    if is_cached:
        sys.stdout.write("To run it again: force=true\n")
    sys.stdout.flush()  # tracking it takes some seconds


def _print_links(links: dict[str, str], *, ui: str | None) -> None:
    from lopgpn_exp.report.run_summary import print_links  # deferred import: see above

    print_links(links, ui=ui)


def _print_identity(plan: RunPlan) -> CommandResult:
    from lopgpn_exp.runs.execute import locate_run  # deferred import: see above

    located = locate_run(plan)
    sys.stdout.write(f"{located.run_id}: {'already done' if located.is_finished else 'to do'}\n")
    return CommandResult()


def _is_input_error(error: Exception) -> bool:
    """Return whether the command line is wrong: Hydra or a launcher refused it."""
    if isinstance(error, InputError) or isinstance(error.__cause__, InputError):
        return True
    if isinstance(error, InstantiationException):
        return False
    raised_in = Path(traceback.extract_tb(error.__traceback__)[-1].filename)  # Hydra raises plain ValueErrors too
    is_hydra = raised_in.is_relative_to(Path(hydra.__file__).parent)
    return isinstance(error, HydraException | OmegaConfBaseException) or is_hydra
