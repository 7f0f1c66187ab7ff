import gzip

import numpy as np
import pandas as pd
import pytest
import torch

from lopgpn_exp.data import scenarios
from lopgpn_exp.data.digits import digits_graph
from lopgpn_exp.data.ogb import ogb_node
from lopgpn_exp.data.pyg import amazon, citation_full, row_normalised
from lopgpn_exp.data.root import data_root
from lopgpn_exp.data.splits import official_split, random_split
from lopgpn_exp.data.synthetic import block_model
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Part

# protocol: nodes, undirected edges, features, classes, isolated nodes, rows without a feature
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
    sums = graph.features.sum(1)
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes) == (
        nodes,
        edges,
        features,
        classes,
    )
    assert int((degree == 0).sum()) == isolated
    assert int((sums == 0).sum()) == empty
    torch.testing.assert_close(sums[sums > 0], torch.ones(nodes - empty))


def test_rows_are_normalised_and_zero_rows_stay():
    rows = row_normalised(torch.tensor([[1.0, 3.0], [0.0, 0.0]]))
    assert rows.tolist() == [[0.25, 0.75], [0.0, 0.0]]


def write_npz(path, **changes):
    """A raw file in the layout of PyG's citation datasets: 9 nodes, 3 classes, a ring."""
    n, ring = 9, np.arange(9)
    parts = {
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
    np.savez(path, **(parts | changes))


@pytest.fixture
def raw_file(tmp_path):
    path = tmp_path / "citation_full/cora_ml/raw/cora_ml.npz"
    write_npz(path)
    return path


def test_a_raw_file_in_place_is_read_without_writing_anything(raw_file, tmp_path):
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
        ({"labels": np.array(list("abcabcabc"))}, "not a vector of whole numbers"),
        ({"attr_indices": np.arange(9) + 10**6}, "attr_indices go from 1000000"),
        ({"adj_shape": np.array([9, 8])}, r"adjacency is \("),
        ({"attr_indptr": np.arange(9)}, "attr_indptr does not divide 9 rows"),
        ({"attr_data": np.ones(3, dtype=np.float32)}, "attr has 9 indices"),
        (
            {"attr_data": np.ones(0), "attr_indices": np.ones(0, int), "attr_indptr": np.array([0])}
            | {"attr_shape": np.array([0, 4]), "adj_data": np.ones(0), "adj_indices": np.ones(0, int)}
            | {"adj_indptr": np.array([0]), "adj_shape": np.array([0, 0]), "labels": np.ones(0, int)},
            "no nodes",
        ),
    ],
)
def test_bad_content_of_a_raw_file_is_named(raw_file, tmp_path, changes, message):
    write_npz(raw_file, **changes)
    with pytest.raises(InputError, match=message):
        citation_full(root=tmp_path, collection_name="Cora_ML")


def test_a_failed_download_says_which_file_to_put_where(tmp_path, monkeypatch):
    import torch_geometric.datasets as pyg

    def fails(*_, **__):
        raise OSError("no route to host")

    monkeypatch.setattr(pyg.CitationFull, "download", fails)
    with pytest.raises(InputError, match="no route to host") as caught:
        citation_full(root=tmp_path, collection_name="PubMed")
    assert str(tmp_path / "citation_full/pubmed/raw/pubmed.npz") in str(caught.value)


def test_a_download_lands_in_place_and_is_used(tmp_path, monkeypatch):
    import torch_geometric.datasets as pyg

    def download(self):
        write_npz(tmp_path / "fresh.npz")
        (tmp_path / "fresh.npz").rename(self.raw_paths[0])

    monkeypatch.setattr(pyg.CitationFull, "download", download)
    assert citation_full(root=tmp_path, collection_name="CiteSeer").num_nodes == 9
    assert (tmp_path / "citation_full/citeseer/raw/citeseer.npz").is_file()


def test_a_data_root_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match=r"data root .* cannot be written") as caught:
        citation_full(root=tmp_path / "file" / "data", collection_name="PubMed")
    assert "LOPGPN_DATA" in caught.value.hint


def test_the_data_root_is_config_then_environment_then_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("LOPGPN_DATA", str(tmp_path / "environment"))
    assert data_root("configured").name == "configured"
    assert data_root().name == "environment"
    monkeypatch.delenv("LOPGPN_DATA")
    assert "lopgpn_exp" in data_root().parts


