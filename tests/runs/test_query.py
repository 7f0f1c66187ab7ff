"""Which runs a word on the command line refers to, and the labels of several selections."""

import os

import pytest

from lopgpn_exp.errors import InputError
from lopgpn_exp.runs.query import select_runs
from tests.support.random_runs import random_run, save_example_runs, save_run, save_sweep

MLFLOW_ID = "0123456789abcdef" * 2


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outputs")
    save_example_runs(folder)
    return folder


def no_tags(mlflow_id):
    raise AssertionError(f"{mlflow_id} was looked up in MLflow")


def select(words, output_dir, read_tags=no_tags):
    return select_runs(words, output_dir, read_tags=read_tags)


def ids(selection):
    return [run.result.run_id for run in selection.runs]


def test_a_word_is_a_run_a_sweep_or_a_filter(outputs, tmp_path):
    def select_ids(word):
        return ids(select([word], outputs)[0])

    run_id = "gkde-cora-s1-i0-none-aaaa"
    assert (
        select_ids(run_id) == select_ids("gkde-cora-s1-i0-n") == select_ids(str(outputs / "runs" / run_id)) == [run_id]
    )
    assert len(select_ids("sweep-none1")) == len(select_ids("sweep-n")) == 8
    assert select_ids("model=gkde,scenario=none,split=1+2") == [run_id, "gkde-cora-s2-i0-none-aaaa"]
    assert len(select_ids("model=lop_gpn")) == 10
    elsewhere = save_run(tmp_path, random_run("appnp"))
    assert select_ids(str(elsewhere)) == [elsewhere.name]
    assert select(["sweep-none1"], outputs)[0].num_missing == 1


def test_a_model_that_a_sweep_runs_with_several_settings_is_several_models(tmp_path):
    runs = [random_run("appnp", split=split) for split in range(2)]
    for run in runs:
        save_run(tmp_path, run)
    run_ids = [run.result.run_id for run in runs]
    labels = {run_ids[0]: "teleport 0.1", run_ids[1]: "teleport 0.2"}
    save_sweep(tmp_path, "sweep-1", name="sweep", run_ids=run_ids, labels=labels)
    models = [run.result.model for run in select(["sweep-1"], tmp_path)[0].runs]
    assert models == ["appnp teleport 0.1", "appnp teleport 0.2"]


def test_an_mlflow_id_is_a_run_a_sweep_or_a_model_of_a_sweep(outputs):
    requested = []

    def select_tagged(**tags):
        def read_tags(mlflow_id):
            requested.append(mlflow_id)
            return tags

        return select([MLFLOW_ID], outputs, read_tags)[0]

    selection = select_tagged(kind="run", run_id="gkde-cora-s1-i0-none-aaaa")
    assert ids(selection) == ["gkde-cora-s1-i0-none-aaaa"]
    assert selection.label == "gkde · cora · split 1 · none"
    assert requested == [MLFLOW_ID]
    selection = select_tagged(kind="sweep", run_id="sweep-none1")
    assert (selection.label, len(selection.runs), selection.num_missing) == ("sweep · none", 8, 1)
    selection = select_tagged(kind="summary", sweep="sweep-none1", model="gkde", dataset="cora")
    assert {run.result.model for run in selection.runs} == {"gkde"}
    assert len(selection.runs) == 4
    with pytest.raises(InputError, match="the run gone of MLflow is not in"):
        select_tagged(kind="run", run_id="gone")


@pytest.mark.parametrize(
    ("words", "labels"),
    [
        (["gkde-cora-s1-i0-none", "lop_gpn-cora-s1-i0-none"], ["gkde", "lop_gpn"]),
        (["gkde-cora-s1-i0-none", "gkde-cora-s2-i0-bern"], ["split 1 · none", "split 2 · bernoulli"]),
        (["lop_gpn-cora-s0-i0-none", "lop_gpn-cora-s0-i1-none"], ["init 0", "init 1"]),
        (["gkde-cora-s1-i0-none", "model=lop_gpn"], ["gkde · cora · split 1 · none", "model=lop_gpn"]),
        (["gkde-cora-s1-i0-none"] * 2, ["gkde · cora · split 1 · none", "gkde · cora · split 1 · none (2)"]),
        (["sweep-none1", "sweep-bernoulli1"], ["sweep · none", "sweep · bernoulli"]),
    ],
)
def test_labels_show_what_differs(outputs, words, labels):
    assert [selection.label for selection in select(words, outputs)] == labels


def test_runs_that_differ_in_their_settings_are_labelled_by_their_hash(tmp_path):
    for digest, seed in (("aaaa", 1), ("bbbb", 2)):
        save_run(tmp_path, random_run("lop_gpn", digest=digest, seed=seed))
    selections = select(["lop_gpn-cora-s0-i0-none-a", "lop_gpn-cora-s0-i0-none-b"], tmp_path)
    assert [selection.label for selection in selections] == ["lop_gpn · aaaa", "lop_gpn · bbbb"]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("modle=gkde", r"no column 'modle'(.|\n)*try: .*model=gkde"),
        ("model=gdke", r"no finished run matches model=gdke(.|\n)*one of gkde, lop_gpn(.|\n)*try: .*model=gkde"),
        ("model=gkde,split=7", r"no finished run matches split=7(.|\n)*one of 0, 1, 2, 3"),
        ("model=gkde,model=lop_gpn", r"model occurs twice(.|\n)*try: .*model=gkde\+lop_gpn"),
        ("unfinished-run", r"has no result.json"),
        ("no/such/folder", r"is not the folder of a finished run"),
    ],
)
def test_a_word_without_a_match_is_refused(outputs, word, message):
    with pytest.raises(InputError, match=message):
        select([word, word], outputs)


@pytest.mark.parametrize(
    ("word", "message", "suggestion"),
    [
        ("gdke-cora-s1-i0-none-aaaa", "matches no run in ", "gkde-cora-s1-i0-none-aaaa"),
        ("lop_gnp", "'lop_gnp' matches no run in ", "model=lop_gpn"),
        ("", "'' matches no run in ", "gkde-cora-s0-i0-bernoulli-aaaa"),
    ],
)
def test_a_typo_is_refused_with_an_existing_name(outputs, word, message, suggestion):
    with pytest.raises(InputError, match=message) as caught:
        select([word, word], outputs)
    assert (caught.value.parameter, caught.value.suggestion) == ("run", suggestion)


def test_of_several_matches_the_newest_is_suggested(tmp_path):
    """The one that has just been trained, where the file that it was trained on has changed."""
    folders = [save_run(tmp_path, random_run("gkde", scenario=scenario)) for scenario in ("none", "bernoulli")]
    for newest in folders:
        for folder in folders:
            os.utime(folder, (0, 2 if folder == newest else 1))
        with pytest.raises(InputError, match="is the beginning of 2 names") as caught:
            select(["gkde"], tmp_path)
        assert (caught.value.parameter, caught.value.suggestion) == ("run", newest.name)


def test_an_output_folder_without_finished_runs_is_refused(tmp_path):
    with pytest.raises(InputError, match="there are no runs in"):
        select(["gkde"], tmp_path)
    with pytest.raises(InputError, match="finished runs"):
        select(["model=gkde"], tmp_path)
    save_sweep(tmp_path, "sweep-x", name="x", run_ids=["a"])
    with pytest.raises(InputError, match="none of the 1 runs"):
        select(["sweep-x"], tmp_path)
    (tmp_path / "sweeps" / "sweep-x" / "sweep.json").write_text("{")
    with pytest.raises(InputError, match="cannot be read"):
        select(["sweep-x"], tmp_path)
