"""Builds the parts of a divided kernel. Each runs a box of the iterations on windows of the buffers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType, UnknownLoc
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from tensorgrad.dialects.buf import ViewOp, element_of, shape_of
from tensorgrad.dialects.tg.base import is_float
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.boxes import Box, Boxes, Span, carrier_of, is_window
from tensorgrad.passes.analyses.guards import UGE, ULT, fold_guards, loop_numbers
from tensorgrad.passes.analyses.stages import Parts, Stage, erase_unused, fold_of, new_local
from tensorgrad.passes.rewriting import index_before, insert_before

Window: TypeAlias = Callable[[ViewOp, int, Sequence[int]], SSAValue]
"""Creates another view of a value, given the value's view, the window's first element and its shape."""


class BoxedParts:
    """Builds the parts of a kernel.

    Args:
        whole: The kernel. It is not changed.
        boxes: The boxes of its iterations.
        window: Creates a view of a window.
    """

    def __init__(self, whole: Parts, boxes: Boxes, window: Window):
        self._whole = whole
        self._boxes = boxes
        self._window = window

    def part(self, box: Box) -> Parts:
        """Returns the part that runs a box."""
        whole, rank = self._whole, self._boxes.grid
        grid = tuple(end - start for start, end in box[:rank])
        location = whole.location or UnknownLoc()
        spans = self._boxes.spans(box)
        moved: dict[SSAValue, SSAValue] = {
            local: new_local(grid, element_of(local), location) for local in whole.locals
        }
        stages = [stage.copy() for stage in whole.stages]
        for stage in stages:
            self._run_box(stage, box)
        loaded = {load.memref for stage in stages for load in stage.loads()}
        places = {
            value: _BoundWindow(value, span, value in loaded) for value, span in spans.items() if is_window(value)
        }
        outputs = [self._placed(value, places, moved) for value in whole.outputs]
        is_first = self._boxes.is_first(box)
        before = [] if is_first else [places[value].view(self._window) for value in whole.outputs]
        table = self._boxes.table.memref if self._boxes.table is not None and self._boxes.restricts(box) else None
        for stage in stages:
            self._move(stage, places, moved, table, before)
        local = [moved[value] for value in whole.locals]
        if before and stages[0].own:
            stages.append(_fold_on(stages[0], grid, before))
            local += [value for value, _ in stages[0].writes]
        return Parts(grid, stages, outputs, local, whole.location)

    def _run_box(self, stage: Stage, box: Box) -> None:
        """Restricts a stage to the iterations of a box, rebased to 0, and erases reads that can't happen there."""
        extents, loops = list(stage.extents), affine.dims(len(stage.extents))
        for axis, (start, end) in enumerate(box[: self._boxes.grid + self._boxes.own]):
            extents[axis] = end - start
            loops[axis] = AffineDimExpr(axis) + start if start else AffineDimExpr(axis)
        stage.reindexed(loops, extents, stage.own)
        fold_guards(stage.body, loop_numbers(extents))
        erase_unused(stage)

    def _placed(
        self, value: SSAValue, places: Mapping[SSAValue, _BoundWindow], moved: dict[SSAValue, SSAValue]
    ) -> SSAValue:
        """Returns the buffer that the part accesses instead of `value`: a local, a window, or `value` itself."""
        if value not in moved:
            place = places.get(value)
            moved[value] = value if place is None or place.is_whole else place.view(self._window)
        return moved[value]

    def _move(
        self,
        stage: Stage,
        places: Mapping[SSAValue, _BoundWindow],
        moved: dict[SSAValue, SSAValue],
        table: SSAValue | None,
        before: Sequence[SSAValue],
    ) -> None:
        """Redirects a stage's accesses to windows. If `table` is given, `_restrict` handles the load from it."""

        def there(access: tuple[SSAValue, AffineMap]) -> tuple[SSAValue, AffineMap]:
            value, index = access
            place = places.get(value)
            new = self._placed(value, places, moved)
            return new, index if place is None or place.is_whole else place.map(index, stage.extents)

        stage.reads = [there(access) for access in stage.reads]
        stage.writes = [there(access) for access in stage.writes]
        for load in stage.loads():
            value, place = load.memref, places.get(load.memref)
            if place is None or place.is_whole:
                continue
            window = self._placed(value, places, moved)
            if value is table:
                _restrict(stage, load, place, window, before)
            else:
                load.operands = [window, place.position(load, load)]


class _BoundWindow:
    """The window of a buffer that a part binds.

    A window of whole rows that is not loaded from at computed indices keeps the buffer's rank. Any other is flat.
    """

    def __init__(self, value: SSAValue, span: Span, loaded: bool):
        self.value = value
        self.first, self.count = span[0], span[1] - span[0]
        shape = shape_of(value)
        self.is_whole = self.count == math.prod(shape)
        self._axis = next((axis for axis, extent in enumerate(shape) if extent > 1), 0)
        row = math.prod(shape[self._axis + 1 :])
        self._row = row if not loaded and self.first % row == self.count % row == 0 else 0

    def view(self, window: Window) -> SSAValue:
        """Returns a view of the window."""
        shape = list(shape_of(self.value))
        if self._row and not self.is_whole:
            shape[self._axis] = self.count // self._row
        elif not self.is_whole:
            shape = [self.count]
        return window(cast(ViewOp, self.value.owner), self.first, shape)

    def map(self, index: AffineMap, extents: Sequence[int]) -> AffineMap:
        """Returns an index map of the buffer, rebased to the window, for loops of `extents`."""
        if self._row:
            results = list(index.results)
            results[self._axis] = results[self._axis] - self.first // self._row
        else:
            results: list[AffineExpr] = [affine.linear_index(index.results, shape_of(self.value)) - self.first]
        return affine.simplified(AffineMap(index.num_dims, 0, tuple(results)), extents)

    def position(self, load: memref.LoadOp, before: Operation) -> SSAValue:
        """Returns the flat index in the window of the element that a load reads, computed in front of `before`."""
        strides = affine.strides(shape_of(self.value))
        total: SSAValue | None = None
        for index, stride in zip(load.indices, strides, strict=True):
            term = index if stride == 1 else insert_before(arith.MuliOp(index, index_before(stride, before)), before)
            total = term if total is None else insert_before(arith.AddiOp(total, term), before)
        assert total is not None, "a table must have an axis"
        return insert_before(arith.SubiOp(total, index_before(self.first, before)), before) if self.first else total


