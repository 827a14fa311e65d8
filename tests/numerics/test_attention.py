"""Outlined attention compared with its composed form: matching, values, derivatives, buffers, devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from attention_forms import NONE, Form, by_hand, causal, discarding, forms, normal, parameters, strict
from differences import central, directional, directions, in_f64, mid_graph
from harness import BUFFER_PASSES, Names, NumpyArray, apply, on_buffers, reference, scalar_function, traced
from replay import Variant, on_device
from scheduled import GPU, SOFTWARE
from xdsl.dialects import memref
from xdsl.dialects.builtin import ModuleOp

import tensorgrad as tg
from tensorgrad.dialects.attention import Attention, AttentionOp
from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.signature import Role, Slot, arguments_of, results_of
from tensorgrad.dialects.tg.call import CallOp
from tensorgrad.passes.analyses import machine
from tensorgrad.passes.buffers.fuse import FusePass
from tensorgrad.passes.buffers.lower_tg_to_buf import LowerTgToBufPass
from tensorgrad.passes.codegen.build_program import build_program
from tensorgrad.passes.functions import set_signature
from tensorgrad.passes.pipelines import device_passes
from tensorgrad.passes.tensors import outline_attention
from tensorgrad.passes.tensors.attention import parameters_of
from tensorgrad.passes.tensors.attention_cost import FEWEST_SCORES, pays
from tensorgrad.passes.tensors.grad import GradPass
from tensorgrad.passes.tensors.inline_calls import InlineCallsPass
from tensorgrad.passes.tensors.outline_attention import OutlineAttentionPass
from tensorgrad.passes.tensors.simplify import SimplifyPass
from tensorgrad.runtime.target import Target
from tensorgrad.runtime.webgpu import WebGPUDevice, WebGPUExecutable
from tensorgrad.transforms.grad import grad

SHAPES = [(9, 9), (5, 11), (1, 3)]
ALL = [form for queries, keys in SHAPES for form in forms(queries, keys)]
IDS = [f"{form.name}-{queries}x{keys}" for queries, keys in SHAPES for form in forms(queries, keys)]


def floats(inputs: Sequence[NumpyArray]) -> list[int]:
    return [position for position, x in enumerate(inputs) if x.dtype == np.float32]


def loss_of(form: Form, inputs: Sequence[NumpyArray]) -> tuple[ModuleOp, list[NumpyArray]]:
    """Returns the module of a loss with a form in the middle of its graph, and its inputs."""
    shape = reference(traced(form.function, inputs), inputs)[0].shape
    everything = [normal(*shape, seed=8) + 2, normal(*shape, seed=9), *inputs]
    return traced(mid_graph(form.function), everything), everything


def outlined(module: ModuleOp) -> ModuleOp:
    apply(SimplifyPass(), module)
    apply(OutlineAttentionPass(fewest_scores=1), module)
    return module


def calls(module: ModuleOp) -> list[CallOp]:
    """Returns the attentions of a module that are not nested in another."""
    return [op for op in module.walk() if isinstance(op, CallOp) and op.derivative]


def with_gradient(module: ModuleOp, inputs: Sequence[NumpyArray]) -> ModuleOp:
    apply(GradPass(wrt=tuple(position for position, x in enumerate(inputs) if x.dtype.kind == "f")), module)
    apply(InlineCallsPass(), module)
    apply(SimplifyPass(), module)
    return module


def plain_results(form: Form) -> list[NumpyArray]:
    """Returns the loss and its gradients in f64, by composed attention."""
    wide = in_f64(loss_of(form, form.inputs)[1])
    return reference(with_gradient(loss_of(form, in_f64(form.inputs))[0], wide), wide)


def assert_close(actual: Sequence[NumpyArray], expected: Sequence[NumpyArray], tolerance: float) -> None:
    assert len(actual) == len(expected)
    for result, correct in zip(actual, expected, strict=True):
        assert result.shape == correct.shape
        scale = max(1.0, float(np.abs(correct).max(initial=0.0)))
        np.testing.assert_allclose(result, correct, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("form", forms(5, 9), ids=lambda form: form.name)
def test_every_form_is_found(form: Form) -> None:
    (call,) = calls(outlined(traced(form.function, form.inputs)))
    assert parameters(parameters_of(call), form.found) == form.found


@pytest.mark.in_turns(6)
@pytest.mark.parametrize("form", forms(5, 9), ids=lambda form: form.name)
def test_nothing_changes_on_tensors(form: Form) -> None:
    """The body of a call computes what it replaces; derivatives agree up to rounding, in f64."""
    wide = in_f64(form.inputs)
    module, inputs = loss_of(form, wide)
    wide = in_f64(inputs)
    expected = plain_results(form)
    assert_close(reference(with_gradient(outlined(module), wide), wide), expected, 1e-13)


@pytest.mark.parametrize("name", ["empty-row", "empty-row-causal"])
def test_a_row_of_minus_infinity_gives_zeros(name: str) -> None:
    (form,) = [form for form in forms(5, 9) if form.name == name]
    assert all(np.isfinite(result).all() for result in plain_results(form))
    outputs = np.asarray(form.function(*form.inputs))
    assert not outputs[..., 5 // 2, :].any() and np.isfinite(outputs).all()


def assert_as_zeros(results: Sequence[NumpyArray], queries: int, keys: int, tolerance: float) -> None:
    """Checks the loss and the gradients by queries, keys and values of a form that discards a row."""
    expected = plain_results(discarding(queries, keys)[-1])
    assert_close(results[:4], expected[:4], tolerance)
    assert all(np.isfinite(result).all() for result in results)


def test_a_discarded_row_of_nan_spoils_no_gradient() -> None:
    """Outlined; composed, the product of its NaN weights with a cotangent of 0 is the values' cotangent."""
    for form in discarding(5, 9)[:-1]:
        module, inputs = loss_of(form, form.inputs)
        assert len(calls(outlined(module))) == 1
        module = with_gradient(module, inputs)
        names = Names(module)
        assert_as_zeros(reference(module, inputs), 5, 9, 1e-5)
        for pass_ in BUFFER_PASSES:
            apply(pass_, module)
            assert_as_zeros(on_buffers(module, inputs, names), 5, 9, 1e-5)


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("form", ALL, ids=IDS)
def test_buffers(form: Form) -> None:
    module, inputs = loss_of(form, form.inputs)
    module = with_gradient(outlined(module), inputs)
    expected, names = plain_results(form), Names(module)
    for pass_ in BUFFER_PASSES:
        apply(pass_, module)
        assert_close(on_buffers(module, inputs, names), expected, 1e-5)


