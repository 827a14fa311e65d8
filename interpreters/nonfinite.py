"""Finds the op that made the NaN or infinity that a `tg` function returns: runs it and looks at every value.

An infinity that vanishes again, such as the -inf of a masked score, is not looked for: the search starts at what is
returned, and goes back along the values that are not finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Flag, auto
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tensorgrad.dialects.signature import Slot, arguments_of, results_of
from tensorgrad.dialects.tg.base import NumpyArray, TensorOp
from tensorgrad.dialects.tg.control import RegionOp
from tensorgrad.dialects.tg.traits import Elementwise
from tensorgrad.interpreters.plan import Plan
from tensorgrad.interpreters.tensors import function_of, returned_by

AnyOp: TypeAlias = TensorOp | RegionOp


@dataclass(frozen=True)
class Content:
    """What is in an array.

    Attributes:
        shape: Its extents.
        dtype: Its dtype.
        nans: How many elements are NaN.
        infinities: How many are infinite.
        least: The least finite element; None where there is none.
        most: The largest finite element.
        mean: The mean of the finite elements.
        first: The index of the first element that is not finite, if there is one.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    nans: int
    infinities: int
    least: float | None
    most: float | None
    mean: float | None
    first: tuple[int, ...] | None

    def __str__(self) -> str:
        kind = f"{self.dtype}[{', '.join(map(str, self.shape))}]"
        values = "no finite element" if self.least is None else f"from {self.least:.6g} to {self.most:.6g}"
        return f"{kind} {values}" + (f", {self.flaws()}" if self.first else "")

    def flaws(self) -> str:
        """Returns how many elements are not finite, and where the first one is."""
        kinds = [f"{count} {name}" for count, name in ((self.nans, "NaN"), (self.infinities, "infinite")) if count]
        size = math.prod(self.shape)
        where = f", the first at {list(self.first)}" if self.first else ""
        return f"{' and '.join(kinds)} of {size} element{'s' * (size != 1)}{where}"

    @staticmethod
    def of(array: NumpyArray) -> Content:
        """Returns what is in an array."""
        finite = np.isfinite(array)
        values = array[finite]
        bad = np.flatnonzero(~finite)
        nans = int(np.isnan(array).sum())
        return Content(
            array.shape,
            array.dtype,
            nans,
            bad.size - nans,
            float(values.min()) if values.size else None,
            float(values.max()) if values.size else None,
            float(values.mean(dtype=np.float64)) if values.size else None,
            tuple(map(int, np.unravel_index(bad[0], array.shape))) if bad.size else None,
        )


class Bad(Flag):
    """What an array has that is not finite."""

    NOTHING = 0
    INFINITY = auto()
    NAN = auto()

    @staticmethod
    def of(array: NumpyArray) -> Bad:
        """Returns what an array has."""
        if array.dtype.kind != "f" or np.isfinite(array).all():
            return Bad.NOTHING
        found = Bad.NAN if np.isnan(array).any() else Bad.NOTHING
        return found | (Bad.INFINITY if np.isinf(array).any() else Bad.NOTHING)


@dataclass(eq=False)
class _Event:
    """An execution of an op whose result is not finite.

    Attributes:
        op: The op.
        parents: The events that made its operands that are not finite.
        arguments: The places of the function's arguments that are among them.
        result: What its result has.
        given: What those operands have, that its result may have of them.
        constant: What constants among its operands have.
        contents: What is in its operands and its result, where the result has what no operand but a constant has.
    """

    op: AnyOp
    parents: list[_Event]
    arguments: list[int]
    result: Bad
    given: Bad
    constant: Bad
    contents: tuple[tuple[Content, ...], Content] | None


@dataclass(frozen=True)
class Origin:
    """Where the first value that is not finite comes from.

    Attributes:
        op: The op that made it from finite operands, or of constants; None for an argument, or a result, that has it.
        operands: What is in the op's operands.
        result: What is in its result, or in the argument.
        argument: The place of the argument.
        nan: The op that made a NaN of its infinity, if another one did.
        results: The places of the function's results that it has reached.
    """

    op: AnyOp | None
    operands: tuple[Content, ...]
    result: Content
    argument: int | None
    nan: AnyOp | None
    results: tuple[int, ...]


@dataclass
class _Sources:
    """Where operands that are not finite come from.

    Attributes:
        events: The ops that made them.
        arguments: The places of the function's arguments among them.
        given: What all these have.
        constant: What constants have.
    """

    events: list[_Event] = field(default_factory=list["_Event"])
    arguments: list[int] = field(default_factory=list[int])
    given: Bad = Bad.NOTHING
    constant: Bad = Bad.NOTHING


