"""The audit: verdicts on cells, comparisons with the public code, and its text."""

from dataclasses import replace

import pandas as pd
import pytest

from lopgpn_exp.paper.audit import (
    WITHIN_NOISE,
    audit_results,
    audit_runs,
    compare_with_public_code,
    count_verdicts,
    judge,
)
from lopgpn_exp.paper.audit_appendix import build_appendix, compare_variants, summarise_scale_runs
from lopgpn_exp.paper.audit_document import build_audit
from lopgpn_exp.paper.published import load_public_code_runs, load_published
from lopgpn_exp.paper.recipes import find_recipe
from lopgpn_exp.paper.reproduction_notes import Notes, Repeat, Session
from lopgpn_exp.paper.runs_file import StoredRuns, load_runs
from lopgpn_exp.report.document import to_markdown
from tests.support.published_runs import (
    NOTES,
    accuracies,
    published_results,
    published_table,
    save_published,
    save_results,
)


def audit_text(runs: StoredRuns) -> str:
    return to_markdown(list(build_audit(runs, audit_runs(runs), [])))


def test_the_published_table_as_results_is_within_noise_everywhere():
    table = audit_results(published_table().assign(variant=""))
    assert len(table) == len(load_published())
    assert set(table["verdict"]) == set(table["recipe_verdict"]) == {WITHIN_NOISE}
    assert table["difference"].abs().max() < 1e-6


@pytest.mark.parametrize(
    ("difference", "error", "expected"),
    [
        (2.0, float("nan"), "within noise"),
        (-2.0, 0.1, "within noise"),
        (2.1, 1.0, "close"),
        (2.1, 1.1, "within noise"),
        (-5.0, 1.0, "close"),
        (5.1, float("nan"), "different"),
        (-5.1, 2.6, "within noise"),
    ],
)
def test_verdicts_at_their_limits(difference, error, expected):
    assert judge(difference, error) == expected


def test_each_value_is_judged_by_definition_and_by_recipe(tmp_path):
    """Only runs with a recipe are replaced; a recipe may have other initialisations than the runs."""
    results = published_results(datasets=("cora_ml",))
    (default,) = [r for r in results if (r.model, r.scenario) == ("gpn_sym", "gaussian")]
    others_results = [result for result in results if result is not default]
    wrong = replace(default, metrics={name: value + 0.3 for name, value in default.metrics.items()})
    recipe = find_recipe(dataset="cora_ml", model="gpn_sym", scenario="gaussian")
    remade = [replace(default, run_id=f"remade{init}", init=init) for init in range(2)]
    variants = {result.run_id: recipe.variant for result in remade}
    save_results(tmp_path / "runs.parquet", [wrong, *others_results, *remade], variants=variants)
    runs = load_runs(tmp_path / "runs.parquet")
    table = audit_runs(runs)
    block = (table["model"] == "gpn_sym") & (table["scenario"] == "gaussian") & table["printed"]
    assert set(table.loc[block, "verdict"]) == {"different"}
    assert set(table.loc[block, "recipe_verdict"]) == {WITHIN_NOISE}
    assert set(table.loc[block, "recipe"]) == {"untrained network"}
    assert table.loc[block, "by_recipe"].to_list() == pytest.approx(table.loc[block, "published"].to_list())
    others = (table["model"] != "gpn_sym") | (table["scenario"] != "gaussian")
    assert table.loc[others, "difference"].abs().max() < 1e-6
    assert set(table.loc[others, "recipe"]) == {""}  # only this block has been evaluated by its recipe
    counts = count_verdicts(table[table["printed"]], "model").loc["gpn_sym"]
    assert (counts["cells"], counts["by_definition"], counts["by_recipe"]) == (19, 13, 19)
    assert len(runs.by_recipe) == len(runs.main) + 1
    second_init = replace(wrong, init=5, run_id="second")  # not evaluated by the recipe, so the block is not replaced
    save_results(tmp_path / "runs.parquet", [wrong, second_init, *others_results, *remade], variants=variants)
    assert set(audit_runs(load_runs(tmp_path / "runs.parquet"))["recipe"]) == {""}
    assert "Networks that were never trained" in audit_text(runs)


def test_the_public_code_is_compared_on_the_same_splits():
    """Its first split of GKDE on CoraML has the number 1 there, and 0 here; initialisations are averaged."""
    runs = load_public_code_runs()
    cell = {"dataset": "cora_ml", "model": "gkde", "scenario": "none", "metric": "test/accuracy"}
    theirs = runs[(runs[list(cell)] == list(cell.values())).all(axis=1)].set_index("split")["public_code"]
    assert sorted(theirs.index) == [0, 1]
    results = accuracies({"gkde": [0.6, 0.7, 0.8]})
    pairs = compare_with_public_code(pd.concat([results, results.assign(init=1, **{"test/accuracy": 0.4})]))
    assert pairs["split"].tolist() == [0, 1]
    assert pairs["ours"].tolist() == pytest.approx([50.0, 55.0])
    assert pairs["public_code"].tolist() == [theirs[0], theirs[1]]


