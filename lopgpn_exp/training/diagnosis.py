"""NaN never passes silently: where it came from, in words."""

from typing import Any

import torch
from torch import Tensor, nn

from lopgpn_exp.errors import InputError


def check_loss(model: nn.Module, losses: Tensor, *, nodes: Tensor, labels: Tensor, prepared: Any) -> None:
    """Raise, naming node, class and layer, if any node's loss is not finite."""
    if bool(torch.isfinite(losses.detach().sum())):
        return
    bad = torch.nonzero(~torch.isfinite(losses)).flatten()
    where = int(bad[0]) if len(bad) else 0
    raise InputError(
        f"the loss of node {int(nodes[where])} (class {int(labels[where])}) is {losses[where].item()}; "
        f"{len(bad)} of {len(losses)} nodes are affected, and the first layer to give such a value is "
        f"{_first_bad_layer(model, prepared)}",
        expected="finite losses",
        hint="smaller values: model.optimizer.learning_rate, the features, or what was changed last",
    )


@torch.no_grad()
def _first_bad_layer(model: nn.Module, prepared: Any) -> str:
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            return f"{name} (its weights have diverged)"
    found: list[str] = []

    def look(name: str):
        def hook(_: nn.Module, __: Any, output: Any) -> None:
            if isinstance(output, Tensor) and not bool(torch.isfinite(output).all()):
                found.append(name)

        return hook

    handles = [module.register_forward_hook(look(name)) for name, module in model.named_modules() if name]
    try:
        model(prepared)
    finally:
        for handle in handles:
            handle.remove()
    return found[0] if found else "the posterior"
