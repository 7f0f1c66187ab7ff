"""Three ways up the bound: a quasi-Newton method, the paper's plain Adam, and minibatches."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from lopgpn_exp.errors import InputError
from lopgpn_exp.models.gp.variational import VariationalGP

# The quasi-Newton fit is converged when so many iterations together improve the bound by less than the tolerance.
WINDOW = 50
# Pairs of steps and gradients that stand for the curvature: more is faster here, until the memory for them counts.
HISTORY = 20
# Logarithms of the kernel's values and of deviations stay within these: a flat bound lets nu run to infinity, where the
# kernel is the heat kernel to all digits; beyond them the Cholesky factor has none left.
KERNEL_LIMITS = ((math.log(1e-3), math.log(1e6)), (math.log(1e-3), math.log(1e3)), (math.log(1e-4), math.log(1e4)))
DEVIATION_LIMITS = (-15.0, 5.0)

Report = Callable[[int, float], None]


@dataclass(frozen=True)
class FitReport:
    """The bound reached, and the steps that it took."""

    bound: float
    iterations: int


def fit_full_batch(
    gp: VariationalGP, *, tolerance: float, max_steps: int, report: Report = lambda step, bound: None
) -> FitReport:
    """L-BFGS on the variational parameters and the kernel's values together, until the bound has converged.

    Deviation: the paper takes 20,000 Adam steps at 1e-3 (see `fit_plain_adam`), which ends lower and takes longer.
    """
    from scipy.optimize import OptimizeResult, minimize  # only for who fits a Gaussian process

    parameters = [parameter for parameter in gp.parameters() if parameter.requires_grad]
    limits = np.concatenate([_limits(gp, parameter) for parameter in parameters])
    history: list[float] = []

    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        torch.nn.utils.vector_to_parameters(torch.from_numpy(point), parameters)
        gp.zero_grad()
        value = _checked(gp)
        value.backward()
        gradient = torch.cat([parameter.grad.flatten() for parameter in parameters if parameter.grad is not None])
        return -value.item(), -gradient.numpy()

    def look(intermediate_result: OptimizeResult) -> None:
        history.append(-float(intermediate_result.fun))
        report(len(history), history[-1])
        if len(history) > WINDOW and history[-1] - history[-1 - WINDOW] < tolerance * abs(history[-1]):
            raise StopIteration

    start = torch.nn.utils.parameters_to_vector(parameters).detach().numpy()
    options = {"maxiter": max_steps, "maxfun": 4 * max_steps, "maxcor": HISTORY, "ftol": 0.0, "gtol": 1e-6}
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=limits, callback=look, options=options)
    torch.nn.utils.vector_to_parameters(torch.from_numpy(found.x), parameters)
    return FitReport(-float(found.fun), len(history))


def fit_plain_adam(
    gp: VariationalGP, *, steps: int, learning_rate: float, report: Report = lambda step, bound: None
) -> FitReport:
    """A fixed number of Adam steps on all parameters, positive ones behind a softplus. Paper: Sec. 5.1, public code."""
    kernel = _inverse_softplus(gp.kernel.log_values.detach().exp()).requires_grad_()
    deviation = _inverse_softplus(gp.log_deviation.detach().exp()).requires_grad_()
    mean = gp.mean.detach().clone().requires_grad_()

    def parameters() -> dict[str, Tensor]:
        return {
            "kernel.log_values": softplus(kernel).log(),
            "mean": mean,
            "log_deviation": softplus(deviation).log(),
        }

    optimizer = torch.optim.Adam([kernel, mean, deviation], lr=learning_rate)
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        loss = -torch.func.functional_call(gp, parameters(), (None,))
        loss.backward()
        optimizer.step()
        report(step, -loss.item())
    gp.load_state_dict({name: value.detach() for name, value in parameters().items()}, strict=False)
    with torch.no_grad():
        return FitReport(_checked(gp).item(), steps)


def fit_minibatches(
    gp: VariationalGP,
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
    report: Report = lambda step, bound: None,
) -> FitReport:
    """Adam on random batches of the training nodes, its step falling to zero by a half cosine."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(gp.parameters(), lr=learning_rate)
    batches = math.ceil(len(gp.labels) / batch_size)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * batches)
    for epoch in range(1, epochs + 1):
        total = 0.0
        for batch in torch.randperm(len(gp.labels), generator=generator).chunk(batches):
            optimizer.zero_grad()
            value = _checked(gp, batch)
            (-value).backward()
            optimizer.step()
            schedule.step()
            total += value.item() / batches
        report(epoch, total)
    return FitReport(whole_bound(gp, batch_size), epochs)


@torch.no_grad()
def whole_bound(gp: VariationalGP, batch_size: int) -> float:
    """The bound over all training nodes, a batch at a time."""
    total = -gp.divergence().item()
    for batch in torch.arange(len(gp.labels)).split(batch_size):
        mean, variance = gp.train_moments(batch)
        total += gp.likelihood.expected_log(mean, variance, gp.labels[batch]).sum().item()
    return total


def _checked(gp: VariationalGP, batch: Tensor | None = None) -> Tensor:
    try:
        value = gp(batch)
    except torch.linalg.LinAlgError as error:
        raise InputError(
            f"the kernel matrix of the training nodes has no Cholesky factor at {gp.kernel.values()} ({error})",
            expected="a positive definite matrix",
            hint="a smaller model.sigma_f, or model.max_inducing=0 for the weight-space form",
        ) from None
    if not bool(torch.isfinite(value)):
        raise ArithmeticError(f"the bound is {value.item()} at kernel values {gp.kernel.values()}")
    return value


def _limits(gp: VariationalGP, parameter: Tensor) -> np.ndarray:
    if parameter is gp.kernel.log_values:
        return np.array(KERNEL_LIMITS)
    one = DEVIATION_LIMITS if parameter is gp.log_deviation else (-np.inf, np.inf)
    return np.tile(one, (parameter.numel(), 1))


def _inverse_softplus(value: Tensor) -> Tensor:
    return value + torch.log(-torch.expm1(-value))
