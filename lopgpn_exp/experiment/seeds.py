"""Randomness as named streams: a purpose and a few indices give a seed, independent of everything else."""

import hashlib


def stream(purpose: str, *indices: int) -> int:
    """A 63-bit seed of its own for each purpose and indices; the same on every machine."""
    text = "/".join([purpose, *map(str, indices)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
