"""Recipes: they give published numbers, and their measures equal independent implementations."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import distributions

from lopgpn_exp.config.plan import plan_run
from lopgpn_exp.evaluation.evaluate import evaluate
from lopgpn_exp.graph import Part
from lopgpn_exp.models import GKDE, GPN
from lopgpn_exp.paper.published import load_published
from lopgpn_exp.paper.published_measures import DrawnDirichlet, TextbookDirichlet, draw_expected_entropy
from lopgpn_exp.paper.published_networks import build_untrained
from lopgpn_exp.paper.recipe_runs import predict_by_recipe
from lopgpn_exp.paper.recipes import find_recipe, load_recipes
from lopgpn_exp.posterior import Dirichlet
from lopgpn_exp.report.names import DATASET_NAMES, MODEL_NAMES, SCENARIO_NAMES
from tests.support import TINY, compose

SEVEN = ("id/accuracy", "ood/accuracy", *(f"ood/auroc/{measure}" for measure in ("tu", "au", "eu", "eu_pc", "eu_so")))


def find_published(dataset: str, model: str, scenario: str) -> dict[str, float]:
    cells = load_published().set_index(["dataset", "model", "scenario", "metric"]).sort_index()["published"]
    return cells[dataset, model, scenario].groupby(level=0).first().to_dict()


def plan(*overrides: str):
    return plan_run(compose("split=published", *overrides))


@pytest.fixture
def _data(real_data, monkeypatch):
    monkeypatch.setenv("LOPGPN_DATA", str(real_data))


@pytest.mark.usefixtures("_data")
def test_untrained_networks_of_the_public_code_give_the_published_numbers():
    """For GPN (rw) on CiteSeer, all seven numbers are equal to within 0.01 points."""
    model = "gpn_rw"
    recipe = find_recipe(dataset="citeseer", model=model, scenario="gaussian")
    values = []
    for split in range(10):
        base = [f"model={model}", "dataset=citeseer", "ood=gaussian", f"split.index={split}"]
        graphs = plan(*base).load_graphs()
        for init in range(10):
            network = build_untrained(plan(*base, f"init={init}"), graphs)
            metrics = evaluate(predict_by_recipe(recipe, network, graphs.evaluation, seed=0), graphs.evaluation).metrics
            values.append([100 * metrics[name] for name in SEVEN])
    published = find_published("citeseer", model, "gaussian")
    assert np.mean(values, axis=0) == pytest.approx([published[name] for name in SEVEN], abs=0.0151)


@pytest.mark.usefixtures("_data")
@pytest.mark.parametrize("scenario", ["bernoulli", "gaussian"])
@pytest.mark.parametrize("dataset", ["cora_ml", "citeseer"])
def test_gkde_gives_the_published_numbers_on_the_published_splits_and_nodes(dataset, scenario):
    """GKDE depends on splits and changed nodes alone, so these must be the published ones."""
    metrics = []
    for split in range(10):
        run = plan("model=gkde", f"dataset={dataset}", f"ood={scenario}", f"split.index={split}")
        graphs = run.load_graphs()
        model = fit_gkde(graphs.training)
        metrics.append(evaluate(model.predict(graphs.evaluation), graphs.evaluation).metrics)
    means, published = pd.DataFrame(metrics).mean() * 100, find_published(dataset, "gkde", scenario)
    for name in ("id/accuracy", "ood/accuracy", "ood/auroc/eu_pc"):
        assert means[name] == pytest.approx(published[name], abs=0.0051), name


def fit_gkde(graph):
    model = GKDE(num_features=graph.num_features, num_classes=graph.num_classes)
    model.fit(graph)
    return model


@pytest.mark.usefixtures("_data")
def test_float32_and_draws_explain_gkde_on_citeseer():
    """With left-out classes, half of the test nodes have almost no evidence and are ties in float32.

    Exact values are 1.4 points (TU) and 16 to 18 points (AU, EU) from the published ones; by recipe all are near.
    """
    recipe = find_recipe(dataset="citeseer", model="gkde", scenario="leave_out_classes")
    exact, remade = [], []
    for split in range(10):
        graphs = plan("model=gkde", "dataset=citeseer", "ood=leave_out_classes", f"split.index={split}").load_graphs()
        model = fit_gkde(graphs.training)
        posteriors = model.predict(graphs.evaluation), predict_by_recipe(recipe, model, graphs.evaluation, seed=split)
        for values, posterior in zip((exact, remade), posteriors, strict=True):
            values.append(evaluate(posterior, graphs.evaluation).metrics)
    exact, remade = (100 * pd.DataFrame(values).mean() for values in (exact, remade))
    published = find_published("citeseer", "gkde", "leave_out_classes")
    for measure, distance, tolerance in (("tu", 1.3, 0.3), ("eu_so", 1.5, 0.5), ("au", 15, 1.0), ("eu", 15, 1.0)):
        name = f"ood/auroc/{measure}"
        assert abs(exact[name] - published[name]) > distance
        assert remade[name] == pytest.approx(published[name], abs=tolerance)
    for name in ("id/accuracy", "ood/auroc/eu_pc"):
        assert remade[name] == pytest.approx(published[name], abs=0.0151)


@pytest.fixture(scope="module")
def alpha() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return 1 + torch.rand(200, 4, generator=generator) * torch.logspace(-1, 6, 200)[:, None]


def test_textbook_measures_equal_those_of_torch_in_float32(alpha):
    """TU is that of `Categorical`, to the bit; the entropy of `Dirichlet` below the point where it is approximated."""
    posterior, small = TextbookDirichlet(alpha), alpha.sum(dim=1) < 1e3
    mean = alpha / alpha.sum(dim=1, keepdim=True)
    assert torch.equal(posterior.tu().float(), distributions.Categorical(mean).entropy())
    expected = distributions.Dirichlet(alpha[small]).entropy().double()
    torch.testing.assert_close(posterior.eu_so()[small], expected, atol=2e-3, rtol=1e-4)


def test_textbook_measures_are_near_the_exact_ones_for_moderate_counts(alpha):
    moderate = alpha[alpha.sum(dim=1) < 100]
    textbook, exact = TextbookDirichlet(moderate), Dirichlet(moderate)
    for name in ("tu", "au", "eu", "eu_pc", "eu_so"):
        torch.testing.assert_close(textbook.measure(name), exact.measure(name), atol=1e-4, rtol=1e-5)


def test_the_approximate_entropy_is_near_the_exact_one_for_large_counts(alpha):
    large = alpha[alpha.sum(dim=1) > 1e5]
    torch.testing.assert_close(TextbookDirichlet(large).eu_so(), Dirichlet(large).eu_so(), atol=1e-2, rtol=1e-3)


def test_the_entropy_of_draws_converges_to_the_expected_entropy():
    alpha = torch.tensor([[1.0, 1.0, 1.0], [5.0, 1.0, 2.0], [0.5, 3.0, 0.2]])
    draws = draw_expected_entropy(alpha, num_draws=20_000, generator=np.random.default_rng(0))
    torch.testing.assert_close(draws.double(), Dirichlet(alpha).au(), atol=0.01, rtol=0)
    few = [draw_expected_entropy(alpha, num_draws=30, generator=np.random.default_rng(k)) for k in (0, 0, 1)]
    assert torch.equal(few[0], few[1])
    assert not torch.equal(few[0], few[2])


def test_a_drawn_posterior_uses_the_draws_and_the_entropy_of_another_distribution(alpha):
    expected_entropy, alone = torch.rand(200), Dirichlet(1 + torch.rand(200, 4))
    posterior = DrawnDirichlet(alpha, expected_entropy=expected_entropy, entropy_of=alone)
    assert torch.equal(posterior.au().float(), expected_entropy)
    torch.testing.assert_close(posterior.eu(), posterior.tu() - posterior.au(), atol=1e-6, rtol=0)
    assert torch.equal(posterior.eu_so(), TextbookDirichlet(alone.alpha).eu_so())
    nodes = torch.tensor([3, 150])
    for name in posterior.measures:
        assert torch.equal(posterior[nodes].measure(name), posterior.measure(name)[nodes]), name


def test_weights_are_drawn_in_the_order_of_the_public_code():
    """Two linear layers of torch, then raw alpha, raw beta and centre of each radial layer."""
    model = GPN(num_features=5, num_classes=3)
    model.draw_published_weights(torch.Generator().manual_seed(42), count=1)
    with torch.random.fork_rng():
        torch.manual_seed(42)
        hidden, latent = torch.nn.Linear(5, 64), torch.nn.Linear(64, 16)
        flow = [[torch.empty(shape).uniform_(-0.25, 0.25) for shape in ((3,), (3,), (3, 16))] for _ in range(10)]
    same = GPN(num_features=5, num_classes=3, published_init=0)
    assert all(torch.equal(value, same.state_dict()[name]) for name, value in model.state_dict().items())
    assert torch.equal(model.encoder.hidden.weight, hidden.weight)
    assert torch.equal(model.encoder.hidden.bias, hidden.bias)
    assert torch.equal(model.encoder.latent.weight, latent.weight)
    assert torch.equal(model.encoder.latent.bias, latent.bias)
    for layer, (alpha_raw, beta_raw, center) in enumerate(flow):
        assert torch.equal(model.flow.alpha_raw[layer], alpha_raw)
        assert torch.equal(model.flow.beta_raw[layer], beta_raw)
        assert torch.equal(model.flow.center[layer], center)


def test_an_untrained_network_has_seen_the_class_frequencies_only():
    run = plan(*TINY, "model=gpn_sym", "ood=gaussian", "init=3")
    graphs = run.load_graphs()
    model = build_untrained(run, graphs)
    labels = graphs.training.labels[graphs.training.nodes(Part.TRAIN)]
    frequencies = torch.bincount(labels, minlength=graphs.training.num_classes) / len(labels)
    torch.testing.assert_close(model.log_class_prior.exp(), frequencies)
    assert not model.training


def test_every_recipe_applies_to_a_published_block_and_says_why():
    blocks = [(d, m, s) for d in DATASET_NAMES for m in MODEL_NAMES for s in SCENARIO_NAMES]
    found = [find_recipe(dataset=d, model=m, scenario=s) for d, m, s in blocks]
    for recipe in load_recipes():
        assert recipe in found
        assert recipe.reason
        assert recipe.source
    assert find_recipe(dataset="cora_ml", model="lop_gpn", scenario="gaussian") is None
    assert find_recipe(dataset="ogbn_arxiv", model="gkde", scenario="gaussian").num_draws == 100
