"""The user's own graph: what each format says, what is made of it, and what is said of a mistake."""

import pickle
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data, HeteroData

from lopgpn_exp.data.custom import custom_graph, read_like
from lopgpn_exp.data.custom.survey import homophily, survey, warnings_of
from lopgpn_exp.data.splits import own_split
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph, Legend, Part

NODES = """id,label,split,age,height
007,red,train,1,10.5
ann,,,2,20.5
bob,blue,val,3,30.5
7,red,test,6,40.5
"""
EDGES = "source,target\n007,ann\nann,007\nbob,7\nbob,bob\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "edges.csv").write_text(EDGES)
    return tmp_path


def read(folder, **options) -> Graph:
    return custom_graph(path=str(folder / "nodes.csv"), edges=str(folder / "edges.csv"), **options)


def refused(message: str, **options):
    with pytest.raises(InputError) as caught:
        custom_graph(**options)
    assert message in str(caught.value), str(caught.value)
    return str(caught.value)


# --- what is read ---------------------------------------------------------------------------------------------------


def test_tables_keep_ids_and_names_as_they_are_written(folder):
    graph = read(folder, scaling="none")
    assert graph.legend.nodes.tolist() == ["007", "ann", "bob", "7"]  # 007 is not the number 7
    assert graph.legend.classes == ("blue", "red")
    assert graph.legend.features == ("age", "height")
    assert graph.labels.tolist() == [1, -1, 0, 1]
    assert graph.features.tolist() == [[1, 10.5], [2, 20.5], [3, 30.5], [6, 40.5]]
    assert graph.edge_index.tolist() == [[0, 1, 2, 3], [1, 0, 3, 2]]  # both directions once, no loop
    assert graph.official_part.tolist() == [Part.TRAIN, Part.NONE, Part.VAL, Part.TEST]


