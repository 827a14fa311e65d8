"""Functions that join, split, repeat and pad tensors, and extract triangles and diagonals."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tensorgrad.dialects.tg import shape
from tensorgrad.dialects.tg.base import integer, ints
from tensorgrad.errors import OptionError, ShapeError, TraceError
from tensorgrad.ops.creation import arange, fitted, full
from tensorgrad.ops.elementwise.arithmetic import equal, greater_equal, subtract, where
from tensorgrad.ops.promotion import as_tensor, broadcast_to, cast, in_dtype, promoted
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.ops.shape import expand_dims, flip, normalized_axes, normalized_axis, reshape, take, transpose
from tensorgrad.tracing.checks import checked_extent
from tensorgrad.tracing.dtypes import NAMES, as_dtype
from tensorgrad.tracing.likes import Axes, TensorLike
from tensorgrad.tracing.tensor import Array, Tensor, Traced
from tensorgrad.tracing.tracer import emit
from tensorgrad.tracing.views import viewing

PARTS_A_KERNEL = 6
"""The number of tensors joined by one kernel, which can bind only few buffers."""

PAD_MODES = ("constant", "edge", "reflect", "symmetric", "wrap")

FOREIGN_MODES = {"replicate": "edge", "circular": "wrap", "zeros": "constant"}
"""Other libraries' names of some modes."""


@viewing(in_order=False)
def moveaxis(x: TensorLike, source: Axes, destination: Axes) -> Tensor:
    """Moves the axes in `source` to the positions in `destination`; the others keep their order.

    Raises:
        ShapeError: An axis is out of range or named twice, or the two name different numbers of axes.

    Example:
        >>> tg.moveaxis(tg.ones((2, 3, 4)), 0, -1).shape
        (3, 4, 2)
    """
    tensor = as_tensor(x)
    places: list[list[int]] = []
    for axes in (source, destination):
        listed = list(axes) if isinstance(axes, (tuple, list)) else [axes]
        normalized_axes(listed, tensor.ndim, "moveaxis")
        places.append([normalized_axis(axis, tensor.ndim, "moveaxis") for axis in listed])
    if len(places[0]) != len(places[1]):
        raise ShapeError(f"moveaxis: {source} and {destination} name different numbers of axes")
    order = [axis for axis in range(tensor.ndim) if axis not in places[0]]
    for after, before in sorted(zip(places[1], places[0], strict=True)):
        order.insert(after, before)
    return transpose(tensor, order)


@viewing(in_order=False)
def permute(x: TensorLike, *axes: Axes) -> Tensor:
    """Permutes the axes: axis `i` of the result is axis `axes[i]` of `x`; `transpose` with all axes given.

    Raises:
        ShapeError: The axes are not a permutation.

    Example:
        >>> tg.permute(tg.ones((2, 3, 4)), 2, 0, 1).shape
        (4, 2, 3)
    """
    tensor = as_tensor(x)
    requested = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes
    order = [normalized_axis(axis, tensor.ndim, "permute") for axis in requested]
    if sorted(order) != list(range(tensor.ndim)):
        raise ShapeError(f"permute: {tuple(requested)} is not a permutation of {tensor.ndim} axes")
    return transpose(tensor, order) if order else tensor


def _alike(what: str, tensors: Sequence[Any]) -> list[Tensor]:
    """Returns tensors cast to their common dtype."""
    parts = list(tensors)
    if not parts:
        raise ShapeError(f"{what}: there is nothing to join")
    return promoted(what, *parts)


