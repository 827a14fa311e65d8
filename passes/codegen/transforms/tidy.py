"""Tidies the indices of a tiled kernel after a transformation: each is one expression of the loops around it."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import affine as affine_ops
from xdsl.dialects import arith, memref
from xdsl.dialects.linalg.ops import FillOp, GenericOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from tensorgrad.dialects.buf_tiles import ForallOp, TiledOp
from tensorgrad.passes.codegen.transforms.building import Part, TileBuilder
from tensorgrad.passes.codegen.transforms.indices import bounds_of, index_of

INDICES = (affine_ops.ApplyOp, affine_ops.MinOp, arith.ConstantOp, memref.SubviewOp)
"""The ops without an effect of their own."""


def tidy(kernel: TiledOp) -> None:
    """Composes and shares index arithmetic, and erases what nothing uses."""
    for op in [*kernel.walk()]:
        if isinstance(op, affine_ops.ApplyOp) and _takes(op.operands, affine_ops.ApplyOp, arith.ConstantOp):
            _replace(op, TileBuilder.before(op).value(index_of(op.result)))
        elif isinstance(op, memref.SubviewOp) and _takes(op.operands, memref.SubviewOp, arith.ConstantOp):
            part = Part.of(op.result)
            _replace(op, TileBuilder.before(op).part(part, _sizes(op)))
        elif isinstance(op, ForallOp):
            for loop, extent in enumerate(op.extents):
                if isinstance(extent, SSAValue) and _is_loose(extent):
                    _replace_extent(op, loop)
    _share(kernel.body.block, {})
    _erase_unused(kernel)


def _takes(operands: Sequence[SSAValue], *kinds: type[Operation]) -> bool:
    """Returns whether an op of one of these types defines an operand."""
    return any(isinstance(operand.owner, kinds) for operand in operands)


def _is_loose(extent: SSAValue) -> bool:
    """Returns whether an extent isn't one expression of loops yet."""
    op = extent.owner
    return isinstance(op, Operation) and (
        isinstance(op, arith.ConstantOp) or _takes(op.operands, affine_ops.ApplyOp, arith.ConstantOp)
    )


def _sizes(op: memref.SubviewOp) -> list[int]:
    """Returns the extents of a part along the axes of its root."""
    part = Part.of(op.result)
    extents = dict(zip(part.axes, (size for size in op.static_sizes.get_values() if size > 1), strict=True))
    return [extents.get(axis, 1) for axis in range(len(part.offsets))]


def _replace(op: Operation, value: SSAValue) -> None:
    op.results[0].replace_all_uses_with(value)


def _replace_extent(op: ForallOp, loop: int) -> None:
    """Recomputes a loop's extent from its bounds."""
    extent = TileBuilder.before(op).least(bounds_of(op.extents[loop]))
    extents = [*op.extents]
    extents[loop] = extent
    new = ForallOp.of(extents, op.mapping)
    op.operands = [*new.operands]
    op.properties["static_extents"] = new.static_extents
    new.erase()


def _share(block: Block, known: dict[object, SSAValue]) -> None:
    """Replaces ops by equal earlier ones."""
    known = dict(known)
    for op in [*block.ops]:
        if isinstance(op, INDICES):
            key = type(op), tuple(op.operands), tuple(sorted(op.properties.items(), key=lambda entry: entry[0]))
            key = (*key, op.results[0].type)
            if key in known:
                _replace(op, known[key])
                Rewriter.erase_op(op)
            else:
                known[key] = op.results[0]
        else:
            outside = {} if isinstance(op, GenericOp | FillOp) else known  # bodies keep their own constants
            for region in op.regions:
                for inner in region.blocks:
                    _share(inner, outside)


def _erase_unused(kernel: TiledOp) -> None:
    for op in reversed([*kernel.walk()]):
        if isinstance(op, (*INDICES, memref.AllocaOp)) and not op.results[0].uses:
            Rewriter.erase_op(op)
