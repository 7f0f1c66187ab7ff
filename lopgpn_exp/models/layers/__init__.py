"""Layers that models share: encoders, normalising flows and the propagation along the graph.

`radial_kernel` and `relu_dropout` are compiled kernels, imported on first use.
"""

from lopgpn_exp.models.layers.encoder import Encoder
from lopgpn_exp.models.layers.flow import FlowKind, NormflowsFlow, RadialFlow, build_flow
from lopgpn_exp.models.layers.graph_encoders import EncoderKind, build_encoder
from lopgpn_exp.models.layers.propagation import Propagation, PropagationInput

__all__ = [
    "Encoder",
    "EncoderKind",
    "FlowKind",
    "NormflowsFlow",
    "Propagation",
    "PropagationInput",
    "RadialFlow",
    "build_encoder",
    "build_flow",
]
