"""One program: which command is called, and what becomes of errors, signals and results of all commands."""

import argparse
import os
import re
import signal
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from lopgpn_exp import __version__
from lopgpn_exp.commands import COMMANDS, CommandResult, check, compare, results, run
from lopgpn_exp.commands.dispatch import WITH_URI
from lopgpn_exp.errors import FailedRunsError, InputError
from tests.support import ROOT, config_names

STOPPED = "Finished trainings and runs are kept; the same command continues from there."


def test_every_command_module_is_listed_and_complete():
    files = {path.stem for path in (ROOT / "lopgpn_exp" / "commands").glob("*.py")}
    assert set(COMMANDS) == files - {"__init__", "dispatch", "overrides", "process_setup", "shared"}
    for name in COMMANDS:
        module = import_module(f"lopgpn_exp.commands.{name}")
        assert callable(module.execute), name
        if name != "run":  # whose options are Hydra's
            assert callable(module.add_arguments), name
            assert f"lopgpn_exp {name} " in module.EXAMPLES, name


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_lists_all_commands_and_config_groups(command, flag):
    code, out, _ = command(flag)
    assert code == 0
    for name, line in COMMANDS.items():
        assert f"  {name:9}  {line}\n" in out
    for group in ("model", "dataset", "split", "ood", "trainer", "tracking", "hydra/launcher"):
        assert f"  {group:14}  {', '.join(config_names(group))}\n" in out
    assert "lopgpn_exp model=gpn_sym dataset=cora_ml" in out


@pytest.mark.parametrize(
    "arguments",
    [[], ["model=gkde"], ["+x=1"], ["~split"], ["-m", "model=gkde"], ["--config-dir", "conf", "--help"], ["-m"]],
    ids=" ".join,
)
def test_arguments_without_a_command_belong_to_run(command, monkeypatch, arguments):
    calls = []
    monkeypatch.setattr(run, "execute", lambda words: calls.append(words) or CommandResult())
    assert command(*arguments)[0] == 0
    assert command("run", *arguments)[0] == 0
    assert calls == [arguments, arguments]


@pytest.mark.parametrize(
    ("word", "hint"),
    [("predcit", "lopgpn_exp predict"), ("result", "lopgpn_exp results"), ("xyz", "lopgpn_exp --help")],
)
def test_unknown_command_is_one_message_with_the_nearest(command, word, hint):
    code, _, err = command(word, "--output-dir", "x")
    assert code == 2
    assert f"there is no command {word!r}" in err
    assert "expected: one of run, advise, predict, " in err
    assert err.endswith(f"try:      {hint}\n")


@pytest.mark.parametrize("arguments", [["predict"], ["compare", "--nosuch"], ["results", "--split", "first"]])
def test_wrong_argument_is_one_message_with_the_usage(command, arguments):
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert f"expected: lopgpn_exp {arguments[0]} [-h]" in err
    assert f"try:      lopgpn_exp {arguments[0]} --help" in err
    assert "Traceback" not in err


