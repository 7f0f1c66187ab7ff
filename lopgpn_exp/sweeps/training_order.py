"""The order in which a sweep starts its trainings, by what they are expected to cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from lopgpn_exp.records import Job, RunResult


def mean_training_seconds(results: Iterable[RunResult]) -> dict[tuple[str, str], float]:
    """Return the mean duration of finished trainings by model and dataset."""
    seconds = defaultdict(list)
    for result in results:
        if "train" in result.seconds:  # always, unless another program wrote the file
            seconds[result.model, result.dataset].append(result.seconds["train"])
    return {kind: fmean(values) for kind, values in seconds.items()}


def estimate_trainings(jobs: Iterable[Job], past_seconds: Mapping[tuple[str, str], float]) -> dict[str, float | None]:
    """Return how long each training that some jobs need will take, by its identity; None if it cannot be estimated.

    Past durations of a composite model include its parts, each of which is trained only once for all jobs.

    Args:
        past_seconds: mean of past trainings by model and dataset.
    """
    estimates: dict[str, float | None] = {}
    for job in jobs:
        parts = {identity: past_seconds.get((model, job.dataset)) for identity, model in job.parts.items()}
        total = past_seconds.get((job.model, job.dataset))
        own = None if total is None else max(0.0, total - sum(seconds or 0.0 for seconds in parts.values()))
        for identity, seconds in {job.training_id: own, **parts}.items():
            estimates.setdefault(identity, seconds)
    return estimates


def order_by_cost(groups: Sequence[list[Job]], past_seconds: Mapping[tuple[str, str], float]) -> list[list[Job]]:
    """Return groups of jobs that share trainings in the order in which to start them.

    - Longest first, so that no worker waits long for the last one. A kind of training, a model on a dataset, without
      past runs comes before the others, and the larger graph first.
    - Dataset by dataset, so that a worker seldom reads another one.
    - One of each kind before all others: it fills the caches that the others share, and shows early what fails.

    Args:
        past_seconds: mean of past trainings by model and dataset.
    """

    def cost(group: list[Job]) -> tuple[bool, float]:
        seconds = [value for value in estimate_trainings(group, past_seconds).values() if value is not None]
        is_unknown = any((job.model, job.dataset) not in past_seconds for job in group)
        return (True, group[0].graph_size) if is_unknown else (False, sum(seconds))

    def kind(group: list[Job]) -> tuple[str, ...]:
        return (group[0].dataset, *sorted({job.model for job in group}))

    longest: dict[str, tuple[bool, float]] = {}
    for group in groups:
        dataset = group[0].dataset
        longest[dataset] = max(cost(group), longest.get(dataset, cost(group)))
    ordered = sorted(groups, key=lambda group: (longest[group[0].dataset], group[0].dataset, cost(group)), reverse=True)
    first = {kind(group): group for group in reversed(ordered)}
    return sorted(ordered, key=lambda group: group is not first[kind(group)])
