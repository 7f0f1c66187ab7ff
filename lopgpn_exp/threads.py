"""The number of threads of torch, BLAS and OpenMP, on which the last bits of a result depend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import threadpool_limits


def set_threads(count: int) -> threadpool_limits:
    """Set the number of threads of torch, BLAS and OpenMP for the rest of the process.

    Otherwise BLAS uses one thread per core, or as many as `OMP_NUM_THREADS` says, whatever torch uses. The returned
    object can restore the earlier numbers of BLAS and OpenMP.
    """
    import scipy.linalg  # noqa: F401  (loads scipy's BLAS: only libraries that are loaded can be limited)
    import torch  # deferred import: slow
    from threadpoolctl import threadpool_limits

    limits = threadpool_limits(count)
    torch.set_num_threads(count)  # also limits the MKL inside torch, which threadpoolctl cannot see
    return limits


@contextmanager
def limit_threads(count: int | None = None) -> Iterator[None]:
    """Set the number of threads inside the context, by default to that of torch; restore the numbers afterwards."""
    import torch  # deferred import: slow

    before = torch.get_num_threads()
    limits = set_threads(before if count is None else count)
    try:
        yield
    finally:
        limits.restore_original_limits()
        torch.set_num_threads(before)
