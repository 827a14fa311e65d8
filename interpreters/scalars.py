"""The semantics of the scalar ops of `arith` and `math`, on NumPy arrays of the op's operand types.

Elements have NumPy types: an `i1` is a bool, an `index` an int64, a signless integer a signed one. Integers wrap;
division or remainder by zero is 0; shifts by the width or more give 0 (or the sign); conversions from float saturate,
and convert NaN to 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
from ml_dtypes import bfloat16
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, bf16, f16, f32, f64, i1, i8, i16, i32, i64
from xdsl.ir import Attribute, Operation

from tensorgrad.dialects.stages import IDENTITIES
from tensorgrad.dialects.tg.elementwise.arithmetic import PowOp
from tensorgrad.runtime.errors import ExecutionError

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

SCALAR_DTYPES: dict[Attribute, np.dtype[Any]] = {
    bf16: np.dtype(bfloat16),
    f16: np.dtype(np.float16),
    f32: np.dtype(np.float32),
    f64: np.dtype(np.float64),
    i1: np.dtype(np.bool_),
    i8: np.dtype(np.int8),
    i16: np.dtype(np.int16),
    i32: np.dtype(np.int32),
    i64: np.dtype(np.int64),
    IndexType(): np.dtype(np.int64),
}
"""The NumPy types of the scalar types."""


def scalar_dtype(kind: Attribute) -> np.dtype[Any]:
    """Returns the numpy dtype that holds a scalar type.

    Raises:
        ExecutionError: The type is not a supported scalar.
    """
    dtype = SCALAR_DTYPES.get(kind)
    if dtype is None:
        raise ExecutionError(f"no numpy dtype for {kind}")
    return dtype


def stored_dtype(kind: Attribute) -> np.dtype[Any]:
    """Returns the numpy dtype that a buffer of a scalar type has on devices: an `i1` is stored as a word."""
    return np.dtype(np.uint32) if kind == i1 else scalar_dtype(kind)


def width_of(kind: Attribute) -> int:
    """Returns the width of an integer type in bits; an index has 64."""
    return 1 if kind == i1 else 8 * scalar_dtype(kind).itemsize


def signed(x: Array) -> Array:
    """Reinterprets integers as signed; a true bool is -1."""
    return -x.astype(np.int8) if x.dtype == np.bool_ else x


def unsigned(x: Array) -> Array:
    """Reinterprets integers as unsigned; a true bool is 1."""
    return x.astype(np.uint8) if x.dtype == np.bool_ else x.view(f"u{x.dtype.itemsize}")


def unread(x: Array) -> Array:
    """Returns floats unchanged, as they have no signedness."""
    return x


def narrow(x: Any, kind: Attribute) -> Array:
    """Converts numbers to elements of `kind`; integers keep their low bits."""
    dtype = scalar_dtype(kind)
    array = np.asarray(x)
    if dtype == np.bool_ and array.dtype != np.bool_:
        return (array & 1).astype(np.bool_)
    return array.astype(dtype, copy=False)


def erf(x: Array) -> Array:
    """Returns the error function, by Kummer's series of positive terms, in float64 (accurate to a few ulp)."""
    z = np.clip(x.astype(np.float64), -6.0, 6.0)
    term = 2 / np.sqrt(np.pi) * np.exp(-z * z) * z
    total = term.copy()
    for n in range(1, 160):
        term = term * (2 * z * z / (2 * n + 1))
        total += term
    return np.clip(total, -1.0, 1.0)


def round_away(x: Array) -> Array:
    """Rounds to the nearest integer, halves away from zero."""
    whole = np.trunc(x)
    return whole + np.copysign((np.abs(x - whole) >= 0.5).astype(x.dtype), x)


def fused_multiply_add(x: Array, y: Array, z: Array) -> Array:
    """Returns `x * y + z`; the product of 32-bit floats is exact in float64."""
    return x.astype(np.float64) * y.astype(np.float64) + z.astype(np.float64)