def test_kernels_and_bytes() -> None:
    """One kernel forward, two backward, and one for the products of result and cotangent; no scores in memory."""
    (form,) = [form for form in forms(32, 32) if form.name == "causal"]
    module, inputs = loss_of(form, form.inputs)
    module = with_gradient(outlined(module), inputs)
    apply(LowerTgToBufPass(), module)
    apply(FusePass(), module)
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    parts = [kernel.attention.part.data for kernel in kernels if kernel.attention is not None]
    assert parts == ["forward", "queries", "keys"]
    assert len(kernels) <= 7
    buffers = [op.memref.type for op in module.walk() if isinstance(op, memref.AllocOp)]
    assert max(kind.element_count() for kind in buffers) < 2 * 4 * 32 * 32


def test_small_attention_stays_composed() -> None:
    extent = int(FEWEST_SCORES**0.5)
    for size, count in ((extent - 1, 0), (extent, 1)):
        module = traced(causal, [normal(1, 1, size, 4)] * 3)
        apply(SimplifyPass(), module)
        apply(OutlineAttentionPass(), module)
        assert len(calls(module)) == count


def test_wide_heads_stay_composed() -> None:
    assert not calls(outlined(traced(causal, [normal(1, 1, 40, 130)] * 3)))


@pytest.mark.parametrize(
    ("keys", "widest", "widest_causal"), [(64, 16, 32), (128, 16, 64), (256, 32, 64), (1024, 32, 64), (4096, 128, 128)]
)
def test_how_wide_a_head_pays(keys: int, widest: int, widest_causal: int) -> None:
    """Wide heads are composed as measured, unless the score matrices are large."""
    for width in (16, 32, 64, 128):
        for causal_from, most in ((None, widest), (0, widest_causal)):
            attention = Attention(1, keys, keys, width, width, causal=causal_from, period=keys)
            assert pays(attention) == (width <= most)


