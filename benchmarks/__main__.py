"""Measure epochs against a plain baseline and the floor, whole runs, start-up times, and the growth with the graph.

    make bench                                                          everything (about half an hour)
    make bench ARGS="--datasets digits --runs --startup --sizes"        only the epochs on one dataset
    make bench ARGS="--compare outputs/bench/bench.json"                everything, compared with the last time

Writes outputs/bench/bench.json (one record per measurement), epochs.png and scaling.png. Close all other programs: a
steady load changes the ratios little, but not the seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from datetime import date
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.baseline import PLAIN
from benchmarks.compare import format_comparison, read_benchmark
from benchmarks.epochs import measure_epochs
from benchmarks.processes import COMMANDS, RUN_MODELS, measure_runs, measure_startup
from benchmarks.report import (
    NAMES,
    draw_epochs,
    draw_scaling,
    format_epochs,
    format_runs,
    format_scaling,
    format_startup,
)
from benchmarks.scaling import QUANTITIES, measure_scaling
from lopgpn_exp.config import default_config_dir
from lopgpn_exp.data.root import data_root
from lopgpn_exp.errors import InputError
from lopgpn_exp.runs.machine import processor

# Datasets of the paper, by their folder in the data root.
REAL_DATASETS = {
    "cora_ml": "citation_full/cora_ml",
    "citeseer": "citation_full/citeseer",
    "amazon_photos": "amazon/Photo",
    "pubmed": "citation_full/pubmed",
    "amazon_computers": "amazon/Computers",
}
SYNTHETIC = ["dataset=synthetic", "dataset.num_nodes=20000", "dataset.num_edges=100000", "dataset.num_features=500"]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = sorted(path.stem for path in (default_config_dir() / "dataset").glob("*.yaml"))
    parser.add_argument("--models", nargs="*", default=list(PLAIN), choices=list(PLAIN))
    parser.add_argument("--datasets", nargs="*", choices=names, metavar="NAME", help="default: all that are available")
    parser.add_argument("--repeats", type=_positive, default=7)
    parser.add_argument("--threads", type=_positive, default=1, help="of all three; a run uses 1 by default too")
    parser.add_argument("--sizes", type=_positive, nargs="*", default=[10_000, 30_000, 100_000, 300_000, 1_000_000])
    parser.add_argument("--runs", nargs="*", default=list(RUN_MODELS), choices=RUN_MODELS, metavar="MODEL")
    parser.add_argument("--startup", nargs="*", default=list(COMMANDS), choices=COMMANDS, metavar="COMMAND")
    parser.add_argument("--process-repeats", type=_positive, default=3, help="of whole runs and of the start-up")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="an earlier bench.json; prints ratios new/old")
    parser.add_argument("--output-dir", type=Path, default=Path("outputs/bench"))
    try:
        run_benchmark(parser.parse_args())
    except InputError as error:
        sys.exit(f"benchmarks: {error}")


def run_benchmark(options: argparse.Namespace) -> None:
    """Measure, write every record as soon as it is there, then print the tables and draw the figures."""
    earlier = read_benchmark(options.compare) if options.compare else None  # first: it may be the file written below
    options.output_dir.mkdir(parents=True, exist_ok=True)
    names = options.datasets
    datasets = available_datasets() if names is None else [[f"dataset={name}"] for name in names]
    machine = {"processor": processor(), "cores": os.cpu_count(), "python": platform.python_version()}
    epochs = measure_epochs(
        options.models,
        datasets,
        repeats=options.repeats,
        threads=options.threads,
        cache_dir=options.output_dir / "cache",
    )
    measurements = {
        "epochs": (epochs, len(NAMES) * len(datasets) * len(options.models)),
        "runs": (measure_runs(options.runs, repeats=options.process_repeats), len(options.runs)),
        "startup": (measure_startup(options.startup, repeats=options.process_repeats), 1 + len(options.startup)),
        "scaling": (measure_scaling(options.sizes, threads=options.threads), len(QUANTITIES) * len(options.sizes)),
    }
    content: dict[str, Any] = {
        "date": date.today().isoformat(),
        "machine": machine,
        **{part: [] for part in measurements},
    }
    for part, (records, total) in measurements.items():
        for record in tqdm(records, part, total=total, disable=None):
            content[part].append(record)
            (options.output_dir / "bench.json").write_text(json.dumps(content, indent=1) + "\n")
    _report(content, options.output_dir)
    if earlier is not None:
        sys.stdout.write("\n" + format_comparison(earlier, content))


def _report(content: dict[str, Any], folder: Path) -> None:
    """Print a table of each part that was measured, and draw the figures."""
    tables = {"epochs": format_epochs, "runs": format_runs, "startup": format_startup, "scaling": format_scaling}
    figures = {"epochs": draw_epochs, "scaling": draw_scaling}
    for part, format_table in tables.items():
        if content[part]:
            sys.stdout.write("\n" + format_table(content[part]))
    for part, draw in figures.items():
        if content[part]:
            draw(content[part], folder / f"{part}.png")
    sys.stdout.write(f"\nWritten to {folder}: bench.json and the figures\n")


def available_datasets() -> list[list[str]]:
    """Return the overrides of the embedded digits and of the paper's datasets in the data root.

    If there are none of these, a synthetic graph takes their place.
    """
    root = data_root(None)
    real = [[f"dataset={name}"] for name, folder in REAL_DATASETS.items() if (root / folder).is_dir()]
    return [["dataset=digits"], *(real or [SYNTHETIC])]


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return value


if __name__ == "__main__":
    main()
