"""Affine index expressions: composition, and simplification using the ranges of the loops.

xDSL's simplifier doesn't use ranges; with them, most floordivs and mods of reshapes simplify away.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)


class Linear:
    """A sum of integer multiples of atoms (loops, floordivs, mods) and a constant; immutable once built."""

    def __init__(self, terms: dict[AffineExpr, int] | None = None, constant: int = 0):
        self.terms = {atom: factor for atom, factor in (terms or {}).items() if factor}
        self.constant = constant

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """Returns `self + factor * other`."""
        terms = dict(self.terms)
        for atom, coefficient in other.terms.items():
            terms[atom] = terms.get(atom, 0) + factor * coefficient
        return Linear(terms, self.constant + factor * other.constant)

    def times(self, factor: int) -> Linear:
        """Returns `factor * self`."""
        return Linear({atom: factor * c for atom, c in self.terms.items()}, factor * self.constant)

    def over(self, divisor: int) -> Linear:
        """Returns `self / divisor`, where `divisor` divides every part."""
        return Linear({atom: c // divisor for atom, c in self.terms.items()}, self.constant // divisor)

    def bounds(self, extents: Sequence[int]) -> tuple[int, int]:
        """Returns the minimum and the maximum, with loop `i` running over `[0, extents[i])`."""
        low = high = self.constant
        for atom, factor in self.terms.items():
            least, most = atom_bounds(atom, extents)
            low += factor * (least if factor > 0 else most)
            high += factor * (most if factor > 0 else least)
        return low, high

    def split(self, divisor: int) -> tuple[Linear, Linear]:
        """Returns the part with factors divisible by `divisor`, and the rest, whose constant is in `[0, divisor)`."""
        whole = {atom: c for atom, c in self.terms.items() if c % divisor == 0}
        rest = {atom: c for atom, c in self.terms.items() if c % divisor}
        remainder = self.constant % divisor
        return Linear(whole, self.constant - remainder), Linear(rest, remainder)

    def expression(self) -> AffineExpr:
        """Returns the affine expression, its terms in a canonical order: larger factors first."""
        result: AffineExpr = AffineConstantExpr(self.constant)
        first = True
        for atom, factor in sorted(self.terms.items(), key=lambda term: (-term[1], str(term[0]))):
            term = atom if factor == 1 else AffineBinaryOpExpr(AffineBinaryOpKind.Mul, atom, AffineConstantExpr(factor))
            result = term if first else AffineBinaryOpExpr(AffineBinaryOpKind.Add, result, term)
            first = False
        if not first and self.constant:
            return AffineBinaryOpExpr(AffineBinaryOpKind.Add, result, AffineConstantExpr(self.constant))
        return result


def atom_bounds(atom: AffineExpr, extents: Sequence[int]) -> tuple[int, int]:
    """Returns the minimum and the maximum of a loop, a floordiv or a mod."""
    if isinstance(atom, AffineDimExpr):
        return 0, max(extents[atom.position] - 1, 0)
    assert isinstance(atom, AffineBinaryOpExpr) and isinstance(atom.rhs, AffineConstantExpr)
    low, high = linear(atom.lhs, extents).bounds(extents)
    divisor = atom.rhs.value
    if atom.kind == AffineBinaryOpKind.FloorDiv:
        return low // divisor, high // divisor
    return (low, high) if low >= 0 and high < divisor else (0, divisor - 1)


def linear(expression: AffineExpr, extents: Sequence[int]) -> Linear:
    """Returns the simplified linear form of an expression over loops with these extents."""
    return _linear(expression, tuple(extents))


@lru_cache(maxsize=1 << 12)  # the elements of a kernel's block have few distinct positions
def _linear(expression: AffineExpr, extents: tuple[int, ...]) -> Linear:
    if isinstance(expression, AffineConstantExpr):
        return Linear(constant=expression.value)
    if isinstance(expression, AffineDimExpr):
        return Linear() if extents[expression.position] == 1 else Linear({expression: 1})
    assert isinstance(expression, AffineBinaryOpExpr), f"no symbols here: {expression}"
    lhs, rhs = _linear(expression.lhs, extents), _linear(expression.rhs, extents)
    match expression.kind:
        case AffineBinaryOpKind.Add:
            return _recombined(lhs.plus(rhs))
        case AffineBinaryOpKind.Mul:
            return lhs.times(rhs.constant) if not rhs.terms else rhs.times(lhs.constant)
        case AffineBinaryOpKind.FloorDiv:
            return _floordiv(lhs, rhs.constant, extents)
        case AffineBinaryOpKind.Mod:
            return _mod(lhs, rhs.constant, extents)
        case _:
            raise ValueError(f"{expression.kind} does not occur in index maps")


def _common_factors(parts: Linear, divisor: int) -> Iterable[int]:
    """Returns factors `g` of `divisor` by which `parts` may split as `g * q + r`, largest first."""
    candidates = {math.gcd(factor, divisor) for factor in parts.terms.values()}
    return sorted((g for g in candidates if g > 1), reverse=True)


def _reduced(parts: Linear, divisor: int, extents: Sequence[int]) -> tuple[int, Linear, Linear] | None:
    """Returns `(g, q, r)` with `parts = g * q + r`, `0 <= r < g` and `g` a factor of `divisor`."""
    for g in _common_factors(parts, divisor):
        whole, rest = parts.split(g)
        low, high = rest.bounds(extents)
        if low >= 0 and high < g:
            return g, whole.over(g), rest
    return None


def _parts(value: Linear, divisor: int, extents: Sequence[int]) -> tuple[Linear, Linear]:
    """Returns the part divisible by `divisor`, and the nonnegative rest: devices divide unsigned."""
    whole, rest = value.split(divisor)
    low, _ = rest.bounds(extents)
    shift = Linear(constant=max(-(low // divisor), 0) * divisor)
    return whole.plus(shift, -1), rest.plus(shift)


def _floordiv(value: Linear, divisor: int, extents: Sequence[int]) -> Linear:
    whole, rest = _parts(value, divisor, extents)
    quotient = whole.over(divisor)
    low, high = rest.bounds(extents)
    if low // divisor == high // divisor:
        return quotient.plus(Linear(constant=low // divisor))
    reduced = _reduced(rest, divisor, extents)
    if reduced is not None:
        g, q, _ = reduced
        if g == divisor:
            return quotient.plus(q)
        return quotient.plus(_floordiv(q, divisor // g, extents))
    inner = rest.expression()
    if (
        isinstance(inner, AffineBinaryOpExpr)
        and inner.kind == AffineBinaryOpKind.FloorDiv
        and isinstance(inner.rhs, AffineConstantExpr)
    ):
        nested = _floordiv(linear(inner.lhs, extents), inner.rhs.value * divisor, extents)
        return quotient.plus(nested)
    atom = AffineBinaryOpExpr(AffineBinaryOpKind.FloorDiv, inner, AffineConstantExpr(divisor))
    return quotient.plus(Linear({atom: 1}))


def _mod(value: Linear, divisor: int, extents: Sequence[int]) -> Linear:
    _, rest = _parts(value, divisor, extents)
    low, high = rest.bounds(extents)
    if low >= 0 and high < divisor:
        return rest
    reduced = _reduced(rest, divisor, extents)
    if reduced is not None:
        g, q, r = reduced
        return _mod(q, divisor // g, extents).times(g).plus(r) if g != divisor else r
    atom = AffineBinaryOpExpr(AffineBinaryOpKind.Mod, rest.expression(), AffineConstantExpr(divisor))
    return Linear({atom: 1})


def _recombined(value: Linear) -> Linear:
    """Recombines `k * c * (x floordiv c) + k * (x mod c)` into `k * x`."""
    for atom, factor in value.terms.items():
        if not (isinstance(atom, AffineBinaryOpExpr) and atom.kind == AffineBinaryOpKind.Mod):
            continue
        assert isinstance(atom.rhs, AffineConstantExpr)
        quotient = _quotient(atom.lhs, atom.rhs.value)
        if value.terms.get(quotient) == factor * atom.rhs.value:
            terms = {other: c for other, c in value.terms.items() if other not in (atom, quotient)}
            inner = as_terms(atom.lhs)
            return _recombined(Linear(terms, value.constant).plus(inner, factor))
    return value


def _quotient(expression: AffineExpr, divisor: int) -> AffineExpr:
    """Returns `expression floordiv divisor`, with nested quotients merged."""
    if (
        isinstance(expression, AffineBinaryOpExpr)
        and expression.kind == AffineBinaryOpKind.FloorDiv
        and isinstance(expression.rhs, AffineConstantExpr)
    ):
        return _quotient(expression.lhs, expression.rhs.value * divisor)
    return AffineBinaryOpExpr(AffineBinaryOpKind.FloorDiv, expression, AffineConstantExpr(divisor))


def as_terms(expression: AffineExpr) -> Linear:
    """Returns the linear form of an already simplified expression."""
    if isinstance(expression, AffineConstantExpr):
        return Linear(constant=expression.value)
    if isinstance(expression, AffineBinaryOpExpr):
        if expression.kind == AffineBinaryOpKind.Add:
            return as_terms(expression.lhs).plus(as_terms(expression.rhs))
        if expression.kind == AffineBinaryOpKind.Mul and isinstance(expression.rhs, AffineConstantExpr):
            return as_terms(expression.lhs).times(expression.rhs.value)
    return Linear({expression: 1})


def simplified(affine: AffineMap, extents: Sequence[int]) -> AffineMap:
    """Returns a map with every result simplified for loops with these extents."""
    return AffineMap(affine.num_dims, 0, tuple(linear(result, extents).expression() for result in affine.results))


def composed(outer: AffineMap, inner: AffineMap, extents: Sequence[int]) -> AffineMap:
    """Returns `outer` after `inner`, simplified for `inner`'s loops."""
    results = tuple(result.replace_dims_and_symbols(inner.results, ()) for result in outer.results)
    return simplified(AffineMap(inner.num_dims, 0, results), extents)


