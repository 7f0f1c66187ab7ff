"""`python -m lopgpn_exp.bounds`: what it says of a run is what the run's posterior is."""

import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from sklearn.metrics import roc_auc_score

from lopgpn_exp.bounds import main
from lopgpn_exp.evaluation.rejection import accuracy_rejection_curve, area_under_curve
from lopgpn_exp.graph import DenseMatrix
from lopgpn_exp.posterior import DirichletMixture
from lopgpn_exp.report.bounds import tightness
from lopgpn_exp.report.bounds_text import page
from tests.test_experiment import outcome
from tests.test_pages import charts, check_self_contained, in_data_units, lines

NUM_NODES = 200


def pooled(seed=0):
    """Nodes that mix few of 40 opinions, node 0 just one; a table of them as a run leaves it."""
    rng = np.random.default_rng(seed)
    weights = np.where(rng.random((NUM_NODES, 40)) < 0.15, rng.random((NUM_NODES, 40)), 0)
    weights[0], weights[1:, 0] = np.eye(40)[3], 0.3
    posterior = DirichletMixture(
        DenseMatrix(torch.from_numpy(weights / weights.sum(axis=1, keepdims=True))),
        torch.from_numpy(1 + 30 * rng.random((40, 3)) ** 3),
    )
    label = rng.integers(0, 4, NUM_NODES)  # class 3 was left out
    columns = {
        "node": np.arange(NUM_NODES),
        "part": rng.choice(["train", "val", "test"], NUM_NODES, p=[0.1, 0.1, 0.8]),
        "label": np.where(np.arange(NUM_NODES) % 17 == 5, -1, label),
        "predicted": posterior.mean.argmax(dim=1).numpy(),
        "confidence": posterior.mean.amax(dim=1).numpy(),
        "is_ood": label == 3,
    }
    columns["part"][0], columns["label"][0] = "test", 1
    return posterior, pd.DataFrame(columns)


def found(most=None, num_draws=50, seed=0):
    return tightness(*pooled(), most=most, num_draws=num_draws, seed=seed)


def test_the_table_is_of_the_labelled_test_nodes_and_their_posterior():
    posterior, predictions = pooled()
    table = found().table
    expected = predictions.query("part == 'test' and label >= 0")["node"].to_numpy()
    assert table["node"].tolist() == expected.tolist()
    chosen = posterior[torch.tensor(expected)]
    np.testing.assert_allclose(table["upper"], posterior.eu_so().numpy()[expected])
    np.testing.assert_allclose(table["lower"], chosen.entropy_lower())
    np.testing.assert_array_equal(table["exact"], chosen.entropy_exact(num_draws=50).value)
    assert table["components"].tolist() == (chosen.weights.values > 0).sum(dim=1).tolist()
    inside = table[table["components"] > 1]
    np.testing.assert_allclose(
        inside["position"], (inside["exact"] - inside["lower"]) / (inside["upper"] - inside["lower"])
    )
    assert inside["position"].between(0, 1).all()


def test_a_node_of_one_component_is_exact_and_has_no_position():
    first = found().table.iloc[0]
    assert (first["node"], first["components"], first["standard_error"]) == (0, 1, 0)
    assert first["lower"] == first["exact"] == first["upper"]
    assert pd.isna(first["position"])


def test_some_nodes_are_a_random_part_of_all():
    everything, some = found(), found(most=30)
    assert (len(some.table), some.num_test) == (30, len(everything.table))
    assert set(some.table["node"]) < set(everything.table["node"])
    assert some.table["node"].tolist() == found(most=30).table["node"].tolist()
    assert some.table["node"].tolist() != found(most=30, seed=1).table["node"].tolist()
    assert len(found(most=10_000).table) == everything.num_test


def test_orders_agree_as_scipy_has_it():
    result = found()
    for bound, value in result.rank_correlation.items():
        assert value == pytest.approx(stats.spearmanr(result.table[bound], result.table["exact"]).statistic)
    assert set(result.rank_correlation) == {"lower", "upper"}


