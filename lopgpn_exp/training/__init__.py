"""Training with PyTorch Lightning.

`fit` trains a model on a graph, by gradient descent or in closed form; `load_module` reads its checkpoint.
"""

from lopgpn_exp.training.fit import FitResult, check_accelerator, fit
from lopgpn_exp.training.module import (
    ClosedFormClassification,
    NodeClassification,
    get_module_class,
    load_module,
)

__all__ = [
    "ClosedFormClassification",
    "FitResult",
    "NodeClassification",
    "check_accelerator",
    "fit",
    "get_module_class",
    "load_module",
]
