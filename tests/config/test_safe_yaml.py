"""YAML from elsewhere: plain values are read, everything else is a ValueError, at once."""

import os

import pytest
import yaml

from lopgpn_exp.config.safe_yaml import MAX_DEPTH, MAX_VALUES, parse_yaml
from tests.support import compose
from tests.support.hostile import ALIAS_BOMB

MERGES = "a0: &a0 {x: 1}\n" + "".join(
    f"a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * 10)}]}}\n" for level in range(1, 9)
)
REFUSED = {
    "aliases of aliases": (ALIAS_BOMB, "20,000 values"),
    "merges of merges": (MERGES, "20,000 values"),
    "an alias in its own value": ("a: &a [*a]", "contains it"),
    "nested lists": ("[" * 10_000, "levels deep"),
    "nested dicts": ("{a: " * 10_000, "levels deep"),
    "nested blocks": ("- " * 5_000 + "x", "levels deep"),
    "many values": ("[" + "1," * MAX_VALUES + "]", "20,000 values"),
    "a long text": ("x" * 1_000_000, "characters"),
    "a Python object": ("a: !!python/object/apply:os.getcwd []", "not a plain value"),
    "a set": ("!!set {a}", "not a plain value"),
    "bytes": ("a: !!binary aGk=", "not a plain value"),
    "a wrong tag": ("a: !!bool x", "tag"),
    "an empty number": ("a: !!int ''", "tag"),
    "a long number": ("a: 0x" + "f" * 4_000, "64 bits"),
    "an unfinished list": ("a: [1", "line 1"),
    "two documents": ("- a\n---\n- b", "document"),
    "a list as a key": ("? [a]\n: 1", "unhashable"),
    "a control character": ("a: \0", "special characters"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_config_does_not_need_is_refused(name):
    text, reason = REFUSED[name]
    with pytest.raises(ValueError, match=reason):
        parse_yaml(text)


def test_a_python_object_is_not_called(monkeypatch):
    monkeypatch.setattr(os, "getcwd", lambda: pytest.fail("called"))
    with pytest.raises(ValueError, match="plain value"):
        parse_yaml("a: !!python/object/apply:os.getcwd []")


def test_config_of_a_run_is_read_as_it_was_written():
    config = compose("model=matern_ggp", "dataset.name=2024-01-01")
    assert parse_yaml(yaml.safe_dump(config, sort_keys=False)) == config


def test_aliases_dates_and_nesting_within_the_limits_are_read():
    text = "base: &base {x: 1}\ncopy: *base\nmore: {<<: *base, y: 2024-01-01}"
    assert parse_yaml(text) == {"base": {"x": 1}, "copy": {"x": 1}, "more": {"x": 1, "y": "2024-01-01"}}
    nested = parse_yaml("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    assert nested == eval("[" * MAX_DEPTH + "]" * MAX_DEPTH)
