"""The numbers that others published: the paper's table, and what its public code gave when it was run."""

from lopgpn_exp.report.published.columns import COLUMNS, Column
from lopgpn_exp.report.published.read import public_code, published, published_text

__all__ = ["COLUMNS", "Column", "public_code", "published", "published_text"]
