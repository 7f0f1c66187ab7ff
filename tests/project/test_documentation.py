"""Every command and every Python snippet in README.md, CONTRIBUTING.md and docs/ works, and what they show is true.

A page is followed from top to bottom in an empty folder. Blocks with a title are files, blocks of bash and Python are
run with few epochs, and a block of text must be what the command before it printed.
"""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest

import lopgpn_exp
from lopgpn_exp import load_results
from lopgpn_exp.commands import COMMANDS, CommandResult
from lopgpn_exp.commands.reproduce import parse_options
from lopgpn_exp.config.plan import RunPlan, plan_run
from lopgpn_exp.runs.execute import locate_run
from tests.support import QUICK, ROOT, SHARED, compose
from tests.support.digits_tables import write_digits

DOCS = ROOT / "docs"
README, CONTRIBUTING = "README.md", "CONTRIBUTING.md"
PAGES = [
    *(README, CONTRIBUTING),
    *sorted(path.relative_to(ROOT).as_posix() for path in DOCS.rglob("*.md") if "generated" not in path.parts),
]
ERROR_PAGE = "docs/how/mistakes.md"  # every command on it is wrong
# Pages that continue another one.
PREREQUISITES = dict.fromkeys(("docs/how/predict.md", "docs/how/serve.md"), "docs/how/own-graph.md")
GUARANTEES = "docs/how/guarantees.md"
FULLY_TRAINED = (README, GUARANTEES, "docs/tutorials/decision.md")  # pages with claims that hold for a trained model
# Numbers in the output of these pages differ between processors.
TRAINING_DECIDES = (README, GUARANTEES, "docs/tutorials/first-run.md", "docs/tutorials/decision.md")
# Commands that are only parsed here, with the test that runs them.
NOT_EXECUTED = {name: f"test_{name}_command.py" for name in ("ui", "reproduce", "benchmark")}
# Targets of make that .ci/run does not call, with the test or the target that covers them.
MAKE_TARGETS = {
    "setup": "make test",
    "reproduce-tables": "test_reproduce_command.py",
    "report": "test_reproduce_command.py",
    "benchmark": "test_benchmark_command.py",
    "benchmark-report": "test_benchmark_command.py",
}
WRITING_OPTIONS = ("--output", "--export", "--html", "--csv", "--picture", "--pack")
FENCE = re.compile(r'^( *)```(\w+)(?: title="(.+?)")?\n(.*?)^\1```$', re.M | re.S)
FILE_COMMENT = re.compile(r"# ([\w/]+\.(?:py|yaml))\n")  # GitHub shows no titles: README.md has them as comments
RUN_ID = re.compile(r"\b\w+-\w+-s\d+-i\d+-\w+-[0-9a-f]{10}\b")


@dataclass(frozen=True)
class Block:
    language: str
    title: str | None
    text: str


def read_blocks(page: str) -> list[Block]:
    blocks = []
    for indent, language, title, text in FENCE.findall((ROOT / page).read_text()):
        text = re.sub(rf"(?m)^{indent}", "", text)
        comment = FILE_COMMENT.match(text)
        blocks.append(Block(language, title or (comment[1] if comment else None), text))
    return blocks


def read_commands(page: str) -> list[str]:
    """Return the commands of a page, without comments."""
    lines = [line for block in read_blocks(page) if block.language == "bash" for line in block.text.splitlines()]
    return [command for line in lines if (command := line.partition(" #")[0].strip())]


EXECUTABLE = [page for page in PAGES if any(block.language in ("bash", "python") for block in read_blocks(page))]
MAKE_COMMANDS = sorted({line for page in PAGES for line in read_commands(page) if line.startswith("make ")})


