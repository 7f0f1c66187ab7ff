"""EPN: an evidence probe, which learns how much evidence a trained classifier has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lopgpn_exp.errors import check_in_range
from lopgpn_exp.graph import Dispersion, Graph, Part, symmetric
from lopgpn_exp.graph.dispersion import check_dispersion
from lopgpn_exp.models.posterior_network import LOG_EVIDENCE_LIMIT
from lopgpn_exp.posterior import Dirichlet, EvidentialDirichlet, Posterior
from lopgpn_exp.posthoc.step import PostHocStep, StepData

# The weights to choose from. On CoraML and CiteSeer, trained probes have an ICE of 10 to 320, a PCL of 2,700 to 9,600,
# and a UCE of validation nodes of 0.4 to 0.5: the terms are from far smaller than the UCE to several times as large.
ICE_WEIGHTS, PCL_WEIGHTS = (1e-4, 1e-3, 1e-2), (1e-5, 1e-4, 1e-3)
PCL_TARGET = 100.0  # the evidence that PCL draws confident predictions to
# A smaller probability does not change a mean in float32, and the loss of a probability of 0 is infinite.
MIN_PROBABILITY = torch.finfo(torch.float32).eps


class EvidenceProbe(PostHocStep):
    r"""Multiplies the probabilities of a trained classifier by a learned amount of evidence, and disperses the result.

    .. math:: q = \exp(W z + b), \qquad e = \sum_c q_c, \qquad \alpha = \Pi \, (C + e) \, \tilde p

    Source: Yu et al. (2025), EPN.

    - :math:`z`: the last hidden layer of the classifier; :math:`\tilde p`: its probabilities. Neither is trained.
    - :math:`C`: number of classes; :math:`\Pi`: the dispersion of APPNP, with the symmetric normalisation.

    W and b minimise the mean uncertain cross-entropy (UCE) of the training nodes plus :math:`\lambda_1` ICE and
    :math:`\lambda_2` PCL (see `ice_penalty` and `pcl_penalty`), which are means over all nodes. The training stops when
    this loss, with the UCE of validation nodes instead, no longer improves. The cross-entropy of the mean would not be
    a criterion: evidence changes the mean through the dispersion alone. Nor would the UCE without ICE and PCL: it may
    increase while these decrease.

    Args:
        ice_weight: lambda_1; None: chosen from `ICE_WEIGHTS` on validation nodes (see `choose_probe`).
        pcl_weight: lambda_2; None: chosen from `PCL_WEIGHTS`, likewise.
        num_steps, teleport: see `Dispersion`.
        learning_rate, weight_decay: of Adam.
        patience: number of epochs without improvement before the training stops.

    Deviation: the source calls its probe "a lightweight MLP head"; here it is one linear layer, as in its formula.
    Deviation: the source does not publish lambda_1 and lambda_2, which it chose by the AUROC of OOD test nodes.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"logits", "hidden layer"})

    def __init__(
        self,
        *,
        ice_weight: float | None = 0.0,
        pcl_weight: float | None = 0.0,
        num_steps: int = 10,
        teleport: float = 0.1,
        learning_rate: float = 0.01,
        weight_decay: float = 0.0,
        patience: int = 50,
        max_epochs: int = 2000,
    ) -> None:
        super().__init__()
        check_dispersion(num_steps=num_steps, teleport=teleport)
        for name, value in (("ice_weight", ice_weight), ("pcl_weight", pcl_weight), ("weight_decay", weight_decay)):
            if value is not None:
                check_in_range(name, value, low=0, suggestion=0)
        check_in_range("learning_rate", learning_rate, low=0, suggestion=0.01)
        for name, count, suggestion in (("patience", patience, 50), ("max_epochs", max_epochs, 2000)):
            check_in_range(name, count, low=1, high=10**6, reason="a training ends", suggestion=suggestion)
        self.ice_weights = ICE_WEIGHTS if ice_weight is None else (ice_weight,)
        self.pcl_weights = PCL_WEIGHTS if pcl_weight is None else (pcl_weight,)
        self.num_steps, self.teleport = num_steps, teleport
        self.learning_rate, self.weight_decay = learning_rate, weight_decay
        self.patience, self.max_epochs = patience, max_epochs

    def fit(self, data: StepData) -> dict[str, Any]:
        inputs = self.prepare(data.posterior, data.model, data.graph)
        train, val = (LabelledNodes(*data.part(part)) for part in (Part.TRAIN, Part.VAL))
        losses = [ProbeLoss(inputs, ice, pcl) for ice, pcl in product(self.ice_weights, self.pcl_weights)]
        probes = [self.train_probe(loss, train, val, seed=data.seed) for loss in losses]
        best = choose_probe([inputs.posterior(*probe)[val.nodes] for probe in probes], val)
        weights = {"ice_weight": losses[best].ice_weight, "pcl_weight": losses[best].pcl_weight}
        return {"weight": probes[best][0], "bias": probes[best][1], **weights}

    def refine(self, posterior: Posterior, model: Any, graph: Graph) -> EvidentialDirichlet:
        return self.prepare(posterior, model, graph).posterior(self.fitted["weight"], self.fitted["bias"])

    def prepare(self, posterior: Posterior, model: Any, graph: Graph) -> ProbeInput:
        """Return everything that does not depend on the probe."""
        hidden = model.embed(graph)
        probabilities = posterior.mean.to(hidden.dtype).clamp(min=MIN_PROBABILITY)
        disperse = Dispersion(symmetric(graph), num_steps=self.num_steps, teleport=self.teleport)
        return ProbeInput(hidden, probabilities, disperse)

    def train_probe(
        self, loss: ProbeLoss, train: LabelledNodes, val: LabelledNodes, *, seed: int
    ) -> tuple[Float[Tensor, "classes hidden"], Float[Tensor, " classes"]]:
        """Return W and b of the epoch with the smallest validation loss."""
        weight, bias = loss.inputs.draw_probe(seed)
        optimizer = torch.optim.Adam([weight, bias], lr=self.learning_rate, weight_decay=self.weight_decay)
        best, best_value, since_best = (weight, bias), inf, 0
        for _ in range(self.max_epochs):
            train_loss, val_loss = loss(weight, bias, (train, val))
            since_best += 1
            if val_loss.item() < best_value:
                best, best_value, since_best = (weight.clone(), bias.clone()), val_loss.item(), 0
            if since_best >= self.patience:
                break
            optimizer.zero_grad()
            train_loss.backward()
            optimizer.step()
        return best[0].detach(), best[1].detach()


