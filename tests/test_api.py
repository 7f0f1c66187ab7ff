"""The same experiments from Python."""

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
from lopgpn_exp.data.synthetic import block_model
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Part
from lopgpn_exp.models import APPNP, GPN, LOPGPN
from tests.test_experiment import TINY, outcome
from tests.test_predict import write_tables

QUICK = {"trainer.max_epochs": 6}
SMALL = {key: yaml.safe_load(value) for key, value in (word.split("=") for word in TINY) if "." in key}


@pytest.fixture(scope="module")
def experiment():
    return Experiment(model="lop_gpn", dataset="synthetic", settings=SMALL).fit()


@pytest.mark.parametrize("scenario", ["none", "gaussian", "leave_out_classes"])
def test_the_numbers_are_those_of_the_command(experiment, tmp_path, scenario):
    theirs = outcome(tmp_path, f"ood={scenario}").result["metrics"]
    assert experiment.evaluate(scenario).metrics == theirs


def test_nothing_is_written_and_nothing_global_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(1)
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    hydra = GlobalHydra.instance().is_initialized()
    Experiment(dataset="synthetic", settings={**SMALL, "trainer.threads": 2}).fit().predict()
    assert list(tmp_path.iterdir()) == []
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.get_num_threads() == threads
    assert GlobalHydra.instance().is_initialized() == hydra


def test_a_left_out_class_trains_once(experiment, monkeypatch):
    experiment.evaluate("leave_out_classes")
    monkeypatch.setattr("lopgpn_exp.api.fitted", lambda *_: pytest.fail("trained again"))
    experiment.evaluate("leave_out_classes")
    assert experiment.model.predict(experiment.graph).mean.shape == (300, 4)  # the clean one is still the model


def test_the_posterior_is_in_ones_hands(experiment):
    posterior = experiment.posterior()
    table = experiment.predict()
    assert posterior.measures == ("tu", "au", "eu", "eu_pc", "eu_so", "lconf")
    np.testing.assert_allclose(table["eu"], posterior.eu())
    np.testing.assert_allclose(table[[f"p({c})" for c in range(4)]], posterior.mean)


def data_of(graph, **changes) -> Data:
    part = graph.part
    masks = {"train_mask": part == Part.TRAIN, "val_mask": part == Part.VAL, "test_mask": part == Part.TEST}
    return Data(x=graph.features, edge_index=graph.edge_index, y=graph.labels, **(masks | changes))


def test_a_pyg_data_is_a_dataset(small_graph):
    """With its own masks; the same as the graph itself, but for the scale of its columns."""
    found = Experiment(dataset=data_of(small_graph), settings={**QUICK, "dataset.scaling": "none"}).fit()
    assert torch.equal(found.graph.part, small_graph.part)
    plain = Experiment(dataset=small_graph, settings=QUICK).fit()
    torch.testing.assert_close(found.posterior().mean, plain.posterior().mean, rtol=0, atol=0)


def test_another_data_is_read_on_the_scale_of_the_first(small_graph):
    """Columns are standardised by the graph that was trained on, also in a version with half the nodes."""
    shifted = small_graph.replace(features=5 + 3 * small_graph.features)
    found = Experiment(dataset=data_of(shifted), settings=QUICK).fit()
    alone = Data(x=shifted.features[:100], edge_index=torch.empty(2, 0, dtype=torch.long))
    kept = found.graph.replace(edge_index=torch.empty(2, 0, dtype=torch.long))
    torch.testing.assert_close(found.posterior(alone).mean, found.posterior(kept).mean[:100], rtol=1e-5, atol=1e-6)
    table = found.predict(alone)
    assert len(table) == 100
    assert table["label"].isna().all()
    with pytest.raises(InputError, match="the graph has 3 features"):
        found.predict(Data(x=torch.ones(4, 3), edge_index=torch.empty(2, 0, dtype=torch.long)))


def test_a_graph_without_a_split_gets_one():
    graph = block_model(num_nodes=300, num_edges=700, num_classes=3, num_features=5, seed=0)
    found = Experiment(dataset=graph, split=3, settings=QUICK)
    other = Experiment(dataset=graph, split=4, settings=QUICK)
    assert (found.graph.part == Part.TRAIN).sum() == pytest.approx(180, abs=3)  # 60 %: one's own labels are used
    assert not torch.equal(found.graph.part, other.graph.part)


def test_a_file_is_a_dataset(tmp_path):
    write_tables(tmp_path)
    nodes = tmp_path / "nodes.csv"
    found = Experiment(dataset=nodes, settings={**QUICK, "dataset.edges": str(tmp_path / "edges.csv")}).fit()
    assert found.predict()["id"].tolist() == pd.read_csv(nodes)["id"].tolist()
    assert found.explain("tree 007").node == 7
    assert "3 classes" in found.survey()
    with pytest.raises(InputError, match="there is no node 'tree 999'"):
        found.explain("tree 999")


@pytest.mark.parametrize("model_class", [LOPGPN, GPN, APPNP])
def test_a_model_is_a_plain_module_on_a_pyg_data(model_class, small_graph):
    model = model_class(num_features=12, num_classes=3)
    assert isinstance(model, torch.nn.Module)
    plain = Data(x=small_graph.features, edge_index=small_graph.edge_index)
    posterior = model.predict(as_graph(plain, num_classes=3))
    torch.testing.assert_close(posterior.mean, model.predict(small_graph).mean)


def test_another_data_has_the_models_classes(experiment):
    """Labels of some of them only: class 2 is class 2 of the model."""
    part = Data(x=experiment.graph.features, edge_index=experiment.graph.edge_index, y=torch.full((300,), 2))
    table = experiment.predict(part)
    assert set(table["label"]) == {"2"}
    assert table["predicted"].tolist() == experiment.predict()["predicted"].tolist()


def test_limits_can_be_wished_for(experiment):
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
def test_a_mistake_is_told_at_once(options, message):
    with pytest.raises(InputError, match=message):
        Experiment(**options)


def test_other_mistakes(experiment, tmp_path):
    with pytest.raises(InputError, match="no model yet"):
        Experiment(dataset="digits").predict()
    with pytest.raises(InputError, match="ood=gaussian"):
        experiment.evaluate("gausian")
    with pytest.raises(InputError, match="there is no file"):
        Experiment(dataset=tmp_path / "absent.npz").fit()


def test_asking_for_the_version_imports_nothing_heavy():
    code = "import sys, lopgpn_exp; lopgpn_exp.__version__; print('torch' in sys.modules, 'pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_what_is_public_is_there():
    assert set(lopgpn_exp._PUBLIC) <= set(dir(lopgpn_exp))
    assert all(getattr(lopgpn_exp, name).__doc__ for name in lopgpn_exp._PUBLIC)
    with pytest.raises(AttributeError, match="no attribute 'Experimnet'"):
        lopgpn_exp.Experimnet  # noqa: B018
