"""Write the report of a reproduction: every table and figure of the paper, and the audit, from one file of runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from lopgpn_exp.errors import InputError
from lopgpn_exp.paper import typeset
from lopgpn_exp.paper.audit import audit_runs, format_audit
from lopgpn_exp.paper.audit_document import build_audit
from lopgpn_exp.paper.claims import Claim, check_claims
from lopgpn_exp.paper.concept_figures import draw_concept_figures
from lopgpn_exp.paper.published_page import build_published_page
from lopgpn_exp.paper.result_figures import (
    MeanCurves,
    build_curve_tables,
    compute_mean_curves,
    draw_all_curves,
    draw_paper_curves,
    draw_scatter,
)
from lopgpn_exp.paper.runs_file import StoredRuns, load_runs
from lopgpn_exp.paper.table1 import build_table1, mark_cells
from lopgpn_exp.report.document import to_html, to_markdown
from lopgpn_exp.report.figures import figure_to_svg, save_figure


@dataclass(frozen=True)
class PaperReport:
    """A report that was written: the runs it is made from, one row per published value, and the paper's claims."""

    folder: Path
    runs: StoredRuns
    audit: pd.DataFrame
    claims: list[Claim]

    @property
    def main_files(self) -> list[Path]:
        """The files to look at first."""
        names = ("audit.html", "published_table.html", "table1.html", "arc.pdf", "runs.parquet")
        paths = [self.folder / name for name in names]
        return [path for path in paths if path.is_file()]


def write_report(folder: Path, *, runs_file: Path | None = None, figures: bool = True) -> PaperReport:
    """Write all files of the report. The same runs give the same files.

    Args:
        runs_file: `runs.parquet`; by default the one in the folder.
        figures: whether to write the figures, which take longest.
    """
    runs_file = runs_file or folder / "runs.parquet"
    runs = load_runs(runs_file)
    if runs.main.empty:
        raise InputError(
            f"{runs_file} contains no runs on the paper's datasets",
            expected="at least one",
            hint="lopgpn_exp reproduce",
        )
    folder.mkdir(parents=True, exist_ok=True)
    _write_table1(folder, runs)
    mean_curves = compute_mean_curves(runs.main_curves)
    for name, table in build_curve_tables(mean_curves).items():
        (folder / "arc").mkdir(exist_ok=True)
        table.to_csv(folder / "arc" / name, index=False)
    report = PaperReport(folder, runs, audit_runs(runs), check_claims(runs.main, runs.main_curves))
    scatter = draw_scatter(report.audit)
    _write_audit(report, scatter)
    if runs.notes.has_published_splits:
        page = list(build_published_page(runs, report.audit))
        (folder / "published_table.md").write_text(to_markdown(page))
        (folder / "published_table.html").write_text(to_html("What the published table is made of", page))
    if figures:
        for name, figure in {"scatter": scatter, **draw_figures(mean_curves)}.items():
            save_figure(figure, folder, name)
    return report


def draw_figures(mean_curves: MeanCurves) -> dict[str, Figure]:
    """Return the paper's figures by the name of their files; figure 4 needs at least one curve."""
    figures = draw_concept_figures()
    if mean_curves:
        figures |= {"arc": draw_paper_curves(mean_curves), "arc_all_models": draw_all_curves(mean_curves)}
    return figures


def _write_table1(folder: Path, runs: StoredRuns) -> None:
    """Write the table by definition in all formats, and the one by recipe as CSV."""
    results = runs.main
    marks = mark_cells(results)
    build_table1(results, marks).to_csv(folder / "table1.csv", index=False)
    if runs.notes.has_published_splits:
        build_table1(runs.by_recipe, mark_cells(runs.by_recipe)).to_csv(folder / "table1_recipe.csv", index=False)
    rows = typeset.build_grid(results, marks)
    (folder / "table1.tex").write_text(typeset.to_latex(rows))
    (folder / "table1.md").write_text(typeset.to_markdown(rows))
    (folder / "table1.html").write_text(typeset.to_html(rows))


def _write_audit(report: PaperReport, scatter: Figure) -> None:
    format_audit(report.audit).to_csv(report.folder / "audit.csv", index=False)
    blocks = list(build_audit(report.runs, report.audit, report.claims, scatter_svg=figure_to_svg(scatter)))
    (report.folder / "audit.md").write_text(to_markdown(blocks))
    (report.folder / "audit.html").write_text(to_html("Audit", blocks))
