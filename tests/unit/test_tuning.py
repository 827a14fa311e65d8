"""Tuning: every schedule it may try gives the same values, and what it finds is kept and used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

import tensorgrad as tg
from tensorgrad import tuning
from tensorgrad.dialects.buf import KernelOp
from tensorgrad.errors import OptionError
from tensorgrad.passes.build_program import build_program
from tensorgrad.passes.kernels.identity import kernel_key
from tensorgrad.passes.pipelines import device_passes
from tensorgrad.passes.schedule.choose import choose
from tensorgrad.passes.schedule.neighbours import neighbours
from tensorgrad.passes.schedule.schedules import Schedule
from tensorgrad.passes.schedule.tuned import FORMAT, read_table, write_table
from tensorgrad.runtime.target import Target

X = np.random.default_rng(0).standard_normal((40, 24)).astype(np.float32)
W = np.random.default_rng(1).standard_normal((24, 33)).astype(np.float32)


def until_scheduled(function: Any, target: Target, *specs: Any) -> ModuleOp:
    module = tg.trace(function, *specs)
    for one in device_passes(target.to_json()):
        if one.name == "schedule":
            break
        one.apply(Context(), module)
    return module


def reachable(kernel: KernelOp, target: Target, most: int = 60) -> list[Schedule]:
    """The default schedule and all that a few steps lead to."""
    found = [choose(kernel, target)]
    for schedule in found:
        found += [one for one in neighbours(schedule, kernel, target) if one not in found]
        if len(found) >= most:
            break
    return found


def convolved(x: Any, w: Any) -> Any:
    return tg.conv2d(tg.reshape(x, (2, 4, 10, 12)), tg.reshape(w, (22, 4, 3, 3)), padding=1)


FUNCTIONS: dict[str, Any] = {
    "product": lambda x, w: tg.relu(x @ w + 1.0),
    "convolution": lambda x, w: convolved(x, w),
    "gradient of weights": lambda x, w: tg.grad(lambda v: tg.sum(convolved(x, v) ** 2))(w),
    "rows": lambda x, w: tg.softmax(x) * tg.sum(w),
    "points": lambda x, w: tg.exp(x) * 0.5,
    "total": lambda x, w: tg.sum(x * x) + tg.max(w),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_schedule_gives_the_same_values(name: str, device: Any) -> None:
    from tensorgrad.runtime.webgpu import WebGPUExecutable

    target = device.target
    module = until_scheduled(FUNCTIONS[name], target, X.shape, W.shape)
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    expected = np.asarray(FUNCTIONS[name](X, W))
    seen: set[str] = set()
    for place, kernel in enumerate(kernels):
        for schedule in reachable(kernel, target, 60 if name == "product" else 8):
            copy = module.clone()
            same = [op for op in copy.walk() if isinstance(op, KernelOp)][place]
            same.properties["schedule"] = schedule.attribute()
            passes = device_passes(target.to_json())
            for one in passes[[one.name for one in passes].index("schedule") :]:
                one.apply(Context(), copy)
            executable = WebGPUExecutable(build_program(copy, target), device)
            found = np.asarray(
                executable.step(dict(zip(executable.program_inputs, (X, W), strict=True)), {})["result0"]
            )
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-5, err_msg=str(schedule))
            seen.add(schedule.archetype)
    assert seen


def test_a_gpu_has_more_to_try() -> None:
    target = replace(Target(), subgroups=True, subgroup_size=32)
    module = until_scheduled(lambda x, w: x @ w, target, (256, 256), (256, 256))
    kernel = next(op for op in module.walk() if isinstance(op, KernelOp))
    found = reachable(kernel, target, 200)
    tiles = [one.tile for one in found if one.tile is not None]
    assert {tile.chunk for tile in tiles} >= {0, 8, 16}
    assert all(tile.lanes * tile.depth <= target.max_compute_invocations_per_workgroup for tile in tiles)


def compiled(**options: Any) -> tg.Training:
    return tg.compile(
        tg.nn.MLP(24, 64, 8),
        loss=lambda model, x: tg.mean(model(x) ** 2),
        optimizer=tg.optim.adam(1e-2),
        inputs={"x": X.shape},
        device="wgpu",
        **options,
    )


def test_what_is_found_is_kept_and_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORGRAD_CACHE", str(tmp_path))
    plain = [float(training.step(x=X)) for training in [compiled()] for _ in range(3)]
    first = compiled(tune=True)
    table = read_table(next(tmp_path.glob("schedules/*.json")))
    assert table
    np.testing.assert_allclose([float(first.step(x=X)) for _ in range(3)], plain, rtol=1e-5)

    def unexpected(*_: Any) -> float:
        raise AssertionError("what is known is not measured again")

    monkeypatch.setattr(tuning._Bench, "seconds", unexpected)
    again = compiled(tune=True)
    assert again.module("buf") == first.module("buf")


def test_no_time_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORGRAD_CACHE", str(tmp_path))
    assert compiled(tune=1e-9).module("buf") == compiled().module("buf")


@pytest.mark.parametrize("wrong", ["yes", -1.0, float("nan"), None])
def test_wrong_times_are_refused(wrong: Any) -> None:
    with pytest.raises(OptionError, match="tune must be"):
        compiled(tune=wrong)


def test_tables_read_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "table.json"
    module = until_scheduled(lambda x, w: x @ w, Target(), X.shape, W.shape)
    kernel = next(op for op in module.walk() if isinstance(op, KernelOp))
    table = {kernel_key(kernel): choose(kernel, Target())}
    assert read_table(path) == {}
    write_table(path, table)
    assert read_table(path) == table
    path.write_text(path.read_text(encoding="utf-8").replace(f'"format": {FORMAT}', '"format": 0'), encoding="utf-8")
    assert read_table(path) == {}
    path.write_text("{", encoding="utf-8")
    with pytest.raises(DiagnosticException, match="delete it"):
        read_table(path)