def test_columns_are_standardised_by_default(folder):
    graph = read(folder)
    column = np.array([1.0, 2, 3, 6])
    np.testing.assert_allclose(graph.features[:, 0], (column - 3) / np.sqrt(3.5), rtol=1e-6)
    np.testing.assert_allclose(graph.features.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(graph.features.std(0, correction=0), 1, rtol=1e-6)


def test_rows_sum_to_one_and_refuse_what_is_negative(folder):
    np.testing.assert_allclose(read(folder, scaling="rows").features.sum(1), 1, rtol=1e-6)
    (folder / "nodes.csv").write_text(NODES.replace("ann,,,2", "ann,,,-2"))
    message = refused("'age' of node 'ann' is -2", path=str(folder), scaling="rows")
    assert "dataset.scaling=standard" in message


def test_a_folder_is_its_two_tables(folder):
    assert custom_graph(path=str(folder)).fingerprint == read(folder).fingerprint
    (folder / "nodes.parquet").write_bytes(b"")
    refused("more than one table of nodes", path=str(folder))


def test_parquet_reads_as_csv_and_keeps_whole_numbers(folder):
    pd.read_csv(folder / "nodes.csv", dtype={"id": str}).to_parquet(folder / "n.parquet")
    pd.read_csv(folder / "edges.csv", dtype=str).to_parquet(folder / "e.parquet")
    graph = custom_graph(path=str(folder / "n.parquet"), edges=str(folder / "e.parquet"))
    assert graph.fingerprint == read(folder).fingerprint
    numbered = pd.DataFrame({"id": [10, 20, 30], "label": [1.0, None, 2.0], "x": [True, False, True]})
    numbered.to_parquet(folder / "n.parquet")
    pd.DataFrame({"source": [10], "target": [30]}).to_parquet(folder / "e.parquet")
    graph = custom_graph(path=str(folder / "n.parquet"), edges=str(folder / "e.parquet"), scaling="none")
    assert graph.legend.nodes.tolist() == [10, 20, 30]
    assert graph.legend.classes == ("1", "2")  # a missing label turned the column into 1.0 and 2.0
    assert graph.features.flatten().tolist() == [1, 0, 1]


def test_classes_that_are_numbers_are_in_their_order(folder):
    (folder / "nodes.csv").write_text("id,label,x\n" + "".join(f"n{k},{k},{k}\n" for k in (10, 9, 2, 1)))
    (folder / "edges.csv").write_text("source,target\nn1,n2\n")
    assert read(folder).legend.classes == ("1", "2", "9", "10")


@pytest.mark.parametrize("sign", [";", "\t"])
def test_other_separators(folder, sign):
    for name, text in (("nodes.csv", NODES), ("edges.csv", EDGES)):
        (folder / name).write_text(text.replace(",", sign))
    assert read(folder, scaling="none").features[3].tolist() == [6, 40.5]


def test_columns_under_other_names_and_columns_left_out(folder):
    text = NODES.replace("id,label,split,age", "key,colour,phase,town").replace(",1,", ",Ulm,").replace(",2,", ",Bonn,")
    (folder / "nodes.csv").write_text(text)
    (folder / "edges.csv").write_text(EDGES.replace("source,target", "from,to"))
    graph = read(
        folder,
        id_column="key",
        label_column="colour",
        split_column="phase",
        source_column="from",
        target_column="to",
        ignore=["town"],
    )
    assert graph.legend.features == ("height",)
    assert graph.legend.classes == ("blue", "red")


def test_not_a_number_is_a_fine_name_for_a_class_and_a_node(folder):
    """NA is a country, and nan an order among numbers that is none."""
    (folder / "nodes.csv").write_text("id,label,x\nNA,nan,1\nnan,NA,2\nb,2,3\n")
    (folder / "edges.csv").write_text("source,target\nNA,nan\n")
    graph = read(folder)
    assert graph.legend.nodes.tolist() == ["NA", "nan", "b"]
    assert graph.legend.classes == ("2", "NA", "nan")


def test_categories_of_a_data_frame_are_texts(folder):
    nodes = pd.DataFrame({"id": ["a", "b", "c"], "label": ["x", None, "y"], "v": [1.0, 2.0, 3.0]})
    nodes.astype({"id": "category", "label": "category"}).to_parquet(folder / "n.parquet")
    pd.DataFrame({"source": ["a"], "target": ["c"]}).astype("category").to_parquet(folder / "e.parquet")
    graph = custom_graph(path=str(folder / "n.parquet"), edges=str(folder / "e.parquet"))
    assert graph.legend.nodes.tolist() == ["a", "b", "c"]
    assert graph.labels.tolist() == [0, -1, 1]


def test_whole_numbers_with_blanks_among_them_are_whole(folder):
    (folder / "nodes.csv").write_text("id,label,x\na,1.0,1\nb,,2\nc,2.0,3\n")
    (folder / "edges.csv").write_text("source,target\na,b\n")
    assert read(folder).legend.classes == ("1", "2")


def test_columns_of_a_pyg_file_are_found_by_their_names(tmp_path):
    named = data()
    named.x, named.feature_names = torch.tensor([[1.0, 5.0], [2.0, 6.0], [4.0, 9.0]]), ["u", "v"]
    torch.save(named, tmp_path / "graph.pt")
    first = custom_graph(path=str(tmp_path / "graph.pt"))
    named.x, named.feature_names = named.x.flip(1), ["v", "u"]
    torch.save(named, tmp_path / "graph.pt")
    again, _ = read_like(first.legend, num_classes=2, path=str(tmp_path / "graph.pt"))
    assert torch.equal(again.features, first.features)
    named.feature_names = ["v", "w"]
    torch.save(named, tmp_path / "graph.pt")
    with pytest.raises(InputError, match="one of them 'w'"):
        read_like(first.legend, num_classes=2, path=str(tmp_path / "graph.pt"))


@pytest.mark.parametrize("change", [{"classes": ("a", "c")}, {"features": ("y",)}, {"nodes": np.array([1, 3])}])
def test_every_name_counts_in_the_fingerprint(build_graph, change):
    legend = Legend(nodes=np.array([1, 2]), classes=("a", "b"), features=("x",))
    graph = build_graph([(0, 1)], [[1.0], [2.0]], [0, 1]).replace(legend=legend)
    assert graph.replace(legend=replace(legend, **change)).fingerprint != graph.fingerprint


def test_a_constant_column_becomes_zero(folder):
    (folder / "nodes.csv").write_text("id,label,x,y\na,p,0.1,1\nb,q,0.1,2\nc,p,0.1,3\n")
    (folder / "edges.csv").write_text("source,target\na,b\n")
    assert read(folder).features[:, 0].abs().max() < 1e-6


def data() -> Data:
    return Data(
        x=torch.tensor([[1.0], [2.0], [4.0]]),
        edge_index=torch.tensor([[0, 1], [1, 2]]),
        y=torch.tensor([3, -1, 5]),
        train_mask=torch.tensor([True, False, False]),
        test_mask=torch.tensor([False, False, True]),
    )


def test_a_pyg_file(tmp_path):
    torch.save(data(), tmp_path / "graph.pt")
    graph = custom_graph(path=str(tmp_path / "graph.pt"), scaling="none")
    assert graph.features.flatten().tolist() == [1, 2, 4]
    assert graph.labels.tolist() == [0, -1, 1]  # numbered without gaps,
    assert graph.legend.classes == ("3", "5")  # and called what they were
    assert graph.num_edges == 2
    assert graph.official_part.tolist() == [Part.TRAIN, Part.NONE, Part.TEST]


def test_a_pyg_file_with_names(tmp_path):
    named = data()
    named.y, named.node_id, named.class_names = torch.tensor([0, 1, 1]), ["a", "b", "c"], ["no", "yes"]
    torch.save(named, tmp_path / "graph.pt")
    graph = custom_graph(path=str(tmp_path / "graph.pt"))
    assert (graph.legend.nodes.tolist(), graph.legend.classes) == (["a", "b", "c"], ("no", "yes"))


def npz(path, **changes):
    features, edges = sp.csr_array([[0, 2.5], [1, 0], [0, 3]]), sp.csr_array([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    arrays = {"labels": np.array([1, 0, -1])}
    for kind, matrix in (("attr", features), ("adj", edges)):
        arrays |= {f"{kind}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr", "shape")}
    np.savez(path, **(arrays | changes))


def test_an_npz_file_keeps_its_values(tmp_path):
    npz(tmp_path / "graph.npz", node_names=np.array(["a", "b", "c"]))
    graph = custom_graph(path=str(tmp_path / "graph.npz"), scaling="none")
    assert graph.features.tolist() == [[0, 2.5], [1, 0], [0, 3]]  # not 0/1
    assert graph.labels.tolist() == [1, 0, -1]
    assert graph.legend.nodes.tolist() == ["a", "b", "c"]
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]


def test_the_papers_own_file_reads_as_its_loader_reads_it(real_data):
    """But for the features, which the loader turns into 0/1."""
    from lopgpn_exp.data.pyg import citation_full

    theirs = citation_full(root=real_data, collection_name="Cora_ML")
    ours = custom_graph(path=str(real_data / "citation_full/cora_ml/raw/cora_ml.npz"), scaling="rows")
    assert torch.equal(ours.edge_index, theirs.edge_index)
    assert torch.equal(ours.labels, theirs.labels)
    assert torch.equal(ours.features > 0, theirs.features > 0)


def test_names_are_part_of_the_fingerprint_and_numbers_of_no_other_graph(folder):
    before = read(folder).fingerprint
    (folder / "nodes.csv").write_text(NODES.replace("ann", "eve"))
    (folder / "edges.csv").write_text(EDGES.replace("ann", "eve"))
    assert read(folder).fingerprint != before
    plain = read(folder).replace(legend=None)
    assert plain.fingerprint != before


# --- another version of the same graph ------------------------------------------------------------------------------


def test_a_changed_version_is_read_on_the_scale_of_the_first(folder):
    first = read(folder)
    changed = "height,id,shoe,age,label\n10.5,007,x,1,red\n99,new,y,6,green\n"
    (folder / "nodes.csv").write_text(changed)
    (folder / "edges.csv").write_text("source,target\nnew,007\n")
    second, notes = read_like(first.legend, num_classes=2, path=str(folder))
    assert second.legend.nodes.tolist() == ["007", "new"]
    assert torch.equal(second.features[0], first.features[0])  # the columns found by name, the scale kept
    assert second.features[1, 0] == first.features[3, 0]
    assert second.labels.tolist() == [1, -1]
    assert any("green" in note for note in notes)
    assert any("shoe" in note for note in notes)


def test_a_changed_version_without_a_column_is_refused(folder):
    legend = read(folder).legend
    (folder / "nodes.csv").write_text("id,age\n007,1\nann,2\nbob,3\n7,4\n")
    with pytest.raises(InputError, match="there is no column 'height'"):
        read_like(legend, num_classes=2, path=str(folder))


def test_left_out_classes_of_a_changed_version_are_out_of_distribution(folder):
    graph, _ = read_like(read(folder).legend, num_classes=1 + 1, path=str(folder))
    assert not graph.is_ood.any()
    legend = read(folder).legend
    (folder / "nodes.csv").write_text(NODES.replace("ann,,", "ann,zebra,"))
    third = custom_graph(path=str(folder)).legend
    assert third.classes == (*legend.classes, "zebra")
    graph, _ = read_like(third, num_classes=2, path=str(folder))
    assert graph.is_ood.tolist() == [False, True, False, False]


# --- splits ---------------------------------------------------------------------------------------------------------


def test_a_split_of_its_own_is_used_and_there_is_one(folder):
    graph = read(folder)
    assert own_split(graph, index=0).part.tolist() == graph.official_part.tolist()
    with pytest.raises(InputError, match="one split of its own"):
        own_split(graph, index=1)


def test_without_one_a_random_split_leaves_unlabelled_nodes_out(folder):
    rows = "".join(f"n{k},{['a', 'b', ''][k % 3]},{k}\n" for k in range(60))
    (folder / "nodes.csv").write_text("id,label,x\n" + rows)
    (folder / "edges.csv").write_text("source,target\nn1,n2\n")
    graph = own_split(read(folder), index=3)
    assert (graph.part[graph.labels < 0] == Part.NONE).all()
    assert [len(graph.nodes(part)) for part in (Part.TRAIN, Part.VAL, Part.TEST)] == [24, 8, 8]


# --- what is shown --------------------------------------------------------------------------------------------------


def test_homophily_by_hand(build_graph):
    graph = build_graph([(0, 1), (1, 2), (2, 3)], [[1.0]] * 4, [0, 0, 1, -1])
    same, chance = homophily(graph)
    assert same == 0.5  # of the two edges between labelled nodes, one
    assert chance == pytest.approx((2 / 3) ** 2 + (1 / 3) ** 2)


def test_the_survey_counts(folder):
    text = survey(read(folder), source="nodes.csv", notes=["something"])
    assert "4 nodes, 2 undirected edges" in text
    assert "2 classes: red 2 (67%), blue 1 (33%); 1 nodes without a label" in text
    assert "2 connected components, the largest of 2 nodes; 0 isolated nodes" in text
    assert "its own split: 1 train, 1 val, 1 test" in text
    assert "note: something" in text


def test_warnings_that_matter(build_graph):
    edges = [(k, k + 1) for k in range(40)]
    few = build_graph(edges, [[float(k), 1.0] for k in range(44)], [k % 2 for k in range(41)] + [2, -1, -1])
    told = "\n".join(warnings_of(few))
    assert "1 classes have fewer than 10 labelled nodes: 2 (1)" in told
    assert "on 0% of edges only" in told  # every edge joins 0 and 1
    assert "2 nodes have no labelled node in their component" in told
    assert "1 feature columns have one value only" in told
    split = few.replace(official_part=torch.ones(44, dtype=torch.int8).scatter(0, torch.tensor([41]), 3))
    assert "the split has no training node of 2" in "\n".join(warnings_of(split))
    alone = build_graph([], [[0.0], [1.0]], [0, 1])
    assert "no edge is left" in "\n".join(warnings_of(alone))
    fine = build_graph([(0, 2), (1, 3)], [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])
    assert [w for w in warnings_of(fine) if "fewer than" not in w] == []


def test_counts_are_told_from_measurements(folder):
    rows = "".join(f"n{k},{'ab'[k % 2]},{int(k % 5 == 0)},{int(k % 7 == 0)}\n" for k in range(40))
    (folder / "nodes.csv").write_text("id,label,x,y\n" + rows)
    (folder / "edges.csv").write_text("source,target\nn1,n3\n")
    assert any("scaling=rows" in warning for warning in warnings_of(read(folder)))
    assert not any("scaling=rows" in warning for warning in warnings_of(read(folder, scaling="rows")))


# --- mistakes -------------------------------------------------------------------------------------------------------

TABLE_MISTAKES = [
    ("nodes.csv", NODES.replace("id,", "name,"), "there is no column 'id'"),
    ("nodes.csv", NODES.replace("label", "lable"), "dataset.label_column=lable"),
    ("nodes.csv", NODES.replace("\n7,", "\nann,"), "'ann' is in rows 2 and 4"),
    ("nodes.csv", NODES.replace("20.5", "tall"), "'height' holds 'tall' (node 'ann'), which is no number"),
    ("nodes.csv", NODES.replace("20.5", ""), "'height' of node 'ann' is blank"),
    ("nodes.csv", NODES.replace("20.5", "inf"), "'height' of node 'ann' is inf"),
    ("nodes.csv", NODES.replace("20.5", "1e300"), "'height' of node"),
    ("nodes.csv", NODES.replace("bob,blue,val", "bob,blue,maybe"), "the split of node 'bob' is 'maybe'"),
    ("nodes.csv", NODES.replace("ann,,,", "ann,,train,"), "'ann' is to train or validate, and has no label"),
    ("nodes.csv", NODES.replace("blue", "red"), "all labels are 'red'"),
    (
        "nodes.csv",
        NODES.replace("blue", "").replace("red", "").replace("train", "").replace("val", ""),
        "no node has a",
    ),
    ("nodes.csv", NODES.replace("age", "height"), "the column 'height' is there twice"),
    ("nodes.csv", "id,label\na,x\nb,y\n", "no column is left for features"),
    ("nodes.csv", "id,label,x\n", "no rows"),
    ("nodes.csv", "", "cannot be read"),
    ("nodes.csv", NODES + "eve,red\n", "cannot be read"),
    ("nodes.csv", NODES.replace("ann,", ",", 1), "the id in row 2 is blank"),
    ("nodes.csv", ",id,label,x\n0,007,red,1\n1,ann,blue,2\n2,bob,red,3\n3,7,red,4\n", "column 1 has no name"),
    ("edges.csv", EDGES.replace("bob,7", "bob,zoe"), "the target 'zoe' in row 3 is no node; 1 of 4 rows"),
    ("edges.csv", EDGES.replace("target", "to"), "there is no column 'target'"),
    ("edges.csv", "source,target\n", "no rows"),
    ("edges.csv", EDGES.replace("bob,bob", "bob,"), "the target in row 4 is blank"),
]


@pytest.mark.parametrize(("file", "text", "message"), TABLE_MISTAKES, ids=[m[2] for m in TABLE_MISTAKES])
def test_a_mistake_in_a_table_is_one_message(folder, file, text, message):
    (folder / file).write_text(text)
    told = refused(message, path=str(folder))
    of_both = ("inf", "1e300", "all labels", "no node has", "to train or validate")  # found when both have been read
    assert file in told or any(words in text + message for words in of_both)


def test_mistakes_in_what_is_named(folder):
    refused("dataset.path is not set", path=None)
    refused("there is no file", path=str(folder / "absent.csv"), edges=str(folder / "edges.csv"))
    refused("there is no file", path=str(folder / "nodes.csv"), edges=str(folder / "absent.csv"))
    refused("no edges are named", path=str(folder / "nodes.csv"))
    (folder / "nodes.xlsx").touch()
    refused("of no kind that is known", path=str(folder / "nodes.xlsx"))
    refused("cannot be read", path="n" * 300 + ".csv")
    refused("both the column 'source'", path=str(folder), target_column="source")
    refused("dataset.ignore names 'agee'", path=str(folder), ignore=["agee"])
    torch.save(data(), folder / "graph.pt")
    refused("nothing: ", path=str(folder / "graph.pt"), edges=str(folder / "edges.csv"))


def broken(**changes) -> Data:
    changed = data()
    for name, value in changes.items():
        setattr(changed, name, value)
    return changed


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (broken(x=None), "without x"),
        (broken(edge_index=torch.zeros(3, 2, dtype=torch.long)), "edge_index (3, 2)"),
        (broken(edge_index=torch.tensor([[0], [9]])), "an edge leads to node 9"),
        (broken(y=torch.tensor([0.5, 1.0, 2.0])), "y holds fractions or infinity"),
        (broken(y=torch.tensor([0, 1])), "y is (2,)"),
        (broken(y=None), "holds no labels"),
        (broken(y="abc"), "y is a str"),
        (broken(train_mask=torch.ones(3, 10, dtype=torch.bool)), "train_mask is (3, 10)"),
        (broken(val_mask=torch.tensor([True, True, False])), "val_mask shares nodes"),
        (broken(node_id=["a"]), "node_id has 1 entries"),
        (broken(node_id=["a", 1, "c"]), "neither texts alone nor whole numbers alone"),
        (broken(node_id=[2**70, 1, 2]), "neither texts alone nor whole numbers alone"),
        (broken(feature_names=["a", "b"]), "feature_names has 2 entries"),
        (broken(class_names="abc"), "class_names is a str"),
        (broken(edge_index=torch.ones(2, 2, dtype=torch.bool)), "in whole numbers"),
        (broken(y=torch.tensor([0.0, torch.inf, 1.0])), "y holds fractions or infinity"),
        (broken(node_id=["a", "a", "b"]), "the id 'a' is there more than once"),
        (broken(y=torch.tensor([0, 1, 1]), class_names=["a", "a"]), "the class 'a' is there more than once"),
        (broken(x=torch.tensor([[1.0], [torch.nan], [2.0]])), "'0' of node 1 is nan"),
        (HeteroData(), "a HeteroData without x"),
        ([1, 2, 3], "without x"),
    ],
)
def test_mistakes_in_a_pyg_file(tmp_path, content, message):
    torch.save(content, tmp_path / "graph.pt")
    refused(message, path=str(tmp_path / "graph.pt"))


