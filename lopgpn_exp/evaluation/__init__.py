"""Evaluate a posterior on a graph, and compute statistics over many runs.

Nothing here depends on models or training. Metrics of arrays are in `evaluation.metrics`.
"""

from lopgpn_exp.evaluation.evaluate import (
    Evaluation,
    check_node_table,
    evaluate,
    select_test_nodes,
    tabulate_predictions,
)

__all__ = ["Evaluation", "check_node_table", "evaluate", "select_test_nodes", "tabulate_predictions"]
