"""Config files that are too large, too deep or refer to things outside: one message, nothing is read or run."""

import pytest
import yaml

from lopgpn_exp.config.compose import resolve
from lopgpn_exp.errors import InputError
from tests.support import TINY, compose
from tests.support.hostile import ALIAS_BOMB

FILES = {
    "aliases": (f"# @package _global_\n{ALIAS_BOMB}".encode(), "more than 20,000 values"),
    "nesting": (b"a: " + b"[" * 10_000, "levels deep"),
    "objects": (b"a: !!python/object/apply:os.getcwd []", "not a plain value"),
    "bytes": (b"a: \xff\xfe", "utf-8"),
}


@pytest.mark.parametrize("name", FILES)
def test_damaged_file_in_the_users_folder_is_one_message(command, tmp_path, name):
    content, reason = FILES[name]
    (tmp_path / "conf" / "model").mkdir(parents=True)
    (tmp_path / "conf" / "model" / "mine.yaml").write_bytes(content)
    code, _, err = command(*TINY, "--config-dir", "conf", "model=mine", "dry_run=true")
    assert code == 2
    assert "mine.yaml cannot be read" in err
    assert reason in err


def test_damaged_file_that_is_not_used_does_not_matter(command, tmp_path):
    (tmp_path / "conf" / "model").mkdir(parents=True)
    (tmp_path / "conf" / "model" / "mine.yaml").write_bytes(b"[" * 10_000)
    assert command(*TINY, "--config-dir", "conf", "dry_run=true")[0] == 0


@pytest.mark.parametrize("value", ["${oc.env:SECRET}", "x${oc.env:SECRET}", "${oc.decode:'1'}", "${output_dir}"])
@pytest.mark.parametrize("key", ["output_dir", "data_root", "model", "dataset"])
def test_stored_config_does_not_read_the_environment(monkeypatch, key, value):
    monkeypatch.setenv("SECRET", "password")
    config = compose()
    config[key] = {**config[key], "name": [value]} if isinstance(config[key], dict) else value
    with pytest.raises(InputError, match="values only") as error:
        resolve(config)
    assert "password" not in str(error.value)


def test_environment_is_available_on_the_command_line(monkeypatch):
    monkeypatch.setenv("RESULTS", "elsewhere")
    assert compose("output_dir=${oc.env:RESULTS}")["output_dir"] == "elsewhere"


@pytest.mark.parametrize("content", [None, [], "text", 5, {}, {1: 2}, {"model": 5}, {"dataset": {"path": [1]}}])
def test_stored_config_of_another_form_is_one_message(content):
    with pytest.raises(InputError):
        resolve(content)


def test_stored_config_is_resolved_to_itself():
    config = compose()
    assert resolve(yaml.safe_load(yaml.safe_dump(config))) == config
