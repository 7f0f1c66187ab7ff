"""Every mean of a sweep on one dataset, what is best, and what cannot be told from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import pandas as pd

from lopgpn_exp.posterior import MEASURES
from lopgpn_exp.report.aggregate import aggregate
from lopgpn_exp.report.names import NO_VALUE, SCENARIO_NAMES, measure_name, model_name
from lopgpn_exp.report.table1 import CELL, marks

LARGER = {"test/accuracy": "accuracy", "id/accuracy": "ID accuracy"} | {
    f"ood/auroc/{m}": f"AUC {measure_name(m)}" for m in MEASURES
}
SMALLER = {"test/ece": "ECE", "test/brier": "Brier", "test/nll": "NLL"}
NOTE = (
    "Mean ± standard error over splits; accuracies and AUC-ROC in percent. Of the models in a scenario the best is "
    "bold; underlined is what a paired t-test over splits (5 %) cannot tell from it. ECE, Brier score and NLL are "
    "better if smaller."
)
Key = tuple[str, str, str, str]  # dataset, model, scenario, metric


def sweep_table(results: pd.DataFrame, models: Sequence[str], scenarios: Sequence[str]) -> str:
    """`results` of one dataset; models by rows, grouped by scenario."""
    shown = {key: name for key, name in (LARGER | SMALLER).items() if key in results}
    means = aggregate(results).set_index(CELL)[["mean", "se", "splits"]].to_dict("index")
    # The best is the largest: what is better if smaller is compared with its sign turned.
    turned = results.assign(**{key: -results[key] for key in SMALLER if key in results})
    found = marks(turned, list(shown))
    rows = [
        _row(means, found, (str(dataset), model, scenario), list(shown))
        for dataset in results["dataset"].unique()
        for scenario in scenarios
        for model in models
        if ((results["model"] == model) & (results["scenario"] == scenario)).any()
    ]
    head = "".join(f"<th>{escape(name)}</th>" for name in ("scenario", "model", *shown.values()))
    body = "\n".join(rows)
    table = f'<table class="paper"><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>'
    return f'<div class="wide">{table}</div>\n<p class="note">{NOTE}</p>'


def _row(
    means: Mapping[Key, Mapping[str, float]], found: Mapping[Key, str], at: tuple[str, str, str], metrics: Sequence[str]
) -> str:
    cells = "".join(_cell(means.get((*at, metric)), metric, found.get((*at, metric), "")) for metric in metrics)
    scenario = escape(SCENARIO_NAMES.get(at[2], at[2]))
    return f'<tr><th class="model">{scenario}</th><th class="model">{escape(model_name(at[1]))}</th>{cells}</tr>'


def _cell(value: Mapping[str, float] | None, metric: str, mark: str) -> str:
    if value is None:
        return f"<td>{NO_VALUE}</td>"
    scale, digits = (1, 3) if metric in SMALLER else (100, 1)
    text = f"{scale * value['mean']:.{digits}f}"
    if not pd.isna(value["se"]):
        text += f" ± {scale * value['se']:.{digits}f}"
    tag = {"best": "strong", "tied": "u"}.get(mark)
    return f'<td title="{value["splits"]:.0f} splits">{f"<{tag}>{text}</{tag}>" if tag else text}</td>'
