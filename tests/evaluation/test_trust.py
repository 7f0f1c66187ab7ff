"""Limits of trust: fitted on validation nodes, applied to any nodes."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation.trust import fit_limits, score_flags


def make_table(au, correct, eu_so=None) -> pd.DataFrame:
    columns = {"au": np.asarray(au, float), "label": 0, "predicted": np.where(correct, 0, 1)}
    return pd.DataFrame(columns | ({} if eu_so is None else {"eu_so": np.asarray(eu_so, float)}))


def test_as_many_nodes_as_possible_are_trusted_at_the_required_accuracy():
    """20 nodes by increasing AU, the 16th, 18th and 20th wrong: of the first 17, 16 are correct."""
    correct = [k not in (15, 17, 19) for k in range(20)]
    limits = fit_limits(make_table(range(20), correct), accuracy=0.94)
    assert (limits.ambiguous_above, limits.nodes) == (16.0, 17)
    assert limits.accuracy == pytest.approx(16 / 17)
    assert limits.reaches_target
    assert limits.flag_nodes(make_table(range(20), correct)).tolist() == ["trust"] * 17 + ["ambiguous"] * 3


def test_nodes_of_equal_uncertainty_get_the_same_flag():
    limits = fit_limits(make_table([0] * 10 + [1] * 10, [True] * 10 + [True] * 5 + [False] * 5), accuracy=0.9)
    assert (limits.ambiguous_above, limits.nodes, limits.accuracy) == (0.0, 10, 1.0)


def test_an_accuracy_out_of_reach_is_reported():
    limits = fit_limits(make_table(range(40), [k % 4 != 0 for k in range(40)]), accuracy=0.99)
    assert not limits.reaches_target
    assert limits.nodes >= 10
    assert limits.accuracy < 0.99


def test_unknown_takes_precedence_over_ambiguous():
    limits = fit_limits(make_table([0, 9, 9, 0] * 10, [True] * 40, eu_so=[0, 0, 5, 5] * 10), unknown=0.5)
    assert limits.epistemic == "eu_so"
    assert limits.unknown_above == 5.0  # half of the nodes have exactly 5: none is above it
    other = make_table([0, 10, 10, 0], [True] * 4, eu_so=[0, 0, 6, 6])
    assert limits.flag_nodes(other).tolist() == ["trust", "ambiguous", "unknown", "unknown"]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans()), min_size=1, max_size=60), st.floats(0, 0.9)
)
def test_limits_hold_on_the_validation_nodes(rows, share):
    au, eu, correct = (np.array(column) for column in zip(*rows, strict=True))
    nodes = make_table(au, correct, eu_so=eu)
    limits = fit_limits(nodes, accuracy=0.8, unknown=share)
    flags = limits.flag_nodes(nodes)
    assert (flags == "unknown").mean() <= share + 1e-12
    assert (flags == "trust").sum() == limits.nodes
    if limits.reaches_target:
        assert correct[flags == "trust"].mean() >= 0.8


def test_a_model_without_an_epistemic_measure_has_two_flags():
    nodes = make_table(range(20), [True] * 20).rename(columns={"au": "tu"})
    limits = fit_limits(nodes)
    assert (limits.epistemic, limits.aleatoric) == (None, "tu")
    assert set(limits.flag_nodes(nodes)) == {"trust"}
    with pytest.raises(InputError, match="this model has no epistemic measure"):
        fit_limits(nodes, epistemic="eu")


@pytest.mark.parametrize(
    ("options", "message", "suggestion"),
    [
        ({"accuracy": 1.5}, "accuracy is 1.5", 0.95),
        ({"accuracy": 0.0}, "accuracy is 0.0", 0.95),
        ({"unknown": -0.1}, "unknown is -0.1", 0.05),
        ({"epistemic": "eu_sop"}, "epistemic is 'eu_sop'", "eu_so"),
    ],
)
def test_invalid_options_are_refused(options, message, suggestion):
    with pytest.raises(InputError, match=message) as info:
        fit_limits(make_table([0, 1], [True, True], eu_so=[0, 1]), **options)
    assert [info.value.parameter] == list(options)
    assert info.value.suggestion == suggestion


def test_no_validation_nodes_are_refused():
    with pytest.raises(InputError, match="no in-distribution validation nodes"):
        fit_limits(make_table([], []))


def test_each_node_counts_once_in_the_scores_of_flags():
    flags = np.array(["trust", "trust", "trust", "ambiguous", "unknown", "unknown"])
    correct = np.array([True, True, False, False, True, False])
    rows = score_flags(flags, correct, np.array([False] * 5 + [True])).set_index("flag")
    assert rows["nodes"].tolist() == [3, 1, 2]
    assert rows["accuracy"].tolist() == [2 / 3, 0.0, 0.5]
    np.testing.assert_allclose(rows["of_all_errors"], 1 / 3)
    assert rows["ood"].tolist() == [0, 0, 1]
    only_trusted = score_flags(np.array(["trust"]), np.array([True]), np.array([False])).set_index("flag")
    assert np.isnan(only_trusted.loc["unknown", "accuracy"])
