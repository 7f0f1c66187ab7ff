"""Damaged and hostile .npz and .pt files, and splits: the right content or one message, quickly; no code is run."""

import pickle
import struct
import zipfile

import numpy as np
import pytest
import torch

from lopgpn_exp.data import zip_checks
from lopgpn_exp.data.files import custom_graph
from lopgpn_exp.errors import InputError
from tests.support.graph_files import expect_error, pyg_data, time_limit, write_npz


def replace_member(path, name: str, content: bytes, method: int = zipfile.ZIP_DEFLATED) -> None:
    """Write a member of a zip archive again."""
    with zipfile.ZipFile(path) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    key = next(member for member in members if member.endswith(name))
    with zipfile.ZipFile(path, "w", method) as archive:
        for member, old in members.items():
            archive.writestr(member, content if member == key else old)


def npy_header(shape: str, dtype: str = "<f8") -> bytes:
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy_header("(1000000000000,)") + bytes(80), "attr_data.npy has 80 bytes"),
        (npy_header("(10000000000000000000000,)"), "has 0 bytes"),
        (npy_header("(-3,)") + bytes(24), "has shape (-3,)"),
        (npy_header("(3,)", "|O") + pickle.dumps([1, 2, 3]), "cannot be read"),
        (npy_header("(3,)", "<c16") + bytes(48), "attr_data is complex128"),
        (npy_header("(3,)", "<m8[s]") + bytes(24), "attr_data is timedelta64"),
        (npy_header("(3" + ",(" * 40), "cannot be read"),
        (npy_header("(((("), "cannot be read"),
        (b"\x93NUMPY\x09\x00" + bytes(100), "cannot be read"),
        (b"", "cannot be read"),
    ],
    ids=range(10),
)
def test_an_array_that_is_not_what_it_claims_is_one_message(tmp_path, content, message):
    write_npz(tmp_path / "graph.npz")
    replace_member(tmp_path / "graph.npz", "attr_data.npy", content)
    with time_limit():
        expect_error(message, path=str(tmp_path / "graph.npz"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attr_indptr": np.array([0, 3, 1, 3], dtype=np.uint64)}, "attr_indptr does not describe 3 rows"),
        ({"adj_indptr": np.array([0.0, 1.0, 2.0, 2.0])}, "adj_indptr are float64"),
        ({"adj_indices": np.array([1.5, 2.0])}, "adj_indices are float64"),
        ({"attr_indices": np.array([1, 2**63 + 1, 0], dtype=np.uint64)}, "attr_indices range from 0"),
        ({"attr_indices": np.array([[1], [0], [1]])}, "attr_indices are int64 of shape"),
        ({"attr_shape": np.array([3.0, np.inf])}, "attr_shape are float64"),
        ({"attr_shape": np.array([3, -2])}, "the feature matrix is 3 x -2"),
        ({"attr_shape": np.array([3, 2**62])}, "features"),
        ({"attr_shape": np.array([3, 2_000_000])}, "there are 2,000,000 features"),
        ({"attr_shape": np.array([3])}, "cannot be read"),
        ({"labels": np.array([7, 7, 7])}, "all labels are '7'"),
        ({"labels": np.array([-1, -1, -1])}, "and -1 where the class is unknown"),
        ({"attr_data": np.array([1.0, np.nan, 2.0])}, "is nan"),
        ({"node_names": np.array(["a", "\ud800", "c"])}, "'\\ud800'"),
        ({"node_names": np.array(["a", "x" * 5000, "c"])}, "has 5,000 characters"),
        ({"node_names": np.array([b"a", b"\xff", b"c"])}, "cannot be read"),
    ],
    ids=range(16),
)
def test_invalid_arrays_are_one_message(tmp_path, changes, message):
    write_npz(tmp_path / "graph.npz", **changes)
    with time_limit():
        expect_error(message, path=str(tmp_path / "graph.npz"))


def test_a_single_array_that_claims_a_huge_size_is_not_read(tmp_path):
    (tmp_path / "graph.npz").write_bytes(npy_header("(1000000000000,)"))
    expect_error("a single array", path=str(tmp_path / "graph.npz"))


