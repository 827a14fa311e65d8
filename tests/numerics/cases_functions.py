"""Cases of elementary functions, rounding, bit operations, integer division and activations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from case import SHAPES, SPECIAL, Case, NumpyArray, boolean, f32, i32, integers, normal, u32, uniform
from cases_arithmetic import LIMITS, PAIRS, UNSIGNED, shape_note, wide

import tensorgrad as tg
from tensorgrad.dialects.tg.base import TensorOp
from tensorgrad.dialects.tg.elementwise import arithmetic, functions
from tensorgrad.ops import activations

ERF, ERFC = (np.vectorize(f, otypes=[np.float64]) for f in (math.erf, math.erfc))

Function = Callable[..., Any]

SMOOTH: dict[type[TensorOp], tuple[Function, Function, tuple[float, float]]] = {
    functions.Exp2Op: (tg.exp2, np.exp2, (-2, 2)),
    functions.Expm1Op: (tg.expm1, np.expm1, (-2, 1)),
    functions.Log2Op: (tg.log2, np.log2, (0.2, 4)),
    functions.Log1pOp: (tg.log1p, np.log1p, (-0.6, 3)),
    functions.TanOp: (tg.tan, np.tan, (-1, 1)),
    functions.AsinOp: (tg.asin, np.arcsin, (-0.8, 0.8)),
    functions.AcosOp: (tg.acos, np.arccos, (-0.8, 0.8)),
    functions.AtanOp: (tg.atan, np.arctan, (-3, 3)),
    functions.SinhOp: (tg.sinh, np.sinh, (-2, 2)),
    functions.CoshOp: (tg.cosh, np.cosh, (0.2, 2)),
    functions.AsinhOp: (tg.asinh, np.arcsinh, (-3, 3)),
    functions.AcoshOp: (tg.acosh, np.arccosh, (1.3, 4)),
    functions.AtanhOp: (tg.atanh, np.arctanh, (-0.8, 0.8)),
    functions.ErfOp: (tg.erf, ERF, (-2, 2)),
    functions.ErfcOp: (tg.erfc, ERFC, (-1.5, 1.5)),
    functions.SoftplusOp: (activations.softplus, lambda x: np.logaddexp(0, x), (-4, 4)),
}
"""For each smooth function of one argument: ours, numpy's, and the interval of samples for derivatives."""

ROUNDING: dict[type[TensorOp], tuple[Function, Function]] = {
    functions.FloorOp: (tg.floor, np.floor),
    functions.CeilOp: (tg.ceil, np.ceil),
    functions.RoundOp: (tg.round, np.rint),
    functions.TruncOp: (tg.trunc, np.trunc),
}


def smooth_cases() -> Iterator[Case]:
    grid = np.linspace(-20, 20, 81, dtype=np.float32)
    for op, (ours, theirs, interval) in SMOOTH.items():
        expected = wide(theirs)
        for seed, shape in enumerate(SHAPES):
            x = uniform(*interval, *shape, seed=seed)
            yield Case(op, shape_note(shape), ours, (x,), expected, derivative=True)
        special = np.where(np.abs(SPECIAL) == 1e30, 1, SPECIAL).astype(np.float32) if op is functions.TanOp else SPECIAL
        yield Case(op, "special", ours, (special,), expected)
        yield Case(op, "line", ours, (grid,), expected)
        yield Case(op, "f64", ours, (grid.astype(np.float64),), theirs, rtol=1e-13)
    yield Case(functions.Exp2Op, "i32", tg.exp2, (i32(-3, 0, 5),), lambda x: np.exp2(x.astype(np.float32)))
    yield Case(
        functions.SoftplusOp,
        "at 0",
        activations.softplus,
        (f32(0, 0),),
        lambda x: np.logaddexp(np.float32(0), x),
        derivative=True,
    )
    yield Case(
        functions.SoftplusOp,
        "log_sigmoid",
        activations.log_sigmoid,
        (uniform(-90, 90, 9),),
        wide(lambda x: -np.logaddexp(0, -x)),
    )
    yield Case(functions.ErfcOp, "tail", tg.erfc, (f32(2, 5, 9, 9.2),), wide(ERFC))
    points = normal(3, 4), normal(3, 1, seed=1)
    yield Case(functions.Atan2Op, "2d", tg.atan2, points, wide(np.arctan2), derivative=True)
    for seed, (a, b) in enumerate(PAIRS):
        pair = normal(*a, seed=seed), normal(*b, seed=seed + 9)
        yield Case(functions.Atan2Op, shape_note(a, b), tg.atan2, pair, wide(np.arctan2), derivative=True)
    table = np.stack(np.meshgrid(SPECIAL, SPECIAL), -1).reshape(-1, 2).T
    yield Case(functions.Atan2Op, "special", tg.atan2, (table[0].copy(), table[1].copy()), wide(np.arctan2))


