"""Reading back what a sweep printed, and making one of its runs fail."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from lopgpn_exp.config.plan import RunPlan
from lopgpn_exp.sweeps import executors


def planned_runs(output: str) -> tuple[int, int, int]:
    """Return how many runs a sweep planned: in all, already done, and to do."""
    match = re.search(r"(\d+) runs?: (\d+) already done, (\d+) to do", output)
    assert match, output
    total, done, left = map(int, match.groups())
    return total, done, left


def before_each_run(patch: pytest.MonkeyPatch, action: Callable[[RunPlan], object]) -> None:
    """Call `action` with the plan of every run before it starts."""
    original = executors.run

    def run(plan: RunPlan) -> Any:
        action(plan)
        return original(plan)

    patch.setattr(executors, "run", run)
