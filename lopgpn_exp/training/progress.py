"""A line of progress on a terminal."""

from __future__ import annotations

import time

from tqdm import tqdm


class StatusLine:
    """A line of progress that is redrawn on a terminal, and not written to log files."""

    INTERVAL = 0.2  # seconds between redraws; redrawing more often takes longer than an epoch

    def __init__(self, *, title: str, enabled: bool) -> None:
        self.bar = tqdm(bar_format="{desc}", disable=None if enabled else True, leave=False)  # None: only on a terminal
        self.title = title
        self.last_drawn = 0.0

    @property
    def is_due(self) -> bool:
        return not self.bar.disable and time.perf_counter() - self.last_drawn >= self.INTERVAL

    def show(self, text: str) -> None:
        if self.is_due:
            self.last_drawn = time.perf_counter()
            self.bar.set_description_str(f"{self.title}  {text}")

    def close(self) -> None:
        self.bar.close()
