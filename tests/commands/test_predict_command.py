"""The predict command: every node with its class, probabilities, measures and flag, by the names of the user's file."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

from lopgpn_exp.config.plan import plan_run
from lopgpn_exp.data.datasets.synthetic import block_model
from lopgpn_exp.runs.execute import run
from tests.support import compose, run_tiny
from tests.support.tables import CLASSES, write_tables

CUSTOM = ["dataset=custom", "dataset.path=.", "output_dir=outputs", "tracking=none", "trainer.progress=false"]


@pytest.fixture
def predict(command, tree_run):
    """Return a function that applies the run on trees with some options, and returns exit code, stdout and stderr."""
    folder, run_id = tree_run
    return lambda *words: command("predict", run_id, *words, "--output-dir", str(folder / "outputs"))


def run_custom(*overrides: str) -> str:
    """Return the id of a short run on the tables in the current folder."""
    return run(plan_run(compose(*CUSTOM, "trainer.max_epochs=2", *overrides))).result.run_id


def test_table_has_one_row_per_node_of_the_file(predict, tree_run):
    folder, run_id = tree_run
    assert predict("--output", "out.parquet")[0] == 0
    table = pd.read_parquet("out.parquet")
    nodes = pd.read_csv(folder / "nodes.csv")
    assert table["id"].tolist() == nodes["id"].tolist()
    pd.testing.assert_series_equal(table["label"], nodes["label"], check_dtype=False)
    probabilities = [f"p({name})" for name in CLASSES]
    np.testing.assert_allclose(table[probabilities].sum(axis=1), 1, rtol=1e-6)
    assert (CLASSES[table[probabilities].to_numpy().argmax(axis=1)] == table["predicted"]).all()
    np.testing.assert_allclose(table[probabilities].max(axis=1), table["confidence"])
    stored = pd.read_parquet(folder / "outputs/runs" / run_id / "predictions.parquet")
    for name in ("tu", "au", "eu", "eu_pc", "eu_so", "lconf"):
        np.testing.assert_allclose(table[name], stored[name])
    assert stored["id"].tolist() == nodes["id"].tolist()
    assert (stored["predicted_name"] == table["predicted"]).all()
    assert set(table["flag"]) <= {"trust", "ambiguous", "unknown"}
    validation = stored[stored["part"] == "val"]
    assert (table.loc[validation.index, "flag"] == "unknown").mean() <= 0.05


def test_next_commands_name_the_output_folder_and_the_least_trusted_node(predict, tree_run, command):
    folder, run_id = tree_run
    _, out, _ = predict()
    assert "written  predictions.csv" in out
    score, explain = out.splitlines()[-2:]
    assert score == f"next     lopgpn_exp score {run_id} --output-dir {folder / 'outputs'}"
    match = re.fullmatch(rf" +lopgpn_exp explain {run_id} '(tree \d+)' --output-dir {folder / 'outputs'}", explain)
    assert match
    flags = pd.read_csv("predictions.csv").set_index("id")["flag"]
    assert flags[match[1]] != "trust"


def test_next_commands_repeat_what_the_flags_and_promises_depend_on(predict):
    limits = ["--accuracy", "0.9", "--unknown", "0.1", "--epistemic", "eu", "--max-error", "0.15"]
    _, out, _ = predict(*limits, "--confidence", "0.9000001")
    assert f" {' '.join(limits)} --confidence 0.9000001 " in out.splitlines()[-2]
    assert "--accuracy" not in out.splitlines()[-1]


def test_explain_is_suggested_only_for_a_model_that_pools_opinions(command, tmp_path):
    for model, is_suggested in (("gcn", False), ("appnp", True)):
        run_id = run_tiny(tmp_path / "outputs", f"model={model}").result.run_id
        _, out, _ = command("predict", run_id, "--unknown", "0.5")
        assert "Least trusted" in out
        assert ("lopgpn_exp explain" in out) == is_suggested


def test_table_does_not_replace_a_file_that_the_graph_is_read_from(command, tmp_path):
    write_tables(tmp_path)
    run_id = run_custom()
    other = tmp_path / "other"
    other.mkdir()
    write_tables(other)
    for words in (
        ["predict", run_id, "--output", "nodes.csv"],
        ["predict", run_id, "--graph", "other", "--output", "other/edges.csv"],
        ["predict", run_id, "--graph", "other/nodes.csv", "--edges", "edges.csv", "--output", "other/nodes.csv"],
        ["score", run_id, "--export", "edges.csv"],
    ):
        before = Path(words[-1]).read_bytes()
        code, _, err = command(*words)
        assert (code, Path(words[-1]).read_bytes()) == (2, before)
        assert f"{words[-1]} is a file that the graph is read from" in err
    assert command("predict", run_id, "--graph", ".", "--output", "new.csv")[0] == 0
    assert command("predict", run_id, "--graph", ".", "--output", "new.csv")[0] == 0


def test_long_names_are_printed_in_full(command, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    write_tables(tmp_path)
    for name in ("nodes.csv", "edges.csv"):
        Path(name).write_text(Path(name).read_text().replace("tree ", f"{'https://example.org/' * 4}tree "))
    run_id = run_custom()
    _, out, _ = command("predict", run_id)
    node = pd.read_csv("predictions.csv").query("flag != 'trust' and label.isna()")["id"].iloc[0]
    assert len(re.findall(rf"^ {node} ", out, re.MULTILINE)) == 1


def test_order_of_rows_does_not_matter(predict, tree_run, tmp_path):
    folder, _ = tree_run
    predict("--output", "first.csv")
    rng = np.random.default_rng(0)
    for name in ("nodes", "edges"):
        table = pd.read_csv(folder / f"{name}.csv")
        table.iloc[rng.permutation(len(table))].to_csv(tmp_path / f"{name}.csv", index=False)
    predict("--graph", str(tmp_path), "--output", "second.csv")
    first, second = (pd.read_csv(name).set_index("id") for name in ("first.csv", "second.csv"))
    columns = [name for name in first if name.startswith("p(") or name in ("tu", "au", "eu", "eu_so")]
    np.testing.assert_allclose(second.loc[first.index, columns], first[columns], rtol=1e-4, atol=1e-5)
    assert (second.loc[first.index, "flag"] == first["flag"]).mean() > 0.98  # nodes exactly at a limit may differ


def test_copy_of_a_node_is_predicted_like_the_node(predict, tree_run, tmp_path):
    """The new node has the features and the neighbours of another one, and a class that the model does not have."""
    folder, _ = tree_run
    nodes, edges = (pd.read_csv(folder / f"{name}.csv") for name in ("nodes", "edges"))
    twin = nodes[nodes["id"] == "tree 042"].assign(id="new", label="palm")
    pd.concat([nodes, twin]).to_csv(tmp_path / "nodes.csv", index=False)
    swapped = edges.replace("tree 042", "new")
    pd.concat([edges, swapped[(swapped == "new").any(axis=1)]]).to_csv(tmp_path / "edges.csv", index=False)
    _, out, _ = predict("--graph", str(tmp_path), "--output", "out.csv")
    table = pd.read_csv("out.csv").set_index("id")
    np.testing.assert_allclose(table.loc["new", "p(ash)"], table.loc["tree 042", "p(ash)"], atol=1e-5)
    assert pd.isna(table.loc["new", "label"])
    assert "note: labels that the model does not know count as missing: palm" in out
    assert f"score {tree_run[1]} --graph {tmp_path}" in out


@pytest.mark.parametrize("model", ["appnp", "gkde", "matern_ggp", "gpn_rw"])
def test_every_model_gets_the_flags_that_its_posterior_has(command, tree_run, model):
    small = ["model.num_eigenpairs=100"] if model == "matern_ggp" else []
    words = [f"model={model}", *CUSTOM, f"dataset.path={tree_run[0]}", *small]
    run_id = run(plan_run(compose(*words))).result.run_id
    _, out, _ = command("predict", run_id)
    assert command("score", run_id)[0] == 0
    flags = pd.read_csv("predictions.csv")["flag"]
    assert set(flags) <= {"trust", "ambiguous", "unknown"}
    assert "unknown: " in out


def test_run_on_a_built_in_dataset_accepts_a_pyg_file(command, tmp_path):
    """Features are used as they are, so that the same graph gives the same numbers."""
    run_id = run_tiny(tmp_path / "outputs").result.run_id
    command("predict", run_id, "--output", "own.csv")
    graph = block_model(num_nodes=300, num_edges=700, num_classes=4, num_features=8, signal=2.0, seed=0)
    torch.save(Data(x=graph.features, edge_index=graph.edge_index), tmp_path / "graph.pt")
    _, out, _ = command("predict", run_id, "--graph", "graph.pt", "--output", "same.csv")
    assert "note: features are used as they are" in out
    own, same = pd.read_csv("own.csv"), pd.read_csv("same.csv")
    np.testing.assert_allclose(same["eu_so"], own["eu_so"])
    torch.save(Data(x=graph.features[:, :3], edge_index=graph.edge_index), tmp_path / "narrow.pt")
    code, _, err = command("predict", run_id, "--graph", "narrow.pt")
    assert code == 2
    assert "3 features" in err
    assert "expected: the 8 features that the model was trained on" in err


def test_column_names_of_the_run_apply_to_a_changed_version(command, tmp_path):
    write_tables(tmp_path)
    pd.read_csv("nodes.csv").rename(columns={"id": "key", "label": "kind"}).to_csv("nodes.csv", index=False)
    run_id = run_custom("dataset.id_column=key", "dataset.label_column=kind")
    assert command("predict", run_id, "--graph", ".")[0] == 0
    assert pd.read_csv("predictions.csv")["id"].iloc[0] == "tree 000"


@pytest.mark.parametrize("strange", ["oak [/x]", "o$k_$", "[red]oak"])
def test_names_are_printed_as_they_are(command, tmp_path, strange):
    """Neither the markup of the terminal nor that of the figures applies to the user's names."""
    write_tables(tmp_path)
    for name in ("nodes.csv", "edges.csv"):
        Path(name).write_text(Path(name).read_text().replace("oak", strange).replace("tree 007", "tree $7 [x]"))
    run_id = run_custom()
    _, first, _ = command("predict", run_id)
    _, second, _ = command("explain", run_id, "tree $7 [x]")
    assert strange in first + second
    assert Path("tree__7__x_.svg").is_file()


