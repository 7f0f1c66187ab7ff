"""Parity with an independent implementation of GPN: with its weights, our model gives its outputs."""

import math

import numpy as np
import pytest
import torch

from lopgpn_exp.data.datasets.pyg import citation_full
from lopgpn_exp.graph import Graph
from lopgpn_exp.models import GPN
from tests.support import ROOT


@pytest.fixture(scope="module")
def graph(golden) -> Graph:
    """Return CiteSeer as stored in tests/golden."""
    with np.load(ROOT / "tests" / "golden" / "citeseer_features.npz") as archive:
        columns, row_lengths = archive["columns"], archive["row_lengths"]
    features = np.zeros((len(row_lengths), 602), dtype=np.float32)
    features[np.repeat(np.arange(len(row_lengths)), row_lengths), columns] = 1
    features /= features.sum(axis=1, keepdims=True).clip(min=1)
    return Graph.build(features=features, edge_index=golden["graph/edge_index"], labels=golden["graph/y"])


def test_the_stored_graph_is_the_dataset(graph, real_data):
    dataset = citation_full(root=real_data, collection_name="CiteSeer")
    assert torch.equal(graph.features, dataset.features.to_dense())
    for name in ("edge_index", "labels"):
        assert torch.equal(getattr(graph, name), getattr(dataset, name))


@pytest.fixture(scope="module")
def model(golden) -> GPN:
    model = GPN(num_features=602, num_classes=6)
    layers = [f"encoder/{layer}/{kind}" for layer in ("hidden", "latent") for kind in ("weight", "bias")]
    names = [*layers, "flow/center", "flow/alpha_raw", "flow/beta_raw"]
    weights = {name.replace("/", "."): golden[name] for name in names}
    model.load_state_dict(
        {name: torch.from_numpy(value) for name, value in weights.items()} | {"log_class_prior": torch.zeros(6)}
    )
    model.observe(torch.from_numpy(golden["graph/y"][golden["graph/train_mask"]]))
    return model.eval()


def test_the_class_prior_is_the_frequency_in_the_training_part(golden, model):
    np.testing.assert_allclose(model.log_class_prior.exp(), golden["class_prior"], rtol=1e-6)


@torch.no_grad()
def test_latent_points_densities_and_evidence(golden, graph, model):
    features = model.prepare(graph).features
    latent = model.encoder(features)
    np.testing.assert_allclose(latent, golden["out/z"], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(model.flow(latent), golden["out/flow_log_prob"], rtol=0, atol=1e-3)
    np.testing.assert_allclose(model.feature_evidence(features), golden["out/beta_ft"], rtol=1e-4)


def test_posterior_and_measures(golden, graph, model):
    posterior = model.predict(graph)
    np.testing.assert_allclose(posterior.alpha, golden["out/alpha"], rtol=1e-4)
    np.testing.assert_allclose(posterior.mean, golden["out/mean"], rtol=1e-4)
    np.testing.assert_allclose(posterior.eu_pc(), golden["out/eu_pc"], rtol=1e-4)
    for name in ("tu", "au", "eu"):
        np.testing.assert_allclose(posterior.measure(name), golden[f"out/{name}"], rtol=0, atol=1e-3, err_msg=name)


def test_second_order_entropy_up_to_the_approximation_of_the_reference(golden, graph, model):
    """For alpha_0 >= 1e4 the reference uses the leading term of an expansion in 1/alpha; our entropy is exact.

    The leading term for our alpha equals the reference, which differs from our entropy by the next term only.
    """
    posterior = model.predict(graph)
    alpha = posterior.alpha.double()
    alpha_0, k = alpha.sum(1), alpha.shape[1]
    constant = 0.5 * (k - 1) * (1 + math.log(2 * math.pi))
    leading = constant + 0.5 * alpha.log().sum(1) - (k - 0.5) * alpha_0.log()
    assert (alpha_0 >= 1e4).all()
    np.testing.assert_allclose(leading, golden["out/eu_so"], rtol=0, atol=1e-3)
    np.testing.assert_allclose(posterior.eu_so() + (1 / (3 * alpha)).sum(1), golden["out/eu_so"], rtol=0, atol=1e-3)


def test_sums_of_the_training_losses(golden, graph, model):
    train = torch.from_numpy(np.flatnonzero(golden["graph/train_mask"]))
    posterior = model.predict(graph)[train]
    uce = posterior.expected_cross_entropy(graph.labels[train]).sum().item()
    entropy_term = -model.entropy_weight * posterior.entropy().sum().item()
    assert uce == pytest.approx(golden["out/uce_sum_train"].item(), rel=1e-4)
    total = golden["out/uce_sum_train"] + golden["out/entropy_term_sum_train"]
    assert model.node_loss(posterior, graph.labels[train]).sum().item() == pytest.approx(total.item(), rel=1e-4)
    assert entropy_term == pytest.approx(golden["out/entropy_term_sum_train"].item(), rel=1e-4)
