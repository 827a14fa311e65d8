"""Integers of 8 to 64 bits, signed and unsigned, at the ends of their ranges: equal results on every device.

All functions of a dtype form one program, so there is one compilation per dtype and device; `make nightly` runs each
function as a separate program, at every level.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from case_programs import on_device
from cases import CASES, spread
from cases_integers import INTEGERS, WHOLE, Whole, grid
from harness import NumpyArray, apply, as_native_code, levels, reference, specs, traced
from xdsl.dialects.builtin import ModuleOp

import tensorgrad as tg
from tensorgrad.dialects.tg import OPS
from tensorgrad.dialects.tg.base import TensorOp, is_integer
from tensorgrad.dialects.tg.build import element_of
from tensorgrad.dialects.tg.collective import CollectiveOp
from tensorgrad.dialects.tg.random import ThreefryOp
from tensorgrad.dialects.tg.shape import PackOp
from tensorgrad.passes.tensors.widen_integers import WIDE, WidenIntegersPass
from tensorgrad.runtime.target import WEBGPU_DEFAULT
from tensorgrad.runtime.webgpu import WebGPUDevice
from tensorgrad.tracing.dtypes import NAMES
from tensorgrad.tracing.tracer import trace

ON_DEVICES = [whole for whole in WHOLE if not whole.has_f64]

ELSEWHERE: dict[type[TensorOp], str] = {
    ThreefryOp: "it takes u32 alone",
    PackOp: "test_packed_updates has it, in floats; it moves elements as a concatenation does",
}
"""Ops on integers that are not in the table, each with its reason. Collectives take processes: test_collectives."""


def module_of(wholes: Sequence[Whole], inputs: Sequence[NumpyArray]) -> ModuleOp:
    return traced(lambda x, y: [whole.function(x, y) for whole in wholes], inputs)


def check(wholes: Sequence[Whole], inputs: Sequence[NumpyArray], results: Sequence[NumpyArray], where: str) -> None:
    assert len(results) == len(wholes)
    for whole, actual in zip(wholes, results, strict=True):
        with np.errstate(all="ignore"):
            expected = np.asarray(whole.expected(*inputs))
        what = f"{whole.id} of {inputs[0].dtype} on {where}"
        assert actual.dtype == expected.dtype and actual.shape == expected.shape, what
        np.testing.assert_array_equal(actual, expected, what)


@pytest.mark.parametrize("name", INTEGERS)
def test_by_numpy(name: str) -> None:
    inputs = grid(NAMES[name])
    check(WHOLE, inputs, reference(module_of(WHOLE, inputs), inputs), "the reference")


@pytest.mark.in_turns(9)
@pytest.mark.parametrize("name", INTEGERS)
def test_as_native_code(name: str) -> None:
    inputs = grid(NAMES[name])
    check(WHOLE, inputs, as_native_code(module_of(WHOLE, inputs), inputs), "the CPU")


@pytest.mark.in_turns(9, 1)
@pytest.mark.parametrize("name", INTEGERS)
def test_on_a_device(device: WebGPUDevice, name: str) -> None:
    inputs = grid(NAMES[name])
    check(ON_DEVICES, inputs, on_device(device, module_of(ON_DEVICES, inputs), inputs), "a device")


@pytest.mark.parametrize("name", [name for name in INTEGERS if NAMES[name].itemsize < 4])
def test_in_words_by_numpy(name: str) -> None:
    """After `widen-integers` there are no narrow integers; values are equal, and traits hold."""
    inputs = grid(NAMES[name])
    module = module_of(WHOLE, inputs)
    apply(WidenIntegersPass(target=WEBGPU_DEFAULT), module)
    values = [value for op in module.walk() if isinstance(op, TensorOp) for value in (*op.operands, *op.results)]
    assert values and not any(element_of(value) in WIDE for value in values)
    wide = [x.astype(f"{x.dtype.kind}4") for x in inputs]
    with np.errstate(all="ignore"):
        expected = [np.asarray(whole.expected(*inputs)) for whole in WHOLE]
    for whole, correct, actual in zip(WHOLE, expected, reference(module, wide), strict=True):
        np.testing.assert_array_equal(actual, correct, whole.id)  # as numbers: a word equals the narrow integer in it


@pytest.mark.parametrize("each", [8, pytest.param(1, marks=pytest.mark.nightly)])
def test_every_op_on_integers_is_here(each: int) -> None:
    covered: set[type[TensorOp]] = set()
    for case in spread(CASES, each):
        module = trace(case.function, *specs(case.inputs))
        for op in module.walk():
            if isinstance(op, TensorOp) and any(is_integer(element_of(x)) for x in (*op.operands, *op.results)):
                covered.add(type(op))
    missing = covered - {whole.op for whole in WHOLE} - ELSEWHERE.keys()
    assert {op.name for op in missing if not issubclass(op, CollectiveOp)} == set()
    assert covered <= set(OPS)


@pytest.mark.nightly
@pytest.mark.parametrize("whole", WHOLE, ids=lambda whole: whole.id)
@pytest.mark.parametrize("name", INTEGERS)
def test_each_at_every_level(device: WebGPUDevice, name: str, whole: Whole) -> None:
    inputs = grid(NAMES[name])
    for level, results in levels(module_of([whole], inputs), inputs):
        check([whole], inputs, results, level)
    check([whole], inputs, as_native_code(module_of([whole], inputs), inputs), "the CPU")
    if not whole.has_f64:
        check([whole], inputs, on_device(device, module_of([whole], inputs), inputs), "a device")


def test_bits_merged_by_masks_beside_a_selection() -> None:
    """LLVM 22 computes a wrong table of truth where AVX-512 has one instruction for both."""
    random, sign = np.random.default_rng(0), np.int32(-(2**31))
    a, b = random.integers(sign, 2**31, (2, 1000), np.int32)
    condition = random.random(1000) > 0.5

    def merged(xp: Any, condition: Any, a: Any, b: Any) -> list[Any]:
        merges = [
            *((a & sign) | (b & ~sign), (b & sign) | (a & ~sign), ((a ^ b) & sign) ^ b, (a & 0xFF) | (b & ~0xFF)),
            *((a & sign) + (b & ~sign), (a | ~sign) & (b | sign), ((a << 8) >> 8) ^ ((b >> 24) << 24)),
        ]
        return [xp.where(condition, *pair) for x in merges for y in (a, b) for pair in ((x, y), (y, x))]

    results = tg.jit(lambda *inputs: merged(tg, *inputs), device="cpu")(condition, a, b)
    for actual, expected in zip(results, merged(np, condition, a, b), strict=True):
        np.testing.assert_array_equal(actual, expected)
