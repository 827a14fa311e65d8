"""Tuning: every schedule that it may try has the same values, and the results are stored and used."""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

import tensorgrad as tg
from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.schedule import ContractionSchedule, Schedule, ScheduleAttr
from tensorgrad.driver.compiling import tuning
from tensorgrad.errors import OptionError
from tensorgrad.passes.analyses.identity import kernel_key
from tensorgrad.passes.buffers.schedule.tuned import FORMAT, Search, read_file, read_table, write_table
from tensorgrad.passes.codegen.build_program import build_program
from tensorgrad.passes.codegen.choose import choose, neighbours
from tensorgrad.passes.pipelines import Phase, device_passes, start_of, until
from tensorgrad.runtime.target import Target

X = np.random.default_rng(0).standard_normal((40, 24)).astype(np.float32)
W = np.random.default_rng(1).standard_normal((24, 33)).astype(np.float32)


def until_scheduled(function: Any, target: Target, *specs: Any) -> ModuleOp:
    module = tg.trace(function, *specs)
    for pass_ in until(Phase.SCHEDULED, device_passes(target)):
        pass_.apply(Context(), module)
    return module


def reachable(kernel: KernelOp, target: Target, most: int = 60) -> list[Schedule]:
    """Returns the default schedule, and all that can be reached from it in a few steps."""
    schedules = [choose(kernel, target)]
    for schedule in schedules:
        schedules += [neighbour for neighbour in neighbours(schedule, kernel, target) if neighbour not in schedules]
        if len(schedules) >= most:
            break
    return schedules


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


@pytest.mark.nightly
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_schedule_gives_the_same_values(name: str, device: Any) -> None:
    from tensorgrad.runtime.webgpu import WebGPUExecutable

    target = device.target
    module = until_scheduled(FUNCTIONS[name], target, X.shape, W.shape)
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    expected = np.asarray(FUNCTIONS[name](X, W))
    nearly_zero = 1e-6 * max(10.0, float(np.abs(expected).max()))  # sums cancel to less than their terms' rounding
    seen: set[str] = set()
    for place, kernel in enumerate(kernels):
        for schedule in reachable(kernel, target, 60 if name == "product" else 8):
            copy = module.clone()
            same = [op for op in copy.walk() if isinstance(op, KernelOp)][place]
            same.properties["schedule"] = ScheduleAttr(schedule)
            passes = device_passes(target)
            for pass_ in passes[start_of(Phase.SCHEDULED, passes) :]:
                pass_.apply(Context(), copy)
            executable = WebGPUExecutable(build_program(copy, target), device, trusted=True)
            actual = np.asarray(
                executable.step(dict(zip(executable.program_inputs, (X, W), strict=True)), {})["result0"]
            )
            np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=nearly_zero, err_msg=str(schedule))
            seen.add(schedule.archetype)
    assert seen


def test_a_gpu_has_more_to_try() -> None:
    target = replace(Target(), subgroups=True, subgroup_size=32)
    module = until_scheduled(lambda x, w: x @ w, target, (256, 256), (256, 256))
    kernel = next(op for op in module.walk() if isinstance(op, KernelOp))
    schedules = reachable(kernel, target, 200)
    tiles = [schedule for schedule in schedules if isinstance(schedule, ContractionSchedule)]
    assert {tile.chunk for tile in tiles} >= {0, 8, 16}
    assert all(tile.threads <= target.max_compute_invocations_per_workgroup for tile in tiles)


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
    monkeypatch.setattr(tuning, "neighbours", lambda *arguments: neighbours(*arguments)[:1])
    first = compiled(tune=500)  # until there is nothing left to try
    table = read_table(next(tmp_path.glob("schedules/*.json")))
    assert table
    np.testing.assert_allclose([float(first.step(x=X)) for _ in range(3)], plain, rtol=1e-5)

    def unexpected(*_: Any) -> float:
        raise AssertionError("what is known is not measured again")

    monkeypatch.setattr(tuning._Bench, "seconds", unexpected)
    again = compiled(tune=500)
    assert again.module("buf") == first.module("buf")


