"""Read a checkpoint file, and build the model that it holds. Needs no Lightning, although Lightning writes the file."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import torch
from torch import Tensor

from lopgpn_exp.data.zip_checks import check_checksums
from lopgpn_exp.models.base import Model
from lopgpn_exp.targets import import_target

DIMENSIONS = ("num_features", "num_classes")  # options of a model that come from its graph
LARGEST_DIMENSION = 100_000  # unless a checkpoint has more weights; a wrong one could fill the memory
PREFIX = "model."  # of the weights: the model is an attribute of a Lightning module


@dataclass(frozen=True)
class Checkpoint:
    """The content of a checkpoint file. Nothing that it names has been imported or called.

    Args:
        parameters: keyword arguments of the Lightning module: `model_class`, `model_options`, `trained_on` and others.
        state: the weights of the Lightning module.
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


def build_model(checkpoint: Checkpoint) -> Model:
    """Build the model of a checkpoint, on the CPU. This imports and calls the model class that it names."""
    model: Model = import_target(checkpoint.model_class)(**checkpoint.model_options)
    if foreign := [key for key in checkpoint.state if not key.startswith(PREFIX)]:
        raise ValueError(f"it has weights outside of its model: {foreign[0]}")
    model.load_state_dict({key.removeprefix(PREFIX): value for key, value in checkpoint.state.items()})
    return model
