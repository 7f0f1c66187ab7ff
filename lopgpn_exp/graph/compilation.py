"""Compile kernels with numba, and run them in threads.

Import kernels inside the functions that call them: importing numba takes as long as a short run.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from numba import njit

from lopgpn_exp.threads import count_threads


def compile_kernel(function: Callable, **options: Any) -> Callable:
    """Compile a function, and cache the result on disk. Sums are evaluated in the order in which they are written."""
    unwrapped = inspect.unwrap(function)  # the shape checker of the tests wraps every function of the package
    options |= {"nogil": True, "error_model": "numpy"}
    try:
        return njit(cache=True, **options)(unwrapped)
    except RuntimeError:  # no cache folder is writable: every process compiles
        return njit(**options)(unwrapped)


def compile_fast_kernel(function: Callable) -> Callable:
    """Compile a function whose sums may be reordered to fill vector registers.

    The order is fixed at compilation, so that results are reproducible to the bit. Infinities and NaN are respected.
    """
    return compile_kernel(function, fastmath={"contract", "reassoc", "nsz", "arcp"})


def run_in_blocks(kernel: Callable[[int, int, int], None], count: int, *, size: int) -> None:
    """Call `kernel(block, start, stop)` for consecutive ranges of `size`, in `count_threads` threads.

    The blocks do not depend on the number of threads, and therefore neither do sums over blocks.
    """
    blocks = [(block, start, min(start + size, count)) for block, start in enumerate(range(0, count, size))]
    threads = count_threads(len(blocks))
    if threads <= 1:
        for block in blocks:
            kernel(*block)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda block: kernel(*block), blocks))
