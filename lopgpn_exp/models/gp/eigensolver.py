"""Smallest non-zero eigenpairs of a sparse Laplacian, by a block Krylov method with the inverse.

Blocks are used because Laplacians of real graphs have multiple eigenvalues (two leaves of one node give eigenvalue 1),
of which a single-vector Lanczos method finds only one copy.
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
# Block steps between two convergence checks, each of which solves an eigenproblem of the size of the basis.
STEPS_PER_CHECK = 6
# The basis is restarted from its best vectors when it reaches its largest size, the maximum of MIN_BASIS and
# BASIS_PER_PAIR vectors per eigenpair. A restart loses information; after MAX_RESTARTS the solver gives up.
MIN_BASIS, BASIS_PER_PAIR, MAX_RESTARTS = 3000, 6, 12
# For larger graphs a factorisation has too many entries, while preconditioned conjugate gradients converge fast.
FACTORISE_UP_TO = 50_000
# Makes the factorised matrix regular without changing its eigenvectors.
SHIFT = 1e-3
# Tolerance of the conjugate gradients as a fraction of the tolerance of the eigenpairs, which cannot be more accurate.
INNER_TOLERANCE, INNER_STEPS = 0.1, 1000
# From this tolerance on, single precision is accurate enough, and halves the memory traffic.
SINGLE_FROM = 1e-5
# A vector that loses this much of its length in the orthogonalisation consists of rounding errors.
DEPENDENT = 1e-10

BlockOperator: TypeAlias = Callable[[Float[np.ndarray, "nodes block"]], Float[np.ndarray, "nodes block"]]


class NotConvergedError(ArithmeticError):
    """The solver gave up."""

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
    """Return the `count` smallest eigenpairs in the complement of the null space, in ascending order.

    Rayleigh-Ritz method on a growing basis, whose next block is the inverse applied to the last block. A full basis is
    restarted from its lowest Ritz vectors and extended from the first that has not converged. When all pairs have
    converged, the search continues from a new random block in their complement until one more pair converges: if no
    eigenvalue changes, no copy of a multiple eigenvalue was missed. Random blocks are drawn with a fixed seed.

    Args:
        component: connected component of each node; the indicator vectors of the components span the null space.
        tolerance: largest residual |L x - lambda x|.

    Raises:
        NotConvergedError: after too many restarts.
    """
    n = laplacian.shape[0]
    rng = np.random.default_rng(0)
    project = _complement_projection(component)
    solve = inverse_operator(laplacian, tolerance=INNER_TOLERANCE * tolerance)
    dimension = n - int(component.max()) - 1
    capacity = max(MIN_BASIS, BASIS_PER_PAIR * count) + 8 * BLOCK
    basis = _Basis(laplacian, project, capacity=min(capacity, dimension))
    first_values: np.ndarray | None = None  # eigenvalues found before the last random block was added
    restarts = 0
    block = basis.orthonormalise(rng.standard_normal((n, BLOCK)))
    while True:
        for _ in range(STEPS_PER_CHECK):
            basis.append(block)
            block = basis.orthonormalise(solve(block) if block.shape[1] else rng.standard_normal((n, BLOCK)))
        num_checked = min(count if first_values is None else count + 1, dimension)
        # Of the additional pair only the eigenvalue matters; its error is of the order of the squared residual.
        limits = np.where(np.arange(num_checked) < count, tolerance, np.sqrt(tolerance))
        converged, residual = basis.count_converged(limits)
        report(f"eigenpairs: {converged} of {num_checked} converged, basis of {basis.size}")
        if converged == num_checked:
            values = basis.values[:count]
            is_complete = basis.size == dimension
            if is_complete or (first_values is not None and np.allclose(values, first_values, rtol=0, atol=tolerance)):
                return values, basis.vectors(count)
            first_values = values
            basis.restart(count)
            block = basis.orthonormalise(rng.standard_normal((n, BLOCK)))
        elif basis.num_free < STEPS_PER_CHECK * BLOCK and basis.size < dimension:
            restarts += 1
            if restarts > MAX_RESTARTS:
                raise NotConvergedError(residual, converged)
            basis.restart(count + 4 * BLOCK)
            block = basis.orthonormalise(solve(basis.columns[:, converged : converged + BLOCK]))
        elif basis.size == dimension:
            raise NotConvergedError(residual, converged)


class _Basis:
    """Orthonormal columns in the complement of the null space, and the projection of the Laplacian on them."""

    def __init__(self, laplacian: sp.csr_array, project: BlockOperator, *, capacity: int) -> None:
        self.laplacian, self.project = laplacian, project
        self.columns = np.empty((laplacian.shape[0], capacity), order="F")
        self.projected = np.zeros((capacity, capacity))
        self.size = 0
        self.values, self.rotation = np.empty(0), np.empty((0, 0))

    @property
    def num_free(self) -> int:
        """Number of columns that can still be added."""
        return self.columns.shape[1] - self.size

    def orthonormalise(self, block: Float[np.ndarray, "nodes block"]) -> Float[np.ndarray, "nodes new"]:
        """Return an orthonormal basis of the part of a block that is orthogonal to the columns."""
        old = self.columns[:, : self.size]
        for _ in range(2):  # once is not accurate enough
            block = self.project(block)
            block = block / np.maximum(np.linalg.norm(block, axis=0), 1e-300)
            block = block - old @ (old.T @ block)
            block, triangle = qr(block, mode="economic", overwrite_a=True)
            block = block[:, np.abs(np.diag(triangle)) > DEPENDENT][:, : self.num_free]
        return block

    def append(self, block: Float[np.ndarray, "nodes new"]) -> None:
        start, stop = self.size, self.size + block.shape[1]
        self.columns[:, start:stop] = block
        self.size = stop
        image = self.columns[:, :stop].T @ (self.laplacian @ block)
        self.projected[:stop, start:stop] = image
        self.projected[start:stop, :start] = image[:start].T

    def count_converged(self, limits: Float[np.ndarray, " checked"]) -> tuple[int, float]:
        """Return how many of the lowest Ritz pairs have residuals within their limits, and the largest residual.

        Low pairs converge first: blocks of pairs are checked in ascending order up to the first block that fails.
        """
        symmetric = 0.5 * (self.projected + self.projected.T)[: self.size, : self.size]
        available = min(len(limits) + 4 * BLOCK, self.size)
        self.values, self.rotation = eigh(symmetric, subset_by_index=[0, available - 1], overwrite_a=True)
        for start in range(0, min(len(limits), available), BLOCK):
            pairs = slice(start, min(start + BLOCK, len(limits), available))
            residuals = np.linalg.norm(self._residual_vectors(pairs), axis=0)
            failing = np.flatnonzero(residuals > limits[pairs])
            if len(failing):
                return start + int(failing[0]), float(residuals.max())
        return min(len(limits), available), 0.0

    def _residual_vectors(self, pairs: slice) -> Float[np.ndarray, "nodes chosen"]:
        vectors = self.columns[:, : self.size] @ self.rotation[:, pairs]
        return self.laplacian @ vectors - vectors * self.values[pairs]

    def vectors(self, count: int) -> Float[np.ndarray, "nodes count"]:
        """Return the `count` lowest Ritz vectors."""
        return self.columns[:, : self.size] @ self.rotation[:, :count]

    def restart(self, keep: int) -> None:
        """Replace the columns by the `keep` lowest Ritz vectors."""
        keep = min(keep, self.rotation.shape[1])
        self.columns[:, :keep] = self.vectors(keep)
        self.projected[:] = 0
        self.projected[:keep, :keep] = np.diag(self.values[:keep])
        self.size = keep


def inverse_operator(laplacian: sp.csr_array, *, tolerance: float) -> BlockOperator:
    """Return the inverse up to the null space: by a factorisation for small graphs, else by conjugate gradients."""
    n = laplacian.shape[0]
    if n > FACTORISE_UP_TO:
        dtype = np.float32 if tolerance >= SINGLE_FROM else np.float64
        converted = laplacian.astype(dtype)
        return lambda block: conjugate_gradients(converted, block.astype(dtype), tolerance=tolerance).astype(np.float64)
    shifted = (laplacian + SHIFT * sp.eye_array(n)).tocsc()
    factors = splu(shifted, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    return factors.solve


def conjugate_gradients(
    laplacian: sp.csr_array, right: Float[np.ndarray, "nodes block"], *, tolerance: float
) -> Float[np.ndarray, "nodes block"]:
    """Solve L X = B for all columns together, with the degrees as preconditioner.

    B must be orthogonal to the null space; the part of X in the null space is arbitrary.
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
        next_energy = np.einsum("ij,ij->j", residual, scaled)
        if (next_energy <= tolerance**2 * first).all():
            break
        direction *= next_energy / np.maximum(energy, np.finfo(image.dtype).tiny)
        direction += scaled
        energy = next_energy
    return solution


def _complement_projection(component: Int[np.ndarray, " nodes"]) -> BlockOperator:
    """Return the projection onto the complement of the null space: it subtracts the mean of each component."""
    n = len(component)
    size = np.bincount(component)
    average = sp.csr_array((1 / size[component], (component, np.arange(n))), shape=(len(size), n))
    return lambda block: block - (average @ block)[component]