@dataclass(frozen=True)
class LabelledNodes:
    """The training or the validation nodes, and their labels."""

    nodes: Int[Tensor, " chosen"]
    labels: Int[Tensor, " chosen"]


@dataclass(frozen=True)
class ProbeInput:
    """What a probe is applied to: the hidden layer and the probabilities of every node, and the dispersion."""

    hidden: Float[Tensor, "nodes hidden"]
    probabilities: Float[Tensor, "nodes classes"]
    disperse: Callable[[Tensor], Tensor]

    def draw_probe(self, seed: int) -> tuple[Float[Tensor, "classes hidden"], Float[Tensor, " classes"]]:
        """Return W and b of an untrained probe, from the same distribution as those of `torch.nn.Linear`."""
        num_classes, hidden_dim = self.probabilities.shape[1], self.hidden.shape[1]
        generator, bound = torch.Generator().manual_seed(seed), hidden_dim**-0.5
        weight = self.hidden.new_empty(num_classes, hidden_dim).uniform_(-bound, bound, generator=generator)
        bias = self.hidden.new_empty(num_classes).uniform_(-bound, bound, generator=generator)
        return weight.requires_grad_(), bias.requires_grad_()

    def class_evidence(
        self, weight: Float[Tensor, "classes hidden"], bias: Float[Tensor, " classes"]
    ) -> Float[Tensor, "nodes classes"]:
        """Return q, with its logarithm clamped as in `PosteriorNetwork`, so that sums stay finite in float32."""
        return torch.addmm(bias, self.hidden, weight.T).clamp(-LOG_EVIDENCE_LIMIT, LOG_EVIDENCE_LIMIT).exp()

    def posterior(
        self, weight: Float[Tensor, "classes hidden"], bias: Float[Tensor, " classes"]
    ) -> EvidentialDirichlet:
        counts = pseudo_counts(self.class_evidence(weight, bias), self.probabilities)
        return EvidentialDirichlet(self.disperse(counts))


