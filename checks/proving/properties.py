"""The properties of a kernel in a dispatch, each proved, refuted by an example, or left open for a reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import cast

from xdsl.dialects import memref, scf
from xdsl.dialects.builtin import IntegerAttr, MemRefType
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from tensorgrad.checks.proving import solver
from tensorgrad.checks.proving.accesses import Access, Accesses, Meeting, Uniformity
from tensorgrad.checks.proving.branches import without_choices
from tensorgrad.checks.proving.counting import count
from tensorgrad.checks.proving.facts import NOTHING, Facts, Renaming
from tensorgrad.checks.proving.separate import determined, zeros
from tensorgrad.checks.proving.symbols import Symbols
from tensorgrad.checks.proving.tables import stored_before
from tensorgrad.checks.proving.terms import (
    Condition,
    Linear,
    Unknown,
    Variable,
    both,
    negation,
    nonnegative,
    number,
    of_atom,
    variables_of,
    zero,
)
from tensorgrad.dialects.cpu import BELOW
from tensorgrad.dialects.locations import line_in


class Property(Enum):
    """What is proved of a kernel."""

    BOUNDS = "bounds"
    """Each access is within its memory."""
    RACES = "races"
    """No invocation writes what another one uses, unless a barrier separates them."""
    BARRIERS = "barriers"
    """All invocations of a workgroup reach the same barriers."""
    RESULTS = "results"
    """Each result is written wholly."""


class Status(Enum):
    """Whether a property holds."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Verdict:
    """What is known of a property.

    Attributes:
        property: The property.
        status: Whether it holds.
        reason: An example where it doesn't, or why it is open.
        by_solver: Whether affine reasoning was not enough.
    """

    property: Property
    status: Status
    reason: str = ""
    by_solver: bool = False


@dataclass(frozen=True)
class Instances:
    """How the instances of a kernel that run side by side differ.

    Attributes:
        numbers: The variables that differ between instances, some of them.
        local: Those of `numbers` that differ between instances which share memory and wait for each other.
        distinct: Further conditions on the variables of two different instances, the second renamed.
        whole: The numbers of the one instance that does all the work, if there may be one.
    """

    numbers: tuple[Variable, ...]
    local: tuple[Variable, ...]
    distinct: tuple[Condition, ...] = ()
    whole: tuple[tuple[Variable, Linear], ...] = ()


@dataclass
class Subject:
    """A kernel in a dispatch.

    Attributes:
        symbols: What its integers are.
        accesses: Its accesses.
        uniformity: Its uniform values.
        instances: How its instances differ.
        assumptions: What holds of each instance.
        use_solver: Whether to ask z3 what affine reasoning leaves open.
    """

    symbols: Symbols
    accesses: Accesses
    uniformity: Uniformity
    instances: Instances
    assumptions: tuple[Condition, ...]
    use_solver: bool

    def facts(self, access: Access) -> Facts:
        """Returns what holds at an access."""
        known = self._facts.get(access.conditions)
        if known is None:
            known = self._facts[access.conditions] = Facts((*self.assumptions, *access.conditions))
        return known

    def renaming(self, same: Mapping[Variable, Linear]) -> Renaming:
        """Returns what replaces the variables of the second of two instances."""
        key = frozenset(same.items())
        return self._renamings.setdefault(key, Renaming(same))

    def __post_init__(self) -> None:
        self._renamings: dict[frozenset[tuple[Variable, Linear]], Renaming] = {}
        self._facts: dict[tuple[Condition, ...], Facts] = {}
        self.whole = Renaming(dict(self.instances.whole), keeps=True)


def verdicts(subject: Subject) -> Iterator[Verdict]:
    """Yields what is known of each property."""
    yield _bounds(subject)
    yield _races(subject)
    yield _barriers(subject)
    yield _results(subject)


ENOUGH = 3
"""After how many open questions about a property no more are asked."""


AFFINE_ONLY = "affine reasoning is not enough, and z3 is not used: pip install z3-solver"
"""The reason for an open question without z3."""


