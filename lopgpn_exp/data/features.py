"""What datasets do to their features."""

import torch


def row_normalised(features: torch.Tensor) -> torch.Tensor:
    """Rows divided by their sum; a row of zeros stays zero."""
    sums = features.sum(dim=1, keepdim=True)
    return torch.where(sums == 0, features, features / sums.where(sums != 0, 1.0))
