"""Functions that work element by element, with NumPy's broadcasting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, overload

import numpy as np
from xdsl.dialects.builtin import StringAttr

from tensorgrad.dialects.tg import binary, shape, unary
from tensorgrad.dialects.tg.base import ELEMENT_TYPES, NumpyArray, TensorOp, ints
from tensorgrad.errors import DTypeError, ShapeError
from tensorgrad.tracing import trees
from tensorgrad.tracing.dtypes import NAMES, SHORT, DType, as_dtype, is_float, promote
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Array, Tensor
from tensorgrad.tracing.tracer import as_array, emit

Tree = TypeVar("Tree")


def as_tensor(x: Any, dtype: DType | None = None) -> Tensor:
    """`x` as a tensor: itself, or what numpy makes of it (float64 rounds to f32).

    Raises:
        DTypeError: It holds no numbers, or numbers that don't fit.
        ParameterError: It is a declared parameter, which has no values.
    """
    if isinstance(x, Tensor):
        return x
    return Array(as_array(x, dtype))


def broadcast_shapes(*shapes: tuple[int, ...], what: str) -> tuple[int, ...]:
    """The shape that NumPy's rules give to operands of these shapes.

    Raises:
        ShapeError: They don't broadcast.
    """
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = " and ".join(str(shape) for shape in shapes)
        raise ShapeError(f"{user_line()}: {what}: shapes {listed} do not broadcast") from None


def broadcast_to(x: Any, shape_: Sequence[int]) -> Tensor:
    """Repeats `x` along new leading axes and along axes of extent 1, to `shape_`.

    Raises:
        ShapeError: NumPy's rules don't allow it.
    """
    tensor, extents = as_tensor(x), tuple(shape_)
    if broadcast_shapes(tensor.shape, extents, what="broadcast_to") != extents:
        raise ShapeError(f"{user_line()}: broadcast_to: shape {tensor.shape} does not broadcast to {extents}")
    if tensor.shape == extents:
        return tensor
    offset = len(extents) - tensor.ndim
    kept = [axis for axis in range(tensor.ndim) if tensor.shape[axis] == extents[axis + offset]]
    if len(kept) < tensor.ndim:
        tensor = emit(shape.ReshapeOp, [tensor], shape=ints([tensor.shape[axis] for axis in kept]))
    if tensor.shape == extents:
        return tensor
    return emit(shape.BroadcastOp, [tensor], shape=ints(extents), dims=ints([axis + offset for axis in kept]))


def cast(x: Any, dtype: object) -> Tensor:
    """`x` with elements of `dtype`: floats truncate and saturate to integers, NaN becomes 0, bool is `!= 0`."""
    tensor, wanted = as_tensor(x), as_dtype(dtype)
    return tensor if tensor.dtype == wanted else emit(binary.CastOp, [tensor], to=ELEMENT_TYPES[wanted])


def _is_scalar(x: Any) -> bool:
    return isinstance(x, (bool, int, float)) and not isinstance(x, np.generic)


def _scalar_dtype(scalar: float, other: DType) -> DType:
    """A Python scalar takes the other operand's dtype, unless it is a float beside integers."""
    if isinstance(scalar, bool):
        return other
    if isinstance(scalar, float) and not is_float(other):
        return NAMES["f32"]
    return NAMES["i32"] if other == NAMES["bool"] else other


def common(what: str, *operands: Any) -> list[Tensor]:
    """Operands as tensors of one dtype and one shape.

    Raises:
        ShapeError: They don't broadcast.
        DTypeError: They have no common dtype.
    """
    tensors = {i: as_tensor(x) for i, x in enumerate(operands) if not _is_scalar(x)}
    scalars = {i: x for i, x in enumerate(operands) if _is_scalar(x)}
    try:
        dtype = None
        for tensor in tensors.values():
            dtype = tensor.dtype if dtype is None else promote(dtype, tensor.dtype)
        for scalar in scalars.values():
            dtype = as_array(scalar).dtype if dtype is None else promote(dtype, _scalar_dtype(scalar, dtype))
    except DTypeError as error:
        raise DTypeError(f"{user_line()}: {what}: {error}") from None
    assert dtype is not None
    made = {i: Array(as_array(x, dtype)) for i, x in scalars.items()}
    ready = [cast(x, dtype) for _, x in sorted({**tensors, **made}.items())]
    extents = broadcast_shapes(*(x.shape for x in ready), what=what)
    return [broadcast_to(x, extents) for x in ready]


def _unary(kind: type[TensorOp], x: Any, floats: bool = True) -> Tensor:
    tensor = as_tensor(x)
    if floats and not is_float(tensor.dtype):
        tensor = cast(tensor, NAMES["f32"])
    return emit(kind, [tensor])


