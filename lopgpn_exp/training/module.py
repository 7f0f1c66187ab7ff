"""The Lightning modules: one for models trained by gradient descent, one for models fitted in one step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytorch_lightning as pl
import torch
from torch import Tensor

from lopgpn_exp.graph import Graph, Part
from lopgpn_exp.models import ClosedFormModel, CompositeModel, FitData, GradientModel, Model
from lopgpn_exp.models.checkpoint_file import read_checkpoint
from lopgpn_exp.targets import import_target
from lopgpn_exp.training.diagnosis import check_loss
from lopgpn_exp.training.epoch_loop import Batch, EpochLoop


class NodeClassification(pl.LightningModule):
    """Trains a model by gradient descent on the sum or mean of its losses per node.

    A batch of Lightning is an `EpochLoop`, and a step runs many of its epochs.

    Args:
        model_class: import path of a `GradientModel`.
        model_options: its keyword arguments.
        trained_on: fingerprint of the graph, which prevents using a checkpoint with another graph or split.
        optimizer: import path of a class of `torch.optim`.
        optimizer_options: its options beside learning rate and weight decay.
    """

    def __init__(
        self,
        *,
        model_class: str,
        model_options: dict[str, Any],
        learning_rate: float = 0.01,
        weight_decay: float = 0.0,
        warmup_epochs: int = 0,
        trained_on: str = "",
        optimizer: str = "torch.optim.Adam",
        optimizer_options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.optimizer_class, self.optimizer_options = import_target(optimizer), optimizer_options or {}
        self.model = cast(GradientModel, import_target(model_class)(**model_options))
        self.learning_rate, self.weight_decay, self.warmup_epochs = learning_rate, weight_decay, warmup_epochs
        self.automatic_optimization = False
        self.is_warming_up = False
        self.train_loss = float("nan")
        self.val_cross_entropy = float("nan")

    def training_step(self, loop: EpochLoop, _: int = 0) -> None:
        loop.run(self, cast(torch.optim.Optimizer, self.optimizers(use_pl_optimizer=False)))
        self.trainer.should_stop = loop.is_finished

    def compute_loss(self, batch: Batch) -> Tensor:
        """Return the training loss; raise an InputError if it is not finite."""
        losses = self.model.node_loss(self.model(batch.prepared), batch.labels)
        loss = losses.sum() if self.model.loss_reduction == "sum" else losses.mean()
        self.train_loss = loss.item()
        check_loss(self.model, losses, nodes=batch.nodes, labels=batch.labels, prepared=batch.prepared)
        return loss

    def validate(self, batch: Batch) -> float:
        """Return the mean cross-entropy of the batch; raise an InputError if it is not finite."""
        losses = self.model(batch.prepared).cross_entropy(batch.labels)
        check_loss(self.model, losses, nodes=batch.nodes, labels=batch.labels, prepared=batch.prepared)
        self.val_cross_entropy = losses.mean().item()
        return self.val_cross_entropy

    def transfer_batch_to_device(self, loop: EpochLoop, device: torch.device, dataloader_idx: int) -> EpochLoop:
        loop.move_labels(device)
        return loop

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return a new optimiser: of the warm-up parameters during the warm-up, of all parameters afterwards."""
        if self.is_warming_up:
            return self._build_optimizer(self.model.warmup_parameters())
        undecayed = self.model.undecayed_parameters()
        undecayed_ids = {id(parameter) for parameter in undecayed}
        decayed = [parameter for parameter in self.model.parameters() if id(parameter) not in undecayed_ids]
        groups = [
            {"params": decayed, "weight_decay": self.weight_decay},
            {"params": undecayed, "weight_decay": 0.0},
        ]
        return self._build_optimizer([group for group in groups if group["params"]])

    def _build_optimizer(self, parameters: list[Any]) -> torch.optim.Optimizer:
        fused = {"fused": True} if self.optimizer_class is torch.optim.Adam else {}  # the fastest one on a CPU
        return self.optimizer_class(parameters, lr=self.learning_rate, **{**fused, **self.optimizer_options})


@dataclass(frozen=True)
class GraphBatch:
    """The single batch of a fit in one step: the graph and the other arguments of `ClosedFormModel.fit`.

    Args:
        parts: trained parts of a `CompositeModel`.
    """

    graph: Graph
    seed: int
    cache_dir: Path | None
    report: Callable[[str], None]
    parts: tuple[Model, ...] = ()


class ClosedFormClassification(pl.LightningModule):
    """Fits a `ClosedFormModel` or a `CompositeModel` in one step; its arguments are those of `NodeClassification`."""

    def __init__(self, *, model_class: str, model_options: dict[str, Any], trained_on: str = "") -> None:
        super().__init__()
        self.save_hyperparameters()
        self.model = cast(ClosedFormModel | CompositeModel, import_target(model_class)(**model_options))
        self.automatic_optimization = False

    def training_step(self, batch: GraphBatch, _: int = 0) -> None:
        if isinstance(self.model, ClosedFormModel):
            self.model.fit(batch.graph, seed=batch.seed, cache_dir=batch.cache_dir, report=batch.report)
        else:
            nodes = batch.graph.nodes(Part.TRAIN)
            labels = batch.graph.labels[nodes]
            self.model.combine(
                FitData(batch.graph, nodes, labels, batch.seed, batch.cache_dir, batch.report, batch.parts)
            )

    def transfer_batch_to_device(self, batch: GraphBatch, device: torch.device, dataloader_idx: int) -> GraphBatch:
        """Leave the graph where it is."""
        return batch

    def configure_optimizers(self) -> None:
        return None


def get_module_class(model_class: str) -> type[NodeClassification] | type[ClosedFormClassification]:
    """Return the Lightning module that trains models of this class."""
    is_gradient_model = issubclass(import_target(model_class), GradientModel)
    return NodeClassification if is_gradient_model else ClosedFormClassification


def load_module(path: Path, *, model_class: str) -> NodeClassification | ClosedFormClassification:
    """Load a checkpoint, on the CPU, if it holds a model of this class."""
    checkpoint = read_checkpoint(path.read_bytes())
    if checkpoint.model_class != model_class:
        raise ValueError(f"{path} holds a {checkpoint.model_class}, not a {model_class}")
    module = get_module_class(checkpoint.model_class)(**checkpoint.parameters)
    module.load_state_dict(checkpoint.state)
    return module
