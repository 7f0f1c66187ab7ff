"""`python -m lopgpn_exp.compare`: which runs a word names, differences and their intervals, the page."""

import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score

from lopgpn_exp.compare import main
from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation.classification import accuracy, expected_calibration_error
from lopgpn_exp.evaluation.detection import auroc
from lopgpn_exp.evaluation.rejection import accuracy_rejection_curve, area_under_curve
from lopgpn_exp.experiment import tracking
from lopgpn_exp.experiment.selection import select
from lopgpn_exp.report.comparison.resampling import draws, node_metrics, standard_errors
from lopgpn_exp.report.comparison.sides import chosen_metrics, compare_groups, groups_of
from lopgpn_exp.report.comparison.text import page

NUM_NODES, NUM_CLASSES = 400, 4
MEASURES = ("tu", "eu")


def node_table(seed, *, scenario="bernoulli", split=0):
    """Nodes of a split with the predictions of a model; measures are rounded, so that some are equal."""
    data, model = np.random.default_rng(split), np.random.default_rng([split, seed])
    labels = data.integers(NUM_CLASSES, size=NUM_NODES)
    part = data.choice(["train", "val", "test"], p=[0.1, 0.1, 0.8], size=NUM_NODES)
    coins = data.random(NUM_NODES) < 0.2
    is_ood = {"none": coins & False, "bernoulli": coins, "leave_out_classes": labels == NUM_CLASSES - 1}[scenario]
    right = model.random(NUM_NODES) < 0.7
    predicted = np.where(right, labels, (labels + 1) % NUM_CLASSES)
    measures = {m: (model.normal(size=NUM_NODES) + 0.5 * is_ood - 0.3 * right).round(1) for m in MEASURES}
    columns = {"node": np.arange(NUM_NODES), "part": part, "label": labels, "predicted": predicted}
    return pd.DataFrame(columns | {"confidence": model.uniform(0.3, 1, NUM_NODES), "is_ood": is_ood} | measures)


def metrics_of(table, scenario):
    """By the functions that evaluate runs."""
    test = table[table["part"] == "test"]
    known = test[test["label"] < NUM_CLASSES - 1] if scenario == "leave_out_classes" else test
    correct = (known["predicted"] == known["label"]).to_numpy()
    metrics = {"test/accuracy": accuracy(correct), "test/nll": 0.5}
    metrics["test/ece"] = expected_calibration_error(known["confidence"].to_numpy(), correct)
    for m in MEASURES:
        metrics[f"test/auarc/{m}"] = area_under_curve(accuracy_rejection_curve(known[m].to_numpy(), correct))
    if scenario != "none":
        is_ood, correct = test["is_ood"].to_numpy(), (test["predicted"] == test["label"]).to_numpy()
        metrics |= {"id/accuracy": accuracy(correct[~is_ood]), "ood/accuracy": accuracy(correct[is_ood])}
        metrics |= {f"ood/auroc/{m}": auroc(test[m].to_numpy(), is_ood) for m in MEASURES}
    return metrics


def leave_run(outputs, model="gkde", *, dataset="cora", scenario="none", split=0, init=0, seed=None, digest="aaaa"):
    """The files of a finished run that a comparison reads."""
    run_id = f"{model}-{dataset}-s{split}-i{init}-{scenario}-{digest}"
    folder = outputs / "runs" / run_id
    folder.mkdir(parents=True)
    table = node_table(sum(map(ord, model)) + 1000 * init if seed is None else seed, scenario=scenario, split=split)
    table.to_parquet(folder / "predictions.parquet", index=False)
    keys = {"model": model, "dataset": dataset, "split": split, "init": init, "scenario": scenario}
    rest = {"curves": {}, "epochs": 1, "seconds": {}, "peak_rss_mb": 1, "versions": {}}
    content = {"schema": 1, "run_id": run_id, "metrics": metrics_of(table, scenario)} | keys | rest
    (folder / "result.json").write_text(json.dumps(content))
    return run_id


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """gkde and lop_gpn on four splits and two scenarios, two inits of lop_gpn on split 0, and two sweeps."""
    folder = tmp_path_factory.mktemp("outputs")
    for scenario in ("none", "bernoulli"):
        ids = [leave_run(folder, m, scenario=scenario, split=s) for m in ("gkde", "lop_gpn") for s in range(4)]
        leave_run(folder, "lop_gpn", scenario=scenario, init=1)
        sweep = folder / "sweeps" / f"sweep-{scenario}1"
        sweep.mkdir(parents=True)
        content = {"sweep": sweep.name, "name": f"sweep · {scenario}", "run_ids": [*ids, "not-finished"]}
        (sweep / "sweep.json").write_text(json.dumps(content))
    (folder / "runs" / "unfinished-run").mkdir()
    return folder


