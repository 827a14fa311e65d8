"""The selection of a tensor by a key, by NumPy's rules, and how it is read."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tensorgrad.dialects.tg import shape
from tensorgrad.dialects.tg.base import ints
from tensorgrad.errors import DTypeError, IndexingError, ShapeError
from tensorgrad.ops.elementwise.arithmetic import add, less, logical_and, multiply, where
from tensorgrad.ops.promotion import as_tensor, broadcast_to, cast
from tensorgrad.ops.recorded import Static, recorded_whole, whole
from tensorgrad.ops.shape import counted_from_front, counts_below, index_dtype, reshape, take_rows, transpose
from tensorgrad.tracing.dtypes import NAMES
from tensorgrad.tracing.tensor import Array, Tensor, Traced
from tensorgrad.tracing.tracer import emit

MOST_PLACES = 2**31 - 1
"""The limit for indices of several axes, which are combined into one i32."""


@dataclass(frozen=True)
class Gathered:
    """The part of a selection that is determined by integer arrays.

    Attributes:
        axes: The axes of the slice that are indexed by an array, in order.
        names: The same axes in error messages.
        shape: The shape to which the arrays broadcast.
        place: The position of the arrays' axes in the result.
    """

    axes: tuple[int, ...]
    names: tuple[str, ...]
    shape: tuple[int, ...]
    place: int


@dataclass(frozen=True)
class Selection(Static):
    """The selection of a tensor by a key: a slice of every axis, some reversed, in a new shape, and indices into it.

    Attributes:
        start: The first position on each axis.
        stop: The end on each axis.
        step: The distance between positions, at least 1.
        reverse: The axes that run backwards.
        shape: The slice's extents without integer axes and with the new axes of `None`; indexed axes are whole.
        gathered: The axes of that shape that are indexed by arrays.
    """

    start: tuple[int, ...]
    stop: tuple[int, ...]
    step: tuple[int, ...]
    reverse: tuple[int, ...]
    shape: tuple[int, ...]
    gathered: Gathered | None

    @property
    def extents(self) -> list[int]:
        """The extent of each axis of the slice."""
        return [len(range(a, b, c)) for a, b, c in zip(self.start, self.stop, self.step, strict=True)]

    @property
    def result(self) -> tuple[int, ...]:
        """The shape of the selection."""
        if self.gathered is None:
            return self.shape
        place, others = self.gathered.place, self._others()
        return (*others[:place], *self.gathered.shape, *others[place:])

    def _others(self) -> list[int]:
        assert self.gathered is not None
        return [extent for axis, extent in enumerate(self.shape) if axis not in self.gathered.axes]

    def _order(self) -> list[int]:
        """Returns the slice's axes with the indexed ones adjacent, at their position in the result."""
        assert self.gathered is not None
        others = [axis for axis in range(len(self.shape)) if axis not in self.gathered.axes]
        return [*others[: self.gathered.place], *self.gathered.axes, *others[self.gathered.place :]]

    @property
    def rows(self) -> tuple[int, ...]:
        """The extents of the slice with the indexed axes merged, at `gathered.place`."""
        assert self.gathered is not None
        others, place = self._others(), self.gathered.place
        return (*others[:place], math.prod(self.shape[axis] for axis in self.gathered.axes), *others[place:])

    def as_rows(self, x: Tensor) -> Tensor:
        """Returns a view of the slice as rows that one index selects."""
        return reshape(transpose(x, self._order()), self.rows)

    def from_rows(self, rows: Tensor) -> Tensor:
        """Inverts `as_rows`."""
        order = self._order()
        apart = reshape(rows, [self.shape[axis] for axis in order])
        return transpose(apart, sorted(range(len(order)), key=order.__getitem__))

    def of_slice(self) -> Selection:
        """Returns what selects from the slice: arrays alone. It stays the same while slices and integers move on."""
        count = len(self.shape)
        return Selection((0,) * count, self.shape, (1,) * count, (), self.shape, self.gathered)

    def indices(self, arrays: Sequence[Tensor]) -> Tensor:
        """Returns the row of each indexed position; -1, or another number out of range, if one of its indices is.

        Raises:
            ShapeError: A known index in an array is out of range.
            DTypeError: An array doesn't hold integers.
        """
        assert self.gathered is not None
        extents = [self.shape[axis] for axis in self.gathered.axes]
        places = [
            counted_from_front(array, extent, name)
            for array, extent, name in zip(arrays, extents, self.gathered.names, strict=True)
        ]
        places = [broadcast_to(place, self.gathered.shape) for place in places]
        if len(extents) == 1:
            return places[0]
        row: Tensor | None = None
        inside: Tensor | None = None
        for array, extent in zip(places, extents, strict=True):
            within = _within(array, extent)
            if within is not None:
                inside = within if inside is None else logical_and(inside, within)
            place = cast(array, NAMES["i32"])
            row = place if row is None else add(multiply(row, extent), place)
        assert row is not None
        return row if inside is None else where(inside, row, -1)


