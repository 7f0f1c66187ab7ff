"""Models as plain modules: a graph in, a posterior out."""

from lopgpn_exp.models.appnp import APPNP
from lopgpn_exp.models.base import ClosedFormModel, GradientModel, Model
from lopgpn_exp.models.gkde import GKDE
from lopgpn_exp.models.gpn import GPN
from lopgpn_exp.models.lop_gpn import LOPGPN
from lopgpn_exp.models.matern_ggp import MaternGGP

__all__ = ["APPNP", "GKDE", "GPN", "LOPGPN", "ClosedFormModel", "GradientModel", "MaternGGP", "Model"]
