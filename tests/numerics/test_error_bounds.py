"""The error bounds in the docstrings of elementary functions hold on a device and in the reference."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from arithmetic import SMALLEST_NORMAL, flushes_subnormals
from cases_gamma import lgamma, polygamma
from cases_random import inverse
from harness import Names, NumpyArray, apply, as_native_code, reference, traced
from xdsl.dialects.builtin import ModuleOp

from tensorgrad.dialects.tg import OPS, random
from tensorgrad.dialects.tg.base import TensorOp, integer
from tensorgrad.dialects.tg.elementwise import functions, gamma
from tensorgrad.dialects.tg.elementwise.arithmetic import UnaryOp
from tensorgrad.passes.codegen.build_program import build_program
from tensorgrad.passes.pipelines import inference_passes
from tensorgrad.runtime.webgpu import WebGPUDevice, WebGPUExecutable
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.tracing.tracer import emit

EXACT: dict[type[TensorOp], Callable[[NumpyArray], Any]] = {
    functions.ExpOp: np.exp,
    functions.LogOp: np.log,
    functions.SqrtOp: np.sqrt,
    functions.SinOp: np.sin,
    functions.CosOp: np.cos,
    functions.TanhOp: np.tanh,
    functions.SigmoidOp: lambda x: 1 / (1 + np.exp(-x)),
    functions.Exp2Op: np.exp2,
    functions.Expm1Op: np.expm1,
    functions.Log2Op: np.log2,
    functions.Log1pOp: np.log1p,
    functions.TanOp: np.tan,
    functions.AsinOp: np.arcsin,
    functions.AcosOp: np.arccos,
    functions.AtanOp: np.arctan,
    functions.SinhOp: np.sinh,
    functions.CoshOp: np.cosh,
    functions.AsinhOp: np.arcsinh,
    functions.AcoshOp: np.arccosh,
    functions.AtanhOp: np.arctanh,
    functions.ErfOp: np.vectorize(math.erf, otypes=[np.float64]),
    functions.ErfcOp: np.vectorize(math.erfc, otypes=[np.float64]),
    functions.SoftplusOp: lambda x: np.where(x > 30, x, np.log1p(np.exp(np.minimum(x, 30)))),
    random.ErfinvOp: inverse,
}
"""Each function, in f64."""

NUMPY_BOUND = 4.0
"""What the docstrings promise of the reference."""


def bound(op: type[TensorOp]) -> float:
    """Returns the bound in an op's docstring, in ulp."""
    match = re.search(r"[Ww]ithin (\d+) ulp", op.__doc__ or "")
    assert match, f"{op.name} states no bound"
    return float(match[1])


def samples() -> NumpyArray:
    """Returns every magnitude, ranges of high curvature, and multiples of pi / 2, where sine and cosine are near 0."""
    bits = np.arange(0, 2**32, 160009, dtype=np.uint64).astype(np.uint32).view(np.float32)
    ranges = (np.linspace(-110, 110, 8001), np.linspace(-1.5, 1.5, 8001), 1 + np.linspace(-1e-3, 1e-3, 1001))
    turns = np.pi / 2 * np.concatenate([np.arange(1, 2000), 2.0 ** np.arange(11, 100)])
    return np.concatenate([bits, *(part.astype(np.float32) for part in (*ranges, turns))])


