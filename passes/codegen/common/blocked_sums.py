"""Sums long loops in blocks, so that rounding errors grow with the logarithm of the number of terms.

A sum of n terms, one after another, has an error of up to about n units in the last place, relative to the sum of the
terms' magnitudes, and equal terms come close to it; ones stop adding up at 2^24 in f32. In blocks of at most b terms,
then blocks of at most b blocks, and so on, it is at most about b log_b(n) units: each term takes part in that many
additions.

N. Higham: The Accuracy of Floating Point Summation (SIAM J. Sci. Comput. 14, 1993), sections 3 and 6;
A. Castaldo, R. Whaley, A. Chronopoulos: Reducing Floating Point Error in Dot Product Using the Superblock Family of
Algorithms (SIAM J. Sci. Comput. 31, 2008).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import Rewriter

from tensorgrad.dialects.stages import Reduction
from tensorgrad.dialects.tg.base import is_float
from tensorgrad.passes.analyses.trips import MOST_TRIPS, is_exact, most_trips
from tensorgrad.passes.codegen.common.block_builder import BlockBuilder
from tensorgrad.passes.scalars import PLAIN, Value, constant_integer

MOST_TERMS = 256
"""The most terms that are added one after another; a multiple of the lanes of any vector."""

MOST_TERMS_IN_LANES = 2048
"""The same for a loop that becomes vectors: each lane adds a part of the terms, and the lanes are added after it."""

MOST_BLOCKS = 128
"""The most sums of blocks that are added one after another."""

Widths: TypeAlias = "tuple[int, ...]"
"""The iterations of a block of a loop, of a block of blocks, and so on; empty for a loop that is not cut."""


def block_widths(trips: int, terms: int = 1, most: int = MOST_TERMS) -> Widths:
    """Returns the blocks of a loop that adds terms to a sum.

    Args:
        trips: The iterations of the loop.
        terms: The terms of an iteration, which are added one after another.
        most: The most terms of a block.
    """
    if trips * terms <= most:
        return ()
    width = max(most // terms, 1)
    # Without a shorter last block, trip counts are constant.
    width = next((candidate for candidate in range(width, width // 2, -1) if trips % candidate == 0), width)
    blocks, levels = -(-trips // width), 1
    while MOST_BLOCKS**levels < blocks:
        levels += 1
    ratio = next(ratio for ratio in range(1, MOST_BLOCKS + 1) if ratio**levels >= blocks)
    return tuple(width * ratio**level for level in range(levels))


def is_summed(reductions: Sequence[Reduction]) -> bool:
    """Returns whether reductions may be cut into blocks, and gain by it: there is a sum of floats, and no product."""
    floats = {type(reduction.combine) for reduction in reductions if is_float(reduction.element)}
    return arith.AddfOp in floats and arith.MulfOp not in floats


Iterations: TypeAlias = Callable[[Value, Value, Sequence[SSAValue]], None]
"""Writes code that folds the iterations from the first value up to the second into accumulators in memory."""


@dataclass(frozen=True)
class Accumulators:
    """Accumulators in memory.

    Attributes:
        new: Allocates accumulators.
        clear: Writes code that sets them to the identity of their fold.
        merge: Writes code that folds the second ones into the first.
    """

    new: Callable[[], Sequence[SSAValue]]
    clear: Callable[[Sequence[SSAValue]], None]
    merge: Callable[[Sequence[SSAValue], Sequence[SSAValue]], None]


def fold_in_blocks(
    code: BlockBuilder,
    low: Value,
    high: Value,
    widths: Widths,
    memory: Accumulators,
    into: Sequence[SSAValue],
    fold: Iterations,
    trips: int | None = None,
) -> None:
    """Writes the fold of iterations in [`low`, `high`) into accumulators in memory, in blocks; `trips`, if constant."""
    if not widths:
        fold(low, high, into)
        return
    *inner, width = widths
    part = memory.new()

    def block(at: Value, _: Sequence[Value]) -> list[Value]:
        is_whole = trips is not None and trips % width == 0
        end = at + (width if is_whole else (high - at).at_most(width))
        memory.clear(part)
        fold_in_blocks(code, at, end, tuple(inner), memory, part, fold, trips)
        memory.merge(into, part)
        return []

    code.loop_to(high, [], block, start=low, step=width)


def block_sums(top: Block, most: int = MOST_TERMS) -> None:
    """Cuts the long loops of a kernel's block that carry sums of floats into nests of loops.

    Expects the loops of a lowered kernel. Guarantees the same terms in the same order, as blocks whose sums are added:

    ```
    total = for k = 0 to n: total + x[k]
    =>
    total = for b = 0 to n by width:
      total + (for k = b to min(b + width, n), from 0: sum + x[k])
    ```

    Nested loops that carry a sum on are one chain of additions. Loops with at most `most` terms are unchanged.

    Args:
        top: The block.
        most: The most terms of a block. An innermost loop that becomes vectors adds only a part of them in each lane.
    """
    for op in list(top.ops):
        for region in op.regions:
            for block in region.blocks:
                block_sums(block, most)
        if op.regions and isinstance(op, scf.ForOp):
            _block(op, most)


def _block(loop: scf.ForOp, most: int) -> None:
    """Cuts a loop, whose nested loops have been cut. A loop around others doesn't become vectors."""
    if any(op.regions and isinstance(op, scf.ForOp) for op in loop.body.block.ops):
        most = MOST_TERMS
    terms = {place: terms_ for place in range(len(loop.iter_args)) if (terms_ := terms_of(loop, place)) is not None}
    if not terms:
        return
    trips, each = most_trips(loop), max(terms.values())
    if trips * each <= most:
        return
    if each > most // 4:
        _start_anew(loop, terms)
        each, most = 1, MOST_BLOCKS
    widths, step = block_widths(trips, each, most), constant_integer(loop.step)
    if widths and step is not None:
        _cut(loop, terms, widths, step)


