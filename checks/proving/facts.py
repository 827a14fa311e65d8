"""What is known at an access: the conditions on its way, bounds that follow from them, and sums simplified by them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from tensorgrad.checks.proving.terms import (
    Atom,
    Both,
    Choice,
    Condition,
    Held,
    Least,
    Linear,
    Negated,
    Nonnegative,
    Product,
    Quotient,
    Range,
    Remainder,
    Unknown,
    Variable,
    Wrapped,
    Zero,
    both,
    negation,
    nonnegative,
    number,
    of_atom,
    zero,
)

DEEPEST = 3
"""How many facts may be combined in a bound."""

NESTED = 3
"""How many nested choices, as those of a bisection, are simplified."""


class Facts:
    """Conditions that hold together, and what follows from them.

    Attributes:
        known: Sums that are not negative.
        conditions: All conditions, of which some give no such sum.
    """

    def __init__(self, conditions: Iterable[Condition] = ()):
        self.known: list[Linear] = []
        self.conditions: list[Condition] = []
        self._simplified: dict[Linear, Linear] = {}
        self._uppers: dict[tuple[Linear, int], int] = {}
        for condition in conditions:
            self.add(condition)

    def plus(self, conditions: Iterable[Condition]) -> Facts:
        """Returns these facts and more."""
        result = Facts()
        result.known, result.conditions = list(self.known), list(self.conditions)
        for condition in conditions:
            result.add(condition)
        return result

    def add(self, condition: Condition) -> None:
        """Adds a condition that holds."""
        if condition is True:
            return
        self.conditions.append(condition)
        self._learn(self.decided(condition))

    def _learn(self, condition: Condition) -> None:
        match condition:
            case Both():
                self._learn(condition.first)
                self._learn(self.decided(condition.second))
            case Nonnegative():
                self._keep(condition.number)
            case Zero():
                self._keep(condition.number)
                self._keep(condition.number.times(-1))
            case Negated(Zero(value)):
                low, high = self.bounds(value)
                if low == 0:
                    self._keep(value.plus(number(-1)))
                elif high == 0:
                    self._keep(number(-1).minus(value))
            case Negated(Both(first, second)):
                for left, right in ((first, second), (second, first)):
                    if self.decided(left) is True:
                        self._learn(self.decided(negation(right)))
            case _:
                if condition is False:
                    self._keep(number(-1))

    def _keep(self, value: Linear) -> None:
        """Adds a sum that is not negative, and what follows for numbers in it that may have wrapped around."""
        self._add(value)
        for atom, factor in value.terms.items():
            if isinstance(atom, Wrapped) and factor == -1 and atom.low == 0:
                most = self.upper(value.plus(of_atom(atom)))
                low, high = self.bounds(atom.number)
                if low + atom.modulus > most and high <= atom.high:
                    self._add(atom.number)
                    self._add(self.simplified(value))
            if isinstance(atom, Least) and factor > 0:
                rest = value.plus(of_atom(atom), -factor)
                self._add(rest.plus(atom.first, factor))
                self._add(rest.plus(atom.second, factor))
            if isinstance(atom, Remainder) and atom.dividend.range[0] >= 0:
                self._add(atom.dividend.minus(of_atom(atom)))
            for implied in _implied(of_atom(atom)):
                self._add(implied)

    def _add(self, value: Linear) -> None:
        if value.range[0] < 0 and value not in self.known:
            self.known.append(value)
            self._simplified.clear()
            self._uppers.clear()

    # Bounds

    def bounds(self, value: Linear) -> Range:
        """Returns the least and the greatest number that a sum may be."""
        return -self.upper(value.times(-1)), self.upper(value)

    @property
    def contradict(self) -> bool:
        """Whether no invocation gets here."""
        return any(fact.range[1] < 0 for fact in self.known) or any(self.upper(fact) < 0 for fact in self.known)

    def upper(self, value: Linear, depth: int = DEEPEST) -> int:
        """Returns an upper bound of a sum."""
        if depth == 0 or not value.terms:
            return value.range[1]
        key = (value, depth)
        best = self._uppers.get(key)
        if best is None:
            best = self._uppers[key] = self._upper(value, depth)
        return best

    def _upper(self, value: Linear, depth: int) -> int:
        best = value.constant + sum(
            factor * (self._greatest(atom, depth) if factor > 0 else self._smallest(atom, depth))
            for atom, factor in value.terms.items()
        )
        for fact in (*self.known, *_implied(value)):
            for atom, factor in value.terms.items():
                other = fact.terms.get(atom, 0)
                if factor * other < 0:
                    common = math.gcd(factor, other)
                    times, facts = abs(other) // common, abs(factor) // common
                    combined = value.times(times).plus(fact, facts)
                    if len(combined.terms) <= len(value.terms) + 1:
                        best = min(best, self.upper(combined, depth - 1) // times)
        return best

    def _greatest(self, atom: Atom, depth: int) -> int:
        if isinstance(atom, Quotient):
            return min(atom.range[1], self.upper(atom.dividend, depth - 1) // atom.divisor)
        if isinstance(atom, Remainder) and self.upper(atom.dividend.times(-1), depth - 1) <= 0:
            return min(atom.range[1], self.upper(atom.dividend, depth - 1))  # a negative dividend may be less
        if isinstance(atom, Least):
            return min(atom.range[1], self.upper(atom.first, depth - 1), self.upper(atom.second, depth - 1))
        if isinstance(atom, Choice):
            return min(atom.range[1], max(self.upper(atom.then, depth - 1), self.upper(atom.other, depth - 1)))
        return atom.range[1]

    def _smallest(self, atom: Atom, depth: int) -> int:
        if isinstance(atom, Quotient):
            return max(atom.range[0], -self.upper(atom.dividend.times(-1), depth - 1) // atom.divisor)
        if isinstance(atom, Least):
            first, second = (-self.upper(part.times(-1), depth - 1) for part in (atom.first, atom.second))
            return max(atom.range[0], min(first, second))
        if isinstance(atom, Choice):
            then, other = (-self.upper(part.times(-1), depth - 1) for part in (atom.then, atom.other))
            return max(atom.range[0], min(then, other))
        return atom.range[0]

    # Simplification

    def simplified(self, value: Linear) -> Linear:
        """Returns the same number, without what the facts decide."""
        return _rebuilt(value, self, None, self._simplified)

    def decided(self, condition: Condition) -> Condition:
        """Returns the same condition, decided if the facts decide it."""
        match condition:
            case Nonnegative():
                value = self.simplified(condition.number)
                if -self.upper(value.times(-1)) >= 0:
                    return True
                return False if self.upper(value) < 0 else nonnegative(value)
            case Zero():
                value = self.simplified(condition.number)
                low, high = self.bounds(value)
                return False if low > 0 or high < 0 else True if low == high == 0 else zero(value)
            case Both():
                return both(self.decided(condition.first), self.decided(condition.second))
            case Negated():
                return negation(self.decided(condition.condition))
            case _:
                return condition


def _implied(value: Linear) -> Iterator[Linear]:
    """Yields sums that are not negative by the definition of the atoms of another one."""
    for atom in value.terms:
        match atom:
            case Quotient():
                rest = atom.dividend.plus(of_atom(atom), -atom.divisor)
                yield rest
                yield number(atom.divisor - 1).minus(rest)
            case Least():
                yield atom.first.minus(of_atom(atom))
                yield atom.second.minus(of_atom(atom))
            case _:
                pass


NOTHING = Facts()
"""The facts that always hold."""


class Renaming:
    """Replaces variables, by those of another instance of a kernel if nothing else is said.

    Args:
        same: What replaces some variables.
        keeps: Whether other variables stay.
    """

    def __init__(self, same: Mapping[Variable, Linear] | None = None, keeps: bool = False):
        self._same = same or {}
        self._keeps = keeps
        self._memo: dict[Linear, Linear] = {}

    def variable(self, variable: Variable) -> Linear:
        """Returns what replaces a variable."""
        replacement = self._same.get(variable)
        if replacement is not None:
            return replacement
        return of_atom(variable if self._keeps else replace(variable, copy=1))

    def number(self, value: Linear) -> Linear:
        """Returns a sum with its variables replaced."""
        return _rebuilt(value, NOTHING, self, self._memo)

    def condition(self, condition: Condition) -> Condition:
        """Returns a condition with its variables replaced."""
        match condition:
            case Nonnegative():
                return nonnegative(self.number(condition.number))
            case Zero():
                return zero(self.number(condition.number))
            case Both():
                return both(self.condition(condition.first), self.condition(condition.second))
            case Negated():
                return negation(self.condition(condition.condition))
            case Unknown():
                return condition if self._keeps else replace(condition, copy=1)
            case _:
                return condition


def _rebuilt(value: Linear, facts: Facts, renaming: Renaming | None, memo: dict[Linear, Linear]) -> Linear:
    """Returns a sum with its atoms simplified by facts, and its variables replaced."""
    result = memo.get(value)
    if result is None:
        result = number(value.constant)
        for atom, factor in value.terms.items():
            result = result.plus(_atom_rebuilt(atom, facts, renaming, memo), factor)
        result = memo[value] = recombined(result)
    return result


def _atom_rebuilt(atom: Atom, facts: Facts, renaming: Renaming | None, memo: dict[Linear, Linear]) -> Linear:
    def again(part: Linear) -> Linear:
        return _rebuilt(part, facts, renaming, memo)

    match atom:
        case Variable():
            return of_atom(atom) if renaming is None else renaming.variable(atom)
        case Quotient():
            return quotient(again(atom.dividend), atom.divisor, facts)
        case Remainder():
            return remainder(again(atom.dividend), atom.divisor, facts)
        case Least():
            return least(again(atom.first), again(atom.second), facts)
        case Wrapped():
            return wrapped(again(atom.number), atom.low, atom.high, facts)
        case Choice() if renaming is None and atom.depth > NESTED:
            return of_atom(atom)
        case Choice():
            condition = facts.decided(atom.condition) if renaming is None else renaming.condition(atom.condition)
            return choice(condition, again(atom.then), again(atom.other), facts)
        case Held():
            return held(again(atom.place), atom.table, facts)
        case Product():
            return product(again(atom.first), again(atom.second))
        case _:
            return of_atom(atom)


# Constructors, which simplify


def _split(value: Linear, divisor: int) -> tuple[Linear, Linear]:
    """Returns the part that is divisible by `divisor`, and the rest, whose constant is in `[0, divisor)`."""
    rest = value.constant % divisor
    whole = {atom: factor for atom, factor in value.terms.items() if factor % divisor == 0}
    others = {atom: factor for atom, factor in value.terms.items() if factor % divisor}
    return Linear(whole, value.constant - rest), Linear(others, rest)


def _common(rest: Linear, divisor: int, facts: Facts) -> tuple[int, Linear, Linear] | None:
    """Returns `(g, q, r)` with `rest = g * q + r`, `0 <= r < g`, and `g` a factor of `divisor`."""
    for factor in sorted({math.gcd(factor, divisor) for factor in rest.terms.values()} - {1}, reverse=True):
        whole, others = _split(rest, factor)
        low, high = facts.bounds(others)
        if low >= 0 and high < factor:
            return factor, whole.over(factor), others
    return None


def quotient(value: Linear, divisor: int, facts: Facts = NOTHING) -> Linear:
    """Returns the floor of a quotient."""
    if divisor == 1:
        return value
    whole, rest = _split(value, divisor)
    low, high = facts.bounds(rest)
    if low // divisor == high // divisor:
        return whole.over(divisor).plus(number(low // divisor))
    common = _common(rest, divisor, facts)
    if common is not None:
        factor, inner, _ = common
        return whole.over(divisor).plus(quotient(inner, divisor // factor, facts))
    atom = rest.atom
    if isinstance(atom, Quotient):
        return whole.over(divisor).plus(quotient(atom.dividend, atom.divisor * divisor, facts))
    return whole.over(divisor).plus(of_atom(Quotient(rest, divisor)))


def remainder(value: Linear, divisor: int, facts: Facts = NOTHING) -> Linear:
    """Returns the remainder of the floor of a quotient."""
    _, rest = _split(value, divisor)
    low, high = facts.bounds(rest)
    if low // divisor == high // divisor:
        return rest.plus(number(-(low // divisor) * divisor))
    atom = rest.atom
    if isinstance(atom, Choice):
        difference = atom.then.minus(atom.other).number
        if difference is not None and difference % divisor == 0:
            return remainder(atom.other, divisor, facts)
    common = _common(rest, divisor, facts)
    if common is not None:
        factor, inner, others = common
        return others if factor == divisor else remainder(inner, divisor // factor, facts).times(factor).plus(others)
    return of_atom(Remainder(rest, divisor))


def least(first: Linear, second: Linear, facts: Facts = NOTHING) -> Linear:
    """Returns the smaller of two numbers."""
    low, high = facts.bounds(first.minus(second))
    if high <= 0:
        return first
    if low >= 0:
        return second
    for one, other in ((first, second), (second, first)):
        atom = other.atom
        if isinstance(atom, Wrapped) and atom.low == 0:
            period = one.minus(atom.number).number
            low, high = facts.bounds(one)
            if period is not None and 0 < period <= high < atom.high - period and low >= 0:
                # Smaller than the period, what wraps around is the greater.
                if high < 2 * period:
                    return remainder(one, period, facts)
                reduced = one.plus(number(-period))
                return choice(nonnegative(reduced), reduced, one, facts)
    return of_atom(Least(first, second))


def greatest(first: Linear, second: Linear, facts: Facts = NOTHING) -> Linear:
    """Returns the greater of two numbers."""
    return first.plus(second).minus(least(first, second, facts))


def wrapped(value: Linear, low: int, high: int, facts: Facts = NOTHING) -> Linear:
    """Returns the number in a range that is congruent to another modulo the range's size."""
    size = high - low + 1
    for atom, factor in list(value.terms.items()):
        if isinstance(atom, Wrapped) and atom.modulus % size == 0:
            value = value.plus(of_atom(atom), -factor).plus(atom.number, factor)
    least_, most = facts.bounds(value)
    turns = (least_ - low) // size
    if turns == (most - low) // size:
        return value.plus(number(-turns * size))
    return of_atom(Wrapped(value, low, high))


