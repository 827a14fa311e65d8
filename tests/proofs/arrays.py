"""NumPy's arrays for proofs: of an array is known its shape, in symbols, and from where each element comes.

Ops that only move elements run on them unchanged: their types are inferred, their semantics is run, for all extents and
properties. What the definition of an op refuses is a path that is not possible.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
from symbolic import Number, Unreachable, path, term, within, z3
from xdsl.dialects.builtin import IntegerAttr, i64

from tensorgrad.dialects.tg import convolution, shape
from tensorgrad.dialects.tg.base import TensorOp
from tensorgrad.passes.analyses import affine

Index = Sequence[Number]
BACKWARDS = -1
"""The only negative step."""


@dataclass(eq=False)
class Kind:
    """The type of a tensor, whose extents are symbols."""

    shape: Sequence[Any]

    def get_shape(self) -> tuple[Any, ...]:
        return tuple(self.shape)

    def get_num_dims(self) -> int:
        return len(self.shape)

    def get_element_type(self) -> str:
        return "any"

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, Kind)
        return len(self.shape) == len(other.shape) and all(x == y for x, y in zip(self.shape, other.shape, strict=True))


@dataclass
class Integers:
    """A property of symbols."""

    values: Sequence[Any]

    def get_values(self) -> tuple[Any, ...]:
        return tuple(self.values)


KNOWN = ("axis",)


def property_of(name: str, value: Any) -> Any:
    """Returns a property: known numbers, or as many symbols."""
    if name in KNOWN:
        return IntegerAttr(value, i64)
    return Integers([path().fresh(name) for _ in range(value)] if isinstance(value, int) else value)


class Op:
    """An op on tensors of any extents: a stand-in for the `self` of its methods.

    Args:
        kind: Its class.
        ranks: The ranks of its operands.
        properties: Lists of known numbers, or the lengths of lists of symbols; what `KNOWN` names is a known number.
    """

    def __init__(self, kind: type[TensorOp], ranks: Sequence[int], properties: Mapping[str, Any]):
        self.properties = {name: property_of(name, value) for name, value in properties.items()}
        kinds = [Kind([path().fresh("extent") for _ in range(rank)]) for rank in ranks]
        path().assume(*(extent.term >= 0 for each in kinds for extent in each.shape))
        self.operands = self.parts = [SimpleNamespace(type=each) for each in kinds]
        self.operand = self.operands[0]
        self.type: Any = kind.infer(cast(Any, kinds), cast(Any, self.properties))
        self.PROPERTIES = vars(kind).get("PROPERTIES", ())
        self.kind = kind

    def __getattr__(self, name: str) -> Any:
        """Reads a property as the class does."""
        return inspect.getattr_static(self.kind, name).__get__(self)

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.type.get_shape()

    def moved(self) -> Elements:
        """Returns the result as NumPy computes it."""
        arrays = [Elements(value.type.get_shape, list) for value in self.operands]
        function = vars(self.kind).get("function") or self.kind.prepare(cast(Any, self))
        return cast(Elements, function(*arrays))

    def simplified(self) -> Any:
        return self.kind.simplified(cast(Any, self))


@dataclass
class Elements:
    """An array, with the index in the first one from which the element at an index comes."""

    extents: Callable[[], Sequence[Any]]
    at: Callable[[Index], list[Number]]
    flags: ClassVar = SimpleNamespace(c_contiguous=False)
    dtype: ClassVar = None

    @property
    def shape(self) -> Sequence[Any]:
        return self.extents()

    def reshape(self, new: Sequence[Any]) -> Elements:
        """The element at the same row-major position; one exists, since there are as many elements."""

        def at(index: Index) -> list[Number]:
            old = any_place(self.shape, "old")
            path().assume(position(old, self.shape).term == position(index, new).term)
            return self.at(old)

        return Elements(lambda: new, at)

    def transpose(self, permutation: Sequence[int]) -> Elements:
        extents = [self.shape[axis] for axis in permutation]
        return Elements(
            lambda: extents, lambda index: self.at([index[permutation.index(axis)] for axis in range(len(index))])
        )

    def __getitem__(self, window: tuple[Any, ...]) -> Elements:
        """Basic slices, from within the array: `...`, if any, comes first and stands for all axes without one."""
        slices = [each for each in window if each is not Ellipsis]
        slices = [slice(None)] * (len(self.shape) - len(slices) if Ellipsis in window else 0) + slices
        slices += [slice(None)] * (len(self.shape) - len(slices))
        parts = [taken(each, extent) for each, extent in zip(slices, self.shape, strict=True)]

        def at(index: Index) -> list[Number]:
            return self.at([place * step + start for place, (start, step, _) in zip(index, parts, strict=True)])

        return Elements(lambda: [count(*part) for part in parts], at)


def position(index: Index, extents: Sequence[Any]) -> Number:
    """Returns the row-major position of an index, by Horner's rule."""
    result = Number(0)
    for place, extent in zip(index, extents, strict=True):
        result = result * extent + place
    return result


