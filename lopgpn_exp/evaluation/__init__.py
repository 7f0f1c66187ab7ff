"""A posterior and a graph to numbers. No model, config or tracking is known here."""

from lopgpn_exp.evaluation.evaluate import Evaluation, evaluate, predictions, tested

__all__ = ["Evaluation", "evaluate", "predictions", "tested"]
