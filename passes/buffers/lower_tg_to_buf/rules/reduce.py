"""Reductions along axes."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir.affine import AffineMap

from tensorgrad.dialects.tg import reduce
from tensorgrad.dialects.tg.build import element_of, shape_of
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.buffers.lower_tg_to_buf.kernels import KernelSpec
from tensorgrad.passes.buffers.lower_tg_to_buf.registry import rule
from tensorgrad.passes.buffers.lower_tg_to_buf.scalars import by_kind, storage
from tensorgrad.passes.buffers.lower_tg_to_buf.views import Lowered, through


def _loops_for(kept_axes: Sequence[int], rank: int) -> AffineMap:
    """Returns the map from loops (kept axes, then reduced ones) to the axes in order."""
    order = [*kept_axes, *(axis for axis in range(rank) if axis not in kept_axes)]
    loops = affine.dims(rank)
    return AffineMap(rank, 0, tuple(loops[order.index(axis)] for axis in range(rank)))


def _reduce(op: reduce.ReduceOp, operands: Sequence[Lowered], family: str) -> KernelSpec:
    axes, extents = op.axes.get_values(), shape_of(op.operand)
    kept_axes = [axis for axis in range(len(extents)) if axis not in axes]
    reduced = tuple(extents[axis] for axis in range(len(extents)) if axis in axes)
    loops = (*op.shape, *reduced)
    element = element_of(op.results[0])
    reads = [through(operand, _loops_for(kept_axes, len(extents)), loops) for operand in operands]
    return KernelSpec(
        grid=op.shape,
        reads=reads,
        result=storage(element),
        compute=lambda b, args: args[0],
        reduced=reduced,
        combine=by_kind(family, element),
        location=op.location,
    )


@rule(reduce.SumOp)
def _sum(op: reduce.SumOp, operands: Sequence[Lowered]) -> KernelSpec:
    return _reduce(op, operands, "add")


@rule(reduce.MaxOp)
def _max(op: reduce.MaxOp, operands: Sequence[Lowered]) -> KernelSpec:
    return _reduce(op, operands, "max")


@rule(reduce.MinOp)
def _min(op: reduce.MinOp, operands: Sequence[Lowered]) -> KernelSpec:
    return _reduce(op, operands, "min")


@rule(reduce.ProdOp)
def _prod(op: reduce.ProdOp, operands: Sequence[Lowered]) -> KernelSpec:
    return _reduce(op, operands, "mul")
