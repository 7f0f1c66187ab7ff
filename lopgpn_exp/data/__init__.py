"""Datasets, splits and out-of-distribution scenarios: everything that builds or changes a `Graph`.

`datasets` loads the benchmarks, `files` reads a user's own graph; `splits` and `scenarios` transform a graph.
"""

from lopgpn_exp.data.root import data_root

# The submodules import torch and are imported on demand: this keeps --help fast.
__all__ = ["data_root", "datasets", "files", "scenarios", "splits"]