def prove_places(place: Number, index: Index, extents: Sequence[Any]) -> None:
    """Proves what an index' row-major position gives, divided by strides and then by extents."""
    outer = Number(0)
    for axis, stride in enumerate(affine.strides(extents)):
        before, outer = outer, outer * extents[axis] + index[axis]
        rest = position(index[axis + 1 :], extents[axis + 1 :])
        path().prove_division(place, Number(term(stride)), outer, rest, "rows")
        path().prove_division(place // stride, extents[axis], before, index[axis], "the place in a row")


def taken(window: slice, extent: Any) -> tuple[Any, Any, Any]:
    """Returns the first place of a slice, its step, and the place at which it stops."""
    if window.step == BACKWARDS:
        assert window.start is window.stop is None
        return extent - 1, BACKWARDS, -1
    start, stop, step = window.start or 0, window.stop, window.step
    if stop is None:
        assert window.start is None and step in (None, 1)
        return 0, 1, extent
    inside = z3.And(term(start) >= 0, z3.Or(term(start) == term(stop), term(stop) <= term(extent)))
    path().prove(z3.And(term(start) <= term(stop), inside), "a slice is empty or within its axis")
    return start, step, stop


def count(start: Any, step: Any, stop: Any) -> Any:
    """Returns the number of places of a slice."""
    return start - stop if step is BACKWARDS else -(-(stop - start) // step)


class Written:
    """An array that is written once, at any place of its last axes."""

    def __init__(self, extents: Sequence[Any], dtype: None):
        self.shape = extents
        self.place: Sequence[Any] = ()

    def __setitem__(self, place: tuple[Any, ...], source: Elements) -> None:
        assert place[0] is Ellipsis
        self.place, self.source = place[1:], source

    def at(self, index: Index) -> list[Number]:
        count = len(index) - len(self.place)
        path().assume(*(term(x) == y.term for x, y in zip(self.place, index[count:], strict=True)))
        return self.source.at(index[:count])


def joined(parts: Sequence[Elements], axis: int) -> Elements:
    """Is `np.concatenate`."""

    def at(index: Index) -> list[Number]:
        place = index[axis]
        for part in parts:
            if place < part.shape[axis]:
                return part.at([*index[:axis], place, *index[axis + 1 :]])
            place = place - part.shape[axis]
        raise AssertionError("an index is beyond the last part")

    extents = list(parts[0].shape)
    extents[axis] = sum((part.shape[axis] for part in parts), Number(0))
    return Elements(lambda: extents, at)


def repeated(x: Elements, new: Sequence[Any]) -> Elements:
    """Is `np.broadcast_to`, for arrays of as many axes: those of extent 1 are repeated."""
    ones = [isinstance(extent, int) for extent in x.shape]
    return Elements(
        lambda: new, lambda index: x.at([Number(0) if one else at for one, at in zip(ones, index, strict=True)])
    )


def any_place(extents: Sequence[Any], name: str = "index") -> list[Number]:
    """Returns any index of an array."""
    index = [path().fresh(name) for _ in extents]
    path().assume(*(within(place.term, 0, extent - 1) for place, extent in zip(index, extents, strict=True)))
    return index


NUMPY = SimpleNamespace(
    empty=Written, ndindex=lambda *extents: [any_place(extents, "place")], broadcast_to=repeated, concatenate=joined
)


def possible(condition: bool, message: object) -> None:
    """Is `require`."""
    if not condition:
        raise Unreachable


def on_symbols(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the modules of shape ops and of index maps calculate with symbols."""
    for module in (shape, convolution):
        monkeypatch.setattr(module, "np", NUMPY)
        monkeypatch.setattr(module, "require", possible)
        monkeypatch.setattr(module, "tensor", lambda extents, element: Kind(extents))
    monkeypatch.setattr(shape, "numpy_dtype", lambda kind: SimpleNamespace(itemsize=1))
    monkeypatch.setattr(affine, "AffineConstantExpr", Number)
    monkeypatch.setattr(affine, "simplified", lambda index_map, extents: index_map)