class Reader:
    """Follows a page: writes its files, runs its commands and snippets, and compares the output that it shows."""

    def __init__(self, page: str, command, capsys, folder: Path) -> None:
        self.page, self.command, self.capsys, self.folder = page, command, capsys, folder
        self.namespace: dict = {}
        self.output = ""
        self.outputs: dict[str, str] = {}  # by command

    def follow(self) -> None:
        for block in read_blocks(self.page):
            if block.title is not None:
                path = self.folder / block.title
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text)
            elif block.language == "python":
                self.run_python(block.text)
            elif block.language == "bash":
                for line in block.text.splitlines():
                    if words := shlex.split(line.replace("$SLURM_ARRAY_TASK_ID", "4"), comments=True):
                        self.run_command(words)
            elif block.language == "console":  # a command that is wrong, and its message
                line, _, message = block.text.removeprefix("$ ").partition("\n")
                self.run_command(shlex.split(line), expected_code=2)
                self.check_output(message)
            elif block.language == "text":
                self.check_output(block.text)

    def run_python(self, code: str) -> None:
        before = set(self.folder.rglob("*"))
        exec(compile(code, self.page, "exec"), self.namespace)
        self.output = self.outputs[code.partition("\n")[0]] = self.capsys.readouterr().out
        written = set(self.folder.rglob("*")) - before
        written = {path for path in written if path.name != "registered_model_meta"}  # of MLflow, when it loads a model
        assert "to_csv" in code or not written, "Python snippets write nothing to disk"

    def run_command(self, words: list[str], *, expected_code: int = 0) -> None:
        if words[0] == "pip" or (words[0] == "make" and words[1] != "run"):
            return  # see the tests of these commands below
        if words[1:3] == ["mlflow", "models"]:  # test_register_command.py starts the server
            assert f"next     {shlex.join(words)}" in "".join(self.outputs.values())
            return
        arguments = words[2:] if words[0] == "make" else words[3:] if words[0] == "python" else words[1:]
        assert words[0] == "lopgpn_exp" or words[:3] == ["python", "-m", "lopgpn_exp"] or words[:2] == ["make", "run"]
        is_command = bool(arguments) and arguments[0] in COMMANDS
        if not is_command or arguments[0] == "run":
            typed = self.shorten_run(arguments)
        else:
            typed = [*arguments, *QUICK[:2]] if arguments[0] in ("tune", "advise") else arguments
        if is_command and arguments[0] == "advise" and "--methods" not in arguments:
            typed = [*typed, "--methods", "mlp,gcn"]
        if self.page == README and words == ["make", "run"]:  # the README shows the links of the dashboards
            typed = [word for word in typed if word != "tracking=none"]
        code, out, err = self.command(*typed)
        self.output = self.outputs[shlex.join(arguments)] = out + err
        assert code == (2 if self.page == ERROR_PAGE else expected_code), f"{shlex.join(words)}\n{self.output}"
        assert self.output
        if code == 0:
            self.check_files(typed)

    def shorten_run(self, words: list[str]) -> list[str]:
        """Return a quick version of a run; of a sweep all models, but only the first value of every other axis."""
        if {"--help", "--cfg"} & set(words):
            return words
        if "-m" in words:
            splits = 2 if any(" compare " in line for line in read_commands(self.page)) else 1
            words = [shorten_axis(word, {"model": 10, "split.index": splits}) for word in words]
            keys = [word.partition("=")[0] for word in words]
            words += [word for word in ("split.index=0", "ood=none") if word.partition("=")[0] not in keys]
        if "hydra/launcher=slurm" in words:  # make test-slurm executes the plan
            words = [*words, "dry_run=true"]
        if any(re.match(r"dataset=(?!digits|synthetic|custom|rings)", word) for word in words):
            if not (SHARED / "data").is_dir():
                return [word for word in words if word != "-m"] + ["--cfg", "job"]
            words = [*words, f"data_root={SHARED / 'data'}"]
        is_fully_trained = self.page in FULLY_TRAINED and "dataset=custom" in words
        return [*(QUICK[1:] if is_fully_trained else QUICK), *words]

    def check_files(self, words: list[str]) -> None:
        """Check that a command wrote the files that it names."""
        for option, value in pairwise(words):
            if option in WRITING_OPTIONS:
                content = (self.folder / value).read_bytes()
                assert b"<svg" in content if value.endswith(".html") else content
                assert words[0] != "compare" or "digits · none".encode() in content
        if words[0] == "explain":
            assert (self.folder / f"{words[2]}.svg").is_file() or "--picture" in words
        if words[0] == "tune":
            assert len(re.findall(r"^val/nll \d", self.output, re.M)) == int(words[words.index("--trials") + 1])
        if "--unpack" in words:
            assert len(load_results(self.folder / words[words.index("--output-dir") + 1])) > 0
        if words[0] not in COMMANDS and not {"--help", "--cfg", "dry_run=true"} & set(words):
            assert list((self.folder / "outputs" / "runs").glob("*/result.json"))

    def check_output(self, text: str) -> None:
        if self.page in TRAINING_DECIDES:
            printed = [mask_numbers(line) for line in self.output.splitlines()]
            for line in text.splitlines():
                assert mask_numbers(line) in printed, f"{line}\n{self.output}"
        else:
            assert text.strip() in self.output


def shorten_axis(word: str, lengths: dict[str, int]) -> str:
    key, equals, values = word.partition("=")
    return key + equals + ",".join(values.split(",")[: lengths.get(key, 1)]) if "(" not in values else word


def mask_numbers(line: str) -> str:
    return " ".join(re.sub(r"\d[\d.,]*", "#", RUN_ID.sub("RUN", line)).split())


