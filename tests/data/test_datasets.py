"""Benchmark datasets: sizes, damaged or missing raw files, generated graphs."""

import gzip
import shutil

import numpy as np
import pandas as pd
import pytest
import torch

from lopgpn_exp.config.plan import plan_run
from lopgpn_exp.data import data_root
from lopgpn_exp.data.datasets import amazon, block_model, citation_full, digits_graph, heterophilous, ogb_node
from lopgpn_exp.data.datasets.digits import _read_digits
from lopgpn_exp.data.files.survey import homophily
from lopgpn_exp.data.splits import official_split
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Part
from tests.support import compose
from tests.support.graph_files import write_ogb_files

# protocol.md: nodes, undirected edges, features, classes, isolated nodes, nodes without any feature
PUBLISHED = {
    "Cora_ML": (citation_full, 2995, 8158, 2879, 7, 0, 0),
    "CiteSeer": (citation_full, 4230, 5337, 602, 6, 0, 89),
    "PubMed": (citation_full, 19717, 44324, 500, 3, 0, 0),
    "Photo": (amazon, 7650, 119081, 745, 8, 115, 0),
    "Computers": (amazon, 13752, 245861, 767, 10, 281, 0),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_real_graphs_have_the_documented_sizes(real_data, name):
    load, nodes, edges, features, classes, isolated, empty = PUBLISHED[name]
    graph = load(root=real_data, collection_name=name)
    degree = torch.bincount(graph.edge_index[0], minlength=nodes)
    sums = graph.features.to_dense().sum(1)
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes) == (
        nodes,
        edges,
        features,
        classes,
    )
    assert int((degree == 0).sum()) == isolated
    assert int((sums == 0).sum()) == empty
    torch.testing.assert_close(sums[sums > 0], torch.ones(nodes - empty))


# PyG's documentation, and Platonov et al. (2023): nodes, edges, features, classes, share of edges within classes
BEYOND_THE_PAPER = {
    "coauthor_cs": (18_333, 81_894, 6_805, 15, 0.81),
    "coauthor_physics": (34_493, 247_962, 8_415, 5, 0.93),
    "tolokers": (11_758, 519_000, 10, 2, 0.59),
    "minesweeper": (10_000, 39_402, 7, 2, 0.68),
    "chameleon_filtered": (890, 8_854, 2_325, 5, 0.24),
    "squirrel_filtered": (2_223, 46_998, 2_089, 5, 0.21),
}


@pytest.mark.parametrize("name", BEYOND_THE_PAPER)
def test_further_graphs_have_the_statistics_of_their_sources(real_data, monkeypatch, name):
    monkeypatch.setenv("LOPGPN_DATA", str(real_data))
    *sizes, share = BEYOND_THE_PAPER[name]
    plan = plan_run(compose("model=gkde", f"dataset={name}"))
    graph = plan.read_dataset()
    assert [graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes] == sizes
    assert homophily(graph)[0] == pytest.approx(share, abs=0.005)
    if name.startswith("coauthor"):
        assert plan.split_dataset(graph).official_part is None
        return
    assert graph.official_part.shape == (10, graph.num_nodes)
    assert len({tuple(part.tolist()) for part in graph.official_part}) == 10
    split = plan.split_dataset(graph)
    assert torch.equal(split.part, graph.official_part[0])
    for part in (Part.TRAIN, Part.VAL, Part.TEST):
        assert len(split.nodes(part)) > 0


@pytest.mark.parametrize("name", ["chameleon_filtered", "squirrel_filtered"])
def test_a_graph_that_cannot_be_downloaded_names_its_file(tmp_path, name):
    with pytest.raises(InputError, match="PyG cannot download it") as caught:
        heterophilous(root=tmp_path, collection_name=name, scaling="rows")
    assert str(tmp_path / "heterophilous" / name / "raw" / f"{name}.npz") in caught.value.expected
    assert caught.value.parameter == "data_root"


def write_raw_file(path, **changes):
    """Write a raw file in the layout of PyG's citation datasets: 9 nodes, 3 classes, a ring."""
    n, ring = 9, np.arange(9)
    arrays = {
        "attr_data": np.ones(n, dtype=np.float32),
        "attr_indices": ring % 4,
        "attr_indptr": np.arange(n + 1),
        "attr_shape": np.array([n, 4]),
        "adj_data": np.ones(n),
        "adj_indices": (ring + 1) % n,
        "adj_indptr": np.arange(n + 1),
        "adj_shape": np.array([n, n]),
        "labels": ring % 3,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **(arrays | changes))


@pytest.fixture
def raw_file(tmp_path):
    path = tmp_path / "citation_full/cora_ml/raw/cora_ml.npz"
    write_raw_file(path)
    return path


def test_an_existing_raw_file_is_read_without_writing_anything(raw_file, tmp_path):
    graph = citation_full(root=tmp_path, collection_name="Cora_ML")
    assert (graph.num_nodes, graph.num_edges, graph.num_classes) == (9, 9, 3)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [raw_file]


