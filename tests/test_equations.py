"""The table of equations and the docstrings say the same, and nothing of the paper is missing."""

import ast
import re
from collections.abc import Iterator
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

import lopgpn_exp
from tests.conftest import SHARED

PACKAGE = Path(lopgpn_exp.__file__).parent
REFERENCE = PACKAGE.parent / "docs" / "reference"
NUM_EQUATIONS = 15
LINK = re.compile(r"\]\[(lopgpn_exp\.[\w.]+)\]")


def named(text: str) -> set[int]:
    """Numbers behind `Paper: Eq.`, such as 9 and 10 in `Paper: Eq. (9), (10); Stadler et al. (2021)`."""
    lists = re.findall(r"Paper:\s+Eq\.((?:,?\s+\(\d+\))+)", text)
    return {int(number) for found in lists for number in re.findall(r"\d+", found)}


def docstrings() -> Iterator[tuple[str, str]]:
    """Of all modules, classes and functions: the path that imports it, and the text."""
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(("lopgpn_exp", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
        yield from _within(ast.parse(path.read_text()), module)


def _within(node: ast.AST, path: str) -> Iterator[tuple[str, str]]:
    yield path, ast.get_docstring(node) or ""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef):
            yield from _within(child, f"{path}.{child.name}")


TEXTS = dict(docstrings())


def found(path: str) -> object:
    """What a dotted path names: attributes of the longest part of it that is a module."""
    parts = path.split(".")
    for at in range(len(parts), 0, -1):
        try:
            module = import_module(".".join(parts[:at]))
        except ModuleNotFoundError:
            continue
        return reduce(getattr, parts[at:], module)
    raise AssertionError(path)


def home(path: str) -> str:
    """The path under which a docstring is found: that of the module that defines the object."""
    target = found(path)
    target = target.fget if isinstance(target, property) else target
    return f"{target.__module__}.{target.__qualname__}"


def rows() -> dict[int, list[str]]:
    table = re.findall(r"^\| \((\d+)\) \|.*\| (.+) \|$", (REFERENCE / "equations.md").read_text(), re.M)
    return {int(number): LINK.findall(code) for number, code in table}


def test_every_equation_has_its_row():
    assert list(rows()) == list(range(1, NUM_EQUATIONS + 1))
    assert all(rows().values())


@pytest.mark.parametrize("number", rows())
def test_what_a_row_names_exists_and_names_the_equation(number):
    for path in rows()[number]:
        assert number in named(TEXTS[home(path)]), f"{path} does not name Eq. ({number})"


def test_every_docstring_that_names_an_equation_is_in_its_row():
    listed = {number: {home(path) for path in paths} for number, paths in rows().items()}
    missing = [(n, path) for path, text in TEXTS.items() for n in named(text) if path not in listed.get(n, ())]
    assert missing == []


def test_every_deviation_is_in_the_list_of_deviations():
    listed = {home(path) for path in LINK.findall((REFERENCE / "deviations.md").read_text())}
    assert listed == {path for path, text in TEXTS.items() if "Deviation:" in text}


def test_the_paper_has_so_many_numbered_equations():
    """One for each row of an `equation` or `align` that does not say that it has none."""
    paper = SHARED / "paper" / "lop_gpn_paper.tex"
    if not paper.is_file():
        pytest.skip("the paper is not here")
    bodies = re.findall(r"\\begin\{(equation|align)\}(.*?)\\end\{\1\}", paper.read_text(), re.S)
    rows_of = [body.split(r"\\") if kind == "align" else [body] for kind, body in bodies]
    assert sum(r"\nonumber" not in row for body in rows_of for row in body) == NUM_EQUATIONS
