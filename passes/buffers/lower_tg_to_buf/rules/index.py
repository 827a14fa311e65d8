"""Gathers and scatters.

A scatter compares every index with every position of the result if these are few. Otherwise it sorts the indices
stably (in native code, by counting them), and folds segments; constant indices are sorted while lowering. Each element
has one writer: there are no atomics, and every run gives the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    f16,
    f32,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import element_bytes
from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.stages import IDENTITIES
from tensorgrad.dialects.tg import index as indexing
from tensorgrad.dialects.tg.base import NumpyArray, TensorOp, constant_value, is_float
from tensorgrad.dialects.tg.build import element_of, shape_of
from tensorgrad.dialects.tg.leaves import IotaOp
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.buffers.lower_tg_to_buf.kernels import KernelSpec, StageBody, rounded
from tensorgrad.passes.buffers.lower_tg_to_buf.registry import VIEWS, Emit, rule, sequence
from tensorgrad.passes.buffers.lower_tg_to_buf.rules.counting_sort import sorted_by_counting
from tensorgrad.passes.buffers.lower_tg_to_buf.rules.segments import (
    Segments,
    segment_length,
    whole_rows,
)
from tensorgrad.passes.buffers.lower_tg_to_buf.rules.sort import in_segments, sorted_positions
from tensorgrad.passes.buffers.lower_tg_to_buf.scalars import by_kind, index, predicate, storage
from tensorgrad.passes.buffers.lower_tg_to_buf.searching import bisected, counted, position_at
from tensorgrad.passes.buffers.lower_tg_to_buf.views import Lowered, View, through
from tensorgrad.passes.scalars import Value

SEARCHED = 1 << 14
"""The most comparisons of indices with positions for which a shader does not sort."""

SEARCHED_IN_A_ROW = 64
"""The most indices of a row that each of its positions is compared with in shaders, however many these are."""

BUCKET, POSITION, ROW = 6, 110, 1000
"""The time of a bucket, a position and a row of a counting sort, in comparisons, which are vectors; of rows of 8 to
49,152 buckets."""

UNBRANCHED = 3
"""The updates of an index that native code reads without a branch where the next element has another index.

