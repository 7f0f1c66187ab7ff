"""Every model config keeps the contract of `lopgpn_exp.testing`; a new model needs one entry in `POSTERIORS`."""

import dataclasses
from functools import cache

import pytest
import torch

from lopgpn_exp.config.compose import default_config_dir
from lopgpn_exp.config.plan import plan_run
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Part, symmetric
from lopgpn_exp.models import APPNP, GPN, LOPGPN
from lopgpn_exp.models.gpn import GPNPosterior
from lopgpn_exp.models.sgcn import SGCNPosterior
from lopgpn_exp.posterior import (
    Categorical,
    Dirichlet,
    DirichletMixture,
    EvidentialDirichlet,
    GaussianSimplex,
    RefinedPosterior,
    Samples,
)
from lopgpn_exp.targets import import_target
from lopgpn_exp.testing import CHECKS, CheckReport, CheckSettings, ModelUnderTest, Status, run_checks
from lopgpn_exp.testing.model_under_test import easy_graph
from lopgpn_exp.training import ClosedFormClassification, NodeClassification, get_module_class
from tests.support import SMALL, compose

POSTERIORS = {
    "lop_gpn": DirichletMixture,
    "gpn_sym": GPNPosterior,
    "gpn_rw": GPNPosterior,
    "gpn_10": GPNPosterior,
    "appnp": Categorical,
    "gcn": Categorical,
    "gat": Categorical,
    "mlp": Categorical,
    "egnn": EvidentialDirichlet,
    "egnn_vacuity": EvidentialDirichlet,
    "egnn_evidence": EvidentialDirichlet,
    "egnn_both": EvidentialDirichlet,
    "sgcn": SGCNPosterior,
    "cuq_appnp": EvidentialDirichlet,
    "cuq_gcn": EvidentialDirichlet,
    "cuq_gat": EvidentialDirichlet,
    "gnnsafe": RefinedPosterior,
    "gebm": RefinedPosterior,
    "gcn_dropout": Samples,
    "gcn_ensemble": Samples,
    "epn": EvidentialDirichlet,
    "epn_reg": EvidentialDirichlet,
    "gkde": Dirichlet,
    "matern_ggp": GaussianSimplex,
}
COMPOSITE = ("gnnsafe", "gebm", "gcn_dropout", "gcn_ensemble", "epn", "epn_reg")
CLOSED_FORM = ("gkde", "matern_ggp")
GRADIENT = tuple(name for name in POSTERIORS if name not in (*COMPOSITE, *CLOSED_FORM))
PAPER = ("lop_gpn", "gpn_sym", "gpn_rw", "appnp")  # gradient models with a dispersion
SETTINGS = {
    # Closed-form models do not use features.
    **{name: CheckSettings(accuracy=0.6 if name in CLOSED_FORM else 0.8) for name in POSTERIORS},
    "gcn_dropout": CheckSettings(
        accuracy=0.8, skip={"node_permutation": "its dropout masks are drawn in the order of the nodes"}
    ),
    "matern_ggp": CheckSettings(
        permute_training_nodes=False,  # its mean-field family depends on their order through the Cholesky factor
        tolerance=0.02,  # its optimiser stops when the bound has converged, which depends on rounding
    ),
}
for_each_model = pytest.mark.parametrize("name", POSTERIORS)


@cache
def subject(name: str) -> ModelUnderTest:
    return ModelUnderTest.from_config(name, *SMALL.get(name, []), settings=SETTINGS[name])


@cache
def report(name: str) -> CheckReport:
    return run_checks(subject(name))


def test_every_model_config_has_an_entry():
    assert set(POSTERIORS) == {path.stem for path in (default_config_dir() / "model").glob("*.yaml")}


@pytest.mark.parametrize("check", [check.name for check in CHECKS])
@for_each_model
def test_every_model_passes_every_check_of_its_kind(name, check):
    names = [result.name for result in report(name).results]
    gradient_only = {"different_seed", "node_subset", "sparse_features", "other_graphs", "node_loss"}
    others = {"feature_access"} if name in GRADIENT else gradient_only
    assert (check in names) == (check not in (gradient_only | {"feature_access"} if name in COMPOSITE else others))
    if check in names and check not in SETTINGS[name].skip:
        report(name)[check].raise_on_failure()
        assert report(name)[check].status is Status.PASSED


