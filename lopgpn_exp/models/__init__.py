"""Models as plain PyTorch modules: a graph in, a posterior out.

One file per method; `layers` and `gp` hold the parts they are built from.
"""

from lopgpn_exp.models.appnp import APPNP
from lopgpn_exp.models.base import ClosedFormModel, FitData, GradientModel, Model
from lopgpn_exp.models.gkde import GKDE
from lopgpn_exp.models.gpn import GPN
from lopgpn_exp.models.lop_gpn import LOPGPN
from lopgpn_exp.models.matern_ggp import MaternGGP
from lopgpn_exp.models.opinions import Opinions
from lopgpn_exp.models.posterior_network import PosteriorNetwork

__all__ = [
    "APPNP",
    "GKDE",
    "GPN",
    "LOPGPN",
    "ClosedFormModel",
    "FitData",
    "GradientModel",
    "MaternGGP",
    "Model",
    "Opinions",
    "PosteriorNetwork",
]