class _Collected:
    """The outcome of the questions about one property."""

    def __init__(self, property_: Property):
        self._property = property_
        self._refuted: list[str] = []
        self._unknown: list[str] = []
        self._by_solver = False

    def ask(self, subject: Subject, what: str, conditions: Sequence[Condition], is_exact: bool = True) -> None:
        """Asks whether conditions, under which the property fails, can hold together.

        Unless they are exact, it need not fail under them, so that an example refutes nothing.
        """
        if any(condition is False for condition in conditions) or len(self._unknown) >= ENOUGH:
            return
        if not subject.use_solver:
            self._unknown.append(f"{what}: {AFFINE_ONLY}")
            return
        question = solver.Question(conditions)
        self._by_solver = True
        if question.is_open:
            self._unknown.append(f"{what}: z3 gives up")
        elif question.answer is not None:
            data = sorted({str(v) for c in conditions for v in variables_of(c) if _is_data(v)})
            example = ", ".join(f"{name} = {value}" for name, value in sorted(question.answer.items()))
            if data:
                self._unknown.append(f"{what}: it depends on data, {', '.join(data[:3])}")
            elif not is_exact:
                self._unknown.append(what)
            else:
                self._refuted.append(f"{what}: {example}" if example else what)

    def unknown(self, reason: str) -> None:
        """Adds a reason why the property is open."""
        self._unknown.append(reason)

    def refuted(self, reason: str) -> None:
        """Adds a reason why the property doesn't hold."""
        self._refuted.append(reason)

    def verdict(self) -> Verdict:
        """Returns the outcome of all questions."""
        for status, reasons in ((Status.REFUTED, self._refuted), (Status.UNKNOWN, self._unknown)):
            if reasons:
                more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
                return Verdict(self._property, status, reasons[0] + more, self._by_solver)
        return Verdict(self._property, Status.PROVED, "", self._by_solver)


def _bounds(subject: Subject) -> Verdict:
    result = _Collected(Property.BOUNDS)
    for op in subject.accesses.unknown:
        result.unknown(f"{described(op)} is not followed")
    seen: set[tuple[object, ...]] = set()
    for access in subject.accesses.accesses:
        facts = subject.facts(access)
        if isinstance(access.op, memref.LoadOp):
            _reads_stored(subject, result, access, access.op, facts)
        for axis, (index, extent) in enumerate(zip(access.indices, access.extents, strict=True)):
            last = extent - (access.width if axis == len(access.extents) - 1 else 1)
            key = (index, access.conditions, last)
            if key in seen:
                continue
            seen.add(key)
            value = facts.simplified(index)
            low, high = facts.bounds(value)
            if (low >= 0 and high <= last) or facts.contradict:
                continue
            what = f"{described(access.op)} may be out of bounds, at {value} of {extent}"
            for outside in (number(-1).minus(index), index.plus(number(-last - 1))):
                outcome = nonnegative(outside)
                result.ask(subject, what, [*facts.conditions, outcome])
    return result.verdict()


def _reads_stored(subject: Subject, result: _Collected, access: Access, load: memref.LoadOp, facts: Facts) -> None:
    """Asks whether an element of a table may be read that has not been stored, or is not below what is claimed."""
    symbols, below = subject.symbols, load.attributes.get(BELOW)
    if isinstance(below, IntegerAttr):
        beyond = symbols.value(load.res).minus(number(below.value.data))
        if beyond.range[1] >= 0:
            what = f"{described(load)} may read what is not below {below.value.data}"
            result.ask(subject, what, [*facts.conditions, nonnegative(beyond)])
    if symbols.stored(access.buffer) is None:
        return
    what, stored = f"{described(load)} may read what is not stored", stored_before(symbols, load)
    if stored is None:
        result.unknown(what)
        return
    behind = access.address.minus(stored.count)
    if facts.bounds(facts.simplified(behind))[1] >= 0 and not facts.contradict:
        result.ask(subject, what, [*facts.conditions, nonnegative(behind)], stored.is_all)


def _barriers(subject: Subject) -> Verdict:
    result = _Collected(Property.BARRIERS)
    for op in subject.accesses.synchronous:
        for parent, value in subject.uniformity.around(op):
            if isinstance(parent, scf.IfOp):
                _agree(subject, result, op, parent)
            else:
                result.unknown(f"{described(op)} is in a loop whose bounds, {value}, may differ between invocations")
    return result.verdict()


def _agree(subject: Subject, result: _Collected, op: Operation, parent: scf.IfOp) -> None:
    """Asks whether one invocation may take the branch that an op is in, and another of its workgroup not."""
    condition = subject.symbols.condition(parent.cond)
    instances = subject.instances
    renaming = subject.renaming({v: of_atom(v) for v in instances.numbers if v not in instances.local})
    apart = [*subject.assumptions, condition, negation(renaming.condition(condition))]
    result.ask(subject, f"{described(op)} is not reached by all invocations", apart)


# Races