@pytest.mark.nightly
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
    assert read_table(path) == table and read_file(path) == (table, {})
    searches = {
        "other": Search(0.25, choose(kernel, Target()), {choose(kernel, Target()), reachable(kernel, Target())[1]})
    }
    write_table(path, table, searches)
    assert read_file(path) == (table, searches) and read_table(path) == table
    path.write_text(path.read_text(encoding="utf-8").replace(f'"format": {FORMAT}', '"format": 0'), encoding="utf-8")
    assert read_table(path) == {}
    path.write_text("{", encoding="utf-8")
    with pytest.raises(DiagnosticException, match="delete it"):
        read_table(path)


class Measured:
    """Replaces measurements by given times, records the measured schedules, and stops after some."""

    def __init__(self, patch: pytest.MonkeyPatch, most: int | None = None, error: type[BaseException] | None = None):
        self.asked: list[tuple[str, Schedule]] = []
        self.most, self.error, self.clock = most, error, 0.0
        patch.setattr(tuning._Bench, "seconds", lambda bench, schedule: self.cost(bench, schedule))
        patch.setattr(tuning._Bench, "wins", lambda bench, schedule, other: self.wins(bench, schedule, other))
        patch.setattr("tensorgrad.driver.compiling.tuning.perf_counter", lambda: self.clock)

    @staticmethod
    def cost(bench: tuning._Bench, schedule: Schedule) -> float:
        """Returns an arbitrary time for a schedule, the same at each call."""
        text = f"{kernel_key(bench.kernel)} {schedule}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) / 2**32

    def wins(self, bench: tuning._Bench, schedule: Schedule, other: Schedule) -> bool:
        if len(self.asked) == self.most:
            if self.error is not None:
                raise self.error
            self.clock = 1e9  # the time is up once this is done
        self.asked.append((kernel_key(bench.kernel), schedule))
        return self.cost(bench, schedule) < self.cost(bench, other)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, None], ids=["interrupt", "error", "time"])
def test_a_search_that_is_cut_short_goes_on(
    error: type[BaseException] | None, device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = until_scheduled(FUNCTIONS["product"], device.target, X.shape, W.shape)
    monkeypatch.setenv("TENSORGRAD_CACHE", str(tmp_path))
    path = tuning.table_path(device)
    asked: list[tuple[str, Schedule]] = []
    for most in (1, 3, 2):
        measured = Measured(monkeypatch, most, error)
        with contextlib.nullcontext() if error is None else pytest.raises(error):
            tuning.tune(module, device, 60)
        asked += measured.asked
        table, searches = read_file(path)
        ((key, search),) = searches.items()
        assert {schedule for _, schedule in asked} == search.tried - {choose_of(module, device.target)}
        assert search.best in search.tried and table[key] == search.best
    measured = Measured(monkeypatch)
    assert tuning.tune(module, device, 60) == path
    asked += measured.asked
    assert len(set(asked)) == len(asked), "what was measured is not measured again"
    table, searches = read_file(path)
    assert not searches and len(table) == 1
    kernel = next(op for op in module.walk() if isinstance(op, KernelOp))
    bench = tuning._Bench(kernel, device, choose(kernel, device.target))
    (best,) = table.values()
    assert measured.cost(bench, best) == min(
        measured.cost(bench, schedule) for schedule in (*(s for _, s in asked), bench.default)
    )
    assert not Measured(monkeypatch).asked and tuning.tune(module, device, 60) == path


def choose_of(module: ModuleOp, target: Target) -> Schedule:
    return choose(next(op for op in module.walk() if isinstance(op, KernelOp)), target)


def test_what_a_first_look_found_is_kept(device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With any time limit, each call makes progress."""
    module = until_scheduled(FUNCTIONS["gradient of weights"], device.target, X.shape, W.shape)
    monkeypatch.setenv("TENSORGRAD_CACHE", str(tmp_path))
    keys = {kernel_key(op) for op in module.walk() if isinstance(op, KernelOp)}
    assert len(keys) > 2

    class Slow(Measured):
        def cost(self, bench: tuning._Bench, schedule: Schedule) -> float:  # type: ignore[override]
            self.clock += 40.0
            return 1.0

    looked: list[int] = []
    for _ in range(len(keys)):
        Slow(monkeypatch, most=0)
        tuning.tune(module, device, 30)
        looked.append(len(read_file(tuning.table_path(device))[1]))
    assert looked == list(range(1, len(keys) + 1))