@pytest.mark.in_turns(2, 1)
@pytest.mark.parametrize("name", ["causal", "padded-causal", "biased", "grouped"])
def test_derivatives_are_slopes(name: str) -> None:
    """`tg.grad` outlines too; first and second derivatives, against central differences in f64."""
    (form,) = [form for form in forms(32, 36, features=3) if form.name == name]
    inputs = in_f64(form.inputs)
    wrt = [position for position, x in enumerate(inputs) if x.dtype.kind == "f"]
    shape = reference(traced(form.function, inputs), inputs)[0].shape
    weights = np.asarray(normal(*shape, seed=8), np.float64)

    def loss(*arguments: tg.Tensor) -> tg.Tensor:
        return tg.sum(tg.sin(form.function(*arguments) * weights))

    module = traced(grad(loss, argnums=tuple(wrt)), inputs)
    assert any(isinstance(op, CallOp) for op in module.walk())
    value = scalar_function(traced(loss, inputs))
    for position, result in zip(wrt, reference(module, inputs), strict=True):
        slopes = central(value, inputs, position)
        derivatives = [float(np.sum(direction * result)) for direction in directions(inputs[position].shape)]
        np.testing.assert_allclose(derivatives, slopes, rtol=1e-7, atol=1e-8)
    along = [np.asarray(normal(*inputs[position].shape, seed=11), np.float64) for position in wrt]
    second = directional(loss, wrt)
    arguments = [*along, *inputs]
    first = traced(second, arguments)
    results = reference(traced(grad(second, argnums=len(wrt)), arguments), arguments)[0]
    slopes = central(scalar_function(first), arguments, len(wrt))
    derivatives = [float(np.sum(direction * results)) for direction in directions(arguments[len(wrt)].shape)]
    np.testing.assert_allclose(derivatives, slopes, rtol=1e-6, atol=1e-7)


def test_forward_mode_goes_through_the_body() -> None:
    q, k, v = (np.asarray(normal(2, 33, 4, seed=seed), np.float64) for seed in range(3))

    def through(x: tg.Tensor) -> tg.Tensor:
        return grad(lambda y: tg.sum(causal(y[None], k[None], v[None]) ** 2))(x)

    step = np.asarray(normal(2, 33, 4, seed=5), np.float64)
    _, tangent = tg.jvp(through, (q,), (step,))
    plain = traced(through, [q])
    moved = [reference(plain, [q + sign * 1e-5 * step])[0] for sign in (1, -1)]
    np.testing.assert_allclose(np.asarray(tangent), (moved[0] - moved[1]) / 2e-5, rtol=1e-4, atol=1e-6)


# On the device

NO_SUBGROUPS = replace(SOFTWARE, name="no-subgroups", subgroups=False, subgroup_size=None)
NARROW = replace(GPU, name="narrow", max_compute_workgroups_per_dimension=6)


def device_results(
    device: WebGPUDevice, form: Form, target: Target, gradient: bool = True
) -> tuple[list[NumpyArray], list[NumpyArray]]:
    """Returns the results on the device and the expected ones: the loss and its gradients, or the value."""
    if gradient:
        module, inputs = loss_of(form, form.inputs)
        module, expected = with_gradient(outlined(module), inputs), plain_results(form)
        function = find_function(module, None)
        results = [Slot(f"result{i}", Role.OUTPUT) for i in range(len(results_of(function)))]
        set_signature(function, arguments_of(function), results)
    else:
        inputs = list(form.inputs)
        module = traced(form.function, inputs)
        expected = reference(module, inputs)
        outlined(module)
    names = Names(module)
    parts: list[str] = []
    for pass_ in device_passes(target):
        if pass_.name == "schedule":
            parts = [op.part.data for op in module.walk() if isinstance(op, AttentionOp)]
        apply(pass_, module)
    assert set(parts) == ({"forward", "queries", "keys"} if gradient else {"forward"})
    program = replace(build_program(module, target), target=None)
    outputs = WebGPUExecutable(program, device, trusted=True).step(dict(zip(names.arguments, inputs, strict=True)), {})
    return [outputs[key.removeprefix("output/")].numpy() for key in names.results], expected


