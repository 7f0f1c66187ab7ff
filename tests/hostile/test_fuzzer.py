"""The fuzzer itself: whatever must not happen while a file is read makes its test fail."""

import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lopgpn_exp.errors import InputError
from tests.support import fuzzing
from tests.support.binary_mutations import Touch


def write_elsewhere() -> None:
    with Path(os.path.expanduser("~/never-written")).open("r+"):
        pass


def do_nothing() -> None:
    pass


def refuse() -> None:
    raise InputError("wrong", expected="right")


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: os.system("true"), "os.system"),
        (lambda: subprocess.run(["true"]), "subprocess.Popen"),
        (lambda: pickle.loads(pickle.dumps(Touch())), "pickle.find_class"),
        (lambda: exec("x = 1"), "exec"),
        (lambda: __import__("evil"), "import"),
        (write_elsewhere, r"open \('"),
        (lambda: [].pop(), "IndexError"),
        (lambda: time.sleep(1), "more than 0.2 s"),
        (lambda: "another value", "AssertionError"),
    ],
)
def test_forbidden_action_fails(fuzzer, monkeypatch, action, message):
    monkeypatch.setattr(fuzzing, "MAX_SECONDS", 0.2)
    reported = []
    quiet = fuzzing.Fuzzer(fuzzer.scratch, 1, reported.append)

    def is_nothing(value: object) -> None:
        assert not isinstance(value, str)

    with pytest.raises(pytest.fail.Exception, match=message):
        quiet.run("x", lambda rng: b"", lambda content: action(), check=is_nothing)
    sys.modules.pop("evil", None)
    assert (fuzzer.scratch / "failing-x-0").read_bytes() == b""


def test_files_are_counted(fuzzer):
    reported = []
    for action in (do_nothing, refuse):
        quiet = fuzzing.Fuzzer(fuzzer.scratch, 3, reported.append)
        quiet.run("x", lambda rng: b"", lambda content, action=action: action(), check=lambda value: None)
    assert [(row["files"], row["refused"], row["read"]) for row in reported] == [(3, 0, 3), (3, 3, 0)]
    assert fuzzing.format_counts(reported)[-1].split()[:4] == ["total", "6", "3", "3"]
