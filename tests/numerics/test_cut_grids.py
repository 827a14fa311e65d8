"""Kernels with more large buffers than a device can bind run in parts, each on windows of these buffers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from harness import Names, NumpyArray, apply, assert_same, on_buffers, reference, traced
from test_limits import assert_within, normal, run
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.utils.exceptions import DiagnosticException

import tensorgrad as tg
from tensorgrad.checks.numerics import NumericsVerifier
from tensorgrad.dialects import wgsl
from tensorgrad.dialects.buf import VALUE, Buffer, KernelOp, ViewOp, buffer_bytes, shape_of
from tensorgrad.errors import NumericsError
from tensorgrad.passes.analyses import boxes
from tensorgrad.passes.pipelines import Phase, inference_passes, until
from tensorgrad.runtime.target import WEBGPU_DEFAULT, Target
from tensorgrad.runtime.webgpu import WebGPUDevice

PAGE = 4096

NARROW = replace(WEBGPU_DEFAULT, name="narrow", max_storage_buffer_binding_size=PAGE, max_buffer_size=1 << 20)
"""A binding holds 4 KiB: the arrays below take six, of the eight that a kernel may have."""


def moments(p: Any, m: Any, v: Any, g: Any) -> Any:
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    return p - m / (tg.sqrt(v) + 1e-3), m, v


def positions(x: Any, y: Any) -> Any:
    """Differs by row and column."""
    at = tg.reshape(tg.arange(x.shape[0] * x.shape[1]), x.shape)
    return tg.where(at % 7 < 3, x, y) * tg.cast(at, "f32")


X, Y, Z = normal(100, 60), normal(60, 100).T.copy(), normal(100, 60) * 2

CASES: dict[str, tuple[Callable[..., Any], tuple[NumpyArray, ...], int]] = {
    "update": (moments, (X, Y, np.abs(Z), X + 1), 7),
    "one dimension": (moments, tuple(array.reshape(-1) for array in (X, Y, np.abs(Z), X + 1)), 6),
    "leading axis of one": (lambda x, y: tg.exp(x) * y, (X[None], Y[None]), 7),
    "positions": (positions, (X, Y), 7),
    "repeated row and column": (lambda x, y, r, c: x * r[None, :] + y * c[:, None], (X, Y, X[0], X[:, 0]), 7),
    "row sums": (lambda x, y: tg.sum(x * y, 1), (X, Y), 7),
    "softmax": (lambda x, y: tg.softmax(x, 1) * y, (X, Y), 7),
    "product by rows": (lambda x, w, y: x @ w + y, (X, normal(60, 60), Z), 7),
}
"""Functions of one kernel, inputs that are too large for it, and how many parts it then has."""


@pytest.mark.parametrize(
    "base", [NARROW, replace(NARROW, software=True, max_loop_iterations=65535)], ids=["gpu", "cpu"]
)
@pytest.mark.in_turns(3)
@pytest.mark.parametrize("name", CASES)
def test_a_grid_is_cut_where_windows_are_bound(device: WebGPUDevice, name: str, base: Target) -> None:
    function, inputs, parts = CASES[name]
    assert [len(run(device, target, function, *inputs).plan) for target in (base, WEBGPU_DEFAULT)] == [parts, 1]


class Words(tg.nn.Module):
    """Predicts a word from three; its table and its last weight take many bindings each."""

    def __init__(self) -> None:
        super().__init__()
        self.table = tg.nn.Embedding(300, 50)
        self.hidden, self.head = tg.nn.Linear(150, 48), tg.nn.Linear(48, 300)

    def __call__(self, words: Any) -> Any:
        return self.head(tg.relu(self.hidden(tg.reshape(self.table(words), (-1, 150)))))


class Pictures(tg.nn.Module):
    """A convolutional classifier whose activations and weights are larger than a binding."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = tg.nn.Conv2d(3, 8, 3), tg.nn.Conv2d(8, 24, 3)
        self.head = tg.nn.Linear(24 * 4 * 4, 10)

    def __call__(self, x: Any) -> Any:
        x = tg.relu(self.second(tg.max_pool(tg.relu(self.first(x)), 2)))
        return self.head(tg.reshape(x, (x.shape[0], -1)))


def loss(model: Any, x: Any, y: Any) -> Any:
    return tg.cross_entropy(model(x), y)


def drawn(seed: int, model: type[tg.nn.Module]) -> dict[str, NumpyArray]:
    random = np.random.default_rng(seed)
    if model is Words:
        return {"x": random.integers(0, 300, (32, 3), np.int32), "y": random.integers(0, 300, 32, np.int32)}
    return {"x": random.normal(size=(16, 3, 14, 14)).astype(np.float32), "y": random.integers(0, 10, 16, np.int32)}


MODELS = {Words: (8, 4 * PAGE), Pictures: (6, 6 * PAGE)}
"""Models, each with the bindings of a kernel and the bytes of a binding under which its step is cut."""


def narrowed(device: WebGPUDevice, model: type[tg.nn.Module]) -> Target:
    """Returns the device with the limits of a model."""
    bindings, size = MODELS[model]
    return replace(
        device.target,
        name="narrow",
        max_storage_buffers_per_shader_stage=bindings,
        max_storage_buffer_binding_size=size,
        max_buffer_size=1 << 18,
    )


