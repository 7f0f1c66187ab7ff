"""Notes on a reproduction that its runs do not contain: when they were executed, and how repeated ones compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Session:
    """One call of the command that executed runs.

    Args:
        runs: runs that finished.
        jobs: runs at once; `all` for one per core.
        planned: runs that were asked for, including those that had finished before. Earlier files have none.
    """

    seconds: float
    runs: int
    jobs: str
    planned: int | None = None
    cores: int | None = None

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Session:
        values = dict(content)
        if "of" in values:  # the key in earlier files
            values["planned"] = values.pop("of")
        return cls(**values)


@dataclass(frozen=True)
class Repeat:
    """How runs that two files contain compare.

    Args:
        runs: runs that were executed twice.
        same: those of them whose metrics are all identical to the bit.
        splits: the splits of the others.
        largest: largest difference of an accuracy or AUC-ROC among the others, in points.
    """

    runs: int
    same: int
    splits: Sequence[int]
    largest: float


@dataclass(frozen=True)
class Notes:
    """What the runs themselves do not tell.

    Args:
        numerics: their numerics version.
        left_out: datasets that could not be read or downloaded, with the reason.
        variants: overrides whose runs are reported besides the default ones.
        split_name: the config of the splits; earlier files have none, and random splits.
    """

    numerics: int
    left_out: Mapping[str, str] = field(default_factory=dict)
    variants: Sequence[str] = ()
    sessions: Sequence[Session] = ()
    repeats: Sequence[Repeat] = ()
    split_name: str = "random"

    @property
    def has_published_splits(self) -> bool:
        return self.split_name == "published"

    @classmethod
    def from_json(cls, content: Any) -> Notes:
        if not isinstance(content, dict) or not isinstance(content.get("numerics"), int):
            raise ValueError("there is no numerics version")
        sessions = content["sessions"] if "sessions" in content else content.get("stretches", [])  # the earlier key
        return cls(
            numerics=content["numerics"],
            left_out=content.get("left_out", {}),
            variants=content.get("variants", []),
            sessions=[Session.from_json(session) for session in sessions],
            repeats=[Repeat(**repeat) for repeat in content.get("repeats", [])],
            split_name=str(content.get("split_name", "random")),
        )

    def merge(self, other: Notes) -> Notes:
        """Return the notes of both, each entry once."""
        return Notes(
            numerics=self.numerics,
            left_out={**other.left_out, **self.left_out},
            variants=_union(self.variants, other.variants),
            sessions=_union(self.sessions, other.sessions),
            repeats=_union(self.repeats, other.repeats),
            split_name=self.split_name,
        )


def _union(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    return [*first, *(item for item in second if item not in first)]