def test_a_truncated_raw_file_is_named(raw_file, tmp_path):
    raw_file.write_bytes(raw_file.read_bytes()[:400])
    with pytest.raises(InputError, match=r"cora_ml\.npz cannot be read") as caught:
        citation_full(root=tmp_path, collection_name="Cora_ML")
    assert "rm -r '" in caught.value.hint


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attr_data": np.array([1, 1, np.nan, 1, 1, 1, 1, 1, 1], dtype=np.float32)}, "feature 2 of node 2 is nan"),
        ({"labels": np.array([0, 1, 2, 0, 1, 2, 0, 1, -7])}, "node 8 has label -7"),
        ({"adj_indices": np.array([1, 2, 3, 4, 5, 6, 7, 8, 99])}, "cora_ml.npz"),
        ({"labels": np.zeros(3, dtype=int)}, "labels has 3 entries|1 class"),
        ({"labels": np.arange(9) / 2}, "labels are float64"),
        ({"labels": np.array(list("abcabcabc"))}, "not a vector of integers"),
        ({"attr_indices": np.arange(9) + 10**6}, "attr_indices range from 1000000"),
        ({"adj_shape": np.array([9, 8])}, r"adjacency matrix is \("),
        ({"attr_indptr": np.arange(9)}, "attr_indptr does not describe 9 rows"),
        ({"attr_data": np.ones(3, dtype=np.float32)}, "attr has 9 indices"),
        (
            {"attr_data": np.ones(0), "attr_indices": np.ones(0, int), "attr_indptr": np.array([0])}
            | {"attr_shape": np.array([0, 4]), "adj_data": np.ones(0), "adj_indices": np.ones(0, int)}
            | {"adj_indptr": np.array([0]), "adj_shape": np.array([0, 0]), "labels": np.ones(0, int)},
            "no nodes",
        ),
    ],
)
def test_invalid_content_of_a_raw_file_is_named(raw_file, tmp_path, changes, message):
    write_raw_file(raw_file, **changes)
    with pytest.raises(InputError, match=message):
        citation_full(root=tmp_path, collection_name="Cora_ML")


@pytest.mark.parametrize(
    ("dataset", "collection", "file"),
    [
        ("pubmed", "CitationFull", "citation_full/pubmed/raw/pubmed.npz"),
        ("coauthor_cs", "Coauthor", "coauthor/CS/raw/ms_academic_cs.npz"),
        ("coauthor_physics", "Coauthor", "coauthor/Physics/raw/ms_academic_phy.npz"),
        ("tolokers", "HeterophilousGraphDataset", "heterophilous/tolokers/raw/tolokers.npz"),
        ("minesweeper", "HeterophilousGraphDataset", "heterophilous/minesweeper/raw/minesweeper.npz"),
    ],
)
def test_a_failed_download_names_the_file_to_put_in_place(tmp_path, monkeypatch, dataset, collection, file):
    import torch_geometric.datasets as pyg

    def fail(*_, **__):
        raise OSError("no route to host")

    monkeypatch.setattr(getattr(pyg, collection), "download", fail)
    with pytest.raises(InputError, match="no route to host") as caught:
        plan_run(compose("model=gkde", f"dataset={dataset}", f"data_root={tmp_path}")).read_dataset()
    assert str(tmp_path / file) in str(caught.value)


def test_a_download_is_moved_into_place_and_read(tmp_path, monkeypatch):
    import torch_geometric.datasets as pyg

    def download(self):
        write_raw_file(tmp_path / "fresh.npz")
        (tmp_path / "fresh.npz").rename(self.raw_paths[0])

    monkeypatch.setattr(pyg.CitationFull, "download", download)
    assert citation_full(root=tmp_path, collection_name="CiteSeer").num_nodes == 9
    assert (tmp_path / "citation_full/citeseer/raw/citeseer.npz").is_file()


def test_a_data_root_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(InputError, match=r"data root .* cannot be written") as caught:
        citation_full(root=tmp_path / "file" / "data", collection_name="PubMed")
    assert "LOPGPN_DATA" in caught.value.expected
    assert caught.value.parameter == "data_root"


def test_the_data_root_is_configured_or_from_the_environment_or_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("LOPGPN_DATA", str(tmp_path / "environment"))
    assert data_root("configured").name == "configured"
    assert data_root().name == "environment"
    monkeypatch.delenv("LOPGPN_DATA")
    assert "lopgpn_exp" in data_root().parts


@pytest.mark.filterwarnings("ignore")  # raised by OGB itself
def test_ogb_graphs_have_their_official_split(tmp_path):
    write_ogb_files(tmp_path)
    for _ in range(2):  # first parsed, then from OGB's processed copy, which torch loads safely
        graph = official_split(ogb_node(root=tmp_path), index=0)
        assert (graph.num_nodes, graph.num_edges, graph.num_classes) == (8, 4, 40)
        assert graph.part.tolist() == [1, 1, 1, 2, 2, 3, 3, 3]
        assert graph.features[0, 0] == -1


