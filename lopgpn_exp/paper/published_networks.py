"""The networks of the paper's public code before their first step, to the last bit."""

from __future__ import annotations

import torch

from lopgpn_exp.config.plan import RunGraphs, RunPlan
from lopgpn_exp.data.scenarios import draw_normal
from lopgpn_exp.graph import Part
from lopgpn_exp.models.posterior_network import PosteriorNetwork
from lopgpn_exp.seeds import PUBLISHED_SEED
from lopgpn_exp.targets import import_target


def build_untrained(plan: RunPlan, graphs: RunGraphs) -> PosteriorNetwork:
    """Return the network of the public code before its first step; it has seen the class frequencies only.

    The public code builds as many networks as the number of the initialisation says, and keeps the last. It sets the
    seed before it reads the data, so the first one comes after the features that the scenario draws. For the others the
    data is read already.
    """
    training, evaluation = graphs.training, graphs.evaluation
    dimensions = {"num_features": training.num_features, "num_classes": training.num_classes}
    model = import_target(plan.model_class)(**plan.model_options, **dimensions)
    generator = torch.Generator().manual_seed(PUBLISHED_SEED)
    if plan.init == 0:
        draw_normal(torch.empty(int(evaluation.is_ood.sum()), training.num_features), generator)
    model.draw_published_weights(generator, count=plan.init + 1)
    model.observe(training.labels[training.nodes(Part.TRAIN)])
    return model.eval()
