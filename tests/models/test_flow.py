"""Normalising flows: the formula against normflows and autograd, the compiled kernel against the formula."""

import math

import normflows as nf
import pytest
import torch
from torch.nn.functional import softplus

from lopgpn_exp.models.layers import NormflowsFlow, RadialFlow, build_flow


def radial_flow(seed: int = 0, **sizes) -> RadialFlow:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        flow = RadialFlow(**({"num_classes": 3, "dim": 4, "num_layers": 5} | sizes)).double()
        for parameter in flow.parameters():  # larger than at initialisation, and of both signs
            parameter.data.mul_(4)
    return flow


def test_log_determinant_equals_autograd_jacobian():
    flow = radial_flow()
    points = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    _, log_det = flow.transform(points)
    for node in range(6):
        jacobian = torch.autograd.functional.jacobian(lambda z: flow.transform(z[None])[0][0], points[node])
        for label in range(3):
            expected = torch.linalg.slogdet(jacobian[label])
            assert expected.sign == 1
            torch.testing.assert_close(log_det[node, label], expected.logabsdet, rtol=1e-12, atol=1e-12)


def test_densities_equal_normflows_for_the_same_parameters():
    """normflows has the same layer with other parameters: a = |alpha| and b = -a + softplus(beta)."""
    flow = radial_flow(num_layers=3)
    points = torch.randn(20, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    ours = flow(points)
    for label in range(3):
        layers = []
        for index in range(3):
            layer = nf.flows.Radial((4,)).double()
            layer.z_0.data = flow.center[index, label].detach()[None]
            layer.alpha.data = torch.nn.functional.softplus(flow.alpha_raw[index, label]).detach()[None]
            layer.beta.data = flow.beta_raw[index, label].detach()[None]
            layers.append(layer)
        z, log_det = points, torch.zeros(20, dtype=torch.float64)
        for layer in layers:
            z, step = layer(z)
            log_det = log_det + step
        base = torch.distributions.MultivariateNormal(torch.zeros(4).double(), torch.eye(4).double())
        torch.testing.assert_close(ours[:, label], base.log_prob(z) + log_det, rtol=1e-12, atol=1e-12)


def test_a_density_integrates_to_one():
    flow = radial_flow(dim=2, num_layers=4)
    axis = torch.linspace(-12, 12, 801, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    mass = flow(grid).exp().sum(dim=0) * (axis[1] - axis[0]) ** 2
    torch.testing.assert_close(mass, torch.ones(3, dtype=torch.float64), atol=2e-3, rtol=0)


def test_a_point_at_a_centre_has_finite_value_and_gradient():
    flow = radial_flow(num_layers=1)
    for precision in (flow, radial_flow(num_layers=1).float()):
        point = precision.center[0, 1].detach()[None]
        tensors = values_and_gradients(precision, precision, point, torch.ones(1, 3, dtype=point.dtype))
        assert all(torch.isfinite(tensor).all() for tensor in tensors)


def values_and_gradients(density, flow, latent, upstream):
    """Return log-densities, and the gradients of their weighted sum by the points and by each parameter."""
    latent = latent.clone().requires_grad_()
    flow.zero_grad()
    value = density(latent)
    value.backward(upstream)
    return [value.detach(), latent.grad, *(parameter.grad.clone() for parameter in flow.parameters())]


@pytest.mark.parametrize(
    ("nodes", "sizes"),
    [
        (1, {}),
        (2500, {"num_classes": 3, "dim": 16, "num_layers": 10}),  # several tasks, and an incomplete last block
        (100, {"num_layers": 35}),  # more layers than determinants multiplied before a logarithm
        (130, {"dim": 1}),
        (64, {"num_classes": 1, "num_layers": 1}),
    ],
)
def test_the_kernel_equals_the_formula_and_its_gradient(nodes, sizes):
    """Compare the kernel in float32 with autograd of the formula in float64.

    The error is at most 20 float32 roundings of the largest value; near a centre, where float32 is less accurate, at
    most four times the error of the formula in float32.
    """
    exact = radial_flow(**sizes)
    single = radial_flow(**sizes).float()
    generator = torch.Generator().manual_seed(1)
    latent = torch.randn(nodes, exact.center.shape[2], generator=generator)
    upstream = torch.randn(nodes, exact.center.shape[1], generator=generator)
    expected = values_and_gradients(exact.log_density, exact, latent.double(), upstream.double())
    kernel = values_and_gradients(single, single, latent, upstream)
    formula = values_and_gradients(single.log_density, single, latent, upstream)
    for from_kernel, from_formula, exact_value in zip(kernel, formula, expected, strict=True):
        rounding = 20 * torch.finfo(torch.float32).eps * max(1.0, exact_value.abs().max().item())
        limit = max(rounding, 4 * (from_formula - exact_value).abs().max().item())
        torch.testing.assert_close(from_kernel.double(), exact_value, rtol=0, atol=limit)


def test_the_result_of_the_kernel_does_not_depend_on_the_number_of_threads():
    flow = radial_flow(dim=16).float()
    latent = torch.randn(5000, 16, generator=torch.Generator().manual_seed(1))
    upstream = torch.randn(5000, 3, generator=torch.Generator().manual_seed(2))
    one_thread = values_and_gradients(flow, flow, latent, upstream)
    torch.set_num_threads(3)
    try:
        three_threads = values_and_gradients(flow, flow, latent, upstream)
    finally:
        torch.set_num_threads(1)
    assert all(torch.equal(a, b) for a, b in zip(one_thread, three_threads, strict=True))


def test_the_kernel_is_accurate_where_a_layer_is_almost_singular():
    """At a centre with b = -a + 1e-17 the determinant is (s/a)^d; the formula in float32 loses half of its digits."""
    flow = radial_flow(num_layers=1).float()
    flow.beta_raw.data.fill_(-40)
    centre = flow.center[0, 1].detach()
    log_ratio = -40 - softplus(flow.alpha_raw[0, 1].detach().double()).log()
    base = -0.5 * (centre.double().square().sum() + 4 * math.log(2 * math.pi))
    assert flow(centre[None])[0, 1].item() == pytest.approx((base + 4 * log_ratio).item(), rel=1e-6)
    assert flow.log_density(centre[None])[0, 1].item() > 0.6 * (base + 4 * log_ratio).item()


@pytest.mark.parametrize("kind", ["normflows_radial", "normflows_planar"])
def test_flows_of_normflows_are_densities_of_the_same_shape(kind):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        flow = build_flow(kind, num_classes=2, dim=2, num_layers=3)
    assert isinstance(flow, NormflowsFlow)
    axis = torch.linspace(-12, 12, 601)
    mass = flow(torch.cartesian_prod(axis, axis)).exp().sum(dim=0) * (axis[1] - axis[0]) ** 2
    torch.testing.assert_close(mass, torch.ones(2), atol=5e-3, rtol=0)
