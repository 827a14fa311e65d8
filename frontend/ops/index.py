"""Reading and updating tensors at computed indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorgrad.dialects.tg import index as index_ops
from tensorgrad.dialects.tg import shape
from tensorgrad.dialects.tg.base import integer, ints
from tensorgrad.errors import DTypeError, OptionError, ShapeError, TraceError
from tensorgrad.ops.elementwise.arithmetic import equal, where
from tensorgrad.ops.joining import concat, narrow, pad
from tensorgrad.ops.keys import Selection, by_rows, index, selection
from tensorgrad.ops.promotion import as_tensor, broadcast_shapes, broadcast_to, cast, in_dtype
from tensorgrad.ops.shape import (
    arange,
    as_indices,
    counted_from_front,
    expand_dims,
    full,
    normalized_axis,
    note_range,
    reshape,
    take,
    take_along_axis,
    take_rows,
)
from tensorgrad.ops.sort import argsort
from tensorgrad.tracing.dtypes import SHORT, as_dtype
from tensorgrad.tracing.location import user_line, user_location
from tensorgrad.tracing.tensor import Array, Tensor, Traced
from tensorgrad.tracing.tracer import current_trace, emit, value_in


def embedding(table: Any, indices: Any) -> Tensor:
    """Returns the rows of `table` at `indices`: `[*indices.shape, *table.shape[1:]]`. Only these rows are read.

    An index out of range reads NaN. The derivative adds the cotangents of equal indices in increasing order of their
    position, without atomics: by a stable sort of the indices and a sum over each row's segment.

    Raises:
        DTypeError: The indices are not integers.
        ShapeError: The table has no axes.
    """
    return take(table, indices, 0)


def axis_of_indices(tensor: Tensor, indices: Tensor, axis: int, what: str) -> int:
    """Returns the axis that indices refer to, counted from the front.

    Raises:
        ShapeError: They differ in rank from the tensor, or are longer on another axis.
    """
    place = normalized_axis(axis, tensor.ndim, what)
    fits = indices.ndim == tensor.ndim and all(
        i == place or given <= extent
        for i, (given, extent) in enumerate(zip(indices.shape, tensor.shape, strict=False))
    )
    if not fits:
        raise ShapeError(
            f"{user_line()}: {what}: indices {indices.shape} do not fit {tensor.shape} along axis {place}: they have "
            "as many axes, and elsewhere no larger extents; for rows there are x[indices] and x.at[indices].add(rows)"
        )
    return place


def updates_at(indices: Tensor, updates: Tensor, what: str) -> Tensor:
    """Returns the updates that correspond to indices: on each axis the leading ones, as in PyTorch.

    Raises:
        ShapeError: There are fewer of them than indices on an axis, or they have a different number of axes.
    """
    extents = indices.shape
    if updates.ndim != len(extents) or any(one < wanted for one, wanted in zip(updates.shape, extents, strict=True)):
        raise ShapeError(f"{user_line()}: {what}: updates {updates.shape} do not cover the indices {extents}")
    for axis, extent in enumerate(extents):
        updates = narrow(updates, axis, 0, extent)
    return updates


def gather(x: Any, axis: int, indices: Any) -> Tensor:
    """Elements of `x` along `axis` at indices for each position, as in PyTorch: other axes may be shorter.

    `gather(x, 1, i)[a, b] = x[a, i[a, b]]`. An index out of range reads NaN (0 where the elements are not floats).

    Raises:
        DTypeError: The indices are not integers.
        ShapeError: The indices are longer than `x` on another axis.
    """
    tensor, given = as_tensor(x), as_tensor(indices)
    place = axis_of_indices(tensor, given, axis, "gather")
    for other, extent in enumerate(given.shape):
        if other != place:
            tensor = narrow(tensor, other, 0, extent)
    return take_along_axis(tensor, given, place)


def scatter_add(x: Any, axis: int, indices: Any, updates: Any) -> Tensor:
    """Adds `updates` to `x` along `axis` at indices for each position, as in PyTorch: other axes may be shorter.

    `scatter_add(x, 1, i, u)` adds `u[a, b]` to `x[a, i[a, b]]`; equal indices accumulate in increasing order of their
    position. An index out of range is dropped, and so are updates beyond the indices of an axis. Few indices are
    compared with every position; many are sorted, and each position sums its segment.

    Raises:
        DTypeError: The indices are not integers.
        ShapeError: There are fewer updates than indices on an axis, or these are longer than `x` on another one.
    """
    tensor, given = as_tensor(x), as_tensor(indices)
    place = axis_of_indices(tensor, given, axis, "scatter_add")
    extent = tensor.shape[place]
    parts = updates_at(given, in_dtype(updates, tensor.dtype), "scatter_add")
    kind = index_ops.ScatterAddAlongAxisOp
    places = counted_from_front(given, extent, "scatter_add")
    added = emit(kind, [parts, places], axis=integer(place), extent=integer(extent))
    return tensor + pad(added, [(0, whole - part) for whole, part in zip(tensor.shape, added.shape, strict=True)])


def one_hot(indices: Any, count: int, dtype: object = "f32") -> Tensor:
    """Returns a new last axis of `count` elements: 1 at the index, 0 elsewhere; all 0 if it is out of range.

    It is a comparison with positions, which is fused into a sum or product that reads it.

    Raises:
        DTypeError: The indices are not integers.
        OptionError: `count` is not a positive integer.
    """
    tensor = as_indices(indices, "one_hot")
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise OptionError(f"{user_line()}: one_hot: the number of classes must be a positive integer, got {count!r}")
    note_range(tensor, 0, int(count) - 1, "one_hot")
    return cast(equal(expand_dims(tensor, -1), arange(count, dtype=tensor.dtype)), as_dtype(dtype))


def nonzero(x: Any) -> tuple[Tensor, ...]:
    """Returns the indices of nonzero elements along each axis, in row-major order, as in NumPy.

    Their number depends on values, which therefore have to be known: it works only outside a trace.

    Raises:
        TraceError: The values are not known yet.
        ShapeError: There are no axes.
    """
    tensor = as_tensor(x)
    if not tensor.ndim:
        raise ShapeError(f"{user_line()}: nonzero: a tensor without axes has no indices")
    if not isinstance(tensor, Array):
        raise TraceError(
            f"{user_line()}: nonzero: how many elements the result has is known only when the program runs; choose "
            "values by where"
        )
    return tuple(Array(places.astype(np.int32)) for places in np.nonzero(np.asarray(tensor)))


def masked_select(x: Any, mask: Any) -> Tensor:
    """Returns the elements of `x` where a mask is true, as one axis; both broadcast, as in PyTorch.

    Raises:
        TraceError: The values of the mask are not known yet: it works only outside a trace.
        DTypeError: The mask is not boolean.
        ShapeError: They don't broadcast.
    """
    tensor, chosen = as_tensor(x), as_tensor(mask)
    if chosen.dtype.kind != "b":
        raise DTypeError(f"{user_line()}: masked_select: the mask must be bool, got {SHORT[chosen.dtype]}")
    extents = broadcast_shapes(tensor.shape, chosen.shape, what="masked_select")
    places = nonzero(reshape(broadcast_to(chosen, extents), -1))[0]
    return take_rows(reshape(broadcast_to(tensor, extents), -1), places, 0)


class Changes:
    """`x.at[key]`: returns copies of a tensor with the elements at a key changed."""

    def __init__(self, tensor: Tensor):
        self._tensor = tensor

    def __getitem__(self, key: Any) -> Change:
        return Change(self._tensor, key)


class Change:
    """The elements of a tensor at a key, as in `x[key]`."""

    def __init__(self, tensor: Tensor, key: Any):
        self._shape = tensor.shape
        self._tensor, self._key = by_rows(tensor, key)
        self._found = selection(self._tensor, self._key)

    def get(self) -> Tensor:
        """`x[key]`."""
        return index(self._tensor, self._key)

    def add(self, values: Any) -> Tensor:
        """Returns the tensor with `values` added at the key.

        Equal indices accumulate, and traced ones out of range are dropped.

        Raises:
            ShapeError: The values do not broadcast to the shape that the key selects.
        """
        found, given = self._found, self._given(values)
        if found.gathered is not None:
            place = found.gathered.place
            bounds = {"axis": integer(place), "extent": integer(found.rows[place])}
            given = found.from_rows(emit(index_ops.ScatterAddOp, [given, found.indices()], **bounds))
        added = _placed(found, given, Array(np.zeros((), given.dtype)), self._tensor)
        return reshape(self._tensor + added, self._shape)

    def set(self, values: Any) -> Tensor:
        """Returns the tensor with `values` at the key.

        Of equal indices the last one wins, and traced ones out of range are dropped.

        Raises:
            ShapeError: The values do not broadcast to the shape that the key selects.
        """
        found, given = self._found, self._given(values)
        changed: Tensor = full(found.shape, True, "bool")
        if found.gathered is not None:
            given, written = _last_of_equals(given, found)
            given, changed = found.from_rows(given), found.from_rows(broadcast_to(written, found.rows))
        nothing = Array(np.zeros((), given.dtype))
        mask = _placed(found, changed, Array(np.zeros((), np.bool_)), self._tensor)
        changed = where(mask, _placed(found, given, nothing, self._tensor), self._tensor)
        return reshape(changed, self._shape)

    def _given(self, values: Any) -> Tensor:
        return broadcast_to(cast(as_tensor(values, self._tensor.dtype), self._tensor.dtype), self._found.result)


def _last_of_equals(values: Tensor, found: Selection) -> tuple[Tensor, Tensor]:
    """Returns for each row of a selection the values of the last index that names it, and whether there is one."""
    assert found.gathered is not None
    axis, rows = found.gathered.place, found.rows
    extent, count = rows[axis], found.gathered.arrays[0].size
    flat = reshape(found.indices(), (count,))
    shape_ = (*rows[:axis], count, *rows[axis + 1 :])
    trailing = (extent, *(1 for _ in rows[axis + 1 :]))
    if not count:
        return full(rows, 0, values.dtype), full(trailing, False, "bool")
    order = argsort(flat)
    ordered = take_rows(flat, order, 0)
    last = concat([ordered[:-1] != ordered[1:], full((1,), True, "bool")])
    places = where(last, ordered, full((), extent, ordered.dtype))
    # One summand per position: the sum is its index plus one, so that 0 means none.
    winner = emit(index_ops.ScatterAddOp, [order + 1, places], axis=integer(0), extent=integer(extent))
    return take_rows(reshape(values, shape_), winner - 1, axis), reshape(winner > 0, trailing)


def _placed(found: Selection, values: Tensor, around: Tensor, like: Tensor) -> Tensor:
    """Returns a tensor of `like`'s shape with `values` where a key selects, and `around` elsewhere."""
    result = reshape(values, found.extents)
    if found.reverse:
        result = emit(shape.ReverseOp, [result], axes=ints(found.reverse))
    extents = found.extents
    if tuple(extents) == like.shape:
        return result
    covered = [(n - 1) * step + 1 if n else 0 for n, step in zip(extents, found.step, strict=True)]
    high = [n - a - c for n, a, c in zip(like.shape, found.start, covered, strict=True)]
    bounds = {"low": ints(found.start), "high": ints(high), "interior": ints([step - 1 for step in found.step])}
    trace = current_trace()
    if trace is None:
        return emit(shape.PadOp, [result, around], **bounds)
    # Traced even if both are concrete: otherwise a constant of the whole shape would be stored.
    trace.builder.location = user_location()
    return Traced(trace, trace.builder.emit(shape.PadOp, [value_in(trace, result), value_in(trace, around)], **bounds))
