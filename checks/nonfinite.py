"""Finds the op that first produces a NaN or infinity in the results of a `tg` function, by running it.

Infinities that vanish again, such as the -inf of a masked score, are not reported: the search starts at the results,
and follows non-finite values backwards.

Checking every array takes about as long as computing it. A ufunc that makes a NaN or infinity of finite operands sets
a floating-point status flag, which NumPy checks: its result is checked only then, or if an operand is not finite. If a
flag turns out to be missing, the search starts again and checks every result.

The run ends at the first NaN that an op makes of other values, if the IR shows that it always reaches a result.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from xdsl.dialects.builtin import AnyFloat, ModuleOp
from xdsl.ir import Block, BlockArgument, SSAValue

from tensorgrad.checks.reach import is_unconditional, results_with
from tensorgrad.dialects.signature import Slot, arguments_of, results_of
from tensorgrad.dialects.tg.base import NumpyArray, Tensor, TensorOp, has_floats, prepared
from tensorgrad.dialects.tg.call import CallOp
from tensorgrad.dialects.tg.control import RegionOp
from tensorgrad.dialects.tg.elementwise.arithmetic import SelectOp, StopGradientOp
from tensorgrad.dialects.tg.shape import BroadcastOp, ConcatOp
from tensorgrad.dialects.tg.traits import Elementwise, is_view
from tensorgrad.interpreters.compiled import CompiledBlock, is_ufunc
from tensorgrad.interpreters.functions import function_of, returned_by

AnyOp: TypeAlias = TensorOp | RegionOp


@dataclass(frozen=True)
class Content:
    """A summary of an array's contents.

    Attributes:
        shape: The array's shape.
        dtype: Its dtype.
        nans: The number of NaNs.
        infinities: The number of infinities.
        least: The smallest finite element, None if there is none.
        most: The largest finite element.
        mean: The mean of the finite elements.
        first: The index of the first non-finite element, if any.
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
        """Returns a text with the number of non-finite elements and the index of the first."""
        kinds = [f"{count} {name}" for count, name in ((self.nans, "NaN"), (self.infinities, "infinite")) if count]
        size = math.prod(self.shape)
        where = f", the first at {list(self.first)}" if self.first else ""
        return f"{' and '.join(kinds)} of {size} element{'s' * (size != 1)}{where}"

    @staticmethod
    def of(array: NumpyArray) -> Content:
        """Returns the summary of an array."""
        finite = np.isfinite(array)
        count = int(np.count_nonzero(finite))
        bad, nans, first = array.size - count, 0, None
        low = high = values = array
        if bad:
            nans = int(np.count_nonzero(np.isnan(array)))
            first = tuple(map(int, np.unravel_index(np.argmin(finite), array.shape)))
            # Copying the finite elements would take several times as long.
            low, high, values = (np.where(finite, array, other) for other in (np.inf, -np.inf, 0))
        if not count:
            return Content(array.shape, array.dtype, nans, bad - nans, None, None, None, first)
        mean = float(values.sum(dtype=np.float64)) / count
        return Content(array.shape, array.dtype, nans, bad - nans, float(low.min()), float(high.max()), mean, first)


Bad: TypeAlias = int
"""The kinds of non-finite values in an array: a bit set, as enum flags take longer than the arrays themselves."""
NOTHING, INFINITY, NAN = 0, 1, 2


def bad_of(array: NumpyArray) -> Bad:
    """Returns the kinds of non-finite values in an array."""
    # A sum with a non-finite term is never finite; finite terms may overflow too, so look closely then.
    if not has_floats(array) or math.isfinite(np.add.reduce(array, axis=None)):
        return NOTHING
    nans = np.isnan(array)
    if nans.all():
        return NAN
    return (NAN if nans.any() else NOTHING) | (INFINITY if np.isinf(array).any() else NOTHING)


@dataclass(eq=False)
class _Event:
    """An execution of an op whose result is not finite.

    Attributes:
        op: The op.
        parents: The events that produced its non-finite operands.
        arguments: The indices of the function's arguments among those operands.
        result: The kinds in its result.
        inherited: The kinds in those operands that the result may have inherited.
        constant: The kinds in its constant operands.
        contents: Summaries of its operands and result, if the result has a kind that no operand but a constant has.
    """

    op: AnyOp
    parents: list[_Event]
    arguments: list[int]
    result: Bad
    inherited: Bad
    constant: Bad
    contents: tuple[tuple[Content, ...], Content] | None


