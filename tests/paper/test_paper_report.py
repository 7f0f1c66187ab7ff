"""The report of a reproduction: its files, the report in the repository, and the headline in the README."""

import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

from lopgpn_exp.errors import InputError
from lopgpn_exp.paper.cell_notes import load_cell_notes
from lopgpn_exp.paper.paper_report import PaperReport, draw_figures, write_report
from lopgpn_exp.paper.report_summary import format_headline, print_report, replace_headline
from lopgpn_exp.paper.result_figures import (
    build_curve_tables,
    compute_mean_curves,
    draw_all_curves,
    draw_paper_curves,
)
from tests.support import ROOT
from tests.support.html_pages import Reader
from tests.support.published_runs import published_results, save_published, save_results

REPORT = ROOT / "outputs" / "reproduction"


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> PaperReport:
    """The report on the published table with noise, three splits, without figures."""
    folder = tmp_path_factory.mktemp("report")
    save_published(folder / "runs.parquet", splits=3, noise=0.01)
    return write_report(folder, figures=False)


def relative_files(report: PaperReport) -> set[str]:
    files = (path for path in report.folder.rglob("*") if path.is_file() and path.name != "runs.parquet")
    return {path.relative_to(report.folder).as_posix() for path in files}


def save_quickly(figure: Figure, folder: Path, name: str) -> bytes:
    """Replace `save_figure`, whose three formats take seconds and have tests of their own."""
    figure.savefig(folder / f"{name}.png", dpi=40)
    return (folder / f"{name}.png").read_bytes()


def test_the_same_runs_give_the_same_files(written, tmp_path):
    """Ten tables and texts, and five curve files for each of six datasets."""
    again = write_report(tmp_path, runs_file=written.folder / "runs.parquet", figures=False)
    assert len(relative_files(written)) == 10 + 5 * 6
    assert relative_files(again) == relative_files(written)
    for name in relative_files(written):
        assert (again.folder / name).read_bytes() == (written.folder / name).read_bytes(), name


def test_the_same_curves_give_the_same_figures(written, tmp_path):
    curves = compute_mean_curves(written.runs.main_curves.query("dataset == 'cora_ml'"))
    first, second = draw_figures(curves), draw_figures(curves)
    assert list(first) == list(second) == ["figure1", "figure2", "figure3", "arc", "arc_all_models"]
    for name in first:
        assert save_quickly(first[name], tmp_path, name) == save_quickly(second[name], tmp_path, name), name


@pytest.mark.parametrize(
    ("dataset", "model", "scenario"),
    [("ogbn_arxiv", "matern_ggp", "none"), ("cora_ml", "gkde", "gaussian"), ("pubmed", "lop_gpn", "none")],
)
def test_a_single_run_is_enough_for_a_report(dataset, model, scenario, tmp_path, monkeypatch):
    """The paper has no value for the first; the second is not clean, so that there is no curve."""
    monkeypatch.setattr("lopgpn_exp.paper.paper_report.save_figure", save_quickly)
    monkeypatch.setattr("lopgpn_exp.paper.paper_report.draw_concept_figures", dict)  # the same for all runs
    (gkde,) = [r for r in published_results(datasets=("cora_ml",)) if (r.model, r.scenario) == ("gkde", scenario)]
    save_results(tmp_path / "runs.parquet", [replace(gkde, dataset=dataset, model=model, run_id="one")])
    report = write_report(tmp_path)
    print_report(report)
    assert report.claims == []
    assert (tmp_path / "scatter.png").exists()
    assert (tmp_path / "arc.png").exists() == (scenario == "none")
    assert ("The paper has no value" in (tmp_path / "audit.md").read_text()) == (model == "matern_ggp")


def test_curve_files_have_the_papers_names_and_columns():
    rows = [
        {"dataset": "amazon_photos", "model": model, "scenario": "none", "split": split, "init": 0}
        | {"measure": "eu", "percent": percent, "accuracy": start + 0.1 * split + percent / 1000}
        for model, start in {"gpn_sym": 0.5, "gpn_rw": 0.6, "lop_gpn": 0.7}.items()
        for split in range(2)
        for percent in range(100)
    ]
    files = build_curve_tables(compute_mean_curves(pd.DataFrame(rows)))
    file = files["acc_rej_sample_epistemic_entropy_diff_Photos.csv"]
    assert list(file) == ["p", "gpnMean", "gpnSE", "gpnRWMean", "gpnRWSE", "gpnLOPMean", "gpnLOPSE"]
    # Mean of start and start + 0.1; their standard error is 0.1 / 2.
    assert file.iloc[50].tolist() == pytest.approx([0.5, 0.6, 0.05, 0.7, 0.05, 0.8, 0.05])