def concat(tensors: Sequence[Any], axis: int | None = 0) -> Tensor:
    """Concatenates tensors along `axis`; `None` flattens them first.

    There is one kernel for every six tensors; it reads and writes every element once.

    Raises:
        ShapeError: There are none, or their shapes differ on another axis.
        DTypeError: They have no common dtype.

    Example:
        >>> tg.concat([tg.ones((2, 3)), tg.zeros((1, 3))]).shape
        (3, 3)
    """
    parts = _alike("concat", tensors)
    if axis is None:
        parts, axis = [reshape(part, -1) for part in parts], 0
    place = normalized_axis(axis, parts[0].ndim, "concat")
    first = parts[0].shape
    for part in parts:
        if (*part.shape[:place], *part.shape[place + 1 :]) != (*first[:place], *first[place + 1 :]):
            raise ShapeError(f"concat: {first} and {part.shape} differ on another axis than {place}")
    parts = [part for part in parts if part.shape[place]] or parts[:1]
    while len(parts) > 1:
        groups = [parts[i : i + PARTS_A_KERNEL] for i in range(0, len(parts), PARTS_A_KERNEL)]
        parts = [emit(shape.ConcatOp, group, axis=integer(place)) if len(group) > 1 else group[0] for group in groups]
    return parts[0].clone() if any(parts[0] is tensor for tensor in tensors) else parts[0]


