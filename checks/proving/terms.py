"""Symbolic integers and conditions: sums of multiples of atoms, over the numbers of invocations and of iterations.

Unlike index maps, they are what a kernel's integer ops compute: numbers that may wrap around, minima, choices. An
integer stands for itself, not for a residue: an index is not negative, an `i32` has its sign.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Range: TypeAlias = tuple[int, int]
"""The least and the greatest number that an integer may be."""


class Linear:
    """A sum of integer multiples of atoms, and a constant; immutable.

    Attributes:
        terms: The factor of each atom, not zero.
        constant: The constant.
        range: The numbers that it may be, from those that each atom may be.
        depth: How many choices are nested in it.
        variables: The variables in it, once `variables_of` was asked for them.
    """

    __slots__ = ("_hash", "constant", "depth", "range", "terms", "variables")

    def __init__(self, terms: Mapping[Atom, int] | None = None, constant: int = 0):
        self.terms: dict[Atom, int] = {atom: factor for atom, factor in (terms or {}).items() if factor}
        self.constant = constant
        low = high = constant
        for atom, factor in self.terms.items():
            least, most = atom.range
            low += factor * (least if factor > 0 else most)
            high += factor * (most if factor > 0 else least)
        self.range: Range = (low, high)
        self.depth: int = max((atom.depth for atom in self.terms), default=0)
        self.variables: frozenset[Variable | Unknown] | None = None
        self._hash: int | None = None

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """Returns `self + factor * other`."""
        terms = dict(self.terms)
        for atom, coefficient in other.terms.items():
            terms[atom] = terms.get(atom, 0) + factor * coefficient
        return Linear(terms, self.constant + factor * other.constant)

    def minus(self, other: Linear) -> Linear:
        """Returns `self - other`."""
        return self.plus(other, -1)

    def times(self, factor: int) -> Linear:
        """Returns `factor * self`."""
        return Linear({atom: factor * c for atom, c in self.terms.items()}, factor * self.constant)

    def over(self, divisor: int) -> Linear:
        """Returns `self / divisor`, where `divisor` divides every part."""
        return Linear({atom: c // divisor for atom, c in self.terms.items()}, self.constant // divisor)

    @property
    def number(self) -> int | None:
        """The number, if there are no atoms."""
        return None if self.terms else self.constant

    @property
    def atom(self) -> Atom | None:
        """The atom, if there is nothing else."""
        if self.constant == 0 and len(self.terms) == 1:
            atom, factor = next(iter(self.terms.items()))
            return atom if factor == 1 else None
        return None

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((frozenset(self.terms.items()), self.constant))
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Linear) and self.constant == other.constant and self.terms == other.terms

    def __repr__(self) -> str:
        if self.depth > 1:
            return "a chosen number"
        parts = [f"{'' if factor == 1 else f'{factor} * '}{atom}" for atom, factor in self.terms.items()]
        return " + ".join([*parts, *([str(self.constant)] if self.constant or not parts else [])])


class Atom:
    """What sums consist of: the numbers that it may be, and how many choices are nested in it."""

    range: Range
    depth: int = 0


@dataclass(frozen=True)
class Variable(Atom):
    """A number of an invocation or an iteration, or one of which nothing but its range is known.

    Attributes:
        key: What the variable stands for.
        range: The numbers that it may be.
        is_free: Whether it is data, of which not every number need occur.
        copy: The invocation that it belongs to, where two are compared.
    """

    key: Hashable = field()
    range: Range
    is_free: bool = False
    copy: int = 0

    def __repr__(self) -> str:
        return f"{self.key}{chr(39) * self.copy}"


class _Compound(Atom):
    """An atom of parts, by which it is compared; it keeps their hash, which takes time proportional to its size."""

    _parts: tuple[object, ...]
    _hash: int

    def _keep(self, range_: Range, *parts: object) -> None:
        depth = max((part.depth for part in parts if isinstance(part, Linear)), default=0)
        object.__setattr__(self, "depth", depth + isinstance(self, Choice))
        object.__setattr__(self, "range", range_)
        object.__setattr__(self, "_parts", parts)
        object.__setattr__(self, "_hash", hash((type(self), *parts)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(other) is type(self) and self._hash == other._hash and self._parts == other._parts


@dataclass(frozen=True, eq=False)
class Quotient(_Compound):
    """The floor of a quotient by a positive constant."""

    dividend: Linear
    divisor: int

    def __post_init__(self) -> None:
        low, high = self.dividend.range
        self._keep((low // self.divisor, high // self.divisor), self.dividend, self.divisor)

    def __repr__(self) -> str:
        return f"({self.dividend}) / {self.divisor}"


@dataclass(frozen=True, eq=False)
class Remainder(_Compound):
    """The remainder of the floor of a quotient by a positive constant."""

    dividend: Linear
    divisor: int

    def __post_init__(self) -> None:
        low, high = self.dividend.range
        same = low // self.divisor == high // self.divisor
        range_ = (low % self.divisor, high % self.divisor) if same else (0, self.divisor - 1)
        self._keep(range_, self.dividend, self.divisor)

    def __repr__(self) -> str:
        return f"({self.dividend}) % {self.divisor}"


@dataclass(frozen=True, eq=False)
class Least(_Compound):
    """The smaller of two numbers."""

    first: Linear
    second: Linear

    def __post_init__(self) -> None:
        x, y = self.first.range, self.second.range
        self._keep((min(x[0], y[0]), min(x[1], y[1])), self.first, self.second)

    def __repr__(self) -> str:
        return f"min({self.first}, {self.second})"


@dataclass(frozen=True, eq=False)
class Wrapped(_Compound):
    """The number of a range that is congruent to a number modulo the range's size."""

    number: Linear
    low: int
    high: int

    def __post_init__(self) -> None:
        self._keep((self.low, self.high), self.number, self.low, self.high)

    @property
    def modulus(self) -> int:
        """The size of the range."""
        return self.high - self.low + 1

    def __repr__(self) -> str:
        return f"wrapped({self.number})"