def write_ogb(root):
    """A made-up ogbn-arxiv of 8 nodes in OGB's own raw layout."""
    folder = root / "ogb" / "ogbn_arxiv"
    tables = {
        "raw/edge": [[0, 1], [1, 2], [2, 0], [3, 3], [4, 5]],
        "raw/node-feat": np.arange(16).reshape(8, 2) / 7 - 1,
        "raw/node-label": [[0], [1], [2], [0], [1], [39], [0], [1]],
        "raw/node_year": [[2000 + i] for i in range(8)],
        "raw/num-node-list": [[8]],
        "raw/num-edge-list": [[5]],
        "split/time/train": [[0], [1], [2]],
        "split/time/valid": [[3], [4]],
        "split/time/test": [[5], [6], [7]],
    }
    for name, rows in tables.items():
        path = folder / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(rows).to_csv(path, header=False, index=False, compression="gzip")
    return folder


@pytest.mark.filterwarnings("ignore")  # OGB's own
def test_ogb_loader_with_its_official_split(tmp_path):
    write_ogb(tmp_path)
    for _ in range(2):  # parsed, then from OGB's processed copy, which torch loads safely
        graph = official_split(ogb_node(root=tmp_path), index=0)
        assert (graph.num_nodes, graph.num_edges, graph.num_classes) == (8, 4, 40)
        assert graph.part.tolist() == [1, 1, 1, 2, 2, 3, 3, 3]
        assert graph.features[0, 0] == -1


@pytest.mark.filterwarnings("ignore")
def test_a_truncated_ogb_file_is_named(tmp_path):
    folder = write_ogb(tmp_path)
    with gzip.open(folder / "raw/edge.csv.gz", "rb") as file:
        content = file.read()
    (folder / "raw/edge.csv.gz").write_bytes(gzip.compress(content)[:-9])
    with pytest.raises(InputError, match="ogbn_arxiv cannot be read"):
        ogb_node(root=tmp_path)


def test_digits_is_a_homophilous_graph_of_real_data():
    graph = digits_graph()
    source, target = graph.edge_index
    assert (graph.num_nodes, graph.num_features, graph.num_classes) == (1797, 64, 10)
    assert (graph.labels[source] == graph.labels[target]).float().mean() > 0.9


def test_digits_neighbours_are_the_librarys_up_to_ties():
    """Each node's k-th distance is that of scikit-learn's search, which may choose others at the same distance."""
    from sklearn.datasets import load_digits
    from sklearn.neighbors import NearestNeighbors

    images = load_digits().data
    distances, _ = NearestNeighbors(n_neighbors=6).fit(images).kneighbors(images)
    edges = digits_graph(num_neighbors=5).edge_index.numpy()
    lengths = np.linalg.norm(images[edges[0]] - images[edges[1]], axis=1)
    for node in range(0, 1797, 50):
        own = np.sort(lengths[edges[0] == node])
        assert len(own) >= 5
        np.testing.assert_allclose(own[:5], distances[node, 1:6], atol=1e-5)


def test_block_model_has_the_size_and_homophily_asked_for():
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
    "options",
    [{"num_classes": 1}, {"num_nodes": 5}, {"num_edges": 10**9}, {"homophily": 1.5}, {"degree_exponent": 2.0}],
)
def test_impossible_block_models_are_refused(options):
    with pytest.raises(InputError):
        block_model(**({"num_nodes": 100, "num_edges": 200} | options))


def test_splits_are_stratified_disjoint_and_seeded_by_the_index(real_data):
    graph = citation_full(root=real_data, collection_name="Cora_ML")
    splits = [random_split(graph, index=i).part for i in range(10)]
    assert len({tuple(part.tolist()) for part in splits}) == 10
    assert torch.equal(splits[4], random_split(graph, index=4).part)
    for label in range(7):
        members = graph.labels == label
        for value, share in {Part.TRAIN: 0.05, Part.VAL: 0.15, Part.TEST: 0.8}.items():
            assert int((splits[0][members] == value).sum()) == pytest.approx(share * int(members.sum()), abs=1.01)


def test_a_split_knows_labels_only_so_every_model_sees_the_same(small_graph):
    changed = small_graph.replace(features=small_graph.features * 2)
    assert torch.equal(random_split(changed, index=2).part, random_split(small_graph, index=2).part)


