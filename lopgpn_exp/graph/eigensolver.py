"""Smallest non-zero eigenpairs of a sparse Laplacian: a block Krylov space of its inverse.

A block, not a vector: Laplacians of real graphs have eigenvalues of high multiplicity (twin leaves give 1), of which a
single-vector Lanczos sees one copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int
from scipy.linalg import eigh, qr
from scipy.sparse.linalg import splu

BLOCK = 32
# Block steps between two looks at the Ritz pairs, each an eigenproblem of the basis's size.
STEPS_PER_CHECK = 6
# Largest basis, at least and per wanted pair, before it is cut back to the best vectors, which costs a lot of what was
# known; how often that may happen.
LEAST_BASIS, BASIS_PER_PAIR, MOST_RESTARTS = 3000, 6, 12
# Larger graphs have factors with too many entries; the preconditioned iteration converges fast on them.
FACTORISE_UP_TO = 50_000
# Makes the factorised matrix regular; the inverse keeps its eigenvectors.
SHIFT = 1e-3
# The inverse by iteration, relative to the eigenpairs' tolerance: its error is a floor to their residuals.
INNER_TOLERANCE, INNER_STEPS = 0.1, 1000
# Single precision has digits enough for an inverse this rough, and moves half the memory.
SINGLE_FROM = 1e-5
# A direction that loses so much of its length to the basis is made of rounding errors.
DEPENDENT = 1e-10

Blocks: TypeAlias = Callable[[Float[np.ndarray, "nodes block"]], Float[np.ndarray, "nodes block"]]


class NotConvergedError(ArithmeticError):
    """How far the solver came."""

    def __init__(self, residual: float, converged: int) -> None:
        super().__init__(f"residual {residual:.1e}, {converged} pairs converged")
        self.residual, self.converged = residual, converged


def smallest_eigenpairs(
    laplacian: sp.csr_array,
    component: Int[np.ndarray, " nodes"],
    count: int,
    *,
    tolerance: float,
    report: Callable[[str], None] = lambda text: None,
) -> tuple[Float[np.ndarray, " count"], Float[np.ndarray, "nodes count"]]:
    """The `count` smallest eigenpairs in the complement of the null space, ascending.

    Rayleigh-Ritz on a growing basis, each block of which is the inverse applied to the last one; a full basis is cut
    back to its lowest Ritz vectors and goes on from the first unconverged of them. When all are converged, a fresh
    random block is added and the search goes on in the complement of what was found: only when the smallest pair there
    has converged too, and none fell below the known ones, was no copy of a multiple eigenvalue missed.

    Deterministic: random blocks are drawn from a fixed seed.

    Args:
        component: connected component of each node; its indicator vectors span the null space.
        tolerance: largest residual |L x - lambda x|.

    Raises:
        NotConvergedError: if the basis was cut back too often.
    """
    n = laplacian.shape[0]
    rng = np.random.default_rng(0)
    off_null_space = _off_null_space(component)
    solve = inverse_of(laplacian, tolerance=INNER_TOLERANCE * tolerance)
    dimension = n - int(component.max()) - 1
    capacity = max(LEAST_BASIS, BASIS_PER_PAIR * count) + 8 * BLOCK
    basis = _Basis(laplacian, off_null_space, capacity=min(capacity, dimension))
    known: np.ndarray | None = None
    restarts = 0
    block = basis.new(rng.standard_normal((n, BLOCK)))
    while True:
        for _ in range(STEPS_PER_CHECK):
            basis.append(block)
            block = basis.new(solve(block) if block.shape[1] else rng.standard_normal((n, BLOCK)))
        needed = min(count if known is None else count + 1, dimension)
        # Of the pair beyond the wanted ones only the value matters; its error is of the order of the squared residual.
        limits = np.where(np.arange(needed) < count, tolerance, np.sqrt(tolerance))
        converged, worst = basis.converged_pairs(limits)
        report(f"eigenpairs: {converged} of {needed} converged, basis of {basis.size}")
        if converged == needed:
            values = basis.values[:count]
            complete = basis.size == dimension
            if complete or (known is not None and np.allclose(values, known, rtol=0, atol=tolerance)):
                return values, basis.vectors(count)
            known = values
            basis.restart(count)
            block = basis.new(rng.standard_normal((n, BLOCK)))
        elif basis.room < STEPS_PER_CHECK * BLOCK and basis.size < dimension:
            restarts += 1
            if restarts > MOST_RESTARTS:
                raise NotConvergedError(worst, converged)
            basis.restart(count + 4 * BLOCK)
            block = basis.new(solve(basis.columns[:, converged : converged + BLOCK]))
        elif basis.size == dimension:
            raise NotConvergedError(worst, converged)


class _Basis:
    """Orthonormal columns in the complement of the null space, and the Laplacian's projection on them."""

    def __init__(self, laplacian: sp.csr_array, off_null_space: Blocks, *, capacity: int) -> None:
        self.laplacian, self.off_null_space = laplacian, off_null_space
        self.columns = np.empty((laplacian.shape[0], capacity), order="F")
        self.projected = np.zeros((capacity, capacity))
        self.size = 0
        self.values, self.rotation = np.empty(0), np.empty((0, 0))

    @property
    def room(self) -> int:
        return self.columns.shape[1] - self.size

    def new(self, block: Float[np.ndarray, "nodes block"]) -> Float[np.ndarray, "nodes new"]:
        """What of a block is new to the basis, orthonormalised (twice: once loses digits)."""
        old = self.columns[:, : self.size]
        for _ in range(2):
            block = self.off_null_space(block)
            block = block / np.maximum(np.linalg.norm(block, axis=0), 1e-300)
            block = block - old @ (old.T @ block)
            block, triangle = qr(block, mode="economic", overwrite_a=True)
            block = block[:, np.abs(np.diag(triangle)) > DEPENDENT][:, : self.room]
        return block

    def append(self, block: Float[np.ndarray, "nodes new"]) -> None:
        start, stop = self.size, self.size + block.shape[1]
        self.columns[:, start:stop] = block
        self.size = stop
        image = self.columns[:, :stop].T @ (self.laplacian @ block)
        self.projected[:stop, start:stop] = image
        self.projected[start:stop, :start] = image[:start].T

    def converged_pairs(self, limits: Float[np.ndarray, " needed"]) -> tuple[int, float]:
        """How many of the lowest Ritz pairs are within their limits, and the largest residual seen.

        Pairs converge from below, so that they are looked at in blocks, up to the first block that fails.
        """
        symmetric = 0.5 * (self.projected + self.projected.T)[: self.size, : self.size]
        available = min(len(limits) + 4 * BLOCK, self.size)
        self.values, self.rotation = eigh(symmetric, subset_by_index=[0, available - 1], overwrite_a=True)
        for start in range(0, min(len(limits), available), BLOCK):
            looked_at = slice(start, min(start + BLOCK, len(limits), available))
            errors = np.linalg.norm(self._residuals(looked_at), axis=0)
            failing = np.flatnonzero(errors > limits[looked_at])
            if len(failing):
                return start + int(failing[0]), float(errors.max())
        return min(len(limits), available), 0.0

    def _residuals(self, chosen: slice) -> Float[np.ndarray, "nodes chosen"]:
        vectors = self.columns[:, : self.size] @ self.rotation[:, chosen]
        return self.laplacian @ vectors - vectors * self.values[chosen]

    def vectors(self, count: int) -> Float[np.ndarray, "nodes count"]:
        return self.columns[:, : self.size] @ self.rotation[:, :count]

    def restart(self, keep: int) -> None:
        """Cut back to the lowest Ritz vectors."""
        keep = min(keep, self.rotation.shape[1])
        self.columns[:, :keep] = self.vectors(keep)
        self.projected[:] = 0
        self.projected[:keep, :keep] = np.diag(self.values[:keep])
        self.size = keep


