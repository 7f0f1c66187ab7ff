"""Evidential models: EGNN with its propagations, GKDE-GCN, CUQ-GNN and the budget of GPN's own paper."""

import math

import pytest
import torch
from torch.distributions import Categorical as TorchCategorical
from torch.distributions import Dirichlet as TorchDirichlet
from torch.distributions import kl_divergence
from torch.testing import assert_close

from lopgpn_exp.graph import Part, SparseMatrix, neighbour_mean, symmetric
from lopgpn_exp.models import CUQGNN, GKDE, GPN, SGCN, Classifier, EvidentialGNN, FitData
from lopgpn_exp.models.evidential import average_totals, logits_to_alpha
from lopgpn_exp.posterior import EvidentialDirichlet
from lopgpn_exp.seeds import seeded


def draw_alpha(*shape, seed=0):
    return 1 + torch.rand(*shape, generator=torch.Generator().manual_seed(seed)).double() * 20


def test_divergence_equals_that_of_torch():
    alpha, prior = draw_alpha(50, 4), draw_alpha(50, 4, seed=1)
    expected = kl_divergence(TorchDirichlet(alpha), TorchDirichlet(prior))
    assert_close(EvidentialDirichlet(alpha).divergence_from(prior), expected)
    assert_close(EvidentialDirichlet(alpha).divergence_from(alpha), torch.zeros(50).double(), atol=1e-9, rtol=0)
    assert_close(
        EvidentialDirichlet(alpha.float()).divergence_from(prior.float()).double(), expected, rtol=1e-4, atol=1e-4
    )


def test_vacuity_and_dissonance_by_hand():
    """(1 + 4, 1 + 4): b = (0.4, 0.4), fully balanced. (1 + 8, 1): no conflict. (1, 1): no evidence at all."""
    posterior = EvidentialDirichlet(torch.tensor([[5.0, 5.0], [9.0, 1.0], [1.0, 1.0], [1 + 6.0, 1 + 2.0]]))
    assert_close(posterior.vacuity(), torch.tensor([0.2, 0.2, 1.0, 0.2]).double())
    # b = (0.6, 0.2): balance 1 - 0.4 / 0.8 = 0.5 for both classes, so 0.6 * 0.5 + 0.2 * 0.5.
    assert_close(posterior.dissonance(), torch.tensor([0.8, 0.0, 0.0, 0.4]).double())


def test_dissonance_of_three_classes_by_its_definition():
    alpha = draw_alpha(20, 3)
    belief = (alpha - 1) / alpha.sum(dim=1, keepdim=True)
    expected = []
    for b in belief.tolist():
        total = 0.0
        for k in range(3):
            others = [j for j in range(3) if j != k]
            weighted = sum(b[j] * (1 - abs(b[j] - b[k]) / (b[j] + b[k])) for j in others)
            total += b[k] * weighted / sum(b[j] for j in others)
        expected.append(total)
    assert_close(EvidentialDirichlet(alpha).dissonance(), torch.tensor(expected).double())


def test_totals_are_averaged_twice_and_means_kept(build_graph):
    """Two connected nodes with totals 2 and 6, and a third without neighbours."""
    graph = build_graph([(0, 1)], [[1.0]] * 3, [0, 1, 0])
    alpha = torch.tensor([[1.0, 1.0], [4.0, 2.0], [3.0, 4.0]])
    result = average_totals(alpha, SparseMatrix(neighbour_mean(graph)))
    assert_close(result.sum(dim=1), torch.tensor([4.0, 4.0, 7.0]))  # one step is enough: both are the mean of 2 and 6
    assert_close(result / result.sum(dim=1, keepdim=True), alpha / alpha.sum(dim=1, keepdim=True))


