"""A user's own model, dataset and scenario in runs, sweeps, comparisons and searches, from their own folder."""

import importlib
import os
import re
import subprocess
import sys

import pytest

from lopgpn_exp import load_results
from lopgpn_exp.config.compose import compose_config
from tests.support import ROOT, TINY
from tests.support.processes import Program
from tests.support.user_code import CONFIGS, MODEL, write_files

OVERRIDES = [word for word in TINY if not word.startswith("dataset")]


def test_own_model_dataset_and_scenario_are_swept_by_workers_and_compared(user_project, command):
    """Workers import the user's modules from the folder in which the program was started."""
    words = ["--config-dir", "conf", "model=mine,lop_gpn", "dataset=blocks", "split.index=0,1", "ood=none,flipped"]
    once = command("--config-dir", "conf", "model=mine", "dataset=blocks", *OVERRIDES)[1]
    assert "mine · blocks · split 0 · none" in once
    program = Program(user_project.folder, *words, *OVERRIDES, "-m", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
    assert program.wait() == 0, program.output
    assert "8 runs: 1 already done, 7 to do" in program.output
    assert "mine" in program.output.partition("page ")[0]
    outputs = user_project.folder / "outputs"
    results = load_results(outputs)
    kinds = set(zip(results["model"], results["dataset"], results["scenario"], results["split"], strict=True))
    assert kinds == {(m, "blocks", s, i) for m in ("mine", "lop_gpn") for s in ("none", "flipped") for i in (0, 1)}
    assert len(results) == 8
    assert results.groupby("training_id").size().tolist() == [2, 2, 2, 2]  # a user's scenario shares trainings too
    pages = list((outputs / "runs").glob("mine-*/page.html"))
    assert len(pages) == 4
    assert not any("could not be drawn" in page.read_text() for page in pages)
    assert all("mine" in page.read_text() for page in (outputs / "sweeps").glob("*/page.html"))
    assert "2 common splits: 95 % interval" in command("compare", "model=lop_gpn", "model=mine")[1]


def test_own_test_of_the_documentation_passes(tmp_path, monkeypatch):
    page = (ROOT / "docs" / "how" / "own-model.md").read_text()
    files = dict(re.findall(r'```\w+ title="([^"]+)"\n(.*?)```', page, re.S))
    write_files(tmp_path, files)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (name,) = [file.removesuffix(".py") for file in files if file.startswith("test_")]
    module = importlib.import_module(name)
    tests = [value for key, value in vars(module).items() if key.startswith("test_")]
    assert tests
    for test in tests:
        test()
    for file in files:
        sys.modules.pop(file.removesuffix(".py"), None)


def test_config_folder_of_a_user_adds_options_wherever_it_is_given(command, user_project):
    for words in (["--config-dir", "conf", "model=mine"], ["model=mine", "--config-dir=conf"]):
        code, out, err = command(*words, *TINY, "dry_run=true")
        assert (code, err) == (0, "")
        assert re.match(r"mine-synthetic-s0-i0-none-\w+: to do", out)
    code, out, _ = command("model=mine", "-m", *TINY, "--config-dir", "conf", "ood=none,flipped", "dry_run=true")
    assert code == 0
    assert "20 runs: 0 already done" in out
    assert "matern_ggp, mine" in command("--config-dir", "conf", "--help")[1]
    code, _, err = command("--config-dir", "conf", "model=minne")
    assert code == 2
    assert "try:      model=mine" in err


def test_config_of_a_user_comes_before_one_of_the_package(user_project):
    write_files(user_project.config_dir, {"model/lop_gpn.yaml": CONFIGS["model/mine.yaml"]})
    assert compose_config(["model=lop_gpn"], config_dir=user_project.config_dir)["model"]["name"] == "mine"
    assert compose_config(["model=lop_gpn"])["model"]["name"] == "lop_gpn"


def test_installed_package_adds_configs_after_those_of_this_package(tmp_path):
    """As pip would install it: a package and its entry points."""
    write_files(
        tmp_path,
        {
            "theirs/__init__.py": "",
            "theirs/models.py": MODEL.replace("from helper import scale\n", ""),
            "theirs/conf/__init__.py": "",
            "theirs/conf/model/theirs.yaml": "name: theirs\n_target_: theirs.models.Mine\n",
            "theirs/conf/model/gkde.yaml": "name: theirs\n_target_: theirs.models.Mine\n",
            "theirs-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: theirs\nVersion: 1\n",
            "theirs-1.dist-info/entry_points.txt": "[lopgpn_exp.conf]\nany_name = theirs.conf\n",
        },
    )
    for words, expected in (
        (["run", "--help"], "sgcn, theirs"),
        (["model=theirs", "--cfg", "job"], "_target_: theirs.models.Mine"),
        (["model=gkde", "--cfg", "job"], "_target_: lopgpn_exp.models.GKDE"),
        ([*TINY, "model=theirs", "dry_run=true"], "theirs-synthetic-s0-i0-none"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "lopgpn_exp", *words],
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert expected in done.stdout


@pytest.mark.filterwarnings("ignore")  # optuna's own
def test_search_with_changed_code_is_another_study(command, user_project):
    words = [word for word in TINY if word != "trainer.progress=false"]
    words += ["model=mine", "model.hidden_dim=choice(4,8)", "--trials", "1", "--config-dir", "conf"]
    for scale, num_done in ((1, 0), (1, 1), (2, 0)):
        user_project.write(helper=f"scale = {scale}\n")
        code, out, err = command("tune", *words)
        assert code == 0, err
        assert f"{num_done} trials done" in out
        assert "next     lopgpn_exp run --config-dir conf" in out


def test_wrong_config_folder_is_one_message(command, tmp_path):
    code, _, err = command("--config-dir", "nowhere", "model=mine")
    assert code == 2
    assert "there is no folder nowhere" in err
    (tmp_path / "config.yaml").write_text("defaults: []\n")
    code, _, err = command("--config-dir", ".", "model=mine")
    assert code == 2
    assert "config.yaml would replace the main config of lopgpn_exp" in err