def terms_of(loop: scf.ForOp, place: int) -> int | None:
    """Returns how many terms an iteration adds to a carried value; `None` if that is not a sum of floats."""
    carried = loop.body.block.args[1 + place]
    if not is_float(carried.type):
        return None
    value, terms = carried, 0
    while True:
        uses = list(value.uses)
        if len(uses) != 1:
            return None
        op, operand = uses[0].operation, uses[0].index
        if isinstance(op, arith.AddfOp):
            value, terms = op.result, terms + 1
        elif isinstance(op, scf.ForOp) and operand >= 3:
            inside = terms_of(op, operand - 3)
            if inside is None:
                return None
            value, terms = op.results[operand - 3], terms + most_trips(op) * inside
        else:
            return terms if op is loop.body.block.last_op and operand == place and terms else None


def _start_anew(loop: scf.ForOp, places: Collection[int]) -> None:
    """Makes each iteration sum its own terms, from zero, before it adds them to the carried sums."""
    body, last = loop.body.block, loop.body.block.last_op
    assert last is not None and body.first_op is not None
    for place in places:
        carried = body.args[1 + place]
        zero = _constant_zero(carried)
        body.insert_op_before(zero, body.first_op)
        carried.replace_all_uses_with(zero.result)
        total = arith.AddfOp(carried, last.operands[place], arith.FastMathFlagsAttr("none"))
        body.insert_op_before(total, last)
        last.operands[place] = total.result


def _constant_zero(like: SSAValue) -> arith.ConstantOp:
    block = Block()
    BlockBuilder(block).constant(0.0, like.type)
    zero = block.last_op
    assert isinstance(zero, arith.ConstantOp)
    zero.detach()
    return zero


def _cut(loop: scf.ForOp, places: Collection[int], widths: Widths, step: int) -> None:
    """Replaces a loop with a nest of loops over blocks."""
    around, blocked = loop.parent, Block()
    assert around is not None
    trips, body = most_trips(loop), loop.detach_region(loop.body)
    has_whole_blocks = is_exact(loop)
    code = BlockBuilder(blocked)

    def over(low: Value, high: Value, carried: Sequence[Value], levels: Widths) -> list[Value]:
        """Writes the loop over the blocks of a range; returns the carried values."""
        if not levels:
            inner = scf.ForOp(low.ssa, high.ssa, loop.step, [value.ssa for value in carried], body)
            inner.attributes |= loop.attributes | {MOST_TRIPS: IntegerAttr(min(widths[0], trips), i64)}
            code.append(inner)
            return code.values(inner.results)
        *rest, width = levels

        def block(at: Value, held: list[Value]) -> list[Value]:
            remaining = code.number(width * step)
            end = at + (remaining if has_whole_blocks and trips % width == 0 else (high - at).at_most(remaining))
            start = [code.constant(0.0, value.type) if i in places else value for i, value in enumerate(held)]
            sums = over(at, end, start, tuple(rest))
            return [
                code.make(arith.AddfOp, (old.ssa, new.ssa), old.type, PLAIN) if i in places else new
                for i, (old, new) in enumerate(zip(held, sums, strict=True))
            ]

        results = code.loop_to(high, carried, block, start=low, step=width * step)
        outer = code.block.last_op
        assert outer is not None
        above = min((candidate for candidate in widths if candidate > width), default=trips)
        outer.attributes[MOST_TRIPS] = IntegerAttr(-(-min(above, trips) // width), i64)
        return results

    results = over(code.value(loop.lb), code.value(loop.ub), code.values(loop.iter_args), widths)
    for op in list(blocked.ops):
        op.detach()
        around.insert_op_before(op, loop)
    for old, new in zip(loop.results, results, strict=True):
        old.replace_all_uses_with(new.ssa)
    Rewriter.erase_op(loop)