class _Made(NamedTuple):
    """A non-finite array.

    Attributes:
        array: Returns the array, as long as it is referenced elsewhere.
        bad: The kinds in it.
        source: The event that produced it, or the index of the argument that it is.
    """

    array: Callable[[], NumpyArray | None]
    bad: Bad
    source: _Event | int


def _reference(array: NumpyArray) -> Callable[[], NumpyArray | None]:
    """Returns a weak reference to an array; NumPy scalars are referenced strongly."""
    return weakref.ref(array) if isinstance(array, np.ndarray) else lambda: array


@dataclass(frozen=True)
class Origin:
    """The origin of the first non-finite value.

    Attributes:
        op: The op that made it of finite operands or constants; None if it is in an argument, or in a result from the
            start.
        operands: Summaries of the op's operands.
        result: A summary of its result, or of the argument.
        argument: The index of the argument.
        nan: The op that made a NaN of its infinity, if another one did.
        results: The indices of the function's results that it has reached; if it ended the run, those that contain a
            NaN whatever the other values are.
    """

    op: AnyOp | None
    operands: tuple[Content, ...]
    result: Content
    argument: int | None
    nan: AnyOp | None
    results: tuple[int, ...]


@dataclass
class _Sources:
    """The sources of an op's non-finite operands.

    Attributes:
        events: The events that produced them.
        arguments: The indices of the function's arguments among them.
        inherited: The kinds in all of these.
        constant: The kinds in constants.
    """

    events: list[_Event] = field(default_factory=list["_Event"])
    arguments: list[int] = field(default_factory=list[int])
    inherited: Bad = NOTHING
    constant: Bad = NOTHING


@dataclass
class _Flags:
    """The state of floating-point flags.

    Attributes:
        is_raised: Whether a ufunc has set one since the last check.
        is_thorough: Whether to check the results of ufuncs in any case.
        is_missing: Whether a value was not finite although no flag was set.
    """

    is_raised: bool = False
    is_thorough: bool = False
    is_missing: bool = False

    def raised(self, kind: str, flags: int) -> None:
        """NumPy's error callback."""
        self.is_raised = True


class _Found(BaseException):
    """Ends a run at an op that has made a NaN that always reaches results.

    Not an `Exception`, which `CompiledBlock.run` would report as a failure of the op.

    Attributes:
        event: The execution of the op.
        places: The indices of the results.
    """

    def __init__(self, event: _Event, places: Collection[int]):
        super().__init__()
        self.event, self.places = event, places


_MOVING = (SelectOp, StopGradientOp, ConcatOp)
"""Ops other than views whose results contain only elements of their operands."""


