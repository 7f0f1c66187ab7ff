"""Deep ensembles: several trainings of one model, as a sample of predictions."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn

from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph
from lopgpn_exp.models.base import CompositeModel, FitData, Model, build_part
from lopgpn_exp.posterior import Samples

MAX_MEMBERS = 1000


class Ensemble(CompositeModel):
    """Models that differ in their initialisation. Source: Lakshminarayanan et al. (2017).

    Initialisation i of an ensemble of n consists of the initialisations n i to n i + n - 1 of its member, which are
    ordinary trainings: a sweep over the initialisations of the member has already paid for it.

    Args:
        member: the config of the member: its `_target_` and its options.
        num_members: number of trainings.
    """

    part_options: ClassVar[tuple[str, ...]] = ("member",)

    def __init__(
        self, *, num_features: int, num_classes: int, member: Mapping[str, Any], num_members: int = 10
    ) -> None:
        super().__init__()
        if not 2 <= num_members <= MAX_MEMBERS:
            raise InputError(
                f"num_members is {num_members}",
                expected=f"2 to {MAX_MEMBERS:,}: a single member cannot disagree with itself",
                parameter="num_members",
                suggestion=10,
            )
        parts = [build_part(member, num_features, num_classes) for _ in range(num_members)]
        self.members = nn.ModuleList(parts)

    def combine(self, data: FitData) -> None:
        for member, trained in zip(self.members, data.parts, strict=True):
            member.load_state_dict(trained.state_dict())

    def predict(self, graph: Graph, *, cache_dir: Path | None = None) -> Samples:
        predictions = [member.predict(graph, cache_dir=cache_dir) for member in self._models()]
        return Samples(torch.stack([posterior.log_mean for posterior in predictions]))

    def for_graph(self, graph: Graph, *, seed: int = 0, cache_dir: Path | None = None) -> Model:
        members = self._models()
        fitted = [member.for_graph(graph, seed=seed, cache_dir=cache_dir) for member in members]
        if all(new is old for new, old in zip(fitted, members, strict=True)):
            return self
        model = deepcopy(self)
        model.members = nn.ModuleList(fitted)
        return model

    def _models(self) -> list[Model]:
        return list(self.members)  # type: ignore[arg-type]