@for_each_model
def test_a_model_returns_its_posterior_and_is_trained_by_its_module(name):
    assert type(subject(name).posterior) is POSTERIORS[name]
    assert get_module_class(subject(name).model_class) is (
        NodeClassification if name in GRADIENT else ClosedFormClassification
    )


@pytest.mark.parametrize("delta", [0.0, 0.01])
def test_lop_gpn_has_the_same_gradients_on_restricted_rows(small_graph, delta):
    """Compare the rows that `prepare` restricts Pi to with the full posterior at the same nodes."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = LOPGPN(num_features=12, num_classes=3, prune_threshold=delta).eval()
    nodes = small_graph.nodes(Part.TRAIN)
    labels = small_graph.labels[nodes]
    gradients = []
    for posterior in (
        model(model.prepare(small_graph, nodes=nodes)),
        model(model.prepare(small_graph))[nodes],
    ):
        loss = model.node_loss(posterior, labels).sum()
        gradients.append(torch.autograd.grad(loss, list(model.parameters())))
    for restricted, full in zip(*gradients, strict=True):
        torch.testing.assert_close(restricted, full, rtol=1e-3, atol=1e-4)


def test_sparse_and_dense_features_give_the_same_predictions(small_graph, monkeypatch):
    from lopgpn_exp.models import base

    sparse_features = small_graph.replace(features=small_graph.features * (small_graph.features > 0.5))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = GPN(num_features=12, num_classes=3)
    results = []
    for density in (0.0, 1.1):
        monkeypatch.setattr(base, "SPARSE_BELOW", density)
        results.append(model.predict(sparse_features).alpha)
    torch.testing.assert_close(results[0], results[1])


# The first layer of a gradient model is dense or sparse, depending on how many features the threshold leaves.
@pytest.mark.parametrize(
    ("name", "threshold"),
    [*((name, 1.5) for name in POSTERIORS if name not in COMPOSITE), *((name, 0.0) for name in GRADIENT)],
)
def test_the_layout_of_the_features_does_not_change_a_bit(name, threshold, small_graph):
    dense = small_graph.replace(features=small_graph.features.masked_fill(small_graph.features < threshold, 0))
    sparse = dense.replace(features=dense.features.to_sparse_csr())
    models = [subject(name).fit(graph, epochs=3) for graph in (dense, sparse)]
    first, second = (model.predict(graph) for model, graph in zip(models, (dense, sparse), strict=True))
    assert torch.equal(first.mean, second.mean)
    assert all(torch.equal(first.measure(measure), second.measure(measure)) for measure in first.measures)


@pytest.mark.parametrize("name", ["lop_gpn", "gkde"])
def test_the_contract_is_kept_on_a_graph_with_sparse_features(name):
    graph = easy_graph()
    graph = graph.replace(features=graph.features.masked_fill(graph.features < 0.5, 0).to_sparse_csr())
    settings = dataclasses.replace(SETTINGS[name], graph=graph, accuracy=0.6)
    run_checks(ModelUnderTest.from_config(name, settings=settings)).raise_on_failure()


@pytest.mark.parametrize("name", PAPER)
def test_the_dispersion_option_changes_the_predictions(name, small_graph):
    means = []
    for scheme in ("recursion", "power"):
        run = plan_run(compose(f"model={name}", f"model.dispersion={scheme}"))
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = import_target(run.model_class)(num_features=12, num_classes=3, **run.model_options)
        means.append(model.predict(small_graph).mean)
    assert (means[0] - means[1]).abs().max() > 1e-3


@pytest.mark.parametrize("scheme", ["recursion", "power"])
def test_gpn_adds_one_to_the_dispersed_evidence(small_graph, scheme):
    """Compare with the dense polynomial of the symmetric operator, computed from its definition."""
    model = GPN(num_features=12, num_classes=3, dispersion=scheme)
    evidence = 10 * torch.rand(300, 3, generator=torch.Generator().manual_seed(0))
    model.feature_evidence = lambda _: evidence
    a, eye = torch.from_numpy(symmetric(small_graph).toarray()), torch.eye(300, dtype=torch.float64)
    matrix = torch.linalg.matrix_power(0.1 * eye + 0.9 * a, 10)
    if scheme == "recursion":
        matrix = 0.1 * sum(torch.linalg.matrix_power(0.9 * a, step) for step in range(10))
        matrix += torch.linalg.matrix_power(0.9 * a, 10)
    torch.testing.assert_close(model.predict(small_graph).alpha, (1 + matrix @ evidence.double()).float())


@pytest.mark.parametrize("what", ["logits", "probabilities"])
def test_appnp_has_a_finite_cross_entropy_for_extreme_features(build_graph, what):
    """A probability of exactly 0 in float32 costs at least as much as the smallest positive float32."""
    graph = build_graph([(0, 1)], [[1e6], [1e6]], [0, 1])
    model = APPNP(num_features=1, num_classes=2, hidden_dim=1, disperse_what=what).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(1.0)
        model.encoder.latent.weight.copy_(torch.tensor([[1.0], [-1.0]]))
    losses = model.predict(graph).expected_cross_entropy(torch.tensor([0, 1]))
    assert losses[0] == 0
    assert 87 < losses[1] < torch.inf  # -log(1.2e-38) = 87.3


@pytest.mark.parametrize("what", ["logits", "probabilities"])
def test_appnp_disperses_logits_or_probabilities(build_graph, what):
    """All entries of A-hat of two connected nodes are 1/2, so that Pi has the entries 0.55 and 0.45."""
    graph = build_graph([(0, 1)], [[1.0], [0.0]], [0, 1])
    model = APPNP(num_features=1, num_classes=2, disperse_what=what)
    logits = torch.tensor([[3.0, 0.0], [-1.0, 1.0]])
    model.encoder.forward = lambda _: logits
    pi = torch.tensor([[0.55, 0.45], [0.45, 0.55]])
    expected = (pi @ logits).softmax(1) if what == "logits" else pi @ logits.softmax(1)
    torch.testing.assert_close(model.predict(graph).mean, expected)


@pytest.mark.parametrize("model_class", [GPN, LOPGPN])
def test_the_loss_is_cross_entropy_minus_weighted_entropy(model_class, isolated_nodes):
    """The posterior of an isolated node is a Dirichlet: compare with its entropy in torch and with Monte Carlo."""
    model = model_class(num_features=1, num_classes=2, entropy_weight=0.5)
    evidence = torch.tensor([[4.0, 2.0], [1.0, 9.0]])
    model.feature_evidence = lambda _: evidence
    labels = torch.tensor([0, 0])
    loss = model.node_loss(model.predict(isolated_nodes), labels)
    dirichlet = torch.distributions.Dirichlet(1 + evidence.double())
    with torch.random.fork_rng():
        torch.manual_seed(0)
        cross_entropy = -dirichlet.sample((400_000,))[:, :, 0].log().mean(dim=0)
    torch.testing.assert_close(loss.double(), cross_entropy - 0.5 * dirichlet.entropy(), rtol=0, atol=0.01)


@pytest.fixture
def isolated_nodes(build_graph):
    return build_graph([], [[1.0], [1.0]], [0, 1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dropout": 1.5}, "dropout is 1.5"),
        ({"hidden_dim": 0}, "hidden_dim is 0"),
        ({"latent_dim": 0}, "latent_dim is 0"),
        ({"flow_layers": 0}, "flow_layers is 0"),
        ({"entropy_weight": -1.0}, "entropy_weight is -1"),
    ],
)
def test_hyper_parameters_out_of_range_are_refused(options, message):
    with pytest.raises(InputError, match=message) as raised:
        LOPGPN(num_features=2, num_classes=2, **options)
    assert raised.value.parameter in options


def test_the_regulariser_can_be_the_entropy_before_propagation(small_graph):
    """As in the public code before March 2024; at a weight of 0 the losses agree."""
    nodes = small_graph.nodes(Part.TRAIN)
    labels = small_graph.labels[nodes]
    losses = {}
    for entropy_of in ("posterior", "features"):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = GPN(num_features=12, num_classes=3, entropy_of=entropy_of, entropy_weight=0.5).eval()
        posterior = model(model.prepare(small_graph, nodes=nodes))
        losses[entropy_of] = model.node_loss(posterior, labels)
    alone = Dirichlet(1 + model.feature_evidence(model.prepare(small_graph).features)[nodes])
    torch.testing.assert_close(posterior.feature_based.alpha, alone.alpha)
    expected = 0.5 * (posterior.entropy() - alone.entropy())
    torch.testing.assert_close(losses["features"] - losses["posterior"], expected, atol=1e-4, rtol=1e-4)