ON_TARGETS = {
    f"{name}-{target.name}": (name, target)
    for name, target in [
        ("padded-causal", SOFTWARE),
        ("added", SOFTWARE),
        ("repeated", NO_SUBGROUPS),
        ("grouped", GPU),
        ("padded-causal", GPU),
        ("empty-row", SOFTWARE),
        ("added", NARROW),
        ("grouped", SOFTWARE),
        ("empty-row-causal", GPU),
        ("filled-with-zeros", SOFTWARE),
        ("filled-with-zeros", GPU),
    ]
}


@pytest.mark.nightly
@pytest.mark.parametrize("pair", ON_TARGETS)
def test_device(device: WebGPUDevice, pair: str) -> None:
    name, target = ON_TARGETS[pair]
    (form,) = [form for form in forms(33, 37, features=9) if form.name == name]
    assert_close(*device_results(device, form, target), 2e-5)


@pytest.mark.nightly
@pytest.mark.parametrize("form", discarding(33, 37)[:-1], ids=lambda form: form.name)
def test_discarded_rows_on_the_device(device: WebGPUDevice, form: Form) -> None:
    results, _ = device_results(device, form, SOFTWARE)
    assert_as_zeros(results, 33, 37, 2e-5)


def test_columns_behind_the_last_on_the_device(device: WebGPUDevice) -> None:
    """They have no weight, though a masked score counts as 0."""
    (form,) = [form for form in forms(33, 37) if form.name == "filled-with-zeros"]
    assert_close(*device_results(device, form, SOFTWARE, gradient=False), 2e-5)


@pytest.mark.usefixtures("compiled_blocks")
@pytest.mark.parametrize("place", ["numpy", "cpu", "wgpu"])
def test_nan_of_a_query(place: tg.DeviceName) -> None:
    """It reaches the cotangents of the values that the query sees, and of no others."""
    q, k, v = (normal(2, 33, 8, seed=seed) for seed in range(3))
    q[0, 3, 0] = np.nan

    def total(q: Any, k: Any, v: Any) -> Any:
        return tg.sum(causal(q[:, None], k[:, None], v[:, None]))

    gradient = np.asarray(tg.jit(tg.grad(total, argnums=2), device=place)(q, k, v))
    assert np.argwhere(np.isnan(gradient).any(-1)).tolist() == [[0, key] for key in range(4)]


@pytest.mark.nightly
@pytest.mark.parametrize("features", [1, 128])
def test_features_on_the_device(device: WebGPUDevice, features: int) -> None:
    (form,) = [form for form in forms(40, 32, features) if form.name == "filled"]
    assert_close(*device_results(device, form, SOFTWARE), 5e-5)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["padded-causal", "grouped"])
def test_long_rows_on_the_device(device: WebGPUDevice, name: str) -> None:
    """With two columns per lane, both cut off at the edge."""
    (form,) = [
        form
        for form in forms(machine.SOFTWARE.many_rows + 3, machine.SOFTWARE.many_rows + 5, features=9)
        if form.name == name
    ]
    assert_close(*device_results(device, form, SOFTWARE), 5e-5)


EXTREMES = [
    Form("large", causal, tuple(normal(1, 2, 10, 4, seed=seed) * 200 for seed in range(3)), {}),
    Form("none-zeros", strict, (normal(2, 9, 4),) * 3, {}),
    Form("none-uniform", by_hand, (normal(1, 9, 4), normal(1, 4, 4, seed=1), normal(1, 4, 4, seed=2)), {}),
]


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("target", [SOFTWARE, GPU], ids=lambda target: target.name)
@pytest.mark.parametrize("form", EXTREMES, ids=lambda form: form.name)
def test_extremes_on_the_device(device: WebGPUDevice, form: Form, target: Target) -> None:
    """Scores of ten thousand, and rows that attend to nothing, which give zeros or the mean of all values."""
    results, expected = device_results(device, form, target, gradient=False)
    assert_close(results, expected, 1e-5)


