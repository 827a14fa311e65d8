"""Index maps: each step of `passes/analyses/affine.py` keeps the value, for all factors, divisors, extents and indices.

The functions run unchanged. What a step calls is replaced by what is proved of it elsewhere in this file: a `Form` has
the value of a linear form and nothing else, and a recursive call returns any form with the value that it should have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, cast

import pytest
from symbolic import Number, Path, Refuted, explore, most, path, term, within
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)

from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.affine import Linear

ADD, MULTIPLY = AffineBinaryOpKind.Add, AffineBinaryOpKind.Mul
FLOORDIV, MOD = AffineBinaryOpKind.FloorDiv, AffineBinaryOpKind.Mod
SUMS = ADD, MULTIPLY
Values = Mapping[int, Number]
"""The values of loops, by position."""
EXTENTS: Sequence[int] = ()
"""Extents that only contracts would read."""


def number(value: Number) -> int:
    """Returns a number as what the functions take."""
    return cast(int, value)


def binary(kind: AffineBinaryOpKind, lhs: AffineExpr, rhs: AffineExpr | Number) -> AffineExpr:
    """Returns an operator, also by a number."""
    right = rhs if isinstance(rhs, AffineExpr) else AffineConstantExpr(number(rhs))
    return AffineBinaryOpExpr(kind, lhs, right)


def value(expression: AffineExpr, loops: Values) -> Number:
    """Returns the value of an expression, by the definition of each operator."""
    if isinstance(expression, AffineConstantExpr):
        return Number(term(expression.value))
    if isinstance(expression, AffineDimExpr):
        return loops[expression.position]
    assert isinstance(expression, AffineBinaryOpExpr)
    x, y = value(expression.lhs, loops), value(expression.rhs, loops)
    return {ADD: lambda: x + y, MULTIPLY: lambda: x * y, FLOORDIV: lambda: x // y, MOD: lambda: x % y}[
        expression.kind
    ]()


def total(form: Linear | Form, loops: Values) -> Number:
    """Returns the value of a linear form."""
    if isinstance(form, Form):
        return form.value
    result = Number(term(form.constant))
    for atom, factor in form.terms.items():
        result = result + value(atom, loops) * factor
    return result


class Form:
    """A linear form with the contracts of `Linear`: of its parts nothing is known but its value.

    Args:
        value: The value.
        loops: The values of the loops in expressions.
        expression: The expression that it returns; a loop of its own by default.
    """

    def __init__(self, value: Number, loops: dict[int, Number], expression: AffineExpr | None = None):
        self.value = value
        self.loops = loops
        self.terms = {AffineDimExpr(0): 1}
        self._expression = expression

    def plus(self, other: Linear | Form, factor: int = 1) -> Form:
        return Form(self.value + total(other, self.loops) * factor, self.loops)

    def times(self, factor: int) -> Form:
        return Form(self.value * factor, self.loops)

    def over(self, divisor: int) -> Form:
        quotient, remainder = self.value // divisor, self.value % divisor
        path().prove(remainder.term == 0, "what is divided without a remainder is a multiple")
        return Form(quotient, self.loops)

    def split(self, divisor: int) -> tuple[Form, Form]:
        multiple, rest = path().fresh("multiple"), path().fresh("rest")
        path().assume(self.value.term == term(divisor) * multiple.term + rest.term)
        # The expression is that of the rest, which is what `_floordiv` asks for.
        return Form(multiple * divisor, self.loops), Form(rest, self.loops, self._expression)

    def bounds(self, extents: Sequence[int]) -> tuple[int, int]:
        low, high = path().fresh("low"), path().fresh("high")
        path().assume(within(self.value.term, low, high))
        return number(low), number(high)

    def expression(self) -> AffineExpr:
        if self._expression is not None:
            path().assume(value(self._expression, self.loops).term == self.value.term)
            return self._expression
        self.loops[len(self.loops)] = self.value
        return AffineDimExpr(len(self.loops) - 1)


def form(loops: dict[int, Number], expression: AffineExpr | None = None) -> Linear:
    """Returns a form of any value."""
    return cast(Linear, Form(path().fresh("value"), loops, expression))


def positive(name: str) -> Number:
    """Returns any positive number."""
    result = path().fresh(name)
    path().assume(result.term > 0)
    return result


@pytest.fixture(autouse=True)
def merged_extremes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(affine, "max", most, raising=False)


def divided(dividend: Linear, divisor: int, extents: Sequence[int]) -> Linear:
    """Is what `_floordiv` promises."""
    source = cast(Form, dividend)
    return cast(Linear, Form(source.value // divisor, source.loops))


def remaining(dividend: Linear, divisor: int, extents: Sequence[int]) -> Linear:
    """Is what `_mod` promises."""
    source = cast(Form, dividend)
    quotient, remainder = source.value // divisor, source.value % divisor
    path().prove(source.value.term == (quotient * divisor + remainder).term, "a division's parts")
    return cast(Linear, Form(remainder, source.loops))


def reduced(parts: Linear, divisor: int, extents: Sequence[int]) -> tuple[int, Linear, Linear]:
    """Is what `_reduced` promises where it returns parts."""
    source = cast(Form, parts)
    g, multiple, quotient, rest = (path().fresh(name) for name in ("g", "e", "q", "r"))
    path().assume(
        *(g.term > 1, multiple.term > 0, term(divisor) == g.term * multiple.term),
        *(source.value.term == g.term * quotient.term + rest.term, rest.term >= 0, rest.term < g.term),
    )
    path().prove((Number(term(divisor)) // g).term == multiple.term, "reduced: the other factor")
    return number(g), cast(Linear, Form(quotient, source.loops)), cast(Linear, Form(rest, source.loops))


def nowhere(parts: Linear, divisor: int, extents: Sequence[int]) -> None:
    """Is what `_reduced` promises where it returns nothing."""


Reduced = Callable[[Linear, int, Sequence[int]], tuple[int, Linear, Linear] | None]


@pytest.mark.parametrize("parts", [reduced, nowhere], ids=["reduced", "not reduced"])
def test_floordiv(parts: Reduced, monkeypatch: pytest.MonkeyPatch) -> None:
    step = affine._floordiv
    monkeypatch.setattr(affine, "_floordiv", divided)
    monkeypatch.setattr(affine, "_reduced", parts)

    def run(current: Path) -> None:
        loops: dict[int, Number] = {}
        x, divisor = form(loops), positive("divisor")
        result = step(x, number(divisor), EXTENTS)
        current.prove((total(result, loops)).term == (total(x, loops) // divisor).term, "floordiv")

    explore(run)


def test_nested_floordiv(monkeypatch: pytest.MonkeyPatch) -> None:
    """`(y floordiv a) floordiv b` is `y floordiv (a * b)`."""
    step = affine._floordiv
    monkeypatch.setattr(affine, "_floordiv", divided)
    monkeypatch.setattr(affine, "_reduced", nowhere)

    def run(current: Path) -> None:
        a, b = positive("a"), positive("b")
        loops = {0: current.fresh("y")}
        monkeypatch.setattr(affine, "linear", lambda expression, extents: Form(value(expression, loops), loops))
        x = form(loops, binary(FLOORDIV, AffineDimExpr(0), a))
        result = step(x, number(b), EXTENTS)
        current.prove(total(result, loops).term == (total(x, loops) // b).term, "nested floordiv")

    explore(run)


@pytest.mark.parametrize("parts", [reduced, nowhere], ids=["reduced", "not reduced"])
def test_mod(parts: Reduced, monkeypatch: pytest.MonkeyPatch) -> None:
    step, split = affine._mod, affine._parts
    monkeypatch.setattr(affine, "_reduced", parts)

    def run(current: Path) -> None:
        loops: dict[int, Number] = {}
        x, divisor = form(loops), positive("divisor")
        quotients: list[Number] = []

        def recorded(value: Linear, divisor: int, extents: Sequence[int]) -> tuple[Linear, Linear]:
            whole, rest = split(value, divisor, extents)
            quotients.append(total(whole, loops) // divisor)
            return whole, rest

        def recursive(value: Linear, divisor: int, extents: Sequence[int]) -> Linear:
            quotients.append(total(value, loops) // divisor)
            return remaining(value, divisor, extents)

        monkeypatch.setattr(affine, "_parts", recorded)
        monkeypatch.setattr(affine, "_mod", recursive)
        result = total(step(x, number(divisor), EXTENTS), loops)
        if len(quotients) == 2:
            current.prove_division(total(x, loops), divisor, sum(quotients, Number(0)), result, "mod")
        current.prove(result.term == (total(x, loops) % divisor).term, "mod")

    explore(run)


def test_parts() -> None:
    """The rest that is divided is not negative: devices divide unsigned numbers."""

    def run(current: Path) -> None:
        loops: dict[int, Number] = {}
        x, divisor = form(loops), positive("divisor")
        whole, rest = affine._parts(x, number(divisor), EXTENTS)
        current.prove(total(whole, loops).term + total(rest, loops).term == total(x, loops).term, "parts: their sum")
        current.prove((total(whole, loops) % divisor).term == 0, "parts: a multiple")
        current.prove(total(rest, loops).term >= 0, "parts: the rest")

    explore(run)


def test_reduced(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(current: Path) -> None:
        loops: dict[int, Number] = {}
        x, g, multiple = form(loops), positive("g"), positive("e")
        monkeypatch.setattr(affine, "_common_factors", lambda parts, divisor: [g])
        known = affine._reduced(x, number(g * multiple), EXTENTS)
        if known is None:
            current.prove(True, "nothing is claimed")
            return
        factor, quotient, rest = known
        current.prove(term(factor) == g.term, "reduced: the factor")
        sum_ = total(quotient, loops) * factor + total(rest, loops)
        current.prove(sum_.term == total(x, loops).term, "reduced: the sum")
        current.prove(within(total(rest, loops).term, 0, number(g - 1)), "reduced: the rest")

    explore(run)


def linear_form(count: int) -> tuple[Linear, dict[int, Number]]:
    """Returns a form of any factors of loops, and their values."""
    loops = {position: path().fresh("loop") for position in range(count)}
    factors = {cast(AffineExpr, AffineDimExpr(position)): number(path().fresh("factor")) for position in loops}
    return Linear(factors, number(path().fresh("constant"))), loops


def test_sums_and_multiples() -> None:
    def run(current: Path) -> None:
        x, loops = linear_form(2)
        y = Linear({AffineDimExpr(1): number(current.fresh("other"))}, number(current.fresh("constant")))
        factor = number(current.fresh("by"))
        first, second = total(x, loops), total(y, loops)
        current.prove(total(x.plus(y, factor), loops).term == (first + second * factor).term, "plus")
        current.prove(total(x.times(factor), loops).term == (first * factor).term, "times")

    explore(run)


def test_splits_and_quotients() -> None:
    def run(current: Path) -> None:
        x, loops = linear_form(2)
        divisor = positive("divisor")
        whole, rest = x.split(number(divisor))
        current.prove(total(whole, loops).term + total(rest, loops).term == total(x, loops).term, "split: the sum")
        for factor in (*whole.terms.values(), whole.constant):
            current.prove((Number(term(factor)) % divisor).term == 0, "split: multiples")
        current.prove(within(term(rest.constant), 0, number(divisor - 1)), "split: the constant of the rest")
        quotient = whole.over(number(divisor))
        current.prove((total(quotient, loops) * divisor).term == total(whole, loops).term, "over")

    explore(run)


def test_bounds() -> None:
    def run(current: Path) -> None:
        x, loops = linear_form(2)
        extents = [positive("extent") for _ in loops]
        for position, loop in loops.items():
            current.assume(within(loop.term, 0, extents[position] - 1))
        low, high = x.bounds(cast("Sequence[int]", extents))
        current.prove(term(low) <= total(x, loops).term, "bounds, from below")
        current.prove(term(high) >= total(x, loops).term, "bounds, from above")

    explore(run)


@pytest.mark.parametrize("kind", [FLOORDIV, MOD], ids=lambda kind: kind.name)
def test_bounds_of_quotients(kind: AffineBinaryOpKind, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(current: Path) -> None:
        loops = {0: current.fresh("x")}
        monkeypatch.setattr(affine, "linear", lambda expression, extents: Form(value(expression, loops), loops))
        atom = binary(kind, AffineDimExpr(0), positive("divisor"))
        low, high = affine.atom_bounds(atom, EXTENTS)
        current.prove(within(value(atom, loops).term, low, high), f"bounds of {kind.name}")

    explore(run)


def test_expressions() -> None:
    def run(current: Path) -> None:
        x, loops = linear_form(2)
        expression = x.expression()
        current.prove(value(expression, loops).term == total(x, loops).term, "the expression of a form")
        current.prove(total(affine.as_terms(expression), loops).term == total(x, loops).term, "the form of one")

    explore(run)


@pytest.mark.parametrize("nested", [False, True], ids=["plain", "nested"])
def test_recombination(nested: bool) -> None:
    """`k * c * (x floordiv c) + k * (x mod c)` is `k * x`, also where `x` is a quotient."""

    def run(current: Path) -> None:
        loops: dict[int, Number] = {0: current.fresh("x"), 1: current.fresh("other")}
        inner, divisor, factor = positive("inner"), positive("divisor"), current.fresh("factor")
        x: AffineExpr = AffineDimExpr(0)
        quotient = binary(FLOORDIV, x, inner * divisor if nested else divisor)
        x = binary(FLOORDIV, x, inner) if nested else x
        terms: dict[AffineExpr, Any] = {
            binary(MOD, x, divisor): factor,
            quotient: current.fresh("multiple"),
            AffineDimExpr(1): current.fresh("factor"),
        }
        before = Linear(terms, number(current.fresh("constant")))
        after = affine._recombined(before)
        current.prove(total(after, loops).term == total(before, loops).term, "recombination")

    explore(run)


@pytest.mark.parametrize("kind", [ADD, MULTIPLY, FLOORDIV, MOD], ids=lambda kind: kind.name)
def test_operators(kind: AffineBinaryOpKind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each operator, by induction on its operands."""
    step = cast(Any, affine._linear).__wrapped__
    monkeypatch.setattr(affine, "_floordiv", divided)
    monkeypatch.setattr(affine, "_mod", remaining)
    monkeypatch.setattr(affine, "_recombined", lambda form: form)

    def run(current: Path) -> None:
        loops = {0: current.fresh("x"), 1: current.fresh("y")}

        def operand(expression: AffineExpr, extents: Sequence[int]) -> Linear | Form:
            if isinstance(expression, AffineConstantExpr):
                return Linear(constant=expression.value)
            return Form(value(expression, loops), loops)

        monkeypatch.setattr(affine, "_linear", operand)
        right = AffineDimExpr(1) if kind == ADD else positive("constant")
        expressions = [binary(kind, AffineDimExpr(0), right)]
        if kind == MULTIPLY:
            expressions.append(
                AffineBinaryOpExpr(kind, AffineConstantExpr(number(current.fresh("c"))), AffineDimExpr(0))
            )
        for expression in expressions:
            result = step(expression, EXTENTS)
            current.prove(total(result, loops).term == value(expression, loops).term, kind.name)

    explore(run)


