"""Kernels on buffers with fewer bits: loads extend, stores round, and what stands between is computed as before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, cast

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import AffineMapAttr, AnyFloat, ArrayAttr, FloatAttr, LocationAttr, MemRefType, f32
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.rewriter import Rewriter

from tensorgrad.dialects.buf import KernelOp, buffer_type, is_reduction, maps_of
from tensorgrad.dialects.stages import generic
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.stages import new_local

Scales: TypeAlias = Mapping[SSAValue, float]
"""Arguments of a kernel with fewer bits, and the factors that their elements are stored with."""


def retyped(name: SSAValue, element: AnyFloat) -> SSAValue:
    """Replaces a buffer, or the argument that stands for it, by one of another element type."""
    kind = cast("MemRefType[Attribute]", name.type)
    new = Rewriter.replace_value_with_new_type(name, buffer_type(kind.get_shape(), element))
    if isinstance(new, BlockArgument) and isinstance(name, BlockArgument):
        new.location = name.location
    return new


def rewrite(kernel: KernelOp, scales: Scales, element: AnyFloat) -> None:
    """Makes a kernel read and write some of its arguments with fewer bits; they have their new types already.

    A stage that reduces into one of them reduces into a local in f32, of which the result is rounded. Stages behind the
    one that writes see what was rounded, as other kernels do.
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
    load = memref.LoadOp.get(op.memref, list(op.indices))
    made = [load, *_extended(load.results[0], scale)]
    _insert(made, cast(Block, op.parent), op, op.location)
    op.results[0].replace_all_uses_with(made[-1].results[0])
    op.detach()
    op.erase()


def _read(block: Block, position: int, scale: float, element: AnyFloat, location: LocationAttr) -> None:
    argument = block.insert_arg(element, position)
    made = _extended(argument, scale)
    _insert(made, block, block.first_op, location)
    old = block.args[position + 1]
    old.replace_all_uses_with(made[-1].results[0])
    block.erase_arg(old)


def _write(stage: GenericOp, position: int, scale: float, element: AnyFloat) -> None:
    block, last = stage.body.block, stage.body.block.last_op
    assert isinstance(last, YieldOp)
    made = _rounded(last.operands[position], scale, element)
    _insert(made, block, last, stage.location)
    last.operands[position] = made[-1].results[0]
    place = len(stage.inputs) + position
    block.insert_arg(element, place)
    block.erase_arg(block.args[place + 1])


def _reduce_apart(kernel: KernelOp, stage: GenericOp, position: int, scale: float, element: AnyFloat) -> None:
    """Lets a stage reduce into a local, which one behind it rounds."""
    rank, output, place = len(kernel.extents), stage.outputs[position], len(stage.inputs) + position
    local = new_local(kernel.extents, f32, stage.location)
    block = kernel.body.block
    assert block.first_op is not None
    block.insert_op_before(cast(Operation, local.owner), block.first_op)
    written = maps_of(stage)[place]
    stage.operands[place] = local
    _set_map(stage, place, _point(len(stage.iterator_types), rank))
    body = Block(arg_types=[f32, element])
    made = _rounded(body.args[0], scale, element)
    _insert([*made, YieldOp(made[-1].results[0])], body, None, stage.location)
    results = tuple(
        result.replace_dims_and_symbols([AffineDimExpr(i) for i in range(rank)], ()) for result in written.results
    )
    last = generic([local], [output], [affine.identity(rank), AffineMap(rank, 0, results)], rank, 0, body)
    last.location = stage.location
    block.insert_op_after(last, stage)


def _point(loops: int, rank: int) -> AffineMap:
    """Returns where a stage finds its point's element of a local."""
    return AffineMap(loops, 0, tuple(AffineDimExpr(loop) for loop in range(rank)))


def _set_map(stage: GenericOp, position: int, one: AffineMap) -> None:
    maps = list(stage.indexing_maps)
    maps[position] = AffineMapAttr(one)
    stage.properties["indexing_maps"] = ArrayAttr(maps)


def _extended(value: SSAValue, scale: float) -> list[Operation]:
    wide = arith.ExtFOp(value, f32)
    if scale == 1:
        return [wide]
    factor = arith.ConstantOp(FloatAttr(1 / scale, f32))
    return [wide, factor, arith.MulfOp(wide.result, factor.result)]


def _rounded(value: SSAValue, scale: float, element: AnyFloat) -> list[Operation]:
    if scale == 1:
        return [arith.TruncFOp(value, element)]
    factor = arith.ConstantOp(FloatAttr(scale, f32))
    scaled = arith.MulfOp(value, factor.result)
    return [factor, scaled, arith.TruncFOp(scaled.result, element)]


def _insert(ops: list[Operation], block: Block, before: Operation | None, location: LocationAttr) -> None:
    for op in ops:
        op.location = location
        if before is None:
            block.add_op(op)
        else:
            block.insert_op_before(op, before)
