"""Numba, set up once for every kernel of the package, and threads to run kernels in.

Imported by name where a kernel lives, and kernels where they are used: numba's import takes as long as a short run.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from numba import njit


def compiled(function: Callable) -> Callable:
    """Numba's compiler; sums are done as they are written."""
    return _compiled(function)


def compiled_for_speed(function: Callable) -> Callable:
    """The same, with sums reordered to fill vector registers.

    In the same way each time, so that a machine gives the same bits again; infinities and NaN keep their meaning.
    """
    return _compiled(function, fastmath={"contract", "reassoc", "nsz", "arcp"})


def _compiled(function: Callable, **options: Any) -> Callable:
    """The result is kept on disk, so that only the first process ever compiles."""
    bare = inspect.unwrap(function)  # the shape checker of the tests wraps every function of the package
    options |= {"nogil": True, "error_model": "numpy"}
    try:
        return njit(cache=True, **options)(bare)
    except RuntimeError:  # neither the package's folder nor the user's can be written: each process compiles
        return njit(**options)(bare)


def in_blocks(kernel: Callable[[int, int, int], None], count: int, *, size: int) -> None:
    """Call `kernel(block, start, stop)` for consecutive ranges of `size`, in as many threads as torch may use.

    The blocks do not depend on the number of threads, so that neither do sums over them.
    """
    ranges = [(block, start, min(start + size, count)) for block, start in enumerate(range(0, count, size))]
    threads = min(torch.get_num_threads(), len(ranges))
    if threads <= 1:
        for each in ranges:
            kernel(*each)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda each: kernel(*each), ranges))