def test_reading_leaves_what_torch_may_load_as_it_was(tmp_path):
    """PyG allows its own parts for the whole process: they must not be taken away by us."""
    before = set(torch.serialization.get_safe_globals())
    torch.save(data(), tmp_path / "graph.pt")
    custom_graph(path=str(tmp_path / "graph.pt"))
    assert set(torch.serialization.get_safe_globals()) == before


class Harmful:
    def __reduce__(self):
        return subprocess.check_call, ([sys.executable, "-c", "open('harmed', 'w')"],)


def test_a_file_cannot_run_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"x": Harmful()}, tmp_path / "graph.pt")
    refused("cannot be read", path=str(tmp_path / "graph.pt"))
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Harmful()))
    refused("cannot be read", path=str(tmp_path / "plain.pt"))
    npz(tmp_path / "graph.npz", node_names=np.array([Harmful()] * 3, dtype=object))
    refused("cannot be read", path=str(tmp_path / "graph.npz"))
    assert not (tmp_path / "harmed").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": np.array([0.5, 1, 2])}, "labels are float64"),
        ({"labels": np.array([0, 1])}, "2 labels for 3 nodes"),
        ({"adj_indices": np.array([1, 99])}, "adj_indices go from 1 to 99"),
        ({"attr_shape": np.array([3, 10**9])}, "can take"),
        ({"attr_data": np.array(["a", "b", "c"])}, "attr_data is"),
        ({"class_names": np.array(["one"])}, "label 1 where 1 classes have names"),
        ({"node_names": np.array([["a"], ["b"], ["c"]])}, "node_names is"),
    ],
)
def test_mistakes_in_an_npz_file(tmp_path, changes, message):
    npz(tmp_path / "graph.npz", **changes)
    refused(message, path=str(tmp_path / "graph.npz"))


