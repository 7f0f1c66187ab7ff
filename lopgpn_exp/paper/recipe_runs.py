"""Evaluate runs of the reproduction by their recipes, several at once.

A recipe takes a model (trained or not), a graph and a seed, and gives a posterior whose measures are those of the
published numbers. Recipes reuse the trainings of the default runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from tqdm import tqdm

from lopgpn_exp.config.plan import plan_run
from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation.evaluate import evaluate
from lopgpn_exp.graph import Graph, Part
from lopgpn_exp.models import Model
from lopgpn_exp.paper import ReproductionOptions
from lopgpn_exp.paper.published_measures import DrawnDirichlet, TextbookDirichlet, draw_expected_entropy
from lopgpn_exp.paper.published_networks import build_untrained
from lopgpn_exp.paper.recipes import Recipe, find_recipe, load_recipes
from lopgpn_exp.paper.run_selection import compose_runs
from lopgpn_exp.paper.runs_file import BLOCK, StoredRuns
from lopgpn_exp.posterior import Posterior
from lopgpn_exp.records import RunResult
from lopgpn_exp.runs.checkpoint import load_model
from lopgpn_exp.runs.execute import locate_run
from lopgpn_exp.runs.storage import atomic_folder, read_json, write_json
from lopgpn_exp.seeds import derive_seed
from lopgpn_exp.sweeps.sweep_plan import dataset_cache
from lopgpn_exp.threads import limit_cores, limit_threads

VERSION_SUFFIX = "-v1"  # of the id of an evaluation; its number increases when a recipe gives other numbers


def predict_by_recipe(recipe: Recipe, model: Model, graph: Graph, *, seed: int) -> Posterior:
    """Return the posterior of every node, with measures as published."""
    posterior: Any = model.predict(graph)
    if recipe.measures == "definition":
        return posterior
    if recipe.measures == "float32":
        return TextbookDirichlet(posterior.alpha)
    test = graph.nodes(Part.TEST)  # draws take time, and only those of test nodes are evaluated
    expected_entropy = torch.zeros(graph.num_nodes)
    expected_entropy[test] = draw_expected_entropy(
        posterior.alpha[test], num_draws=recipe.num_draws, generator=np.random.default_rng(seed)
    )
    return DrawnDirichlet(
        posterior.alpha,
        expected_entropy=expected_entropy,
        entropy_of=posterior.feature_based if recipe.entropy == "features" else None,
    )


def evaluate_recipe(config: Mapping[str, Any]) -> RunResult | None:
    """Evaluate the run of a config by its recipe, or return the stored result; None if it has not been trained."""
    plan = plan_run(config)
    recipe = find_recipe(dataset=plan.dataset, model=plan.model, scenario=plan.scenario)
    if recipe is None:
        raise ValueError(f"there is no recipe for {plan.title}")
    try:
        located = locate_run(dataset_cache.share(plan))
    except InputError:  # data without features, which was reported when the runs were planned
        return None
    folder = plan.output_dir / "recipes" / f"{located.run_id}{VERSION_SUFFIX}"
    if (stored := _read_result(folder)) is not None:
        return stored
    checkpoint = located.folder / "model.ckpt"
    if recipe.network == "trained" and not checkpoint.is_file():
        return None
    if recipe.network == "trained":
        model = load_model(checkpoint, plan, located.graphs.training)
    else:
        model = build_untrained(plan, located.graphs)
    graph, seed = located.graphs.evaluation, derive_seed("recipe", plan.split, plan.init)
    result = RunResult(
        run_id=folder.name,
        model=plan.model,
        dataset=plan.dataset,
        split=plan.split,
        init=plan.init,
        scenario=plan.scenario,
        metrics=evaluate(predict_by_recipe(recipe, model, graph, seed=seed), graph).metrics,
        curves={},
        epochs=0,
        seconds=dict.fromkeys(("load", "prepare", "train", "evaluate"), 0.0),
        peak_rss_mb=0.0,
        versions={},
        training_id=located.training_id,
    )
    with atomic_folder(folder) as temporary:
        write_json(temporary / "result.json", result.to_json())
    return result


def run_recipes(
    options: ReproductionOptions, *, stored: StoredRuns | None = None, recipes: tuple[Recipe, ...] | None = None
) -> dict[str, list[RunResult]]:
    """Evaluate by recipe what the options ask for, and return the results by variant.

    Results are kept in the output folder, so an interrupted evaluation continues where it was stopped.

    Args:
        stored: runs whose evaluations are not made again.
        recipes: all by default.
    """
    tasks = _plan_tasks(options, load_recipes() if recipes is None else recipes, stored)
    parallel = Parallel(n_jobs=options.num_workers, return_as="generator")
    evaluated = parallel(delayed(_evaluate)(config) for _, config in tasks)
    results: dict[str, list[RunResult]] = defaultdict(list)
    for (recipe, _), result in tqdm(
        zip(tasks, evaluated, strict=True), total=len(tasks), desc="recipes", unit="run", disable=None
    ):
        if result is not None:
            results[recipe.variant].append(result)
    return dict(results)


def _plan_tasks(
    options: ReproductionOptions, recipes: tuple[Recipe, ...], stored: StoredRuns | None
) -> list[tuple[Recipe, dict[str, Any]]]:
    """Return recipes with the configs of the runs that they apply to."""
    keys = [*BLOCK, "split", "init"]
    stored_keys: set[tuple[Any, ...]] = set()
    if stored is not None:
        current = stored.results[stored.results["run_id"].str.endswith(VERSION_SUFFIX)]
        stored_keys = set(current[["variant", *keys]].itertuples(index=False, name=None))
    tasks = []
    for recipe in recipes:
        configs = compose_runs(
            models=_select(options.models, recipe.cells, "model"),
            datasets=_select(options.datasets, recipe.cells, "dataset"),
            splits=options.splits,
            inits=recipe.inits or options.inits,
            split_name=options.split_name,
            settings=[f"output_dir={options.output_dir}"],
        )
        for config in configs:
            block = {key: config[key]["name"] for key in ("dataset", "model")} | {"scenario": config["ood"]["name"]}
            key = (recipe.variant, *block.values(), config["split"]["index"], config["init"])
            if find_recipe(**block) is recipe and key not in stored_keys:
                tasks.append((recipe, config))
    return tasks


def _select(names: tuple[str, ...], cells: Mapping[str, tuple[str, ...]], key: str) -> list[str]:
    return [name for name in names if name in cells.get(key, names)]


def _evaluate(config: Mapping[str, Any]) -> RunResult | None:
    with limit_cores(1), limit_threads(1):  # other workers use the other cores
        return evaluate_recipe(config)


def _read_result(folder: Path) -> RunResult | None:
    try:
        return RunResult.from_json(read_json(folder / "result.json"))
    except (OSError, ValueError):  # there is none, or it is damaged: it is made again
        return None
