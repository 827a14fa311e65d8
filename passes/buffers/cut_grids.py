"""The pass `cut-grids`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, IntegerType, ModuleOp, StringAttr, UnknownLoc, i64
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.ir.affine import AffineDimExpr

from tensorgrad.dialects.buf import VALUE, KernelOp, ViewOp, buffer_type, element_of, shape_of
from tensorgrad.dialects.buf_control import RepeatOp
from tensorgrad.dialects.schedule import ScheduleAttr
from tensorgrad.dialects.signature import ROLE
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.cuts import Cut, cuts_of, row_bytes
from tensorgrad.passes.analyses.stages import Parts, Stage, new_local, put_together, take_apart
from tensorgrad.passes.analyses.storage import accesses_of, bindings_of
from tensorgrad.passes.analyses.walking import operations
from tensorgrad.passes.buffers.schedule.choose import choose
from tensorgrad.passes.kernels.writing.control import view_of
from tensorgrad.passes.levels import PLANNED, LevelPass
from tensorgrad.runtime.target import WEBGPU_DEFAULT, Target


@dataclass(frozen=True)
class CutGridsPass(LevelPass):
    """Cuts the grids of kernels whose buffers are too large to be bound, so that each part binds windows of them.

    Expects functions behind `plan-memory`, with a `schedule` on every kernel. Guarantees the same results. A buffer
    that is larger than a binding may be takes several. Where a kernel would have more bindings than the target has, and
    one loop of its grid counts the rows of such buffers and of all that it writes, the loop is cut: each part is a
    kernel of its own, which binds the rows of its iterations alone, and has a schedule of its own. What other loops
    count, and what is read at computed indices, is bound as before. A kernel that no cut helps stays, and
    `lower-buf-to-wgsl` refuses it unless its buffers lie in one arena that can be bound.

    Attributes:
        target: The device: how many bindings a kernel may have, how large they may be, and where they may start.
    """

    name = "cut-grids"
    levels = PLANNED

    target: Target = WEBGPU_DEFAULT

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        if self.target.native:
            return
        ops = list(operations(op.body.block))
        numbers = (one.attributes.get(VALUE) for one in ops if isinstance(one, ViewOp))
        cutting = _Cutting(self.target, max((_number(one) for one in numbers), default=-1) + 1)
        for kernel in ops:
            if isinstance(kernel, KernelOp) and kernel.single is None and kernel.dispatch_number is None:
                cut = _best_cut(kernel, self.target)
                if cut is not None:
                    cutting.cut(kernel, cut)


def _number(attribute: Attribute | None) -> int:
    """Returns the number of the value that a view is of, -1 where it has none."""
    return cast("IntegerAttr[IntegerType]", attribute).value.data if isinstance(attribute, IntegerAttr) else -1


def _best_cut(kernel: KernelOp, target: Target) -> Cut | None:
    """Returns the cut that leaves the fewest bindings; `None` where a kernel has few enough, or no cut leaves fewer."""
    limit, needed = target.max_storage_buffers_per_shader_stage - _loops_around(kernel), _bindings(kernel, {}, target)
    if needed <= limit:
        return None
    fixed = [value for value in kernel.operands if isinstance(value.owner, ViewOp)]  # loops move the others
    cuts = cuts_of(kernel.extents, lambda: accesses_of(kernel), fixed, target)
    usable = [cut for cut in cuts if cut.rows.keys() >= set(kernel.outputs) and not _crosses(kernel, cut)]
    best = min(usable, key=lambda cut: (_bindings(kernel, cut.rows, target), -cut.step), default=None)
    return best if best is not None and _bindings(kernel, best.rows, target) < needed else None


def _loops_around(kernel: KernelOp) -> int:
    """Returns how many loops run a kernel: each takes one of its bindings."""
    count, op = 0, kernel.parent_op()
    while op is not None:
        count += isinstance(op, RepeatOp)
        op = op.parent_op()
    return count


def _bindings(kernel: KernelOp, windows: Mapping[SSAValue, int], target: Target) -> int:
    """Returns how many bindings a kernel has, scalars in one, if windows of some buffers are enough."""
    needed: dict[object, int] = {}
    for value in kernel.operands:
        view = view_of(value)
        role = view.attributes.get(ROLE)
        is_scalar = isinstance(role, StringAttr) and role.data == "scalar"
        key = view.arena if is_scalar else (view.arena, view.start, view.size, element_of(value))
        needed[key] = 1 if is_scalar or value in windows else bindings_of(view.size, target)
    return sum(needed.values())


def _crosses(kernel: KernelOp, cut: Cut) -> bool:
    """Returns whether a window would lie over another operand than itself: a part may not write what the next reads."""
    values = list(dict.fromkeys(kernel.operands))
    for value in cut.rows:
        one = view_of(value)
        for other in (view_of(other) for other in values if other is not value):
            if other.arena is one.arena and one.start < other.start + other.size and other.start < one.start + one.size:
                return True
    return False


class _Cutting:
    """Cuts kernels.

    Args:
        target: The device.
        values: The first number that no value has.
    """

    def __init__(self, target: Target, values: int):
        self._target = target
        self._values = values

    def cut(self, kernel: KernelOp, cut: Cut) -> None:
        """Replaces a kernel by its parts, in order."""
        block = cast(Block, kernel.parent)
        whole = take_apart(kernel)
        extent = whole.grid[cut.axis]
        for start in range(0, extent, cut.step):
            part = put_together(self._part(whole, cut, start, min(cut.step, extent - start)))
            part.properties["schedule"] = ScheduleAttr(choose(part, self._target))
            block.insert_op_before(part, kernel)
        for stage in whole.stages:
            for op in reversed(list(stage.body.ops)):
                op.detach()
                op.erase()
        kernel.detach()
        kernel.erase()

    def _part(self, whole: Parts, cut: Cut, start: int, count: int) -> Parts:
        """Returns the part of a kernel that runs `count` iterations of the loop from `start` on."""
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
        """Returns a view of so many rows of a buffer, which is of the same value."""
        if VALUE not in view.attributes:
            view.attributes[VALUE] = IntegerAttr(self._values, i64)
            self._values += 1
        shape = list(shape_of(view.result))
        shape[axis] = count
        first = view.start + start * row_bytes(view.result, axis)
        made = ViewOp.of(view.arena, first, buffer_type(shape, element_of(view.result)))
        made.location = view.location
        made.attributes[VALUE] = view.attributes[VALUE]
        cast(Block, view.parent).insert_op_after(made, view)
        return made.result


def _run_iterations(stage: Stage, axis: int, start: int, count: int, moved: Mapping[SSAValue, SSAValue]) -> None:
    """Has a stage run some iterations of a loop of the grid, which count from 0 on in the buffers that are moved."""
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
