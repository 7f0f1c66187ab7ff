"""The contract between a model and the rooms around it, promise by promise."""

from lopgpn_exp.testing.promises.hygiene import features, graph_untouched, labels, ood_marks
from lopgpn_exp.testing.promises.predictions import (
    indexing,
    measures,
    no_edges,
    other_graphs,
    posterior,
    renaming,
    some_nodes,
)
from lopgpn_exp.testing.promises.promise import Promise
from lopgpn_exp.testing.promises.training import (
    checkpoint,
    construction,
    fits,
    learns,
    loss,
    other_seed,
    random_state,
    repeats,
    same_seed,
)

# In the order in which they are tested: what others need comes first.
PROMISES: tuple[Promise, ...] = (
    *(construction, fits, posterior, measures, repeats, same_seed, other_seed, random_state),
    *(labels, ood_marks, features, graph_untouched),
    *(indexing, some_nodes, renaming, no_edges),
    *(checkpoint, other_graphs),
    *(loss, learns),
)

__all__ = ["PROMISES", "Promise"]
