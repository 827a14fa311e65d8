"""What each element-by-element op of `tg` does to one element, in `arith` and `math`.

Buffers are signless: `ui32` is `i32` here, and the sign sits in the op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IndexType, IntegerAttr, IntegerType, f16, f32, i1, i32
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tensorgrad.dialects import wgsl
from tensorgrad.dialects.tg import binary, unary
from tensorgrad.dialects.tg.base import TensorOp, is_float, ui32
from tensorgrad.dialects.tg.build import element_of

index = IndexType()


def storage(element: Attribute) -> Attribute:
    """The signless element type that buffers use for a tensor's element type."""
    return i32 if element == ui32 else element


class ScalarBuilder:
    """Appends scalar ops to the body of a stage."""

    def __init__(self, block: Block):
        self.block = block

    def add_op(self, op: Operation) -> SSAValue:
        """Appends an op and gives its first result."""
        self.block.add_op(op)
        return op.results[0]

    def constant(self, number: float, element: Attribute) -> SSAValue:
        """A constant of a buffer's element type; 32-bit patterns above the signed range wrap."""
        if is_float(element):
            return self.add_op(arith.ConstantOp(FloatAttr(float(number), cast(AnyFloat, element))))
        value = int(number)
        if element == i32 and value >= 1 << 31:
            value -= 1 << 32
        return self.add_op(arith.ConstantOp(IntegerAttr(value, cast("IntegerType | IndexType", element))))

    def apply(self, kind: type[Operation], *operands: SSAValue) -> SSAValue:
        """An op whose result has its first operand's type."""
        return self.add_op(kind.create(operands=operands, result_types=[operands[0].type], properties=_flags(kind)))

    def convert(self, kind: type[Operation], operand: SSAValue, to: Attribute) -> SSAValue:
        """A conversion."""
        return self.add_op(kind.create(operands=[operand], result_types=[to], properties=_flags(kind)))

    def compare(self, predicate: str, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """A comparison by a predicate of `arith.cmpf` or `arith.cmpi`."""
        kind = arith.CmpfOp if is_float(lhs.type) else arith.CmpiOp
        return self.add_op(kind(lhs, rhs, predicate))

    def select(self, condition: SSAValue, on_true: SSAValue, on_false: SSAValue) -> SSAValue:
        """A choice."""
        return self.add_op(arith.SelectOp(condition, on_true, on_false))


@cache
def _flags(kind: type[Operation]) -> dict[str, Attribute]:
    """Float arithmetic carries flags: none of its rules may be bent."""
    if kind in _FLAGLESS:
        return {}
    return {"fastmath": arith.FastMathFlagsAttr("none")}


_FLAGLESS: set[type[Operation]] = {
    arith.AddiOp,
    arith.SubiOp,
    arith.MuliOp,
    arith.AndIOp,
    arith.OrIOp,
    arith.XOrIOp,
    arith.MaxSIOp,
    arith.MaxUIOp,
    arith.MinSIOp,
    arith.MinUIOp,
    arith.DivUIOp,
    arith.RemUIOp,
    arith.FPToSIOp,
    arith.FPToUIOp,
    arith.SIToFPOp,
    arith.UIToFPOp,
    arith.ExtUIOp,
    arith.ExtFOp,
    arith.TruncFOp,
    arith.IndexCastOp,
    math.AbsIOp,
    arith.DivSIOp,
    arith.RemSIOp,
    arith.ShLIOp,
    arith.ShRSIOp,
    arith.ShRUIOp,
    arith.BitcastOp,
    wgsl.RemFOp,
}

Body: TypeAlias = Callable[[ScalarBuilder, TensorOp, Sequence[SSAValue]], SSAValue]
"""Computes a result's element from the operands' elements."""

BY_KIND: dict[str, tuple[type[Operation], type[Operation], type[Operation]]] = {
    "add": (arith.AddfOp, arith.AddiOp, arith.AddiOp),
    "sub": (arith.SubfOp, arith.SubiOp, arith.SubiOp),
    "mul": (arith.MulfOp, arith.MuliOp, arith.MuliOp),
    "max": (arith.MaximumfOp, arith.MaxSIOp, arith.MaxUIOp),
    "min": (arith.MinimumfOp, arith.MinSIOp, arith.MinUIOp),
}
"""The ops on floats, signed and unsigned integers."""


def by_kind(name: str, element: Attribute) -> type[Operation]:
    """The op of a family for a tensor's element type."""
    floats, signed, unsigned = BY_KIND[name]
    return floats if is_float(element) else unsigned if element == ui32 else signed


def _numeric(name: str) -> Body:
    def body(b: ScalarBuilder, op: TensorOp, args: Sequence[SSAValue]) -> SSAValue:
        return b.apply(by_kind(name, element_of(op.results[0])), *args)

    return body


def _direct(kind: type[Operation]) -> Body:
    return lambda b, op, args: b.apply(kind, *args)


def _neg(b: ScalarBuilder, op: TensorOp, args: Sequence[SSAValue]) -> SSAValue:
    if is_float(args[0].type):
        return b.apply(arith.NegfOp, args[0])
    return b.apply(arith.SubiOp, b.constant(0, args[0].type), args[0])


def _abs(b: ScalarBuilder, op: TensorOp, args: Sequence[SSAValue]) -> SSAValue:
    if is_float(args[0].type):
        return b.apply(math.AbsFOp, args[0])
    return args[0] if element_of(op.results[0]) == ui32 else b.apply(math.AbsIOp, args[0])


def _sigmoid(b: ScalarBuilder, op: TensorOp, args: Sequence[SSAValue]) -> SSAValue:
    x = args[0]
    one = b.constant(1, x.type)
    small = b.apply(math.ExpOp, b.apply(arith.NegfOp, b.apply(math.AbsFOp, x)))
    share = b.apply(arith.DivfOp, one, b.apply(arith.AddfOp, one, small))
    positive = b.compare("oge", x, b.constant(0, x.type))
    return b.select(positive, share, b.apply(arith.MulfOp, small, share))


def _relu(b: ScalarBuilder, op: TensorOp, args: Sequence[SSAValue]) -> SSAValue:
    x, element = args[0], element_of(op.results[0])
    zero = b.constant(0, x.type)
    if not is_float(element):
        return x if element == ui32 else b.apply(arith.MaxSIOp, x, zero)
    return b.select(b.compare("ole", x, zero), zero, x)


def _not(b: ScalarBuilder, op: TensorOp, args: Sequence[SSAValue]) -> SSAValue:
    return b.apply(arith.XOrIOp, args[0], b.constant(1 if args[0].type == i1 else -1, args[0].type))


def predicate(name: str, element: Attribute) -> str:
    """`arith`'s predicate for one of `tg.compare`'s, on a tensor's element type."""
    if is_float(element):
        return "une" if name == "ne" else f"o{name}"
    if name in ("eq", "ne"):
        return name
    return f"{'u' if element in (ui32, i1) else 's'}{name}"


def _compare(b: ScalarBuilder, op: TensorOp, args: Sequence[SSAValue]) -> SSAValue:
    name = cast(binary.CompareOp, op).predicate.data
    return b.compare(predicate(name, element_of(op.operands[0])), *args)


def _select(b: ScalarBuilder, op: TensorOp, args: Sequence[SSAValue]) -> SSAValue:
    return b.select(*args)


def _saturated(b: ScalarBuilder, x: SSAValue, unsigned: bool) -> SSAValue:
    """A float as an integer. Out of its range, and for NaN, `arith` leaves a conversion undefined."""
    if x.type == f16:  # which holds no bound of the range
        x = b.convert(arith.ExtFOp, x, f32)
    first, end = (0, 1 << 32) if unsigned else (-(1 << 31), 1 << 31)
    low, high = b.constant(first, x.type), b.constant(end, x.type)
    inside = b.apply(arith.AndIOp, b.compare("oge", x, low), b.compare("olt", x, high))
    safe = b.select(inside, x, b.constant(0, x.type))
    whole = b.convert(arith.FPToUIOp if unsigned else arith.FPToSIOp, safe, i32)
    whole = b.select(b.compare("oge", x, high), b.constant(end - 1, i32), whole)
    return whole if unsigned else b.select(b.compare("olt", x, low), b.constant(first, i32), whole)


def _cast(b: ScalarBuilder, op: TensorOp, args: Sequence[SSAValue]) -> SSAValue:
    x, source, to = args[0], element_of(op.operands[0]), element_of(op.results[0])
    target = storage(to)
    if x.type == target:
        return x
    if to == i1:
        return b.compare("une" if is_float(source) else "ne", x, b.constant(0, x.type))
    if source == i1:
        return b.convert(arith.UIToFPOp if is_float(to) else arith.ExtUIOp, x, target)
    if is_float(source) and is_float(to):
        wider = cast(Any, to).bitwidth > cast(Any, source).bitwidth
        return b.convert(arith.ExtFOp if wider else arith.TruncFOp, x, target)
    if is_float(source):
        return _saturated(b, x, to == ui32)
    return b.convert(arith.UIToFPOp if source == ui32 else arith.SIToFPOp, x, target)


POINTWISE: dict[type[TensorOp], Body] = {
    unary.NegOp: _neg,
    unary.AbsOp: _abs,
    unary.ExpOp: _direct(math.ExpOp),
    unary.LogOp: _direct(math.LogOp),
    unary.SqrtOp: _direct(math.SqrtOp),
    unary.SinOp: _direct(math.SinOp),
    unary.CosOp: _direct(math.CosOp),
    unary.TanhOp: _direct(math.TanhOp),
    unary.SigmoidOp: _sigmoid,
    unary.ReluOp: _relu,
    unary.NotOp: _not,
    binary.AddOp: _numeric("add"),
    binary.SubOp: _numeric("sub"),
    binary.MulOp: _numeric("mul"),
    binary.DivOp: _direct(arith.DivfOp),
    binary.PowOp: _direct(math.PowFOp),
    binary.MaximumOp: _numeric("max"),
    binary.MinimumOp: _numeric("min"),
    binary.AndOp: _direct(arith.AndIOp),
    binary.OrOp: _direct(arith.OrIOp),
    binary.CompareOp: _compare,
    binary.SelectOp: _select,
    binary.CastOp: _cast,
}
"""The body of every op that works element by element."""
