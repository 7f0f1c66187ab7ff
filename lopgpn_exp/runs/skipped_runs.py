"""Read many run folders at once, and keep a record of those that are left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from lopgpn_exp.errors import InputError

MAX_NAMED = 10
T = TypeVar("T")


@dataclass
class SkippedRuns:
    """Run folders without a readable result.

    Args:
        damaged: errors by run id, of folders with a result that cannot be read.
        failed: ids of runs that ended with an error.
        unfinished: ids of all other runs without a result.
    """

    damaged: dict[str, InputError] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)

    def describe(self) -> str:
        """Return what is left out, why, and what to do about it; empty if nothing is."""
        lines = []
        if num_damaged := len(self.damaged):
            subject = "1 run is" if num_damaged == 1 else f"{num_damaged} runs are"
            whose = "its" if num_damaged == 1 else "their"
            lines.append(f"{subject} left out, because {whose} files cannot be read:")
            for run_id, error in list(self.damaged.items())[:MAX_NAMED]:
                lines += [f"  {run_id}: {error.what}", f"    try: {error.hint or 'remove its folder'}"]
            if num_damaged > MAX_NAMED:
                lines.append(f"  ... and {num_damaged - MAX_NAMED} more")
        counts = {"failed (see error.txt in their folders)": self.failed, "not finished": self.unfinished}
        if parts := [f"{len(run_ids)} {name}" for name, run_ids in counts.items() if run_ids]:
            lines.append(f"Runs without a result are left out: {', '.join(parts)}")
        return "\n".join(lines)


def read_folders(folders: Iterable[Path], read: Callable[[Path], T]) -> tuple[list[T], SkippedRuns]:
    """Return what `read` returns for each run folder, and the folders for which it raises an InputError."""
    values, skipped = [], SkippedRuns()
    for folder in folders:
        if not folder.is_dir():
            continue
        try:
            values.append(read(folder))
        except InputError as error:
            if (folder / "result.json").exists():
                skipped.damaged[folder.name] = error
            elif (folder / "error.txt").exists():
                skipped.failed.append(folder.name)
            else:
                skipped.unfinished.append(folder.name)
    return values, skipped