class NonfiniteSearch:
    """Runs one `tg` function, op by op, to find the origin of non-finite values.

    Args:
        module: The module that holds the function.
        function: Its name; by default the only one.

    Raises:
        ExecutionError: There is no such function, or several without a name.
    """

    def __init__(self, module: ModuleOp, function: str | None = None):
        function_ = function_of(module, function)
        self.arguments, self.results = arguments_of(function_), results_of(function_)
        self._block = block = function_.body.block
        self._events: list[_Event] = []
        self._made: dict[int, _Made] = {}
        """Non-finite arrays by `id`, including arrays that were freed, whose id another array may have now."""
        self._constants: dict[SSAValue, bool] = {}
        """Whether each constant is finite."""
        self._flags = _Flags()
        self._checked: frozenset[int] = frozenset()
        """The indices of the results that should be finite."""
        self._around: list[_Sources] = []
        """For each enclosing op with a region: the sources of its operands."""
        self._compiled = CompiledBlock(block, returned_by(block), observe=self._observe)

    def run(
        self, values: Sequence[NumpyArray], is_checked: Callable[[Slot], bool] = lambda slot: True
    ) -> Origin | None:
        """Runs the function; returns the origin of non-finite results, or None if all of them are finite.

        Args:
            values: The function's arguments.
            is_checked: Whether a result should be finite.
        """
        try:
            result = self._run(values, is_checked)
            if self._flags.is_missing:
                self._clear()
                self._flags.is_thorough = True
                result = self._run(values, is_checked)
            return result
        finally:
            self._clear()
            self._flags.is_thorough = self._flags.is_missing = False

    def _clear(self) -> None:
        self._events, self._around = [], []
        self._made.clear()

    def _run(self, values: Sequence[NumpyArray], is_checked: Callable[[Slot], bool]) -> Origin | None:
        for place, value in enumerate(values):
            bad = bad_of(value)
            if bad:
                self._made[id(value)] = _Made(_reference(value), bad, place)
        flags = self._flags
        flags.is_raised = flags.is_thorough
        self._checked = frozenset(place for place, slot in enumerate(self.results) if is_checked(slot))
        try:
            with np.errstate(divide="call", over="call", invalid="call", under="ignore", call=flags.raised):
                results = self._compiled.run(*values)
        except _Found as end:
            if flags.is_missing and not flags.is_thorough:
                return None
            return self._origin_of(dict.fromkeys(end.places, (end.event, NAN)), values)
        with np.errstate(all="ignore"):
            reached = {place: results[place] for place in sorted(self._checked) if bad_of(results[place])}
            flags_of_places = {
                place: known for place, value in reached.items() if (known := self._known(value)) is not None
            }
            flags.is_missing |= len(flags_of_places) < len(reached)
            if not reached or (flags.is_missing and not flags.is_thorough):
                return None
            if not flags_of_places:
                place, value = next(iter(reached.items()))
                return Origin(None, (), Content.of(value), None, None, (place,))
            return self._origin_of(
                {place: (known.source, known.bad) for place, known in flags_of_places.items()}, values
            )

    def _observe(self, op: AnyOp, function: Callable[..., Any]) -> Callable[..., Any]:
        floats = [isinstance(cast(Tensor, result.type).get_element_type(), AnyFloat) for result in op.results]
        if isinstance(op, TensorOp) and not any(floats):
            return function
        unknown = frozenset(place for place, operand in enumerate(op.operands) if not self._is_noted(operand))
        if isinstance(op, TensorOp) and len(floats) == 1:
            return self._after(op, function, unknown)

        def run(*operands: NumpyArray) -> Sequence[NumpyArray]:
            sources = self._sources(operands, unknown)
            self._around.append(sources)
            before = len(self._events)
            results = function(*operands)
            self._around.pop()
            for result in results:
                bad = bad_of(result)
                if bad and self._known(result) is None:
                    self._note(op, operands, result, bad, sources, self._events[before:])
            return results

        return run

    def _after(
        self, op: TensorOp, function: Callable[..., NumpyArray], unknown: frozenset[int]
    ) -> Callable[..., NumpyArray]:
        """Returns a replacement for the function of an op with one result, which most ops have."""
        marked, flags = self._made, self._flags

        def look(operands: Sequence[NumpyArray], result: NumpyArray) -> NumpyArray:
            bad = bad_of(result)
            if bad and self._known(result) is None:
                self._note(op, operands, result, bad, self._sources(operands, unknown), [])
            return result

        def run(*operands: NumpyArray) -> NumpyArray:
            return look(operands, function(*operands))

        def run_ufunc(*operands: NumpyArray) -> NumpyArray:
            result = function(*operands)
            if flags.is_raised:
                flags.is_raised = flags.is_thorough
            elif not marked or marked.keys().isdisjoint(map(id, operands)):
                return result
            return look(operands, result)

        def run_moving(*operands: NumpyArray) -> NumpyArray:
            result = function(*operands)
            return result if marked.keys().isdisjoint(map(id, operands)) else look(operands, result)

        if unknown:
            return run
        return run_moving if is_view(op) or isinstance(op, _MOVING) else run_ufunc if is_ufunc(op) else run

    def _is_noted(self, value: SSAValue) -> bool:
        """Returns whether a value's array is guaranteed to be in `_made` if it is not finite.

        Loop inputs and non-finite constants are checked where they are used. An operand may be passed as the tensor
        that it broadcasts.
        """
        owner = value.owner
        if isinstance(owner, Block):
            call = owner.parent_op()
            if isinstance(call, CallOp):  # its body gets the operands as they are
                return self._is_noted(call.operands[cast(BlockArgument, value).index])
            return owner is self._block
        if isinstance(owner, TensorOp) and not owner.operands:
            if value not in self._constants:
                self._constants[value] = not bad_of(prepared(owner)())
            return self._constants[value]
        return not isinstance(owner, BroadcastOp) or self._is_noted(owner.operands[0])

    def _note(
        self,
        op: AnyOp,
        operands: Sequence[NumpyArray],
        result: NumpyArray,
        bad: Bad,
        sources: _Sources,
        inside: list[_Event],
    ) -> None:
        """Records that an op has produced a non-finite result."""
        event = _event(op, operands, result, bad, sources, inside)
        self._events.append(event)
        self._made[id(result)] = _Made(_reference(result), bad, event)
        new = bad & ~(event.inherited | event.constant)
        if new & NAN and isinstance(op, TensorOp) and is_unconditional(op.results[0]):
            places = results_with(op.results[0]) & self._checked
            if places:
                raise _Found(event, places)

    def _known(self, array: NumpyArray) -> _Made | None:
        """Returns the record of a non-finite array; None for finite arrays, and if there is no record."""
        known = self._made.get(id(array))
        return known if known is not None and known.array() is array else None

    def _sources(self, operands: Sequence[NumpyArray], unknown: frozenset[int]) -> _Sources:
        """Returns the sources of non-finite operands.

        Args:
            operands: An op's operands.
            unknown: The indices of those that may be non-finite without being in `_made`.
        """
        result = _Sources()
        for place, operand in enumerate(operands):
            known = self._known(operand)
            bad, source = (bad_of(operand), None) if known is None else (known.bad, known.source)
            self._flags.is_missing |= bool(bad) and known is None and place not in unknown
            if isinstance(source, _Event):
                result.events.append(source)
            elif source is not None:
                result.arguments.append(source)
            elif bad and self._around and (self._around[-1].events or self._around[-1].arguments):
                # An element of an array that a loop iterates over.
                result.events += self._around[-1].events
                result.arguments += self._around[-1].arguments
            elif bad:
                result.constant |= bad
                continue
            result.inherited |= bad
        return result

    def _origin_of(self, results: Mapping[int, tuple[_Event | int, Bad]], values: Sequence[NumpyArray]) -> Origin:
        """Returns the origin of non-finite results.

        Args:
            results: By index: the event that produced it, or the index of the argument that it is; and the
                kinds in it.
            values: The function's arguments.
        """
        sources = {place: source for place, (source, _) in results.items()}
        events = [source for source in sources.values() if isinstance(source, _Event)]
        arguments = [source for source in sources.values() if not isinstance(source, _Event)]
        nan: _Event | None = None
        source: _Event | int | None = None
        if any(bad & NAN for _, bad in results.values()):
            source = self._first(events, arguments, values, NAN)
            if isinstance(source, _Event) and source.inherited:
                nan = source
                source = self._first(nan.parents, nan.arguments, values, INFINITY, constants=False) or nan
        else:
            source = self._first(events, arguments, values, INFINITY)
        assert source is not None
        reached = tuple(self._reached(source, sources))
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
        """Returns the origin of a kind of value, searching backwards from these.

        That is an argument; else the first op that made it of operands without it; else, if `constants`, the first op
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
            if bad_of(values[place]) & bad:
                return place
        creating = [event for event in self._events if event in seen and not event.inherited & bad]
        of_finite = [event for event in creating if not event.constant & bad]
        return next(iter(of_finite or (creating if constants else ())), None)

    def _reached(self, source: _Event | int, sources: Mapping[int, _Event | int]) -> Iterator[int]:
        """Yields the indices of the results that depend on an origin."""
        tainted: set[_Event] = set()
        for event in self._events:
            if event is source or source in event.arguments or not tainted.isdisjoint(event.parents):
                tainted.add(event)
        for place, source_of_place in sources.items():
            if source_of_place == source or source_of_place in tainted:
                yield place


def _event(
    op: AnyOp, operands: Sequence[NumpyArray], result: NumpyArray, bad: Bad, sources: _Sources, inside: list[_Event]
) -> _Event:
    inherited = sources.inherited
    if inherited & INFINITY and bad & ~inherited & NAN and op.has_trait(Elementwise):
        # Infinities at indices other than the NaNs' are unrelated.
        nans, floats = np.isnan(result), [operand for operand in operands if has_floats(operand)]
        if not any(np.isinf(np.broadcast_to(operand, result.shape))[nans].any() for operand in floats):
            inherited &= ~INFINITY
    contents = (tuple(map(Content.of, operands)), Content.of(result)) if bad & ~inherited else None
    return _Event(op, [*sources.events, *inside], sources.arguments, bad, inherited, sources.constant, contents)