def rounding_cases() -> Iterator[Case]:
    halves = f32(-2.5, -1.5, -0.5, -0.0, 0.0, 0.5, 1.5, 2.5, 0.49999997, 8388609.0, -3.7, 3.2)
    for op, (ours, theirs) in ROUNDING.items():
        for seed, shape in enumerate(SHAPES):
            yield Case(op, shape_note(shape), ours, (normal(*shape, seed=seed) * 3,), theirs, rtol=0)
        yield Case(op, "special", ours, (SPECIAL,), theirs, rtol=0)
        yield Case(op, "halves", ours, (halves,), theirs, rtol=0)
        yield Case(
            op,
            "mid graph",
            lambda x, f=ours: x * f(x * 4.3),
            (normal(5),),
            wide(lambda x, f=theirs: x * f(x * 4.3)),
            derivative=True,
        )
    tests: list[tuple[str, Function, Function]] = [
        ("isfinite", tg.isfinite, np.isfinite),
        ("isinf", tg.isinf, np.isinf),
        ("isnan or isinf", lambda x: tg.isnan(x) | tg.isinf(x), lambda x: ~np.isfinite(x)),
    ]
    for note, ours, theirs in tests:
        yield Case(functions.IsFiniteOp, note, ours, (SPECIAL,), theirs)
        yield Case(functions.IsFiniteOp, f"{note} f64", ours, (SPECIAL.astype(np.float64),), theirs)
        yield Case(functions.IsFiniteOp, f"{note} empty", ours, (normal(2, 0),), theirs)
    yield Case(arithmetic.CompareOp, "isnan", tg.isnan, (SPECIAL,), np.isnan)
    yield Case(arithmetic.CompareOp, "isfinite i32", tg.isfinite, (LIMITS,), lambda x: x == x)
    yield Case(arithmetic.SelectOp, "sign", tg.sign, (SPECIAL,), np.sign, rtol=0)
    yield Case(arithmetic.SelectOp, "sign i32", tg.sign, (LIMITS,), np.sign)
    yield Case(arithmetic.SelectOp, "sign u32", tg.sign, (UNSIGNED,), np.sign)
    yield Case(arithmetic.DivOp, "rsqrt", tg.rsqrt, (uniform(0.3, 4, 5),), wide(lambda x: x**-0.5), derivative=True)
    yield Case(arithmetic.DivOp, "reciprocal", tg.reciprocal, (SPECIAL,), wide(lambda x: 1 / x))


