"""Image windows in native code: panels packed by runs of neighbours and by table lookup have equal values.

Images are large enough that tiles, panels and runs end in the middle of rows, of images, and of one another.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from differences import in_f64
from harness import GRADIENT, NumpyArray, as_native_code, as_scheduled, reference, traced, until_scheduled
from xdsl.dialects import affine as affine_ops
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.linalg.ops import GenericOp, IndexOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import DiagnosticException

import tensorgrad as tg
from tensorgrad.dialects.buf import KernelOp, is_shape_only, loop_extents, maps_of, shape_of
from tensorgrad.dialects.native_schedules import PackedSchedule
from tensorgrad.passes.analyses.axes import axes_of_values
from tensorgrad.passes.analyses.factors import factors_of
from tensorgrad.passes.analyses.kinds import summed_stage
from tensorgrad.passes.analyses.windows import places_of, run_along
from tensorgrad.passes.codegen.llvm.packed.schedule import PackedArchetype
from tensorgrad.runtime.cpu.compiler import host_cpu
from tensorgrad.runtime.target import CPU, Target
from tensorgrad.transforms.grad import value_and_grad

Shapes = tuple[tuple[int, ...], tuple[int, ...]]

WINDOWS: Mapping[str, tuple[Shapes, Mapping[str, Any]]] = {
    "same": (((3, 4, 14, 14), (8, 4, 3, 3)), {"padding": 1}),
    "one channel": (((5, 1, 9, 28), (6, 1, 3, 3)), {"padding": 1}),
    "narrow rows": (((4, 3, 11, 5), (7, 3, 3, 3)), {"padding": 1}),
    "wide window": (((2, 3, 12, 17), (4, 3, 5, 5)), {"padding": 2}),
    "unpadded": (((2, 3, 13, 20), (5, 3, 3, 3)), {}),
    "strided": (((2, 3, 16, 30), (5, 3, 3, 3)), {"padding": 1, "stride": 2}),
    "strided down": (((2, 3, 16, 30), (5, 3, 3, 3)), {"padding": 1, "stride": (2, 1)}),
    "one side": (((2, 2, 10, 19), (3, 2, 2, 2)), {"padding": ((1, 0), (0, 1))}),
    "dilated": (((2, 3, 15, 18), (4, 3, 3, 3)), {"padding": 2, "dilation": 2}),
    "groups": (((2, 6, 9, 16), (8, 3, 3, 3)), {"padding": 1, "groups": 2}),
    "depthwise": (((2, 5, 9, 16), (5, 1, 3, 3)), {"padding": 1, "groups": 5}),
    "one axis": (((3, 4, 70), (6, 4, 5)), {"padding": 2}),
    "three axes": (((2, 2, 5, 6, 9), (3, 2, 3, 3, 3)), {"padding": 1}),
    "pointwise": (((3, 9, 7, 11), (10, 9, 1, 1)), {}),
    "many rows": (((3, 2, 9, 12), (96, 2, 3, 3)), {"padding": 1}),
    "strided by more than the window": (((2, 3, 30, 41), (5, 3, 2, 3)), {"stride": 4}),
    "depthwise, strided": (((2, 5, 17, 37), (5, 1, 5, 5)), {"padding": 2, "stride": 2, "groups": 5}),
    "depthwise, strided and dilated": (
        ((2, 3, 20, 36), (3, 1, 4, 4)),
        {"padding": 3, "stride": 2, "dilation": 3, "groups": 3},
    ),
    "depthwise, strided by three": (((2, 3, 7, 23), (3, 1, 3, 3)), {"padding": 1, "stride": 3, "groups": 3}),
    "depthwise, in phases": (((2, 3, 9, 20), (3, 1, 4, 4)), {"padding": 1, "stride": 2, "groups": 3}),
    "depthwise, padded by more than a line": (((1, 2, 3, 2), (2, 1, 5, 5)), {"padding": 4, "groups": 2}),
    "depthwise, down": (((2, 3, 9, 20), (3, 1, 3, 1)), {"stride": (1, 2), "groups": 3}),
    "depthwise, across": (((2, 3, 9, 20), (3, 1, 1, 3)), {"stride": (2, 1), "groups": 3}),
    "depthwise, in blocks of lines": (((2, 3, 50, 70), (3, 1, 3, 3)), {"padding": 1, "groups": 3}),
    "depthwise, strided, in blocks": (((1, 2, 61, 130), (2, 1, 5, 5)), {"padding": 2, "stride": 2, "groups": 2}),
    "depthwise, no block inside": (((2, 2, 9, 9), (2, 1, 12, 3)), {"padding": (11, 1), "groups": 2}),
    "several tiles of lines": (((1, 40, 30, 90), (4, 40, 3, 3)), {"padding": 1}),
    "small images": (((3, 6, 8, 8), (40, 6, 3, 3)), {"padding": 1}),
    "tiny images": (((9, 3, 3, 3), (40, 3, 3, 3)), {"padding": 1}),
    "pointwise, of whole vectors": (((2, 9, 8, 16), (10, 9, 1, 1)), {}),
    "several ranges of channels": (((1, 150, 7, 9), (9, 150, 3, 3)), {"padding": 1}),
    "many channels": (((2, 64, 5, 18), (8, 64, 3, 3)), {"padding": 1}),
    "many channels, strided": (((3, 20, 9, 17), (6, 20, 3, 3)), {"padding": 1, "stride": 2}),
    "many channels of narrow rows": (((4, 9, 6, 3), (5, 9, 3, 3)), {"padding": 1}),
    "many channels of one axis": (((3, 12, 30), (6, 12, 5)), {"padding": 2}),
    "many channels, padded by more than a line": (((2, 8, 3, 2), (5, 8, 5, 5)), {"padding": 4}),
    "many channels of groups": (((2, 24, 7, 9), (8, 12, 3, 3)), {"padding": 1, "groups": 2}),
    "few rows": (((1, 3, 9, 27), (2, 3, 3, 3)), {"padding": 1}),
    "whole vectors": (((2, 5, 7, 32), (9, 5, 3, 3)), {"padding": 1}),
    "vectors of several lines": (((2, 5, 7, 16), (9, 5, 3, 3)), {"padding": 1}),
    "one column behind vectors": (((2, 32, 7, 7), (20, 32, 3, 3)), {"padding": 1}),
    "columns behind vectors, in ranges": (((1, 160, 14, 14), (9, 160, 3, 3)), {"padding": 1}),
    "columns behind vectors, strided": (((1, 16, 10, 10), (40, 16, 2, 2)), {"stride": 2}),
    "one row of windows": (((2, 3, 3, 31), (6, 1, 4, 5)), {"stride": (2, 1), "padding": (2, 0), "groups": 3}),
}

BODIES: Mapping[str, Callable[[tg.Tensor], tg.Tensor]] = {
    "alone": lambda x: x,
    "of computed images": lambda x: tg.relu(x * 1.5 + 0.25),
}


def inputs_of(shapes: Sequence[tuple[int, ...]]) -> list[NumpyArray]:
    generator = np.random.default_rng(0)
    return [generator.normal(size=shape).astype(np.float32) for shape in shapes]


@pytest.mark.in_turns(30)
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("name", WINDOWS)
def test_values_and_gradients(name: str, body: str) -> None:
    shapes, options = WINDOWS[name]

    def function(x: tg.Tensor, w: tg.Tensor) -> tg.Tensor:
        return tg.sum(tg.tanh(tg.conv(BODIES[body](x), w, **options) * 0.1))

    inputs = inputs_of(shapes)
    both = value_and_grad(function, argnums=(0, 1))
    wide = in_f64(inputs)
    for result, expected in zip(
        as_native_code(traced(both, inputs), inputs), reference(traced(both, wide), wide), strict=True
    ):
        scale = max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(result, expected, rtol=0, atol=GRADIENT * scale)


def test_what_is_outside_is_not_read() -> None:
    """Memory neighbours that are not image neighbours don't contribute, whatever their value."""
    x, w = inputs_of(((2, 2, 8, 16), (3, 2, 3, 3)))
    x[0, :, :, 15] = np.nan
    x[1, :, 0, :] = np.inf
    result = as_native_code(traced(lambda x, w: tg.conv(x, w, padding=1), [x, w]), [x, w])[0]
    assert np.isfinite(result[0, :, :, :14]).all() and not np.isfinite(result[0, :, :, 14:]).any()
    assert np.isfinite(result[1, :, 2:, :]).all() and not np.isfinite(result[1, :, :2, :]).any()