def _binary(what: str, kind: type[TensorOp], x: Any, y: Any) -> Tensor:
    left, right = common(what, x, y)
    if left.dtype == NAMES["bool"]:
        raise DTypeError(f"{user_line()}: {what}: takes numbers, not bool; cast first")
    return emit(kind, [left, right])


def _compare(what: str, predicate: str, x: Any, y: Any) -> Tensor:
    return emit(binary.CompareOp, common(what, x, y), predicate=StringAttr(predicate))


def add(x: Any, y: Any) -> Tensor:
    """`x + y`."""
    return _binary("add", binary.AddOp, x, y)


def subtract(x: Any, y: Any) -> Tensor:
    """`x - y`."""
    return _binary("subtract", binary.SubOp, x, y)


def multiply(x: Any, y: Any) -> Tensor:
    """`x * y`."""
    return _binary("multiply", binary.MulOp, x, y)


def divide(x: Any, y: Any) -> Tensor:
    """`x / y` as floats; integers divide as f32."""
    left, right = common("divide", x, y)
    if not is_float(left.dtype):
        left, right = cast(left, NAMES["f32"]), cast(right, NAMES["f32"])
    return emit(binary.DivOp, [left, right])


def power(x: Any, y: Any) -> Tensor:
    """`x` to the power of `y`, as C's pow. A constant whole exponent from -16 to 16 multiplies, which is cheaper.

    Integers take a constant exponent that is whole and not negative, and wrap; beside a float exponent they are f32.

    Raises:
        DTypeError: The operands are integers and the exponent is negative or no constant, or they are boolean.
        ShapeError: They don't broadcast.
    """
    base = as_tensor(x)
    if isinstance(y, float) and base.dtype.kind in "iu":
        base = cast(base, NAMES["f32"])
    if isinstance(y, (int, float)) and not isinstance(y, bool) and y == y // 1:
        exact = _whole_power(base, int(y))
        if exact is not None:
            return exact
    left, right = common("power", base, y)
    if not is_float(left.dtype):
        raise DTypeError(f"{user_line()}: power: integers take a constant exponent that is not negative; cast first")
    return emit(binary.PowOp, [left, right])


def _whole_power(base: Tensor, exponent: int) -> Tensor | None:
    """Repeated squaring: of floats for exponents from -16 to 16, of integers for 0 and more; `None` for any other."""
    floats = is_float(base.dtype)
    if base.dtype == NAMES["bool"] or (not -16 <= exponent <= 16 if floats else exponent < 0):
        return None
    count = exponent if exponent >= 0 else -exponent
    if count == 0:
        return emit_full_like(base, 1)
    result: Tensor | None = None
    square = base
    while count:
        if count & 1:
            result = square if result is None else multiply(result, square)
        count >>= 1
        if count:
            square = multiply(square, square)
    assert result is not None
    return divide(1.0, result) if exponent < 0 else result


def emit_full_like(x: Tensor, number: float) -> Tensor:
    """A concrete tensor of `x`'s shape and dtype filled with `number`."""
    return Array(np.broadcast_to(np.asarray(number, x.dtype), x.shape))


def maximum(x: Any, y: Any) -> Tensor:
    """The larger of two elements; NaN when either is NaN. Equal elements share the derivative by halves.

    Where one is NaN, both have all of it, as in PyTorch.
    """
    return _binary("maximum", binary.MaximumOp, x, y)


def minimum(x: Any, y: Any) -> Tensor:
    """The smaller of two elements; NaN when either is NaN. Equal elements share the derivative by halves.

    Where one is NaN, both have all of it, as in PyTorch.
    """
    return _binary("minimum", binary.MinimumOp, x, y)


def _truths(what: str, x: Any, y: Any) -> list[Tensor]:
    return common(what, cast(x, NAMES["bool"]), cast(y, NAMES["bool"]))


def logical_and(x: Any, y: Any) -> Tensor:
    """Whether both elements are true; a number is true where it is not 0, so NaN is."""
    return emit(binary.AndOp, _truths("logical_and", x, y))


def logical_or(x: Any, y: Any) -> Tensor:
    """Whether one of two elements is true; a number is true where it is not 0, so NaN is."""
    return emit(binary.OrOp, _truths("logical_or", x, y))


def logical_not(x: Any) -> Tensor:
    """Whether an element is false; a number is false where it is 0."""
    return _unary(unary.NotOp, cast(x, NAMES["bool"]), floats=False)


def equal(x: Any, y: Any) -> Tensor:
    """Whether elements are equal."""
    return _compare("equal", "eq", x, y)


