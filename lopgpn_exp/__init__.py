"""Uncertainty quantification on graphs: LOP-GPN, GPN and their baselines as one experiment framework."""

__version__ = "0.1.0"

# Raised whenever a change moves a number: part of every run's identity, so that no old result passes for a new one.
NUMERICS_VERSION = 1
