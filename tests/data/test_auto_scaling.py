"""The choice of a scaling by what the features look like."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits

from lopgpn_exp.config.plan import plan_run
from lopgpn_exp.data.auto_scaling import choose_scaling
from lopgpn_exp.data.files import custom_graph
from lopgpn_exp.errors import InputError
from tests.support import compose
from tests.support.graph_files import read_csv, write_csv, write_npz

RNG = np.random.default_rng(0)
COUNTS = RNG.poisson(0.1, (200, 40)).astype(float)
FLAGS = (RNG.random((200, 40)) < 0.2).astype(float)
ONE_HOT = np.eye(8)[RNG.integers(0, 8, 200)]
REAL = RNG.random((200, 40)) + 0.1

EXAMPLES = {
    "counts": (COUNTS, "rows"),
    "flags": (FLAGS, "rows"),
    "weighted counts": (COUNTS * RNG.random(40), "rows"),
    "whole numbers, of which a third are zero": (RNG.poisson(1.0, (200, 40)).astype(float), "standard"),
    "one-hot rows": (ONE_HOT, "none"),
    "one-hot rows, some of them empty": (ONE_HOT * (RNG.random((200, 1)) < 0.9), "none"),
    "positive real numbers": (REAL, "standard"),
    "ratings from 1 to 5": (RNG.integers(1, 6, (200, 40)).astype(float), "standard"),
    "negative numbers": (RNG.normal(size=(200, 40)), "standard"),
    "sparse numbers of both signs": (COUNTS * RNG.normal(size=40), "standard"),
    "two-hot rows": (np.hstack([ONE_HOT, ONE_HOT]), "rows"),
    "flags and an income": (np.hstack([FLAGS, 1e4 * REAL[:, :1]]), "standard"),
    "flags and an age": (np.hstack([FLAGS, RNG.integers(18, 90, (200, 1))]), "standard"),
    "flags and a few numbers of the same size": (np.hstack([FLAGS, REAL[:, :3]]), "rows"),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_choice_depends_on_the_values_and_not_on_their_layout(name):
    features, expected = EXAMPLES[name]
    names = [f"x{k}" for k in range(features.shape[1])]
    choice = choose_scaling(features, names)
    assert choice.scaling == expected
    assert f": using scaling={expected}. Set dataset.scaling=" in choice.sentence
    assert choose_scaling(sp.csr_array(features), names) == choice


def test_the_column_that_is_too_large_for_rows_is_named():
    features, _ = EXAMPLES["flags and an income"]
    assert "('x40' is 100% of the total)" in choose_scaling(features, [f"x{k}" for k in range(41)]).sentence


def test_pixels_are_not_a_bag_of_words():
    assert choose_scaling(load_digits().data, [""] * 64).scaling == "standard"


def write_counts(folder):
    rows = "".join(f"n{k},{'ab'[k % 2]}," + ",".join(map(str, COUNTS[k].astype(int))) + "\n" for k in range(100))
    write_csv(folder, "id,label," + ",".join(f"w{k}" for k in range(40)) + "\n" + rows, "source,target\nn1,n3\n")


def test_the_chosen_scaling_is_stored_and_gives_the_same_graph_as_if_it_were_set(tmp_path):
    write_counts(tmp_path)
    graph = read_csv(tmp_path)
    assert graph.legend.scaling == "rows"
    assert graph.fingerprint == read_csv(tmp_path, scaling="rows").fingerprint
    assert graph.fingerprint != read_csv(tmp_path, scaling="standard").fingerprint


def test_another_scaling_is_an_error():
    with pytest.raises(InputError, match="scaling"):
        plan_run(compose("dataset=custom", "dataset.path=graph.npz", "dataset.scaling=bogus"))


def test_one_hot_features_are_unchanged(tmp_path):
    features = sp.csr_array(np.eye(9)[np.arange(30) % 9])
    changes = {f"attr_{part}": getattr(features, part) for part in ("data", "indices", "indptr", "shape")}
    edges = sp.csr_array((30, 30))
    changes |= {f"adj_{part}": getattr(edges, part) for part in ("data", "indices", "indptr", "shape")}
    write_npz(tmp_path / "graph.npz", labels=np.arange(30) % 2, **changes)
    graph = custom_graph(path=str(tmp_path / "graph.npz"))
    assert graph.legend.scaling == "none"
    np.testing.assert_array_equal(graph.features.to_dense(), features.toarray())
