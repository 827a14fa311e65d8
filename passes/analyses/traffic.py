"""Memory traffic and operation counts of kernels."""

from __future__ import annotations

import math

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineMap

from tensorgrad.dialects.attention import FORWARD, KEYS, QUERIES, AttentionOp
from tensorgrad.dialects.buf import (
    KernelOp,
    element_bytes,
    element_of,
    loop_extents,
    maps_of,
    shape_of,
)
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.affine import used_dims
from tensorgrad.passes.analyses.walking import operations

BYTES_MOVED = "buf.bytes_moved"
FLOPS = "buf.flops"


def bytes_moved(kernel: KernelOp) -> int:
    """Returns the bytes that a dispatch reads or writes, counting every byte range once.

    A slice counts the elements it accesses, a gather the elements that its indices can read, at most the whole buffer.
    A range that is both read and written, as by an in-place update, counts once.
    """
    touched: dict[SSAValue, dict[AffineMap, int]] = {}
    loaded: dict[SSAValue, int] = {}
    if kernel.collective is not None and kernel.collective.is_start:
        return 0
    if kernel.collective is not None:
        return sum(math.prod(shape_of(operand)) * element_bytes(element_of(operand)) for operand in kernel.operands)
    if kernel.attention is not None:
        for operand, m, count in _of_attention(kernel.attention):
            touched.setdefault(operand, {})[m] = count
    if (sort := kernel.counting_sort) is not None:
        touched[sort.numbers] = {sort.map.data: math.prod(sort.extents[loop] for loop in used_dims(sort.map.data))}
        touched.update({output: {affine.identity(2): math.prod(shape_of(output))} for output in sort.outputs})
    for stage in kernel.stages:
        extents = loop_extents(stage)
        for operand, m in zip(stage.operands, maps_of(stage), strict=True):
            touched.setdefault(operand, {})[m] = math.prod(extents[loop] for loop in used_dims(m))
        for op in operations(stage.body.block):
            if isinstance(op, memref.LoadOp):
                loaded[op.memref] = loaded.get(op.memref, 0) + math.prod(extents)
    elements: dict[SSAValue, int] = {}
    for operand, argument in zip(kernel.operands, kernel.body.block.args, strict=True):
        total = math.prod(shape_of(operand))
        moved = min(total, sum(touched.get(argument, {}).values()) + loaded.get(argument, 0))
        elements[operand] = min(total, elements.get(operand, 0) + moved)
    return sum(count * element_bytes(element_of(operand)) for operand, count in elements.items())


def _of_attention(stage: AttentionOp) -> list[tuple[SSAValue, AffineMap, int]]:
    """Returns each operand and result with its map, and the number of elements that the map accesses."""
    a, part = stage.attention, stage.part.data
    return [
        (operand, m, math.prod(shape[space.index(loop)] for loop in used_dims(m)))
        for operand, m, shape, space in zip(
            stage.operands, stage.affine_maps(), a.shapes(part), a.spaces(part), strict=False
        )
    ]


def flops(kernel: KernelOp) -> int:
    """Returns the float operations of a dispatch: a math function counts as one, a cast as none."""
    result = 0 if kernel.attention is None else _attention_flops(kernel.attention)
    for stage in kernel.stages:
        result += math.prod(loop_extents(stage)) * sum(map(_is_arithmetic, operations(stage.body.block)))
    return result


def _is_arithmetic(op: Operation) -> bool:
    is_float = bool(op.results) and isinstance(op.results[0].type, AnyFloat)
    return is_float and op.name.startswith(("arith.", "math.")) and not isinstance(op, _NO_ARITHMETIC)


_NO_ARITHMETIC = (
    arith.ConstantOp,
    arith.SelectOp,
    arith.BitcastOp,
    arith.ExtFOp,
    arith.TruncFOp,
    arith.SIToFPOp,
    arith.UIToFPOp,
)


def _attention_flops(stage: AttentionOp) -> int:
    """Returns the operations of attention's products, which dominate: scores are recomputed in each part."""
    a, part = stage.attention, stage.part.data
    pairs = a.groups * a.queries * a.keys
    scores, weighted = 2 * pairs * a.features, 2 * pairs * a.values
    if part == FORWARD:
        return scores + weighted
    by_keys = 0 if part == QUERIES else scores + weighted
    return scores + weighted + by_keys + (0 if part == KEYS else scores)
