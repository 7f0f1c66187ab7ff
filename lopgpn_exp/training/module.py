"""The Lightning modules: one for models trained by gradient descent, one for models fitted in closed form."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import pytorch_lightning as pl
import torch
from torch import Tensor

from lopgpn_exp.data.zip_checks import check_checksums
from lopgpn_exp.graph import Graph
from lopgpn_exp.models import ClosedFormModel, GradientModel
from lopgpn_exp.targets import import_target
from lopgpn_exp.training.diagnosis import check_loss

DIMENSIONS = ("num_features", "num_classes")  # options of a model that come from its graph
LARGEST_DIMENSION = 100_000  # unless a checkpoint has more weights; a wrong one could fill the memory


@dataclass(frozen=True)
class Batch:
    """The training or the validation nodes, prepared for the model."""

    nodes: Tensor
    labels: Tensor
    prepared: Any


class NodeClassification(pl.LightningModule):
    """Trains a model by gradient descent on the sum or mean of its losses per node.

    Args:
        model_class: import path of a `GradientModel`.
        model_options: its keyword arguments.
        trained_on: fingerprint of the graph, which prevents using a checkpoint with another graph or split.
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
        self.model = cast(GradientModel, import_target(model_class)(**model_options))
        self.learning_rate, self.weight_decay, self.warmup_epochs = learning_rate, weight_decay, warmup_epochs
        self.is_warming_up = False
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
        """Move only the labels; prepared matrices follow the device of the parameters."""
        return replace(batch, labels=batch.labels.to(device))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return a new Adam: for the warm-up parameters during the warm-up, for all parameters afterwards."""
        if self.is_warming_up:
            return torch.optim.Adam(self.model.warmup_parameters(), lr=self.learning_rate, fused=True)
        undecayed = self.model.undecayed_parameters()
        undecayed_ids = {id(parameter) for parameter in undecayed}
        decayed = [parameter for parameter in self.model.parameters() if id(parameter) not in undecayed_ids]
        groups = [
            {"params": decayed, "weight_decay": self.weight_decay},
            {"params": undecayed, "weight_decay": 0.0},
        ]
        return torch.optim.Adam([group for group in groups if group["params"]], lr=self.learning_rate, fused=True)


@dataclass(frozen=True)
class GraphBatch:
    """The single batch of a closed-form fit: the graph and the other arguments of `ClosedFormModel.fit`."""

    graph: Graph
    seed: int
    cache_dir: Path | None
    report: Callable[[str], None]


class ClosedFormClassification(pl.LightningModule):
    """Fits a `ClosedFormModel` in a single training step; its arguments are those of `NodeClassification`."""

    def __init__(self, *, model_class: str, model_options: dict[str, Any], trained_on: str = "") -> None:
        super().__init__()
        self.save_hyperparameters()
        self.model = cast(ClosedFormModel, import_target(model_class)(**model_options))
        self.automatic_optimization = False

    def training_step(self, batch: GraphBatch, _: int = 0) -> None:
        self.model.fit(batch.graph, seed=batch.seed, cache_dir=batch.cache_dir, report=batch.report)

    def transfer_batch_to_device(self, batch: GraphBatch, device: torch.device, dataloader_idx: int) -> GraphBatch:
        """Leave the graph where it is."""
        return batch

    def configure_optimizers(self) -> None:
        return None


def get_module_class(model_class: str) -> type[NodeClassification] | type[ClosedFormClassification]:
    """Return the Lightning module that trains models of this class."""
    return ClosedFormClassification if issubclass(import_target(model_class), ClosedFormModel) else NodeClassification


@dataclass(frozen=True)
class Checkpoint:
    """The content of a checkpoint file. Nothing that it names has been imported or called.

    Args:
        parameters: keyword arguments of the module, such as `model_class`, `model_options` and `trained_on`.
    """

    parameters: dict[str, Any]
    state: dict[str, Any]

    @property
    def model_class(self) -> str:
        return self.parameters["model_class"]

    @property
    def model_options(self) -> dict[str, Any]:
        return self.parameters["model_options"]

    @property
    def trained_on(self) -> str:
        return self.parameters["trained_on"]


def read_checkpoint(content: bytes) -> Checkpoint:
    """Parse the content of a checkpoint file; raises one of many exceptions if it is damaged or something else."""
    with zipfile.ZipFile(BytesIO(content)) as archive:
        if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
            raise ValueError("it is compressed, which torch never does")  # a small file could fill the memory
    check_checksums(BytesIO(content))
    loaded = torch.load(BytesIO(content), map_location="cpu", weights_only=True)
    checkpoint = Checkpoint(loaded["hyper_parameters"], loaded["state_dict"])
    options = checkpoint.model_options
    json.dumps(options)  # raises an error unless these are plain values, which can be compared
    largest = max(
        LARGEST_DIMENSION, sum(value.numel() for value in checkpoint.state.values() if isinstance(value, Tensor))
    )
    if not isinstance(checkpoint.model_class, str) or not isinstance(checkpoint.trained_on, str):
        raise ValueError("it does not name its model and graph")
    if not all(type(options[key]) is int and 0 < options[key] <= largest for key in DIMENSIONS):
        raise ValueError("its number of features or classes does not fit its weights")
    return checkpoint


def build_module(checkpoint: Checkpoint) -> NodeClassification | ClosedFormClassification:
    """Build the module of a checkpoint, on the CPU. This imports and calls the model class that it names."""
    module = get_module_class(checkpoint.model_class)(**checkpoint.parameters)
    module.load_state_dict(checkpoint.state)
    return module


def load_module(path: Path, *, model_class: str) -> NodeClassification | ClosedFormClassification:
    """Load a checkpoint if it holds a model of this class."""
    checkpoint = read_checkpoint(path.read_bytes())
    if checkpoint.model_class != model_class:
        raise ValueError(f"{path} holds a {checkpoint.model_class}, not a {model_class}")
    return build_module(checkpoint)
