"""`simplify`: what replaces an op equals it, for all elements of each type: IEEE floats with NaN and zeros, and words.

The op's own `simplified` is asked, on operands of several patterns; wherever it names a value, the solver proves that
the op computes that value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import Any, cast

import numpy as np
import pytest
from arrays import Op, any_place, on_symbols, position, prove_places
from symbolic import Path, Refuted, Term, counterexample, explore, z3
from xdsl.dialects import test as test_ops
from xdsl.dialects.builtin import bf16, f16, f32, f64, i1
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.utils.exceptions import VerifyException

from tensorgrad.dialects import tg
from tensorgrad.dialects.tg import shape
from tensorgrad.dialects.tg.base import (
    NUMPY_DTYPES,
    TensorOp,
    constant_value,
    is_float,
    is_unsigned,
    numpy_dtype,
    tensor,
)
from tensorgrad.dialects.tg.build import TensorBuilder
from tensorgrad.dialects.tg.elementwise import arithmetic
from tensorgrad.dialects.tg.elementwise.arithmetic import BinaryOp, UnaryOp
from tensorgrad.dialects.tg.traits import Elementwise
from tensorgrad.runtime.conversion import kind_of

NEAREST = z3.RNE()
RANKS = (1, 2, 3)
SORTS: dict[Attribute, Callable[[], Any]] = {
    bf16: lambda: z3.FPSort(8, 8),
    f16: z3.Float16,
    f32: z3.Float32,
    f64: z3.Float64,
}


def sort(element: Attribute) -> Any:
    """Returns the sort of an element type's values."""
    if element == i1:
        return z3.BoolSort()
    return SORTS[element]() if element in SORTS else z3.BitVecSort(8 * numpy_dtype(element).itemsize)


Semantics = Callable[..., Term]


def shifted(x: Any, amount: Any, unsigned: bool) -> Term:
    return z3.LShR(x, amount) if unsigned else x >> amount


FLOATS: dict[type[TensorOp], Semantics] = {
    arithmetic.NegOp: z3.fpNeg,
    arithmetic.AddOp: lambda x, y: z3.fpAdd(NEAREST, x, y),
    arithmetic.SubOp: lambda x, y: z3.fpSub(NEAREST, x, y),
    arithmetic.MulOp: lambda x, y: z3.fpMul(NEAREST, x, y),
    arithmetic.DivOp: lambda x, y: z3.fpDiv(NEAREST, x, y),
}
WORDS: dict[type[TensorOp], Semantics] = {
    arithmetic.NegOp: lambda x: -x,
    arithmetic.AddOp: lambda x, y: x + y,
    arithmetic.SubOp: lambda x, y: x - y,
    arithmetic.MulOp: lambda x, y: x * y,
    arithmetic.ShiftLeftOp: lambda x, y: x << y,
}
"""Shifts by the width or more are those of SMT-LIB: 0, or the sign."""


class Terms:
    """The values of IR as terms: constants are known, those of no op stand for all values."""

    def __init__(self) -> None:
        self.terms: dict[SSAValue, Term] = {}

    def of(self, value: SSAValue) -> Term:
        """Returns the term of any element of a value."""
        if value not in self.terms:
            self.terms[value] = self._of(value)
        return self.terms[value]

    def _of(self, value: SSAValue) -> Term:
        element = cast(Any, value.type).get_element_type()
        op, kind = value.owner, sort(element)
        number = constant_value(value)
        if number is not None:
            return literal(number.reshape(-1)[0].item(), kind)
        if not isinstance(op, TensorOp):
            return z3.Const(f"{'xyz'[len(self.terms) % 3]}{len(self.terms)}", kind)
        operands = [self.of(operand) for operand in op.operands]
        if isinstance(op, arithmetic.SelectOp):
            return z3.If(*operands)
        if isinstance(op, arithmetic.CastOp | arithmetic.BitcastOp):
            assert op.operand.type == op.type, "other conversions have no rule"
            return operands[0]
        if isinstance(op, arithmetic.ShiftRightOp):
            return shifted(*operands, unsigned=is_unsigned(element))
        return (FLOATS if is_float(element) else WORDS)[type(op)](*operands)