def test_unused_nodes_are_in_no_part(small_graph):
    part = random_split(small_graph, index=0, train=0.05, val=0.1425, test=0.646, unused=0.1615).part
    assert int((part == Part.NONE).sum()) == pytest.approx(0.1615 * 300, abs=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"index": 10}, "from 0 to 9"),
        ({"index": -1}, "split.index is -1"),
        ({"train": 0.5}, "= 1.45"),
        ({"train": -0.05, "test": 0.9}, "no negative"),
    ],
)
def test_bad_splits_are_refused(small_graph, options, message):
    with pytest.raises(InputError, match=message):
        random_split(small_graph, **({"index": 0} | options))


def test_a_class_with_too_few_nodes_is_named(build_graph):
    graph = build_graph([(0, 1)], [[1.0]] * 8, [0, 0, 0, 1, 1, 2, 2, 2])
    with pytest.raises(InputError, match=r"class 1 has 2 node\(s\)"):
        random_split(graph, index=0)


@pytest.mark.parametrize("fractions", [(0.99, 0.01, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)])
def test_extreme_fractions_still_leave_a_node_for_each_part(small_graph, fractions):
    train, val, test = fractions
    part = random_split(small_graph, index=0, train=train, val=val, test=test).part
    for label in range(3):
        assert set(part[small_graph.labels == label].tolist()) == {Part.TRAIN, Part.VAL, Part.TEST}


def test_the_smallest_class_that_can_be_split(build_graph):
    graph = build_graph([(0, 1)], [[1.0]] * 6, [0, 0, 0, 1, 1, 1])
    part = random_split(graph, index=0).part
    assert sorted(part[:3].tolist()) == sorted(part[3:].tolist()) == [Part.TRAIN, Part.VAL, Part.TEST]


def test_no_official_split_is_a_clear_error(small_graph):
    with pytest.raises(InputError, match="no official split"):
        official_split(small_graph, index=0)


def test_left_out_classes_stay_in_the_graph_but_train_nothing(small_graph):
    graph = scenarios.leave_out_classes(small_graph, left_out_classes=1)
    out = small_graph.labels == 2
    assert graph.num_classes == 2
    assert torch.equal(graph.features, small_graph.features)
    assert torch.equal(graph.edge_index, small_graph.edge_index)
    assert torch.equal(graph.is_ood, out)
    assert set(graph.part[out].tolist()) == {Part.NONE, Part.TEST}
    assert torch.equal(graph.part[~out], small_graph.part[~out])
    assert torch.equal(graph.part == Part.TEST, small_graph.part == Part.TEST)


FEATURE_SCENARIOS = [
    scenarios.bernoulli,
    scenarios.gaussian,
    scenarios.feature_dropout,
    scenarios.feature_noise,
]


@pytest.mark.parametrize("scenario", FEATURE_SCENARIOS, ids=lambda f: f.__name__)
def test_feature_scenarios_change_a_tenth_of_each_part_and_nothing_else(small_graph, scenario):
    before = small_graph.features.clone()
    graph = scenario(small_graph, seed=1)
    for part in (Part.TRAIN, Part.VAL, Part.TEST):
        nodes = graph.nodes(part)
        assert int(graph.is_ood[nodes].sum()) == round(0.1 * len(nodes))
    changed = (graph.features != before).any(dim=1)
    assert torch.equal(changed, graph.is_ood)
    assert torch.equal(small_graph.features, before)  # pure
    assert torch.equal(scenario(small_graph, seed=1).features, graph.features)
    assert not torch.equal(scenario(small_graph, seed=2).is_ood, graph.is_ood)


def test_what_the_perturbed_features_look_like():
    graph = random_split(block_model(num_nodes=3000, num_edges=10, num_classes=2, num_features=200), index=0)
    dropped = scenarios.feature_dropout(graph, seed=0)
    coins = scenarios.bernoulli(graph, seed=0)
    noise = scenarios.gaussian(graph, seed=0)
    added = scenarios.feature_noise(graph, seed=0, scale=0.5)
    torch.testing.assert_close(coins.features[coins.is_ood].sum(1), torch.ones(int(coins.is_ood.sum())))
    assert (coins.features[coins.is_ood] > 0).float().mean() == pytest.approx(0.5, abs=0.01)
    assert noise.features[noise.is_ood].std() == pytest.approx(1, abs=0.02)
    assert (dropped.features[dropped.is_ood] == 0).float().mean() == pytest.approx(0.5, abs=0.01)
    assert (added.features - graph.features)[added.is_ood].std() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("count", [0, 2, 3])
def test_leaving_out_too_many_or_no_classes_is_refused(small_graph, count):
    with pytest.raises(InputError, match="left out"):
        scenarios.leave_out_classes(small_graph, left_out_classes=count)
