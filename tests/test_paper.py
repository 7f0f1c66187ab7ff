"""The paper's examples and claims on our code: figures 1 to 3, GPN's axioms, and which of them LOP-GPN gives up."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import beta as beta_distribution

from lopgpn_exp.graph import DenseMatrix
from lopgpn_exp.models import GPN, LOPGPN
from lopgpn_exp.posterior import Dirichlet, DirichletMixture


def by_integration(density) -> tuple[float, float]:
    """TU and AU of a second-order distribution on two classes, by quadrature of the definitions."""

    def entropy(theta):
        return -sum(p * math.log(p) for p in (theta, 1 - theta) if p > 0)

    grid = [0.05, 0.1, 0.5, 0.9, 0.95]
    mean = quad(lambda t: t * density(t), 0, 1, points=grid)[0]
    return entropy(mean), quad(lambda t: entropy(t) * density(t), 0, 1, points=grid)[0]


Q3 = DirichletMixture(
    DenseMatrix(torch.tensor([[0.5, 0.5]], dtype=torch.float64)),
    torch.tensor([[100.0, 10.0], [10.0, 100.0]], dtype=torch.float64),
)
FIGURE_1 = {
    "Beta(5, 5)": (Dirichlet(torch.tensor([[5.0, 5.0]]).double()), beta_distribution(5, 5).pdf),
    "U[0, 1]": (Dirichlet(torch.tensor([[1.0, 1.0]]).double()), lambda _: 1.0),
    "mixture": (
        Q3,
        lambda t: 0.5 * beta_distribution(100, 10).pdf(t) + 0.5 * beta_distribution(10, 100).pdf(t),
    ),
}


@pytest.mark.parametrize("name", FIGURE_1)
def test_first_figure(name):
    posterior, density = FIGURE_1[name]
    tu, au = by_integration(density)
    assert posterior.tu().item() == pytest.approx(tu, abs=1e-6)
    assert posterior.au().item() == pytest.approx(au, abs=1e-6)
    assert posterior.eu().item() == pytest.approx(tu - au, abs=1e-6)


def test_first_figure_q2_and_q3_have_the_same_total_uncertainty():
    assert FIGURE_1["U[0, 1]"][0].tu().item() == pytest.approx(FIGURE_1["mixture"][0].tu().item())
    assert FIGURE_1["U[0, 1]"][0].tu().item() == pytest.approx(math.log(2))


def posterior_of(model_class, graph, evidence, **options):
    """The model's posterior of a graph when its network gives this feature evidence."""
    model = model_class(num_features=1, num_classes=2, **options)
    model.feature_evidence = lambda _: torch.tensor(evidence)
    return model.predict(graph)


GPN_SYM = (GPN, {"normalization": "symmetric"})
GPN_RW = (GPN, {"normalization": "column_stochastic"})
LOP = (LOPGPN, {"prune_threshold": 0.0})
BOTH_GPN = pytest.mark.parametrize(("model", "options"), [GPN_SYM, GPN_RW], ids=["sym", "rw"])
ALL = pytest.mark.parametrize(("model", "options"), [GPN_SYM, GPN_RW, LOP], ids=["sym", "rw", "lop"])


@pytest.fixture
def pair(build_graph):
    """Two nodes A and B with an edge: a regular graph, on which the three operators agree."""
    return build_graph([(0, 1)], [[1.0], [1.0]], [0, 1])


@pytest.fixture
def two_singles(build_graph):
    return build_graph([], [[1.0], [1.0]], [0, 1])


CONFLICT = [[99.0, 9.0], [9.0, 99.0]]
AGREEMENT = [[99.0, 9.0], [99.0, 9.0]]


@BOTH_GPN
def test_second_figure_gpn_turns_conflict_into_aleatoric_uncertainty(pair, two_singles, model, options):
    alone = posterior_of(model, two_singles, CONFLICT, **options)
    together = posterior_of(model, pair, CONFLICT, **options)
    assert (together.au() > alone.au() + 0.2).all()
    assert (together.eu() < 0.02).all()