@dataclass(frozen=True, eq=False)
class Choice(_Compound):
    """One number if a condition holds, otherwise another."""

    condition: Condition
    then: Linear
    other: Linear
    range: Range

    def __post_init__(self) -> None:
        self._keep(self.range, self.condition, self.then, self.other)

    def __repr__(self) -> str:
        return f"({self.condition} ? {self.then} : {self.other})"


@dataclass(frozen=True, eq=False)
class Held(_Compound):
    """The constant that a table holds at a place."""

    place: Linear
    table: tuple[int, ...]
    range: Range

    def __post_init__(self) -> None:
        self._keep(self.range, self.place, self.table)

    def __repr__(self) -> str:
        return f"table[{self.place}]"


@dataclass(frozen=True, eq=False)
class Product(_Compound):
    """The product of two numbers that both vary."""

    first: Linear
    second: Linear

    def __post_init__(self) -> None:
        ends = [x * y for x in self.first.range for y in self.second.range]
        self._keep((min(ends), max(ends)), self.first, self.second)

    def __repr__(self) -> str:
        return f"({self.first}) * ({self.second})"


@dataclass(frozen=True)
class Nonnegative:
    """A number is not negative."""

    number: Linear

    def __repr__(self) -> str:
        return f"{self.number} >= 0"


@dataclass(frozen=True)
class Zero:
    """A number is zero."""

    number: Linear

    def __repr__(self) -> str:
        return f"{self.number} == 0"


@dataclass(frozen=True)
class Both:
    """Two conditions hold."""

    first: Condition
    second: Condition


@dataclass(frozen=True)
class Negated:
    """A condition doesn't hold."""

    condition: Condition


@dataclass(frozen=True)
class Unknown:
    """A condition on data."""

    key: Hashable
    copy: int = 0


Condition: TypeAlias = Nonnegative | Zero | Both | Negated | Unknown | bool
"""A condition; `bool` if it is decided."""


def number(value: int) -> Linear:
    """Returns a constant."""
    return Linear(constant=value)


def of_atom(atom: Atom) -> Linear:
    """Returns an atom as a sum."""
    return Linear({atom: 1})


def negation(condition: Condition) -> Condition:
    """Returns the negation of a condition."""
    match condition:
        case bool():
            return not condition
        case Negated():
            return condition.condition
        case Nonnegative():
            return Nonnegative(number(-1).minus(condition.number))
        case _:
            return Negated(condition)


def both(first: Condition, second: Condition) -> Condition:
    """Returns the conjunction of two conditions."""
    if isinstance(first, bool):
        return second if first else False
    if isinstance(second, bool):
        return first if second else False
    return Both(first, second)


def either(first: Condition, second: Condition) -> Condition:
    """Returns the disjunction of two conditions."""
    return negation(both(negation(first), negation(second)))


def nonnegative(value: Linear) -> Condition:
    """Returns the condition that a number is not negative, decided if its range decides it."""
    low, high = value.range
    return True if low >= 0 else False if high < 0 else Nonnegative(value)


def zero(value: Linear) -> Condition:
    """Returns the condition that a number is zero, decided if its range decides it."""
    low, high = value.range
    return True if low == high == 0 else False if low > 0 or high < 0 else Zero(value)


def parts_of(atom: Atom) -> tuple[Linear, ...]:
    """Returns the sums in an atom, those in its condition not included."""
    match atom:
        case Quotient() | Remainder():
            return (atom.dividend,)
        case Least() | Product():
            return (atom.first, atom.second)
        case Wrapped():
            return (atom.number,)
        case Held():
            return (atom.place,)
        case Choice():
            return (atom.then, atom.other)
        case _:
            return ()


def variables_of(value: Linear | Condition) -> frozenset[Variable | Unknown]:
    """Returns the variables and unknown conditions in a sum or a condition."""
    match value:
        case Linear():
            if value.variables is None:
                parts = [part for atom in value.terms for part in parts_of(atom)]
                choices = [atom.condition for atom in value.terms if isinstance(atom, Choice)]
                own = frozenset(atom for atom in value.terms if isinstance(atom, Variable))
                value.variables = own.union(*map(variables_of, parts), *map(variables_of, choices))
            return value.variables
        case Nonnegative() | Zero():
            return variables_of(value.number)
        case Both():
            return variables_of(value.first) | variables_of(value.second)
        case Negated():
            return variables_of(value.condition)
        case Unknown():
            return frozenset((value,))
        case _:
            return frozenset()