def test_an_npz_file_without_a_part(tmp_path):
    np.savez(tmp_path / "graph.npz", labels=np.zeros(3))
    refused("the archive has no 'adj_data'", path=str(tmp_path / "graph.npz"))
    np.save(tmp_path / "graph.npy", np.zeros(3))
    (tmp_path / "graph.npy").rename(tmp_path / "single.npz")
    refused("a single array", path=str(tmp_path / "single.npz"))


def written(kind: str, folder) -> list:
    """The files of a small graph in a format, and the options that read it."""
    (folder / "nodes.csv").write_text(NODES)
    (folder / "edges.csv").write_text(EDGES)
    if kind == "parquet":
        pd.read_csv(folder / "nodes.csv").to_parquet(folder / "nodes.parquet")
        pd.read_csv(folder / "edges.csv").to_parquet(folder / "edges.parquet")
    if kind == "pt":
        torch.save(data(), folder / "graph.pt")
    if kind == "npz":
        npz(folder / "graph.npz")
    return (
        [folder / f"nodes.{kind}", folder / f"edges.{kind}"]
        if kind in ("csv", "parquet")
        else [folder / f"graph.{kind}"]
    )


@pytest.mark.parametrize("kind", ["csv", "parquet", "pt", "npz"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(draw=st.data())
def test_damaged_files_never_end_in_a_traceback(tmp_path, kind, draw):
    """Cut off, or with bytes changed, anywhere: a graph, or one message."""
    files = written(kind, tmp_path)
    file = draw.draw(st.sampled_from(files))
    content = bytearray(file.read_bytes())
    for _ in range(draw.draw(st.integers(0, 6))):
        content[draw.draw(st.integers(0, len(content) - 1))] = draw.draw(st.integers(0, 255))
    cut = draw.draw(st.integers(0, len(content)))
    file.write_bytes(bytes(content[:cut]))
    options = {"path": str(files[0])} | ({"edges": str(files[1])} if len(files) == 2 else {})
    with suppress(InputError):
        assert isinstance(custom_graph(**options, memory_limit_gib=1.0), Graph)


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=6)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.lists(WORDS, min_size=1, max_size=5), max_size=6), header=st.lists(WORDS, max_size=5))
def test_any_text_as_a_table_is_a_graph_or_one_message(tmp_path, rows, header):
    for name, text in (("nodes.csv", NODES), ("edges.csv", EDGES)):
        (tmp_path / name).write_text(text)
    lines = [",".join(row) for row in ([["id", "label", *header]] if len(rows) % 2 else [header]) + rows]
    (tmp_path / "nodes.csv").write_text("\n".join(lines))
    with suppress(InputError):
        assert isinstance(custom_graph(path=str(tmp_path)), Graph)


def test_memory_is_stated_before_it_is_used(tmp_path, caplog):
    """A million nodes: said from their file's description alone, and refused where they do not fit."""
    count = 1_000_000
    table = pd.DataFrame({"id": np.arange(count), "label": np.arange(count) % 3})
    for column in range(16):
        table[f"x{column}"] = np.float32(column)
    table.to_parquet(tmp_path / "nodes.parquet")
    pd.DataFrame({"source": [0], "target": [1]}).to_parquet(tmp_path / "edges.parquet")
    with caplog.at_level("INFO"):
        told = refused("1,000,000 nodes with 16 features) can take 0.", path=str(tmp_path), memory_limit_gib=0.3)
    assert "dataset.memory_limit_gib" in told
    assert "Reading" in caplog.text
