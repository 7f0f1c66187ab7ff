"""Out-of-distribution scenarios: pure functions from a graph with a split to a graph with `is_ood` set."""

from lopgpn_exp.data.scenarios.class_scenarios import leave_out_classes
from lopgpn_exp.data.scenarios.edge_scenarios import dice, random_edges
from lopgpn_exp.data.scenarios.feature_scenarios import (
    bernoulli,
    draw_normal,
    feature_dropout,
    feature_noise,
    gaussian,
    near_features,
)

__all__ = [
    "bernoulli",
    "dice",
    "draw_normal",
    "feature_dropout",
    "feature_noise",
    "gaussian",
    "leave_out_classes",
    "near_features",
    "random_edges",
]
