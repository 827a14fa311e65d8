"""Determines how far f32 may be from f64: runs a `tg` module in both, and in f64 with injected rounding errors.

Parker's Monte Carlo arithmetic: the operands and results of every op that rounds are perturbed by a few ulp of f32, at
random, but equal values equally, so that values that are equal by construction stay equal (D. S. Parker, Monte Carlo
Arithmetic, UCLA CSD-970002, 1997). The deviation of results determines the tolerance; if a comparison changes its
outcome, the program is too close to a discontinuity for any tolerance.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from harness import NumpyArray
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, FileLineColLoc, IntAttr, ModuleOp, StringAttr
from xdsl.dialects.func import Func
from xdsl.parser import Parser

from tensorgrad.dialects.tg import Tg
from tensorgrad.dialects.tg.base import TensorOp
from tensorgrad.dialects.tg.control import RegionOp
from tensorgrad.interpreters.tensors import TensorExecutor

EPSILON = float(np.finfo(np.float32).eps)
MOVE = 4 * EPSILON
"""The largest relative error that is put in: f32's rounding, and what the builtins of devices may lose."""

HALF_MOVE = 2.0**-10
"""The same if values between kernels are half floats: their rounding, and that of values computed from them."""

HALF_TINY, HALF_LARGEST = 2.0**-24, 65504.0
"""The smallest half float, by which what underflows is moved, and the largest: what is larger makes all else differ."""

SAFETY = 8
"""The factor by which a tolerance exceeds the largest observed deviation."""

RUNS = 3
"""The number of runs with injected errors."""

EXACT = {
    f"tg.{name}"
    for name in [
        "constant",
        "iota",
        "neg",
        "abs",
        "relu",
        "not",
        "stop_gradient",
        "maximum",
        "minimum",
        "and",
        "or",
        "compare",
        "select",
        "cast",
        "floor",
        "ceil",
        "round",
        "trunc",
        "is_finite",
        "reshape",
        "transpose",
        "broadcast",
        "slice",
        "reverse",
        "pad",
        "concat",
        "pack",
        "max",
        "min",
        "windows",
        "take",
        "take_along_axis",
        "argsort",
        "scan",
        "cond",
        "call",
    ]
}
"""The ops whose results are elements of their operands, or follow from them without rounding."""

STEPS = {"tg.floor", "tg.ceil", "tg.round", "tg.trunc", "tg.floor_divide"}
"""Ops with jumps whose results are floats; those that make something else of floats have jumps too."""

_WIDE = {"0x7f800000": "0x7ff0000000000000", "0xff800000": "0xfff0000000000000", "0x7fc00000": "0x7ff8000000000000"}


def parsed(text: str) -> ModuleOp:
    """Parses a `tg` module."""
    context = Context()
    for dialect in (Builtin, Func, Tg):
        context.load_dialect(dialect)
    module = Parser(context, text).parse_module()
    for op in module.walk():
        op.location = FileLineColLoc(StringAttr("kept"), IntAttr(0), IntAttr(0))
    return module


def widened(module: ModuleOp) -> ModuleOp:
    """Returns the module with f32 replaced by f64."""
    text = re.sub(r"0x[0-9a-f]{8}\b", lambda match: _WIDE[match[0].lower()], str(module), flags=re.IGNORECASE)
    return parsed(re.sub(r"(?<![0-9a-wyz_])f32\b", "f64", text))


@dataclass(frozen=True)
class Rounding:
    """The results of a module in f64, and how far f32 may be from them.

    Attributes:
        expected: The results in f64.
        tolerances: The tolerance of each result; 0 if it is not a float.
        settled: Whether all comparisons had the same outcome regardless of rounding, and all values were finite.
    """

    expected: list[NumpyArray]
    tolerances: list[float]
    settled: bool


def rounding(module: ModuleOp, inputs: Sequence[NumpyArray], half: bool = False) -> Rounding:
    """Runs a module in f32, in f64, and in f64 with injected errors.

    Args:
        module: A `tg` module in f32, with one function.
        inputs: Its arguments in f32.
        half: Whether any value may be rounded to f16.
    """
    wide_inputs = [x.astype(np.float64) if x.dtype == np.float32 else x for x in inputs]
    wide = widened(module)
    expected, branches = _run(wide, wide_inputs, None)
    others = [_run(module, inputs, None), *(_run(wide, wide_inputs, seed, half) for seed in range(1, RUNS + 1))]
    settled = all(_alike(branches, other_branches) for _, other_branches in others)
    tolerances: list[float] = []
    for position, value in enumerate(expected):
        if value.dtype.kind != "f":
            tolerances.append(0.0)
            continue
        runs = [np.asarray(results[position], np.float64) for results, _ in others]
        settled = settled and all(np.isfinite(run).all() for run in (value, *runs))
        with np.errstate(all="ignore"):
            seen = max(float(np.abs(run - value).max(initial=0.0)) for run in runs)
            scale = float(np.abs(value).max(initial=0.0))
        tolerances.append(SAFETY * (seen + EPSILON * scale))
    return Rounding(expected, tolerances, settled)


def _alike(first: Sequence[NumpyArray], second: Sequence[NumpyArray]) -> bool:
    return len(first) == len(second) and all(map(np.array_equal, first, second))


def _run(
    module: ModuleOp, inputs: Sequence[NumpyArray], seed: int | None, half: bool = False
) -> tuple[list[NumpyArray], list[NumpyArray]]:
    """Returns the results, and those of every discontinuous op, with injected errors if there is a seed."""
    branches: list[NumpyArray] = []
    executor = TensorExecutor(module, observe=lambda op, evaluate: _watched(op, evaluate, branches, seed, half))
    return executor.call(inputs), branches


def _watched(
    op: TensorOp | RegionOp, evaluate: Callable[..., Any], branches: list[NumpyArray], seed: int | None, half: bool
) -> Callable[..., Any]:
    if isinstance(op, RegionOp):
        return evaluate  # its body's ops are watched
    exact = seed is None or op.name in EXACT

    def watched(*values: NumpyArray) -> NumpyArray:
        arguments = values if exact else [_moved(value, seed, half) for value in values]
        result = evaluate(*arguments)
        from_floats = any(value.dtype.kind == "f" for value in values)
        if from_floats and (op.name in STEPS or result.dtype.kind != "f"):
            branches.append(np.array(result))
        elif from_floats and op.name == "tg.remainder":
            branches.append(np.floor(arguments[0] / arguments[1]))
        return result if exact else _moved(result, seed, half)

    return watched


def _moved(value: NumpyArray, seed: int | None, half: bool) -> NumpyArray:
    """Returns floats with relative errors up to `MOVE`, or that of f16, determined by their bits and the seed."""
    if seed is None or value.dtype != np.float64:
        return value
    with np.errstate(over="ignore"):
        bits = np.ascontiguousarray(value).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9 + 2 * seed)
    share = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0
    share = share.reshape(value.shape)
    if not half:
        return np.asarray(value * (1.0 + MOVE * share))
    moved = value * (1.0 + HALF_MOVE * share) + np.where(value == 0, 0.0, HALF_TINY * share)
    return np.where(np.abs(moved) > HALF_LARGEST, np.copysign(np.inf, moved), moved)
