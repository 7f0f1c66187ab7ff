"""The Lightning side: how a model gets its parameters."""

from lopgpn_exp.training.fit import Fitted, check_accelerator, fit, fit_by_gradient, fit_in_closed_form
from lopgpn_exp.training.module import ClosedFormClassification, NodeClassification, load_module, module_type

__all__ = [
    "ClosedFormClassification",
    "Fitted",
    "NodeClassification",
    "check_accelerator",
    "fit",
    "fit_by_gradient",
    "fit_in_closed_form",
    "load_module",
    "module_type",
]
