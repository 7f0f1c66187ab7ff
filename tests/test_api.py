"""Experiments from Python: the same numbers as the command line, without files or global side effects."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from hydra.core.global_hydra import GlobalHydra
from torch_geometric.data import Data

import lopgpn_exp
from lopgpn_exp import Experiment, as_graph
from lopgpn_exp.data.datasets.synthetic import block_model
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Part
from lopgpn_exp.models import APPNP, GPN, LOPGPN
from tests.support import TINY, run_tiny
from tests.support.tables import write_tables

QUICK = {"trainer.max_epochs": 6}
SMALL = {key: yaml.safe_load(value) for key, value in (word.split("=") for word in TINY) if "." in key}


@pytest.fixture(scope="module")
def experiment():
    return Experiment(model="lop_gpn", dataset="synthetic", settings=SMALL).fit()


@pytest.mark.parametrize("scenario", ["none", "gaussian", "leave_out_classes"])
def test_metrics_are_those_of_the_command(experiment, tmp_path, scenario):
    assert experiment.evaluate(scenario).metrics == run_tiny(tmp_path, f"ood={scenario}").result.metrics


def test_nothing_is_written_and_global_state_is_restored(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(1)
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    is_initialized = GlobalHydra.instance().is_initialized()
    Experiment(dataset="synthetic", settings={**SMALL, "trainer.threads": 2}).fit().predict()
    assert list(tmp_path.iterdir()) == []
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.get_num_threads() == threads
    assert GlobalHydra.instance().is_initialized() == is_initialized


def test_scenario_that_changes_training_is_trained_once(experiment, monkeypatch):
    experiment.evaluate("leave_out_classes")
    monkeypatch.setattr("lopgpn_exp.api.fit_model", lambda *_: pytest.fail("trained again"))
    experiment.evaluate("leave_out_classes")
    assert experiment.model.predict(experiment.graph).mean.shape == (300, 4)  # `model` is the one of the clean graph


def test_posterior_has_the_measures_and_probabilities_of_the_table(experiment):
    posterior = experiment.posterior()
    table = experiment.predict()
    assert posterior.measures == ("tu", "au", "eu", "eu_pc", "eu_so", "lconf")
    np.testing.assert_allclose(table["eu"], posterior.eu())
    np.testing.assert_allclose(table[[f"p({c})" for c in range(4)]], posterior.mean)


def test_promises_of_a_prediction_are_those_of_the_command(experiment, tmp_path, command):
    words = ["--coverage", "0.8", "--max-error", "0.3", "--confidence", "0.9", "--output", "nodes.parquet"]
    assert command("predict", run_tiny(tmp_path / "outputs").result.run_id, *words)[0] == 0
    typed = pd.read_parquet(tmp_path / "nodes.parquet")
    table = experiment.predict(coverage=0.8, max_error=0.3, confidence=0.9)
    columns = ["prediction_set", "set_size", "accepted", "flag"]
    pd.testing.assert_frame_equal(table[columns], typed[columns], check_dtype=False)
    assert 0 < table["accepted"].sum() < 300
    assert experiment.acceptance_rule(max_error=0.3, confidence=0.9).measure == "tu"
    with pytest.raises(InputError, match="coverage is 2"):
        experiment.predict(coverage=2.0)


def to_pyg(graph) -> Data:
    part = graph.part
    masks = {"train_mask": part == Part.TRAIN, "val_mask": part == Part.VAL, "test_mask": part == Part.TEST}
    return Data(x=graph.features, edge_index=graph.edge_index, y=graph.labels, **masks)


def test_pyg_data_is_a_dataset_and_keeps_its_masks(small_graph):
    from_pyg = Experiment(dataset=to_pyg(small_graph), settings={**QUICK, "dataset.scaling": "none"}).fit()
    assert torch.equal(from_pyg.graph.part, small_graph.part)
    from_graph = Experiment(dataset=small_graph, settings=QUICK).fit()
    torch.testing.assert_close(from_pyg.posterior().mean, from_graph.posterior().mean, rtol=0, atol=0)


def test_changed_version_is_scaled_like_the_training_graph(small_graph):
    """Columns are standardised by the graph that was trained on, also in a version with a third of the nodes."""
    shifted = small_graph.replace(features=5 + 3 * small_graph.features)
    experiment = Experiment(dataset=to_pyg(shifted), settings=QUICK).fit()
    no_edges = torch.empty(2, 0, dtype=torch.long)
    part = Data(x=shifted.features[:100], edge_index=no_edges)
    expected = experiment.posterior(experiment.graph.replace(edge_index=no_edges)).mean[:100]
    torch.testing.assert_close(experiment.posterior(part).mean, expected, rtol=1e-5, atol=1e-6)
    table = experiment.predict(part)
    assert len(table) == 100
    assert table["label"].isna().all()
    with pytest.raises(InputError, match="the graph has 3 features"):
        experiment.predict(Data(x=torch.ones(4, 3), edge_index=no_edges))


def test_graph_without_a_split_gets_a_random_one():
    graph = block_model(num_nodes=300, num_edges=700, num_classes=3, num_features=5, seed=0)
    third, fourth = (Experiment(dataset=graph, split=split, settings=QUICK).graph.part for split in (3, 4))
    assert (third == Part.TRAIN).sum() == pytest.approx(180, abs=3)  # the split of dataset=custom trains on 60 %
    assert not torch.equal(third, fourth)


def test_sparse_data_are_predicted_evaluated_and_explained_as_dense_data(small_graph):
    counts = (small_graph.features * 2).clamp(min=0).floor()
    dense = Data(x=counts, edge_index=small_graph.edge_index, y=small_graph.labels)
    sparse = Data(x=counts.to_sparse(), edge_index=small_graph.edge_index, y=small_graph.labels)
    first, second = (Experiment(dataset=data, settings=QUICK).fit() for data in (dense, sparse))
    assert "using scaling=rows" in second.survey()
    assert second.graph.fingerprint == first.graph.fingerprint
    pd.testing.assert_frame_equal(second.predict(), first.predict())
    pd.testing.assert_frame_equal(second.predict(sparse), first.predict(dense))
    for scenario in ("gaussian", "leave_out_classes"):
        assert second.evaluate(scenario).metrics == first.evaluate(scenario).metrics
    assert second.explain(7).other_share == first.explain(7).other_share


def test_file_is_a_dataset(tmp_path):
    write_tables(tmp_path)
    nodes = tmp_path / "nodes.csv"
    experiment = Experiment(dataset=nodes, settings={**QUICK, "dataset.edges": str(tmp_path / "edges.csv")}).fit()
    assert experiment.predict()["id"].tolist() == pd.read_csv(nodes)["id"].tolist()
    assert experiment.explain("tree 007").node == 7
    assert "3 classes" in experiment.survey()
    with pytest.raises(InputError, match="there is no node 'tree 999'"):
        experiment.explain("tree 999")


@pytest.mark.parametrize("model_class", [LOPGPN, GPN, APPNP])
def test_model_is_a_plain_module_that_takes_converted_pyg_data(model_class, small_graph):
    model = model_class(num_features=12, num_classes=3)
    assert isinstance(model, torch.nn.Module)
    plain = Data(x=small_graph.features, edge_index=small_graph.edge_index)
    posterior = model.predict(as_graph(plain, num_classes=3))
    torch.testing.assert_close(posterior.mean, model.predict(small_graph).mean)


def test_labels_of_a_changed_version_are_the_classes_of_the_model(experiment):
    """If only class 2 occurs, it is still class 2 of the model."""
    part = Data(x=experiment.graph.features, edge_index=experiment.graph.edge_index, y=torch.full((300,), 2))
    table = experiment.predict(part)
    assert set(table["label"]) == {"2"}
    assert table["predicted"].tolist() == experiment.predict()["predicted"].tolist()


def test_limits_use_the_measures_that_the_model_declares_and_its_posterior_has():
    settings = SMALL | {"posthoc": {"sets": {"_target_": "lopgpn_exp.posthoc.ConformalSets"}}}
    limits = Experiment(model="gcn", dataset="synthetic", settings=settings).fit().limits()
    assert (limits.aleatoric, limits.epistemic) == ("lconf", "energy")  # sets are added; nothing is replaced


def test_lower_required_accuracy_trusts_more_nodes(experiment):
    strict, lax = experiment.limits(accuracy=0.99), experiment.limits(accuracy=0.5)
    assert lax.nodes >= strict.nodes
    trusted = (experiment.predict(limits=lax)["flag"] == "trust").sum()
    assert trusted >= (experiment.predict(limits=strict)["flag"] == "trust").sum()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "lopgpn"}, "model=lop_gpn"),
        ({"dataset": "cora"}, "dataset=cora_ml"),
        ({"settings": {"model.teleprt": 1}}, "model.teleport=..."),
        ({"settings": {"model.teleport": 7.0}}, "teleport is 7"),
        ({"settings": {"trainer.patience": "long"}}, "trainer.patience is 'long'"),
    ],
)
def test_wrong_argument_is_reported_when_the_experiment_is_created(options, message):
    with pytest.raises(InputError, match=message):
        Experiment(**options)


def test_wrong_call_is_reported(experiment, tmp_path):
    with pytest.raises(InputError, match="not trained yet"):
        Experiment(dataset="digits").predict()
    with pytest.raises(InputError, match="ood=gaussian"):
        experiment.evaluate("gausian")
    with pytest.raises(InputError, match="there is no file"):
        Experiment(dataset=tmp_path / "absent.npz").fit()


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, lopgpn_exp; lopgpn_exp.__version__; print('torch' in sys.modules, 'pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_public_names_exist_and_are_documented():
    assert set(lopgpn_exp._PUBLIC) <= set(dir(lopgpn_exp))
    assert all(getattr(lopgpn_exp, name).__doc__ for name in lopgpn_exp._PUBLIC)
    with pytest.raises(AttributeError, match="no attribute 'Experimnet'"):
        lopgpn_exp.Experimnet  # noqa: B018
