"""Typed records: what a file keeps is read back as it was written, and anything else is refused."""

import json
from dataclasses import fields

import pytest

from lopgpn_exp.records import RUN_KEYS, RunResult, SweepRecord

RESULT = RunResult(
    run_id="gkde-digits-s1-i2-gaussian-0123456789",
    model="gkde",
    dataset="digits",
    split=1,
    init=2,
    scenario="gaussian",
    metrics={"test/accuracy": 0.75, "ood/auroc/eu": 1.0},
    curves={"arc/tu": [0.75, 1.0]},
    epochs=3,
    seconds={"load": 0.1, "prepare": 0.2, "train": 0.3, "evaluate": 0.4},
    peak_rss_mb=512.5,
    versions={"torch": "2.6"},
    training_id="abc",
    history={"training/loss": [[1, 0.5], [2, 0.25]]},
    cpu_seconds={"train": 0.45, "predict": 0.05},
)
SWEEP = SweepRecord("sweep-1", "sweep · gkde", ("a", "b"), {"a": "teleport 0.2"})


@pytest.mark.parametrize("record", [RESULT, SWEEP], ids=lambda record: type(record).__name__)
def test_record_survives_json(record):
    assert type(record).from_json(json.loads(json.dumps(record.to_json()))) == record


@pytest.mark.parametrize("part", ["metrics", "curves", "history", "seconds", "cpu_seconds"])
@pytest.mark.parametrize("key", ["", "run_id", "epochs", "a/", "/a", "a/\x1b[2J", "a/=1", "a/b c", "a/" + "x" * 250])
def test_result_with_a_metric_that_is_no_path_is_refused(part, key):
    if part in ("seconds", "cpu_seconds"):
        key = f"{key} {key}"
    value = {"curves": [1.0], "history": [[0.0, 1.0]]}.get(part, 1.0)
    with pytest.raises(ValueError, match="a metric is named"):
        RunResult.from_json(RESULT.to_json() | {part: {key: value}})


@pytest.mark.parametrize("point", [[], [1.0], [1.0, 2.0, 3.0], [1e300, 1.0]])
def test_result_with_an_incomplete_point_of_the_history_is_refused(point):
    with pytest.raises(ValueError, match="is not an epoch and a value"):
        RunResult.from_json(RESULT.to_json() | {"history": {"training/loss": [[1.0, 2.0], point]}})


def test_result_has_the_documented_keys():
    assert set(RESULT.to_json()) == {"schema"} | {field.name for field in fields(RunResult)}
    assert RESULT.to_json()["schema"] == 2


@pytest.mark.parametrize(
    "name", [f.name for f in fields(RunResult) if f.name not in ("training_id", "history", "cpu_seconds")]
)
def test_result_with_a_missing_field_is_refused(name):
    content = RESULT.to_json()
    del content[name]
    with pytest.raises(ValueError, match=f"^{name}: Field required"):
        RunResult.from_json(content)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("run_id", 3),
        ("split", "first"),
        ("split", 1.5),
        ("metrics", [0.5]),
        ("metrics", {"test/accuracy": "high"}),
        ("metrics", {"test/accuracy": None}),
        ("curves", {"arc/tu": 0.5}),
        ("history", {"training/loss": [1, 2]}),
        ("versions", None),
        ("metrics", {"test/accuracy": "0.75"}),
        ("metrics", {"test/accuracy": True}),
        ("split", "1"),
    ],
)
def test_result_with_a_field_of_another_type_is_refused(name, value):
    with pytest.raises(ValueError, match=rf"^{name}[.\w/]*: "):
        RunResult.from_json(RESULT.to_json() | {name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("run_id", "../../secret"),
        ("run_id", ""),
        ("run_id", ".hidden"),
        ("run_id", "it's"),
        ("model", "\x1b[2J"),
        ("dataset", "a/b"),
        ("scenario", "a\nb"),
        ("training_id", "a b"),
    ],
)
def test_result_with_a_name_that_is_not_a_file_name_is_refused(name, value):
    with pytest.raises(ValueError, match=f"^{name} is "):
        RunResult.from_json(RESULT.to_json() | {name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("metrics", {"test/accuracy": float("nan")}),
        ("curves", {"arc/tu": [0.5, float("inf")]}),
        ("history", {"training/loss": [[1, float("-inf")]]}),
        ("seconds", {"train": float("nan")}),
        ("peak_rss_mb", float("inf")),
    ],
)
def test_result_with_a_number_that_is_not_finite_is_refused(name, value):
    with pytest.raises(ValueError, match="not finite"):
        RunResult.from_json(RESULT.to_json() | {name: value})


@pytest.mark.parametrize("schema", [0, 3, "1", None])
def test_result_of_another_schema_is_refused(schema):
    with pytest.raises(ValueError, match=f"schema {schema!r} instead of 2"):
        RunResult.from_json(RESULT.to_json() | {"schema": schema})


@pytest.mark.parametrize("content", [[], "text", None, 3])
def test_result_that_is_not_an_object_is_refused(content):
    with pytest.raises(ValueError, match=f"a {type(content).__name__} instead of an object"):
        RunResult.from_json(content)


def test_result_of_an_earlier_version_is_read():
    """It has neither the identity and the history of its training nor its processor time."""
    content = RESULT.to_json()
    del content["training_id"], content["history"], content["cpu_seconds"]
    result = RunResult.from_json(content)
    assert (result.training_id, result.history, result.cpu_seconds) == (RESULT.run_id, {}, {})
    assert result.metrics == RESULT.metrics


def test_row_is_flat_and_has_the_documented_columns():
    row = RESULT.to_row()
    costs = {"epochs", "peak_rss_mb", "training_id", "seconds/load", "seconds/prepare", "seconds/train"}
    assert set(row) == {*RUN_KEYS, "test/accuracy", "ood/auroc/eu", *costs, "seconds/evaluate"} | {
        "cpu_seconds/train",
        "cpu_seconds/predict",
    }
    assert tuple(row)[: len(RUN_KEYS)] == RUN_KEYS == ("model", "dataset", "scenario", "split", "init", "run_id")
    assert (row["split"], row["test/accuracy"], row["seconds/train"]) == (1, 0.75, 0.3)


def test_title_names_model_dataset_split_and_scenario():
    assert RESULT.title == "gkde · digits · split 1 · gaussian"


def test_sweep_of_an_earlier_version_has_no_labels():
    content = SWEEP.to_json()
    del content["labels"]
    assert SweepRecord.from_json(content).labels == {}


@pytest.mark.parametrize("changes", [{"sweep": "../x"}, {"run_ids": ["a", "../../b"]}])
def test_sweep_with_a_path_as_an_id_is_refused(changes):
    with pytest.raises(ValueError, match="is not the id of a run or a sweep"):
        SweepRecord.from_json(SWEEP.to_json() | changes)


@pytest.mark.parametrize("name", ["sweep", "name", "run_ids"])
def test_sweep_with_a_missing_field_is_refused(name):
    content = SWEEP.to_json()
    del content[name]
    with pytest.raises(ValueError, match=name):
        SweepRecord.from_json(content)


@pytest.mark.parametrize("content", [[], None, SWEEP.to_json() | {"run_ids": 3}, SWEEP.to_json() | {"labels": 3}])
def test_sweep_with_another_type_is_refused(content):
    with pytest.raises(ValueError, match="Error: "):
        SweepRecord.from_json(content)
