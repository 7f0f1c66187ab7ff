"""A full disk: a small tmpfs. `make test-services` runs it; it needs root."""

import os
import subprocess
import sys

import pytest

from lopgpn_exp.runs.table import load_results
from tests.support import TINY

pytestmark = pytest.mark.skipif(os.environ.get("LOPGPN_SERVICES") != "1", reason="make test-services runs this")


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("filled_kib", [0, 120, 220, 256])
def test_full_disk_is_one_message_and_leaves_no_result(small_disk, filled_kib):
    """Whether the disk is full when the caches, the checkpoint or the results are written."""
    command = [sys.executable, "-m", "lopgpn_exp", *TINY, f"output_dir={small_disk}/outputs"]
    if filled_kib:
        (small_disk / "filler").write_bytes(b"x" * (filled_kib * 1024))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0 and filled_kib < 256:
        assert len(load_results(small_disk / "outputs")) == 1
        return
    assert done.returncode == 2, done.stderr
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr
    assert load_results(small_disk / "outputs").empty
    (small_disk / "filler").unlink(missing_ok=True)
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    subprocess.run(command, check=True, capture_output=True)
    assert len(load_results(small_disk / "outputs")) == 1
