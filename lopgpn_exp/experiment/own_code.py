"""What a user's own code is, as a hash: so that a run of yesterday's code never passes for one of today's."""

from __future__ import annotations

import ast
import hashlib
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

from lopgpn_exp.experiment.schema import located

OURS = "lopgpn_exp"
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def with_code(node: Mapping[str, Any], path: str) -> dict[str, Any]:
    """A node of a config with the `code_hash` of its `_target_`, unless that is ours or has a `code_version`.

    Args:
        path: where the node stands in the config, for messages.
    """
    found = {key: value for key, value in node.items() if key != "code_hash"}
    if found["_target_"] is None or found.get("code_version") is not None:
        return found
    digest = code_hash(located(found["_target_"], path), found["_target_"])
    return found if digest is None else {**found, "code_hash": digest}


@cache  # what was imported stays what it was, whatever becomes of the file while a sweep goes on
def code_hash(found: Callable[..., Any], target: str) -> str | None:
    """A hash of the code of what an import path names; None if it is ours, for which the numerics version stands.

    It is of the module that defines the target (of a class also those of its bases), and of all modules that these
    import, anywhere in them: of the same package, or outside the installed libraries. Comments, docstrings and layout
    do not count. What is not seen: modules imported by a computed name, and files that the code reads.
    """
    classes = found.__mro__ if isinstance(found, type) else (found,)
    defined_in = [getattr(each, "__module__", target.rpartition(".")[0]) for each in classes]
    packages = {_top(defined_in[0])}
    todo = [name for name in defined_in if _is_own(name, packages)]
    modules: dict[str, str] = {}
    while todo:
        name = todo.pop()
        if name not in modules:
            modules[name], imported = _read(name)
            todo += [each for each in imported if _is_own(each, packages)]
    if not modules:
        return None
    content = repr([target, sorted(modules.items())])
    return hashlib.blake2b(content.encode(), digest_size=6).hexdigest()


def _is_own(name: str, packages: set[str]) -> bool:
    """Whether a module exists and is neither ours nor a library's."""
    top = _top(name)
    if top == OURS:
        return False
    return (top in packages or not _is_library(top)) and (spec := _spec(name)) is not None and spec.has_location


def _is_library(top: str) -> bool:
    spec = _spec(top)
    if spec is None or not (spec.has_location or spec.submodule_search_locations):
        return True  # not there, or built in
    place = Path(spec.origin or next(iter(spec.submodule_search_locations or [])))
    installed = {"site-packages", "dist-packages"} & set(place.parts)
    return bool(installed) or place.is_relative_to(sysconfig.get_path("stdlib"))


def _spec(name: str) -> ModuleSpec | None:
    """Where a module is, found without importing it or its packages."""
    parent, _, _ = name.rpartition(".")
    places = None
    if parent:
        package = _spec(parent)
        if package is None or package.submodule_search_locations is None:
            return None
        places = list(package.submodule_search_locations)
    specs = (finder.find_spec(name, places) for finder in sys.meta_path)
    return next((spec for spec in specs if spec is not None), None)


def _read(name: str) -> tuple[str, list[str]]:
    """The syntax of a module, and the names of what it may import."""
    spec = _spec(name)
    assert spec is not None
    path = Path(str(spec.origin))
    content = path.read_bytes()
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):  # compiled, for example: it can be told from another, but not looked into
        return hashlib.blake2b(content).hexdigest(), []
    package = name if spec.submodule_search_locations is not None else name.rpartition(".")[0]
    return repr(_syntax(tree)), [name for found in _imported(tree, package) for name in _with_packages(found)]


def _imported(tree: ast.Module, package: str) -> Iterator[str]:
    """Absolute names; of `from a import b`, a.b too, which is a module or something in one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _with_packages(name: str) -> Iterator[str]:
    """`a.b.c` runs the code of a and a.b too."""
    parts = name.split(".")
    yield from (".".join(parts[: i + 1]) for i in range(len(parts)))


def _syntax(node: Any) -> Any:
    """A syntax tree as nested lists, without docstrings, and without fields that are empty: newer Pythons have more."""
    if isinstance(node, list):
        return [_syntax(each) for each in node]
    if not isinstance(node, ast.AST):
        return node
    fields = dict(ast.iter_fields(node))
    if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
        fields["body"] = node.body[1:]
    return [type(node).__name__, *([key, _syntax(each)] for key, each in fields.items() if each not in (None, []))]


def _top(name: str) -> str:
    return name.partition(".")[0]
