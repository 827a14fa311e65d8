"""Cases of elementwise ops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from case import SHAPES, SPECIAL, Case, NumpyArray, boolean, f32, i32, normal, u32, uniform
from xdsl.dialects.builtin import StringAttr

import tensorgrad as tg
from tensorgrad.dialects.tg.base import TensorOp
from tensorgrad.dialects.tg.elementwise import arithmetic, functions
from tensorgrad.tracing.tracer import emit

LIMITS = i32(0, 1, -1, 7, -(2**31), 2**31 - 1)
UNSIGNED = u32(0, 1, 7, 2**31, 2**32 - 1, 12345)


def wide(function: Callable[..., Any]) -> Callable[..., NumpyArray]:
    """Returns a function of floats that computes in f64 and rounds once."""

    def call(*inputs: NumpyArray) -> NumpyArray:
        return np.asarray(function(*(x.astype(np.float64) for x in inputs))).astype(inputs[0].dtype)

    return call


def shape_note(*shapes: tuple[int, ...]) -> str:
    return " ".join("x".join(map(str, shape)) or "scalar" for shape in shapes)


def _sigmoid(x: NumpyArray) -> NumpyArray:
    return 1 / (1 + np.exp(-x))


UNARY: dict[type[arithmetic.UnaryOp], tuple[Callable[..., Any], Callable[..., Any], tuple[float, float] | None]] = {
    arithmetic.NegOp: (tg.negative, lambda x: -1.0 * x, None),
    arithmetic.AbsOp: (tg.abs, np.fabs, None),
    functions.ExpOp: (tg.exp, np.exp, (-2, 1)),
    functions.LogOp: (tg.log, np.log, (0.2, 4)),
    functions.SqrtOp: (tg.sqrt, np.sqrt, (0.2, 4)),
    functions.SinOp: (tg.sin, np.sin, (-4, 4)),
    functions.CosOp: (tg.cos, np.cos, (-4, 4)),
    functions.TanhOp: (tg.tanh, np.tanh, (-2, 2)),
    functions.SigmoidOp: (tg.sigmoid, _sigmoid, (-4, 4)),
    functions.ReluOp: (tg.relu, lambda x: np.maximum(x, 0), None),
}
"""For each op on floats: ours, numpy's, and the interval for smooth samples (the line without 0 if `None`)."""


def unary_cases() -> Iterator[Case]:
    for op, (ours, theirs, interval) in UNARY.items():
        expected = wide(theirs)
        for seed, shape in enumerate(SHAPES):
            x = normal(*shape, seed=seed) if interval is None else uniform(*interval, *shape, seed=seed)
            x = np.abs(x) if op is functions.ReluOp and x.size == 1 else x
            yield Case(op, shape_note(shape), ours, (x,), expected, derivative=True)
        trigonometric = op in (functions.SinOp, functions.CosOp)
        special = np.where(np.abs(SPECIAL) > 1e10, np.inf, SPECIAL).astype(np.float32) if trigonometric else SPECIAL
        yield Case(op, "special", ours, (special,), expected)
        yield Case(
            op,
            "twice",
            lambda x, ours=ours: ours(ours(x)) if ours is tg.tanh else ours(x) * ours(x) + x,
            (uniform(0.3, 1.5, 4, seed=3),),
            wide(lambda x, f=theirs: f(f(x)) if f is np.tanh else f(x) * f(x) + x),
            derivative=True,
        )
        grid = np.linspace(-20, 20, 41, dtype=np.float32)
        yield Case(op, "line", ours, (grid,), expected)
        yield Case(op, "f64", ours, (grid.astype(np.float64),), theirs, rtol=1e-14)


