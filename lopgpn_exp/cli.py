"""The command line: Hydra in front, one clear message for a user's mistake."""

from __future__ import annotations

import argparse
import os
import re
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hydra
from hydra.errors import HydraException, InstantiationException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from lopgpn_exp.errors import USER_MISTAKE, InputError, nearest
from lopgpn_exp.experiment import search_path
from lopgpn_exp.experiment.build import Plan, plan
from lopgpn_exp.experiment.launchers import JoblibLauncher, LocalLauncher, ProtocolSweeper, register
from lopgpn_exp.experiment.slurm import SlurmLauncher

TYPE_WORDS = {
    "Integer": "a whole number",
    "Float": "a number",
    "bool": "true or false",
}  # OmegaConf's to ours

# Hydra swallows what a job returns; a sweep goes on after a failed job, and the exit code tells in the end.
_failed: list[str] = []
_started: list[str] = []


def config_dir() -> Path:
    """`conf/` beside the package in a checkout, inside it in an installed copy."""
    package = Path(__file__).resolve().parent
    beside = package.parent / "conf"
    return beside if (beside / "config.yaml").is_file() else package / "conf"


def main() -> None:
    # Hydra re-raises instead of printing and exiting, so that every error passes through here.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    # torch's threads otherwise wait for work by spinning, on the cores that the compiled kernels' threads need.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    search_path.register()
    register(ProtocolSweeper, LocalLauncher, JoblibLauncher, SlurmLauncher)
    try:
        sys.argv[1:] = _options_first(sys.argv[1:])
        with _own_modules_found():
            hydra.main(version_base="1.3", config_path=str(config_dir()), config_name="config")(_job)()
    except Exception as error:
        if _started or not _is_mistake(error):  # a defect of ours: the traceback
            raise
        sys.stderr.write(f"\nlopgpn_exp: {mistake(error)}\n")  # Hydra did not get past the command line
        sys.exit(USER_MISTAKE)
    except KeyboardInterrupt:
        sys.stderr.write("\nInterrupted. Finished trainings and runs are kept; the same command goes on from there.\n")
        sys.exit(130)
    if _failed:
        sys.exit(USER_MISTAKE)


@contextmanager
def _own_modules_found() -> Iterator[None]:
    """A user's own modules are found in the folder where the program is started: by `python -m`, and by the script."""
    folder = os.getcwd()
    missing = not sys.flags.safe_path and not {"", folder} & set(sys.path)
    if missing:
        sys.path.append(folder)
    try:
        yield
    finally:
        if missing:
            sys.path.remove(folder)


def _options_first(words: list[str]) -> list[str]:
    """Hydra's parser wants all overrides on one side of -m and --config-dir; people write them on both."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--multirun", "-m", action="store_true")
    parser.add_argument("--config-dir", "-cd", type=Path)
    options, rest = parser.parse_known_args(words)
    own: list[str] = []
    if options.config_dir is not None:
        search_path.check_folder(options.config_dir)
        own = ["--config-dir", str(options.config_dir)]
    return ["-m"] * options.multirun + own + rest


def _is_mistake(error: Exception) -> bool:
    """Whether Hydra did not get past the command line, or a launcher refused a value as Hydra built it."""
    if isinstance(error, InputError) or isinstance(error.__cause__, InputError):
        return True
    if isinstance(error, InstantiationException):
        return False
    raised_in = Path(traceback.extract_tb(error.__traceback__)[-1].filename)  # Hydra has plain ValueErrors too
    in_hydra = raised_in.is_relative_to(Path(hydra.__file__).parent)
    return isinstance(error, HydraException | OmegaConfBaseException) or in_hydra


def _job(config: DictConfig) -> None:
    _started.append("job")
    try:
        _carry_out(plan(config))
    except MemoryError as error:
        message = f"not enough memory ({error})\n  try:      a smaller dataset or model"
        sys.stderr.write(f"\nlopgpn_exp: {message}\n")
        _failed.append(message)
    except InputError as error:
        sys.stderr.write(f"\nlopgpn_exp: {error}\n")
        _failed.append(str(error))


def _carry_out(planned: Plan) -> None:
    from lopgpn_exp.experiment.runner import locate, run  # torch: --help and a mistake in the config do without
    from lopgpn_exp.experiment.tracking import Tracker
    from lopgpn_exp.report.summary import show, show_links

    if planned.resolved["dry_run"]:
        located = locate(planned)
        sys.stdout.write(f"{located.run_id}: {'already done' if located.is_finished else 'to do'}\n")
        return
    options = planned.tracking
    tracker = None
    if options["enabled"]:  # before the run: an address that does not answer is not found out after an hour
        tracker = Tracker(options["uri"], options["experiment"], planned.output_dir)
    outcome = run(planned)
    show(outcome.result, title=planned.title, folder=outcome.folder, cached=outcome.cached)
    if tracker:
        tracker.add(outcome.folder, planned.resolved, planned.title)
        show_links(tracker.links([planned.dataset]), ui=tracker.ui)


def composed(
    overrides: Sequence[str], *, own: Path | None = None, values: Mapping[str, Any] | None = None
) -> DictConfig:
    """The config of some overrides as the command line would have it, `own` being its --config-dir.

    Args:
        values: of the config by their names, from Python: no override syntax, no quoting.
    """
    try:
        config = search_path.composed(overrides, ours=config_dir(), own=own)
        for key, value in (values or {}).items():
            OmegaConf.update(config, key, value, merge=False)
    except (HydraException, OmegaConfBaseException, InputError) as error:
        raise mistake(error) from None
    return config


def mistake(error: Exception) -> InputError:
    """Hydra's and OmegaConf's errors in our form, with the nearest valid name."""
    for known in (error, error.__cause__):
        if isinstance(known, InputError):
            return known
    cause = error.__cause__ if isinstance(error.__cause__, OmegaConfBaseException) else error
    if isinstance(error, MissingConfigException) and error.options:
        group, _, choice = str(error.missing_cfg_file).rpartition("/")
        close = nearest(choice, error.options)
        return InputError(
            f"there is no {group}={choice}",
            expected="one of " + ", ".join(error.options),
            hint=f"{group}={close}" if close else "python -m lopgpn_exp --help",
        )
    if isinstance(cause, OmegaConfBaseException) and cause.full_key:
        return _mistaken_key(cause)
    first_line = str(error).strip().partition("\n")[0]
    return InputError(first_line, expected="overrides of the form group=option or name.of.value=new")


def _mistaken_key(cause: OmegaConfBaseException) -> InputError:
    parent, _, key = str(cause.full_key).rpartition(".")
    prefix = f"{parent}." if parent else ""
    siblings = [str(name) for name in cause.parent_node] if isinstance(cause.parent_node, DictConfig) else []
    if siblings and key not in siblings:
        shown = [f"{prefix}{name}" for name in siblings if name not in ("_target_", "hydra")]
        close = nearest(key, siblings)
        return InputError(
            f"there is no {cause.full_key}",
            expected="one of " + ", ".join(shown),
            hint=f"{prefix}{close}=..." if close else "",
        )
    message = str(cause).partition("\n")[0]
    wanted = next((words for word, words in TYPE_WORDS.items() if word in message), "a value of the type --help shows")
    value = re.search(r"Value '([^']*)'", message)
    return InputError(f"{cause.full_key} is {value[1]!r}" if value else message, expected=wanted)