def test_rows_of_nothing_are_nan_as_composed(device: WebGPUDevice) -> None:
    def function(q: tg.Tensor, mask: tg.Tensor) -> tg.Tensor:
        return tg.softmax(tg.where(mask, q @ tg.swapaxes(q, -1, -2), NONE), -1) @ q

    mask = np.random.default_rng(1).random((1, 9, 9)) < 0.5
    mask[0, 3], mask[0, 4, 4] = False, True
    form = Form("nan", function, (normal(1, 9, 4), mask), {})
    (result,), (expected,) = device_results(device, form, SOFTWARE, gradient=False)
    assert np.isnan(expected[0, 3]).all()
    np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def in_loops(x: tg.Tensor) -> tg.Tensor:
    """Attention before a loop, in it, in a branch inside it, and after it."""

    def body(state: tg.Tensor, row: tg.Tensor) -> tuple[tg.Tensor, tg.Tensor]:
        attended = causal(state, state * row, state)
        return attended, tg.cond(tg.sum(row) > 0, lambda y: causal(y, y, y), lambda y: y * 2, attended)

    rows = np.asarray([[[[0.5]]], [[[-1.0]]], [[[2.0]]]], np.float32)
    turned, stack = tg.scan(body, causal(x, x, x), rows)
    return causal(turned, x, turned) + tg.sum(stack, 0)


@pytest.mark.parametrize("order", [*(pytest.param(order, marks=pytest.mark.nightly) for order in (0, 1)), 2])
def test_in_loops_and_branches(order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same values and derivatives in numpy as composed attention, and on a device."""
    function = in_loops
    for _ in range(order):
        function = grad(lambda x, f=function: tg.sum(tg.sin(f(x))))
    x = normal(1, 2, 32, 4)
    with monkeypatch.context() as composed:
        composed.setattr(outline_attention, "pays", lambda *arguments: False)
        plain = reference(traced(function, in_f64([x])), in_f64([x]))
    module = outlined(traced(function, in_f64([x])))
    assert sum(isinstance(op, CallOp) and op.composite is not None for op in module.walk()) >= 4
    assert_close(reference(module, in_f64([x])), plain, 1e-12)
    if order < 2:
        jitted = tg.jit(function, device="wgpu")  # in f32
        assert_close([np.asarray(jitted(x))], plain, 1e-4)
        assert jitted.module("buf").count("buf.attention") >= 4
        assert "masks = 0" in jitted.module("buf") and "masks = 1" not in jitted.module("buf")
        assert "buf.repeat" in jitted.module("buf")


@pytest.mark.nightly
def test_in_loops_without_bindings_enough() -> None:
    """The derivative binds nine buffers in a loop, so with eight bindings only it is composed."""

    def function(x: tg.Tensor) -> tg.Tensor:
        return grad(
            lambda x: tg.sum(tg.scan(lambda s, r: (causal(s, s * r, s + r), None), x, normal(3, 1, 1, 1, 1))[0])
        )(x)

    x = normal(1, 2, 32, 4)
    few, many = (Target.named(name) for name in ("webgpu-default", "lavapipe"))
    parts: dict[str, list[str]] = {}
    for target in (few, many):
        module = outlined(traced(function, [x]))
        for pass_ in device_passes(target):
            if pass_.name == "schedule":
                parts[target.name] = [op.part.data for op in module.walk() if isinstance(op, AttentionOp)]
            apply(pass_, module)
        build_program(module, target)
    assert parts == {"webgpu-default": ["forward"], "lavapipe": ["forward", "queries", "keys"]}


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("name", ["webgpu-default", "lavapipe"])
def test_masks_that_kernels_compute(name: str, device: WebGPUDevice) -> None:
    """Their booleans are stored among floats; a derivative kernel has nine buffers, even if eight fit."""

    def function(tokens: tg.Tensor, x: tg.Tensor, w: tg.Tensor) -> tg.Tensor:
        allowed = tg.reshape(tokens, (2, 1, 1, 32)) != 0

        def loss(x: tg.Tensor) -> tg.Tensor:
            attended = tg.nn.scaled_dot_product_attention(x @ w, tg.tanh(x) @ w, tg.sin(x) @ w, mask=allowed)
            return tg.sum(tg.sin(attended @ w))

        return grad(loss)(x)

    tokens = np.random.default_rng(1).integers(0, 3, (2, 32)).astype(np.int32)
    inputs = [tokens, normal(2, 2, 32, 4), normal(4, 4, seed=2)]
    expected = reference(traced(function, in_f64(inputs)), in_f64(inputs))
    module = outlined(traced(function, inputs))
    assert any(isinstance(op, CallOp) and op.composite is not None for op in module.walk())
    assert_close(on_device(module, inputs, Variant(target=name), device), expected, 1e-4)
