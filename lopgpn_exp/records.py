"""Records that are passed between packages and stored in files: run results, jobs, attempts and sweeps."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

if TYPE_CHECKING:
    from pydantic import TypeAdapter

SCHEMA = 2  # version of result.json; since 2, its folder has checksums
READABLE_SCHEMAS = (1, SCHEMA)
RUN_KEYS = ("model", "dataset", "scenario", "split", "init", "run_id")
NAME = re.compile(r"\w[\w.-]*")  # of runs, models, datasets and scenarios: a file name without special characters
METRIC = re.compile(r"\w+(/[\w.-]+)+")  # of metrics and curves; with a slash, unlike the other columns of a table
MAX_METRIC_LENGTH, MAX_EPOCH = 250, 2**53  # of MLflow, and of whole numbers that are exact as floats


def run_title(model: str, dataset: str, split: object, scenario: str) -> str:
    """Return the title of a run in logs and pages."""
    return f"{model} · {dataset} · split {split} · {scenario}"


@dataclass(frozen=True)
class RunResult:
    """What a run measured, as stored in its `result.json`.

    Args:
        metrics: values by path, such as `test/accuracy`.
        curves: values by path: accuracy-rejection curves (`arc/tu`), one value per percent rejected, and, if there are
            prediction sets, their coverage and size (`sets/size`), one value per nominal coverage (`sets/nominal`).
        history: points (epoch, value) of the training by path; empty for a model fitted in closed form.
        seconds: duration of the phases `load`, `prepare`, `train` and `evaluate`.
        training_id: identity of the training, which runs of several scenarios may share.
        cpu_seconds: processor time of `train`, with its preparation and the parts of a composite model, and of
            `predict`: one prediction of all nodes. Unlike `seconds`, it hardly depends on what else the machine does.
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
    cpu_seconds: dict[str, float] = field(default_factory=dict)

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
        if not isinstance(content, dict):
            raise ValueError(f"a {type(content).__name__} instead of an object")
        if content.get("schema") not in READABLE_SCHEMAS:
            raise ValueError(f"schema {content.get('schema')!r} instead of {SCHEMA}")
        older: dict[str, Any] = {"training_id": content.get("run_id"), "history": {}, "cpu_seconds": {}}  # have none
        values = {**older, **content}
        result = cls(**check_fields(values, cls))
        result._check_values()
        return result

    def _check_values(self) -> None:
        """Raise a ValueError about a name that is not one, an incomplete point, or a number that is not finite."""
        for key in ("run_id", "model", "dataset", "scenario", "training_id"):
            if not NAME.fullmatch(getattr(self, key)):
                raise ValueError(f"{key} is {getattr(self, key)[:80]!r}")
        for key in chain(
            self.metrics,
            self.curves,
            self.history,
            (f"seconds/{phase}" for phase in (*self.seconds, *self.cpu_seconds)),
        ):
            if not METRIC.fullmatch(key) or len(key) > MAX_METRIC_LENGTH:
                raise ValueError(f"a metric is named {key[:80]!r}")
        if any(len(point) != 2 or abs(point[0]) > MAX_EPOCH for point in chain.from_iterable(self.history.values())):
            raise ValueError("a point of the history is not an epoch and a value")
        if not all(map(math.isfinite, self._numbers())):
            raise ValueError("a number is not finite")

    def _numbers(self) -> Iterator[float]:
        points = chain.from_iterable(self.history.values())
        costs = chain(self.seconds.values(), self.cpu_seconds.values(), [self.peak_rss_mb])
        return chain(self.metrics.values(), *self.curves.values(), costs, *points)

    def to_row(self) -> dict[str, Any]:
        """Return the result as one flat table row: the run's keys, its metrics and its costs."""
        return (
            {key: getattr(self, key) for key in RUN_KEYS}
            | self.metrics
            | {"epochs": self.epochs, "peak_rss_mb": self.peak_rss_mb, "training_id": self.training_id}
            | {f"seconds/{phase}": value for phase, value in self.seconds.items()}
            | {f"cpu_seconds/{phase}": value for phase, value in self.cpu_seconds.items()}
        )


def check_fields(content: Any, record: type) -> dict[str, Any]:
    """Return the fields of a record from parsed JSON; raise a ValueError if one is missing or has the wrong type."""
    from pydantic import ValidationError  # deferred import: keeps --help fast

    try:
        return _adapter(record).validate_python(content)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


@cache  # building it takes a hundred times as long as parsing a result
def _adapter(record: type) -> TypeAdapter[dict[str, Any]]:
    """Return a validator of the annotated fields of a class, which converts nothing."""
    from pydantic import ConfigDict, TypeAdapter, with_config  # deferred import: keeps --help fast
    from typing_extensions import TypedDict

    fields: Any = TypedDict("fields", get_type_hints(record))  # type: ignore[misc]
    strict: Any = with_config(ConfigDict(strict=True, extra="ignore"))(fields)
    return TypeAdapter(strict)


@dataclass(frozen=True)
class Job:
    """One run of a sweep, before it runs. Workers receive it, so it holds plain values only.

    Args:
        graph_size: nodes and edges of the graph that is trained on; 0 if it is not known.
        parts: the other trainings that it needs and that are not done, such as the members of an ensemble. Maps the
            identity of each to the name of its model.
    """

    config: dict[str, Any]
    title: str
    model: str
    dataset: str
    run_id: str
    training_id: str
    folder: Path
    is_finished: bool = False
    graph_size: int = 0
    parts: Mapping[str, str] = field(default_factory=dict)


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
            record = cls(str(content["sweep"]), str(content["name"]), tuple(map(str, content["run_ids"])), labels)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from None
        if wrong := [name for name in (record.id, *record.run_ids) if not NAME.fullmatch(name)]:
            raise ValueError(f"{wrong[0][:80]!r} is not the id of a run or a sweep")
        return record