def compared(outputs, *words, every=True):
    groups = groups_of({side.label: side.runs for side in select(words, outputs)})
    return compare_groups(groups, chosen_metrics(groups, every=every))


def by_metric(comparison):
    return comparison.table.set_index("metric")


# Which runs a word names.


def test_a_word_names_a_run_a_sweep_or_a_filter(outputs, tmp_path):
    def ids(word):
        return [run["run_id"] for run in select([word], outputs)[0].runs]

    run_id = "gkde-cora-s1-i0-none-aaaa"
    assert ids(run_id) == ids("gkde-cora-s1-i0-n") == ids(str(outputs / "runs" / run_id)) == [run_id]
    assert len(ids("sweep-none1")) == len(ids("sweep-n")) == 8
    assert ids("model=gkde,scenario=none,split=1+2") == [run_id, "gkde-cora-s2-i0-none-aaaa"]
    assert len(ids("model=lop_gpn")) == 10
    elsewhere = leave_run(tmp_path, "appnp")
    assert ids(str(tmp_path / "runs" / elsewhere)) == [elsewhere]
    assert select(["sweep-none1"], outputs)[0].missing == 1


def test_a_model_that_a_sweep_ran_with_several_values_is_several_models(tmp_path):
    ids = [leave_run(tmp_path, "appnp", split=split) for split in range(2)]
    folder = tmp_path / "sweeps" / "sweep-1"
    folder.mkdir(parents=True)
    labels = {ids[0]: "teleport 0.1", ids[1]: "teleport 0.2"}
    content = {"sweep": "sweep-1", "name": "sweep", "run_ids": ids, "labels": labels}
    (folder / "sweep.json").write_text(json.dumps(content))
    assert [run["model"] for run in select(["sweep-1"], tmp_path)[0].runs] == [
        "appnp teleport 0.1",
        "appnp teleport 0.2",
    ]


def test_an_mlflow_id_names_a_run_a_sweep_or_a_model_of_one(outputs, monkeypatch):
    asked = []

    def tagged(**tags):
        def tags_of(mlflow_id, *, uri, output_dir):
            asked.append((mlflow_id, uri, output_dir))
            return tags

        monkeypatch.setattr(tracking, "tags_of", tags_of)
        return select(["0123456789abcdef" * 2], outputs, uri="sqlite:///x.db")[0]

    side = tagged(kind="run", run_id="gkde-cora-s1-i0-none-aaaa")
    assert [run["run_id"] for run in side.runs] == ["gkde-cora-s1-i0-none-aaaa"]
    assert side.label == "gkde · cora · split 1 · none"
    assert asked == [("0123456789abcdef" * 2, "sqlite:///x.db", outputs)]
    side = tagged(kind="sweep", run_id="sweep-none1")
    assert (side.label, len(side.runs), side.missing) == ("sweep · none", 8, 1)
    side = tagged(kind="summary", sweep="sweep-none1", model="gkde", dataset="cora")
    assert {run["model"] for run in side.runs} == {"gkde"}
    assert len(side.runs) == 4
    with pytest.raises(InputError, match="the run gone of MLflow is not in"):
        tagged(kind="run", run_id="gone")


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
def test_labels_say_what_differs(outputs, words, labels):
    assert [side.label for side in select(words, outputs)] == labels


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("gkde-cora-s1", r"'gkde-cora-s1' is how 2 names begin(.|\n)*try: .*gkde-cora-s1-i0-bernoulli-aaaa, or model="),
        ("gdke-cora-s1-i0-none-aaaa", r"nothing in .* is named(.|\n)*try: .*gkde-cora-s1-i0-none-aaaa"),
        ("lop_gnp", r"nothing in .* is named 'lop_gnp'(.|\n)*try: .*model=lop_gpn"),
        ("modle=gkde", r"no column 'modle'(.|\n)*try: .*model=gkde"),
        ("model=gdke", r"no finished run matches model=gdke(.|\n)*one of gkde, lop_gpn(.|\n)*try: .*model=gkde"),
        ("model=gkde,split=7", r"no finished run matches split=7(.|\n)*one of 0, 1, 2, 3"),
        ("model=gkde,model=lop_gpn", r"model comes twice(.|\n)*try: .*model=gkde\+lop_gpn"),
        ("unfinished-run", r"holds no result.json"),
        ("no/such/folder", r"is not the folder of a finished run"),
        ("", r"nothing in"),
    ],
)
def test_a_wrong_word_is_told(outputs, word, message):
    with pytest.raises(InputError, match=message):
        select([word, word], outputs)


