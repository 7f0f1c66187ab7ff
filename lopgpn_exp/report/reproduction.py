"""The folder of a reproduction: every table and figure of the paper from one file of runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from lopgpn_exp.errors import InputError
from lopgpn_exp.report import arc, typeset
from lopgpn_exp.report.audit import audit, audit_csv
from lopgpn_exp.report.audit_text import audit_text
from lopgpn_exp.report.claims import Claim, claims
from lopgpn_exp.report.concepts import concept_figures
from lopgpn_exp.report.document import to_html, to_markdown
from lopgpn_exp.report.drawing import as_svg, save
from lopgpn_exp.report.scatter import scatter
from lopgpn_exp.report.store import Runs, load_runs
from lopgpn_exp.report.table1 import table1_csv

RUNS = "runs.parquet"


@dataclass(frozen=True)
class Reproduction:
    """What was written, for those who show it."""

    folder: Path
    runs: Runs
    audit: pd.DataFrame
    claims: list[Claim]


def write_reproduction(folder: Path, *, runs_file: Path | None = None, figures: bool = True) -> Reproduction:
    """All files from `runs.parquet`, by default the one in the folder. The same runs give the same files.

    Args:
        figures: whether to write figures too, which take longest.
    """
    runs = load_runs(runs_file or folder / RUNS)
    if runs.main.empty:
        raise InputError(
            f"{runs_file or folder / RUNS} holds no runs of the paper's datasets",
            expected="at least one",
            hint="make reproduce-tables",
        )
    folder.mkdir(parents=True, exist_ok=True)
    _write_table1(folder, runs.main)
    means = arc.mean_curves(runs.main_curves)
    for name, table in arc.arc_tables(means).items():
        (folder / "arc").mkdir(exist_ok=True)
        table.to_csv(folder / "arc" / name, index=False)
    cells = audit(runs.main)
    audit_csv(cells).to_csv(folder / "audit.csv", index=False)
    found = claims(runs.main, runs.main_curves)
    plot = scatter(cells)
    text = audit_text(runs, cells, found, as_svg(plot))
    (folder / "audit.md").write_text(to_markdown(text))
    (folder / "audit.html").write_text(to_html("Audit", text))
    if figures:
        save(plot, folder, "scatter")
        for name, figure in concept_figures().items():
            save(figure, folder, name)
        if len(means):
            save(arc.paper_figure(means), folder, "arc")
            save(arc.all_models_figure(means), folder, "arc_all_models")
    return Reproduction(folder, runs, cells, found)


def _write_table1(folder: Path, results: pd.DataFrame) -> None:
    table1_csv(results).to_csv(folder / "table1.csv", index=False)
    rows = typeset.grid(results)
    (folder / "table1.tex").write_text(typeset.to_latex(rows))
    (folder / "table1.md").write_text(typeset.to_markdown(rows))
    (folder / "table1.html").write_text(typeset.to_html(rows))
