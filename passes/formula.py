"""Arithmetic on SSA values in Python's own operators, so that a rewrite reads like its formula."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar, TypeAlias

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, LocationAttr, f32, i32
from xdsl.dialects.utils.fast_math import FastMathFlag
from xdsl.ir import Attribute, Operation, SSAValue

PLAIN: dict[str, Attribute] = {"fastmath": arith.FastMathFlagsAttr("none")}
"""What keeps float ops as they are written."""

FUSED: dict[str, Attribute] = {"fastmath": arith.FastMathFlagsAttr([FastMathFlag.ALLOW_CONTRACT])}
"""What lets a product and the sum behind it round once."""


@dataclass
class Formula:
    """Ops that grow as values are combined: each gets `location`, each constant is made once.

    Attributes:
        location: Of all ops.
        native: Whether the ops become native code, which keeps to IEEE 754: a NaN stays one through arithmetic, no sum
            is reassociated, and `fused` rounds once where the CPU can.
        ops: In order.
        constants: By value.
    """

    location: LocationAttr
    native: bool = False
    ops: list[Operation] = field(default_factory=list[Operation])
    constants: dict[Attribute, SSAValue] = field(default_factory=dict[Attribute, SSAValue])

    def add(self, op: Operation) -> SSAValue:
        """Appends `op`; returns its result."""
        op.location = self.location
        self.ops.append(op)
        return op.results[0]

    def constant(self, value: FloatAttr | IntegerAttr) -> SSAValue:
        """Returns the constant `value`."""
        if value not in self.constants:
            made = arith.ConstantOp.create(result_types=[value.get_type()], properties={"value": value})
            self.constants[value] = self.add(made)
        return self.constants[value]

    def real(self, value: Number) -> Real:
        """Returns an f32: the value itself, or a Python number as a constant."""
        return value if isinstance(value, Real) else Real(self, self.constant(FloatAttr(value, f32)))

    def whole(self, value: Integer) -> Whole:
        """Returns an i32: the value itself, or a Python integer, modulo 2**32, as a constant."""
        if isinstance(value, Whole):
            return value
        return Whole(self, self.constant(_whole_attribute((value + 2**31) % 2**32 - 2**31)))

    def select(self, condition: Condition, if_true: Number, if_false: Number) -> Real:
        """`if_true` where the condition holds, else `if_false`."""
        values = self.real(if_true).value, self.real(if_false).value
        return Real(self, self.add(arith.SelectOp(condition.value, *values)))

    def select_whole(self, condition: Condition, if_true: Integer, if_false: Integer) -> Whole:
        """`select` on integers."""
        values = self.whole(if_true).value, self.whole(if_false).value
        return Whole(self, self.add(arith.SelectOp(condition.value, *values)))

    def fused(self, x: Real, y: Number, z: Number) -> Real:
        """Returns `x * y + z`, rounded once where the CPU can: only for what either way is accurate enough."""
        product = self.add(_float_op(arith.MulfOp, x.value, self.real(y).value, FUSED))
        return Real(self, self.add(_float_op(arith.AddfOp, product, self.real(z).value, FUSED)))

    def polynomial(self, x: Real, coefficients: Sequence[float]) -> Real:
        """Horner's rule; the coefficient of the highest power comes first."""
        total = self.real(coefficients[0])
        for coefficient in coefficients[1:]:
            total = total * x + coefficient
        return total


def _float_op(
    kind: type[arith.FloatingPointLikeBinaryOperation], left: SSAValue, right: SSAValue, flags: dict[str, Attribute]
) -> Operation:
    return kind.create(operands=[left, right], result_types=[f32], properties=flags)


@cache
def _whole_attribute(value: int) -> IntegerAttr[IntegerType]:
    return IntegerAttr(value, i32)


@dataclass(frozen=True)
class Condition:
    """An i1 value."""

    formula: Formula
    value: SSAValue

    def __and__(self, other: Condition) -> Condition:
        return Condition(self.formula, self.formula.add(arith.AndIOp(self.value, other.value)))

    def __or__(self, other: Condition) -> Condition:
        return Condition(self.formula, self.formula.add(arith.OrIOp(self.value, other.value)))