def integer_unary_cases() -> Iterator[Case]:
    def wrapped(function: Callable[..., Any]) -> Callable[..., NumpyArray]:
        return lambda x: (function(x.astype(np.int64)) & 0xFFFFFFFF).astype(np.uint32).view(x.dtype)

    for name, sample in (("i32", LIMITS), ("u32", UNSIGNED)):
        yield Case(arithmetic.NegOp, name, tg.negative, (sample,), wrapped(lambda x: -x))
        yield Case(arithmetic.AbsOp, name, tg.abs, (sample,), wrapped(np.abs))
        yield Case(functions.ReluOp, name, tg.relu, (sample,), wrapped(lambda x: np.maximum(x, 0)))
        yield Case(arithmetic.StopGradientOp, name, tg.stop_gradient, (sample,), lambda x: x)
    yield Case(arithmetic.NotOp, "vector", tg.logical_not, (boolean(1, 0, 0),), lambda x: x == 0)
    yield Case(arithmetic.NotOp, "scalar", tg.logical_not, (np.array(True),), lambda x: x == 0)
    yield Case(arithmetic.NotOp, "empty", tg.logical_not, (np.zeros((2, 0), np.bool_),), lambda x: x == 0)
    yield Case(arithmetic.NotOp, "twice", lambda x: tg.logical_not(tg.logical_not(x)), (boolean(1, 0),), lambda x: x)
    yield Case(arithmetic.StopGradientOp, "f32", tg.stop_gradient, (SPECIAL,), lambda x: x, rtol=0)
    yield Case(
        arithmetic.StopGradientOp,
        "beside the same",
        lambda x: tg.stop_gradient(x) + 0.0 * x,
        (normal(3),),
        lambda x: x + 0,
    )
    yield Case(arithmetic.StopGradientOp, "bool", tg.stop_gradient, (boolean(1, 0),), lambda x: x)


def api(op: type[TensorOp]) -> Callable[..., Any]:
    """Returns the API function of a binary op."""
    return {
        arithmetic.AddOp: tg.add,
        arithmetic.SubOp: tg.subtract,
        arithmetic.MulOp: tg.multiply,
        arithmetic.DivOp: tg.divide,
        arithmetic.PowOp: tg.power,
        arithmetic.MaximumOp: tg.maximum,
        arithmetic.MinimumOp: tg.minimum,
        arithmetic.AndOp: tg.bitwise_and,
        arithmetic.OrOp: tg.bitwise_or,
    }[op]


FLOAT_BINARY: dict[type[TensorOp], Callable[..., Any]] = {
    arithmetic.AddOp: lambda x, y: x + y,
    arithmetic.SubOp: lambda x, y: x - y,
    arithmetic.MulOp: lambda x, y: x * y,
    arithmetic.DivOp: lambda x, y: x / y,
    arithmetic.PowOp: np.float_power,
    arithmetic.MaximumOp: lambda x, y: np.where(np.isnan(x) | (x > y), x, y),
    arithmetic.MinimumOp: lambda x, y: np.where(np.isnan(x) | (x < y), x, y),
}

INTEGER_BINARY: dict[type[TensorOp], Callable[..., Any]] = {
    arithmetic.AddOp: lambda x, y: x + y,
    arithmetic.SubOp: lambda x, y: x - y,
    arithmetic.MulOp: lambda x, y: x * y,
    arithmetic.MaximumOp: lambda x, y: np.where(x > y, x, y),
    arithmetic.MinimumOp: lambda x, y: np.where(x < y, x, y),
    arithmetic.AndOp: lambda x, y: x & y,
    arithmetic.OrOp: lambda x, y: x | y,
}
"""On numbers of 64 bits; the low 32 are the result."""

PAIRS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((), ()),
    ((5,), (5,)),
    ((3, 4), (4,)),
    ((4,), (3, 4)),
    ((3, 1), (1, 4)),
    ((), (2, 3)),
    ((2, 1, 3, 1), (4, 1, 2)),
    ((1, 1), (1,)),
    ((0, 3), (1, 3)),
    ((2, 0, 1), (1, 4)),
)
"""Shapes that broadcast left, right, both ways, from a scalar, and to no elements."""