@pytest.mark.parametrize(("evidence", "vacuity"), [(False, False), (True, False), (False, True), (True, True)])
def test_evidence_is_dispersed_and_totals_averaged(small_graph, evidence, vacuity):
    options = {"propagate_evidence": evidence, "propagate_vacuity": vacuity}
    with seeded(0):
        model = EvidentialGNN(num_features=12, num_classes=3, **options)
    logits = 3 * torch.randn(300, 3, generator=torch.Generator().manual_seed(0))
    model.encoder.forward = lambda _: logits
    expected = 1 + logits.double().exp()
    if evidence:
        a = torch.from_numpy(symmetric(small_graph).toarray())
        z = start = expected - 1
        for _ in range(10):
            z = 0.9 * a @ z + 0.1 * start
        expected = 1 + z
    if vacuity:
        walk = 0.5 * torch.eye(300).double() + 0.5 * torch.from_numpy(neighbour_mean(small_graph).toarray())
        totals = walk @ walk @ expected.sum(dim=1)
        expected = expected / expected.sum(dim=1, keepdim=True) * totals[:, None]
    assert_close(model.predict(small_graph).alpha.double(), expected, rtol=1e-4, atol=1e-4)


def test_the_loss_of_egnn_is_cross_entropy_plus_divergence():
    model = EvidentialGNN(num_features=2, num_classes=3, divergence_weight=0.5)
    alpha, labels = draw_alpha(40, 3), torch.arange(40) % 3
    flat = TorchDirichlet(torch.ones(3).double())
    expected = torch.digamma(alpha.sum(dim=1)) - torch.digamma(alpha.gather(1, labels[:, None]).squeeze(1))
    expected += 0.5 * kl_divergence(TorchDirichlet(alpha), flat)
    assert_close(model.node_loss(EvidentialDirichlet(alpha), labels), expected)


def test_extreme_logits_give_finite_counts():
    alpha = logits_to_alpha(torch.tensor([[1e4, -1e4]]))
    assert torch.isfinite(alpha).all()
    assert alpha[0, 1] == 1


def test_the_loss_of_gkde_gcn_by_its_definition(small_graph):
    """At epoch 50 of 200, the weight of the teacher is a quarter."""
    with seeded(0):
        model, teacher = SGCN(num_features=12, num_classes=3), Classifier(num_features=12, num_classes=3)
    nodes = small_graph.nodes(Part.TRAIN)
    labels = small_graph.labels[nodes]
    model.observe_data(FitData(small_graph, nodes, labels, parts=(teacher,)))
    model._epoch = 49
    model.train()
    posterior = model(model.prepare(small_graph, nodes=nodes))
    loss = model.node_loss(posterior, labels).sum().double()
    alpha = posterior.everywhere.double()
    mean = alpha / alpha.sum(dim=1, keepdim=True)
    target = torch.eye(3).double()[labels]
    draws = TorchDirichlet(alpha[nodes])
    squared = ((target - draws.mean) ** 2 + draws.variance).sum()  # E[(y - theta)^2]
    gkde = GKDE(num_features=12, num_classes=3)
    gkde.fit(small_graph)
    from_prior = kl_divergence(TorchDirichlet(alpha), TorchDirichlet(gkde.predict(small_graph).alpha.double())).sum()
    taught = TorchCategorical(probs=teacher.predict(small_graph).mean.double())
    from_teacher = kl_divergence(TorchCategorical(probs=mean), taught).sum()
    assert_close(loss, squared + 1e-3 * from_prior + 0.25 * from_teacher, rtol=1e-5, atol=1e-4)


def test_the_embedding_of_cuq_gnn_is_not_propagated_again(small_graph):
    """Its evidence is a function of each node's embedding alone: equal embeddings give equal evidence."""
    with seeded(0):
        model = CUQGNN(num_features=12, num_classes=3, encoder="gcn")
    z = torch.randn(300, 16, generator=torch.Generator().manual_seed(0))
    z[1] = z[0]
    model.encoder.forward = lambda _: z
    alpha = model.predict(small_graph).alpha
    assert torch.equal(alpha[0], alpha[1])
    log_joint = model.flow(z) + model.log_class_prior
    assert_close(alpha, 1 + (log_joint + 8 * math.log(4 * math.pi)).clamp(-30, 30).exp())


def test_the_budget_can_grow_with_the_number_of_classes():
    options = {"num_features": 2, "num_classes": 5, "latent_dim": 10}
    budgets = [GPN(**options, budget=budget).log_budget for budget in ("latent", "latent_and_classes")]
    assert budgets == pytest.approx([5 * math.log(4 * math.pi), 5 * math.log(4 * math.pi) + math.log(5)])