def _within(array: Tensor, extent: int) -> Tensor | None:
    """Returns whether positions are within an axis; `None` if that is known statically."""
    if isinstance(array, Array) or counts_below(array) is not None:
        return None  # already checked
    below = less(array, extent)
    return below if array.dtype.kind == "u" else logical_and(less(-1, array), below)


Entry: TypeAlias = "slice | int | Tensor | None"
"""A key's entry, with the ellipsis expanded; a tensor holds integers, or is a mask with as many axes as it covers."""


def selection(tensor: Tensor, key: Any) -> tuple[Selection, tuple[Tensor, ...]]:
    """Returns what `tensor[key]` selects, and the integer arrays of the key, whose values are not looked at.

    Raises:
        IndexingError: Too many indices, an integer out of range, a mask that doesn't fit, or arrays that don't
            broadcast.
        ShapeError: More places are indexed than i32 can count.
        DTypeError: A key of another kind.
    """
    start, stop, step, reverse = [], [], [], []
    shape_after: list[int] = []
    axes: list[int] = []
    names: list[str] = []
    arrays: list[Tensor] = []
    advanced: list[tuple[int, int]] = []
    axis = 0
    for position, entry in _expanded(key if isinstance(key, tuple) else (key,), tensor):
        if entry is None:
            shape_after.append(1)
            continue
        extent = tensor.shape[axis]
        if isinstance(entry, slice):
            first, last, stride, backwards = _bounds(entry, extent)
            shape_after.append(len(range(first, last, stride)))
            if backwards:
                reverse.append(axis)
        else:
            advanced.append((position, len(shape_after) - len(axes)))
            if isinstance(entry, Tensor):
                axes.append(len(shape_after))
                names.append(f"axis {axis} of {tensor.shape}")
                arrays.append(entry)
                first, last, stride = 0, extent, 1
                shape_after.append(extent)
            else:
                first, stride = _position(entry, axis, tensor.shape), 1
                last = first + 1
        start.append(first)
        stop.append(last)
        step.append(stride)
        axis += 1
    gathered = _gathered(axes, names, arrays, advanced, shape_after) if axes else None
    selected = Selection(tuple(start), tuple(stop), tuple(step), tuple(reverse), tuple(shape_after), gathered)
    return selected, tuple(arrays)


def _gathered(
    axes: Sequence[int],
    names: Sequence[str],
    arrays: Sequence[Tensor],
    advanced: Sequence[tuple[int, int]],
    extents: Sequence[int],
) -> Gathered:
    """Returns the axes that index arrays select; they come first unless arrays and integers are adjacent.

    Args:
        axes: The axes that they index, of the slice.
        names: The same in error messages.
        arrays: The arrays.
        advanced: For each array and each integer, its position in the key, and the number of axes before it.
        extents: Those of the slice.
    """
    try:
        joint = np.broadcast_shapes(*(array.shape for array in arrays))
    except ValueError:
        listed = ", ".join(str(array.shape) for array in arrays)
        raise IndexingError(f"index arrays of shapes {listed} do not broadcast to one shape") from None
    if len(axes) > 1 and math.prod(extents[axis] for axis in axes) > MOST_PLACES:
        raise ShapeError(f"the indexed axes {axes} have more than {MOST_PLACES} places; index one at a time")
    positions = [position for position, _ in advanced]
    together = positions[-1] - positions[0] < len(set(positions))
    return Gathered(tuple(axes), tuple(names), joint, advanced[0][1] if together else 0)


def _position(entry: int, axis: int, extents: tuple[int, ...]) -> int:
    extent = extents[axis]
    if not -extent <= entry < extent:
        raise IndexingError(f"index {entry} is out of range for axis {axis} of {extents}")
    return entry % extent


def index(x: Any, key: Any) -> Tensor:
    """`x[key]`, as in NumPy: integers, slices with steps, `None`, `...`, integer arrays, and known masks.

    Several arrays broadcast against each other and select elementwise; an integer next to one counts as an array. Their
    axes are at the position of the first of them, or before all others if something separates them. A mask is
    equivalent to as many arrays as it has axes; one without axes, alone in the key, keeps everything, along a new axis,
    or nothing.

    Raises:
        IndexingError: Too many indices, an integer out of range, a mask that doesn't fit, or arrays that don't
            broadcast.
        ShapeError: A known index in an array is out of range.
        DTypeError: A key of another kind.
    """
    tensor, key = by_rows(as_tensor(x), key)
    selected, arrays = selection(tensor, key)
    part = _slice(tensor, selected)
    return part if selected.gathered is None else applied(_gather, key, part, selected.of_slice(), *arrays)


def applied(function: Callable[..., Tensor], key: Any, *args: Any) -> Tensor:
    """Returns a function of what a key selects, as one application unless the key has a mask, of ever other extents."""
    entries = key if isinstance(key, tuple) else (key,)
    has_mask = any(isinstance(entry, Array | np.ndarray) and entry.dtype == NAMES["bool"] for entry in entries)
    return function(*args) if has_mask else whole(function, *args)


@recorded_whole
def _gather(part: Tensor, selected: Selection, *arrays: Tensor) -> Tensor:
    """Returns the elements of a slice that are selected by arrays."""
    assert selected.gathered is not None
    return take_rows(selected.as_rows(part), selected.indices(arrays), selected.gathered.place)


