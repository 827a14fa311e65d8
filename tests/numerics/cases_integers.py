"""Cases of every op on integers of every width, at the ends of the range, compared with NumPy.

The functions take two matrices: `x` repeats one number of `ends` in each row, `y` one in each column, so that
corresponding elements are all pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from cases_convolution import fold, windows
from harness import NumpyArray
from xdsl.dialects.builtin import StringAttr

import tensorgrad as tg
from tensorgrad.dialects.tg import contract, convolution, index, leaves, reduce, shape, sort
from tensorgrad.dialects.tg.base import ELEMENT_TYPES, TensorOp, integer, ints
from tensorgrad.dialects.tg.elementwise import arithmetic, functions
from tensorgrad.tracing.dtypes import NAMES
from tensorgrad.tracing.tracer import emit

INTEGERS = [name for name in NAMES if name[0] in "iu"]
"""The short names of the dtypes of integers."""

PLACES = np.array([[2, 0, 1, 2], [1, 1, 0, 2]], np.int32)


def ends(dtype: np.dtype[Any]) -> NumpyArray:
    """Returns numbers at the ends and in the middle of a dtype's range, and edge cases of shifts and divisions."""
    limits, bits = np.iinfo(dtype), 8 * dtype.itemsize
    chosen = [limits.min, limits.min + 1, limits.max // 2 + 1, limits.max - 1, limits.max, 0, 1, 2, 7, bits - 1, bits]
    return np.array([*chosen, -1, -2, -7] if limits.min else [*chosen, 3, 5, 6], dtype)


def grid(dtype: np.dtype[Any]) -> tuple[NumpyArray, NumpyArray]:
    """Returns all pairs of `ends`, as two matrices."""
    numbers = ends(dtype)
    x, y = np.meshgrid(numbers, numbers, indexing="ij")
    return np.ascontiguousarray(x), np.ascontiguousarray(y)


@dataclass(frozen=True)
class Whole:
    """A function of two integer matrices of a dtype, on tensors and on numpy arrays."""

    op: type[TensorOp]
    note: str
    function: Callable[[Any, Any], Any]
    expected: Callable[[NumpyArray, NumpyArray], Any]
    has_f64: bool = False

    @property
    def id(self) -> str:
        """The function's name in test IDs."""
        return f"{self.op.name.removeprefix('tg.')}-{self.note}".replace(" ", "_").removesuffix("-")


def _shifted(move: np.ufunc) -> Callable[[NumpyArray, NumpyArray], NumpyArray]:
    """Returns a shift by repeated shifts of one bit, at most as many as have an effect."""

    def shift(x: NumpyArray, y: NumpyArray) -> NumpyArray:
        bits = 8 * x.dtype.itemsize
        amounts, shifted = y.view(f"u{y.dtype.itemsize}"), x
        for done in range(bits + 1):
            shifted = np.where(amounts > done, move(shifted, x.dtype.type(1)), shifted)
        return shifted

    return shift


def _saturated(x: NumpyArray, dtype: np.dtype[Any]) -> NumpyArray:
    """Converts floats to integers exactly, by Python, saturating at the range; NaN becomes 0."""
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)

    def saturated_number(number: float) -> int:
        if number != number:
            return 0
        return (high if number > 0 else low) if np.isinf(number) else min(max(int(number), low), high)

    return np.array([saturated_number(float(number)) for number in x.reshape(-1)], dtype).reshape(x.shape)


def _power(x: int, y: int, dtype: np.dtype[Any]) -> int:
    """Returns a power modulo the range; for negative exponents, the truncated reciprocal."""
    if y < 0:
        return {1: 1, -1: -1 if y % 2 else 1}.get(x, 0)
    span = 1 << 8 * dtype.itemsize
    power = pow(x, y, span)
    return power - span if dtype.kind == "i" and power >= span // 2 else power


def _powers(x: NumpyArray, y: NumpyArray) -> NumpyArray:
    powers = [_power(int(a), int(b), x.dtype) for a, b in zip(x.reshape(-1), y.reshape(-1), strict=True)]
    return np.array(powers, x.dtype).reshape(x.shape)


def _summed(dtype: np.dtype[Any]) -> Any:
    """Returns the default dtype of sums of a dtype: at least 32 bits."""
    return dtype if dtype.itemsize >= 4 else {"i": np.int32, "u": np.uint32}[dtype.kind]


