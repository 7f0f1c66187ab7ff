"""A user's own model, dataset and scenario: as the README tells it, and what is kept of their code."""

import importlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from hydra.core.global_hydra import GlobalHydra

from lopgpn_exp import cli, load_results, tune
from lopgpn_exp.errors import InputError
from lopgpn_exp.experiment.build import plan
from lopgpn_exp.experiment.own_code import code_hash
from lopgpn_exp.experiment.runner import locate, run
from lopgpn_exp.experiment.schema import located
from tests.test_cli import command  # noqa: F401  (a fixture)
from tests.test_experiment import TINY
from tests.test_models import MODELS, composed

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
QUICK = ["trainer.max_epochs=3", "trainer.progress=false"]
MODEL = """
from helper import scale
from lopgpn_exp.models import APPNP

class Mine(APPNP):
    def forward(self, prepared):
        return super().forward(prepared)
"""
SCENARIO = """
def flipped(graph, *, seed, fraction: float = 0.5):
    return graph.replace(features=-graph.features, is_ood=graph.part % 2 == 1)
"""
CONFIGS = {
    "model/mine.yaml": "name: mine\n_target_: own_module.Mine\nhidden_dim: 8\n",
    "ood/flipped.yaml": "name: flipped\nstage: evaluation\n_target_: own_scenario.flipped\n",
}


def section(title: str) -> str:
    """The part of the README under a heading of the second level."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", README.read_text(), re.M | re.S)
    assert found, f"the README has no section {title!r}"
    return found[1]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.S)


def files_of(text: str) -> dict[str, str]:
    """Blocks whose first line names the file that they are."""
    found = [block for language in ("python", "yaml") for block in blocks(text, language)]
    return {block.partition("\n")[0].removeprefix("# "): block for block in found}


def written(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> Iterator[tuple[Path, list[str]]]:
    """A folder with the README's files, and what its commands said when they were run there in their order."""
    folder = tmp_path_factory.mktemp("own")
    text = section("Your own model")
    written(folder, files_of(text))
    lines = [line for block in blocks(text, "bash") for line in block.splitlines()]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(str(folder))
        yield folder, [said(shlex.split(line, comments=True), patch) for line in lines]
    for name in ("mine", "mine_data", "test_mine"):
        sys.modules.pop(name, None)


