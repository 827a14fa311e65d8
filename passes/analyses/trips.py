"""Upper bounds on the iterations of a kernel's loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from tensorgrad.dialects import wgsl
from tensorgrad.passes.analyses.guards import Ranges, thread_numbers
from tensorgrad.passes.analyses.walking import operations, reached
from tensorgrad.passes.scalars import constant_integer

MOST_TRIPS = "buf.most_trips"
"""The attribute of a loop with computed bounds for its maximum trip count."""

ITERATIONS = "wgsl.iterations"
"""The attribute of a kernel with relayed loops for the most iterations of an invocation."""

EXCLUSIVE = "wgsl.exclusive"
"""The attribute of conditions in a block that are mutually exclusive for each invocation."""

LARGEST_INDEX = 2**32 - 1
MOST_GROUPS = 65535
"""The most workgroups of a dispatch in one dimension."""


def kernel_iterations(kernel: wgsl.KernelOp) -> int:
    """Returns the most iterations that an invocation of a kernel runs in all of its loops."""
    annotation = kernel.attributes.get(ITERATIONS)
    return annotation.value.data if isinstance(annotation, IntegerAttr) else iterations(kernel.body.block)


def iterations(block: Block) -> int:
    """Returns the most iterations that an invocation runs in all loops of a block, as drivers count them.

    Each loop ends with an iteration that does nothing. In that one, as in a branch not taken, software GPUs still run
    each nested loop once, with all lanes masked.
    """
    return total(block, _iterations_of)


def total(block: Block, count: Callable[[Operation], int]) -> int:
    """Returns the sum of the counts of a block's ops with regions; of exclusive ones, only the largest counts."""
    iterations, largest_of_exclusive = 0, 0
    for op in block.ops:
        if op.regions and EXCLUSIVE in op.attributes:
            iterations += masked_iterations(op)
            largest_of_exclusive = max(largest_of_exclusive, count(op))
        elif op.regions:
            iterations += count(op)
    return iterations + largest_of_exclusive


def _iterations_of(op: Operation) -> int:
    inside = sum(iterations(block) for region in op.regions for block in region.blocks)
    if not isinstance(op, scf.ForOp):
        return inside
    return most_trips(op) * (1 + inside) + masked_iterations(op)


def masked_iterations(op: Operation) -> int:
    """Returns the iterations of an op that is masked: one for each loop."""
    blocks = (block for region in op.regions for block in region.blocks)
    inside = sum(masked_iterations(inner) for block in blocks for inner in block.ops if inner.regions)
    return inside + isinstance(op, scf.ForOp)


def most_trips(loop: scf.ForOp) -> int:
    """Returns a loop's maximum trip count: from its attribute, or from the ranges of its bounds."""
    bound = loop.attributes.get(MOST_TRIPS)
    if isinstance(bound, IntegerAttr):
        return bound.value.data
    low, step = constant_integer(loop.lb) or 0, max(constant_integer(loop.step) or 1, 1)
    return max(-(-(largest(loop.ub) - low) // step), 0)


def is_exact(loop: scf.ForOp) -> bool:
    """Returns whether a loop has its maximum trip count at all times: its bounds and its step are constant."""
    return all(constant_integer(bound) is not None for bound in (loop.lb, loop.ub, loop.step))


def largest(value: SSAValue) -> int:
    """Returns an upper bound of an index; the largest 32-bit integer if nothing is known."""
    kernel = _kernel_around(value)
    workgroup = (LARGEST_INDEX,) * 3 if kernel is None else kernel.workgroup_size.get_values()
    return min(Ranges(thread_numbers((MOST_GROUPS,) * 3, workgroup)).of(value)[1], LARGEST_INDEX)


def _kernel_around(value: SSAValue) -> wgsl.KernelOp | None:
    """Returns the kernel that computes a value."""
    op: Operation | None = value.owner.parent_op() if isinstance(value.owner, Block) else value.owner
    while op is not None and not isinstance(op, wgsl.KernelOp):
        op = op.parent_op()
    return op


UNIFORM = (
    arith.ConstantOp,
    arith.AddiOp,
    arith.SubiOp,
    arith.MuliOp,
    arith.MinUIOp,
    arith.MaxUIOp,
    arith.DivUIOp,
    arith.RemUIOp,
    arith.ShRUIOp,
    arith.SelectOp,
    arith.CmpiOp,
    arith.AndIOp,
    arith.OrIOp,
    arith.XOrIOp,
    wgsl.WorkgroupIdOp,
    wgsl.NumWorkgroupsOp,
)
"""Ops whose results are the same in all invocations if their operands are."""


def is_uniform(value: SSAValue) -> bool:
    """Returns whether an index or a condition is provably uniform over a workgroup."""
    return all(isinstance(x.owner, UNIFORM) or _loop_of(x) is not None for x in reached(value, _sources))


def _loop_of(value: SSAValue) -> scf.ForOp | None:
    """Returns the loop whose counter a value is."""
    loop = value.owner.parent_op() if isinstance(value.owner, Block) else None
    return loop if isinstance(loop, scf.ForOp) and value is loop.body.block.args[0] else None


def _sources(value: SSAValue) -> Sequence[SSAValue]:
    """Returns what decides whether a value is uniform: the operands of its op, or the bounds of its loop."""
    if isinstance(value.owner, Operation):
        return value.owner.operands
    loop = _loop_of(value)
    return () if loop is None else (loop.lb, loop.ub, loop.step)


def has_uniform_bounds(loop: scf.ForOp) -> bool:
    """Returns whether a loop's trip count is uniform over a workgroup."""
    return all(map(is_uniform, (loop.lb, loop.ub, loop.step)))


def holds(op: Operation, *kinds: type[Operation]) -> bool:
    """Returns whether an op has a nested op of the given kinds."""
    return any(
        isinstance(inner, kinds) for region in op.regions for block in region.blocks for inner in operations(block)
    )
