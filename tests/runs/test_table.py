"""Finished runs as tables: `lopgpn_exp.load_results` and `lopgpn_exp.load_curves`."""

import pytest

import lopgpn_exp
from lopgpn_exp.errors import InputError
from lopgpn_exp.records import RUN_KEYS
from tests.support import run_tiny


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outputs")
    for overrides in ([], ["split.index=1"], ["model=gkde"], ["model=gkde", "split.index=1"]):
        run_tiny(folder, *overrides)
    (folder / "runs" / "unfinished").mkdir()
    return folder


def test_results_have_one_row_per_finished_run(outputs):
    table = lopgpn_exp.load_results(outputs)
    assert len(table) == 4
    assert {"model", "dataset", "scenario", "split", "init", "run_id", "test/accuracy", "seconds/train"} <= set(table)


def test_results_can_be_filtered(outputs):
    table = lopgpn_exp.load_results(outputs, model="gkde", split=[1])
    assert (set(table["split"]), len(table)) == ({1}, 1)
    run_ids = set(table["run_id"])
    assert set(lopgpn_exp.load_results(outputs, run_ids=run_ids)["run_id"]) == run_ids
    with pytest.raises(InputError, match="no column 'modle'"):
        lopgpn_exp.load_results(outputs, modle="gkde")


def test_curves_have_one_row_per_run_measure_and_percent(outputs):
    assert len(lopgpn_exp.load_curves(outputs).query("model == 'gkde' and measure == 'tu'")) == 200


def test_folder_without_runs_gives_empty_tables(outputs):
    results, curves = lopgpn_exp.load_results(outputs / "nowhere"), lopgpn_exp.load_curves(outputs / "nowhere")
    assert results.empty
    assert curves.empty
    assert set(RUN_KEYS) <= set(results) & set(curves)
