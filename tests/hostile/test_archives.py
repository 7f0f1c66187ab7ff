"""Zip files of packed runs: bombs, damage, encryption and names that are paths."""

import json
import shutil
import struct
import zipfile
from pathlib import Path

import pytest

from lopgpn_exp.errors import InputError
from lopgpn_exp.runs.archive import pack_runs, unpack_runs
from lopgpn_exp.runs.checksums import write_checksums
from tests.support.binary_mutations import mutate_archive
from tests.support.fuzzing import Fuzzer
from tests.support.hostile import mutate
from tests.support.random_runs import random_run, save_run


@pytest.fixture
def packed(tmp_path) -> Path:
    """Return an archive with one run, which has a config so that it is complete."""
    folder = save_run(tmp_path / "made", random_run())
    (folder / "config.yaml").write_text("{}\n")
    write_checksums(folder)
    pack_runs(tmp_path / "runs.zip", tmp_path / "made", [folder.name])
    return tmp_path / "runs.zip"


def rewrite(archive: Path, changes: dict[str, bytes], **options: object) -> Path:
    """Write a copy of an archive in which some files have other content."""
    target = archive.with_name("changed.zip")
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(target, "w", **options) as sink:
        (run_id,) = {name.partition("/")[0] for name in source.namelist()}
        contents = {name: source.read(name) for name in source.namelist()}
        for name, content in (contents | {f"{run_id}/{key}": value for key, value in changes.items()}).items():
            sink.writestr(name, content)
    return target


def test_packed_run_is_extracted_as_it_was(packed, tmp_path):
    assert unpack_runs(packed, tmp_path / "other") == (1, 0)
    (made,), (extracted,) = ((tmp_path / name / "runs").glob("[!.]*") for name in ("made", "other"))
    assert made.name == extracted.name
    assert {p.name: p.read_bytes() for p in made.iterdir()} == {p.name: p.read_bytes() for p in extracted.iterdir()}
    assert unpack_runs(packed, tmp_path / "other") == (0, 1)


def test_bomb_is_refused_before_it_is_extracted(command, packed):
    """20 MB of zeros, which take 20 KB in the archive."""
    bomb = rewrite(packed, {"page.html": bytes(20 * 2**20)}, compression=zipfile.ZIP_DEFLATED)
    assert bomb.stat().st_size < 2**20
    code, _, err = command("results", "--unpack", str(bomb), "--max-gib", "0.01")
    assert code == 2
    assert "would take 0.02 GiB" in err
    assert "--max-gib 1" in err
    assert not list(Path("outputs").glob("runs/*"))


