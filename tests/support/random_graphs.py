"""Small random graphs for property-based tests."""

from hypothesis import strategies as st

from lopgpn_exp.graph import Graph
from tests.conftest import make_graph


def edge_set(graph: Graph) -> set[tuple[int, int]]:
    """Return each edge once, the smaller node first."""
    return {(a, b) for a, b in graph.edge_index.T.tolist() if a < b}


@st.composite
def random_graphs(draw, *, min_nodes: int = 4) -> Graph:
    """Draw a graph with at least one edge, up to three classes, and nodes without a label."""
    num_nodes = draw(st.integers(min_nodes, 25))
    pairs = [(a, b) for a in range(num_nodes) for b in range(a)]
    edges = draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=60, unique=True))
    labels = draw(st.lists(st.integers(-1, 2), min_size=num_nodes, max_size=num_nodes))
    labels[:2] = [0, 1]
    return make_graph(edges, [[float(node)] for node in range(num_nodes)], labels)
