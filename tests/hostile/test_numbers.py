"""Numbers do not move silently: not by a flipped bit in a file, nor by the threads that a machine happens to use."""

import json
import logging
import os
import random
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor
from threadpoolctl import threadpool_info, threadpool_limits

from lopgpn_exp.data.datasets import ogb_node
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph.cache import load_or_compute
from lopgpn_exp.models.gp.spectrum import laplacian_spectrum
from lopgpn_exp.paper.runs_file import METADATA_KEY, load_runs, merge_runs
from lopgpn_exp.records import RunResult
from lopgpn_exp.threads import limit_threads
from tests.support import SMALL, TINY, run_tiny
from tests.support.graph_files import write_ogb_files
from tests.support.processes import run_program
from tests.support.published_runs import published_results, save_published, save_results

NUM_FLIPS = max(400, int(os.environ.get("LOPGPN_FUZZ", "0")))
MATERN = ["model=matern_ggp", *SMALL["matern_ggp"]]


def flip_bits(content: bytes, count: int, *, seed: int = 0) -> list[bytes]:
    """Return `count` copies of a file, each with another random bit flipped."""
    rng = random.Random(seed)
    copies = []
    for position in rng.sample(range(8 * len(content)), count):
        copy = bytearray(content)
        copy[position // 8] ^= 1 << position % 8
        copies.append(bytes(copy))
    return copies


def test_no_flipped_bit_of_runs_parquet_changes_a_number(tmp_path):
    path = tmp_path / "runs.parquet"
    save_results(path, published_results(datasets=("cora_ml",))[:4])
    expected, refused = load_runs(path), 0
    for content in flip_bits(path.read_bytes(), NUM_FLIPS):
        path.write_bytes(content)
        try:
            runs = load_runs(path)
        except InputError:
            refused += 1
            continue
        assert runs.results.equals(expected.results)
        assert runs.curves.equals(expected.curves)
        assert runs.notes == expected.notes
    assert refused > 0.6 * NUM_FLIPS  # the others hit bytes without meaning, such as the statistics of a column


def change_cell(table: pa.Table) -> pa.Table:
    position = table.column_names.index("id/accuracy")
    values = [0.5, *table.column(position).to_pylist()[1:]]
    return table.set_column(position, "id/accuracy", pa.array(values, pa.float64()))


def swap_columns(table: pa.Table) -> pa.Table:
    swapped = {"ood/auroc/tu": "ood/auroc/eu", "ood/auroc/eu": "ood/auroc/tu"}
    renamed = table.rename_columns([swapped.get(name, name) for name in table.column_names])
    return renamed.replace_schema_metadata(table.schema.metadata)


def change_notes(table: pa.Table) -> pa.Table:
    metadata = table.schema.metadata
    notes = json.dumps(json.loads(metadata[METADATA_KEY]) | {"left_out": {"pubmed": "lost"}})
    return table.replace_schema_metadata(metadata | {METADATA_KEY: notes})


@pytest.mark.parametrize("change", [change_cell, swap_columns, change_notes, lambda table: table.slice(1)])
def test_content_that_does_not_match_its_digest_is_refused(tmp_path, change):
    """The page checksums of these files are right."""
    path = tmp_path / "runs.parquet"
    save_published(path, datasets=("cora_ml",))
    pq.write_table(change(pq.read_table(path)), path, write_page_checksum=True)
    with pytest.raises(InputError, match="wrong checksum"):
        load_runs(path)
    with pytest.raises(InputError, match="wrong checksum"):
        merge_runs(tmp_path / "ours.parquet", path)
    assert not (tmp_path / "ours.parquet").exists()


def test_a_damaged_runs_parquet_is_one_message(tmp_path, command):
    path = tmp_path / "outputs" / "reproduction" / "runs.parquet"
    save_published(path, datasets=("cora_ml",))
    content = bytearray(path.read_bytes())
    content[500:520] = bytes(20)
    path.write_bytes(content)
    code, _, err = command("reproduce", "--report")
    assert code == 2
    assert "runs.parquet cannot be read" in err
    assert "Traceback" not in err
    assert path.read_bytes() == content


def test_a_file_without_a_digest_is_read_with_a_warning(tmp_path, caplog):
    """Earlier versions wrote none."""
    path = tmp_path / "runs.parquet"
    save_published(path, datasets=("cora_ml",))
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({METADATA_KEY: table.schema.metadata[METADATA_KEY]}), path)
    for _ in range(2):
        assert len(load_runs(path).results) == 24
    assert [record.message for record in caplog.records] == [
        f"{path} has no checksum (written by an earlier version): damage to it would go unnoticed"
    ]


ARRAYS = {"values": np.linspace(0, 1, 12).reshape(3, 4), "vectors": np.arange(12.0).reshape(3, 4)}