def bit_cases() -> Iterator[Case]:
    bits: dict[type[TensorOp], tuple[Function, Function]] = {
        arithmetic.AndOp: (tg.bitwise_and, np.bitwise_and),
        arithmetic.XorOp: (tg.bitwise_xor, np.bitwise_xor),
        arithmetic.ShiftLeftOp: (tg.bitwise_left_shift, np.left_shift),
        arithmetic.ShiftRightOp: (tg.bitwise_right_shift, np.right_shift),
    }
    amounts = i32(0, 1, 5, 31, 32, 33, -1, 2**31 - 1, -(2**31))
    for name, sample in (("i32", LIMITS), ("u32", UNSIGNED)):
        x, y = (part.ravel().copy() for part in np.meshgrid(sample, amounts.astype(sample.dtype)))
        for op, (ours, theirs) in bits.items():
            yield Case(op, f"{name} table", ours, (x, y), theirs)
            yield Case(op, f"{name} outer", ours, (sample.reshape(-1, 1), sample[:4]), theirs)
            yield Case(
                op, f"{name} number", lambda x, f=ours: f(x, 3), (sample,), lambda x, f=theirs: f(x, x.dtype.type(3))
            )
        yield Case(arithmetic.NotOp, name, tg.bitwise_invert, (sample,), np.bitwise_not)
    x, y = boolean(0, 0, 1, 1), boolean(0, 1, 0, 1)
    yield Case(arithmetic.XorOp, "bool", tg.bitwise_xor, (x, y), lambda x, y: x != y)
    yield Case(arithmetic.CompareOp, "logical_xor", tg.logical_xor, (SPECIAL, normal(SPECIAL.size)), np.logical_xor)
    yield Case(arithmetic.AndOp, "logical i32", tg.logical_and, (i32(0, 1, 2, 0), i32(4, 0, 1, 0)), np.logical_and)
    yield Case(arithmetic.OrOp, "logical f32", tg.logical_or, (f32(0, -0.0, np.nan), f32(0, 1, 0)), np.logical_or)
    yield Case(arithmetic.NotOp, "logical i32", tg.logical_not, (i32(0, 1, 2),), np.logical_not)


def quotient_cases() -> Iterator[Case]:
    both: dict[type[TensorOp], tuple[Function, Function]] = {
        arithmetic.FloorDivideOp: (tg.floor_divide, np.floor_divide),
        arithmetic.RemainderOp: (tg.remainder, np.remainder),
    }
    samples = {
        "i32": i32(0, 1, -1, 7, -7, 3, -3, -(2**31), 2**31 - 1),
        "u32": u32(0, 1, 7, 3, 2**31, 2**32 - 1),
        "f32": f32(0.0, -0.0, 1, -1, 2.5, -2.5, 0.3, 7, -7, 1e-3, 1e6, -1e6, 1e-40, np.inf, -np.inf, np.nan),
        "f64": np.array([0.0, -0.0, 1, -1, 2.5, -2.5, 0.3, 7, -7, np.inf, np.nan]),
    }
    for op, (ours, theirs) in both.items():
        for name, sample in samples.items():
            x, y = (part.ravel().copy() for part in np.meshgrid(sample, sample))
            yield Case(op, f"{name} table", ours, (x, y), theirs, rtol=0)
        for seed, (a, b) in enumerate(PAIRS):
            whole = integers(-9, 9, *a, seed=seed), integers(-3, 4, *b, seed=seed)
            yield Case(op, f"i32 {shape_note(a, b)}", ours, whole, theirs)
    for seed, (a, b) in enumerate(PAIRS):
        x, y = uniform(2.6, 3.0, *a, seed=seed), uniform(1.05, 1.2, *b, seed=seed)
        yield Case(
            arithmetic.RemainderOp,
            f"f32 {shape_note(a, b)}",
            tg.remainder,
            (x, y),
            np.remainder,
            derivative=True,
        )
    yield Case(
        arithmetic.FloorDivideOp,
        "mid graph",
        lambda x, y: x * tg.floor_divide(x, y) + y,
        (uniform(2.6, 3.0, 5), uniform(1.05, 1.2, 5)),
        lambda x, y: x * np.floor(x / y) + y,
        derivative=True,
    )
    yield Case(
        arithmetic.RemainderOp,
        "operators",
        lambda x, y: (x % y) * 10 + x // y,
        (i32(7, -7, 5), i32(3, 3, -3)),
        lambda x, y: (x % y) * 10 + x // y,
    )