FLOATS: dict[str, Callable[..., Any]] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.negf": np.negative,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "arith.extf": unread,
    "arith.truncf": unread,
    "math.absf": np.abs,
    "math.acos": np.arccos,
    "math.acosh": np.arccosh,
    "math.asin": np.arcsin,
    "math.asinh": np.arcsinh,
    "math.atan": np.arctan,
    "math.atan2": np.arctan2,
    "math.atanh": np.arctanh,
    "math.cbrt": np.cbrt,
    "math.ceil": np.ceil,
    "math.copysign": np.copysign,
    "math.cos": np.cos,
    "math.cosh": np.cosh,
    "math.erf": erf,
    "math.exp": np.exp,
    "math.exp2": np.exp2,
    "math.expm1": np.expm1,
    "math.floor": np.floor,
    "math.fma": fused_multiply_add,
    "math.fpowi": lambda x, n: np.power(x.astype(np.float64), n.astype(np.float64)),
    "math.log": np.log,
    "math.log10": np.log10,
    "math.log1p": np.log1p,
    "math.log2": np.log2,
    "math.powf": PowOp.function,
    "math.round": round_away,
    "math.roundeven": np.rint,
    "math.rsqrt": lambda x: 1 / np.sqrt(x),
    "math.sin": np.sin,
    "math.sinh": np.sinh,
    "math.sqrt": np.sqrt,
    "math.tan": np.tan,
    "math.tanh": np.tanh,
    "math.trunc": np.trunc,
    "wgsl.remf": np.fmod,
}
"""Ops that are functions of the operands alone; the result is rounded to the result's type."""


def _divide(x: Array, y: Array, _width: int) -> Array:
    """Returns the truncating quotient; division by zero gives 0."""
    divisor = np.where(y == 0, y.dtype.type(1), y)
    quotient = x // divisor
    inexact = (quotient * divisor != x) & ((x < 0) != (divisor < 0))
    return np.where(y == 0, y.dtype.type(0), quotient + inexact.astype(x.dtype))


