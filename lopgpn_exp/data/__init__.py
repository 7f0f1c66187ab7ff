"""Datasets, splits and out-of-distribution scenarios: everything that makes a `Graph`."""