def _slice(tensor: Tensor, selected: Selection) -> Tensor:
    """Returns the slice of a selection: all of it, if no arrays select any further."""
    result = tensor
    if selected.extents != list(tensor.shape):
        bounds = {"start": ints(selected.start), "stop": ints(selected.stop), "step": ints(selected.step)}
        result = emit(shape.SliceOp, [result], **bounds)
    if selected.reverse:
        result = emit(shape.ReverseOp, [result], axes=ints(selected.reverse))
    return reshape(result, selected.shape)


def by_rows(tensor: Tensor, key: Any) -> tuple[Tensor, Any]:
    """Returns a mask without axes as the index of a tensor's only row, or of none, and the tensor with that axis."""
    if isinstance(key, (Array, np.ndarray, np.bool_)) and not key.shape and key.dtype == NAMES["bool"]:
        return reshape(tensor, (1, *tensor.shape)), Array(np.arange(int(bool(key)), dtype=np.int32))
    return tensor, key


def is_integer(entry: Any) -> bool:
    """Returns whether a key's entry is a single integer of known value."""
    if isinstance(entry, (Array, np.ndarray)):
        return not entry.shape and entry.dtype.kind in "iu"
    return isinstance(entry, (int, np.integer)) and not isinstance(entry, (bool, np.bool_))


def _expanded(keys: tuple[Any, ...], tensor: Tensor) -> list[tuple[int, Entry]]:
    """Returns the entries of a key with their positions: `...` expanded, masks as arrays, and no axis missing."""
    known = [_entry(key) for key in keys]
    used = sum(_axes_of(entry) for entry in known)
    dots = [i for i, entry in enumerate(known) if entry is Ellipsis]
    if used > tensor.ndim or len(dots) > 1:
        many = f"{used} indices" if used > tensor.ndim else "more than one ..."
        raise IndexingError(f"{many} for a tensor of {tensor.ndim} axes")
    if not dots:
        known.append(Ellipsis)
    results: list[tuple[int, Entry]] = []
    axis = 0
    for position, entry in enumerate(known):
        if entry is Ellipsis:
            results += [(position, slice(None))] * (tensor.ndim - used)
            axis += tensor.ndim - used
        elif isinstance(entry, Tensor) and entry.dtype == NAMES["bool"]:
            results += [(position, places) for places in _places(entry, axis, tensor.shape)]
            axis += entry.ndim
        else:
            results.append((position, entry))
            axis += _axes_of(entry)
    return results


def _entry(key: Any) -> Any:
    """Returns an entry of a key: as it is, an integer, or a tensor of integers or booleans.

    Raises:
        DTypeError: It is of another kind.
    """
    if key is None or key is Ellipsis or isinstance(key, slice):
        return key
    if is_integer(key):
        return operator.index(key)
    if not isinstance(key, (Tensor, np.ndarray, list)):
        raise DTypeError(f"cannot index by {key!r}; use integers, slices, None, ..., arrays of integers or masks")
    if isinstance(key, list) and np.size(key) == 0:
        return Array(np.zeros(np.shape(key), np.int32))
    return as_tensor(key)


def _axes_of(entry: Any) -> int:
    if entry is None or entry is Ellipsis:
        return 0
    return entry.ndim if isinstance(entry, Tensor) and entry.dtype == NAMES["bool"] else 1


def _places(mask: Tensor, axis: int, extents: tuple[int, ...]) -> list[Tensor]:
    """Returns for each axis of a mask the positions where it is true. A mask without elements is true nowhere.

    Raises:
        DTypeError: Its values are known only when the program runs.
        IndexingError: Its shape differs from that of the axes it covers, or it has no axes.
    """
    if isinstance(mask, Traced):
        raise DTypeError(
            "how many elements a mask selects is known only when the program runs; choose values by "
            "tg.where, or weigh them by the mask"
        )
    covered = extents[axis : axis + mask.ndim]
    if not mask.ndim or not all(own in (0, extent) for own, extent in zip(mask.shape, covered, strict=True)):
        raise IndexingError(
            f"a mask of shape {mask.shape} for the axes of {extents} from {axis} on; it covers as many "
            "axes as it has, each in full"
        )
    coordinates = zip(np.nonzero(np.asarray(mask)), covered, strict=True)
    return [Array(places.astype(index_dtype(extent))) for places, extent in coordinates]


def _bounds(entry: slice, extent: int) -> tuple[int, int, int, bool]:
    """Returns a slice as start, stop and positive step, and whether its elements are reversed."""
    bounds: list[int | None] = []
    for bound in (entry.start, entry.stop, entry.step):
        if bound is not None and not is_integer(bound):
            raise DTypeError(f"slice bounds must be integers, got {bound!r}")
        bounds.append(None if bound is None else operator.index(bound))
    if bounds[2] == 0:
        raise ShapeError("a slice's step must not be 0")
    positions = range(extent)[slice(*bounds)]
    if not positions:
        return 0, 0, 1, False
    if positions.step > 0:
        return positions[0], positions[-1] + 1, positions.step, False
    return positions[-1], positions[0] + 1, -positions.step, True
