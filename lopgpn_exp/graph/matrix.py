"""Constant matrices that are multiplied with trained values: a dense and a sparse one with the same interface.

The gradient of a sparse product needs the transpose, which torch rebuilds in every backward pass (6x the cost of the
forward pass). These matrices never change, so their transpose is built only once.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float, Int
from torch import Tensor

# torch warns at the first CSR tensor; the tests compare its CSR products with dense ones.
warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")

# A block of rows, times 64 columns, fits into the second-level cache. Every block costs a pass over the columns, which
# pays off only if a block has enough entries per column on average.
ROWS_PER_BLOCK = 2048
MIN_ENTRIES_PER_COLUMN = 8
# A dense product of many rows is computed on several cores, each thread a task at a time.
MANY_ROWS, ROWS_PER_TASK = 2**18, 2**12


class _ConstantProduct(torch.autograd.Function):
    """A product, possibly precomputed, whose gradient is a `transposed_product`."""

    @staticmethod
    def forward(ctx: Any, right: Tensor, matrix: Matrix, precomputed: list[Tensor]) -> Tensor:
        ctx.matrix = matrix
        return precomputed[0] if precomputed else matrix.product(right)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return ctx.matrix.transposed_product(grads[0].contiguous()), None, None


class Matrix(ABC):
    """A constant matrix: products, rows, and the entropy of rows that are mixture weights."""

    shape: tuple[int, int]
    dtype: torch.dtype

    def __matmul__(self, right: Float[Tensor, "columns width"]) -> Float[Tensor, "rows width"]:
        return _ConstantProduct.apply(right, self, [])

    def precomputed_product(
        self, right: Float[Tensor, "columns width"], product: Float[Tensor, "rows width"]
    ) -> Float[Tensor, "rows width"]:
        """Return `self @ right`, whose value is given, with its gradient."""
        return _ConstantProduct.apply(right, self, [product])

    @abstractmethod
    def product(self, right: Float[Tensor, "columns width"]) -> Float[Tensor, "rows width"]:
        """Return the matrix times `right`, without a gradient."""

    @abstractmethod
    def transposed_product(self, right: Float[Tensor, "rows width"]) -> Float[Tensor, "columns width"]:
        """Return the transpose times `right`, without a gradient."""

    @abstractmethod
    def rows(self, index: Int[Tensor, " chosen"]) -> Matrix:
        """Return some of the rows."""

    @abstractmethod
    def restrict(self, index: Int[Tensor, " chosen"]) -> tuple[Matrix, Int[Tensor, " used"]]:
        """Return rows `index`, reduced to the columns in which they have entries, and the indices of these columns."""

    @abstractmethod
    def row_entropy(self) -> Float[Tensor, " rows"]:
        """Return the entropy (natural logarithm) of each row as a categorical distribution."""

    @abstractmethod
    def to(self, dtype: torch.dtype) -> Matrix:
        """Return the matrix in another precision."""

    @abstractmethod
    def scipy(self) -> sp.csr_array:
        """Return the matrix as a scipy array."""


class DenseMatrix(Matrix):
    """A dense matrix, for dense features and the unpruned PPR matrix of a small graph."""

    def __init__(self, values: Float[Tensor, "rows columns"]) -> None:
        self.values = values
        self.shape, self.dtype = (values.shape[0], values.shape[1]), values.dtype

    def product(self, right: Tensor) -> Tensor:
        self.values = self.values.to(right.device)  # moves only once, to the device of the parameters
        if right.device.type == "cpu" and self.shape[0] >= MANY_ROWS:
            return self._product_in_blocks(right.detach())
        return self.values @ right

    def _product_in_blocks(self, right: Tensor) -> Tensor:
        """Return the product, computed on all free cores; each row is the same as that of a single product."""
        from lopgpn_exp.graph.compilation import run_in_blocks  # deferred import: numba is slow to import

        values, result = self.values.detach(), right.new_empty(self.shape[0], right.shape[1])

        def multiply(_: int, start: int, stop: int) -> None:
            torch.mm(values[start:stop], right, out=result[start:stop])

        run_in_blocks(multiply, self.shape[0], size=ROWS_PER_TASK)
        return result

    def transposed_product(self, right: Tensor) -> Tensor:
        return self.values.T @ right

    def rows(self, index: Tensor) -> DenseMatrix:
        return DenseMatrix(self.values[index])

    def restrict(self, index: Tensor) -> tuple[DenseMatrix, Tensor]:
        rows = self.values[index]
        columns = torch.nonzero((rows != 0).any(dim=0)).flatten()
        return DenseMatrix(rows[:, columns].contiguous()), columns

    def row_entropy(self) -> Tensor:
        return -torch.xlogy(self.values, self.values).sum(dim=1)

    def to(self, dtype: torch.dtype) -> DenseMatrix:
        return DenseMatrix(self.values.to(dtype))

    def scipy(self) -> sp.csr_array:
        return sp.csr_array(self.values.numpy())


class SparseMatrix(Matrix):
    """A CSR matrix with 32-bit indices (faster than 64-bit ones); the transpose is built on first use."""

    def __init__(self, matrix: sp.csr_array, dtype: torch.dtype = torch.float32) -> None:
        self.shape, self.dtype = matrix.shape, dtype
        self._scipy = matrix
        self._torch: dict[tuple[torch.device, bool, int | None], Tensor] = {}

    def product(self, right: Tensor) -> Tensor:
        result = right.new_empty(self.shape[0], right.shape[1])
        return result.addmm_(self.csr(right.device), right, beta=0)  # unlike torch's `@`, without a fill and a copy

    def rows(self, index: Tensor) -> SparseMatrix:
        return SparseMatrix(self._scipy[index.numpy()], self.dtype)

    def restrict(self, index: Tensor) -> tuple[SparseMatrix, Tensor]:
        rows = self._scipy[index.numpy()]
        columns = np.unique(rows.indices)
        return SparseMatrix(rows[:, columns], self.dtype), torch.from_numpy(columns.astype(np.int64))

    def row_entropy(self) -> Tensor:
        terms = self._scipy.copy()
        terms.data = -terms.data * np.log(terms.data, where=terms.data > 0, out=np.zeros_like(terms.data))
        return torch.from_numpy(np.asarray(terms.sum(axis=1)).ravel()).to(self.dtype)

    def to(self, dtype: torch.dtype) -> SparseMatrix:
        return SparseMatrix(self._scipy, dtype)

    def scipy(self) -> sp.csr_array:
        return self._scipy

    def transposed_product(self, right: Tensor) -> Tensor:
        """Return the transpose times `right`; by blocks of rows if the rows of the transpose are long.

        A row of the transpose reads rows of `right` that are far apart; within a block they stay in the cache.
        """
        rows, columns = self.shape
        use_blocks = self._scipy.nnz * ROWS_PER_BLOCK >= MIN_ENTRIES_PER_COLUMN * rows * columns
        size = ROWS_PER_BLOCK if use_blocks else max(rows, 1)
        result = right.new_zeros(columns, right.shape[1])
        for start in range(0, rows, size):
            block = self.csr(right.device, transposed=True, rows=slice(start, start + size))
            result.addmm_(block, right[start : start + size])
        return result

    def csr(self, device: torch.device, *, transposed: bool = False, rows: slice = slice(None)) -> Tensor:
        """Return the matrix (or some of its rows) or its transpose as a torch tensor, built once per device."""
        key = (device, transposed, rows.start)
        if key not in self._torch:
            matrix = self._scipy if rows == slice(None) else self._scipy[rows]
            matrix = matrix.T.tocsr() if transposed else matrix
            self._torch[key] = torch.sparse_csr_tensor(
                torch.from_numpy(matrix.indptr.astype(np.int32, copy=False)),
                torch.from_numpy(matrix.indices.astype(np.int32, copy=False)),
                torch.from_numpy(matrix.data).to(self.dtype),
                size=matrix.shape,
                check_invariants=False,
            ).to(device)
        return self._torch[key]