def test_an_empty_place_is_told(outputs, tmp_path):
    with pytest.raises(InputError, match="holds no runs"):
        select(["gkde"], tmp_path)
    with pytest.raises(InputError, match="finished runs in the output folder"):
        select(["model=gkde"], tmp_path)
    for content, message in (
        ("{", "cannot be read"),
        ('{"name": "x", "run_ids": ["a"], "sweep": "s"}', "none of the 1 runs"),
    ):
        (tmp_path / "sweeps" / "sweep-x").mkdir(parents=True, exist_ok=True)
        (tmp_path / "sweeps" / "sweep-x" / "sweep.json").write_text(content)
        with pytest.raises(InputError, match=message):
            select(["sweep-x"], tmp_path)
    with pytest.raises(InputError, match=r"there is no .*mlflow\.db"):
        select(["0" * 32], outputs)
    assert not (outputs / "mlflow.db").exists()  # who only reads creates no store


# Over test nodes.


@pytest.mark.parametrize("scenario", ["none", "bernoulli", "leave_out_classes"])
def test_drawing_every_node_once_gives_the_metrics_themselves(scenario):
    """Equal measures, unknown classes and all: the weighted metrics are those that evaluate runs."""
    table = node_table(3, scenario=scenario)
    expected = metrics_of(table, scenario)
    nodes, known = labelled(table, scenario)
    found = node_metrics(nodes, known, list(expected))
    assert set(found) == set(expected) - {"test/nll"}
    once = np.ones((1, len(nodes)), dtype=np.int32)
    assert {m: f(once)[0] for m, f in found.items()} == pytest.approx({m: expected[m] for m in found}, abs=1e-12)


def labelled(table, scenario):
    nodes = table[table["part"] == "test"].reset_index(drop=True)
    unknown = (nodes["label"] == NUM_CLASSES - 1) & (scenario == "leave_out_classes")
    return nodes, ~unknown.to_numpy()


@pytest.mark.parametrize("scenario", ["bernoulli", "leave_out_classes"])
def test_metrics_of_samples_are_those_of_the_nodes_drawn(scenario):
    """Against scikit-learn and the evaluation's own functions, on nodes written out as often as they are drawn."""
    nodes, known = labelled(node_table(5, scenario=scenario), scenario)
    names = ["ood/auroc/tu", "test/auarc/eu", "test/ece", "id/accuracy"]
    functions = node_metrics(nodes, known, names)
    blocks = list(draws(len(nodes), resamples=20, seed=7))
    found = {name: np.concatenate([functions[name](block) for block in blocks]) for name in names}
    generator = np.random.default_rng(7)
    for i in range(20):
        at = generator.integers(len(nodes), size=len(nodes))
        sample, sample_known = nodes.iloc[at], nodes.iloc[at][known[at]]
        is_ood = sample["is_ood"].to_numpy()
        assert found["ood/auroc/tu"][i] == pytest.approx(roc_auc_score(is_ood, sample["tu"]))
        correct = (sample_known["predicted"] == sample_known["label"]).to_numpy()
        curve = accuracy_rejection_curve(sample_known["eu"].to_numpy(), correct)
        assert found["test/auarc/eu"][i] == pytest.approx(area_under_curve(curve))
        ece = expected_calibration_error(sample_known["confidence"].to_numpy(), correct)
        assert found["test/ece"][i] == pytest.approx(ece)
        right = (sample["predicted"] == sample["label"]).to_numpy()
        assert found["id/accuracy"][i] == pytest.approx(right[~is_ood].mean())


