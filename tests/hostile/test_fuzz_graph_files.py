"""Mutated files of graphs and of the cache: refused with a message, computed again, or read as a valid graph."""

import gzip
import random
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from lopgpn_exp.data.files import custom_graph
from lopgpn_exp.graph import Graph
from lopgpn_exp.graph.cache import load_or_compute
from tests.support.binary_mutations import (
    declare_shape,
    mutate_archive,
    mutate_arrays,
    mutate_pyg_file,
    mutate_table,
    to_bytes,
)
from tests.support.fuzzing import Fuzzer
from tests.support.graph_files import EDGES, NODES, pyg_data, write_csv, write_npz
from tests.support.hostile import mutate
from tests.support.mutations import Mutation, mutate_csv


def test_mutated_cache(fuzzer: Fuzzer, tmp_path):
    """A cache file that cannot be read, or is not what was stored, is computed again."""
    arrays = {"values": np.arange(6.0).reshape(2, 3), "indices": np.arange(4)}
    load_or_compute(tmp_path, "cached", lambda: arrays)
    path = tmp_path / "cached.npz"
    original = path.read_bytes()

    def change(rng: random.Random) -> bytes:
        kind = rng.choice((mutate, mutate, mutate_archive, declare_shape, None))
        if kind is not None:
            return kind(original, rng)
        changed = mutate_arrays(arrays, rng)
        return to_bytes(lambda file: np.savez(file, **changed, digest=np.array("0" * 32)))

    def read(content: bytes) -> Any:
        path.write_bytes(content)
        return load_or_compute(tmp_path, "cached", lambda: arrays)

    def is_unchanged(value: Any) -> None:
        assert value.keys() == arrays.keys()
        assert all(np.array_equal(value[key], arrays[key]) for key in arrays)

    fuzzer.run("cache .npz", change, read, check=is_unchanged)


def is_graph(graph: Any) -> None:
    """Check everything that training relies on."""
    assert isinstance(graph, Graph)
    assert graph.features.dtype == torch.float32
    assert bool(torch.isfinite(graph.features.to_dense()).all())
    if graph.edge_index.numel():
        assert 0 <= int(graph.edge_index.min()) <= int(graph.edge_index.max()) < graph.num_nodes
    assert -1 <= int(graph.labels.min()) <= int(graph.labels.max()) < graph.num_classes
    assert len(graph.legend.nodes) == graph.num_nodes
    assert len(graph.legend.features) == graph.num_features


def use_semicolons(content: bytes, rng: random.Random) -> bytes:
    return mutate_csv(content, rng).replace(b",", b";")


def compress(content: bytes, rng: random.Random) -> bytes:
    packed = gzip.compress(mutate_csv(content, rng))
    return mutate(packed, rng) if rng.random() < 0.3 else packed


TABLES: dict[str, tuple[str, Mutation]] = {
    "nodes.csv": (NODES, mutate_csv),
    "edges.csv": (EDGES, mutate_csv),
    "nodes.csv.gz": (NODES, compress),
    "edges.csv.gz": (EDGES, compress),
    "nodes.tsv": (NODES, use_semicolons),
}


@pytest.mark.parametrize("name", TABLES)
def test_mutated_text_table(fuzzer: Fuzzer, tmp_path, name):
    original, change = TABLES[name]
    write_csv(tmp_path)
    kind, path = name.partition(".")[0], tmp_path / name
    files = {"nodes": tmp_path / "nodes.csv", "edges": tmp_path / "edges.csv"} | {kind: path}

    def read(content: bytes) -> Any:
        path.write_bytes(content)
        return custom_graph(path=str(files["nodes"]), edges=str(files["edges"]))

    fuzzer.run(f"graph {name}", lambda rng: change(original.encode(), rng), read, check=is_graph)


@pytest.mark.parametrize("name", ["nodes", "edges"])
def test_mutated_parquet_table(fuzzer: Fuzzer, tmp_path, name):
    for kind, text in (("nodes", NODES), ("edges", EDGES)):
        pd.read_csv(BytesIO(text.encode()), dtype={"id": str}).to_parquet(tmp_path / f"{kind}.parquet")
    path = tmp_path / f"{name}.parquet"
    original = path.read_bytes()

    def read(content: bytes) -> Any:
        path.write_bytes(content)
        return custom_graph(path=str(tmp_path / "nodes.parquet"), edges=str(tmp_path / "edges.parquet"))

    fuzzer.run(f"graph {name}.parquet", lambda rng: mutate_table(original, rng), read, check=is_graph)


@pytest.mark.parametrize("suffix", [".npz", ".pt"])
def test_damaged_graph_file(fuzzer: Fuzzer, tmp_path, suffix):
    """Zip files have checksums of their own, so damage is noticed."""
    path = tmp_path / f"graph{suffix}"
    write_npz(path) if suffix == ".npz" else torch.save(pyg_data(), path)
    original, expected = path.read_bytes(), custom_graph(path=str(path)).fingerprint

    def read(content: bytes) -> Any:
        path.write_bytes(content)
        return custom_graph(path=str(path)).fingerprint

    def is_unchanged(value: Any) -> None:
        assert value == expected

    fuzzer.run(f"graph {suffix}, damaged", lambda rng: mutate(original, rng), read, check=is_unchanged)


def test_hostile_npz_file(fuzzer: Fuzzer, tmp_path):
    path = tmp_path / "graph.npz"
    write_npz(path, node_names=np.array(["a", "b", "c"]), class_names=np.array(["x", "y"]))
    original = path.read_bytes()
    arrays = dict(np.load(path))

    def change(rng: random.Random) -> bytes:
        kind = rng.choice((mutate_archive, declare_shape, None, None))
        if kind is not None:
            return kind(original, rng)
        changed = mutate_arrays(arrays, rng)
        return to_bytes(lambda file: np.savez(file, **changed))

    def read(content: bytes) -> Any:
        path.write_bytes(content)
        return custom_graph(path=str(path))

    fuzzer.run("graph .npz, hostile", change, read, check=is_graph)


def test_hostile_pt_file(fuzzer: Fuzzer, tmp_path):
    path = tmp_path / "graph.pt"
    torch.save(pyg_data(node_id=["a", "b", "c"], class_names=list("abcdef")), path)
    original = path.read_bytes()

    def read(content: bytes) -> Any:
        path.write_bytes(content)
        return custom_graph(path=str(path))

    fuzzer.run("graph .pt, hostile", lambda rng: mutate_pyg_file(original, rng), read, check=is_graph)
