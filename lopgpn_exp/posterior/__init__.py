"""Second-order distributions, the output of every model, with their means, uncertainty measures and losses."""

from lopgpn_exp.posterior.categorical import Categorical
from lopgpn_exp.posterior.dirichlet import Dirichlet, EvidentialDirichlet
from lopgpn_exp.posterior.gaussian import GaussianSimplex
from lopgpn_exp.posterior.mixture import DirichletMixture
from lopgpn_exp.posterior.posterior import Posterior
from lopgpn_exp.posterior.refined import RefinedPosterior
from lopgpn_exp.posterior.samples import Samples

__all__ = [
    "Categorical",
    "Dirichlet",
    "DirichletMixture",
    "EvidentialDirichlet",
    "GaussianSimplex",
    "Posterior",
    "RefinedPosterior",
    "Samples",
]
