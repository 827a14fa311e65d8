"""Guards that are always true or always false: integer ranges, and folding of conditions by them.

Pad, concat, roll and gather read memory under a condition that the element exists. Composed with slices, the condition
is often decided: its guard is removed, and with it a load at a constant index out of bounds, which shader compilers
reject even in code that never runs.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

from xdsl.dialects import affine as affine_ops
from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, i1, i32
from xdsl.dialects.linalg.ops import IndexOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import Rewriter

from tensorgrad.dialects import wgsl
from tensorgrad.dialects.ranges import Range, range_of_expression
from tensorgrad.dialects.tg.base import ui32
from tensorgrad.passes.analyses.walking import operations
from tensorgrad.passes.rewriting import index_before
from tensorgrad.passes.scalars import constant_integer

Leaf: TypeAlias = Callable[[Operation], "Range | None"]
"""Returns the range of an op's result that doesn't follow from operands: a loop index, a thread index."""

WORD = 1 << 32
ANY: Range = (0, WORD - 1)
LONG: Range = (0, (1 << 64) - 1)
"""The range of an index, which has 32 bits on a GPU and 64 on a CPU: what is known of it holds on both."""
EITHER: Range = (0, 1)
DEEPEST = 64
"""The depth to which operands are followed; deeper values have the full range."""


def _is_followed(type_: Attribute) -> bool:
    """Returns whether ranges of a type are computed; others, such as the i64 that an f64 is read as, have none."""
    return isinstance(type_, IndexType) or type_ in (i1, i32, ui32)


def _whole(type_: Attribute) -> Range:
    """Returns the range of all numbers of a type, as an index if it has more than 32 bits."""
    return EITHER if type_ == i1 else ANY if type_ in (i32, ui32) else LONG


def _wrapped(low: int, high: int, type_: Attribute) -> Range:
    """Returns the range of an op's results of a type, given that of the exact numbers.

    A 32-bit integer wraps around at 2^32, an index there or at 2^64.
    """
    if isinstance(type_, IndexType):
        if low >= 0 and high <= LONG[1]:
            return low if high < WORD else 0, high
        return (low + WORD, LONG[1]) if low >= -WORD and high < 0 else LONG
    turns = low // WORD
    return (low - turns * WORD, high - turns * WORD) if high // WORD == turns else ANY


def _of_constant(number: int, type_: Attribute) -> Range:
    if type_ == i1:
        return _only(int(number != 0))
    return _only(number) if isinstance(type_, IndexType) and number >= 0 else _wrapped(number, number, type_)


def _resized(x: Range, to: Attribute) -> Range:
    """Returns the range of an integer converted to or from an index, which extends the sign on a CPU."""
    if isinstance(to, IndexType):
        return x if x[1] < WORD >> 1 else (x[0], LONG[1]) if x[0] >= WORD >> 1 else LONG
    return x if x[1] < WORD else ANY


def _only(number: int) -> Range:
    return int(number), int(number)


def _product(x: Range, y: Range) -> Range:
    ends = [a * b for a in x for b in y]
    return min(ends), max(ends)


def _quotient(x: Range, y: Range) -> Range | None:
    return (x[0] // y[1], x[1] // y[0]) if y[0] else None


def _remainder(x: Range, y: Range) -> Range | None:
    if y[0] == y[1] and y[0] and x[0] // y[0] == x[1] // y[0]:
        return x[0] % y[0], x[1] % y[0]
    return (0, min(x[1], y[1] - 1)) if y[0] else None


def _and(x: Range, y: Range) -> Range:
    return _only(x[0] & y[0]) if x[0] == x[1] and y[0] == y[1] else (0, min(x[1], y[1]))


def _shifted_left(x: Range, y: Range) -> Range | None:
    return (x[0] << y[0], x[1] << y[1]) if y[1] < 32 else None


def _shifted_right(x: Range, y: Range) -> Range | None:
    return (x[0] >> y[1], x[1] >> y[0]) if y[1] < 32 else None


SIGNED: dict[type[Operation], Callable[[Range, Range], Range]] = {
    arith.AddiOp: lambda x, y: (x[0] + y[0], x[1] + y[1]),
    arith.SubiOp: lambda x, y: (x[0] - y[1], x[1] - y[0]),
    arith.MuliOp: _product,
}
"""The range of the numbers that an op computes, of which one may be a negative constant, before they wrap around."""

INTEGERS: dict[type[Operation], Callable[[Range, Range], Range | None]] = {
    arith.DivUIOp: _quotient,
    arith.RemUIOp: _remainder,
    arith.MinUIOp: lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    arith.MaxUIOp: lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    arith.AndIOp: _and,
    arith.ShLIOp: _shifted_left,
    arith.ShRUIOp: _shifted_right,
}
"""The range of an op's numbers from those of its operands, if it is known, before they wrap around."""


