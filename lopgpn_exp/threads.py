"""The number of threads of torch, BLAS and OpenMP, on which the last bits of a result depend.

And the number of cores that are free for kernels whose results do not depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import threadpool_limits

# From here on a thread has work for longer than its start takes; most graphs of the paper have fewer blocks.
MANY_BLOCKS = 64
MAX_THREADS = 16  # beyond it, threads wait for the memory
_core_limit: ContextVar[int | None] = ContextVar("core_limit", default=None)


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


def count_threads(num_blocks: int) -> int:
    """Return the number of threads for blocks of work whose results do not depend on it: as many as torch has.

    Many blocks are distributed over all free cores: those of this machine, unless `limit_cores` says less.
    """
    import torch  # deferred import: slow

    threads = torch.get_num_threads()
    if num_blocks >= MANY_BLOCKS:
        from joblib import cpu_count  # deferred import: slow. It respects the limits of containers and schedulers.

        threads = max(threads, min(_core_limit.get() or cpu_count(), MAX_THREADS))
    return min(threads, max(num_blocks, 1))


@contextmanager
def limit_cores(count: int) -> Iterator[None]:
    """Set the number of free cores inside the context, for runs that share the machine with others."""
    token = _core_limit.set(count)
    try:
        yield
    finally:
        _core_limit.reset(token)
