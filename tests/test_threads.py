"""How many threads a kernel uses, and the memory that epochs reuse."""

import platform
import resource
import subprocess
import sys

import joblib
import pytest

from lopgpn_exp.records import Attempt, Job
from lopgpn_exp.sweeps import executors
from lopgpn_exp.threads import MANY_BLOCKS, MAX_THREADS, count_threads, limit_cores, limit_threads


def test_many_blocks_use_all_free_cores_and_few_blocks_the_threads_of_torch():
    with limit_threads(2):
        assert [count_threads(blocks) for blocks in (0, 1, 2, MANY_BLOCKS - 1)] == [1, 1, 2, 2]
        with limit_cores(5):
            assert count_threads(MANY_BLOCKS) == 5
        with limit_cores(1):
            assert count_threads(MANY_BLOCKS) == 2
        with limit_cores(1000):
            assert count_threads(MANY_BLOCKS) == MAX_THREADS
    with limit_threads(1):
        assert count_threads(MANY_BLOCKS) == min(joblib.cpu_count(), MAX_THREADS)


def test_worker_of_a_sweep_uses_one_core(monkeypatch):
    counts = []

    def attempt_job(job):
        counts.append(count_threads(MANY_BLOCKS))
        return Attempt(job, 0.0)

    monkeypatch.setattr(executors, "attempt_job", attempt_job)
    job = Job.__new__(Job)
    with limit_threads(1), limit_cores(3):
        executors.attempt_jobs([job])
        list(executors.execute_serially([[job]]))
    assert counts == [1, 3]


MEASURE_REUSE = """
import resource, torch
from lopgpn_exp.training.allocation import keep_freed_memory

def count_page_faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.zeros(2**24)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def count_pages():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])

with keep_freed_memory():
    count_page_faults()  # glibc puts aside the first few remainders that alignment leaves between tensors
    faults, kept = count_page_faults(), count_pages()
print(faults, kept - count_pages())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="an option of glibc")
def test_freed_memory_is_reused_inside_the_context_and_returned_on_exit():
    """Ten tensors of 64 MB, each freed before the next. In a process of its own, whose heap has no gaps yet."""
    done = subprocess.run([sys.executable, "-c", MEASURE_REUSE], capture_output=True, text=True, check=True)
    faults, returned = map(int, done.stdout.split())
    pages = 2**26 // resource.getpagesize()
    assert faults < pages
    assert returned >= pages