def compiled(model: type[tg.nn.Module], device: tg.DeviceName, **options: Any) -> tg.Training:
    batch = {key: tg.spec(value.shape, str(value.dtype)[0] + "32") for key, value in drawn(0, model).items()}
    return tg.compile(model(), loss=loss, optimizer=tg.optim.adam(1e-2), inputs=batch, device=device, seed=3, **options)


@pytest.mark.in_turns(2, 1)
@pytest.mark.parametrize("model", MODELS)
def test_a_training_step_runs_in_windows(
    device: WebGPUDevice, monkeypatch: pytest.MonkeyPatch, model: type[tg.nn.Module]
) -> None:
    """A whole step on the device, under limits that its large tensors exceed."""
    narrow = narrowed(device, model)
    monkeypatch.setattr(device, "target", narrow)
    mine, reference = compiled(model, "wgpu"), compiled(model, "numpy")
    assert_within(mine.program, narrow)
    assert len(mine.program.plan) > len(mine.program_for("webgpu-default").plan)
    for step in range(3):
        batch = drawn(step, model)
        np.testing.assert_allclose(float(mine.step(**batch)), float(reference.step(**batch)), rtol=1e-5)
    parameters = mine.parameters()
    for key, value in reference.parameters().items():
        np.testing.assert_allclose(parameters[key], value, rtol=1e-3, atol=1e-4, err_msg=key)


def stacked(device: tg.DeviceName) -> tg.Training:
    """Six layers whose gradients are clipped by their norm, and fit in one row of 8 KiB."""
    return tg.compile(
        tg.nn.Sequential(*(layer for _ in range(6) for layer in (tg.nn.Linear(16, 16), tg.tanh))),
        loss=lambda model, x: tg.mean(model(x) ** 2),
        optimizer=tg.optim.adam(1e-2, clip_norm=1.0),
        inputs={"x": (4, 16)},
        device=device,
        seed=3,
    )


def test_a_program_for_a_target_is_the_one_that_it_gets_by_itself(
    device: WebGPUDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of parameters fit the target's own bindings, wherever the step was compiled first."""
    narrow = replace(device.target, name="narrow", max_storage_buffer_binding_size=PAGE)
    first = stacked("numpy")
    for_target = first.program_for(str(narrow))
    monkeypatch.setattr(device, "target", narrow)
    own = stacked("wgpu").program
    assert (for_target.plan, for_target.buffers, for_target.kernels) == (own.plan, own.buffers, own.kernels)


@pytest.mark.nightly
def test_every_pass_agrees_where_grids_are_cut(device: WebGPUDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verification runs the parts with numpy, and each kernel on the device; plans are certified before the cut."""
    monkeypatch.setattr(device, "target", narrowed(device, Words))
    compiled(Words, "wgpu", verify=True)


def displaced(module: ModuleOp) -> None:
    """A bug: the last window of each buffer that is read starts a row early."""
    views = [operand for kernel in module.walk() if isinstance(kernel, KernelOp) for operand in kernel.inputs]
    windows = [view.owner for view in views if isinstance(view.owner, ViewOp) and VALUE in view.owner.attributes]
    for window in {cast(ViewOp, owner) for owner in windows[-2:]}:
        row = buffer_bytes(cast(Buffer, window.result.type)) // shape_of(window.result)[0]
        window.properties["offset"] = IntegerAttr(window.start - row, i64)


def test_a_displaced_window_is_blamed_on_the_pass() -> None:
    function, inputs, _ = CASES["positions"]
    module = traced(function, inputs)
    verifier = NumericsVerifier(module)
    with pytest.raises(NumericsError, match=r"^cut-grids changes output/result0"):
        for pass_ in until(Phase.DEVICE, inference_passes(NARROW)):
            apply(pass_, module)
            if pass_.name == "cut-grids":
                displaced(module)
            verifier.check(pass_, module)


@pytest.mark.parametrize("name", CASES)
def test_a_plan_with_windows_reads_nothing_that_is_not_defined(name: str) -> None:
    """Parts of a buffer are one value, live from the first write to the last read; all else is poisoned."""
    function, inputs, _ = CASES[name]
    module = traced(function, inputs)
    expected, names = reference(module, inputs), Names(module)
    for pass_ in until(Phase.DEVICE, inference_passes(NARROW)):
        apply(pass_, module)
    for key, result, correct in zip(names.results, on_buffers(module, inputs, names), expected, strict=True):
        assert_same(result, correct, 5e-6, key)


def test_a_search_for_parts_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a search may take is counted in ranges; a kernel that it finds no parts for is refused."""
    inputs = [normal(300, 40), np.zeros((300, 40), np.int32)]

    def lowered() -> ModuleOp:
        module = traced(lambda x, i: tg.take_along_axis(x, i, 0), inputs)
        for pass_ in inference_passes(NARROW):
            pass_.apply(Context(), module)
        return module

    assert len([op for op in lowered().walk() if isinstance(op, wgsl.KernelOp)]) > 1
    monkeypatch.setattr(boxes, "MOST_RANGES", 1000)
    with pytest.raises(DiagnosticException, match=r"bindings, narrow has 8; 'x' alone takes 12"):
        lowered()
