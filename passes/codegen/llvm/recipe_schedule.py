"""The archetype `recipe`: native code as a recipe says, step by step."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, Operation
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.buf_tiles import ForallOp, TiledOp
from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.native_schedules import RecipeSchedule
from tensorgrad.dialects.recipe import Processor
from tensorgrad.passes.codegen.common.archetype import Archetype
from tensorgrad.passes.codegen.transforms.opening import opened
from tensorgrad.passes.codegen.transforms.steps import apply_steps
from tensorgrad.runtime.target import Target


class RecipeArchetype(Archetype[RecipeSchedule]):
    """Kernels that have a recipe, which says everything; so there is nothing to choose."""

    schedule = RecipeSchedule

    def default(self, kernel: KernelOp, target: Target) -> RecipeSchedule | None:
        if kernel.recipe is None:
            return None
        if not target.native:
            raise DiagnosticException(
                f"the kernel made at {line_of(kernel.location)} has a recipe, of which only native code is made: take "
                "it away, or run `schedule` with a target whose language is llvm"
            )
        (tasks,) = task_loop(tiles_of(kernel)).extents
        assert isinstance(tasks, int)
        return RecipeSchedule(groups=(tasks, 1, 1))

    def neighbours(self, schedule: RecipeSchedule, kernel: KernelOp, target: Target) -> Iterator[RecipeSchedule]:
        return iter(())


def tiles_of(kernel: KernelOp) -> TiledOp:
    """Returns what a kernel's recipe makes of it, which stays as it is.

    Raises:
        DiagnosticException: A step doesn't fit, or tasks don't run the outermost loop.
    """
    assert kernel.recipe is not None
    copy = kernel.clone()
    block = Block([copy])
    tiles = opened(copy, kernel.recipe)
    apply_steps(tiles)
    tiles.detach()
    block.erase()
    outermost = [op for op in tiles.body.block.ops if op.regions]
    if len(outermost) != 1 or not _is_task_loop(outermost[0]):
        raise DiagnosticException(
            f"the recipe of the kernel made at {line_of(kernel.location)} gives no loop to tasks that is the outermost "
            "one, and the only one there"
        )
    return tiles


def _is_task_loop(op: Operation) -> bool:
    return isinstance(op, ForallOp) and op.mapping == (Processor.TASK,) and isinstance(op.extents[0], int)


def task_loop(tiles: TiledOp) -> ForallOp:
    """Returns the outermost loop of a kernel."""
    return next(op for op in tiles.body.block.ops if isinstance(op, ForallOp))
