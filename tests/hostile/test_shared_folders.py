"""Names in files of somebody else: modules, columns and places that a command must not follow."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from lopgpn_exp.errors import InputError
from lopgpn_exp.runs.checksums import write_checksums
from lopgpn_exp.runs.query import find_run
from lopgpn_exp.runs.run_folder import read_config
from tests.support import TINY
from tests.support.hostile import MARKER, damage, edit_config

OPTIONAL_MODULE = "library_that_is_not_installed"


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """Return the folder of a finished run, which tests copy."""
    from lopgpn_exp.config.plan import plan_run
    from lopgpn_exp.runs.execute import run
    from tests.support import compose

    return run(plan_run(compose(*TINY, f"output_dir={tmp_path_factory.mktemp('outputs')}"))).folder


@pytest.fixture
def foreign(finished, tmp_path) -> Path:
    """Return a copy of the run in `outputs`."""
    return shutil.copytree(finished, tmp_path / "outputs" / "runs" / finished.name)


@pytest.fixture
def optional_import(monkeypatch, tmp_path):
    """Let opening a run try to import a library, as pandas tries numexpr; the current folder has one of that name."""
    from lopgpn_exp.runs import saved_run

    (tmp_path / f"{OPTIONAL_MODULE}.py").write_text(f"open({MARKER!r}, 'w').close()\n")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(tmp_path))])  # as in a script
    read_result = saved_run.read_result

    def read_and_import(folder):
        try:
            __import__(OPTIONAL_MODULE)
        except ImportError:
            pass
        finally:
            sys.modules.pop(OPTIONAL_MODULE, None)
        return read_result(folder)

    monkeypatch.setattr(saved_run, "read_result", read_and_import)


def test_modules_in_the_current_folder_are_not_imported_without_trust(command, foreign, optional_import):
    for name, *words in (["predict"], ["score"], ["explain", "0"], ["bounds"], ["compare", foreign.name]):
        assert command(name, foreign.name, *words)[0] == 0
        assert not Path(MARKER).exists()
    assert command("predict", foreign.name, "--trust")[0] == 0
    assert Path(MARKER).exists()  # the attack works where it is allowed


@pytest.mark.parametrize(
    ("part", "values", "message"),
    [
        ("metrics", {"run_id": 1.0}, "a metric is named 'run_id'"),
        ("metrics", {"model": 1.0}, "a metric is named 'model'"),
        ("curves", {"arc/\x1b[2J": [1.0]}, "a metric is named"),
        ("history", {"training/loss": [[1.0]]}, "a point of the history"),
    ],
)
def test_result_that_would_break_a_table_is_left_out_of_it(command, foreign, part, values, message):
    """One such run must not stop the tables of all others, nor a sweep."""
    other = shutil.copytree(foreign, foreign.with_name("other"))
    content = json.loads((other / "result.json").read_text()) | {"run_id": other.name}
    content[part] |= values
    (other / "result.json").write_text(json.dumps(content))
    write_checksums(other)
    for words in (["results"], ["results", "--export", "runs.csv"], ["results", "--pack", "runs.zip"]):
        code, _, err = command(*words)
        assert code == 0, err
        assert "other: " in err
        assert message in err


def test_predict_makes_no_folder_where_the_config_says(command, foreign, tmp_path, monkeypatch):
    monkeypatch.setenv("LOPGPN_DATA", str(tmp_path / "own"))
    node = {"_target_": "lopgpn_exp.data.datasets.ogb.ogb_node", "name": "x", "left_out_classes": 0}
    node["collection_name"] = "../../elsewhere"
    edit_config(foreign, lambda config: config.update(dataset=node, data_root=str(tmp_path / "elsewhere")))
    code, _, err = command("predict", foreign.name)
    assert code == 2
    assert "collection_name is ../../elsewhere" in err
    assert not (tmp_path / "elsewhere").exists()
    assert not (tmp_path / "own").exists()


def test_data_root_of_another_machine_is_not_used(foreign, tmp_path, monkeypatch):
    from lopgpn_exp.config import plan
    from lopgpn_exp.runs.saved_run import SavedRun

    used = []
    monkeypatch.setattr(plan, "_plan_dataset", lambda node, root: used.append(root))
    for root in (tmp_path / "elsewhere", tmp_path):
        edit_config(foreign, lambda config, root=root: config.update(data_root=str(root)))
        assert SavedRun.open(foreign).plan is not None
    assert used == [None, str(tmp_path)]


@pytest.mark.parametrize(
    "tags",
    [
        {},
        {"kind": "sweep", "run_id": "../../secret"},
        {"kind": "summary", "sweep": "../../secret", "model": "a", "dataset": "b"},
        {"kind": "summary"},
        {"kind": "run", "run_id": "../runs"},
    ],
)
def test_tags_of_another_program_are_one_message(tmp_path, tags):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "sweep.json").write_text('{"sweep": "a", "name": "a", "run_ids": ["b"]}')
    with pytest.raises(InputError, match="of MLflow is not in"):
        find_run(32 * "0", tmp_path / "outputs" / "x", read_tags=lambda _: tags)


@pytest.mark.parametrize("key", ["x=1", "a b", "\x1b[2J", "x" * 251, ""])
def test_config_with_a_key_that_mlflow_refuses_cannot_be_read(foreign, key):
    """`track` leaves such a run out, and goes on with the others."""
    edit_config(foreign, lambda config: config["model"].update({key: {key: 1}}))
    with pytest.raises(InputError, match="it has the key"):
        read_config(foreign)


def test_damaged_checkpoint_is_noticed_when_the_command_is_repeated(command):
    assert command(*TINY)[0] == 0
    (folder,) = Path("outputs/runs").glob("[!.]*")
    damage(folder / "model.ckpt")
    code, out, err = command(*TINY)
    assert code == 0
    assert "making the run again" in out + err
    assert command("predict", folder.name)[0] == 0


def test_folder_of_a_process_in_another_container_is_kept(tmp_path, monkeypatch):
    """Its process id means nothing here, even if it has the name of this machine."""
    from lopgpn_exp import scratch

    dead = 2**22 + 1  # larger than any process id
    with monkeypatch.context() as patch:
        patch.setattr(scratch.os, "getpid", lambda: dead)
        ours = scratch.partial_path(tmp_path / "run")
        patch.setattr(scratch, "HOST", f"{scratch.HOST.rpartition('-')[0]}-1")
        theirs = scratch.partial_path(tmp_path / "run")
    ours.mkdir()
    theirs.mkdir()
    scratch.remove_abandoned([tmp_path])
    assert list(tmp_path.iterdir()) == [theirs]
