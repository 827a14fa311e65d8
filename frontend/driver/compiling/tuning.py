"""Tuning: measures schedules of the most expensive kernels, and keeps the best on disk."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, cast

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Region
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import Buffer, KernelOp, buffer_bytes, buffer_type
from tensorgrad.dialects.schedule import Schedule, ScheduleAttr
from tensorgrad.dialects.signature import Role, Slot, slots_attribute
from tensorgrad.driver.compiling.recipe import Choice, Recipe, passes_to_kernels
from tensorgrad.driver.compiling.running import Phases, run_passes
from tensorgrad.driver.device import load_program
from tensorgrad.driver.storage.program_cache import cache_folder
from tensorgrad.errors import ProgramError, TensorgradError
from tensorgrad.passes.analyses.identity import kernel_key
from tensorgrad.passes.buffers.schedule.tuned import FORMAT, Search, read_file, write_table
from tensorgrad.passes.codegen.build_program import build_program
from tensorgrad.passes.codegen.choose import choose, neighbours
from tensorgrad.passes.pipelines import Phase, scheduled_passes, until
from tensorgrad.runtime.cache import create_private
from tensorgrad.runtime.program import Program

if TYPE_CHECKING:
    from tensorgrad.driver.device import ProgramDevice
    from tensorgrad.runtime.backend import Executable

GAIN = 0.95
"""A schedule replaces another if its time is at most this fraction of the other's."""

RUN_SECONDS = 4e-3
"""The approximate time for which a measurement repeats a kernel, so that synchronization overhead is negligible."""

MOST_REPEATS = 256

MOST_BYTES = 1 << 29
"""Kernels whose buffers are larger in total keep their schedule: tuning would allocate them a second time."""


def table_path(device: ProgramDevice) -> Path:
    """Returns the path of a device's schedules, by adapter, driver and the format of schedules.

    It is in the user's cache directory, or in `TENSORGRAD_CACHE` if that is set.
    """
    info = device.info
    name = hashlib.sha256(f"{FORMAT}|{info.name}|{info.driver}|{info.backend}".encode()).hexdigest()[:16]
    return cache_folder() / "schedules" / f"{name}.json"


def tune_recipe(recipe: Recipe, choice: Choice, device: ProgramDevice) -> bool:
    """Measures schedules for the kernels of a recipe; returns whether all have been tuned before the time was up.

    Raises:
        ProgramError: A pass rejects the program, or the file of the device's schedules is malformed.
    """
    module = recipe.traced.clone()
    run_passes(module, until(Phase.SCHEDULED, passes_to_kernels(recipe, choice)), Phases())
    start = perf_counter()
    tune(module, device, recipe.tuning_seconds)
    return perf_counter() - start < recipe.tuning_seconds


def tune(module: ModuleOp, device: ProgramDevice, seconds: float) -> Path:
    """Measures schedules for the kernels of a module until each has its best, or the time is up.

    Kernels that were tuned before are skipped. Measurements are kept however this ends, by the time limit, an interrupt
    or an error: the next call resumes from there.

    Args:
        module: The module after `fuse`, without schedules; not modified.
        device: The device to measure on.
        seconds: The time limit.

    Returns:
        The file to pass to the pass `schedule`.

    Raises:
        ProgramError: The file of the device's schedules is malformed.
    """
    path = table_path(device)
    table, searches = _known(path)
    deadline = perf_counter() + seconds
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    count = Counter(kernel_key(kernel) for kernel in kernels)
    benches: dict[str, _Bench] = {}
    running: dict[str, Search] = {}
    try:
        for kernel in kernels:
            key = kernel_key(kernel)
            is_known = key in table and key not in searches
            if is_known or key in running or perf_counter() > deadline:
                continue
            bench, before = _Bench.of(kernel, device), searches.get(key)
            if bench is not None and (before is not None or bench.runs()):
                benches[key] = bench
                default = bench.default
                running[key] = before or Search(bench.seconds(default), default, {default})
        for key in sorted(running, key=lambda key: -running[key].seconds * count[key]):
            if perf_counter() > deadline:
                break
            if _climb(benches[key], running[key], deadline):
                table[key] = running.pop(key).best
                _keep(path, {key: table[key]}, {})
            benches[key].release()
    finally:
        _keep(path, {}, running)
    return path


def _known(path: Path) -> tuple[dict[str, Schedule], dict[str, Search]]:
    """Returns the schedules in a file, and the unfinished searches; see `read_file`.

    Raises:
        ProgramError: The file is malformed.
    """
    try:
        return read_file(path)
    except DiagnosticException as error:
        raise ProgramError(str(error)) from error


