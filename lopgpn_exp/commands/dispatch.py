"""Find the command that was called, run it, and turn its outcome into messages and an exit code."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from lopgpn_exp import __version__
from lopgpn_exp.commands.process_setup import Terminated, allow_imports_from_current_folder, set_up_process
from lopgpn_exp.config.credentials import hide_credentials, hide_in_text
from lopgpn_exp.errors import FailedRunsError, InputError, nearest, printable
from lopgpn_exp.runs.storage import clean_output_dir

PROGRAM = "lopgpn_exp"
COMMANDS = {
    "run": "train and evaluate one model, or a whole sweep with -m (the default command)",
    "advise": "which method to use on your graph, and why",
    "predict": "which nodes of a graph to trust: class, uncertainty and a flag for every node",
    "score": "how reliable the flags of predict are, on nodes with known labels",
    "explain": "why one node is as uncertain as it is",
    "bounds": "how tight the bounds on LOP-GPN's differential entropy are",
    "compare": "differences between runs, models or sweeps, with confidence intervals",
    "results": "finished runs as a table; export, pack and unpack them",
    "tune": "search config values on the validation nodes",
    "ui": "serve the dashboards of all runs in the MLflow UI",
    "track": "write the finished runs and sweeps that MLflow lacks",
    "register": "make the model of a run available in MLflow, to load or to serve it",
    "reproduce": "the paper's table and figures, and the audit against the published numbers",
    "benchmark": "the leaderboard of all methods, and its audit against published values",
    "check": "does a model of your own keep the contract of the framework?",
}
WITHOUT_OUTPUT_DIR = ("run", "check")
WITH_USER_CODE = ("run", "tune", "benchmark", "check")  # the others import a user's modules only with --trust
WITH_URI = ("predict", "score", "explain", "bounds", "compare", "ui", "track", "register")
DEFAULT_OUTPUT_DIR = Path("outputs")
FAILED, INPUT_ERROR, LIMIT_EXCEEDED, INTERRUPTED, TERMINATED = 1, 2, 3, 128 + signal.SIGINT, 128 + signal.SIGTERM
STOPPED = "Finished trainings and runs are kept; the same command continues from there."
HELP = """usage: lopgpn_exp [COMMAND] [OPTIONS]

Uncertainty quantification on graphs: LOP-GPN, GPN and more than twenty other methods.

  lopgpn_exp                                    train LOP-GPN on the embedded dataset; needs no download
  lopgpn_exp model=gpn_sym dataset=cora_ml      another model, another dataset
  lopgpn_exp model=lop_gpn dataset=pubmed -m    a sweep: 10 splits x 4 scenarios
  lopgpn_exp predict RUN                        which nodes not to trust

Commands (lopgpn_exp COMMAND --help for details):
{commands}

Config groups of run (group=option):
{groups}
"""


@dataclass(frozen=True)
class CommandResult:
    """What the program prints after a command, and its exit code.

    Args:
        written: files that were written; None for one that was not asked for.
        next_commands: what to type next, as arguments of the program.
    """

    written: Sequence[Path | None] = ()
    next_commands: Sequence[Sequence[str]] = ()
    exit_code: int = 0


class ArgumentParser(argparse.ArgumentParser):
    """Reports a wrong argument in the form of all other errors."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message, expected=" ".join(self.format_usage().split()[1:]), hint=f"{self.prog} --help")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program with these arguments (those of the process by default) and exit with its code if it failed."""
    with set_up_process():
        exit_code = _run(list(sys.argv[1:] if arguments is None else arguments))
    if exit_code:
        sys.exit(exit_code)


def _run(arguments: list[str]) -> int:
    try:
        if arguments in (["--help"], ["-h"]):
            sys.stdout.write(_format_help())
            return 0
        if arguments == ["--version"]:
            sys.stdout.write(f"{PROGRAM} {__version__}\n")
            return 0
        return _execute(*_split_command(arguments))
    except InputError as error:
        sys.stderr.write(f"\n{PROGRAM}: {printable(hide_in_text(str(error)))}\n")
        return INPUT_ERROR
    except MemoryError as error:
        reason = printable(str(error))
        sys.stderr.write(f"\n{PROGRAM}: not enough memory ({reason})\n  expected: a smaller dataset or model\n")
        return INPUT_ERROR
    except FailedRunsError:
        return FAILED
    except KeyboardInterrupt:
        sys.stderr.write(f"\nInterrupted. {STOPPED}\n")
        return INTERRUPTED
    except Terminated:
        sys.stderr.write(f"\nTerminated. {STOPPED}\n")
        return TERMINATED


