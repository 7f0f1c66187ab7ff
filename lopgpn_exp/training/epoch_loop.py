"""The epochs of a training: one step each, validations, early stopping and the best state."""

from __future__ import annotations

import time
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lopgpn_exp.training.history import History
from lopgpn_exp.training.progress import StatusLine

if TYPE_CHECKING:
    from lopgpn_exp.training.module import NodeClassification


@dataclass
class Batch:
    """The training or the validation nodes, prepared for the model."""

    nodes: Tensor
    labels: Tensor
    prepared: Any


class EpochLoop:
    """Trains a module epoch by epoch, keeps its best state, and stops after `patience` validations without improvement.

    An epoch of Lightning's own loop takes 3 to 5 ms, as long as the computations on a small graph. Therefore a step of
    Lightning calls `run`, which runs as many epochs as fit into `SECONDS_PER_RUN`; in between, Lightning handles
    signals. The state is kept in memory: writing a file at every improvement would take longer than an epoch.

    Args:
        val: the validation nodes; None: no validation and no early stopping.
        first_epoch: number of epochs before this training, which count in the history.
    """

    SECONDS_PER_RUN = 0.2

    def __init__(
        self,
        train: Batch,
        val: Batch | None = None,
        *,
        max_epochs: int,
        patience: int = 0,
        validate_every: int = 1,
        first_epoch: int = 0,
        line: StatusLine | None = None,
    ) -> None:
        self.train, self.val = train, val
        self.max_epochs, self.patience, self.validate_every = max_epochs, patience, validate_every
        self.first_epoch, self.line = first_epoch, line
        self.history = History()
        self.num_epochs = 0
        self.best, self.best_epoch, self.since_best = float("inf"), 0, 0
        self._best_state: dict[str, Any] | None = None
        self._started = time.perf_counter()

    @property
    def is_finished(self) -> bool:
        has_stopped_early = self.val is not None and self.since_best >= self.patience
        return self.num_epochs >= self.max_epochs or has_stopped_early

    def move_labels(self, device: torch.device) -> None:
        """Move the labels to a device; prepared matrices follow the device of the parameters."""
        for batch in (self.train, self.val):
            if batch is not None:
                batch.labels = batch.labels.to(device)

    def run(self, module: NodeClassification, optimizer: torch.optim.Optimizer) -> None:
        """Run epochs until the training is finished or `SECONDS_PER_RUN` have passed."""
        stop_at = time.perf_counter() + self.SECONDS_PER_RUN
        while not self.is_finished:
            self._train_epoch(module, optimizer)
            if self.val is not None and self.num_epochs % self.validate_every == 0:
                self._validate(module, self.val)
            self._show_progress(module)
            if time.perf_counter() >= stop_at:
                break

    def restore_best(self, module: NodeClassification) -> None:
        """Load the state with the lowest validation cross-entropy, if there was a validation."""
        if self._best_state is not None:
            module.load_state_dict(self._best_state)

    def _train_epoch(self, module: NodeClassification, optimizer: torch.optim.Optimizer) -> None:
        _draw_unused_number()
        module.train()
        optimizer.zero_grad()
        module.compute_loss(self.train).backward()
        optimizer.step()
        self.num_epochs += 1
        self.history.add("training/loss", self.first_epoch + self.num_epochs, module.train_loss)

    @torch.no_grad()
    def _validate(self, module: NodeClassification, val: Batch) -> None:
        _draw_unused_number()
        module.eval()
        value = module.validate(val)
        self.history.add("training/val_nll", self.first_epoch + self.num_epochs, value)
        if value < self.best:
            self.best, self.best_epoch, self.since_best = value, self.num_epochs, 0
            self._best_state = {name: _copy(value) for name, value in module.state_dict().items()}
        else:
            self.since_best += 1

    def _show_progress(self, module: NodeClassification) -> None:
        """Show epoch, loss, validation cross-entropy, and the time until early stopping if nothing improves."""
        if self.line is None or not self.line.is_due:
            return
        remaining = self.patience - self.since_best
        seconds_per_epoch = (time.perf_counter() - self._started) / self.num_epochs
        self.line.show(
            f"epoch {self.num_epochs}  loss {module.train_loss:.4g}  "
            f"val CE {module.val_cross_entropy:.4f} (best {self.best:.4f} at {self.best_epoch})  "
            f"patience {remaining}/{self.patience} = {remaining * self.validate_every * seconds_per_epoch:.0f} s"
        )


def _copy(value: Any) -> Any:
    """Return a copy of an entry of a state: `deepcopy` takes ten times as long for a small tensor as `clone`."""
    return value.clone() if isinstance(value, Tensor) else deepcopy(value)


def _draw_unused_number() -> None:
    """Draw a random number, as a `DataLoader` does at the start of every pass.

    Dropout uses the same generator. The published runs were trained with a `DataLoader`, and this keeps their numbers.
    """
    torch.empty((), dtype=torch.int64).random_()
