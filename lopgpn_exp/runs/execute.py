"""Run a plan: load the data, train or reuse a training, evaluate, and write the run folder."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from lopgpn_exp.config.plan import RunGraphs, RunPlan, config_hints
from lopgpn_exp.config.schema import Stage
from lopgpn_exp.errors import InputError, nearest
from lopgpn_exp.evaluation.evaluate import Evaluation, evaluate, select_test_nodes
from lopgpn_exp.evaluation.shift import evaluate_shift
from lopgpn_exp.graph import Graph
from lopgpn_exp.records import RunResult
from lopgpn_exp.runs.identity import run_id, training_id
from lopgpn_exp.runs.machine import peak_rss_mb, reset_peak_rss, versions
from lopgpn_exp.runs.run_folder import find_damage, is_complete, read_result, write_run
from lopgpn_exp.runs.storage import clean_output_dir, lock
from lopgpn_exp.runs.training_cache import Training, get_or_train
from lopgpn_exp.seeds import seeded
from lopgpn_exp.targets import import_target
from lopgpn_exp.threads import limit_threads

if TYPE_CHECKING:  # a finished run is shown without Lightning
    from lopgpn_exp.models import Model
    from lopgpn_exp.posterior import Posterior
    from lopgpn_exp.training import FitResult

log = logging.getLogger(__name__)

PHASES = ("load", "prepare", "train", "evaluate")


@dataclass(frozen=True)
class RunOutcome:
    """A finished run: its folder, its result, and whether it was finished already."""

    folder: Path
    result: RunResult
    is_cached: bool


@dataclass(frozen=True)
class LocatedRun:
    """A plan whose data has been read, so that the identity of its run is known.

    Args:
        seconds: how long loading took.
    """

    plan: RunPlan
    graphs: RunGraphs
    training_id: str
    run_id: str
    seconds: float

    @property
    def folder(self) -> Path:
        return self.plan.output_dir / "runs" / self.run_id

    @property
    def is_finished(self) -> bool:
        return is_complete(self.folder)


def locate_run(plan: RunPlan) -> LocatedRun:
    """Read the data of a plan and compute the identity of its run."""
    start = time.perf_counter()
    graphs = plan.load_graphs()
    with config_hints("model"):
        _check_features(plan, graphs.clean)
        training = training_id(plan, graphs.training)
    return LocatedRun(plan, graphs, training, run_id(plan, training), time.perf_counter() - start)


def _check_features(plan: RunPlan, graph: Graph) -> None:
    """Raise an InputError if the model needs features and the data has none."""
    if graph.missing_features is not None and import_target(plan.model_class).uses_features:
        raise InputError(
            f"{plan.dataset} has no features here, and model={plan.model} needs them",
            expected=f"the file {graph.missing_features}, or a model that uses no features: gkde or matern_ggp",
            hint="model=gkde",
        )


def run(plan: RunPlan, *, on_located: Callable[[], object] | None = None) -> RunOutcome:
    """Run a plan, or return its result if it is finished already.

    A second process that needs the same run waits until it is finished, and returns its result.

    Args:
        on_located: called after the data is read and checked, before anything is trained.
    """
    with limit_threads(plan.trainer.threads):
        clean_output_dir(plan.output_dir)
        located = locate_run(plan)
        if on_located is not None:
            on_located()
        damage = None
        if not plan.force and (located.folder / "result.json").is_file():
            damage = find_damage(located.folder)
            if damage is None:
                return RunOutcome(located.folder, read_result(located.folder), is_cached=True)
            log.warning("%s: making the run again", damage)
        with config_hints("model"), lock(plan.output_dir, located.run_id):
            if damage is None and not plan.force and located.is_finished:  # by another process, in the meantime
                return RunOutcome(located.folder, read_result(located.folder), is_cached=True)
            return RunOutcome(located.folder, _execute(located), is_cached=False)


def fit_model(
    plan: RunPlan,
    graph: Graph,
    *,
    cache_dir: Path | None = None,
    checkpoint_path: Path | None = None,
    parts: Sequence[Model] | None = None,
) -> FitResult:
    """Fit the planned model to a graph. Nothing is written unless a path is given.

    Args:
        parts: the trained parts of a composite model; by default they are trained now.
    """
    from lopgpn_exp.training import fit  # deferred import: a finished run is shown without Lightning

    check_composite(plan, graph)
    if parts is None:
        parts = [fit_model(part, graph, cache_dir=cache_dir).module.model.eval() for part in plan.parts]
    return fit(
        graph,
        model_class=plan.model_class,
        model_options=_complete_options(plan, graph),
        parts=tuple(parts),
        optimizer=plan.optimizer.options(),
        seed=plan.seed,
        title=plan.title,
        cache_dir=cache_dir,
        checkpoint_path=checkpoint_path,
        **{key: value for key, value in asdict(plan.trainer).items() if key != "threads"},
    )


def _complete_options(plan: RunPlan, graph: Graph) -> dict[str, Any]:
    return {**plan.model_options, "num_features": graph.num_features, "num_classes": graph.num_classes}


def check_composite(plan: RunPlan, graph: Graph) -> None:
    """Raise an InputError if a composite model cannot be fitted to a graph, before its parts are trained."""
    from lopgpn_exp.models import CompositeModel  # deferred import: a finished run is shown without it

    model_class = import_target(plan.model_class)
    if issubclass(model_class, CompositeModel):
        with seeded(0), config_hints(""):
            model_class(**_complete_options(plan, graph)).check_graph(graph)


def _execute(located: LocatedRun) -> RunResult:
    """Train, evaluate and write a run."""
    plan, graphs = located.plan, located.graphs
    select_test_nodes(graphs.training)  # a split without test nodes is refused before training
    graphs.evaluation  # noqa: B018  (a scenario with wrong options too)
    check_composite(plan, graphs.training)
    reset_peak_rss()
    training = _train(located)
    start = time.perf_counter()
    evaluation, predict_cpu = _evaluate(located, training)
    seconds = {"load": located.seconds, **training.seconds, "evaluate": time.perf_counter() - start}
    result = RunResult(
        run_id=located.run_id,
        model=plan.model,
        dataset=plan.dataset,
        split=plan.split,
        init=plan.init,
        scenario=plan.scenario,
        metrics=evaluation.metrics,
        curves=evaluation.curves,
        epochs=training.epochs,
        history=training.history,
        seconds=_round({phase: seconds[phase] for phase in PHASES}),
        peak_rss_mb=max(peak_rss_mb(), training.peak_rss_mb),
        versions=versions(),
        training_id=located.training_id,
        cpu_seconds=_round({"train": training.cpu_seconds, "predict": predict_cpu}),
    )
    write_run(
        located.folder,
        result=result,
        evaluation=evaluation,
        config=_add_data_hash(plan.config, graphs.clean),
        checkpoint=training.checkpoint,
        graph=graphs.evaluation,
        cache_dir=plan.cache_dir,
    )
    return result


def _round(seconds: Mapping[str, float | None]) -> dict[str, float]:
    return {phase: round(value, 4) for phase, value in seconds.items() if value is not None}


def _evaluate(located: LocatedRun, training: Training) -> tuple[Evaluation, float]:
    """Return the evaluation, and the processor time of the prediction."""
    plan, graph = located.plan, located.graphs.evaluation
    model = _get_model(plan, training, located.graphs.training)
    start = time.process_time()
    model = model.for_graph(graph, seed=plan.seed, cache_dir=plan.cache_dir)
    posterior = model.predict(graph, cache_dir=plan.cache_dir)
    cpu_seconds = time.process_time() - start
    _check_measures(plan, posterior)
    evaluation = evaluate(posterior, graph)
    budget = plan.scenario_options.get("budget")
    if budget is not None:
        shift = evaluate_shift(located.graphs.clean, graph, evaluation.predictions, budget)
        return replace(evaluation, metrics=evaluation.metrics | shift), cpu_seconds
    if plan.stage is not Stage.none and "ood/accuracy" not in evaluation.metrics:
        raise InputError(
            f"the scenario {plan.scenario} made no test node out-of-distribution",
            expected="at least one",
            hint="a larger fraction, or more test nodes",
        )
    return evaluation, cpu_seconds


def _check_measures(plan: RunPlan, posterior: Posterior) -> None:
    """Raise an InputError if the model declares a measure that its posterior does not have.

    A further post-hoc step may replace the posterior: flags then use what its posterior has.
    """
    if any((plan.config.get("posthoc") or {}).values()):
        return
    for role, name in plan.measures.items():
        if name not in posterior.measures:
            raise InputError(
                f"model.measures.{role} is {name!r}, which the posterior does not have",
                expected="one of " + ", ".join(posterior.measures),
                hint=f"model.measures.{role}={nearest(name, posterior.measures) or 'null'}",
            )


def _add_data_hash(config: dict[str, Any], graph: Graph) -> dict[str, Any]:
    """Add a hash of the content of a user's own file to a config, so that tables separate versions of the file."""
    if graph.legend is None:
        return config
    content = graph.replace(part=torch.zeros_like(graph.part)).fingerprint[:12]
    return config | {"dataset": {**config["dataset"], "data_hash": content}}


