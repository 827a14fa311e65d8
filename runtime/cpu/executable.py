"""A program that is loaded on the CPU: its memory, its step, its parameters and state."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorgrad.runtime.backend import OutputHandle, OutputRing
from tensorgrad.runtime.cpu.code import NativeCode
from tensorgrad.runtime.cpu.device import ALIGNMENT, CpuDevice
from tensorgrad.runtime.cpu.stepping import STEP, step_texts
from tensorgrad.runtime.executable import ProgramExecutable
from tensorgrad.runtime.program import Dispatch, Program, Repeat, Step, runs


@dataclass(frozen=True)
class Frame:
    """What native code of a step reads: the addresses of buffers, and room for the iteration indices of loops.

    Attributes:
        words: One for each buffer of the program, then one for each depth of loops.
        address: Where they are.
    """

    words: np.ndarray
    address: int


class CpuExecutable(ProgramExecutable[CpuDevice, np.ndarray]):
    """A program on the CPU, with parameters and state that start at zero. It is for one thread at a time.

    A step is one native function, which lets go of the interpreter's lock while it runs.

    Args:
        program: What to run; its kernels are native code, which is trusted: a program from elsewhere can do anything.
        device: The CPU.
        share: An executable whose parameters and state this one uses too, instead of its own.
        in_turn: Whether to use the memory of its inputs and temporary values too, as far as that suffices.

    Raises:
        ProgramError: The program is malformed, or its parameters are not those of `share`.
        TargetError: The program's kernels are not native code.
        DeviceError: LLVM refuses a kernel, or there is not enough memory.
    """

    def __init__(self, program: Program, device: CpuDevice, share: CpuExecutable | None = None, in_turn: bool = False):
        super().__init__(program, device, device.target)
        self._code = NativeCode(*step_texts(program))
        self._step = self._code.function(STEP, *[ctypes.c_void_p] * 3)
        self._buffers = self._allocate(share, in_turn)
        self._ring = OutputRing(program, device)
        self._scratch_bytes = max((kernel.workgroup_storage for kernel in program.kernels), default=0)
        self._scratch_memory = device.create_buffer("scratch memory", max(self._scratch_bytes, ALIGNMENT))
        self.scratch: int = self._scratch_memory.ctypes.data
        """The address of the scratch memory of the caller's thread."""
        steps = runs(program.plan)
        self._is_parallel = any(isinstance(step, Dispatch) and step.workgroups[0] > 1 for step, _ in steps)
        self._frames: dict[int, Frame] = {}
        self._input_views, self._scalar_views = (
            {name: slot.view(self._buffers[slot.buffer], slot.offset) for name, slot in slots.items()}
            for slots in (self.program_inputs, self._scalar_slots)
        )

    def _new_buffer(self, index: int) -> np.ndarray:
        """Returns a new buffer for one of the program's, with the data that it starts with."""
        buffer = self.program.buffers[index]
        made = self.device.create_buffer(buffer.name, buffer.size)
        if buffer.data:
            made[: len(buffer.data)] = np.frombuffer(buffer.data, np.uint8)
        return made

    def _read_ranges(self, ranges: Sequence[tuple[np.ndarray, int, int]]) -> list[np.ndarray]:
        """Returns copies of (buffer, offset, size) ranges."""
        return self.device.read_ranges(ranges)

    def _write_ranges(self, ranges: Iterable[tuple[np.ndarray, int, np.ndarray]]) -> None:
        """Writes bytes to buffers, each at an offset."""
        for buffer, offset, data in ranges:
            buffer[offset : offset + data.size] = data

    def step(
        self, inputs: Mapping[str, Any], scalars: Mapping[str, float], constant: Collection[str] = ()
    ) -> dict[str, OutputHandle]:
        """Runs the program once.

        Args:
            inputs: One array for each of `program_inputs`.
            scalars: What the scalars are, or what their formulas are computed from.
            constant: The inputs whose arrays never change: one that was given in the last step is not copied again.

        Returns:
            A handle for each output.

        Raises:
            InputError: Something is missing, unknown, or of the wrong shape or dtype; nothing has changed.
        """
        self._fill(inputs, scalars, constant)
        index = self._ring.acquire()
        frame = self._frame(index)
        pool = self.device.pool.acquire(self._scratch_bytes) if self._is_parallel else 0
        try:
            self._step(frame.address, pool, self.scratch)
        finally:
            if pool:
                self.device.pool.release()
        return self._ring.handles(index)

    def prepare(
        self, inputs: Mapping[str, Any], scalars: Mapping[str, float]
    ) -> tuple[Frame, Mapping[int, np.ndarray]]:
        """Prepares a step without running it; it has no outputs.

        Returns:
            The frame that its dispatches take, and all buffers by index.

        Raises:
            InputError: As `step`.
        """
        self._fill(inputs, scalars, ())
        index = self._ring.acquire()
        return self._frame(index), {**self._buffers, **self._ring.buffers(index)}

    def _frame(self, index: int) -> Frame:
        """Returns the frame of a step whose outputs go to a slot of the ring."""
        found = self._frames.get(index)
        if found is None:
            count = len(self.program.buffers)
            words = np.zeros(count + _depth(self.program.plan), np.uint64)
            for number, buffer in {**self._buffers, **self._ring.buffers(index)}.items():
                words[number] = buffer.ctypes.data
            found = self._frames[index] = Frame(words, words.ctypes.data)
        return found

    @contextmanager
    def pool(self) -> Iterator[int]:
        """Takes the pool of threads for a step; gives its address, 0 where the caller's thread runs all tasks."""
        pool = self.device.pool.acquire(self._scratch_bytes) if self._is_parallel else 0
        try:
            yield pool
        finally:
            if pool:
                self.device.pool.release()

    def address(self, name: str) -> int:
        """Returns where a function of the step's code is."""
        return self._code.address(name)

    def function(self, name: str, *arguments: Any) -> Any:
        """Returns a function of the step's code, to call."""
        return self._code.function(name, *arguments)


def _depth(steps: Iterable[Step]) -> int:
    """Returns how deep loops stand inside each other."""
    return max((1 + _depth(step.steps) for step in steps if isinstance(step, Repeat)), default=0)
