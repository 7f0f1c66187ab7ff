"""The pages of equations and deviations agree with the docstrings, and cover every numbered equation of the paper."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import lopgpn_exp
from lopgpn_exp.targets import import_target
from tests.support import ROOT, SHARED

PACKAGE = Path(lopgpn_exp.__file__).parent
REFERENCE = ROOT / "docs" / "reference"
NUM_EQUATIONS = 15
LINK = re.compile(r"\]\[(lopgpn_exp\.[\w.]+)\]")


def equation_numbers(docstring: str) -> set[int]:
    """Return the numbers after `Paper: Eq.`, such as 9 and 10 in `Paper: Eq. (9), (10); Stadler et al. (2021)`."""
    lists = re.findall(r"Paper:\s+Eq\.((?:,?\s+\(\d+\))+)", docstring)
    return {int(number) for text in lists for number in re.findall(r"\d+", text)}


def read_docstrings() -> Iterator[tuple[str, str]]:
    """Yield the import path and the docstring of every module, class and function."""
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(("lopgpn_exp", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
        yield from _read_docstrings(ast.parse(path.read_text()), module)


def _read_docstrings(node: ast.AST, path: str) -> Iterator[tuple[str, str]]:
    yield path, ast.get_docstring(node) or ""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef):
            yield from _read_docstrings(child, f"{path}.{child.name}")


DOCSTRINGS = dict(read_docstrings())


def definition_path(path: str) -> str:
    """Return the path of an object in the module that defines it."""
    target = import_target(path)
    target = target.fget if isinstance(target, property) else target
    return f"{target.__module__}.{target.__qualname__}"


def read_rows() -> dict[int, list[str]]:
    """Return the import paths in each row of the table of equations."""
    rows = re.findall(r"^\| \((\d+)\) \|.*\| (.+) \|$", (REFERENCE / "equations.md").read_text(), re.M)
    return {int(number): LINK.findall(code) for number, code in rows}


ROWS = read_rows()


def test_every_equation_has_a_row():
    assert list(ROWS) == list(range(1, NUM_EQUATIONS + 1))
    assert all(ROWS.values())


@pytest.mark.parametrize("number", ROWS)
def test_the_code_of_a_row_exists_and_its_docstring_names_the_equation(number):
    for path in ROWS[number]:
        assert number in equation_numbers(DOCSTRINGS[definition_path(path)]), f"{path} does not name Eq. ({number})"


def test_every_docstring_that_names_an_equation_is_in_its_row():
    listed = {number: {definition_path(path) for path in paths} for number, paths in ROWS.items()}
    missing = [
        (number, path)
        for path, docstring in DOCSTRINGS.items()
        for number in equation_numbers(docstring)
        if path not in listed.get(number, ())
    ]
    assert missing == []


def test_every_deviation_in_a_docstring_is_on_the_page_of_deviations():
    listed = {definition_path(path) for path in LINK.findall((REFERENCE / "deviations.md").read_text())}
    assert listed == {path for path, docstring in DOCSTRINGS.items() if "Deviation:" in docstring}


def test_the_number_of_equations_is_that_of_the_paper():
    """Every row of an `equation` or `align` has a number unless it says `nonumber`."""
    paper = SHARED / "paper" / "lop_gpn_paper.tex"
    if not paper.is_file():
        pytest.skip("the source of the paper is not available")
    bodies = re.findall(r"\\begin\{(equation|align)\}(.*?)\\end\{\1\}", paper.read_text(), re.S)
    rows = [row for kind, body in bodies for row in (body.split(r"\\") if kind == "align" else [body])]
    assert sum(r"\nonumber" not in row for row in rows) == NUM_EQUATIONS
