"""The memory of a process, which runs record."""

import sys

import numpy as np
import pytest

from lopgpn_exp.runs.machine import peak_rss_mb, reset_peak_rss


@pytest.mark.skipif(sys.platform != "linux", reason="other systems cannot reset it")
def test_the_peak_counts_from_its_reset():
    reset_peak_rss()
    before = peak_rss_mb()
    block = np.ones(2**25)  # 256 MiB, touched
    assert peak_rss_mb() >= before + 200
    del block
    assert peak_rss_mb() >= before + 200
    reset_peak_rss()
    assert peak_rss_mb() < before + 100
