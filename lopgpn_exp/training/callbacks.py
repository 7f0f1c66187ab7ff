"""Stopping, the best state, and what the user sees meanwhile."""

from __future__ import annotations

import time
from copy import deepcopy

import pytorch_lightning as pl
from torch import Tensor
from tqdm import tqdm


class BestState(pl.Callback):
    """Stop after `patience` validations without improvement; restore the best state at the end.

    The state is kept in memory: a file at every improvement would cost more than the epoch.
    """

    def __init__(self, *, patience: int) -> None:
        self.patience = patience
        self.best = float("inf")
        self.best_epoch = -1
        self.since_best = 0
        self._state: dict[str, Tensor] | None = None

    def on_validation_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        if module.val_cross_entropy < self.best:
            self.best, self.best_epoch, self.since_best = module.val_cross_entropy, trainer.current_epoch, 0
            self._state = deepcopy(module.state_dict())
        else:
            self.since_best += 1
            trainer.should_stop = self.since_best >= self.patience

    def on_fit_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        if self._state is not None:
            module.load_state_dict(self._state)


class History(pl.Callback):
    """Training loss and validation cross-entropy as they went, thinned to what a chart can show."""

    MOST_POINTS = 200

    def __init__(self, *, first_epoch: int) -> None:
        self.first_epoch = first_epoch  # epochs of the warm-up count too
        self._series: dict[str, list[list[float]]] = {"training/loss": [], "training/val_nll": []}

    def on_train_epoch_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        self._add("training/loss", trainer, module.train_loss)

    def on_validation_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        self._add("training/val_nll", trainer, module.val_cross_entropy)

    def _add(self, name: str, trainer: pl.Trainer, value: float) -> None:
        self._series[name].append([self.first_epoch + trainer.current_epoch + 1, value])

    def thinned(self) -> dict[str, list[list[float]]]:
        """At most `MOST_POINTS` of each, evenly spaced; the first, the last and the lowest are always among them."""
        return {name: _thinned(points, self.MOST_POINTS) for name, points in self._series.items()}


def _thinned(points: list[list[float]], most: int) -> list[list[float]]:
    if len(points) <= most:
        return points
    last = len(points) - 1
    kept = {round(i * last / (most - 2)) for i in range(most - 1)}
    kept.add(min(range(len(points)), key=lambda i: points[i][1]))
    return [points[i] for i in sorted(kept)]


class StatusLine:
    """One line on a terminal, redrawn; nothing in a log file."""

    INTERVAL = 0.2  # seconds between redraws; more often costs more than an epoch

    def __init__(self, *, title: str, enabled: bool) -> None:
        # None: shown on a terminal only, so that logs stay clean.
        self.bar = tqdm(bar_format="{desc}", disable=None if enabled else True, leave=False)
        self.title = title
        self.drawn = 0.0

    @property
    def is_due(self) -> bool:
        return not self.bar.disable and time.perf_counter() - self.drawn >= self.INTERVAL

    def show(self, text: str) -> None:
        if self.is_due:
            self.drawn = time.perf_counter()
            self.bar.set_description_str(f"{self.title}  {text}")

    def close(self) -> None:
        self.bar.close()


class Progress(pl.Callback):
    """Epoch, loss, validation value, and when it stops at the latest if nothing improves."""

    def __init__(self, best: BestState, line: StatusLine) -> None:
        self.best, self.line = best, line
        self.started = time.perf_counter()

    def on_train_epoch_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        if not self.line.is_due:
            return
        epochs = trainer.current_epoch + 1
        left = self.best.patience - self.best.since_best
        each = (time.perf_counter() - self.started) / epochs
        seconds = left * (trainer.check_val_every_n_epoch or 1) * each
        self.line.show(
            f"epoch {epochs}  loss {module.train_loss:.4g}  "
            f"val CE {module.val_cross_entropy:.4f} (best {self.best.best:.4f} at {self.best.best_epoch + 1})  "
            f"patience {left}/{self.best.patience} = {seconds:.0f} s"
        )

    def on_fit_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        self.line.close()
