"""A finished run is found by its config alone, and only if nothing that it depends on can have changed."""

import os
from pathlib import Path

import pytest

from lopgpn_exp.runs import finished_lookup
from lopgpn_exp.runs.finished_lookup import find_finished_run, lookup_key, remember_run
from tests.support import TINY, compose, run_tiny
from tests.support.tables import write_tables


@pytest.fixture(scope="module")
def outputs(tmp_path_factory) -> Path:
    """Return an output folder with a remembered run of the tiny config."""
    folder = tmp_path_factory.mktemp("outputs")
    outcome = run_tiny(folder, "model=gkde")
    remember_run(folder, key_of(folder), outcome.result.run_id)
    return folder


def config_of(output_dir, *overrides):
    return compose(*TINY, "model=gkde", f"output_dir={output_dir}", *overrides)


def key_of(output_dir, *overrides):
    return lookup_key(config_of(output_dir, *overrides))


def find(output_dir, *overrides):
    config = config_of(output_dir, *overrides)
    key = lookup_key(config)
    return None if key is None else find_finished_run(config, key)


def test_finished_run_is_found_whatever_is_shown_and_tracked(outputs):
    folder, result = find(outputs)
    assert (folder, result) == (outputs / "runs" / result.run_id, run_tiny(outputs, "model=gkde").result)
    assert find(outputs, "trainer.progress=true", "tracking.experiment=other", "inits=3") == (folder, result)


@pytest.mark.parametrize(
    "override",
    [
        *("force=true", "dry_run=true", "checkpoint=model.ckpt"),
        *("split.index=1", "init=1", "ood=gaussian", "model=lop_gpn", "model.max_hops=3", "trainer.patience=7"),
        *("dataset.seed=1", "data_root=elsewhere", "+model.code_version=2"),
    ],
)
def test_other_options_are_never_answered_from_the_lookup(outputs, override):
    assert find(outputs, override) is None


def test_other_output_folder_has_no_run(outputs, tmp_path):
    assert find(tmp_path) is None


@pytest.mark.parametrize("name", ["result.json", "config.yaml", "predictions.parquet", "model.ckpt", "SHA256SUMS"])
def test_damaged_run_is_not_found(outputs, name):
    folder, _ = find(outputs)
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:-9] + b"x" + content[-8:])
    try:
        assert find(outputs) is None
    finally:
        (folder / name).write_bytes(content)
    assert find(outputs) is not None


@pytest.mark.parametrize("entry", ["", "..", "../../elsewhere", "no-such-run", "\x00"])
def test_damaged_entry_is_ignored(outputs, entry):
    remembered = outputs / "cache" / "finished" / key_of(outputs)
    content = remembered.read_text()
    remembered.write_text(entry)
    try:
        assert find(outputs) is None
    finally:
        remembered.write_text(content)


def test_entry_of_another_run_is_ignored(outputs):
    other = run_tiny(outputs, "model=gkde", "split.index=1").result.run_id
    remembered = outputs / "cache" / "finished" / key_of(outputs)
    content = remembered.read_text()
    remembered.write_text(other)
    try:
        assert find(outputs) is None
    finally:
        remembered.write_text(content)


@pytest.mark.parametrize("as_folder", [True, False])
def test_changed_data_file_has_another_key(tmp_path, as_folder):
    """... also with the same size and the same time of modification."""
    write_tables(tmp_path)
    paths = [f"dataset.path={tmp_path}"]
    if not as_folder:
        paths = [f"dataset.path={tmp_path / 'nodes.csv'}", f"dataset.edges={tmp_path / 'edges.csv'}"]
    config = compose("dataset=custom", *paths)
    before = lookup_key(config)
    assert before == lookup_key(config)
    keys = {before}
    for name in ("nodes.csv", "edges.csv"):
        file = tmp_path / name
        status, content = file.stat(), file.read_bytes()
        file.write_bytes(content.replace(b"1", b"2"))
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert (file.stat().st_size, file.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
        keys.add(lookup_key(config))
    assert len(keys) == 3


def test_any_new_file_in_the_data_root_changes_the_key_of_a_downloaded_dataset(tmp_path):
    """... also behind a symbolic link."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "link").symlink_to(tmp_path / "elsewhere")
    config = compose("dataset=cora_ml", f"data_root={tmp_path / 'root'}")
    before = lookup_key(config)
    (tmp_path / "elsewhere" / "cora_ml.npz").write_text("new")
    assert None not in (before, lookup_key(config))
    assert before != lookup_key(config)


def test_large_data_root_and_missing_files_have_no_key(tmp_path, monkeypatch):
    assert lookup_key(compose("dataset=custom", f"dataset.path={tmp_path / 'nodes.csv'}")) is None
    (tmp_path / "file").touch()
    monkeypatch.setattr(finished_lookup, "MAX_FILES", 0)
    assert lookup_key(compose("dataset=cora_ml", f"data_root={tmp_path}")) is None


@pytest.mark.parametrize("group", ["model", "dataset", "split", "ood"])
def test_code_of_a_user_has_no_key(group):
    assert lookup_key(compose(f"{group}._target_=own_module.own_code")) is None


def test_changed_code_of_the_package_and_other_libraries_change_the_key(tmp_path, monkeypatch):
    config = compose(*TINY)
    monkeypatch.setattr(finished_lookup, "PACKAGE", tmp_path)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "gpn.py").write_text("a = 1")
    keys = {lookup_key(config)}
    (tmp_path / "models" / "gpn.py").write_text("a = 2")
    keys.add(lookup_key(config))
    monkeypatch.setattr(finished_lookup, "NUMERICS_VERSION", -1)
    keys.add(lookup_key(config))
    monkeypatch.setattr(finished_lookup, "version", lambda name: "0.0")
    keys.add(lookup_key(config))
    assert len(keys) == 4


def test_run_that_cannot_be_remembered_is_kept(tmp_path):
    (tmp_path / "cache").write_text("a file where a folder should be")
    remember_run(tmp_path, "key", "run")
    assert find_finished_run({"output_dir": str(tmp_path)}, "key") is None
