"""The model inside of an MLflow model: every kind of model gives what predict gives, and damage is reported."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lopgpn_exp.errors import InputError
from lopgpn_exp.runs.prediction import predict_run, read_changed_graph
from lopgpn_exp.runs.saved_run import SavedRun
from lopgpn_exp.tracking.model_package import MAX_EXAMPLE_VALUES, has_integer_ids, prepare_package
from lopgpn_exp.tracking.served_model import open_served_model
from tests.support import SMALL, run_tiny

COMPOSITES = [["model=gcn_ensemble", *SMALL["gcn_ensemble"]], ["model=gnnsafe"], ["model=gcn", "posthoc=daps"]]
FIXED_TO_EDGES = [["model=gkde"], ["model=matern_ggp", *SMALL["matern_ggp"]]]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("outputs")


def write_version(run: SavedRun, folder: Path, *, num_nodes: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Write and return the first nodes of the run's graph, with changed features, and the edges between them."""
    features = run.graph.features[:num_nodes].numpy() * 0.9
    nodes = pd.DataFrame(features, columns=[str(k) for k in range(features.shape[1])])
    nodes.insert(0, "id", np.arange(num_nodes))
    source, target = run.graph.edge_index.numpy()
    edges = pd.DataFrame({"source": source, "target": target})[(source < num_nodes) & (target < num_nodes)]
    nodes.to_parquet(folder / "nodes.parquet")
    edges.to_parquet(folder / "edges.parquet", index=False)
    return nodes, edges


@pytest.mark.parametrize("words", [["model=lop_gpn"], *COMPOSITES, *FIXED_TO_EDGES], ids=" ".join)
def test_every_kind_of_model_gives_the_table_of_predict(outputs, tmp_path, words):
    run = SavedRun.open(run_tiny(outputs, *words).folder)
    package = prepare_package(tmp_path / "data", run)
    is_fixed = words in FIXED_TO_EDGES
    nodes, edges = write_version(run, tmp_path, num_nodes=300 if is_fixed else 250)
    graph, _ = read_changed_graph(run, tmp_path / "nodes.parquet", tmp_path / "edges.parquet")
    served = open_served_model(tmp_path / "data")
    expected = predict_run(run, served.fit_limits(), graph=graph).table
    files = sorted((tmp_path / "data").rglob("*"))
    table = served.tabulate(nodes, source=edges["source"].tolist(), target=edges["target"].tolist())
    pd.testing.assert_frame_equal(table.drop(columns="label"), expected.drop(columns="label"), check_exact=True)
    assert sorted((tmp_path / "data").rglob("*")) == files  # nothing is cached among the files of the model
    example, params = package.example
    assert len(example) == (300 if is_fixed else len(package.output)) <= (300 if is_fixed else 10)
    assert set(params["source"]) | set(params["target"]) <= set(example["id"])
    if is_fixed:
        with pytest.raises(InputError, match="was fitted to other edges"):
            served.tabulate(nodes.head(10), source=[0, 1], target=[1, 2])


def test_id_of_an_edge_that_is_too_large_is_one_message(outputs, tmp_path):
    prepare_package(tmp_path / "data", SavedRun.open(run_tiny(outputs, "model=gkde").folder))
    served = open_served_model(tmp_path / "data")
    with pytest.raises(InputError, match="the edges cannot be read"):
        served.tabulate(pd.DataFrame({"id": [0, 1]}), source=[2**70], target=[1])


def test_example_has_the_values_of_the_users_file(tree_run, tmp_path):
    """Features were scaled for training; the example holds what the user has."""
    folder, run_id = tree_run
    package = prepare_package(tmp_path / "data", SavedRun.open(folder / "outputs" / "runs" / run_id))
    example, params = package.example
    nodes = pd.read_csv(folder / "nodes.csv").set_index("id")
    features = [f"x{k}" for k in range(6)]
    np.testing.assert_allclose(example[features], nodes.loc[example["id"], features], rtol=1e-5)
    edges = {frozenset(edge) for edge in pd.read_csv(folder / "edges.csv").itertuples(index=False)}
    chosen = set(example["id"])
    given = {frozenset(edge) for edge in zip(params["source"], params["target"], strict=True)}
    assert given == {edge for edge in edges if edge <= chosen}
    assert not has_integer_ids(package.run)


def test_large_model_that_accepts_no_other_graph_has_no_example(outputs, tmp_path, monkeypatch):
    run = SavedRun.open(run_tiny(outputs, "model=gkde").folder)
    assert MAX_EXAMPLE_VALUES > 300 * 8
    monkeypatch.setattr("lopgpn_exp.tracking.model_package.MAX_EXAMPLE_VALUES", 300 * 8 - 1)
    package = prepare_package(tmp_path / "data", run)
    assert package.example is None
    assert len(package.output) == 300


@pytest.mark.parametrize("name", ["edges.parquet", "model.ckpt", "config.yaml"])
def test_damaged_file_is_reported_when_the_model_is_loaded(outputs, tmp_path, name):
    prepare_package(tmp_path / "data", SavedRun.open(run_tiny(outputs, "model=gkde").folder))
    (path,) = (tmp_path / "data").rglob(name)
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(InputError, match="differs from its checksum"):
        open_served_model(tmp_path / "data")


def test_folder_of_something_else_is_one_message(tmp_path):
    with pytest.raises(InputError, match="contains 0 runs"):
        open_served_model(tmp_path)
