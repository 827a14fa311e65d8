"""How many elements a store reaches: the invocations and iterations that execute it, counted without running any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tensorgrad.checks.proving.facts import Facts
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
    Remainder,
    Unknown,
    Variable,
    Wrapped,
    Zero,
    variables_of,
)

Numbers: TypeAlias = NDArray[np.int64]
Truths: TypeAlias = NDArray[np.bool_]

MOST = 1 << 22
"""The number of combinations of a group of variables that are enumerated."""


def count(address: Linear, facts: Facts) -> int:
    """Returns the number of combinations of an address's variables under which a store is executed.

    Args:
        address: The address.
        facts: What holds at the store.

    Raises:
        ValueError: It depends on data, or there are too many combinations.
    """
    chosen = {variable for variable in variables_of(address) if isinstance(variable, Variable)}
    total = 1
    for group, conditions in _groups(chosen, facts.conditions):
        if any(isinstance(variable, Unknown) or variable.is_free for variable in group):
            raise ValueError("whether it is stored depends on data")
        known = [variable for variable in group if isinstance(variable, Variable)]
        total *= _combinations(known, [v for v in known if v in chosen], conditions)
    return total


def _groups(
    chosen: set[Variable], conditions: Sequence[Condition]
) -> list[tuple[set[Variable | Unknown], list[Condition]]]:
    """Returns the variables that conditions connect, with these conditions."""
    groups: list[tuple[set[Variable | Unknown], list[Condition]]] = [({variable}, []) for variable in chosen]
    for condition in conditions:
        used = set(variables_of(condition))
        touching = [group for group in groups if group[0] & used]
        groups = [group for group in groups if not group[0] & used]
        groups.append(
            (used.union(*(group for group, _ in touching)), [c for _, some in touching for c in some] + [condition])
        )
    return groups


def _combinations(variables: list[Variable], chosen: list[Variable], conditions: list[Condition]) -> int:
    """Returns how many combinations of the chosen variables fulfil conditions, with some numbers for the others."""
    short = _prefix(variables, chosen, conditions)
    if short is not None:
        return short
    extents = [variable.range[1] - variable.range[0] + 1 for variable in variables]
    if prod(extents) > MOST:
        raise ValueError(f"{prod(extents)} combinations are too many to count")
    grids = np.meshgrid(
        *(np.arange(v.range[0], v.range[1] + 1, dtype=np.int64) for v in variables), indexing="ij", sparse=True
    )
    numbers = dict(zip(variables, grids, strict=True))
    holds: Truths = np.ones(extents, np.bool_)
    for condition in conditions:
        holds = holds & truths_of(condition, numbers)
    axes = tuple(axis for axis, variable in enumerate(variables) if variable not in chosen)
    return int(holds.any(axis=axes).sum())


def _prefix(variables: list[Variable], chosen: list[Variable], conditions: list[Condition]) -> int | None:
    """Returns the number of combinations below bounds of a sum that counts them, digit by digit, if it is one."""
    if len(chosen) < len(variables):
        return None
    if not conditions:
        return prod(variable.range[1] - variable.range[0] + 1 for variable in variables)
    if not all(isinstance(condition, Nonnegative) for condition in conditions):
        return None
    numbers = [condition.number for condition in conditions if isinstance(condition, Nonnegative)]
    first = numbers[0]
    if any(number.terms != first.terms for number in numbers) or set(first.terms) != set(variables):
        return None
    size = 1
    for variable, factor in sorted(first.terms.items(), key=lambda term: -term[1]):
        if -factor != size or variable.range[0] != 0:
            return None
        size *= variable.range[1] + 1
    return max(min(size, min(number.constant for number in numbers) + 1), 0)


def numbers_of(value: Linear, numbers: Mapping[Variable, Numbers]) -> Numbers:
    """Returns a sum for all numbers of its variables."""
    total: Numbers = np.asarray(value.constant, np.int64)
    for atom, factor in value.terms.items():
        total = total + factor * _atom(atom, numbers)
    return total


def _atom(atom: Atom, numbers: Mapping[Variable, Numbers]) -> Numbers:
    match atom:
        case Variable():
            return numbers[atom]
        case Quotient():
            return numbers_of(atom.dividend, numbers) // atom.divisor
        case Remainder():
            return numbers_of(atom.dividend, numbers) % atom.divisor
        case Least():
            return np.minimum(numbers_of(atom.first, numbers), numbers_of(atom.second, numbers))
        case Wrapped():
            return _wrapped(atom, numbers_of(atom.number, numbers))
        case Choice():
            truth = truths_of(atom.condition, numbers)
            return np.where(truth, numbers_of(atom.then, numbers), numbers_of(atom.other, numbers))
        case Held():
            return np.take(np.asarray(atom.table, np.int64), numbers_of(atom.place, numbers), mode="clip")
        case Product():
            return numbers_of(atom.first, numbers) * numbers_of(atom.second, numbers)
        case _:
            raise ValueError(f"{atom} is no number")


def _wrapped(atom: Wrapped, number: Numbers) -> Numbers:
    if atom.modulus < 1 << 62:
        return (number - atom.low) % atom.modulus + atom.low
    if number.min() < atom.low:
        raise ValueError("an index of 64 bits wraps around")
    return number


def truths_of(condition: Condition, numbers: Mapping[Variable, Numbers]) -> Truths:
    """Returns whether a condition holds, for all numbers of its variables."""
    match condition:
        case bool():
            return np.asarray(condition)
        case Nonnegative():
            return np.asarray(numbers_of(condition.number, numbers) >= 0)
        case Zero():
            return np.asarray(numbers_of(condition.number, numbers) == 0)
        case Both():
            return truths_of(condition.first, numbers) & truths_of(condition.second, numbers)
        case Negated():
            return ~truths_of(condition.condition, numbers)
        case Unknown():
            raise ValueError("whether it is stored depends on data")
