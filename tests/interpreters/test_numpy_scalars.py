"""The NumPy semantics of scalar ops: wrapping, signedness, saturation, NaN."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin, f32, i1, i32
from xdsl.dialects.func import Func
from xdsl.dialects.math import Math
from xdsl.parser import Parser

from tensorgrad.dialects.stages import IDENTITIES
from tensorgrad.interpreters.scalars import COMBINERS, RULES, evaluate, narrow
from tensorgrad.runtime.errors import ExecutionError

CONTEXT = Context()
for dialect in (Builtin, Arith, Math, Func):
    CONTEXT.load_dialect(dialect)

DTYPES = {"i1": np.bool_, "i8": np.int8, "i32": np.int32, "i64": np.int64, "f32": np.float32, "f64": np.float64}


def results(text: str, kind: str, *operands: Any) -> list[np.ndarray]:
    """Returns the results of the op in `text`, whose operands are %0, %1, … of one type."""
    arguments = ", ".join(f"%{i} : {kind}" for i in range(len(operands)))
    module = Parser(CONTEXT, f"func.func @f({arguments}) {{ {text} \n func.return }}").parse_module()
    op = next(op for op in module.walk() if op.name in RULES)
    with np.errstate(all="ignore"):
        return evaluate(op, [np.asarray(operand).astype(DTYPES[kind]) for operand in operands])


def test_every_scalar_op_has_a_meaning() -> None:
    names = {op.name for dialect in (Arith, Math) for op in dialect.operations}
    assert {*names, "wgsl.remf"} == set(RULES)


@pytest.mark.parametrize(
    ("op", "x", "y", "expected"),
    [
        ("addi", 2**31 - 1, 1, -(2**31)),
        ("subi", -(2**31), 1, 2**31 - 1),
        ("muli", 65537, 65537, 131073),
        ("divsi", -7, 2, -3),
        ("divsi", 7, -2, -3),
        ("divsi", 7, 0, 0),
        ("divsi", -(2**31), -1, -(2**31)),
        ("divui", -1, 2, 2**31 - 1),
        ("divui", 5, 0, 0),
        ("floordivsi", -7, 2, -4),
        ("ceildivsi", 7, 2, 4),
        ("ceildivsi", -7, 2, -3),
        ("ceildivui", 7, 2, 4),
        ("remsi", -7, 2, -1),
        ("remsi", 7, 0, 0),
        ("remsi", -(2**31), -1, 0),
        ("remui", -1, 10, (2**32 - 1) % 10),
        ("shli", 3, 31, -(2**31)),
        ("shli", 3, 32, 0),
        ("shli", 3, -1, 0),
        ("shrui", -1, 28, 15),
        ("shrui", -1, 40, 0),
        ("shrsi", -8, 40, -1),
        ("shrsi", -8, 1, -4),
        ("maxui", -1, 1, -1),
        ("maxsi", -1, 1, 1),
        ("minui", -1, 1, 1),
        ("minsi", -1, 1, -1),
        ("andi", 12, 10, 8),
        ("ori", 12, 10, 14),
        ("xori", 12, 10, 6),
    ],
)
def test_integers(op: str, x: int, y: int, expected: int) -> None:
    (result,) = results(f"%r = arith.{op} %0, %1 : i32", "i32", [x], [y])
    assert result.dtype == np.int32
    assert result.tolist() == [expected]


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("addi", [False, True, False]),
        ("subi", [False, True, False]),
        ("muli", [False, False, True]),
        ("andi", [False, False, True]),
        ("maxsi", [False, False, True]),
        ("maxui", [False, True, True]),
        ("divui", [False, False, True]),
    ],
)
def test_booleans_are_one_bit(op: str, expected: list[bool]) -> None:
    (result,) = results(f"%r = arith.{op} %0, %1 : i1", "i1", [False, True, True], [False, False, True])
    assert result.dtype == np.bool_
    assert result.tolist() == expected


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("eq", [False, False, True]),
        ("slt", [True, False, False]),
        ("ult", [False, True, False]),
        ("uge", [True, False, True]),
    ],
)
def test_compares_integers(predicate: str, expected: list[bool]) -> None:
    (result,) = results(f"%r = arith.cmpi {predicate}, %0, %1 : i32", "i32", [-1, 1, 5], [1, -1, 5])
    assert result.tolist() == expected


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("oeq", [False, True, False]),
        ("olt", [True, False, False]),
        ("ult", [True, False, True]),
        ("one", [True, False, False]),
        ("une", [True, False, True]),
        ("ueq", [False, True, True]),
        ("ord", [True, True, False]),
        ("uno", [False, False, True]),
        ("true", [True, True, True]),
        ("false", [False, False, False]),
    ],
)
def test_compares_floats(predicate: str, expected: list[bool]) -> None:
    (result,) = results(f"%r = arith.cmpf {predicate}, %0, %1 : f32", "f32", [1, 2, math.nan], [2, 2, 2])
    assert result.tolist() == expected


@pytest.mark.parametrize(
    ("text", "kind", "values", "expected"),
    [
        ("arith.fptosi %0 : f32 to i32", "f32", [-1e20, 1e20, math.nan, -1.5], [-(2**31), 2**31 - 1, 0, -1]),
        ("arith.fptoui %0 : f32 to i32", "f32", [-1e20, 1e20, math.nan, 3e9], [0, -1, 0, 3 * 10**9 - 2**32]),
        ("arith.fptosi %0 : f64 to i64", "f64", [1e30, -1e30], [2**63 - 1, -(2**63)]),
        ("arith.uitofp %0 : i32 to f32", "i32", [-1, 3], [2.0**32, 3.0]),
        ("arith.sitofp %0 : i1 to f32", "i1", [True, False], [-1.0, 0.0]),
        ("arith.uitofp %0 : i1 to f32", "i1", [True, False], [1.0, 0.0]),
        ("arith.extsi %0 : i1 to i32", "i1", [True, False], [-1, 0]),
        ("arith.extui %0 : i1 to i32", "i1", [True, False], [1, 0]),
        ("arith.extui %0 : i8 to i32", "i8", [-1, 5], [255, 5]),
        ("arith.trunci %0 : i32 to i1", "i32", [2, 3], [False, True]),
        ("arith.index_cast %0 : i32 to index", "i32", [-1], [-1]),
        ("arith.truncf %0 : f64 to f32", "f64", [0.1, 1e300], [float(np.float32(0.1)), math.inf]),
        ("arith.bitcast %0 : f32 to i32", "f32", [1.0], [0x3F800000]),
    ],
)
def test_conversions(text: str, kind: str, values: list[Any], expected: list[Any]) -> None:
    (result,) = results(f"%r = {text}", kind, values)
    assert result.tolist() == expected


def test_wide_products() -> None:
    x, y = np.array([0xD2511F53, 5], np.uint32).view(np.int32), np.array([0xCD9E8D57, 7], np.uint32).view(np.int32)
    for op, reading in (("mului", np.uint32), ("mulsi", np.int32)):
        low, high = results(f"%l, %h = arith.{op}_extended %0, %1 : i32", "i32", x, y)
        whole = [int(a) * int(b) for a, b in zip(x.view(reading), y.view(reading), strict=True)]
        assert low.view(np.uint32).tolist() == [product & 0xFFFFFFFF for product in whole]
        assert high.view(np.uint32).tolist() == [product >> 32 & 0xFFFFFFFF for product in whole]
    with pytest.raises(ExecutionError, match="64 bits is not supported"):
        results("%l, %h = arith.mului_extended %0, %1 : i64", "i64", [1], [1])


def test_sums_with_carry() -> None:
    total, carry = results("%s, %c = arith.addui_extended %0, %1 : i32, i1", "i32", [-1, 1], [1, 1])
    assert (total.tolist(), carry.tolist()) == ([0, 2], [True, False])


def test_bit_counts() -> None:
    x = np.array([0, 1, 0x80000000, 0x00F00000], np.uint32).view(np.int32)
    for op, expected in (("ctlz", [32, 31, 0, 8]), ("cttz", [32, 0, 31, 20]), ("ctpop", [0, 1, 1, 4])):
        assert results(f"%r = math.{op} %0 : i32", "i32", x)[0].tolist() == expected


def test_integer_powers() -> None:
    (result,) = results("%r = math.ipowi %0, %1 : i32", "i32", [3, -2, 2, -1, 7], [4, 3, -1, -3, 0])
    assert result.tolist() == [81, -8, 0, -1, 1]


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("erf", math.erf),
        ("tanh", math.tanh),
        ("rsqrt", lambda x: 1 / math.sqrt(x) if x > 0 else math.nan),
        ("round", lambda x: math.copysign(math.floor(abs(x) + 0.5), x)),
        ("roundeven", round),
    ],
)
def test_math(op: str, expected: Any) -> None:
    x = [-4.5, -1.25, -0.5, 0.5, 1.5, 7.0]
    (result,) = results(f"%r = math.{op} %0 : f64", "f64", x)
    np.testing.assert_allclose(result, [expected(value) for value in x], rtol=3e-15)


def test_erf_at_the_ends() -> None:
    x = np.array([math.inf, -math.inf, math.nan, 1e-20], np.float32)
    (result,) = results("%r = math.erf %0 : f32", "f32", x)
    small = float(x[3]) * 2 / math.sqrt(math.pi)
    np.testing.assert_array_equal(result, np.array([1, -1, math.nan, small], np.float32))


def test_extremes_and_nan() -> None:
    x, y = [1, math.nan], [math.nan, 2]
    for op, expected in (("maximumf", [math.nan, math.nan]), ("maxnumf", [1, 2]), ("minnumf", [1, 2])):
        np.testing.assert_array_equal(results(f"%r = arith.{op} %0, %1 : f32", "f32", x, y)[0], expected)


def test_reduces_with_its_identity() -> None:
    empty = np.zeros((2, 0), np.int32)
    identities = {
        arith.AddiOp: 0,
        arith.MuliOp: 1,
        arith.MaxSIOp: -(2**31),
        arith.MinSIOp: 2**31 - 1,
        arith.MaxUIOp: 0,
        arith.MinUIOp: -1,
    }
    for op, expected in identities.items():
        combiner = COMBINERS[op]
        assert combiner.reduce(empty, (1,), i32).tolist() == [[expected]] * 2
        assert combiner.start(i32).item() == expected
    assert COMBINERS[arith.MaximumfOp].start(f32).item() == -math.inf
    assert COMBINERS.keys() == IDENTITIES.keys()


def test_narrow_keeps_the_low_bits() -> None:
    assert narrow(np.uint64(2**40 + 5), i32).item() == 5
    assert narrow(np.int64(6), i1).item() is False
