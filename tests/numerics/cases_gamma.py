"""Cases of the gamma function's logarithm and of the polygamma functions, beside SciPy's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from case import SHAPES, SPECIAL, Case, NumpyArray, f32, i32, uniform
from cases_arithmetic import shape_note, wide
from scipy import special

import tensorgrad as tg
from tensorgrad.dialects.tg.elementwise.gamma import LgammaOp, PolygammaOp

ORDERS = (0, 1, 2)
NEGATIVE = f32(-0.5, -1.25, -1.75, -2.5, -3.3, -20.2, -100.4)
POLES = f32(0.0, -0.0, -1.0, -2.0, -100.0, -8388609.0, -1e30, np.inf, -np.inf, np.nan)


def lgamma(x: NumpyArray) -> NumpyArray:
    """Returns SciPy's, with C's limit at -infinity, where SciPy's is -infinity."""
    return np.where(np.isinf(x), np.inf, special.gammaln(x))


def polygamma(order: int) -> Callable[[NumpyArray], NumpyArray]:
    """Returns SciPy's, but for even orders at poles: SciPy's are -infinity, except for order 0."""

    def function(x: NumpyArray) -> NumpyArray:
        value = special.polygamma(order, x)
        if order % 2:
            return value
        pole = np.where(x == 0, np.copysign(np.inf, -x), np.nan)
        return np.where((x <= 0) & (np.floor(x) == x), pole, value)

    return function


def _ours(order: int) -> Callable[[Any], tg.Tensor]:
    return tg.digamma if order == 0 else lambda x: tg.polygamma(order, x)


def gamma_cases() -> Iterator[Case]:
    """Returns all cases of this file."""
    grid = np.linspace(-20, 20, 163, dtype=np.float32)
    near = f32(0.99999994, 1.0, 1.0000001, 1.9999999, 2.0, 2.0000002, 1e-6, 0.5, 7.9999995, 8.0, 1e3, 1e10, 3e36, 1e-40)
    functions = [(LgammaOp, "", tg.lgamma, lgamma), *((PolygammaOp, f" {n}", _ours(n), polygamma(n)) for n in ORDERS)]
    for op, note, ours, theirs in functions:
        expected = wide(theirs)
        for name, x in {"special": SPECIAL, "poles": POLES, "line": grid, "near": near, "negative": NEGATIVE}.items():
            yield Case(op, f"{name}{note}", ours, (x,), expected)
        yield Case(op, f"f64{note}", ours, (grid.astype(np.float64),), theirs, rtol=1e-13)
    for op, note, ours, theirs in functions[:3]:
        yield Case(op, f"slope{note}", ours, (uniform(0.7, 4, 5),), wide(theirs), derivative=True)
        yield Case(op, f"slope below 0{note}", ours, (uniform(-1.7, -1.3, 5),), wide(theirs), derivative=True)
    for order in (3, 8, 30):
        x = uniform(5, 9, 7)  # where the results aren't large, so that their differences are meaningful
        yield Case(PolygammaOp, f"order {order}", _ours(order), (x,), wide(polygamma(order)), rtol=2e-5)
    for seed, shape in enumerate(SHAPES):
        x = uniform(0.5, 4, *shape, seed=seed)
        yield Case(LgammaOp, shape_note(shape), tg.lgamma, (x,), wide(lgamma), derivative=True)
    yield Case(LgammaOp, "i32", tg.lgamma, (i32(1, 2, 5),), lambda x: lgamma(x).astype(np.float32))