def _split_command(arguments: list[str]) -> tuple[str, list[str]]:
    """Return the command and its arguments. Overrides and options without a command belong to `run`."""
    if not arguments or "=" in arguments[0] or arguments[0].startswith(("-", "~")):
        return "run", arguments
    name, *rest = arguments
    if name not in COMMANDS:
        close = nearest(name, COMMANDS)
        raise InputError(
            f"there is no command {name!r}",
            expected="one of " + ", ".join(COMMANDS) + ", or overrides such as model=gpn_sym",
            hint=f"{PROGRAM} {close}" if close else f"{PROGRAM} --help",
        )
    return name, rest


def _execute(name: str, arguments: list[str]) -> int:
    module = import_module(f"lopgpn_exp.commands.{name}")
    options = argparse.Namespace()
    if name == "run":  # Hydra parses the command line itself
        with allow_imports_from_current_folder():
            result = module.execute(arguments)
    else:
        parser = _create_parser(name, module)
        options = parser.parse_intermixed_args(arguments)
        _expand_home(options)
        if name not in WITHOUT_OUTPUT_DIR:
            clean_output_dir(options.output_dir)
        has_user_code = name in WITH_USER_CODE or getattr(options, "trust", False)
        try:
            with allow_imports_from_current_folder() if has_user_code else nullcontext():
                result = module.execute(options)
        except InputError as error:
            raise _add_hint(error, parser, options, arguments) from None
    for line in _closing_lines(result, options):
        sys.stdout.write(f"{printable(hide_in_text(line))}\n")
    return result.exit_code


def _create_parser(name: str, module: ModuleType) -> ArgumentParser:
    parser = ArgumentParser(
        prog=f"{PROGRAM} {name}",
        description=module.DESCRIPTION,
        epilog=module.EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    if name not in WITHOUT_OUTPUT_DIR:
        parser.add_argument(
            "--output-dir",
            type=Path,
            default=DEFAULT_OUTPUT_DIR,
            metavar="DIR",
            help="folder of all runs (%(default)s)",
        )
    return parser


def _add_hint(
    error: InputError, parser: ArgumentParser, options: argparse.Namespace, arguments: list[str]
) -> InputError:
    """Add to an error of the layers below what to type for the parameter that it names: `--edges FILE`."""
    actions = [action for action in parser._actions if action.dest in (error.parameter, f"{error.parameter}s")]
    if error.hint or not actions:
        return error
    action = actions[0]
    value = str(error.suggestion or action.metavar or "VALUE")
    if action.nargs == 0:
        return error.with_hint(shlex.join([*parser.prog.split(), *arguments, action.option_strings[0]]))
    if action.option_strings:
        return error.with_hint(shlex.join([action.option_strings[0], value]))
    if action.nargs is not None:  # one of several words
        return error.with_hint(shlex.quote(value))
    words = [value if word == getattr(options, action.dest) else word for word in arguments]
    return error.with_hint(f"{parser.prog} {shlex.join(words)}")


def _closing_lines(result: CommandResult, options: argparse.Namespace) -> list[str]:
    lines = [f"written  {path}" for path in result.written if path is not None]
    for i, command in enumerate(result.next_commands):
        words = [PROGRAM, *command, *_location_options(command[0], options)]
        lines.append(f"{'next' if i == 0 else '':8} {shlex.join(words)}")
    return ["", *lines] if lines else []


def _location_options(command: str, options: argparse.Namespace) -> list[str]:
    """Return the options that make another command look in the same place."""
    words = []
    output_dir = getattr(options, "output_dir", DEFAULT_OUTPUT_DIR)
    if output_dir != DEFAULT_OUTPUT_DIR:
        if command == "run":
            words.append(f"output_dir={output_dir}")
        elif command not in WITHOUT_OUTPUT_DIR:
            words += ["--output-dir", str(output_dir)]
    if getattr(options, "uri", None) is not None and command in WITH_URI:
        words += ["--uri", hide_credentials(options.uri)]
    return words


def _format_help() -> str:
    from lopgpn_exp.config import default_config_dir

    conf = default_config_dir()
    groups = ("model", "dataset", "split", "ood", "trainer", "tracking", "hydra/launcher")
    options = {group: ", ".join(sorted(path.stem for path in (conf / group).glob("*.yaml"))) for group in groups}
    return HELP.format(commands=_align(COMMANDS), groups=_align(options))


def _align(entries: dict[str, str]) -> str:
    width = max(map(len, entries))
    return "\n".join(f"  {name:{width}}  {text}" for name, text in entries.items())


def _expand_home(options: argparse.Namespace) -> None:
    """Expand a leading `~` in all paths: the shell does not do that in `--output-dir=~/runs`."""
    for name, value in vars(options).items():
        if isinstance(value, Path):
            setattr(options, name, Path(os.path.expanduser(value)))
