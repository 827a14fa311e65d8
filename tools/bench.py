"""`tg bench`: times the dispatches of a program on a device, and measures schedules for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console

from tensorgrad.driver.device import load_program
from tensorgrad.errors import ProgramError
from tensorgrad.runtime.conversion import kind_of
from tensorgrad.runtime.cpu import CpuDevice, CpuExecutable
from tensorgrad.runtime.cpu.profile import profile
from tensorgrad.runtime.executable import ProgramExecutable
from tensorgrad.runtime.inputs import ScalarInputs
from tensorgrad.runtime.program import Program, ProgramRole, TensorSlot
from tensorgrad.runtime.saved import Host, Saved
from tensorgrad.runtime.slots import DTYPES
from tensorgrad.tools.arrays import named_arrays
from tensorgrad.tools.printing import print_json
from tensorgrad.tools.tables import Listing

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tensorgrad.driver.device import ProgramDevice
    from tensorgrad.runtime.profile import DispatchTime, Profile
    from tensorgrad.runtime.target import Target

ADAPTERS = {"wgpu": None, "hardware": False, "software": True}
"""Names of adapters, as the runtime asks for them."""

DEVICES = (*ADAPTERS, "cpu")
"""The choices of `--device`."""

SETTING = 1e-3
"""The value of scalars that nothing else determines, such as learning rates."""


@dataclass(frozen=True)
class Bench:
    """Times the dispatches of a program on a device.

    Attributes:
        path: A saved program, a `.mlir` file with one function at the level `tg` or `buf`, or `-` for such text on
            standard input.
        device: One of `DEVICES`.
        steps: The number of steps to measure.
        tune: The time limit in seconds for measuring schedules first; 0 for none.
        inputs: An `.npz` file with arrays for inputs, by name. Others are normally distributed floats, or integer
            zeros.
        rows: The number of rows in the table; the dispatches of one kernel from one line are one.
        json: Whether to print JSON, of every dispatch.
    """

    path: str
    device: str = "wgpu"
    steps: int = 10
    tune: float = 0.0
    inputs: str | None = None
    rows: int = 20
    json: bool = False

    def run(self, console: Console) -> None:
        """Measures and prints.

        Raises:
            TensorgradError: The program can't be read, compiled or run.
            OSError: A file can't be read.
        """
        from tensorgrad.driver.compiling.tuning import table_path

        saved = self.path != "-" and not self.path.endswith(".mlir")
        if saved and self.tune:
            raise ProgramError(f"{self.path}: a saved program has its schedules already; --tune is for .mlir files")
        arrays = named_arrays(self.inputs)
        device = self._found()
        if saved:
            program = Saved.load(self.path)
            executable = load_program(device, program.program)
            self._print(console, executable, self._profile(executable, arrays, program.state, program.host))
            return
        from tensorgrad.passes.levels import Level, level_of
        from tensorgrad.tools.parsing import parsed_file

        module = parsed_file(self.path)
        level = level_of(module)
        if level not in (None, Level.TG, Level.BUF):
            raise ProgramError(f"{self.path}: is at level {level.value}; functions at level tg or buf are compiled")
        if level is Level.BUF:
            if self.tune:
                raise ProgramError(f"{self.path}: kernels may have their schedules already; --tune is for the level tg")
            executable = executable_of_kernels(module, device)
            self._print(console, executable, self._profile(executable, arrays, {}))
            return
        executable = _compiled(module, device, 0.0)
        measured = self._profile(executable, arrays, {})
        if not self.tune:
            self._print(console, executable, measured)
            return
        before, executable = measured, _compiled(module, device, self.tune)
        measured = self._profile(executable, arrays, {})
        self._print(console, executable, measured)
        if self.json:
            return
        console.print(f"before tuning: {_milliseconds(before)}; now: {_milliseconds(measured)}", soft_wrap=True)
        console.print(f"schedules are kept in {table_path(device)}", soft_wrap=True)

    def _found(self) -> ProgramDevice:
        if self.device == "cpu":
            return CpuDevice()
        from tensorgrad.runtime.webgpu import WebGPUDevice

        return WebGPUDevice(software=ADAPTERS[self.device])

    def _profile(
        self,
        executable: ProgramExecutable[Any, Any],
        arrays: Mapping[str, np.ndarray],
        state: Mapping[str, np.ndarray],
        host: Host | None = None,
    ) -> Profile:
        program = executable.program
        inputs, scalars = {**drawn(program.slots(ProgramRole.INPUT), scale=1.0), **arrays}, _scalars(program, host)
        executable.write({**drawn(program.slots(ProgramRole.PARAMETER), scale=0.02), **state})
        if isinstance(executable, CpuExecutable):
            return profile(executable, inputs, scalars, self.steps)
        from tensorgrad.runtime.webgpu import WebGPUExecutable
        from tensorgrad.runtime.webgpu.profile import profile as of_adapter

        assert isinstance(executable, WebGPUExecutable)
        return of_adapter(executable, inputs, scalars, self.steps)

    def _print(self, console: Console, executable: ProgramExecutable[Any, Any], measured: Profile) -> None:
        if self.json:
            print_json(console, {"device": executable.device.info.name, **asdict(measured)})
        else:
            self._table(executable, measured, SPEEDS if console.width >= WIDE else ()).print(console)

    def _table(self, executable: ProgramExecutable[Any, Any], measured: Profile, speeds: Sequence[str]) -> Listing:
        title = f"{executable.program.name} on {executable.device.info.name}"
        table = Listing(("kernel", "from"), ("workgroups", "times", "us", "share", *speeds), title)
        rows = sorted(measured.kernels(), key=lambda dispatch: -dispatch.seconds)
        others = rows[self.rows :]
        for row in rows[: self.rows]:
            place = row.label.replace("\\", "/").rpartition("/")[2]
            groups, cells = "x".join(map(str, row.workgroups)), _cells([row], measured, speeds)
            table.add(row.kernel, place, groups, *cells)
        if others:
            table.add(f"{len(others)} others", "", "", *_cells(others, measured, speeds))
        table.end_section()
        table.add("all dispatches", "", "", *_cells(rows, measured, speeds))
        table.add("a step, awaited", "", "", "", f"{1e6 * measured.step_seconds:.1f}")
        return table


SPEEDS = ("GB/s", "GFLOP/s")
WIDE = 100
"""The width of the console."""


def _cells(rows: Sequence[DispatchTime], measured: Profile, speeds: Sequence[str]) -> tuple[str, ...]:
    """Returns how often dispatches run, their time, its share of the total, and their throughput."""
    seconds = sum(row.seconds for row in rows)
    share = seconds / measured.device_seconds if measured.device_seconds else 0.0
    rates = [sum(row.bytes for row in rows), sum(row.flops for row in rows)]
    shown = [f"{rate / seconds / 1e9:.3g}" if rate and seconds else "" for rate in rates[: len(speeds)]]
    return str(sum(row.times for row in rows)), f"{1e6 * seconds:.1f}", f"{share:.1%}", *shown


def _milliseconds(measured: Profile) -> str:
    return f"{1e3 * measured.device_seconds:.3f} ms in dispatches, {1e3 * measured.step_seconds:.3f} ms a step"


def drawn(slots: Mapping[str, TensorSlot], scale: float) -> dict[str, np.ndarray]:
    """Returns values for tensors, the same on every run."""
    generator = np.random.default_rng(0)
    values: dict[str, np.ndarray] = {}
    for name, slot in slots.items():
        dtype = DTYPES[slot.dtype]
        drawn = scale * generator.normal(size=slot.shape) if kind_of(dtype) == "f" else np.zeros(slot.shape)
        values[name] = drawn.astype(dtype)
    return values


def _scalars(program: Program, host: Host | None) -> dict[str, float]:
    """Returns the settings of the host at each step: those of the saved program, or those of a first step."""
    slots = program.slots(ProgramRole.SCALAR)
    settings: dict[str, float] = {"step": 1.0, "micro_step": 1.0}
    settings |= {name: 1.0 for name, slot in slots.items() if kind_of(DTYPES[slot.dtype]) != "f"}
    if host is not None:
        settings |= {**host.settings, "step": host.step_count + 1.0}
    return {name: settings.get(name, SETTING) for name in ScalarInputs(list(slots.values())).names}


def executable_of_kernels(module: ModuleOp, device: ProgramDevice) -> ProgramExecutable[Any, Any]:
    """Returns a module of kernels on a device, which keep the schedules and recipes that they have.

    Raises:
        ProgramError: A pass rejects them.
    """
    from xdsl.context import Context
    from xdsl.utils.exceptions import DiagnosticException

    from tensorgrad.passes.buffers.schedule import SchedulePass
    from tensorgrad.passes.codegen.build_program import build_program
    from tensorgrad.passes.pipelines import scheduled_passes

    try:
        for step in (SchedulePass(target=device.target), *scheduled_passes(device.target)):
            step.apply(Context(), module)
        program = build_program(module, device.target)
    except DiagnosticException as error:
        raise ProgramError(str(error)) from error
    executable = load_program(device, program)
    assert isinstance(executable, ProgramExecutable)
    return executable


def _compiled(module: ModuleOp, device: ProgramDevice, tune: float) -> ProgramExecutable[Any, Any]:
    """Returns the module's function on a device, with schedules tuned for at most the given number of seconds."""
    from tensorgrad.driver.compiling.compilation import compile_recipe
    from tensorgrad.driver.compiling.recipe import Recipe
    from tensorgrad.driver.compiling.running import Phases
    from tensorgrad.passes.pipelines import inlined_passes
    from tensorgrad.tools.parsing import only_function

    def passes(_: int, target: Target | None) -> list[Any]:
        return list(inlined_passes(target))

    name = only_function(module)
    recipe = Recipe(name, module, passes, device, tuning_seconds=tune)
    executable = compile_recipe(recipe, Phases()).executable
    assert isinstance(executable, ProgramExecutable)
    return executable
