"""The published table: its columns, its values, and what the audit says about it."""

import pytest

from lopgpn_exp.paper.audit_document import EXTENTS
from lopgpn_exp.paper.cell_notes import load_cell_notes
from lopgpn_exp.paper.published import (
    COLUMNS,
    load_public_code,
    load_public_code_runs,
    load_published,
    load_published_text,
)

CELL = ["dataset", "model", "scenario", "metric"]


def test_columns_are_the_99_published_ones():
    names = ["id", "dataset", "model"]
    for column in COLUMNS:
        names += [column.name] if column.is_change else [column.name, f"{column.name}SE", f"{column.name}Best"]
    assert names == list(load_published_text().columns)
    assert len(names) == 99


def test_columns_have_the_meaning_that_the_papers_macros_print():
    """LOP-GPN on CoraML as printed: ID accuracy, TU, AU, EU, EU_PC and EU_SO of each scenario."""
    printed = {
        "leave_out_classes": (89.34, 85.67, 88.51, 45.18, 84.72, 79.26),
        "bernoulli": (81.29, 62.20, 59.69, 64.31, 54.40, 56.74),
        "gaussian": (81.74, 69.50, 61.06, 82.08, 60.15, 83.69),
    }
    cells = load_published().query("dataset == 'cora_ml' and model == 'lop_gpn'").set_index(["scenario", "metric"])
    measures = [f"ood/auroc/{name}" for name in ("tu", "au", "eu", "eu_pc", "eu_so")]
    for scenario, values in printed.items():
        assert tuple(cells.loc[(scenario, m), "published"] for m in ["id/accuracy", *measures]) == values
    assert cells.loc[("none", "test/accuracy"), "published"] == 81.69


def test_cell_notes_match_published_cells():
    cells = load_published().to_dict("records")
    for note in load_cell_notes():
        assert any(map(note.matches, cells)), note
        assert note.extent in EXTENTS


def test_both_versions_of_the_public_code_are_read():
    """155 and 24 runs; the clean graph has no out-of-distribution values."""
    newest, older = load_public_code_runs(), load_public_code_runs("_2024_03")
    keys = ["dataset", "model", "scenario", "split", "init"]
    assert [len(runs[keys].drop_duplicates()) for runs in (newest, older)] == [155, 24]
    means = load_public_code().set_index(CELL)
    older_eu = means.loc[("pubmed", "gpn_rw", "bernoulli", "ood/auroc/eu"), "public_code_2024_03"]
    assert older_eu == pytest.approx(51.5, abs=0.05)
    assert means["public_code_runs"].max() == 10


def test_gpns_published_accuracy_under_gaussian_features_is_the_same_for_both_operators():
    text = load_published_text().set_index(["dataset", "model"])["oodNormalIdAcc"]
    for dataset in set(load_published_text()["dataset"]):
        assert text[dataset, "GPN (sym)"] == text[dataset, "GPN (rw)"]


def test_gpns_published_eu_is_2_to_10_points_below_eu_pc_under_bernoulli_features():
    cells = load_published().set_index(CELL)["published"]
    gaps = [
        cells[dataset, model, "bernoulli", "ood/auroc/eu_pc"] - cells[dataset, model, "bernoulli", "ood/auroc/eu"]
        for dataset in set(load_published()["dataset"])
        for model in ("gpn_sym", "gpn_rw")
    ]
    assert min(gaps) > 1.6
    assert max(gaps) < 9.6
