"""Upper bounds on the iterations of loops in a `wgsl.kernel`."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from tensorgrad.dialects import wgsl
from tensorgrad.passes.analyses.walking import operations
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


def largest(value: SSAValue) -> int:
    """Returns an upper bound of an index; the largest 32-bit integer if nothing is known."""
    owner = value.owner
    if isinstance(owner, Block):
        loop = owner.parent_op()
        if isinstance(loop, scf.ForOp) and value is owner.args[0]:
            return max(largest(loop.ub) - 1, 0)
        return LARGEST_INDEX
    rule = LARGEST.get(type(owner))
    bound = None if rule is None else rule(owner)
    return LARGEST_INDEX if bound is None or not 0 <= bound <= LARGEST_INDEX else bound


def _of_both(combine: Callable[[int, int], int]) -> Callable[[Operation], int]:
    return lambda op: combine(largest(op.operands[0]), largest(op.operands[1]))


def _divided(op: Operation) -> int:
    return largest(op.operands[0]) // max(constant_integer(op.operands[1]) or 1, 1)


def _remainder(op: Operation) -> int:
    return min(largest(op.operands[0]), largest(op.operands[1]) - 1)


def _shifted(op: Operation) -> int:
    return largest(op.operands[0]) >> (constant_integer(op.operands[1]) or 0)


def _workgroup_size(op: Operation) -> tuple[int, ...]:
    above = op.parent_op()
    while above is not None and not isinstance(above, wgsl.KernelOp):
        above = above.parent_op()
    return above.workgroup_size.get_values() if isinstance(above, wgsl.KernelOp) else (LARGEST_INDEX,) * 3


def _local_id(op: Operation) -> int:
    return _workgroup_size(op)[cast(wgsl.LocalIdOp, op).dim.value.data] - 1


def _local_index(op: Operation) -> int:
    x, y, z = _workgroup_size(op)
    return x * y * z - 1


LARGEST: dict[type[Operation], Callable[[Operation], int | None]] = {
    arith.ConstantOp: lambda op: constant_integer(op.results[0]),
    arith.AddiOp: _of_both(lambda x, y: x + y),
    arith.MuliOp: _of_both(lambda x, y: x * y),
    arith.MinUIOp: _of_both(min),
    arith.MaxUIOp: _of_both(max),
    arith.DivUIOp: _divided,
    arith.RemUIOp: _remainder,
    arith.ShRUIOp: _shifted,
    arith.SelectOp: lambda op: max(largest(op.operands[1]), largest(op.operands[2])),
    wgsl.WorkgroupIdOp: lambda op: MOST_GROUPS - 1,
    wgsl.LocalIdOp: _local_id,
    wgsl.LocalIndexOp: _local_index,
}
"""Upper bounds of ops on indices, from those of their operands; none for a sum that may wrap around."""


def is_uniform(value: SSAValue) -> bool:
    """Returns whether an index or a condition is provably uniform over a workgroup."""
    owner = value.owner
    if isinstance(owner, Block):
        loop = owner.parent_op()
        return isinstance(loop, scf.ForOp) and value is owner.args[0] and has_uniform_bounds(loop)
    if isinstance(owner, wgsl.WorkgroupIdOp | wgsl.NumWorkgroupsOp):
        return True
    computes = type(owner) in LARGEST and not isinstance(owner, wgsl.LocalIdOp | wgsl.LocalIndexOp)
    computes = computes or isinstance(owner, arith.SubiOp | arith.CmpiOp | arith.AndIOp | arith.OrIOp | arith.XOrIOp)
    return computes and all(map(is_uniform, owner.operands))


def has_uniform_bounds(loop: scf.ForOp) -> bool:
    """Returns whether a loop's trip count is uniform over a workgroup."""
    return all(map(is_uniform, (loop.lb, loop.ub, loop.step)))


def holds(op: Operation, *kinds: type[Operation]) -> bool:
    """Returns whether an op has a nested op of the given kinds."""
    return any(
        isinstance(inner, kinds) for region in op.regions for block in region.blocks for inner in operations(block)
    )
