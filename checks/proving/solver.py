"""What affine reasoning leaves open, asked of z3: whether numbers exist that fulfil conditions."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

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
)

EFFORT = 2_000_000
"""z3's count of steps after which a question counts as open, about a second: unlike time, it is the same each time."""


def is_installed() -> bool:
    """Returns whether z3 can be imported; a process that has opened an adapter must not, as Mesa loads another one."""
    return find_spec("z3") is not None


class Question:
    """Whether numbers exist that fulfil conditions.

    Attributes:
        answer: The numbers, by the names of variables, if there are any; `None` if it is proved that there are none.
        is_open: Whether z3 didn't find out in time.
    """

    def __init__(self, conditions: Iterable[Condition]):
        self._z3: Any = import_module("z3")
        self._solver = self._z3.Solver()
        self._solver.set("rlimit", EFFORT)
        self._atoms: dict[Atom, Any] = {}
        self._unknown: dict[Unknown, Any] = {}
        for condition in conditions:
            self._solver.add(self._truth(condition))
        result = self._solver.check()
        self.is_open = result == self._z3.unknown
        self.answer: dict[str, int] | None = None
        if result == self._z3.sat:
            model = self._solver.model()
            self.answer = {
                str(atom): model.eval(term, model_completion=True).as_long()
                for atom, term in self._atoms.items()
                if isinstance(atom, Variable)
            }

    def _truth(self, condition: Condition) -> Any:
        match condition:
            case bool():
                return self._z3.BoolVal(condition)
            case Nonnegative():
                return self._number(condition.number) >= 0
            case Zero():
                return self._number(condition.number) == 0
            case Both():
                return self._z3.And(self._truth(condition.first), self._truth(condition.second))
            case Negated():
                return self._z3.Not(self._truth(condition.condition))
            case Unknown():
                if condition not in self._unknown:
                    self._unknown[condition] = self._z3.Bool(f"unknown{len(self._unknown)}")
                return self._unknown[condition]

    def _number(self, value: Linear) -> Any:
        terms = [self._term(atom) * factor for atom, factor in value.terms.items()]
        return self._z3.Sum([*terms, self._z3.IntVal(value.constant)])

    def _term(self, atom: Atom) -> Any:
        term = self._atoms.get(atom)
        if term is None:
            term = self._atoms[atom] = self._defined(atom)
        return term

    def _integer(self, low: int, high: int) -> Any:
        term = self._z3.FreshInt()
        self._solver.add(low <= term, term <= high)
        return term

    def _defined(self, atom: Atom) -> Any:
        match atom:
            case Quotient():
                whole = self._integer(*atom.range)
                rest = self._number(atom.dividend) - whole * atom.divisor
                self._solver.add(rest >= 0, rest < atom.divisor)
                return whole
            case Remainder():
                return self._number(atom.dividend) - self._term(Quotient(atom.dividend, atom.divisor)) * atom.divisor
            case Least():
                first, second = self._number(atom.first), self._number(atom.second)
                return self._z3.If(first <= second, first, second)
            case Wrapped():
                term = self._integer(atom.low, atom.high)
                turns = self._z3.FreshInt()
                self._solver.add(term == self._number(atom.number) + turns * atom.modulus)
                return term
            case Choice():
                truth = self._truth(atom.condition)
                return self._z3.If(truth, self._number(atom.then), self._number(atom.other))
            case Held():
                term = self._integer(*atom.range)
                place = self._number(atom.place)
                inside = range(max(atom.place.range[0], 0), min(atom.place.range[1] + 1, len(atom.table)))
                entries = [self._z3.And(place == index, term == atom.table[index]) for index in inside]
                self._solver.add(self._z3.Or(*entries))
                return term
            case Product():
                return self._number(atom.first) * self._number(atom.second)
            case _:
                return self._integer(*atom.range)
