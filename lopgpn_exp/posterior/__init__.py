"""Second-order distributions: each knows its mean, its measures and its losses."""

from lopgpn_exp.posterior.base import MEASURES, Posterior
from lopgpn_exp.posterior.categorical import Categorical
from lopgpn_exp.posterior.dirichlet import Dirichlet
from lopgpn_exp.posterior.gaussian import GaussianSimplex
from lopgpn_exp.posterior.mixture import DirichletMixture

__all__ = ["MEASURES", "Categorical", "Dirichlet", "DirichletMixture", "GaussianSimplex", "Posterior"]
