"""The pass `widen-bf16`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, bf16, f32
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.rewriter import Rewriter

from tensorgrad.dialects.tg.base import TensorOp, computes_in_bf16, in_f32, ui16, ui32
from tensorgrad.dialects.tg.build import TensorBuilder, element_of
from tensorgrad.dialects.tg.elementwise.arithmetic import BitcastOp, CastOp, ShiftLeftOp, ShiftRightOp
from tensorgrad.passes.levels import TENSORS, LevelPass
from tensorgrad.runtime.target import WEBGPU_DEFAULT, Target


@dataclass(frozen=True)
class WidenBf16Pass(LevelPass):
    """Computes in f32 what is bf16, and rounds each result to nearest, ties to even; other dtypes go by way of f32.

    Expects functions on `tg`. Guarantees the same values, and that the only ops on bf16 are casts between bf16 and f32
    and ops that move elements (the trait `Moves`). For targets without integers of 16 bits, bitcasts of bf16 become
    shifts of the bits of f32; the bits of a NaN may be those of another one then.

    Attributes:
        target: The device.
    """

    name = "widen-bf16"
    levels = TENSORS

    target: Target = WEBGPU_DEFAULT

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        for inner in list(op.walk()):
            if not isinstance(inner, TensorOp):
                continue
            if isinstance(inner, BitcastOp) and not self.target.native:
                _shift_bits(inner)
            elif computes_in_bf16(inner) and not _is_plain_cast(inner):
                _widen(inner)


def _is_plain_cast(op: TensorOp) -> bool:
    """Returns whether an op is a cast between bf16 and f32."""
    return isinstance(op, CastOp) and {element_of(op.operand), element_of(op.result)} == {bf16, f32}


def _builder_at(op: TensorOp) -> TensorBuilder:
    return TensorBuilder(cast(Block, op.parent), before=op, location=op.location)


def _widen(op: TensorOp) -> None:
    b = _builder_at(op)
    new = in_f32(op, [b.cast(x, f32) if element_of(x) == bf16 else x for x in op.operands])
    new.attributes.update(op.attributes)
    b.insert(new)
    Rewriter.replace_op(op, [], [b.cast(new.results[0], bf16) if element_of(op.results[0]) == bf16 else new.results[0]])


def _shift_bits(op: BitcastOp) -> None:
    """Replaces a bitcast to or from bf16, whose bits are the upper half of those of the equal f32."""
    source, target = element_of(op.operand), element_of(op.result)
    if bf16 not in (source, target) or source == target:
        return
    b, x = _builder_at(op), op.operand
    if source == bf16:
        x = b.emit(BitcastOp, [b.cast(x, f32)], to=ui32)
        x = b.cast(b.binary(ShiftRightOp, x, b.full_like(x, 16)), ui16)
    x = _bitcast(b, x, ui16)
    if target == bf16:
        x = b.cast(x, ui32)
        x = b.cast(b.emit(BitcastOp, [b.binary(ShiftLeftOp, x, b.full_like(x, 16))], to=f32), bf16)
    Rewriter.replace_op(op, [], [_bitcast(b, x, target)])


def _bitcast(b: TensorBuilder, x: SSAValue, to: Attribute) -> SSAValue:
    return x if element_of(x) == to else b.emit(BitcastOp, [x], to=to)
