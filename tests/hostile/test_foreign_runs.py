"""Run folders from somebody else: nothing that they name is imported or called without consent."""

import json
import shutil
from pathlib import Path

import pytest

from lopgpn_exp.paper.run_selection import find_scale_runs
from lopgpn_exp.runs.checksums import write_checksums
from tests.support import TINY
from tests.support.hostile import MARKER, damage, edit_checkpoint, edit_config
from tests.support.user_code import MODULES, UserProject

EVIL_MODULE = f"open({MARKER!r}, 'w').close()\n\nclass Evil:\n    pass\n"
# The commands that apply the model of a run. Without another graph, score only reads the run's own table.
APPLYING = (["predict"], ["score", "--graph", "nodes.csv"], ["explain", "0"], ["bounds"])
TARGETS = [
    ("dataset", {"_target_": "os.system", "command": f"touch {MARKER}"}),
    ("dataset", {"_target_": "lopgpn_exp.commands.dispatch.os.system", "command": f"touch {MARKER}"}),
    ("dataset", {"_target_": "lopgpn_exp.runs.archive.unpack_runs", "file": "x.zip"}),
    ("dataset", {"_target_": "evil.Evil"}),
    ("model", {"_target_": "subprocess.Popen", "args": ["touch", MARKER]}),
    ("model", {"_target_": "evil.Evil"}),
    ("split", {"_target_": "builtins.exec", "source": f"open({MARKER!r}, 'w')"}),
    ("ood", {"_target_": "evil.Evil", "stage": "evaluation"}),
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """Return the folder of a finished run, which tests copy."""
    from lopgpn_exp.config.plan import plan_run
    from lopgpn_exp.runs.execute import run
    from tests.support import compose

    return run(plan_run(compose(*TINY, f"output_dir={tmp_path_factory.mktemp('outputs')}"))).folder


@pytest.fixture
def foreign(finished, tmp_path, monkeypatch) -> Path:
    """Return a copy of the run in `outputs`; a module `evil` can be imported from the current folder."""
    folder = tmp_path / "outputs" / "runs" / finished.name
    shutil.copytree(finished, folder)
    (tmp_path / "evil.py").write_text(EVIL_MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder


@pytest.mark.parametrize(("group", "node"), TARGETS)
def test_config_that_names_other_code_is_refused(command, foreign, group, node):
    edit_config(foreign, lambda config: config.update({group: config[group] | node}))
    for name, *words in APPLYING:
        code, _, err = command(name, foreign.name, *words)
        assert (code, Path(MARKER).exists()) == (2, False)
        assert f"uses code that is not part of lopgpn_exp: {node['_target_']} ({group})" in err
        assert f"try:      lopgpn_exp {name} {foreign.name}" in err
        assert "--trust" in err


@pytest.mark.parametrize(("group", "node"), TARGETS)
def test_trust_needs_a_record_of_the_code(command, foreign, group, node):
    """Consent is for code that the run was made with, not for any function of the machine."""
    edit_config(foreign, lambda config: config.update({group: config[group] | node}))
    code, _, err = command("predict", foreign.name, "--trust")
    assert code == 2
    assert "has no record of its code" in err
    assert not Path(MARKER).exists()


@pytest.mark.parametrize("target", ["os.system", "lopgpn_exp.commands.dispatch.os.system"])
def test_trust_does_not_extend_to_functions_of_python(command, foreign, target):
    """Their names may be overlooked, and a `code_version` is whatever the config says."""
    node = {"_target_": target, "command": f"touch {MARKER}", "code_version": "1"}
    edit_config(foreign, lambda config: config["dataset"].update(node))
    code, _, err = command("predict", foreign.name, "--trust")
    assert (code, Path(MARKER).exists()) == (2, False)
    assert "which is part of Python" in err


def test_looking_at_a_run_imports_nothing_that_it_names(command, foreign):
    edit_config(foreign, lambda config: config["model"].update(_target_="evil.Evil"))
    for words in (["results"], ["compare", foreign.name, foreign.name], ["results", "--pack", "x.zip"]):
        assert command(*words)[0] in (0, 2)
        assert not Path(MARKER).exists()
    code, out, _ = command("score", foreign.name)
    assert (code, Path(MARKER).exists()) == (0, False)
    assert "labelled nodes" in out


def test_reproduction_imports_nothing_that_a_run_names(foreign, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    edit_config(foreign, lambda config: config["dataset"].update(num_nodes=10**6))
    edit_config(foreign, lambda config: config["model"].update(_target_="evil.Evil"))
    assert find_scale_runs(Path("outputs")) == {}
    assert not Path(MARKER).exists()
    damage(foreign / "config.yaml")
    assert find_scale_runs(Path("outputs")) == {}


@pytest.mark.parametrize("model_class", ["subprocess.Popen", "evil.Evil", "os.system", "lopgpn_exp.models.GPN"])
def test_checkpoint_of_another_class_is_refused_before_it_is_imported(command, foreign, model_class):
    options = {"args": ["touch", MARKER], "num_features": 8, "num_classes": 4}
    edit_checkpoint(
        foreign / "model.ckpt",
        lambda content: content["hyper_parameters"].update(model_class=model_class, model_options=options),
    )
    calls = [[name, foreign.name, *words] for name, *words in APPLYING]
    calls.append([*TINY, f"checkpoint={foreign / 'model.ckpt'}", "output_dir=elsewhere"])
    for words in calls:
        code, _, err = command(*words)
        assert (code, Path(MARKER).exists()) == (2, False)
        assert f"holds a {model_class}" in err
    assert not list(Path("elsewhere").glob("runs/[!.]*"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_steps": 10**9}, "was trained with num_steps 1000000000"),
        ({"hidden_dim": 10**9}, "was trained with hidden_dim 1000000000"),
        ({"num_features": 10**9}, "does not fit its weights"),
        ({"num_classes": -1}, "does not fit its weights"),
        ({"num_features": "8"}, "does not fit its weights"),
        ({"memory_limit_gib": []}, "cannot be opened"),
    ],
)
def test_checkpoint_with_other_options_is_refused_before_it_is_built(command, foreign, changes, message):
    edit_checkpoint(
        foreign / "model.ckpt", lambda content: content["hyper_parameters"]["model_options"].update(changes)
    )
    code, _, err = command("predict", foreign.name)
    assert code == 2
    assert message in err
    assert "Traceback" not in err


def test_result_of_another_run_is_refused_and_not_packed(command, foreign, tmp_path):
    """`--pack` must not follow an id that is a path."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "password.txt").write_text("secret")
    for run_id in ("../../secret", "another-run"):
        content = json.loads((foreign / "result.json").read_text()) | {"run_id": run_id}
        (foreign / "result.json").write_text(json.dumps(content))
        write_checksums(foreign)
        for words in (["results", "--pack", "x.zip"], ["predict", foreign.name]):
            code, _, err = command(*words)
            assert code == 2
            assert "Traceback" not in err
        assert not Path("x.zip").exists()


def test_packing_does_not_follow_symbolic_links(command, foreign, tmp_path):
    import zipfile

    (tmp_path / "secret.txt").write_text("secret")
    (foreign / "arc.png").unlink()
    (foreign / "arc.png").symlink_to(tmp_path / "secret.txt")
    code, _, err = command("results", "--pack", "x.zip")
    assert code == 0, err
    with zipfile.ZipFile("x.zip") as archive:
        assert f"{foreign.name}/result.json" in archive.namelist()
        assert f"{foreign.name}/arc.png" not in archive.namelist()


def test_own_model_is_applied_with_trust_as_long_as_its_code_is_the_same(command, user_project: UserProject):
    words = [w for w in TINY if not w.startswith("dataset")]
    code, out, err = command(*words, "--config-dir", "conf", "model=mine", "dataset=blocks", "ood=flipped")
    assert code == 0, err
    assert "--trust" in out  # in the command to type next
    (folder,) = Path("outputs/runs").glob("[!.]*")
    names = "own_module.Mine (model), own_dataset.blocks (dataset), own_scenario.flipped (ood)"

    code, _, err = command("predict", folder.name)
    assert code == 2
    assert names in err
    code, _, err = command("predict", folder.name, "--trust")
    assert code == 0, err

    for module in ("own_module", "own_scenario", "own_dataset"):
        user_project.write(**{module: f"{MODULES[module]}\nx = 2\n"})
        code, _, err = command("predict", folder.name, "--trust")
        assert code == 2
        assert f"the code of {module}." in err
        assert "has changed since the run was made" in err
