"""Evaluate a posterior on a graph, and compute statistics over many runs.

Nothing here depends on models or training. Metrics of arrays are in `evaluation.metrics`. The modules are imported one
by one, since only some of them need torch.
"""
