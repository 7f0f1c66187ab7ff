"""Which method suits a graph: the methods that are tried, and their runs within a given time."""