def binary_cases() -> Iterator[Case]:
    table = np.stack(np.meshgrid(SPECIAL, SPECIAL), -1).reshape(-1, 2).T
    for op, theirs in FLOAT_BINARY.items():
        ours, expected = api(op), wide(theirs)
        for seed, (a, b) in enumerate(PAIRS):
            x, y = normal(*a, seed=seed), normal(*b, seed=seed + 50)
            if op is arithmetic.PowOp:
                x = uniform(0.6, 1.6, *a, seed=seed)
            if op is arithmetic.DivOp:
                y = (y + np.sign(y)).astype(np.float32)
            flat = ()
            if x.size == y.size == 1 and op in (arithmetic.MaximumOp, arithmetic.MinimumOp):
                flat = (int((x.item() > y.item()) == (op is arithmetic.MaximumOp)),)
            yield Case(op, shape_note(a, b), ours, (x, y), expected, derivative=True, flat=flat)
        same = uniform(0.5, 1.5, 4, seed=7)
        flat = (0,) if op in (arithmetic.SubOp, arithmetic.DivOp) else ()
        yield Case(
            op,
            "same operand",
            lambda x, f=ours: f(x, x),
            (same,),
            lambda x, f=expected: f(x, x),
            derivative=True,
            flat=flat,
        )
        yield Case(
            op,
            "scalar right",
            lambda x, f=ours: f(x, 0.86),
            (same,),
            lambda x, f=theirs: f(x.astype(np.float64), 0.86).astype(x.dtype),
            derivative=True,
        )
        yield Case(
            op,
            "scalar left",
            lambda x, f=ours: f(0.86, x),
            (same,),
            lambda x, f=theirs: f(np.float64(0.86), x.astype(np.float64)).astype(x.dtype),
            derivative=True,
        )
        yield Case(op, "special", ours, (table[0].copy(), table[1].copy()), expected)
        yield Case(op, "f64", ours, (same.astype(np.float64), same[::-1].astype(np.float64)), theirs, rtol=1e-14)
    negative = np.array([-2.0, -1.5, 2.0, -0.7], np.float32)
    yield Case(arithmetic.PowOp, "negative base", tg.power, (negative, f32(2, 3, -2, 0)), wide(np.float_power))
    for exponent in (-17, -6, -3, -1, 0, 1, 2, 5, 0.5, 3.0, 2.5):
        base = uniform(0.5, 1.5, 3, seed=9)
        yield Case(
            arithmetic.PowOp
            if exponent < -1 or exponent % 1
            else arithmetic.DivOp
            if exponent < 0
            else arithmetic.MulOp,
            f"power {exponent}",
            lambda x, e=exponent: tg.power(x, e) * x / x if e in (0, 1) else tg.power(x, e) * 1.5,
            (base,),
            wide(lambda x, e=exponent: x**e if e in (0, 1) else x**e * 1.5),
            derivative=True,
            flat=(0,) if exponent == 0 else (),
        )