def test_blocks_change_no_sample(monkeypatch):
    whole = np.concatenate(list(draws(50, resamples=30, seed=1)))
    monkeypatch.setattr("lopgpn_exp.report.comparison.resampling.CELLS", 200)
    blocks = list(draws(50, resamples=30, seed=1))
    assert len(blocks) == 8
    np.testing.assert_array_equal(np.concatenate(blocks), whole)
    assert (whole.sum(axis=1) == 50).all()


def test_the_error_of_accuracy_is_the_analytic_one(outputs):
    """A mean of paired differences has the standard error sd / sqrt(n). Of 1,000 samples, the bootstrap's is known to
    1 / sqrt(2 x 1000) = 2.2 %: four of these are allowed."""
    row = by_metric(compared(outputs, "gkde-cora-s0-i0-none", "lop_gpn-cora-s0-i0-none")).loc["test/accuracy"]
    tables = [pd.read_parquet(outputs / "runs" / f"{m}-cora-s0-i0-none-aaaa/predictions.parquet") for m in MODELS]
    hits = [(t["predicted"] == t["label"])[t["part"] == "test"].to_numpy().astype(float) for t in tables]
    paired = hits[1] - hits[0]
    assert row["difference"] == pytest.approx(paired.mean())
    error = (row["high"] - row["low"]) / (2 * stats.norm.ppf(0.975))
    assert error == pytest.approx(paired.std() / np.sqrt(len(paired)), rel=4 * 0.0224)
    assert row["p"] == pytest.approx(2 * stats.norm.sf(abs(row["difference"]) / error))
    assert (row["interval_over"], row["nodes"]) == ("test nodes", len(paired))


MODELS = ("gkde", "lop_gpn")


def test_the_interval_holds_the_truth_as_often_as_it_says():
    """Two models of equal AUC-ROC, 200 times: about 95 % of the intervals contain 0 (binomial: 183 to 197 at 99 %)."""
    generator, covered = np.random.default_rng(0), 0
    for trial in range(200):
        is_ood = generator.random(300) < 0.3
        frame = pd.DataFrame({"is_ood": is_ood, "label": 0, "predicted": 0, "confidence": 0.5})
        pair = [frame.assign(tu=generator.normal(size=300) + is_ood) for _ in range(2)]
        first, second = (node_metrics(table, np.full(300, True), ["ood/auroc/tu"]) for table in pair)
        error = standard_errors(first, second, 300, resamples=200, seed=trial)["ood/auroc/tu"]
        values = [roc_auc_score(is_ood, table["tu"]) for table in pair]
        covered += abs(values[1] - values[0]) < 1.96 * error
    assert 181 <= covered <= 198


def test_a_run_against_itself_differs_in_nothing(outputs):
    table = compared(outputs, *["gkde-cora-s0-i0-bernoulli"] * 2).table
    assert (table["difference"] == 0).all()
    with_interval = table[table["interval_over"] == "test nodes"]
    assert set(table["metric"]) - set(with_interval["metric"]) == {"test/nll"}
    assert (with_interval[["low", "high"]] == 0).all(axis=None)
    assert (with_interval["p"] == 1).all()


@pytest.mark.parametrize(
    "words",
    [
        ["gkde-cora-s0-i0-bernoulli", "lop_gpn-cora-s0-i0-bernoulli"],
        ["model=gkde", "model=lop_gpn"],
        ["model=gkde,split=0+1", "model=lop_gpn,split=2+3"],
    ],
    ids=["nodes", "paired", "unpaired"],
)
def test_swapping_sides_flips_signs(outputs, words):
    there, back = compared(outputs, *words).table, compared(outputs, *reversed(words)).table
    keys = ["dataset", "scenario", "metric"]
    both = there.merge(back, on=keys, suffixes=("", "_back"))
    assert len(both) == len(there)
    assert both["difference"].tolist() == pytest.approx((-both["difference_back"]).tolist())
    known = both[both["low"].notna()]
    assert known["low"].tolist() == pytest.approx((-known["high_back"]).tolist())
    assert known["p"].tolist() == pytest.approx(known["p_back"].tolist())
    assert both["value"].tolist() == both["reference_value_back"].tolist()


