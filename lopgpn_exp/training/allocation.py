"""Reuse of freed memory between epochs, which allocate the same large tensors again and again."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Options of glibc's `mallopt` (malloc.h).
TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4
LARGEST = 2**31 - 1  # of an option
# The first call of `mallopt` ends glibc's dynamic thresholds; these are the values they reach once a large tensor has
# been freed.
ADJUSTED = {MMAP_MAX: 2**16, MMAP_THRESHOLD: 2**25, TRIM_THRESHOLD: 2**26}


@contextmanager
def keep_freed_memory() -> Iterator[None]:
    """Keep freed memory for the next allocation inside the context, and return it to the system on exit.

    glibc returns tensors of more than 32 MB to the system as soon as they are freed, and the system clears each page of
    the next one: on a graph with a million nodes, a fifth of an epoch. Other C libraries are left alone.
    """
    if sys.platform != "linux" or not hasattr(library := ctypes.CDLL(None), "mallopt"):
        yield
        return
    library.mallopt(MMAP_MAX, 0)
    library.mallopt(TRIM_THRESHOLD, LARGEST)
    try:
        yield
    finally:
        for option, value in ADJUSTED.items():
            library.mallopt(option, value)
        library.malloc_trim(0)