def literal(number: Any, kind: Any) -> Term:
    """Returns a constant; a float's sign of zero is kept."""
    if isinstance(kind, z3.FPSortRef):
        return z3.fpMinusZero(kind) if number == 0 and np.signbit(number) else z3.FPVal(number, kind)
    return z3.BoolVal(number) if kind == z3.BoolSort() else z3.BitVecVal(number, kind)


def prove(op: TensorOp, replacement: SSAValue) -> None:
    """Proves that an op computes its replacement: the same bits, but for those of a NaN."""
    terms = Terms()
    solver = z3.Solver()
    solver.set("timeout", 10_000)
    solver.add(terms.of(op.results[0]) != terms.of(replacement))
    answer = solver.check()
    if answer != z3.unsat:
        found = counterexample(solver.model()) if answer == z3.sat else "neither a proof nor a counterexample"
        raise Refuted(f"{op.name}: {found}")


NUMBERS = (0.0, -0.0, 1.0, -1.0, 2.0, np.inf, np.nan)
"""The constants that are tried as operands; integers lack those that aren't integers, bools are 0 and 1."""
UNKNOWN_POWERS = "C's `pow` returns `x` for the exponent 1 by definition; z3 has no theory of powers"
ASSUMED: dict[type[TensorOp], str] = {arithmetic.PowOp: UNKNOWN_POWERS}
"""The ops of rules that the solver can't state, with the reason."""


@dataclass(frozen=True)
class Case:
    """A rule that fired: an op of a pattern, and the value that `simplified` names in its place."""

    pattern: str
    op: TensorOp
    replacement: SSAValue
    element: Attribute


class Operands:
    """Operands of one shape and element type, by what they are called in patterns."""

    def __init__(self, element: Attribute):
        self.kind = tensor([4], element)
        self.builder = TensorBuilder(Block())
        self.element = element
        self.named = {name: test_ops.TestOp(result_types=[self.kind]).results[0] for name in "xy"}
        self.condition = test_ops.TestOp(result_types=[tensor([4], i1)]).results[0]

    def constants(self) -> Iterator[tuple[str, SSAValue]]:
        """Returns the constants of the element type, by name."""
        dtype = numpy_dtype(self.element)
        for number in NUMBERS:
            fits = (
                kind_of(dtype) == "f"
                or (np.isfinite(number) and not np.signbit(number))
                or (number == -1 and dtype.kind == "i")
            )
            if fits and (self.element != i1 or number < 2):
                name = str(number) if kind_of(dtype) == "f" else str(int(number))
                yield name, self.builder.full(self.kind, number)

    def patterns(self, kind: type[TensorOp]) -> Iterator[tuple[str, Sequence[SSAValue], dict[str, Attribute]]]:
        """Returns the operands and properties with which ops of a kind are tried, by name."""
        x, y = self.named.values()
        if issubclass(kind, BinaryOp):
            yield from (("x, y", [x, y], {}), ("x, x", [x, x], {}))
            for name, number in self.constants():
                yield from ((f"x, {name}", [x, number], {}), (f"{name}, x", [number, x], {}))
        elif issubclass(kind, UnaryOp):
            yield "x", [x], {}
            yield "itself of x", [self.builder.emit(kind, [x])], {}
        elif kind is arithmetic.SelectOp:
            always, never = (self.builder.full(tensor([4], i1), number) for number in (1, 0))
            yield from (("c, x, x", [self.condition, x, x], {}), ("c, x, y", [self.condition, x, y], {}))
            yield from (("true, x, y", [always, x, y], {}), ("false, x, y", [never, x, y], {}))
        elif issubclass(kind, arithmetic.CastOp | arithmetic.BitcastOp):
            yield "x to its type", [x], {"to": self.element}


def cases(kind: type[TensorOp]) -> Iterator[Case]:
    """Returns the rules of an op that fire, for each element type."""
    for element in NUMPY_DTYPES:
        operands = Operands(element)
        with suppress(VerifyException):  # the op does not take these elements
            for pattern, values, properties in operands.patterns(kind):
                op = cast(TensorOp, operands.builder.emit(kind, values, **properties).owner)
                replacement = op.simplified()
                if replacement is not None:
                    yield Case(pattern, op, replacement, element)