def _keep(path: Path, finished: Mapping[str, Schedule], searches: Mapping[str, Search]) -> None:
    """Merges results into a file, which other processes may have changed meanwhile."""
    if not finished and not searches:
        return
    table, others = _known(path)
    open_searches = {key: search for key, search in {**others, **searches}.items() if key not in finished}
    gains = {key: search.best for key, search in searches.items() if len(search.tried) > 1}
    create_private(path.parent)
    write_table(path, {**table, **gains, **finished}, open_searches)


def _climb(bench: _Bench, search: Search, deadline: float) -> bool:
    """Hill-climbs from the best schedule; returns whether all its neighbors have been tried."""
    while True:
        start = search.best
        around = [
            neighbour
            for neighbour in neighbours(start, bench.kernel, bench.device.target)
            if neighbour not in search.tried
        ]
        for other in around:
            if perf_counter() > deadline:
                return False
            if bench.wins(other, search.best):
                search.best = other
            search.tried.add(other)
        if search.best == start:
            return True


@dataclass
class _Bench:
    """Runs one kernel under any schedule."""

    kernel: KernelOp
    device: ProgramDevice
    default: Schedule

    def __post_init__(self) -> None:
        self._loaded: dict[Schedule, tuple[Executable, int] | None] = {}

    @classmethod
    def of(cls, kernel: KernelOp, device: ProgramDevice) -> _Bench | None:
        """Returns a bench for a kernel; `None` if its buffers are too large."""
        if sum(buffer_bytes(cast(Buffer, operand.type)) for operand in kernel.operands) > MOST_BYTES:
            return None
        return cls(kernel, device, choose(kernel, device.target))

    def runs(self) -> bool:
        """Returns whether the device can run the kernel alone with its default schedule."""
        return self.seconds(self.default) < float("inf")

    def seconds(self, schedule: Schedule) -> float:
        """Returns the time of one run under a schedule; infinite if the device can't run it."""
        loaded = self._load(schedule)
        if loaded is None:
            return float("inf")
        executable, repeats = loaded
        return _run(executable) / repeats

    def wins(self, schedule: Schedule, other: Schedule) -> bool:
        """Returns whether a schedule is clearly faster than another: by a quick check, then medians of paired runs."""
        if self.seconds(schedule) > 1.2 * self.seconds(other):
            return False
        pairs = [(self.seconds(schedule), self.seconds(other)) for _ in range(5)]
        return median(pair[0] for pair in pairs) < GAIN * median(pair[1] for pair in pairs)

    def release(self) -> None:
        """Frees the loaded programs."""
        self._loaded.clear()

    def _load(self, schedule: Schedule) -> tuple[Executable, int] | None:
        if schedule not in self._loaded:
            self._loaded[schedule] = self._measured(schedule)
        return self._loaded[schedule]

    def _measured(self, schedule: Schedule) -> tuple[Executable, int] | None:
        """Returns an executable that repeats the kernel for long enough; runs it once to determine the count."""
        try:
            program = self._program(schedule)
            executable = load_program(self.device, program)
            _run(executable)
            once = _run(executable)
            repeats = max(1, min(MOST_REPEATS, round(RUN_SECONDS / once)))
            if repeats > 1:
                executable = load_program(self.device, replace(program, plan=program.plan * repeats))
                _run(executable)
        except TensorgradError:
            return None
        return executable, repeats

    def _program(self, schedule: Schedule) -> Program:
        """Returns a program of the kernel alone, on its own buffers, and one more dispatch to wait for."""
        module = _alone(self.kernel, schedule)
        target = self.device.target
        for scheduled_pass in scheduled_passes(target):
            scheduled_pass.apply(Context(), module)
        return build_program(module, self.device.target)


def _run(executable: Executable) -> float:
    """Runs a program and waits for it; returns the seconds taken."""
    start = perf_counter()
    executable.step({}, {})
    executable.read(["done"])
    return perf_counter() - start


def _alone(kernel: KernelOp, schedule: Schedule) -> ModuleOp:
    """Returns a module whose only function runs a copy of a kernel."""
    done = buffer_type([1], f32)
    values = list(dict.fromkeys(kernel.operands))
    written = set(kernel.outputs)
    block = Block(arg_types=[*(value.type for value in values), done])
    slots = [Slot(f"b{i}", Role.OUTPUT if value in written else Role.PARAMETER) for i, value in enumerate(values)]
    slots.append(Slot("done", Role.PARAMETER))
    copy = kernel.clone(dict(zip(values, block.args, strict=False)))
    copy.properties["schedule"] = ScheduleAttr(schedule)
    copy.properties.pop("dispatch", None)
    block.add_ops([copy, func.ReturnOp()])
    function = FuncOp("kernel", ([argument.type for argument in block.args], []), Region(block))
    function.properties["arg_attrs"] = slots_attribute(slots)
    return ModuleOp([function])
