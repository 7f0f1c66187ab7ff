"""The checks of the contract, in the order in which they run.

A new check is a function with the `check` decorator, listed in `CHECKS` after the checks that it requires.
"""

from lopgpn_exp.testing.check_types import Check
from lopgpn_exp.testing.checks.data_access import (
    check_feature_access,
    check_graph_unchanged,
    check_label_access,
    check_ood_access,
)
from lopgpn_exp.testing.checks.prediction_checks import (
    check_indexing,
    check_measures,
    check_no_edges,
    check_node_permutation,
    check_node_subset,
    check_other_graphs,
    check_posterior,
    check_predict_twice,
    check_sparse_features,
)
from lopgpn_exp.testing.checks.training_checks import (
    check_checkpoint,
    check_construction,
    check_different_seed,
    check_fit,
    check_learning,
    check_node_loss,
    check_random_state,
    check_same_seed,
)

CHECKS: tuple[Check, ...] = (
    *(check_construction, check_fit, check_posterior, check_measures),
    *(check_predict_twice, check_same_seed, check_different_seed, check_random_state),
    *(check_label_access, check_ood_access, check_feature_access, check_graph_unchanged),
    *(check_indexing, check_node_subset, check_node_permutation, check_sparse_features, check_no_edges),
    *(check_checkpoint, check_other_graphs),
    *(check_node_loss, check_learning),
)

__all__ = ["CHECKS"]