INTEGERS: Mapping[type[Operation], Callable[[int, int], int]] = {
    arith.AddiOp: operator.add,
    arith.SubiOp: operator.sub,
    arith.MuliOp: operator.mul,
    arith.AndIOp: operator.and_,
}


def evaluated(value: SSAValue, point: tuple[int, ...]) -> int:
    """Returns the value of an index or a condition of a body at a point of its loops."""
    op: Any = value.owner
    if isinstance(op, IndexOp):
        return point[op.dim.value.data]
    if isinstance(op, arith.ConstantOp):
        assert isinstance(op.value, IntegerAttr)
        return op.value.value.data
    if isinstance(op, affine_ops.ApplyOp):
        return op.map.data.eval([evaluated(operand, point) for operand in op.operands], ())[0]
    left, right = (evaluated(operand, point) for operand in op.operands)
    if isinstance(op, arith.CmpiOp):
        return int(0 <= left < right)
    return INTEGERS[type(op)](left, right)


def contractions(name: str) -> list[tuple[PackedSchedule, GenericOp]]:
    """Returns the contractions of a convolution and its gradients, with their schedules for the CPU."""
    shapes, options = WINDOWS[name]
    both = value_and_grad(lambda x, w: tg.sum(tg.conv(x, w, **options) ** 2), argnums=(0, 1))
    return scheduled(traced(both, inputs_of(shapes)))


