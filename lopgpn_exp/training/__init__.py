"""Training with PyTorch Lightning.

`fit` trains a model on a graph, by gradient descent or in closed form; `load_module` reads its checkpoint.
"""

from lopgpn_exp.training.fit import FitResult, check_accelerator, fit
from lopgpn_exp.training.module import (
    DIMENSIONS,
    Checkpoint,
    ClosedFormClassification,
    NodeClassification,
    build_module,
    get_module_class,
    load_module,
    read_checkpoint,
)

__all__ = [
    "DIMENSIONS",
    "Checkpoint",
    "ClosedFormClassification",
    "FitResult",
    "NodeClassification",
    "build_module",
    "check_accelerator",
    "fit",
    "get_module_class",
    "load_module",
    "read_checkpoint",
]
