"""The register command: a run as an MLflow model that gives the table of predict, all of it or nothing."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lopgpn_exp.config.plan import plan_run
from lopgpn_exp.runs.execute import run
from tests.support import ROOT, compose, run_tiny
from tests.support.processes import find_free_port, wait_until_answering
from tests.support.tables import write_tables
from tests.support.user_code import UserProject

pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own
SHORT = ["dataset=custom", "trainer.max_epochs=2", "trainer.progress=false", "model=appnp"]


@pytest.fixture(scope="module")
def trees(tmp_path_factory, _empty_database) -> Path:
    """Return a folder with the tables of a graph and, in its `outputs`, two runs and an MLflow database."""
    folder = tmp_path_factory.mktemp("registered")
    write_tables(folder)
    for split in (0, 1):
        words = [*SHORT, f"dataset.path={folder}", f"output_dir={folder / 'outputs'}", f"split.index={split}"]
        run(plan_run(compose(*words)))
    shutil.copy(_empty_database, folder / "outputs" / "mlflow.db")
    return folder


@pytest.fixture
def outputs(trees, tmp_path) -> Path:
    """Return a copy of the output folder in which nothing is registered."""
    return Path(shutil.copytree(trees / "outputs", tmp_path / "outputs"))


@pytest.fixture
def register(command, outputs):
    """Return a function that registers the run on split 0 with some options: exit code, stdout and stderr."""
    return lambda *words: command("register", "appnp-custom-s0", *words)


@pytest.fixture
def load(outputs, monkeypatch):
    """Return a function that loads a registered model."""
    import mlflow

    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{outputs / 'mlflow.db'}")
    return lambda address: mlflow.pyfunc.load_model(address)


@pytest.fixture
def client(outputs):
    from mlflow.tracking import MlflowClient

    return MlflowClient(f"sqlite:///{outputs / 'mlflow.db'}")


def change_graph(trees: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a version of the graph with a node less, a new node, and a column of integers."""
    nodes, edges = (pd.read_csv(trees / f"{name}.csv") for name in ("nodes", "edges"))
    nodes = nodes[nodes["id"] != "tree 007"].round({"x1": 0}).astype({"x1": int})
    nodes = pd.concat([nodes, nodes.tail(1).assign(id="new", label=None, x0=120.5)], ignore_index=True)
    edges = edges[~edges.isin(["tree 007"]).any(axis=1)]
    return nodes, pd.concat([edges, pd.DataFrame({"source": ["new"] * 2, "target": ["tree 001", "tree 002"]})])


def as_params(edges: pd.DataFrame) -> dict[str, list]:
    return {name: edges[name].tolist() for name in ("source", "target")}


def predict_files(command, nodes: pd.DataFrame, edges: pd.DataFrame, *words: str) -> pd.DataFrame:
    """Return the table of the predict command for a graph, which is written to files."""
    nodes.to_csv("new_nodes.csv", index=False)
    edges.to_csv("new_edges.csv", index=False)
    arguments = ["--graph", "new_nodes.csv", "--edges", "new_edges.csv", "--output", "expected.parquet"]
    assert command("predict", "appnp-custom-s0", *arguments, *words)[0] == 0
    table = pd.read_parquet("expected.parquet")
    labels = table["label"].astype(object)
    return table.assign(label=labels.where(labels.notna(), None))


def test_registered_model_gives_the_table_of_predict(register, load, command, trees):
    code, out, err = register("--name", "forest", "--alias", "champion")
    assert code == 0, err
    assert re.search(r"^appnp-custom-s0-\S+ registered: forest, version 1$", out, re.M)
    assert out.splitlines()[-1] == (
        "next     MLFLOW_TRACKING_URI=sqlite:///outputs/mlflow.db "
        "mlflow models serve -m models:/forest@champion --env-manager local --port 5001"
    )
    nodes, edges = change_graph(trees)
    expected = predict_files(command, nodes, edges)
    for address in ("models:/forest/1", "models:/forest@champion"):
        table = load(address).predict(nodes, params=as_params(edges))
        pd.testing.assert_frame_equal(table, expected, check_dtype=False, check_exact=True)
    assert table["part"].iloc[-1] == "none"
    assert set(table["part"]) == {"train", "val", "test", "none"}
    strict = predict_files(command, nodes, edges, "--accuracy", "0.8", "--unknown", "0.3")
    table = load(address).predict(nodes, params=as_params(edges) | {"accuracy": 0.8, "unknown": 0.3})
    assert (table["flag"] == strict["flag"]).all()
    assert (strict["flag"] != expected["flag"]).any()


