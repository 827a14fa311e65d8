"""Whether two accesses may touch one element: mixed radix, and what equal addresses imply."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tensorgrad.checks.proving.facts import Facts, quotient, recombined
from tensorgrad.checks.proving.terms import (
    Atom,
    Least,
    Linear,
    Quotient,
    Range,
    Remainder,
    number,
    of_atom,
)


@dataclass(frozen=True)
class Group(Atom):
    """A sum whose range is less than that of its atoms, as a condition limits it."""

    number: Linear
    range: Range


def grouped(value: Linear, facts: Facts) -> Linear:
    """Returns a sum in which the sums that conditions limit are atoms."""
    sums: set[Linear] = set()
    for fact in facts.known:
        if len(fact.terms) > 1 and all(factor < 0 for factor in fact.terms.values()):
            common = math.gcd(*fact.terms.values())
            sums.add(Linear({atom: -factor // common for atom, factor in fact.terms.items()}))
    for part in sorted(sums, key=lambda part: -len(part.terms)):
        atom, factor = next(iter(part.terms.items()))
        times = value.terms.get(atom, 0) // factor
        if times and all(value.terms.get(atom, 0) == times * factor for atom, factor in part.terms.items()):
            value = value.plus(part, -times).plus(of_atom(Group(part, facts.bounds(part))), times)
    return value


def _range(atom: Atom, facts: Facts) -> Range:
    return atom.range if isinstance(atom, Group) else facts.bounds(of_atom(atom))


def _digits(value: Linear, facts: Facts) -> Iterator[Atom]:
    """Yields the atoms that a sum determines: the digits of a number in mixed radix."""
    if len(value.terms) == 1:
        yield next(iter(value.terms))
        return
    common = math.gcd(*value.terms.values())
    value = value if common < 2 else Linear({atom: factor // common for atom, factor in value.terms.items()})
    for radix in sorted({abs(factor) for factor in value.terms.values()} - {1}):
        high = {atom: factor for atom, factor in value.terms.items() if factor % radix == 0}
        low = {atom: factor for atom, factor in value.terms.items() if factor % radix}
        span = 0
        for atom, factor in low.items():
            least, most = _range(atom, facts)
            span += abs(factor) * (most - least)
        if high and low and span < radix:
            yield from _digits(Linear(low), facts)
            yield from _digits(Linear(high), facts)
            return


def zeros(difference: Linear, facts: Facts) -> list[Linear] | None:
    """Returns the sums that are 0 where a difference is: its digits in mixed radix; `None` if it never is."""
    low, high = facts.bounds(difference)
    if low > 0 or high < 0:
        return None
    common = math.gcd(*difference.terms.values())
    if difference.constant % max(common, 1):
        return None
    difference = difference.over(common) if common > 1 else difference
    for radix in sorted({abs(factor) for factor in difference.terms.values()} - {1}):
        digit = Linear({atom: factor for atom, factor in difference.terms.items() if factor % radix})
        constant = difference.constant % radix
        for below in (digit.plus(number(constant)), digit.plus(number(constant - radix))):
            low, high = facts.bounds(below)
            if -radix < low and high < radix:
                parts = zeros(below, facts), zeros(difference.minus(below), facts)
                return None if parts[0] is None or parts[1] is None else parts[0] + parts[1]
    return [difference]


def determined(values: Iterable[Linear], facts: Facts) -> set[Atom]:
    """Returns the atoms that are equal wherever some sums are, for invocations that fulfil the facts."""
    equal: set[Atom] = set()
    waiting = list(values)
    tried: set[Linear] = set()
    while waiting:
        value = waiting.pop()
        rest = Linear({atom: factor for atom, factor in value.terms.items() if atom not in equal})
        if rest in tried:
            continue
        tried.add(rest)
        new = [atom for atom in (*_digits(grouped(rest, facts), facts), *_digits(rest, facts)) if atom not in equal]
        if new:
            equal.update(new)
            waiting += [value, *(atom.number for atom in new if isinstance(atom, Group)), *_recovered(equal, facts)]
    return equal


def _recovered(equal: set[Atom], facts: Facts) -> Iterator[Linear]:
    """Yields sums that equal atoms determine: dividends by quotients and remainders, and parts of minima.

    A multiple of a number that is less than that above the minimum of it and another one is the next multiple.
    """
    quotients = [atom for atom in equal if isinstance(atom, Quotient)]
    for atom in list(equal):
        if isinstance(atom, Least):
            for part in (atom.first, atom.second):
                step = math.gcd(*part.terms.values())
                if step and facts.upper(part.minus(of_atom(atom))) < step:
                    yield part
        if isinstance(atom, Remainder):
            whole = quotient(atom.dividend, atom.divisor)
            if all(part in equal for part in whole.terms) or any(
                _is_quotient(other, atom.dividend, atom.divisor, facts) for other in quotients
            ):
                yield atom.dividend


def _is_quotient(atom: Quotient, dividend: Linear, divisor: int, facts: Facts) -> bool:
    """Returns whether a quotient is that of another dividend and divisor: of `(k * x + r) / (k * c)` and `x / c`."""
    if atom.divisor % divisor:
        return False
    times = atom.divisor // divisor
    low, high = facts.bounds(recombined(atom.dividend.plus(dividend, -times)))
    return low >= 0 and high < times
