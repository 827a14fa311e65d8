"""The pass `store-bf16-as-f32`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, MemRefType, ModuleOp, bf16, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tensorgrad.dialects.buf import buffer_type, element_of, shape_of
from tensorgrad.dialects.signature import Slot, arguments_of
from tensorgrad.dialects.tg.base import dense, dense_to_numpy
from tensorgrad.passes.analyses.walking import defined_values
from tensorgrad.passes.functions import retype, set_signature
from tensorgrad.passes.levels import KERNELS, LevelPass
from tensorgrad.runtime.target import WEBGPU_DEFAULT, Target


@dataclass(frozen=True)
class StoreBf16AsF32Pass(LevelPass):
    """Stores bf16 as f32, for targets whose memory consists of words; values stay rounded to bf16.

    Expects kernels of `buf` in which bf16 is only extended, rounded to and moved, as `widen-bf16` leaves it. Guarantees
    the same values and no buffer of bf16: what is rounded to bf16 is extended at once, in registers. Two numbers would
    fit into a word, but two invocations would then write to it. Arguments record their dtype in `tg.dtype`, and the
    host converts them. Native code stores 16 bits at a time, so for native targets nothing changes.

    Attributes:
        target: The device.
    """

    name = "store-bf16-as-f32"
    levels = KERNELS

    target: Target = WEBGPU_DEFAULT

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        if self.target.native:
            return
        ops = list(op.walk())
        for function in ops:
            if isinstance(function, FuncOp) and function.body.blocks:
                _retype_arguments(function)
        for inner in ops:
            for value in defined_values(inner):
                _widen(value)
            if isinstance(inner, arith.ConstantOp) and isinstance(inner.value, FloatAttr) and inner.value.type == bf16:
                inner.properties["value"] = FloatAttr(inner.value.value.data, f32)
        for inner in ops:
            if isinstance(inner, arith.ExtFOp) and inner.input.type == inner.result.type:
                Rewriter.replace_op(inner, [], [inner.input])
            elif isinstance(inner, arith.TruncFOp) and inner.input.type == inner.result.type:
                _round(inner)


def _retype_arguments(function: FuncOp) -> None:
    """Makes the arguments of a function f32 where they are bf16, which their slots record."""
    arguments, slots = function.body.block.args, arguments_of(function)
    if all(element_of(argument) != bf16 for argument in arguments):
        return
    slots = [
        _named(slot) if element_of(argument) == bf16 else slot for argument, slot in zip(arguments, slots, strict=True)
    ]
    for argument in list(arguments):
        _widen(argument)
    set_signature(function, slots, [])


def _named(slot: Slot) -> Slot:
    if slot.value is None:
        return replace(slot, dtype="bf16")
    value = dense_to_numpy(cast("DenseIntOrFPElementsAttr[Any]", slot.value))
    return replace(slot, value=dense(value.astype(np.float32)))


def _widen(value: SSAValue) -> None:
    """Gives f32, or a buffer of it, the place of bf16."""
    if value.type == bf16:
        retype(value, f32)
    elif isinstance(value.type, MemRefType) and element_of(value) == bf16:
        retype(value, buffer_type(shape_of(value), f32))


def _round(op: arith.TruncFOp) -> None:
    """Replaces what was a rounding to bf16 by one that is extended again."""
    narrow = arith.TruncFOp(op.input, bf16)
    wide = arith.ExtFOp(narrow.result, f32)
    for new in (narrow, wide):
        new.location = op.location
    Rewriter.insert_op([narrow, wide], InsertPoint.before(op))
    Rewriter.replace_op(op, [], [wide.result])
