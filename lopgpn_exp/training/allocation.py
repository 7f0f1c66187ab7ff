"""Reuse of freed memory between epochs, which allocate the same large tensors again and again."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

# Options of glibc's `mallopt` (malloc.h), and the default values.
TRIM_THRESHOLD, DEFAULT_TRIM_THRESHOLD = -1, 2**17
MMAP_MAX, DEFAULT_MMAP_MAX = -4, 2**16
LARGEST = 2**31 - 1  # of an option


@contextmanager
def keep_freed_memory() -> Iterator[None]:
    """Keep freed memory for the next allocation inside the context, and return it to the system on exit.

    glibc returns tensors of more than 32 MB to the system as soon as they are freed, and the system clears each page of
    the next one: on a graph with a million nodes, a fifth of an epoch. Other C libraries are left alone.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt") or not hasattr(library, "malloc_trim"):
        yield
        return
    library.mallopt(MMAP_MAX, 0)
    library.mallopt(TRIM_THRESHOLD, LARGEST)
    try:
        yield
    finally:
        library.mallopt(MMAP_MAX, DEFAULT_MMAP_MAX)
        library.mallopt(TRIM_THRESHOLD, DEFAULT_TRIM_THRESHOLD)
        library.malloc_trim(0)
