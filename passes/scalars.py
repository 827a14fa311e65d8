"""Builds scalar code with Python's operators, so that a lowering reads like its formula."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import TypeAlias, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    f32,
    i1,
    i32,
    i64,
)
from xdsl.dialects.utils.fast_math import FastMathFlag
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.irdl import IRDLOperation

INTEGERS = (IndexType, IntegerType)

NONE: Mapping[str, Attribute] = {}
PLAIN: Mapping[str, Attribute] = {"fastmath": arith.FastMathFlagsAttr("none")}
"""The flags of float ops that must be evaluated as written."""

FUSED: Mapping[str, Attribute] = {"fastmath": arith.FastMathFlagsAttr([FastMathFlag.ALLOW_CONTRACT])}
"""The flags that allow a product and the sum of which it is an operand to be contracted, rounding once."""


class ScalarBuilder:
    """Appends ops of `arith` and `math`.

    Attributes:
        block: The block that ops are appended to; `within` changes it.
    """

    def __init__(self, block: Block):
        self.block = block

    @contextmanager
    def within(self, block: Block) -> Generator[None]:
        """Appends ops to another block, such as the body of a loop or branch that is built afterwards."""
        around, self.block = self.block, block
        yield
        self.block = around

    def append(self, op: Operation) -> None:
        """Appends an op."""
        self.block.add_op(op)

    def add(self, op: Operation) -> Value:
        """Appends an op; returns its first result."""
        self.append(op)
        return Value(self, op.results[0])

    def make(
        self,
        kind: type[Operation],
        operands: Sequence[SSAValue],
        result: Attribute,
        properties: Mapping[str, Attribute] = NONE,
    ) -> Value:
        """Appends an op built from its parts, several times faster than by its constructor; returns its result."""
        op = kind.create(operands=operands, result_types=(result,), properties=properties, location=UNKNOWN_LOC)
        return self.add(op)

    def value(self, value: SSAValue) -> Value:
        """Wraps a value with operators."""
        return Value(self, value)

    def values(self, values: Sequence[SSAValue]) -> list[Value]:
        """Wraps values with operators."""
        return [Value(self, value) for value in values]

    def constant(self, number: float, element: Attribute) -> Value:
        """Returns a constant of a buffer's element type; integers above the signed range wrap."""
        return self.make(arith.ConstantOp, (), element, {"value": constant_attribute(number, element)})

    def operand(self, value: Operand, kind: Attribute) -> Value:
        """Returns a value unchanged, and a Python number as a constant."""
        return value if isinstance(value, Value) else self.constant(value, kind)

    def apply(self, kind: type[Operation], *operands: Value) -> Value:
        """Appends an op whose result has the type of its first operand; returns the result."""
        return self.make(kind, [operand.ssa for operand in operands], operands[0].ssa.type, plain(kind))

    def convert(self, kind: type[Operation], operand: Value, to: Attribute) -> Value:
        """Appends a conversion; returns its result."""
        return self.make(kind, (operand.ssa,), to)

    def select(self, condition: Value, on_true: Operand, on_false: Operand) -> Value:
        """Returns `on_true` if the condition holds, else `on_false`; at least one of them is not a Python number."""
        known = on_true if isinstance(on_true, Value) else on_false
        assert isinstance(known, Value)
        kind = known.ssa.type
        operands = condition.ssa, self.operand(on_true, kind).ssa, self.operand(on_false, kind).ssa
        return self.make(arith.SelectOp, operands, kind)

    def polynomial(self, x: Value, coefficients: Sequence[float]) -> Value:
        """Returns a polynomial by Horner's rule; the coefficient of the highest power comes first."""
        total = self.constant(coefficients[0], x.ssa.type)
        for coefficient in coefficients[1:]:
            total = self.fused(total, x, coefficient)
        return total

    def fused(self, x: Value, y: Operand, z: Operand) -> Value:
        """Returns `x * y + z`, rounded once if the CPU can: use it only where rounding twice is accurate enough too."""
        kind = x.ssa.type
        product = self.make(arith.MulfOp, (x.ssa, self.operand(y, kind).ssa), kind, FUSED)
        return self.make(arith.AddfOp, (product.ssa, self.operand(z, kind).ssa), kind, FUSED)


