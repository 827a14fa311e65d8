"""The archetype `attention`."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.attention import FORWARD, KEYS, AttentionOp
from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.schedule import AttentionSchedule
from tensorgrad.passes.analyses.machine import CpuModel, GpuModel, machine_of
from tensorgrad.passes.codegen.common.archetype import Archetype
from tensorgrad.runtime.target import Target

MOST_DEPTH = 8
"""The most blocks of rows per workgroup on a GPU."""


class AttentionArchetype(Archetype[AttentionSchedule]):
    """Computes blocks of rows in each workgroup; its lanes share the rows' features."""

    schedule = AttentionSchedule

    def default(self, kernel: KernelOp, target: Target) -> AttentionSchedule | None:
        stage = kernel.attention
        if stage is None:
            return None
        machine = machine_of(target)
        rows, columns, lanes, depth = _block(stage, machine, target)
        groups, row_count = stage.grid
        blocks = -(-row_count // (rows * depth))
        limit = target.max_compute_workgroups_per_dimension
        layers = -(-groups // limit)
        if blocks > limit or layers > limit:
            raise DiagnosticException(
                f"an attention of {groups} groups of {row_count} rows needs more workgroups than a dispatch can have"
            )
        one_subgroup = isinstance(machine, CpuModel) and target.subgroups and target.subgroup_size == machine.lanes
        return AttentionSchedule(
            groups=(blocks, -(-groups // layers), layers),
            rows=rows,
            columns=columns,
            lanes=lanes,
            depth=depth,
            broadcast=int(one_subgroup),
        )

    def neighbours(self, schedule: AttentionSchedule, kernel: KernelOp, target: Target) -> Iterator[AttentionSchedule]:
        yield from ()  # attention is not tuned


def _block(stage: AttentionOp, machine: CpuModel | GpuModel, target: Target) -> tuple[int, int, int, int]:
    """Returns the rows and columns of a thread, and the lanes and depth of a workgroup."""
    a, part, row_count = stage.attention, stage.part.data, stage.grid[1]
    is_cpu = isinstance(machine, CpuModel)
    lanes = machine.lanes if is_cpu else machine.tile_lanes
    while lanes > target.most_lanes:
        lanes //= 2
    held = -(-{FORWARD: a.values, KEYS: a.features + a.values}.get(part, a.features) // lanes)
    short = is_cpu and min(a.queries, a.keys) < machine.many_rows
    columns = 1 if short else 2
    most_held = machine.accumulators[0 if short else 1] if is_cpu else machine.accumulators
    rows = 16 if is_cpu else 4
    while rows > 1 and (rows * held > most_held or rows // 2 >= row_count):
        rows //= 2
    most_depth = min(MOST_DEPTH, target.max_compute_invocations_per_workgroup // lanes)
    depth = 1 if is_cpu else min(most_depth, target.max_compute_workgroup_size_y)
    while depth > 1 and (depth // 2 * rows >= row_count or _overflows(part, rows * depth, lanes * columns, target)):
        depth //= 2
    while rows > 1 and _overflows(part, rows, lanes * columns, target):
        rows //= 2
    return rows, columns, lanes, depth


def _overflows(part: str, rows: int, width: int, target: Target) -> bool:
    """Returns whether the weights of a block exceed the target's workgroup memory."""
    return (2 if part == KEYS else 1) * rows * width * 4 > target.max_compute_workgroup_storage_size