def test_model_describes_its_input_and_pins_what_it_needs(register, load, client):
    register()
    model = load("models:/appnp-custom/1")
    signature = model.metadata.signature
    assert signature.inputs.input_names() == ["id", "label", *(f"x{k}" for k in range(6))]
    assert signature.inputs.required_input_names() == ["id", *(f"x{k}" for k in range(6))]
    assert [(spec.name, spec.shape, spec.default) for spec in signature.params] == [
        ("source", (-1,), []),
        ("target", (-1,), []),
        ("accuracy", None, 0.95),
        ("unknown", None, 0.05),
    ]
    nodes, params = model.input_example, model.metadata.load_input_example_params(model_path(client))
    table = model.predict(nodes, params=params)
    assert list(table) == signature.outputs.input_names()
    own = pd.read_parquet(next(Path("outputs/runs").glob("appnp-custom-s0-*")) / "predictions.parquet").set_index("id")
    assert (table["label"].isna() | (own.loc[table["id"], "label"] >= 0).to_numpy()).all()
    assert len(params["source"]) >= len(nodes) - 1 > 0
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = [re.match(r"[\w-]+", line)[0] for line in dependencies]
    lines = (Path(model_path(client)) / "requirements.txt").read_text().splitlines()
    assert set(lines[1:]) == {f"{name}=={version(name).split('+')[0]}" for name in names}
    assert lines[0].startswith("lopgpn_exp==")


def model_path(client) -> str:
    """Return the folder of the only logged model."""
    (model,) = client.search_logged_models([client.get_experiment_by_name("lopgpn_exp").experiment_id])
    return model.artifact_location.removeprefix("file://")


def test_files_of_a_model_contain_no_code(register, client):
    import yaml

    register()
    folder = Path(model_path(client))
    suffixes = {path.suffix for path in folder.rglob("*") if path.is_file()}
    assert suffixes == {"", ".json", ".yaml", ".txt", ".ckpt", ".parquet"}
    flavors = yaml.safe_load((folder / "MLmodel").read_text())["flavors"]
    assert list(flavors) == ["python_function"]
    assert flavors["python_function"]["code"] is None
    assert flavors["python_function"]["loader_module"] == "lopgpn_exp.tracking.served_model"


def test_edges_may_be_left_out_for_the_nodes_of_the_run(register, load, trees):
    register()
    model = load("models:/appnp-custom/1")
    nodes, edges = (pd.read_csv(trees / f"{name}.csv") for name in ("nodes", "edges"))
    changed = nodes.sample(frac=1, random_state=0).assign(x0=100.0)
    without = model.predict(changed).set_index("id").sort_index()
    given = model.predict(changed, params=as_params(edges)).set_index("id").sort_index()
    pd.testing.assert_frame_equal(without, given)
    assert not np.allclose(without["tu"], model.predict(nodes).set_index("id")["tu"])


