"""MLflow: the store, what is written to it, and the dashboards that show it.

Everything is read from files that are complete already, so nothing is lost if MLflow fails.
"""

from lopgpn_exp.tracking.store import default_uri
from lopgpn_exp.tracking.tracker import Tracker, read_dashboard_links, read_tags

__all__ = ["Tracker", "default_uri", "read_dashboard_links", "read_tags"]