def test_loops_and_constants() -> None:
    """A loop over one index is 0."""
    step = cast(Any, affine._linear).__wrapped__

    def run(current: Path) -> None:
        extent, loops = positive("extent"), {0: current.fresh("loop")}
        current.assume(within(loops[0].term, 0, extent - 1))
        for expression in (AffineDimExpr(0), AffineConstantExpr(number(current.fresh("c")))):
            result = step(expression, (extent,))
            current.prove(total(result, loops).term == value(expression, loops).term, str(expression))

    explore(run)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_positions(rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An element's row-major position gives its index back, so that a reshape to the same shape is the identity."""
    monkeypatch.setattr(affine, "AffineConstantExpr", Number)

    def run(current: Path) -> None:
        shape = [positive("extent") for _ in range(rank)]
        places = [current.fresh("index") for _ in range(rank)]
        for place, extent in zip(places, shape, strict=True):
            current.assume(within(place.term, 0, extent - 1))
        extents = cast("Sequence[int]", shape)
        position = affine.linear_index(cast("Sequence[AffineExpr]", places), extents)
        outer = Number(0)
        for place, extent, stride in zip(places, shape, affine.strides(extents), strict=True):
            outer = outer * extent + place
            current.prove((cast(Number, position) // stride).term == outer.term, "positions in rows")
        for place, again in zip(places, affine.delinearized(position, extents), strict=True):
            current.prove(cast(Number, again).term == place.term, f"positions of rank {rank}")

    explore(run)


def unsimplified(index_map: AffineMap, extents: Sequence[int]) -> AffineMap:
    """Is a `simplified` that keeps values, as is proved of it."""
    return index_map


@pytest.mark.parametrize("kind", [ADD, MULTIPLY, FLOORDIV, MOD], ids=lambda kind: kind.name)
def test_composed(kind: AffineBinaryOpKind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each operator by induction on its operands, for which loops, constants, sums and multiples are substituted."""
    monkeypatch.setattr(affine, "simplified", unsimplified)

    def run(first: int, second: int, current: Path) -> None:
        loops = {0: current.fresh("x"), 1: current.fresh("y")}
        by = positive("by")
        inner = AffineDimExpr(1), AffineConstantExpr(number(by)), *(binary(each, AffineDimExpr(0), by) for each in SUMS)
        right = AffineDimExpr(1) if kind == ADD else positive("constant")
        outer = AffineMap(2, 0, (binary(kind, AffineDimExpr(0), right),))
        result = affine.composed(outer, AffineMap(2, 0, (inner[first], inner[second])), EXTENTS)
        places = {0: value(inner[first], loops), 1: value(inner[second], loops)}
        current.prove(value(result.results[0], loops).term == value(outer.results[0], places).term, "composed")

    for first, second in product(range(4), range(4 if kind == ADD else 1)):
        explore(partial(run, first, second))


def test_partial() -> None:
    """The value is kept where the index is within the axis."""

    def run(current: Path) -> None:
        loops, extent, size = {0: current.fresh("loop")}, positive("extent"), positive("size")
        current.assume(within(loops[0].term, 0, extent - 1), loops[0].term < size.term)
        for expression in (AffineDimExpr(0), binary(ADD, AffineDimExpr(0), current.fresh("constant"))):
            result = affine.partial(AffineMap(1, 0, (expression,)), [number(size)], [number(extent)])
            current.prove(value(result.results[0], loops).term == value(expression, loops).term, "partial")

    explore(run)


def test_a_wrong_rule_has_a_counterexample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strides of the axes in the wrong order."""
    strides = affine.strides
    monkeypatch.setattr(affine, "strides", lambda shape: strides(shape)[::-1])
    with pytest.raises(Refuted, match=r"positions in rows: extent.1 = "):
        test_positions(2, monkeypatch)


def test_a_wrong_composition_has_a_counterexample(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second axis' index for the first."""
    composed = affine.composed
    monkeypatch.setattr(
        affine, "composed", lambda outer, inner, extents: composed(outer, AffineMap(2, 0, inner.results[::-1]), extents)
    )
    with pytest.raises(Refuted, match=r"composed: .*by.\d+ = "):
        test_composed(FLOORDIV, monkeypatch)
