"""GEBM: energies of a node, of its neighbourhood and of its cluster."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import scipy.sparse as sp
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lopgpn_exp.errors import InputError, check_in_range
from lopgpn_exp.graph import Graph, Part, row_stochastic
from lopgpn_exp.posterior import Posterior, RefinedPosterior
from lopgpn_exp.posthoc.energy import spread
from lopgpn_exp.posthoc.step import PostHocStep, StepData

MIN_VARIANCE = 1e-6
INTERVAL = (0.025, 0.975)  # the quantiles that bound the central 95 %


class GEBM(PostHocStep):
    r"""Adds the measure `gebm`: the sum of energies at three scales of the graph.

    .. math:: U = -\mathrm{LSE}(P e) + P(-\mathrm{LSE}(e)) - \mathrm{LSE}(e), \qquad e_c = l_c - r_c(d_c)

    Source: Fuchsgruber et al. (2024).

    - :math:`l`: the logits; :math:`\mathrm{LSE}`: logarithm of the sum over classes of exponentials.
    - :math:`d_c`: squared Mahalanobis distance of the hidden layer to the training nodes of class c, which have a
      Gaussian with a diagonal covariance (see `class_gaussians`).
    - :math:`r_c`: maps the central 95 % of the distances to those of the logits of class c (see `fit_rescaling`).
    - :math:`P`: K times :math:`x \leftarrow \gamma x + (1-\gamma) D^{-1} (A + I) x`.

    Gaussians and r are fitted to a pass with edges. The logits and the hidden layer of e come from a pass without
    edges, so that only P spreads anything.

    Args:
        num_steps: K; 0 makes the three energies equal.
        gamma: share of its own value that a node keeps in each step.

    Deviation: r is fitted to training nodes; the public code takes all nodes, test nodes among them.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"logits", "hidden layer"})

    def __init__(self, *, num_steps: int = 10, gamma: float = 0.5) -> None:
        super().__init__()
        reason = "each step multiplies by the graph once"
        check_in_range("num_steps", num_steps, low=0, high=10_000, reason=reason, suggestion=10)
        check_in_range("gamma", gamma, low=0, high=1, suggestion=0.5)
        self.num_steps, self.gamma = num_steps, gamma

    def check_graph(self, graph: Graph) -> None:
        counts = torch.bincount(graph.labels[graph.nodes(Part.TRAIN)], minlength=graph.num_classes)
        if missing := torch.nonzero(counts == 0).flatten().tolist():
            raise InputError(
                f"class {graph.class_name(missing[0])} has no training node, so GEBM has no distance to it",
                expected=f"at least one training node for each of the {graph.num_classes} classes",
                hint="use a random split, or leave this class out as out-of-distribution",
            )

    def fit(self, data: StepData) -> dict[str, Any]:
        self.check_graph(data.graph)
        nodes, labels = data.part(Part.TRAIN)
        logits, hidden = (values[nodes] for values in _logits_and_hidden(data.model, data.graph))
        mean, variance = class_gaussians(hidden, labels, data.graph.num_classes)
        shift, scale = fit_rescaling(squared_distances(hidden, mean, variance), logits)
        return {"mean": mean, "variance": variance, "shift": shift, "scale": scale}

    def refine(self, posterior: Posterior, model: Any, graph: Graph) -> RefinedPosterior:
        evidence = self.evidence(model, graph)
        terms = energy_terms(evidence, row_stochastic(graph), num_steps=self.num_steps, gamma=self.gamma)
        return RefinedPosterior(posterior, {"gebm": terms.node + terms.local + terms.group})

    def evidence(self, model: Any, graph: Graph) -> Float[Tensor, "nodes classes"]:
        """Return e: the logits minus the rescaled distances, both without edges."""
        without_edges = graph.replace(edge_index=torch.empty(2, 0, dtype=torch.int64))
        logits, hidden = _logits_and_hidden(model, without_edges)
        distances = squared_distances(hidden, self.fitted["mean"], self.fitted["variance"])
        return logits - (self.fitted["shift"] + self.fitted["scale"] * distances)


class EnergyTerms(NamedTuple):
    """The three energies of each node, which increase with uncertainty."""

    node: Float[Tensor, " nodes"]
    local: Float[Tensor, " nodes"]
    group: Float[Tensor, " nodes"]


def energy_terms(
    evidence: Float[Tensor, "nodes classes"], operator: sp.csr_array, *, num_steps: int, gamma: float
) -> EnergyTerms:
    r"""Return the energies at three scales; P is a lazy walk with `operator` (see `spread`).

    - `node`: :math:`-\mathrm{LSE}(e)`, of the node alone.
    - `local`: :math:`-\mathrm{LSE}(P e)`, which is high where nearby nodes have evidence for different classes.
    - `group`: :math:`P(-\mathrm{LSE}(e))`, which is high where nearby nodes have little evidence for any class.
    """
    node = -torch.logsumexp(evidence, dim=-1)
    local = -torch.logsumexp(spread(evidence, operator, num_steps=num_steps, keep=gamma), dim=-1)
    return EnergyTerms(node, local, spread(node, operator, num_steps=num_steps, keep=gamma))


def class_gaussians(
    hidden: Float[Tensor, "nodes hidden"], labels: Int[Tensor, " nodes"], num_classes: int
) -> tuple[Float[Tensor, "classes hidden"], Float[Tensor, "classes hidden"]]:
    """Return the mean and the variance (divided by n) of each class.

    A unit that is constant within a class has no variance. As in the public code, 1e-8, 1e-7 and 1e-6 are added to all
    variances of a class, one after the other, until the smallest one exceeds 1e-6.
    """
    groups = [hidden[labels == label] for label in range(num_classes)]
    variance = torch.stack([group.var(dim=0, correction=0) for group in groups])
    for jitter in (1e-8, 1e-7, 1e-6):
        variance = torch.where(variance.amin(dim=1, keepdim=True) <= MIN_VARIANCE, variance + jitter, variance)
    return torch.stack([group.mean(dim=0) for group in groups]), variance


def squared_distances(
    hidden: Float[Tensor, "nodes hidden"],
    mean: Float[Tensor, "classes hidden"],
    variance: Float[Tensor, "classes hidden"],
) -> Float[Tensor, "nodes classes"]:
    """Return the squared Mahalanobis distance of each node to each class."""
    columns = [((hidden - m) ** 2 / v).sum(dim=-1) for m, v in zip(mean, variance, strict=True)]
    return torch.stack(columns, dim=1)


def fit_rescaling(
    distances: Float[Tensor, "nodes classes"], logits: Float[Tensor, "nodes classes"]
) -> tuple[Float[Tensor, " classes"], Float[Tensor, " classes"]]:
    """Return shift and scale per class: shift + scale * distance maps the central 95 % of distances to that of logits.

    If the distances to a class are all equal, which leaves the scale undefined, it is 1.
    """
    quantiles = torch.tensor(INTERVAL, dtype=distances.dtype)
    low_distance, high_distance = torch.quantile(distances, quantiles, dim=0)
    low_logit, high_logit = torch.quantile(logits, quantiles, dim=0)
    width = high_distance - low_distance
    scale = torch.where(width > 0, (high_logit - low_logit) / torch.where(width > 0, width, 1.0), 1.0)
    return low_logit - scale * low_distance, scale


def _logits_and_hidden(
    model: Any, graph: Graph
) -> tuple[Float[Tensor, "nodes classes"], Float[Tensor, "nodes hidden"]]:
    """Return the logits and the last hidden layer of every node, in float64."""
    return model.predict(graph).logits.double(), model.embed(graph).double()