def integer_binary_cases() -> Iterator[Case]:
    for name, sample in (("i32", LIMITS), ("u32", UNSIGNED)):
        x, y = (part.reshape(-1).copy() for part in np.meshgrid(sample, sample))
        for op, theirs in INTEGER_BINARY.items():
            ours = api(op)

            def expected(x: NumpyArray, y: NumpyArray, f: Callable[..., Any] = theirs) -> NumpyArray:
                full = f(x.astype(object), y.astype(object))
                return (
                    np.array([int(v) & 0xFFFFFFFF for v in full.reshape(-1)], np.uint32)
                    .view(x.dtype)
                    .reshape(full.shape)
                )

            yield Case(op, name, ours, (x, y), expected)
            yield Case(op, f"{name} broadcast", ours, (sample[:3].reshape(3, 1), sample[2:6]), expected)
            yield Case(op, f"{name} same operand", lambda x, f=ours: f(x, x), (sample,), lambda x, f=expected: f(x, x))
    x, y = boolean(0, 0, 1, 1), boolean(0, 1, 0, 1)
    yield Case(arithmetic.AndOp, "bool", tg.logical_and, (x, y), lambda x, y: x & y)
    yield Case(arithmetic.OrOp, "bool", tg.logical_or, (x, y), lambda x, y: x | y)
    yield Case(arithmetic.OrOp, "bool broadcast", tg.logical_or, (x.reshape(4, 1), y), lambda x, y: x | y)
    yield Case(
        arithmetic.DivOp,
        "i32",
        tg.divide,
        (i32(7, -8, 0, 5), i32(2, 3, 4, 0)),
        lambda x, y: x.astype(np.float32) / y.astype(np.float32),
    )
    yield Case(arithmetic.AddOp, "mixed i32 f32", tg.add, (i32(7, -8), f32(0.5, 2)), lambda x, y: np.float32(x) + y)
    yield Case(
        arithmetic.MulOp, "i32 by float", lambda x: x * 0.5, (i32(7, -8),), lambda x: np.float32(x) * np.float32(0.5)
    )
    yield Case(arithmetic.MulOp, "i32 power 3", lambda x: tg.power(x, 3), (i32(7, -8),), lambda x: x * x * x)


PREDICATES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "eq": (tg.equal, lambda x, y: x == y),
    "ne": (tg.not_equal, lambda x, y: x != y),
    "lt": (tg.less, lambda x, y: x < y),
    "le": (tg.less_equal, lambda x, y: x <= y),
    "gt": (tg.greater, lambda x, y: x > y),
    "ge": (tg.greater_equal, lambda x, y: x >= y),
}


def compare_cases() -> Iterator[Case]:
    for predicate, (ours, theirs) in PREDICATES.items():
        for name, sample in (("f32", SPECIAL), ("i32", LIMITS), ("u32", UNSIGNED)):
            x, y = (part.reshape(-1).copy() for part in np.meshgrid(sample, sample))
            yield Case(arithmetic.CompareOp, f"{predicate} {name}", ours, (x, y), theirs)
        yield Case(arithmetic.CompareOp, f"{predicate} broadcast", ours, (normal(3, 1), normal(2, 1, 4)), theirs)
        yield Case(arithmetic.CompareOp, f"{predicate} empty", ours, (normal(0, 3), normal(3)), theirs)
        yield Case(
            arithmetic.CompareOp,
            f"{predicate} itself",
            lambda x, f=ours: f(x, x),
            (SPECIAL,),
            lambda x, f=theirs: f(x, x),
        )
        yield Case(
            arithmetic.CompareOp,
            f"{predicate} number",
            lambda x, f=ours: f(x, 0.5),
            (SPECIAL,),
            lambda x, f=theirs: f(x, np.float32(0.5)),
        )
    for predicate in ("eq", "ne"):
        ours, theirs = PREDICATES[predicate]
        yield Case(
            arithmetic.CompareOp,
            f"{predicate} bool",
            lambda x, y, p=predicate: emit(arithmetic.CompareOp, [x, y], predicate=StringAttr(p)),
            (boolean(0, 0, 1, 1), boolean(0, 1, 0, 1)),
            theirs,
        )


