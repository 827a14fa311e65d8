"""Every archetype of kernels on the device, for software adapters and GPUs, at odd sizes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scheduled import GPU, NARROW, RNG, SHUFFLING, SOFTWARE, check, floats, on_device
from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.passes import ModulePass

import tensorgrad as tg
from tensorgrad.dialects import wgsl
from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.schedule import ThreadSchedule
from tensorgrad.passes import pipelines
from tensorgrad.passes.buffers.split_reductions import SplitReductionsPass
from tensorgrad.passes.pipelines import inference_passes
from tensorgrad.runtime.target import Target
from tensorgrad.runtime.webgpu import WebGPUDevice
from tensorgrad.tracing.dtypes import Spec

SIZES = [
    (1, 1, 1),
    (8, 8, 8),
    (7, 5, 3),
    (33, 65, 17),
    (64, 64, 64),
    (130, 67, 129),
    (1, 70, 40),
    (70, 1, 40),
    (5, 9, 500),
]


@pytest.mark.in_turns(8, 2)
@pytest.mark.parametrize("target", [SOFTWARE, GPU], ids=lambda target: target.name)
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_matrix_products_of_any_size_and_layout(device: WebGPUDevice, target: Target, layout: str) -> None:
    for m, n, k in SIZES:
        left = floats(m, k) if layout[0] == "n" else floats(k, m)
        right = floats(k, n) if layout[1] == "n" else floats(n, k)

        def product(a: Any, b: Any) -> Any:
            return (a if layout[0] == "n" else a.T) @ (b if layout[1] == "n" else b.T)

        archetype = "contraction" if min(m, n) > 1 else None
        archetypes, (result,), (expected,) = on_device(device, product, [left, right], target)
        assert archetype is None or archetypes[archetype] == 1
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5 * np.sqrt(k) * 4)


@pytest.mark.in_turns(2, 1)
@pytest.mark.parametrize("target", [SOFTWARE, GPU], ids=lambda target: target.name)
def test_batched_products_with_an_epilogue(device: WebGPUDevice, target: Target) -> None:
    for batch, m, n, k in [((3,), 17, 9, 20), ((2, 3), 16, 40, 33), ((5,), 70, 66, 64)]:
        inputs = [floats(*batch, m, k), floats(*batch, k, n), floats(n), floats(*batch, m, n)]
        check(device, lambda a, b, c, d: tg.relu(a @ b + c) * d, inputs, target, "contraction")


@pytest.mark.parametrize("target", [SOFTWARE, GPU], ids=lambda target: target.name)
def test_a_long_epilogue_loops_over_the_block(device: WebGPUDevice, target: Target) -> None:
    def function(a: Any, b: Any, c: Any) -> Any:
        x = a @ b + c
        for _ in range(4):
            x = tg.tanh(x) * c + tg.sigmoid(x)
        return x

    check(device, function, [floats(45, 70), floats(70, 75), floats(45, 75)], target, "contraction", 2e-5)


@pytest.mark.parametrize("target", [SOFTWARE, GPU], ids=lambda target: target.name)
def test_contraction_over_several_axes(device: WebGPUDevice, target: Target) -> None:
    """The weight gradient of a layer on [batch, time, width] sums over two axes."""

    def gradient(x: Any, w: Any) -> Any:
        return tg.grad(lambda v: tg.sum((x @ v) ** 2))(w)

    check(device, gradient, [floats(3, 7, 20), floats(20, 33)], target, "contraction", 2e-5)


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("target", [SOFTWARE, GPU], ids=lambda target: target.name)
def test_rows(device: WebGPUDevice, target: Target) -> None:
    for shape in [(1, 1), (3, 10), (40, 65), (300, 33), (2, 1000), (5, 6, 7)]:
        check(
            device,
            lambda x: tg.softmax(x),
            [floats(*shape)],
            target,
            "thread" if shape == (1, 1) else _row(shape, target),
        )


def _row(shape: tuple[int, ...], target: Target) -> str:
    rows = int(np.prod(shape[:-1]))
    if shape[-1] < 8:
        return "thread"
    return "group" if rows < (16 if target.software else 1024) else "thread"


@pytest.mark.in_turns(5)
@pytest.mark.parametrize("shape", [(20, 64), (17, 67), (3, 7, 516), (19, 258), (18, 31), (16, 16), (16, 9)])
def test_a_thread_takes_steps_of_its_row(device: WebGPUDevice, shape: tuple[int, ...]) -> None:
    """Rows unrolled by eight, four and one, with and without remainders, and their gradients."""

    def norm(x: Any, scale: Any) -> Any:
        centred = x - tg.mean(x, axis=-1, keepdims=True)
        return centred * tg.rsqrt(tg.mean(centred * centred, axis=-1, keepdims=True) + 1e-5) * scale

    def function(x: Any, w: Any, scale: Any, i: Any) -> Any:
        of_softmax = tg.grad(lambda v: tg.sum(tg.softmax(v) * w))(x)
        of_norm = tg.grad(lambda v: tg.sum(norm(v, scale) * w))(x)
        whole = tg.sum(i, axis=-1), tg.max(i, axis=-1), tg.min(x[..., ::-1] * 2.0, axis=-1)
        return tg.log_softmax(x), of_softmax, norm(x, scale), of_norm, *whole

    integers = RNG.integers(-99, 99, shape).astype(np.int32)
    check(device, function, [floats(*shape), floats(*shape), floats(shape[-1]), integers], SOFTWARE, "thread", 2e-5)


@pytest.mark.in_turns(6)
@pytest.mark.parametrize("target", [SOFTWARE, GPU, SHUFFLING], ids=lambda target: target.name)
@pytest.mark.parametrize("shape", [(5, 700), (3, 2, 1028), (3, 4099), (7, 1024), (2, 33, 68), (1, 255)])
def test_lanes_take_steps_of_a_shared_row(device: WebGPUDevice, shape: tuple[int, ...], target: Target) -> None:
    """Whole vectors per lane, remainders, and rows over two axes."""
    axes = tuple(range(1, len(shape)))

    def function(x: Any, w: Any, i: Any) -> Any:
        y = x - tg.max(x, axis=axes, keepdims=True)
        z = tg.exp(y) / tg.sum(tg.exp(y), axis=axes, keepdims=True)
        return z * w, tg.sum(x * w, axis=axes), tg.min(x, axis=axes), tg.sum(i, axis=axes), tg.sum(x * x)

    integers = RNG.integers(-99, 99, shape).astype(np.int32)
    check(device, function, [floats(*shape), floats(*shape), integers], target, "group", 2e-5)


@pytest.mark.parametrize("axis", [0, 1, (0, 2), (1, 2)])
def test_reductions_in_turns_over_any_axes(device: WebGPUDevice, axis: int | tuple[int, ...]) -> None:
    """Unrolled reductions over columns, planes and partly read rows, some of them as whole vectors."""

    def function(x: Any, w: Any) -> Any:
        y = x - tg.max(x, axis=axis, keepdims=True)
        part = x[:, 4:36, 1:]
        return tg.exp(y), tg.sum(y * w, axis=axis), tg.sum(part * part, axis=axis), tg.mean(x[:, ::2], axis=axis)

    check(device, function, [floats(17, 40, 20), floats(17, 40, 1)], SOFTWARE, "thread", 2e-5)


@pytest.mark.parametrize("place", [0, 3, 63, 66])
def test_steps_of_a_row_keep_what_is_not_a_number(device: WebGPUDevice, place: int) -> None:
    x = floats(20, 67)
    x[3, place], x[4, place], x[5, place] = np.nan, np.inf, -np.inf
    _, (largest, least, total), _ = on_device(
        device, lambda x: (tg.max(x, axis=1), tg.min(x, axis=1), tg.sum(x, axis=1)), [x], SOFTWARE
    )
    np.testing.assert_array_equal(largest, np.max(x, axis=1))
    np.testing.assert_array_equal(least, np.min(x, axis=1))
    assert np.isnan(total[3]) and total[4] == np.inf and total[5] == -np.inf


@pytest.mark.parametrize("target", [SOFTWARE, GPU, SHUFFLING], ids=lambda target: target.name)
def test_a_group_folds_sums_and_extremes(device: WebGPUDevice, target: Target) -> None:
    def function(x: Any) -> Any:
        top, low = tg.max(x, axis=1), tg.min(x, axis=1)
        return tg.sum(x, axis=1), top - low, (x - top[:, None]) * low[:, None]

    check(device, function, [floats(7, 700)], target, "group")


@pytest.mark.in_turns(4, 1)
@pytest.mark.parametrize("columns", [1024, 256, 8, 9, 16, 127, 128, 132, 384, 520, 2048])
def test_subgroups_fold_rows_to_the_same_bits(device: WebGPUDevice, columns: int) -> None:
    """The tree of a row doesn't depend on how its lanes exchange values; every lane gets the same results."""

    def function(x: Any, h: Any, i: Any) -> Any:
        wide = tg.sum(tg.cast(h, np.int64), axis=1)
        return tg.softmax(x), tg.sum(x, axis=1), tg.max(x, axis=1), tg.sum(i, axis=1), tg.max(h, axis=1), wide

    integers = RNG.integers(-99, 99, (6, columns)).astype(np.int32)
    inputs = [floats(6, columns), RNG.integers(-9, 9, (6, columns)).astype(np.float16), integers]
    inputs[0][2, columns // 2], inputs[0][3, columns - 1] = np.nan, -np.inf
    targets = [replace(target, f16=True, int64=True) for target in (GPU, SHUFFLING)]
    (some, plain, expected), (_, shuffled, _) = (on_device(device, function, inputs, target) for target in targets)
    assert some["group"] >= 1
    for one, other, correct in zip(plain, shuffled, expected, strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_allclose(one, correct, rtol=1e-5, atol=1e-5)


def test_rows_beside_a_product_fold_in_its_workgroups(device: WebGPUDevice) -> None:
    """Their workgroups have two dimensions, in which lanes of subgroups have no numbers."""

    def function(a: Any, b: Any, x: Any) -> Any:
        return a @ b, tg.sum(x, axis=1), tg.softmax(x)

    inputs = [floats(70, 40), floats(40, 50), floats(30, 300)]
    archetypes, results, expected = on_device(device, function, inputs, SHUFFLING)
    assert archetypes["contraction"] and archetypes["group"]
    for result, correct in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, correct, rtol=1e-5, atol=1e-5)


def test_kernels_that_fold_by_subgroups_shuffle(device: WebGPUDevice) -> None:
    module = tg.trace(lambda x: tg.softmax(x), Spec((4096, 1024), np.dtype(np.float32)))
    for pass_ in inference_passes(SHUFFLING):
        pass_.apply(Context(), module)
    (kernel,) = (op for op in module.walk() if isinstance(op, wgsl.KernelOp))
    counts = Counter(type(op) for op in kernel.walk())
    assert counts[wgsl.SubgroupShuffleXorOp] == 2 * 3 and counts[scf.ForOp] == 0
    assert counts[wgsl.BarrierOp] == 2 * 2  # 256 values to 32 through workgroup memory, 32 to 8, and to one by shuffles


@pytest.mark.parametrize("target", [SOFTWARE, GPU], ids=lambda target: target.name)
def test_a_scalar_from_everything(device: WebGPUDevice, target: Target) -> None:
    check(device, lambda x: tg.mean(x * x), [floats(30, 41, 3)], target, "group")


@pytest.mark.parametrize("target", [SOFTWARE, GPU], ids=lambda target: target.name)
def test_columns(device: WebGPUDevice, target: Target) -> None:
    check(device, lambda x: tg.sum(x, axis=0), [floats(50, 1500)], target, "thread")


@pytest.mark.parametrize("target", [SOFTWARE, GPU, NARROW], ids=lambda target: target.name)
def test_pointwise_work_is_folded_into_two_dimensions(device: WebGPUDevice, target: Target) -> None:
    """More workgroups than one dimension allows; each runs exactly once (in-place updates would show it)."""
    check(device, lambda x, y: x * y + tg.exp(-x), [floats(61, 97), floats(97)], target, "thread")


@pytest.mark.parametrize("shape", [(256, 512), (131074,), (131072,), (3, 257, 172), (33, 3972), (700, 100, 2)])
def test_many_points_in_vectors(device: WebGPUDevice, shape: tuple[int, ...]) -> None:
    """Whole vectors and none, of broadcast, reversed and shifted operands, and a last workgroup that is not full."""

    def note(kernel: KernelOp) -> None:
        assert kernel.schedule is not None and isinstance(kernel.schedule.data, ThreadSchedule)
        assert kernel.schedule.data.lanes == 256
        widths.add(kernel.schedule.data.width)

    def whole(x: Any, b: Any) -> Any:
        y = x * b + 1.0
        return y, tg.relu(y) - x[..., ::-1]

    def partial(x: Any, i: Any) -> Any:
        shifted = tg.concatenate([x[..., 1:], x[..., :1]], axis=-1)
        return shifted * x, x[..., ::-1] * 2.0, i * 3, tg.cast(x > 0.0, np.int32)

    integers = RNG.integers(-99, 99, shape).astype(np.int32)
    for function, other, width in ((whole, floats(shape[-1]), 4), (partial, integers, 1)):
        widths: set[int] = set()
        _, results, expected = on_device(device, function, [floats(*shape), other], GPU, note)
        assert widths == {1 if shape[-1] % 4 else width}
        for result, correct in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, correct, rtol=1e-6, atol=1e-6)


