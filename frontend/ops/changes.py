"""`x.at[key]`: copies of a tensor with the elements at a key changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tensorgrad.dialects.tg import index as index_ops
from tensorgrad.dialects.tg import shape
from tensorgrad.dialects.tg.base import integer, ints
from tensorgrad.errors import DTypeError
from tensorgrad.ops.creation import arange, full
from tensorgrad.ops.elementwise.arithmetic import equal, maximum, minimum, multiply, power, where
from tensorgrad.ops.index import scattered
from tensorgrad.ops.keys import Selection, applied, by_rows, index, selection
from tensorgrad.ops.promotion import as_tensor, broadcast_to, cast
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.ops.scatter import scatter_reduce
from tensorgrad.ops.shape import positions, reshape, take_rows
from tensorgrad.surface.calls import public
from tensorgrad.surface.foreign import unknown_attribute
from tensorgrad.tracing.dtypes import NAMES, SHORT, is_float
from tensorgrad.tracing.location import user_location
from tensorgrad.tracing.tensor import Array, Tensor, Traced
from tensorgrad.tracing.tracer import current_trace, emit, value_in


class Changes:
    """`x.at[key]`: returns copies of a tensor with the elements at a key changed."""

    def __init__(self, tensor: Tensor):
        self._tensor = tensor

    def __getitem__(self, key: Any) -> Change:
        return Change(self._tensor, key)

    if not TYPE_CHECKING:  # type checkers report such names themselves

        def __getattr__(self, name: str) -> NoReturn:
            raise unknown_attribute("Changes", "x.at, which takes a key, x.at[key],", name, self)


@public
class Change:
    """The elements of a tensor at a key, as in `x[key]`."""

    def __init__(self, tensor: Tensor, key: Any):
        self._shape = tensor.shape
        self._tensor, self._key = by_rows(tensor, key)
        self._selection, self._arrays = selection(self._tensor, self._key)

    def get(self) -> Tensor:
        """`x[key]`."""
        return index(self._tensor, self._key)

    def add(self, values: Any) -> Tensor:
        """Returns the tensor with `values` added at the key.

        Equal indices accumulate, and traced ones out of range are dropped.

        Raises:
            ShapeError: The values do not broadcast to the shape that the key selects.
        """
        return self._changed(_added, values)

    def set(self, values: Any) -> Tensor:
        """Returns the tensor with `values` at the key.

        Of equal indices the last one wins, and traced ones out of range are dropped.

        Raises:
            ShapeError: The values do not broadcast to the shape that the key selects.
        """
        return self._changed(_set, values)

    def multiply(self, values: Any) -> Tensor:
        """Returns the tensor with the elements at the key multiplied by `values`, which accumulate as in `add`.

        Raises:
            ShapeError: The values do not broadcast to the shape that the key selects.
            DTypeError: The tensor is boolean.
        """
        return self._combined(values, multiply, "prod")

    def max(self, values: Any) -> Tensor:
        """Returns the tensor with the maximum of its elements at the key and `values`; of equal indices, of all theirs.

        Equal maxima share the derivative evenly, and traced indices out of range are dropped.

        Raises:
            ShapeError: The values do not broadcast to the shape that the key selects.
            DTypeError: The tensor is boolean.
        """
        return self._combined(values, maximum, "amax")

    def min(self, values: Any) -> Tensor:
        """Returns the tensor with the minimum of its elements at the key and `values`; see `max`."""
        return self._combined(values, minimum, "amin")

    def subtract(self, values: Any) -> Tensor:
        """Returns the tensor with `values` subtracted at the key; see `add`."""
        return self.add(0 - as_tensor(values, self._tensor.dtype))

    def divide(self, values: Any) -> Tensor:
        """Returns a tensor of floats with the elements at the key divided by `values`; by the product of equal indices.

        Raises:
            ShapeError: The values do not broadcast to the shape that the key selects.
            DTypeError: The tensor has no floats.
        """
        return reshape(self._tensor / self._products("divide", values), self._shape)

    def power(self, values: Any) -> Tensor:
        """Returns a tensor of floats with the elements at the key raised to `values`; to the product of equal indices.

        Raises:
            ShapeError: The values do not broadcast to the shape that the key selects.
            DTypeError: The tensor has no floats.
        """
        return reshape(power(self._tensor, self._products("power", values)), self._shape)

    if not TYPE_CHECKING:  # type checkers report such names themselves

        def __getattr__(self, name: str) -> NoReturn:
            raise unknown_attribute("Change", "x.at[key]", name, self)

    def _products(self, what: str, values: Any) -> Tensor:
        """Returns the product of the values at each element, 1 where there are none."""
        if not is_float(self._tensor.dtype):
            raise DTypeError(f"{what}: takes floats, not {SHORT[self._tensor.dtype]}; cast first")
        return Change(full(self._tensor.shape, 1, self._tensor.dtype), self._key).multiply(values)

    def _combined(self, values: Any, combine: Callable[[Tensor, Tensor], Tensor], reduction: str) -> Tensor:
        """Returns the tensor with its elements at the key and `values` combined; equal indices accumulate."""
        if self._selection.gathered is None:
            return self.set(combine(self.get(), self._given(values)))
        flat, size = reshape(self._tensor, -1), self._tensor.size
        # The position of each selected element, counted from 1, since what is out of range reads 0: it is dropped.
        counted = index(reshape(arange(1, size + 1), self._tensor.shape), self._key)
        places = reshape(where(equal(counted, 0), size, counted - 1), -1)
        return reshape(scatter_reduce(flat, 0, places, reshape(self._given(values), -1), reduction), self._shape)

    def _changed(self, change: Callable[..., Tensor], values: Any) -> Tensor:
        """Returns the tensor after a change, recorded as one if it is determined by arrays alone."""
        operands = self._tensor, self._given(values), self._selection, *self._arrays
        by_arrays = bool(self._arrays) and self._selection == self._selection.of_slice()
        return reshape(applied(change, self._key, *operands) if by_arrays else change(*operands), self._shape)

    def _given(self, values: Any) -> Tensor:
        return broadcast_to(cast(as_tensor(values, self._tensor.dtype), self._tensor.dtype), self._selection.result)


@recorded_whole
def _added(tensor: Tensor, values: Tensor, selected: Selection, *arrays: Tensor) -> Tensor:
    """Returns a tensor with values added where a key selects."""
    if selected.gathered is not None:
        place = selected.gathered.place
        bounds = {"axis": integer(place), "extent": integer(selected.rows[place])}
        indices = selected.indices(arrays)
        values = selected.from_rows(emit(index_ops.ScatterAddOp, [values, indices], **bounds))
    return tensor + _placed(selected, values, Array(np.zeros((), values.dtype)), tensor)


@recorded_whole
def _set(tensor: Tensor, values: Tensor, selected: Selection, *arrays: Tensor) -> Tensor:
    """Returns a tensor with values in place of its own where a key selects."""
    changed: Tensor = full(selected.shape, True, "bool")
    if selected.gathered is not None:
        values, written = _last_of_equals(values, selected, selected.indices(arrays))
        values, changed = selected.from_rows(values), selected.from_rows(broadcast_to(written, selected.rows))
    mask = _placed(selected, changed, Array(np.zeros((), np.bool_)), tensor)
    return where(mask, _placed(selected, values, Array(np.zeros((), values.dtype)), tensor), tensor)


def _last_of_equals(values: Tensor, selected: Selection, indices: Tensor) -> tuple[Tensor, Tensor]:
    """Returns for each row of a selection the values of the last index that names it, and whether there is one."""
    assert selected.gathered is not None
    axis, rows = selected.gathered.place, selected.rows
    extent, count = rows[axis], indices.size
    flat = reshape(indices, (count,))
    shape_ = (*rows[:axis], count, *rows[axis + 1 :])
    trailing = (extent, *(1 for _ in rows[axis + 1 :]))
    if not count:
        return full(rows, 0, values.dtype), full(trailing, False, "bool")
    winner = scattered(positions((count,), 0, NAMES["i32"]), flat, 0, extent, "max")
    written = winner >= 0
    return take_rows(reshape(values, shape_), where(written, winner, 0), axis), reshape(written, trailing)


def _placed(selected: Selection, values: Tensor, around: Tensor, like: Tensor) -> Tensor:
    """Returns a tensor of `like`'s shape with `values` where a key selects, and `around` elsewhere."""
    result = reshape(values, selected.extents)
    if selected.reverse:
        result = emit(shape.ReverseOp, [result], axes=ints(selected.reverse))
    extents = selected.extents
    if tuple(extents) == like.shape:
        return result
    covered = [(n - 1) * step + 1 if n else 0 for n, step in zip(extents, selected.step, strict=True)]
    high = [n - a - c for n, a, c in zip(like.shape, selected.start, covered, strict=True)]
    bounds = {"low": ints(selected.start), "high": ints(high), "interior": ints([step - 1 for step in selected.step])}
    trace = current_trace()
    if trace is None:
        return emit(shape.PadOp, [result, around], **bounds)
    # Traced even if both are concrete: otherwise a constant of the whole shape would be stored.
    trace.builder.location = user_location()
    return Traced(trace, trace.builder.emit(shape.PadOp, [value_in(trace, result), value_in(trace, around)], **bounds))
