"""Trials of methods within a given time, without any training."""

import signal
import time
from pathlib import Path

import pytest

from lopgpn_exp.advice import trials as module
from lopgpn_exp.advice.candidates import CANDIDATES, Candidate, select_candidates
from lopgpn_exp.advice.trials import Trial, run_trials
from lopgpn_exp.config import default_config_dir
from lopgpn_exp.records import Attempt, Job, RunResult


def make_trial(candidate: Candidate, half: int = 0, *, is_finished: bool = False) -> Trial:
    name = f"{candidate.name}-{half}"
    job = Job({}, name, candidate.name, "advice", name, name, Path(name), is_finished)
    return Trial(candidate, half, job, "tu")


@pytest.fixture
def attempts(monkeypatch):
    """Replace runs by ones that are over at once and say that they took `seconds`; returns the ids of those made."""
    made = []

    def attempt(job: Job) -> Attempt:
        made.append(job.run_id)
        seconds = {"train": 40.0 if job.model == "slow" else 1.0}
        keys = (job.run_id, job.model, job.dataset, 0, 0, "none")
        return Attempt(job, 0.0, result=RunResult(*keys, {}, {}, 1, seconds, 0.0, {}, "t"))

    monkeypatch.setattr(module, "attempt_job", attempt)
    return made


def run(trials: list[Trial], seconds: float) -> list[str]:
    outcomes = list(run_trials(trials, deadline=time.monotonic() + seconds))
    return [outcome.trial.job.run_id for outcome in outcomes if outcome.attempt is None]


def test_a_trial_that_would_not_fit_is_skipped(attempts):
    slow, fast = Candidate("slow", ""), Candidate("fast", "")
    ensemble = Candidate("ensemble", "", trainings_of=("fast", 50))
    trials = [make_trial(candidate, half) for half in (0, 1) for candidate in (slow, fast)]
    assert run([*trials, make_trial(ensemble)], seconds=20) == ["slow-1", "ensemble-0"]
    assert attempts == ["slow-0", "fast-0", "fast-1"]


def test_finished_runs_are_read_after_the_deadline(attempts):
    slow = Candidate("slow", "")
    assert run([make_trial(slow, is_finished=True), make_trial(slow, 1)], seconds=-1) == ["slow-1"]
    assert attempts == ["slow-0"]


def test_a_training_is_stopped_at_the_deadline_and_not_recorded_as_failed(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("lopgpn_exp.sweeps.executors.plan_run", lambda config: time.sleep(30))
    start, handler = time.monotonic(), signal.getsignal(signal.SIGALRM)
    assert run([make_trial(Candidate("slow", ""))], seconds=0.1) == ["slow-0"]
    assert time.monotonic() - start < 5
    assert not Path("slow-0").exists()  # a failed run would have left an error.txt
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is handler


def test_the_list_of_methods_is_valid_and_ordered():
    names = [candidate.name for candidate in CANDIDATES]
    assert set(names) <= {path.stem for path in (default_config_dir() / "model").glob("*.yaml")}
    assert [candidate.name for candidate in CANDIDATES if not candidate.uses_edges] == ["mlp"]
    assert all(len(candidate.reason) > 20 for candidate in CANDIDATES)
    chosen = select_candidates(["gkde", "gcn", "mlp", "gkde"])
    assert [candidate.name for candidate in chosen] == ["mlp", "gcn", "gkde"]
    assert chosen[0] is CANDIDATES[0]