def partial(affine: AffineMap, shape: Sequence[int], extents: Sequence[int]) -> AffineMap:
    """Returns an access that reads part of an axis with a plain loop, with `d mod extent` instead of `d`.

    `linalg.generic` infers a loop's extent from every axis that the loop indexes directly, so a loop over the first
    elements of an axis must not index it directly. Simplification with the loops' extents undoes this.
    """

    def result(expression: AffineExpr, size: int) -> AffineExpr:
        if isinstance(expression, AffineDimExpr) and extents[expression.position] != size:
            return AffineBinaryOpExpr(AffineBinaryOpKind.Mod, expression, AffineConstantExpr(size))
        return expression

    return AffineMap(affine.num_dims, 0, tuple(map(result, affine.results, shape)))


def dims(rank: int) -> list[AffineExpr]:
    """Returns the loops `d0, d1, …`."""
    return [AffineDimExpr(position) for position in range(rank)]


def identity(rank: int) -> AffineMap:
    """Returns the map from each loop to itself."""
    return AffineMap(rank, 0, tuple(dims(rank)))


def strides(shape: Sequence[int]) -> list[int]:
    """Returns the row-major strides, in elements."""
    result: list[int] = []
    step = 1
    for extent in reversed(shape):
        result.append(step)
        step *= extent
    return result[::-1]


