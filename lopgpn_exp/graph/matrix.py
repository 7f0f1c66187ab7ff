"""Constant matrices that multiply what is trained: two representations, one interface.

A sparse product's gradient needs the transpose; torch builds it anew in every backward pass (6x the forward). These
matrices never change, so the transpose is made once.
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

# torch says so at every first CSR tensor; its CSR products are tested here against scipy's.
warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")

# Rows whose products with 64 columns fit the second-level cache; each costs a pass over the columns, so it must bring
# so many entries a column on average.
ROWS_OF_A_BLOCK = 2048
SHORTEST_ROW = 8


class _ConstantProduct(torch.autograd.Function):
    """A product that is known already, or computed here, with the gradient by `transposed_product`."""

    @staticmethod
    def forward(ctx: Any, right: Tensor, matrix: Matrix, known: list[Tensor]) -> Tensor:
        ctx.matrix = matrix
        return known[0] if known else matrix.product(right)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return ctx.matrix.transposed_product(grads[0].contiguous()), None, None


class Matrix(ABC):
    """A constant matrix: product, rows, and what a mixture needs of its weights."""

    shape: tuple[int, int]
    dtype: torch.dtype

    def __matmul__(self, right: Float[Tensor, "columns width"]) -> Float[Tensor, "rows width"]:
        return _ConstantProduct.apply(right, self, [])

    def known_product(
        self, right: Float[Tensor, "columns width"], product: Float[Tensor, "rows width"]
    ) -> Float[Tensor, "rows width"]:
        """As `self @ right`, of which `product` is the value: only the gradient is left to do."""
        return _ConstantProduct.apply(right, self, [product])

    @abstractmethod
    def product(self, right: Float[Tensor, "columns width"]) -> Float[Tensor, "rows width"]:
        """The matrix times `right`, without a gradient."""

    @abstractmethod
    def transposed_product(self, right: Float[Tensor, "rows width"]) -> Float[Tensor, "columns width"]:
        """The transpose times `right`, without a gradient."""

    @abstractmethod
    def rows(self, index: Int[Tensor, " chosen"]) -> Matrix: ...

    @abstractmethod
    def restrict(self, index: Int[Tensor, " chosen"]) -> tuple[Matrix, Int[Tensor, " used"]]:
        """Rows `index` over only the columns they use, and which columns those are."""

    @abstractmethod
    def row_entropy(self) -> Float[Tensor, " rows"]:
        """Entropy of each row read as a categorical distribution (natural logarithm)."""

    @abstractmethod
    def to(self, dtype: torch.dtype) -> Matrix: ...

    @abstractmethod
    def scipy(self) -> sp.csr_array: ...


class DenseMatrix(Matrix):
    """For small graphs whose matrix is mostly non-zero, and for dense features."""

    def __init__(self, values: Float[Tensor, "rows columns"]) -> None:
        self.values = values
        self.shape, self.dtype = (values.shape[0], values.shape[1]), values.dtype

    def product(self, right: Tensor) -> Tensor:
        self.values = self.values.to(right.device)  # moves once, to where the parameters are
        return self.values @ right

    def transposed_product(self, right: Tensor) -> Tensor:
        return self.values.T @ right

    def rows(self, index: Tensor) -> DenseMatrix:
        return DenseMatrix(self.values[index])

    def restrict(self, index: Tensor) -> tuple[DenseMatrix, Tensor]:
        chosen = self.values[index]
        used = torch.nonzero((chosen != 0).any(dim=0)).flatten()
        return DenseMatrix(chosen[:, used].contiguous()), used

    def row_entropy(self) -> Tensor:
        return -torch.xlogy(self.values, self.values).sum(dim=1)

    def to(self, dtype: torch.dtype) -> DenseMatrix:
        return DenseMatrix(self.values.to(dtype))

    def scipy(self) -> sp.csr_array:
        return sp.csr_array(self.values.numpy())


class SparseMatrix(Matrix):
    """Compressed rows with 32-bit indices (faster than 64); the transpose is made on first use."""

    def __init__(self, matrix: sp.csr_array, dtype: torch.dtype = torch.float32) -> None:
        self.shape, self.dtype = matrix.shape, dtype
        self._scipy = matrix
        self._torch: dict[tuple[torch.device, bool, int | None], Tensor] = {}

    def product(self, right: Tensor) -> Tensor:
        result = right.new_empty(self.shape[0], right.shape[1])
        return result.addmm_(self.csr(right.device), right, beta=0)  # torch's `@` fills and copies a result first

    def rows(self, index: Tensor) -> SparseMatrix:
        return SparseMatrix(self._scipy[index.numpy()], self.dtype)

    def restrict(self, index: Tensor) -> tuple[SparseMatrix, Tensor]:
        chosen = self._scipy[index.numpy()]
        used = np.unique(chosen.indices)
        return SparseMatrix(chosen[:, used], self.dtype), torch.from_numpy(used.astype(np.int64))

    def row_entropy(self) -> Tensor:
        terms = self._scipy.copy()
        terms.data = -terms.data * np.log(terms.data, where=terms.data > 0, out=np.zeros_like(terms.data))
        return torch.from_numpy(np.asarray(terms.sum(axis=1)).ravel()).to(self.dtype)

    def to(self, dtype: torch.dtype) -> SparseMatrix:
        return SparseMatrix(self._scipy, dtype)

    def scipy(self) -> sp.csr_array:
        return self._scipy

    def transposed_product(self, right: Tensor) -> Tensor:
        """The transpose times `right`, block by block of rows where the transpose's rows are long.

        A row of the transpose gathers rows of `right` from everywhere: within a block, they are in the cache.
        """
        rows, columns = self.shape
        size = ROWS_OF_A_BLOCK if self._scipy.nnz * ROWS_OF_A_BLOCK >= SHORTEST_ROW * rows * columns else max(rows, 1)
        result = right.new_zeros(columns, right.shape[1])
        for start in range(0, rows, size):
            block = self.csr(right.device, transposed=True, rows=slice(start, start + size))
            result.addmm_(block, right[start : start + size])
        return result

    def csr(self, device: torch.device, *, transposed: bool = False, rows: slice = slice(None)) -> Tensor:
        """The torch tensor of this matrix (or of some of its rows) or of its transpose, made once a device."""
        key = (device, transposed, rows.start)
        if key not in self._torch:
            matrix = self._scipy if rows == slice(None) else self._scipy[rows]
            matrix = matrix.T.tocsr() if transposed else matrix
            self._torch[key] = torch.sparse_csr_tensor(
                torch.from_numpy(matrix.indptr.astype(np.int32)),
                torch.from_numpy(matrix.indices.astype(np.int32)),
                torch.from_numpy(matrix.data).to(self.dtype),
                size=matrix.shape,
                check_invariants=False,
            ).to(device)
        return self._torch[key]