@pytest.mark.filterwarnings("ignore")
def test_an_ogb_graph_without_features_is_read_from_its_other_files(tmp_path):
    folder = write_ogb_files(tmp_path)
    complete = official_split(ogb_node(root=tmp_path), index=0)
    shutil.rmtree(folder / "processed")
    (folder / "raw/node-feat.csv.gz").unlink()
    graph = official_split(ogb_node(root=tmp_path), index=0)
    assert graph.missing_features == folder / "raw/node-feat.csv.gz"
    assert complete.missing_features is None
    for name in ("edge_index", "labels", "part"):
        assert torch.equal(getattr(graph, name), getattr(complete, name))
    assert graph.num_classes == complete.num_classes
    assert not graph.features.any()
    (folder / "split/time/valid.csv.gz").write_bytes(b"no gzip")
    with pytest.raises(InputError, match=r"valid\.csv\.gz cannot be read"):
        ogb_node(root=tmp_path)


def test_the_real_ogbn_arxiv_has_the_statistics_of_its_source(real_data):
    file = real_data / "ogb/ogbn_arxiv/raw/edge.csv.gz"
    if not file.is_file():
        pytest.skip("ogbn-arxiv is not available")
    graph = official_split(ogb_node(root=real_data), index=0)
    assert (graph.num_nodes, graph.num_edges, graph.num_classes) == (169_343, 1_157_799, 40)
    assert [len(graph.nodes(part)) for part in (Part.TRAIN, Part.VAL, Part.TEST)] == [90_941, 29_799, 48_603]
    citations = graph.labels.numpy()[pd.read_csv(file, header=None).to_numpy()]
    assert (citations[:, 0] == citations[:, 1]).mean() == pytest.approx(0.655, abs=0.0005)  # both directions count
    assert homophily(graph)[0] == pytest.approx(0.654, abs=0.0005)  # each pair counts once


@pytest.mark.filterwarnings("ignore")
def test_a_truncated_ogb_file_is_named(tmp_path):
    folder = write_ogb_files(tmp_path)
    with gzip.open(folder / "raw/edge.csv.gz", "rb") as file:
        content = file.read()
    (folder / "raw/edge.csv.gz").write_bytes(gzip.compress(content)[:-9])
    with pytest.raises(InputError, match="ogbn_arxiv cannot be read"):
        ogb_node(root=tmp_path)


def test_digits_is_homophilous():
    graph = digits_graph()
    source, target = graph.edge_index
    assert (graph.num_nodes, graph.num_features, graph.num_classes) == (1797, 64, 10)
    assert (graph.labels[source] == graph.labels[target]).float().mean() > 0.9


def test_digits_are_those_of_scikit_learn_to_the_bit():
    from sklearn.datasets import load_digits

    images, labels = _read_digits()
    expected_images, expected_labels = load_digits(return_X_y=True)
    np.testing.assert_array_equal(images, expected_images, strict=True)
    np.testing.assert_array_equal(labels, expected_labels, strict=True)


def test_digits_neighbours_agree_with_scikit_learn_up_to_ties():
    """The k-th distance of each node is the same; among equal distances, scikit-learn may choose other nodes."""
    from sklearn.datasets import load_digits
    from sklearn.neighbors import NearestNeighbors

    images = load_digits().data
    distances, _ = NearestNeighbors(n_neighbors=6).fit(images).kneighbors(images)
    edges = digits_graph(num_neighbors=5).edge_index.numpy()
    lengths = np.linalg.norm(images[edges[0]] - images[edges[1]], axis=1)
    for node in range(0, 1797, 50):
        node_lengths = np.sort(lengths[edges[0] == node])
        assert len(node_lengths) >= 5
        np.testing.assert_allclose(node_lengths[:5], distances[node, 1:6], atol=1e-5)


def test_block_model_has_the_requested_size_and_homophily():
    graph = block_model(num_nodes=2000, num_edges=8000, num_classes=5, num_features=8, homophily=0.7, seed=3)
    source, target = graph.edge_index
    assert (graph.num_nodes, graph.num_edges, graph.num_classes) == (2000, 8000, 5)
    assert (graph.labels[source] == graph.labels[target]).float().mean() == pytest.approx(0.7, abs=0.03)
    degree = torch.bincount(source, minlength=2000).float()
    assert degree.max() > 10 * degree.mean()  # a heavy tail
    assert torch.bincount(graph.labels).tolist() == [400] * 5
    again = block_model(num_nodes=2000, num_edges=8000, num_classes=5, num_features=8, homophily=0.7, seed=3)
    other = block_model(num_nodes=2000, num_edges=8000, num_classes=5, num_features=8, homophily=0.7, seed=4)
    assert again.fingerprint == graph.fingerprint != other.fingerprint


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"num_classes": 1}, "num_classes"),
        ({"num_nodes": 5}, "num_nodes"),
        ({"num_edges": 10**9}, "num_edges"),
        ({"homophily": 1.5}, "homophily"),
        ({"degree_exponent": 2.0}, "degree_exponent"),
    ],
)
def test_invalid_block_models_are_errors(options, parameter):
    with pytest.raises(InputError) as caught:
        block_model(**({"num_nodes": 100, "num_edges": 200} | options))
    assert caught.value.parameter == parameter
