"""Divides the iterations of a kernel into boxes, each of which accesses windows of the kernel's buffers."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import TypeAlias, cast

from xdsl.dialects import memref, scf
from xdsl.dialects.linalg.ops import IndexOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from tensorgrad.dialects.buf import Buffer, ViewOp, buffer_bytes, element_bytes, element_of, shape_of
from tensorgrad.dialects.ranges import Range, range_of_expression
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.guards import Ranges, numbered
from tensorgrad.passes.analyses.stages import Parts, Stage, is_foldable
from tensorgrad.passes.analyses.storage import bindings_of, count_bindings, is_scalar_view
from tensorgrad.runtime.target import Target

Span: TypeAlias = tuple[int, int]
"""A half-open range `[start, end)`."""

Box: TypeAlias = tuple[Span, ...]
"""The iterations of each loop that can be divided; if there is a table, its elements come last."""

ALL: Range = (0, sys.maxsize)
"""Stands for all elements of a buffer."""

LEAST_PARTS = 4
"""The number of parts up to which dividing one loop is accepted without trying to divide two."""

MOST_BOXES = 4096
"""The most boxes of a kernel; a kernel that needs more is not divided."""

MOST_RANGES = 1 << 18
"""The most ranges that a search for boxes computes; a kernel whose search takes more is not divided."""

RANGES_OF_BOX = 128
"""What a box counts as in ranges, besides those that its loads take: the time to place its accesses in windows."""


class Boxes:
    """The loops of a kernel that can be divided, and the bindings that a box of their iterations needs.

    The loops of the grid can be divided. In a kernel of one stage, so can the stage's own loops if they fold: a box
    folds its values into the results of the boxes before it. If the stage has no own loops and loads from a buffer, the
    *table*, at a single computed index, the elements of the table count as a loop: a box handles the points whose index
    lies in its window. The last two read results back, so they are not divided if the kernel overwrites what it reads.

    Attributes:
        whole: The box of all iterations.
        grid: The number of its loops that are the grid's.
        own: The number of its loops that are the stage's own.
        table: The load from the table, if there is one.
        ranges: What the search took so far, in ranges computed.
    """

    def __init__(self, parts: Parts, target: Target, limit: int):
        """Analyzes a kernel.

        Args:
            parts: The kernel, over views.
            target: The limits on the size and alignment of bindings.
            limit: The most bindings of a kernel.
        """
        self._parts = parts
        self._target = target
        self._limit = limit
        buffers = (*parts.inputs, *parts.outputs)
        written = {_key(output) for output in parts.outputs}
        self._windows = {
            buffer
            for buffer in buffers
            if is_window(buffer) and (_key(buffer) in written or bindings_of(_view(buffer).size, target) > 1)
        }
        self._bound = {buffer for buffer in buffers if buffer not in self._windows}
        self._known: dict[Box, int] = {}
        self._numbers = [numbered(stage.body) for stage in parts.stages]
        self.ranges = 0
        self.grid, self.own = len(parts.grid), 0
        self.table: memref.LoadOp | None = None
        stage = parts.stages[0]
        if len(parts.stages) == 1 and self._may_be_read_back:
            self.own = len(stage.own) if is_foldable(stage) else 0
            self.table = None if stage.own else self._table_of(stage)
        extents = [*parts.grid, *(stage.extents[self.grid :] if self.own else ())]
        if self.table is not None:
            extents.append(math.prod(shape_of(self.table.memref)))
        self.whole: Box = tuple((0, extent) for extent in extents)

    def restricts(self, box: Box) -> bool:
        """Returns whether a box handles only some of the table's elements."""
        return self.table is not None and box[-1] != self.whole[-1]

    def is_first(self, box: Box) -> bool:
        """Returns whether no box before this one has the same points of the grid."""
        return all(start == 0 for start, _ in box[self.grid :])

    def divided(self) -> list[Box] | None:
        """Returns boxes that each fit the limit of bindings; `None` if there are none, or too many."""
        views = [value for value in (*self._parts.inputs, *self._parts.outputs) if is_window(value)]
        for output in (value for value in self._parts.outputs if is_window(value)):
            if any(_key(output) != _key(other) and _view(output).overlaps(_view(other)) for other in views):
                return None  # windows of them would overlap
        if self._needed(tuple((start, start + 1) for start, _ in self.whole)) > self._limit:
            return None
        return self._divided(self.whole)

    def _divided(self, box: Box) -> list[Box] | None:
        if self.ranges > MOST_RANGES:
            return None
        if self._needed(box) <= self._limit:
            return [box]
        axis, is_half = self._cut(box)
        if axis is None:
            return None
        results: list[Box] = []
        start, end = box[axis]
        half = -(-(end - start) // 2)
        while start < end:
            rest = _with(box, axis, (start, end))
            count = half if is_half else self._most(rest, axis) or half
            inner = self._divided(_start_of(rest, axis, min(count, end - start)))
            if inner is None or len(results) + len(inner) > MOST_BOXES:
                return None
            results += inner
            start += count
        return results

    def _cut(self, box: Box) -> tuple[int | None, bool]:
        """Returns the loop whose division gives the fewest parts, and whether to halve it and divide the halves."""
        parts, axis = self._parts_along(box)
        if parts <= LEAST_PARTS:
            return axis, False
        halves = [(axis, _start_of(box, axis, -(-_extent(box[axis]) // 2))) for axis in _long(box)]
        further = min(((2 * self._parts_along(half)[0], axis) for axis, half in halves), default=(math.inf, None))
        if further[0] < parts:
            return further[1], True
        if axis is not None:
            return axis, False
        return min(((self._needed(half), axis) for axis, half in halves), default=(0, None))[1], True

    def _parts_along(self, box: Box) -> tuple[float, int | None]:
        """Returns the approximate number of parts if a single loop is divided, and that loop."""
        most = [(axis, self._most(box, axis)) for axis in _long(box)]
        counts = [(-(-_extent(box[axis]) // count), axis) for axis, count in most if count]
        return min(counts, default=(math.inf, None))

    def _most(self, box: Box, axis: int) -> int:
        """Returns the most leading iterations of a loop that fit the limit of bindings; 0 if one does not."""
        low, high = 0, _extent(box[axis])
        while low < high:
            middle = (low + high + 1) // 2
            if self._needed(_start_of(box, axis, middle)) <= self._limit:
                low = middle
            else:
                high = middle - 1
        return low

    def _needed(self, box: Box) -> int:
        """Returns how many bindings a box needs for the windows that it accesses."""
        if box not in self._known:
            self._known[box] = self._count(box)
        return self._known[box]

    def _count(self, box: Box) -> int:
        self.ranges += RANGES_OF_BOX
        sizes: dict[Hashable, int | None] = {}
        for value, span in self.spans(box).items():
            if not is_window(value):
                sizes[value] = buffer_bytes(cast(Buffer, value.type))
                continue
            view = _view(value)
            width = element_bytes(element_of(value))
            before = (view.start + span[0] * width) % self._target.min_storage_buffer_offset_alignment
            size = before + _extent(span) * width
            sizes.update({view.arena: None} if is_scalar_view(view) else {_key(value): size})
        return count_bindings(sizes, self._target)

    def spans(self, box: Box) -> dict[SSAValue, Span]:
        """Returns the elements of each buffer that a box needs; views of the same memory have the same span.

        A buffer that is only read and fits one binding is needed whole or not at all; one that a loop moves is needed
        whole.
        """
        spans_by_key: dict[Hashable, Span] = {}
        values: dict[SSAValue, Hashable] = {}

        def touch(value: SSAValue, low: int, high: int) -> None:
            key = values.setdefault(value, _key(value))
            last = max(math.prod(shape_of(value)) - 1, 0)
            low, high = min(max(low, 0), last), min(high, last) + 1
            known = spans_by_key.get(key, (low, high))
            spans_by_key[key] = min(known[0], low), max(known[1], high)

        for number, stage in enumerate(self._parts.stages):
            divided = self.grid + self.own
            loops: list[Range] = [(start, end - 1) for start, end in box[:divided]]
            loops += [(0, extent - 1) for extent in stage.extents[divided:]]
            for value, position in self._positions[number]:
                touch(value, *range_of_expression(position, loops))
            for value, _ in (*stage.reads, *stage.writes):
                if value in self._bound:
                    touch(value, *ALL)
            ranges = Ranges(_indices(loops), self._numbers[number])
            self._touch_loads(stage.body, ranges, touch, box)
            self.ranges += ranges.computed
        return {value: spans_by_key[key] for value, key in values.items()}

    @cached_property
    def _positions(self) -> list[list[tuple[SSAValue, AffineExpr]]]:
        """For each stage, its accesses to buffers that are bound in windows, with the element's row-major index."""
        return [
            [
                (value, affine.linear_position(index.results, shape_of(value), stage.extents).expression())
                for value, index in (*stage.reads, *stage.writes)
                if value in self._windows
            ]
            for stage in self._parts.stages
        ]

    def _touch_loads(self, block: Block, ranges: Ranges, touch: Callable[[SSAValue, int, int], None], box: Box) -> None:
        for op in block.ops:
            if isinstance(op, scf.IfOp):
                known = ranges.decided(op.cond)
                for region, holds in zip(op.regions, (True, False), strict=True):
                    if known in (None, holds):
                        self._touch_loads(region.block, ranges.inside(op.cond, holds), touch, box)
            elif isinstance(op, scf.ForOp):
                self._touch_loads(op.body.block, ranges.inside(), touch, box)
            elif isinstance(op, memref.LoadOp) and op.memref in self._bound:
                touch(op.memref, *ALL)
            elif isinstance(op, memref.LoadOp) and op.memref in self._windows:
                low, high = _loaded(op, ranges)
                if op is self.table:
                    low, high = (min(max(bound, box[-1][0]), box[-1][1] - 1) for bound in (low, high))
                touch(op.memref, low, high)

    # What can be divided besides the grid

    @cached_property
    def _may_be_read_back(self) -> bool:
        """Whether all results are views that overlap nothing else that the kernel accesses."""
        views = [value.owner for value in (*self._parts.inputs, *self._parts.outputs)]
        written = [value.owner for value in self._parts.outputs]
        return all(isinstance(value, ViewOp) for value in written) and not any(
            isinstance(other, ViewOp) and value is not other and cast(ViewOp, value).overlaps(other)
            for value in written
            for other in views
        )

    def _table_of(self, stage: Stage) -> memref.LoadOp | None:
        """Returns the load whose buffer counts as the table.

        Of the loads at indices that are computed early, each the only access to its buffer, it is the one of which a
        single iteration may access the most elements.
        """
        loads: dict[SSAValue, list[memref.LoadOp]] = {}
        for load in stage.loads():
            if load.memref in self._windows:
                loads.setdefault(load.memref, []).append(load)
        read = {value for value, _ in stage.reads}
        tables = [ops[0] for value, ops in loads.items() if len(ops) == 1 and value not in read]
        keys = [_key(value) for value in self._parts.inputs]
        tables = [load for load in tables if keys.count(_key(load.memref)) == 1]
        tables = [load for load in tables if carrier_of(load, stage.body) is not None]
        ranges = Ranges(_indices([(0, 0)] * len(stage.extents)))
        return max(tables, key=lambda load: _extent(_loaded(load, ranges)), default=None)


def is_window(value: SSAValue) -> bool:
    """Returns whether windows of a buffer can be bound: it is a view that no loop moves."""
    return isinstance(value.owner, ViewOp)


def carrier_of(load: memref.LoadOp, body: Block) -> Block | None:
    """Returns the block whose results a load affects: the stage's body, or that of a loop whose results it yields.

    Returns:
        The block; `None` if there is no such block, or if the load's index can't be computed at its start.
    """
    block = cast(Block, load.parent)
    while isinstance(parent := block.parent_op(), scf.IfOp):
        block = cast(Block, parent.parent)
    if block is not body:
        last = body.last_op
        loop = block.parent_op()
        if not isinstance(loop, scf.ForOp) or loop.parent is not body or last is None:
            return None
        if set(last.operands) != set(loop.results):
            return None
    return block if all(_is_early(index, block) for index in load.indices) else None


def _is_early(value: SSAValue, block: Block) -> bool:
    """Returns whether a value can be computed outside of the conditions in a block: it needs no loads in them."""
    op = value.owner
    if isinstance(op, Block) or op.parent is block or not _is_within(op, block):
        return True
    return (
        not op.regions
        and not isinstance(op, memref.LoadOp)
        and all(_is_early(operand, block) for operand in op.operands)
    )


def _is_within(op: Operation, block: Block) -> bool:
    outer: Operation | None = op
    while outer is not None:
        if outer.parent is block:
            return True
        outer = outer.parent_op()
    return False


def _loaded(load: memref.LoadOp, ranges: Ranges) -> Span:
    """Returns the first and the last element that a load may access, within its buffer."""
    low = high = 0
    for index, extent in zip(load.indices, shape_of(load.memref), strict=True):
        first, last = ranges.of(index)
        low = low * extent + min(first, extent - 1)
        high = high * extent + min(last, extent - 1)
    return low, high


def _indices(loops: Sequence[Range]) -> Callable[[Operation], Range | None]:
    """Returns the function that gives `Ranges` the range of a loop index, from the ranges of the loops."""
    return lambda op: loops[op.dim.value.data] if isinstance(op, IndexOp) else None


def _key(value: SSAValue) -> Hashable:
    """Returns a key that is equal for views of the same memory."""
    if not is_window(value):
        return value
    view = _view(value)
    return view.arena, view.start, view.size, element_of(value)


def _view(value: SSAValue) -> ViewOp:
    return cast(ViewOp, value.owner)


def _extent(span: Span) -> int:
    return span[1] - span[0]


def _long(box: Box) -> list[int]:
    """Returns the loops of more than one iteration."""
    return [axis for axis, span in enumerate(box) if _extent(span) > 1]


def _start_of(box: Box, axis: int, count: int) -> Box:
    """Returns the part of a box with the first `count` iterations of a loop."""
    return _with(box, axis, (box[axis][0], box[axis][0] + count))


def _with(box: Box, axis: int, span: Span) -> Box:
    return (*box[:axis], span, *box[axis + 1 :])
