"""Data walks through the house in one direction, and frameworks stay at its edge."""

import ast
from pathlib import Path

import pytest

import lopgpn_exp

PACKAGE = Path(lopgpn_exp.__file__).parent
ROOMS = ["graph", "data", "posterior", "models", "training", "evaluation", "report", "experiment", "testing"]
# What a room may import of the rooms before it is everything, except:
NOT_IN = {"evaluation": {"models", "training"}, "report": {"models", "training", "data"}}
FRAMEWORKS = {
    "pytorch_lightning": ["training/", "experiment/"],
    "hydra": ["cli.py", "tune.py", "experiment/", "testing/__main__.py"],
    "omegaconf": ["cli.py", "experiment/"],
    "mlflow": ["experiment/tracking/"],
}
FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def imports(file: str) -> set[str]:
    """Absolute names of all modules that a file imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse((PACKAGE / file).read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} has a relative import"
            names.add(node.module)
    return names


@pytest.mark.parametrize("file", [file for file in FILES if file.split("/")[0] in ROOMS])
def test_a_room_knows_only_the_rooms_before_it(file):
    room = file.split("/")[0]
    known = {name.split(".")[1] for name in imports(file) if name.startswith("lopgpn_exp.")} & set(ROOMS)
    allowed = set(ROOMS[: ROOMS.index(room) + 1]) - NOT_IN.get(room, set())
    assert known <= allowed, f"{file} imports {known - allowed}"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_framework_stays_where_it_belongs(framework):
    users = [file for file in FILES if framework in {name.split(".")[0] for name in imports(file)}]
    assert users, f"nobody uses {framework}"
    assert [file for file in users if not file.startswith(tuple(FRAMEWORKS[framework]))] == []