def _races(subject: Subject) -> Verdict:
    result = _Collected(Property.RACES)
    accesses = [access for access in subject.accesses.accesses if isinstance(access.buffer, BlockArgument)]
    instances = subject.instances
    far = tuple(variable for variable in instances.numbers if variable not in instances.local)
    is_ordered = _ordered(subject)
    numbers = far if is_ordered else instances.numbers
    for first, second in _pairs(accesses):
        _collide(subject, result, first, second, {}, numbers)
        if instances.distinct and first is not second:
            _collide(subject, result, second, first, {}, numbers)
    if instances.local:
        for meeting in subject.accesses.meetings:
            shared = not isinstance(meeting.first.buffer, BlockArgument)
            private = shared and isinstance(meeting.first.buffer.owner, memref.AllocaOp)
            if not private and (shared or is_ordered):
                renaming = _in_workgroup(subject, meeting)
                if renaming is not None:
                    _collide(subject, result, meeting.first, meeting.second, renaming, instances.local)
    return result.verdict()


def _ordered(subject: Subject) -> bool:
    """Returns whether barriers order accesses to buffers within a workgroup."""
    return any(getattr(op, "storage", None) is not None for op in subject.accesses.synchronous)


def _pairs(accesses: Sequence[Access]) -> Iterator[tuple[Access, Access]]:
    """Yields the pairs of accesses to one memory, at least one of which is a store."""
    written = {access.buffer for access in accesses if access.writes}
    chosen = [access for access in accesses if access.buffer in written]
    for place, first in enumerate(chosen):
        for second in chosen[place:]:
            if first.buffer is second.buffer and (first.writes or second.writes):
                yield first, second


def _in_workgroup(subject: Subject, meeting: Meeting) -> Mapping[Variable, Linear] | None:
    """Returns how variables of the second invocation relate to the first; `None` if there is no later iteration."""
    instances = subject.instances
    same: dict[Variable, Linear] = {
        variable: of_atom(variable) for variable in instances.numbers if variable not in instances.local
    }
    for loop in meeting.together:
        turn = subject.symbols.turn(loop)
        if turn is not None:
            same[turn] = of_atom(turn)
    if meeting.following is not None:
        turn = subject.symbols.turn(meeting.following)
        if turn is None:
            return None
        same[turn] = of_atom(turn).plus(number(1))
    return same


def _collide(
    subject: Subject,
    result: _Collected,
    first: Access,
    second: Access,
    same: Mapping[Variable, Linear],
    numbers: Sequence[Variable],
) -> None:
    """Asks whether two instances that differ in some numbers may touch one element."""
    if not numbers:
        return

    renaming = subject.renaming(same)
    one, other = _element(subject, first), renaming.number(_element(subject, second))
    digits = zeros(one.minus(other), NOTHING)  # enough for most pairs, and quicker than what holds at both
    if digits is None or _alike(digits, numbers, renaming).issuperset(numbers):
        return
    facts = subject.facts(first)
    there = [renaming.condition(condition) for condition in subject.facts(second).conditions]
    distinct = [condition for condition in subject.instances.distinct if not same]
    joint = facts.plus([*there, *distinct])
    one, other = joint.simplified(one), joint.simplified(other)
    difference = joint.simplified(one.minus(other))
    digits = zeros(difference, joint)
    if digits is None or joint.contradict:
        return
    equal = _equal(subject, first, second, joint, one, other, renaming) | _alike(digits, numbers, renaming)
    equal |= {v for v in numbers if len({*joint.bounds(of_atom(v)), *joint.bounds(renaming.variable(v))}) == 1}
    if equal.issuperset(numbers):
        return
    merged = [zero(of_atom(v).minus(renaming.variable(v))) for v in equal]
    if equal and joint.plus([*merged, zero(difference)]).contradict:
        return
    apart: Condition = False
    for variable in numbers:
        apart = negation(both(negation(apart), zero(of_atom(variable).minus(renaming.variable(variable)))))
    what = f"{described(first.op)} and {described(second.op)} of two invocations may use one element"
    differ = True if distinct else apart
    result.ask(subject, what, [*joint.conditions, zero(one.minus(other)), differ])


def _alike(digits: Sequence[Linear], numbers: Sequence[Variable], renaming: Renaming) -> set[Variable]:
    """Returns the numbers that are equal in two instances where some sums are 0."""
    between = {variable: of_atom(variable).minus(renaming.variable(variable)) for variable in numbers}
    return {v for v, difference in between.items() if difference in digits or difference.times(-1) in digits}