ELEMENTWISE = [kind for kind in tg.OPS if kind.simplified is not TensorOp.simplified and kind.has_trait(Elementwise)]


@cache
def rules() -> dict[tuple[type[TensorOp], str], list[Case]]:
    """Returns the elementwise rules that fire, by op and pattern."""
    fired: dict[tuple[type[TensorOp], str], list[Case]] = {}
    for kind in ELEMENTWISE:
        for case in cases(kind):
            fired.setdefault((kind, case.pattern), []).append(case)
    return fired


PROVED = [rule for rule in rules() if rule[0] not in ASSUMED]


@pytest.mark.parametrize("rule", PROVED, ids=lambda rule: f"{rule[0].name}({rule[1]})")
def test_elementwise_rules(rule: tuple[type[TensorOp], str]) -> None:
    for case in rules()[rule]:
        prove(case.op, case.replacement)


@pytest.mark.parametrize("element", [f16, f32, f64], ids=str)
def test_a_power_of_exponent_one(element: Attribute) -> None:
    """A table of IEEE cases, in place of a proof."""
    limits = np.finfo(numpy_dtype(element))
    numbers = [0.0, 1.0, 1.5, np.inf, np.nan, limits.max, limits.tiny, limits.smallest_subnormal, limits.eps]
    x = np.array([*numbers, *(-number for number in numbers)], numpy_dtype(element))
    result = arithmetic.PowOp.function(x, np.ones_like(x))
    np.testing.assert_array_equal(result, x)
    assert (np.signbit(result) == np.signbit(x))[~np.isnan(x)].all()


SAME_SHAPE: dict[str, tuple[type[TensorOp], Sequence[int], dict[str, Any]]] = {
    **{f"reshape of rank {rank}": (shape.ReshapeOp, [rank], {"shape": rank}) for rank in RANKS},
    **{f"transpose by {axes}": (shape.TransposeOp, [3], {"permutation": axes}) for axes in permutations(range(3))},
    **{
        f"broadcast of rank {rank}": (shape.BroadcastOp, [rank], {"shape": rank, "dims": range(rank)}) for rank in RANKS
    },
    "slice": (shape.SliceOp, [1], {"start": 1, "stop": 1, "step": 1}),
    "concat of one part": (shape.ConcatOp, [2], {"axis": 1}),
    "concat of two parts": (shape.ConcatOp, [2, 2], {"axis": 1}),
}
"""Ops that move nothing in some cases, the ranks of their operands, and properties, as in the proofs of views."""


@pytest.mark.parametrize("case", SAME_SHAPE)
def test_moves_to_the_same_shape(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where `simplified` names an operand, its elements are those that NumPy moves to the same indices."""
    on_symbols(monkeypatch)
    kind, ranks, properties = SAME_SHAPE[case]

    def run(path: Path) -> None:
        op = Op(kind, ranks, properties)
        replacement = op.simplified()
        path.prove(replacement in (None, op.operand), "an operand")
        if replacement is not None:
            index = any_place(op.shape)
            moved = op.moved().at(index)
            if kind is shape.ReshapeOp:
                for each in (moved, index):
                    prove_places(position(index, op.shape), each, op.shape)
            for place, expected in zip(index, moved, strict=True):
                path.prove(place.term == expected.term, "the element")

    explore(run)


def test_a_reduction_over_no_axes_rounds_to_the_same_half() -> None:
    """`ReduceOp.simplified` drops it, though sums of f16 are rounded from f32."""
    x = z3.Const("x", z3.Float16())
    solver = z3.Solver()
    solver.add(z3.fpFPToFP(NEAREST, z3.fpFPToFP(NEAREST, x, z3.Float32()), z3.Float16()) != x)
    assert solver.check() == z3.unsat


def test_a_wrong_rule_has_a_counterexample(monkeypatch: pytest.MonkeyPatch) -> None:
    """`x + 0.0` is not `x` where `x` is -0.0."""
    monkeypatch.setattr(arithmetic.AddOp, "NEUTRAL_RIGHT", 0.0)
    wrong = [case for case in cases(arithmetic.AddOp) if case.element == f32 and case.pattern == "x, 0.0"]
    with pytest.raises(Refuted, match=r"tg.add: .* = -0\.0"):
        for case in wrong:
            prove(case.op, case.replacement)