@pytest.mark.parametrize(
    ("change", "params", "message"),
    [
        ({}, {"source": ["tree 000"], "target": ["tree 9"]}, "the target 'tree 9' in row 1 is not a node; 1 of 1 rows"),
        ({}, {"source": ["tree 000"], "target": []}, "source has 1 ids and target has 0"),
        ({}, {"source": ["tree 000"]}, "source has 1 ids and target has 0"),
        ({}, {"source": [1], "target": [2]}, "Can not safely convert `<class 'int'>` to `DataType.string`"),
        ({"id": [f"n{k}" for k in range(300)]}, {}, "no edges are given, .* 300 are new, such as 'n0', 300 are"),
        ({"x3": float("nan")}, {}, "'x3' of node 'tree 000' is blank"),
        ({"x3": "much"}, {}, "the column 'x3' contains 'much'"),
        ({"x3": ["much"] + [1.0] * 299}, {}, "cannot be read .Expected bytes, got a 'float' object; Conversion failed"),
        ({"id": "same"}, {"source": ["same"], "target": ["same"]}, "the id 'same' is in rows 1 and 2"),
        ({}, {"accuracy": 7.0}, "accuracy is 7"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_wrong_input_is_one_message_of_mlflow(trees, served, change, params, message):
    from mlflow.exceptions import MlflowException

    nodes = pd.read_csv(trees / "nodes.csv").assign(**change)
    with pytest.raises(MlflowException, match=message) as error:
        served.predict(nodes, params=params)
    assert error.value.error_code == "INVALID_PARAMETER_VALUE"  # status 400 of a server


def test_parameter_without_a_value_has_its_default(trees, served):
    """null in JSON."""
    nodes = pd.read_csv(trees / "nodes.csv")
    expected = served.predict(nodes)
    pd.testing.assert_frame_equal(served.predict(nodes, params={"accuracy": None, "unknown": None}), expected)


def test_missing_feature_column_is_named(trees, served):
    from mlflow.exceptions import MlflowException

    with pytest.raises(MlflowException, match=r"Model is missing inputs \['x3'\]"):
        served.predict(pd.read_csv(trees / "nodes.csv").drop(columns="x3"))


@pytest.fixture(scope="module")
def served(trees, tmp_path_factory):
    """Return the model of a run, loaded by MLflow from a folder."""
    import mlflow
    from mlflow.models.model import Model

    from lopgpn_exp.runs.saved_run import SavedRun
    from lopgpn_exp.tracking.model_package import prepare_package, save_model

    folder = tmp_path_factory.mktemp("served")
    run_folder = next((trees / "outputs" / "runs").glob("appnp-custom-s0-*"))
    save_model(folder / "model", prepare_package(folder / "data", SavedRun.open(run_folder)), Model())
    return mlflow.pyfunc.load_model(str(folder / "model"))


def test_run_is_registered_once_and_another_run_is_the_next_version(register, command, client):
    assert "registered: appnp-custom, version 1" in register("--alias", "champion")[1]
    assert "is registered already: appnp-custom, version 1" in register()[1]
    _, out, _ = command("register", "appnp-custom-s1", "--alias", "champion")
    assert "registered: appnp-custom, version 2" in out
    assert client.get_model_version_by_alias("appnp-custom", "champion").version == 2
    assert "is registered already: appnp-custom, version 1" in register("--alias", "champion")[1]
    assert client.get_model_version_by_alias("appnp-custom", "champion").version == 1
    assert "registered: other, version 1" in register("--name", "other")[1]
    models = {model.name: len(client.search_model_versions(f"name = '{model.name}'")) for model in registered(client)}
    assert models == {"appnp-custom": 2, "other": 1}


def registered(client) -> list:
    return list(client.search_registered_models())


@pytest.mark.parametrize("failing", ["log_model_artifacts", "create_model_version", "set_registered_model_alias"])
def test_failure_of_mlflow_leaves_nothing_registered(register, client, outputs, monkeypatch, failing):
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    def fail(*arguments, **options):
        raise MlflowException("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, failing, fail)
        code, _, err = register("--alias", "champion")
    assert code == 2
    assert "MLflow cannot be used at sqlite:///outputs/mlflow.db (the disk is full)" in err
    assert "Traceback" not in err
    assert registered(client) == []
    assert not list(client.search_logged_models([client.get_experiment_by_name("lopgpn_exp").experiment_id]))
    assert not list((outputs / "mlartifacts").rglob("MLmodel"))
    assert "registered: appnp-custom, version 1" in register("--alias", "champion")[1]


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["nosuch"], "'nosuch' matches no run", ""),
        (["appnp-custom-s0", "--name", "a/b"], "name is 'a/b'", "--name my_model"),
        (["appnp-custom-s0", "--alias", "v2"], "alias is 'v2'", "--alias champion"),
        (["appnp-custom-s0", "--uri", "file:///tmp/nosuch"], "MLflow cannot be used at file:///tmp/nosuch", "--uri "),
        (["unfinished"], "unfinished has no result.json", ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_input_error_is_one_message_and_registers_nothing(command, outputs, client, words, message, hint):
    (outputs / "runs" / "unfinished").mkdir()
    code, _, err = command("register", *words)
    assert code == 2
    assert message in err
    assert f"try:      {hint}" in err or not hint
    assert "Traceback" not in err
    assert registered(client) == []
    assert client.get_experiment_by_name("lopgpn_exp") is None


def test_store_without_a_registry_is_one_message(register, client, monkeypatch):
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    def fail(*arguments, **options):
        raise MlflowException("Model registry functionality is unavailable")

    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "search_registered_models", fail)
        code, _, err = register()
    assert code == 2
    assert "the MLflow store at sqlite:///outputs/mlflow.db has no model registry (Model registry" in err
    assert registered(client) == []
    assert not client.search_runs([client.get_experiment_by_name("lopgpn_exp").experiment_id])


def test_run_without_tracking_needs_a_store_and_creates_none(command, tmp_path):
    run_id = run_tiny(tmp_path / "outputs", "model=gkde").result.run_id
    code, _, err = command("register", run_id)
    assert code == 2
    assert "was made with tracking=none, and there is no mlflow.db in outputs" in err
    assert "try:      --uri sqlite:///outputs/mlflow.db" in err
    assert not list((tmp_path / "outputs").glob("*.db"))


@pytest.mark.parametrize("name", ["model.ckpt", "predictions.parquet"])
def test_damaged_run_is_one_message_and_registers_nothing(register, outputs, client, name):
    path = next((outputs / "runs").glob("appnp-custom-s0-*")) / name
    content = path.read_bytes()
    path.unlink()
    assert f"{path} cannot be" in register()[2]
    path.write_bytes(content[:-9])
    code, _, err = register()
    assert code == 2
    assert name in err
    assert "Traceback" not in err
    assert registered(client) == []


def test_code_of_the_user_is_imported_with_consent_only(
    command, user_project: UserProject, tracked_outputs, monkeypatch
):
    """Neither the files of the model nor its registration give consent to those who load it."""
    import mlflow
    from mlflow.exceptions import MlflowException

    words = ["model=mine", "dataset=synthetic", "dataset.num_nodes=100", "dataset.num_edges=300", *SHORT[1:3]]
    code, _, err = command("--config-dir", str(user_project.config_dir), *words, "tracking=none")
    assert code == 0, err
    user_project.forget()
    code, _, err = command("register", "mine")
    assert code == 2
    assert "uses code that is not part of lopgpn_exp: own_module.Mine (model)" in err
    assert "try:      lopgpn_exp register mine --trust" in err
    _, out, _ = command("register", "mine", "--trust")
    run_id = next(Path("outputs/runs").glob("mine-*")).name
    assert f" LOPGPN_TRUST={run_id} mlflow models serve -m models:/mine-synthetic/1 " in out
    user_project.forget()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tracked_outputs / 'mlflow.db'}")
    with pytest.raises(MlflowException, match=f"set the environment variable LOPGPN_TRUST={run_id}"):
        mlflow.pyfunc.load_model("models:/mine-synthetic/1")
    assert "own_module" not in sys.modules
    monkeypatch.setenv("LOPGPN_TRUST", run_id)
    model = mlflow.pyfunc.load_model("models:/mine-synthetic/1")
    assert "own_module" in sys.modules
    assert len(model.predict(model.input_example, params={"source": [0], "target": [0]})) == len(model.input_example)
    user_project.write(helper="scale = 2\n")
    with pytest.raises(MlflowException, match=r"the code of own_module\.Mine has changed"):
        mlflow.pyfunc.load_model("models:/mine-synthetic/1")


def test_server_answers_with_the_table_of_predict(register, command, outputs, trees):
    """`mlflow models serve` as the register command prints it, on another port."""
    register("--name", "forest")
    nodes, edges = change_graph(trees)
    expected = predict_files(command, nodes, edges)
    port = find_free_port()
    words = ["models", "serve", "-m", "models:/forest/1", "--env-manager", "local", "--port", str(port)]
    environment = os.environ | {"MLFLOW_TRACKING_URI": "sqlite:///outputs/mlflow.db"}
    environment |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    command_line = [sys.executable, "-m", "mlflow", *words]
    with Path("server.txt").open("w") as log:
        server = subprocess.Popen(command_line, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_until_answering(f"http://127.0.0.1:{port}/ping", server, Path("server.txt"))
        split = json.loads(nodes.to_json(orient="split", index=False))
        status, answer = post(port, {"dataframe_split": split, "params": as_params(edges)})
        assert status == 200, answer
        table = pd.DataFrame(json.loads(answer, parse_constant=pytest.fail)["predictions"])  # NaN is not JSON
        pd.testing.assert_frame_equal(table, expected, check_dtype=False, check_exact=True)
        status, answer = post(port, {"dataframe_split": split, "params": {"source": ["new"], "target": ["nobody"]}})
        assert status == 400
        assert "the target 'nobody' in row 1 is not a node" in answer
    finally:
        os.killpg(server.pid, 15)
        server.wait(timeout=30)


def post(port: int, body: dict) -> tuple[int, str]:
    """Return the status and the text of a server's answer to JSON."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/invocations", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
