"""Which runs a sweep has: axes, limits of datasets and models, and their grouping into jobs."""

from pathlib import Path

import pytest

from lopgpn_exp.config.plan import plan_run
from lopgpn_exp.records import Job
from lopgpn_exp.runs.execute import locate_run
from lopgpn_exp.sweeps.slurm import split_into_chunks
from lopgpn_exp.sweeps.sweep_plan import create_record, group_by_training, plan_runs, plan_sweep
from tests.support import TINY, compose
from tests.support.graph_files import write_ogb_files
from tests.support.sweeps import planned_runs


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ([], 10 * 4),
        (["inits=3"], 10 * 4 * 3),
        (["split.index=0,1"], 2 * 4),
        (["ood=none", "init=0,1,2,5"], 10 * 4),
        (["model=lop_gpn,gkde", "inits=2", "split.index=0"], 4 * 2 + 4),  # nothing in GKDE is random
        (["model=glob(gpn_*)", "split.index=0", "ood=none"], 3),
        (["split.count=3"], 3 * 4),
    ],
)
def test_sweep_is_the_papers_protocol_except_for_the_axes_that_are_given(command, words, count):
    code, out, err = command(*TINY, *words, "dry_run=true", "-m")
    assert code == 0, err
    assert planned_runs(out) == (count, 0, count)


def test_overrides_may_stand_on_both_sides_of_the_flag(command):
    code, out, _ = command(*TINY, "-m", "split.index=0,1", "dry_run=true")
    assert code == 0
    assert planned_runs(out)[0] == 8


def test_values_that_refer_to_the_split_or_the_init_follow_them(command, monkeypatch):
    configs = []
    monkeypatch.setattr("lopgpn_exp.sweeps.run_sweep.run_sweep", lambda given, execute: configs.extend(given) or [])
    axes = ["split=published", "split.index=0,2", "ood=bernoulli", "init=0,1", "model.published_init=${init}", "-m"]
    assert command(*TINY, *axes)[0] == 0
    values = [(config["ood"]["published_split"], config["model"]["published_init"]) for config in configs]
    assert sorted(values) == [(0, 0), (0, 1), (2, 0), (2, 1)]


def test_dataset_with_an_official_split_has_one_split(command, tmp_path, monkeypatch):
    write_ogb_files(tmp_path)
    monkeypatch.setenv("LOPGPN_DATA", str(tmp_path))
    code, out, _ = command("dataset=ogbn_arxiv", "ood=none", "tracking=none", "dry_run=true", "-m")
    assert code == 0
    assert planned_runs(out) == (1, 0, 1)


def test_wrong_value_of_a_launcher_is_one_message(command):
    code, _, err = command("hydra/launcher=slurm", "hydra.launcher.chunk=0", "tracking=none", "-m")
    assert code == 2
    assert "chunk is 0" in err
    assert "try:      hydra.launcher.chunk=20" in err
    assert "Traceback" not in err


def test_dry_run_writes_nothing(command, tmp_path):
    assert command(*TINY, "dry_run=true", "split.index=0,1", "-m")[0] == 0
    assert list(tmp_path.iterdir()) == []


def plan_tiny_sweep(*overrides_of_runs):
    plans, invalid = plan_runs([compose(*TINY, *overrides) for overrides in overrides_of_runs])
    assert not invalid
    return plan_sweep(plans)


def test_scenarios_that_share_a_training_are_one_group():
    scenarios = ["none", "leave_out_classes", "gaussian", "bernoulli"]
    jobs = plan_tiny_sweep(*([f"ood={scenario}"] for scenario in scenarios)).jobs
    groups = [[job.config["ood"]["name"] for job in group] for group in group_by_training(jobs)]
    assert groups == [["none", "gaussian", "bernoulli"], ["leave_out_classes"]]


def test_methods_with_a_common_part_are_one_group(tmp_path):
    """One worker trains the GCN, which the other one would only wait for."""
    models = ["gcn", "gcn_dropout", "gcn_ensemble", "appnp"]
    runs = [[f"model={model}", f"init={init}", f"output_dir={tmp_path}"] for model in models for init in (0, 1)]
    jobs = plan_tiny_sweep(*runs).jobs
    parts = {(job.model, job.config["init"]): job.parts for job in jobs}
    own = {(job.model, job.config["init"]): job.training_id for job in jobs}
    assert list(parts["gcn_dropout", 1]) == [own["gcn", 1]]
    assert len(parts["gcn_ensemble", 1]) == 10
    groups = [{(job.model, job.config["init"]) for job in group} for group in group_by_training(jobs)]
    assert {("gcn_ensemble", 1)} in groups  # initialisations 10 to 19
    shared = {("gcn_ensemble", 0), *((model, init) for model in ("gcn", "gcn_dropout") for init in (0, 1))}
    assert shared in groups
    assert len(groups) == 4
    (tmp_path / "trainings" / own["gcn", 1]).mkdir(parents=True)
    jobs = {(job.model, job.config["init"]): job for job in plan_tiny_sweep(*runs).jobs}
    assert jobs["gcn_dropout", 1].parts == {}  # done: nothing to wait for


def test_run_that_is_given_twice_is_one_job():
    assert len(plan_tiny_sweep([], ["trainer.progress=true"], ["init=1"]).jobs) == 2


def test_record_depends_on_the_runs_alone():
    first, second = (plan_tiny_sweep(*runs).jobs for runs in ([[], ["init=1"]], [["init=1"], []]))
    assert create_record(first).id == create_record(second).id != create_record(first[:1]).id
    assert create_record(first).run_ids == tuple(job.run_id for job in first)


def test_identities_of_a_sweep_are_those_of_single_runs():
    """Runs of a sweep share the graphs that they have in common; this must not change what is hashed."""
    overrides = [[f"ood={ood}", f"split.index={split}"] for split in (0, 1) for ood in ("none", "leave_out_classes")]
    jobs = plan_tiny_sweep(*overrides).jobs
    single_runs = [locate_run(plan_run(compose(*TINY, *words))) for words in overrides]
    assert [job.run_id for job in jobs] == [located.run_id for located in single_runs]
    assert [job.training_id for job in jobs] == [located.training_id for located in single_runs]


def test_chunks_of_array_tasks_hold_whole_groups():
    sizes = {"a": 3, "b": 2, "c": 4, "d": 1}
    groups = [[Job({}, "", "model", "dataset", f"{g}{i}", g, Path()) for i in range(n)] for g, n in sizes.items()]
    assert [[job.run_id for job in chunk] for chunk in split_into_chunks(groups, 5)] == [
        ["a0", "a1", "a2", "b0", "b1"],
        ["c0", "c1", "c2", "c3", "d0"],
    ]
    assert [len(chunk) for chunk in split_into_chunks(groups, 1)] == [3, 2, 4, 1]
    assert split_into_chunks([], 5) == []