def test_the_number_of_initialisations_is_stated_per_model(tmp_path):
    results = published_results(datasets=("cora_ml",))
    more = [
        replace(result, init=init, run_id=f"{result.run_id}{init}")
        for result in results
        for init in (1, 2)
        if result.model == "lop_gpn"
    ]
    save_results(tmp_path / "runs.parquet", results + more)
    expected = "Initialisations per split: 1 (APPNP, Matern-GGP, GKDE, GPN (sym), GPN (rw)), 3 (LOP-GPN)."
    assert expected in audit_text(load_runs(tmp_path / "runs.parquet"))


def test_variants_and_synthetic_graphs_are_not_part_of_the_table(tmp_path):
    results = published_results(datasets=("cora_ml",))
    power = [
        replace(r, run_id=f"{r.run_id}-power", metrics={k: v + 0.3 for k, v in r.metrics.items()}) for r in results
    ]
    large = [replace(r, run_id=f"{r.run_id}-large", dataset="synthetic") for r in results]
    variants = {result.run_id: "model.dispersion=power" for result in power}
    for result in large:
        variants[result.run_id] = "dataset.num_nodes=9" + " model.width=7" * (result.model == "appnp")
    notes = replace(NOTES, left_out={"ogbn_arxiv": "it could not be downloaded"})
    save_results(tmp_path / "runs.parquet", results + power + large, variants=variants, notes=notes)
    runs = load_runs(tmp_path / "runs.parquet")
    assert len(runs.results) == 3 * len(runs.main)
    assert set(runs.main["dataset"]) == {"cora_ml"}
    assert audit_runs(runs)["difference"].abs().max() < 1e-6
    text = audit_text(runs)
    assert "**OGBN Arxiv is left out**: it could not be downloaded." in text
    assert "**PubMed is left out**: there are no finished runs on it." in text
    assert "`model.dispersion=power`" in text
    assert "+30.0" in text
    assert "not results on OGBN Arxiv" in text
    assert text.count("`dataset.num_nodes=9`") == 1  # one table, in which the setting of a single model is in its row
    assert "APPNP (`model.width=7`)" in text
    assert "No finished run" not in text  # all six models are there


def test_a_model_without_a_run_of_scale_is_named(tmp_path):
    results = published_results(datasets=("cora_ml",))
    large = [replace(r, run_id=f"{r.run_id}-large", dataset="synthetic") for r in results if r.model != "gkde"]
    variants = {result.run_id: "dataset.num_nodes=9" for result in large}
    save_results(tmp_path / "runs.parquet", results + large, variants=variants)
    assert "No finished run: GKDE." in audit_text(load_runs(tmp_path / "runs.parquet"))


def test_variants_are_paired_with_the_default_on_the_same_splits():
    default = accuracies({"lop_gpn": [0.80, 0.82, 0.90]}).assign(variant="")
    variant = accuracies({"lop_gpn": [0.79, 0.83]}).assign(variant="model.teleport=0.2")
    (row,) = compare_variants(pd.concat([default, variant]), ["cora_ml"]).to_dict("records")
    assert row["splits"] == 2
    assert row["test/accuracy"] == "81.0, +0.0 ± 1.0"  # differences -1 and +1
    second_init = default.assign(init=1, **{"test/accuracy": 0.1})  # the variant has none
    (same,) = compare_variants(pd.concat([default, second_init, variant]), ["cora_ml"]).to_dict("records")
    assert (same["splits"], same["test/accuracy"]) == (row["splits"], row["test/accuracy"])
    assert summarise_scale_runs(default) == {}


def test_the_appendix_states_times_and_repeated_runs(tmp_path):
    """A session that ran everything that was planned is reported by itself; earlier files lack what was planned."""
    save_published(tmp_path / "runs.parquet", datasets=("cora_ml",))
    sessions = [
        Session(seconds=9000, runs=30, jobs="2"),
        Session(seconds=3600, runs=24, planned=24, jobs="all", cores=2),
        Session(seconds=1800, runs=5, planned=24, jobs="1", cores=2),
        Session(seconds=108, runs=4, planned=4, jobs="1", cores=2),
    ]
    repeats = [Repeat(runs=24, same=22, splits=[0, 3], largest=2.5), Repeat(runs=3, same=3, splits=[], largest=0.0)]
    notes = Notes(NOTES.numerics, sessions=sessions, repeats=repeats)
    text = to_markdown(list(build_appendix(replace(load_runs(tmp_path / "runs.parquet"), notes=notes))))
    assert "in a single session, with `--jobs all` on 2 cores: 1.00 h for 24 runs." in text
    assert text.count("in a single session") == 1  # four runs of one model are not everything
    assert "took 4.03 h for 63 runs, repeated runs included, in 4 sessions." in text
    assert "24 of these runs were executed twice. In 22 of them all metrics are identical to the bit; in the" in text
    assert "others (splits 0, 3), accuracies and AUC-ROC differ by up to 2.5 points" in text
    assert "In 3 of them all metrics are identical to the bit. " in text
    assert text.count("0.01 h (17 %)") == 6  # each of the six models: two trainings of 11 seconds and four times 2