class Value:
    """A value whose operators append ops to its builder's current block.

    Integers are taken as unsigned, like indices, by `//`, `%`, `>>`, comparisons, `at_most` and `at_least`. Comparisons
    of floats are ordered: false if one is NaN. An index plus 0, or multiplied or divided by 1, is returned unchanged.
    """

    __slots__ = ("builder", "ssa")

    def __init__(self, builder: ScalarBuilder, ssa: SSAValue):
        self.builder = builder
        self.ssa = ssa

    @property
    def type(self) -> Attribute:
        """The type of the value."""
        return self.ssa.type

    @property
    def is_integer(self) -> bool:
        """Whether the value is an integer, or an index."""
        return isinstance(self.ssa.type, INTEGERS)

    def _binary(self, integers: type[Operation], floats: type[Operation], other: Operand) -> Value:
        operands = self.ssa, self.builder.operand(other, self.ssa.type).ssa
        kind, flags = (integers, NONE) if self.is_integer else (floats, PLAIN)
        return self.builder.make(kind, operands, self.ssa.type, flags)

    def _integer(self, kind: type[Operation], other: Operand) -> Value:
        right = self.builder.operand(other, self.ssa.type).ssa
        return self.builder.make(kind, (self.ssa, right), self.ssa.type)

    def _is_kept(self, other: Operand, neutral: int) -> bool:
        return not isinstance(other, Value) and other == neutral and isinstance(self.ssa.type, IndexType)

    def _constant(self, number: float) -> Value:
        return self.builder.constant(number, self.ssa.type)

    def __add__(self, other: Operand) -> Value:
        return self if self._is_kept(other, 0) else self._binary(arith.AddiOp, arith.AddfOp, other)

    def __radd__(self, other: float) -> Value:
        return self._constant(other) + self

    def __sub__(self, other: Operand) -> Value:
        return self._binary(arith.SubiOp, arith.SubfOp, other)

    def __rsub__(self, other: float) -> Value:
        return self._constant(other) - self

    def __mul__(self, other: Operand) -> Value:
        return self if self._is_kept(other, 1) else self._binary(arith.MuliOp, arith.MulfOp, other)

    def __rmul__(self, other: float) -> Value:
        return self._constant(other) * self

    def __truediv__(self, other: Operand) -> Value:
        right = self.builder.operand(other, self.ssa.type).ssa
        return self.builder.make(arith.DivfOp, (self.ssa, right), self.ssa.type, PLAIN)

    def __rtruediv__(self, other: float) -> Value:
        return self._constant(other) / self

    def __floordiv__(self, other: Operand) -> Value:
        return self if self._is_kept(other, 1) else self._integer(arith.DivUIOp, other)

    def __mod__(self, other: Operand) -> Value:
        return self._integer(arith.RemUIOp, other)

    def __and__(self, other: Operand) -> Value:
        return self._integer(arith.AndIOp, other)

    def __or__(self, other: Operand) -> Value:
        return self._integer(arith.OrIOp, other)

    def __xor__(self, other: Operand) -> Value:
        return self._integer(arith.XOrIOp, other)

    def __lshift__(self, other: Operand) -> Value:
        return self._integer(arith.ShLIOp, other)

    def __rshift__(self, other: Operand) -> Value:
        return self._integer(arith.ShRUIOp, other)

    def shifted_with_sign(self, other: Operand) -> Value:
        """Returns the arithmetic right shift."""
        return self._integer(arith.ShRSIOp, other)

    def __neg__(self) -> Value:
        return self.builder.apply(arith.NegfOp, self)

    def __abs__(self) -> Value:
        return self.builder.apply(math.AbsFOp, self)

    def at_most(self, other: Operand) -> Value:
        """Returns the minimum of two values."""
        return self._binary(arith.MinUIOp, arith.MinimumfOp, other)

    def at_least(self, other: Operand) -> Value:
        """Returns the maximum of two values."""
        return self._binary(arith.MaxUIOp, arith.MaximumfOp, other)

    # Comparisons

    def compare(self, predicate: str, other: Operand) -> Value:
        """Returns a comparison by a predicate of `arith.cmpi` or `arith.cmpf`, given by name."""
        right = self.builder.operand(other, self.ssa.type).ssa
        kind = arith.CmpiOp if self.is_integer else arith.CmpfOp
        return self.builder.make(kind, (self.ssa, right), i1, _predicate(kind, predicate))

    def _compare(self, integers: str, floats: str, other: Operand) -> Value:
        return self.compare(integers if self.is_integer else floats, other)

    def __lt__(self, other: Operand) -> Value:
        return self._compare("ult", "olt", other)

    def __le__(self, other: Operand) -> Value:
        return self._compare("ule", "ole", other)

    def __gt__(self, other: Operand) -> Value:
        return self._compare("ugt", "ogt", other)

    def __ge__(self, other: Operand) -> Value:
        return self._compare("uge", "oge", other)

    def equals(self, other: Operand) -> Value:
        """Returns whether two values are equal; `==` compares Python objects."""
        return self._compare("eq", "oeq", other)

    def differs(self, other: Operand) -> Value:
        """Returns whether two values are not equal; false if one is NaN."""
        return self._compare("ne", "one", other)

    # Functions of floats

    def sqrt(self) -> Value:
        """Returns the square root."""
        return self.builder.apply(math.SqrtOp, self)

    def exp(self) -> Value:
        """Returns the exponential."""
        return self.builder.apply(math.ExpOp, self)

    def log(self) -> Value:
        """Returns the natural logarithm."""
        return self.builder.apply(math.LogOp, self)

    def floor(self) -> Value:
        """Returns the largest integer that is not above the value."""
        return self.builder.apply(math.FloorOp, self)

    # Types

    def cast(self, kind: type[Operation], to: Attribute) -> Value:
        """Converts the value to another type with an op of `arith`."""
        return self.builder.convert(kind, self, to)

    def as_index(self) -> Value:
        """Returns an integer as an index."""
        return self.cast(arith.IndexCastOp, IndexType())

    def bits(self) -> Value:
        """Returns the bits of an f32 as i32."""
        return self.cast(arith.BitcastOp, i32)

    def as_real(self) -> Value:
        """Returns the f32 whose bits are an i32."""
        return self.cast(arith.BitcastOp, f32)

    def to_real(self) -> Value:
        """Converts a signed i32 to f32."""
        return self.cast(arith.SIToFPOp, f32)

    def magnitude_bits(self) -> Value:
        """Returns an f32's bits without the sign: they compare as magnitudes, infinity and NaN being the largest."""
        return self.bits() & 0x7FFFFFFF

    def is_nan(self) -> Value:
        """Returns whether an f32 is a NaN, by its bits."""
        return self.magnitude_bits() > 0x7F800000

    def signed_as(self, other: Value) -> Value:
        """Returns the magnitude of an f32 with the sign of another."""
        return (self.magnitude_bits() | (other.bits() & 0x80000000)).as_real()

    def truncated(self) -> Value:
        """Returns an f32 truncated to the upper 12 of its 24 bits of precision: products of two such are exact."""
        return (self.bits() & 0xFFFFF000).as_real()