def test_other_test_nodes_are_not_subtracted(tmp_path):
    leave_run(tmp_path, "gkde", scenario="bernoulli")
    folder = tmp_path / "runs" / leave_run(tmp_path, "lop_gpn", scenario="bernoulli")
    table = pd.read_parquet(folder / "predictions.parquet")
    test = table.index[table["part"] == "test"]

    def change(column, at, value):
        changed = table.copy()
        changed.loc[at, column] = value
        changed.to_parquet(folder / "predictions.parquet", index=False)
        result = json.loads((folder / "result.json").read_text())
        result["metrics"] = metrics_of(changed, "bernoulli")
        (folder / "result.json").write_text(json.dumps(result))
        return compared(tmp_path, "gkde", "lop_gpn")

    for column, value in (("label", (table.loc[test[0], "label"] + 1) % 3), ("part", "none")):
        found = change(column, test[0], value)
        assert found.table["difference"].isna().all()
        assert found.table["value"].notna().all()
        assert "no difference: the two runs were tested on other nodes" in found.cells[0].notes[0]
    found = by_metric(change("is_ood", test[:5], ~table.loc[test[:5], "is_ood"]))
    assert found.loc[["id/accuracy", "ood/auroc/tu"], "difference"].isna().all()
    assert found.loc[["test/accuracy", "test/auarc/tu"], "low"].notna().all()


def test_files_that_contradict_each_other_are_refused(tmp_path):
    first, second = (leave_run(tmp_path, m) for m in MODELS)
    path = tmp_path / "runs" / first / "result.json"
    result = json.loads(path.read_text())
    result["metrics"]["test/accuracy"] += 1e-3
    path.write_text(json.dumps(result))
    with pytest.raises(InputError, match=r"test/accuracy is .* by predictions.parquet, .* by result.json"):
        compared(tmp_path, first, second)
    (tmp_path / "runs" / second / "predictions.parquet").write_text("x")
    with pytest.raises(InputError, match=r"predictions.parquet cannot be read(.|\n)*force=true"):
        compared(tmp_path, second, first)


def test_a_measure_that_one_side_lacks_is_shown_without_a_difference(tmp_path):
    leave_run(tmp_path, "gkde")
    path = tmp_path / "runs" / leave_run(tmp_path, "lop_gpn") / "result.json"
    result = json.loads(path.read_text())
    del result["metrics"]["test/auarc/eu"]
    path.write_text(json.dumps(result))
    for words in (("gkde", "lop_gpn"), ("lop_gpn", "gkde")):
        found = by_metric(compared(tmp_path, *words))
        assert pd.isna(found.loc["test/auarc/eu", "difference"])
        assert found.loc["test/auarc/eu", ["reference_value", "value"]].isna().sum() == 1
        assert found.loc["test/auarc/tu", "interval_over"] == "test nodes"


# Over splits.


def split_values(outputs, model, scenario="none", metric="test/ece"):
    """By hand, from the files: the mean over inits of each split."""
    values = {}
    for path in (outputs / "runs").glob(f"{model}-cora-*-{scenario}-*/result.json"):
        result = json.loads(path.read_text())
        values.setdefault(result["split"], []).append(result["metrics"][metric])
    return np.array([np.mean(values[split]) for split in sorted(values)])


def test_matched_splits_are_the_paired_t_test(outputs):
    found = compared(outputs, "model=gkde,scenario=none", "model=lop_gpn,scenario=none")
    row = by_metric(found).loc["test/ece"]
    expected = stats.ttest_rel(split_values(outputs, "lop_gpn"), split_values(outputs, "gkde"))
    interval = expected.confidence_interval(0.95)
    assert (row["low"], row["high"], row["p"]) == pytest.approx((interval.low, interval.high, expected.pvalue))
    assert (row["interval_over"], row["matched_splits"]) == ("splits", 4)
    assert "4 splits matched" in found.cells[0].notes[0]


