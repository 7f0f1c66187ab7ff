"""Randomness as an argument."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Weight initialisation and dropout draw from `seed` inside; the caller's random state is untouched afterwards."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield
