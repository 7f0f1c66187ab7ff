"""Load the model of a run from an MLflow model: the `loader_module` of what `register` writes.

The files of such a model are data: the run's config, checkpoint and tables, without pickled objects and without code.
They are read as `predict` reads a run folder. The name of this module is stored in every registered model.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from lopgpn_exp.errors import InputError
from lopgpn_exp.evaluation.trust import Limits, fit_validation_limits
from lopgpn_exp.runs.checksums import read_verified
from lopgpn_exp.runs.prediction import build_changed_graph, predict_run, table_columns
from lopgpn_exp.runs.run_folder import damaged_file
from lopgpn_exp.runs.saved_run import SavedRun

if TYPE_CHECKING:
    from lopgpn_exp.graph import Graph
    from lopgpn_exp.posterior import Posterior

TRUST_VARIABLE = "LOPGPN_TRUST"
EDGES_FILE = "edges.parquet"


def _load_pyfunc(path: str) -> ServedModel:
    """Return the model in a folder of data. MLflow calls this function by its name."""
    with _raise_mlflow_errors():
        return open_served_model(Path(path))


class ServedRun(SavedRun):
    """A run inside of an MLflow model, whose folder is never written to."""

    def predict(self, graph: Graph) -> Posterior:
        """Apply the model, without a cache on disk: a server may see any number of graphs."""
        return self.model.predict(graph)


class ServedModel:
    """Applies the model of a run to a table of nodes, with edges as parameters.

    Args:
        edges: those of the run's own graph, which are used if none are given.
    """

    def __init__(self, run: SavedRun, edges: pa.Table) -> None:
        self.run = run
        self._edges = edges
        self._columns = table_columns(run)
        self._own_ids = set(own_ids(run).astype(str))
        self._lock = Lock()  # a server answers several requests at the same time

    def predict(self, model_input: pd.DataFrame, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """Return the table of `lopgpn_exp predict` for a graph. MLflow calls this with all parameters."""
        given = {name: value for name, value in (params or {}).items() if value is not None}
        with self._lock, _raise_mlflow_errors():
            return self.tabulate(model_input, **given)

    def tabulate(
        self,
        nodes: pd.DataFrame,
        *,
        source: Sequence[object] = (),
        target: Sequence[object] = (),
        accuracy: float = 0.95,
        unknown: float = 0.05,
    ) -> pd.DataFrame:
        """Return one row per node: ids, class, probabilities, measures and flag.

        Args:
            source, target: the ids of the two nodes of each edge; without any, the edges of the run's graph.
            accuracy, unknown: see `lopgpn_exp predict`.
        """
        with _report_conversion_errors("the table of nodes"):
            table = pa.Table.from_pandas(nodes, preserve_index=False)
        graph, _ = build_changed_graph(self.run, table, self._choose_edges(table, source, target))
        result = predict_run(self.run, self.fit_limits(accuracy=accuracy, unknown=unknown), graph=graph).table
        labels = result["label"].astype(object)
        return result.assign(label=labels.where(labels.notna(), None))  # a server would write NaN, which is not JSON

    def fit_limits(self, *, accuracy: float = 0.95, unknown: float = 0.05) -> Limits:
        """Return the limits of trust, fitted to the validation nodes of the run."""
        return fit_validation_limits(
            self.run.predictions, accuracy=accuracy, unknown=unknown, declared=self.run.declared_measures
        )

    def _choose_edges(self, nodes: pa.Table, source: Sequence[object], target: Sequence[object]) -> pa.Table:
        if len(source) != len(target):
            raise InputError(
                f"source has {len(source):,} ids and target has {len(target):,}",
                expected="two lists of the same length, with one edge at each position",
            )
        if not len(source) and self._columns.id in nodes.column_names:
            self._check_own_nodes(nodes[self._columns.id].to_pylist())
            return self._edges
        with _report_conversion_errors("the edges"):
            return pa.table({self._columns.source: list(source), self._columns.target: list(target)})

    def _check_own_nodes(self, ids: list[object]) -> None:
        """Raise an InputError unless these are the nodes of the run, whose edges are known."""
        given = set(map(str, ids))
        if given == self._own_ids:
            return
        new, missing = sorted(given - self._own_ids), len(self._own_ids - given)
        details = [f"{len(new):,} are new, such as {new[0]!r}"] if new else []
        details += [f"{missing:,} are missing"] if missing else []
        raise InputError(
            f"no edges are given, and the nodes are not those of the training graph: {', '.join(details)}",
            expected="the ids of the two nodes of each edge, or exactly the nodes of the training graph",
            hint='params={"source": [...], "target": [...]}',
        )


def open_served_model(folder: Path, *, is_trusted: bool = False) -> ServedModel:
    """Load a model from a folder of data: the folder of a run, named by its id, and the edges of its graph.

    Args:
        is_trusted: see `SavedRun`. The environment variable `LOPGPN_TRUST` gives the same consent to the run that it
            names; the files of the model cannot.
    """
    folders = [path for path in folder.glob("*") if path.is_dir()]
    if len(folders) != 1:
        raise InputError(
            f"{folder} contains {len(folders)} runs", expected="the data of a model that lopgpn_exp register wrote"
        )
    run_folder = folders[0]
    is_trusted = is_trusted or os.environ.get(TRUST_VARIABLE) == run_folder.name
    run = ServedRun.open(run_folder, is_trusted=is_trusted)
    try:
        run.model  # noqa: B018  (read now, so that a damaged file is reported when the model is loaded)
    except InputError as error:
        if error.parameter == "trust":
            raise error.with_hint(f"set the environment variable {TRUST_VARIABLE}={run_folder.name}") from None
        raise
    return ServedModel(run, _read_edges(folder / EDGES_FILE))


def own_ids(run: SavedRun) -> pd.Series:
    """Return the ids of the nodes of the run's graph."""
    table = run.predictions
    return table["id"] if "id" in table else table["node"]


def _read_edges(path: Path) -> pa.Table:
    try:
        return pq.read_table(BytesIO(read_verified(path)))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise damaged_file(path, error) from None


@contextmanager
def _report_conversion_errors(what: str) -> Iterator[None]:
    """Raise what pyarrow says about objects of several types, or columns of the same name, as an InputError."""
    try:
        yield
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        reason = "; ".join(map(str, error.args)).partition("\n")[0][:200]
        raise InputError(
            f"{what} cannot be read ({reason})",
            expected="ids and labels of one type, text or integers, and a number in every feature column",
        ) from None


@contextmanager
def _raise_mlflow_errors() -> Iterator[None]:
    """Raise an error of the user as MLflow's, whose message a server sends back."""
    try:
        yield
    except InputError as error:
        from mlflow.exceptions import MlflowException
        from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE

        raise MlflowException(str(error), error_code=INVALID_PARAMETER_VALUE) from None