def scheduled(module: ModuleOp) -> list[tuple[PackedSchedule, GenericOp]]:
    """Returns the contractions of a module of `tg`, with their schedules for the CPU."""
    pairs: list[tuple[PackedSchedule, GenericOp]] = []
    until_scheduled(module)
    for kernel in module.walk():
        schedule = kernel.schedule.data if isinstance(kernel, KernelOp) and kernel.schedule is not None else None
        if isinstance(kernel, KernelOp) and isinstance(schedule, PackedSchedule):
            stage = summed_stage(kernel)
            assert stage is not None
            pairs.append((schedule, stage))
    return pairs


@pytest.mark.in_turns(16)
@pytest.mark.parametrize("name", [name for name in WINDOWS if name not in ("groups", "depthwise")])
def test_places_are_where_operands_lie(name: str) -> None:
    """Wherever an operand is present, its address is that of its map; neighbours in a run are contiguous."""
    looked_at = 0
    for schedule, stage in contractions(name):
        extents = loop_extents(stage)
        factors = factors_of(stage, schedule.row, schedule.column)
        assert factors is not None
        for value in (factors.row, factors.column):
            places = places_of(stage, value)
            if places is None:
                continue
            operands = zip(stage.body.block.args, stage.inputs, maps_of(stage), strict=False)
            known = [
                (place, m, shape_of(b)) for a, b, m in operands if (place := places.get(a)) and not is_shape_only(b)
            ]
            for point in product(*(sorted({0, 1, extent // 2, extent - 1} & set(range(extent))) for extent in extents)):
                for place, m, shape in known:
                    if place.guard is not None and not evaluated(place.guard, point):
                        continue
                    looked_at += 1
                    terms = [place.stride(loop) * index for loop, index in enumerate(point)]
                    at = np.ravel_multi_index(m.eval(list(point), ()), shape) if shape else 0
                    assert sum(terms) + place.linear.constant == at
            axes = axes_of_values(stage, schedule.row, schedule.column)[value]
            side = schedule.row if "row" in axes else schedule.column
            shape = [extents[loop] for loop in side]
            run = run_along(places.values(), side, shape)
            indices = np.stack(np.unravel_index(np.arange(math.prod(shape)), shape), axis=1)
            for place in places.values():
                at = (indices @ [place.stride(loop) for loop in side]).reshape(-1, run)
                assert (np.diff(at, axis=1) == (1 if np.ptp(at) else 0)).all()
    assert looked_at


@pytest.mark.parametrize(("name", "run"), [("same", 196), ("one channel", 9 * 28), ("unpadded", 18), ("strided", 1)])
def test_runs_of_images(name: str, run: int) -> None:
    """A run is an image if the window has as many positions as the image, else a row; none with strides."""
    schedule, stage = contractions(name)[0]
    factors = factors_of(stage, schedule.row, schedule.column)
    assert factors is not None
    places = places_of(stage, factors.column)
    assert places is not None
    assert run_along(places.values(), schedule.column, [loop_extents(stage)[loop] for loop in schedule.column]) == run


def test_only_images_are_masked() -> None:
    """What is the same for all elements of a channel lies in memory wherever a window is."""

    def function(x: tg.Tensor, w: tg.Tensor, scale: tg.Tensor, shift: tg.Tensor) -> tg.Tensor:
        return tg.conv(tg.relu(x * scale + shift), w, padding=1)

    module = traced(function, inputs_of(((2, 4, 14, 14), (64, 4, 3, 3), (4, 1, 1), (4, 1, 1))))
    ((schedule, stage),) = scheduled(module)
    factors = factors_of(stage, schedule.row, schedule.column)
    assert factors is not None
    places = places_of(stage, factors.column)
    assert places is not None
    guarded = {shape_of(stage.inputs[argument.index]): place.guard is not None for argument, place in places.items()}
    assert guarded == {(2, 4, 14, 14): True, (4, 1, 1): False}


def test_columns_of_several_parts_are_read_in_runs() -> None:
    """A loop over the features of three arrays is divided by those of one, between whose ends they are contiguous."""

    def function(x: tg.Tensor, y: tg.Tensor) -> tg.Tensor:
        return tg.transpose(x) @ tg.reshape(tg.transpose(y, (1, 2, 0, 3)), (40, 72))

    x, y = inputs = inputs_of(((40, 12), (3, 8, 5, 24)))
    (result,) = as_native_code(traced(function, inputs), inputs)
    np.testing.assert_allclose(result, x.T @ y.transpose(1, 2, 0, 3).reshape(40, 72), rtol=0, atol=1e-5)
    ((schedule, stage),) = scheduled(traced(function, inputs))
    factors = factors_of(stage, schedule.row, schedule.column)
    assert factors is not None
    places = places_of(stage, factors.column)
    assert places is not None
    assert run_along(places.values(), schedule.column, [loop_extents(stage)[loop] for loop in schedule.column]) == 24


@pytest.mark.parametrize(
    ("name", "pitch", "gap"),
    [
        ("same", 14, 0),
        ("wide window", 17, 0),
        ("few rows", 29, 2),
        ("strided", *((16, 1) if host_cpu().vector_bytes == 64 else (15, 0))),
        ("whole vectors", 34, 0),
        ("pointwise", 0, 0),
        ("tiny images", 0, 0),
    ],
)
def test_images_are_padded_if_that_costs_less_than_packing(name: str, pitch: int, gap: int) -> None:
    """Lines have as many elements as windows or, with few rows, as many more as a window reaches further.

    So do lines of whole vectors, none of which crosses the end of a line.
    """
    schedule, _ = contractions(name)[0]
    assert (schedule.pitch, schedule.gap) == (pitch, gap)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("same", 0),
        ("depthwise", 5 if host_cpu().vector_bytes == 32 else 9),
        ("depthwise, strided", 5 if host_cpu().vector_bytes == 32 else 9),
        ("depthwise, in blocks of lines", 5),
        ("depthwise, no block inside", 5),
        ("three axes", 0),
    ],
)
def test_depthwise_windows_of_several_lines_are_in_registers(name: str, lines: int) -> None:
    """All lines, if there are as many sums in registers (8 with AVX2), or such blocks that the last is nearly whole."""
    schedule, stage = contractions(name)[0]
    assert schedule.lines == lines
    kernel = stage.parent_op()
    assert isinstance(kernel, KernelOp)
    for other in PackedArchetype().neighbours(schedule, kernel, CPU) if lines else ():
        other.check_covers(kernel.extents)


@pytest.mark.parametrize(
    ("name", "column", "direct"),
    [
        ("small images", (2, 3), 0),
        ("tiny images", (0, 2, 3), 0),
        ("strided by more than the window", (2, 3), 0),
        ("pointwise, of whole vectors", (2, 3), 1),
    ],
)
def test_columns_are_those_of_one_image_if_they_fill_vectors(name: str, column: tuple[int, ...], direct: int) -> None:
    """They are contiguous then, and may be read in place; the columns of all images fill vectors better."""
    schedule, _ = contractions(name)[0]
    assert (schedule.column, schedule.direct_columns) == (column, direct)


@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize("name", [name for name in WINDOWS if name.startswith("many channels")])
def test_derivatives_of_weights_have_vectors_along_channels(
    name: str, is_cut: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if a tile has one register block: it begins in the middle of the channels of a line."""
    default = PackedArchetype.default

    def cut(self: PackedArchetype, kernel: KernelOp, target: Target) -> PackedSchedule | None:
        schedule = default(self, kernel, target)
        if schedule is None or not schedule.pitch:
            return schedule
        schedule = replace(schedule, tile_rows=schedule.rows, tile_columns=schedule.columns)
        return replace(schedule, groups=(schedule.tasks_over(kernel.extents), 1, 1))

    if is_cut:
        monkeypatch.setattr(PackedArchetype, "default", cut)
    shapes, options = WINDOWS[name]
    x, w = inputs_of(shapes)
    gradient = value_and_grad(lambda w, x: tg.sum(tg.conv(x, w, **options) ** 2))
    (schedule, stage) = [pair for pair in scheduled(traced(gradient, [w, x])) if pair[0].pitch][-1]
    assert schedule.pitch == shapes[1][1] and schedule.column[-1] < schedule.column[0]
    assert is_cut or schedule.tiles_over(loop_extents(stage))[1] == 1, "each tile copies all channels"
    _, expected = reference(traced(gradient, in_f64([w, x])), in_f64([w, x]))
    _, result = as_native_code(traced(gradient, [w, x]), [w, x])
    np.testing.assert_allclose(result, expected, rtol=0, atol=GRADIENT * float(np.abs(expected).max()))


def test_derivatives_of_dilated_weights_have_no_lines() -> None:
    """Neighbours in the image belong to different phases of lines then."""
    x, w = inputs_of(((2, 16, 8, 20), (8, 16, 3, 3)))
    gradient = value_and_grad(lambda w, x: tg.sum(tg.conv(x, w, padding=2, dilation=2) ** 2))
    _, expected = reference(traced(gradient, in_f64([w, x])), in_f64([w, x]))
    _, result = as_native_code(traced(gradient, [w, x]), [w, x])
    np.testing.assert_allclose(result, expected, rtol=0, atol=GRADIENT * float(np.abs(expected).max()))


def test_derivatives_of_depthwise_weights_have_vectors_along_lines() -> None:
    """In place of vectors along the 5 x 5 weights, most of whose lanes would lie between the lines of a window."""
    schedules = [schedule for schedule, _ in contractions("depthwise, strided")]
    assert sorted(schedule.along_steps > 0 for schedule in schedules) == [False, False, True]
    assert not any(schedule.along_steps for schedule, _ in contractions("same"))
    x, g = inputs_of(((2, 4, 16, 16), (4, 1, 5, 5)))
    weights = value_and_grad(lambda w, x: tg.sum(tg.conv(x, w, padding=2, groups=4)))
    (long, _) = scheduled(traced(weights, [g, x]))[-1]
    assert long.along_steps and long.depth == 2 * 16 * 16  # the row is packed once, and all of it


@pytest.mark.parametrize("stride", [1, 2])
def test_what_lies_behind_a_line_spoils_no_sum(stride: int) -> None:
    """The first element of each line is no number, and takes part in the derivative of the first weight only."""
    x, w = inputs_of(((2, 3, 4, 10 * stride), (3, 1, 1, 2)))
    x[..., 0] = np.nan
    gradient = value_and_grad(lambda w, x: tg.sum(tg.conv(x, w, stride=(1, stride), groups=3)))
    (schedule, _) = scheduled(traced(gradient, [w, x]))[-1]
    assert schedule.along_steps
    _, result = as_native_code(traced(gradient, [w, x]), [w, x])
    expected = x[..., 1 : 1 + stride * (10 - (stride == 1)) : stride].sum((0, 2, 3))
    assert np.isnan(result[..., 0]).all()
    np.testing.assert_allclose(result[:, 0, 0, 1], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"stride": 2}, {"stride": 3, "padding": 2}, {"dilation": 2}], ids=str)
def test_derivatives_of_depthwise_weights(options: Mapping[str, int]) -> None:
    """Lines of one vector and of more than are written one after another, with elements behind the last whole one."""
    for extent in (23, 211):
        inputs = inputs_of(((2, 3, 5, extent), (3, 1, 3, 3)))
        function = value_and_grad(lambda x, w: tg.sum(tg.tanh(tg.conv(x, w, groups=3, **options))), 1)
        _, expected = reference(traced(function, inputs), inputs)
        _, gradient = as_native_code(traced(function, inputs), inputs)
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pitch": 15}, "is scheduled to pad an image, but"),
        ({"gap": 1}, "is scheduled to pad an image, but"),
        ({"tail_along": 2}, "is scheduled to sum its last columns along the reduction, but"),
        ({"tail_along": 3}, "is scheduled to sum its last columns along the reduction, but"),
        ({"tail_along": 2, "columns": 28, "lanes": 4, "tile_columns": 196}, "is scheduled to sum its last columns"),
        ({"depth": 35}, "is scheduled to pad an image, but"),
        ({"along_steps": 4, "direct_rows": 0}, "is scheduled to have vectors along its reduction, but"),
        (
            {"pitch": 0, "lines": 7, "columns": 8, "tile_columns": 196},
            "is scheduled to have several lines in registers",
        ),
    ],
)
def test_images_that_are_not_padded_so_are_refused(change: Mapping[str, int], message: str) -> None:
    module = traced(lambda x, w: tg.conv(x, w, padding=1), inputs_of(WINDOWS["same"][0]))
    with pytest.raises(DiagnosticException, match=message):
        as_scheduled(module, change)


def test_columns_that_are_apart_are_packed_without_masks() -> None:
    """LLVM would gather them by masks, for which kernels may be compiled without AVX-512; the epilogue has some."""
    x, w = inputs_of(((1, 48, 18, 18), (160, 48, 1, 1)))
    function = tg.jit(lambda x, w: tg.relu(tg.conv(x, w, stride=2)), device="cpu")
    function(x, w)
    assert function.module("cpu").count("cpu.masked") == (host_cpu().vector_bytes == 64)


def test_tiles_of_few_small_rows_stay_near() -> None:
    """Their packed columns and sums, in L1: each tile reads the rows again, which are small."""
    small, large = (
        scheduled(traced(lambda x, w: tg.conv(x, w), inputs_of(((1, depth, 112, 112), (64, depth, 1, 1)))))[0][0]
        for depth in (16, 96)
    )
    assert small.tile_columns < large.tile_columns and small.tile_columns * (16 + small.rows) * 4 <= 24 << 10


@pytest.mark.parametrize("name", ["depthwise", "depthwise, strided", "depthwise, in blocks of lines"])
def test_padding_is_multiplied(name: str) -> None:
    """By an infinite weight it is no number, in whatever lines registers hold."""
    shapes, options = WINDOWS[name]
    x, w = inputs_of(shapes)
    w[0, 0, 0, 1] = np.inf
    module = traced(lambda x, w: tg.conv(x, w, **options), [x, w])
    (expected,) = reference(traced(lambda x, w: tg.conv(x, w, **options), [x, w]), [x, w])
    (result,) = as_native_code(module, [x, w])
    np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
