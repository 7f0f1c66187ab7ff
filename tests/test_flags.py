"""Limits of trust: set on validation nodes, applied to any."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation.flags import flag_reliability, limits


def table(au, correct, eu_so=None) -> pd.DataFrame:
    columns = {"au": np.asarray(au, float), "label": 0, "predicted": np.where(correct, 0, 1)}
    return pd.DataFrame(columns | ({} if eu_so is None else {"eu_so": np.asarray(eu_so, float)}))


def test_as_many_as_possible_are_trusted_at_the_accuracy_asked_for():
    """20 nodes by rising AU, the 16th, 18th and 20th wrong: up to the 17th, 16 of 17 are right."""
    correct = [k not in (15, 17, 19) for k in range(20)]
    found = limits(table(range(20), correct), target=0.94)
    assert (found.ambiguous_above, found.nodes) == (16.0, 17)
    assert found.accuracy == pytest.approx(16 / 17)
    assert found.reached
    assert found.flags(table(range(20), correct)).tolist() == ["trust"] * 17 + ["ambiguous"] * 3


def test_ties_stand_or_fall_together():
    found = limits(table([0] * 10 + [1] * 10, [True] * 10 + [True] * 5 + [False] * 5), target=0.9)
    assert (found.ambiguous_above, found.nodes, found.accuracy) == (0.0, 10, 1.0)


def test_an_accuracy_that_cannot_be_had_is_said():
    found = limits(table(range(40), [k % 4 != 0 for k in range(40)]), target=0.99)
    assert not found.reached
    assert found.nodes >= 10
    assert found.accuracy < 0.99


def test_unknown_comes_before_ambiguous():
    rows = table([0, 9, 9, 0] * 10, [True] * 40, eu_so=[0, 0, 5, 5] * 10)
    found = limits(rows, unknown_share=0.5)
    assert found.epistemic == "eu_so"
    assert found.unknown_above == 5.0  # half of them lie at 5: none above it
    other = table([0, 10, 10, 0], [True] * 4, eu_so=[0, 0, 6, 6])
    assert found.flags(other).tolist() == ["trust", "ambiguous", "unknown", "unknown"]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans()), min_size=1, max_size=60), st.floats(0, 0.9)
)
def test_on_validation_nodes_the_limits_keep_what_they_promise(rows, share):
    au, eu, correct = (np.array(column) for column in zip(*rows, strict=True))
    nodes = table(au, correct, eu_so=eu)
    found = limits(nodes, target=0.8, unknown_share=share)
    flags = found.flags(nodes)
    assert (flags == "unknown").mean() <= share + 1e-12
    assert (flags == "trust").sum() == found.nodes
    if found.reached:
        assert correct[flags == "trust"].mean() >= 0.8


def test_a_model_without_epistemic_measure_has_two_flags():
    rows = table(range(20), [True] * 20).rename(columns={"au": "tu"})
    found = limits(rows)
    assert (found.epistemic, found.aleatoric) == (None, "tu")
    assert set(found.flags(rows)) == {"trust"}
    with pytest.raises(InputError, match="this model has no epistemic measure"):
        limits(rows, epistemic="eu")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": 1.5}, "accuracy is 1.5"),
        ({"unknown_share": -0.1}, "unknown is -0.1"),
        ({"epistemic": "eu_sop"}, "epistemic eu_so"),
    ],
)
def test_senseless_limits_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        limits(table([0, 1], [True, True], eu_so=[0, 1]), **options)


def test_no_validation_nodes_no_limits():
    with pytest.raises(InputError, match="no validation nodes"):
        limits(table([], []))


def test_reliability_counts_each_node_once():
    flags = np.array(["trust", "trust", "trust", "ambiguous", "unknown", "unknown"])
    correct = np.array([True, True, False, False, True, False])
    rows = flag_reliability(flags, correct, np.array([False] * 5 + [True])).set_index("flag")
    assert rows["nodes"].tolist() == [3, 1, 2]
    assert rows["accuracy"].tolist() == [2 / 3, 0.0, 0.5]
    np.testing.assert_allclose(rows["of_all_errors"], 1 / 3)
    assert rows["ood"].tolist() == [0, 0, 1]
    empty = flag_reliability(np.array(["trust"]), np.array([True]), np.array([False])).set_index("flag")
    assert np.isnan(empty.loc["unknown", "accuracy"])