def test_files_of_the_same_dataset_with_other_content_are_labelled(command, tmp_path):
    for blank in (5, 7):
        write_tables(tmp_path, blank=blank)
        run_custom()
    _, out, _ = command("results")
    assert len(re.findall(r"data_hash [0-9a-f]{12}", out)) == 2


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["--output", "out.xlsx"], "ends in .csv or .parquet", ""),
        (["--edges", "edges.csv"], "--edges is given without --graph", "--graph nodes.csv"),
        (["--accuracy", "7"], "accuracy is 7", "--accuracy 0.95"),
        (["--unknown", "1"], "unknown is 1", "--unknown 0.05"),
        (["--epistemic", "unheard"], "epistemic is 'unheard'", "--epistemic eu"),
        (["--epistemic", "eu_sp"], "epistemic is 'eu_sp'", "--epistemic eu_so"),
        (["--graph", "no.pt"], "there is no file", "--graph FILE"),
        (["--output", "no/folder/out.csv"], "cannot be written (there is no folder no/folder)", ""),
        (["--coverage", "1"], "coverage is 1", "--coverage 0.9"),
        (["--coverage", "nan"], "coverage is nan", "--coverage 0.9"),
        (["--coverage", "0.99"], "need more than the 48 nodes for validation", "--coverage 0.979"),
        (["--coverage", "0.9999999"], "sets of coverage 0.9999999 need", "--coverage 0.979"),
        (["--max-error", "0"], "max_error is 0", "--max-error 0.05"),
        (["--max-error", "0.1", "--confidence", "95"], "confidence is 95", "--confidence 0.95"),
        (["--max-error", "0.001"], "it takes at least", "--max-error 0.1"),
        (["--confidence", "0.9"], "--confidence is given without --max-error", "--max-error 0.05"),
        (["--fail-above", "0.2"], "--fail-above is given without --graph", "--graph nodes.csv"),
        (["--graph", "no", "--fail-above", "20"], "fail_above is 20", "--fail-above 0.2"),
        (["--nosuch"], "unrecognized arguments: --nosuch", "lopgpn_exp predict --help"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_input_error_is_one_message_and_writes_nothing(predict, tmp_path, words, message, hint):
    code, _, err = predict(*words)
    assert code == 2
    assert message in err
    assert "expected:" in err
    assert f"try:      {hint}" in err if hint else "try:" not in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_promises_are_columns_of_the_table_and_score_measures_them(predict, tree_run, command, monkeypatch):
    """Coverage and errors of `score` are counted again in the table of `predict`."""
    folder, run_id = tree_run
    monkeypatch.setenv("COLUMNS", "200")
    promises = ["--coverage", "0.9", "--max-error", "0.15"]
    code, out, _ = predict(*promises, "--output", "out.parquet")
    assert code == 0
    assert "Prediction sets with 90 % coverage by DAPS, calibrated on 24 validation nodes" in out
    assert "at most 15 % of these nodes are wrong, with 95 % confidence" in out
    assert "has changed" not in out
    assert f"lopgpn_exp score {run_id} --coverage 0.9 --max-error 0.15" in out
    table = pd.read_parquet("out.parquet")
    accepted = re.search(r"Accepted: (\d+) of (\d+) nodes", out)
    others = table[~table["part"].isin(["train", "val"])]
    assert (int(accepted[1]), int(accepted[2])) == (others["accepted"].sum(), len(others))
    assert not (table["accepted"] & (table["flag"] == "unknown")).any()
    is_certain = others["tu"] <= others.loc[others["accepted"], "tu"].max()
    assert (others["accepted"] == is_certain & (others["flag"] != "unknown")).all()
    _, out, _ = command("score", run_id, *promises, "--output-dir", str(folder / "outputs"))
    scored = others[others["label"].notna()]
    is_covered = [label in row.split("|") for label, row in zip(scored["label"], scored["prediction_set"], strict=True)]
    row = re.search(r"in-distribution +(\d+) +([\d.]+)% +[\d.]+% to [\d.]+% +[\d.]+% to [\d.]+% +([\d.]+)", out)
    assert int(row[1]) == len(scored)
    assert float(row[2]) == pytest.approx(100 * np.mean(is_covered), abs=0.051)
    assert float(row[3]) == pytest.approx(scored["set_size"].mean(), abs=0.0051)
    chosen = scored[scored["accepted"]]
    wrong = 100 * (chosen["label"] != chosen["predicted"]).mean()
    assert f"{wrong:.1f}% of {len(chosen)} accepted labelled nodes are wrong" in out


def test_aps_is_used_where_half_of_the_validation_nodes_is_too_few(predict):
    assert "by APS, calibrated on 48 validation nodes" in predict("--coverage", "0.97")[1]


def test_changed_graph_is_compared_with_the_run_and_can_stop_a_pipeline(predict, tree_run, tmp_path):
    """Features of 60 copies are far from all others: these nodes are unknown, and the table is written either way."""
    folder, _ = tree_run
    nodes, edges = (pd.read_csv(folder / f"{name}.csv") for name in ("nodes", "edges"))
    strange = nodes.head(60).assign(id=[f"new {k}" for k in range(60)], label="palm")
    features = [name for name in nodes if name.startswith("x")]
    strange[features] = 100 + 400 * np.random.default_rng(0).normal(size=(60, len(features)))
    pd.concat([nodes, strange]).to_csv(tmp_path / "nodes.csv", index=False)
    edges.to_csv(tmp_path / "edges.csv", index=False)
    code, out, err = predict("--graph", ".", "--coverage", "0.9", "--fail-above", "0.15", "--output", "new.csv")
    flags = pd.read_csv("new.csv").set_index("id")["flag"]
    is_unknown = flags == "unknown"
    assert code == 3
    assert f"{100 * is_unknown.mean():.1f}% of the nodes are flagged unknown, more than --fail-above 0.15" in err
    assert "Traceback" not in err
    assert re.search(rf"nodes of the new version +360 +{is_unknown.sum()} ", out)
    assert re.search(rf"new nodes among them +60 +{is_unknown[strange['id']].sum()} ", out)
    assert re.search(r"validation nodes of the run +48 +[0-2] ", out)
    assert "labels that the model does not know count as missing: palm (60)" in out
    assert "For a new version of the graph, the promise holds only as far as" in " ".join(out.split())
    code, _, err = predict("--graph", ".", "--fail-above", "0.5")
    assert (code, err) == (0, "")


def test_typo_in_a_run_id_is_one_message_with_the_nearest(command, tree_run):
    folder, run_id = tree_run
    code, _, err = command("predict", run_id.replace("lop", "lpo"), "--output-dir", str(folder / "outputs"))
    assert code == 2
    assert "matches no run in" in err
    assert f"try:      lopgpn_exp predict {run_id} --output-dir " in err
    code, _, err = command("predict", run_id, "--output-dir", "nowhere")
    assert code == 2
    assert "there are no runs in nowhere/runs" in err
    assert "try:      --output-dir DIR" in err


def test_word_that_matches_several_runs_is_one_message_with_the_command(command, tmp_path):
    ids = [run_tiny(tmp_path / "outputs", f"ood={ood}", "model=gkde").result.run_id for ood in ("gaussian", "none")]
    code, _, err = command("predict", "model=gkde")
    assert code == 2
    assert "'model=gkde' matches 2 runs" in err
    assert "expected: exactly one run" in err
    assert f"try:      lopgpn_exp predict {ids[0]}" in err


def test_error_in_a_changed_graph_names_the_options_of_the_command(predict, tmp_path):
    write_tables(tmp_path)
    graph = ["--graph", str(tmp_path / "nodes.csv")]
    assert "try:      --edges edges.csv" in predict(*graph)[2]
    assert "try:      --edges FILE" in predict(*graph, "--edges", "no.csv")[2]
    assert "edges is no.xlsx" in predict(*graph, "--edges", "no.xlsx")[2]
    nodes = pd.read_csv(tmp_path / "nodes.csv")
    nodes.assign(x3="").to_csv(tmp_path / "blank.csv", index=False)
    _, _, err = predict("--graph", str(tmp_path / "blank.csv"), "--edges", str(tmp_path / "edges.csv"))
    assert "'x3' of node 'tree 000' is blank" in err
    assert "try:" not in err  # a column that the model was trained on cannot be ignored
    edges = pd.read_csv(tmp_path / "edges.csv").rename(columns={"source": "origin"})
    edges.to_csv(tmp_path / "edges.csv", index=False)
    _, _, err = predict(*graph, "--edges", str(tmp_path / "edges.csv"))
    assert "name the columns as in the file that the run was made from" in err
    assert "dataset." not in err


def test_changed_data_is_used_only_if_it_is_given_explicitly(command, tmp_path):
    write_tables(tmp_path)
    run_id = run_custom("dataset.path=nodes.csv", "dataset.edges=edges.csv")
    write_tables(tmp_path, blank=7)
    code, _, err = command("predict", run_id)
    assert code == 2
    assert "has changed since the run was made" in err
    assert "try:      --graph FILE" in err
    assert command("predict", run_id, "--graph", "nodes.csv", "--edges", "edges.csv")[0] == 0
    (tmp_path / "nodes.csv").unlink()
    code, _, err = command("predict", run_id)
    assert code == 2
    assert "cannot be read again: there is no file" in err
