"""The pass `schedule`."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException, VerifyException

from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.schedule import ScheduleAttr
from tensorgrad.passes.analyses.identity import by_structure, kernel_key
from tensorgrad.passes.analyses.walking import operations
from tensorgrad.passes.buffers.decisions import Choice, Outline, is_followed, tell
from tensorgrad.passes.buffers.schedule.tuned import read_table
from tensorgrad.passes.codegen.choose import choose
from tensorgrad.passes.levels import PLANNED_OR_NOT, LevelPass
from tensorgrad.runtime.target import WEBGPU_DEFAULT, Target

_log = logging.getLogger("tensorgrad.schedule")


@dataclass(frozen=True)
class SchedulePass(LevelPass):
    """Chooses how each kernel's grid maps to threads, and attaches the schedule to the kernel.

    Expects kernels at any point after `fuse`. Guarantees a `schedule` within the target's limits on every kernel except
    collectives. Existing schedules are kept. What the kernels compute doesn't change. The archetypes:

    - `thread`: one thread per grid point, for pointwise kernels (possibly several adjacent points per thread), many
      short rows (possibly unrolled; on a CPU, long rows too), and reductions of columns.
    - `group`: one workgroup per grid point. Its lanes share the row, in vectors where possible, and reduce through
      workgroup memory.
    - `contraction`: a block of results per thread, in registers.
    - `attention`: a block of rows per workgroup, which iterates over tiles of the rows that they attend to.

    The archetypes of native code, whose workgroups are tasks:

    - `loops`: blocks of points, or one point after another.
    - `packed`: matrix products, whose operands are packed into panels.
    - `native_attention`: attention, in blocks of rows that iterate over tiles of the rows that they attend to.
    - `scan`: running sums, products and extrema, in strips of rows that take each term once.
    - `counting_sort`: sorts of integer keys, in time proportional to the elements.

    `recipe`, on both, is for kernels that have a recipe, which says everything.

    Attributes:
        target: The device: software or GPU, and the limits on workgroups.
        tuned: A file of schedules measured on that device; see `tuned.py`. Kernels in the file get their schedule from
            it.
    """

    name = "schedule"
    levels = PLANNED_OR_NOT

    target: Target = WEBGPU_DEFAULT
    tuned: str | None = None

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        table = {} if self.tuned is None else read_table(Path(self.tuned))
        chosen = by_structure(lambda kernel: ScheduleAttr(choose(kernel, self.target)))
        for kernel in operations(op.body.block):
            if isinstance(kernel, KernelOp) and kernel.schedule is None and kernel.collective is None:
                tuned = table.get(kernel_key(kernel)) if table else None
                kernel.properties["schedule"] = ScheduleAttr(tuned) if tuned else chosen(kernel)
                if tuned is not None:
                    self._check_tuned(kernel)
                if is_followed(_log):
                    _explain(kernel, "measured before" if tuned else "by the target's cost model")

    def _check_tuned(self, kernel: KernelOp) -> None:
        """Checks that a schedule of the file covers this kernel, since a smaller one would leave results uncomputed.

        Raises:
            DiagnosticException: The schedule belongs to another kernel.
        """
        try:
            kernel.verify_()
        except (VerifyException, LookupError) as error:
            raise DiagnosticException(
                f"{self.tuned} has a schedule of another kernel for the one made at {line_of(kernel.location)}; "
                f"delete it ({error})"
            ) from error


def _explain(kernel: KernelOp, reason: str) -> None:
    tell(_log, Choice(Outline.of_op(kernel), f"{kernel.properties['schedule']}, {reason}"))
