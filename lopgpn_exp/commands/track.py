"""`lopgpn_exp track`: bring MLflow up to date with the finished runs and sweeps of an output folder."""

from __future__ import annotations

import argparse
import sys

from lopgpn_exp.commands.dispatch import CommandResult
from lopgpn_exp.errors import InputError, printable
from lopgpn_exp.tracking import DEFAULT_EXPERIMENT

DESCRIPTION = """Write to MLflow the finished runs and sweeps that it lacks or shows with earlier results: after a
failure of the tracking server, after tracking=none, or for runs from another machine. What is up to date stays as it
is, so the command can be repeated."""
EXAMPLES = """examples:
  lopgpn_exp track                                      the runs and sweeps of outputs/
  lopgpn_exp track --output-dir elsewhere               ... of another folder, in the database of that folder
  lopgpn_exp track --uri http://server:5000             ... on a tracking server
  lopgpn_exp track --uri http://server:5000 --experiment mine
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--uri", help="server or database to write to, as in tracking.uri")
    parser.add_argument(
        "--experiment", default=DEFAULT_EXPERIMENT, help="MLflow experiment, as in tracking.experiment (%(default)s)"
    )


def execute(options: argparse.Namespace) -> CommandResult:
    # Deferred imports: --help works without pandas.
    from tqdm import tqdm

    from lopgpn_exp.report.run_summary import print_links
    from lopgpn_exp.tracking import Tracker
    from lopgpn_exp.tracking.catch_up import read_finished_work, track_runs, track_sweeps
    from lopgpn_exp.tracking.store import report_store_errors

    work = read_finished_work(options.output_dir)
    if not work.results:
        raise InputError(
            f"there are no finished runs in {options.output_dir / 'runs'}",
            expected="the output folder of finished runs",
            parameter="output_dir",
        )
    tracker = Tracker(options.uri, options.experiment, options.output_dir)
    with report_store_errors(tracker.uri):
        for _ in tqdm(track_runs(tracker, work), total=len(work.results), unit="run", disable=None):
            pass
        track_sweeps(tracker, work)
        links = tracker.links(work.datasets)
    for folder, error in work.unreadable.items():
        sys.stderr.write(printable(f"skipped {folder}: {error.what}") + "\n")
    counts = {"run": len(work.results), "sweep": len(work.sweeps)}
    found = ", ".join(f"{count} {noun}{'s' * (count != 1)}" for noun, count in counts.items())
    labels = {"added": "added", "updated": "updated", "unchanged": "already there"}
    sys.stdout.write(f"{found}: {', '.join(f'{label} {tracker.changes[key]}' for key, label in labels.items())}\n")
    print_links(links, ui=tracker.ui)
    return CommandResult()
