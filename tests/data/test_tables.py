"""A user's graph as two tables: ids, labels, columns, and errors that name the cell."""

import numpy as np
import pandas as pd
import pytest

from lopgpn_exp.data.files import custom_graph
from lopgpn_exp.graph import Part
from tests.support.graph_files import EDGES, NODES, expect_error, read_csv, write_csv


def test_ids_and_names_are_kept_as_written(folder):
    graph = read_csv(folder, scaling="none")
    assert graph.legend.nodes.tolist() == ["007", "ann", "bob", "7"]  # 007 is not the number 7
    assert graph.legend.classes == ("blue", "red")
    assert graph.legend.features == ("age", "height")
    assert graph.labels.tolist() == [1, -1, 0, 1]
    assert graph.features.tolist() == [[1, 10.5], [2, 20.5], [3, 30.5], [6, 40.5]]
    assert graph.edge_index.tolist() == [[0, 1, 2, 3], [1, 0, 3, 2]]  # both directions once, no loop
    assert graph.official_part.tolist() == [Part.TRAIN, Part.NONE, Part.VAL, Part.TEST]


def test_parquet_and_csv_give_the_same_graph_and_parquet_keeps_integer_ids(folder):
    pd.read_csv(folder / "nodes.csv", dtype={"id": str}).to_parquet(folder / "n.parquet")
    pd.read_csv(folder / "edges.csv", dtype=str).to_parquet(folder / "e.parquet")
    graph = custom_graph(path=str(folder / "n.parquet"), edges=str(folder / "e.parquet"))
    assert graph.fingerprint == read_csv(folder).fingerprint
    numbered = pd.DataFrame({"id": [10, 20, 30], "label": [1.0, None, 2.0], "x": [True, False, True]})
    numbered.to_parquet(folder / "n.parquet")
    pd.DataFrame({"source": [10], "target": [30]}).to_parquet(folder / "e.parquet")
    graph = custom_graph(path=str(folder / "n.parquet"), edges=str(folder / "e.parquet"), scaling="none")
    assert graph.legend.nodes.tolist() == [10, 20, 30]
    assert graph.legend.classes == ("1", "2")  # a missing label turned the column into 1.0 and 2.0
    assert graph.features.flatten().tolist() == [1, 0, 1]


def test_numeric_classes_are_sorted_as_numbers(folder):
    nodes = "id,label,x\n" + "".join(f"n{k},{k},{k}\n" for k in (10, 9, 2, 1))
    write_csv(folder, nodes, "source,target\nn1,n2\n")
    assert read_csv(folder).legend.classes == ("1", "2", "9", "10")


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_other_delimiters(folder, delimiter):
    write_csv(folder, NODES.replace(",", delimiter), EDGES.replace(",", delimiter))
    assert read_csv(folder, scaling="none").features[3].tolist() == [6, 40.5]


