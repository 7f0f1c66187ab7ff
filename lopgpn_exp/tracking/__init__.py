"""MLflow: the store, what is written to it, and the dashboards that show it.

Everything is read from files that are complete already, so nothing is lost if MLflow fails.
"""

from lopgpn_exp.tracking.fault_tolerance import FaultTolerantTracker, open_tracker, prepare_tracker
from lopgpn_exp.tracking.mlflow_experiment import read_dashboard_links, read_tags
from lopgpn_exp.tracking.recorded_run import RecordedRun, find_recorded_run
from lopgpn_exp.tracking.store import DEFAULT_EXPERIMENT, default_uri
from lopgpn_exp.tracking.tracker import Tracker

__all__ = [
    "DEFAULT_EXPERIMENT",
    "FaultTolerantTracker",
    "RecordedRun",
    "Tracker",
    "default_uri",
    "find_recorded_run",
    "open_tracker",
    "prepare_tracker",
    "read_dashboard_links",
    "read_tags",
]
