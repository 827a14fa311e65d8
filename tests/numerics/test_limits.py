"""Programs stay within the limits of their target and compute the same results there, or are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from case import Case
from cases import ON_DEVICE
from differences import float_positions, mid_graph, mid_graph_inputs
from harness import Names, NumpyArray, apply, assert_same, reference, traced
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

import tensorgrad as tg
from benchmarks.workloads import NAMES, workload
from tensorgrad.errors import ProgramError
from tensorgrad.passes.codegen.build_program import build_program
from tensorgrad.passes.pipelines import inference_passes
from tensorgrad.runtime.plan import Dispatch
from tensorgrad.runtime.program import Program
from tensorgrad.runtime.target import WEBGPU_DEFAULT, Target
from tensorgrad.runtime.webgpu import WebGPUDevice, WebGPUExecutable
from tensorgrad.transforms.grad import value_and_grad

FEW = replace(
    WEBGPU_DEFAULT,
    name="few",
    max_storage_buffers_per_shader_stage=4,
    max_compute_workgroup_size_x=32,
    max_compute_workgroup_size_y=4,
    max_compute_workgroup_size_z=1,
    max_compute_invocations_per_workgroup=64,
    max_compute_workgroup_storage_size=2048,
)
"""Few bindings and small workgroups."""

CHUNKED = replace(WEBGPU_DEFAULT, name="chunked", max_storage_buffer_binding_size=1 << 21, max_buffer_size=1 << 22)
"""As the default, a buffer may be twice as large as a binding; some of the benchmarks' tensors are larger than that."""

SMALL = replace(WEBGPU_DEFAULT, name="small", max_storage_buffer_binding_size=4096, max_buffer_size=16384)
"""Tensors of a test are larger than a binding."""

LIMITS = [field.name for field in fields(Target) if field.name.startswith("max_") and "iterations" not in field.name]

SAMPLE = ON_DEVICE[::48]


def assert_within(program: Program, target: Target) -> None:
    """Checks a program's requirements, as counted from its kernels and buffers, and by the runtime's own rules."""
    assert program.target is not None
    for name in LIMITS:
        assert getattr(program.target, name) <= getattr(target, name), name
    program.check_fits(target)


def compiled(module: ModuleOp, target: Target) -> Program:
    """Returns the program of a `tg` module."""
    for pass_ in inference_passes(target):
        pass_.apply(Context(), module)
    return build_program(module, target)


def modules(case: Case) -> list[ModuleOp]:
    """Returns a case's function, and the gradient of a program around it."""
    traces = [traced(case.function, case.inputs)]
    if case.derivative:
        inputs = [np.asarray(x, np.float32) if x.dtype.kind == "f" else x for x in mid_graph_inputs(case)]
        function = value_and_grad(mid_graph(case.function), argnums=tuple(float_positions(inputs)))
        traces.append(traced(function, inputs))
    return traces


def check_case(case: Case, target: Target) -> None:
    for module in modules(case):
        assert_within(compiled(module, target), target)


on_targets = pytest.mark.parametrize("target", [WEBGPU_DEFAULT, FEW], ids=lambda target: target.name)


@pytest.mark.in_turns(8)
@on_targets
@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.id)
def test_a_case_keeps_to_limits(case: Case, target: Target) -> None:
    check_case(case, target)


@pytest.mark.nightly
@on_targets
@pytest.mark.parametrize("case", [case for case in ON_DEVICE if case not in SAMPLE], ids=lambda case: case.id)
def test_every_case_keeps_to_limits(case: Case, target: Target) -> None:
    check_case(case, target)


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_a_training_step_keeps_to_limits(name: str) -> None:
    training, _ = workload(name)("numpy")
    for target in (WEBGPU_DEFAULT, FEW, CHUNKED):
        assert_within(training.program_for(str(target)), target)


def chunks(program: Program, target: Target) -> int:
    """Returns the number of bindings of the maximum size."""
    steps = [step for step in program.plan if isinstance(step, Dispatch)]
    return sum(binding.size == target.max_storage_buffer_binding_size for step in steps for binding in step.bindings)