def _as_signed(x: Range) -> Range:
    half = WORD >> 1
    if x[1] < half:
        return x
    return (x[0] - WORD, x[1] - WORD) if x[0] >= half else (-half, half - 1)


def _equal(x: Range, y: Range) -> bool | None:
    if x[1] < y[0] or y[1] < x[0]:
        return False
    return True if x[0] == x[1] == y[0] == y[1] else None


def _less(x: Range, y: Range) -> bool | None:
    return True if x[1] < y[0] else False if x[0] >= y[1] else None


def _not(known: bool | None) -> bool | None:
    return None if known is None else not known


PREDICATES: tuple[Callable[[Range, Range], bool | None], ...] = (
    _equal,
    lambda x, y: _not(_equal(x, y)),
    lambda x, y: _less(_as_signed(x), _as_signed(y)),
    lambda x, y: _not(_less(_as_signed(y), _as_signed(x))),
    lambda x, y: _less(_as_signed(y), _as_signed(x)),
    lambda x, y: _not(_less(_as_signed(x), _as_signed(y))),
    _less,
    lambda x, y: _not(_less(y, x)),
    lambda x, y: _less(y, x),
    lambda x, y: _not(_less(x, y)),
)
"""The result of a comparison of ranges, indexed by `arith.cmpi`'s predicate."""

EQUAL, NOT_EQUAL, ULT, ULE, UGT, UGE = 0, 1, 6, 7, 8, 9
SIGNED_ORDERS = range(2, 6)
OPPOSITE = {EQUAL: NOT_EQUAL, NOT_EQUAL: EQUAL, ULT: UGE, UGE: ULT, ULE: UGT, UGT: ULE}
MIRRORED = {EQUAL: EQUAL, NOT_EQUAL: NOT_EQUAL, ULT: UGT, UGT: ULT, ULE: UGE, UGE: ULE}


def _narrowed(predicate: int, x: Range, y: Range) -> Range:
    """Returns the range of `x`, given that the predicate holds for some number in `y`."""
    low, high = x
    if predicate == EQUAL:
        return max(low, y[0]), min(high, y[1])
    if predicate in (ULT, ULE):
        return low, min(high, y[1] - (predicate == ULT))
    if predicate in (UGT, UGE):
        return max(low, y[0] + (predicate == UGT)), high
    if y[0] == y[1] == low:
        return low + 1, high
    return (low, high - 1) if y[0] == y[1] == high else x


def numbered(block: Block) -> dict[Operation, int]:
    """Returns the places of a block's ops, and of those nested in them, in program order."""
    return {op: number for number, op in enumerate(operations(block))}


