"""How many bytes a kernel moves."""

from __future__ import annotations

import math

from xdsl.dialects import memref
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap

from tensorgrad.dialects.affine import used_dims
from tensorgrad.dialects.buf import KernelOp, element_bytes, element_of, loop_extents, maps_of, shape_of

BYTES_MOVED = "buf.bytes_moved"


def bytes_moved(kernel: KernelOp) -> int:
    """The bytes that a dispatch reads or writes, every byte range once.

    A slice counts the elements it names, a gather the elements that its indices can read, at most the whole buffer. A
    range that is read and written, as an update in place is, counts once.
    """
    elements: dict[SSAValue, int] = {}
    for operand, argument in zip(kernel.operands, kernel.body.block.args, strict=True):
        found = _elements(kernel, argument)
        elements[operand] = min(math.prod(shape_of(operand)), elements.get(operand, 0) + found)
    return sum(count * element_bytes(element_of(operand)) for operand, count in elements.items())


def _elements(kernel: KernelOp, argument: SSAValue) -> int:
    """How many elements of one buffer the stages touch."""
    total = math.prod(shape_of(argument))
    touched: dict[AffineMap, int] = {}
    computed = 0
    for stage in kernel.stages:
        extents = loop_extents(stage)
        for operand, m in zip(stage.operands, maps_of(stage), strict=True):
            if operand is argument:
                touched[m] = math.prod(extents[loop] for loop in used_dims(m))
        computed += sum(_loaded(stage, op, extents) for op in stage.walk() if _loads(op, argument))
    return min(total, sum(touched.values()) + computed)


def _loads(op: object, argument: SSAValue) -> bool:
    return isinstance(op, memref.LoadOp) and op.memref is argument


def _loaded(stage: GenericOp, op: object, extents: tuple[int, ...]) -> int:
    """The most elements that a load at computed indices reads: one a point of its stage."""
    assert isinstance(op, memref.LoadOp)
    return math.prod(extents)
