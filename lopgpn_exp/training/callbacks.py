"""Early stopping, the training history, and the progress line."""

from __future__ import annotations

import time
from copy import deepcopy

import pytorch_lightning as pl
from torch import Tensor
from tqdm import tqdm

from lopgpn_exp.training.module import NodeClassification


class BestState(pl.Callback):
    """Stops after `patience` validations without improvement and restores the best state at the end.

    The state is kept in memory: writing a file at every improvement would take longer than an epoch.
    """

    def __init__(self, *, patience: int) -> None:
        self.patience = patience
        self.best = float("inf")
        self.best_epoch = -1
        self.since_best = 0
        self._state: dict[str, Tensor] | None = None

    def on_validation_end(self, trainer: pl.Trainer, module: NodeClassification) -> None:  # type: ignore[override]
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
    """Records training loss and validation cross-entropy per epoch."""

    MAX_POINTS = 200

    def __init__(self, *, first_epoch: int) -> None:
        self.first_epoch = first_epoch  # number of warm-up epochs, which count
        self._series: dict[str, list[list[float]]] = {"training/loss": [], "training/val_nll": []}

    def on_train_epoch_end(self, trainer: pl.Trainer, module: NodeClassification) -> None:  # type: ignore[override]
        self._add("training/loss", trainer, module.train_loss)

    def on_validation_end(self, trainer: pl.Trainer, module: NodeClassification) -> None:  # type: ignore[override]
        self._add("training/val_nll", trainer, module.val_cross_entropy)

    def _add(self, name: str, trainer: pl.Trainer, value: float) -> None:
        self._series[name].append([self.first_epoch + trainer.current_epoch + 1, value])

    def points(self) -> dict[str, list[list[float]]]:
        """Return at most `MAX_POINTS` points (epoch, value) per series, including the first, last and lowest."""
        return {name: _thin(points, self.MAX_POINTS) for name, points in self._series.items()}


def _thin(points: list[list[float]], max_points: int) -> list[list[float]]:
    if len(points) <= max_points:
        return points
    last = len(points) - 1
    indices = {round(i * last / (max_points - 2)) for i in range(max_points - 1)}
    indices.add(min(range(len(points)), key=lambda i: points[i][1]))
    return [points[i] for i in sorted(indices)]


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


class Progress(pl.Callback):
    """Shows epoch, loss, validation cross-entropy, and the time until early stopping if nothing improves."""

    def __init__(self, best: BestState, line: StatusLine) -> None:
        self.best, self.line = best, line
        self.started = time.perf_counter()

    def on_train_epoch_end(self, trainer: pl.Trainer, module: NodeClassification) -> None:  # type: ignore[override]
        if not self.line.is_due:
            return
        epochs = trainer.current_epoch + 1
        remaining = self.best.patience - self.best.since_best
        seconds_per_epoch = (time.perf_counter() - self.started) / epochs
        seconds = remaining * (trainer.check_val_every_n_epoch or 1) * seconds_per_epoch
        self.line.show(
            f"epoch {epochs}  loss {module.train_loss:.4g}  "
            f"val CE {module.val_cross_entropy:.4f} (best {self.best.best:.4f} at {self.best.best_epoch + 1})  "
            f"patience {remaining}/{self.best.patience} = {seconds:.0f} s"
        )