def linear_index(results: Sequence[AffineExpr], shape: Sequence[int]) -> AffineExpr:
    """Returns the row-major position of an element."""
    total: AffineExpr = AffineConstantExpr(0)
    for expression, stride in zip(results, strides(shape), strict=True):
        total = total + expression * stride
    return total


def linear_position(results: Sequence[AffineExpr], shape: Sequence[int], extents: Sequence[int]) -> Linear:
    """Returns the simplified linear form of `linear_index`, for loops with these extents."""
    total = Linear()
    for expression, stride in zip(results, strides(shape), strict=True):
        total = _recombined(total.plus(linear(expression, extents), stride))
    return total


def delinearized(position: AffineExpr, shape: Sequence[int]) -> list[AffineExpr]:
    """Returns the index along each axis of the element at a row-major position."""
    return [(position // stride) % extent for stride, extent in zip(strides(shape), shape, strict=True)]


def reshape_map(new: Sequence[int], old: Sequence[int]) -> AffineMap:
    """Returns the map from an index in the new shape to the index in the old shape at the same row-major position."""
    position = linear_index(dims(len(new)), new)
    return simplified(AffineMap(len(new), 0, tuple(delinearized(position, old))), new)


def is_identity(affine: AffineMap) -> bool:
    """Returns whether every result `i` is `d_i`."""
    return len(affine.results) == affine.num_dims and all(
        isinstance(result, AffineDimExpr) and result.position == position
        for position, result in enumerate(affine.results)
    )


def used_dims(affine: AffineMap) -> set[int]:
    """Returns the loops that occur in a map."""
    return {position for result in affine.results for position in result.used_dims()}