def test_scores_are_those_of_the_nodes():
    _, predictions = pooled()
    result = found()
    nodes = predictions.set_index("node").loc[result.table["node"]]
    scores = result.scores.set_index(["metric", "bound"])
    known = (nodes["label"] < 3).to_numpy()
    correct = (nodes["predicted"] == nodes["label"]).to_numpy()[known]
    for bound in ("lower", "exact", "upper"):
        values = result.table[bound].to_numpy()
        auroc = scores.loc[("ood/auroc", bound)]
        assert auroc["value"] == pytest.approx(roc_auc_score(nodes["is_ood"], values))
        area = area_under_curve(accuracy_rejection_curve(values[known], correct))
        assert scores.loc[("test/auarc", bound), "value"] == pytest.approx(area)
        assert auroc["low"] < auroc["value"] < auroc["high"]
    apart = scores.loc[("ood/auroc", "exact")]
    assert apart["difference"] == pytest.approx(apart["value"] - scores.loc[("ood/auroc", "upper"), "value"])
    assert apart["difference_low"] < apart["difference"] < apart["difference_high"]
    # Both are of the same nodes, so that the difference is known far better than either.
    assert apart["difference_high"] - apart["difference_low"] < apart["high"] - apart["low"]
    assert pd.isna(scores.loc[("ood/auroc", "upper"), "difference"])


def test_the_interval_of_an_area_is_as_wide_as_hanley_and_mcneil_have_it():
    """Of independent scores, their formula for the standard error of an AUC-ROC holds to some percent."""
    scores = found().scores.set_index(["metric", "bound"]).loc[("ood/auroc", "upper")]
    ood = int(found().table["is_ood"].sum())
    inside, area = len(found().table) - ood, scores["value"]
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    variance = (area * (1 - area) + (ood - 1) * (q1 - area**2) + (inside - 1) * (q2 - area**2)) / (ood * inside)
    assert (scores["high"] - scores["low"]) / 3.92 == pytest.approx(np.sqrt(variance), rel=0.15)


def test_the_interval_of_an_area_ends_at_one():
    """The nodes that the bound ranks highest, all but one, are OOD: an area of 0.99 with a spread beyond 1."""
    posterior, predictions = pooled()
    ranks = pd.Series(posterior.eu_so().numpy()).rank(ascending=False)
    nearly = predictions.assign(is_ood=ranks.isin([*range(1, 20), 25]), label=1, part="test")
    scores = tightness(posterior, nearly, most=None, num_draws=4, seed=0).scores.set_index(["metric", "bound"])
    upper = scores.loc[("ood/auroc", "upper")]
    assert 0.95 < upper["low"] < upper["value"] < upper["high"] == 1


@pytest.mark.parametrize("is_ood", [True, False])
def test_where_nothing_can_be_told_apart_there_is_no_area(is_ood):
    posterior, predictions = pooled()
    result = tightness(posterior, predictions.assign(is_ood=is_ood), most=None, num_draws=4, seed=0)
    assert set(result.scores["metric"]) == {"test/auarc"}
    html = page("t", result)
    check_self_contained(html)
    assert charts(html, "roc") == []


def test_the_page_draws_the_nodes_between_their_bounds():
    result = found()
    html = page("<a run>", result)
    check_self_contained(html)
    assert "<a run>" not in html
    (chart,) = charts(html, "between")
    drawn, ordered = lines(chart), result.table.sort_values("exact")
    height = ordered["upper"].max() - ordered["lower"].min()
    for name, bound in (("lower bound", "lower"), ("exact", "exact"), ("upper bound (EU_SO)", "upper")):
        np.testing.assert_allclose(drawn[name][:, 1], ordered[bound], atol=0.005 * height)
    (histogram,) = charts(html, "position")
    (outline,) = histogram.iter("polygon")
    points = np.array([[float(c) for c in pair.split(",")] for pair in outline.get("points").split()])
    shares = in_data_units(histogram, points)[1:-1:2, 1]
    expected = np.histogram(result.table["position"].dropna(), np.linspace(0, 1, 31))[0]
    np.testing.assert_allclose(shares, expected / expected.sum(), atol=0.005)
    (roc,) = charts(html, "roc")
    assert len(lines(roc)) == 4


