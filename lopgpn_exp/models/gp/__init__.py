"""Variational Gaussian processes on a graph: kernel, likelihoods, the two variational forms, and the fit."""

from lopgpn_exp.models.gp.fit import FitReport, fit_full_batch, fit_minibatches, fit_plain_adam
from lopgpn_exp.models.gp.kernel import MaternKernel
from lopgpn_exp.models.gp.likelihood import Likelihood, RobustMax, Softmax
from lopgpn_exp.models.gp.variational import InducingPoints, VariationalGP, WeightSpace

__all__ = [
    "FitReport",
    "InducingPoints",
    "Likelihood",
    "MaternKernel",
    "RobustMax",
    "Softmax",
    "VariationalGP",
    "WeightSpace",
    "fit_full_batch",
    "fit_minibatches",
    "fit_plain_adam",
]
