"""Find the node, class and layer of a loss that is not finite."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from lopgpn_exp.errors import InputError


def check_loss(model: nn.Module, losses: Tensor, *, nodes: Tensor, labels: Tensor, prepared: Any) -> None:
    """Raise an InputError that names node, class and layer if the loss of a node is not finite."""
    if bool(torch.isfinite(losses.detach().sum())):
        return
    bad = torch.nonzero(~torch.isfinite(losses)).flatten()
    index = int(bad[0]) if len(bad) else 0
    raise InputError(
        f"the loss of node {int(nodes[index])} (class {int(labels[index])}) is {losses[index].item()}; "
        f"{len(bad)} of {len(losses)} nodes are affected, and the first layer with such an output is "
        f"{_find_bad_layer(model, prepared)}",
        expected="finite losses",
        hint="use a smaller learning_rate, or features of a smaller scale",
    )


@torch.no_grad()
def _find_bad_layer(model: nn.Module, prepared: Any) -> str:
    """Return the name of the first layer with weights or outputs that are not finite."""
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            return f"{name} (its weights have diverged)"
    bad_layers: list[str] = []

    def check_output(name: str, _module: nn.Module, _inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor) and not bool(torch.isfinite(output).all()):
            bad_layers.append(name)

    layers = [(name, module) for name, module in model.named_modules() if name]
    handles = [module.register_forward_hook(partial(check_output, name)) for name, module in layers]
    try:
        model(prepared)
    finally:
        for handle in handles:
            handle.remove()
    return bad_layers[0] if bad_layers else "the posterior"
