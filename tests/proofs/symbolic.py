"""Runs Python functions on symbolic numbers, along every path, and has z3 prove what holds of their results.

A function that only calculates and compares, such as a rule of a pass, runs unchanged on `Number`s: a comparison whose
outcome the path so far leaves open is taken both ways, in two runs. `prove` asks for a theorem on each path, so it
holds for all numbers that satisfy the assumptions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeAlias

z3: Any = import_module("z3")
"""The solver, without its types, which say of few operators that there are."""

Term: TypeAlias = Any
"""An expression of the solver."""
Theorem: TypeAlias = Any
"""One that holds or doesn't, or a bool."""

EFFORT = 40_000_000
"""The steps after which the solver gives up, the same on every machine: ten seconds of one core, more or less."""
BRANCH_EFFORT = 500_000
"""Those for deciding whether a path is possible; an undecided one is taken."""
TIMEOUT = 100_000
"""The milliseconds after which it gives up in any case."""
WIDE = 128
"""The bits of numbers that are shifted or masked, of at most 64 bits: none of their results wraps around."""


class Refuted(AssertionError):
    """The solver found numbers for which a theorem does not hold, or none and no proof."""


class Path:
    """The assumptions of one run, the comparisons it took, and the runs that are left."""

    def __init__(self, choices: tuple[bool, ...] = ()):
        self.assumed: list[Theorem] = []
        self.choices = choices
        self.taken: list[bool] = []
        self.left: list[tuple[bool, ...]] = []
        self.proved = 0
        self._names = 0
        self._quotients: dict[tuple[Term, Term], tuple[Number, Number]] = {}

    def fresh(self, name: str) -> Number:
        """Returns a new integer, of which nothing is known."""
        self._names += 1
        return Number(z3.Int(f"{name}.{self._names}"))

    def assume(self, *facts: Theorem) -> None:
        """Assumes facts for the rest of the run."""
        self.assumed += [fact if isinstance(fact, z3.BoolRef) else z3.BoolVal(fact) for fact in facts]

    def prove(self, theorem: Theorem, what: str) -> None:
        """Proves a theorem from what is assumed and was taken; it is assumed from then on.

        Raises:
            Refuted: With a counterexample, if the solver finds one.
        """
        solver = self._solver(EFFORT)
        solver.add(z3.Not(theorem))
        answer = solver.check()
        self.proved += 1
        if answer == z3.sat:
            raise Refuted(f"{what}: {counterexample(solver.model())}")
        if answer != z3.unsat:
            raise Refuted(f"{what}: the solver finds neither a proof nor a counterexample of {theorem}")
        self.assume(theorem)

    def follows(self, condition: Theorem) -> bool:
        """Returns whether a condition is known to hold."""
        return not self._is_possible(z3.Not(condition))

    def holds(self, condition: Theorem) -> bool:
        """Returns the outcome of a condition, or one of its outcomes and leaves the other to a later run."""
        possible = [self._is_possible(condition), self._is_possible(z3.Not(condition))]
        if not any(possible):
            raise Unreachable
        if all(possible):
            position = len(self.taken)
            if position == len(self.choices):
                self.left.append((*self.taken, False))
                self.choices = (*self.choices, True)
            outcome = self.choices[position]
            self.taken.append(outcome)
        else:
            outcome = possible[0]
        self.assume(condition if outcome else z3.Not(condition))
        return outcome

    def divided(self, dividend: Number, divisor: Number) -> tuple[Number, Number]:
        """Returns the quotient and the remainder of a division, as Python's for a positive divisor."""
        key = dividend.term, divisor.term
        if key not in self._quotients:
            self.prove(divisor.term > 0, "what is divided by is positive")
            quotient, remainder = self.fresh("quotient"), self.fresh("remainder")
            self.assume(
                dividend.term == divisor.term * quotient.term + remainder.term,
                remainder.term >= 0,
                remainder.term < divisor.term,
            )
            for (x, y), (other, _) in self._quotients.items():
                self.assume(
                    *(
                        monotone(*lemma)
                        for lemma in (
                            (x, dividend.term, y, divisor.term, other.term, quotient.term),
                            (dividend.term, x, divisor.term, y, quotient.term, other.term),
                        )
                    )
                )
            self._quotients[key] = quotient, remainder
        return self._quotients[key]

    def prove_division(self, dividend: Number, divisor: Number, quotient: Number, remainder: Number, what: str) -> None:
        """Proves what a division gives, by parts that it must have: a test proves that there is one such pair."""
        self.prove(divisor.term > 0, f"{what}: divisor")
        self.prove(within(remainder.term, 0, divisor - 1), f"{what}: range")
        self.prove(dividend.term == (divisor * quotient + remainder).term, f"{what}: sum")
        self.assume(*unique((dividend // divisor, dividend % divisor), (quotient, remainder)))

    def _is_possible(self, condition: Theorem) -> bool:
        solver = self._solver(BRANCH_EFFORT)
        solver.add(condition)
        return solver.check() != z3.unsat

    def _solver(self, effort: int) -> Any:
        solver = limited(effort)
        solver.add(*self.assumed)
        return solver


def limited(effort: int = EFFORT) -> Any:
    """Returns a solver that gives up after so many steps, whatever the machine does beside them."""
    solver = z3.Solver()
    solver.set("rlimit", effort)
    solver.set("timeout", TIMEOUT)
    solver.set("random_seed", 0)
    return solver


def monotone(x: Term, other: Term, divisor: Term, same: Term, quotient: Term, larger: Term) -> Theorem:
    """States that quotients by one divisor are in the order of what is divided, as a test proves."""
    return z3.Implies(z3.And(divisor == same, x <= other), quotient <= larger)


def unique(parts: tuple[Number, Number], others: tuple[Number, Number]) -> list[Theorem]:
    """States that two quotients are equal, and two remainders."""
    return [x.term == y.term for x, y in zip(parts, others, strict=True)]


class Unreachable(Exception):
    """The path taken is not possible: a branch that the solver could not rule out in time."""


_paths: list[Path] = []


def path() -> Path:
    """Returns the path of the run that is in progress."""
    return _paths[-1]


@contextmanager
def _running(current: Path) -> Iterator[Path]:
    _paths.append(current)
    try:
        yield current
    finally:
        _paths.pop()


def explore(run: Callable[[Path], None]) -> int:
    """Runs a function along every path; returns the number of theorems proved on them."""
    left: list[tuple[bool, ...]] = [()]
    proved = 0
    while left:
        with _running(Path(left.pop())) as current:
            try:
                run(current)
            except Unreachable:
                continue
            finally:
                left += current.left
            proved += current.proved
    assert proved, "no path proves anything"
    return proved


def counterexample(model: Any) -> str:
    """Returns a model's values by name."""
    return ", ".join(sorted(f"{name} = {model[name]}" for name in model.decls() if name.arity() == 0))


def whole(number: Any) -> Any:
    """Is `int`, of a `Number` too."""
    return number if isinstance(number, Number) else int(number)


class Number:
    """An integer that stands for all, as a term of z3: of unbounded integers, or of words of `WIDE` bits."""

    def __init__(self, term: Term | int):
        self.term = z3.IntVal(term) if isinstance(term, int) else term

    def of(self, other: object) -> Term:
        """Returns another number as a term of the same kind."""
        if isinstance(other, Number):
            return other.term
        assert isinstance(other, int), f"{other!r} is not an integer"
        return z3.BitVecVal(other, WIDE) if self.is_word else z3.IntVal(other)

    @property
    def is_word(self) -> bool:
        """Whether the number is a word."""
        return z3.is_bv(self.term)

    def __add__(self, other: object) -> Number:
        return Number(self.term + self.of(other))

    def __radd__(self, other: object) -> Number:
        return self + other

    def __sub__(self, other: object) -> Number:
        return Number(self.term - self.of(other))

    def __rsub__(self, other: object) -> Number:
        return Number(self.of(other) - self.term)

    def __mul__(self, other: object) -> Number:
        return Number(self.term * self.of(other))

    def __rmul__(self, other: object) -> Number:
        return self * other

    def __neg__(self) -> Number:
        return Number(-self.term)

    def __floordiv__(self, other: object) -> Number:
        return path().divided(self, Number(self.of(other)))[0]

    def __rfloordiv__(self, other: int) -> Number:
        return Number(other) // self

    def __mod__(self, other: object) -> Number:
        return path().divided(self, Number(self.of(other)))[1]

    def __lshift__(self, other: object) -> Number:
        return Number(self.term << self.of(other))

    def __rshift__(self, other: object) -> Number:
        return Number(z3.LShR(self.term, self.of(other)))

    def __and__(self, other: object) -> Number:
        return Number(self.term & self.of(other))

    def __lt__(self, other: object) -> bool:
        return path().holds(below(self.term, self.of(other)))

    def __le__(self, other: object) -> bool:
        return path().holds(z3.Not(below(self.of(other), self.term)))

    def __gt__(self, other: object) -> bool:
        return path().holds(below(self.of(other), self.term))

    def __ge__(self, other: object) -> bool:
        return path().holds(z3.Not(below(self.term, self.of(other))))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number | int) and path().holds(self.term == self.of(other))

    def __hash__(self) -> int:
        return self.term.hash()

    def __bool__(self) -> bool:
        return self != 0

    def __str__(self) -> str:
        return str(self.term)


def term(number: Number | int) -> Term:
    """Returns the term of a number that a function may have returned as a plain integer."""
    return number.term if isinstance(number, Number) else z3.IntVal(number)


def below(x: Term, y: Term) -> Theorem:
    """States that a number is smaller than another."""
    return z3.ULT(x, y) if z3.is_bv(x) else x < y


def within(number: Term, low: Number | int, high: Number | int) -> Theorem:
    """States that a number is in a range."""
    kind = Number(number)
    return z3.And(z3.Not(below(number, kind.of(low))), z3.Not(below(kind.of(high), number)))


def _merged(choose: Callable[[Term, Term], Theorem], numbers: tuple[Any, ...]) -> Number:
    first, *others = numbers[0] if len(numbers) == 1 else numbers
    result = Number(first) if isinstance(first, int) else first
    for other in others:
        y = result.of(other)
        result = Number(z3.If(choose(result.term, y), result.term, y))
    return result


def least(*numbers: Any) -> Number:
    """Is `min`, without a path for each outcome."""
    return _merged(below, numbers)


def most(*numbers: Any) -> Number:
    """Is `max`, without a path for each outcome."""
    return _merged(lambda x, y: below(y, x), numbers)
