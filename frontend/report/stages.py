"""What the kernels of a step compute: their stages, the modules that they are from, and their schedules."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.linalg.ops import GenericOp, IndexOp, YieldOp
from xdsl.ir import Block, Operation

from tensorgrad.dialects.buf import KernelOp, is_reduction, loop_extents
from tensorgrad.dialects.locations import calls_in
from tensorgrad.dialects.schedule import ScheduleAttr
from tensorgrad.passes.analyses.kinds import contraction_of
from tensorgrad.passes.analyses.walking import operations
from tensorgrad.report.facts import NOWHERE, Stage
from tensorgrad.report.locations import Sources

_UNNAMED = (arith.ConstantOp, arith.IndexCastOp, IndexOp, YieldOp, scf.YieldOp)


def stages_of(kernel: KernelOp, sources: Sources) -> tuple[Stage, ...]:
    """Returns the stages of a kernel at the level `buf`, in order."""
    single, contraction = kernel.single, contraction_of(kernel)
    if single is not None:
        kind = single.name.removeprefix("buf.")
        return (Stage(kind, kernel.extents, (kind,), _place(single, sources), module_of(single)),)
    return tuple(
        Stage(
            _kind(stage, contraction),
            loop_extents(stage),
            _ops(stage.body.block),
            _place(stage, sources),
            module_of(stage),
        )
        for stage in kernel.stages
    )


def module_of(op: Operation) -> str:
    """Returns the path of the innermost module whose call an op is from, or ""."""
    return next(reversed(calls_in(op.location)), "")


def busiest_module(stages: Sequence[Stage]) -> str:
    """Returns the module with the most points of loops times ops, the first of these; "" for no stages."""
    work: dict[str, int] = {}
    for stage in stages:
        work[stage.module] = work.get(stage.module, 0) + math.prod(stage.extents) * max(1, len(stage.ops))
    return max(work, key=lambda module: work[module], default="")


def text_of(schedule: ScheduleAttr) -> str:
    """Returns a schedule as text: an archetype and its numbers."""
    return str(schedule).removeprefix("#buf.schedule<").removesuffix(">")


def _kind(stage: GenericOp, contraction: GenericOp | None) -> str:
    if stage is contraction:
        return "contraction"
    return "reduction" if is_reduction(stage) else "pointwise"


def _ops(body: Block) -> tuple[str, ...]:
    """Returns the distinct ops on numbers of a body, in order, without their dialect."""
    names = (op.name.partition(".")[2] for op in operations(body) if not isinstance(op, _UNNAMED))
    return tuple(dict.fromkeys(names))


def _place(op: Operation, sources: Sources) -> tuple[int, int]:
    return next(iter(sources.places_of([op])), NOWHERE)
