"""The pass `widen-integers`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerType, ModuleOp, TensorType, f16, i8, i16, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.rewriter import Rewriter

from tensorgrad.dialects.functions import defined_functions
from tensorgrad.dialects.signature import Slot, arguments_of, results_of
from tensorgrad.dialects.tg.base import (
    TensorOp,
    dense,
    dense_to_numpy,
    is_float,
    is_unsigned,
    numpy_dtype,
    tensor,
    ui8,
    ui16,
    ui32,
)
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.dialects.tg.elementwise.arithmetic import (
    AndOp,
    BitcastOp,
    CastOp,
    MaximumOp,
    MinimumOp,
    ShiftLeftOp,
    ShiftRightOp,
)
from tensorgrad.dialects.tg.index import ScatterOp
from tensorgrad.dialects.tg.leaves import ConstantOp, IotaOp
from tensorgrad.dialects.tg.traits import never_overflows
from tensorgrad.passes.analyses.walking import defined_values
from tensorgrad.passes.functions import return_of, retype, set_signature
from tensorgrad.passes.levels import TENSORS, LevelPass
from tensorgrad.passes.tensors.half_bits import bits_of_half, half_of_bits
from tensorgrad.runtime.target import WEBGPU_DEFAULT, Target

WIDE: dict[Attribute, IntegerType] = {i8: i32, i16: i32, ui8: ui32, ui16: ui32}
"""The integer types narrower than a word, and for each the type in which its values are computed."""

Compute: TypeAlias = Callable[[TensorBuilder, SSAValue], SSAValue]


@dataclass(frozen=True)
class WidenIntegersPass(LevelPass):
    """Computes 8- and 16-bit integers in 32 bits, for targets whose memory consists of words.

    Expects functions on `tg`. Guarantees the same values, bit for bit, and no `i8`, `ui8`, `i16` or `ui16`: each
    element is held as a 32-bit word of the same value. A result that may leave the range of the narrow type is wrapped
    after the op, by two shifts or a mask; ops whose results stay in the range of their operands have the trait
    `NeverOverflows`. Arguments and results record their dtype in `tg.dtype`, and the host converts them. Native code
    has integers of all widths, so for native targets nothing changes.

    Attributes:
        target: The device.
    """

    name = "widen-integers"
    levels = TENSORS

    target: Target = WEBGPU_DEFAULT

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        if self.target.native:
            return
        for function in defined_functions(op):
            _widen(function)


def _widen(function: FuncOp) -> None:
    """Widens everything in a function, and its signature."""
    sides = ((arguments_of(function), function.body.block.args), (results_of(function), return_of(function).operands))
    before = [slots for slots, _ in sides]
    after = [[_named(slot, value) for slot, value in zip(*side, strict=True)] for side in sides]
    ops: list[tuple[TensorOp, list[Attribute], Attribute]] = []
    for op in function.walk():
        if isinstance(op, TensorOp):
            elements = [element_of(value) for value in (*op.operands, *op.results)]
            if any(element in WIDE for element in elements):
                ops.append((op, elements[:-1], elements[-1]))
    for value in [value for op in function.walk() for value in defined_values(op)]:
        if isinstance(value.type, TensorType) and element_of(value) in WIDE:
            retype(value, tensor(shape_of(value), WIDE[element_of(value)]))
    for op, operand_types, result_type in ops:
        _rewrite(op, operand_types, result_type)
    if before != after:
        set_signature(function, *after)


def _named(slot: Slot, value: SSAValue) -> Slot:
    """Returns a slot that records the dtype of a narrow tensor; of any other, the slot unchanged."""
    element = element_of(value)
    return replace(slot, dtype=f"{'u' if is_unsigned(element) else 'i'}{_bits(element)}") if element in WIDE else slot


def _bits(element: Attribute) -> int:
    return cast(IntegerType, element).bitwidth


def _rewrite(op: TensorOp, operand_types: list[Attribute], result_type: Attribute) -> None:
    """Makes an op on words compute what it computed on narrow integers.

    Args:
        op: The op, whose operands and result have been retyped to words.
        operand_types: The former element types of its operands.
        result_type: The former element type of its result.
    """
    match op:
        case BitcastOp():
            _pass_on(op, lambda b, _: _bits_of(b, op.operand, operand_types[0], result_type))
        case ConstantOp():
            value = dense_to_numpy(cast("DenseIntOrFPElementsAttr[Any]", op.value))
            op.properties["value"] = dense(value.astype(numpy_dtype(WIDE[result_type])))
        case CastOp() if is_float(operand_types[0]) and result_type in WIDE:
            op.properties["to"] = WIDE[result_type]
            _pass_on(op, lambda b, x: _clipped(b, x, result_type))
        case ScatterOp() if op.combines in ("max", "min") and result_type in WIDE:
            # Where there are no updates, the identity element is that of words.
            _pass_on(op, lambda b, x: _clipped(b, x, result_type))
        case _:
            for name in ("to", "element") if isinstance(op, CastOp | IotaOp) else ():
                if op.properties.get(name) in WIDE:
                    op.properties[name] = WIDE[op.properties[name]]
            if result_type in WIDE and not never_overflows(op):
                _pass_on(op, lambda b, x: _wrapped(b, x, result_type))


def _pass_on(op: TensorOp, compute: Compute) -> None:
    """Replaces the uses of an op's result with a value computed from it right after the op."""
    result, uses = op.results[0], list(op.results[0].uses)
    computed = compute(TensorBuilder(cast(Block, op.parent), before=op.next_op, location=op.location), result)
    computed.name_hint = computed.name_hint or result.name_hint
    for use in uses:
        use.operation.operands[use.index] = computed
    if not list(result.uses):
        Rewriter.erase_op(op)


def _wrapped(b: TensorBuilder, x: SSAValue, element: Attribute) -> SSAValue:
    """Wraps words to the range of a narrow type."""
    bits = _bits(element)
    if is_unsigned(element):
        return b.binary(AndOp, x, b.full_like(x, (1 << bits) - 1))
    away = b.full_like(x, 32 - bits)
    return b.binary(ShiftRightOp, b.binary(ShiftLeftOp, x, away), away)


def _clipped(b: TensorBuilder, x: SSAValue, element: Attribute) -> SSAValue:
    """Clamps words to the range of a narrow type."""
    limits = np.iinfo(numpy_dtype(element))
    held = b.binary(MinimumOp, x, b.full_like(x, int(limits.max)))
    return held if is_unsigned(element) else b.binary(MaximumOp, held, b.full_like(x, int(limits.min)))


def _bits_of(b: TensorBuilder, x: SSAValue, source: Attribute, target: Attribute) -> SSAValue:
    """Returns the bitcast between two types of one width, at most 16 bits; integers are held in words."""
    if target == f16:
        return half_of_bits(b, x)
    if source == f16:
        return _wrapped(b, b.cast(bits_of_half(b, x), WIDE[target]), target)
    return _wrapped(b, b.cast(x, WIDE[target]), target)
