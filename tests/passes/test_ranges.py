"""Integer range analysis: ranges contain all computed values, and decided conditions hold at every point.

An index has 32 bits on a GPU and 64 on a CPU: what the analysis says holds for both.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, MemRefType, f32, f64, i32, i64
from xdsl.dialects.linalg.ops import IndexOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr

from tensorgrad.dialects import wgsl
from tensorgrad.dialects.ranges import stays_within
from tensorgrad.passes.analyses.guards import PREDICATES, Ranges, fold_guards, loop_numbers, numbered, thread_numbers

index = IndexType()
EXTENTS = (5, 3)
WORD = 1 << 32
OPS: dict[type[Operation], Callable[[int, int], int]] = {
    arith.AddiOp: lambda x, y: x + y,
    arith.SubiOp: lambda x, y: x - y,
    arith.MuliOp: lambda x, y: x * y,
    arith.DivUIOp: lambda x, y: x // y if y else 0,
    arith.RemUIOp: lambda x, y: x % y if y else 0,
    arith.MinUIOp: min,
    arith.MaxUIOp: max,
    arith.AndIOp: lambda x, y: x & y,
    arith.ShLIOp: lambda x, y: x << y if y < 32 else 0,
    arith.ShRUIOp: lambda x, y: x >> y if y < 32 else 0,
}


ORDERS: tuple[Callable[[int, int], bool], ...] = (operator.lt, operator.le, operator.gt, operator.ge)


def compare(predicate: int, bits: int, x: int, y: int) -> bool:
    """Evaluates a predicate of `arith.cmpi` on unsigned integers of some bits."""
    if predicate < 2:
        return (x == y) == (predicate == 0)
    half = 1 << bits - 1
    return ORDERS[(predicate - 2) % 4](*(x - 2 * half * (predicate < 6 and x >= half) for x in (x, y)))


def number(block: Block, value: int) -> SSAValue:
    return add(block, arith.ConstantOp(IntegerAttr(value, index)))


def add(block: Block, op: Operation) -> SSAValue:
    block.add_op(op)
    return op.results[0]


Point = tuple[int, ...]
"""The indices of the loops, and the bits of an index."""
Evaluated = tuple[SSAValue, Callable[[Point], int]]


@st.composite
def expressions(draw: st.DrawFn) -> tuple[Block, list[Evaluated]]:
    """Draws a block of index arithmetic, and each value as a function of the loops and of the bits of an index."""
    block = Block()
    known: list[Evaluated] = [(add(block, IndexOp(0)), lambda p: p[0]), (add(block, IndexOp(1)), lambda p: p[1])]
    constants = draw(st.lists(st.sampled_from((0, 1, 2, 3, 4, 7, 31, -3, WORD // 2, WORD - 2)), min_size=1, max_size=3))
    known += [(number(block, value), lambda p, v=value: v % (1 << p[-1])) for value in constants]
    for _ in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(list(OPS)))
        (x, f), (y, g) = draw(st.sampled_from(known)), draw(st.sampled_from(known))
        op = kind.create(operands=[x, y], result_types=[index])
        known.append((add(block, op), lambda p, k=kind, f=f, g=g: OPS[k](f(p), g(p)) % (1 << p[-1])))
    return block, known


def points() -> Iterator[Point]:
    return product(*map(range, EXTENTS), (32, 64))


def divides_by_zero(known: list[Evaluated], block: Block) -> bool:
    by_value = dict(known)
    return any(
        isinstance(op, arith.DivUIOp | arith.RemUIOp) and any(by_value[op.operands[1]](p) == 0 for p in points())
        for op in block.ops
    )


@given(expressions())
def test_ranges_hold_every_value(drawn: tuple[Block, list[Evaluated]]) -> None:
    block, known = drawn
    ranges = Ranges(loop_numbers(EXTENTS))
    if not divides_by_zero(known, block):
        for value, evaluate in known:
            low, high = ranges.of(value)
            assert all(low <= evaluate(p) <= high for p in points())


@given(expressions(), st.integers(0, len(PREDICATES) - 1), st.booleans(), st.data())
def test_conditions_are_decided_rightly(
    drawn: tuple[Block, list[Evaluated]], predicate: int, holds: bool, data: st.DataObject
) -> None:
    block, known = drawn
    pair = st.tuples(st.sampled_from(known), st.sampled_from(known))
    ((x, f), (y, g)), ((z, h), (w, i)) = data.draw(pair), data.draw(pair)
    if divides_by_zero(known, block):
        return
    first, second = add(block, arith.CmpiOp(x, y, predicate)), add(block, arith.CmpiOp(z, w, predicate))
    outside = Ranges(loop_numbers(EXTENTS))
    decided = outside.decided(first)
    assert decided is None or all(compare(predicate, p[-1], f(p), g(p)) == decided for p in points())
    # Under the first condition, or its negation, the second one has its value at the remaining points.
    remaining = [p for p in points() if compare(predicate, p[-1], f(p), g(p)) == holds]
    inner = outside.inside(first, holds)
    decided = inner.decided(second)
    assert decided is None or all(compare(predicate, p[-1], h(p), i(p)) == decided for p in remaining)
    for value, evaluate in known:
        low, high = inner.of(value)
        assert all(low <= evaluate(p) <= high for p in remaining)


def test_nothing_is_known_of_integers_of_64_bits() -> None:
    """The exponent of an f64 is 0 modulo 2^32, but a test of finiteness is not decided by that."""
    block = Block(arg_types=[f64])
    exponent = add(block, arith.ConstantOp(IntegerAttr(0x7FF0000000000000, i64)))
    bits = add(block, arith.AndIOp(add(block, arith.BitcastOp(block.args[0], i64)), exponent))
    ranges = Ranges(loop_numbers(EXTENTS))
    finite = add(block, arith.CmpiOp(bits, exponent, "ne"))
    assert ranges.decided(finite) is None
    assert ranges.inside(finite).decided(add(block, arith.CmpiOp(exponent, bits, "ne"))) is None


def test_common_guards_are_decided() -> None:
    block = Block()
    i, j = add(block, IndexOp(0)), add(block, IndexOp(1))
    three = number(block, 3)
    ranges = Ranges(loop_numbers(EXTENTS))
    behind = add(block, arith.SubiOp(add(block, arith.AddiOp(j, three)), three))
    assert ranges.of(behind) == (0, 2)
    assert ranges.decided(add(block, arith.CmpiOp(behind, three, "ult"))) is True
    before = add(block, arith.SubiOp(j, three))  # -3, -2, -1: huge numbers
    assert ranges.decided(add(block, arith.CmpiOp(before, three, "ult"))) is False
    undecided = add(block, arith.CmpiOp(i, three, "ult"))
    assert ranges.decided(undecided) is None
    rest = ranges.inside(undecided, False)
    assert rest.of(i) == (3, 4)
    assert rest.decided(undecided) is False
    assert rest.of(add(block, arith.SubiOp(i, three))) == (0, 1)


def guarded(block: Block, memory: SSAValue, condition: SSAValue, at: SSAValue) -> scf.IfOp:
    then, orelse = Block(), Block()
    loaded = add(then, memref.LoadOp.create(operands=[memory, at], result_types=[f32]))
    then.add_op(scf.YieldOp(loaded))
    orelse.add_op(scf.YieldOp(add(orelse, arith.ConstantOp(FloatAttr(0.0, f32)))))
    op = scf.IfOp(condition, [f32], Region(then), Region(orelse))
    block.add_op(op)
    return op


@pytest.mark.parametrize(("place", "is_kept"), [(2, True), (3, False)])
def test_a_decided_guard_goes(place: int, is_kept: bool) -> None:
    block = Block(arg_types=[MemRefType(f32, [3])])
    at = number(block, place)
    condition = add(block, arith.CmpiOp(at, number(block, 3), "ult"))
    op = guarded(block, block.args[0], condition, at)
    use = add(block, arith.NegfOp(op.results[0]))
    assert fold_guards(block, thread_numbers((1, 1, 1), (1, 1, 1)))
    assert not any(isinstance(op, scf.IfOp) for op in block.ops)
    assert isinstance(use.owner, arith.NegfOp)
    assert isinstance(use.owner.operand.owner, memref.LoadOp if is_kept else arith.ConstantOp)


def test_what_never_runs_names_no_place_outside() -> None:
    block = Block(arg_types=[MemRefType(f32, [3]), index])
    at = number(block, 5)
    condition = add(block, arith.CmpiOp(block.args[1], number(block, 3), "ult"))
    op = guarded(block, block.args[0], condition, at)
    assert fold_guards(block, thread_numbers((1, 1, 1), (1, 1, 1)))
    (load,) = [inner_op for inner_op in op.true_region.block.ops if isinstance(inner_op, memref.LoadOp)]
    last = load.indices[0].owner
    assert isinstance(last, arith.ConstantOp)
    assert isinstance(last.value, IntegerAttr)
    assert last.value.value.data == 2
    assert not fold_guards(block, thread_numbers((1, 1, 1), (1, 1, 1)))


def test_threads_past_an_early_end_are_fewer() -> None:
    block = Block()
    thread = add(block, wgsl.GlobalIdOp(0))
    ranges = Ranges(thread_numbers((2, 1, 1), (64, 1, 1)))
    assert ranges.of(thread) == (0, 127)
    ranges.learn(add(block, arith.CmpiOp(thread, number(block, 100), "uge")), False)
    assert ranges.of(thread) == (0, 99)
    assert ranges.of(add(block, wgsl.LocalIndexOp())) == (0, 63)
    assert ranges.of(add(block, wgsl.SubgroupLaneOp())) == (0, WORD**2 - 1)


def test_indices_beyond_32_bits_do_not_wrap() -> None:
    """The part of a long `concat` that an element comes from, and the places of unsigned indices."""
    block = Block(arg_types=[i32])
    ranges = Ranges(loop_numbers((10, 5 * WORD)))
    further = add(block, arith.AddiOp(add(block, IndexOp(0)), number(block, WORD + 3)))
    long = add(block, IndexOp(1))
    for bound in (number(block, 100), number(block, WORD // 2)):
        assert ranges.decided(add(block, arith.CmpiOp(further, bound, "ult"))) is not True
        assert ranges.decided(add(block, arith.CmpiOp(long, bound, "ult"))) is None
    assert ranges.decided(add(block, arith.CmpiOp(long, number(block, 5 * WORD), "ult"))) is True
    below = add(block, arith.CmpiOp(block.args[0], add(block, arith.ConstantOp(IntegerAttr(-9, i32))), "ult"))
    place = add(block, arith.IndexCastOp(block.args[0], index))
    inside = ranges.inside(below)
    assert inside.decided(add(block, arith.CmpiOp(place, number(block, WORD), "ult"))) is None


def bisection(steps: int) -> int:
    """Returns how many ranges are computed for a chain of loads, each at a position that depends on the one before."""
    block = Block(arg_types=[MemRefType(f32, [5])])
    low, high, zero = number(block, 0), add(block, IndexOp(0)), add(block, arith.ConstantOp(FloatAttr(0.0, f32)))
    loads: list[memref.LoadOp] = []
    for _ in range(steps):
        middle = add(block, arith.DivUIOp(add(block, arith.AddiOp(low, high)), number(block, 2)))
        op = guarded(block, block.args[0], add(block, arith.CmpiOp(low, high, "ult")), middle)
        loads += [inner_op for inner_op in op.true_region.block.ops if isinstance(inner_op, memref.LoadOp)]
        up = add(block, arith.CmpfOp(op.results[0], zero, "olt"))
        low = add(block, arith.SelectOp(up, add(block, arith.AddiOp(middle, number(block, 1))), low))
        high = add(block, arith.SelectOp(up, high, middle))
    ranges = Ranges(loop_numbers(EXTENTS), numbered(block))
    for load in loads:
        condition = load.parent_op()
        assert isinstance(condition, scf.IfOp)
        inner = ranges.inside(condition.cond)
        assert inner.of(load.indices[0])[0] == 0
        assert inner.decided(condition.cond) is True
    return ranges.computed


def test_a_chain_of_conditions_takes_ranges_in_proportion_to_its_length() -> None:
    assert bisection(24) <= 2.2 * bisection(12)


def test_an_index_that_stays_within_an_axis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges alone don't tell: the parity of a loop is 0 or 1, and a remainder is largest in the middle."""
    loops, (i, j) = ((0, 6), (0, 3)), (AffineDimExpr(0), AffineDimExpr(1))
    parity = i + (i // 2) * -2
    assert stays_within(parity, loops, 2)
    assert not stays_within(parity, loops, 1)
    assert not stays_within(parity + -1, loops, 2)
    assert stays_within(parity * 4 + j, loops, 8)
    assert not stays_within(i % 6, loops, 5)
    monkeypatch.setattr("tensorgrad.dialects.ranges.MOST_POINTS", 6)
    stays_within.cache_clear()
    assert stays_within(parity + -1, loops, 2)  # more points than are computed
    stays_within.cache_clear()
