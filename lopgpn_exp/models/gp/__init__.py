"""Variational Gaussian processes on a graph, with one latent function per class."""

from lopgpn_exp.models.gp.kernel import MaternKernel
from lopgpn_exp.models.gp.likelihood import RobustMax, Softmax
from lopgpn_exp.models.gp.optimise import OptimisationResult, fit_full_batch, fit_minibatches, fit_plain_adam
from lopgpn_exp.models.gp.spectrum import Spectrum, laplacian_spectrum
from lopgpn_exp.models.gp.variational import InducingPoints, VariationalGP, WeightSpace

__all__ = [
    "InducingPoints",
    "MaternKernel",
    "OptimisationResult",
    "RobustMax",
    "Softmax",
    "Spectrum",
    "VariationalGP",
    "WeightSpace",
    "fit_full_batch",
    "fit_minibatches",
    "fit_plain_adam",
    "laplacian_spectrum",
]
