"""The citation and co-purchase graphs of the paper, by PyG's datasets and readers."""

import os
import zipfile
import zlib
from pathlib import Path
from typing import Literal

import numpy as np
from torch_geometric.io import parse_npz

from lopgpn_exp.data.features import row_normalised
from lopgpn_exp.data.root import fetching, unreadable
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph

# What PyG calls the collection's folder by convention, and how its raw file is named below it.
RAW_FILES = {
    "Cora_ML": "citation_full/cora_ml/raw/cora_ml.npz",
    "CiteSeer": "citation_full/citeseer/raw/citeseer.npz",
    "PubMed": "citation_full/pubmed/raw/pubmed.npz",
    "Photo": "amazon/Photo/raw/amazon_electronics_photo.npz",
    "Computers": "amazon/Computers/raw/amazon_electronics_computers.npz",
}


UNREADABLE = (
    *(OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, RuntimeError, EOFError, MemoryError),
    *(zipfile.BadZipFile, zlib.error),
)


def citation_full(*, root: Path, collection_name: Literal["Cora_ML", "CiteSeer", "PubMed"]) -> Graph:
    """A citation graph of PyG's `CitationFull`, features 0/1 and then rows that sum to 1."""
    return _load(root, "CitationFull", collection_name)


def amazon(*, root: Path, collection_name: Literal["Photo", "Computers"]) -> Graph:
    """A co-purchase graph of PyG's `Amazon`, features 0/1 and then rows that sum to 1."""
    return _load(root, "Amazon", collection_name)


def _load(root: Path, collection: str, name: str) -> Graph:
    """Reads the raw file itself rather than PyG's `processed/` copy: a shared data root may be read-only, and two
    processes never meet while writing that copy."""
    raw = root / RAW_FILES[name]
    if not raw.is_file():
        _download(root, collection, name, raw)
    try:
        # Our own handle: numpy leaves it open when the archive is damaged.
        with raw.open("rb") as file, np.load(file) as archive:
            check_archive(archive)
            data = parse_npz(archive)
        graph = Graph.build(features=data.x, edge_index=data.edge_index, labels=data.y)
        return graph.replace(features=row_normalised(graph.features))
    except InputError as error:
        raise InputError(f"{raw}: {error.what}", expected=error.expected, hint=error.hint) from None
    except UNREADABLE as error:
        raise unreadable(raw, error) from None


def check_archive(archive: np.lib.npyio.NpzFile) -> None:
    """What scipy and PyG take on trust: an index out of range makes them read foreign memory."""
    labels = archive["labels"]
    if not np.issubdtype(labels.dtype, np.integer) or labels.ndim != 1:
        raise ValueError(f"labels are {labels.dtype} of shape {labels.shape}, not a vector of whole numbers")
    nodes, attributes = (int(size) for size in archive["attr_shape"])
    if tuple(archive["adj_shape"]) != (nodes, nodes):
        raise ValueError(f"the adjacency is {tuple(archive['adj_shape'])} for {nodes} nodes")
    for kind, width in (("attr", attributes), ("adj", nodes)):
        indices, pointers = archive[f"{kind}_indices"], archive[f"{kind}_indptr"]
        if len(pointers) != nodes + 1 or pointers[0] != 0 or (np.diff(pointers) < 0).any():
            raise ValueError(f"{kind}_indptr does not divide {nodes} rows")
        if pointers[-1] != len(indices) or len(indices) != len(archive[f"{kind}_data"]):
            raise ValueError(f"{kind} has {len(indices)} indices where {pointers[-1]} are announced")
        if len(indices) and not (indices.min() >= 0 and indices.max() < width):
            raise ValueError(f"{kind}_indices go from {indices.min()} to {indices.max()}; there are {width} columns")


def _download(root: Path, collection: str, name: str, raw: Path) -> None:
    import torch_geometric.datasets as pyg

    with fetching(name, raw, root) as scratch:
        if raw.is_file():
            return
        dataset = getattr(pyg, collection)(str(scratch), name)
        raw.parent.mkdir(parents=True, exist_ok=True)
        os.replace(dataset.raw_paths[0], raw)