def _element(subject: Subject, access: Access) -> Linear:
    """Returns the position of an element of an access."""
    address = subject.facts(access).simplified(access.address)
    if access.width == 1:
        return address
    return address.plus(of_atom(Variable(("element", access.width), (0, access.width - 1))))


def _equal(
    subject: Subject,
    first: Access,
    second: Access,
    joint: Facts,
    one: Linear,
    other: Linear,
    renaming: Renaming,
) -> set[Variable]:
    """Returns variables that are equal in two instances that touch one element, some if the addresses are alike."""
    if joint.simplified(renaming.number(one)) != other:
        return set()
    alike = [condition for condition in first.conditions if condition in second.conditions]
    facts = subject.facts(first) if first.conditions == second.conditions else Facts((*subject.assumptions, *alike))
    return {atom for atom in determined([one], facts) if isinstance(atom, Variable)}


# Results


def _results(subject: Subject) -> Verdict:
    result = _Collected(Property.RESULTS)
    stores: dict[SSAValue, list[Access]] = {}
    for access in subject.accesses.accesses:
        if access.writes and isinstance(access.buffer, BlockArgument):
            stores.setdefault(access.buffer, []).append(access)
    for buffer, accesses in stores.items():
        size = cast("MemRefType[Attribute]", buffer.type).element_count()
        name = f"binding {cast(BlockArgument, buffer).index}"
        try:
            reached = _reached(subject, without_choices(subject.symbols, accesses), size)
        except ValueError as error:
            result.unknown(f"{name}: {error}")
            continue
        if reached != size:
            result.unknown(f"{name}: {reached} of {size} elements are written")
    return result.verdict()


def _is_data(value: Variable | Unknown) -> bool:
    """Returns whether a value is read from memory, and not followed."""
    return isinstance(value, Unknown) or value.is_free


def _reached(subject: Subject, accesses: Sequence[Access], size: int) -> int:
    """Returns the number of elements that stores reach."""
    total = 0
    counted: list[Access] = []
    for access in accesses:
        if any(other.address == access.address and other.conditions == access.conditions for other in counted):
            continue
        for other in counted:
            if _overlap(subject, other, access):
                raise ValueError(f"{described(access.op)} may store what {described(other.op)} stores")
        counted.append(access)
        facts = _wholly(subject, access)
        element = facts.simplified(subject.whole.number(_element(subject, access)))
        low, high = facts.bounds(element)
        if low < 0 or (high >= size and not _inside(subject, facts, element, size)):
            raise ValueError(f"{described(access.op)} may be out of bounds")
        known = determined([element], facts)
        fixed = {v for v in variables_of(element) if isinstance(v, Variable) and len({*facts.bounds(of_atom(v))}) == 1}
        if not variables_of(element) <= known | fixed:
            by_data = ", which depends on data" if any(map(_is_data, variables_of(element))) else ""
            raise ValueError(f"{described(access.op)} may store an element twice, at {element}{by_data}")
        total += count(element, facts)
    return total


def _inside(subject: Subject, facts: Facts, element: Linear, size: int) -> bool:
    """Returns whether z3 shows that a position is less than a size."""
    return _exclude(subject, [*facts.conditions, nonnegative(element.plus(number(-size)))])


def _exclude(subject: Subject, conditions: Sequence[Condition]) -> bool:
    """Returns whether conditions surely don't hold together, by z3 if it is used and none is decided."""
    if any(condition is False for condition in conditions):
        return True
    if not subject.use_solver:
        return False
    question = solver.Question(conditions)
    return not question.is_open and question.answer is None


def _wholly(subject: Subject, access: Access) -> Facts:
    """Returns what holds at an access of the instance that does all the work."""
    conditions = (*subject.assumptions, *access.conditions)
    return Facts(subject.whole.condition(condition) for condition in conditions)


def _overlap(subject: Subject, first: Access, second: Access) -> bool:
    """Returns whether two stores may reach one element, for all that is known."""
    renaming = subject.renaming({})
    joint = _wholly(subject, first).plus(map(renaming.condition, _wholly(subject, second).conditions))
    one = joint.simplified(subject.whole.number(_element(subject, first)))
    other = joint.simplified(renaming.number(subject.whole.number(_element(subject, second))))
    if zeros(joint.simplified(one.minus(other)), joint) is None or joint.contradict:
        return False
    return not _exclude(subject, [*joint.conditions, zero(one.minus(other))])


def described(op: Operation) -> str:
    """Returns an op's name and its line."""
    where = line_in(op.location)
    return op.name if where is None else f"{op.name} ({where.filename.data}:{where.line.data})"
