"""What a promise is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lopgpn_exp.models import Model
from lopgpn_exp.testing.trial import Trial

Check = Callable[[Trial], Iterator[str]]  # yields what was seen that breaks the promise


@dataclass(frozen=True)
class Promise:
    """One thing that the rooms around a model rely on.

    Args:
        look_at: where the reason usually is.
        needs: promises without which this one means nothing.
        of: the kind of model that makes it.
    """

    name: str
    promised: str
    look_at: str
    needs: tuple[str, ...]
    of: type
    check: Check


def promise(
    promised: str, *, look_at: str, needs: tuple[str, ...] = ("repeats",), of: type = Model
) -> Callable[[Check], Promise]:
    """A check as a promise of its function's name."""
    return lambda check: Promise(check.__name__, promised, look_at, needs, of, check)
