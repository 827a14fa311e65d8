"""Products of tensors."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir.affine import AffineExpr, AffineMap

from tensorgrad.dialects.tg import contract
from tensorgrad.dialects.tg.build import element_of, shape_of
from tensorgrad.dialects.tg.contract import free_axes
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.buffers.lower_tg_to_buf.kernels import KernelSpec
from tensorgrad.passes.buffers.lower_tg_to_buf.registry import rule
from tensorgrad.passes.buffers.lower_tg_to_buf.scalars import by_kind, storage
from tensorgrad.passes.buffers.lower_tg_to_buf.views import Lowered, through


@rule(contract.DotGeneralOp)
def _dot_general(op: contract.DotGeneralOp, operands: Sequence[Lowered]) -> KernelSpec:
    lb, rb, lc, rc = op.dimension_numbers
    left, right = shape_of(op.lhs), shape_of(op.rhs)
    lf, rf = free_axes(len(left), lb, lc), free_axes(len(right), rb, rc)
    reduced = tuple(left[axis] for axis in lc)
    extents = (*op.shape, *reduced)
    loops = affine.dims(len(extents))
    left_loops: dict[int, AffineExpr] = {}
    right_loops: dict[int, AffineExpr] = {}
    for i, (a, b) in enumerate(zip(lb, rb, strict=True)):
        left_loops[a] = right_loops[b] = loops[i]
    for i, axis in enumerate(lf):
        left_loops[axis] = loops[len(lb) + i]
    for i, axis in enumerate(rf):
        right_loops[axis] = loops[len(lb) + len(lf) + i]
    for i, (a, b) in enumerate(zip(lc, rc, strict=True)):
        left_loops[a] = right_loops[b] = loops[len(op.shape) + i]
    maps = [
        AffineMap(len(extents), 0, tuple(loops_of_side[axis] for axis in range(len(loops_of_side))))
        for loops_of_side in (left_loops, right_loops)
    ]
    element = element_of(op.results[0])
    multiply = by_kind("mul", element)
    return KernelSpec(
        grid=op.shape,
        reads=[through(operand, m, extents) for operand, m in zip(operands, maps, strict=True)],
        result=storage(element),
        compute=lambda b, args: b.apply(multiply, *args),
        reduced=reduced,
        combine=by_kind("add", element),
        location=op.location,
    )
