"""The documentation tells the truth: each command and each piece of Python in it is run here, or by CI.

Of a page, blocks with a title are files, the others are run in their order, in one folder; what stands in a block of
text was told by what was run last. Settings are quick.
"""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest
from omegaconf import DictConfig

import lopgpn_exp
from lopgpn_exp import reproduce
from lopgpn_exp.experiment.build import Plan, plan
from tests.test_cli import command  # noqa: F401  (a fixture)
from tests.test_readme import QUICK

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md") if "made" not in path.parts)
FENCE = re.compile(r'^( *)```(\w+)(?: title="(.+?)")?\n(.*?)^\1```$', re.M | re.S)
MISTAKES = "how/mistakes.md"  # every command of it is one
GOES_ON = {"how/predict.md": "how/own-graph.md"}  # a page that begins where another ended: both are read
SHOWN_ELSEWHERE = ("lopgpn_exp.ui",)  # serves until it is stopped: test_ui.py


@dataclass(frozen=True)
class Block:
    language: str
    title: str | None
    text: str


def blocks(page: str) -> list[Block]:
    return [
        Block(language, title or None, re.sub(rf"(?m)^{indent}", "", text))
        for indent, language, title, text in FENCE.findall((DOCS / page).read_text())
    ]


def lines(page: str) -> Iterator[str]:
    """Commands, without blanks."""
    for block in blocks(page):
        if block.language == "bash":
            yield from (line for line in block.text.splitlines() if line.strip())


RUN = [
    page
    for page in PAGES
    if page not in GOES_ON.values() and any(block.language in ("bash", "python") for block in blocks(page))
]
MAKE = [line for page in PAGES for line in lines(page) if line.startswith("make ")]
INSTALLED = [line for page in PAGES for line in lines(page) if line.startswith("pip ")]


class Reader:
    """Somebody who types what a page says."""

    def __init__(self, program, capsys, folder: Path) -> None:
        self.program, self.capsys, self.folder = program, capsys, folder
        self.names: dict = {}
        self.told = ""

    def read(self, page: str) -> None:
        for block in blocks(page):
            if block.title is not None:
                path = self.folder / block.title
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text)
            elif block.language == "python":
                exec(compile(block.text, page, "exec"), self.names)
                self.told = self.capsys.readouterr().out
            elif block.language == "bash":
                for line in block.text.splitlines():
                    self.type(line, mistaken=page == MISTAKES)
            elif block.language == "text":
                assert block.text.strip() in self.told

    def type(self, line: str, *, mistaken: bool) -> None:
        words = shlex.split(line.replace("$SLURM_ARRAY_TASK_ID", "4"), comments=True)
        if not words or words[0] in ("make", "pip"):
            return
        assert words[:2] == ["python", "-m"], line
        name, words = words[2], words[3:]
        if name in SHOWN_ELSEWHERE:
            return
        code = self.run(words) if name == "lopgpn_exp" else self.ask(name, words)
        assert code == (2 if mistaken else 0), f"{line}\n{self.told}"

    def run(self, words: list[str]) -> int:
        """Of a sweep the first of each axis but the models; what other processes are to run, up to the plan."""
        if "-m" in words:
            words = [word if word.startswith("model=") else re.sub(r",[^ ]*", "", word) for word in words]
            words += [word for word in ("split.index=0", "ood=none") if word.split("=")[0] not in " ".join(words)]
        if any(word.startswith("hydra/launcher=") for word in words):
            words.append("dry_run=true")
        shown = {"--help", "--cfg"} & set(words)
        code, out, err = self.program(*([] if shown else QUICK), *words)
        self.told = out + err
        return code

    def ask(self, name: str, words: list[str]) -> int:
        module = import_module(name)
        main = getattr(module, "main", None) or import_module(f"{name}.__main__").main
        try:
            main([*QUICK[:2], *words] if name == "lopgpn_exp.tune" else words)
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = self.capsys.readouterr()
        self.told = captured.out + captured.err
        return code


