"""Linear algebra, with the names and signatures of the Array API standard's extension of that name: `tg.linalg`."""

from tensorgrad.ops.linalg.decompositions import eigh, eigvalsh, matrix_rank, pinv, qr, svd, svdvals
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
from tensorgrad.ops.linalg.systems import cholesky, det, inv, slogdet, solve

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
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
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]
