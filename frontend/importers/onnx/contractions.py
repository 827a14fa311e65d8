"""Products of matrices and tensors."""

from __future__ import annotations

import tensorgrad as tg
from tensorgrad.importers.onnx.table import OnnxNode, Role, rule
from tensorgrad.tracing.dtypes import NAMES, is_float
from tensorgrad.tracing.tensor import Tensor


@rule("MatMul", roles={-1: Role.WEIGHT})
def _matmul(node: OnnxNode) -> Tensor:
    return tg.matmul(node.tensor(0), node.tensor(1))


@rule("Gemm", "alpha beta transA transB broadcast", roles={-1: Role.WEIGHT})
def _gemm(node: OnnxNode) -> Tensor:
    x, y = node.tensor(0), node.tensor(1)
    x = tg.transpose(x) if node.attribute("transA", 0) else x
    y = tg.transpose(y) if node.attribute("transB", 0) else y
    alpha, beta = node.attribute("alpha", 1.0), node.attribute("beta", 1.0)
    if not is_float(x.dtype):
        if alpha != int(alpha) or beta != int(beta):
            node.refuse("integers take whole numbers for alpha and beta")
        alpha, beta = int(alpha), int(beta)
    result = tg.matmul(x, y)
    result = result if alpha == 1 else result * alpha
    if not node.has(2):
        return result
    term = node.tensor(2)
    if node.version < 7 and not node.attribute("broadcast", 0) and term.shape != result.shape:
        node.refuse(f"before version 7 a term of shape {term.shape} needs the attribute 'broadcast'")
    return result + (term if beta == 1 else term * beta)


@rule("Einsum", "equation", roles={-1: Role.WEIGHT})
def _einsum(node: OnnxNode) -> Tensor:
    equation: str = node.attribute("equation").replace(" ", "")
    if "->" not in equation:
        # Without an explicit output: the ellipsis, then the letters that occur once, sorted.
        terms = equation.replace("...", "")
        letters = sorted(letter for letter in set(terms) - {","} if terms.count(letter) == 1)
        equation += "->" + ("..." if "..." in equation else "") + "".join(letters)
    return tg.einsum(equation, *node.tensors)


@rule("Det")
def _det(node: OnnxNode) -> Tensor:
    """Computes determinants by unrolled Gaussian elimination with partial pivoting."""
    rows = node.tensor(0)
    size = rows.shape[-1]
    result: Tensor = tg.full(rows.shape[:-2], 1.0, rows.dtype)
    for _ in range(size):
        count = rows.shape[-1]
        column = rows[..., 0]
        pivot_at = tg.argmax(tg.abs(column), -1)
        chosen = tg.one_hot(pivot_at, count, rows.dtype)
        pivot_row = tg.sum(tg.expand_dims(chosen, -1) * rows, -2)
        pivot = pivot_row[..., 0]
        # Swapping the pivot's row with the first changes the sign.
        result = result * tg.where(tg.equal(pivot_at, 0), pivot, tg.negative(pivot))
        if count == 1:
            break
        first = tg.expand_dims(rows[..., 0, :], -2)
        swapped = tg.where(tg.expand_dims(tg.cast(chosen, "bool"), -1), first, rows)[..., 1:, :]
        singular = tg.equal(pivot, 0)
        factor = swapped[..., 0] / tg.expand_dims(tg.where(singular, 1.0, pivot), -1)
        rows = (swapped - tg.expand_dims(factor, -1) * tg.expand_dims(pivot_row, -2))[..., 1:]
    return result


def shifted(x: Tensor, zero: Tensor | None, axis: int | None = None) -> Tensor:
    """Returns quantized numbers minus their zero point, as i32; a 1-D zero point lies along `axis`."""
    wide = tg.cast(x, NAMES["i32"])
    if zero is None:
        return wide
    offset = tg.cast(zero, NAMES["i32"])
    if axis is not None and offset.ndim == 1 and offset.size > 1:
        offset = tg.reshape(offset, [-1 if i == axis % wide.ndim else 1 for i in range(wide.ndim)])
    elif offset.size == 1:
        offset = tg.reshape(offset, ())
    return wide - offset


@rule("MatMulInteger")
def _matmul_integer(node: OnnxNode) -> Tensor:
    x = shifted(node.tensor(0), node.optional(2), -2)
    y = shifted(node.tensor(1), node.optional(3), -1)
    return tg.matmul(x, y)
