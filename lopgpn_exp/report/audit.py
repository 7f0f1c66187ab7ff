"""Every published cell beside ours, with a verdict."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd

from lopgpn_exp.report.known import first_covering
from lopgpn_exp.report.published import COLUMNS, public_code, published
from lopgpn_exp.report.table1 import CELL, lookup, percent_means

# A difference is noise up to this many points, or up to this many standard errors.
NOISE_POINTS = 2.0
NOISE_ERRORS = 2.0
# Beyond noise, but no other result.
CLOSE_POINTS = 5.0
VERDICTS = ("within noise", "close", "different", "not from public code")
RULE = (
    f"**within noise**: at most {NOISE_POINTS:g} points or {NOISE_ERRORS:g} standard errors apart; **close**: at most "
    f"{CLOSE_POINTS:g} points; **different**: more. The published standard errors are all 0.00 and carry no "
    "information, so the published mean counts as exact and only our own standard error is used: this calls fewer "
    "differences noise than the unknown truth would. **not from public code**: the authors' public code does not give "
    "the published value either (see below), so that agreeing with it would be wrong."
)


def verdict(difference: float, error: float) -> str:
    """Of a difference in points; `error` is NaN where there is one split."""
    if abs(difference) <= NOISE_POINTS or abs(difference) <= NOISE_ERRORS * error:
        return VERDICTS[0]
    return VERDICTS[1] if abs(difference) <= CLOSE_POINTS else VERDICTS[2]


def audit(results: pd.DataFrame) -> pd.DataFrame:
    """One row a published value of which we have ours, in percent; `difference` is ours minus published."""
    means = percent_means(results)
    columns = {column.name: column for column in COLUMNS}
    rows = []
    for cell in published().to_dict("records"):
        ours = lookup(means, cell["dataset"], cell["model"], columns[cell["column"]])
        if ours is None:
            continue
        difference = round(ours["mean"] - cell["published"], 6)
        outside = first_covering("not_from_public_code", cell)
        of_difference = verdict(difference, ours["se"])
        explanation = first_covering("explanations", cell)
        rows.append(
            cell
            | {"splits": int(ours["splits"]), "ours": ours["mean"], "se": ours["se"], "difference": difference}
            | {"verdict": VERDICTS[3] if outside else of_difference}
            | {"explanation": explanation.why if explanation and not outside and of_difference != VERDICTS[0] else ""}
        )
    first = [*CELL, "column", "printed", "splits", "ours", "se", "published", "difference", "verdict"]
    table = pd.DataFrame(rows, columns=[*first, "explanation"]).astype({"printed": bool})
    return table.merge(public_code(), on=CELL, how="left")[[*first, "public_code", "public_code_splits", "explanation"]]


def combined_noise(table: pd.DataFrame) -> pd.Series:
    """Which cells are within noise if the published means are as uncertain as ours: 2 errors of their difference."""
    return (table["difference"].abs() <= NOISE_POINTS) | (
        table["difference"].abs() <= NOISE_ERRORS * 2**0.5 * table["se"]
    )


def beside_public_code(results: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """The cells that the public code was run on, and of each the share of values within `NOISE_POINTS` of the paper's.

    `theirs` is of its one value; `ours` of our mean; `alike` of our means over as few splits as it had, the first
    initialisation of each, over all choices of these: what is compared is then as noisy on both sides.
    """
    both = table[table["public_code"].notna()]
    kind = ["dataset", "model", "scenario"]
    first = results.sort_values("init").drop_duplicates([*kind, "split"]).set_index(kind).sort_index()
    rows = []
    for cell in both.to_dict("records"):
        values = 100 * first.loc[[(cell["dataset"], cell["model"], cell["scenario"])], cell["metric"]]
        few = [np.mean(chosen) for chosen in combinations(values, min(int(cell["public_code_splits"]), len(values)))]
        rows.append(
            {
                "theirs": abs(cell["public_code"] - cell["published"]) <= NOISE_POINTS,
                "ours": abs(cell["difference"]) <= NOISE_POINTS,
                "alike": np.mean(np.abs(np.array(few) - cell["published"]) <= NOISE_POINTS),
            }
        )
    return pd.DataFrame(rows, columns=["theirs", "ours", "alike"])


def audit_csv(table: pd.DataFrame) -> pd.DataFrame:
    """As it is written: two decimals, whole counts."""
    numbers = ["ours", "se", "published", "difference", "public_code"]
    return table.assign(
        **{name: table[name].map(lambda x: "" if pd.isna(x) else f"{x:.2f}") for name in numbers},
        public_code_splits=table["public_code_splits"].map(lambda x: "" if pd.isna(x) else f"{x:.0f}"),
        printed=table["printed"].astype(int),
    )


def counts(table: pd.DataFrame, by: str) -> pd.DataFrame:
    """How many cells of each verdict, and the median absolute difference where the public code is no reason."""
    found = table.groupby([by, "verdict"]).size().unstack(fill_value=0).reindex(columns=list(VERDICTS), fill_value=0)
    comparable = table[table["verdict"] != VERDICTS[3]]
    found["median"] = comparable.groupby(by)["difference"].apply(lambda d: d.abs().median())
    return found
