"""Products in native code whose epilogue updates a parameter in place: each element is updated exactly once.

Register blocks at an edge overlap their neighbours, and storing a sum twice changes nothing; subtracting it twice does.
All numbers are small integers, so that the results are exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from harness import NumpyArray, apply
from xdsl.dialects.builtin import ModuleOp

import tensorgrad as tg
from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.native_schedules import PackedSchedule
from tensorgrad.dialects.schedule import ScheduleAttr
from tensorgrad.driver.compiling.recipe import passes_to_kernels
from tensorgrad.passes.codegen.build_program import build_program
from tensorgrad.passes.pipelines import scheduled_passes
from tensorgrad.runtime.cpu import CpuDevice, CpuExecutable
from tensorgrad.runtime.cpu.pool import Pool
from tensorgrad.runtime.cpu.threads import THREADS_VARIABLE

ROWS, COLUMNS, LANES = 4, 8, 4
"""The register block: its rows, its columns, and the elements of a vector."""

SHAPES = [(ROWS + i, COLUMNS + 3 * i % 11) for i in range(11)] + [(9, 5), (13, 6), (2 * ROWS, 3 * COLUMNS)]
"""The shapes of parameters: every remainder of rows and columns, less than a block of columns, and whole blocks."""

STEPS = 13
"""The terms of each sum."""

RATE = 0.5

SCHEDULES: Mapping[str, dict[str, int]] = {
    "one task": {"tile_rows": 64, "tile_columns": 64},
    "tasks of a block": {"tile_rows": ROWS, "tile_columns": COLUMNS},
    "tiles of rows": {"tile_rows": 2 * ROWS, "tile_columns": 64, "direct_rows": 0, "direct_columns": 0},
    "ranges": {"tile_rows": 2 * ROWS, "tile_columns": COLUMNS, "depth": 3},
}


class Model(tg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = [tg.nn.param(shape, 1.0) for shape in SHAPES]


def loss(model: Model, x: tg.Tensor, g: tg.Tensor) -> tg.Tensor:
    """Its derivative by a parameter is the product of the first columns of `x`, transposed, and those of `g`."""
    terms = [tg.sum((x[:, : w.shape[0]] @ w) * g[:, : w.shape[1]]) for w in model.w]
    return sum(terms[1:], terms[0])


@pytest.fixture(scope="module")
def kernels() -> ModuleOp:
    """Returns the scheduled kernels of a training step, before their memory plan."""
    count, widest = max(rows for rows, _ in SHAPES), max(columns for _, columns in SHAPES)
    inputs = {"x": (STEPS, count), "g": (STEPS, widest)}
    training = tg.compile(Model(), loss=loss, optimizer=tg.optim.sgd(RATE), inputs=inputs, device="numpy")
    recipe, choice = training._compilation.recipe, training._compilation.choice
    module = recipe.traced.clone()
    for pass_ in passes_to_kernels(recipe, choice, CpuDevice().target):
        if pass_.name == "plan-memory":
            return module
        apply(pass_, module)
    raise AssertionError("there is no plan")


def values() -> dict[str, NumpyArray]:
    """Returns the inputs and the parameters, by name."""
    generator = np.random.default_rng(0)
    count, widest = max(rows for rows, _ in SHAPES), max(columns for _, columns in SHAPES)
    shapes = {"x": (STEPS, count), "g": (STEPS, widest), **{f"w.{i}": shape for i, shape in enumerate(SHAPES)}}
    return {name: generator.integers(-3, 4, shape).astype(np.float32) for name, shape in shapes.items()}


def schedule(module: ModuleOp, changes: Mapping[str, int]) -> int:
    """Changes the schedules of the products that update parameters; returns their number."""
    count = 0
    for kernel in module.walk():
        if not isinstance(kernel, KernelOp) or kernel.schedule is None or len(kernel.stages) == 1:
            continue
        before = kernel.schedule.data
        if isinstance(before, PackedSchedule):
            columns = COLUMNS if kernel.extents[1] >= COLUMNS else LANES
            blocks = {"rows": ROWS, "columns": columns, "lanes": LANES, "depth": STEPS}
            after = replace(before, **{**blocks, **changes})
            if columns < COLUMNS:
                after = replace(after, tile_columns=64)
            tasks = after.tasks_over(kernel.extents)
            kernel.properties["schedule"] = ScheduleAttr(replace(after, groups=(tasks, 1, 1)))
            count += 1
    return count


@pytest.mark.nightly
@pytest.mark.parametrize("name", SCHEDULES)
def test_each_element_is_updated_once(kernels: ModuleOp, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """By any number of threads."""
    module, device = kernels.clone(), CpuDevice()
    assert schedule(module, SCHEDULES[name]) == len(SHAPES)
    for pass_ in scheduled_passes(device.target):
        apply(pass_, module)
    executable = CpuExecutable(build_program(module, device.target), device)
    before, parameters = values(), executable.program.slots("parameter")
    for threads in (1, 2, 3):
        monkeypatch.setenv(THREADS_VARIABLE, str(threads))
        pool = Pool()
        monkeypatch.setattr(device, "pool", pool)
        executable.write({name: before[name] for name in parameters})
        executable.step({name: before[name] for name in ("x", "g")}, {"learning_rate": RATE})
        updated = executable.read(parameters)
        pool.end_threads()
        for i, (rows, columns) in enumerate(SHAPES):
            expected = before[f"w.{i}"] - RATE * (before["x"][:, :rows].T @ before["g"][:, :columns])
            np.testing.assert_array_equal(updated[f"w.{i}"], expected, f"{rows} x {columns}, {threads} threads")
