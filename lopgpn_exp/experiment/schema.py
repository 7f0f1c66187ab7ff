"""What a config must look like, checked before anything is loaded or trained."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import reduce
from importlib import import_module
from pathlib import Path
from traceback import extract_tb
from typing import Any, Literal, get_args, get_origin, get_type_hints

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING
from pydantic import ConfigDict, TypeAdapter, ValidationError

from lopgpn_exp.errors import InputError, nearest


class Stage(StrEnum):
    """When a scenario changes the graph."""

    none = "none"
    training = "training"
    evaluation = "evaluation"


@dataclass
class TrainerConfig:
    max_epochs: int = MISSING
    patience: int = MISSING
    validate_every: int = MISSING
    accelerator: str = MISSING
    threads: int = MISSING
    progress: bool = MISSING


@dataclass
class OptimizerConfig:
    """The options of `training.NodeClassification`, which it would take Lightning to ask for."""

    learning_rate: float
    weight_decay: float
    warmup_epochs: int


@dataclass
class TrackingConfig:
    enabled: bool = MISSING
    uri: str | None = None
    experiment: str = MISSING


@dataclass
class RunConfig:
    """The root. The four groups typed `Any` hold a `_target_`: its signature is their schema (see `call_options`)."""

    model: Any = MISSING
    dataset: Any = MISSING
    split: Any = MISSING
    ood: Any = MISSING
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    init: int = MISSING
    output_dir: str = MISSING
    data_root: str | None = None
    checkpoint: str | None = None
    force: bool = MISSING
    inits: int = MISSING
    dry_run: bool = MISSING


# What a node with a `_target_` may have besides its arguments: see `own_code`.
NO_OPTIONS = ("_target_", "code_version", "code_hash")


def register() -> None:
    ConfigStore.instance().store(name="schema", node=RunConfig)


def call_options(
    node: Mapping[str, Any], *, path: str, ours: tuple[str, ...] = (), given: tuple[str, ...] = ()
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The callable that `_target_` names and its checked keyword arguments.

    Args:
        path: where the node stands in the config, for messages.
        ours: keys of the node that are not arguments (`name`, for example).
        given: arguments that the framework passes itself, which a config must not set.
    """
    target = located(node["_target_"], path)
    accepted = _parameters(target)
    types = {key: parameter.annotation for key, parameter in accepted.items() if key not in given}
    options = {key: value for key, value in node.items() if key not in (*NO_OPTIONS, *ours)}
    options = checked_options(options, types, path=path, target=node["_target_"])
    required = {key for key, parameter in accepted.items() if parameter.default is inspect.Parameter.empty}
    if missing := sorted(required - set(options) - set(given)):
        raise InputError(
            f"{path}.{missing[0]} is not set",
            expected=f"a value: {node['_target_']} needs it",
            hint=f"+{path}.{missing[0]}=VALUE",
        )
    return target, options


def checked_options(options: Mapping[str, Any], types: Mapping[str, Any], *, path: str, target: str) -> dict[str, Any]:
    """`options` if each is one that `target` takes, and of its type."""
    found = {}
    for key, value in options.items():
        if key not in types:
            close = nearest(key, sorted(types))
            raise InputError(
                f"{path}.{key} is not an option of {target}",
                expected="one of " + ", ".join(sorted(types)),
                hint=f"{path}.{close}={value}" if close else "",
            )
        found[key] = checked(value, types[key], f"{path}.{key}")
    return found


def checked(value: Any, annotation: Any, path: str) -> Any:
    """`value` if it is of the annotated type; an int is a fine float, nothing else is converted."""
    if annotation in (inspect.Parameter.empty, Any):
        return value
    try:
        return TypeAdapter(annotation, config=ConfigDict(strict=True)).validate_python(value)
    except ValidationError:
        close = nearest(value, get_args(annotation)) if get_origin(annotation) is Literal else None
        raise InputError(
            f"{path} is {value!r}", expected=_readable(annotation), hint=f"{path}={close}" if close else ""
        ) from None


def check_keys(node: Any, schema: type, path: str) -> None:
    """Keys that nobody reads are a typo or a misunderstanding, also behind a `+`."""
    known = [field.name for field in fields(schema)]
    prefix = f"{path}." if path else ""
    if not isinstance(node, Mapping):
        raise InputError(f"{path} is {node!r}", expected="one of its files", hint=f"see conf/{path}")
    for key in node:
        if key not in known:
            close = nearest(key, known)
            raise InputError(
                f"there is no {prefix}{key}",
                expected="one of " + ", ".join(f"{prefix}{name}" for name in known),
                hint=f"{prefix}{close}=..." if close else "",
            )


def check_positive(values: Mapping[str, float], path: str) -> None:
    for name, value in values.items():
        if value < 1:
            raise InputError(f"{path}.{name} is {value}", expected="1 or more", hint=f"{path}.{name}=1")


def located(target: Any, path: str) -> Callable[..., Any]:
    """The class or function that the import path of a `_target_` names."""
    try:
        if callable(found := _imported(str(target))):
            return found
        reason, hint = f"a {type(found).__name__}", ""
    except Exception as error:  # whatever the user's own module raises
        reason, hint = f"{type(error).__name__}: {error}{_place(error)}", ""
        if isinstance(error, ModuleNotFoundError):
            hint = f"in the folder from which {error.name} can be imported, or after pip install -e of its package"
        elif isinstance(error, AttributeError) and inspect.ismodule(error.obj):
            close = nearest(str(error.name), vars(error.obj))
            hint = f"{path}._target_={error.obj.__name__}.{close}" if close else ""
    raise InputError(
        f"{path}._target_ names {target!r}, which cannot be imported or called ({reason})",
        expected="the import path of a class or function",
        hint=hint,
    ) from None


def _imported(target: str) -> Any:
    """What an import path names: something in a module, or an attribute of that."""
    module, _, rest = target.rpartition(".")
    attributes = [rest]
    while True:
        try:
            found = import_module(module)
            break
        except ModuleNotFoundError as error:
            outer, _, last = module.rpartition(".")
            if not outer or error.name != module:  # the module is there, and what it imports is not
                raise
            module, attributes = outer, [last, *attributes]
    return reduce(getattr, attributes, found)


def _place(error: Exception) -> str:
    """Where a user's own module raised it."""
    last = extract_tb(error.__traceback__)[-1]
    importing = last.filename == __file__ or "importlib" in last.filename
    return "" if importing else f", {Path(last.filename).name}, line {last.lineno}"


def _parameters(target: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Parameters that have a name, with resolved annotations; `**kwargs` of a constructor are its base class's."""
    constructors = [target]
    if inspect.isclass(target):
        constructors = [vars(cls)["__init__"] for cls in target.__mro__ if "__init__" in vars(cls)]
    found: dict[str, inspect.Parameter] = {}
    for constructor in constructors:
        parameters = list(inspect.signature(constructor).parameters.values())
        try:
            hints = get_type_hints(constructor)
        except NameError:  # what only a type checker imports: such a value is not checked
            hints = {parameter.name: Any for parameter in parameters}
        for parameter in parameters[1:] if inspect.isclass(target) else parameters:
            named = parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            if named and parameter.name not in found:
                found[parameter.name] = parameter.replace(annotation=hints.get(parameter.name, parameter.annotation))
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            break
    return found


def _readable(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return "one of " + ", ".join(map(str, get_args(annotation)))
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
    return words.get(annotation, str(annotation).replace("typing.", ""))
