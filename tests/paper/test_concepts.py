"""The paper's examples on our code: figures 1 to 3, GPN's axioms, and the one that LOP-GPN gives up."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import beta

from lopgpn_exp.graph import DenseMatrix
from lopgpn_exp.models import GPN, LOPGPN
from lopgpn_exp.paper.concept_figures import THETA, figure1_beliefs, pool_with_gpn, pool_with_lop_gpn
from lopgpn_exp.posterior import Dirichlet, DirichletMixture

MIXTURE = DirichletMixture(
    DenseMatrix(torch.tensor([[0.5, 0.5]], dtype=torch.float64)),
    torch.tensor([[100.0, 10.0], [10.0, 100.0]], dtype=torch.float64),
)
FIGURE_1 = {
    "Beta(5, 5)": (Dirichlet(torch.tensor([[5.0, 5.0]]).double()), beta(5, 5).pdf),
    "U[0, 1]": (Dirichlet(torch.tensor([[1.0, 1.0]]).double()), lambda _: 1.0),
    "mixture": (MIXTURE, lambda theta: 0.5 * beta(100, 10).pdf(theta) + 0.5 * beta(10, 100).pdf(theta)),
}
GPN_SYM = (GPN, {"normalization": "symmetric"})
GPN_RW = (GPN, {"normalization": "column_stochastic"})
LOP = (LOPGPN, {"prune_threshold": 0.0})
BOTH_GPNS = pytest.mark.parametrize(("model", "options"), [GPN_SYM, GPN_RW], ids=["sym", "rw"])
ALL_MODELS = pytest.mark.parametrize(("model", "options"), [GPN_SYM, GPN_RW, LOP], ids=["sym", "rw", "lop"])
CONFLICT = [[99.0, 9.0], [9.0, 99.0]]
AGREEMENT = [[99.0, 9.0], [99.0, 9.0]]


def integrate(density) -> tuple[float, float]:
    """Return TU and AU of a second-order distribution over two classes, by quadrature of the definitions."""

    def entropy(theta):
        return -sum(p * math.log(p) for p in (theta, 1 - theta) if p > 0)

    points = [0.05, 0.1, 0.5, 0.9, 0.95]
    mean = quad(lambda theta: theta * density(theta), 0, 1, points=points)[0]
    return entropy(mean), quad(lambda theta: entropy(theta) * density(theta), 0, 1, points=points)[0]


@pytest.mark.parametrize("name", FIGURE_1)
def test_figure_1_measures_equal_their_integrals(name):
    posterior, density = FIGURE_1[name]
    tu, au = integrate(density)
    assert posterior.tu().item() == pytest.approx(tu, abs=1e-6)
    assert posterior.au().item() == pytest.approx(au, abs=1e-6)
    assert posterior.eu().item() == pytest.approx(tu - au, abs=1e-6)


def test_figure_1_q2_and_q3_have_the_same_total_uncertainty():
    assert FIGURE_1["U[0, 1]"][0].tu().item() == pytest.approx(FIGURE_1["mixture"][0].tu().item())
    assert FIGURE_1["U[0, 1]"][0].tu().item() == pytest.approx(math.log(2))


def test_concept_figures_show_our_dispersion():
    """On two nodes with an edge, Pi has 0.55 on its diagonal: GPN gives A the evidence 0.55 * 99 + 0.45 * 9 = 58.5."""
    pooled = pool_with_gpn()[0].posterior
    torch.testing.assert_close(pooled.alpha, torch.tensor([[59.5, 50.5]], dtype=torch.float64), rtol=1e-5, atol=0)
    mixed = pool_with_lop_gpn()[0].posterior
    assert mixed.mean[0, 0].item() == pytest.approx(0.55 * 100 / 110 + 0.45 * 10 / 110, abs=1e-6)
    for belief in [*figure1_beliefs(), *pool_with_gpn(), *pool_with_lop_gpn()]:
        assert np.trapezoid(belief.density, THETA) == pytest.approx(1, abs=0.01)
        assert belief.measure("tu") == pytest.approx(belief.measure("au") + belief.measure("eu"))


def predict(model_class, graph, evidence, **options):
    """Return the model's posterior on a graph if its network gives this feature evidence."""
    model = model_class(num_features=1, num_classes=2, **options)
    model.feature_evidence = lambda _: torch.tensor(evidence)
    return model.predict(graph)


@pytest.fixture
def pair(build_graph):
    """Two nodes A and B with an edge: a regular graph, on which the three operators agree."""
    return build_graph([(0, 1)], [[1.0], [1.0]], [0, 1])


