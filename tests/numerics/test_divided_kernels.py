"""Kernels whose buffers can't be bound whole run in parts: reductions, gathers, concatenations, copies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from harness import Names, NumpyArray, apply, assert_same, on_buffers, reference, traced
from test_limits import compiled, embedding_gradient, normal, rows, run
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

import tensorgrad as tg
from tensorgrad.dialects.buf import KernelOp
from tensorgrad.passes.pipelines import Phase, inference_passes, until
from tensorgrad.runtime.target import WEBGPU_DEFAULT, Target
from tensorgrad.runtime.webgpu import WebGPUDevice

PAGE = 4096

NARROW = replace(WEBGPU_DEFAULT, name="narrow", max_storage_buffer_binding_size=PAGE, max_buffer_size=1 << 20)
"""A binding holds 4 KiB: the larger arrays below are twelve, where a kernel may have eight."""

SOFTWARE = replace(NARROW, name="narrow-software", software=True, max_loop_iterations=65535)
"""The same, with the schedules of a software adapter."""


def clipped(*gradients: Any) -> Any:
    norm = tg.sqrt(sum(tg.sum(gradient * gradient) for gradient in gradients))
    return tuple(gradient / (1 + norm) for gradient in gradients)


def flat_gather(x: Any, at: Any) -> Any:
    """Gathers at indices of which some are out of range, which gives NaN."""
    return tg.exp(tg.embedding(x, at)) + 1


X, Y = normal(200, 60), normal(200, 61)[:, :60].copy()

SUMMANDS = np.abs(X)
"""Terms of one sign: their sums in any order agree to a few ulp."""

TIED = np.round(normal(4500) * 8) / 8
"""Many equal numbers, and what is larger or smaller than all others."""
TIED[[5, 4200]], TIED[[7, 4300]], TIED[[9, 2000]] = np.nan, np.inf, -np.inf

WHOLE = rows(2500) - 50
WHOLE[[3, 2400]], WHOLE[[4, 2300]] = 2**31 - 1, -(2**31)

MANY = (rows(2700) * 17 % 103).astype(np.int32)
"""Indices of which some are outside of what is made of a hundred."""

EXACT: dict[str, tuple[Callable[..., Any], tuple[NumpyArray, ...], int]] = {
    "max over rows": (lambda x: tg.max(x, 0), (X,), 2),
    "max": (tg.max, (X,), 2),
    "argmax": (lambda x: tg.argmax(x, 0), (X,), 17),
    "flip": (lambda x: tg.flip(x, 0), (X,), 3),
    "slice": (lambda x: x[3:190] * 2, (X,), 3),
    "slice of columns": (lambda x: x[:, 3:50] * 2, (X,), 3),
    "pad": (lambda x: tg.pad(x, ((1, 1), (1, 1))), (X,), 12),
    "stack": (lambda x, y: tg.stack([x, y]), (X, Y), 6),
    "transpose": (lambda x: tg.swapaxes(x, 0, 1) * 2, (X,), 13),
    "permutation": (lambda x: tg.transpose(x, (1, 0, 2)) * 2, (normal(10, 20, 60),), 10),
    "reshape": (lambda x, y: tg.reshape(x, (60, 200)) * y, (X, normal(60, 200)), 6),
    "concat": (lambda *parts: tg.concat(parts), (X, Y), 6),
    "concat of columns": (lambda *parts: tg.concat(parts, 1), tuple(normal(60, 60 + i) for i in range(5)), 7),
    "concat of nine": (lambda *parts: tg.concat(parts), tuple(normal(100 + i, 20) for i in range(9)), 12),
    "gather": (tg.embedding, (X, rows(20)), 4),
    "gather of many": (tg.embedding, (X, rows(300)), 21),
    "along an axis": (lambda x, at: tg.take_along_axis(x, at[:, None], 1), (X, rows(200) % 60), 3),
    "max pool": (lambda x: tg.max_pool(x, 2), (normal(4, 7, 26, 26),), 4),
    "sort": (lambda x: tg.sort(x, 1), (X,), 40),
    "sort over rows": (lambda x: tg.sort(x, 0), (X,), 141),
    "argsort": (tg.argsort, (TIED,), 45),
    "argsort falling": (lambda x: tg.argsort(x, descending=True), (TIED,), 45),
    "argsort of integers": (lambda x: tg.argsort(x, descending=True), (WHOLE,), 21),
    "argsort of long rows": (lambda x: tg.argsort(x, 1), (TIED.reshape(3, 1500).view(np.uint32),), 22),
    "top k": (lambda x: tg.top_k(x, 9), (TIED,), 11),
    "scatter of integers": (lambda x, u, at: x.at[at].add(u), (MANY * 3, MANY + 5, MANY), 23),
    "scatter along rows": (
        lambda x, at, u: tg.scatter_add(x, 0, at, u),
        (rows(90, 9), (MANY % 90).reshape(300, 9), MANY.reshape(300, 9)),
        12,
    ),
}
"""Functions that only move and compare values, so their results equal numpy's, bit for bit."""

