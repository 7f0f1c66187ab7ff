"""A hash of the user's own code, so that results of an earlier version of the code are not reused."""

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

from lopgpn_exp.config.signature import import_callable

PACKAGE = "lopgpn_exp"
MODEL_KEYS = ("model", "member", "teacher")  # keys that hold the config of a model, with its optimizer
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def add_code_hash(node: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return a config group with the `code_hash` of its `_target_`, unless that is ours or has a `code_version`.

    Args:
        path: where the group stands in the config, for messages.
    """
    result = {key: value for key, value in node.items() if key != "code_hash"}
    if result["_target_"] is None or result.get("code_version") is not None:
        return result
    digest = code_hash(import_callable(result["_target_"], path), result["_target_"])
    return result if digest is None else {**result, "code_hash": digest}


def add_code_hashes(node: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return a config group with the code hashes of its `_target_` and of nested ones, such as post-hoc steps."""
    nested = {
        key: add_code_hashes(value, f"{path}.{key}")
        for key, value in node.items()
        if isinstance(value, Mapping) and not is_optimizer(path, key)
    }
    own = add_code_hash(node, path) if node.get("_target_") else node
    return {**own, **nested}


def is_optimizer(path: str, key: str) -> bool:
    """Return whether a key of the node at `path` is the optimizer of a model, which can only be a class of torch.

    A post-hoc step may have the name `optimizer` too, and can be any code.
    """
    return key == "optimizer" and path.rpartition(".")[2] in MODEL_KEYS


@cache  # an imported module stays the same, even if its file changes while a sweep runs
def code_hash(imported: Callable[..., Any], target: str) -> str | None:
    """Return a hash of the code behind an import path, or None for our own code, which NUMERICS_VERSION covers.

    It covers the module that defines the target (for a class, also those of its bases) and all modules that these
    import, if they belong to the same package or are not installed libraries. Comments, docstrings and layout do not
    count. Modules imported by a computed name and files that the code reads are not covered.
    """
    classes = imported.__mro__ if isinstance(imported, type) else (imported,)
    defining_modules = [getattr(cls, "__module__", target.rpartition(".")[0]) for cls in classes]
    packages = {_top_package(defining_modules[0])}
    pending = [name for name in defining_modules if _is_user_module(name, packages)]
    modules: dict[str, str] = {}
    while pending:
        name = pending.pop()
        if name not in modules:
            modules[name], imports = _read_module(name)
            pending += [module for module in imports if _is_user_module(module, packages)]
    if not modules:
        return None
    content = repr([target, sorted(modules.items())])
    return hashlib.blake2b(content.encode(), digest_size=6).hexdigest()


def _is_user_module(name: str, packages: set[str]) -> bool:
    """Return whether a module exists and is neither ours nor a library's."""
    top = _top_package(name)
    if top == PACKAGE:
        return False
    return (top in packages or not _is_library(top)) and (spec := _find_spec(name)) is not None and spec.has_location


def _is_library(top: str) -> bool:
    spec = _find_spec(top)
    if spec is None or not (spec.has_location or spec.submodule_search_locations):
        return True  # missing, or built in
    place = Path(spec.origin or next(iter(spec.submodule_search_locations or [])))
    is_installed = bool({"site-packages", "dist-packages"} & set(place.parts))
    return is_installed or place.is_relative_to(sysconfig.get_path("stdlib"))


def _find_spec(name: str) -> ModuleSpec | None:
    """Find a module without importing it or its packages."""
    parent, _, _ = name.rpartition(".")
    places = None
    if parent:
        package = _find_spec(parent)
        if package is None or package.submodule_search_locations is None:
            return None
        places = list(package.submodule_search_locations)
    specs = (finder.find_spec(name, places) for finder in sys.meta_path)
    return next((spec for spec in specs if spec is not None), None)


def _read_module(name: str) -> tuple[str, list[str]]:
    """Return the syntax of a module, and the names of what it may import."""
    spec = _find_spec(name)
    assert spec is not None
    content = Path(str(spec.origin)).read_bytes()
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):  # compiled, for example: its content counts, its imports are unknown
        return hashlib.blake2b(content).hexdigest(), []
    package = name if spec.submodule_search_locations is not None else name.rpartition(".")[0]
    return repr(_simplify(tree)), [part for module in _imports(tree, package) for part in _with_parents(module)]


def _imports(tree: ast.Module, package: str) -> Iterator[str]:
    """Yield absolute names; for `from a import b` also `a.b`, which may be a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _with_parents(name: str) -> Iterator[str]:
    """Yield `a`, `a.b` and `a.b.c` for `a.b.c`, since importing it runs the code of all three."""
    parts = name.split(".")
    yield from (".".join(parts[: i + 1]) for i in range(len(parts)))


def _simplify(node: Any) -> Any:
    """Return a syntax tree as nested lists, without docstrings and without empty fields, which newer Pythons add."""
    if isinstance(node, list):
        return [_simplify(item) for item in node]
    if not isinstance(node, ast.AST):
        return node
    fields = dict(ast.iter_fields(node))
    if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
        fields["body"] = node.body[1:]
    return [type(node).__name__, *([key, _simplify(value)] for key, value in fields.items() if value not in (None, []))]


def _top_package(name: str) -> str:
    return name.partition(".")[0]