def _comparisons() -> Iterator[Whole]:
    for name, function in arithmetic.COMPARISONS.items():
        yield Whole(
            arithmetic.CompareOp,
            name,
            lambda x, y, n=name: emit(arithmetic.CompareOp, [x, y], predicate=StringAttr(n)),
            function,
        )


def _with_ends(x: Any, y: Any, name: str) -> Any:
    """Returns floats within and beyond the range of the integers, infinities and NaN."""
    inside = tg.cast(x, name) * 1.37
    below = tg.where(tg.equal(y, 2), -np.inf, inside)
    return tg.where(tg.equal(y, 0), np.nan, tg.where(tg.equal(y, 1), np.inf, below))


def _np_with_ends(x: NumpyArray, y: NumpyArray, name: str) -> NumpyArray:
    dtype = NAMES[name]
    inside = x.astype(dtype) * dtype.type(1.37)
    return np.select([y == 0, y == 1, y == 2], [dtype.type(np.nan), dtype.type(np.inf), dtype.type(-np.inf)], inside)


def _casts() -> Iterator[Whole]:
    for name, dtype in NAMES.items():
        yield Whole(
            arithmetic.CastOp,
            f"to {name}",
            lambda x, y, d=dtype: tg.cast(x, d),
            lambda x, y, d=dtype: x.astype(d),
            has_f64=name == "f64",
        )
    for name in ("f16", "f32", "f64"):
        yield Whole(
            arithmetic.CastOp,
            f"from {name}",
            lambda x, y, n=name: tg.cast(_with_ends(x, y, n), x.dtype),
            lambda x, y, n=name: _saturated(_np_with_ends(x, y, n), x.dtype),
            has_f64=name == "f64",
        )
    yield Whole(
        arithmetic.CastOp, "from bool", lambda x, y: tg.cast(x < y, x.dtype), lambda x, y: (x < y).astype(x.dtype)
    )


def _bits() -> Iterator[Whole]:
    yield Whole(
        arithmetic.BitcastOp,
        "without a sign",
        lambda x, y: tg.bitcast(x, f"uint{8 * x.dtype.itemsize}"),
        lambda x, y: x.view(f"u{x.dtype.itemsize}"),
    )
    yield Whole(
        arithmetic.BitcastOp,
        "with a sign",
        lambda x, y: tg.bitcast(x, f"int{8 * x.dtype.itemsize}"),
        lambda x, y: x.view(f"i{x.dtype.itemsize}"),
    )
    for size in (1, 2, 4, 8):
        yield Whole(
            arithmetic.BitcastOp,
            f"of {8 * size} bits",
            lambda x, y, s=size: tg.bitcast(tg.concat([x, y], 1)[:, :8], f"uint{8 * s}"),
            lambda x, y, s=size: np.ascontiguousarray(np.concatenate([x, y], 1)[:, :8]).view(f"u{s}"),
        )


def _folded(x: NumpyArray, y: NumpyArray) -> NumpyArray:
    result = np.zeros((14, 8), x.dtype)
    for k in range(4):
        result[:, k : k + 5] += x[:, k : k + 5]
    return result


def _convolved(x: NumpyArray, y: NumpyArray) -> NumpyArray:
    windows = np.lib.stride_tricks.sliding_window_view(x, 3, axis=1)
    return np.stack([(windows * y[:2, :3][row]).sum(-1, dtype=x.dtype) for row in range(2)], 1)


def _scattered(x: NumpyArray, y: NumpyArray) -> NumpyArray:
    result = np.zeros((4, 14), x.dtype)
    np.add.at(result, PLACES.reshape(-1), x[:8] ^ y[:8])
    return result


def _scattered_along(x: NumpyArray, y: NumpyArray) -> NumpyArray:
    result = np.zeros((2, 3), x.dtype)
    for row in range(2):
        np.add.at(result[row], PLACES[row], y[row, :4])
    return result


def _multiplied_along(x: NumpyArray, y: NumpyArray) -> NumpyArray:
    result = x[:2].copy()
    for row in range(2):
        np.multiply.at(result[row], PLACES[row], y[row, :4])
    return result