def plan_few_epochs(config) -> RunPlan:
    return plan_run({**config, "trainer": {**config["trainer"], "max_epochs": 3}})


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    """Return a folder for the PPR matrices and layouts that all pages share."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def follow(command, capsys, tmp_path, monkeypatch, cache, request):
    """Return a function that follows a page and returns its reader."""
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs" / "cache").symlink_to(cache)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("lopgpn_exp.api.plan_run", plan_few_epochs)
    for name in NOT_EXECUTED:
        module = import_module(f"lopgpn_exp.commands.{name}")
        monkeypatch.setattr(module, "execute", lambda options: print(options) or CommandResult())  # noqa: T201
    monkeypatch.syspath_prepend(str(tmp_path))
    modules = set(sys.modules)

    def read(page: str) -> Reader:
        if any(" register " in line for line in read_commands(page)):
            shutil.copy(request.getfixturevalue("_empty_database"), tmp_path / "outputs" / "mlflow.db")
        for name in filter(None, (PREREQUISITES.get(page), page)):
            reader = Reader(name, command, capsys, tmp_path)
            reader.follow()
        return reader

    yield read
    if mlflow := sys.modules.get("mlflow"):
        mlflow.set_tracking_uri(None)  # a page sets it
    for name in {path.stem for path in tmp_path.glob("*.py")} & (set(sys.modules) - modules):
        del sys.modules[name]  # the next page may have a file of the same name


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.filterwarnings("ignore:.*Any type hint is inferred as AnyType:UserWarning")  # MLflow imports its own hints
@pytest.mark.parametrize("page", [p for p in EXECUTABLE if p != README and p not in PREREQUISITES.values()])
def test_a_page_can_be_followed(page, follow):
    follow(page)


@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_the_readme_can_be_followed_and_its_claims_hold(follow, tmp_path):
    noise = write_digits(tmp_path)
    reader = follow(README)
    table = pd.read_csv(tmp_path / "predictions.csv").set_index("id")
    distrusted = (table["flag"] != "trust").groupby(table.index.isin(noise)).sum()
    claim = re.search(
        r"Of the 40 noise images, (\d+) are not trusted; of the 1,757 others, (\d+) are not",
        " ".join((ROOT / README).read_text().split()),
    )
    assert claim
    # CPUs round differently, and training amplifies it.
    assert distrusted[True] == pytest.approx(int(claim[1]), abs=4)
    assert distrusted[False] == pytest.approx(int(claim[2]), abs=25)
    assert "('tu', 'au', 'eu', 'eu_pc', 'eu_so', 'lconf')" in reader.outputs["from lopgpn_exp import Experiment"]
    assert "20 checks: 20 passed" in reader.outputs["check mine --config-dir conf"]
    assert "own prediction  confidence" in reader.outputs["explain lop_gpn-custom scan-0899"]
    results = load_results("outputs", model="mine")
    assert set(zip(results["scenario"], results["split"], strict=True)) == {("none", 0), ("none", 1)}


def test_the_readme_is_short():
    assert len((ROOT / README).read_text().splitlines()) <= 200


def test_the_documentation_shows_the_id_of_the_default_run():
    default = locate_run(plan_run(compose())).run_id
    ids = {page: set(RUN_ID.findall((ROOT / page).read_text())) for page in PAGES}
    assert ids[README] == {default}
    assert set().union(*ids.values()) == {default}


def is_covered(by: str) -> bool:
    """Return whether CI runs a target, or whether a test file exists."""
    return by in (ROOT / ".ci" / "run").read_text() or len(list((ROOT / "tests").rglob(by))) == 1


def test_commands_that_are_only_parsed_have_a_test():
    assert all(is_covered(name) for name in NOT_EXECUTED.values())


@pytest.mark.parametrize("line", MAKE_COMMANDS)
def test_make_commands_are_run_by_ci_or_by_the_named_test(line):
    target = shlex.split(line)[1]
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert f"make {target} " in listed
    assert is_covered(f"make {target}") or is_covered(MAKE_TARGETS[target])


@pytest.mark.parametrize("line", [line for line in MAKE_COMMANDS if line.startswith(("make reproduce", "make report"))])
def test_reproduction_commands_have_valid_options(line, command, monkeypatch):
    """Run the recipe as make would, except for the reproduction itself."""
    options = []
    execute = lambda parsed: options.append(parse_options(parsed)) or CommandResult()  # noqa: E731
    monkeypatch.setattr("lopgpn_exp.commands.reproduce.execute", execute)
    shown = subprocess.run(["make", "-n", *shlex.split(line)[1:]], cwd=ROOT, capture_output=True, text=True, check=True)
    (recipe,) = [text for text in shown.stdout.splitlines() if "-m lopgpn_exp reproduce" in text]
    assert ("--report" in recipe) == line.startswith("make report")
    assert command(*shlex.split(recipe)[3:])[0] == 0
    assert options[0].splits in (1, 2, 10)


def test_two_make_commands_are_in_the_readme():
    assert {"make run", "make test", "make reproduce-tables"} <= set(read_commands(README))


def test_installation_commands_name_what_exists():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    text = "".join((ROOT / page).read_text() for page in PAGES)
    assert set(re.findall(r"lopgpn_exp\[(\w+)\]", text)) <= set(extras)
    installed = {line for page in PAGES for line in read_commands(page) if line.startswith("pip ")}
    assert installed <= {"pip install -c constraints.txt -e ."}  # what make run does


def test_commands_in_prose_exist():
    """Inline code such as `lopgpn_exp predict` names a command or overrides, and `make docs` a target."""
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for page in PAGES:
        prose = FENCE.sub("", (ROOT / page).read_text())
        for word in re.findall(r"`(?:python -m )?lopgpn_exp ([^\s`]+)", prose):
            assert word in {*COMMANDS, "COMMAND"} or "=" in word or word.startswith("-"), f"{page}: {word}"
        for target in re.findall(r"`make ([a-z-]+)", prose):
            assert f"make {target} " in listed, f"{page}: make {target}"


@pytest.mark.parametrize("page", [README, CONTRIBUTING])
def test_links_of_the_repository_pages_exist(page):
    links = re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / page).read_text())
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_no_passage_of_the_readme_is_repeated_in_the_docs():
    prose = FENCE.sub("", (ROOT / README).read_text())
    text = "".join((ROOT / page).read_text() for page in PAGES if page != README)
    assert [line for line in prose.splitlines() if len(line) > 80 and line in text] == []


def test_the_configuration_page_lists_every_option():
    page = (DOCS / "reference" / "config.md").read_text()
    for group in ("model", "dataset", "split", "ood", "trainer", "tracking", "hydra/launcher"):
        row = re.search(rf"^\| `{group}` \|(.*)\|$", page, re.M)
        assert row, group
        assert {path.stem for path in (ROOT / "conf" / group).glob("*.yaml")} <= set(re.findall(r"`(\w+)`", row[1]))


def test_the_page_of_commands_lists_every_command():
    rows = re.findall(r"^\| `(\w+)` \|", (DOCS / "reference" / "commands.md").read_text(), re.M)
    assert rows == list(COMMANDS)


def test_the_architecture_page_shows_every_package_and_module():
    package = Path(lopgpn_exp.__file__).parent
    layers = {path.parent.name for path in package.glob("*/__init__.py")}
    layers |= {path.stem for path in package.glob("*.py") if not path.stem.startswith("__")}
    folder = DOCS / "concepts"
    assert layers <= set(re.findall(r"`(\w+)`", (folder / "architecture.md").read_text()))
    assert layers == set(
        re.findall(r"\w+", " ".join(re.findall('class="name">(.*?)<', (folder / "layers.svg").read_text())))
    )


def test_the_api_page_lists_everything_that_the_package_exports():
    paths = re.findall(r"^::: (\S+)$", (DOCS / "reference" / "api.md").read_text(), re.M)
    documented = [getattr(import_module(path.rpartition(".")[0]), path.rpartition(".")[2]) for path in paths]
    documented.append(getattr(lopgpn_exp, "Graph"))  # noqa: B009  (has its own page)
    assert all(getattr(lopgpn_exp, name) in documented for name in lopgpn_exp._PUBLIC)


def test_notebooks_are_stored_without_outputs():
    """The site executes them: what it shows is what the current code computes."""
    for path in DOCS.glob("notebooks/*.ipynb"):
        for cell in json.loads(path.read_text())["cells"]:
            assert not cell.get("outputs"), f"{path.name}: {cell['id']}"
            assert cell.get("execution_count") is None


@pytest.mark.parametrize(
    ("tag", "code"),
    [
        ('<script src="https://cdn.example/math.js"></script>', 1),
        ('<link rel="stylesheet" href="//fonts.example/css?family=Roboto">', 1),
        ('<img src="generated/figure1.svg"><a href="https://hydra.cc">a link loads nothing</a>', 0),
    ],
)
def test_the_build_reports_remote_resources(tmp_path, tag, code):
    (tmp_path / "page.html").write_text(f"<html><body>{tag}</body></html>")
    script = DOCS / "tools" / "check_offline.py"
    done = subprocess.run([sys.executable, script, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert ("page.html" in done.stderr) == bool(code)
