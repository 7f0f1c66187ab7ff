"""Uncertainty quantification on graphs: LOP-GPN, GPN and their baselines as one experiment framework."""

from importlib import import_module

__version__ = "0.1.0"

# Raised whenever a change moves a number: part of every run's identity, so that no old result passes for a new one.
NUMERICS_VERSION = 2


# What `from lopgpn_exp import ...` offers, by the module that holds it.
_PUBLIC = {
    "Experiment": "lopgpn_exp.api",
    "as_graph": "lopgpn_exp.api",
    "Graph": "lopgpn_exp.graph",
    "custom_graph": "lopgpn_exp.data.custom",
    "load_results": "lopgpn_exp.experiment.collect",
    "load_curves": "lopgpn_exp.experiment.collect",
}


def __getattr__(name: str) -> object:
    """Imported when asked for: who only wants the version does not wait for pandas and torch."""
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'lopgpn_exp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