def test_no_flipped_bit_of_a_cache_file_changes_an_array(tmp_path, caplog):
    caplog.set_level(logging.CRITICAL)
    path = tmp_path / "spectrum.npz"
    load_or_compute(tmp_path, "spectrum", lambda: ARRAYS)
    original, recomputed = path.read_bytes(), 0

    def compute():
        nonlocal recomputed
        recomputed += 1
        return ARRAYS

    for content in flip_bits(original, max(500, NUM_FLIPS)):
        path.write_bytes(content)
        arrays = load_or_compute(tmp_path, "spectrum", compute)
        assert arrays.keys() == ARRAYS.keys()
        for name, array in ARRAYS.items():
            assert (arrays[name].dtype, arrays[name].tobytes()) == (array.dtype, array.tobytes())
    assert recomputed > 250


def write_entry(path: Path, header: bytes, *, compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("values.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(80))


HOSTILE_CACHES = {
    "swapped names": lambda path: rename_entries(path, {"values": "vectors", "vectors": "values"}),
    "a new name": lambda path: rename_entries(path, {"values": "values2"}),
    "a huge shape": lambda path: write_entry(
        path, b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,), }\n"
    ),
    "a deep header": lambda path: write_entry(path, b"(" * 9000 + b")" * 900),
    "objects": lambda path: np.savez(path, values=np.array([{}, []], dtype=object)),
    "compressed": lambda path: np.savez_compressed(path, **load_archive(path)),
    "no digest": lambda path: np.savez(path, **ARRAYS),
    "not a zip": lambda path: path.write_bytes(b"PK"),
}


def load_archive(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as archive:
        return dict(archive)


def rename_entries(path: Path, names: dict[str, str]) -> None:
    """Rename arrays, and keep the digest of the file."""
    np.savez(path, **{names.get(name, name): array for name, array in load_archive(path).items()})


@pytest.mark.parametrize("kind", HOSTILE_CACHES)
def test_a_hostile_cache_file_is_recomputed(tmp_path, kind, caplog):
    load_or_compute(tmp_path, "spectrum", lambda: ARRAYS)
    HOSTILE_CACHES[kind](tmp_path / "spectrum.npz")
    assert load_or_compute(tmp_path, "spectrum", lambda: ARRAYS) is ARRAYS
    (record,) = caplog.records
    assert "recomputing its content" in record.message


@pytest.mark.filterwarnings("ignore")  # raised by OGB itself
def test_a_damaged_copy_of_ogb_is_refused(tmp_path):
    """OGB parses the raw files once and reads the copy from then on. torch does not check the copy."""
    folder = write_ogb_files(tmp_path)
    fingerprint = ogb_node(root=tmp_path).fingerprint
    copy = folder / "processed" / "geometric_data_processed.pt"
    content = copy.read_bytes()
    features = content.index(np.float32(-1).tobytes())
    for damaged in [*flip_bits(content, 20), content[:features] + b"\x01" + content[features + 1 :]]:
        copy.write_bytes(damaged)
        with suppress(InputError):
            assert ogb_node(root=tmp_path).fingerprint == fingerprint
        assert copy.read_bytes() == damaged
    with pytest.raises(InputError, match=r"geometric_data_processed\.pt is damaged") as caught:
        ogb_node(root=tmp_path)
    assert f"rm '{copy}'" in str(caught.value)
    copy.unlink()
    assert ogb_node(root=tmp_path).fingerprint == fingerprint


def read_numbers(folder: Path) -> tuple[object, ...]:
    """Return everything that a run computes, exactly."""
    result = RunResult.from_json(json.loads((folder / "result.json").read_text()))
    predictions = pd.read_parquet(folder / "predictions.parquet")
    return result.run_id, result.epochs, result.metrics, result.curves, predictions.to_csv()


def test_matern_ggp_does_not_depend_on_the_threads_of_blas(tmp_path, monkeypatch):
    """In this process, in a worker of joblib, and in a process whose environment asks for two threads."""
    numbers = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            numbers.append(read_numbers(run_tiny(tmp_path / str(threads), *MATERN).folder))
            assert {library["num_threads"] for library in threadpool_info()} == {threads}  # restored
    assert numbers[0] == numbers[1]
    worker = Parallel(n_jobs=2)(delayed(run_tiny)(folder, *MATERN) for folder in [tmp_path / "joblib"])
    get_reusable_executor().shutdown()
    assert read_numbers(worker[0].folder) == numbers[0]
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    code, output, _ = run_program(tmp_path, *TINY, *MATERN, f"output_dir={tmp_path / 'single'}")
    assert code == 0, output
    assert read_numbers(tmp_path / "single" / "runs" / str(numbers[0][0])) == numbers[0]


def test_the_cached_spectrum_belongs_to_a_number_of_threads(tmp_path, small_graph):
    """Otherwise a run with two threads would decide the last bits of later runs with one."""
    for threads in (1, 2):
        with limit_threads(threads):
            laplacian_spectrum(small_graph, num_eigenpairs=20, cache_dir=tmp_path)
    assert len(list(tmp_path.glob("spectrum-*.npz"))) == 2


def test_threads_are_restored_after_an_error():
    before = torch.get_num_threads()
    with threadpool_limits(2):
        with suppress(ZeroDivisionError), limit_threads(1):
            assert {library["num_threads"] for library in threadpool_info()} == {1}
            raise ZeroDivisionError
        assert {library["num_threads"] for library in threadpool_info()} == {2}
    assert torch.get_num_threads() == before
