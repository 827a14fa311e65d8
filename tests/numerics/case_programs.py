"""Cases of the op table in programs, one or many in each, compared with numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeAlias

import numpy as np
import tint
from case import Case
from differences import float_positions, in_f64, mid_graph, mid_graph_inputs
from harness import GRADIENT, Names, NumpyArray, assert_same, lower, reference, traced
from xdsl.dialects.builtin import ModuleOp

from tensorgrad.passes.codegen.build_program import build_program
from tensorgrad.runtime.webgpu import WebGPUDevice, WebGPUExecutable
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.transforms.grad import value_and_grad

Run: TypeAlias = Callable[[ModuleOp, Sequence[NumpyArray]], list[NumpyArray]]

CASES_OF_A_PROGRAM = 16


def programs(cases: Sequence[Case]) -> dict[str, list[Case]]:
    """Returns the cases by family of ops, in parts of a program each."""
    families: dict[str, list[Case]] = {}
    for case in cases:
        families.setdefault(case.op.__module__.rpartition(".")[2], []).append(case)
    return {
        f"{family}-{start // CASES_OF_A_PROGRAM}": members[start : start + CASES_OF_A_PROGRAM]
        for family, members in families.items()
        for start in range(0, len(members), CASES_OF_A_PROGRAM)
    }


def on_device(
    device: WebGPUDevice, module: ModuleOp, inputs: Sequence[NumpyArray], each: bool = True
) -> list[NumpyArray]:
    """Returns the results of a `tg` module, in order; Tint validates its kernels in standard WGSL too.

    Integers of 64 bits are none of the standard's. The module is checked after `each` pass, or else after each level.
    """
    target, names = device.target, Names(module)
    lower(module, target, each)
    program = build_program(module, target)
    if program.target is not None and not program.target.int64:
        tint.check(build_program(module, replace(target, shader_dialect="standard")))
    executable = WebGPUExecutable(program, device, trusted=True)
    outputs = executable.step(dict(zip(names.arguments, inputs, strict=True)), {})
    return [outputs[key.removeprefix("output/")].numpy() for key in names.results]


def joined(functions: Sequence[Callable[..., Sequence[Tensor]]], counts: Sequence[int]) -> Callable[..., list[Tensor]]:
    """Returns the function of the arguments of all functions that returns all of their results."""

    def function(*arguments: Tensor) -> list[Tensor]:
        rest = iter(arguments)
        return [
            result for member, count in zip(functions, counts, strict=True) for result in member(*islice(rest, count))
        ]

    return function


def alone_where_it_fails(check: Callable[[Sequence[Case], Run], None], cases: Sequence[Case], run: Run) -> None:
    """Checks cases together; if that fails, each alone, for the error of the first that fails alone too."""
    try:
        check(cases, run)
    except Exception:
        for case in cases if len(cases) > 1 else ():
            check([case], run)
        raise


def check_values(cases: Sequence[Case], run: Run) -> None:
    functions = [lambda *xs, case=case: [case.function(*xs)] for case in cases]
    inputs = [x for case in cases for x in case.inputs]
    results = run(traced(joined(functions, [len(case.inputs) for case in cases]), inputs), inputs)
    for case, result in zip(cases, results, strict=True):
        expected = case.value()
        assert result.dtype == expected.dtype, case.id
        assert_same(result, expected, case.tolerance, case.id)


def gradients(case: Case, inputs: Sequence[NumpyArray]) -> Callable[..., list[Tensor]]:
    """Returns the function that returns the case's value in the middle of a graph, and its gradients."""
    both = value_and_grad(mid_graph(case.function), argnums=tuple(float_positions(inputs)))

    def function(*arguments: Tensor) -> list[Tensor]:
        value, slopes = both(*arguments)
        return [value, *slopes]

    return function


def check_gradients(cases: Sequence[Case], run: Run, width: type[np.floating] = np.float32) -> None:
    of_each = [[np.asarray(x, width) if x.dtype.kind == "f" else x for x in mid_graph_inputs(case)] for case in cases]
    inputs = [x for some in of_each for x in some]
    functions = [gradients(case, some) for case, some in zip(cases, of_each, strict=True)]
    results = iter(run(traced(joined(functions, [len(some) for some in of_each]), inputs), inputs))
    bound = GRADIENT if width is np.float32 else 1e-9
    for case, function, some in zip(cases, functions, of_each, strict=True):
        wide = in_f64(some)
        for expected in reference(traced(function, wide), wide):
            result = next(results)
            assert result.dtype == width, case.id
            assert result.shape == expected.shape, case.id
            scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
            np.testing.assert_allclose(result, expected, rtol=0, atol=bound * scale, err_msg=case.id)


def check_wide_gradients(cases: Sequence[Case], run: Run) -> None:
    """In f64 wrong semantics shows that roundings of f32 hide."""
    check_gradients(cases, run, np.float64)