def test_unmatched_splits_are_welchs_test(outputs):
    found = compared(outputs, "model=gkde,scenario=none,split=0", "model=lop_gpn,scenario=none,split=1+2+3")
    assert found.table["difference"].isna().all()
    assert "gkde,scenario=none" not in found.cells[0].notes[0]  # notes speak of A and B where labels are long
    assert "no difference: A has split 0, B has splits 1, 2, 3" in found.cells[0].notes[0]
    found = compared(outputs, "model=gkde,scenario=none,split=0+1", "model=lop_gpn,scenario=none,split=2+3")
    row = by_metric(found).loc["test/ece"]
    first, second = split_values(outputs, "gkde")[:2], split_values(outputs, "lop_gpn")[2:]
    expected = stats.ttest_ind(second, first, equal_var=False)
    interval = expected.confidence_interval(0.95)
    assert (row["low"], row["high"], row["p"]) == pytest.approx((interval.low, interval.high, expected.pvalue))
    assert row["interval_over"] == "unpaired splits"
    assert "unpaired, Welch's 95 % interval over 2 splits of A and 2 of B" in found.cells[0].notes[0]


def test_one_matched_split_has_no_interval(outputs):
    found = compared(outputs, "model=gkde,scenario=none,split=0+1", "model=lop_gpn,scenario=none,split=1+2")
    row = by_metric(found).loc["test/ece"]
    assert row["difference"] == pytest.approx(split_values(outputs, "lop_gpn")[1] - split_values(outputs, "gkde")[1])
    assert pd.isna(row["low"])
    assert found.cells[0].notes == [
        "one split matched (1): a difference without an interval",
        "unmatched: split 0 of A and split 2 of B; in the values of a side, not in the difference",
    ]


@settings(max_examples=40, deadline=None)
@given(
    first=st.sets(st.integers(0, 4), min_size=1),
    second=st.sets(st.integers(0, 4), min_size=1),
    inits=st.integers(1, 2),
    values=st.randoms(use_true_random=False),
)
def test_whatever_does_not_match_is_said(first, second, inits, values):
    """Every split of either side is counted as matched or named as not; an interval needs two differences."""
    if len(first) == len(second) == inits == 1 and first == second:
        return  # two runs: over nodes

    def runs(model, splits):
        keys = {"model": model, "dataset": "d", "scenario": "none", "folder": "", "run_id": ""}
        return [
            keys | {"split": s, "init": i, "metrics": {"test/accuracy": values.random()}}
            for s in splits
            for i in range(inits)
        ]

    found = compare_groups(groups_of({"a": runs("m", first), "b": runs("n", second)}), ["test/accuracy"])
    row, notes = found.table.iloc[0], " ".join(found.cells[0].notes)
    matched = first & second
    assert row["matched_splits"] == len(matched)
    assert pd.notna(row["difference"]) == bool(matched or min(len(first), len(second)) > 1)
    assert pd.notna(row["low"]) == (len(matched) > 1 or (not matched and min(len(first), len(second)) > 1))
    if matched:
        unmatched = {int(n) for part in re.findall(r"splits? ([\d, ]+) of", notes) for n in part.split(", ")}
        assert unmatched == first ^ second
    else:
        assert "unpaired" in notes or "no difference" in notes


def test_mixed_models_are_compared_model_by_model(outputs):
    found = compared(outputs, "sweep-none1", "scenario=none+bernoulli,split=0+1+2")
    assert [cell.title for cell in found.cells] == ["cora · none · gkde", "cora · none · lop_gpn"]
    assert (found.table["reference_model"] == found.table["model"]).all()
    assert found.notes == [
        "not compared, for want of runs on both sides: cora · bernoulli · gkde, cora · bernoulli · lop_gpn"
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["model=gkde,scenario=none", "model=lop_gpn,scenario=bernoulli"], "share no dataset and scenario"),
        (["sweep-none1", "sweep-bernoulli1"], "share no dataset, scenario and model"),
    ],
)
def test_sides_with_nothing_in_common_are_refused(outputs, words, message):
    with pytest.raises(InputError, match=message):
        compared(outputs, *words)


def test_runs_with_other_settings_are_not_averaged_in_silence(tmp_path):
    leave_run(tmp_path, "gkde")
    for digest, seed in (("aaaa", 1), ("bbbb", 2)):
        leave_run(tmp_path, "lop_gpn", digest=digest, seed=seed)
    notes = compared(tmp_path, "gkde", "model=lop_gpn").cells[0].notes
    assert any("2 runs share model, split and init with another that has other settings" in note for note in notes)
    assert [s.label for s in select(["lop_gpn-cora-s0-i0-none-a", "lop_gpn-cora-s0-i0-none-b"], tmp_path)] == [
        "lop_gpn · aaaa",
        "lop_gpn · bbbb",
    ]