@pytest.fixture
def execute(command, monkeypatch):
    """Return a function that runs the results command with another `execute`."""

    def call(action, *arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(results, "execute", action)
        return command("results", *arguments)

    return call


def raises(error: BaseException):
    def action(options: argparse.Namespace) -> CommandResult:
        raise error

    return action


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyboardInterrupt(), 130, f"Interrupted. {STOPPED}"),
        (FailedRunsError(), 1, ""),
        (MemoryError("3 GiB"), 2, "lopgpn_exp: not enough memory (3 GiB)\n  expected: a smaller dataset or model"),
        (InputError("x is 3", expected="4"), 2, "lopgpn_exp: x is 3\n  expected: 4"),
        (
            InputError("x is 3", expected="4", parameter="export", suggestion="a file.csv"),
            2,
            "lopgpn_exp: x is 3\n  expected: 4\n  try:      --export 'a file.csv'",
        ),
        (
            InputError("x is 3", expected="4", parameter="output_dir"),
            2,
            "lopgpn_exp: x is 3\n  expected: 4\n  try:      --output-dir DIR",
        ),
        (InputError("x is 3", expected="4", parameter="unknown"), 2, "lopgpn_exp: x is 3\n  expected: 4"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_error_is_one_message_and_an_exit_code(execute, error, code, message):
    found = execute(raises(error))
    assert (found[0], found[1], found[2].strip()) == (code, "", message)


def test_sigterm_is_one_line_and_the_handler_is_restored(execute):
    handler = signal.getsignal(signal.SIGTERM)
    code, _, err = execute(lambda options: os.kill(os.getpid(), signal.SIGTERM))
    assert (code, err.strip()) == (143, f"Terminated. {STOPPED}")
    assert signal.getsignal(signal.SIGTERM) is handler


def test_bug_keeps_its_traceback(execute):
    with pytest.raises(RuntimeError, match="a bug"):
        execute(raises(RuntimeError("a bug")))


def test_hint_for_a_positional_argument_repeats_the_command_with_the_suggestion(command):
    for run_id in ("gkde-a", "gkde-b"):
        folder = Path("outputs", "runs", run_id)
        folder.mkdir(parents=True)
    err = command("explain", "gkde", "7", "--neighbours", "3")[2]
    assert "'gkde' is the beginning of 2 names" in err
    assert re.search(r"try:      lopgpn_exp explain gkde-[ab] 7 --neighbours 3\n$", err)


@pytest.mark.parametrize(
    ("words", "is_allowed"),
    [
        (["check", "gkde"], True),
        (["tune", "a=1"], True),
        (["run"], True),
        (["predict", "x", "--trust"], True),
        (["predict", "x"], False),
        (["results"], False),
    ],
)
def test_modules_in_the_current_folder_can_be_imported_by_commands_that_need_them(
    command, tmp_path, monkeypatch, words, is_allowed
):
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", os.getcwd())])  # as in a script
    (tmp_path / "module_of_a_user.py").write_text("")
    found = []
    monkeypatch.setattr(
        import_module(f"lopgpn_exp.commands.{words[0]}"),
        "execute",
        lambda _: found.append(find_spec("module_of_a_user")) or CommandResult(),
    )
    assert command(*words)[0] == 0
    assert (found[0] is not None) == is_allowed
    assert os.getcwd() not in sys.path


def test_version_is_that_of_the_package(command):
    assert command("--version") == (0, f"lopgpn_exp {__version__}\n", "")


def test_exit_code_of_a_command_is_that_of_the_program(execute):
    assert execute(lambda options: CommandResult(exit_code=3))[0] == 3


@pytest.mark.parametrize(
    ("arguments", "location", "override"),
    [
        ([], "", ""),
        (["--output-dir", "outputs"], "", ""),
        (["--output-dir", "my runs"], " --output-dir 'my runs'", " 'output_dir=my runs'"),
    ],
)
def test_written_files_and_next_commands_are_printed_last(execute, arguments, location, override):
    next_commands = [["compare", "a b", "c"], ["predict", "a"], ["run", "model=gkde"], ["check", "mine"]]
    result = CommandResult([Path("x.csv"), Path("y.html")], next_commands)
    code, out, _ = execute(lambda options: result, *arguments)
    assert code == 0
    assert out.splitlines() == [
        "",
        "written  x.csv",
        "written  y.html",
        f"next     lopgpn_exp compare 'a b' c{location}",
        f"         lopgpn_exp predict a{location}",
        f"         lopgpn_exp run model=gkde{override}",
        "         lopgpn_exp check mine",
    ]


def test_next_command_has_the_store_of_mlflow_if_it_takes_one(command, monkeypatch):
    monkeypatch.setattr(
        compare, "execute", lambda options: CommandResult(next_commands=[["predict", "a"], ["results"]])
    )
    _, out, _ = command("compare", "a", "b", "--uri", "sqlite:///x.db")
    assert out.splitlines()[-2:] == [
        "next     lopgpn_exp predict a --uri sqlite:///x.db",
        "         lopgpn_exp results",
    ]
    for name in COMMANDS:
        if name != "run":
            assert ("--uri URI" in command(name, "--help")[1]) == (name in WITH_URI), name


def test_every_command_but_run_and_check_has_an_output_folder(command):
    for name in COMMANDS:
        if name == "run":
            continue
        code, out, _ = command(name, "--help")
        assert code == 0
        assert ("--output-dir DIR" in out) == (name != "check"), name


def test_options_may_stand_before_and_after_the_positional_arguments(command, monkeypatch):
    calls = []
    monkeypatch.setattr(check, "execute", lambda options: calls.append(options) or CommandResult())
    command("check", "mine", "--accuracy", "0.7", "model.hidden_dim=3")
    command("check", "--accuracy", "0.7", "mine", "model.hidden_dim=3")
    assert calls[0] == calls[1]
    assert (calls[0].model, calls[0].options, calls[0].accuracy) == ("mine", ["model.hidden_dim=3"], 0.7)


def test_program_ends_quietly_if_nobody_reads_its_output(tmp_path):
    """As in `lopgpn_exp results | head`."""
    command = [sys.executable, "-m", "lopgpn_exp", "--help"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 128 + signal.SIGPIPE
