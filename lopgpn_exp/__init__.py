"""Uncertainty quantification on graphs: LOP-GPN, GPN and their baselines as one experiment framework."""

from importlib import import_module

__version__ = "0.1.0"

# Part of every run's identity. Increase it with every change that moves a number, so that no old result is reused; if
# only the numbers of one model move, increase the `numerics_version` of its class instead.
NUMERICS_VERSION = 2

# The public names, by the module that defines them.
_PUBLIC = {
    "Experiment": "lopgpn_exp.api",
    "as_graph": "lopgpn_exp.api",
    "Graph": "lopgpn_exp.graph",
    "custom_graph": "lopgpn_exp.data.files",
    "load_results": "lopgpn_exp.runs.table",
    "load_curves": "lopgpn_exp.runs.table",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is used, so that importing the package does not import pandas and torch."""
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'lopgpn_exp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