@pytest.fixture
def isolated(build_graph):
    """Two nodes without an edge."""
    return build_graph([], [[1.0], [1.0]], [0, 1])


@BOTH_GPNS
def test_figure_2_gpn_turns_conflict_into_aleatoric_uncertainty(pair, isolated, model, options):
    alone = predict(model, isolated, CONFLICT, **options)
    together = predict(model, pair, CONFLICT, **options)
    assert (together.au() > alone.au() + 0.2).all()
    assert (together.eu() < 0.02).all()


def test_figure_3_lop_gpn_turns_conflict_into_epistemic_uncertainty(pair, isolated):
    model, options = LOP
    alone = predict(model, isolated, CONFLICT, **options)
    together = predict(model, pair, CONFLICT, **options)
    torch.testing.assert_close(together.au(), alone.au())
    assert (together.eu() > alone.eu() + 0.2).all()


@ALL_MODELS
def test_axiom_1_the_posterior_of_a_node_without_neighbours_depends_on_its_features(isolated, model, options):
    posterior = predict(model, isolated, CONFLICT, **options)
    expected = Dirichlet(1 + torch.tensor(CONFLICT).double())
    for name in expected.measures:
        torch.testing.assert_close(posterior.measure(name), expected.measure(name), rtol=1e-6, atol=1e-6)


@ALL_MODELS
def test_axiom_1_features_far_from_the_training_data_are_more_uncertain(build_graph, model, options):
    """Along a ray the density falls, and with it the evidence, until nothing is left but the prior."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = model(num_features=1, num_classes=2, **options)
    scales = [1.0, 3.0, 10.0, 30.0, 100.0, 1000.0]
    graph = build_graph([], [[scale] for scale in scales], [0, 1] * 3)
    eu_pc = network.predict(graph).eu_pc()
    assert (eu_pc.diff() >= 0).all()
    assert eu_pc[-1] > eu_pc[0] + 1
    assert eu_pc[-1].item() == pytest.approx(-2, abs=1e-6)  # alpha = (1, 1)


@ALL_MODELS
def test_axiom_2_a_confident_neighbour_reduces_epistemic_uncertainty(pair, isolated, model, options):
    """B has more evidence than A for the same mix of classes."""
    evidence = [[4.0, 2.0], [400.0, 200.0]]
    alone = predict(model, isolated, evidence, **options)
    together = predict(model, pair, evidence, **options)
    assert together.eu_pc()[0] < alone.eu_pc()[0]


@ALL_MODELS
def test_axiom_3_an_ambiguous_neighbour_increases_aleatoric_uncertainty(pair, isolated, model, options):
    evidence = [[99.0, 1.0], [50.0, 50.0]]
    alone = predict(model, isolated, evidence, **options)
    together = predict(model, pair, evidence, **options)
    assert together.au()[0] > alone.au()[0]
    assert together.lconf()[0] > alone.lconf()[0]


@BOTH_GPNS
def test_axiom_3_conflict_increases_aleatoric_uncertainty_in_gpn(pair, model, options):
    conflict = predict(model, pair, CONFLICT, **options)
    agreement = predict(model, pair, AGREEMENT, **options)
    assert (conflict.au() > agreement.au() + 0.2).all()
    assert (conflict.lconf() > agreement.lconf() + 0.2).all()


def test_axiom_3_for_conflict_does_not_hold_in_lop_gpn(pair):
    model, options = LOP
    conflict = predict(model, pair, CONFLICT, **options)
    agreement = predict(model, pair, AGREEMENT, **options)
    torch.testing.assert_close(conflict.au(), agreement.au())
    assert (conflict.eu() > agreement.eu() + 0.2).all()


def test_lop_gpn_averages_means_and_gpn_averages_counts(pair):
    """A has much evidence, B little: GPN follows A, LOP-GPN gives both the same weight."""
    evidence = [[999.0, 9.0], [0.0, 8.0]]
    pooled = predict(LOPGPN, pair, evidence, prune_threshold=0.0)
    counted = predict(GPN, pair, evidence)
    # On the pair A-hat is 1/2 everywhere, so Pi has 0.55 = 0.1 + 0.9 / 2 on its diagonal after every step.
    means = np.array([1000 / 1010, 1 / 10])
    expected = [0.55 * means[0] + 0.45 * means[1], 0.45 * means[0] + 0.55 * means[1]]
    np.testing.assert_allclose(pooled.mean[:, 0], expected)
    assert counted.mean[1, 0] > 0.95
