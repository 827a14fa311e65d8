"""What facts say of sums, compared with all numbers of their variables."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tensorgrad.checks.proving import facts as reasoning
from tensorgrad.checks.proving.counting import numbers_of, truths_of
from tensorgrad.checks.proving.facts import Facts
from tensorgrad.checks.proving.terms import (
    Condition,
    Linear,
    Variable,
    both,
    negation,
    nonnegative,
    number,
    of_atom,
    zero,
)


class Expressions:
    """Random sums and conditions of three variables, simplified by facts of which a condition may be one."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        lows = self.random.choices((0, 0, 0, -3), k=3)
        self.variables = [
            Variable(name, (low, low + self.random.randint(0, 9))) for name, low in zip("xyz", lows, strict=True)
        ]
        ranges = [np.arange(low, high + 1, dtype=np.int64) for low, high in (v.range for v in self.variables)]
        self.numbers = dict(zip(self.variables, np.meshgrid(*ranges, indexing="ij"), strict=True))
        self.reached = np.ones([len(part) for part in ranges], np.bool_)
        self.facts = Facts()

    def values(self, value: Linear) -> np.ndarray:
        return np.broadcast_to(numbers_of(value, self.numbers), self.reached.shape)[self.reached]

    def truths(self, condition: Condition) -> np.ndarray:
        return np.broadcast_to(truths_of(condition, self.numbers), self.reached.shape)[self.reached]

    def assume(self, condition: Condition) -> None:
        if self.truths(condition).any():
            self.facts.add(condition)
            self.reached &= np.broadcast_to(truths_of(condition, self.numbers), self.reached.shape)

    def sum(self, depth: int) -> Linear:
        choice = self.random.choice
        if depth == 0:
            return choice([*map(of_atom, self.variables), number(self.random.randint(-5, 20))])
        first, second, divisor = self.sum(depth - 1), self.sum(depth - 1), choice((2, 3, 4, 8))
        match choice(("sum", "sum", "quotient", "remainder", "least", "wrapped", "choice")):
            case "sum":
                return first.times(choice((-4, -2, -1, 1, 2, 3, 8))).plus(second, choice((-1, 1, 2)))
            case "quotient":
                return reasoning.quotient(first, divisor, self.facts)
            case "remainder":
                return reasoning.remainder(first, divisor, self.facts)
            case "least":
                return reasoning.least(first, second, self.facts)
            case "wrapped":
                return reasoning.wrapped(first, *choice(((0, 15), (-8, 7))), self.facts)
            case _:
                return reasoning.choice(self.facts.decided(self.condition(0)), first, second, self.facts)

    def condition(self, depth: int) -> Condition:
        match self.random.choice(("nonnegative", "nonnegative", "zero", "negation", "both")):
            case "nonnegative":
                return nonnegative(self.sum(depth))
            case "zero":
                return zero(self.sum(depth))
            case "negation":
                return negation(nonnegative(self.sum(depth)))
            case _:
                return both(nonnegative(self.sum(depth)), nonnegative(self.sum(depth)))


@pytest.mark.parametrize("seed", range(8))
def test_sums_and_conditions_are_what_facts_say(seed: int) -> None:
    for number_ in range(50):
        some = Expressions(50 * seed + number_)
        for _ in range(2):
            some.assume(some.condition(1))
        facts, first, second, condition = some.facts, some.sum(2), some.sum(1), some.condition(2)
        x, y, holds = some.values(first), some.values(second), some.truths(condition)
        for result, expected in (
            (facts.simplified(first), x),
            (reasoning.quotient(first, 4, facts), x // 4),
            (reasoning.remainder(first, 4, facts), x % 4),
            (reasoning.least(first, second, facts), np.minimum(x, y)),
            (reasoning.wrapped(first, 0, 15, facts), x % 16),
            (reasoning.choice(facts.decided(condition), first, second, facts), np.where(holds, x, y)),
        ):
            low, high = facts.bounds(result)
            assert np.array_equal(some.values(result), expected), result
            assert low <= expected.min() and expected.max() <= high, result
        assert np.array_equal(some.truths(facts.decided(condition)), holds), condition


def test_the_remainder_of_a_negative_number_may_be_greater() -> None:
    distance = Linear({Variable("x", (0, 100)): -1}, 100)
    assert Facts().upper(reasoning.remainder(distance, 8)) == 7
