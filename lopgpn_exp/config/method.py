"""Plan a method: a model with its optimiser, the trainings that it is made from, and its post-hoc steps."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any, get_args, get_type_hints

from lopgpn_exp.config.schema import OptimizerConfig, RunConfig
from lopgpn_exp.config.signature import call_options, check_model_class, check_options, import_callable
from lopgpn_exp.errors import InputError, nearest
from lopgpn_exp.measures import ROLES
from lopgpn_exp.seeds import seeded

POST_HOC_MODEL = "lopgpn_exp.posthoc.PostHocModel"
PART_KEYS = ("member", "teacher")  # of a model's config: the configs of other models
OPTIMIZERS = "torch.optim"  # the only module that optimisers come from: a stored config must not name other code


@dataclass(frozen=True)
class MethodPlan:
    """A checked model config.

    Args:
        target: import path of the class of the model.
        options: its options, without the numbers of features and classes.
        measures: the measures that it declares, by role.
        node: the config itself.
        parts: the trainings that it is made from. With n parts, initialisation i of the model has the initialisations
            n i to n i + n - 1 of its parts.
    """

    name: str
    target: str
    options: dict[str, Any]
    optimizer: OptimizerConfig
    measures: dict[str, str]
    node: dict[str, Any]
    parts: tuple[MethodPlan, ...] = field(default=())


@contextmanager
def config_hints(group: str) -> Iterator[None]:
    """Add to an error of the layers below how to set the parameter that it names: `model.teleport=0.1`.

    Args:
        group: the group that the parameter belongs to; empty if its name is complete.
    """
    try:
        yield
    except InputError as error:
        if error.hint or not error.parameter:
            raise
        is_root_key = any(field.name == error.parameter for field in fields(RunConfig))
        key = f"{group}.{error.parameter}" if group and not is_root_key else error.parameter
        value = "VALUE" if error.suggestion is None else error.suggestion
        raise error.with_hint(f"{key}={value}") from None


def plan_method(node: Mapping[str, Any], posthoc: Any = None, *, path: str = "model") -> MethodPlan:
    """Check the config of a model, and that of further post-hoc steps.

    Args:
        node: the group `model`. Its own steps are under `posthoc`, the models it is made from under `PART_KEYS`.
        posthoc: the group `posthoc`: steps by name, which follow those of the model.
        path: where the node stands in the config, for messages.
    """
    own_steps = _check_steps(node.get("posthoc"), f"{path}.posthoc")
    further_steps = _check_steps(posthoc, "posthoc")
    base = _plan_model(node, path)
    if duplicates := [name for name in further_steps if name in own_steps]:
        raise InputError(
            f"posthoc.{duplicates[0]} is a step that model={node['name']} already has",
            expected="another step, or other options of that step",
            hint=f"model.posthoc.{duplicates[0]}.OPTION=VALUE",
        )
    if not own_steps and not further_steps:
        return base
    options = {"base": {"_target_": base.target, **base.options}, "steps": {**own_steps, **further_steps}}
    with seeded(0), config_hints(path):
        import_callable(POST_HOC_MODEL, "posthoc")(num_features=1, num_classes=2, **options)
    return MethodPlan(base.name, POST_HOC_MODEL, options, OptimizerConfig(), base.measures, dict(node), (base,))


def _plan_model(node: Mapping[str, Any], path: str) -> MethodPlan:
    """Check the config of a model without its post-hoc steps."""
    model_class: Any = import_callable(node["_target_"], path)
    check_model_class(model_class, node["_target_"])
    parts = {key: _plan_part(node[key], f"{path}.{key}") for key in PART_KEYS if node.get(key) is not None}
    extra_keys = ("name", "inits", "optimizer", "posthoc", "measures", *PART_KEYS)
    build, options = call_options(
        node,
        path=path,
        extra_keys=extra_keys,
        injected=("num_features", "num_classes", *(key for key in parts if key == "member")),
    )
    if "member" in parts:
        if "member" not in inspect.signature(model_class).parameters:
            raise InputError(f"{path}.member is set", expected=f"no members: {node['_target_']} has none")
        options["member"] = {"_target_": parts["member"].target, **parts["member"].options}
    needs_teacher = getattr(model_class, "needs_teacher", False)
    if needs_teacher and "teacher" not in parts:
        raise InputError(
            f"{path}.teacher is not set",
            expected=f"the config of the model that {node['_target_']} learns from, as in conf/model",
        )
    if "teacher" in parts and not needs_teacher:
        raise InputError(f"{path}.teacher is set", expected=f"no teacher: {node['_target_']} does not learn from one")
    with seeded(0), config_hints(path):
        build(num_features=1, num_classes=2, **options)  # the constructor checks its values
    count = options.get("num_members", 1)
    trained = (parts["member"],) * count if "member" in parts else tuple(parts.values())
    optimizer = _plan_optimizer(node.get("optimizer", {}), f"{path}.optimizer", model_class)
    measures = _declared_measures(node, f"{path}.measures")
    kept = {key: value for key, value in node.items() if key != "posthoc"}
    name = str(node["name"])
    return MethodPlan(name, node["_target_"], options, optimizer, measures, kept, trained)


def _plan_part(node: Any, path: str) -> MethodPlan:
    if not isinstance(node, Mapping) or "_target_" not in node or "name" not in node:
        raise InputError(f"{path} is {node!r}", expected="the config of a model, as in conf/model")
    return plan_method(node, path=path)


def _declared_measures(node: Mapping[str, Any], path: str) -> dict[str, str]:
    """Return the measures that a model declares, by role."""
    declared = node.get("measures") or {}
    roles = ROLES[:3]  # a model declares no measure as "other"
    expected = f"the name of a measure for any of {', '.join(roles)}"
    if not isinstance(declared, Mapping):
        raise InputError(f"{path} is {declared!r}", expected=expected, hint=f"{path}.total=tu")
    for role, name in declared.items():
        if role not in roles or not isinstance(name, str | None):
            raise InputError(f"{path} has {role}: {name}", expected=expected)
    return {role: name for role, name in declared.items() if name is not None}


def _check_steps(nodes: Any, path: str) -> dict[str, dict[str, Any]]:
    """Return the checked options of post-hoc steps by name, each with its `_target_`."""
    from torch.nn import ModuleDict  # deferred imports: keep --help fast

    from lopgpn_exp.posthoc import PostHocStep

    if nodes is None:
        return {}
    if not isinstance(nodes, Mapping):
        raise InputError(f"{path} is {nodes!r}", expected="steps by name, each with a _target_, as in conf/posthoc")
    steps = {}
    for name, node in nodes.items():
        if node is None:  # a step that is switched off
            continue
        if not isinstance(node, Mapping) or "_target_" not in node:
            raise InputError(f"{path} has {name}: {node}", expected="steps by name, each with a _target_")
        if not str(name).isidentifier() or hasattr(ModuleDict, str(name)):  # it keeps the steps under their names
            raise InputError(f"{path} has a step named {name!r}", expected="another name, of letters, digits and _")
        step = import_callable(node["_target_"], f"{path}.{name}")
        if not (inspect.isclass(step) and issubclass(step, PostHocStep)):
            raise InputError(
                f"{path}.{name}._target_ is {node['_target_']}, which is not a post-hoc step",
                expected="a subclass of lopgpn_exp.posthoc.PostHocStep",
            )
        _, options = call_options(node, path=f"{path}.{name}")
        with config_hints(f"{path}.{name}"):
            step(**options)  # the constructor checks its values
        steps[str(name)] = {"_target_": node["_target_"], **options}
    return steps


def _plan_optimizer(node: Any, path: str, model_class: Any) -> OptimizerConfig:
    from lopgpn_exp.models import GradientModel  # deferred import: keeps --help fast

    if not isinstance(node, Mapping):
        raise InputError(f"{path} is {node!r}", expected="learning_rate, weight_decay and warmup_epochs")
    if node and not issubclass(model_class, GradientModel):
        raise InputError(
            f"{path}.{next(iter(node))} is set",
            expected=f"no optimizer: {model_class.__name__} is fitted in one step",
        )
    # None stands for a missing key and is not a valid value.
    hints = get_type_hints(OptimizerConfig)
    types = {key: get_args(hints[key])[0] for key in ("learning_rate", "weight_decay", "warmup_epochs")}
    own = {key: value for key, value in node.items() if key in types or "_target_" not in node}
    target = "lopgpn_exp.training.NodeClassification"
    options = check_options(own, types, path=path, target=target)
    for key, value in options.items():
        if not math.isfinite(value) or value < 0 or (key == "learning_rate" and value == 0):
            expected = "a positive number" if key == "learning_rate" else "0 or more"
            raise InputError(f"{path}.{key} is {value}", expected=expected)
    if "_target_" not in node:
        return OptimizerConfig(**options)
    further = {key: value for key, value in node.items() if key not in types}
    optimizer_options = _check_torch_optimizer(further, path)
    return OptimizerConfig(**options, optimizer=node["_target_"], optimizer_options=optimizer_options or None)


def _check_torch_optimizer(node: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return the options of an optimiser of torch after checking that it has them."""
    import torch  # deferred import: keeps --help fast

    # Without weight decay: Rprop, which would ignore ours, and LBFGS and SparseAdam, which train in another way.
    classes: dict[str, Any] = {name: value for name, value in vars(torch.optim).items() if inspect.isclass(value)}
    names = [name for name, value in classes.items() if "weight_decay" in inspect.signature(value).parameters]
    module, _, name = str(node["_target_"]).rpartition(".")
    if module != OPTIMIZERS or name not in names:
        close = nearest(name, names) or "Adam"
        raise InputError(
            f"{path}._target_ is {node['_target_']!r}",
            expected=f"an optimiser of {OPTIMIZERS} with weight decay",
            hint=f"{path}._target_={OPTIMIZERS}.{close}",
        )
    options = {key: value for key, value in node.items() if key != "_target_"}
    optimizer = classes[name]
    valid_keys = [key for key in inspect.signature(optimizer).parameters if key not in ("params", "lr", "weight_decay")]
    for key in options:
        if key not in valid_keys:
            raise InputError(
                f"{path}.{key} is not an option of {node['_target_']}",
                expected="one of learning_rate, weight_decay, warmup_epochs, " + ", ".join(valid_keys),
            )
    try:
        optimizer([torch.nn.Parameter(torch.zeros(1))], lr=1e-3, **options)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{node['_target_']} refuses its options ({str(error).splitlines()[0]})", expected="options that it accepts"
        ) from None
    return options
