"""Guards: the range of an op's result contains what it computes, for all ranges of its operands and numbers in them.

`Ranges` itself runs on the ops, with symbolic bounds for their operands. An index has 32 bits on a GPU and 64 on a CPU:
each theorem is proved for both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

import pytest
from symbolic import WIDE, Number, Path, Refuted, Term, Theorem, explore, least, most, path, term, whole, within, z3
from xdsl.dialects import arith, scf
from xdsl.dialects import test as test_ops
from xdsl.dialects.builtin import IndexType, i1, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineDimExpr

from tensorgrad.dialects import ranges
from tensorgrad.dialects.ranges import range_of_expression
from tensorgrad.passes.analyses import guards
from tensorgrad.passes.analyses.guards import Range, Ranges

index = IndexType()
Exact: TypeAlias = Callable[..., Number]
"""The number that an op computes, before it wraps around."""
Build: TypeAlias = Callable[..., Operation]


def bits_of(kind: Attribute, of_index: int) -> int:
    """Returns the width of a type on a device whose indices have `of_index` bits."""
    return 1 if kind == i1 else 32 if kind == i32 else of_index


def signed(x: Term, bits: int) -> Term:
    """Returns an unsigned number read as a signed one."""
    return z3.If(x < 1 << (bits - 1), x, x - (1 << bits))


def operand(path: Path, kind: Attribute, bits: int) -> tuple[SSAValue, Range, Term]:
    """Returns a value of which only a range is known, that range, and a number in it that the type can hold."""
    low, high, number = path.fresh("low"), path.fresh("high"), path.fresh("number")
    whole = guards._whole(kind)
    path.assume(low.term >= 0, high.term <= whole[1], within(number.term, low, high), number.term < 1 << bits)
    return test_ops.TestOp(result_types=[kind]).results[0], cast(Range, (low, high)), number.term


@pytest.fixture(autouse=True)
def merged_extremes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets `min` and `max` of the analysis return one term each, not a path for each outcome."""
    for module in (guards, ranges):
        monkeypatch.setattr(module, "min", least, raising=False)
        monkeypatch.setattr(module, "max", most, raising=False)
    monkeypatch.setattr(guards, "int", whole, raising=False)


def prove_range(kinds: Sequence[Attribute], build: Build, exact: Exact) -> None:
    """Proves that the range of an op's result contains its number, from those of its operands."""
    for bits in (64,) if index not in kinds else (32, 64):

        def run(path: Path, bits: int = bits) -> None:
            operands = [operand(path, kind, bits_of(kind, bits)) for kind in kinds]
            known = {value.owner: range_ for value, range_, _ in operands}
            op = build(*(value for value, _, _ in operands))
            low, high = Ranges(lambda op: known.get(op)).of(op.results[0])
            width = bits_of(op.results[0].type, bits)
            number = exact(*(Number(number) for _, _, number in operands))
            path.prove(within(term(number) % (1 << width), low, high), f"{op.name} on {width} bits")

        explore(run)


def quotient(x: Number, y: Number) -> Number:
    """Returns a quotient; by what may be 0, any number."""
    return x // y if path().follows(y.term > 0) else path().fresh("undefined")


def remainder(x: Number, y: Number) -> Number:
    """Returns a remainder; by what may be 0, any number."""
    return x % y if path().follows(y.term > 0) else path().fresh("undefined")


ARITHMETIC: dict[type[Operation], Exact] = {
    arith.AddiOp: lambda x, y: x + y,
    arith.SubiOp: lambda x, y: x - y,
    arith.MinUIOp: least,
    arith.MaxUIOp: most,
    arith.DivUIOp: quotient,
    arith.RemUIOp: remainder,
}


@pytest.mark.parametrize("kind", [i32, index], ids=str)
@pytest.mark.parametrize("op", ARITHMETIC, ids=lambda op: op.name)
def test_arithmetic(op: type[Operation], kind: Attribute) -> None:
    prove_range([kind, kind], op, ARITHMETIC[op])