def select_cases() -> Iterator[Case]:
    condition = boolean(1, 0, 1)
    yield Case(
        arithmetic.SelectOp, "f32", tg.where, (condition, normal(3), normal(3, seed=1)), np.where, derivative=True
    )
    yield Case(
        arithmetic.SelectOp, "broadcast", tg.where, (condition, normal(2, 1), normal(3)), np.where, derivative=True
    )
    yield Case(
        arithmetic.SelectOp,
        "scalar condition",
        tg.where,
        (np.array(False), normal(2), normal(2, seed=1)),
        np.where,
        derivative=True,
        flat=(1,),
    )
    yield Case(
        arithmetic.SelectOp,
        "same choice",
        lambda c, x: tg.where(c, x, 2.0 * x),
        (condition, normal(3)),
        lambda c, x: np.where(c, x, 2 * x),
        derivative=True,
    )
    yield Case(
        arithmetic.SelectOp,
        "number",
        lambda c, x: tg.where(c, x, 0.0),
        (condition, normal(2, 3)),
        lambda c, x: np.where(c, x, np.float32(0)),
        derivative=True,
    )
    yield Case(
        arithmetic.SelectOp,
        "special",
        tg.where,
        (boolean(1, 0, 1, 0), f32(np.nan, 1, np.inf, 2), f32(1, np.nan, 3, -0.0)),
        np.where,
    )
    yield Case(
        arithmetic.SelectOp,
        "of a comparison",
        lambda x, y: tg.where(x > y, x, y * y),
        (normal(6), normal(6, seed=1)),
        lambda x, y: np.where(x > y, x, y * y),
        derivative=True,
    )
    yield Case(arithmetic.SelectOp, "i32", tg.where, (condition, i32(1, 2, 3), i32(-1, -2, -3)), np.where)
    yield Case(arithmetic.SelectOp, "u32", tg.where, (condition, u32(1, 2, 2**32 - 1), u32(7, 2**31, 9)), np.where)
    yield Case(arithmetic.SelectOp, "bool", tg.where, (condition, boolean(0, 1, 1), boolean(1, 0, 0)), np.where)
    yield Case(arithmetic.SelectOp, "empty", tg.where, (boolean(), normal(2, 0), normal(0)), np.where, derivative=True)


def cast_cases() -> Iterator[Case]:
    floats = f32(
        0.0,
        -0.0,
        0.9,
        -0.9,
        1.5,
        -2.7,
        2147483520.0,
        -2147483648.0,
        3e9,
        -3e9,
        4294967040.0,
        1e20,
        np.inf,
        -np.inf,
        np.nan,
    )
    signed = i32(
        0, 0, 0, 0, 1, -2, 2147483520, -(2**31), 2**31 - 1, -(2**31), 2**31 - 1, 2**31 - 1, 2**31 - 1, -(2**31), 0
    )
    unsigned = u32(0, 0, 0, 0, 1, 0, 2147483520, 0, 3000000000, 0, 4294967040, 2**32 - 1, 2**32 - 1, 0, 0)
    truth = boolean(0, 0, *[1] * 13)
    tables: list[tuple[str, NumpyArray, str, NumpyArray]] = [
        ("f32 i32", floats, "i32", signed),
        ("f32 u32", floats, "u32", unsigned),
        ("f32 bool", floats, "bool", truth),
        ("i32 f32", LIMITS, "f32", f32(0, 1, -1, 7, -(2.0**31), 2.0**31)),
        ("i32 u32", LIMITS, "u32", u32(0, 1, 2**32 - 1, 7, 2**31, 2**31 - 1)),
        ("i32 bool", LIMITS, "bool", boolean(0, 1, 1, 1, 1, 1)),
        ("u32 f32", UNSIGNED, "f32", f32(0, 1, 7, 2.0**31, 2.0**32, 12345)),
        ("u32 i32", UNSIGNED, "i32", i32(0, 1, 7, -(2**31), -1, 12345)),
        ("u32 bool", UNSIGNED, "bool", boolean(0, 1, 1, 1, 1, 1)),
        ("bool f32", boolean(0, 1), "f32", f32(0, 1)),
        ("bool i32", boolean(0, 1), "i32", i32(0, 1)),
        ("bool u32", boolean(0, 1), "u32", u32(0, 1)),
        ("f32 scalar", np.array(-3.9, np.float32), "i32", np.array(-3, np.int32)),
        ("f32 empty", normal(2, 0), "i32", np.zeros((2, 0), np.int32)),
    ]
    wide_tables: list[tuple[str, NumpyArray, str, NumpyArray]] = [
        ("f64 f32", np.array([0.1, 1e300, np.nan]), "f32", f32(0.1, np.inf, np.nan)),
        ("f32 f64", f32(0.1, np.inf), "f64", np.array([np.float32(0.1), np.inf], np.float64)),
        ("f64 i32", np.array([2147483646.9, 1e300, np.nan]), "i32", i32(2147483646, 2**31 - 1, 0)),
        ("f32 f16", f32(0.1, 70000.0), "f16", np.array([0.1, np.inf], np.float16)),
        ("f16 f32", np.array([0.1, -2], np.float16), "f32", f32(float(np.float16(0.1)), -2)),
        ("i32 f64", LIMITS, "f64", LIMITS.astype(np.float64)),
        ("f64 bool", np.array([0.0, 1e-300]), "bool", boolean(0, 1)),
    ]
    for note, source, dtype, result in (*tables, *wide_tables):
        yield Case(arithmetic.CastOp, note, lambda x, d=dtype: tg.cast(x, d), (source,), lambda x, r=result: r, rtol=0)
    yield Case(
        arithmetic.CastOp,
        "f64 to f32 and back",
        lambda x: tg.cast(tg.cast(x, "f64"), "f32") * x,
        (normal(4),),
        lambda x: x * x,
        wide=True,
    )
    yield Case(
        arithmetic.CastOp,
        "of a comparison",
        lambda x: tg.cast(x > 0, "f32") * x,
        (normal(4),),
        lambda x: np.where(x > 0, x, 0 * x),
        rtol=0,
    )


