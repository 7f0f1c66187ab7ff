"""InputError: its text, other hints, and the way back from a worker process."""

import pickle

import pytest

from lopgpn_exp.data.splits import MissingSplitError
from lopgpn_exp.errors import InputError, nearest


def test_message_says_what_is_wrong_what_is_expected_and_what_to_type():
    error = InputError("teleport is 7", expected="at most 1", hint="model.teleport=0.1")
    assert str(error) == "teleport is 7\n  expected: at most 1\n  try:      model.teleport=0.1"
    assert str(InputError("teleport is 7", expected="at most 1")) == "teleport is 7\n  expected: at most 1"
    assert isinstance(error, ValueError)


@pytest.mark.parametrize("kind", [InputError, MissingSplitError])
def test_error_survives_pickling(kind):
    error = kind("index is 3", expected="0", hint="x", parameter="index", suggestion=0)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert (str(copy), vars(copy)) == (str(error), vars(error))


def test_other_hint_keeps_everything_else():
    error = MissingSplitError("index is 3", expected="0", parameter="index", suggestion=0).with_hint("split.index=0")
    assert type(error) is MissingSplitError
    assert (error.what, error.expected, error.hint) == ("index is 3", "0", "split.index=0")
    assert (error.parameter, error.suggestion) == ("index", 0)
    assert error.with_hint("", what="other").what == "other"


def test_nearest_name_is_found_only_if_it_is_close():
    names = ["lop_gpn", "gpn_sym", "gkde"]
    assert nearest("lopgpn", names) == "lop_gpn"
    assert nearest("xyz", names) is None
