"""Write a run as an MLflow model: its files, a signature, an example and the requirements."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import requires, version
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from lopgpn_exp import __version__
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph
from lopgpn_exp.graph.features import select_rows
from lopgpn_exp.runs.checksums import CHECKSUM_FILE, verify, write_checksums
from lopgpn_exp.runs.prediction import node_ids, predict_run, table_columns
from lopgpn_exp.runs.run_folder import LEGEND_FILE, damaged_file
from lopgpn_exp.runs.saved_run import SavedRun
from lopgpn_exp.tracking.served_model import EDGES_FILE, ServedModel, open_served_model, own_ids

if TYPE_CHECKING:
    from mlflow.models import ModelSignature
    from mlflow.models.model import Model

LOADER_MODULE = "lopgpn_exp.tracking.served_model"
RUN_FILES = ("result.json", "config.yaml", "predictions.parquet", "model.ckpt", LEGEND_FILE, CHECKSUM_FILE)
EXAMPLE_NODES = 10
MAX_EXAMPLE_VALUES = 200_000  # of a model that can only be applied to its own graph
Example: TypeAlias = tuple[pd.DataFrame, dict[str, Any]]  # a table of nodes, and the parameters
INTEGER = re.compile(r"0|-?[1-9]\d{0,17}")


@dataclass(frozen=True)
class ModelPackage:
    """The data of a model in a folder, loaded once to show that it works.

    Args:
        example: a table of nodes with the edges as parameters; None if the smallest one would be large.
        output: what the model returns for the example.
    """

    data: Path
    run: SavedRun
    example: Example | None
    output: pd.DataFrame


def prepare_package(folder: Path, run: SavedRun) -> ModelPackage:
    """Write the data of a run's model to a new folder, load it from there and apply it to an example.

    Raises:
        InputError: if `predict` cannot use the run.
    """
    run_folder = folder / run.folder.name
    run_folder.mkdir(parents=True)
    graph, _ = run.graph, run.predictions  # before copying: a damaged run is refused, or one whose data has changed
    for name in RUN_FILES:
        if (run.folder / name).is_file():
            _copy_verified(run.folder / name, run_folder / name)
    pq.write_table(_tabulate_edges(run, graph), folder / EDGES_FILE)
    write_checksums(folder)
    served = open_served_model(folder, is_trusted=run.is_trusted)
    example, output = _find_example(served, graph)
    return ModelPackage(folder, run, example, output)


def save_model(path: Path, package: ModelPackage, description: Model) -> None:
    """Write a folder that `mlflow.pyfunc.load_model` loads: the data, and what MLflow has to know about it."""
    from mlflow import pyfunc

    pyfunc.save_model(
        path=str(path),
        loader_module=LOADER_MODULE,
        data_path=str(package.data),
        mlflow_model=description,
        signature=describe_signature(package),
        input_example=package.example,
        pip_requirements=pin_requirements(),
    )


def describe_signature(package: ModelPackage) -> ModelSignature:
    """Return the columns of input and output, and the parameters.

    Features have the type `any`: for `double`, MLflow would refuse columns of integers, and the reader checks them.
    """
    from mlflow.models import ModelSignature
    from mlflow.types.schema import AnyType, ColSpec, ParamSchema, ParamSpec, Schema

    run, columns = package.run, table_columns(package.run)
    id_type = "long" if has_integer_ids(run) else "string"
    features = [str(k) for k in range(run.num_features)] if run.legend is None else run.legend.features
    inputs = [ColSpec(id_type, columns.id), ColSpec(AnyType(), columns.label, required=False)]
    output = [str(name) for name in package.output]
    output_types = dict.fromkeys(package.output.select_dtypes("number"), "double") | {"id": id_type}
    return ModelSignature(
        inputs=Schema([*inputs, *(ColSpec(AnyType(), name) for name in features)]),
        outputs=Schema([ColSpec(output_types.get(name, "string"), name, required=name != "label") for name in output]),
        params=ParamSchema(
            [
                ParamSpec("source", id_type, [], (-1,)),
                ParamSpec("target", id_type, [], (-1,)),
                ParamSpec("accuracy", "double", 0.95),
                ParamSpec("unknown", "double", 0.05),
            ]
        ),
    )


def pin_requirements() -> list[str]:
    """Return this package and everything that it depends on, with the installed versions."""
    lines = [line for line in requires("lopgpn_exp") or () if "extra ==" not in line]
    names = [match[0] for line in lines if (match := re.match(r"[\w.-]+", line))]
    # Without a local label such as +cpu, which is not on PyPI.
    return [f"lopgpn_exp=={__version__}", *(f"{name}=={version(name).partition('+')[0]}" for name in sorted(names))]


def has_integer_ids(run: SavedRun) -> bool:
    """Return whether all ids are integers, also if the run's file contains them as text, as CSV files do."""
    return all(INTEGER.fullmatch(str(node)) for node in own_ids(run))


def _copy_verified(source: Path, target: Path) -> None:
    try:
        if source.name != CHECKSUM_FILE:
            verify(source)
        copyfile(source, target)
    except ValueError as error:
        raise damaged_file(source, error) from None


def _tabulate_edges(run: SavedRun, graph: Graph) -> pa.Table:
    """Return each edge once, by the ids of its nodes."""
    source, target = graph.edge_index.numpy()
    is_first = source < target
    columns, ids = table_columns(run), node_ids(graph)
    return pa.table({columns.source: ids[source[is_first]], columns.target: ids[target[is_first]]})


def _find_example(served: ServedModel, graph: Graph) -> tuple[Example | None, pd.DataFrame]:
    """Return an example of an input, and its output: a few nodes or, if the model accepts no other graph, its own."""
    source, target = graph.edge_index.numpy()
    if len(source):
        neighbours = target[source == source[0]][: EXAMPLE_NODES - 1]
        example = _make_example(served.run, graph, np.unique([source[0], *neighbours]))
        try:
            return example, served.tabulate(example[0], **example[1])
        except InputError:  # fitted to the edges of its graph, as GKDE is
            if graph.num_nodes * graph.num_features <= MAX_EXAMPLE_VALUES:
                example = _make_example(served.run, graph, np.arange(graph.num_nodes))
                return example, served.tabulate(example[0], **example[1])
    return None, predict_run(served.run, served.fit_limits(), graph=graph).table


def _make_example(run: SavedRun, graph: Graph, nodes: np.ndarray) -> Example:
    """Return some nodes of a graph with the edges between them, as a user would give them."""
    import torch

    columns, legend = table_columns(run), graph.legend
    ids = node_ids(graph).astype(int) if has_integer_ids(run) else node_ids(graph).astype(str).astype(object)
    values = select_rows(graph.features, torch.from_numpy(nodes)).to_dense().double().numpy()
    if legend is not None and legend.shift is not None and legend.scale is not None:
        values = values * legend.scale + legend.shift
    names = list(map(str, range(graph.num_features))) if legend is None else list(legend.features)
    table = pd.DataFrame(values, columns=names)
    table.insert(0, columns.id, ids[nodes])
    source, target = graph.edge_index.numpy()
    is_inside = (source < target) & np.isin(source, nodes) & np.isin(target, nodes)
    return table, {"source": ids[source[is_inside]].tolist(), "target": ids[target[is_inside]].tolist()}