@pytest.mark.parametrize("kind", [i32, index], ids=str)
def test_product_wraps_as_its_range(kind: Attribute, monkeypatch: pytest.MonkeyPatch) -> None:
    """The range of the exact product is the next theorem's; here the product is any number in it."""
    products: list[Number] = []

    def contract(x: Range, y: Range) -> Range:
        low, high, number = (path().fresh(name) for name in ("low", "high", "product"))
        path().assume(within(number.term, low, high))
        products.append(number)
        return cast(Range, (low, high))

    monkeypatch.setitem(guards.SIGNED, arith.MuliOp, contract)
    prove_range([kind, kind], arith.MuliOp, lambda x, y: products[-1])


@pytest.mark.nightly
def test_product_is_in_its_range() -> None:
    def run(path: Path) -> None:
        (_, x, a), (_, y, b) = (operand(path, index, 64) for _ in range(2))
        low, high = guards.SIGNED[arith.MuliOp](x, y)
        path.prove(z3.And(term(low) <= a * b), "product, from below")
        path.prove(z3.And(term(high) >= a * b), "product, from above")

    explore(run)


WORDS: dict[type[Operation], Callable[[Term, Term], Term]] = {
    arith.AndIOp: lambda x, y: x & y,
    arith.ShLIOp: lambda x, y: x << y,
    arith.ShRUIOp: z3.LShR,
}


@pytest.mark.parametrize("op", WORDS, ids=lambda op: op.name)
def test_words(op: type[Operation]) -> None:
    """The exact results of shifts and masks; what wraps around is proved for products."""

    def run(path: Path) -> None:
        bounds = [[Number(z3.BitVec(f"{name}{place}", WIDE)) for place in "012"] for name in "xy"]
        for low, number, high in bounds:
            path.assume(within(number.term, low, high), z3.ULT(high.term, z3.BitVecVal(1 << 64, WIDE)))
        (x0, a, x1), (y0, b, y1) = bounds
        known = guards.INTEGERS[op](cast(Range, (x0, x1)), cast(Range, (y0, y1)))
        if known is None:
            path.prove(True, "nothing is claimed")
        else:
            path.prove(within(WORDS[op](a.term, b.term), *known), op.name)

    explore(run)


@pytest.mark.parametrize("kind", [i32, index], ids=str)
def test_select(kind: Attribute) -> None:
    prove_range([i1, kind, kind], arith.SelectOp, lambda c, x, y: Number(z3.If(c.term != 0, x.term, y.term)))


@pytest.mark.parametrize("op", [arith.AndIOp, arith.OrIOp], ids=lambda op: op.name)
def test_logic(op: type[Operation]) -> None:
    prove_range([i1, i1], op, least if op is arith.AndIOp else most)


def test_conversion_to_an_index() -> None:
    """A CPU extends the sign to 64 bits; a GPU keeps the 32."""
    for bits in (32, 64):
        extended = (lambda x: Number(signed(x.term, 32))) if bits == 64 else (lambda x: x)

        def run(path: Path, bits: int = bits, extended: Exact = extended) -> None:
            value, range_, number = operand(path, i32, 32)
            low, high = Ranges(lambda op: range_).of(arith.IndexCastOp(value, index).result)
            path.prove(within(extended(Number(number)).term % (1 << bits), low, high), f"index_cast to {bits} bits")

        explore(run)


def test_conversion_from_an_index() -> None:
    prove_range([index], lambda x: arith.IndexCastOp(x, i32), lambda x: x)


@pytest.mark.parametrize("kind", [i32, index], ids=str)
def test_constants(kind: Attribute) -> None:
    """Assumes of an index that 32 bits hold it."""
    for bits in (32, 64) if kind == index else (32,):

        def run(path: Path, bits: int = bits) -> None:
            number = path.fresh("number")
            path.assume(number.term >= -(1 << 31), number.term < (1 << 32))
            low, high = guards._of_constant(cast(int, number), kind)
            path.prove(within(number.term % (1 << bits), low, high), f"constants on {bits} bits")

        explore(run)


def compared(predicate: int, x: Term, y: Term, bits: int) -> Theorem:
    """States a comparison of `arith.cmpi`."""
    if guards.EQUAL < predicate < guards.ULT:
        x, y = (signed(number, bits) for number in (x, y)) if predicate != guards.NOT_EQUAL else (x, y)
    order = predicate if predicate < 2 else (predicate - 2) % 4 + 2
    return (x == y, x != y, x < y, x <= y, x > y, x >= y)[order]


