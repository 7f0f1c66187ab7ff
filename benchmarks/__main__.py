"""Speed as ratios within one run: the plain baseline, the project, the floor, and how cost grows with the graph.

    make bench                                          everything (about a quarter of an hour)
    make bench ARGS="--datasets digits --sizes 10000"   less of it

Writes outputs/bench/bench.json (one record a measurement), epochs.png and scaling.png. Close everything else: the
ratios stand up to a steady load, the seconds do not.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from datetime import date
from pathlib import Path

from tqdm import tqdm

from benchmarks import epochs, report, scaling
from benchmarks.baseline import PLAIN
from lopgpn_exp.cli import config_dir
from lopgpn_exp.data.root import data_root
from lopgpn_exp.errors import mistakes_told

REAL = {
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
    names = sorted(path.stem for path in (config_dir() / "dataset").glob("*.yaml"))
    parser.add_argument("--models", nargs="*", default=list(PLAIN), choices=list(PLAIN))
    parser.add_argument("--datasets", nargs="*", choices=names, metavar="NAME", help="default: what is at hand")
    parser.add_argument("--repeats", type=positive, default=7)
    parser.add_argument("--threads", type=positive, default=1, help="of all three; default: 1, as of a run")
    parser.add_argument("--sizes", type=positive, nargs="*", default=[10_000, 30_000, 100_000, 300_000, 1_000_000])
    parser.add_argument("--output-dir", type=Path, default=Path("outputs/bench"))
    arguments = parser.parse_args()
    with mistakes_told():
        run(arguments)


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return value


def run(arguments: argparse.Namespace) -> None:
    arguments.output_dir.mkdir(parents=True, exist_ok=True)
    datasets = [[f"dataset={name}"] for name in arguments.datasets] if arguments.datasets is not None else at_hand()
    machine = {"processor": processor(), "cores": os.cpu_count(), "python": platform.python_version()}
    measured = {"date": date.today().isoformat(), "machine": machine, "epochs": [], "scaling": []}
    found = epochs.measure(
        arguments.models,
        datasets,
        repeats=arguments.repeats,
        threads=arguments.threads,
        cache_dir=arguments.output_dir / "cache",
    )
    grown = scaling.measure(arguments.sizes, threads=arguments.threads)
    totals = {
        "epochs": len(report.NAMES) * len(datasets) * len(arguments.models),
        "scaling": len(scaling.QUANTITIES) * len(arguments.sizes),
    }
    for part, records in (("epochs", found), ("scaling", grown)):
        for record in tqdm(records, part, total=totals[part], disable=None):
            measured[part].append(record)
            (arguments.output_dir / "bench.json").write_text(json.dumps(measured, indent=1) + "\n")
    if measured["epochs"]:
        sys.stdout.write("\n" + report.epoch_table(measured["epochs"]))
        report.draw_epochs(measured["epochs"], arguments.output_dir / "epochs.png")
    if measured["scaling"]:
        sys.stdout.write("\n" + report.scaling_table(measured["scaling"]))
        report.draw_scaling(measured["scaling"], arguments.output_dir / "scaling.png")
    sys.stdout.write(f"\nWritten to {arguments.output_dir}: bench.json and the figures\n")


def at_hand() -> list[list[str]]:
    """The paper's datasets that are in the data root; the embedded ones where none is."""
    root = data_root(None)
    real = [[f"dataset={name}"] for name, folder in REAL.items() if (root / folder).is_dir()]
    return real or [["dataset=digits"], SYNTHETIC]


def processor() -> str:
    """Its name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


if __name__ == "__main__":
    main()
