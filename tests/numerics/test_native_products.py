"""Products in native code: of few rows, whose columns are read in place, and with results in any order."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from harness import NumpyArray, as_native_code, as_scheduled, reference, traced, until_scheduled
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

import tensorgrad as tg
from tensorgrad.dialects.buf import KernelOp, ScheduleAttr
from tensorgrad.dialects.native_schedules import PackedSchedule


def by_columns(x: Any, y: Any) -> Any:
    return x @ tg.transpose(y)


def layer(x: Any, y: Any) -> Any:
    """Rows have a prologue, so they are packed, and results an epilogue."""
    return tg.relu(tg.tanh(x) @ tg.transpose(y) + 0.5)


def in_batches(x: Any, y: Any) -> Any:
    return tg.einsum("brk,bck->brc", tg.stack([x, 2 * x]), tg.stack([y, y - 1]))


FUNCTIONS = {"plain": by_columns, "layer": layer, "batches": in_batches, "untransposed": operator.matmul}

SHAPES = ((2, 16, 16), (3, 19, 17), (8, 96, 47), (17, 130, 64), (48, 257, 70), (30, 64, 49), (70, 1088, 50))
"""Rows, iterations and columns: whole vectors and parts of them, one block of rows and several."""


def inputs_of(rows: int, steps: int, columns: int, is_transposed: bool = True) -> list[NumpyArray]:
    draw = np.random.default_rng(0)
    shape = (columns, steps) if is_transposed else (steps, columns)
    return [draw.standard_normal((rows, steps)), draw.standard_normal(shape)]


def schedule_of(function: Any, inputs: list[NumpyArray]) -> PackedSchedule:
    module = traced(function, inputs)
    until_scheduled(module)
    (schedule,) = [op.schedule.data for op in module.walk() if isinstance(op, KernelOp) and op.schedule is not None]
    assert isinstance(schedule, PackedSchedule)
    return schedule


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_few_rows(name: str, dtype: type) -> None:
    for shape in SHAPES:
        inputs = inputs_of(*shape, is_transposed=name != "untransposed")
        (expected,) = reference(traced(FUNCTIONS[name], inputs), inputs)
        arrays = [array.astype(dtype) for array in inputs]
        (result,) = as_native_code(traced(FUNCTIONS[name], arrays), arrays, each=False)
        bound = 4 * shape[1] ** 0.5 * np.finfo(dtype).eps * float(np.abs(expected).max())
        np.testing.assert_allclose(result, expected, rtol=0, atol=bound)


def test_vectors_run_along_the_reduction_where_a_transpose_would_cost_more() -> None:
    assert schedule_of(by_columns, [array.astype(np.float32) for array in inputs_of(8, 256, 512)]).along_steps
    many = schedule_of(by_columns, [array.astype(np.float32) for array in inputs_of(200, 256, 512)])
    assert not many.along_steps and not many.direct_columns


def test_the_last_column_is_summed_along_the_reduction() -> None:
    """A vector of it would take as long as one of which all lanes count."""
    one, most = (
        schedule_of(operator.matmul, [array.astype(np.float32) for array in inputs_of(96, 64, columns, False)])
        for columns in (49, 63)
    )
    assert one.tail_along == 1 and not most.tail_along


def test_few_rows_have_more_columns_in_registers() -> None:
    """The columns of the next iteration are elsewhere in memory."""
    few, more = (
        schedule_of(operator.matmul, [array.astype(np.float32) for array in inputs_of(rows, 512, 4096, False)])
        for rows in (2, 200)
    )
    assert few.direct_columns and few.tiles_over((2, 4096))[0] == 1
    assert not more.direct_columns and few.columns > more.columns


@pytest.mark.parametrize(
    "change", [{"along_steps": 3}, {"depth": 32}, {"direct_columns": 0}, {"lanes": 128, "columns": 128}], ids=str
)
def test_vectors_that_cannot_run_along_the_reduction_are_refused(change: Mapping[str, int]) -> None:
    module = traced(by_columns, [array.astype(np.float32) for array in inputs_of(8, 96, 256)])
    with pytest.raises(DiagnosticException, match="is scheduled to have vectors along its reduction, but"):
        as_scheduled(module, change)


@pytest.mark.parametrize(("function", "shape"), [(by_columns, (32, 64)), (operator.matmul, (64, 5))])
def test_columns_that_cannot_be_read_in_place_are_refused(function: Any, shape: tuple[int, int]) -> None:
    """Edited schedules: their claims about memory are checked before code relies on them.

    Columns may be no neighbours, or fewer than a vector has elements.
    """
    module = traced(function, [np.ones((80, 64), np.float32), np.ones(shape, np.float32)])
    with pytest.raises(DiagnosticException, match="is scheduled to read columns in place, but they are not contiguous"):
        as_scheduled(module, {"direct_columns": 1})


@pytest.mark.parametrize("stored", [tg.bf16, np.float16])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_factors_that_are_stored_short(is_transposed: bool, stored: Any) -> None:
    """They are extended in registers: few rows read them in place, others pack them."""

    def product(x: Any, y: Any) -> Any:
        wide = tg.cast(y, "f32")
        return tg.cast(x, "f32") @ (tg.transpose(wide) if is_transposed else wide)

    for shape in (*SHAPES, (130, 96, 64), (64, 1301, 80)):
        for rows in (np.float32, stored):
            x, y = inputs_of(*shape, is_transposed)
            arrays = [x.astype(rows), y.astype(stored)]
            (result,) = as_native_code(traced(product, arrays), arrays, each=False)
            left, right = (array.astype(np.float64) for array in arrays)
            expected = left @ (right.T if is_transposed else right)
            bound = 4 * shape[1] ** 0.5 * np.finfo(np.float32).eps * float(np.abs(expected).max())
            np.testing.assert_allclose(result, expected, rtol=0, atol=bound)


@pytest.mark.parametrize("features", [64, 24, 18])
def test_rows_of_several_heads(features: int) -> None:
    """Blocks of rows lie within a head where they can, so that each is copied by vectors."""

    def by_heads(x: Any, y: Any) -> Any:
        return tg.reshape(tg.transpose(x, (0, 2, 1)), (-1, x.shape[1])) @ y

    draw = np.random.default_rng(0)
    inputs = [draw.standard_normal((6, 70, features)), draw.standard_normal((70, 96))]
    if features != 18:
        assert features % schedule_of(by_heads, inputs).rows == 0
    (expected,) = reference(traced(by_heads, inputs), inputs)
    arrays = [array.astype(np.float32) for array in inputs]
    (result,) = as_native_code(traced(by_heads, arrays), arrays, each=False)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-5 * float(np.abs(expected).max()))


def test_tiles_are_equally_long() -> None:
    """A tile of 256 columns, another one, and one of 64 would take one core longer than two of 288."""
    schedule = schedule_of(lambda x, y: tg.relu(x) @ tg.transpose(y), inputs_of(512, 64, 576))
    assert schedule.tile_columns == 288


@pytest.mark.parametrize(("rows", "columns"), [("a", "bc"), ("ba", "d"), ("ea", "dc")])
def test_results_of_several_loops_in_any_order(rows: str, columns: str) -> None:
    """Rows and columns are evenly apart in some, as are those of the bias; fewer columns than a run are looked up."""
    sizes, draw = {"a": 2, "b": 3, "c": 2, "d": 3, "e": 5, "k": 4}, np.random.default_rng(0)
    x, y, bias = (
        draw.normal(size=[sizes[name] for name in names]).astype(np.float32)
        for names in (f"{rows}k", f"k{columns}", rows + columns)
    )
    for order in map("".join, permutations(rows + columns)):
        subscripts = f"{rows}k,k{columns}->{order}"
        shape, expected = [sizes[name] for name in order], np.einsum(subscripts, x, y)

        def plain(x: Any, y: Any, bias: Any, subscripts: str = subscripts) -> Any:
            return tg.einsum(subscripts, x, y)

        def biased(x: Any, y: Any, bias: Any, subscripts: str = subscripts, shape: Any = tuple(shape)) -> Any:
            return tg.einsum(subscripts, x, y) + bias.reshape(shape)

        for function, result in ((plain, expected), (biased, expected + bias.reshape(shape))):
            (actual,) = as_native_code(traced(function, [x, y, bias]), [x, y, bias], each=False)
            np.testing.assert_allclose(actual, result, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("depth", [2048, 32])
@pytest.mark.parametrize("name", ["product", "layer", "convolution"])
def test_the_order_of_register_blocks_changes_no_bit(name: str, depth: int) -> None:
    """In each order the sums of a range are those of the ranges before, with the epilogue after the last."""

    def by(order: int) -> list[NumpyArray]:
        def change(module: ModuleOp) -> None:
            schedules = {
                kernel: kernel.schedule.data
                for kernel in module.walk()
                if isinstance(kernel, KernelOp) and kernel.schedule is not None
            }
            ((kernel, schedule),) = (
                (kernel, schedule) for kernel, schedule in schedules.items() if isinstance(schedule, PackedSchedule)
            )
            shortened = min(depth, schedule.depth)
            edited = replace(schedule, by_columns=order, depth=shortened // 9 * 9 if schedule.pitch else shortened)
            assert edited.direct_rows
            kernel.schedule = ScheduleAttr(edited)

        return as_native_code(traced(functions[name], inputs), inputs, each=False, change=change)

    functions = {
        "product": operator.matmul,
        "layer": lambda x, y: tg.relu(x @ y + 0.5),
        "convolution": lambda w, x: tg.relu(tg.conv(x, w, padding=1) + 1.0),
    }
    draw = np.random.default_rng(0)
    shapes = {"convolution": ((18, 12, 3, 3), (1, 12, 13, 20))}
    for shape in ((70, 65, 100), (9, 257, 530)):
        both = shapes.get(name, (shape[:2], shape[1:]))
        inputs = [draw.standard_normal(extents).astype(np.float32) for extents in both]
        (rows,), (columns,) = by(0), by(1)
        assert rows.tobytes() == columns.tobytes()
        (expected,) = reference(traced(functions[name], inputs), inputs)
        np.testing.assert_allclose(columns, expected, rtol=1e-4, atol=1e-3)