def _gelu(x: NumpyArray) -> Any:
    return x * 0.5 * ERFC(-x / math.sqrt(2))


def _gelu_tanh(x: NumpyArray) -> Any:
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _elu(x: NumpyArray) -> Any:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def _sigmoid(x: NumpyArray) -> Any:
    return 1 / (1 + np.exp(-x))


ACTIVATIONS: dict[str, tuple[type[TensorOp], Function, Function]] = {
    "leaky_relu": (arithmetic.SelectOp, activations.leaky_relu, lambda x: np.where(x > 0, x, 0.01 * x)),
    "elu": (functions.Expm1Op, activations.elu, _elu),
    "selu": (
        functions.Expm1Op,
        activations.selu,
        lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0))),
    ),
    "gelu": (functions.ErfcOp, activations.gelu, _gelu),
    "gelu tanh": (functions.SigmoidOp, lambda x: activations.gelu(x, approximate="tanh"), _gelu_tanh),
    "silu": (functions.SigmoidOp, activations.silu, lambda x: x * _sigmoid(x)),
    "softplus sharp": (
        functions.SoftplusOp,
        lambda x: activations.softplus(x, 2.5),
        lambda x: np.logaddexp(0, 2.5 * x) / 2.5,
    ),
    "softplus to a threshold": (
        functions.SoftplusOp,
        lambda x: activations.softplus(x, 0.5, 1.3),
        lambda x: np.where(0.5 * x > 1.3, x, np.logaddexp(0, 0.5 * x) / 0.5),
    ),
    "mish": (functions.SoftplusOp, activations.mish, lambda x: x * np.tanh(np.logaddexp(0, x))),
    "hard_tanh": (arithmetic.SelectOp, activations.hard_tanh, lambda x: np.clip(x, -1, 1)),
    "hard_sigmoid": (arithmetic.SelectOp, activations.hard_sigmoid, lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    "clip": (arithmetic.MinimumOp, lambda x: tg.clip(x, -1.2, 0.9), lambda x: np.clip(x, -1.2, 0.9)),
}


def activation_cases() -> Iterator[Case]:
    for name, (op, ours, theirs) in ACTIVATIONS.items():
        yield Case(op, f"{name} 2d", ours, (uniform(-4.01, 4.02, 5, 6),), wide(theirs), derivative=True)
        yield Case(
            op,
            f"{name} twice",
            lambda x, f=ours: f(f(x) * 2),
            (uniform(0.1, 0.4, 3),),
            wide(lambda x, f=theirs: f(f(x) * 2)),
            derivative=True,
        )
        yield Case(op, f"{name} line", ours, (np.linspace(-30, 30, 61, dtype=np.float32),), wide(theirs))
    yield Case(
        arithmetic.MaximumOp,
        "clip below",
        lambda x: tg.clip(x, min=0.1),
        (normal(5),),
        lambda x: np.maximum(x, np.float32(0.1)),
        derivative=True,
    )
    yield Case(
        arithmetic.SelectOp,
        "lerp",
        tg.lerp,
        (normal(4), normal(4, seed=1), uniform(0.1, 0.9, 4)),
        wide(lambda x, y, w: x + w * (y - x)),
        derivative=True,
    )
    yield Case(
        arithmetic.SelectOp,
        "lerp ends",
        lambda x, y: tg.lerp(x, y, f32(0, 1, 0, 1)),
        (normal(4), normal(4, seed=1)),
        lambda x, y: np.where([True, False, True, False], x, y),
        rtol=0,
    )


def function_cases() -> Iterator[Case]:
    """Returns all cases of this file."""
    yield from smooth_cases()
    yield from rounding_cases()
    yield from bit_cases()
    yield from quotient_cases()
    yield from activation_cases()
