"""ogbn-arxiv by OGB's own loader, with its official time split."""

import warnings
from pathlib import Path
from pickle import UnpicklingError
from unittest.mock import patch

import torch

from lopgpn_exp.data.root import fetching, unreadable
from lopgpn_exp.data.safe_load import pyg_data_allowed
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph, Part


def ogb_node(*, root: Path, collection_name: str = "ogbn-arxiv") -> Graph:
    """A node-classification graph of OGB: made undirected, features as they are, official split attached."""
    folder = root / "ogb" / collection_name.replace("-", "_")
    if not (folder / "raw" / "edge.csv.gz").is_file() and not (folder / "processed").is_dir():
        with fetching(collection_name, folder / "raw" / "edge.csv.gz", root):
            _open(root, collection_name)
    try:
        with warnings.catch_warnings():  # OGB makes tensors of what pandas lends it read-only, and only reads them
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            dataset = _open(root, collection_name)
            indices = dataset.get_idx_split()
    except PermissionError as error:
        raise InputError(
            f"{folder} cannot be written ({error.strerror})",
            expected="a writable folder: OGB keeps its parsed copy beside the raw files",
            hint="copy the data to a root of your own and name it: data_root=FOLDER",
        ) from None
    except (OSError, ValueError, KeyError, IndexError, EOFError, RuntimeError, UnpicklingError) as error:
        raise unreadable(folder, error) from None
    data = dataset[0]
    part = torch.full((data.num_nodes,), Part.NONE, dtype=torch.int8)
    for name, value in {"train": Part.TRAIN, "valid": Part.VAL, "test": Part.TEST}.items():
        part[torch.as_tensor(indices[name])] = value
    return Graph.build(
        features=data.x,
        edge_index=data.edge_index,
        labels=data.y.flatten(),
        num_classes=dataset.num_classes,
        official_part=part,
    )


def _open(root: Path, name: str):
    """OGB's dataset, kept from asking questions on stdin and from failing on torch's safe loading.

    OGB 1.3.6 calls `torch.load` plainly, and torch >= 2.6 then only admits allow-listed classes: the parts of a PyG
    `Data`, which OGB's processed file holds, are allowed here.
    """
    from ogb.nodeproppred import PygNodePropPredDataset

    folder = root / "ogb" / name.replace("-", "_")
    if folder.is_dir() and not any(folder.glob("RELEASE_v*.txt")):
        # OGB would ask on stdin whether to download again; a folder put there by hand is what we were told to use.
        _mark_release(folder)
    with pyg_data_allowed(), patch("builtins.input", _no_question):
        return PygNodePropPredDataset(name, root=str(root / "ogb"))


def _mark_release(folder: Path) -> None:
    try:
        (folder / "RELEASE_v1.txt").touch()
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written ({error.strerror})",
            expected="a writable folder: OGB keeps its parsed copy beside the raw files",
            hint="copy the data to a root of your own and name it: data_root=FOLDER",
        ) from None


def _no_question(prompt: str = "") -> str:
    raise OSError(f"OGB asked: {prompt.strip()}")
