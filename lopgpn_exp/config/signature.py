"""Config groups with a `_target_`: import the target, and check the options against its signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from traceback import extract_tb
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from lopgpn_exp.errors import InputError, nearest
from lopgpn_exp.targets import import_target

# Keys of every group with a `_target_` that are not options: see `code_hash`.
RESERVED_KEYS = ("_target_", "code_version", "code_hash")
MAX_INTEGER = 10**15 - 1  # exact as a float, and within 64 bits


def import_callable(target: Any, path: str) -> Callable[..., Any]:
    """Return the class or function that a `_target_` names.

    Args:
        path: where the group stands in the config, for messages.
    """
    hint = ""
    try:
        imported = import_target(str(target))
        if callable(imported):
            return imported
        reason = f"a {type(imported).__name__}"
    except Exception as error:  # a user's module may raise anything
        reason = f"{type(error).__name__}: {error}{_raised_at(error)}"
        if isinstance(error, ModuleNotFoundError):
            hint = f"start from the folder that contains {error.name}, or install its package: pip install -e ."
        elif isinstance(error, AttributeError) and inspect.ismodule(error.obj):
            close = nearest(str(error.name), vars(error.obj))
            hint = f"{path}._target_={error.obj.__name__}.{close}" if close else ""
    raise InputError(
        f"{path}._target_ is {target!r}, which cannot be imported or called ({reason})",
        expected="the import path of a class or function",
        hint=hint,
    ) from None


def check_model_class(model_class: Any, target: str) -> None:
    from lopgpn_exp.models import ClosedFormModel, CompositeModel, GradientModel  # deferred import: keeps --help fast

    kinds = (GradientModel, ClosedFormModel, CompositeModel)
    if not (inspect.isclass(model_class) and issubclass(model_class, kinds)):
        raise InputError(
            f"model._target_ is {target}, which is not a model",
            expected="a subclass of lopgpn_exp.models.GradientModel, ClosedFormModel or CompositeModel",
        )
    if abstract := sorted(model_class.__abstractmethods__):
        raise InputError(f"{target} does not implement {abstract[0]}", expected=f"all of {', '.join(abstract)}")


def call_options(
    node: Mapping[str, Any], *, path: str, extra_keys: tuple[str, ...] = (), injected: tuple[str, ...] = ()
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Return the callable that `_target_` names and its checked keyword arguments.

    Args:
        path: where the group stands in the config, for messages; empty for options that are not part of a config.
        extra_keys: keys of the group that are not arguments, such as `name`.
        injected: arguments that the framework passes itself, which a config must not set.
    """
    target = import_callable(node["_target_"], path)
    parameters = _parameters(target)
    types = {key: parameter.annotation for key, parameter in parameters.items() if key not in injected}
    options = {key: value for key, value in node.items() if key not in (*RESERVED_KEYS, *extra_keys)}
    options = check_options(options, types, path=path, target=node["_target_"])
    required = {key for key, parameter in parameters.items() if parameter.default is inspect.Parameter.empty}
    if missing := sorted(required - set(options) - set(injected)):
        key = _join(path, missing[0])
        raise InputError(
            f"{key} is not set",
            expected=f"a value, which {node['_target_']} requires",
            hint=f"+{key}=VALUE" if path else f"{key}=VALUE",
        )
    return target, options


def check_options(options: Mapping[str, Any], types: Mapping[str, Any], *, path: str, target: str) -> dict[str, Any]:
    """Return `options` after checking that `target` accepts each name and type."""
    checked = {}
    for key, value in options.items():
        if key not in types:
            close = nearest(key, sorted(types))
            raise InputError(
                f"{_join(path, key)} is not an option of {target}",
                expected="one of " + ", ".join(sorted(types)),
                hint=f"{_join(path, close)}={value}" if close else "",
            )
        checked[key] = check_value(value, types[key], _join(path, key))
    return checked


def check_value(value: Any, annotation: Any, path: str) -> Any:
    """Return `value` if it has the annotated type. An int passes for a float; nothing else is converted."""
    if annotation in (inspect.Parameter.empty, Any):
        return value
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise InputError(f"{path} is {value}", expected="a whole number of at most 15 digits")
    try:
        return TypeAdapter(annotation, config=ConfigDict(strict=True)).validate_python(value)
    except ValidationError:
        close = nearest(value, get_args(annotation)) if get_origin(annotation) is Literal else None
        raise InputError(
            f"{path} is {value!r}", expected=_describe(annotation), hint=f"{path}={close}" if close else ""
        ) from None


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _raised_at(error: Exception) -> str:
    """Return where a user's own module raised an error."""
    last = extract_tb(error.__traceback__)[-1]
    is_ours = "importlib" in last.filename or Path(last.filename).name == "targets.py"
    return "" if is_ours else f", {Path(last.filename).name}, line {last.lineno}"


def _parameters(target: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the named parameters with resolved annotations; `**kwargs` stand for the parameters of the base class."""
    constructors = [target]
    if inspect.isclass(target):
        constructors = [vars(cls)["__init__"] for cls in target.__mro__ if "__init__" in vars(cls)]
    result: dict[str, inspect.Parameter] = {}
    for constructor in constructors:
        try:
            parameters = list(inspect.signature(constructor).parameters.values())
        except ValueError as error:  # some functions that are built in
            raise InputError(str(error), expected="a class or function with named parameters") from None
        try:
            hints = get_type_hints(constructor)
        except (NameError, TypeError):  # imported for type checkers only, or no function: such values are not checked
            hints = {parameter.name: Any for parameter in parameters}
        for parameter in parameters[1:] if inspect.isclass(target) else parameters:
            is_named = parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            if is_named and parameter.name not in result:
                result[parameter.name] = parameter.replace(annotation=hints.get(parameter.name, parameter.annotation))
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            break
    return result


def _describe(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return "one of " + ", ".join(map(str, arguments))
    if origin in (Union, UnionType):
        return " or ".join(map(_describe, arguments))
    plurals = {int: "whole numbers", float: "numbers", str: "strings"}
    if origin in (list, Sequence) and arguments[0] in plurals:
        return f"a list of {plurals[arguments[0]]} in brackets"
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a string", NoneType: "null"}
    return names.get(annotation, str(annotation).replace("typing.", ""))
