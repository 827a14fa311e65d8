"""What every archetype answers, and what several of them ask of a kernel."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from typing import Generic, TypeVar

from xdsl.dialects.builtin import f32
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineDimExpr

from tensorgrad.dialects.buf import KernelOp, element_of, is_shape_only, loop_extents, maps_of, shape_of
from tensorgrad.dialects.schedule import (
    AttentionSchedule,
    ContractionSchedule,
    GroupSchedule,
    LoopsSchedule,
    PackedSchedule,
    ThreadSchedule,
    TilesSchedule,
)
from tensorgrad.passes.analyses.affine import used_dims
from tensorgrad.passes.analyses.machine import MOST_OPS, VECTOR, CpuModel
from tensorgrad.passes.analyses.walking import operations
from tensorgrad.runtime.target import Target

S = TypeVar(
    "S",
    ThreadSchedule,
    GroupSchedule,
    ContractionSchedule,
    AttentionSchedule,
    LoopsSchedule,
    PackedSchedule,
    TilesSchedule,
)


class Archetype(ABC, Generic[S]):
    """One way to write a kernel's loops. A lowering writes the code; all choices are made here.

    Attributes:
        schedule: The type of its schedules.
    """

    schedule: type[S]

    @abstractmethod
    def default(self, kernel: KernelOp, target: Target) -> S | None:
        """Returns the schedule that a kernel gets without measurements; `None` where another archetype suits it better.

        Raises:
            DiagnosticException: Only this archetype writes such kernels, and the target can't run this one.
        """

    def plainest(self, kernel: KernelOp, target: Target) -> S | None:
        """Returns what tuning tries where another archetype is the default; `None` where this one can't be."""
        return None

    @abstractmethod
    def neighbours(self, schedule: S, kernel: KernelOp, target: Target) -> Iterator[S]:
        """Yields the schedules of this archetype that differ in a single choice, and that the target can run."""

    def cycles(self, schedule: S, kernel: KernelOp, target: Target, machine: CpuModel, parts: int) -> float:
        """Returns about how long a CPU computes a reduction that is split into parts."""
        return math.inf

    def code_size(self, schedule: S, kernel: KernelOp) -> int:
        """Returns about how many ops a kernel's code has."""
        return sum(body_size(stage) for stage in kernel.stages)

    def workgroup_arrays(self, schedule: S, kernel: KernelOp) -> Counter[tuple[Attribute, int]]:
        """Returns how many arrays of each element type and extent a kernel keeps in workgroup memory, at most."""
        return Counter()


def body_size(stage: GenericOp) -> int:
    """Returns the ops of a stage's body, those in regions included."""
    return sum(1 for _ in operations(stage.body.block))


def has_own_loops(stage: GenericOp, kernel: KernelOp) -> bool:
    """Returns whether a stage has loops besides the grid's."""
    return len(stage.iterator_types) > len(kernel.extents)


def unrolled_size(kernel: KernelOp, steps: int) -> int:
    """Returns the ops of a kernel's bodies, those in unrolled loops counted as often as they are repeated."""
    return sum(body_size(stage) * (steps if has_own_loops(stage, kernel) else 1) for stage in kernel.stages)


def iteration_cycles(kernel: KernelOp, machine: CpuModel) -> float:
    """Returns about what a CPU needs for one iteration of a reduction, which is the kernel's first stage."""
    stage = kernel.stages[0]
    return machine.load * len(stage.inputs) + sum(1 for _ in stage.body.walk())


def own_iterations(kernel: KernelOp) -> int:
    """Returns the most iterations that a stage has at one grid point."""
    return max((math.prod(loop_extents(s)[len(kernel.extents) :]) for s in kernel.stages), default=1)


def unrolled_by(kernel: KernelOp, factors: tuple[int, ...], lanes: int = 0) -> int:
    """Returns the first of some factors by which the loops of a kernel's stages can be unrolled, or 1."""
    return next((factor for factor in factors if can_unroll(kernel, factor, lanes)), 1)


def can_unroll(kernel: KernelOp, factor: int, lanes: int = 0) -> bool:
    """Returns whether the loops of a kernel's stages can be unrolled.

    Args:
        kernel: At least one of its stages should have that many iterations.
        factor: By how much.
        lanes: How many threads share each point; 0 where a thread has it to itself, and two iterations at least remain.
    """
    rank = len(kernel.extents)
    stages = [stage for stage in kernel.stages if has_own_loops(stage, kernel)]
    longest = [math.prod(loop_extents(s)[rank:]) // lanes if lanes else loop_extents(s)[-1] // 2 for s in stages]
    if factor > max(longest, default=0) and factor > 1:
        return False
    return factor * sum(len(list(stage.body.walk())) for stage in stages) <= MOST_OPS


def longest_contiguous(kernel: KernelOp) -> int:
    """Returns the longest extent of an innermost loop along which a stage accesses contiguous elements, or 0."""
    return max((loop_extents(stage)[-1] for stage in kernel.stages if _is_contiguous(stage, kernel)), default=0)


def _is_contiguous(stage: GenericOp, kernel: KernelOp) -> bool:
    if not has_own_loops(stage, kernel):
        return False
    innermost = AffineDimExpr(len(loop_extents(stage)) - 1)
    return any(m.results and m.results[-1] == innermost for m in maps_of(stage))


def is_vectorizable(stage: GenericOp, kernel: KernelOp) -> bool:
    """Returns whether what a stage reads and writes along its innermost own loop may be vectors."""
    if not has_own_loops(stage, kernel):
        return True
    innermost = len(loop_extents(stage)) - 1
    along = [
        operand
        for operand, m in zip(stage.operands, maps_of(stage), strict=True)
        if not is_shape_only(operand) and m.results and innermost in used_dims(m)
    ]
    return all(element_of(one) == f32 and shape_of(one)[-1] % VECTOR == 0 for one in along)


def is_coalesced(kernel: KernelOp) -> bool:
    """Returns whether neighbouring grid points read neighbouring elements: a thread a point reads in order then."""
    rank = len(kernel.extents)
    for stage in kernel.stages:
        for operand, m in zip(stage.inputs, maps_of(stage), strict=False):
            if is_shape_only(operand) or not m.results or not used_dims(m) - set(range(rank)):
                continue
            last = m.results[-1]
            if isinstance(last, AffineDimExpr) and last.position == rank - 1:
                return True
    return False