def not_equal(x: Any, y: Any) -> Tensor:
    """Whether elements differ; NaN differs from everything."""
    return _compare("not_equal", "ne", x, y)


def less(x: Any, y: Any) -> Tensor:
    """Whether `x < y`."""
    return _compare("less", "lt", x, y)


def less_equal(x: Any, y: Any) -> Tensor:
    """Whether `x <= y`."""
    return _compare("less_equal", "le", x, y)


def greater(x: Any, y: Any) -> Tensor:
    """Whether `x > y`."""
    return _compare("greater", "gt", x, y)


def greater_equal(x: Any, y: Any) -> Tensor:
    """Whether `x >= y`."""
    return _compare("greater_equal", "ge", x, y)


def where(condition: Any, x: Any, y: Any) -> Tensor:
    """Takes each element from `x` where `condition` holds, else from `y`.

    Both sides are computed; the derivative selects cotangents, so `where(x > 0, sqrt(x), 0)` has derivative NaN at
    0, as in PyTorch and JAX: the untaken side's infinite slope meets a cotangent of 0.

    Raises:
        DTypeError: `condition` is not boolean.
    """
    test = as_tensor(condition)
    if test.dtype != NAMES["bool"]:
        raise DTypeError(f"{user_line()}: where: the condition must be bool, not {SHORT[test.dtype]}")
    left, right = common("where", x, y)
    extents = broadcast_shapes(test.shape, left.shape, what="where")
    return emit(binary.SelectOp, [broadcast_to(part, extents) for part in (test, left, right)])


def masked_fill(x: Any, mask: Any, value: Any) -> Tensor:
    """`x` with `value` in the places where `mask` holds: `where(mask, value, x)`, in `x`'s shape and dtype.

    Args:
        x: A tensor.
        mask: Booleans that broadcast to `x`.
        value: A number or a tensor that broadcasts to `x`; it is cast to `x`'s dtype.

    Raises:
        DTypeError: `mask` is not boolean.
        ShapeError: `mask` or `value` does not broadcast to `x`'s shape.
    """
    tensor, test = as_tensor(x), as_tensor(mask)
    if test.dtype != NAMES["bool"]:
        raise DTypeError(f"masked_fill: the mask must be bool, not {SHORT[test.dtype]}")
    return where(broadcast_to(test, tensor.shape), broadcast_to(cast(value, tensor.dtype), tensor.shape), tensor)


def negative(x: Any) -> Tensor:
    """`-x`."""
    return _unary(unary.NegOp, x, floats=False)


def abs(x: Any) -> Tensor:
    """`|x|`; its derivative at 0 is 0."""
    return _unary(unary.AbsOp, x, floats=False)


def exp(x: Any) -> Tensor:
    """`e` to the power of `x`; 0 and infinity beyond the range."""
    return _unary(unary.ExpOp, x)


def log(x: Any) -> Tensor:
    """The natural logarithm; `-inf` at 0, NaN below."""
    return _unary(unary.LogOp, x)


def sqrt(x: Any) -> Tensor:
    """The square root; NaN below 0."""
    return _unary(unary.SqrtOp, x)


def sin(x: Any) -> Tensor:
    """The sine of `x` in radians."""
    return _unary(unary.SinOp, x)


def cos(x: Any) -> Tensor:
    """The cosine of `x` in radians."""
    return _unary(unary.CosOp, x)


def tanh(x: Any) -> Tensor:
    """The hyperbolic tangent."""
    return _unary(unary.TanhOp, x)


def square(x: Any) -> Tensor:
    """`x * x`."""
    tensor = as_tensor(x)
    return multiply(tensor, tensor)


def relu(x: Any) -> Tensor:
    """`x` where it is positive, else 0; its derivative at 0 is 0."""
    return _unary(unary.ReluOp, x, floats=False)


def sigmoid(x: Any) -> Tensor:
    """`1 / (1 + exp(-x))`, without overflow on either side."""
    return _unary(unary.SigmoidOp, x)


@overload
def stop_gradient(x: NumpyArray | complex) -> Tensor: ...
@overload
def stop_gradient(x: Tree) -> Tree: ...
def stop_gradient(x: Any) -> Any:
    """`x`, a constant to derivatives.

    Args:
        x: A tensor, or a tree of them: a dict, list, tuple, dataclass or module, such as a target network.

    Returns:
        The same tree with constants for tensors. A module computes with its parameters as they are, and is as it was
        else.
    """
    leaves, rebuild = trees.flatten(x)
    return rebuild([_unary(unary.StopGradientOp, leaf, floats=False) for leaf in leaves])


def astype(x: Any, dtype: object) -> Tensor:
    """`x` with elements of `dtype`; see `cast`."""
    return cast(x, dtype)
