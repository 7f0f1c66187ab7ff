"""A sweep from its configs to its report: plan, run what is missing, track, show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from omegaconf import DictConfig

from lopgpn_exp.experiment.collect import load_curves, load_results
from lopgpn_exp.experiment.jobs import Attempt, Job
from lopgpn_exp.experiment.sweep import planned, shared_trainings, surveyed
from lopgpn_exp.experiment.tracking import Tracker
from lopgpn_exp.report.sweep import SweepBar, show_outcome, show_plan


def conduct(
    configs: Sequence[DictConfig],
    carry_out: Callable[[list[list[Job]]], Iterable[list[Attempt]]],
    settings: DictConfig,
) -> list[Attempt]:
    """Do what is left of a sweep and say what became of it.

    Args:
        configs: one a run.
        carry_out: does groups of jobs that share a training, and yields what became of them as they finish.
        settings: `output_dir`, `tracking` and `dry_run`, which all runs share.
    """
    output_dir = Path(settings.output_dir)
    plans, attempts = planned(configs)
    tracker = None
    if plans and settings.tracking.enabled and not settings.dry_run:
        tracker = Tracker(settings.tracking.uri, settings.tracking.experiment, output_dir)
    jobs, unreadable = surveyed(plans)
    attempts += unreadable
    todo = [job for job in jobs if not job.done]
    groups = shared_trainings(todo)
    show_plan(jobs, attempts, trainings=len(groups), history=load_results(output_dir))
    if settings.dry_run:
        return []
    if tracker:
        tracker.open_sweep([job.run_id for job in jobs], name=_sweep_name(jobs))
        for job in jobs:
            if job.done:
                tracker.add(job.folder, job.config, job.title)
    with SweepBar(len(todo)) as bar:
        for finished in carry_out(groups):
            attempts += finished
            bar.advance(finished)
            for each in finished if tracker else []:
                tracker.add_attempt(each)
    run_ids = {job.run_id for job in jobs}
    results = load_results(output_dir, run_ids=run_ids)
    if tracker:
        tracker.close_sweep(results, load_curves(output_dir, run_ids=run_ids))
    show_outcome(results, attempts, tracker.uri if tracker else None)
    return attempts


def _sweep_name(jobs: Sequence[Job]) -> str:
    models, datasets = (sorted({job.kind[i] for job in jobs}) for i in (0, 1))
    return f"sweep · {', '.join(models)} · {', '.join(datasets)} · {len(jobs)} runs"
