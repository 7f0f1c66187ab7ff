"""A run and a sweep as one HTML file each, which needs nothing beside it and no network."""

from lopgpn_exp.report.pages.run import run_page
from lopgpn_exp.report.pages.sweep import sweep_page

__all__ = ["run_page", "sweep_page"]