def _zero(kind: Attribute) -> arith.ConstantOp:
    return arith.ConstantOp(
        FloatAttr(0.0, cast(AnyFloat, kind)) if is_float(kind) else IntegerAttr(0, cast(IntegerType, kind))
    )


def _fold_on(stage: Stage, grid: Sequence[int], before: Sequence[SSAValue]) -> Stage:
    """Redirects a stage's reductions to locals; returns a stage that folds these into the earlier parts' results."""
    rank, point = len(grid), affine.identity(len(grid))
    inner = AffineMap(len(stage.extents), 0, tuple(affine.dims(rank)))
    outputs = [(value, AffineMap(rank, 0, index.results)) for value, index in stage.writes]
    folded = [new_local(grid, element_of(value), stage.location) for value, _ in outputs]
    body = fold_of(stage)
    for value, _ in outputs:
        body.insert_arg(element_of(value), len(body.args))
    stage.writes = [(value, inner) for value in folded]
    reads = [(value, point) for value in folded]
    reads += [(value, index) for value, (_, index) in zip(before, outputs, strict=True)]
    return Stage(reads, outputs, tuple(grid), (), body, stage.location)


def _restrict(
    stage: Stage, load: memref.LoadOp, place: _BoundWindow, window: SSAValue, before: Sequence[SSAValue]
) -> None:
    """Restricts a stage to the grid points, or terms of a sum, whose load from the table falls in the part's window.

    All others keep the result of the earlier parts. The first part also handles those whose load a condition skips
    because its index is out of bounds. At grid points, it stores a result everywhere, which later parts replace.

    Args:
        stage: The stage.
        load: Its load from the table.
        place: The window's place in the table.
        window: The window.
        before: Views of the stage's results as the earlier parts left them; none in the first part.
    """
    block, total = cast(Block, carrier_of(load, stage.body)), math.prod(shape_of(place.value))
    anchor: Operation = load
    while anchor.parent is not block:
        anchor = cast(Operation, anchor.parent_op())
    early: dict[SSAValue, SSAValue] = {}
    for number, index in enumerate(list(load.indices)):
        load.operands[1 + number] = _early(index, anchor, early)
    position = place.position(load, anchor)
    mine = inside = insert_before(arith.CmpiOp(position, index_before(place.count, anchor), ULT), anchor)
    if not before and block is not stage.body:
        later = insert_before(arith.SubiOp(position, index_before(place.count, anchor)), anchor)
        mine = insert_before(arith.CmpiOp(later, index_before(total - place.first - place.count, anchor), UGE), anchor)
    load.operands = [window, position]
    _load_where(load, inside)
    previous: list[SSAValue] = []
    for earlier, (_, index) in zip(before, stage.writes[: len(before)], strict=True):
        previous.append(stage.body.insert_arg(element_of(earlier), len(stage.reads)))
        stage.reads.append((earlier, index))
    last, loop = cast(Operation, block.last_op), block.parent_op()
    if block is not stage.body and isinstance(loop, scf.ForOp):
        for number, carried in enumerate(block.args[1:]):
            last.operands[number] = insert_before(arith.SelectOp(mine, last.operands[number], carried), last)
        results = list(cast(Operation, stage.body.last_op).operands)
        for number, result in enumerate(loop.results if previous else ()):
            loop.operands[3 + number] = previous[results.index(result)]
    else:
        for number, value in enumerate(previous):
            last.operands[number] = insert_before(arith.SelectOp(mine, last.operands[number], value), last)


def _early(value: SSAValue, anchor: Operation, done: dict[SSAValue, SSAValue]) -> SSAValue:
    """Returns a value that dominates `anchor`, recomputed in front of it if need be."""
    block = anchor.parent
    op = value.owner
    if not isinstance(op, Operation) or not _is_inside(op, anchor):
        return value
    assert block is not None
    if value not in done:
        copy = op.clone({operand: _early(operand, anchor, done) for operand in op.operands})
        block.insert_op_before(copy, anchor)
        done.update(zip(op.results, copy.results, strict=True))
    return done[value]


def _is_inside(op: Operation, outer: Operation) -> bool:
    parent: Operation | None = op
    while parent is not None and parent is not outer:
        parent = parent.parent_op()
    return parent is outer


def _load_where(load: memref.LoadOp, condition: SSAValue) -> None:
    """Guards a load with a condition; where it is false, the result is zero."""
    then, otherwise = Block(), Block()
    if_op = scf.IfOp(condition, [load.res.type], [then], [otherwise])
    if_op.location = load.location
    cast(Block, load.parent).insert_op_before(if_op, load)
    load.res.replace_all_uses_with(if_op.results[0])
    load.detach()
    zero = _zero(load.res.type)
    for block, op in ((then, load), (otherwise, zero)):
        end = scf.YieldOp(op.results[0])
        block.add_ops([op, end])
        for boundary in (op, end):
            boundary.location = if_op.location
