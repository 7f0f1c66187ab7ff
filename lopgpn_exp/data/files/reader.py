"""Read a user's file, whatever its format, as a graph with a legend."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from lopgpn_exp.data.files.npz_file import read_npz_file
from lopgpn_exp.data.files.pyg_file import read_pyg_file
from lopgpn_exp.data.files.raw_graph import RawGraph, build_graph, build_graph_like
from lopgpn_exp.data.files.survey import describe_graph
from lopgpn_exp.data.files.table_file import TABLE_FORMATS, TABLE_SUFFIXES, MemoryTable
from lopgpn_exp.data.files.tables import Columns, read_tables
from lopgpn_exp.data.safe_load import wrap_read_errors
from lopgpn_exp.data.scaling import Scaling
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph, Legend

log = logging.getLogger(__name__)

READERS: dict[str, Callable[..., RawGraph]] = {".pt": read_pyg_file, ".pth": read_pyg_file, ".npz": read_npz_file}
SUFFIXES = (*READERS, *TABLE_SUFFIXES)
FORMATS = "a .pt file (PyG Data), an .npz file (PyG's citation layout), or tables of nodes and edges (.csv, .parquet)"


def custom_graph(
    *,
    path: str | None,
    edges: str | None = None,
    scaling: Scaling = "auto",
    id_column: str = "id",
    label_column: str = "label",
    split_column: str = "split",
    source_column: str = "source",
    target_column: str = "target",
    ignore: list[str] | None = None,
    memory_limit_gib: float | None = None,
) -> Graph:
    """Read a user's own graph, keep its names, and log a description of what was read.

    Args:
        path: a `.pt` file (PyG Data), an `.npz` file (PyG's citation layout), the table of nodes, or a folder with
            `nodes` and `edges` as CSV or parquet.
        edges: the table of edges, if `path` is the table of nodes.
        scaling: `standard`: each column to mean 0 and standard deviation 1; `rows`: each row to sum 1 (counts, bag of
            words); `none`: as in the file; `auto`: one of them, by what the features look like (`choose_scaling`).
        id_column, label_column, split_column, source_column, target_column: names of these columns in the tables.
            Labels and splits may be blank, and the split column may be missing.
        ignore: columns of the table of nodes that are not features.
        memory_limit_gib: largest amount of memory that reading may need; None: the free memory.
    """
    columns = Columns(id_column, label_column, split_column, source_column, target_column, tuple(ignore or ()))
    raw = _read_raw_graph(path, edges, columns, memory_limit_gib=memory_limit_gib)
    graph = build_graph(raw, scaling=scaling, memory_limit_gib=memory_limit_gib)
    log.info("%s", describe_graph(graph, source=str(path), notes=raw.notes))
    return graph


def read_graph_like(
    legend: Legend, *, num_classes: int, path: str, edges: str | None = None, columns: Columns | None = None
) -> tuple[Graph, list[str]]:
    """Read another version of the graph that `legend` describes: see `build_graph_like`."""
    raw = _read_raw_graph(path, edges, columns or Columns(), memory_limit_gib=None, legend=legend)
    return build_graph_like(raw, legend, num_classes=num_classes)


def read_tables_like(
    legend: Legend, *, num_classes: int, nodes: pa.Table, edges: pa.Table, columns: Columns
) -> tuple[Graph, list[str]]:
    """Return the graph that `read_graph_like` reads from files, from tables in memory."""
    raw = read_tables(
        MemoryTable("the table of nodes", nodes),
        MemoryTable("the edges", edges),
        columns,
        memory_limit_gib=None,
        needs_labels=False,
        features=legend.features,
    )
    return build_graph_like(raw, legend, num_classes=num_classes)


def _read_raw_graph(
    path: str | None,
    edges: str | None,
    columns: Columns,
    *,
    memory_limit_gib: float | None,
    legend: Legend | None = None,
) -> RawGraph:
    """Read a file by its suffix. With a `legend`, labels are optional, and its features are selected by name."""
    if not path:
        raise InputError("path is not set", expected=FORMATS, parameter="path", suggestion="FILE")
    nodes_file, edges_file = _find_files(path, edges)
    suffix = _get_suffix(nodes_file)
    if suffix in TABLE_SUFFIXES:
        return read_tables(
            nodes_file,
            _require_edges(nodes_file, edges_file),
            columns,
            memory_limit_gib=memory_limit_gib,
            needs_labels=legend is None,
            features=None if legend is None else legend.features,
        )
    if suffix not in READERS:
        raise InputError(
            f"{nodes_file} has an unsupported file type", expected=FORMATS, parameter="path", suggestion="FILE"
        )
    if edges_file is not None:
        raise InputError(f"edges is {edges_file}", expected=f"nothing: {nodes_file} contains the edges")
    raw = READERS[suffix](nodes_file, memory_limit_gib=memory_limit_gib)
    if legend is None and raw.labels is None:
        raise InputError(f"{nodes_file} contains no labels", expected="the class of some nodes, as `y`")
    return raw


def _require_edges(nodes_file: Path, edges_file: Path | None) -> Path:
    """Return the table of edges that belongs to a table of nodes."""
    if edges_file is None:
        raise InputError(
            f"{nodes_file} is a table of nodes, and there is no table of edges",
            expected="a second table with a source and a target column",
            parameter="edges",
            suggestion="edges.csv",
        )
    if _get_suffix(edges_file) not in TABLE_SUFFIXES:
        raise InputError(f"edges is {edges_file}", expected=TABLE_FORMATS, parameter="edges", suggestion="edges.csv")
    return edges_file


def _get_suffix(path: Path) -> str:
    """Return the suffix in lower case, with the one before it if the file is compressed (.csv.gz)."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return "".join(suffixes[-2:] if suffixes[-1:] == [".gz"] else suffixes[-1:])


def _find_files(path: str, edges: str | None) -> tuple[Path, Path | None]:
    """Return the file of nodes and, if there is one, the file of edges; a folder contains both."""
    with wrap_read_errors(Path(path), expected=FORMATS):
        nodes_file = Path(path).expanduser()
        edges_file = Path(edges).expanduser() if edges else None
        if not nodes_file.exists():
            raise FileNotFoundError(nodes_file)
        if nodes_file.is_dir():
            nodes_file, edges_file = _find_table(nodes_file, "nodes"), edges_file or _find_table(nodes_file, "edges")
        for file in (nodes_file, edges_file):
            if file is not None and file.exists() and not file.is_file():  # a folder, or a pipe, which would block
                raise InputError("this is not a file", expected=FORMATS)
        return nodes_file, edges_file


def _find_table(folder: Path, name: str) -> Path:
    files = [folder / f"{name}{suffix}" for suffix in TABLE_SUFFIXES if (folder / f"{name}{suffix}").is_file()]
    if len(files) != 1:
        raise InputError(
            f"{folder} contains {'no' if not files else 'more than one'} table of {name}",
            expected=f"one of {', '.join(name + suffix for suffix in TABLE_SUFFIXES)}",
            parameter="path" if name == "nodes" else "edges",
            suggestion=f"{name}.csv",
        )
    return files[0]
