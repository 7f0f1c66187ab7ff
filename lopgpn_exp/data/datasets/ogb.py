"""ogbn-arxiv, read by OGB's loader, with its official time split."""

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int8
from torch import Tensor

from lopgpn_exp.data.root import lock_download, unreadable_file_error
from lopgpn_exp.data.safe_load import READ_ERRORS, allow_pyg_data
from lopgpn_exp.data.zip_checks import check_checksums
from lopgpn_exp.errors import InputError, check_parameter
from lopgpn_exp.graph import Graph, Part

FEATURE_FILE = Path("raw/node-feat.csv.gz")
OFFICIAL_PARTS = {"train": Part.TRAIN, "valid": Part.VAL, "test": Part.TEST}


def ogb_node(*, root: Path, collection_name: str = "ogbn-arxiv") -> Graph:
    """Return a node classification graph of OGB: undirected, features unchanged, with its official split.

    If only the file of the features is missing, the graph has none: models that use no features work.
    """
    check_parameter(
        "collection_name",
        collection_name,
        re.fullmatch(r"ogbn-\w+", collection_name) is not None,
        expected="a dataset of OGB for node classification",
        suggestion="ogbn-arxiv",
    )
    folder = root / "ogb" / collection_name.replace("-", "_")
    if not (folder / "raw" / "edge.csv.gz").is_file() and not (folder / "processed").is_dir():
        with lock_download(collection_name, folder / "raw" / "edge.csv.gz", root):
            _open(collection_name, folder)
    if not (folder / FEATURE_FILE).is_file() and not (folder / "processed").is_dir():
        return _read_without_features(folder)
    _check_parsed_copies(folder)
    try:
        with warnings.catch_warnings():  # OGB builds tensors from read-only arrays of pandas, but only reads them
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            dataset = _open(collection_name, folder)
            indices = dataset.get_idx_split()
    except PermissionError as error:
        raise _not_writable_error(folder, error) from None
    except READ_ERRORS as error:
        raise unreadable_file_error(folder, error) from None
    data = dataset[0]
    return Graph.build(
        features=data.x,
        edge_index=data.edge_index,
        labels=data.y.flatten(),
        num_classes=dataset.num_classes,
        official_part=_assign_parts(indices, data.num_nodes),
    )


def _read_without_features(folder: Path) -> Graph:
    """Read the raw files of a graph as OGB does, except that of the features."""

    def read(name: str) -> Tensor:
        path = folder / f"{name}.csv.gz"
        try:
            return torch.from_numpy(pd.read_csv(path, header=None).to_numpy(dtype=np.int64, copy=True))
        except READ_ERRORS as error:
            raise unreadable_file_error(path, error) from None

    labels = read("raw/node-label").flatten()
    split_folder = next(iter(sorted(folder.glob("split/*/"))), folder / "split" / "time")
    indices = {name: read(f"split/{split_folder.name}/{name}").flatten() for name in OFFICIAL_PARTS}
    try:
        return Graph.build(
            features=torch.zeros(len(labels), 1),
            edge_index=read("raw/edge").T,
            labels=labels,
            official_part=_assign_parts(indices, len(labels)),
            missing_features=folder / FEATURE_FILE,
        )
    except IndexError as error:  # a node of the split does not exist
        raise unreadable_file_error(split_folder, error) from None


def _assign_parts(indices: Mapping[str, Any], num_nodes: int) -> Int8[Tensor, " nodes"]:
    part = torch.full((num_nodes,), Part.NONE, dtype=torch.int8)
    for name, value in OFFICIAL_PARTS.items():
        part[torch.as_tensor(indices[name])] = value
    return part


def _open(name: str, folder: Path) -> Any:
    """Open a dataset of OGB without prompts on stdin, and with torch's safe loading.

    OGB 1.3.6 calls `torch.load` without arguments, and torch >= 2.6 then refuses the PyG `Data` in its processed file.
    """
    from ogb.nodeproppred import PygNodePropPredDataset  # deferred import: slow, and only this dataset needs it

    if folder.is_dir() and not any(folder.glob("RELEASE_v*.txt")):
        # Without this file, OGB asks whether to download the dataset again.
        try:
            (folder / "RELEASE_v1.txt").touch()
        except OSError as error:
            raise _not_writable_error(folder, error) from None
    with allow_pyg_data(), patch("builtins.input", _refuse_prompt):
        return PygNodePropPredDataset(name, root=str(folder.parent))


def _check_parsed_copies(folder: Path) -> None:
    """Raise an InputError if a file that OGB stored with torch is damaged: neither of them would notice."""
    for file in [*folder.glob("processed/geometric_data_processed.pt"), *folder.glob("split/*/split_dict.pt")]:
        try:
            check_checksums(file)
        except READ_ERRORS as error:
            raise InputError(
                f"{file} is damaged ({type(error).__name__}: {str(error)[:200]})",
                expected="the copy of the raw files that OGB wrote",
                hint=f"delete it, and OGB makes it again from the raw files: rm '{file}'",
            ) from None


def _not_writable_error(folder: Path, error: OSError) -> InputError:
    return InputError(
        f"{folder} cannot be written ({error.strerror})",
        expected="a writable folder, because OGB stores its parsed copy next to the raw files: "
        "copy the data to another data root",
        parameter="data_root",
        suggestion="FOLDER",
    )


def _refuse_prompt(prompt: str = "") -> str:
    raise OSError(f"OGB asked: {prompt.strip()}")