def test_many_points_are_updated_in_place_in_vectors(device: WebGPUDevice) -> None:
    """Each point is updated once, also in the last workgroup, which is not full."""
    x = floats(131176)
    _, (result, total), _ = on_device(device, lambda x: (x * 0.5 + 1.0, tg.sum(x * 0.5 + 1.0)), [x], GPU)
    np.testing.assert_array_equal(result, x * np.float32(0.5) + np.float32(1.0))
    np.testing.assert_allclose(total, np.sum(x.astype(np.float64) * 0.5 + 1.0), rtol=1e-5)


@pytest.mark.parametrize("target", [SOFTWARE, GPU], ids=lambda target: target.name)
def test_gathers_and_scatters(device: WebGPUDevice, target: Target) -> None:
    table = floats(11, 6)
    indices = RNG.integers(0, 11, (4, 9)).astype(np.int32)

    def function(t: Any, i: Any) -> Any:
        return tg.take(t, i), tg.grad(lambda u: tg.sum(tg.take(u, i) ** 2))(t)

    check(device, function, [table, indices], target, "thread")


def test_scatters_add_in_the_same_order_on_every_run(device: WebGPUDevice) -> None:
    values, indices = floats(500), np.zeros(500, np.int32)
    results = {
        on_device(
            device,
            lambda v, i: tg.grad(lambda t: tg.sum(tg.take(t, i) * v))(tg.zeros(3) * v[0]),
            [values, indices],
            SOFTWARE,
        )[1][0].tobytes()
        for _ in range(3)
    }
    assert len(results) == 1