def said(words: list[str], patch: pytest.MonkeyPatch) -> str:
    """Three epochs are enough, and MLflow in one sweep. That is run by the console script, all else in this process."""
    assert words[:2] == ["python", "-m"]
    module, words = words[2], words[3:]
    if module in ("lopgpn_exp", "lopgpn_exp.tune"):
        words += QUICK
    if "hydra/launcher=joblib" in words:
        script = Path(sys.executable).with_name("lopgpn_exp")
        start = [str(script)] if script.is_file() else [sys.executable, "-m", module]
        done = subprocess.run([*start, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout
    with redirect_stdout(StringIO()) as out:
        if module == "lopgpn_exp":
            patch.setattr(sys, "argv", ["lopgpn_exp", *words, "tracking=none"])
            GlobalHydra.instance().clear()
            cli.main()
        else:
            suffix = ".__main__" if module == "lopgpn_exp.testing" else ""
            importlib.import_module(module + suffix).main(words)
    return out.getvalue()


def test_the_readmes_own_model_runs_is_swept_tuned_and_compared(told):
    folder, _ = told
    results = load_results(folder / "outputs")
    kinds = set(zip(results["model"], results["dataset"], results["scenario"], results["split"], strict=True))
    both = {(m, "digits", s, i) for m in ("mine", "lop_gpn") for s in ("none", "gaussian") for i in (0, 1)}
    extra = {("mine", "karate", "none", 0), ("mine", "digits", "shuffled", 0), ("lop_gpn", "digits", "shuffled", 0)}
    assert kinds == both | extra
    assert len(results) == len(both | extra) + 1  # the search had one other value
    for page in (folder / "outputs" / "runs").glob("mine-*/page.html"):
        assert "could not be drawn" not in page.read_text()
    assert all("mine" in page.read_text() for page in (folder / "outputs" / "sweeps").glob("*/page.html"))


def test_the_readmes_commands_say_what_it_says_of_them(told):
    _, (promises, once, sweep, comparison, search, *_) = told
    assert promises.endswith("19 promises: 19 kept\n")
    assert "asks for nineteen promises" in section("Your own model")
    assert "mine · digits · split 0 · none" in once
    assert "8 runs: 1 already done, 7 to do" in sweep
    assert "mine" in sweep.partition("viewStateShareKey")[0]
    assert "2 splits matched" in comparison
    assert "run the best: python -m lopgpn_exp --config-dir conf model=mine" in search


def test_the_readmes_own_test_passes(told, monkeypatch):
    monkeypatch.chdir(told[0])
    importlib.import_module("test_mine").test_my_model_keeps_its_promises()


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder with a module, a helper, a scenario and their configs, on the path; `own(**changes)` writes it anew."""
    monkeypatch.syspath_prepend(str(tmp_path))
    modules = {"own_module": MODEL, "helper": "scale = 1\n", "own_scenario": SCENARIO, "unrelated": "x = 1\n"}

    def write(**changes: str) -> Path:
        written(tmp_path, {f"{name}.py": text for name, text in {**modules, **changes}.items()})
        written(tmp_path / "conf", CONFIGS)
        for name in (*modules, *changes):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return tmp_path / "conf"

    yield write
    for name in (*modules, "lazy", "package", "package.inner"):
        sys.modules.pop(name, None)


def hash_of(target: str = "own_module.Mine") -> str | None:
    return code_hash(located(target, "model"), target)


@pytest.mark.parametrize(
    "changes",
    [
        {"own_module": MODEL.replace("super().forward(prepared)", "super().forward(prepared)[:]")},
        {"helper": "scale = 2\n"},
        {"own_module": MODEL.replace("class Mine(APPNP):", "class Mine(APPNP):\n    loss_reduction = 'sum'\n")},
    ],
    ids=["a method", "a helper", "an attribute"],
)
def test_other_code_has_another_hash(own, changes):
    own()
    before = hash_of()
    own(**changes)
    assert hash_of() != before


@pytest.mark.parametrize(
    "changes",
    [
        {"own_module": f'"""What it is."""\n{MODEL}  # the end\n'},
        {"own_module": MODEL.replace("    def forward", '    """Documented."""\n\n    def forward')},
        {"own_module": MODEL.replace("forward(prepared)\n", "forward(\n            prepared\n        )\n")},
        {"unrelated": "x = 2\n"},
    ],
    ids=["a comment", "a docstring", "layout", "a module that is not imported"],
)
def test_the_same_code_has_the_same_hash(own, changes):
    own()
    before = hash_of()
    own(**changes)
    assert hash_of() == before


def test_an_import_inside_a_function_or_a_package_counts(own, tmp_path):
    lazy = MODEL.replace("        return", "        from package.inner import value  # noqa\n        return")
    hashes = set()
    for inner, outer in (("value = 1", ""), ("value = 2", ""), ("value = 2", "import helper")):
        written(tmp_path, {"package/__init__.py": outer, "package/inner.py": inner})
        own(own_module=lazy)
        hashes.add(hash_of())
    assert len(hashes) == 3
    assert "package" not in sys.modules  # looked at, not run


def test_what_a_sweep_imported_stays_what_it_was(own):
    """The file may be edited while the runs of a sweep go on in this process."""
    own()
    before = hash_of()
    (Path(sys.modules["own_module"].__file__)).write_text(MODEL + "x = 1\n")
    assert hash_of() == before


def planned(conf: Path, *overrides: str, output_dir: Path | str = "outputs"):
    return plan(cli.composed([*TINY, "model=mine", f"output_dir={output_dir}", *overrides], own=conf))


def ids(conf: Path, *overrides: str) -> tuple[str, str]:
    found = locate(planned(conf, *overrides))
    return found.training_id, found.run_id


def test_code_and_its_version_are_part_of_a_runs_identity(own):
    conf = own()
    first = ids(conf)
    assert ids(own()) == first
    own(helper="scale = 2\n")
    second = ids(conf)
    assert second[0] != first[0]
    assert second[1] != first[1]
    versioned = ids(conf, "+model.code_version=1")
    assert versioned not in (first, second)
    own(helper="scale = 3\n")
    assert ids(conf, "+model.code_version=1") == versioned
    assert ids(conf, "+model.code_version=2") != versioned


def test_an_own_scenario_shares_the_training_and_its_code_names_the_run(own):
    conf = own()
    clean, first = ids(conf), ids(conf, "ood=flipped")
    own(own_scenario=SCENARIO.replace("-graph", "2 * graph"))
    second = ids(conf, "ood=flipped")
    assert clean[0] == first[0] == second[0]
    assert len({clean[1], first[1], second[1]}) == 3


def test_a_run_of_other_code_is_another_run_and_is_told_apart(own, tmp_path, capsys):
    from lopgpn_exp import results

    for scale in (1, 2):
        conf = own(helper=f"scale = {scale}\n")
        done = run(planned(conf, output_dir=tmp_path / "outputs"))
        assert not done.cached
        assert f"code_hash: {hash_of()}" in (done.folder / "config.yaml").read_text()
    assert run(planned(conf, output_dir=tmp_path / "outputs")).cached
    results.main(["--output-dir", str(tmp_path / "outputs")])
    assert capsys.readouterr().out.count("mine code_hash") == 2


@pytest.mark.parametrize("model", MODELS)
def test_our_own_code_has_the_numerics_version_for_it(model):
    for scenario in ("none", "gaussian"):
        resolved = plan(composed(f"model={model}", f"ood={scenario}")).resolved
        assert "code_hash" not in resolved["model"] | resolved["ood"]


def test_identities_of_our_own_models_are_what_they_were(tmp_path):
    """The run that the README shows, as every version with these numerics names it."""
    assert locate(plan(composed())).run_id in README.read_text()


def test_a_folder_of_ones_own_is_a_choice_like_ours_wherever_it_is_named(command, own):  # noqa: F811
    own()
    for words in (["--config-dir", "conf", "model=mine"], ["model=mine", "--config-dir=conf"]):
        code, out, err = command(*words, *TINY, "dry_run=true")
        assert (code, err) == (0, "")
        assert re.match(r"mine-synthetic-s0-i0-none-\w+: to do", out)
    code, out, _ = command("model=mine", "-m", *TINY, "--config-dir", "conf", "ood=none,flipped", "dry_run=true")
    assert code == 0
    assert "20 runs: 0 already done" in out
    assert "matern_ggp, mine" in command("--config-dir", "conf", "--help")[1]
    code, _, err = command("--config-dir", "conf", "model=minne")
    assert code == cli.USER_MISTAKE
    assert "model=mine" in err


def test_a_name_in_ones_own_folder_comes_before_ours(own):
    conf = own()
    written(conf, {"model/lop_gpn.yaml": CONFIGS["model/mine.yaml"]})
    assert cli.composed(["model=lop_gpn"], own=conf).model.name == "mine"
    assert cli.composed(["model=lop_gpn"]).model.name == "lop_gpn"


def test_a_package_announces_its_configs(tmp_path):
    """As pip would install it: a package and its entry points. Ours come first."""
    written(
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
        (["--help"], "matern_ggp, theirs"),
        ([*TINY, "model=theirs", "dry_run=true"], "theirs-synthetic-s0-i0-none"),
        ([*TINY, "model=gkde", "dry_run=true"], "gkde-synthetic-s0-i0-none"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "lopgpn_exp", *words],
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert expected in done.stdout


@pytest.mark.filterwarnings("ignore")  # optuna's own
def test_a_search_of_other_code_is_another_study(own, tmp_path, capsys):
    words = [word for word in TINY if word != "trainer.progress=false"]
    words += ["model=mine", "model.hidden_dim=choice(4,8)", "--trials", "1", "--output-dir", str(tmp_path / "outputs")]
    for scale, done in ((1, 0), (1, 1), (2, 0)):
        conf = own(helper=f"scale = {scale}\n")
        tune.main([*words, "--config-dir", str(conf)])
        out = capsys.readouterr().out
        assert f"{done} trials done" in out
        assert f"run the best: python -m lopgpn_exp --config-dir {conf}" in out


MISTAKES = {
    "raise KeyError('x')": ("KeyError: 'x', own_module.py, line 1", "import path"),
    "import nowhere": ("No module named 'nowhere'", "from which nowhere can be imported"),
    "def f(:": ("own_module.py, line 1", "import path"),
    "class Mine: pass": ("is no model", "GradientModel or ClosedFormModel"),
    "Mine = 3": ("cannot be imported or called (a int)", "import path"),
    "class Mne: pass": ("no attribute 'Mine'", "model._target_=own_module.Mne"),
    "from lopgpn_exp.models import GradientModel as Mine": ("has no forward", "forward, node_loss, prepare"),
    MODEL + "    def __init__(self, *, num_classes: int, num_features: int): ...\n": (
        "model.hidden_dim is not an option of own_module.Mine",
        "expected:",
    ),
}


@pytest.mark.parametrize("text", MISTAKES, ids=lambda text: text[-20:])
def test_a_mistake_in_ones_own_module_is_one_message(own, text):
    conf = own(own_module=text)
    with pytest.raises(InputError) as told:
        planned(conf)
    assert all(words in str(told.value) for words in MISTAKES[text])


def test_a_wrong_folder_is_said(command, tmp_path):  # noqa: F811
    code, _, err = command("--config-dir", "nowhere", "model=mine")
    assert code == cli.USER_MISTAKE
    assert "there is no folder nowhere" in err
    (tmp_path / "config.yaml").write_text("defaults: []\n")
    code, _, err = command("--config-dir", ".", "model=mine")
    assert code == cli.USER_MISTAKE
    assert "config.yaml would take the place of ours" in err


def test_parameters_need_no_star(own):
    """`def __init__(self, num_features, num_classes, width=8)` is how most people write it."""
    plain = "\n    def __init__(self, num_features, num_classes, width: int = 8):\n        super().__init__("
    conf = own(own_module=MODEL + plain + "num_features=num_features, num_classes=num_classes)\n")
    written(conf, {"model/mine.yaml": "name: mine\n_target_: own_module.Mine\nwidth: 4\n"})
    assert planned(conf).model_options == {"width": 4}
    with pytest.raises(InputError, match=r"model\.width is 'a'"):
        planned(conf, "model.width=a")