@dataclass(frozen=True)
class Whole:
    """An i32 value; `>>` keeps the sign."""

    formula: Formula
    value: SSAValue

    def _binary(self, op: type[arith.SignlessIntegerBinaryOperation], other: Integer) -> Whole:
        right = self.formula.whole(other).value
        return Whole(self.formula, self.formula.add(op.create(operands=[self.value, right], result_types=[i32])))

    def __add__(self, other: Integer) -> Whole:
        return self._binary(arith.AddiOp, other)

    def __sub__(self, other: Integer) -> Whole:
        return self._binary(arith.SubiOp, other)

    def __and__(self, other: Integer) -> Whole:
        return self._binary(arith.AndIOp, other)

    def __or__(self, other: Integer) -> Whole:
        return self._binary(arith.OrIOp, other)

    def __mul__(self, other: Integer) -> Whole:
        return self._binary(arith.MuliOp, other)

    def __xor__(self, other: Integer) -> Whole:
        return self._binary(arith.XOrIOp, other)

    def __lshift__(self, other: Integer) -> Whole:
        return self._binary(arith.ShLIOp, other)

    def shifted_right(self, other: Integer) -> Whole:
        """Returns the bits moved right, zeros from the left."""
        return self._binary(arith.ShRUIOp, other)

    def __rshift__(self, other: Integer) -> Whole:
        return self._binary(arith.ShRSIOp, other)

    def compare(self, predicate: str, other: Integer) -> Condition:
        """`arith.cmpi` by its predicate's name."""
        right = self.formula.whole(other).value
        return Condition(self.formula, self.formula.add(arith.CmpiOp(self.value, right, predicate)))

    def as_real(self) -> Real:
        """Returns the f32 of the same bits."""
        return Real(self.formula, self.formula.add(arith.BitcastOp(self.value, f32)))

    def to_real(self) -> Real:
        """Returns the f32 of the same value."""
        return Real(self.formula, self.formula.add(arith.SIToFPOp(self.value, f32)))


@dataclass(frozen=True)
class Real:
    """An f32 value; comparisons with a NaN are false."""

    formula: Formula
    value: SSAValue

    PREDICATES: ClassVar = {"<": "olt", "<=": "ole", ">": "ogt", ">=": "oge", "==": "oeq", "!=": "one"}

    def _binary(self, op: type[arith.FloatingPointLikeBinaryOperation], left: Number, right: Number) -> Real:
        values = self.formula.real(left).value, self.formula.real(right).value
        return Real(self.formula, self.formula.add(_float_op(op, *values, PLAIN)))

    def __add__(self, other: Number) -> Real:
        return self._binary(arith.AddfOp, self, other)

    def __radd__(self, other: float) -> Real:
        return self._binary(arith.AddfOp, other, self)

    def __sub__(self, other: Number) -> Real:
        return self._binary(arith.SubfOp, self, other)

    def __rsub__(self, other: float) -> Real:
        return self._binary(arith.SubfOp, other, self)

    def __mul__(self, other: Number) -> Real:
        return self._binary(arith.MulfOp, self, other)

    def __rmul__(self, other: float) -> Real:
        return self._binary(arith.MulfOp, other, self)

    def __truediv__(self, other: Number) -> Real:
        return self._binary(arith.DivfOp, self, other)

    def __rtruediv__(self, other: float) -> Real:
        return self._binary(arith.DivfOp, other, self)

    def __neg__(self) -> Real:
        return Real(self.formula, self.formula.add(arith.NegfOp(self.value)))

    def __abs__(self) -> Real:
        return Real(self.formula, self.formula.add(math.AbsFOp(self.value)))

    def compare(self, relation: str, other: Number) -> Condition:
        """Returns an ordered comparison, by its sign: `<`, `<=`, `>`, `>=`, `==` or `!=`."""
        right = self.formula.real(other).value
        op = arith.CmpfOp(self.value, right, self.PREDICATES[relation])
        return Condition(self.formula, self.formula.add(op))

    def sqrt(self) -> Real:
        """Returns the square root."""
        return Real(self.formula, self.formula.add(math.SqrtOp(self.value)))

    def floor(self) -> Real:
        """Returns the largest integer that is not above."""
        return Real(self.formula, self.formula.add(math.FloorOp(self.value)))

    def bits(self) -> Whole:
        """Returns the i32 of the same bits."""
        return Whole(self.formula, self.formula.add(arith.BitcastOp(self.value, i32)))

    def magnitude_bits(self) -> Whole:
        """Returns the bits without the sign: they order as the magnitudes do, with infinity and NaN on top."""
        return self.bits() & 0x7FFFFFFF

    def is_nan(self) -> Condition:
        """Returns whether this is a NaN, by its bits."""
        return self.magnitude_bits().compare("ugt", 0x7F800000)

    def signed_as(self, other: Real) -> Real:
        """Returns the magnitude of this with the sign of `other`."""
        return (self.magnitude_bits() | (other.bits() & 0x80000000)).as_real()

    def truncated(self) -> Real:
        """Returns the upper 12 of 24 bits of precision: products of two such are exact."""
        return (self.bits() & 0xFFFFF000).as_real()


Number: TypeAlias = Real | float
Integer: TypeAlias = Whole | int