def stack(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Stacks tensors of the same shape along a new axis.

    Raises:
        ShapeError: There are none, or their shapes differ.
        DTypeError: They have no common dtype.

    Example:
        >>> tg.stack([[1, 2], [3, 4]], axis=1)
        Array([[1, 3],
         [2, 4]], dtype=i32)
    """
    parts = _alike("stack", tensors)
    for part in parts:
        if part.shape != parts[0].shape:
            raise ShapeError(f"stack: shapes {parts[0].shape} and {part.shape} differ")
    place = normalized_axis(axis, parts[0].ndim + 1, "stack")
    return concat([expand_dims(part, place) for part in parts], place)


def _between(x: Tensor, axis: int, start: int, stop: int, step: int = 1) -> Tensor:
    """`x[start:stop:step]` along an axis."""
    if (start, stop, step) == (0, x.shape[axis], 1):
        return x
    low, high, steps = [0] * x.ndim, list(x.shape), [1] * x.ndim
    low[axis], high[axis], steps[axis] = start, stop, step
    return emit(shape.SliceOp, [x], start=ints(low), stop=ints(high), step=ints(steps))


@viewing(in_order=False)
def split(x: TensorLike, indices_or_sections: Axes, axis: int = 0) -> list[Tensor]:
    """Splits `x` along `axis` into equal parts, or at the positions in a list, as in NumPy.

    Raises:
        ShapeError: The axis can't be divided equally.

    Example:
        >>> [part.tolist() for part in tg.split(tg.arange(6), [1, 4])]
        [[0], [1, 2, 3], [4, 5]]
    """
    tensor = as_tensor(x)
    place = normalized_axis(axis, tensor.ndim, "split")
    extent = tensor.shape[place]
    if isinstance(indices_or_sections, (tuple, list, np.ndarray)):
        places = [checked_extent(i, "split: a position") for i in indices_or_sections]
        bounds = [slice(a, b).indices(extent)[:2] for a, b in pairwise([0, *places, extent])]
        return [_between(tensor, place, a, builtins.max(a, b)) for a, b in bounds]
    sections = checked_extent(indices_or_sections, "split: the number of parts")
    if sections < 1 or extent % sections:
        raise ShapeError(f"split: axis {place} of {tensor.shape} does not divide into {sections} parts")
    size = extent // sections
    return [_between(tensor, place, i * size, (i + 1) * size) for i in range(sections)]


@viewing(in_order=False)
def chunk(x: TensorLike, chunks: int, axis: int = 0) -> list[Tensor]:
    """Splits `x` along `axis` into at most `chunks` parts, as in PyTorch: equal ones, but the last may be shorter.

    The extent is the smallest for which `chunks` parts suffice, so there may be fewer.

    Raises:
        ShapeError: The axis is out of range, or `chunks` is not a positive integer.

    Example:
        >>> [part.tolist() for part in tg.chunk(tg.arange(5), 2)]
        [[0, 1, 2], [3, 4]]
    """
    tensor = as_tensor(x)
    place, count = normalized_axis(axis, tensor.ndim, "chunk"), checked_extent(chunks, "chunk: the number of parts", 1)
    extent = tensor.shape[place]
    size = -(-extent // count)
    firsts = range(0, extent, size) if extent else [0] * count
    return [_between(tensor, place, first, builtins.min(first + size, extent)) for first in firsts]


@viewing(in_order=False)
def narrow(x: TensorLike, axis: int, start: int, length: int) -> Tensor:
    """Returns `length` positions along `axis` from `start` on; a negative start counts from the end.

    Raises:
        ShapeError: They are not all within the axis.

    Example:
        >>> tg.narrow(tg.arange(6), 0, 1, 3)
        Array([1, 2, 3], dtype=i32)
    """
    tensor = as_tensor(x)
    place = normalized_axis(axis, tensor.ndim, "narrow")
    extent, first = tensor.shape[place], checked_extent(start, "narrow: start")
    first = first + extent if first < 0 else first
    last = first + checked_extent(length, "narrow: length")
    if not 0 <= first <= last <= extent:
        raise ShapeError(f"narrow: {length} positions from {start} are out of range for axis {place} of {tensor.shape}")
    return _between(tensor, place, first, last)


@recorded_whole
def roll(x: TensorLike, shift: TensorLike, axis: Axes | None = None) -> Tensor:
    """Rolls the elements by `shift` positions along `axis`, circularly.

    `None` rolls the flattened tensor; several shifts correspond to several axes.

    Raises:
        ShapeError: An axis is out of range, or shifts and axes differ in number.

    Example:
        >>> tg.roll([1, 2, 3, 4], 1)
        Array([4, 1, 2, 3], dtype=i32)
    """
    tensor = as_tensor(x)
    if axis is None:
        return reshape(roll(reshape(tensor, -1), shift, 0), tensor.shape)
    axes = list(axis) if isinstance(axis, (tuple, list)) else [axis]
    shifts = list(shift) if isinstance(shift, (tuple, list)) else [shift] * len(axes)
    if len(shifts) != len(axes):
        raise ShapeError(f"roll: {len(shifts)} shifts for {len(axes)} axes")
    for rolled, by in zip(axes, shifts, strict=True):
        place = normalized_axis(rolled, tensor.ndim, "roll")
        extent = tensor.shape[place]
        cut = -checked_extent(by, "roll: a shift") % extent if extent else 0
        if cut:
            tensor = concat([_between(tensor, place, cut, extent), _between(tensor, place, 0, cut)], place)
    return tensor


@recorded_whole
def repeat(x: TensorLike, repeats: TensorLike, axis: int | None = None) -> Tensor:
    """Repeats each element along `axis` (of the flattened tensor if `None`), by one number or by a number for each.

    Args:
        x: Any tensor.
        repeats: An integer, or one for each element of the axis: a list or an array whose values are known.
        axis: The axis that becomes longer.

    Raises:
        ShapeError: A number of repeats is negative, or their list does not match the axis.
        TraceError: The numbers are known only when the program runs.

    Example:
        >>> tg.repeat([1, 2], 2), tg.repeat([1, 2], [1, 3])
        (Array([1, 1, 2, 2], dtype=i32), Array([1, 2, 2, 2], dtype=i32))
    """
    tensor = as_tensor(x)
    if axis is None:
        tensor, axis = reshape(tensor, -1), 0
    place = normalized_axis(axis, tensor.ndim, "repeat")
    extent = tensor.shape[place]
    if isinstance(repeats, Traced):
        raise TraceError(
            "repeat: the numbers of repeats say how long the result is, and a traced tensor has them "
            "only when the program runs"
        )
    numbers: Any = np.asarray(repeats) if isinstance(repeats, Array) else repeats
    listed = isinstance(numbers, (tuple, list)) or (isinstance(numbers, np.ndarray) and numbers.ndim > 0)
    counts = [
        int(count) if isinstance(count, bool | np.bool_) else checked_extent(count, "repeat: a number of repeats")
        for count in (numbers if listed else [numbers])
    ]
    if builtins.min(counts, default=0) < 0 or (listed and len(counts) not in (1, extent)):
        raise ShapeError(f"repeat: {repeats} does not fit axis {place} of {tensor.shape}")
    if len(counts) != 1:
        return take(tensor, Array(np.repeat(np.arange(extent, dtype=np.int32), counts)), place)
    wide = [*tensor.shape[: place + 1], counts[0], *tensor.shape[place + 1 :]]
    result = [*tensor.shape[:place], extent * counts[0], *tensor.shape[place + 1 :]]
    return reshape(broadcast_to(expand_dims(tensor, place + 1), wide), result)


@recorded_whole
def tile(x: TensorLike, repeats: Axes) -> Tensor:
    """Repeats the whole tensor along each axis; missing axes or numbers count as 1, as in NumPy.

    Raises:
        ShapeError: A number is negative.

    Example:
        >>> tg.tile([1, 2], 2)
        Array([1, 2, 1, 2], dtype=i32)
    """
    tensor = as_tensor(x)
    counts = [
        checked_extent(c, "tile: a number") for c in (repeats if isinstance(repeats, (tuple, list)) else [repeats])
    ]
    if builtins.min(counts, default=0) < 0:
        raise ShapeError(f"tile: {repeats} has a negative number")
    rank = builtins.max(tensor.ndim, len(counts))
    counts = [1] * (rank - len(counts)) + counts
    if rank == tensor.ndim and all(count == 1 for count in counts):
        return tensor.clone()
    extents = [1] * (rank - tensor.ndim) + list(tensor.shape)
    apart = reshape(tensor, [n for extent in extents for n in (1, extent)])
    wide = broadcast_to(apart, [n for pair in zip(counts, extents, strict=True) for n in pair])
    return reshape(wide, [count * extent for count, extent in zip(counts, extents, strict=True)])


def _pad_widths(width: Any, extents: Sequence[int]) -> list[tuple[int, int]]:
    rank = len(extents)
    try:
        pairs = np.broadcast_to(np.asarray(width), (rank, 2))
    except ValueError:
        raise ShapeError(f"pad: widths {width!r} do not fit a tensor of {rank} axes") from None
    if pairs.size and pairs.dtype.kind not in "iu":
        raise ShapeError(f"pad: widths must be integers, got {width!r}")
    widths = [(int(low), int(high)) for low, high in pairs]
    for axis, (extent, (low, high)) in enumerate(zip(extents, widths, strict=True)):
        if builtins.max(-low, 0) + builtins.max(-high, 0) > extent:
            raise ShapeError(f"pad: widths {low} and {high} crop more than axis {axis} of {tuple(extents)} has")
    return widths


def _cropped(x: Tensor, widths: Sequence[tuple[int, int]]) -> Tensor:
    """Crops by the negative widths."""
    for axis, (low, high) in enumerate(widths):
        x = _between(x, axis, builtins.max(-low, 0), x.shape[axis] - builtins.max(-high, 0))
    return x


def pad(
    x: TensorLike, pad_width: Axes | Sequence[Sequence[int]], mode: str = "constant", constant_values: TensorLike = 0
) -> Tensor:
    """Pads `x`: `pad_width` is one number, a pair (before, after), or a pair for each axis, as in NumPy.

    Modes: `constant` pads with `constant_values` (one number), `edge` repeats the last element, `reflect` mirrors at it
    and `symmetric` after it, `wrap` continues with the other end. Negative widths crop, as in PyTorch: `edge`,
    `reflect` and `symmetric` still see the cropped elements, `wrap` continues with those that are left.

    Raises:
        ShapeError: The widths don't match, or crop more than there is; or an axis is too short: `reflect` pads by at
            most all elements except the one it mirrors at, `symmetric` and `wrap` by at most all.
        OptionError: The mode is unknown.

    Example:
        >>> tg.pad([[1, 2]], ((0, 1), (2, 0)))
        Array([[0, 0, 1, 2],
         [0, 0, 0, 0]], dtype=i32)
    """
    tensor = as_tensor(x)
    if mode not in PAD_MODES:
        ours = FOREIGN_MODES.get(str(mode))
        hint = f"; {ours!r} is that" if ours else ""
        raise OptionError(f"pad: mode {mode!r} is not one of {', '.join(PAD_MODES)}{hint}")
    widths = _pad_widths(pad_width, tensor.shape)
    if mode in ("constant", "wrap"):
        tensor = _cropped(tensor, widths)
        widths = [(builtins.max(low, 0), builtins.max(high, 0)) for low, high in widths]
    if mode == "constant":
        value = reshape(in_dtype(constant_values, tensor.dtype), ())
        low, high = [a for a, _ in widths], [b for _, b in widths]
        return emit(shape.PadOp, [tensor, value], low=ints(low), high=ints(high), interior=ints([0] * tensor.ndim))
    for axis, (low, high) in enumerate(widths):
        extent, most_added = tensor.shape[axis], builtins.max(low, high, 0)
        if not most_added:
            tensor = _between(tensor, axis, -low, extent + high)
            continue
        if not extent:
            raise ShapeError(f"pad: axis {axis} of {tensor.shape} is empty; only 'constant' can pad it")
        most = {"edge": most_added, "reflect": extent - 1}.get(mode, extent)
        if most_added > most:
            raise ShapeError(
                f"pad: mode {mode!r} adds at most {most} elements on each side of axis {axis} of "
                f"{tensor.shape}, not {low} and {high}; pad several times to go on"
            )
        tensor = _surrounded(tensor, axis, low, high, mode)
    return tensor


def _surrounded(x: Tensor, axis: int, low: int, high: int, mode: str) -> Tensor:
    """Pads one axis with its own elements, and crops by negative widths."""
    known: Any = mode  # checked by `pad`; numpy's type stubs require literal names
    added = (builtins.max(low, 0), builtins.max(high, 0))
    order = np.pad(np.arange(x.shape[axis]), added, known)[builtins.max(-low, 0) :]
    order = order[: len(order) - builtins.max(-high, 0)]
    return concat([_run(x, axis, *run) for run in _runs([int(i) for i in order])], axis)


def _runs(places: list[int]) -> list[tuple[int, int, int]]:
    """Splits positions into runs that rise, fall or stay: the first position, the step and the length of each."""
    runs: list[tuple[int, int, int]] = []
    for place in places:
        if runs:
            first, step, length = runs[-1]
            last = first + step * (length - 1)
            if length == 1 and abs(place - last) <= 1:
                runs[-1] = (first, place - last, 2)
                continue
            if length > 1 and place - last == step:
                runs[-1] = (first, step, length + 1)
                continue
        runs.append((place, 0, 1))
    return runs


def _run(x: Tensor, axis: int, first: int, step: int, length: int) -> Tensor:
    if step == 0:
        element = _between(x, axis, first, first + 1)
        return broadcast_to(element, [length if i == axis else extent for i, extent in enumerate(x.shape)])
    if step > 0:
        return _between(x, axis, first, first + length)
    return flip(_between(x, axis, first - length + 1, first + 1), axis)


def _distance(rows: int, columns: int) -> Tensor:
    """Returns the column minus the row of each element."""
    return subtract(arange(columns), reshape(arange(rows), (-1, 1)))


def _triangle(x: Any, k: int, upper: bool, what: str) -> Tensor:
    tensor = as_tensor(x)
    if tensor.ndim < 2:
        raise ShapeError(f"{what}: takes a tensor of two axes or more, not {tensor.shape}")
    distance, offset = _distance(*tensor.shape[-2:]), checked_extent(k, f"{what}: k")
    mask = greater_equal(distance, offset) if upper else greater_equal(offset, distance)
    return where(mask, tensor, False if tensor.dtype == NAMES["bool"] else 0)


def tril(x: TensorLike, k: int = 0) -> Tensor:
    """Returns the lower triangle of the last two axes, up to `k` diagonals above the main one; 0 elsewhere.

    Raises:
        ShapeError: `x` has fewer than two axes.

    Example:
        >>> tg.tril(tg.ones((3, 3), dtype="i32"))
        Array([[1, 0, 0],
         [1, 1, 0],
         [1, 1, 1]], dtype=i32)
    """
    return _triangle(x, k, False, "tril")


def triu(x: TensorLike, k: int = 0) -> Tensor:
    """Returns the upper triangle of the last two axes, from `k` diagonals above the main one on; 0 elsewhere.

    Raises:
        ShapeError: `x` has fewer than two axes.

    Example:
        >>> tg.triu(tg.ones((3, 3), dtype="i32"), 1)
        Array([[0, 1, 1],
         [0, 0, 1],
         [0, 0, 0]], dtype=i32)
    """
    return _triangle(x, k, True, "triu")


@viewing(in_order=False)
def diagonal(x: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Returns the diagonal of two axes, `offset` above the main one, as the last axis, as a view.

    Raises:
        ShapeError: `x` has fewer than two axes, or the two are the same.

    Example:
        >>> tg.diagonal([[1, 2], [3, 4]])
        Array([1, 4], dtype=i32)
    """
    tensor = as_tensor(x)
    places = [normalized_axis(axis, tensor.ndim, "diagonal") for axis in (axis1, axis2)]
    if places[0] == places[1]:
        raise ShapeError(f"diagonal: axes {axis1} and {axis2} are the same")
    others = [axis for axis in range(tensor.ndim) if axis not in places]
    moved = transpose(tensor, [*others, *places])
    rows, columns = moved.shape[-2:]
    shift = checked_extent(offset, "diagonal: offset")
    count = builtins.min(rows, columns - shift) if shift >= 0 else builtins.min(rows + shift, columns)
    if count <= 0:
        return full((*moved.shape[:-2], 0), 0, tensor.dtype)
    flat = reshape(moved, [*moved.shape[:-2], rows * columns])
    first = shift if shift >= 0 else -shift * columns
    return _between(flat, flat.ndim - 1, first, first + (count - 1) * (columns + 1) + 1, columns + 1)


def meshgrid(*axes: TensorLike, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Returns the coordinates of a grid: for each vector, a tensor of the grid's shape.

    Args:
        *axes: The coordinates along each axis, vectors or scalars.
        indexing: With `xy`, NumPy's default, the first vector is along the second axis and the second along the first;
            with `ij` each is along its own.

    Raises:
        OptionError: `indexing` is neither.
        ShapeError: A tensor has two axes or more.

    Example:
        >>> rows, columns = tg.meshgrid([0, 1], [0, 1, 2], indexing="ij")
        >>> rows.tolist(), columns.tolist()
        ([[0, 0, 0], [1, 1, 1]], [[0, 1, 2], [0, 1, 2]])
    """
    if indexing not in ("xy", "ij"):
        raise OptionError(f"meshgrid: indexing {indexing!r} is not one of xy, ij")
    tensors = [as_tensor(axis) for axis in axes]
    for tensor in tensors:
        if tensor.ndim > 1:
            raise ShapeError(f"meshgrid: takes vectors, not a tensor of shape {tensor.shape}")
    order = list(range(len(tensors)))
    if indexing == "xy":
        order[:2] = order[:2][::-1]
    extents = [tensors[i].size for i in order]
    apart = [reshape(x, [-1 if j == i else 1 for j in order]) for i, x in enumerate(tensors)]
    return tuple(broadcast_to(part, extents) for part in apart)


def eye(rows: int, columns: int | None = None, k: int = 0, dtype: object = "f32") -> Tensor:
    """Ones on the diagonal `k` above the main one, zeros elsewhere.

    Example:
        >>> tg.eye(2, 3)
        Array([[1., 0., 0.],
         [0., 1., 0.]], dtype=f32)
    """
    extents = [checked_extent(n, "eye: an extent") for n in (rows, rows if columns is None else columns)]
    if builtins.min(extents) < 0:
        raise ShapeError(f"eye: extents {tuple(extents)} must not be negative")
    return cast(equal(_distance(*extents), checked_extent(k, "eye: k")), as_dtype(dtype))


def linspace(start: float, stop: float, num: int = 50, endpoint: bool = True, dtype: object = "f32") -> Tensor:
    """`num` evenly spaced numbers from `start` to `stop`; without `endpoint`, `stop` itself is excluded.

    They are computed in f64 and rounded once, down for integers.

    Raises:
        ShapeError: `num` is negative.
        DTypeError: A number is out of the dtype's range.

    Example:
        >>> tg.linspace(0.0, 1.0, 5)
        Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=f32)
    """
    count = checked_extent(num, "linspace: num")
    if count < 0:
        raise ShapeError(f"linspace: num {count} is negative")
    target = as_dtype(dtype)
    numbers = np.linspace(float(start), float(stop), count, endpoint=endpoint)
    return Array(fitted(np.floor(numbers) if target.kind in "iu" else numbers, target, "linspace"))
