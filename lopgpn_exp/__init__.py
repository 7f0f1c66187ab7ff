"""Uncertainty quantification on graphs: LOP-GPN, GPN and their baselines as one experiment framework."""

__version__ = "0.1.0"

# Raised whenever a change moves a number: part of every run's identity, so that no old result passes for a new one.
NUMERICS_VERSION = 2


def __getattr__(name: str) -> object:
    """`lopgpn_exp.load_results` without importing pandas and torch for those who only ask for the version."""
    if name in ("load_results", "load_curves"):
        from lopgpn_exp.experiment import collect

        return getattr(collect, name)
    raise AttributeError(f"module 'lopgpn_exp' has no attribute {name!r}")
