"""Which of our metrics each of the published table's 99 columns is, decoded once.

The paper's LaTeX names the columns it prints: `TotalEntropy` is set under TU, `AleatoricEntropy` under AU,
`EpistemicEntropyDiff` under EU, `Epistemic` under EU_PC, `EpistemicEntropy` under EU_SO. `Total` and `Aleatoric` are
not printed; they are the least confidence, by which GPN's authors measure both, and are equal in every row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# In the order of the columns, which is not that of the printed table.
PREFIXES = {"leave_out_classes": "oodLoc", "gaussian": "oodNormal", "bernoulli": "oodBer"}
# Columns with a value, its standard error (`SE`) and whether it is its dataset's largest (`Best`).
SCORES = {
    "IdAcc": "id/accuracy",
    "OodAcc": "ood/accuracy",
    "OodTotal": "ood/auroc/lconf",
    "OodTotalEntropy": "ood/auroc/tu",
    "OodAleatoric": "ood/auroc/lconf",
    "OodAleatoricEntropy": "ood/auroc/au",
    "OodEpistemic": "ood/auroc/eu_pc",
    "OodEpistemicEntropy": "ood/auroc/eu_so",
    "OodEpistemicEntropyDiff": "ood/auroc/eu",
}
# Columns with a value alone: by how much the mean uncertainty of OOD nodes is above that of ID nodes.
CHANGES = {
    "TotalEntropyChange": "change/tu",
    "AleatoricEntropyChange": "change/au",
    "EpistemicEntropyChange": "change/eu_so",
    "EpistemicEntropyDiffChange": "change/eu",
}
# A model without AU (APPNP) has its TU in the column of AU's change, but a blank in that of AU's AUC-ROC.
INSTEAD = {"change/au": "change/tu"}
MEASURES = ("tu", "au", "eu", "eu_pc", "eu_so")


@dataclass(frozen=True)
class Column:
    """A value of the published table and where our results have it. Both count in percent there, in fractions here."""

    name: str
    scenario: str
    metric: str
    kind: Literal["score", "change"]

    @property
    def printed(self) -> bool:
        """Whether the paper sets it in its table; clean accuracy, which it speaks of, counts as such."""
        shown = {"test/accuracy", "id/accuracy", *(f"ood/auroc/{measure}" for measure in MEASURES)}
        return self.metric in shown


COLUMNS = (
    Column("acc", "none", "test/accuracy", "score"),
    *(
        Column(prefix + name, scenario, metric, kind)
        for scenario, prefix in PREFIXES.items()
        for kind, group in (("score", SCORES), ("change", CHANGES))
        for name, metric in group.items()
    ),
)