@pytest.mark.in_turns(4)
@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize("target", [SOFTWARE, GPU], ids=lambda target: target.name)
def test_split_reductions(device: WebGPUDevice, target: Target, parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Split reductions with their epilogues: products, weight gradients, means, extrema, integers."""
    passes = pipelines.device_passes

    def forced(*args: Any, **options: Any) -> list[ModulePass]:
        planned = passes(*args, **options)
        return [
            SplitReductionsPass(pass_.target, parts) if isinstance(pass_, SplitReductionsPass) else pass_
            for pass_ in planned
        ]

    monkeypatch.setattr(pipelines, "device_passes", forced)

    def products(x: Any, w: Any) -> Any:
        y = tg.relu(x @ w + 1.0)
        return y, tg.grad(lambda v: tg.sum((x @ v) ** 2))(w)

    def folds(x: Any, i: Any) -> Any:
        return tg.mean(x), tg.max(x, axis=0) * 2.0, tg.min(x), tg.sum(i, axis=0), tg.prod(x[:6] * 0.5, axis=0)

    def weights(x: Any, w: Any) -> Any:
        return tg.grad(lambda v: tg.sum(tg.conv2d(x, v, padding=1) ** 2))(w) + w

    check(device, products, [floats(18, 30), floats(30, 13)], target, "contraction", 2e-5)
    folded = on_device(device, folds, [floats(36, 10), RNG.integers(-9, 9, (36, 10)).astype(np.int32)], target)
    for result, expected in zip(*folded[1:], strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
    check(device, weights, [floats(6, 3, 9, 7), floats(4, 3, 3, 3)], target, "contraction", 2e-5)


def test_products_and_sums_that_leave_a_gpu_idle_are_split(device: WebGPUDevice) -> None:
    def function(a: Any, b: Any, x: Any) -> Any:
        return tg.relu(a @ b + 1.0), tg.sum(x)

    inputs = [floats(32, 8192), floats(8192, 64), floats(1 << 20)]
    archetypes, results, expected = on_device(device, function, inputs, GPU)
    assert archetypes == Counter(contraction=1, thread=1, group=2)
    for result, correct in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, correct, rtol=2e-5, atol=1e-3)


@pytest.mark.parametrize("shape", [(2, 17, 64, 16), (4, 9, 40, 14), (3, 11, 13, 40), (3, 7, 89, 9)])
def test_a_thread_takes_neighbouring_points(device: WebGPUDevice, shape: tuple[int, ...]) -> None:
    """Vectors, pairs and single points; operands at equal, broadcast, shifted and gathered positions."""
    indices = RNG.integers(0, shape[3], shape[3]).astype(np.int32)

    def function(x: Any, b: Any, i: Any) -> Any:
        y = tg.relu(x + b[None, :, None, None])
        repeated = tg.broadcast_to(y[..., :1], y.shape) + y[:, :, ::-1, :]
        padded = tg.pad(y[..., 1:], [(0, 0), (0, 0), (0, 0), (0, 1)])
        return repeated * padded - tg.take(x, i, axis=3), y * 2.0

    check(device, function, [floats(*shape), floats(shape[1]), indices], SOFTWARE, "thread")