@pytest.mark.parametrize("kind", [i32, index], ids=str)
@pytest.mark.parametrize("predicate", range(len(guards.PREDICATES)))
def test_comparisons(predicate: int, kind: Attribute) -> None:
    for bits in (32, 64) if kind == index else (32,):

        def run(path: Path, bits: int = bits) -> None:
            (x, first, a), (y, second, b) = (operand(path, kind, bits) for _ in range(2))
            known = {x.owner: first, y.owner: second}
            low, high = Ranges(lambda op: known.get(op)).of(arith.CmpiOp(x, y, predicate).result)
            outcome = z3.If(compared(predicate, a, b, bits), z3.IntVal(1), z3.IntVal(0))
            path.prove(within(outcome, low, high), f"predicate {predicate} on {bits} bits")

        explore(run)


@pytest.mark.parametrize("holds", [True, False])
@pytest.mark.parametrize("predicate", range(len(guards.PREDICATES)))
def test_what_a_condition_implies(predicate: int, holds: bool) -> None:
    """The ranges of both operands of a comparison that is known to hold, or not to."""
    for bits in (32, 64):

        def run(path: Path, bits: int = bits) -> None:
            (x, first, a), (y, second, b) = (operand(path, index, bits) for _ in range(2))
            known = {x.owner: first, y.owner: second}
            condition = arith.CmpiOp(x, y, predicate).result
            outcome = compared(predicate, a, b, bits)
            path.assume(outcome if holds else z3.Not(outcome))
            inner = Ranges(lambda op: known.get(op)).inside(condition, holds)
            for value, number in ((x, a), (y, b)):
                path.prove(within(number, *inner.of(value)), f"what predicate {predicate} implies")

        explore(run)


def test_counters() -> None:
    """A loop's counter, whose steps are positive: MLIR's verifier says so."""

    def run(path: Path) -> None:
        (low, first, a), (high, last, b) = (operand(path, index, 64) for _ in range(2))
        known = {low.owner: first, high.owner: last}
        body = Region(Block([scf.YieldOp()], arg_types=[index]))
        loop = scf.ForOp(low, high, test_ops.TestOp(result_types=[index]).results[0], [], body)
        counter = path.fresh("counter")
        path.assume(a <= counter.term, counter.term < b)
        least_, most_ = Ranges(lambda op: known.get(op)).of(loop.body.block.args[0])
        path.prove(within(counter.term, least_, most_), "scf.for")

    explore(run)


EXPRESSIONS: dict[str, AffineBinaryOpKind] = {
    "add": AffineBinaryOpKind.Add,
    "multiply": AffineBinaryOpKind.Mul,
    "floordiv": AffineBinaryOpKind.FloorDiv,
    "mod": AffineBinaryOpKind.Mod,
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_index_expressions(name: str) -> None:
    """By induction: an operator of two expressions, of which the ranges are right. What is divided by is a constant."""

    def run(path: Path) -> None:
        (_, x, a), (_, y, b) = (operand(path, index, 64) for _ in range(2))
        if name in ("floordiv", "mod"):
            path.assume(b > 0)
            y = cast(Range, (Number(b), Number(b)))
        expression = AffineBinaryOpExpr(EXPRESSIONS[name], AffineDimExpr(0), AffineDimExpr(1))
        low, high = range_of_expression(expression, [x, y])
        first, second = Number(a), Number(b)
        number = {
            "add": lambda: first + second,
            "multiply": lambda: first * second,
            "floordiv": lambda: first // second,
            "mod": lambda: first % second,
        }[name]()
        path.prove(term(low) <= number.term, f"{name}, from below")
        path.prove(term(high) >= number.term, f"{name}, from above")

    explore(run)


def test_a_wrong_rule_has_a_counterexample(monkeypatch: pytest.MonkeyPatch) -> None:
    """A difference whose bounds are those of a sum."""
    monkeypatch.setitem(guards.SIGNED, arith.SubiOp, guards.SIGNED[arith.AddiOp])
    with pytest.raises(Refuted, match=r"arith.subi on 32 bits: high.2 = "):
        test_arithmetic(arith.SubiOp, i32)