def run(device: WebGPUDevice, target: Target, function: Any, *inputs: NumpyArray) -> Program:
    """Compares the results of a program for a target with the reference."""
    module = traced(function, inputs)
    expected, names = reference(module, inputs), Names(module)
    for pass_ in inference_passes(target):
        apply(pass_, module)
    program = build_program(module, target)
    assert_within(program, target)
    everywhere = replace(program, target=None)  # the device has more than the target
    executable = WebGPUExecutable(everywhere, device, trusted=True)
    outputs = executable.step(dict(zip(names.arguments, inputs, strict=True)), {})
    for key, correct in zip(names.results, expected, strict=True):
        assert_same(outputs[key.removeprefix("output/")].numpy(), correct, 5e-6, key)
    return program


def normal(*shape: int) -> NumpyArray:
    return np.random.default_rng([7, *shape]).normal(size=shape).astype(np.float32)


def rows(*shape: int) -> NumpyArray:
    return np.random.default_rng([5, *shape]).integers(0, 100, shape).astype(np.int32)


def embedding_gradient(table: Any, at: Any) -> Any:
    return tg.grad(lambda table: tg.sum(tg.embedding(table, at) ** 2))(table)


def recurrence(xs: Any, h: Any) -> Any:
    return tg.scan(lambda h, x: (tg.tanh(h + x), h * x), h, xs)


LARGE: dict[str, tuple[Callable[..., Any], tuple[NumpyArray, ...]]] = {
    "pointwise": (lambda x, y: tg.exp(x) * y, (normal(60, 33), normal(60, 33))),
    "reverse": (lambda x: tg.flip(tg.cumsum(x, 0), 1), (normal(40, 50),)),
    "product": (lambda x, y: x @ y, (normal(60, 33), normal(33, 60))),
    "product over rows": (lambda x, y: tg.swapaxes(x, 0, 1) @ y, (normal(60, 33), normal(60, 33))),
    "softmax": (tg.softmax, (normal(40, 50),)),
    "sum over rows": (lambda x: tg.sum(x, 0), (normal(40, 50),)),
    "sum": (tg.sum, (normal(40, 50),)),
    "known places": (lambda x: tg.concat([x[1999:2000], x[5:6], x[1030:1031]]), (normal(2000),)),
    "gather": (tg.embedding, (normal(100, 20), rows(50))),
    "scatter": (embedding_gradient, (normal(100, 20), rows(50))),
    "convolution": (tg.conv2d, (normal(1, 3, 25, 25), normal(7, 3, 3, 3))),
    "sort": (lambda x: tg.sort(x, 1), (normal(5, 400),)),
    "scan": (recurrence, (normal(50, 4, 10), normal(4, 10))),
    "concat": (lambda *parts: tg.concat(parts), tuple(normal(20 + i, 20) for i in range(4))),
}
"""Functions, and inputs of which some are larger than a binding of `SMALL`, or their results are."""


@pytest.mark.in_turns(4)
@pytest.mark.parametrize("base", [SMALL, replace(SMALL, software=True, max_loop_iterations=65535)], ids=["gpu", "cpu"])
@pytest.mark.parametrize("name", LARGE)
def test_large_buffers_are_bound_in_chunks(device: WebGPUDevice, name: str, base: Target) -> None:
    function, inputs = LARGE[name]
    program = run(device, base, function, *inputs)
    if name != "scan":  # whose dispatches are in a loop
        assert chunks(program, base) > 0
    assert max(buffer.size for buffer in program.buffers) > base.max_storage_buffer_binding_size


def attention_gradients(q: Any, k: Any, v: Any) -> Any:
    return tg.grad(lambda q, k, v: tg.sum(tg.nn.scaled_dot_product_attention(q, k, v) ** 2), argnums=(0, 1, 2))(q, k, v)


