"""Widens floats to f64, except where their bits are reinterpreted: its results say how far others are rounded."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FunctionType,
    MemRefType,
    ModuleOp,
    TensorType,
    f32,
    f64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tensorgrad.dialects import buf
from tensorgrad.dialects.short_floats import SHORT_FLOATS
from tensorgrad.dialects.tg.base import dense, dense_to_numpy
from tensorgrad.dialects.tg.build import element_of
from tensorgrad.dialects.tg.elementwise.arithmetic import BitcastOp, CastOp
from tensorgrad.dialects.tg.leaves import ConstantOp

NARROW = (*SHORT_FLOATS.values(), f32)


def widened_module(module: ModuleOp) -> ModuleOp:
    """Returns a copy of a module of `tg` with all narrow floats widened to f64; bitcasts still see the narrow ones."""
    copy = module.clone()
    narrow = {value for op in list(copy.walk()) if isinstance(op, BitcastOp) for value in _between_casts(op)}
    for op in copy.walk():
        if isinstance(op, ConstantOp) and element_of(op.results[0]) in NARROW:
            value = cast("DenseIntOrFPElementsAttr[Any]", op.value)
            op.properties["value"] = dense(dense_to_numpy(value).astype(np.float64))
        if isinstance(op, FuncOp):
            inputs, outputs = (map(_widened, kinds) for kinds in (op.function_type.inputs, op.function_type.outputs))
            op.properties["function_type"] = FunctionType.from_lists(list(inputs), list(outputs))
        _widen_values(op, narrow)
    return copy


def _between_casts(op: BitcastOp) -> Iterator[SSAValue]:
    """Inserts casts around a bitcast, from f64 and to f64 once others are widened; yields the values between them."""
    block, operand, result = cast(Block, op.parent), op.operand, op.results[0]
    if element_of(operand) in NARROW:
        before = CastOp.create(operands=[operand], result_types=[operand.type], properties={"to": element_of(operand)})
        before.location = op.location
        block.insert_op_before(before, op)
        op.operands[0] = before.results[0]
        yield before.results[0]
    if element_of(result) in NARROW:
        after = CastOp.create(operands=[result], result_types=[result.type], properties={"to": f64})
        after.location = op.location
        block.insert_op_after(after, op)
        result.replace_uses_with_if(after.results[0], lambda use: use.operation is not after)
        yield result


def widened_kernel(op: buf.KernelOp) -> buf.KernelOp:
    """Returns a copy of a kernel with all narrow floats widened to f64; bitcasts still see the narrow ones.

    It has no operands, only the arguments of its body.
    """
    result = buf.KernelOp.create(properties=dict(op.properties), regions=[op.body.clone()])
    bitcasts = [inner for inner in result.body.walk() if isinstance(inner, arith.BitcastOp)]
    for inner, kind in [(inner, inner.input.type) for inner in bitcasts]:
        _keep_width(inner, kind)
    narrow = {value for inner in bitcasts for value in (*inner.operands, *inner.results)}
    for inner in result.walk():
        _widen_values(inner, narrow)
    return result


def _keep_width(op: arith.BitcastOp, operand: Attribute) -> None:
    """Inserts the conversions that a bitcast, whose operand had a type, needs between widened floats."""
    rewriter = Rewriter()
    if operand in NARROW:
        rounded = arith.TruncFOp(op.input, cast(Any, operand))
        rewriter.insert_op(rounded, InsertPoint.before(op))
        op.operands = [rounded.result]
    if op.result.type in NARROW:
        wide = arith.ExtFOp(op.result, f64)
        op.result.replace_all_uses_with(wide.result)
        wide.operands = [op.result]
        rewriter.insert_op(wide, InsertPoint.after(op))


def _widen_values(op: Operation, narrow: Collection[SSAValue]) -> None:
    """Widens the results of an op and the arguments of its blocks, except for those that stay narrow."""
    arguments = [argument for region in op.regions for block in region.blocks for argument in block.args]
    for value in (*op.results, *arguments):
        kind = _widened(value.type)
        if kind != value.type and value not in narrow:
            Rewriter.replace_value_with_new_type(value, kind)


def _widened(kind: Attribute) -> Attribute:
    if kind in NARROW:
        return f64
    if isinstance(kind, TensorType) and kind.element_type in NARROW:
        return TensorType(f64, kind.get_shape())
    if isinstance(kind, MemRefType) and kind.element_type in NARROW:
        return buf.buffer_type(kind.get_shape(), f64)
    return kind
