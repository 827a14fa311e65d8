"""The archetype `native_attention`: attention in native code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from xdsl.dialects.builtin import f64

from tensorgrad.dialects.attention import BACKWARD, KEYS, AttentionOp
from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.native_schedules import NativeAttentionSchedule
from tensorgrad.passes.analyses.blocks import rounded_up
from tensorgrad.passes.analyses.machine import TASK_WORK
from tensorgrad.passes.codegen.common.archetype import Archetype
from tensorgrad.runtime.target import Target

SUMS: dict[int, int] = {16: 8, 32: 6, 64: 12}
"""By bytes of a vector: the most sums of each row in registers. With two vectors of rows, a few registers stay free."""

VECTORS = 2
MOST_ROWS = 64
"""The most rows of a block. More rows copy the columns less often, but the rows' features must stay in L1."""

MOST_COLUMNS = 64
"""The most columns of a tile, whose scores and features must stay in L1."""

SKIPPING = 4
"""The fewest tiles along each side where causal masks skip tiles, as far as tiles can be whole vectors."""


class NativeAttentionArchetype(Archetype[NativeAttentionSchedule]):
    """Computes blocks of rows in each task."""

    schedule = NativeAttentionSchedule

    def default(self, kernel: KernelOp, target: Target) -> NativeAttentionSchedule | None:
        stage = kernel.attention
        if stage is None or not target.native:
            return None
        a, part = stage.attention, stage.part.data
        of_keys = part in (KEYS, BACKWARD)
        rows, columns = (a.keys, a.queries) if of_keys else (a.queries, a.keys)
        # The queries of one head have the same causal mask. The backward pass of a group is one block.
        head = rows if of_keys or a.causal is None else a.period
        lanes = target.vector_bytes // (8 if stage.computed_in == f64 else 4)
        while lanes >= 2 * head:
            lanes //= 2
        vectors = min(VECTORS, -(-head // lanes))
        width = lanes * vectors
        most = [MOST_ROWS, MOST_COLUMNS]
        if a.skips:
            sides = (head, a.period if of_keys else a.keys)
            most = [min(bound, max(width, side // SKIPPING)) for bound, side in zip(most, sides, strict=True)]
        schedule = NativeAttentionSchedule(
            groups=(1, 1, 1),
            head=1 if part == BACKWARD else head,
            rows=rounded_up(min(head, most[0]), width),
            columns=min(columns, most[1]),
            lanes=lanes,
            vectors=vectors,
            sums=SUMS[target.vector_bytes],
        )
        return _of_work(stage, schedule)

    def neighbours(
        self, schedule: NativeAttentionSchedule, kernel: KernelOp, target: Target
    ) -> Iterator[NativeAttentionSchedule]:
        stage = kernel.attention
        assert stage is not None
        width = schedule.lanes * schedule.vectors
        for rows in (schedule.rows // 2, schedule.rows * 2):
            if rows >= width and rows % width == 0:
                yield _of_work(stage, replace(schedule, rows=rows))
        for columns in (schedule.columns // 2, schedule.columns * 2):
            if columns >= 1:
                yield _of_work(stage, replace(schedule, columns=columns))


def _of_work(stage: AttentionOp, schedule: NativeAttentionSchedule) -> NativeAttentionSchedule:
    """Returns the schedule with tasks long enough to amortize the overhead of a task."""
    a = stage.attention
    count = schedule.blocks_over(stage.grid)
    work = a.groups * a.queries * a.keys * (a.features + a.values) // count
    blocks = min(max(TASK_WORK // work, 1), count)
    return replace(schedule, groups=(-(-count // blocks), 1, 1), blocks=blocks)
