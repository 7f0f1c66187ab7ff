"""A changed graph against its run: counts by hand, and models whose nodes cannot be flagged unknown."""

import numpy as np
import pandas as pd
import pytest

from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation.graph_change import FlagShare, check_fail_above, compare_versions
from lopgpn_exp.evaluation.trust import fit_validation_limits


def run_table(**measures) -> pd.DataFrame:
    table = pd.DataFrame(
        {"node": range(4), "part": ["val", "val", "val", "test"], "is_ood": [False, False, True, False]}
    )
    return table.assign(label=0, predicted=0, confidence=0.5, au=[0.1, 0.2, 0.3, 0.4], **measures)


@pytest.mark.parametrize("ids", [None, ["a", "b", "c", "d"]])
def test_counts_by_hand(ids):
    """The limit is the larger value of the two in-distribution validation nodes, which none of them exceeds."""
    own = run_table(eu=[1.0, 2.0, 9.0, 9.0])
    own = own if ids is None else own.assign(id=ids)
    limits = fit_validation_limits(own)
    names = [3, 0, 7, 8] if ids is None else ["d", "a", "new", "newer"]
    change = compare_versions(np.array(["trust", "unknown", "unknown", "ambiguous"]), names, own, limits)
    assert change.everything == FlagShare(4, 2)
    assert change.new == FlagShare(2, 1)
    assert change.validation == FlagShare(2, 0)
    assert FlagShare(0, 0).share == 0
    check_fail_above(0.0, limits)


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_shares_out_of_range_are_refused(share):
    with pytest.raises(InputError, match="fail_above is"):
        check_fail_above(share, fit_validation_limits(run_table(eu=[1.0, 2.0, 9.0, 9.0])))


def test_model_without_an_epistemic_measure_cannot_stop_a_pipeline():
    with pytest.raises(InputError, match="this model has no epistemic measure"):
        check_fail_above(0.2, fit_validation_limits(run_table()))
