"""Rewrites kernels to buffers with fewer bits: loads extend, stores round, and arithmetic stays the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, cast

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import AffineMapAttr, AnyFloat, ArrayAttr, LocationAttr, MemRefType, f32
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from tensorgrad.dialects.buf import KernelOp, buffer_type, is_reduction, maps_of
from tensorgrad.dialects.stages import generic
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.stages import new_local
from tensorgrad.passes.scalars import Formula, Value

Scales: TypeAlias = Mapping[SSAValue, float]
"""The arguments of a kernel that have fewer bits, and the factors by which their elements are multiplied."""


def retyped(name: SSAValue, element: AnyFloat) -> SSAValue:
    """Replaces a buffer or an argument with one of another element type."""
    kind = cast("MemRefType[Attribute]", name.type)
    new = Rewriter.replace_value_with_new_type(name, buffer_type(kind.get_shape(), element))
    if isinstance(new, BlockArgument) and isinstance(name, BlockArgument):
        new.location = name.location
    return new


def rewrite(kernel: KernelOp, scales: Scales, element: AnyFloat) -> None:
    """Makes a kernel read and write some of its arguments with fewer bits. The arguments already have their new types.

    A stage that reduces into such an argument reduces into an f32 local instead, whose final value is rounded. Later
    stages read the rounded value, as other kernels do.
    """
    for stage in kernel.stages:
        for op in list(stage.body.walk()):
            if isinstance(op, memref.LoadOp) and op.memref in scales:
                _load(op, scales[op.memref], element)
        for position, operand in enumerate(stage.inputs):
            if operand in scales:
                _read(stage.body.block, position, scales[operand], element, stage.location)
        for position, output in enumerate(stage.outputs):
            if output in scales and is_reduction(stage):
                _reduce_apart(kernel, stage, position, scales[output], element)
            elif output in scales:
                _write(stage, position, scales[output], element)


def _load(op: memref.LoadOp, scale: float, element: AnyFloat) -> None:
    formula = Formula(op.location)
    wide = _extended(formula.add(memref.LoadOp.get(op.memref, list(op.indices))), scale)
    Rewriter.insert_op(formula.ops, InsertPoint.before(op))
    op.results[0].replace_all_uses_with(wide.ssa)
    Rewriter.erase_op(op)


def _read(block: Block, position: int, scale: float, element: AnyFloat, location: LocationAttr) -> None:
    argument = block.insert_arg(element, position)
    formula = Formula(location)
    wide = _extended(formula.value(argument), scale)
    Rewriter.insert_op(formula.ops, InsertPoint.at_start(block))
    old = block.args[position + 1]
    old.replace_all_uses_with(wide.ssa)
    block.erase_arg(old)


def _write(stage: GenericOp, position: int, scale: float, element: AnyFloat) -> None:
    block, last = stage.body.block, stage.body.block.last_op
    assert isinstance(last, YieldOp)
    formula = Formula(stage.location)
    rounded = _rounded(formula.value(last.operands[position]), scale, element)
    Rewriter.insert_op(formula.ops, InsertPoint.before(last))
    last.operands[position] = rounded.ssa
    place = len(stage.inputs) + position
    block.insert_arg(element, place)
    block.erase_arg(block.args[place + 1])


def _reduce_apart(kernel: KernelOp, stage: GenericOp, position: int, scale: float, element: AnyFloat) -> None:
    """Makes a stage reduce into a local, which a new stage after it rounds."""
    rank, output, place = len(kernel.extents), stage.outputs[position], len(stage.inputs) + position
    local = new_local(kernel.extents, f32, stage.location)
    block = kernel.body.block
    assert block.first_op is not None
    block.insert_op_before(cast(Operation, local.owner), block.first_op)
    written = maps_of(stage)[place]
    stage.operands[place] = local
    _set_map(stage, place, _point(len(stage.iterator_types), rank))
    body = Block(arg_types=[f32, element])
    formula = Formula(stage.location)
    formula.append(YieldOp(_rounded(formula.value(body.args[0]), scale, element).ssa))
    body.add_ops(formula.ops)
    results = tuple(
        result.replace_dims_and_symbols([AffineDimExpr(i) for i in range(rank)], ()) for result in written.results
    )
    last = generic([local], [output], [affine.identity(rank), AffineMap(rank, 0, results)], rank, 0, body)
    last.location = stage.location
    block.insert_op_after(last, stage)


def _point(loops: int, rank: int) -> AffineMap:
    """Returns the index map of a local: the grid point."""
    return AffineMap(loops, 0, tuple(AffineDimExpr(loop) for loop in range(rank)))


def _set_map(stage: GenericOp, position: int, map_: AffineMap) -> None:
    maps = list(stage.indexing_maps)
    maps[position] = AffineMapAttr(map_)
    stage.properties["indexing_maps"] = ArrayAttr(maps)


def _extended(value: Value, scale: float) -> Value:
    wide = value.cast(arith.ExtFOp, f32)
    return wide if scale == 1 else wide * (1 / scale)


def _rounded(value: Value, scale: float, element: AnyFloat) -> Value:
    return (value if scale == 1 else value * scale).cast(arith.TruncFOp, element)