@pytest.mark.in_turns(3)
@pytest.mark.parametrize(("bindings", "size", "kernels"), [(4, 1 << 27, 3), (4, 1 << 15, 0), (8, 1 << 15, 3)])
def test_attention_is_composed_where_its_kernels_do_not_fit(
    device: WebGPUDevice, bindings: int, size: int, kernels: int
) -> None:
    """The derivative has eight buffers, and fewer bindings only if one binding holds all of them."""
    target = replace(
        WEBGPU_DEFAULT,
        name="few",
        max_storage_buffers_per_shader_stage=bindings,
        max_storage_buffer_binding_size=size,
    )
    program = run(device, target, attention_gradients, *(normal(1, 2, 64, width) for width in (16, 16, 16)))
    assert sum(kernel.entry.startswith("attention") for kernel in program.kernels) == kernels


@pytest.mark.nightly
def test_a_gpt_step_fits_few_bindings_of_few_bytes() -> None:
    training, _ = workload("gpt")("numpy")
    target = replace(FEW, max_storage_buffer_binding_size=1 << 22)
    program = training.program_for(str(target))
    assert_within(program, target)
    assert not any(kernel.entry.startswith("attention") for kernel in program.kernels)


JOINED = [normal(5, 20) if i % 2 else rows(5, 20) for i in range(9)]


@pytest.mark.parametrize("axis", [0, 1])
def test_kernels_of_too_many_buffers_are_split(device: WebGPUDevice, axis: int) -> None:
    def join(*parts: Any) -> Any:
        return tg.exp(tg.concat([tg.cast(part, "f32") * 0.01 for part in parts], axis))

    target = replace(FEW, max_storage_buffer_binding_size=4096, max_buffer_size=1 << 16)
    assert len(run(device, WEBGPU_DEFAULT, join, *JOINED).plan) < len(run(device, target, join, *JOINED).plan)


def test_buffers_of_one_arena_are_bound_as_one(device: WebGPUDevice) -> None:
    program = run(device, FEW, lambda *parts: tg.concat(parts), *[normal(5 + i, 20) for i in range(6)])
    (step,) = program.plan
    assert isinstance(step, Dispatch) and len(step.bindings) < 7


def test_what_does_not_fit_is_refused() -> None:
    target = replace(SMALL, max_buffer_size=8192)
    message = (
        r"input 'x' of memref<60x64xf32> takes 15360 bytes, more than a buffer of target small can hold "
        r"\(8192\); it was made at"
    )
    with pytest.raises(DiagnosticException, match=message):
        compiled(traced(lambda x: tg.exp(tg.flip(x, 0)), (normal(60, 64),)), target)


@pytest.mark.parametrize(("bindings", "size"), [(4, 4096), (30, 256)])
def test_rows_in_reverse_are_divided(device: WebGPUDevice, bindings: int, size: int) -> None:
    target = replace(SMALL, max_storage_buffers_per_shader_stage=bindings, max_storage_buffer_binding_size=size)
    assert len(run(device, target, lambda x: tg.exp(tg.flip(x, 0)), normal(60, 64)).plan) > 1


def test_an_error_names_what_a_program_is_too_large_by() -> None:
    training = tg.compile(
        tg.nn.Linear(64, 40),
        loss=lambda model, x: tg.mean(model(x) ** 2),
        optimizer=tg.optim.sgd(0.1),
        inputs={"x": (2, 64)},
        device="numpy",
    )
    with pytest.raises(ProgramError, match=r"parameter 'weight' of memref<64x40xf32> takes 10240 bytes, .*test_limits"):
        training.program_for('{"max_buffer_size": 8192}')


def test_a_loop_of_too_many_iterations_is_refused() -> None:
    module = traced(lambda xs, h: tg.scan(lambda h, x: (h + x, h), h, xs)[0], (normal(100), normal()))
    message = r"the table of a loop's 100 iterations takes 25600 bytes, .* \(16384\); it was made at .*test_limits.py"
    with pytest.raises(DiagnosticException, match=message):
        compiled(module, SMALL)
