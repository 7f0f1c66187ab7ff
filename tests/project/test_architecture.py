"""Imports follow the order of the layers, frameworks stay at the edge, and module names are unique."""

import ast
from collections import Counter
from pathlib import Path

import pytest

import lopgpn_exp

PACKAGE = Path(lopgpn_exp.__file__).parent
# Each layer imports only layers before it, and modules of its own.
LAYERS = [
    *("errors", "seeds", "threads", "scratch", "targets", "records", "measures"),
    *("graph", "data", "posterior", "models", "posthoc", "training", "evaluation", "report"),
    *("config", "runs", "tracking", "sweeps", "advice", "paper", "benchmark", "api", "testing", "commands", "__main__"),
]
FORBIDDEN = {"evaluation": {"models", "training"}, "report": {"models", "training", "data"}}
FRAMEWORKS = {
    "pytorch_lightning": ["training/"],
    "hydra": ["config/", "sweeps/hydra_plugins.py", "paper/", "commands/"],
    "omegaconf": ["config/", "sweeps/hydra_plugins.py", "paper/", "benchmark/", "commands/run.py"],
    "mlflow": ["tracking/"],
}
FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def layer_of(file: str) -> str:
    return file.split("/")[0].removesuffix(".py")


def imported_modules(file: str) -> set[str]:
    """Absolute names of everything that a file imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse((PACKAGE / file).read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} has a relative import"
            names |= {str(node.module)} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_every_module_belongs_to_a_layer():
    assert {layer_of(file) for file in FILES} - {"__init__"} == set(LAYERS)


@pytest.mark.parametrize("file", [file for file in FILES if file != "__init__.py"])
def test_a_layer_imports_only_layers_before_it(file):
    layer = layer_of(file)
    imported = {name.split(".")[1] for name in imported_modules(file) if name.startswith("lopgpn_exp.")} & set(LAYERS)
    allowed = set(LAYERS[: LAYERS.index(layer) + 1]) - FORBIDDEN.get(layer, set())
    assert imported <= allowed, f"{file} imports {imported - allowed}"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_framework_is_imported_only_at_the_edge(framework):
    users = [file for file in FILES if framework in {name.split(".")[0] for name in imported_modules(file)}]
    assert users, f"{framework} is not used"
    assert [file for file in users if not file.startswith(tuple(FRAMEWORKS[framework]))] == []


def test_module_names_are_unique():
    counts = Counter(Path(file).stem for file in FILES if not file.endswith(("__init__.py", "__main__.py")))
    assert [name for name, count in counts.items() if count > 1] == []


def test_every_package_documents_itself():
    for file in FILES:
        if file.endswith("__init__.py"):
            docstring = ast.get_docstring(ast.parse((PACKAGE / file).read_text())) or ""
            assert len(docstring) > 20, f"{file} does not say what the package is for"