class Ranges:
    """Ranges of the values of a block, computed on demand.

    In a nested block, only values that depend on what its condition implies are computed again: a chain of conditions,
    as in a bisection, takes time proportional to its length.

    Attributes:
        facts: Ranges of values implied by enclosing conditions.
        computed: The number of ranges that were computed, in nested blocks too.
    """

    def __init__(self, leaf: Leaf, numbers: Mapping[Operation, int] | None = None, outer: Ranges | None = None):
        """Creates the ranges of a block.

        Args:
            leaf: The ranges of results that don't follow from operands.
            numbers: The block's ops as `numbered`: an op does not depend on later ones.
            outer: The ranges outside of the block.
        """
        self.leaf = leaf
        self.facts: dict[SSAValue, Range] = {} if outer is None else dict(outer.facts)
        self.computed = 0
        self._numbers = numbers or {}
        self._outer = outer
        self._found: dict[SSAValue, Range] = {}
        self._learned: set[SSAValue] = set()
        self._first = sys.maxsize
        self._dependent: dict[SSAValue, bool] = {}

    def inside(self, condition: SSAValue | None = None, holds: bool = True) -> Ranges:
        """Returns the ranges in a nested block, under a condition or its negation."""
        inner = Ranges(self.leaf, self._numbers, self)
        if condition is not None:
            inner.learn(condition, holds)
        return inner

    def learn(self, condition: SSAValue, holds: bool) -> None:
        """Assumes that a condition holds, or doesn't hold, from here on."""
        for value, range_ in self._implied(condition, holds):
            if range_[0] <= range_[1]:
                self.facts[value] = range_
                self._learned.add(value)
                number = -1 if isinstance(value.owner, Block) else self._numbers.get(value.owner, -1)
                self._first = min(self._first, number)
        self._found.clear()
        self._dependent = dict.fromkeys(self._learned, True)

    def _depends(self, value: SSAValue) -> bool:
        """Returns whether a value depends on what was learned in this block."""
        known = self._dependent.get(value)
        if known is None:
            op = value.owner.parent_op() if isinstance(value.owner, Block) else value.owner
            later = op is not None and self._numbers.get(op, sys.maxsize) >= self._first
            known = self._dependent[value] = later and op is not None and any(map(self._depends, op.operands))
        return known

    def decided(self, condition: SSAValue) -> bool | None:
        """Returns the value of a condition, if known."""
        low, high = self.of(condition)
        return bool(low) if low == high else None

    def of(self, value: SSAValue, depth: int = 0) -> Range:
        """Returns the range of an integer or a condition."""
        result = self._found.get(value)
        if result is None and self._outer is not None and not self._depends(value):
            return self._outer.of(value, depth)
        if result is None:
            self._count()
            low, high = self._computed(value, depth)
            known = self.facts.get(value, (low, high))
            result = max(low, known[0]), min(high, known[1])
            if result[0] > result[1]:
                result = known  # unreachable code
            self._found[value] = result
        return result

    def _count(self) -> None:
        self.computed += 1
        if self._outer is not None:
            self._outer._count()

    def _computed(self, value: SSAValue, depth: int) -> Range:
        whole = _whole(value.type)
        if depth > DEEPEST or not _is_followed(value.type):
            return whole
        if isinstance(value, BlockArgument):
            return self._counter(value, depth)
        op = cast(Operation, value.owner)
        if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
            return _of_constant(op.value.value.data, value.type)
        if isinstance(op, arith.CmpiOp):
            return self._comparison(op, depth)
        if isinstance(op, arith.SelectOp):
            chosen = self.decided(op.cond)
            either = [self.of(x, depth + 1) for x in (op.lhs, op.rhs)]
            if chosen is not None:
                return either[not chosen]
            return min(low for low, _ in either), max(high for _, high in either)
        if isinstance(op, arith.IndexCastOp) and i1 not in (op.input.type, value.type):
            return _resized(self.of(op.input, depth + 1), value.type)
        if isinstance(op, affine_ops.ApplyOp):
            operands = [self.of(x, depth + 1) for x in op.operands]
            return _wrapped(*range_of_expression(op.map.data.results[0], operands), value.type)
        if value.type == i1:
            return self._logic(op, depth)
        if type(op) in SIGNED:
            operands = [self._signed(operand, depth) for operand in op.operands]
            return _wrapped(*SIGNED[type(op)](*operands), value.type)
        if type(op) in INTEGERS:
            known = INTEGERS[type(op)](*(self.of(operand, depth + 1) for operand in op.operands))
            return whole if known is None else _wrapped(*known, value.type)
        return self.leaf(op) or whole

    def _signed(self, value: SSAValue, depth: int) -> Range:
        """Returns the range of an operand; that of a constant with its sign."""
        number = constant_integer(value)
        return self.of(value, depth + 1) if number is None else (number, number)

    def _comparison(self, op: arith.CmpiOp, depth: int) -> Range:
        predicate, type_ = op.predicate.value.data, op.lhs.type
        x, y = (self.of(operand, depth + 1) for operand in op.operands)
        if type_ == i1 or (
            isinstance(type_, IndexType) and predicate in SIGNED_ORDERS and max(x[1], y[1]) >= WORD >> 1
        ):
            return EITHER
        known = PREDICATES[predicate](x, y)
        return EITHER if known is None else _only(known)

    def _counter(self, value: BlockArgument, depth: int) -> Range:
        """Returns the range of an induction variable; other arguments have the full range."""
        loop = value.owner.parent_op()
        if not isinstance(loop, scf.ForOp) or value.index != 0:
            return _whole(value.type)
        low, high = self.of(loop.lb, depth + 1)[0], self.of(loop.ub, depth + 1)[1]
        return low, max(high - 1, low)

    def _logic(self, op: Operation, depth: int) -> Range:
        if isinstance(op, arith.AndIOp | arith.OrIOp):
            x, y = (self.of(operand, depth + 1) for operand in op.operands)
            fold = min if isinstance(op, arith.AndIOp) else max
            return fold(x[0], y[0]), fold(x[1], y[1])
        return EITHER

    def _implied(self, condition: SSAValue, holds: bool) -> list[tuple[SSAValue, Range]]:
        """Returns the ranges of values implied by a condition or its negation."""
        op = condition.owner
        results: list[tuple[SSAValue, Range]] = [(condition, _only(holds))]
        if isinstance(op, arith.AndIOp if holds else arith.OrIOp) and condition.type == i1:
            return [*results, *(fact for operand in op.operands for fact in self._implied(operand, holds))]
        if isinstance(op, arith.CmpiOp) and op.lhs.type != i1 and _is_followed(op.lhs.type):
            predicate = op.predicate.value.data
            if predicate in OPPOSITE:
                predicate = predicate if holds else OPPOSITE[predicate]
                x, y = self.of(op.lhs), self.of(op.rhs)
                results += [(op.lhs, _narrowed(predicate, x, y)), (op.rhs, _narrowed(MIRRORED[predicate], y, x))]
        return results


