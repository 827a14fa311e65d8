"""The pass `cut-grids`."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, IntegerType, ModuleOp, UnknownLoc, i64
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.rewriter import Rewriter

from tensorgrad.dialects.buf import VALUE, KernelOp, ViewOp, buffer_type, element_bytes, element_of, shape_of
from tensorgrad.dialects.buf_control import RepeatOp, view_of
from tensorgrad.dialects.schedule import ScheduleAttr
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.boxes import Boxes
from tensorgrad.passes.analyses.cuts import Cut, cuts_of
from tensorgrad.passes.analyses.stages import Parts, Stage, erase_stages, new_local, put_together, take_apart
from tensorgrad.passes.analyses.storage import accesses_of, bindings_of, count_bindings, is_scalar_view
from tensorgrad.passes.analyses.walking import operations
from tensorgrad.passes.buffers.boxed_parts import BoxedParts
from tensorgrad.passes.codegen.choose import choose
from tensorgrad.passes.levels import PLANNED, LevelPass
from tensorgrad.runtime.target import WEBGPU_DEFAULT, Target


@dataclass(frozen=True)
class CutGridsPass(LevelPass):
    """Divides kernels whose buffers exceed the limit of a binding into parts that bind windows of these buffers.

    Expects functions after `plan-memory`, with a `schedule` on every kernel. Guarantees the same results up to the
    order in which the terms of a sum are added, which is fixed. A buffer larger than the limit takes several bindings.
    A kernel that would need more bindings than the target allows is divided, and each part gets its own schedule:

    - If one grid loop indexes the rows of these buffers and of every output, the loop is cut at rows where a binding
      may start, and each part binds only the rows of its iterations.
    - Otherwise the kernel's loops are divided into boxes whose windows take few enough bindings. A part neither
      computes nor binds what conditions exclude from its box, as in `concat` and `pad`. If a sum or another fold is
      divided, each part folds its result into that of the parts before it. If a value is loaded at a computed index,
      each part handles the points, or the terms of a sum over such loads, whose index lies in its window.

    Kernels that share a dispatch with too many bindings run one after the other instead. A kernel that can't be divided
    into small enough parts stays whole, such as one that reads more large tables at computed indices than it has
    bindings, attention, or one whose search takes more than `MOST_RANGES`; `lower-buf-to-wgsl` rejects it unless
    its buffers lie in one arena that can be bound. Sorts are lowered to kernels that can be divided.

    Attributes:
        target: The device: how many bindings a kernel may have, their maximum size, and their alignment.
    """

    name = "cut-grids"
    levels = PLANNED

    target: Target = WEBGPU_DEFAULT

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        if self.target.native:
            return
        ops = list(operations(op.body.block))
        numbers = (view.attributes.get(VALUE) for view in ops if isinstance(view, ViewOp))
        cutting = _Cutting(self.target, max((_number(number) for number in numbers), default=-1) + 1)
        kernels = [kernel for kernel in ops if isinstance(kernel, KernelOp)]
        for _, team in groupby(kernels, lambda member: (member.parent, member.dispatch_number)):
            _unshare(list(team), self.target)
        for kernel in kernels:
            if kernel.single is None and kernel.dispatch_number is None:
                cutting.divide(kernel)


def _unshare(team: Sequence[KernelOp], target: Target) -> None:
    """Dissolves a shared dispatch that has too many bindings, if a buffer of it takes several."""
    limit = target.max_storage_buffers_per_shader_stage - _loops_around(team[0])
    if team[0].dispatch_number is not None and _has_chunks(team, target) and _bindings(team, {}, target) > limit:
        for kernel in team:
            del kernel.properties["dispatch"]


def _has_chunks(kernels: Sequence[KernelOp], target: Target) -> bool:
    """Returns whether a buffer of the kernels is larger than a binding may be."""
    return any(bindings_of(view_of(value).size, target) > 1 for kernel in kernels for value in kernel.operands)


def _number(attribute: Attribute | None) -> int:
    """Returns the number of the value that a view belongs to, or -1 if it has none."""
    return cast("IntegerAttr[IntegerType]", attribute).value.data if isinstance(attribute, IntegerAttr) else -1


def _best_cut(kernel: KernelOp, target: Target) -> Cut | None:
    """Returns the cut that needs the fewest bindings, or `None` if no cut needs fewer than the whole kernel."""
    fixed = [value for value in kernel.operands if isinstance(value.owner, ViewOp)]  # the others move with a loop
    cuts = cuts_of(kernel.extents, lambda: accesses_of(kernel), fixed, target)
    usable = [cut for cut in cuts if cut.rows.keys() >= set(kernel.outputs) and not _crosses(kernel, cut)]
    best = min(usable, key=lambda cut: (_bindings([kernel], cut.rows, target), -cut.step), default=None)
    whole = _bindings([kernel], {}, target)
    return best if best is not None and _bindings([kernel], best.rows, target) < whole else None


def _loops_around(kernel: KernelOp) -> int:
    """Returns the number of loops around a kernel; each takes one of its bindings."""
    count, op = 0, kernel.parent_op()
    while op is not None:
        count += isinstance(op, RepeatOp)
        op = op.parent_op()
    return count


def _bindings(kernels: Sequence[KernelOp], windows: Mapping[SSAValue, int], target: Target) -> int:
    """Returns the number of bindings of kernels together, if each buffer in `windows` takes one; scalars share one."""
    sizes: dict[Hashable, int | None] = {}
    for value in (value for kernel in kernels for value in kernel.operands):
        view = view_of(value)
        if is_scalar_view(view):
            sizes[view.arena] = None
        else:
            key = (view.arena, view.start, view.size, element_of(value))
            sizes[key] = None if value in windows else view.size
    return count_bindings(sizes, target)


def _crosses(kernel: KernelOp, cut: Cut) -> bool:
    """Returns whether a window overlaps another operand: a part must not write what a later part reads."""
    values = list(dict.fromkeys(kernel.operands))
    return any(view_of(value).overlaps(view_of(other)) for value in cut.rows for other in values if other is not value)


class _Cutting:
    """Divides kernels.

    Args:
        target: The device.
        values: The first unused number of a value.
    """

    def __init__(self, target: Target, values: int):
        self._target = target
        self._values = values

    def divide(self, kernel: KernelOp) -> None:
        """Replaces a kernel that has too many bindings with parts that have fewer, if that is possible."""
        limit = self._target.max_storage_buffers_per_shader_stage - _loops_around(kernel)
        if not _has_chunks([kernel], self._target) or _bindings([kernel], {}, self._target) <= limit:
            return
        cut = _best_cut(kernel, self._target)
        if cut is not None and _bindings([kernel], cut.rows, self._target) <= limit:
            self._cut(kernel, cut)
            return
        if not self._into_boxes(kernel, limit) and cut is not None:
            self._cut(kernel, cut)

    def _into_boxes(self, kernel: KernelOp, limit: int) -> bool:
        """Replaces a kernel with one for each box of its iterations; returns whether such boxes exist."""
        copy = kernel.clone()
        whole = take_apart(copy)
        copy.erase()
        boxes = Boxes(whole, self._target, limit)
        divided = boxes.divided()
        if divided is not None:
            for view in (value.owner for value in whole.outputs):
                if isinstance(view, ViewOp):
                    self._number_value(view)
            parts = BoxedParts(whole, boxes, self._view)
            self._replace(kernel, (parts.part(box) for box in divided))
        erase_stages(whole)
        return divided is not None

    def _replace(self, kernel: KernelOp, parts: Iterable[Parts]) -> None:
        """Replaces a kernel with parts, in order, each with its own schedule."""
        for piece in parts:
            part = put_together(piece)
            part.properties["schedule"] = ScheduleAttr(choose(part, self._target))
            cast(Block, kernel.parent).insert_op_before(part, kernel)
        Rewriter.erase_op(kernel)

    def _cut(self, kernel: KernelOp, cut: Cut) -> None:
        """Replaces a kernel with the parts of a cut, in order."""
        whole = take_apart(kernel)
        extent = whole.grid[cut.axis]
        starts = range(0, extent, cut.step)
        self._replace(kernel, (self._part(whole, cut, start, min(cut.step, extent - start)) for start in starts))
        erase_stages(whole)

    def _part(self, whole: Parts, cut: Cut, start: int, count: int) -> Parts:
        """Returns the part of a kernel that runs iterations `[start, start + count)` of the loop that is cut."""
        grid = tuple(count if axis == cut.axis else extent for axis, extent in enumerate(whole.grid))
        location = whole.location or UnknownLoc()
        moved: dict[SSAValue, SSAValue] = {
            value: new_local(grid, element_of(value), location) for value in whole.locals
        }
        for value, axis in cut.rows.items():
            moved[value] = self._window(cast(ViewOp, value.owner), axis, start, count)
        stages = [stage.copy() for stage in whole.stages]
        for stage in stages:
            _run_iterations(stage, cut.axis, start, count, moved)
        outputs = [moved.get(value, value) for value in whole.outputs]
        return Parts(grid, stages, outputs, [moved[value] for value in whole.locals], location)

    def _window(self, view: ViewOp, axis: int, start: int, count: int) -> SSAValue:
        """Returns a view of `count` rows of a buffer, marked as belonging to the same value."""
        shape = list(shape_of(view.result))
        first = start * math.prod(shape[axis + 1 :])
        shape[axis] = count
        return self._view(view, first, shape)

    def _view(self, view: ViewOp, first: int, shape: Sequence[int]) -> SSAValue:
        """Returns another view of the same value, of the given shape, that starts at element `first`."""
        self._number_value(view)
        element = element_of(view.result)
        view_of_part = ViewOp.of(view.arena, view.start + first * element_bytes(element), buffer_type(shape, element))
        view_of_part.location = view.location
        view_of_part.attributes[VALUE] = view.attributes[VALUE]
        cast(Block, view.parent).insert_op_after(view_of_part, view)
        return view_of_part.result

    def _number_value(self, view: ViewOp) -> None:
        """Numbers the value of a view, so that other views can refer to it."""
        if VALUE not in view.attributes:
            view.attributes[VALUE] = IntegerAttr(self._values, i64)
            self._values += 1


def _run_iterations(stage: Stage, axis: int, start: int, count: int, moved: Mapping[SSAValue, SSAValue]) -> None:
    """Restricts a stage to some iterations of a grid loop, which are rebased to 0 in the buffers of `moved`."""
    before = [*stage.reads, *stage.writes]
    extents = list(stage.extents)
    extents[axis] = count
    loops = affine.dims(len(extents))
    if start:
        loops[axis] = AffineDimExpr(axis) + start
    stage.reindexed(loops, extents, stage.own)
    places = [
        (moved[old], index) if old in moved else new
        for (old, index), new in zip(before, [*stage.reads, *stage.writes], strict=True)
    ]
    stage.reads, stage.writes = places[: len(stage.reads)], places[len(stage.reads) :]
