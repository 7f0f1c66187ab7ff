"""What is computed from the outputs of a trained model: scores, calibration and prediction sets.

One file per method. A model's config lists its steps under `posthoc`; `posthoc=NAME` adds a step to any model.
"""

from lopgpn_exp.posthoc.conformal import ConformalSets
from lopgpn_exp.posthoc.dropout import MonteCarloDropout
from lopgpn_exp.posthoc.energy import EnergyPropagation
from lopgpn_exp.posthoc.gebm import GEBM
from lopgpn_exp.posthoc.pipeline import PostHocModel
from lopgpn_exp.posthoc.probe import EvidenceProbe
from lopgpn_exp.posthoc.step import PostHocStep, StepData
from lopgpn_exp.posthoc.temperature import TemperatureScaling

__all__ = [
    "GEBM",
    "ConformalSets",
    "EnergyPropagation",
    "EvidenceProbe",
    "MonteCarloDropout",
    "PostHocModel",
    "PostHocStep",
    "StepData",
    "TemperatureScaling",
]
