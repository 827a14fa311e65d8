"""The interface of archetypes, and properties of kernels that several of them use."""

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
from tensorgrad.dialects.schedule import Schedule
from tensorgrad.passes.analyses.affine import used_dims
from tensorgrad.passes.analyses.machine import MOST_OPS, VECTOR, CpuModel
from tensorgrad.passes.analyses.walking import operations
from tensorgrad.runtime.target import Target

S = TypeVar("S", bound=Schedule)


class Archetype(ABC, Generic[S]):
    """One way to write a kernel's loops. All choices are made here; a lowering only writes the code.

    Attributes:
        schedule: The type of the archetype's schedules.
    """

    schedule: type[S]

    @abstractmethod
    def default(self, kernel: KernelOp, target: Target) -> S | None:
        """Returns the schedule of a kernel without tuning, or `None` if another archetype suits it better.

        Raises:
            DiagnosticException: Only this archetype supports such kernels, and the target can't run this one.
        """

    def plainest(self, kernel: KernelOp, target: Target) -> S | None:
        """Returns the schedule that tuning tries if another archetype is the default, or `None` if this one can't."""
        return None

    @abstractmethod
    def neighbours(self, schedule: S, kernel: KernelOp, target: Target) -> Iterator[S]:
        """Yields the schedules of this archetype that differ in a single choice, and that the target can run."""

    def cycles(self, schedule: S, kernel: KernelOp, target: Target, machine: CpuModel, parts: int) -> float:
        """Returns the estimated cycles of a reduction on a CPU when it is split into parts."""
        return math.inf

    def code_size(self, schedule: S, kernel: KernelOp) -> int:
        """Returns the approximate number of ops in a kernel's code."""
        return sum(body_size(stage) for stage in kernel.stages)

    def workgroup_arrays(self, schedule: S, kernel: KernelOp) -> Counter[tuple[Attribute, int]]:
        """Returns the most workgroup arrays that a kernel declares of each element type and extent."""
        return Counter()


def body_size(stage: GenericOp) -> int:
    """Returns the number of ops in a stage's body, including those in nested regions."""
    return sum(1 for _ in operations(stage.body.block))


def has_own_loops(stage: GenericOp, kernel: KernelOp) -> bool:
    """Returns whether a stage has loops besides the grid's."""
    return len(stage.iterator_types) > len(kernel.extents)


def unrolled_size(kernel: KernelOp, steps: int) -> int:
    """Returns the number of ops in a kernel's bodies, where each unrolled copy counts."""
    return sum(body_size(stage) * (steps if has_own_loops(stage, kernel) else 1) for stage in kernel.stages)


def iteration_cycles(kernel: KernelOp, machine: CpuModel) -> float:
    """Returns the estimated cycles of one iteration of a reduction on a CPU; it is the kernel's first stage."""
    stage = kernel.stages[0]
    return machine.load * len(stage.inputs) + sum(1 for _ in stage.body.walk())


def own_iterations(kernel: KernelOp) -> int:
    """Returns the most iterations of any stage's own loops at one grid point."""
    return max((math.prod(loop_extents(s)[len(kernel.extents) :]) for s in kernel.stages), default=1)


def unrolled_by(kernel: KernelOp, factors: tuple[int, ...], lanes: int = 0) -> int:
    """Returns the first of `factors` by which the own loops of a kernel's stages can be unrolled, or 1."""
    return next((factor for factor in factors if can_unroll(kernel, factor, lanes)), 1)


def can_unroll(kernel: KernelOp, factor: int, lanes: int = 0) -> bool:
    """Returns whether the own loops of a kernel's stages can be unrolled.

    Args:
        kernel: The kernel. At least one of its stages must have enough iterations.
        factor: The unroll factor.
        lanes: The number of threads that share each point. 0 means one thread per point, whose unrolled loop must keep
            at least two iterations.
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
    """Returns whether a stage's accesses along its innermost own loop can be vectors."""
    if not has_own_loops(stage, kernel):
        return True
    innermost = len(loop_extents(stage)) - 1
    along = [
        operand
        for operand, m in zip(stage.operands, maps_of(stage), strict=True)
        if not is_shape_only(operand) and m.results and innermost in used_dims(m)
    ]
    return all(element_of(value) == f32 and shape_of(value)[-1] % VECTOR == 0 for value in along)


def is_coalesced(kernel: KernelOp) -> bool:
    """Returns whether adjacent grid points read adjacent elements, so that loads of one thread per point coalesce."""
    rank = len(kernel.extents)
    for stage in kernel.stages:
        for operand, m in zip(stage.inputs, maps_of(stage), strict=False):
            if is_shape_only(operand) or not m.results or not used_dims(m) - set(range(rank)):
                continue
            last = m.results[-1]
            if isinstance(last, AffineDimExpr) and last.position == rank - 1:
                return True
    return False
