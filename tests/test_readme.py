"""The README tells the truth: every command in it is run here or by CI."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from lopgpn_exp import bounds, compare, explain, load_results, predict, reproduce, results, score, tune
from tests.own_graph import write_digits
from tests.test_cli import command  # noqa: F401  (a fixture)
from tests.test_experiment import TINY

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
LINES = [line for block in re.findall(r"```bash\n(.*?)```", README, re.S) for line in block.splitlines()]
OWN_MODEL = [line for line in LINES if "--config-dir" in line or "model=mine" in line]  # test_own_model.py runs them
OWN_GRAPH = [line for line in LINES if "lop_gpn-custom" in line or "dataset=custom" in line]
OWN = OWN_MODEL + OWN_GRAPH
PROGRAM = [line for line in LINES if line.startswith("python -m lopgpn_exp ") and line not in OWN]
BOUNDS = [line for line in LINES if line.startswith("python -m lopgpn_exp.bounds")]
TABLES = [line for line in LINES if line.startswith("python -m lopgpn_exp.results")]
SEARCHES = [line for line in LINES if line.startswith("python -m lopgpn_exp.tune") and line not in OWN_MODEL]
COMPARISONS = [line for line in LINES if line.startswith("python -m lopgpn_exp.compare") and line not in OWN_MODEL]
QUICK = ["trainer.max_epochs=1", "trainer.progress=false", "tracking=none"]


def arguments(line: str) -> list[str]:
    return shlex.split(line, comments=True)[3:]


def test_every_line_is_of_a_kind_that_is_run():
    assert len(PROGRAM) >= 7
    run_here = PROGRAM + TABLES + SEARCHES + COMPARISONS + BOUNDS + OWN
    others = [line for line in LINES if line not in run_here]
    assert all(line.startswith(("make ", "python -m lopgpn_exp.ui ")) for line in others), others  # test_ui.py runs it


@pytest.mark.parametrize("line", PROGRAM)
def test_program_lines(command, line, monkeypatch, request, tmp_path):  # noqa: F811
    words = arguments(line.replace("$SLURM_ARRAY_TASK_ID", "4"))
    if re.search(r"dataset=(?!digits)", line):
        monkeypatch.setenv("LOPGPN_DATA", str(request.getfixturevalue("real_data")))
    if "-m" in words:  # the first of each axis: sweeps themselves are tested elsewhere
        words = [re.sub(r",[^ ]*", "", word) for word in words]
        words += [word for word in ("split.index=0", "ood=none") if word.split("=")[0] not in line]
    if "hydra/launcher=slurm" in words:  # up to the plan; make test-slurm goes on from there
        words.append("dry_run=true")
    code, out, err = command(*([] if words[0].startswith("--") else QUICK), *words)
    assert code == 0, err
    assert out
    if not words[0].startswith("--") and "dry_run=true" not in words:
        assert list((tmp_path / "outputs" / "runs").glob("*/result.json"))


def test_table_lines(command, tmp_path):  # noqa: F811
    """In the order in which they stand."""
    assert command(*TINY)[0] == 0
    for line in TABLES:
        results.main(arguments(line))
    assert (tmp_path / "runs.csv").is_file()
    assert len(load_results(tmp_path / "elsewhere")) == 1


@pytest.mark.parametrize("line", COMPARISONS)
def test_comparison_lines(command, line, tmp_path):  # noqa: F811
    code, _, err = command(*QUICK, "model=gpn_sym,lop_gpn", "dataset=digits", "split.index=0,1", "ood=none", "-m")
    assert code == 0, err
    compare.main(arguments(line))
    assert "digits · none" in (tmp_path / "comparison.html").read_text()


@pytest.mark.parametrize("line", BOUNDS)
def test_bounds_lines(command, line, tmp_path):  # noqa: F811
    assert command(*QUICK, "dataset=digits")[0] == 0
    bounds.main([*arguments(line), "--nodes", "50", "--draws", "50"])
    assert "<svg" in (tmp_path / "bounds.html").read_text()


@pytest.mark.filterwarnings("ignore")  # optuna's own
@pytest.mark.parametrize("line", SEARCHES)
def test_search_lines(line, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    tune.main([*QUICK[:2], *arguments(line)])
    assert len(load_results("outputs")) == 2


def test_make_lines_are_what_ci_runs():
    """Or what tests/test_reproduce.py runs on one model: the whole reproduction takes hours."""
    targets = {line.split()[1] for line in LINES if line.startswith("make ")}
    tested_here = {"reproduce-tables", "report"}
    assert targets >= {"run", "test"} | tested_here
    ci = (ROOT / ".ci" / "run").read_text()
    assert all(f"make {target}" in ci for target in targets - tested_here)
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert all(f"make {target}" in listed for target in targets)


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith(("make reproduce", "make report"))])
def test_reproduction_lines_name_knobs_that_exist(line):
    """As make would run it, the command's own checks included; nothing is run."""
    shown = subprocess.run(
        ["make", "-n", *shlex.split(line, comments=True)[1:]], cwd=ROOT, capture_output=True, text=True
    )
    (recipe,) = [text for text in shown.stdout.splitlines() if "-m lopgpn_exp.reproduce" in text]
    words = shlex.split(recipe)[3:]
    assert ("--report" in words) == line.startswith("make report")
    assert reproduce.knobs(reproduce.parser().parse_args(words)).splits in (2, 10)


def test_own_graph_lines(command, tmp_path, capsys):  # noqa: F811
    """In the order in which they stand, on the graph of the README."""
    noise = write_digits(tmp_path)
    mains = {"predict": predict.main, "score": score.main, "explain": explain.main}
    shown = {}
    for line in OWN_GRAPH:
        name = line.split()[2].partition(".")[2]
        if name:
            mains[name](arguments(line))
            shown.setdefault(name, capsys.readouterr().out)
        else:
            assert command("tracking=none", "trainer.progress=false", *arguments(line))[0] == 0
    table = pd.read_csv(tmp_path / "predictions.csv").set_index("id")
    told = (table["flag"] != "trust").groupby(table.index.isin(noise)).sum()
    claim = re.search(r"Of the 40 scans that are noise, (\d+) are not trusted; of the 1,757 others, (\d+) are", README)
    assert claim
    # Another processor rounds otherwise, and training carries that a long way.
    assert told[True] == pytest.approx(int(claim[1]), abs=4)
    assert told[False] == pytest.approx(int(claim[2]), abs=25)
    for name, columns in (("predict", "flag       nodes  share  meaning"), ("explain", "says alone  sure")):
        assert columns in shown[name]
        assert columns in README
    assert (tmp_path / "scan-0899.svg").is_file()


def test_the_python_example(tmp_path):
    (code,) = re.findall(r"```python\n(from.*?)```", README, re.S)
    quick = code.replace('dataset="digits")', 'dataset="digits", settings={"trainer.max_epochs": 2})')
    assert quick != code
    done = subprocess.run([sys.executable, "-c", quick], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "('tu', 'au', 'eu', 'eu_pc', 'eu_so', 'lconf')" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_config_table_names_every_choice():
    for group in ("model", "dataset", "split", "ood", "trainer", "tracking"):
        row = re.search(rf"^\| `{group}` \|(.*)\|$", README, re.M)
        assert row, group
        assert {path.stem for path in (ROOT / "conf" / group).glob("*.yaml")} <= set(re.findall(r"`(\w+)`", row[1]))
