"""Trainings start longest first, and the results do not depend on the order."""

import heapq
from dataclasses import replace
from pathlib import Path

import pytest

from lopgpn_exp.records import Job
from lopgpn_exp.runs.run_folder import read_result
from lopgpn_exp.sweeps.executors import execute_serially
from lopgpn_exp.sweeps.run_sweep import run_sweep
from lopgpn_exp.sweeps.training_order import estimate_trainings, mean_training_seconds, order_by_cost
from tests.support import TINY, compose
from tests.support.report_data import example_run


def make_group(model: str, dataset: str, *, split: int = 0, size: int = 100) -> list[Job]:
    name = f"{model}-{dataset}-{split}"
    return [Job({}, name, model, dataset, name, name, Path("runs"), graph_size=size)]


def names(groups: list[list[Job]]) -> list[str]:
    return [group[0].run_id for group in groups]


def makespan(groups: list[list[Job]], seconds: dict[tuple[str, str], float], *, num_workers: int = 2) -> float:
    """Return when the last worker stops if each takes the next group as soon as it is idle."""
    workers = [0.0] * num_workers
    for group in groups:
        heapq.heapreplace(workers, workers[0] + seconds[group[0].model, group[0].dataset])
    return max(workers)


def test_longest_training_starts_first_and_no_worker_waits_for_it():
    seconds = {("gkde", "own"): 1.0, ("gpn_sym", "own"): 2.0, ("appnp", "own"): 6.0}
    groups = [make_group(model, "own") for model, _ in seconds] + [
        make_group("gkde", "own", split=i) for i in (1, 2, 3)
    ]
    ordered = order_by_cost(groups, seconds)
    assert names(ordered)[:3] == ["appnp-own-0", "gpn_sym-own-0", "gkde-own-0"]
    assert makespan(ordered, seconds) == 6.0  # 6 and 2 + 4 x 1: both workers are busy to the end
    assert makespan(groups, seconds) == 7.0  # as given, the longest starts after a second


def test_datasets_follow_one_another_by_their_longest_training():
    seconds = {("a", "small"): 3.0, ("b", "small"): 1.0, ("a", "large"): 9.0, ("b", "large"): 2.0}
    groups = [make_group(model, dataset) for model, dataset in seconds]
    assert names(order_by_cost(groups, seconds)) == ["a-large-0", "b-large-0", "a-small-0", "b-small-0"]


def test_without_past_runs_the_larger_graph_comes_first_and_models_stay_in_order():
    groups = [make_group(model, data, size=size) for data, size in (("x", 5), ("y", 7)) for model in ("b", "a")]
    assert names(order_by_cost(groups, {})) == ["b-y-0", "a-y-0", "b-x-0", "a-x-0"]
    assert names(order_by_cost(groups, {("b", "y"): 100.0}))[:2] == ["a-y-0", "b-y-0"]  # unknown before known


def test_one_training_of_each_kind_comes_before_the_others():
    groups = [make_group(model, "own", split=split) for model in ("a", "b") for split in (0, 1, 2)]
    expected = ["b-own-0", "a-own-0", "b-own-1", "b-own-2", "a-own-1", "a-own-2"]
    assert names(order_by_cost(groups, {("a", "own"): 1.0, ("b", "own"): 2.0})) == expected


def test_part_that_several_methods_share_counts_once():
    """Past durations of a composite model include its parts."""
    composite = [
        Job({}, name, name, "own", name, name, Path("runs"), parts=parts)
        for name, parts in (("dropout", {"g0": "gcn"}), ("ensemble", {"g0": "gcn", "g1": "gcn"}), ("mine", {}))
    ]
    gcn = Job({}, "gcn", "gcn", "own", "gcn", "g0", Path("runs"))
    past = {("gcn", "own"): 10.0, ("dropout", "own"): 11.0, ("ensemble", "own"): 19.5}
    expected = {"g0": 10.0, "g1": 10.0, "dropout": 1.0, "ensemble": 0.0, "mine": None}
    assert estimate_trainings([*composite, gcn], past) == expected
    assert estimate_trainings([gcn, *composite], past) == expected
    groups = [[composite[0], gcn], [Job({}, "a", "appnp", "own", "a", "a", Path("runs"))]]
    assert order_by_cost(groups, {**past, ("appnp", "own"): 10.5})[0] is groups[0]  # 10 + 1, not 10 + 11
    assert order_by_cost(groups, {**past, ("appnp", "own"): 11.5})[0] is groups[1]


def test_past_trainings_are_averaged_by_model_and_dataset():
    result = example_run("none").result
    kind = (result.model, result.dataset)
    faster, incomplete = replace(result, seconds={"train": 1.0}), replace(result, seconds={})
    mean = (result.seconds["train"] + 1.0) / 2
    assert mean_training_seconds([result, faster, incomplete]) == {kind: pytest.approx(mean)}
    assert mean_training_seconds([]) == {}


def test_results_do_not_depend_on_the_order(tmp_path):
    overrides = [["ood=none"], ["ood=leave_out_classes"], ["ood=gaussian"]]
    metrics = []
    for order in (list, lambda groups: list(reversed(groups))):
        started = []

        def execute(groups, order=order, started=started):
            started += names(order(groups))
            return execute_serially(order(groups))

        output_dir = tmp_path / str(len(metrics))
        attempts = run_sweep(
            [compose(*TINY, "model=appnp", *words, f"output_dir={output_dir}") for words in overrides], execute
        )
        assert not any(attempt.has_failed for attempt in attempts)
        metrics.append({folder.name: read_result(folder).metrics for folder in (output_dir / "runs").iterdir()})
        metrics[-1]["order"] = started
    assert metrics[0].pop("order") == metrics[1].pop("order")[::-1]
    assert len(metrics[0]) == 3
    assert metrics[0] == metrics[1]
