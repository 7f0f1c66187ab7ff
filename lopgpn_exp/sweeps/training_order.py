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


def order_by_cost(groups: Sequence[list[Job]], past_seconds: Mapping[tuple[str, str], float]) -> list[list[Job]]:
    """Return groups of jobs that share a training in the order in which to start them.

    - Longest first, so that no worker waits long for the last one. A kind of training, a model on a dataset, without
      past runs comes before the others, and the larger graph first.
    - Dataset by dataset, so that a worker seldom reads another one.
    - One of each kind before all others: it fills the caches that the others share, and shows early what fails.

    Args:
        past_seconds: mean of past trainings by model and dataset.
    """

    def cost(group: list[Job]) -> tuple[bool, float]:
        seconds = past_seconds.get((group[0].model, group[0].dataset))
        return (True, group[0].graph_size) if seconds is None else (False, seconds)

    longest: dict[str, tuple[bool, float]] = {}
    for group in groups:
        dataset = group[0].dataset
        longest[dataset] = max(cost(group), longest.get(dataset, cost(group)))
    ordered = sorted(groups, key=lambda group: (longest[group[0].dataset], group[0].dataset, cost(group)), reverse=True)
    first = {(group[0].model, group[0].dataset): group for group in reversed(ordered)}
    return sorted(ordered, key=lambda group: group is not first[group[0].model, group[0].dataset])
