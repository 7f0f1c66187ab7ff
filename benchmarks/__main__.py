"""Measure the plain baseline, the project and the floor in one run, and how the cost grows with the graph.

    make bench                                          everything (about a quarter of an hour)
    make bench ARGS="--datasets digits --sizes 10000"   less

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
from benchmarks.epochs import measure_epochs
from benchmarks.report import NAMES, draw_epochs, draw_scaling, format_epochs, format_scaling
from benchmarks.scaling import QUANTITIES, measure_scaling
from lopgpn_exp.config import default_config_dir
from lopgpn_exp.data.root import data_root
from lopgpn_exp.errors import InputError
from lopgpn_exp.runs.machine import processor

# Datasets of the paper, by their folder in the data root.
REAL_DATASETS = {
    "cora_ml": "citation_full/cora_ml",
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
    parser.add_argument("--output-dir", type=Path, default=Path("outputs/bench"))
    try:
        run_benchmark(parser.parse_args())
    except InputError as error:
        sys.exit(f"benchmarks: {error}")


def run_benchmark(options: argparse.Namespace) -> None:
    """Measure, write every record as soon as it is there, then print the tables and draw the figures."""
    options.output_dir.mkdir(parents=True, exist_ok=True)
    names = options.datasets
    datasets = available_datasets() if names is None else [[f"dataset={name}"] for name in names]
    machine = {"processor": processor(), "cores": os.cpu_count(), "python": platform.python_version()}
    content: dict[str, Any] = {"date": date.today().isoformat(), "machine": machine, "epochs": [], "scaling": []}
    epochs = measure_epochs(
        options.models,
        datasets,
        repeats=options.repeats,
        threads=options.threads,
        cache_dir=options.output_dir / "cache",
    )
    scaling = measure_scaling(options.sizes, threads=options.threads)
    totals = {
        "epochs": len(NAMES) * len(datasets) * len(options.models),
        "scaling": len(QUANTITIES) * len(options.sizes),
    }
    for part, records in (("epochs", epochs), ("scaling", scaling)):
        for record in tqdm(records, part, total=totals[part], disable=None):
            content[part].append(record)
            (options.output_dir / "bench.json").write_text(json.dumps(content, indent=1) + "\n")
    if content["epochs"]:
        sys.stdout.write("\n" + format_epochs(content["epochs"]))
        draw_epochs(content["epochs"], options.output_dir / "epochs.png")
    if content["scaling"]:
        sys.stdout.write("\n" + format_scaling(content["scaling"]))
        draw_scaling(content["scaling"], options.output_dir / "scaling.png")
    sys.stdout.write(f"\nWritten to {options.output_dir}: bench.json and the figures\n")


def available_datasets() -> list[list[str]]:
    """Return the overrides of the paper's datasets in the data root, or of the embedded ones if there are none."""
    root = data_root(None)
    real = [[f"dataset={name}"] for name, folder in REAL_DATASETS.items() if (root / folder).is_dir()]
    return real or [["dataset=digits"], SYNTHETIC]


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return value


if __name__ == "__main__":
    main()