def _largest_of_segments(x: NumpyArray, y: NumpyArray) -> NumpyArray:
    """Returns rows 1 and 0 as segments 1 and 3; the others have no rows."""
    result = np.full((4, *y.shape[1:]), np.iinfo(y.dtype).min, y.dtype)
    result[[3, 1]] = y[:2]
    return result


def _fallen(x: NumpyArray) -> NumpyArray:
    return (x.shape[-1] - 1 - np.argsort(x[..., ::-1], -1, kind="stable")[..., ::-1]).astype(np.int32)


def _padded(x: Any, y: Any) -> Any:
    lists = {"low": ints([1, 0]), "high": ints([0, 2]), "interior": ints([0, 1])}
    return emit(shape.PadOp, [x, tg.min(y)], **lists)


def _np_padded(x: NumpyArray, y: NumpyArray) -> NumpyArray:
    result = np.full((x.shape[0] + 1, 2 * x.shape[1] + 1), y.min(), x.dtype)
    result[1:, 0 : 2 * x.shape[1] - 1 : 2] = x
    return result


WHOLE: tuple[Whole, ...] = (
    Whole(
        leaves.IotaOp,
        "",
        lambda x, y: emit(leaves.IotaOp, [], shape=ints([100]), axis=integer(0), element=ELEMENT_TYPES[x.dtype]),
        lambda x, y: np.arange(100).astype(x.dtype),
    ),
    Whole(leaves.ConstantOp, "", lambda x, y: x ^ tg.array(ends(x.dtype), x.dtype), lambda x, y: x ^ ends(x.dtype)),
    Whole(arithmetic.NegOp, "", lambda x, y: -x, lambda x, y: -x),
    Whole(arithmetic.AbsOp, "", lambda x, y: abs(x), lambda x, y: np.abs(x)),
    Whole(arithmetic.NotOp, "", lambda x, y: ~x, lambda x, y: ~x),
    Whole(arithmetic.StopGradientOp, "", lambda x, y: tg.stop_gradient(x), lambda x, y: x),
    Whole(functions.ReluOp, "", lambda x, y: emit(functions.ReluOp, [x]), lambda x, y: np.maximum(x, 0)),
    Whole(arithmetic.AddOp, "", lambda x, y: x + y, np.add),
    Whole(arithmetic.SubOp, "", lambda x, y: x - y, np.subtract),
    Whole(arithmetic.MulOp, "", lambda x, y: x * y, np.multiply),
    Whole(arithmetic.MaximumOp, "", tg.maximum, np.maximum),
    Whole(arithmetic.MinimumOp, "", tg.minimum, np.minimum),
    Whole(arithmetic.AndOp, "", lambda x, y: x & y, np.bitwise_and),
    Whole(arithmetic.OrOp, "", lambda x, y: x | y, np.bitwise_or),
    Whole(arithmetic.XorOp, "", lambda x, y: x ^ y, np.bitwise_xor),
    *_comparisons(),
    Whole(arithmetic.SelectOp, "", lambda x, y: tg.where(x < y, x, y), lambda x, y: np.where(x < y, x, y)),
    *_casts(),
    *_bits(),
    Whole(arithmetic.ShiftLeftOp, "", lambda x, y: x << y, _shifted(np.left_shift)),
    Whole(arithmetic.ShiftLeftOp, "by a constant", lambda x, y: x << 3, lambda x, y: x << 3),
    Whole(arithmetic.ShiftRightOp, "", lambda x, y: x >> y, _shifted(np.right_shift)),
    Whole(arithmetic.ShiftRightOp, "by a constant", lambda x, y: x >> 3, lambda x, y: x >> 3),
    Whole(arithmetic.FloorDivideOp, "", lambda x, y: x // y, np.floor_divide),
    Whole(arithmetic.FloorDivideOp, "by a constant", lambda x, y: x // 7, lambda x, y: x // 7),
    Whole(arithmetic.RemainderOp, "", lambda x, y: x % y, np.remainder),
    Whole(arithmetic.RemainderOp, "by a constant", lambda x, y: x % 7, lambda x, y: x % 7),
    Whole(arithmetic.MulOp, "to a power", lambda x, y: x**y, lambda x, y: _powers(x, y)),
    Whole(shape.ReshapeOp, "", lambda x, y: tg.reshape(x, (7, 28)), lambda x, y: x.reshape(7, 28)),
    Whole(shape.TransposeOp, "", lambda x, y: x.T - y, lambda x, y: x.T - y),
    Whole(
        shape.BroadcastOp, "", lambda x, y: tg.broadcast_to(y[0], (2, 14)), lambda x, y: np.broadcast_to(y[0], (2, 14))
    ),
    Whole(shape.SliceOp, "", lambda x, y: y[2:9:3, 1:], lambda x, y: y[2:9:3, 1:]),
    Whole(shape.ReverseOp, "", lambda x, y: tg.flip(x, 0), lambda x, y: x[::-1]),
    Whole(shape.PadOp, "", _padded, _np_padded),
    Whole(shape.ConcatOp, "", lambda x, y: tg.concat([x, y], 1), lambda x, y: np.concatenate([x, y], 1)),
    Whole(
        convolution.WindowsOp,
        "",
        lambda x, y: windows((1,), (3,), (1,), (1,))(y),
        lambda x, y: np.lib.stride_tricks.sliding_window_view(y, 3, axis=1),
    ),
    Whole(
        convolution.FoldOp,
        "",
        lambda x, y: fold((1,), (1,), (1,), (8,))(windows((1,), (4,), (1,), (1,))(x[:, :8])),
        _folded,
    ),
    Whole(convolution.ConvOp, "", lambda x, y: tg.conv(x[:, None, :], y[:2, None, :3]), _convolved),
    Whole(reduce.SumOp, "", lambda x, y: tg.sum(x * 3, 0, dtype=x.dtype), lambda x, y: (x * 3).sum(0, dtype=x.dtype)),
    Whole(reduce.SumOp, "in 32 bits", lambda x, y: tg.sum(x, 0), lambda x, y: x.sum(0, dtype=_summed(x.dtype))),
    Whole(reduce.ProdOp, "", lambda x, y: tg.prod(y, 1, dtype=x.dtype), lambda x, y: y.prod(1, dtype=x.dtype)),
    Whole(reduce.MaxOp, "", lambda x, y: tg.max(y, 1), lambda x, y: y.max(1)),
    Whole(reduce.MaxOp, "of all", lambda x, y: tg.max(x ^ y), lambda x, y: (x ^ y).max()),
    Whole(reduce.MinOp, "", lambda x, y: tg.min(y, 1), lambda x, y: y.min(1)),
    Whole(contract.DotGeneralOp, "", lambda x, y: y @ x, lambda x, y: y @ x),
    Whole(index.TakeOp, "", lambda x, y: x[PLACES], lambda x, y: x[PLACES]),
    Whole(
        index.TakeOp,
        "at indices of the dtype",
        lambda x, y: tg.take(y, tg.clip(x[:, 0], 0, 13), 1),
        lambda x, y: np.take(y, np.clip(x[:, 0], 0, 13).astype(np.int64), 1),
    ),
    Whole(
        index.TakeAlongAxisOp,
        "",
        lambda x, y: tg.take_along_axis(y[:2], PLACES, 1),
        lambda x, y: np.take_along_axis(y[:2], PLACES, 1),
    ),
    Whole(
        index.ScatterAddOp,
        "",
        lambda x, y: tg.zeros((4, 14), x.dtype).at[PLACES.reshape(-1)].add(x[:8] ^ y[:8]),
        _scattered,
    ),
    Whole(
        index.ScatterAddAlongAxisOp,
        "",
        lambda x, y: tg.scatter_add(tg.zeros((2, 3), x.dtype), 1, PLACES, y[:2, :4]),
        _scattered_along,
    ),
    Whole(
        index.ScatterReduceOp,
        "largest",
        lambda x, y: tg.segment_max(y[:2], [3, 1], 4),
        _largest_of_segments,
    ),
    Whole(
        index.ScatterReduceAlongAxisOp,
        "products",
        lambda x, y: tg.scatter_reduce(x[:2], 1, PLACES, y[:2, :4], "prod"),
        _multiplied_along,
    ),
    Whole(
        sort.ArgsortOp,
        "rising",
        lambda x, y: tg.argsort(y),
        lambda x, y: np.argsort(y, -1, kind="stable").astype(np.int32),
    ),
    Whole(sort.ArgsortOp, "falling", lambda x, y: tg.argsort(x ^ y, descending=True), lambda x, y: _fallen(x ^ y)),
)