# The command.


def test_the_terminal_shows_values_differences_and_what_comes_next(outputs, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    words = ["model=gkde,scenario=none", "model=lop_gpn,scenario=none", "model=lop_gpn,scenario=none,split=0+1"]
    main([*words, "--output-dir", str(outputs)])
    out = capsys.readouterr().out
    assert "…" not in out  # cut short
    values = [100 * split_values(outputs, m).mean() for m in MODELS]
    line = next(line for line in out.splitlines() if line.startswith(" ECE"))
    assert line.split()[2:4] == [f"{value:.1f}" for value in values]
    assert "NLL" not in out.split("Percent;")[0]  # not one of the important ones
    assert out.splitlines()[-1].startswith("next     python -m lopgpn_exp.compare model=gkde,scenario=none model=")
    assert out.splitlines()[-1].endswith("--html comparison.html")
    last = {}
    for asked in ([], ["--metric", "test/ece"]):
        files = ["--html", str(tmp_path / "t.html"), "--export", str(tmp_path / "t.csv")]
        main([*words, "--output-dir", str(outputs), *files, *asked])
        last[bool(asked)] = capsys.readouterr().out.splitlines()[-1]
    assert last[False].endswith("--all")
    assert "lopgpn_exp.results" in last[True]


def test_a_difference_whose_interval_excludes_zero_has_a_star(tmp_path, capsys):
    for model in MODELS:
        leave_run(tmp_path, model)
    main(["gkde", "lop_gpn", "--output-dir", str(tmp_path), "--all"])
    out = capsys.readouterr().out
    table = by_metric(compared(tmp_path, "gkde", "lop_gpn"))
    names = {"accuracy": "test/accuracy", "ECE ↓": "test/ece", "AUARC TU": "test/auarc/tu", "AUARC EU": "test/auarc/eu"}
    for name, metric in names.items():
        line = next(line for line in out.splitlines() if line.startswith(f" {name} "))
        assert ("*" in line) == (table.loc[metric, "low"] > 0 or table.loc[metric, "high"] < 0)
        assert f"{100 * table.loc[metric, 'difference']:+.2f} [{100 * table.loc[metric, 'low']:+.2f}, " in line
    assert "for these two trained models: not over trainings" in out
    assert "without an interval, which is not computed over nodes for them: test/nll" in out


def test_metrics_are_chosen(outputs):
    groups = groups_of({side.label: side.runs for side in select(["model=gkde", "model=lop_gpn"], outputs)})
    assert chosen_metrics(groups, names=["ood/auroc", "test/nll"]) == ["test/nll", "ood/auroc/tu", "ood/auroc/eu"]
    important = ["test/accuracy", "id/accuracy", "test/ece", "test/auarc/tu", "test/auarc/eu"]
    assert chosen_metrics(groups) == [*important, "ood/auroc/tu", "ood/auroc/eu"]
    assert set(chosen_metrics(groups, every=True)) - set(chosen_metrics(groups)) == {"ood/accuracy", "test/nll"}
    with pytest.raises(InputError, match=r"no metric 'test/acuracy'(.|\n)*try: .*--metric test/accuracy"):
        chosen_metrics(groups, names=["test/acuracy"])


def test_a_place_without_the_metrics_is_named(outputs):
    def found(*words):
        groups = groups_of({side.label: side.runs for side in select(words, outputs)})
        return compare_groups(groups, ["ood/auroc/tu"])

    assert [cell.title for cell in found("model=gkde", "model=lop_gpn").cells] == ["cora · bernoulli"]
    assert found("model=gkde", "model=lop_gpn").notes == ["without any of these metrics: cora · none"]
    with pytest.raises(InputError, match="without any of these metrics: cora · none"):
        found("model=gkde", "model=lop_gpn,scenario=none")


@pytest.mark.parametrize(("name", "read"), [("t.csv", pd.read_csv), ("t.parquet", pd.read_parquet)])
def test_exports_are_read_back(outputs, tmp_path, name, read):
    words = ["model=gkde", "model=lop_gpn"]
    main([*words, "--output-dir", str(outputs), "--all", "--export", str(tmp_path / name)])
    pd.testing.assert_frame_equal(read(tmp_path / name), compared(outputs, *words).table, check_dtype=False)


def test_the_page_needs_nothing_else_and_escapes_names(outputs, tmp_path):
    sweep = outputs / "sweeps" / "sweep-evil"
    sweep.mkdir()
    runs = [path.name for path in (outputs / "runs").glob("gkde-*")]
    evil = "<script>alert(1)</script>"
    (sweep / "sweep.json").write_text(json.dumps({"sweep": "sweep-evil", "name": evil, "run_ids": runs}))
    file = tmp_path / "page.html"
    words = ["model=lop_gpn", "sweep-evil", "model=gkde", "--output-dir", str(outputs), "--html", str(file)]
    main(words)
    page = file.read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert not re.search(r"""(src|href|url)\s*[=(]|https?:|@import""", page)
    assert page.count("<svg") == 2  # a scenario each
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        assert "#ffffff" not in svg
        assert "#000" not in svg
        assert "var(--text)" in svg


def test_the_forest_stands_where_the_numbers_are(outputs, tmp_path):
    """Marks lie between the ends of their whiskers, and left of the zero line if and only if negative."""
    file = tmp_path / "page.html"
    words = ["gkde-cora-s0-i0-bernoulli", "lop_gpn-cora-s0-i0-bernoulli"]
    main([*words, "--output-dir", str(outputs), "--html", str(file)])
    page = file.read_text()
    zero = float(re.search(r'<line x1="([\d.]+)"[^>]*stroke: var\(--text\)', page)[1])
    pattern = r'<g><title>lop_gpn: (.*?) ([+-][\d.]+) .*?<line x1="([\d.]+)" x2="([\d.]+)".*?cx="([\d.]+)".*?</g>'
    marks = re.findall(pattern, page)
    assert len(marks) == 7
    for _, difference, low, high, at in marks:
        assert float(low) < float(at) < float(high)
        assert (float(at) < zero) == (float(difference) < 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["model=gkde"], "one side"),
        (["model=gkde", "model=nothing"], "no finished run matches model=nothing"),
        (["model=gkde", "model=lop_gpn", "--export", "t.xlsx"], ".csv or .parquet"),
        (["model=gkde", "model=lop_gpn", "--metric", "nothing"], "no metric 'nothing'"),
        (["model=gkde", "model=lop_gpn", "--html", "/nowhere/at/all.html"], "cannot be written"),
    ],
)
def test_mistakes_are_one_message(outputs, words, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*words, "--output-dir", str(outputs)])
    assert stop.value.code == 2
    err = capsys.readouterr().err
    assert message in err
    assert "expected:" in err


