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

from lopgpn_exp.commands.dispatch import DEFAULT_OUTPUT_DIR, PROGRAM, ArgumentParser, CommandResult
from lopgpn_exp.config import default_config_dir
from lopgpn_exp.config.compose import check_config_dir, register, resolve, translate_error
from lopgpn_exp.config.plan import RunPlan, config_hints, plan_run
from lopgpn_exp.errors import InputError
from lopgpn_exp.sweeps.hydra_plugins import register_plugins
from lopgpn_exp.tracking import Tracker


def execute(arguments: list[str]) -> CommandResult:
    """Hand a command line to Hydra, and report what it refuses in our form."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra re-raises errors instead of printing them and exiting
    register()
    register_plugins()
    sys.argv[:] = [f"{PROGRAM} run", *_move_options_first(arguments)]
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
    tracker = None
    if plan.tracking.enabled:  # before the run: an unreachable store is reported now, not after an hour of training
        with config_hints("tracking"):
            tracker = Tracker(plan.tracking.uri, plan.tracking.experiment, plan.output_dir)
    outcome = run(plan)
    print_run(outcome.result, folder=outcome.folder, cached=outcome.is_cached)
    if outcome.is_cached:
        sys.stdout.write("To run it again: force=true\n")
    if tracker:
        tracker.add(outcome.folder, outcome.result, plan.config)
        print_links(tracker.links([plan.dataset]), ui=tracker.ui)
    output_dir = [] if plan.output_dir == DEFAULT_OUTPUT_DIR else ["--output-dir", str(plan.output_dir)]
    return CommandResult(next_commands=[["predict", outcome.result.run_id, *output_dir]])


def _move_options_first(arguments: list[str]) -> list[str]:
    """Put -m and --config-dir first: Hydra requires all overrides on one side of them, and people use both."""
    parser = ArgumentParser(prog=f"{PROGRAM} run", add_help=False, allow_abbrev=False)
    parser.add_argument("--multirun", "-m", action="store_true")
    parser.add_argument("--config-dir", "-cd", type=Path)
    options, rest = parser.parse_known_args(arguments)
    config_dir: list[str] = []
    if options.config_dir is not None:
        check_config_dir(options.config_dir)
        config_dir = ["--config-dir", str(options.config_dir)]
    return ["-m"] * options.multirun + config_dir + rest


def _is_input_error(error: Exception) -> bool:
    """Return whether the command line is wrong: Hydra or a launcher refused it."""
    if isinstance(error, InputError) or isinstance(error.__cause__, InputError):
        return True
    if isinstance(error, InstantiationException):
        return False
    raised_in = Path(traceback.extract_tb(error.__traceback__)[-1].filename)  # Hydra raises plain ValueErrors too
    is_hydra = raised_in.is_relative_to(Path(hydra.__file__).parent)
    return isinstance(error, HydraException | OmegaConfBaseException) or is_hydra
