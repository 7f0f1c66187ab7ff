"""Runs that somebody else or a failing disk has changed, and other hostile content that tests share."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import yaml

from lopgpn_exp.runs.checksums import write_checksums

MARKER = "code-was-run"
# YAML of a few lines that stands for a billion values.
ALIAS_BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 9)
)


def edit_config(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the config of a run as an attacker would, who writes matching checksums."""
    path = folder / "config.yaml"
    config = yaml.safe_load(path.read_text())
    change(config)
    path.write_text(yaml.safe_dump(config))
    write_checksums(folder)


def edit_checkpoint(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a checkpoint as an attacker would. The file is replaced, since runs share it by a hard link."""
    content = torch.load(path, weights_only=True)
    change(content)
    path.unlink()
    torch.save(content, path)
    write_checksums(path.parent)


def damage(path: Path, *, num_bytes: int = 512, start: int | None = None) -> None:
    """Overwrite bytes of a file, by default in its middle, with zeros, in place, as a failing disk does."""
    content = bytearray(path.read_bytes())
    start = len(content) // 2 if start is None else start
    content[start : start + num_bytes] = bytes(len(content[start : start + num_bytes]))
    with path.open("r+b") as file:
        file.write(content)


def mutate(content: bytes, rng: random.Random) -> bytes:
    """Return a file that differs from `content`: bits flipped, bytes replaced, removed, repeated or cut off."""
    data = bytearray(content)
    position = rng.randrange(len(data))
    length = min(rng.choice((1, 4, 64, 512)), len(data) - position)
    kind = rng.choice(("flip", "flip", "zero", "random", "remove", "repeat", "truncate", "interesting"))
    if kind == "flip":
        data[position] ^= 1 << rng.randrange(8)
    elif kind == "zero":
        data[position : position + length] = bytes(length)
    elif kind == "random":
        data[position : position + length] = rng.randbytes(length)
    elif kind == "remove":
        del data[position : position + length]
    elif kind == "repeat":
        data[position:position] = data[position : position + length] * rng.choice((1, 16))
    elif kind == "truncate":
        del data[position:]
    else:
        data[position : position + length] = rng.choice(
            (b"\xff" * 8, b"\x00", b"NaN", b"1e999", b"-1", b"../../x", b"\x1b[2J", b"=1+1", b"'", b"\n", b"{" * 50)
        )
    return bytes(data)