How many there are can't be predicted: products of a million updates with random indices in rows of 1,000 take 4.6 ms on
one thread, 5.2 with two, and 8.7 with a loop alone.
"""


def _gather(
    op: TensorOp,
    operands: Sequence[Lowered],
    extent: int,
    index_map: AffineMap,
    position: Callable[[StageBody, Value], list[Value]],
) -> KernelSpec:
    """Returns a kernel that reads `operands[0]` at an index from `operands[1]`, if that is below `extent`."""
    source = cast(View, operands[0])
    element = storage(element_of(op.results[0]))

    def compute(b: StageBody, args: Sequence[Value]) -> Value:
        inside = args[0] < extent
        fill = b.constant(float("nan") if is_float(element) else 0, element)
        return b.guarded(inside, lambda: b.load_at(source, position(b, _below(extent, args[0]))), fill)

    return KernelSpec(
        grid=op.shape,
        reads=[through(operands[1], index_map, op.shape)],
        gathered=[source.buffer],
        result=element,
        compute=compute,
        location=op.location,
    )


def _below(extent: int, number: Value) -> Value:
    """Returns an integer in `[0, extent)` as an index.

    A conversion to an index extends the sign, which is set in unsigned numbers from 2^31 on: those are converted in two
    parts. So long an axis takes no signed indices of 32 bits. GPUs may lack integers of 64 bits to convert through.
    """
    if number.type == i32 and extent > 1 << 31:
        return (number >> 1).as_index() * 2 + (number & 1).as_index()
    return number.as_index()


def _axes_map(rank: int, axes: Sequence[int]) -> AffineMap:
    loops = affine.dims(rank)
    return AffineMap(rank, 0, tuple(loops[axis] for axis in axes))


@rule(indexing.TakeOp, in_memory=(0,))
def _take(op: indexing.TakeOp, operands: Sequence[Lowered]) -> KernelSpec:
    axis, count = op.axis.value.data, len(shape_of(op.indices))
    rank = len(op.shape)

    def position(b: StageBody, place: Value) -> list[Value]:
        before = [b.loop(i) for i in range(axis)]
        return [*before, place, *(b.loop(i) for i in range(axis + count, rank))]

    index_map = _axes_map(rank, range(axis, axis + count))
    return _gather(op, operands, shape_of(op.operand)[axis], index_map, position)


@rule(indexing.TakeAlongAxisOp, in_memory=(0,))
def _take_along_axis(op: indexing.TakeAlongAxisOp, operands: Sequence[Lowered]) -> KernelSpec:
    axis, rank = op.axis.value.data, len(op.shape)

    def position(b: StageBody, place: Value) -> list[Value]:
        return [place if i == axis else b.loop(i) for i in range(rank)]

    return _gather(op, operands, shape_of(op.operand)[axis], affine.identity(rank), position)


FAMILIES = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}
"""The family of the ops that combine updates, by the names of reductions."""


def _combiner(op: indexing.ScatterOp) -> tuple[type[Operation], Attribute, float]:
    """Returns what combines two updates, the type in which it does, and its identity; f16 is combined in f32."""
    element = element_of(op.results[0])
    combine, wide = by_kind(FAMILIES[op.combines], element), f32 if element == f16 else storage(element)
    return combine, wide, IDENTITIES[combine](wide)


def _scatter(
    op: indexing.ScatterOp, operands: Sequence[Lowered], reduced: tuple[int, ...], axis: int, update_axes: Sequence[int]
) -> KernelSpec:
    """Returns a kernel that folds, for each element of the result, the updates with a matching index, in order.

    Each element has one writer: there are no atomics, and every run gives the same result. Updates are read only where
    the index matches.
    """
    source = cast(View, operands[0])
    extents = (*op.shape, *reduced)
    element, (combine, _, identity) = element_of(op.results[0]), _combiner(op)
    loops = affine.dims(len(extents))
    own = range(len(op.shape), len(extents))
    along = isinstance(op, indexing.ScatterAlongAxisOp)
    index_axes = [own[0] if i == axis else i for i in range(len(op.shape))] if along else list(own)

    def compute(b: StageBody, args: Sequence[Value]) -> Value:
        hit = args[0].equals(b.loop(axis).cast(arith.IndexCastOp, args[0].type))
        otherwise = b.constant(identity, storage(element))
        return b.guarded(hit, lambda: b.load_at(source, [b.loop(loop) for loop in update_axes]), otherwise)

    index_map = AffineMap(len(extents), 0, tuple(loops[i] for i in index_axes))
    return KernelSpec(
        grid=op.shape,
        reads=[through(operands[1], index_map, extents)],
        gathered=[source.buffer],
        result=storage(element),
        compute=compute,
        reduced=reduced,
        combine=combine,
        location=op.location,
    )


def _searched_scatter(op: indexing.ScatterOp, operands: Sequence[Lowered]) -> KernelSpec:
    """Returns the kernel of a scatter in which each element searches all indices."""
    axis, indices = op.axis.value.data, shape_of(op.indices)
    rank = len(op.shape)
    own = range(rank, rank + len(indices))
    return _scatter(op, operands, indices, axis, [*range(axis), *own, *range(axis + 1, rank)])


def _searched_scatter_along_axis(op: indexing.ScatterOp, operands: Sequence[Lowered]) -> KernelSpec:
    """Returns the kernel of a scatter in which each element searches the indices of its row."""
    axis, rank = op.axis.value.data, len(op.shape)
    update_axes = [rank if i == axis else i for i in range(rank)]
    return _scatter(op, operands, (shape_of(op.indices)[axis],), axis, update_axes)


def _starts(keys: View, order: View, shape: Sequence[int], extent: int, element: Attribute, op: TensorOp) -> KernelSpec:
    """Returns a kernel that counts, for each number from 0 to `extent`, the sorted keys below it."""

    def compute(b: StageBody, args: Sequence[Value]) -> Value:
        row = [b.loop(loop) for loop in range(len(shape) - 1)]
        key = b.loop(len(shape) - 1).cast(arith.IndexCastOp, storage(element))

        def rises(at: Value) -> Value:
            loaded = b.load_at(keys, [*row, position_at(b, order, row, at)])
            return loaded.compare(predicate("lt", element), key)

        low, high = b.constant(0, index), b.constant(shape[-1], index)
        return bisected(b, low, high, shape[-1], rises).cast(arith.IndexCastOp, i32)

    grid = (*shape[:-1], extent + 1)
    return KernelSpec(grid, (), i32, compute, gathered=[keys.buffer, order.buffer], location=op.location)


def _segment_folds(
    op: indexing.ScatterOp,
    updates: View,
    order: View,
    starts: View,
    axis: int,
    count: int,
    rows: Sequence[int],
    unbranched: int,
) -> KernelSpec:
    """Returns a kernel that folds, for each index along `axis`, the updates of that index, in order.

    Args:
        op: The scatter.
        updates: The updates, with the result's axes except that `axis` counts the updates.
        order: The positions of updates, sorted by their index. Its axes are `rows` and the positions.
        starts: The start of each index's segment in the order.
        axis: The axis that is indexed.
        count: The number of updates in an order.
        rows: The axes of the result each of whose rows has its own order.
        unbranched: The number of updates that each element reads without a branch.
    """
    element = element_of(op.results[0])

    def compute(b: StageBody, args: Sequence[Value]) -> Value:
        row = [b.loop(loop) for loop in rows]
        read = partial(position_at, b, order, row)
        total = _fold_of_updates(b, op, updates, starts, axis, row, count, read, unbranched)
        return total.cast(arith.TruncFOp, f16) if element == f16 else total

    gathered = list(dict.fromkeys([updates.buffer, order.buffer, starts.buffer]))
    return KernelSpec(op.shape, (), storage(element), compute, gathered=gathered, location=op.location)


def _fold_of_updates(
    b: StageBody,
    op: indexing.ScatterOp,
    updates: View,
    starts: View,
    axis: int,
    row: Sequence[Value],
    most: int,
    position: Callable[[Value], Value],
    unbranched: int = 0,
) -> Value:
    """Emits the fold of the updates of the index that a result's element has along `axis`; that of f16 is in f32.

    Args:
        b: The body.
        op: The scatter.
        updates: The updates.
        starts: For each row and index, the first of its updates in their order.
        axis: The axis of the result that the indices refer to.
        row: The indices of a row of `starts`.
        most: The most updates of an index.
        position: Emits the position of an update, given its place in the order.
        unbranched: The number of updates that are read without a branch, and selected if there are so many.
    """
    combine, wide, identity = _combiner(op)
    loops = [b.loop(loop) for loop in range(len(op.shape))]

    def start(at: Value) -> Value:
        return b.load_at(starts, [*row, at]).as_index()

    def folded(at: Value, total: Value) -> Value:
        target = position(at)
        update = b.load_at(updates, [target if loop == axis else value for loop, value in enumerate(loops)])
        return b.apply(combine, total, update if update.type == wide else update.cast(arith.ExtFOp, wide))

    first, stop, total = start(loops[axis]), start(loops[axis] + 1), b.constant(identity, wide)
    if op.combines == "max" and len(shape_of(op.updates)) == len(op.shape) and _are_positions(op.updates, axis):
        last = position(stop.at_least(1) - 1)
        return b.select(first < stop, last.cast(arith.IndexCastOp, wide), total)
    for at in (first + number for number in range(unbranched)):
        total = b.select(at < stop, folded(at.at_most(most - 1), total), total)
    return b.fold(first + unbranched, stop, most, total, folded)


def _are_positions(updates: SSAValue, axis: int) -> bool:
    """Returns whether updates are their own positions: the largest of an index is the last one in their order."""
    if is_float(element_of(updates)):
        return False
    extents = shape_of(updates)
    place = affine.identity(len(extents))
    while isinstance(updates.owner, TensorOp) and type(updates.owner) in VIEWS:
        place = affine.composed(VIEWS[type(updates.owner)](updates.owner), place, extents)
        updates = updates.owner.operands[0]
    if not isinstance(updates.owner, IotaOp):
        return False
    return place.results[updates.owner.axis.value.data] == affine.dims(len(extents))[axis]


def _sorted(keys: NumpyArray, extent: int) -> tuple[NumpyArray, NumpyArray]:
    """Returns the positions that sort each row of keys, and the number of its keys below each one to `extent`."""
    order = np.argsort(keys, axis=-1, kind="stable")
    rows = np.clip(keys.astype(np.int64), -1, extent).reshape(-1, keys.shape[-1])
    above = np.arange(len(rows))[:, None]  # of numbers that ascend from row to row, all are searched at once
    flat = np.sort(rows + above * (extent + 2), axis=-1).reshape(-1)
    starts = np.searchsorted(flat, np.arange(extent + 1) + above * (extent + 2)) - above * rows.shape[1]
    return order.astype(np.int32), starts.astype(np.int32).reshape(*keys.shape[:-1], extent + 1)


def _segment_starts(keys: Segments, extent: int, element: Attribute, op: TensorOp) -> KernelSpec:
    """Computes, for each number up to `extent`, how many keys of each sorted segment are below it."""
    place = len(keys.rows)

    def compute(b: StageBody, args: Sequence[Value]) -> Value:
        row = [b.loop(loop) for loop in range(place + 1)]
        key = b.loop(place + 1).cast(arith.IndexCastOp, storage(element))

        def rises(at: Value) -> Value:
            return b.load_at(keys.ordered, [*row, at]).compare(predicate("lt", element), key)

        return counted(b, keys.length, rises).cast(arith.IndexCastOp, i32)

    grid = (*keys.rows, keys.count, extent + 1)
    return KernelSpec(grid, (), i32, compute, gathered=[keys.ordered.buffer], location=op.location)


def _folds_over_segments(
    op: indexing.ScatterOp, updates: View, keys: Segments, starts: View, axis: int, rows: Sequence[int]
) -> KernelSpec:
    """Like `_segment_folds`, for keys that are sorted in segments: combines the folds over all segments of a row."""
    rank, (combine, wide, _) = len(op.shape), _combiner(op)

    def compute(b: StageBody, args: Sequence[Value]) -> Value:
        segment = b.loop(rank)
        row = [*(b.loop(loop) for loop in rows), segment]

        def position(at: Value) -> Value:
            return b.load_at(keys.order, [*row, at]).as_index() % keys.length + segment * keys.length

        return _fold_of_updates(b, op, updates, starts, axis, row, keys.length, position)

    return KernelSpec(
        op.shape,
        (),
        wide,
        compute,
        reduced=(keys.count,),
        gathered=list(dict.fromkeys([updates.buffer, keys.order.buffer, starts.buffer])),
        combine=combine,
        location=op.location,
    )


def _ordered(
    op: indexing.ScatterOp,
    keys: View,
    shape: Sequence[int],
    extent: int,
    element: Attribute,
    emit: Emit,
    known: NumpyArray | None,
) -> tuple[View, View]:
    """Returns the positions that sort each row of keys, and the number of its keys below each one to `extent`.

    Scatters by the same keys share them.
    """
    if known is not None:
        order, starts = map(emit.constant, _sorted(known, extent))
        return order, starts
    made_from = "order", keys.buffer, keys.map, tuple(shape), extent
    if made_from not in emit.shared:
        if emit.target.native:
            emit.shared[made_from] = sorted_by_counting(keys, shape, extent, emit, op)
        else:
            order = sorted_positions(keys, shape, element, False, emit, op)
            emit.shared[made_from] = order, emit(_starts(keys, order, shape, extent, element, op))
    return emit.shared[made_from]


def _folded(
    op: indexing.ScatterOp,
    updates: View,
    keys: View,
    shape: Sequence[int],
    axis: int,
    rows: Sequence[int],
    element: Attribute,
    emit: Emit,
    known: NumpyArray | None,
) -> View:
    """Sorts the updates by their index, and folds those of equal indices.

    Args:
        op: The scatter.
        updates: The updates; their axes are the result's, but `axis` runs over the updates.
        keys: The index of each update; the axes are `rows`, then that of the updates.
        shape: The shape of the keys.
        axis: The axis of the result that the indices refer to.
        rows: The axes of the result along which the keys differ.
        element: The type of the keys.
        emit: Emits kernels.
        known: The keys of a constant, which are sorted here rather than in every step.

    Raises:
        DiagnosticException: There are more updates than positions of 32 bits can count.
    """
    extent, count = op.shape[axis], shape[-1]
    if count >= 1 << 31:
        raise DiagnosticException(
            f"{op.name} sorts {count} indices, more than positions of 32 bits can count; it was made at "
            f"{line_of(op.location)}"
        )
    whole = whole_rows(keys, shape, element, emit, op)
    if whole is not None:
        order, starts = _ordered(op, whole, shape, extent, element, emit, known)
        unbranched = UNBRANCHED if emit.target.native and axis == len(op.shape) - 1 else 0
        return emit(_segment_folds(op, updates, order, starts, axis, count, rows, unbranched))
    beside = math.prod(op.shape[axis + 1 :]) * element_bytes(storage(element_of(op.results[0])))
    segments = in_segments(keys, shape, segment_length(count, element, emit, beside), element, False, emit, op)
    starts = emit(_segment_starts(segments, extent, element, op))
    folds = _folds_over_segments(op, updates, segments, starts, axis, rows)
    return emit(folds) if element_of(op.results[0]) != f16 else emit(rounded(emit(folds), folds))


def _is_searched(count: int, extent: int, emit: Emit, columns: int = 1, most: int = 1) -> bool:
    """Returns whether comparing `count` indices with `extent` positions takes less time than sorting the indices.

    Args:
        count: The number of indices.
        extent: The number of positions.
        emit: Has the target.
        columns: The elements at each position, for each of which native code compares anew.
        most: The most indices that shaders compare however many positions there are.
    """
    if count <= 1:
        return True
    if emit.target.native:
        return count * extent * columns <= BUCKET * extent + POSITION * count + ROW
    return count <= most or count * extent <= SEARCHED


@sequence(indexing.ScatterAddOp, indexing.ScatterReduceOp, in_memory=(0, 1))
def _scatter_of_slices(op: indexing.ScatterOp, operands: Sequence[Lowered], emit: Emit) -> Lowered:
    """Lowers a scatter to a search of all indices if they are few, else to a stable sort and a fold of segments."""
    axis, extent, indices = op.axis.value.data, op.shape[op.axis.value.data], op.indices
    count = math.prod(shape_of(indices))
    if _is_searched(count, extent, emit, columns=math.prod(op.shape) // extent):
        return emit(_searched_scatter(op, operands))
    updates, keys, known = cast(View, operands[0]), cast(View, operands[1]), constant_value(indices)
    keys = keys.through(affine.reshape_map([count], shape_of(indices)), [count])
    flat = [*op.shape[:axis], count, *op.shape[axis + 1 :]]
    updates = updates.through(affine.reshape_map(flat, shape_of(op.updates)), flat)
    known = None if known is None else known.reshape(count)
    return _folded(op, updates, keys, [count], axis, (), element_of(indices), emit, known)


@sequence(indexing.ScatterAddAlongAxisOp, indexing.ScatterReduceAlongAxisOp, in_memory=(0, 1))
def _scatter_along_axis(op: indexing.ScatterOp, operands: Sequence[Lowered], emit: Emit) -> Lowered:
    """Lowers a scatter as `_scatter_of_slices` does, with an order for each row."""
    axis, shape = op.axis.value.data, shape_of(op.indices)
    extent, count = op.shape[axis], shape[axis]
    if _is_searched(count, extent, emit, most=SEARCHED_IN_A_ROW):
        return emit(_searched_scatter_along_axis(op, operands))
    rows = [loop for loop in range(len(shape)) if loop != axis]
    moved = [*(shape[loop] for loop in rows), count]
    loops = affine.dims(len(shape))
    back = [loops[-1] if loop == axis else loops[rows.index(loop)] for loop in range(len(shape))]
    keys = cast(View, operands[1]).through(AffineMap(len(shape), 0, tuple(back)), moved)
    known = constant_value(op.indices)
    known = None if known is None else np.moveaxis(known, axis, -1)
    return _folded(op, cast(View, operands[0]), keys, moved, axis, rows, element_of(op.indices), emit, known)
