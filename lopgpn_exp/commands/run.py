"""`lopgpn_exp [run]`: one run, or a sweep with `-m`. Hydra parses the command line."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

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
from lopgpn_exp.sweeps.hydra_plugins import register_plugins
from lopgpn_exp.tracking import FaultTolerantTracker, open_tracker


def execute(arguments: list[str]) -> CommandResult:
    """Hand a command line to Hydra, and report what it refuses in our form."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra re-raises errors instead of printing them and exiting
    register()
    register_plugins()
    sys.argv[:] = [f"{PROGRAM} run", *prepare_arguments(arguments)]
    outcomes: list[CommandResult | Exception] = []  # Hydra drops what a job returns, and wraps what it raises

    def run_job(config: DictConfig) -> None:
        try:
            outcomes.append(_run(plan_run(resolve(config))))
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


def _run(plan: RunPlan) -> CommandResult:
    # Deferred imports: a typo is reported without torch.
    from lopgpn_exp.report.terminal import print_links, print_run
    from lopgpn_exp.runs.execute import locate_run, run

    if plan.dry_run:
        located = locate_run(plan)
        sys.stdout.write(f"{located.run_id}: {'already done' if located.is_finished else 'to do'}\n")
        return CommandResult()
    tracker: FaultTolerantTracker | None = None

    def connect() -> None:  # an unreachable store is reported now, not after an hour of training
        nonlocal tracker
        tracker = open_tracker(plan)

    outcome = run(plan, on_located=connect)
    print_run(outcome.result, folder=outcome.folder, cached=outcome.is_cached)
    if outcome.is_cached:
        sys.stdout.write("To run it again: force=true\n")
    if tracker:
        tracker.add(outcome.folder, outcome.result, plan.config)
        print_links(tracker.finish([plan.dataset]), ui=tracker.ui)
    output_dir = [] if plan.output_dir == DEFAULT_OUTPUT_DIR else ["--output-dir", str(plan.output_dir)]
    trust = ["--trust"] if find_foreign_targets(plan.config) else []
    return CommandResult(next_commands=[["predict", outcome.result.run_id, *trust, *output_dir]])


def _is_input_error(error: Exception) -> bool:
    """Return whether the command line is wrong: Hydra or a launcher refused it."""
    if isinstance(error, InputError) or isinstance(error.__cause__, InputError):
        return True
    if isinstance(error, InstantiationException):
        return False
    raised_in = Path(traceback.extract_tb(error.__traceback__)[-1].filename)  # Hydra raises plain ValueErrors too
    is_hydra = raised_in.is_relative_to(Path(hydra.__file__).parent)
    return isinstance(error, HydraException | OmegaConfBaseException) or is_hydra
