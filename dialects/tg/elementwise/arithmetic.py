"""Elementwise arithmetic, comparison, selection, casts and bit operations.

Operands and results have equal shapes; broadcasting is a separate op. NaN operands give NaN.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

import numpy as np
from xdsl.dialects.builtin import StringAttr, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from tensorgrad.dialects.tg.base import (
    Evaluate,
    Moves,
    NumpyArray,
    Properties,
    Tensor,
    TensorOp,
    UnaryEvaluate,
    by_numpy,
    dense,
    giving_arrays,
    has_floats,
    is_splat,
    numpy_dtype,
    prepared,
    require,
    require_elements,
    splat_value,
    tensor,
)
from tensorgrad.dialects.tg.traits import Elementwise, KeepsNan, NeverOverflows


def fold_splats(op: TensorOp, values: Sequence[NumpyArray]) -> Attribute | None:
    """Folds an elementwise op whose operands are all splats, whatever their size."""
    if op.type.element_count() == 0 or not all(value.size and is_splat(value) for value in values):
        return None
    with np.errstate(all="ignore"):
        scalar = prepared(op)(*(value.reshape(-1)[:1].reshape(()) for value in values))
    return dense(np.broadcast_to(np.asarray(scalar), op.shape))


class UnaryOp(TensorOp):
    """An elementwise op on one tensor whose result has the same type."""

    operand = operand_def()
    result = result_def()
    traits = traits_def(Pure(), Elementwise(), KeepsNan())

    ELEMENTS: ClassVar[str] = "float"
    """The kind of element types of the op; see `tensorgrad.dialects.tg.base.ELEMENTS`."""

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        require_elements(operands[0].get_element_type(), cls.ELEMENTS)
        return operands[0]

    def prepare(self) -> Evaluate:
        return giving_arrays(self.function, self.type)

    @staticmethod
    @abstractmethod
    def function(x: NumpyArray) -> NumpyArray:
        """Returns the op on a numpy array."""

    def fold_splat(self, values: Sequence[NumpyArray]) -> Attribute | None:
        return fold_splats(self, values)


@irdl_op_definition
class NegOp(UnaryOp):
    """`-x`; integers wrap.

    Example:
        %1 = tg.neg %0 : tensor<4xf32>
    """

    name = "tg.neg"
    ELEMENTS: ClassVar = "number"

    function = by_numpy(np.negative)

    def simplified(self) -> SSAValue | None:
        owner = self.operand.owner
        return owner.operand if isinstance(owner, NegOp) else None


@irdl_op_definition
class AbsOp(UnaryOp):
    """`|x|`; its derivative at 0 is 0. The absolute value of the smallest integer wraps to itself.

    Example:
        %1 = tg.abs %0 : tensor<4xf32>
    """

    name = "tg.abs"
    ELEMENTS: ClassVar = "number"

    function = by_numpy(np.abs)


@irdl_op_definition
class NotOp(UnaryOp):
    """Logical negation of booleans, bitwise of integers.

    Example:
        %1 = tg.not %0 : tensor<4xi1>
    """

    name = "tg.not"
    ELEMENTS: ClassVar = "bits"

    function = by_numpy(np.invert)


@irdl_op_definition
class StopGradientOp(UnaryOp):
    """`x`, which `grad` treats as a constant; costs nothing.

    Example:
        %1 = tg.stop_gradient %0 : tensor<4xf32>
    """

    name = "tg.stop_gradient"
    traits = traits_def(Pure(), Elementwise(), NeverOverflows(), Moves())
    ELEMENTS: ClassVar = "any"

    @staticmethod
    def function(x: NumpyArray) -> NumpyArray:
        return x


class BinaryOp(TensorOp):
    """An elementwise op on two tensors of the same type. Broadcasting is a separate op."""

    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    traits = traits_def(Pure(), Elementwise())

    ELEMENTS: ClassVar[str] = "number"
    """The element types of the op: "float", "integer", "number" (float or integer) or "bits" (integer or bool)."""
    NEUTRAL_RIGHT: ClassVar[float | None] = None
    """`x op NEUTRAL_RIGHT` is `x`."""
    NEUTRAL_LEFT: ClassVar[float | None] = None
    """`NEUTRAL_LEFT op x` is `x`."""

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        require(operands[0] == operands[1], lambda: f"operands have different types: {operands[0]} and {operands[1]}")
        require_elements(operands[0].get_element_type(), cls.ELEMENTS)
        return operands[0]

    def prepare(self) -> Evaluate:
        return giving_arrays(self.function, self.type)

    @staticmethod
    @abstractmethod
    def function(x: NumpyArray, y: NumpyArray) -> NumpyArray:
        """Returns the op on two numpy arrays."""

    def simplified(self) -> SSAValue | None:
        if self.NEUTRAL_RIGHT is not None and _is(self.rhs, self.NEUTRAL_RIGHT):
            return self.lhs
        if self.NEUTRAL_LEFT is not None and _is(self.lhs, self.NEUTRAL_LEFT):
            return self.rhs
        return None

    def fold_splat(self, values: Sequence[NumpyArray]) -> Attribute | None:
        return fold_splats(self, values)


def _is(value: SSAValue, number: float) -> bool:
    splat = splat_value(value)
    if isinstance(splat, float):
        return splat == number and math.copysign(1, splat) == math.copysign(1, number)
    return splat is not None and splat == number


@irdl_op_definition
class AddOp(BinaryOp):
    """`x + y`; integers wrap.

    Example:
        %2 = tg.add %0, %1 : tensor<4xf32>, tensor<4xf32>
    """

    name = "tg.add"
    traits = traits_def(KeepsNan())
    NEUTRAL_RIGHT: ClassVar = -0.0  # x + 0.0 is not x where x is -0.0
    NEUTRAL_LEFT: ClassVar = -0.0

    function = by_numpy(np.add)


@irdl_op_definition
class SubOp(BinaryOp):
    """`x - y`; integers wrap.

    Example:
        %2 = tg.sub %0, %1 : tensor<4xf32>, tensor<4xf32>
    """

    name = "tg.sub"
    traits = traits_def(KeepsNan())
    NEUTRAL_RIGHT: ClassVar = 0

    function = by_numpy(np.subtract)


@irdl_op_definition
class MulOp(BinaryOp):
    """`x * y`; integers wrap.

    Example:
        %2 = tg.mul %0, %1 : tensor<4xf32>, tensor<4xf32>
    """

    name = "tg.mul"
    traits = traits_def(KeepsNan())
    NEUTRAL_RIGHT: ClassVar = 1
    NEUTRAL_LEFT: ClassVar = 1

    function = by_numpy(np.multiply)


@irdl_op_definition
class DivOp(BinaryOp):
    """`x / y` on floats, by IEEE 754's rules for zero; within 2.5 ulp on devices, correctly rounded by NumPy.

    Example:
        %2 = tg.div %0, %1 : tensor<4xf32>, tensor<4xf32>
    """

    name = "tg.div"
    traits = traits_def(KeepsNan())
    ELEMENTS: ClassVar = "float"
    NEUTRAL_RIGHT: ClassVar = 1

    function = by_numpy(np.divide)


@irdl_op_definition
class PowOp(BinaryOp):
    """`x` to the power of `y` on floats, as C's pow, within 2 ulp.

    With a constant whole exponent from -17 to -2, compiled code divides one by products, within as many ulp as there
    are factors, and gives 0 where the product is infinite.

    NaN for a finite negative base with a fractional exponent; 1 for exponent 0 and for base 1, even beside NaN.

    Example:
        %2 = tg.pow %0, %1 : tensor<4xf32>, tensor<4xf32>
    """

    name = "tg.pow"
    ELEMENTS: ClassVar = "float"
    NEUTRAL_RIGHT: ClassVar = 1

    @staticmethod
    def function(x: NumpyArray, y: NumpyArray) -> NumpyArray:
        # Broadcast to two elements or more: for one exponent of 0.5 NumPy takes a square root, which differs at -inf
        # and -0.
        shape = np.broadcast_shapes(np.shape(x), np.shape(y))
        base, exponent = (np.ascontiguousarray(np.broadcast_to(part, (1, *shape))) for part in (x, y))
        if base.size == 1:
            base, exponent = np.repeat(base, 2), np.repeat(exponent, 2)
        return np.power(base, exponent)[0].reshape(shape)


@irdl_op_definition
class MaximumOp(BinaryOp):
    """The larger of two elements; NaN when either is NaN. Equal elements share the derivative by halves.

    Of two zeros either may be the result, whatever their signs, as in NumPy.

    Example:
        %2 = tg.maximum %0, %1 : tensor<4xf32>, tensor<4xf32>
    """

    name = "tg.maximum"
    traits = traits_def(NeverOverflows(), KeepsNan())

    function = by_numpy(np.maximum)


@irdl_op_definition
class MinimumOp(BinaryOp):
    """The smaller of two elements; NaN when either is NaN. Equal elements share the derivative by halves.

    Of two zeros either may be the result, whatever their signs, as in NumPy.

    Example:
        %2 = tg.minimum %0, %1 : tensor<4xf32>, tensor<4xf32>
    """

    name = "tg.minimum"
    traits = traits_def(NeverOverflows(), KeepsNan())

    function = by_numpy(np.minimum)


@irdl_op_definition
class AndOp(BinaryOp):
    """Bitwise and of integers, logical and of booleans.

    Example:
        %2 = tg.and %0, %1 : tensor<4xi1>, tensor<4xi1>
    """

    name = "tg.and"
    traits = traits_def(Pure(), Elementwise(), NeverOverflows())
    ELEMENTS: ClassVar = "bits"

    function = by_numpy(np.bitwise_and)


@irdl_op_definition
class OrOp(BinaryOp):
    """Bitwise or of integers, logical or of booleans.

    Example:
        %2 = tg.or %0, %1 : tensor<4xi1>, tensor<4xi1>
    """

    name = "tg.or"
    traits = traits_def(Pure(), Elementwise(), NeverOverflows())
    ELEMENTS: ClassVar = "bits"

    function = by_numpy(np.bitwise_or)


COMPARISONS: dict[str, Callable[[NumpyArray, NumpyArray], Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
"""The predicates of `tg.compare`; on a NaN, `ne` is true and all others are false."""


@irdl_op_definition
class CompareOp(TensorOp):
    """Compares elementwise and returns booleans. The predicates are eq, ne, lt, le, gt and ge.

    Example:
        %2 = tg.compare %0, %1 predicate = "lt" : tensor<4xf32>, tensor<4xf32>
    """

    name = "tg.compare"
    lhs = operand_def()
    rhs = operand_def()
    predicate = prop_def(StringAttr)
    result = result_def()
    traits = traits_def(Pure(), Elementwise())
    PROPERTIES: ClassVar = ("predicate",)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        require(operands[0] == operands[1], lambda: f"operands have different types: {operands[0]} and {operands[1]}")
        predicate = cast(StringAttr, properties["predicate"]).data
        require(predicate in COMPARISONS, f"predicate {predicate!r} is not one of {', '.join(COMPARISONS)}")
        ordered = operands[0].get_element_type() != i1 or predicate in ("eq", "ne")
        require(ordered, "booleans can be compared by eq and ne only")
        return tensor(operands[0].get_shape(), i1)

    def prepare(self) -> Evaluate:
        return giving_arrays(COMPARISONS[self.predicate.data], self.type)

    def fold_splat(self, values: Sequence[NumpyArray]) -> Attribute | None:
        return fold_splats(self, values)


@irdl_op_definition
class SelectOp(TensorOp):
    """Takes each element from `on_true` where `condition` holds, else from `on_false`.

    Example:
        %3 = tg.select %0, %1, %2 : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
    """

    name = "tg.select"
    condition = operand_def()
    on_true = operand_def()
    on_false = operand_def()
    result = result_def()
    traits = traits_def(Pure(), Elementwise(), NeverOverflows(), Moves())

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        condition, on_true, on_false = operands
        require(condition.get_element_type() == i1, lambda: f"the condition must be bool, got {condition}")
        require(on_true == on_false, lambda: f"the choices have different types: {on_true} and {on_false}")
        require(
            condition.get_shape() == on_true.get_shape(),
            lambda: f"the condition is {condition}, the choices are {on_true}",
        )
        return on_true

    def prepare(self) -> Evaluate:
        return np.where

    def simplified(self) -> SSAValue | None:
        condition = splat_value(self.condition)
        if condition is not None:
            return self.on_true if condition else self.on_false
        return self.on_true if self.on_true == self.on_false else None

    def fold_splat(self, values: Sequence[NumpyArray]) -> Attribute | None:
        return fold_splats(self, values)


@irdl_op_definition
class CastOp(TensorOp):
    """Converts elements. Floats truncate towards zero and saturate; NaN becomes 0; integers wrap; bool is `!= 0`.

    An integer that the float type can't represent is rounded to nearest, ties to even; beyond the range of f16 it
    becomes an infinity.

    Example:
        %1 = tg.cast %0 to = i32 : tensor<4xf32>
    """

    name = "tg.cast"
    operand = operand_def()
    to = prop_def()
    result = result_def()
    traits = traits_def(Pure(), Elementwise(), KeepsNan())
    PROPERTIES: ClassVar = ("to",)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        numpy_dtype(properties["to"])
        return tensor(operands[0].get_shape(), properties["to"])

    def prepare(self) -> UnaryEvaluate:
        dtype = numpy_dtype(self.type)
        return lambda operand: saturating_cast(operand, dtype)

    def simplified(self) -> SSAValue | None:
        return self.operand if self.operand.type == self.type else None

    def fold_splat(self, values: Sequence[NumpyArray]) -> Attribute | None:
        return fold_splats(self, values)


@irdl_op_definition
class BitcastOp(TensorOp):
    """Reinterprets the bits of elements as another type of the same width; bool is not supported.

    Example:
        %1 = tg.bitcast %0 to = i32 : tensor<4xf32>
    """

    name = "tg.bitcast"
    operand = operand_def()
    to = prop_def()
    result = result_def()
    traits = traits_def(Pure(), Elementwise(), Moves())
    PROPERTIES: ClassVar = ("to",)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        source, target = operands[0].get_element_type(), properties["to"]
        require(i1 not in (source, target), "bool has no defined bit width")
        equal = numpy_dtype(source).itemsize == numpy_dtype(target).itemsize
        require(equal, lambda: f"operand and result must have elements of one width, got {source} and {target}")
        return tensor(operands[0].get_shape(), properties["to"])

    def prepare(self) -> UnaryEvaluate:
        dtype = numpy_dtype(self.type)
        return lambda operand: np.ascontiguousarray(operand).view(dtype).reshape(operand.shape)

    def simplified(self) -> SSAValue | None:
        return self.operand if self.operand.type == self.type else None

    def fold_splat(self, values: Sequence[NumpyArray]) -> Attribute | None:
        return fold_splats(self, values)


def saturating_cast(x: NumpyArray, dtype: np.dtype[Any]) -> NumpyArray:
    """Casts as `tg.cast` does: out-of-range floats saturate, NaN becomes 0."""
    if dtype.kind in "iu" and has_floats(x):
        limits = np.iinfo(dtype)
        wide = x.astype(np.float64)
        above, below = wide >= float(limits.max), wide <= float(limits.min)
        # float64 can't represent the largest 64-bit integer, but the exclusive bound above it.
        inside = np.where(above | below | np.isnan(wide), 0.0, wide).astype(dtype)
        return np.where(above, dtype.type(limits.max), np.where(below, dtype.type(limits.min), inside))
    return x.astype(dtype)


def _unsigned_amount(y: NumpyArray) -> NumpyArray:
    return y.astype(f"u{y.dtype.itemsize}")


def _bits(x: NumpyArray) -> int:
    return 8 * x.dtype.itemsize


@irdl_op_definition
class XorOp(BinaryOp):
    """Bitwise exclusive or of integers, logical of booleans.

    Example:
        %2 = tg.xor %0, %1 : tensor<4xi32>, tensor<4xi32>
    """

    name = "tg.xor"
    traits = traits_def(Pure(), Elementwise(), NeverOverflows())
    ELEMENTS: ClassVar = "bits"

    function = by_numpy(np.bitwise_xor)


@irdl_op_definition
class ShiftLeftOp(BinaryOp):
    """`x << y` on integers. The amount is treated as unsigned; an amount of the width or more gives 0.

    Example:
        %2 = tg.shift_left %0, %1 : tensor<4xi32>, tensor<4xi32>
    """

    name = "tg.shift_left"
    ELEMENTS: ClassVar = "integer"
    NEUTRAL_RIGHT: ClassVar = 0

    @staticmethod
    def function(x: NumpyArray, y: NumpyArray) -> NumpyArray:
        inside = _unsigned_amount(y) < _bits(x)
        return np.where(inside, np.left_shift(x, np.where(inside, y, 0).astype(y.dtype)), np.zeros((), x.dtype))


@irdl_op_definition
class ShiftRightOp(BinaryOp):
    """`x >> y` on integers, arithmetic for signed ones. The amount is treated as unsigned.

    An amount of the width or more gives 0, or -1 for a negative number.

    Example:
        %2 = tg.shift_right %0, %1 : tensor<4xi32>, tensor<4xi32>
    """

    name = "tg.shift_right"
    traits = traits_def(Pure(), Elementwise(), NeverOverflows())
    ELEMENTS: ClassVar = "integer"
    NEUTRAL_RIGHT: ClassVar = 0

    @staticmethod
    def function(x: NumpyArray, y: NumpyArray) -> NumpyArray:
        amount, bits = _unsigned_amount(y), _bits(x)
        moved = np.right_shift(x, np.minimum(amount, bits - 1).astype(x.dtype))
        return moved if x.dtype.kind == "i" else np.where(amount < bits, moved, np.zeros((), x.dtype))


@irdl_op_definition
class FloorDivideOp(BinaryOp):
    """The largest integer not above `x / y`, as Python's `//`.

    On integers, division by 0 gives 0, and that of the smallest integer by -1 wraps. Floats follow Python and NumPy:
    the result is exact if the quotient is below 2^22; division by 0 gives the infinity or NaN of `x / y`, and an
    infinite `x` gives NaN.

    Example:
        %2 = tg.floor_divide %0, %1 : tensor<4xi32>, tensor<4xi32>
    """

    name = "tg.floor_divide"
    traits = traits_def(KeepsNan())

    function = by_numpy(np.floor_divide)


@irdl_op_definition
class RemainderOp(BinaryOp):
    """The remainder of `x // y`, with the sign of `y`, as Python's `%`.

    On integers, the remainder by 0 is 0. On floats, the remainder with the sign of `x` is exact, and `y` is added if
    the signs differ: within half an ulp of `y`. The remainder by 0 and that of an infinite `x` are NaN.

    Example:
        %2 = tg.remainder %0, %1 : tensor<4xi32>, tensor<4xi32>
    """

    name = "tg.remainder"
    traits = traits_def(NeverOverflows(), KeepsNan())

    function = by_numpy(np.remainder)


OPS = (
    NegOp,
    AbsOp,
    NotOp,
    StopGradientOp,
    AddOp,
    SubOp,
    MulOp,
    DivOp,
    PowOp,
    MaximumOp,
    MinimumOp,
    AndOp,
    OrOp,
    CompareOp,
    SelectOp,
    CastOp,
    BitcastOp,
    XorOp,
    ShiftLeftOp,
    ShiftRightOp,
    FloorDivideOp,
    RemainderOp,
)
