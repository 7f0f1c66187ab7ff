"""Seeds derived from a purpose, and a context manager that seeds torch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

PUBLISHED_SEED = 42  # from which the paper's public code draws splits, scenarios and weights


def derive_seed(purpose: str, *indices: int) -> int:
    """Return a 63-bit seed that depends only on the purpose and the indices, on every machine."""
    text = "/".join([purpose, *map(str, indices)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch inside the context; the caller's random state is restored afterwards."""
    import torch  # deferred import: deriving a seed does not need it

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield
