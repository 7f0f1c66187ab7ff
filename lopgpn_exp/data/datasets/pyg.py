"""Graphs that PyG downloads and parses: citations, co-purchases, co-authors, and graphs whose neighbours differ."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from lopgpn_exp.data.root import lock_download, unreadable_file_error
from lopgpn_exp.data.safe_load import READ_ERRORS, check_archive
from lopgpn_exp.data.scaling import normalise_rows
from lopgpn_exp.data.zip_checks import check_array_sizes, check_checksums
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph, Part
from lopgpn_exp.graph.features import compact, from_scipy

# Path of each raw file below the data root, in PyG's layout.
RAW_FILES = {
    "Cora_ML": "citation_full/cora_ml/raw/cora_ml.npz",
    "CiteSeer": "citation_full/citeseer/raw/citeseer.npz",
    "PubMed": "citation_full/pubmed/raw/pubmed.npz",
    "Photo": "amazon/Photo/raw/amazon_electronics_photo.npz",
    "Computers": "amazon/Computers/raw/amazon_electronics_computers.npz",
    "CS": "coauthor/CS/raw/ms_academic_cs.npz",
    "Physics": "coauthor/Physics/raw/ms_academic_phy.npz",
    "Tolokers": "heterophilous/tolokers/raw/tolokers.npz",
    "Minesweeper": "heterophilous/minesweeper/raw/minesweeper.npz",
    "chameleon_filtered": "heterophilous/chameleon_filtered/raw/chameleon_filtered.npz",
    "squirrel_filtered": "heterophilous/squirrel_filtered/raw/squirrel_filtered.npz",
}
FILTERED_SOURCE = "https://github.com/yandex-research/heterophilous-graphs"


def citation_full(*, root: Path, collection_name: Literal["Cora_ML", "CiteSeer", "PubMed"]) -> Graph:
    """Return a citation graph of PyG's `CitationFull`; features are made binary, then each row is scaled to sum 1."""
    return _load(root, "CitationFull", collection_name)


def amazon(*, root: Path, collection_name: Literal["Photo", "Computers"]) -> Graph:
    """Return a co-purchase graph of PyG's `Amazon`; features are made binary, then each row is scaled to sum 1."""
    return _load(root, "Amazon", collection_name)


def coauthor(*, root: Path, collection_name: Literal["CS", "Physics"]) -> Graph:
    """Return a co-author graph of PyG's `Coauthor`; features are made binary, then each row is scaled to sum 1."""
    return _load(root, "Coauthor", collection_name)


def heterophilous(
    *,
    root: Path,
    collection_name: Literal["Tolokers", "Minesweeper", "chameleon_filtered", "squirrel_filtered"],
    scaling: Literal["rows", "none"],
) -> Graph:
    """Return a graph of Platonov et al. (2023) with its ten splits. PyG can download the first two.

    Args:
        scaling: `rows` scales the features of each node to sum 1, `none` leaves them as they are.
    """
    raw = root / RAW_FILES[collection_name]
    if not raw.is_file() and collection_name.endswith("_filtered"):
        raise InputError(
            f"{collection_name} is not in the data root, and PyG cannot download it",
            expected=f"the file {raw}, from {FILTERED_SOURCE} (data/{raw.name})",
            parameter="data_root",
            suggestion="FOLDER",
        )

    def parse(archive: Any) -> Graph:
        part = np.full(archive["train_masks"].shape, Part.NONE, dtype=np.int8)
        for name, value in (("train", Part.TRAIN), ("val", Part.VAL), ("test", Part.TEST)):
            part[archive[f"{name}_masks"].astype(bool)] = value
        features = compact(sp.csr_array(archive["node_features"].astype(np.float32)))
        graph = Graph.build(
            features=features if isinstance(features, np.ndarray) else from_scipy(features),
            edge_index=archive["edges"].T,
            labels=archive["node_labels"],
            official_part=part,
        )
        return graph.replace(features=normalise_rows(graph.features)) if scaling == "rows" else graph

    return _read(root, "HeterophilousGraphDataset", collection_name, parse)


def _load(root: Path, collection: str, name: str) -> Graph:
    def parse(archive: Any) -> Graph:
        """Parse the archive as PyG does, but without making the features dense."""
        check_archive(archive)
        features, adjacency = (
            sp.csr_array(
                tuple(archive[f"{kind}_{part}"] for part in ("data", "indices", "indptr")), archive[f"{kind}_shape"]
            )
            for kind in ("attr", "adj")
        )
        features.data = np.where(features.data > 0, np.float32(1), features.data.astype(np.float32))
        graph = Graph.build(
            features=from_scipy(features), edge_index=np.stack(adjacency.nonzero()), labels=archive["labels"]
        )
        return graph.replace(features=normalise_rows(graph.features))

    return _read(root, collection, name, parse)


def _read(root: Path, collection: str, name: str, parse: Callable[[Any], Graph]) -> Graph:
    """Read the raw file, downloaded if missing.

    PyG's `processed/` copy is not used: a shared data root may be read-only, and processes would overwrite each other.
    """
    raw = root / RAW_FILES[name]
    if not raw.is_file():
        _download(root, collection, name, raw)
    try:
        # An explicit file handle, because numpy leaves its own open if the archive is damaged.
        check_checksums(raw)
        with raw.open("rb") as file, np.load(file) as archive:
            check_array_sizes(archive)
            return parse(archive)
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
