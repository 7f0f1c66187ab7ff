"""Matern-GGP: a Gaussian process a class, with the graph Matern kernel."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lopgpn_exp.graph import Graph, laplacian_spectrum
from lopgpn_exp.models.base import ClosedFormModel, check_in_range
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
)
from lopgpn_exp.posterior import GaussianSimplex

log = logging.getLogger(__name__)

# Nodes whose predictive integrals are taken at once: 40 classes x 20 points x 40 factors of 8 bytes each are 0.1 GiB.
PREDICTED_AT_ONCE = 4096


class MaternGGP(ClosedFormModel):
    r"""One latent function a class, Matern over the graph, fitted variationally. Paper: Sec. 5.1.

    Source: Borovitskiy et al. (2021).

    Args:
        num_eigenpairs: how many of the Laplacian's smallest eigenpairs the kernel is built of.
        nu, kappa, sigma_f: where the kernel's smoothness, length scale and mean variance start; they are trained.
        likelihood: `robust_max`, or gpytorch's `softmax`.
        epsilon: label noise of robust-max.
        quadrature_points: of its Gauss-Hermite rule.
        method: `lbfgs` until the bound has converged, or `adam`, the paper's fixed number of plain steps.
        bound_tolerance: relative improvement of the bound over 50 iterations below which L-BFGS stops.
        adam_steps, adam_learning_rate: of `adam`.
        max_inducing: with more training nodes than this, the weight-space form and minibatches take over.
        epochs, batch_size, learning_rate: of the minibatches.
        eigen_tolerance: largest residual of an eigenpair.

    Features are not used. The predicted mean and variance are those of the label's indicator (see `RobustMax`).
    """

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
        for name, value, low, hint in (
            ("num_eigenpairs", num_eigenpairs, 1, "500"),
            ("nu", nu, 1e-3, "1.5"),
            ("kappa", kappa, 1e-3, "5"),
            ("sigma_f", sigma_f, 1e-4, "1"),
            ("quadrature_points", quadrature_points, 1, "20"),
            ("max_steps", max_steps, 1, "5000"),
            ("adam_steps", adam_steps, 1, "20000"),
            ("max_inducing", max_inducing, 0, "2000"),
            ("epochs", epochs, 1, "40"),
            ("batch_size", batch_size, 1, "1024"),
        ):
            check_in_range(name, value, low=low, hint=hint)
        check_in_range("epsilon", epsilon, low=1e-12, high=0.5, hint="1e-3")
        self.num_eigenpairs, self.eigen_tolerance = num_eigenpairs, eigen_tolerance
        self.kernel_start = {"nu": nu, "kappa": kappa, "sigma_f": sigma_f}
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

    def fit_nodes(
        self,
        graph: Graph,
        nodes: Int[Tensor, " train"],
        labels: Int[Tensor, " train"],
        *,
        seed: int,
        cache_dir: Path | None,
        report: Callable[[str], None],
    ) -> dict[str, Any]:
        gp = self.variational(graph, nodes, labels, cache_dir=cache_dir, report=report)

        def told(step: int, bound: float) -> None:
            report(f"step {step}  bound {bound:.6g}")

        if isinstance(gp, WeightSpace):
            done = fit_minibatches(gp, seed=seed, report=told, **self.batch_options)
        elif self.method == "lbfgs":
            done = fit_full_batch(gp, report=told, **self.lbfgs_options)
        else:
            done = fit_plain_adam(gp, report=told, **self.adam_options)
        log.info("bound %.6g after %d steps, kernel %s", done.bound, done.iterations, gp.kernel.values())
        mean, variance = self._predictive(gp, graph.num_nodes, report)
        return {
            "mean": mean,
            "variance": variance,
            "bound": done.bound,
            "iterations": done.iterations,
            "kernel": gp.kernel.values(),
            "form": type(gp).__name__,
        }

    def variational(
        self,
        graph: Graph,
        nodes: Int[Tensor, " train"],
        labels: Int[Tensor, " train"],
        *,
        cache_dir: Path | None = None,
        report: Callable[[str], None] = lambda text: None,
    ) -> VariationalGP:
        """The unfitted process, in the form that the number of training nodes asks for."""
        spectrum = laplacian_spectrum(
            graph,
            num_eigenpairs=self.num_eigenpairs,
            tolerance=self.eigen_tolerance,
            cache_dir=cache_dir,
            report=report,
        )
        kernel = MaternKernel(torch.from_numpy(spectrum.values), graph.num_nodes, **self.kernel_start)
        form: type[InducingPoints] | type[WeightSpace] = InducingPoints
        if len(nodes) > self.max_inducing:
            form = WeightSpace
            log.warning(
                "%d training nodes are more than model.max_inducing=%d: fitting the kernel's %d weights by minibatches "
                "instead of inducing points",
                len(nodes),
                self.max_inducing,
                len(spectrum.values),
            )
        vectors = torch.from_numpy(spectrum.vectors)
        return form(kernel, self.likelihood, vectors, nodes, labels, num_classes=self.num_classes)

    @torch.no_grad()
    def _predictive(
        self, gp: VariationalGP, num_nodes: int, report: Callable[[str], None]
    ) -> tuple[Float[Tensor, "nodes classes"], Float[Tensor, "nodes classes"]]:
        found = []
        for nodes in torch.arange(num_nodes).split(PREDICTED_AT_ONCE):
            report(f"predicting node {int(nodes[0])} of {num_nodes}")
            found.append(self.likelihood.predict(*gp.moments(nodes)))
        mean, variance = (torch.cat(parts) for parts in zip(*found, strict=True))
        if not bool(torch.isfinite(mean).all() and torch.isfinite(variance).all()):
            node = int(torch.nonzero(~torch.isfinite(mean + variance))[0, 0])
            raise ArithmeticError(f"the predictive distribution of node {node} is not finite")
        return mean, variance

    def posterior(self, fitted: dict[str, Any]) -> GaussianSimplex:
        return GaussianSimplex(fitted["mean"], fitted["variance"])