def error(actual: NumpyArray, exact: NumpyArray) -> NumpyArray:
    """Returns the error in ulp of f32; infinity follows the largest number, and NaN equals NaN."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        unit = np.maximum(np.spacing(np.abs(rounded)).astype(np.float64), 2.0**-149)
        distance = np.abs(actual - exact) / unit
    same = ((actual == rounded) & ~np.isfinite(rounded)) | (np.isnan(actual) & np.isnan(rounded))
    edge = np.isinf(actual) & (np.abs(exact) > 3.4028e38) & (np.sign(actual) == np.sign(exact))
    return np.where(same | edge, 0.0, np.where(np.isnan(distance), np.inf, distance))


def all_functions(x: Tensor) -> tuple[Tensor, ...]:
    return tuple(emit(op, [x]) for op in EXACT)


def on_device(device: WebGPUDevice, module: ModuleOp, inputs: list[NumpyArray]) -> list[NumpyArray]:
    names = Names(module)
    for pass_ in inference_passes(device.target):
        apply(pass_, module)
    executable = WebGPUExecutable(build_program(module, device.target), device, trusted=True)
    outputs = executable.step(dict(zip(names.arguments, inputs, strict=True)), {})
    return [outputs[key.removeprefix("output/")].numpy() for key in names.results]


def results_at(device: WebGPUDevice, where: str, module: ModuleOp, x: NumpyArray) -> list[NumpyArray]:
    if where == "device":
        return on_device(device, module, [x])
    return as_native_code(module, [x]) if where == "native code" else reference(module, [x])


ORDERS = (0, 1, 2, 5)


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("where", ["device", "native code", "reference"])
def test_gamma_functions_keep_their_bounds(device: WebGPUDevice, where: str) -> None:
    """Also relative to the sizes of sums that cancel below 0, and around the zero of the digamma function."""
    near = [zero + np.linspace(-1e-4, 1e-4, 201) for zero in (1, 1.4616321449683623, 2)]
    parts = (np.linspace(-20.01, 20.01, 4001), np.logspace(-30, 30, 999), *near)
    x = np.concatenate([part.astype(np.float32) for part in parts])

    def functions_of(x: Tensor) -> tuple[Tensor, ...]:
        orders = (emit(gamma.PolygammaOp, [x], order=integer(order)) for order in ORDERS)
        return (emit(gamma.LgammaOp, [x]), *orders)

    first, *others = results_at(device, where, traced(functions_of, [x]), x)
    exact = lgamma(x.astype(np.float64))
    assert error(first, exact)[x > 0].max() <= bound(gamma.LgammaOp)
    assert scaled_error(first, exact, 1) <= 12
    for order, actual in zip(ORDERS, others, strict=True):
        exact = polygamma(order)(x.astype(np.float64))
        off = scaled_error(actual, exact, math.factorial(order) * 2 ** (order + 1))
        assert off <= 2 * order + 10, f"order {order}: {off} ulp"
        assert not order or error(actual, exact)[(x > 0) & (np.abs(exact) > 1e-37)].max() <= 2 * order + 10


def scaled_error(actual: NumpyArray, exact: NumpyArray, scale: float) -> float:
    """Returns the largest error, in ulp of the larger of a scale and the exact result."""
    finite = np.abs(exact) < 1e38
    unit = np.spacing(np.maximum(np.abs(exact[finite]), scale).astype(np.float32)).astype(np.float64)
    return float((np.abs(actual[finite] - exact[finite]) / unit).max())


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("where", ["device", "native code", "reference"])
def test_functions_keep_their_bounds(device: WebGPUDevice, where: str) -> None:
    x = samples()
    results = results_at(device, where, traced(all_functions, [x]), x)
    for op, actual in zip(EXACT, results, strict=True):
        with np.errstate(all="ignore"):
            exact = np.asarray(EXACT[op](x.astype(np.float64)))
        off = error(actual, exact)
        if where == "device" and flushes_subnormals():
            off[(np.abs(exact) < SMALLEST_NORMAL) & (actual == 0)] = 0
        worst = int(off.argmax())
        allowed = max(bound(op), NUMPY_BOUND if where == "reference" else 0)
        assert off[worst] <= allowed, f"{op.name}({x[worst]}) gave {actual[worst]} for {exact[worst]}: {off[worst]} ulp"
        zero = (exact == 0) & (actual == 0)
        np.testing.assert_array_equal(np.signbit(actual)[zero], np.signbit(exact)[zero], op.name)


def test_every_bound_of_a_function_is_measured() -> None:
    """An op whose docstring claims a bound needs its function in f64 here."""
    measured = {*EXACT, gamma.LgammaOp}
    stated = {op for op in OPS if re.search(r"[Ww]ithin \d+ ulp", op.__doc__ or "") and issubclass(op, UnaryOp)}
    assert {op.name for op in stated - measured} == set()


def test_every_function_that_rounds_states_a_bound() -> None:
    kinds = [op for op in OPS if op.__module__ in (functions.__name__, gamma.__name__)]
    silent = [
        op.name for op in kinds if not re.search(r"within \d+ (n \+ \d+ )?ulp|; exact|NaN stays NaN", op.__doc__ or "")
    ]
    exact = {"tg.is_finite"}
    assert set(silent) == exact
