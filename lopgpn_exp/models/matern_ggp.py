"""Matern-GGP: one Gaussian process per class, with the graph Matern kernel."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from lopgpn_exp.errors import check_in_range
from lopgpn_exp.models.base import ClosedFormModel, FitData
from lopgpn_exp.models.gp import (
    InducingPoints,
    MaternKernel,
    RobustMax,
    Softmax,
    VariationalGP,
    WeightSpace,
    fit_full_batch,
    fit_minibatches,
    fit_plain_adam,
    laplacian_spectrum,
)
from lopgpn_exp.posterior import GaussianSimplex

log = logging.getLogger(__name__)

# Nodes per batch of predictions: the quadrature takes about 0.1 GiB with 40 classes.
PREDICTION_BATCH = 4096


class MaternGGP(ClosedFormModel):
    r"""One latent function per class with a graph Matern kernel, fitted by variational inference. Paper: Sec. 5.1.

    Source: Borovitskiy et al. (2021).

    Args:
        num_eigenpairs: number of smallest eigenpairs of the Laplacian that the kernel uses.
        nu, kappa, sigma_f: initial smoothness, length scale and mean variance of the kernel, which are trained.
        likelihood: `robust_max`, or `softmax` from gpytorch.
        epsilon: label noise of robust-max.
        quadrature_points: number of points of its Gauss-Hermite quadrature.
        method: `lbfgs` until the bound has converged, or `adam` with a fixed number of steps, as in the paper.
        bound_tolerance: L-BFGS stops if 50 iterations improve the bound by a smaller fraction.
        max_steps: largest number of L-BFGS iterations.
        adam_steps, adam_learning_rate: options of `adam`.
        max_inducing: with more training nodes than this, the weight-space form is fitted by minibatches.
        epochs, batch_size, learning_rate: options of the minibatches.
        eigen_tolerance: largest residual of an eigenpair.

    Features are not used. The predicted mean and variance are those of the class indicators (see `RobustMax`).
    """

    numerics_version = 3  # the gradient is computed in another order

    def __init__(
        self,
        *,
        num_features: int,
        num_classes: int,
        num_eigenpairs: int = 500,
        nu: float = 1.5,
        kappa: float = 5.0,
        sigma_f: float = 1.0,
        likelihood: Literal["robust_max", "softmax"] = "robust_max",
        epsilon: float = 1e-3,
        quadrature_points: int = 20,
        method: Literal["lbfgs", "adam"] = "lbfgs",
        bound_tolerance: float = 1e-5,
        max_steps: int = 5000,
        adam_steps: int = 20_000,
        adam_learning_rate: float = 1e-3,
        max_inducing: int = 2000,
        epochs: int = 40,
        batch_size: int = 1024,
        learning_rate: float = 0.1,
        eigen_tolerance: float = 1e-6,
    ) -> None:
        super().__init__(num_classes=num_classes)
        for parameter, value, low, high, reason, suggestion in (
            ("num_eigenpairs", num_eigenpairs, 1, 1_000_000, "each has one value per node", 500),
            ("nu", nu, 1e-3, None, "", 1.5),
            ("kappa", kappa, 1e-3, None, "", 5.0),
            ("sigma_f", sigma_f, 1e-4, None, "", 1.0),
            ("epsilon", epsilon, 1e-12, 0.5, "", 1e-3),
            ("quadrature_points", quadrature_points, 1, 1000, "each node is evaluated at all points", 20),
            ("bound_tolerance", bound_tolerance, 0, 1, "it is a fraction of the bound", 1e-5),
            ("max_steps", max_steps, 1, 1_000_000, "each step evaluates the whole bound", 5000),
            ("adam_steps", adam_steps, 1, 10_000_000, "each step evaluates the whole bound", 20_000),
            ("adam_learning_rate", adam_learning_rate, 1e-12, None, "", 1e-3),
            ("max_inducing", max_inducing, 0, 50_000, "the covariance has its square of entries", 2000),
            ("epochs", epochs, 1, 1_000_000, "each epoch visits every training node", 40),
            ("batch_size", batch_size, 1, 1_000_000_000, "a batch is held in memory", 1024),
            ("learning_rate", learning_rate, 1e-12, None, "", 0.1),
            ("eigen_tolerance", eigen_tolerance, 1e-12, 1, "eigenvectors have length 1", 1e-6),
        ):
            check_in_range(parameter, value, low=low, high=high, reason=reason, suggestion=suggestion)
        self.num_eigenpairs, self.eigen_tolerance = num_eigenpairs, eigen_tolerance
        self.kernel_values = {"nu": nu, "kappa": kappa, "sigma_f": sigma_f}
        self.likelihood = (
            RobustMax(epsilon=epsilon, quadrature_points=quadrature_points)
            if likelihood == "robust_max"
            else Softmax(num_classes=num_classes)
        )
        self.method, self.max_inducing = method, max_inducing
        self.lbfgs_options: dict[str, Any] = {"tolerance": bound_tolerance, "max_steps": max_steps}
        self.adam_options: dict[str, Any] = {"steps": adam_steps, "learning_rate": adam_learning_rate}
        self.batch_options: dict[str, Any] = {
            "epochs": epochs,
            "batch_size": batch_size,
            "learning_rate": learning_rate,
        }

    def fit_nodes(self, data: FitData) -> dict[str, Any]:
        gp = self.build_gp(data)

        def report_step(step: int, bound: float) -> None:
            data.report(f"step {step}  bound {bound:.6g}")

        if isinstance(gp, WeightSpace):
            result = fit_minibatches(gp, seed=data.seed, report=report_step, **self.batch_options)
        elif self.method == "lbfgs":
            result = fit_full_batch(gp, report=report_step, **self.lbfgs_options)
        else:
            result = fit_plain_adam(gp, report=report_step, **self.adam_options)
        log.info("bound %.6g after %d steps with kernel %s", result.bound, result.iterations, gp.kernel.values())
        mean, variance = self._predict_moments(gp, data.graph.num_nodes, data.report)
        return {
            "mean": mean,
            "variance": variance,
            "bound": result.bound,
            "iterations": result.iterations,
            "kernel": gp.kernel.values(),
            "form": type(gp).__name__,
        }

    def build_gp(self, data: FitData) -> VariationalGP:
        """Return the Gaussian process before the fit, in the form that suits the number of training nodes."""
        spectrum = laplacian_spectrum(
            data.graph,
            num_eigenpairs=self.num_eigenpairs,
            eigen_tolerance=self.eigen_tolerance,
            cache_dir=data.cache_dir,
            report=data.report,
        )
        kernel = MaternKernel(torch.from_numpy(spectrum.values), data.graph.num_nodes, **self.kernel_values)
        form: type[InducingPoints] | type[WeightSpace] = InducingPoints
        if len(data.nodes) > self.max_inducing:
            form = WeightSpace
            log.warning(
                "%d training nodes, but max_inducing is %d: fitting the weight-space form by minibatches",
                len(data.nodes),
                self.max_inducing,
            )
        vectors = torch.from_numpy(spectrum.vectors)
        return form(kernel, self.likelihood, vectors, data.nodes, data.labels, num_classes=self.num_classes)

    @torch.no_grad()
    def _predict_moments(
        self, gp: VariationalGP, num_nodes: int, report: Callable[[str], None]
    ) -> tuple[Float[Tensor, "nodes classes"], Float[Tensor, "nodes classes"]]:
        batches = []
        for nodes in torch.arange(num_nodes).split(PREDICTION_BATCH):
            report(f"predicting node {int(nodes[0])} of {num_nodes}")
            batches.append(self.likelihood.predict(*gp.moments(nodes)))
        mean, variance = (torch.cat(parts) for parts in zip(*batches, strict=True))
        if not bool(torch.isfinite(mean).all() and torch.isfinite(variance).all()):
            node = int(torch.nonzero(~torch.isfinite(mean + variance))[0, 0])
            raise ArithmeticError(f"the predictive distribution of node {node} is not finite")
        return mean, variance

    def posterior(self, fitted: dict[str, Any]) -> GaussianSimplex:
        return GaussianSimplex(fitted["mean"], fitted["variance"])
