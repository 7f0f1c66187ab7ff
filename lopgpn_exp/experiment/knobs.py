"""What a reproduction of the paper can be asked for, checked before anything heavy is imported."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from lopgpn_exp.errors import InputError, nearest
from lopgpn_exp.report.names import DATASET_NAMES, MODEL_NAMES

MOST_SPLITS = 10


@dataclass(frozen=True)
class Knobs:
    """What was asked for, checked."""

    models: tuple[str, ...]
    datasets: tuple[str, ...]
    splits: int
    inits: int
    jobs: int
    also: tuple[str, ...]


def knobs(options: argparse.Namespace) -> Knobs:
    return Knobs(
        models=_chosen(options.models, MODEL_NAMES, "MODELS"),
        datasets=_chosen(options.datasets, DATASET_NAMES, "DATASETS"),
        splits=_number(options.splits, "SPLITS", 1, MOST_SPLITS),
        inits=_number(options.inits, "INITS", 1, 100),
        jobs=-1 if options.jobs == "all" else _number(options.jobs, "JOBS", 1, 1024),
        also=tuple(options.also),
    )


def _chosen(text: str, names: Sequence[str] | dict[str, str], knob: str) -> tuple[str, ...]:
    if text == "all":
        return tuple(names)
    wanted = text.replace(",", " ").split()
    for name in wanted:
        if name not in names:
            close = nearest(name, names)
            raise InputError(
                f"{knob} names {name!r}",
                expected="some of " + ", ".join(names),
                hint=f"{knob}={close}" if close else "",
            )
    if not wanted:
        raise InputError(f"{knob} is empty", expected="some of " + ", ".join(names), hint=f"{knob}={next(iter(names))}")
    return tuple(name for name in names if name in wanted)


def _number(text: str, knob: str, least: int, most: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        raise InputError(
            f"{knob} is {text!r}", expected=f"a whole number from {least} to {most}", hint=f"{knob}={max(least, 2)}"
        )
    return value
