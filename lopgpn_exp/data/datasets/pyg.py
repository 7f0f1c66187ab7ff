"""The citation and co-purchase graphs of the paper, downloaded and parsed by PyG."""

import os
from pathlib import Path
from typing import Literal

import numpy as np

from lopgpn_exp.data.root import lock_download, unreadable_file_error
from lopgpn_exp.data.safe_load import READ_ERRORS, check_archive
from lopgpn_exp.data.scaling import normalise_rows
from lopgpn_exp.data.zip_checks import check_array_sizes, check_checksums
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph

# Path of each raw file below the data root, in PyG's layout.
RAW_FILES = {
    "Cora_ML": "citation_full/cora_ml/raw/cora_ml.npz",
    "CiteSeer": "citation_full/citeseer/raw/citeseer.npz",
    "PubMed": "citation_full/pubmed/raw/pubmed.npz",
    "Photo": "amazon/Photo/raw/amazon_electronics_photo.npz",
    "Computers": "amazon/Computers/raw/amazon_electronics_computers.npz",
}


def citation_full(*, root: Path, collection_name: Literal["Cora_ML", "CiteSeer", "PubMed"]) -> Graph:
    """Return a citation graph of PyG's `CitationFull`; features are made binary, then each row is scaled to sum 1."""
    return _load(root, "CitationFull", collection_name)


def amazon(*, root: Path, collection_name: Literal["Photo", "Computers"]) -> Graph:
    """Return a co-purchase graph of PyG's `Amazon`; features are made binary, then each row is scaled to sum 1."""
    return _load(root, "Amazon", collection_name)


def _load(root: Path, collection: str, name: str) -> Graph:
    """Read the raw file, downloaded if missing.

    PyG's `processed/` copy is not used: a shared data root may be read-only, and processes would overwrite each other.
    """
    from torch_geometric.io import parse_npz  # deferred import: PyG is slow to import

    raw = root / RAW_FILES[name]
    if not raw.is_file():
        _download(root, collection, name, raw)
    try:
        # An explicit file handle, because numpy leaves its own open if the archive is damaged.
        check_checksums(raw)
        with raw.open("rb") as file, np.load(file) as archive:
            check_array_sizes(archive)
            check_archive(archive)
            data = parse_npz(archive)
        graph = Graph.build(features=data.x, edge_index=data.edge_index, labels=data.y)
        return graph.replace(features=normalise_rows(graph.features))
    except InputError as error:
        raise error.with_hint(error.hint, what=f"{raw}: {error.what}") from None
    except READ_ERRORS as error:
        raise unreadable_file_error(raw, error) from None


def _download(root: Path, collection: str, name: str, raw: Path) -> None:
    import torch_geometric.datasets as pyg  # deferred import: not needed once the file is there

    with lock_download(name, raw, root) as scratch:
        if raw.is_file():
            return
        dataset = getattr(pyg, collection)(str(scratch), name)
        raw.parent.mkdir(parents=True, exist_ok=True)
        os.replace(dataset.raw_paths[0], raw)
