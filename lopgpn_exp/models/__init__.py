"""Models as plain PyTorch modules: a graph in, a posterior out.

One file per method; `layers` and `gp` hold the parts they are built from.
"""

from lopgpn_exp.models.appnp import APPNP
from lopgpn_exp.models.base import ClosedFormModel, CompositeModel, FitData, GradientModel, Model
from lopgpn_exp.models.classifier import Classifier
from lopgpn_exp.models.cuq_gnn import CUQGNN
from lopgpn_exp.models.ensemble import Ensemble
from lopgpn_exp.models.evidential import EvidentialGNN
from lopgpn_exp.models.gkde import GKDE
from lopgpn_exp.models.gpn import GPN
from lopgpn_exp.models.lop_gpn import LOPGPN
from lopgpn_exp.models.matern_ggp import MaternGGP
from lopgpn_exp.models.opinions import Opinions
from lopgpn_exp.models.posterior_network import PosteriorNetwork
from lopgpn_exp.models.sgcn import SGCN

__all__ = [
    "APPNP",
    "CUQGNN",
    "GKDE",
    "GPN",
    "LOPGPN",
    "SGCN",
    "Classifier",
    "ClosedFormModel",
    "CompositeModel",
    "Ensemble",
    "EvidentialGNN",
    "FitData",
    "GradientModel",
    "MaternGGP",
    "Model",
    "Opinions",
    "PosteriorNetwork",
]