def _train(located: LocatedRun) -> Training:
    plan = located.plan
    if plan.checkpoint is not None:
        return Training(plan.checkpoint, epochs=0, seconds={"prepare": 0.0, "train": 0.0}, peak_rss_mb=0.0)

    # force=true on an evaluation scenario evaluates again, on the training that it shares with the clean run.
    force = plan.force and plan.stage is not Stage.evaluation
    return _get_training(plan, located.graphs.training, located.training_id, force=force)


def _get_training(plan: RunPlan, graph: Graph, identity: str, *, force: bool = False) -> Training:
    """Return the training of a plan, from the cache or by training it and the parts that it is made from."""

    def train(checkpoint: Path) -> Training:
        parts = [_get_training(part, graph, training_id(part, graph)) for part in plan.parts]
        models = [_get_model(part, training, graph) for part, training in zip(plan.parts, parts, strict=True)]
        fit = fit_model(plan, graph, cache_dir=plan.cache_dir, checkpoint_path=checkpoint, parts=models)
        return Training(
            checkpoint,
            epochs=fit.epochs + sum(part.epochs for part in parts),
            seconds={key: value + sum(part.seconds[key] for part in parts) for key, value in fit.seconds.items()},
            peak_rss_mb=max(peak_rss_mb(), *(part.peak_rss_mb for part in parts), 0.0),
            history=parts[0].history if len(parts) == 1 and not fit.history else fit.history,
            cpu_seconds=_sum_if_known([fit.cpu_seconds, *(part.cpu_seconds for part in parts)]),
            model=fit.module.model.eval(),
        )

    return get_or_train(plan.output_dir, identity, train, force=force)


def _sum_if_known(values: Sequence[float | None]) -> float | None:
    return None if None in values else sum(value for value in values if value is not None)


def _get_model(plan: RunPlan, training: Training, graph: Graph) -> Model:
    from lopgpn_exp.runs.checkpoint import load_model  # deferred import: needs Lightning

    return load_model(training.checkpoint, plan, graph) if training.model is None else training.model