def test_columns_can_have_other_names_and_be_ignored(folder):
    nodes = (
        NODES.replace("id,label,split,age", "key,colour,phase,town").replace(",1,", ",Ulm,").replace(",2,", ",Bonn,")
    )
    write_csv(folder, nodes, EDGES.replace("source,target", "from,to"))
    graph = read_csv(
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


def test_na_and_nan_are_valid_names_of_classes_and_nodes(folder):
    write_csv(folder, "id,label,x\nNA,nan,1\nnan,NA,2\nb,2,3\n", "source,target\nNA,nan\n")
    graph = read_csv(folder)
    assert graph.legend.nodes.tolist() == ["NA", "nan", "b"]
    assert graph.legend.classes == ("2", "NA", "nan")


def test_categorical_columns_of_a_data_frame_are_strings(folder):
    nodes = pd.DataFrame({"id": ["a", "b", "c"], "label": ["x", None, "y"], "v": [1.0, 2.0, 3.0]})
    nodes.astype({"id": "category", "label": "category"}).to_parquet(folder / "n.parquet")
    pd.DataFrame({"source": ["a"], "target": ["c"]}).astype("category").to_parquet(folder / "e.parquet")
    graph = custom_graph(path=str(folder / "n.parquet"), edges=str(folder / "e.parquet"))
    assert graph.legend.nodes.tolist() == ["a", "b", "c"]
    assert graph.labels.tolist() == [0, -1, 1]


def test_integer_labels_with_blanks_stay_integers(folder):
    write_csv(folder, "id,label,x\na,1.0,1\nb,,2\nc,2.0,3\n", "source,target\na,b\n")
    assert read_csv(folder).legend.classes == ("1", "2")


def without(text: str, *words: str) -> str:
    for word in words:
        text = text.replace(word, "")
    return text


TABLE_ERRORS = [
    ("nodes.csv", NODES.replace("id,", "name,"), "there is no column 'id'"),
    ("nodes.csv", NODES.replace("label", "lable"), "there is no column 'label'"),
    ("nodes.csv", NODES.replace("\n7,", "\nann,"), "'ann' is in rows 2 and 4"),
    ("nodes.csv", NODES.replace("20.5", "tall"), "'height' contains 'tall' (node 'ann'), which is not a number"),
    ("nodes.csv", NODES.replace("20.5", ""), "'height' of node 'ann' is blank"),
    ("nodes.csv", "id,label,x\na,red,\nb,blue,\n", "'x' of node 'a' is blank (2 blank in this column)"),
    ("nodes.csv", NODES.replace("bob,blue,val", "bob,blue,maybe"), "the split of node 'bob' is 'maybe'"),
    ("nodes.csv", NODES.replace("age", "height"), "the column 'height' occurs more than once"),
    ("nodes.csv", "id,label\na,x\nb,y\n", "there are no feature columns"),
    ("nodes.csv", "id,label,x\n", "no rows"),
    ("nodes.csv", "", "cannot be read"),
    ("nodes.csv", NODES + "eve,red\n", "cannot be read"),
    ("nodes.csv", NODES.replace("ann,", ",", 1), "the id in row 2 is blank"),
    ("nodes.csv", ",id,label,x\n0,007,red,1\n1,ann,blue,2\n2,bob,red,3\n3,7,red,4\n", "column 1 has no name"),
    ("edges.csv", EDGES.replace("bob,7", "bob,zoe"), "the target 'zoe' in row 3 is not a node; 1 of 4 rows"),
    ("edges.csv", EDGES.replace("target", "to"), "there is no column 'target'"),
    ("edges.csv", "source,target\n", "no rows"),
    ("edges.csv", EDGES.replace("bob,bob", "bob,"), "the target in row 4 is blank"),
]
# Found when both tables have been read: the message names no file.
GRAPH_ERRORS = [
    (NODES.replace("20.5", "inf"), "'height' of node 'ann' is inf"),
    (NODES.replace("20.5", "1e300"), "'height' of node"),
    (NODES.replace("ann,,,", "ann,,train,"), "'ann' is in the training or validation part of the split but has no"),
    (NODES.replace("blue", "red"), "all labels are 'red'"),
    (without(NODES, "blue", "red", "train", "val"), "no node has a label"),
]


@pytest.mark.parametrize(("file", "text", "message"), TABLE_ERRORS, ids=[error[2] for error in TABLE_ERRORS])
def test_an_error_in_a_table_names_the_file_and_the_place(folder, file, text, message):
    (folder / file).write_text(text)
    assert file in str(expect_error(message, path=str(folder)))


@pytest.mark.parametrize(("nodes", "message"), GRAPH_ERRORS, ids=[error[1] for error in GRAPH_ERRORS])
def test_an_error_in_the_graph_names_the_node(folder, nodes, message):
    write_csv(folder, nodes)
    expect_error(message, path=str(folder))


def test_an_error_about_a_column_suggests_a_parameter(folder):
    write_csv(folder, NODES.replace("label", "lable"))
    error = expect_error("there is no column 'label'", path=str(folder))
    assert (error.parameter, error.suggestion) == ("label_column", "lable")
    for value in ("tall", "", "inf"):
        write_csv(folder, NODES.replace("20.5", value))
        error = expect_error("'height'", path=str(folder))
        assert (error.parameter, error.suggestion) == ("ignore", ["height"])


def test_column_parameters_are_checked(folder):
    expect_error("both 'source'", path=str(folder), target_column="source")
    error = expect_error("ignore contains 'agee'", path=str(folder), ignore=["agee"])
    assert (error.parameter, error.suggestion) == ("ignore", ["age"])


def test_the_required_memory_is_logged_and_limited_before_reading(tmp_path, caplog):
    """A million nodes: estimated from the parquet metadata alone."""
    num_nodes = 1_000_000
    table = pd.DataFrame({"id": np.arange(num_nodes), "label": np.arange(num_nodes) % 3})
    for column in range(16):
        table[f"x{column}"] = np.float32(column)
    table.to_parquet(tmp_path / "nodes.parquet")
    pd.DataFrame({"source": [0], "target": [1]}).to_parquet(tmp_path / "edges.parquet")
    with caplog.at_level("INFO"):
        error = expect_error("1,000,000 nodes with 16 features) can take 0.", path=str(tmp_path), memory_limit_gib=0.3)
    assert error.parameter == "memory_limit_gib"
    assert error.suggestion > 0.5
    assert "Reading" in caplog.text


def test_columns_of_true_and_false_are_ones_and_zeros(folder):
    write_csv(folder, "id,label,x,y\na,u,true,1\nb,v,false,2.5\nc,u,true,3\n", "source,target\na,b\n")
    assert read_csv(folder, scaling="none").features.tolist() == [[1, 1], [0, 2.5], [1, 3]]


def test_ignored_columns_are_not_read(folder):
    """They may be of any type and in any encoding."""
    (folder / "nodes.csv").write_bytes("id,label,note,x\na,u,größe,1\nb,v,,2\n".encode("latin-1"))
    (folder / "edges.csv").write_text("source,target\na,b\n")
    assert read_csv(folder, ignore=["note"]).legend.features == ("x",)
