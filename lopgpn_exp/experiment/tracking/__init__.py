"""MLflow, in one room: the store, what is written to it, and the dashboards that show it."""

from lopgpn_exp.experiment.tracking.store import default_uri
from lopgpn_exp.experiment.tracking.tracker import Tracker, dashboard_links, tags_of

__all__ = ["Tracker", "dashboard_links", "default_uri", "tags_of"]