@dataclass(frozen=True)
class ProbeLoss:
    """The loss of a probe: the mean UCE of some nodes plus the weighted means of ICE and PCL over all nodes."""

    inputs: ProbeInput
    ice_weight: float = 0.0
    pcl_weight: float = 0.0

    def __call__(
        self, weight: Float[Tensor, "classes hidden"], bias: Float[Tensor, " classes"], parts: Sequence[LabelledNodes]
    ) -> list[Float[Tensor, ""]]:
        """Return the loss with the UCE of each part."""
        evidence, probabilities = self.inputs.class_evidence(weight, bias), self.inputs.probabilities
        posterior = EvidentialDirichlet(self.inputs.disperse(pseudo_counts(evidence, probabilities)))
        penalty = evidence.new_zeros(())
        if self.ice_weight:
            penalty = penalty + self.ice_weight * ice_penalty(evidence, probabilities).mean()
        if self.pcl_weight:
            penalty = penalty + self.pcl_weight * pcl_penalty(evidence, probabilities).mean()
        return [posterior[part.nodes].expected_cross_entropy(part.labels).mean() + penalty for part in parts]


def pseudo_counts(
    evidence: Float[Tensor, "nodes classes"], probabilities: Float[Tensor, "nodes classes"]
) -> Float[Tensor, "nodes classes"]:
    r"""Return :math:`(C + e) \tilde p`, the pseudo-counts before the dispersion."""
    return (evidence.shape[1] + evidence.sum(dim=1, keepdim=True)) * probabilities


def ice_penalty(
    evidence: Float[Tensor, "nodes classes"], probabilities: Float[Tensor, "nodes classes"]
) -> Float[Tensor, " nodes"]:
    r"""Return the penalty of intra-class evidence, ICE, of each node: :math:`\lVert (C + e) \tilde p - q \rVert^2`."""
    return ((pseudo_counts(evidence, probabilities) - evidence) ** 2).sum(dim=1)


def pcl_penalty(
    evidence: Float[Tensor, "nodes classes"], probabilities: Float[Tensor, "nodes classes"]
) -> Float[Tensor, " nodes"]:
    r"""Return the penalty of positive-confidence learning, PCL, of each node, where r is the largest probability.

    .. math:: \max(0, 100 - e)^2 + \frac{1-r}{r} \, e^2

    It is smallest at :math:`e = 100 r`: a confident prediction has more evidence than an ambiguous one.
    """
    total, confidence = evidence.sum(dim=1), probabilities.amax(dim=1)
    return (PCL_TARGET - total).clamp(min=0) ** 2 + (1 - confidence) / confidence * total**2


def choose_probe(posteriors: Sequence[Dirichlet], val: LabelledNodes) -> int:
    """Return which posterior of the validation nodes is best: that with the largest AUROC of errors.

    The measure is one minus the largest mean. If the AUROC of any posterior is undefined, since all of its predictions
    are right or all are wrong, the smallest UCE decides, as it does between equal ones.
    """
    costs = [posterior.expected_cross_entropy(val.labels).mean().item() for posterior in posteriors]
    errors = [posterior.mean.argmax(dim=1) != val.labels for posterior in posteriors]
    if all(is_error.any() and not is_error.all() for is_error in errors):
        pairs = zip(posteriors, errors, strict=True)
        scores = [error_auroc(posterior.lconf(), is_error) for posterior, is_error in pairs]
    else:
        scores = [0.0] * len(posteriors)
    return min(range(len(posteriors)), key=lambda index: (-scores[index], costs[index]))


def error_auroc(uncertainty: Float[Tensor, " nodes"], is_error: Bool[Tensor, " nodes"]) -> float:
    """Return the share of pairs of an error and a right prediction whose error is more uncertain; ties count half.

    It equals `auroc` of the evaluation, which this layer cannot import.
    """
    right, wrong = uncertainty[~is_error].sort().values, uncertainty[is_error]
    num_below, num_up_to = (torch.searchsorted(right, wrong, right=side) for side in (False, True))
    return (num_below + num_up_to).double().mean().item() / (2 * len(right))
