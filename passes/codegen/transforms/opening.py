"""Opens a kernel: writes the grid that its stages share as loops around them, and starts and ends of reductions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from xdsl.dialects import memref
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint

from tensorgrad.dialects.buf import (
    KernelOp,
    element_of,
    is_shape_only,
    loop_extents,
    maps_of,
)
from tensorgrad.dialects.buf_tiles import Space, TiledOp
from tensorgrad.dialects.recipe import Processor, RecipeAttr
from tensorgrad.dialects.stages import reductions_of
from tensorgrad.passes.codegen.common.stage_loops import own_loops
from tensorgrad.passes.codegen.transforms.building import Range, TileBuilder, entangled
from tensorgrad.passes.codegen.transforms.indices import Index, combined, index_of


def opened(kernel: KernelOp, recipe: RecipeAttr) -> TiledOp:
    """Replaces a kernel by loops over its grid, without a processor yet, around its stages.

    An attention is left without loops: `attend` writes them.

    Locals become registers of a point. A reduction starts from the identity of its combiner, in a register, and is
    copied from there. Parallel loops of its own stay around a reduction, and those that an output's index mixes with
    the grid's.
    """
    block, attention = kernel.body.block, kernel.attention
    region = kernel.detach_region(0)
    new = TiledOp.of(kernel.inputs, kernel.outputs, region, recipe)
    new.location = kernel.location
    if kernel.dispatch is not None:
        new.properties["dispatch"] = kernel.dispatch
    if attention is None:
        _write_loops(kernel, block)
    parent = kernel.parent
    assert parent is not None
    parent.insert_op_before(new, kernel)
    kernel.detach()
    kernel.erase(safe_erase=False)
    return new


def _write_loops(kernel: KernelOp, block: Block) -> None:
    """Writes loops over a kernel's grid around the stages of its body."""
    stages = [op for op in block.ops if isinstance(op, GenericOp)]
    locals_ = [op for op in block.ops if isinstance(op, memref.AllocaOp)]
    builder = TileBuilder(InsertPoint.at_end(block), kernel.location)
    grid = builder.forall(kernel.extents or (1,))
    inside = builder.into(grid.body.block)
    point = [index_of(index) for index in grid.indices][: len(kernel.extents)]
    registers: dict[SSAValue, SSAValue] = {
        op.memref: inside.local((), element_of(op.memref), Space.REGISTER)
        for op in locals_
        if not is_shape_only(op.memref)
    }
    for stage in stages:
        inside.location = stage.location
        _write_stage(inside, stage, point, own_loops(kernel, stage), registers)
    for op in reversed([*locals_, *stages]):
        op.detach()
        op.erase(safe_erase=False)


def _write_stage(
    builder: TileBuilder,
    stage: GenericOp,
    point: Sequence[Index],
    own: tuple[list[int], list[int]],
    registers: Mapping[SSAValue, SSAValue],
) -> None:
    """Writes a stage at a point of the grid, given its own parallel and reduction loops."""
    parallel, reduced = own
    if 0 in parallel:
        return
    extents, first = loop_extents(stage), len(point) + len(parallel)
    ranges = {loop: Range(index) for loop, index in enumerate(point)}
    outer = range(len(point), first) if reduced else sorted(entangled(stage, set(ranges)))
    if outer:
        loops = builder.forall([extents[loop] for loop in outer], [Processor.SEQUENTIAL] * len(outer))
        ranges |= {loop: Range(index_of(index)) for loop, index in zip(outer, loops.indices, strict=True)}
        builder = builder.into(loops.body.block)
    if not reduced:
        builder.narrowed(stage, ranges, registers)
        return
    sums: dict[SSAValue, SSAValue] = {}
    for output, reduction in zip(stage.outputs, reductions_of(stage), strict=True):
        sums[output] = registers.get(output) or builder.local((), element_of(output), Space.REGISTER)
        builder.fill(sums[output], reduction.start())
    if math.prod(reduced):
        builder.narrowed(stage, ranges, {**registers, **sums})
    starts = [ranges[loop].first for loop in range(first)]
    for output, m in zip(stage.outputs, maps_of(stage)[len(stage.inputs) :], strict=True):
        if output not in registers:
            builder.copy(sums[output], builder.element(output, [combined(result, starts) for result in m.results]))