def choice(condition: Condition, then: Linear, other: Linear, facts: Facts = NOTHING) -> Linear:
    """Returns one number if a condition holds, otherwise another."""
    if isinstance(condition, bool):
        return then if condition else other
    if then == other:
        return then
    if isinstance(condition, Negated):
        condition, then, other = condition.condition, other, then
    period = other.minus(then).number
    if isinstance(condition, Nonnegative) and period is not None and condition.number == then:
        low, high = facts.bounds(other)
        if low >= 0 and 0 < period <= high < 2 * period:
            return remainder(other, period, facts)
    low, high = _hull(_under(condition, then, facts), _under(negation(condition), other, facts))
    return of_atom(Choice(condition, then, other, (low, high)))


def _hull(first: Range, second: Range) -> Range:
    return min(first[0], second[0]), max(first[1], second[1])


def _under(condition: Condition, value: Linear, facts: Facts) -> Range:
    """Returns the range of a number under a condition."""
    known = Facts()
    known.known = [*facts.known, *([condition.number] if isinstance(condition, Nonnegative) else [])]
    return -known.upper(value.times(-1), 1), known.upper(value, 1)


def product(first: Linear, second: Linear) -> Linear:
    """Returns a product."""
    if first.number is not None:
        return second.times(first.number)
    return first.times(second.number) if second.number is not None else of_atom(Product(first, second))


def held(place: Linear, table: tuple[int, ...], facts: Facts = NOTHING) -> Linear:
    """Returns the constant that a table holds at a place, which is inside of it."""
    low, high = facts.bounds(place)
    some = table[max(low, 0) : high + 1] or table
    range_ = min(some), max(some)
    return number(some[0]) if range_[0] == range_[1] else of_atom(Held(place, table, range_))


def recombined(value: Linear) -> Linear:
    """Recombines `k * c * (x / c) + k * (x % c)` into `k * x`."""
    for atom, factor in value.terms.items():
        if isinstance(atom, Remainder):
            whole = quotient(atom.dividend, atom.divisor)
            if whole.terms and all(
                value.terms.get(part, 0) == factor * atom.divisor * c for part, c in whole.terms.items()
            ):
                rest = value.plus(of_atom(atom), -factor).plus(whole, -factor * atom.divisor)
                return recombined(rest.plus(atom.dividend, factor))
    return value
