"""Second-order distributions, the output of every model, with their means, uncertainty measures and losses."""

from lopgpn_exp.posterior.categorical import Categorical
from lopgpn_exp.posterior.dirichlet import Dirichlet
from lopgpn_exp.posterior.gaussian import GaussianSimplex
from lopgpn_exp.posterior.mixture import DirichletMixture
from lopgpn_exp.posterior.posterior import Posterior
from lopgpn_exp.records import MEASURES

__all__ = ["MEASURES", "Categorical", "Dirichlet", "DirichletMixture", "GaussianSimplex", "Posterior"]
