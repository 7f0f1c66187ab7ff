import normflows as nf
import pytest
import torch

from lopgpn_exp.models.density import NormflowsDensities, RadialFlow, class_densities


def radial(seed: int = 0, **sizes) -> RadialFlow:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        flow = RadialFlow(**({"num_classes": 3, "dim": 4, "num_layers": 5} | sizes)).double()
        for parameter in flow.parameters():  # away from the start: larger and of both signs
            parameter.data.mul_(4)
    return flow


def test_log_determinant_equals_autograd_jacobian():
    flow = radial()
    points = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    _, log_det = flow.transform(points)
    for node in range(6):
        jacobian = torch.autograd.functional.jacobian(lambda z: flow.transform(z[None])[0][0], points[node])
        for label in range(3):
            expected = torch.linalg.slogdet(jacobian[label])
            assert expected.sign == 1
            torch.testing.assert_close(log_det[node, label], expected.logabsdet, rtol=1e-12, atol=1e-12)


def test_densities_equal_normflows_for_the_same_parameters():
    """normflows writes a = |alpha| and b = -a + softplus(beta): the same layer, other parameters."""
    flow = radial(num_layers=3)
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
    flow = radial(dim=2, num_layers=4)
    axis = torch.linspace(-12, 12, 801, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    mass = flow(grid).exp().sum(dim=0) * (axis[1] - axis[0]) ** 2
    torch.testing.assert_close(mass, torch.ones(3, dtype=torch.float64), atol=2e-3, rtol=0)


def test_a_point_at_a_centre_has_finite_value_and_gradient():
    flow = radial(num_layers=1)
    point = flow.center[0, 1].detach().clone()[None].requires_grad_()
    value = flow(point).sum()
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(point.grad).all()
    assert all(torch.isfinite(parameter.grad).all() for parameter in flow.parameters())


@pytest.mark.parametrize("kind", ["normflows_radial", "normflows_planar"])
def test_the_librarys_flows_are_densities_of_the_same_shape(kind):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        flow = class_densities(kind, num_classes=2, dim=2, num_layers=3)
    assert isinstance(flow, NormflowsDensities)
    axis = torch.linspace(-12, 12, 601)
    mass = flow(torch.cartesian_prod(axis, axis)).exp().sum(dim=0) * (axis[1] - axis[0]) ** 2
    torch.testing.assert_close(mass, torch.ones(2), atol=5e-3, rtol=0)
