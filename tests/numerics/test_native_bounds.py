"""Native code that checks its indices, those of the last lane of vectors included: no access is out of bounds.

An access past the end of an operand otherwise reads whatever lies there, or the padding between two operands, which
changes no result. Extents are odd, so that vectors, blocks, tiles and ranges end in the middle of an axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from case import Case, normal
from cases import CASES
from harness import GRADIENT, Names, NumpyArray, assert_same, reference, traced
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

import tensorgrad as tg
from tensorgrad.dialects.buf import KernelOp
from tensorgrad.passes.codegen.build_program import build_program
from tensorgrad.passes.pipelines import inference_passes
from tensorgrad.runtime.cpu import CpuDevice, CpuExecutable
from tensorgrad.transforms.grad import value_and_grad


def checked(module: ModuleOp, inputs: Sequence[NumpyArray], width: int) -> tuple[set[str], list[NumpyArray]]:
    """Returns the archetypes of a module's kernels and the results, with vectors of `width` bytes.

    Raises:
        DeviceError: An index is out of bounds.
    """
    device, names, archetypes = CpuDevice(), Names(module), set[str]()
    target = replace(device.target, vector_bytes=width, check_bounds=True)
    for pass_ in inference_passes(target):
        pass_.apply(Context(), module)
        if pass_.name == "schedule":
            kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
            archetypes = {kernel.schedule.data.archetype for kernel in kernels if kernel.schedule is not None}
    executable = CpuExecutable(build_program(module, target), device)
    outputs = executable.step(dict(zip(names.arguments, inputs, strict=True)), {})
    return archetypes, [outputs[key.removeprefix("output/")].numpy() for key in names.results]


def normalized(x: Any, w: Any) -> Any:
    y = x - tg.mean(x, axis=-1, keepdims=True)
    return tg.sum(tg.softmax(y * tg.rsqrt(tg.mean(y * y, axis=-1, keepdims=True) + 1e-5)) * w, axis=0)


FAMILIES: Mapping[str, tuple[Callable[..., Any], tuple[NumpyArray, ...], str]] = {
    "product": (lambda x, y: x @ y, (normal(7, 13), normal(13, 37)), "packed"),
    "few columns": (lambda x, y: x @ y, (normal(29, 5), normal(5, 11)), "packed"),
    "transposed columns": (lambda x, y: tg.tanh(x @ tg.transpose(y)), (normal(9, 43), normal(35, 43)), "packed"),
    "transposed rows": (lambda x, y: tg.transpose(x) @ y + 1.0, (normal(43, 9), normal(43, 21)), "packed"),
    "batched": (lambda x, y: tg.relu(x @ y), (normal(3, 7, 9), normal(3, 9, 19)), "packed"),
    "windows": (lambda x, w: tg.conv(x, w, padding=1), (normal(2, 3, 7, 11), normal(5, 3, 3, 3)), "packed"),
    "strided": (lambda x, w: tg.conv(x, w, stride=2), (normal(1, 2, 9, 15), normal(3, 2, 3, 3)), ""),
    "rows": (normalized, (normal(5, 37), normal(5, 37)), "loops"),
    "columns": (lambda x, y: tg.sum(x * y, axis=0), (normal(37, 13), normal(37, 13)), "loops"),
    "all": (lambda x, y: tg.max(x) + tg.mean(x * y), (normal(3, 67), normal(3, 67)), "loops"),
    "shifted": (lambda x, y: tg.exp(x[1:, 2:]) * y[:-1, :-2], (normal(5, 19), normal(5, 19)), "loops"),
    "padded": (lambda x, y: tg.pad(x, ((1, 2), (3, 0))) * tg.sum(y), (normal(5, 19), normal(3)), "loops"),
    "joined": (lambda x, y: tg.concat([x[::-1], y], axis=1), (normal(5, 7), normal(5, 10)), "loops"),
    "flipped": (lambda x, y: tg.transpose(x)[:, ::-1] - y, (normal(5, 19), normal(19, 5)), "loops"),
    "running sums": (lambda x, y: tg.cumsum(x, axis=1) * y, (normal(5, 37), normal(5, 37)), ""),
    "pooled": (lambda x, y: tg.max_pool(x, 3, stride=2) * y, (normal(2, 3, 9, 9), normal(2, 3, 4, 4)), ""),
}
"""For each form of a loop nest a function, its inputs, and the archetype that it is about."""


WIDTHS = (16, 32, 64)
"""Bytes of a vector."""


@pytest.mark.in_turns(6)
@pytest.mark.parametrize("name", FAMILIES)
def test_odd_extents(name: str) -> None:
    """Of a function and its derivatives, with narrow and wide vectors by turns."""
    function, inputs, archetype = FAMILIES[name]
    both = value_and_grad(lambda *arguments: tg.sum(tg.sin(function(*arguments))), argnums=(0, 1))
    module, width = traced(both, inputs), WIDTHS[list(FAMILIES).index(name) % len(WIDTHS)]
    expected = reference(module, inputs)
    archetypes, results = checked(module, inputs, width)
    assert not archetype or archetype in archetypes
    for result, correct in zip(results, expected, strict=True):
        assert_same(result, correct, GRADIENT, name)


@pytest.mark.nightly
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_every_case(case: Case, width: int) -> None:
    (result, *_) = checked(traced(case.function, case.inputs), case.inputs, width)[1]
    assert_same(result, case.value(), case.tolerance, f"{width} bytes")
