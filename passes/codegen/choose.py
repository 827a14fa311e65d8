"""Chooses the archetype of a kernel, and dispatches queries to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Attribute
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import KernelOp, element_bytes
from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.schedule import Schedule
from tensorgrad.passes.analyses.machine import CpuModel, machine_of
from tensorgrad.passes.codegen.common.archetype import Archetype
from tensorgrad.passes.codegen.llvm.attention_schedule import NativeAttentionArchetype
from tensorgrad.passes.codegen.llvm.counting_sort_schedule import CountingSortArchetype
from tensorgrad.passes.codegen.llvm.loops_schedule import LoopsArchetype
from tensorgrad.passes.codegen.llvm.packed.schedule import PackedArchetype, packed_cost
from tensorgrad.passes.codegen.llvm.recipe_schedule import RecipeArchetype
from tensorgrad.passes.codegen.llvm.scan_schedule import ScanArchetype
from tensorgrad.passes.codegen.wgsl.attention_schedule import AttentionArchetype
from tensorgrad.passes.codegen.wgsl.contraction_schedule import ContractionArchetype, blocked_cost
from tensorgrad.passes.codegen.wgsl.group_schedule import GroupArchetype
from tensorgrad.passes.codegen.wgsl.thread_schedule import ThreadArchetype
from tensorgrad.runtime.target import Target

LOOPED = (GroupArchetype(), ThreadArchetype())
"""The archetypes that run a kernel's stages unchanged. `thread` supports every kernel that `group` does."""

ARCHETYPES: tuple[Archetype[Any], ...] = (RecipeArchetype(), AttentionArchetype(), ContractionArchetype(), *LOOPED)
"""The archetypes of shaders, in the order in which they are tried."""

NATIVE_ARCHETYPES: tuple[Archetype[Any], ...] = (
    RecipeArchetype(),
    NativeAttentionArchetype(),
    CountingSortArchetype(),
    ScanArchetype(),
    PackedArchetype(),
    LoopsArchetype(),
)
"""The archetypes of native code, in the order in which they are tried."""

BY_SCHEDULE: dict[type[Schedule], Archetype[Any]] = {
    archetype.schedule: archetype for archetype in (*ARCHETYPES, *NATIVE_ARCHETYPES)
}


def choose(kernel: KernelOp, target: Target) -> Schedule:
    """Returns the default schedule of a kernel on a target.

    Raises:
        DiagnosticException: No archetype of the target supports such a kernel, or the target can't run it.
    """
    for archetype in NATIVE_ARCHETYPES if target.native else ARCHETYPES:
        result = archetype.default(kernel, target)
        if result is not None:
            return result
    raise DiagnosticException(
        f"target {target.name!r} has no schedule for the kernel made at {line_of(kernel.location)}"
    )


def neighbours(schedule: Schedule, kernel: KernelOp, target: Target) -> list[Schedule]:
    """Returns the schedules that differ from `schedule` in a single choice, and that the target can run.

    Widths, blocks and staged chunks are halved and doubled, and subgroup broadcasts are switched. One thread and one
    workgroup per grid point are alternatives where both are possible.
    """
    mine = BY_SCHEDULE[type(schedule)]
    others = [archetype.plainest(kernel, target) for archetype in LOOPED if mine in LOOPED and archetype is not mine]
    return [*mine.neighbours(schedule, kernel, target), *(other for other in others if other is not None)]


def cycles(schedule: Schedule, kernel: KernelOp, target: Target, machine: CpuModel, parts: int = 1) -> float:
    """Returns the estimated cycles of a reduction on a CPU when it is split into parts."""
    return BY_SCHEDULE[type(schedule)].cycles(schedule, kernel, target, machine, parts)


def contraction_cost(kernel: KernelOp, stage: GenericOp, target: Target) -> float:
    """Returns the estimated cost of a contraction under the target's archetype, in the unit of its machine model."""
    machine = machine_of(target)
    if target.native and isinstance(machine, CpuModel):
        return packed_cost(kernel, stage, machine)
    return blocked_cost(kernel, stage, target)


def code_size(schedule: Schedule, kernel: KernelOp) -> int:
    """Returns the approximate number of ops in a kernel's code."""
    return BY_SCHEDULE[type(schedule)].code_size(schedule, kernel)


def workgroup_bytes(schedules: Sequence[Schedule], kernels: Sequence[KernelOp]) -> int:
    """Returns the bytes of workgroup memory of kernels that share a dispatch, which reuse arrays of equal types."""
    most: Counter[tuple[Attribute, int]] = Counter()
    for schedule, kernel in zip(schedules, kernels, strict=True):
        most |= BY_SCHEDULE[type(schedule)].workgroup_arrays(schedule, kernel)
    return sum(count * extent * element_bytes(element) for (element, extent), count in most.items())