def sparse(*size: int, row: int = 0) -> torch.Tensor:
    """Return a sparse matrix with a single one, whether its row exists or not."""
    return torch.sparse_coo_tensor(torch.tensor([[row], [0]]), torch.ones(1), size, check_invariants=False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": torch.ones(1, 1).expand(10**6, 10**6)}, "can take"),
        ({"x": torch.ones(1, 1).expand(10**5, 300)}, "repeats the same few values"),
        ({"x": sparse(10**6, 10**6)}, "one class for each of 1000000 nodes"),
        ({"x": sparse(3, 2_000_000)}, "there are 2,000,000 features"),
        ({"x": torch.empty(0, 10**12)}, "features"),
        ({"x": sparse(3, 1, row=10**6)}, "cannot be read"),
        ({"x": torch.empty(3, 1, device="meta")}, "cannot be read"),
        ({"x": torch.empty(0, 1)}, "y is (3,)"),
        ({"x": torch.empty(3, 0)}, "no features"),
        ({"x": torch.ones(3, 1, dtype=torch.complex64)}, "x is torch.complex64"),
        ({"edge_index": torch.ones(2, 2, dtype=torch.complex64)}, "with integers"),
        ({"edge_index": torch.tensor([[0, -1], [1, 2]])}, "an edge refers to node -1"),
        ({"edge_index": torch.tensor([[0, 2**64 - 1], [1, 2]], dtype=torch.uint64)}, "an edge refers to node -1"),
        ({"edge_index": torch.zeros(2, 1, dtype=torch.long).expand(2, 10**9)}, "edge_index"),
        ({"y": torch.tensor([0.0, -0.5, 1.0])}, "y contains fractions"),
        ({"y": torch.tensor([0.0, -torch.inf, 1.0])}, "y contains fractions or infinity"),
        ({"y": torch.ones(3, dtype=torch.complex64)}, "y is torch.complex64"),
        ({"y": torch.tensor([4, 4, 4])}, "all labels are '4'"),
        ({"class_names": ["\ud800", "b", "c", "d", "e", "f"]}, "'\\ud800'"),
        ({"node_id": ["a", "b", "c" * 10**6]}, "has 1,000,000 characters"),
    ],
    ids=range(20),
)
def test_invalid_tensors_are_one_message(tmp_path, changes, message):
    torch.save({**pyg_data().to_dict(), **changes}, tmp_path / "graph.pt")
    with time_limit():
        assert len(str(expect_error(message, path=str(tmp_path / "graph.pt")))) < 3000


def test_an_archive_that_expands_too_far_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(zip_checks, "ALWAYS_ALLOWED_BYTES", 2**20)
    torch.save(pyg_data().to_dict(), tmp_path / "graph.pt")
    write_npz(tmp_path / "graph.npz")
    for name, member in (("graph.pt", "data/0"), ("graph.npz", "attr_data.npy")):
        replace_member(tmp_path / name, member, bytes(10**7))
        expect_error("bytes expand to 10,00", path=str(tmp_path / name))
        expect_error("bytes expand to 10,00", path=str(tmp_path / name), memory_limit_gib=1000.0)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("name", ["graph.pt", "graph.npz"])
def test_damage_in_any_kind_of_archive_never_changes_a_number(tmp_path, name, method):
    """Each changed bit is a message, or in a place that is not read."""
    path = tmp_path / name
    torch.save(pyg_data().to_dict(), path) if name.endswith(".pt") else write_npz(path)
    expected = custom_graph(path=str(path)).fingerprint
    member = "data/0" if name.endswith(".pt") else "labels.npy"
    unusual = tmp_path / f"unusual-{name}"
    unusual.write_bytes(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        content = next(archive.read(info) for info in archive.infolist() if info.filename.endswith(member))
    replace_member(unusual, member, content, method)
    random, num_errors = np.random.default_rng(method), 0
    for source in [path] * 75 + [unusual] * 25:
        data = bytearray(source.read_bytes())
        position = int(random.integers(len(data)))
        data[position] ^= 1 << int(random.integers(8))
        changed = tmp_path / f"changed{path.suffix}"
        changed.write_bytes(data)
        try:
            assert custom_graph(path=str(changed), memory_limit_gib=1.0).fingerprint == expected
        except InputError:
            num_errors += 1
    assert num_errors > 25


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["split.test=0", "split.val=0.95"], "no nodes for testing"),
        (["split.train=0", "split.test=0.85"], "no nodes for training"),
        (["split.val=0", "split.test=0.95"], "no nodes for validation"),
        (["split.test=nan"], "= nan"),
        (["split.test=-0.2", "split.train=1.05"], "no negative fraction"),
        (["split.train=0.9"], "a sum of 1"),
    ],
)
def test_a_split_without_nodes_for_a_part_is_refused(command, words, message):
    code, _, stderr = command("tracking=none", "split=random", "dataset=digits", *words)
    assert code == 2
    assert message in stderr
    assert "Traceback" not in stderr
