"""What torch may build from a file."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def pyg_data_allowed() -> Iterator[None]:
    """Inside, `torch.load(weights_only=True)` also builds the parts of a PyG `Data`, and nothing else.

    PyG allows some of them itself, for good. torch's own context would take these away at its end, and with them every
    later load of PyG's in this process: only what was not allowed before is added and taken back.
    """
    from torch_geometric.data.data import Data, DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import BaseStorage, EdgeStorage, GlobalStorage, NodeStorage

    parts = [Data, DataEdgeAttr, DataTensorAttr, BaseStorage, GlobalStorage, NodeStorage, EdgeStorage]
    known = torch.serialization.get_safe_globals()
    with torch.serialization.safe_globals([part for part in parts if part not in known]):
        yield
