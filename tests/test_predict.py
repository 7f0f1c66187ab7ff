"""From a table of nodes to flags and explanations, as a user meets them."""

import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch_geometric.data import Data

from lopgpn_exp import explain, load_results, predict, results, score
from lopgpn_exp.data.custom import custom_graph
from lopgpn_exp.data.synthetic import block_model
from lopgpn_exp.errors import InputError
from lopgpn_exp.experiment.build import plan
from lopgpn_exp.experiment.finished import open_run
from lopgpn_exp.experiment.prediction import predict_run, suspicious, validation_limits
from lopgpn_exp.experiment.runner import run
from tests.test_experiment import TINY
from tests.test_models import composed

CLASSES = np.array(["ash", "birch", "oak"])


def write_tables(folder, *, blank: int = 5) -> None:
    """300 nodes with names; of every `blank`th the class is not known."""
    graph = block_model(num_nodes=300, num_edges=900, num_classes=3, num_features=6, signal=2.0, seed=3)
    ids = np.array([f"tree {k:03d}" for k in range(300)])
    nodes = pd.DataFrame(graph.features.numpy() * 7 + 100, columns=[f"x{k}" for k in range(6)])
    nodes.insert(0, "id", ids)
    nodes.insert(1, "label", np.where(np.arange(300) % blank == 0, "", CLASSES[graph.labels]))
    source, target = graph.edge_index.numpy()
    edges = pd.DataFrame({"source": ids[source], "target": ids[target]})[source < target]
    nodes.to_csv(folder / "nodes.csv", index=False)
    edges.to_csv(folder / "edges.csv", index=False)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with two tables and a finished run on them."""
    folder = tmp_path_factory.mktemp("trees")
    write_tables(folder)
    words = ["dataset=custom", f"dataset.path={folder}", f"output_dir={folder / 'outputs'}", "tracking=none"]
    return folder, run(plan(composed(*words, "trainer.progress=false"))).folder.name


@pytest.fixture
def here(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder, name = trained
    return folder, [name, "--output-dir", str(folder / "outputs")]


def test_every_node_by_its_own_name(here):
    folder, words = here
    predict.main([*words, "--output", "out.parquet"])
    table = pd.read_parquet("out.parquet")
    nodes = pd.read_csv(folder / "nodes.csv")
    assert table["id"].tolist() == nodes["id"].tolist()
    pd.testing.assert_series_equal(table["label"], nodes["label"], check_dtype=False)
    shown = [f"p({name})" for name in CLASSES]
    np.testing.assert_allclose(table[shown].sum(axis=1), 1, rtol=1e-6)
    assert (CLASSES[table[shown].to_numpy().argmax(axis=1)] == table["predicted"]).all()
    np.testing.assert_allclose(table[shown].max(axis=1), table["confidence"])
    stored = pd.read_parquet(folder / "outputs/runs" / words[0] / "predictions.parquet")
    for name in ("tu", "au", "eu", "eu_pc", "eu_so", "lconf"):
        np.testing.assert_allclose(table[name], stored[name])
    assert stored["id"].tolist() == nodes["id"].tolist()
    assert (stored["predicted_name"] == table["predicted"]).all()
    assert set(table["flag"]) <= {"trust", "ambiguous", "unknown"}
    known = stored[(stored["part"] == "val")]
    assert (table.loc[known.index, "flag"] == "unknown").mean() <= 0.05


def test_a_version_in_another_order_says_the_same_of_each_node(here, tmp_path):
    folder, words = here
    predict.main([*words, "--output", "first.csv"])
    rng = np.random.default_rng(0)
    for name in ("nodes", "edges"):
        table = pd.read_csv(folder / f"{name}.csv")
        table.iloc[rng.permutation(len(table))].to_csv(tmp_path / f"{name}.csv", index=False)
    predict.main([*words, "--graph", str(tmp_path), "--output", "second.csv"])
    first, second = (pd.read_csv(name).set_index("id") for name in ("first.csv", "second.csv"))
    numbers = [name for name in first if name.startswith("p(") or name in ("tu", "au", "eu", "eu_so")]
    np.testing.assert_allclose(second.loc[first.index, numbers], first[numbers], rtol=1e-4, atol=1e-5)
    assert (second.loc[first.index, "flag"] == first["flag"]).mean() > 0.98  # but for ties at a limit


def test_new_nodes_and_edges(here, tmp_path, capsys):
    """A new node that is the copy of another, features and neighbours, is predicted like it."""
    folder, words = here
    nodes, edges = (pd.read_csv(folder / f"{name}.csv") for name in ("nodes", "edges"))
    twin = nodes[nodes["id"] == "tree 042"].assign(id="new", label="palm")
    pd.concat([nodes, twin]).to_csv(tmp_path / "nodes.csv", index=False)
    swapped = edges.replace("tree 042", "new")
    pd.concat([edges, swapped[(swapped == "new").any(axis=1)]]).to_csv(tmp_path / "edges.csv", index=False)
    predict.main([*words, "--graph", str(tmp_path), "--output", "out.csv"])
    table = pd.read_csv("out.csv").set_index("id")
    np.testing.assert_allclose(table.loc["new", "p(ash)"], table.loc["tree 042", "p(ash)"], atol=1e-5)
    assert pd.isna(table.loc["new", "label"])
    assert "labels that the model never saw count as unknown: palm" in capsys.readouterr().out


def test_scores_are_of_nodes_that_set_nothing(here, capsys):
    _, words = here
    predict.main([*words, "--output", "out.csv"])
    score.main([*words, "--export", "flags.csv"])
    table, rows = pd.read_csv("out.csv"), pd.read_csv("flags.csv").set_index("flag")
    judged = table[table["label"].notna() & (table["part"] == "test")]
    assert rows["nodes"].sum() == len(judged)
    trusted = judged[judged["flag"] == "trust"]
    assert rows.loc["trust", "accuracy"] == pytest.approx((trusted["label"] == trusted["predicted"]).mean())
    out = capsys.readouterr().out
    assert f"{len(judged):,} labelled nodes" in out
    wrong = (judged["label"] != judged["predicted"]).to_numpy()
    kept = np.argsort(judged["tu"].to_numpy())[: int(np.ceil(0.8 * len(judged)))]
    row = re.search(r"TU +([\d.]+) +[\d.]+ +[\d.]+ +([\d.]+)%", out)
    assert float(row[1]) == pytest.approx(roc_auc_score(wrong, judged["tu"]), abs=1e-4)
    assert float(row[2]) == pytest.approx(100 * wrong[kept].mean(), abs=0.051)


def test_one_node_explained(here, capsys):
    _, words = here
    explain.main([words[0], "tree 007", *words[1:], "--picture", "why.svg"])
    out = capsys.readouterr().out
    assert re.search(r"tree 007 +\d+\.\d% +█+ +itself", out)
    assert re.search(r"EU 0\.\d+ = 0\.\d+ \(\d+%\) because the opinions", out)
    assert Path("why.svg").read_text().count("<svg") == 1
    explain.main([words[0], "tree 007", *words[1:]])
    assert "tree_007.svg" in capsys.readouterr().out


@pytest.mark.parametrize("model", ["appnp", "gkde", "matern_ggp", "gpn_rw"])
def test_every_model_predicts_and_scores(trained, tmp_path, monkeypatch, capsys, model):
    """With the flags that its posterior has."""
    monkeypatch.chdir(tmp_path)
    folder, _ = trained
    words = [f"model={model}", "dataset=custom", f"dataset.path={folder}", "output_dir=out", "tracking=none"]
    small = ["model.num_eigenpairs=100"] if model == "matern_ggp" else []
    name = run(plan(composed(*words, "trainer.progress=false", *small))).folder.name
    predict.main([name, "--output-dir", "out"])
    score.main([name, "--output-dir", "out"])
    flags = pd.read_csv("predictions.csv")["flag"]
    assert set(flags) <= {"trust", "ambiguous"} | ({"unknown"} if model != "appnp" else set())
    assert ("unknown: " in capsys.readouterr().out) == (model != "appnp")


def test_a_run_of_no_file_takes_a_pyg_file(tmp_path, monkeypatch):
    """Its features as they are: the same graph gives the same numbers."""
    monkeypatch.chdir(tmp_path)
    done = run(plan(composed(*TINY, "output_dir=outputs")))
    predict.main([done.folder.name, "--output", "own.csv"])
    graph = block_model(num_nodes=300, num_edges=700, num_classes=4, num_features=8, signal=2.0, seed=0)
    torch.save(Data(x=graph.features, edge_index=graph.edge_index), tmp_path / "graph.pt")
    predict.main([done.folder.name, "--graph", "graph.pt", "--output", "same.csv"])
    own, same = pd.read_csv("own.csv"), pd.read_csv("same.csv")
    np.testing.assert_allclose(same["eu_so"], own["eu_so"])
    torch.save(Data(x=graph.features[:, :3], edge_index=graph.edge_index), tmp_path / "narrow.pt")
    with pytest.raises(SystemExit):
        predict.main([done.folder.name, "--graph", "narrow.pt"])


def test_left_out_classes_are_ood_in_the_score(trained, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder, _ = trained
    words = ["dataset=custom", f"dataset.path={folder}", "output_dir=out", "tracking=none", "ood=leave_out_classes"]
    name = run(plan(composed(*words, "trainer.progress=false"))).folder.name
    predict.main([name, "--output-dir", "out"])
    table = pd.read_csv("predictions.csv")
    assert "oak" in set(table["label"].dropna())  # left out of training, and still called by its name
    assert "oak" not in set(table["predicted"])
    assert "p(oak)" not in table
    capsys.readouterr()
    score.main([name, "--output-dir", "out", "--export", "flags.csv"])
    left_out = (table["label"] == "oak") & ~table["part"].isin(["train", "val"])  # a left-out class trains nothing
    assert pd.read_csv("flags.csv")["ood"].sum() == left_out.sum() > 0
    assert re.search(r"of all errors +OOD", capsys.readouterr().out)


def test_a_changed_version_does_not_make_training_nodes_judges(here):
    """Its file has no split, and says nothing of what the run was trained and its limits were set on."""
    folder, words = here
    score.main([*words, "--export", "own.csv"])
    graph = ["--graph", str(folder / "nodes.csv"), "--edges", str(folder / "edges.csv")]
    score.main([*words, *graph, "--export", "same.csv"])
    pd.testing.assert_frame_equal(pd.read_csv("own.csv"), pd.read_csv("same.csv"))


def test_the_same_values_on_another_scale_are_another_run(trained, tmp_path):
    """Standardised they are the same features; but the next version of the file is read by the scale."""
    folder, _ = trained
    nodes = pd.read_csv(folder / "nodes.csv")
    columns = [column for column in nodes if column.startswith("x")]
    nodes.assign(**{column: 4 * nodes[column] for column in columns}).to_csv(tmp_path / "nodes.csv", index=False)
    shutil.copy(folder / "edges.csv", tmp_path)
    one, two = (custom_graph(path=str(place)) for place in (folder, tmp_path))
    assert one.fingerprint != two.fingerprint


def test_versions_of_a_file_are_told_apart_in_tables(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["dataset=custom", "dataset.path=.", "output_dir=out", "tracking=none", "trainer.max_epochs=2"]
    for blank in (5, 7):
        write_tables(tmp_path, blank=blank)
        run(plan(composed(*words, "trainer.progress=false")))
    results.main(["--output-dir", "out"])
    assert len(re.findall(r"data_hash [0-9a-f]{12}", capsys.readouterr().out)) == 2
    assert len(load_results("out")) == 2


def test_limits_are_set_on_validation_nodes_that_the_scenario_left_alone():
    table = pd.DataFrame({"part": ["val"] * 4 + ["test"], "is_ood": [False, False, True, False, False]})
    table = table.assign(label=[0, 0, 0, -1, 0], predicted=0, au=[1.0, 2.0, 9.0, 9.0, 9.0])
    found = validation_limits(table)
    assert (found.nodes, found.ambiguous_above) == (2, 2.0)


def test_the_least_to_be_trusted_come_first(here):
    folder, words = here
    found = predict_run(
        one := open_run(folder / "outputs/runs" / words[0]), validation_limits(one.predictions, target=0.99)
    )
    worst = suspicious(found, 300)
    assert (worst["flag"] != "trust").all()
    blank = worst[worst["label"].isna()]
    assert worst.index[: len(blank)].equals(blank.index)
    assert blank["eu_so"].is_monotonic_decreasing


def test_other_column_names_hold_for_a_changed_version(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_tables(tmp_path)
    pd.read_csv("nodes.csv").rename(columns={"id": "key", "label": "kind"}).to_csv("nodes.csv", index=False)
    words = ["dataset=custom", "dataset.path=.", "dataset.id_column=key", "dataset.label_column=kind"]
    words += ["output_dir=out", "tracking=none", "trainer.max_epochs=2", "trainer.progress=false"]
    name = run(plan(composed(*words))).folder.name
    predict.main([name, "--output-dir", "out", "--graph", "."])
    assert pd.read_csv("predictions.csv")["id"].iloc[0] == "tree 000"


@pytest.mark.parametrize("strange", ["oak [/x]", "o$k_$", "[red]oak"])
def test_names_are_shown_as_they_are(tmp_path, monkeypatch, capsys, strange):
    monkeypatch.chdir(tmp_path)
    write_tables(tmp_path)
    for name in ("nodes.csv", "edges.csv"):
        Path(name).write_text(Path(name).read_text().replace("oak", strange).replace("tree 007", "tree $7 [x]"))
    words = ["dataset=custom", "dataset.path=.", "output_dir=out", "tracking=none", "trainer.max_epochs=2"]
    done = run(plan(composed(*words, "trainer.progress=false"))).folder.name
    predict.main([done, "--output-dir", "out"])
    explain.main([done, "tree $7 [x]", "--output-dir", "out"])
    out = capsys.readouterr().out
    assert strange in out
    assert Path("tree__7__x_.svg").is_file()


def test_a_run_of_code_that_has_changed_is_not_opened(trained):
    folder, name = trained
    opened = open_run(folder / "outputs/runs" / name)
    opened.config["model"]["code_hash"] = "of another time"
    with pytest.raises(InputError, match="is not what it was when"):
        opened.model  # noqa: B018


def told(main, words, capsys) -> str:
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    return capsys.readouterr().err


def test_mistakes_are_one_message(here, capsys, tmp_path):
    _, words = here
    options = words[1:]
    assert "nothing in" in told(predict.main, ["lop_gpm", *options], capsys)
    assert "ends in .csv or .parquet" in told(predict.main, [*words, "--output", "out.xlsx"], capsys)
    assert "--edges without --graph" in told(predict.main, [*words, "--edges", "edges.csv"], capsys)
    assert "coverage is 7" in told(score.main, [*words, "--coverage", "7"], capsys)
    assert "accuracy is 7" in told(predict.main, [*words, "--accuracy", "7"], capsys)
    assert "there is no file" in told(predict.main, [*words, "--graph", "no.pt"], capsys)
    assert "cannot be written" in told(predict.main, [*words, "--output", "no/folder/out.csv"], capsys)
    assert "tree 299" in told(explain.main, [words[0], "tree 2999", *options], capsys)
    assert "--picture why.bmp" in told(explain.main, [*words[:1], "tree 001", *options, "--picture", "why.bmp"], capsys)
    assert "--neighbours is 0" in told(explain.main, [words[0], "tree 001", *options, "--neighbours", "0"], capsys)
    assert not (tmp_path / "predictions.csv").exists()


def test_a_mistake_in_a_changed_graph_is_told_in_the_commands_own_words(here, capsys, tmp_path):
    _, words = here
    write_tables(tmp_path)
    graph = ["--graph", str(tmp_path / "nodes.csv")]
    assert "try:      --edges edges.csv" in told(predict.main, [*words, *graph], capsys)
    assert "try:      --edges FILE" in told(predict.main, [*words, *graph, "--edges", "no.csv"], capsys)
    assert "--edges is no.xlsx" in told(predict.main, [*words, *graph, "--edges", "no.xlsx"], capsys)
    assert "try:      --graph FILE" in told(predict.main, [*words, "--graph", "no.pt"], capsys)
    edges = pd.read_csv(tmp_path / "edges.csv").rename(columns={"source": "origin"})
    edges.to_csv(tmp_path / "edges.csv", index=False)
    message = told(predict.main, [*words, *graph, "--edges", str(tmp_path / "edges.csv")], capsys)
    assert "columns named as in the file that the run was made from" in message
    assert "dataset." not in message


def test_what_a_run_lost_is_said(trained, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder, name = trained
    shutil.copytree(folder / "outputs/runs" / name, tmp_path / "outputs/runs" / name)
    (tmp_path / "outputs/runs" / name / "model.ckpt").unlink()
    assert "model.ckpt cannot be opened" in told(predict.main, [name], capsys)
    (tmp_path / "outputs/runs" / name / "predictions.parquet").write_bytes(b"no")
    assert "predictions.parquet cannot be read" in told(predict.main, [name], capsys)
    (tmp_path / "outputs/runs" / name / "config.yaml").write_text("[")
    assert "config.yaml cannot be read" in told(predict.main, [name], capsys)


def test_data_that_changed_since_is_not_taken_for_the_runs_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_tables(tmp_path)
    words = ["dataset=custom", "dataset.path=nodes.csv", "dataset.edges=edges.csv", "output_dir=out", "tracking=none"]
    name = run(plan(composed(*words, "trainer.max_epochs=2", "trainer.progress=false"))).folder.name
    write_tables(tmp_path, blank=7)
    message = told(predict.main, [name, "--output-dir", "out"], capsys)
    assert "is not what it was" in message
    assert "--graph FILE" in message
    predict.main([name, "--output-dir", "out", "--graph", "nodes.csv", "--edges", "edges.csv"])
    (tmp_path / "nodes.csv").unlink()
    assert "cannot be read again: there is no file" in told(predict.main, [name, "--output-dir", "out"], capsys)


def test_the_legend_of_a_run_is_that_of_its_file(trained):
    folder, name = trained
    legend, graph = open_run(folder / "outputs/runs" / name).legend, custom_graph(path=str(folder))
    assert (legend.classes, legend.features) == (tuple(CLASSES), graph.legend.features)
    np.testing.assert_array_equal(legend.shift, graph.legend.shift)
    np.testing.assert_array_equal(legend.scale, graph.legend.scale)


def test_the_page_of_a_run_calls_nodes_and_classes_by_their_names(trained):
    folder, name = trained
    text = (folder / "outputs/runs" / name / "page.html").read_text()
    assert "class ash predicted as ash" in text
    assert re.search(r"<td[^>]*>tree \d{3}</td>", text)
    assert '"classes": ["ash", "birch", "oak"]' in text
    assert '"tree 000", "tree 001"' in text