def test_help_and_a_wrong_name_load_neither_pandas_nor_torch(outputs):
    code = (
        "import sys; from lopgpn_exp.compare import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "sys.exit(bool({'pandas', 'torch', 'numpy'} & set(sys.modules)))"
    )
    for words in (["--help"], ["wrong", "names", "--output-dir", str(outputs)]):
        subprocess.run([sys.executable, "-c", code, *words], check=True, capture_output=True)


def test_an_export_that_cannot_be_written_says_where_and_why(outputs, tmp_path, capsys):
    sides = ["gkde-cora-s1-i0-none", "lop_gpn-cora-s1-i0-none", "--output-dir", str(outputs)]
    for option, name in (("--export", "x.csv"), ("--export", "x.parquet"), ("--html", "x.html")):
        with pytest.raises(SystemExit):
            main([*sides, option, str(tmp_path / "nodir" / name)])
        message = capsys.readouterr().err
        assert f"{tmp_path / 'nodir' / name} cannot be written (" in message
        assert "(None)" not in message


def test_nll_is_in_nats_and_marked_as_better_when_lower(outputs):
    comparison = compared(outputs, "gkde-cora-s1-i0-none", "lop_gpn-cora-s1-i0-none")
    html = page(comparison, ["a", "b"])
    value = select(["gkde-cora-s1-i0-none"], outputs)[0].runs[0]["metrics"]["test/nll"]
    assert re.search(rf"NLL ↓</td><td[^>]*>{value:.3f}<", html)
    assert "accuracy ↓" not in html
