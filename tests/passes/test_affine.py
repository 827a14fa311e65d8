"""Index maps: simplification preserves every value of stacked views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)

from tensorgrad.passes.analyses import affine

EXTENTS = st.lists(st.integers(1, 6), min_size=1, max_size=3)


def value(expression: AffineExpr, point: Sequence[int]) -> int:
    """Returns the value of an expression at a point, by the definition of each operator."""
    if isinstance(expression, AffineConstantExpr):
        return expression.value
    if isinstance(expression, AffineDimExpr):
        return point[expression.position]
    assert isinstance(expression, AffineBinaryOpExpr)
    x, y = value(expression.lhs, point), value(expression.rhs, point)
    return {
        AffineBinaryOpKind.Add: lambda: x + y,
        AffineBinaryOpKind.Mul: lambda: x * y,
        AffineBinaryOpKind.FloorDiv: lambda: x // y,
        AffineBinaryOpKind.Mod: lambda: x % y,
    }[expression.kind]()


def size(expression: AffineExpr) -> int:
    """Returns the number of operators in an expression."""
    if not isinstance(expression, AffineBinaryOpExpr):
        return 0
    return 1 + size(expression.lhs) + size(expression.rhs)


@st.composite
def expressions(draw: st.DrawFn, rank: int, depth: int = 4) -> AffineExpr:
    kind = draw(st.sampled_from(("dim", "constant", "add", "scale", "floordiv", "mod"))) if depth else "dim"
    if kind == "dim":
        return AffineDimExpr(draw(st.integers(0, rank - 1)))
    if kind == "constant":
        return AffineConstantExpr(draw(st.integers(-7, 12)))
    left = draw(expressions(rank, depth - 1))
    if kind == "add":
        return AffineBinaryOpExpr(AffineBinaryOpKind.Add, left, draw(expressions(rank, depth - 1)))
    if kind == "scale":
        factor = AffineConstantExpr(draw(st.integers(-4, 6)))
        return AffineBinaryOpExpr(AffineBinaryOpKind.Mul, left, factor)
    divisor = AffineConstantExpr(draw(st.sampled_from((1, 2, 3, 4, 6, 8, 12))))
    operator = AffineBinaryOpKind.FloorDiv if kind == "floordiv" else AffineBinaryOpKind.Mod
    return AffineBinaryOpExpr(operator, left, divisor)


@given(st.data(), EXTENTS)
def test_simplification_keeps_every_value(data: st.DataObject, extents: list[int]) -> None:
    expression = data.draw(expressions(len(extents)))
    simplified = affine.linear(expression, extents)
    result = simplified.expression()
    low, high = simplified.bounds(extents)
    for point in np.ndindex(*extents):
        expected = value(expression, point)
        assert value(result, point) == expected, f"{expression} became {result}, at {point}"
        assert low <= expected <= high
    again = affine.linear(result, extents).expression()
    assert size(again) <= size(result)


def dividends(expression: AffineExpr) -> list[AffineExpr]:
    """Returns the dividends in an expression, at any depth."""
    if not isinstance(expression, AffineBinaryOpExpr):
        return []
    divides = expression.kind in (AffineBinaryOpKind.FloorDiv, AffineBinaryOpKind.Mod)
    return [*([expression.lhs] if divides else []), *dividends(expression.lhs), *dividends(expression.rhs)]


@given(st.data(), EXTENTS)
def test_what_is_divided_is_never_negative(data: st.DataObject, extents: list[int]) -> None:
    """Devices divide unsigned numbers."""
    simplified = affine.linear(data.draw(expressions(len(extents))), extents).expression()
    for dividend in dividends(simplified):
        assert all(value(dividend, point) >= 0 for point in np.ndindex(*extents)), f"{dividend} in {simplified}"


@given(st.data(), EXTENTS)
def test_composition_keeps_every_value(data: st.DataObject, extents: list[int]) -> None:
    rank = data.draw(st.integers(1, 3))
    inner = AffineMap(len(extents), 0, tuple(data.draw(expressions(len(extents), 2)) for _ in range(rank)))
    outer = AffineMap(rank, 0, tuple(data.draw(expressions(rank, 2)) for _ in range(2)))
    composed = affine.composed(outer, inner, extents)
    for point in np.ndindex(*extents):
        middle = [value(result, point) for result in inner.results]
        expected = [value(result, middle) for result in outer.results]
        assert [value(result, point) for result in composed.results] == expected


@st.composite
def factorizations(draw: st.DrawFn, count: int) -> tuple[int, ...]:
    factors: list[int] = []
    while count > 1 and len(factors) < 3:
        factor = draw(st.sampled_from([f for f in range(1, count + 1) if count % f == 0]))
        factors.append(factor)
        count //= factor
    return (*factors, count)


@given(st.data())
def test_stacked_views_read_what_numpy_reads(data: st.DataObject) -> None:
    """Reshapes, transposes, slices, reversals and broadcasts, stacked."""
    original = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    array: np.ndarray[Any, Any] = np.arange(int(np.prod(original))).reshape(original)
    view, current = affine.identity(len(original)), array
    for _ in range(data.draw(st.integers(1, 6))):
        inner, current = data.draw(steps(current))
        view = affine.composed(view, inner, current.shape)
    for point in np.ndindex(*current.shape):
        place = tuple(value(result, point) for result in view.results)
        assert array[place] == current[point]


@st.composite
def steps(draw: st.DrawFn, x: np.ndarray[Any, Any]) -> tuple[AffineMap, np.ndarray[Any, Any]]:
    """Draws a view of an array: the map from its index to the array's, and numpy's result."""
    rank, loops = x.ndim, affine.dims(x.ndim)
    kind = draw(st.sampled_from(("reshape", "reshape", "transpose", "slice", "reverse", "broadcast")))
    if kind == "reshape":
        shape = draw(factorizations(x.size))
        return affine.reshape_map(shape, x.shape), x.reshape(shape)
    if kind == "transpose":
        order = draw(st.permutations(range(rank)))
        return AffineMap(rank, 0, tuple(loops[order.index(axis)] for axis in range(rank))), x.transpose(order)
    if kind == "reverse":
        axes = [axis for axis in range(rank) if draw(st.booleans())]
        flipped = tuple(loop * -1 + (x.shape[i] - 1) if i in axes else loop for i, loop in enumerate(loops))
        return AffineMap(rank, 0, flipped), np.flip(x, tuple(axes))
    if kind == "broadcast":
        if rank == 4 or x.size > 100:
            return affine.identity(rank), x
        behind = affine.dims(rank + 1)[1:]
        return AffineMap(rank + 1, 0, tuple(behind)), np.broadcast_to(x, (3, *x.shape))
    start = [draw(st.integers(0, extent - 1)) for extent in x.shape]
    step = [draw(st.integers(1, 3)) for _ in x.shape]
    chosen = tuple(slice(a, None, s) for a, s in zip(start, step, strict=True))
    return AffineMap(rank, 0, tuple(d * s + a for d, a, s in zip(loops, start, step, strict=True))), x[chosen]


def test_a_reshape_back_is_the_identity() -> None:
    for old, new in (
        ((6, 4), (24,)),
        ((2, 3, 4), (6, 4)),
        ((2, 3, 4), (2, 12)),
        ((4, 6), (2, 2, 3, 2)),
        ((5, 1), (5,)),
    ):
        there, back = affine.reshape_map(new, old), affine.reshape_map(old, new)
        assert affine.is_identity(affine.composed(there, back, old)) or 1 in old
        assert affine.is_identity(affine.composed(back, there, new))


def test_splitting_and_joining_axes_needs_no_division() -> None:
    joined = affine.reshape_map((2, 3, 4), (6, 4))
    assert str(joined) == "(d0, d1, d2) -> (((d0 * 3) + d1), d2)"
    split = affine.reshape_map((6, 4), (2, 3, 4))
    assert [size(result) for result in split.results] == [1, 1, 0]


def test_partial_accesses_are_not_plain() -> None:
    access = affine.partial(AffineMap(2, 0, tuple(affine.dims(2))), (5, 3), (2, 3))
    assert str(access) == "(d0, d1) -> ((d0 mod 5), d1)"
    assert affine.is_identity(affine.simplified(access, (2, 3)))


def test_all_indices_of_a_position_are_the_position() -> None:
    shape = (3, 4, 5, 2)
    position = affine.linear_index(affine.delinearized(affine.dims(1)[0], shape), shape)
    assert str(affine.linear(position, [120]).expression()) == "d0"