def test_third_figure_lop_gpn_turns_conflict_into_epistemic_uncertainty(pair, two_singles):
    model, options = LOP
    alone = posterior_of(model, two_singles, CONFLICT, **options)
    together = posterior_of(model, pair, CONFLICT, **options)
    torch.testing.assert_close(together.au(), alone.au())
    assert (together.eu() > alone.eu() + 0.2).all()


@ALL
def test_axiom_1_without_neighbours_a_node_believes_its_own_features(two_singles, model, options):
    posterior = posterior_of(model, two_singles, CONFLICT, **options)
    own = Dirichlet(1 + torch.tensor(CONFLICT).double())
    for name in own.measures:
        torch.testing.assert_close(posterior.measure(name), own.measure(name), rtol=1e-6, atol=1e-6)


@ALL
def test_axiom_1_features_far_from_training_are_more_uncertain(build_graph, model, options):
    """Nearer and nearer to nothing known: along a ray the density falls, and with it the evidence."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = model(num_features=1, num_classes=2, **options)
    scales = [1.0, 3.0, 10.0, 30.0, 100.0, 1000.0]
    graph = build_graph([], [[s] for s in scales], [0, 1] * 3)
    eu_pc = network.predict(graph).eu_pc()
    assert (eu_pc.diff() >= 0).all()
    assert eu_pc[-1] > eu_pc[0] + 1
    assert eu_pc[-1].item() == pytest.approx(-2, abs=1e-6)  # alpha = (1, 1): nothing is known


@ALL
def test_axiom_2_a_certain_neighbour_makes_more_certain(pair, two_singles, model, options):
    """B knows more than A (more evidence for the same class mix): A's pseudo-count uncertainty falls beside it."""
    evidence = [[4.0, 2.0], [400.0, 200.0]]
    alone = posterior_of(model, two_singles, evidence, **options)
    together = posterior_of(model, pair, evidence, **options)
    assert together.eu_pc()[0] < alone.eu_pc()[0]


@ALL
def test_axiom_3_an_ambiguous_neighbour_makes_more_ambiguous(pair, two_singles, model, options):
    evidence = [[99.0, 1.0], [50.0, 50.0]]
    alone = posterior_of(model, two_singles, evidence, **options)
    together = posterior_of(model, pair, evidence, **options)
    assert together.au()[0] > alone.au()[0]
    assert together.lconf()[0] > alone.lconf()[0]


@BOTH_GPN
def test_axiom_3_conflict_raises_aleatoric_uncertainty_in_gpn(pair, model, options):
    conflict = posterior_of(model, pair, CONFLICT, **options)
    agreement = posterior_of(model, pair, AGREEMENT, **options)
    assert (conflict.au() > agreement.au() + 0.2).all()
    assert (conflict.lconf() > agreement.lconf() + 0.2).all()


def test_axiom_3_on_conflict_is_the_one_that_lop_gpn_gives_up(pair):
    model, options = LOP
    conflict = posterior_of(model, pair, CONFLICT, **options)
    agreement = posterior_of(model, pair, AGREEMENT, **options)
    torch.testing.assert_close(conflict.au(), agreement.au())
    assert (conflict.eu() > agreement.eu() + 0.2).all()


def test_pooled_means_average_where_gpn_averages_counts(pair):
    """A knows much, B little: GPN follows A, LOP-GPN hears both."""
    evidence = [[999.0, 9.0], [0.0, 8.0]]
    pooled = posterior_of(LOPGPN, pair, evidence, prune_threshold=0.0)
    counted = posterior_of(GPN, pair, evidence)
    # On the pair A-hat is 1/2 everywhere, so that Pi has 0.55 = 0.1 + 0.9 / 2 on its diagonal from the first step on.
    own = np.array([1000 / 1010, 1 / 10])
    np.testing.assert_allclose(pooled.mean[:, 0], [0.55 * own[0] + 0.45 * own[1], 0.45 * own[0] + 0.55 * own[1]])
    assert counted.mean[1, 0] > 0.95