def test_archive_that_expands_too_far_is_refused_whatever_the_limit(packed, tmp_path):
    """100 MB of zeros, which take 100 KB in the archive."""
    bomb = rewrite(packed, {"page.html": bytes(100 * 2**20)}, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(InputError, match=r"would take 0\.10 GiB, [\d,]+ times its own size"):
        unpack_runs(bomb, tmp_path / "other", limit_gib=100)
    assert not list((tmp_path / "other").glob("runs/*"))


def test_files_that_the_run_did_not_write_are_not_packed(packed, tmp_path):
    (folder,) = (tmp_path / "made" / "runs").glob("[!.]*")
    (folder / "notes.txt").write_text("mine")
    pack_runs(tmp_path / "again.zip", tmp_path / "made", [folder.name])
    with zipfile.ZipFile(packed) as first, zipfile.ZipFile(tmp_path / "again.zip") as second:
        assert first.namelist() == second.namelist()
    (folder / "predictions.parquet").write_bytes(b"damaged")
    with pytest.raises(InputError, match=r"predictions\.parquet cannot be read"):
        pack_runs(tmp_path / "damaged.zip", tmp_path / "made", [folder.name])
    assert not (tmp_path / "damaged.zip").exists()


def test_file_that_is_larger_than_declared_is_refused(packed, tmp_path):
    bomb = rewrite(packed, {"page.html": b"x" * 10_000}, compression=zipfile.ZIP_DEFLATED)
    content = bytearray(bomb.read_bytes())
    size = struct.pack("<L", 10_000)
    position = content.find(size)
    while position >= 0:  # in the local header and in the central directory
        content[position : position + 4] = struct.pack("<L", 10)
        position = content.find(size)
    bomb.write_bytes(content)
    with pytest.raises(InputError, match="cannot be read"):
        unpack_runs(bomb, tmp_path / "other")
    assert not list((tmp_path / "other").glob("runs/*"))


def test_encrypted_archive_is_one_message(packed, tmp_path):
    content = bytearray(packed.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # the bit that marks a file as encrypted
        position = content.find(signature)
        while position >= 0:
            content[position + offset] |= 1
            position = content.find(signature, position + 1)
    packed.write_bytes(content)
    with pytest.raises(InputError, match="encrypted"):
        unpack_runs(packed, tmp_path / "other")


def test_unknown_compression_is_one_message(packed, tmp_path):
    content = bytearray(packed.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        position = content.find(signature)
        content[position + offset : position + offset + 2] = struct.pack("<H", 97)
    packed.write_bytes(content)
    with pytest.raises(InputError, match="cannot be read"):
        unpack_runs(packed, tmp_path / "other")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_are_read(packed, tmp_path, method):
    assert unpack_runs(rewrite(packed, {}, compression=method), tmp_path / "other") == (1, 0)


@pytest.mark.parametrize(
    "name",
    [
        *("../evil", "/etc/passwd", "a/../b", "a\\..\\b", ".hidden/x", "a/.hidden", "a/", "a", "a/b/c", "C:/x"),
        "a/\x1b[2J",
        *("a/numexpr.py", "a/x.so", "a/x.pth", "a/x.pkl"),  # what a program started in this folder might import or run
    ],
)
def test_name_that_is_not_a_file_of_a_run_is_refused(packed, tmp_path, name):
    with zipfile.ZipFile(packed, "a") as archive:
        archive.writestr(name, b"")
    with pytest.raises(InputError, match="contains"):
        unpack_runs(packed, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_file_that_occurs_twice_is_refused(packed, tmp_path):
    with zipfile.ZipFile(packed, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr(archive.namelist()[0], b"")
    with pytest.raises(InputError, match="contains"):
        unpack_runs(packed, tmp_path / "other")


def test_large_files_are_compared_with_their_checksums_piece_by_piece(packed, tmp_path, monkeypatch):
    """The content of an archive may be larger than the memory."""
    read_bytes = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read_bytes(path) if path.suffix != ".parquet" else None)
    assert unpack_runs(packed, tmp_path / "other") == (1, 0)


def test_result_of_unusual_size_is_refused_before_it_is_parsed(packed, tmp_path, monkeypatch):
    monkeypatch.setattr("lopgpn_exp.runs.run_folder.MAX_RESULT_BYTES", 100)
    with pytest.raises(InputError, match=r"it has [\d,]+ bytes"):
        unpack_runs(packed, tmp_path / "other")


def test_changed_file_is_refused(packed, tmp_path):
    """A zip file has checksums of its own; these are the checksums of the run."""
    with pytest.raises(InputError, match="differs from its checksum"):
        unpack_runs(rewrite(packed, {"predictions.parquet": b"other"}), tmp_path / "other")
    result = json.dumps(random_run(split=1).result.to_json()).encode()
    with pytest.raises(InputError, match="damaged run"):
        unpack_runs(rewrite(packed, {"result.json": result}), tmp_path / "other")
    with pytest.raises(InputError, match="SHA256SUMS"):
        unpack_runs(rewrite(packed, {"SHA256SUMS": b""}), tmp_path / "other")
    assert not list((tmp_path / "other").glob("runs/*"))


@pytest.mark.parametrize(("kind", "change"), [("damaged", mutate), ("hostile", mutate_archive)])
def test_mutated_archives_are_refused_or_extracted_unchanged(fuzzer: Fuzzer, packed, tmp_path, kind, change):
    """A hostile archive has valid checksums of its own, but those of the run show what was changed."""
    (made,) = (tmp_path / "made" / "runs").glob("[!.]*")
    original, content = {path.name: path.read_bytes() for path in made.iterdir()}, packed.read_bytes()
    other, archive = tmp_path / "other", tmp_path / "mutated.zip"

    def extract(mutated: bytes) -> list[Path]:
        shutil.rmtree(other, ignore_errors=True)
        archive.write_bytes(mutated)
        try:
            unpack_runs(archive, other)
        except InputError:  # the runs before the wrong one stay
            are_unchanged(list(other.glob("runs/*")))
            raise
        return list(other.glob("runs/*"))

    def are_unchanged(folders: list[Path]) -> None:
        for folder in folders:
            found = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "SHA256SUMS"}
            assert found.items() <= original.items()

    are_unchanged(extract(content))
    fuzzer.run(f"zip, {kind}", lambda rng: change(content, rng), extract, check=are_unchanged)
