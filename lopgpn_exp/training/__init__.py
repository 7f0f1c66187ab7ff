"""The Lightning side: how a model gets its parameters."""

from lopgpn_exp.training.fit import Fitted, fit_by_gradient
from lopgpn_exp.training.module import NodeClassification

__all__ = ["Fitted", "NodeClassification", "fit_by_gradient"]