def bit_cases() -> Iterator[Case]:
    """Returns cases of bitcasts, and of signs read from bits."""
    for source in (SPECIAL, i32(0, 1, -1, 2**31 - 1, -(2**31), 0x7F800000), u32(0, 1, 2**32 - 1, 0x80000000)):
        for name in ("f32", "i32", "u32"):
            target = tg.spec(1, name).dtype
            if target != source.dtype and not (target.kind == "f" and name != "f32"):
                yield Case(
                    arithmetic.BitcastOp,
                    f"{source.dtype} {name}",
                    lambda x, d=name: tg.bitcast(x, d),
                    (source,),
                    lambda x, d=target: x.view(d),
                    rtol=0,
                )
    yield Case(
        arithmetic.BitcastOp,
        "of a transpose",
        lambda x: tg.bitcast(tg.bitcast(x.T, "i32") ^ 0, "f32") * 2.0,
        (normal(2, 3),),
        lambda x: x.T * 2,
        rtol=0,
    )
    signs = f32(0, -0.0, 1, -1, np.inf, -np.inf, 1e-40, -1e-40)
    yield Case(
        arithmetic.BitcastOp,
        "copysign",
        lambda x, y: tg.copysign(x, y),
        (normal(3, 1), normal(5)),
        np.copysign,
        derivative=True,
        flat=(1,),
        rtol=0,
    )
    yield Case(
        arithmetic.BitcastOp,
        "copysign special",
        lambda x, y: 1.0 / tg.copysign(x, y),
        (f32(0, -0.0, np.inf, -2).reshape(4, 1), signs),
        lambda x, y: np.float32(1) / np.copysign(x, y),
        rtol=0,
    )
    yield Case(
        arithmetic.BitcastOp,
        "copysign of integers",
        lambda x, y: tg.copysign(x, y),
        (i32(1, -2, 0), f32(-1, -1, 1)),
        lambda x, y: np.copysign(x, y).astype(np.float32),
        rtol=0,
    )


def arithmetic_cases() -> Iterator[Case]:
    """Returns all cases of unary and binary ops, comparisons, selection and casts."""
    yield from unary_cases()
    yield from integer_unary_cases()
    yield from binary_cases()
    yield from integer_binary_cases()
    yield from compare_cases()
    yield from select_cases()
    yield from cast_cases()
    yield from bit_cases()