Operand: TypeAlias = Value | float


def largest(x: Value, y: Value) -> Value:
    """Returns the larger float. A NaN in `y` is ignored: the sum that follows propagates it."""
    return x.builder.select(x < y, y, x)


def both(condition: Value | None, other: Value) -> Value:
    """Returns the conjunction of two conditions; `None` stands for true."""
    return other if condition is None else condition & other


class Formula(ScalarBuilder):
    """Builds the ops that replace another op: they get its location, and equal constants are created once.

    Attributes:
        location: The location of all ops.
        native: Whether the ops become native code, which follows IEEE 754: arithmetic propagates NaN, sums are not
            reassociated, and `fused` rounds once if the CPU can.
        ops: The ops, in order.
    """

    def __init__(self, location: LocationAttr, native: bool = False):
        super().__init__(Block())
        self.location = location
        self.native = native
        self.ops: list[Operation] = []
        self._constants: dict[Attribute, Value] = {}

    def append(self, op: Operation) -> None:
        op.location = self.location
        self.ops.append(op)

    def constant(self, number: float, element: Attribute) -> Value:
        attribute = constant_attribute(number, element)
        result = self._constants.get(attribute)
        if result is None:
            result = self._constants[attribute] = self.make(arith.ConstantOp, (), element, {"value": attribute})
        return result

    def real(self, number: float) -> Value:
        """Returns an f32 constant."""
        return self.constant(number, f32)

    def whole(self, number: int) -> Value:
        """Returns an i32 constant, modulo 2**32."""
        return self.constant(number, i32)

    def select(self, condition: Value, on_true: Operand, on_false: Operand) -> Value:
        """Returns `on_true` if the condition holds, else `on_false`; two Python floats are f32, two integers i32."""
        if not isinstance(on_true, Value) and not isinstance(on_false, Value):
            on_true = self.whole(on_true) if isinstance(on_true, int) else self.real(on_true)
        return super().select(condition, on_true, on_false)


def constant_attribute(number: float, element: Attribute) -> FloatAttr | IntegerAttr:
    """Returns the attribute of a constant of a buffer's element type; integers above the signed range wrap."""
    if isinstance(element, AnyFloat):
        return FloatAttr(float(number), element)
    return _integer_attribute(int(number), cast("IntegerType | IndexType", element))


def constant_integer(value: SSAValue) -> int | None:
    """Returns the integer of a constant; `None` for any other value."""
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None


@lru_cache(maxsize=1 << 11)
def _integer_attribute(value: int, element: IntegerType | IndexType) -> IntegerAttr:
    if isinstance(element, IntegerType) and element != i1 and value >= 1 << element.bitwidth - 1:
        value -= 1 << element.bitwidth
    return IntegerAttr(value, element)


@lru_cache
def _predicate(kind: type[Operation], name: str) -> Mapping[str, Attribute]:
    """Returns the properties of a comparison."""
    names = arith.CMPI_COMPARISON_OPERATIONS if kind is arith.CmpiOp else arith.CMPF_COMPARISON_OPERATIONS
    return {"predicate": IntegerAttr(names.index(name), i64), **plain(kind)}


@cache
def plain(kind: type[Operation]) -> Mapping[str, Attribute]:
    """Returns the properties that disable fast math for a kind of op; none if it has no fast-math flags."""
    if not issubclass(kind, IRDLOperation):
        return NONE
    return PLAIN if "fastmath" in kind.get_irdl_definition().properties else NONE
