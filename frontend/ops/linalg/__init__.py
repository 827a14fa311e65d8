"""Linear algebra, `tg.linalg`: the Array API standard's extension of that name, and triangular factors and systems."""

from tensorgrad.ops.linalg.decompositions import eigh, eigvalsh, lu_factor, matrix_rank, pinv, qr, svd, svdvals
from tensorgrad.ops.linalg.norms import matrix_norm, vector_norm
from tensorgrad.ops.linalg.products import (
    cross,
    diagonal,
    matmul,
    matrix_power,
    matrix_transpose,
    outer,
    tensordot,
    trace,
    vecdot,
)
from tensorgrad.ops.linalg.systems import cholesky, det, inv, slogdet, solve, solve_triangular

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "lu_factor",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]