def test_a_mixture_of_one_everywhere_has_its_page():
    posterior, predictions = pooled()
    single = DirichletMixture(
        DenseMatrix(torch.eye(40, dtype=torch.float64)[torch.arange(NUM_NODES) % 40]), posterior.components.alpha
    )
    result = tightness(single, predictions, most=None, num_draws=4, seed=0)
    assert result.table["position"].isna().all()
    assert charts(page("t", result), "position") == []
    check_self_contained(page("t", result))


# The command.


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outputs")
    for words in (["ood=gaussian"], ["ood=leave_out_classes"], ["model=gpn_rw"]):
        outcome(folder, *words)
    return folder


@pytest.mark.parametrize("scenario", ["gaussian", "leave_out_classes"])
def test_the_command_on_a_run(outputs, tmp_path, capsys, monkeypatch, scenario):
    monkeypatch.setenv("COLUMNS", "60")
    (run_id,) = [path.name for path in (outputs / "runs").glob(f"lop_gpn-*-{scenario}-*")]
    files = {"--csv": tmp_path / "bounds.csv", "--html": tmp_path / "bounds.html"}
    words = [f"lop_gpn-synthetic-s0-i0-{scenario}", "--nodes", "all", "--draws", "20", "--output-dir", str(outputs)]
    main([*words, *(str(word) for pair in files.items() for word in pair)])
    out = capsys.readouterr().out
    assert "…" not in out
    stored = pd.read_parquet(outputs / "runs" / run_id / "predictions.parquet").query("part == 'test'")
    table = pd.read_csv(files["--csv"])
    assert table["node"].tolist() == stored["node"].tolist()
    np.testing.assert_allclose(table["upper"], stored["eu_so"], rtol=1e-9)
    assert f"all {len(stored)} test nodes" in out
    area = 100 * roc_auc_score(stored["is_ood"], stored["eu_so"])
    assert re.search(rf"AUC-ROC, upper bound \(EU_SO\) +{area:.2f} \[", out)
    assert f"written  {files['--html']}" in out
    check_self_contained(files["--html"].read_text())


def test_what_comes_next_is_a_command_that_can_be_typed(outputs, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    main(["lop_gpn-synthetic-s0-i0-gaussian", "--nodes", "9", "--draws", "4", "--output-dir", str(outputs)])
    (command,) = re.findall(r"next     python -m lopgpn_exp.bounds (.*)", capsys.readouterr().out)
    main(command.split())
    assert (tmp_path / "bounds.html").is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gpn_rw"], "is a Dirichlet"),
        (["lop_gpn"], "'lop_gpn' is how 2 names begin"),
        (["model=lop_gpn"], "'model=lop_gpn' names 2 runs"),
        (["lop_gnp-synthetic"], "is named 'lop_gnp-synthetic'"),
        (["lop_gpn-synthetic-s0-i0-gaussian", "--nodes", "1"], "--nodes 1"),
        (["lop_gpn-synthetic-s0-i0-gaussian", "--nodes", "many"], "--nodes many"),
        (["lop_gpn-synthetic-s0-i0-gaussian", "--draws", "1"], "--draws 1"),
        (["lop_gpn-synthetic-s0-i0-gaussian", "--seed", "-1"], "--seed -1"),
        (
            ["lop_gpn-synthetic-s0-i0-gaussian", "--draws", "2", "--csv", "no/where.csv"],
            "no/where.csv cannot be written",
        ),
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
        "import sys; from lopgpn_exp.bounds import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "sys.exit(bool({'pandas', 'torch', 'matplotlib'} & set(sys.modules)))"
    )
    for words in (["--help"], ["wrong", "--output-dir", str(outputs)], ["lop_gpn", "--draws", "0"]):
        subprocess.run([sys.executable, "-c", code, *words], check=True, capture_output=True)