def thread_numbers(groups: Sequence[int], workgroup: Sequence[int]) -> Leaf:
    """Returns the ranges of thread and workgroup indices, given a dispatch's workgroup count and size."""
    extents: dict[type[Operation], Sequence[int]] = {
        wgsl.WorkgroupIdOp: groups,
        wgsl.LocalIdOp: workgroup,
        wgsl.GlobalIdOp: [count * size for count, size in zip(groups, workgroup, strict=True)],
    }

    def leaf(op: Operation) -> Range | None:
        if isinstance(op, wgsl.DimensionBuiltin) and type(op) in extents:
            return 0, extents[type(op)][op.dim.value.data] - 1
        return (0, math.prod(workgroup) - 1) if isinstance(op, wgsl.LocalIndexOp) else None

    return leaf


def loop_numbers(extents: Sequence[int]) -> Leaf:
    """Returns the ranges of the indices of a stage's loops."""

    def leaf(op: Operation) -> Range | None:
        return (0, max(extents[op.dim.value.data] - 1, 0)) if isinstance(op, IndexOp) else None

    return leaf


def fold_guards(block: Block, leaf: Leaf) -> bool:
    """Folds conditions that are always true or always false, and removes the code that never runs.

    What remains may still access constant indices out of bounds, in code that never runs for reasons that ranges don't
    show: those indices are clamped to the memory's last element.

    Returns:
        Whether the block was changed.
    """
    return _fold(block, Ranges(leaf, numbered(block)))


def _fold(block: Block, ranges: Ranges) -> bool:
    changed = False
    op = block.first_op
    while op is not None:
        following = op.next_op
        if isinstance(op, scf.IfOp):
            known = ranges.decided(op.cond)
            if known is not None:
                following = _dissolved(op, known)
                changed = True
            else:
                for region, holds in zip(op.regions, (True, False), strict=True):
                    for inner in region.blocks:
                        changed |= _fold(inner, ranges.inside(op.cond, holds))
        elif isinstance(op, scf.ForOp):
            changed |= _fold(op.body.block, ranges.inside())
        elif isinstance(op, wgsl.ReturnIfOp):
            ranges.learn(op.condition, False)
        elif isinstance(op, arith.SelectOp):
            changed |= _fold_select(op, ranges)
        elif isinstance(op, memref.LoadOp | memref.StoreOp):
            changed |= _clamp(op)
        op = following
    return changed


def _dissolved(op: scf.IfOp, holds: bool) -> Operation | None:
    """Replaces an `if` with the ops of the branch taken; returns the first of them, or the op that follows."""
    block = cast(Block, op.parent)
    following = op.next_op
    region = op.true_region if holds else op.false_region
    values: Sequence[SSAValue] = ()
    first: Operation | None = None
    for inner in region.blocks:
        last = inner.last_op
        values = () if last is None else list(last.operands)
        for inner_op in list(inner.ops):
            if inner_op is not last:
                inner_op.detach()
                block.insert_op_before(inner_op, op)
                first = first or inner_op
    for old, new in zip(op.results, values, strict=True):
        old.replace_all_uses_with(new)
    Rewriter.erase_op(op)
    return first or following


def _fold_select(op: arith.SelectOp, ranges: Ranges) -> bool:
    known = ranges.decided(op.cond) if isinstance(op.cond.owner, arith.CmpiOp) else None
    if known is None:
        return False
    op.result.replace_all_uses_with(op.lhs if known else op.rhs)
    Rewriter.erase_op(op)
    return True


def _clamp(op: memref.LoadOp | memref.StoreOp) -> bool:
    """Clamps constant indices to an array's bounds; code with out-of-bounds ones never runs."""
    changed = False
    first = 1 if isinstance(op, memref.LoadOp) else 2
    for axis, extent in enumerate(cast("MemRefType[Attribute]", op.memref.type).get_shape()):
        index = op.operands[first + axis].owner
        if not isinstance(index, arith.ConstantOp) or not isinstance(index.value, IntegerAttr):
            continue
        if not 0 <= index.value.value.data < extent:
            op.operands[first + axis] = index_before(max(extent - 1, 0), op)
            changed = True
    return changed
