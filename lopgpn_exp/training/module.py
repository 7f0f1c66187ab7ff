"""The Lightning modules: one for every model trained by gradient, one for every model fitted in closed form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytorch_lightning as pl
import torch
from torch import Tensor

from lopgpn_exp.graph import Graph
from lopgpn_exp.models import ClosedFormModel, GradientModel, Model
from lopgpn_exp.training.diagnosis import check_loss


@dataclass(frozen=True)
class Batch:
    """Some nodes of the graph, ready for the model. There is one training batch an epoch, and one to validate on."""

    nodes: Tensor
    labels: Tensor
    prepared: Any


def model_type(model_class: str) -> type[Model]:
    """The class that an import path names."""
    module, _, name = model_class.rpartition(".")
    return getattr(import_module(module), name)


class NodeClassification(pl.LightningModule):
    """Trains a model on per-node losses; masks and sums happen here and nowhere else.

    A checkpoint holds everything needed to build the model again: `NodeClassification.load_from_checkpoint(path)`.

    Args:
        model_class: import path of a `GradientModel`.
        model_options: its keyword arguments.
        trained_on: fingerprint of the graph, so that a checkpoint is never taken for one of another graph or split.
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
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.model = cast(GradientModel, model_type(model_class)(**model_options))
        self.learning_rate, self.weight_decay, self.warmup_epochs = learning_rate, weight_decay, warmup_epochs
        self.warming_up = False
        self.train_loss = float("nan")
        self.val_cross_entropy = float("nan")

    def training_step(self, batch: Batch, _: int = 0) -> Tensor:
        losses = self.model.node_loss(self.model(batch.prepared), batch.labels)
        loss = losses.sum() if self.model.loss_reduction == "sum" else losses.mean()
        self.train_loss = loss.item()
        check_loss(self.model, losses, nodes=batch.nodes, labels=batch.labels, prepared=batch.prepared)
        return loss

    def validation_step(self, batch: Batch, _: int = 0) -> None:
        losses = self.model(batch.prepared).cross_entropy(batch.labels)
        check_loss(self.model, losses, nodes=batch.nodes, labels=batch.labels, prepared=batch.prepared)
        self.val_cross_entropy = losses.mean().item()

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, dataloader_idx: int) -> Batch:
        """Labels move here; the prepared matrices follow the parameters by themselves."""
        return replace(batch, labels=batch.labels.to(device))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam on everything, or on what warms up alone. A phase starts with a fresh one."""
        undecayed = self.model.undecayed_parameters()
        if self.warming_up:
            return torch.optim.Adam(self.model.warmup_parameters(), lr=self.learning_rate, fused=True)
        kept_apart = {id(parameter) for parameter in undecayed}
        decayed = [parameter for parameter in self.model.parameters() if id(parameter) not in kept_apart]
        groups = [
            {"params": decayed, "weight_decay": self.weight_decay},
            {"params": undecayed, "weight_decay": 0.0},
        ]
        return torch.optim.Adam([group for group in groups if group["params"]], lr=self.learning_rate, fused=True)


@dataclass(frozen=True)
class WholeGraph:
    """All that a closed-form fit takes: its one batch."""

    graph: Graph
    seed: int
    cache_dir: Path | None
    report: Callable[[str], None]


class ClosedFormClassification(pl.LightningModule):
    """Fits a model in its one training step, without an optimiser.

    A checkpoint holds everything needed to predict: `ClosedFormClassification.load_from_checkpoint(path)`.

    Args:
        model_class: import path of a `ClosedFormModel`.
        model_options: its keyword arguments.
    """

    def __init__(self, *, model_class: str, model_options: dict[str, Any], trained_on: str = "") -> None:
        super().__init__()
        self.save_hyperparameters()
        self.model = cast(ClosedFormModel, model_type(model_class)(**model_options))
        self.automatic_optimization = False

    def training_step(self, batch: WholeGraph, _: int = 0) -> None:
        self.model.fit(batch.graph, seed=batch.seed, cache_dir=batch.cache_dir, report=batch.report)

    def transfer_batch_to_device(self, batch: WholeGraph, device: torch.device, dataloader_idx: int) -> WholeGraph:
        """A graph stays where it is."""
        return batch

    def configure_optimizers(self) -> None:
        return None


def module_type(model_class: str) -> type[NodeClassification] | type[ClosedFormClassification]:
    """The Lightning module that gives such a model its parameters."""
    return ClosedFormClassification if issubclass(model_type(model_class), ClosedFormModel) else NodeClassification


def load_module(path: Path) -> NodeClassification | ClosedFormClassification:
    """The module of a checkpoint, of whichever kind its model is."""
    model_class = torch.load(path, map_location="cpu", weights_only=True)["hyper_parameters"]["model_class"]
    return module_type(model_class).load_from_checkpoint(path, map_location="cpu", weights_only=True)