def _floor_divide(x: Array, y: Array, _width: int) -> Array:
    return np.where(y == 0, y.dtype.type(0), x // np.where(y == 0, y.dtype.type(1), y))


def _ceil_divide(x: Array, y: Array, width: int) -> Array:
    quotient = _floor_divide(x, y, width)
    return quotient + ((y != 0) & (quotient * y != x)).astype(x.dtype)


def _remainder(x: Array, y: Array, _width: int) -> Array:
    """Returns the remainder with the dividend's sign; 0 for division by zero."""
    return np.where(y == 0, y.dtype.type(0), np.fmod(x, np.where(y == 0, y.dtype.type(1), y)))


def _shift(function: np.ufunc) -> Callable[[Array, Array, int], Array]:
    """Returns a shift function, in which shifts by the width or more shift out all bits."""

    def shift(x: Array, y: Array, width: int) -> Array:
        amount = y.view(f"u{y.dtype.itemsize}")
        inside = np.minimum(amount, width - 1).astype(x.dtype)
        if function is np.right_shift and x.dtype.kind == "i":
            return function(x, inside)
        return np.where(amount < width, function(x, inside), x.dtype.type(0))

    return shift


def _power(x: Array, y: Array, _width: int) -> Array:
    """Returns integer powers by squaring; a negative exponent gives the truncated reciprocal."""
    result, base, exponent = np.ones_like(x), x, np.abs(y)
    for _ in range(8 * y.dtype.itemsize):
        result = np.where(exponent & 1, result * base, result)
        base, exponent = base * base, exponent >> 1
    odd_sign = np.where(y & 1, x, x * x)
    return np.where(y < 0, np.where(np.abs(x) == 1, odd_sign, x.dtype.type(0)), result)


def _leading_zeros(x: Array, width: int) -> Array:
    for distance in (1, 2, 4, 8, 16, 32):
        if distance < width:
            x = x | (x >> x.dtype.type(distance))
    return width - np.bitwise_count(x).astype(np.int64)


def _trailing_zeros(x: Array, width: int) -> Array:
    one = x.dtype.type(1)
    return np.minimum(np.bitwise_count((x & (~x + one)) - one).astype(np.int64), width)


Reading: TypeAlias = Callable[[Array], Array]

INTEGERS: dict[str, tuple[Reading, Callable[..., Any]]] = {
    "arith.addi": (signed, lambda x, y, _: x + y),
    "arith.subi": (signed, lambda x, y, _: x - y),
    "arith.muli": (signed, lambda x, y, _: x * y),
    "arith.divsi": (signed, _divide),
    "arith.divui": (unsigned, _divide),
    "arith.floordivsi": (signed, _floor_divide),
    "arith.ceildivsi": (signed, _ceil_divide),
    "arith.ceildivui": (unsigned, _ceil_divide),
    "arith.remsi": (signed, _remainder),
    "arith.remui": (unsigned, _remainder),
    "arith.maxsi": (signed, lambda x, y, _: np.maximum(x, y)),
    "arith.maxui": (unsigned, lambda x, y, _: np.maximum(x, y)),
    "arith.minsi": (signed, lambda x, y, _: np.minimum(x, y)),
    "arith.minui": (unsigned, lambda x, y, _: np.minimum(x, y)),
    "arith.andi": (signed, lambda x, y, _: x & y),
    "arith.ori": (signed, lambda x, y, _: x | y),
    "arith.xori": (signed, lambda x, y, _: x ^ y),
    "arith.shli": (unsigned, _shift(np.left_shift)),
    "arith.shrui": (unsigned, _shift(np.right_shift)),
    "arith.shrsi": (signed, _shift(np.right_shift)),
    "arith.index_cast": (signed, lambda x, _: x),
    "arith.extsi": (signed, lambda x, _: x),
    "arith.extui": (unsigned, lambda x, _: x),
    "arith.trunci": (signed, lambda x, _: x),
    "arith.sitofp": (signed, lambda x, _: x),
    "arith.uitofp": (unsigned, lambda x, _: x),
    "math.absi": (signed, lambda x, _: np.abs(x)),
    "math.ctlz": (unsigned, _leading_zeros),
    "math.cttz": (unsigned, _trailing_zeros),
    "math.ctpop": (unsigned, lambda x, _: np.bitwise_count(x)),
    "math.ipowi": (signed, _power),
}
"""Ops with signed or unsigned operands; the functions also take the operands' width."""

COMPARISONS: dict[str, np.ufunc] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def _compare_integers(op: Operation, operands: Sequence[Array]) -> Array:
    name = arith.CMPI_COMPARISON_OPERATIONS[cast(arith.CmpiOp, op).predicate.value.data]
    reading = unsigned if name.startswith("u") else signed
    return COMPARISONS[name[-2:]](reading(operands[0]), reading(operands[1]))


def _compare_floats(op: Operation, operands: Sequence[Array]) -> Array:
    name = arith.CMPF_COMPARISON_OPERATIONS[cast(arith.CmpfOp, op).predicate.value.data]
    x, y = operands
    unordered = np.isnan(x) | np.isnan(y)
    fixed = {"false": False, "true": True}.get(name)
    if fixed is not None:
        return np.full_like(unordered, fixed)
    if name in ("ord", "uno"):
        return unordered if name == "uno" else ~unordered
    holds = COMPARISONS[name[1:]](x, y)
    return holds | unordered if name.startswith("u") else holds & ~unordered


def _constant(op: Operation, _operands: Sequence[Array]) -> Array:
    value = cast(arith.ConstantOp, op).value
    if isinstance(value, FloatAttr):
        return np.asarray(value.value.data, np.float64)
    if isinstance(value, IntegerAttr):
        return np.asarray(cast("IntegerAttr[Any]", value).value.data, np.int64)
    raise ExecutionError(f"{op.name}: {value} is not a scalar")


def _saturate(reading: Reading) -> Callable[[Operation, Sequence[Array]], Array]:
    """Returns a saturating conversion from float to signed or unsigned integers."""

    def convert(op: Operation, operands: Sequence[Array]) -> Array:
        width = width_of(op.results[0].type)
        low, high = (-(1 << width - 1), 1 << width - 1) if reading is signed else (0, 1 << width)
        wide = np.dtype(np.int64 if reading is signed else np.uint64).type
        x = np.trunc(operands[0].astype(np.float64))
        inside = np.where((x > low) & (x < high), x, 0.0).astype(wide)
        return np.where(x >= high, wide(high - 1), np.where(x <= low, wide(low), inside))

    return convert


def _bitcast(op: Operation, operands: Sequence[Array]) -> Array:
    dtype = scalar_dtype(op.results[0].type)
    if operands[0].dtype.itemsize != dtype.itemsize:
        raise ExecutionError(f"{op.name} changes the width: {op}")
    return np.ascontiguousarray(operands[0]).view(dtype).reshape(operands[0].shape)


def _add_with_carry(_op: Operation, operands: Sequence[Array]) -> tuple[Array, Array]:
    x, y = (unsigned(operand) for operand in operands)
    total = x + y
    if operands[0].dtype == np.bool_:
        return total & 1, total > 1
    return total, total < x


def _multiply_wide(reading: Reading) -> Callable[[Operation, Sequence[Array]], tuple[Array, Array]]:
    """Returns the low and high half of a double-width product."""

    def multiply(op: Operation, operands: Sequence[Array]) -> tuple[Array, Array]:
        width = width_of(op.operands[0].type)
        if width > 32:
            raise ExecutionError(f"{op.name} of {width} bits is not supported")
        wide = np.dtype(np.int64 if reading is signed else np.uint64).type
        x, y = (reading(operand).astype(wide) for operand in operands)
        return x * y, (x * y) >> wide(width)

    return multiply


def _of_floats(function: Callable[..., Any]) -> Callable[[Operation, Sequence[Array]], Any]:
    return lambda _op, operands: function(*operands)


def _of_integers(reading: Reading, function: Callable[..., Any]) -> Callable[[Operation, Sequence[Array]], Any]:
    return lambda op, operands: function(*map(reading, operands), width_of(op.operands[0].type))


RULES: dict[str, Callable[[Operation, Sequence[Array]], Any]] = {
    **{name: _of_floats(function) for name, function in FLOATS.items()},
    **{name: _of_integers(*entry) for name, entry in INTEGERS.items()},
    "arith.constant": _constant,
    "arith.select": _of_floats(np.where),
    "arith.cmpi": _compare_integers,
    "arith.cmpf": _compare_floats,
    "arith.fptosi": _saturate(signed),
    "arith.fptoui": _saturate(unsigned),
    "arith.bitcast": _bitcast,
    "arith.addui_extended": _add_with_carry,
    "arith.mului_extended": _multiply_wide(unsigned),
    "arith.mulsi_extended": _multiply_wide(signed),
}
"""The semantics of every scalar op, by name."""


def evaluate(op: Operation, operands: Sequence[Array]) -> list[Array]:
    """Returns the results of a scalar op, in the dtypes of its result types; operands broadcast against each other.

    Raises:
        ExecutionError: The op is not supported.
    """
    rule = RULES.get(op.name)
    if rule is None:
        raise ExecutionError(f"{op.name} is not supported")
    raw = rule(op, operands)
    values = raw if isinstance(raw, tuple) else (raw,)
    return [narrow(value, result.type) for value, result in zip(values, op.results, strict=True)]


@dataclass(frozen=True)
class Combiner:
    """The combiner of a reduction.

    Attributes:
        op: The op that combines.
        function: The binary function, associative up to rounding.
        reading: The signedness of integers.
    """

    op: type[Operation]
    function: np.ufunc
    reading: Reading

    def start(self, kind: Attribute) -> Array:
        """Returns the accumulator's initial value."""
        return narrow(self._identity(kind), kind)

    def combine(self, x: Array, y: Array, kind: Attribute) -> Array:
        """Combines two accumulators."""
        return narrow(self.function(self.reading(x), self.reading(y)), kind)

    def reduce(self, x: Array, axes: tuple[int, ...], kind: Attribute) -> Array:
        """Reduces `axes`, which remain with extent 1."""
        values, start = self.reading(x), self._identity(kind)
        return narrow(self.function.reduce(values, axis=axes, dtype=values.dtype, keepdims=True, initial=start), kind)

    def _identity(self, kind: Attribute) -> Array:
        held = self.reading(np.zeros((), scalar_dtype(kind))).dtype
        return np.asarray(IDENTITIES[self.op](kind)).astype(held)


COMBINERS = {
    combiner.op: combiner
    for combiner in (
        Combiner(arith.AddfOp, np.add, unread),
        Combiner(arith.AddiOp, np.add, signed),
        Combiner(arith.MulfOp, np.multiply, unread),
        Combiner(arith.MuliOp, np.multiply, unsigned),
        Combiner(arith.MaximumfOp, np.maximum, unread),
        Combiner(arith.MinimumfOp, np.minimum, unread),
        Combiner(arith.MaxSIOp, np.maximum, signed),
        Combiner(arith.MinSIOp, np.minimum, signed),
        Combiner(arith.MaxUIOp, np.maximum, unsigned),
        Combiner(arith.MinUIOp, np.minimum, unsigned),
    )
}
"""How reductions combine, by the ops of `IDENTITIES`."""
