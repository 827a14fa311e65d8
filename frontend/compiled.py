"""Programs on their devices: what training steps and other compiled functions have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorgrad import trees
from tensorgrad.pipeline import Compilation
from tensorgrad.runtime.backend import Executable
from tensorgrad.runtime.program import Program
from tensorgrad.tensor import Array
from tensorgrad.tracer import refuse_inside_trace


class Compiled:
    """A program on its device."""

    def __init__(self, compilation: Compilation, executable: Executable):
        self._compilation = compilation
        self._executable = executable
        self._program: Program | None = getattr(executable, "program", None)

    @property
    def device(self) -> str:
        """Where it runs: "numpy", or "wgpu" and the adapter's name."""
        found = self._compilation.device
        return "numpy" if found is None else f"wgpu ({found.info.name}, {found.info.backend}, {found.info.type})"

    @property
    def program(self) -> Program:
        """The program as data; where it runs by numpy, compiled for what every WebGPU device has.

        Raises:
            ProgramError, TargetError: No WebGPU device could run it: it has f64, or is too large.
        """
        if self._program is None:
            self._program = self._compilation.program()
        return self._program

    def stats(self) -> dict[str, Any]:
        """What a step costs.

        Returns:
            Counts: `dispatches`, `submits`, `copies`, and `kernels` (distinct); `peak_bytes` of all buffers;
            `bytes_moved` by a step; `compile_seconds` by phase. Numpy dispatches nothing.
        """
        return {**self._executable.statistics(), "compile_seconds": dict(self._compilation.phases.seconds)}

    def module(self, level: str = "tg") -> str:
        """The IR as text.

        Args:
            level: "traced"; "tg" with gradients and updates; "buf" with kernels and a memory plan; or "wgsl".

        Raises:
            OptionError: Another level.
        """
        return self._compilation.text(level)


class Inference(Compiled):
    """A function of a model's parameters, compiled; see `Training.attach`."""

    def __init__(self, compilation: Compilation, executable: Executable, names: Sequence[str], positions: Any):
        super().__init__(compilation, executable)
        self._names = names
        self._positions = positions

    def __call__(self, /, **inputs: Any) -> Any:
        """Runs the function.

        Args:
            **inputs: An array for each input.

        Returns:
            What the function gives, with `tg.Array`s for tensors; they are read from the device when looked at.

        Raises:
            InputError: An input is unknown, missing, or of the wrong shape or dtype.
            TraceError: This is inside a trace.
            DeviceError: What the device reported.
        """
        refuse_inside_trace("a compiled function called")
        outputs = self._executable.step(inputs, {})
        order, rebuild = trees.flatten(self._positions)
        return rebuild([Array(outputs[self._names[int(position)]]) for position in order])

    def __repr__(self) -> str:
        return f"Inference({self._compilation.name!r}, {self.device})"