def test_the_paper_figure_has_the_papers_axes_and_colours(written):
    curves = compute_mean_curves(written.runs.main_curves)
    figure = draw_paper_curves(curves)
    assert len(figure.axes) == 6 * 5
    assert figure.axes[0].get_ylim() == (0.8, 1.0)
    assert figure.axes[10].get_ylim() == (0.85, 1.0)
    assert [line.get_color() for line in figure.axes[0].get_lines()] == ["#3bb335", "#355fb3", "#b33535"]
    assert len(draw_all_curves(curves).axes[0].get_lines()) == 6


@pytest.mark.parametrize("name", ["table1.html", "audit.html"])
def test_pages_are_well_formed_and_load_nothing(written, name):
    text = (written.folder / name).read_text()
    links = [
        value
        for _, attributes in Reader(text).tags
        for key, value in attributes.items()
        if key in ("src", "href", "xlink:href")
    ]
    assert all(link.startswith("#") for link in links)
    assert not re.search(r"url\((?!#)|@import|<script", text)
    assert "prefers-color-scheme: dark" in text


def test_tables_of_the_audit_have_complete_rows(written):
    blocks = re.findall(r"(?:^\|.*\n)+", (written.folder / "audit.md").read_text(), re.M)
    assert blocks
    for block in blocks:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1


def test_the_headline_replaces_the_generated_part_of_a_readme(written):
    headline = format_headline(written)
    text = "before\n<!-- audit -->\n\n<!-- /audit -->\nafter\n"
    updated = replace_headline(text, headline)
    assert updated == f"before\n<!-- audit -->\n{headline}\n<!-- /audit -->\nafter\n"
    assert replace_headline(updated, headline) == updated
    with pytest.raises(InputError, match="0 places for the headline"):
        replace_headline("before", headline)


@pytest.fixture(scope="module")
def rebuilt(tmp_path_factory) -> PaperReport:
    """The report on the runs in the repository."""
    if not (REPORT / "runs.parquet").is_file():
        pytest.skip("this copy contains no results")
    return write_report(tmp_path_factory.mktemp("rebuilt"), runs_file=REPORT / "runs.parquet", figures=False)


def test_the_report_in_the_repository_is_the_one_its_runs_give(rebuilt):
    """Texts are equal byte for byte, except the figure in a page, which depends on the version of Matplotlib."""
    figure = re.compile(r"<svg.*?</svg>", re.S)
    assert len(relative_files(rebuilt)) >= 10
    assert all((REPORT / f"{name}.png").is_file() for name in ("arc", "arc_all_models", "scatter", "figure1"))
    for file in relative_files(rebuilt):
        new, kept = (figure.sub("", (folder / file).read_text()) for folder in (rebuilt.folder, REPORT))
        assert new == kept, file


def test_the_readme_has_the_current_headline(rebuilt):
    text = (ROOT / "README.md").read_text()
    assert replace_headline(text, format_headline(rebuilt)) == text


def test_every_differing_cell_is_counted_as_explained_or_not():
    text = (REPORT / "audit.md").read_text()
    total, parts = re.search(r"^The (\d+) cells that are not within noise by recipe: (.*)\.$", text, re.M).groups()
    counts = {part.split(" ", 1)[1]: int(part.split()[0]) for part in parts.split(", ")}
    cells = pd.read_csv(REPORT / "audit.csv").query("printed == 1 and recipe_verdict in ['close', 'different']")
    assert sum(counts.values()) == int(total) == len(cells)
    unexplained = [note.reason for note in load_cell_notes() if note.extent == "no"]
    expected = (cells["explanation"].isna() | cells["explanation"].isin(unexplained)).sum()
    assert counts.get("not explained", 0) == expected


def test_each_note_explains_a_cell_of_the_stored_audit():
    """A note without a cell that differs would be stale."""
    explained = set(pd.read_csv(REPORT / "audit.csv")["explanation"].dropna())
    assert {note.reason for note in load_cell_notes()} == explained
