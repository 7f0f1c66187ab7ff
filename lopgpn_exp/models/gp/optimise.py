"""Maximise the evidence lower bound: by L-BFGS, by Adam as in the paper, or by minibatches."""

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

# L-BFGS has converged when this many iterations together improve the bound by less than the tolerance.
WINDOW = 50
# Number of past steps from which L-BFGS estimates the curvature.
HISTORY = 20
# Limits of the logarithms of nu, kappa and sigma_f, and of the deviations. Where the bound is flat, nu would grow to
# infinity, and beyond the limits the Cholesky factor loses all digits.
KERNEL_LIMITS = ((math.log(1e-3), math.log(1e6)), (math.log(1e-3), math.log(1e3)), (math.log(1e-4), math.log(1e4)))
DEVIATION_LIMITS = (-15.0, 5.0)

StepCallback = Callable[[int, float], None]  # called with the step and the bound


@dataclass(frozen=True)
class OptimisationResult:
    """The bound after a fit, and the number of iterations."""

    bound: float
    iterations: int


def fit_full_batch(
    gp: VariationalGP, *, tolerance: float, max_steps: int, report: StepCallback = lambda step, bound: None
) -> OptimisationResult:
    """Optimise variational parameters and kernel together by L-BFGS until the bound has converged.

    Deviation: the paper takes 20,000 Adam steps (see `fit_plain_adam`), which are slower and reach a lower bound.
    """
    from scipy.optimize import OptimizeResult, minimize  # deferred import: only this function needs it

    parameters = [parameter for parameter in gp.parameters() if parameter.requires_grad]
    limits = np.concatenate([_get_limits(gp, parameter) for parameter in parameters])
    history: list[float] = []

    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        torch.nn.utils.vector_to_parameters(torch.from_numpy(point), parameters)
        gp.zero_grad()
        value = _compute_bound(gp)
        value.backward()
        gradient = torch.cat([parameter.grad.flatten() for parameter in parameters if parameter.grad is not None])
        return -value.item(), -gradient.numpy()

    def stop_if_converged(intermediate_result: OptimizeResult) -> None:  # scipy requires this argument name
        history.append(-float(intermediate_result.fun))
        report(len(history), history[-1])
        if len(history) > WINDOW and history[-1] - history[-1 - WINDOW] < tolerance * abs(history[-1]):
            raise StopIteration

    start = torch.nn.utils.parameters_to_vector(parameters).detach().numpy()
    options = {"maxiter": max_steps, "maxfun": 4 * max_steps, "maxcor": HISTORY, "ftol": 0.0, "gtol": 1e-6}
    result = minimize(
        objective, start, jac=True, method="L-BFGS-B", bounds=limits, callback=stop_if_converged, options=options
    )
    torch.nn.utils.vector_to_parameters(torch.from_numpy(result.x), parameters)
    return OptimisationResult(-float(result.fun), len(history))


def fit_plain_adam(
    gp: VariationalGP, *, steps: int, learning_rate: float, report: StepCallback = lambda step, bound: None
) -> OptimisationResult:
    """Take a fixed number of Adam steps, with softplus for positive parameters. Paper: Sec. 5.1, public code."""
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
        return OptimisationResult(_compute_bound(gp).item(), steps)


def fit_minibatches(
    gp: VariationalGP,
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
    report: StepCallback = lambda step, bound: None,
) -> OptimisationResult:
    """Optimise by Adam on random batches of the training nodes; the learning rate decays to zero by a half cosine."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(gp.parameters(), lr=learning_rate)
    num_batches = math.ceil(len(gp.labels) / batch_size)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * num_batches)
    for epoch in range(1, epochs + 1):
        total = 0.0
        for batch in torch.randperm(len(gp.labels), generator=generator).chunk(num_batches):
            optimizer.zero_grad()
            value = _compute_bound(gp, batch)
            (-value).backward()
            optimizer.step()
            schedule.step()
            total += value.item() / num_batches
        report(epoch, total)
    return OptimisationResult(_compute_full_bound(gp, batch_size), epochs)


@torch.no_grad()
def _compute_full_bound(gp: VariationalGP, batch_size: int) -> float:
    """Return the bound over all training nodes, computed batch by batch."""
    total = -gp.divergence().item()
    for batch in torch.arange(len(gp.labels)).split(batch_size):
        mean, variance = gp.train_moments(batch)
        total += gp.likelihood.expected_log(mean, variance, gp.labels[batch]).sum().item()
    return total


def _compute_bound(gp: VariationalGP, batch: Tensor | None = None) -> Tensor:
    """Return the bound; raise an error if it cannot be computed or is not finite."""
    try:
        value = gp(batch)
    except np.linalg.LinAlgError as error:
        raise InputError(
            f"the kernel matrix of the training nodes has no Cholesky factor at {gp.kernel.values()} ({error})",
            expected="a positive definite matrix: choose a smaller sigma_f, or the weight-space form (max_inducing 0)",
            parameter="max_inducing",
            suggestion=0,
        ) from None
    if not bool(torch.isfinite(value)):
        raise ArithmeticError(f"the bound is {value.item()} at kernel values {gp.kernel.values()}")
    return value


def _get_limits(gp: VariationalGP, parameter: Tensor) -> np.ndarray:
    if parameter is gp.kernel.log_values:
        return np.array(KERNEL_LIMITS)
    limits = DEVIATION_LIMITS if parameter is gp.log_deviation else (-np.inf, np.inf)
    return np.tile(limits, (parameter.numel(), 1))


def _inverse_softplus(value: Tensor) -> Tensor:
    return value + torch.log(-torch.expm1(-value))