class NonfiniteSearch:
    """Runs one `tg` function, op by op, to find where values come from that are not finite.

    Args:
        module: Has the function.
        function: Its name; the only one by default.

    Raises:
        ProgramError: There is no such function, or several without a name.
    """

    def __init__(self, module: ModuleOp, function: str | None = None):
        found = function_of(module, function)
        self.arguments, self.results = arguments_of(found), results_of(found)
        block = found.body.block
        self._plan = Plan(block, returned_by(block), observe=self._observe)
        self._events: list[_Event] = []
        self._made: dict[int, tuple[NumpyArray, Bad, _Event | int]] = {}
        """By the id of an array that is not finite: the array, and what made it, or which argument it is."""
        self._around: list[_Sources] = []
        """For each op that runs: the sources of its operands."""

    def run(
        self, values: Sequence[NumpyArray], is_checked: Callable[[Slot], bool] = lambda slot: True
    ) -> Origin | None:
        """Returns where what is not finite in the results comes from; None where all of them are finite.

        Args:
            values: The function's arguments.
            is_checked: Whether a result is to be finite.
        """
        try:
            for place, value in enumerate(values):
                bad = Bad.of(value)
                if bad:
                    self._made[id(value)] = value, bad, place
            with np.errstate(all="ignore"):
                found = self._plan.run(*values)
            checked = {place: found[place] for place, slot in enumerate(self.results) if is_checked(slot)}
            reached = {place: value for place, value in checked.items() if Bad.of(value)}
            return self._origin(reached, values) if reached else None
        finally:
            self._events, self._made, self._around = [], {}, []

    def _observe(self, op: AnyOp, function: Callable[..., Any]) -> Callable[..., Any]:
        single = isinstance(op, TensorOp) and len(op.results) == 1

        def run(*operands: NumpyArray) -> Any:
            sources = self._sources(operands)
            self._around.append(sources)
            before = len(self._events)
            results = function(*operands)
            self._around.pop()
            for result in (results,) if single else results:
                bad = Bad.of(result) if id(result) not in self._made else Bad.NOTHING
                if bad:
                    event = _event(op, operands, result, bad, sources, self._events[before:])
                    self._events.append(event)
                    self._made[id(result)] = result, bad, event
            return results

        return run

    def _sources(self, operands: Sequence[NumpyArray]) -> _Sources:
        found = _Sources()
        for operand in operands:
            _, bad, source = self._made.get(id(operand)) or (None, Bad.of(operand), None)
            if isinstance(source, _Event):
                found.events.append(source)
            elif source is not None:
                found.arguments.append(source)
            elif bad and self._around and (self._around[-1].events or self._around[-1].arguments):
                # An element of what a loop walks over.
                found.events += self._around[-1].events
                found.arguments += self._around[-1].arguments
            elif bad:
                found.constant |= bad
                continue
            found.given |= bad
        return found

    def _origin(self, results: Mapping[int, NumpyArray], values: Sequence[NumpyArray]) -> Origin:
        """Returns the origin of results that are not finite, by their places."""
        made = {place: self._made.get(id(value)) for place, value in results.items()}
        known = [found for found in made.values() if found is not None]
        if not known:
            place, value = next(iter(results.items()))
            return Origin(None, (), Content.of(value), None, None, (place,))
        events = [source for _, _, source in known if isinstance(source, _Event)]
        arguments = [source for _, _, source in known if not isinstance(source, _Event)]
        nan: _Event | None = None
        source: _Event | int | None = None
        if any(bad & Bad.NAN for _, bad, _ in known):
            source = self._first(events, arguments, values, Bad.NAN)
            if isinstance(source, _Event) and source.given:
                nan = source
                source = self._first(nan.parents, nan.arguments, values, Bad.INFINITY, constants=False) or nan
        else:
            source = self._first(events, arguments, values, Bad.INFINITY)
        assert source is not None
        reached = tuple(self._reached(source, {place: found[2] for place, found in made.items() if found is not None}))
        made_nan = None if nan is None or nan is source else nan.op
        if not isinstance(source, _Event):
            return Origin(None, (), Content.of(values[source]), source, made_nan, reached)
        assert source.contents is not None
        return Origin(source.op, *source.contents, None, made_nan, reached)

    def _first(
        self,
        events: Sequence[_Event],
        arguments: Sequence[int],
        values: Sequence[NumpyArray],
        bad: Bad,
        constants: bool = True,
    ) -> _Event | int | None:
        """Returns where a kind of value comes from, back from these.

        That is an argument; else the first op that made it of operands without it; else, where they count, the first
        that took it from a constant.
        """
        pending, places = list(events), set(arguments)
        seen: set[_Event] = set()
        while pending:
            event = pending.pop()
            if event not in seen and event.result & bad:
                seen.add(event)
                pending += event.parents
                places.update(event.arguments)
        for place in sorted(places):
            if Bad.of(values[place]) & bad:
                return place
        made = [event for event in self._events if event in seen and not event.given & bad]
        of_finite = [event for event in made if not event.constant & bad]
        return next(iter(of_finite or (made if constants else ())), None)

    def _reached(self, source: _Event | int, made: Mapping[int, _Event | int]) -> Iterator[int]:
        """Yields the places of the results that depend on an origin."""
        tainted: set[_Event] = set()
        for event in self._events:
            if event is source or source in event.arguments or not tainted.isdisjoint(event.parents):
                tainted.add(event)
        for place, found in made.items():
            if found == source or found in tainted:
                yield place


def _event(
    op: AnyOp, operands: Sequence[NumpyArray], result: NumpyArray, bad: Bad, sources: _Sources, inside: list[_Event]
) -> _Event:
    given = sources.given
    if Bad.INFINITY in given and Bad.NAN in bad & ~given and op.has_trait(Elementwise):
        # An infinity at another place than the NaN has nothing to do with it.
        nans, floats = np.isnan(result), [one for one in operands if one.dtype.kind == "f"]
        if not any(np.isinf(np.broadcast_to(one, result.shape))[nans].any() for one in floats):
            given &= ~Bad.INFINITY
    contents = (tuple(map(Content.of, operands)), Content.of(result)) if bad & ~given else None
    return _Event(op, [*sources.events, *inside], sources.arguments, bad, given, sources.constant, contents)
