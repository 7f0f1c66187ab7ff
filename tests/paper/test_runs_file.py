"""`runs.parquet`: what is stored, how files are merged, and files of earlier versions."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation.costs import summarise_costs
from lopgpn_exp.paper.reproduction_notes import Notes, Repeat, Session
from lopgpn_exp.paper.runs_file import METADATA_KEY, load_runs, merge_runs, save_runs
from tests.support.published_runs import NOTES, published_results, save_published, save_results


def test_runs_are_stored_in_one_small_file(tmp_path):
    results = save_published(tmp_path / "runs.parquet", splits=10)
    assert (tmp_path / "runs.parquet").stat().st_size < 4e6
    runs = load_runs(tmp_path / "runs.parquet")
    assert len(runs.results) == len(results)
    row = runs.results.query("run_id == 'lop_gpn-pubmed-s3-i0-gaussian'").iloc[0]
    assert row["ood/auroc/eu_so"] == 0.9184
    assert set(runs.curves["scenario"]) == {"none"}
    curve = runs.curves.query("run_id == 'lop_gpn-pubmed-s3-i0-none' and measure == 'eu'")
    assert curve["percent"].tolist() == list(range(100))
    np.testing.assert_allclose(curve["accuracy"], np.linspace(0.8394, 0.9394, 100), atol=1e-7)


def test_a_missing_file_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        load_runs(tmp_path / "nothing.parquet")


def test_a_run_of_another_config_replaces_the_stored_one(tmp_path):
    """If both were kept, their mean would belong to no config."""
    (old, *_) = published_results(datasets=("cora_ml",))
    save_results(tmp_path / "runs.parquet", [old])
    new = replace(old, run_id="another", metrics={"test/accuracy": 0.1})
    save_runs(tmp_path / "runs.parquet", [new], variants={"another": ""}, notes=NOTES, extend=True)
    assert load_runs(tmp_path / "runs.parquet").main["run_id"].tolist() == ["another"]


def test_the_training_and_the_processor_of_a_run_are_stored(tmp_path):
    (result, *_) = published_results(datasets=("cora_ml",))
    save_results(
        tmp_path / "runs.parquet", [replace(result, training_id="t", versions={"processor": "p", "torch": "2"})]
    )
    (row,) = load_runs(tmp_path / "runs.parquet").results.to_dict("records")
    assert (row["training_id"], row["processor"]) == ("t", "p")
    assert "torch" not in row


def test_notes_survive_the_file(tmp_path):
    session = Session(seconds=10, runs=4, jobs="all", planned=8, cores=2)
    repeat = Repeat(runs=4, same=3, splits=[0], largest=0.5)
    notes = Notes(2, {"pubmed": "no network"}, ["model.teleport=0.2"], [session], [repeat], "published")
    save_results(tmp_path / "runs.parquet", published_results(datasets=("cora_ml",)), notes=notes)
    assert load_runs(tmp_path / "runs.parquet").notes == notes


def rewrite(path, frame: pd.DataFrame, notes: object) -> None:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(table.replace_schema_metadata({METADATA_KEY: json.dumps(notes)}), path)


def test_files_of_earlier_versions_are_read(tmp_path):
    """They call sessions `stretches`, and do not record the training, which the feature scenarios share."""
    path = tmp_path / "runs.parquet"
    save_published(path, datasets=("cora_ml",))
    stretches = [{"seconds": 5, "runs": 3, "jobs": "2"}, {"seconds": 7, "runs": 4, "of": 4, "jobs": "all", "cores": 2}]
    rewrite(path, pd.read_parquet(path).drop(columns="training_id"), {"numerics": 2, "stretches": stretches})
    runs = load_runs(path)
    assert runs.notes.split_name == "random"
    assert runs.notes.sessions == [Session(5, 3, "2"), Session(7, 4, "all", planned=4, cores=2)]
    costs = summarise_costs(runs.main)
    assert set(costs["runs"]) == {4}
    assert set(costs["trainings"]) == {2}
    assert costs["train_hours"].to_list() == pytest.approx([22 / 3600] * 6)
    assert costs["other_hours"].to_list() == pytest.approx([8 / 3600] * 6)


def test_earlier_runs_share_the_recorded_training_of_a_clean_run(tmp_path):
    path = tmp_path / "runs.parquet"
    save_published(path, datasets=("cora_ml",))
    frame = pd.read_parquet(path)
    is_earlier = frame["scenario"] == "bernoulli"
    rewrite(path, frame.assign(training_id=frame["training_id"].where(~is_earlier, None)), {"numerics": 2})
    pd.testing.assert_series_equal(load_runs(path).results["training_id"], frame["training_id"])


@pytest.mark.parametrize(
    ("change", "notes", "message"),
    [
        ({}, {}, "no numerics version"),
        ({}, [2], "no numerics version"),
        ({"dataset": None}, {"numerics": 2}, "no column 'dataset'"),
        ({"seconds/train": None}, {"numerics": 2}, "no column 'seconds/train'"),
        ({"split": "first"}, {"numerics": 2}, "the column 'split' has type"),
    ],
)
def test_a_file_with_other_content_is_an_input_error(tmp_path, change, notes, message):
    path = tmp_path / "runs.parquet"
    save_published(path, datasets=("cora_ml",))
    frame = pd.read_parquet(path).assign(**{column: value for column, value in change.items() if value is not None})
    rewrite(path, frame.drop(columns=[column for column, value in change.items() if value is None]), notes)
    with pytest.raises(InputError, match="cannot be read") as caught:
        load_runs(path)
    assert message in str(caught.value)
    with pytest.raises(InputError, match="cannot be read"):  # a folder of such files
        load_runs(tmp_path)


def test_merging_replaces_adds_and_compares_runs(tmp_path):
    """One of 24 common runs differs in its accuracy by 2 points; one run is new. Merging again changes nothing."""
    here, there = tmp_path / "here.parquet", tmp_path / "there.parquet"
    save_published(here, datasets=("cora_ml",))
    (first, *others) = published_results(datasets=("cora_ml",))
    accuracy = first.metrics["id/accuracy"] + 0.02
    first = replace(first, metrics=first.metrics | {"id/accuracy": accuracy})
    theirs = [first, *others, replace(others[0], split=1, run_id="new")]
    theirs = [replace(result, seconds=result.seconds | {"train": 9.0}) for result in theirs]
    session = Session(seconds=7200, runs=25, planned=25, jobs="2", cores=2)
    save_results(there, theirs, notes=replace(NOTES, sessions=[session]))
    repeat = merge_runs(here, there)
    assert (repeat.runs, repeat.same, repeat.splits) == (24, 23, [0])
    assert repeat.largest == pytest.approx(2.0)
    assert merge_runs(here, there).runs == 0
    merged = load_runs(here)
    assert len(merged.results) == 25
    assert merged.results.set_index("run_id").loc[first.run_id, "id/accuracy"] == accuracy
    assert merged.notes.sessions == [session]
    assert merged.notes.repeats == [repeat]


def test_runs_of_other_data_are_not_merged(tmp_path):
    """The same run under another id has another dataset or another default config."""
    here, there = tmp_path / "here.parquet", tmp_path / "there.parquet"
    save_published(here, datasets=("cora_ml",))
    before = here.read_bytes()
    save_results(there, [replace(r, run_id=f"{r.run_id}x") for r in published_results(datasets=("cora_ml",))])
    with pytest.raises(InputError, match="runs of the same config and the same data"):
        merge_runs(here, there)
    assert here.read_bytes() == before


def test_runs_differ_if_only_one_has_a_metric(tmp_path):
    here, there = tmp_path / "here.parquet", tmp_path / "there.parquet"
    (run, *_) = save_published(here, datasets=("cora_ml",))
    fewer = {key: value for key, value in run.metrics.items() if not key.startswith("ood/auroc/")}
    save_results(there, [replace(run, metrics=fewer, seconds=run.seconds | {"train": 1.0})])
    assert merge_runs(here, there) == Repeat(runs=1, same=0, splits=[0], largest=0.0)
    assert len(load_runs(here).results) == 24