def inverse_of(laplacian: sp.csr_array, *, tolerance: float) -> Blocks:
    """The inverse, up to the null space: by factors where these stay small, else by iteration."""
    n = laplacian.shape[0]
    if n > FACTORISE_UP_TO:
        dtype = np.float32 if tolerance >= SINGLE_FROM else np.float64
        rough = laplacian.astype(dtype)
        return lambda block: conjugate_gradients(rough, block.astype(dtype), tolerance=tolerance).astype(np.float64)
    shifted = (laplacian + SHIFT * sp.eye_array(n)).tocsc()
    factors = splu(shifted, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    return factors.solve


def conjugate_gradients(
    laplacian: sp.csr_array, right: Float[np.ndarray, "nodes block"], *, tolerance: float
) -> Float[np.ndarray, "nodes block"]:
    """A solution of L X = B, all columns at once, preconditioned by the degrees.

    B has no part in the null space, so neither have residuals; that of the solution is whatever it happens to be.
    """
    inverse_degree = 1 / np.maximum(laplacian.diagonal(), 1)[:, None]
    residual = np.ascontiguousarray(right)
    solution, scaled = np.zeros_like(residual), inverse_degree * residual
    direction = scaled.copy()
    energy = first = np.einsum("ij,ij->j", residual, scaled)
    for _ in range(INNER_STEPS):
        image = laplacian @ direction
        step = energy / np.maximum(np.einsum("ij,ij->j", direction, image), np.finfo(image.dtype).tiny)
        solution += step * direction
        image *= step
        residual -= image
        np.multiply(inverse_degree, residual, out=scaled)
        following = np.einsum("ij,ij->j", residual, scaled)
        if (following <= tolerance**2 * first).all():
            break
        direction *= following / np.maximum(energy, np.finfo(image.dtype).tiny)
        direction += scaled
        energy = following
    return solution


def _off_null_space(component: Int[np.ndarray, " nodes"]) -> Blocks:
    """Projection: each component's mean is subtracted from it."""
    n = len(component)
    size = np.bincount(component)
    average = sp.csr_array((1 / size[component], (component, np.arange(n))), shape=(len(size), n))
    return lambda block: block - (average @ block)[component]