ROUNDED: dict[str, tuple[Callable[..., Any], tuple[NumpyArray, ...], int]] = {
    "sum over rows": (lambda x: tg.sum(x, 0), (SUMMANDS,), 2),
    "sum": (tg.sum, (SUMMANDS,), 2),
    "sum of a prime": (tg.sum, (np.abs(normal(9973)),), 2),
    "mean": (tg.mean, (SUMMANDS,), 3),
    "norm": (lambda x: tg.sqrt(tg.sum(x * x)), (X,), 16),
    "clipping": (clipped, (X, Y), 31),
    "softmax over rows": (lambda x: tg.softmax(x, 0), (X,), 30),
    "gather outside": (flat_gather, (X, np.concatenate([rows(97), [250, -1, 9999, -300]]).astype(np.int32)), 14),
    "scatter": (embedding_gradient, (X, rows(50)), 17),
    "scatter of many": (embedding_gradient, (X, rows(300)), 76),
    "scatter by segments": (embedding_gradient, (normal(100, 4), MANY), 30),
    "product": (lambda x, y: x @ y, (SUMMANDS, np.abs(normal(60, 90))), 13),
    "product over rows": (lambda x, y: tg.swapaxes(x, 0, 1) @ y, (SUMMANDS, np.abs(Y)), 7),
    "running sum": (lambda x: tg.cumsum(x, 0), (SUMMANDS,), 62),
    "convolution": (tg.conv2d, (np.abs(normal(4, 3, 25, 25)), np.abs(normal(7, 3, 3, 3))), 4),
}
"""Functions that compute: sums in parts are sums in another order."""

CASES = EXACT | ROUNDED


def lowered(name: str, target: Target) -> tuple[ModuleOp, list[NumpyArray], Names, tuple[NumpyArray, ...]]:
    """Returns a case lowered to `buf`, planned and divided; the expected result, names and inputs."""
    function, inputs, _ = CASES[name]
    module = traced(function, inputs)
    expected, names = reference(module, inputs), Names(module)
    for pass_ in until(Phase.DEVICE, inference_passes(target)):
        apply(pass_, module)
    module.verify()
    return module, expected, names, inputs


@pytest.mark.in_turns(18, 17)
@pytest.mark.parametrize("name", CASES)
def test_a_kernel_is_divided_for_a_device(device: WebGPUDevice, name: str) -> None:
    function, inputs, kernels = CASES[name]
    assert len(run(device, NARROW, function, *inputs).plan) == kernels


BY_ONE_THREAD = [
    "argmax",
    "product over rows",
    "argsort",
    "concat",
    "scatter by segments",
    "scatter of many",
    "gather",
    "sum over rows",
]


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("name", BY_ONE_THREAD)
def test_a_kernel_is_divided_for_a_software_adapter(device: WebGPUDevice, name: str) -> None:
    function, inputs, kernels = CASES[name]
    assert len(run(device, SOFTWARE, function, *inputs).plan) == kernels


@pytest.mark.nightly
@pytest.mark.parametrize("name", CASES)
def test_parts_read_nothing_that_is_not_defined(name: str) -> None:
    """Everything except live values is poisoned."""
    module, expected, names, inputs = lowered(name, NARROW)
    for key, result, correct in zip(names.results, on_buffers(module, inputs, names), expected, strict=True):
        if name in EXACT:
            np.testing.assert_array_equal(result, correct, err_msg=key)
        else:
            assert_same(result, correct, 5e-6, key)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("gather", -2),
        ("sum over rows", -1),
        ("product over rows", -1),
        pytest.param("argsort", -1, marks=pytest.mark.nightly),
    ],
)
def test_a_lost_part_is_found(name: str, part: int) -> None:
    """The checks above can fail: without one of the parts, values are missing."""
    module, expected, names, inputs = lowered(name, NARROW)
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    kernels[part].detach()
    kernels[part].erase()
    with pytest.raises(AssertionError):
        for key, result, correct in zip(names.results, on_buffers(module, inputs, names), expected, strict=True):
            assert_same(result, correct, 5e-6, key)


@pytest.mark.nightly
def test_what_no_division_helps_is_refused() -> None:
    """Each part needs a window of four buffers, whose elements are chosen by values in other buffers."""
    target = replace(NARROW, max_storage_buffers_per_shader_stage=3)
    message = r"the kernel made at \S*test_divided_kernels.py:\d+ needs \d+ bindings, narrow has 3; a tensor of "
    with pytest.raises(DiagnosticException, match=message + r"memref<5x1024xi32> alone takes 5, for its 20480 bytes"):
        compiled(traced(lambda x: tg.argsort(x), (TIED,)), target)
