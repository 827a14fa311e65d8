"""The engine of the proofs: the lemma that it takes for granted, the paths that it follows, what it refutes."""

from __future__ import annotations

import pytest
from symbolic import Number, Path, Refuted, explore, monotone, term, unique, z3


def test_quotients_are_monotone() -> None:
    x, other, divisor, quotient, larger, rest, more = z3.Ints("x other divisor quotient larger rest more")
    solver = z3.Solver()
    solver.add(
        divisor > 0,
        *(x == divisor * quotient + rest, rest >= 0, rest < divisor),
        *(other == divisor * larger + more, more >= 0, more < divisor),
        z3.Not(monotone(x, other, divisor, divisor, quotient, larger)),
    )
    assert solver.check() == z3.unsat


def test_divisions_are_unique() -> None:
    x, divisor, quotient, other, rest, more = z3.Ints("x divisor quotient other rest more")
    solver = z3.Solver()
    solver.add(
        *(x == divisor * quotient + rest, rest >= 0, rest < divisor),
        *(x == divisor * other + more, more >= 0, more < divisor),
        z3.Not(z3.And(*unique((Number(quotient), Number(rest)), (Number(other), Number(more))))),
    )
    assert solver.check() == z3.unsat


def test_every_path_is_followed() -> None:
    """Of three outcomes the last is impossible under what is assumed."""
    signs: list[int] = []

    def run(path: Path) -> None:
        x = path.fresh("x")
        path.assume(x.term >= 0)
        signs.append(1 if x > 0 else 0 if x == 0 else -1)
        path.prove(term(x) == 0 if signs[-1] == 0 else term(x) > 0, "sign")

    assert explore(run) == 2
    assert sorted(signs) == [0, 1]


def test_a_wrong_theorem_has_a_counterexample() -> None:
    def run(path: Path) -> None:
        x = path.fresh("x")
        path.prove(term(abs_(x)) > 0, "absolute values")

    def abs_(x: Number) -> Number:
        return -x if x < 0 else x

    with pytest.raises(Refuted, match=r"absolute values: x\.1 = 0"):
        explore(run)


def test_dividing_by_what_may_be_zero_is_refuted() -> None:
    with pytest.raises(Refuted, match=r"what is divided by is positive"):
        explore(lambda path: path.prove(term(path.fresh("x") // path.fresh("y")) == 0, "quotients"))
