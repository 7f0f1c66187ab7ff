"""Records that are passed between packages and stored in files: run results, jobs, attempts and sweeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import TypeAdapter

SCHEMA = 1  # version of result.json
RUN_KEYS = ("model", "dataset", "scenario", "split", "init", "run_id")


def run_title(model: str, dataset: str, split: object, scenario: str) -> str:
    """Return the title of a run in logs and pages."""
    return f"{model} · {dataset} · split {split} · {scenario}"


@dataclass(frozen=True)
class RunResult:
    """What a run measured, as stored in its `result.json`.

    Args:
        metrics: values by path, such as `test/accuracy`.
        curves: accuracy-rejection curves by path (`arc/tu`), one value per percent rejected.
        history: points (epoch, value) of the training by path; empty for a model fitted in closed form.
        seconds: duration of the phases `load`, `prepare`, `train` and `evaluate`.
        training_id: identity of the training, which runs of several scenarios may share.
    """

    run_id: str
    model: str
    dataset: str
    split: int
    init: int
    scenario: str
    metrics: dict[str, float]
    curves: dict[str, list[float]]
    epochs: int
    seconds: dict[str, float]
    peak_rss_mb: float
    versions: dict[str, str]
    training_id: str
    history: dict[str, list[list[float]]] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return run_title(self.model, self.dataset, self.split, self.scenario)

    def to_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **asdict(self)}

    @classmethod
    def from_json(cls, content: Any) -> RunResult:
        """Parse the output of `to_json`.

        Raises:
            ValueError: if a field is missing or has the wrong type, or if the schema version differs.
        """
        from pydantic import ValidationError  # deferred import: keeps --help fast

        if not isinstance(content, dict):
            raise ValueError(f"a {type(content).__name__} instead of an object")
        if content.get("schema") != SCHEMA:
            raise ValueError(f"schema {content.get('schema')!r} instead of {SCHEMA}")
        values = {"training_id": content.get("run_id"), **content}  # older files have no training_id
        del values["schema"]
        try:
            return _result_adapter().validate_python(values)
        except ValidationError as error:
            first = error.errors()[0]
            raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None

    def to_row(self) -> dict[str, Any]:
        """Return the result as one flat table row: the run's keys, its metrics and its costs."""
        return (
            {key: getattr(self, key) for key in RUN_KEYS}
            | self.metrics
            | {"epochs": self.epochs, "peak_rss_mb": self.peak_rss_mb, "training_id": self.training_id}
            | {f"seconds/{phase}": value for phase, value in self.seconds.items()}
        )


@cache  # building it takes a hundred times as long as parsing a result
def _result_adapter() -> TypeAdapter[RunResult]:
    from pydantic import TypeAdapter  # deferred import: keeps --help fast

    return TypeAdapter(RunResult)


@dataclass(frozen=True)
class Job:
    """One run of a sweep, before it runs. Workers receive it, so it holds plain values only."""

    config: dict[str, Any]
    title: str
    model: str
    dataset: str
    run_id: str
    training_id: str
    folder: Path
    is_finished: bool = False


@dataclass(frozen=True)
class Attempt:
    """The outcome of a job: its result, or an error message with, for a bug, the traceback in `details`."""

    job: Job
    seconds: float
    error: str | None = None
    details: str | None = None
    result: RunResult | None = None

    @property
    def has_failed(self) -> bool:
        return self.error is not None


@dataclass(frozen=True)
class SweepRecord:
    """The runs of a sweep, as stored in its `sweep.json`. Starting the same runs again continues the same sweep.

    Args:
        labels: by run id, what distinguishes runs of the same model, such as `teleport 0.2`.
    """

    id: str
    name: str
    run_ids: tuple[str, ...]
    labels: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        return {"sweep": self.id, "name": self.name, "run_ids": list(self.run_ids), "labels": dict(self.labels)}

    @classmethod
    def from_json(cls, content: Any) -> SweepRecord:
        """Parse the output of `to_json`; raise a ValueError if it is something else."""
        try:
            labels = {str(run_id): str(label) for run_id, label in content.get("labels", {}).items()}
            return cls(str(content["sweep"]), str(content["name"]), tuple(map(str, content["run_ids"])), labels)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from None
