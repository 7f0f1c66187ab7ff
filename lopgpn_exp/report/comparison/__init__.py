"""Runs or sweeps side by side: differences with their intervals."""