def short_plan(config: DictConfig) -> Plan:
    """A few epochs are enough to see that a page can be followed."""
    config.trainer.max_epochs = 3
    return plan(config)


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    """What depends on a graph's edges alone, layout and PPR matrix, is the same for all pages."""
    return tmp_path_factory.mktemp("cache")


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("page", RUN)
def test_a_page_can_be_followed(page, command, capsys, tmp_path, monkeypatch, cache):  # noqa: F811
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs" / "cache").symlink_to(cache)
    monkeypatch.setattr("lopgpn_exp.api.plan", short_plan)
    monkeypatch.syspath_prepend(str(tmp_path))
    known = set(sys.modules)
    reader = Reader(command, capsys, tmp_path)
    try:
        for each in (GOES_ON.get(page), page):
            if each is not None:
                reader.read(each)
    finally:
        own = {path.stem for path in tmp_path.glob("*.py")}
        for name in own & (set(sys.modules) - known):  # the next page may have a file of this name
            del sys.modules[name]


@pytest.mark.parametrize("line", MAKE)
def test_make_lines_are_what_ci_runs_or_name_knobs_that_exist(line):
    target = shlex.split(line)[1]
    if f"make {target}" in (ROOT / ".ci" / "run").read_text():
        return
    asked = ["make", "-n", *shlex.split(line, comments=True)[1:]]
    shown = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (recipe,) = [text for text in shown.splitlines() if "-m lopgpn_exp.reproduce" in text]
    reproduce.knobs(reproduce.parser().parse_args(shlex.split(recipe)[3:]))


def test_what_is_installed_exists():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = "".join((DOCS / page).read_text() for page in PAGES)
    assert set(re.findall(r"lopgpn_exp\[(\w+)\]", text)) <= set(project["optional-dependencies"])
    assert set(INSTALLED) <= {"pip install -c constraints.txt -e ."}  # what make run does


def test_the_notebook_is_stored_without_outputs():
    """The site runs it: what is shown is what the code of that day gave."""
    for path in DOCS.glob("notebooks/*.ipynb"):
        for cell in json.loads(path.read_text())["cells"]:
            assert not cell.get("outputs"), f"{path.name}: {cell['id']}"
            assert cell.get("execution_count") is None


@pytest.mark.parametrize(
    ("tag", "code"),
    [
        ('<script src="https://cdn.example/math.js"></script>', 1),
        ('<link rel="stylesheet" href="//fonts.example/css?family=Roboto">', 1),
        ('<img src="made/figure1.svg"><a href="https://hydra.cc">a link loads nothing</a>', 0),
    ],
)
def test_the_build_finds_what_a_page_would_load_from_elsewhere(tmp_path, tag, code):
    (tmp_path / "page.html").write_text(f"<html><body>{tag}</body></html>")
    done = subprocess.run([sys.executable, DOCS / "tools" / "closed.py", tmp_path], capture_output=True, text=True)
    assert done.returncode == code
    assert ("page.html" in done.stderr) == bool(code)


def test_no_passage_of_the_readme_is_repeated():
    prose = re.sub(r"```.*?```", "", (ROOT / "README.md").read_text(), flags=re.S)
    text = "".join((DOCS / page).read_text() for page in PAGES)
    assert [line for line in prose.splitlines() if len(line) > 80 and line in text] == []


def test_what_is_public_is_in_the_reference():
    shown = re.findall(r"^::: (\S+)$", (DOCS / "reference" / "api.md").read_text(), re.M)
    found = [getattr(import_module(path.rpartition(".")[0]), path.rpartition(".")[2]) for path in shown]
    graph = getattr(lopgpn_exp, "Graph")  # noqa: B009  (it has a page of its own)
    assert all(getattr(lopgpn_exp, name) in [*found, graph] for name in lopgpn_exp._PUBLIC)
