"""Metrics of arrays: accuracy and Brier score, calibration, rejection curves and selective prediction.

`metrics.detection` has those of out-of-distribution detection.
"""

from lopgpn_exp.evaluation.metrics.calibration import (
    NUM_BINS,
    cumulative_difference,
    equal_mass_bins,
    equal_width_bins,
    expected_calibration_error,
    wilson_interval,
)
from lopgpn_exp.evaluation.metrics.classification import accuracy, brier_score
from lopgpn_exp.evaluation.metrics.rejection import accuracy_rejection_curve, area_under_curve
from lopgpn_exp.evaluation.metrics.selective import aurc, coverage_at_risk, excess_aurc, risk_at_coverage

# Metrics with one value per uncertainty measure, such as `ood/auroc/eu_so`.
PER_MEASURE = ("test/auarc", "ood/auroc", "ood/aupr", "ood/fpr95", "change")
LOWER_IS_BETTER = ("test/ece", "test/brier", "test/nll", "val/nll", "ood/fpr95", "sets/size")
IN_NATS = ("test/nll", "val/nll")  # all others are fractions, which tables show in percent


def split_metric(metric: str) -> tuple[str, str]:
    """Return the path of a metric and the measure that it is computed from, empty if there is none."""
    path, _, measure = metric.rpartition("/")
    return (path, measure) if path in PER_MEASURE else (metric, "")


def is_lower_better(metric: str) -> bool:
    return split_metric(metric)[0] in LOWER_IS_BETTER


__all__ = [
    "IN_NATS",
    "NUM_BINS",
    "PER_MEASURE",
    "accuracy",
    "accuracy_rejection_curve",
    "area_under_curve",
    "aurc",
    "brier_score",
    "coverage_at_risk",
    "cumulative_difference",
    "equal_mass_bins",
    "equal_width_bins",
    "excess_aurc",
    "expected_calibration_error",
    "is_lower_better",
    "risk_at_coverage",
    "split_metric",
    "wilson_interval",
]
