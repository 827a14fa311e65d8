"""A program loaded on the CPU: its memory, step, parameters and state."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import RLock
from typing import Any

import numpy as np

from tensorgrad.runtime.backend import NOTHING
from tensorgrad.runtime.cpu.calling import CallBuffers
from tensorgrad.runtime.cpu.code import NativeCode
from tensorgrad.runtime.cpu.device import ALIGNMENT, CpuDevice
from tensorgrad.runtime.cpu.exchanges import Exchanges
from tensorgrad.runtime.cpu.pool import Turn
from tensorgrad.runtime.cpu.stepping import STEP, FrameLayout, instructions, native_kernels, native_runtime, table
from tensorgrad.runtime.errors import DeviceError
from tensorgrad.runtime.executable import ProgramExecutable
from tensorgrad.runtime.outputs import OutputHandle, OutputRing, Outputs, Source
from tensorgrad.runtime.program import Collective, Dispatch, Leaf, Program, Step, runs
from tensorgrad.runtime.stepwise import Stepwise


@dataclass(frozen=True)
class Frame:
    """The working memory of a step's instructions: buffer addresses and scratch slots.

    Attributes:
        words: The slots, as `FrameLayout` describes them.
        address: The address of the words.
        outputs: The output buffers whose addresses they hold.
    """

    words: np.ndarray
    address: int
    outputs: Mapping[int, np.ndarray]


class CpuExecutable(ProgramExecutable[CpuDevice, np.ndarray]):
    """A program on the CPU, with parameters and state initialized to zero.

    A step is one call of native code, which releases the GIL.

    Args:
        program: The program to run. Its kernels are native code and must be trusted: a program from elsewhere can do
            anything.
        device: The CPU.
        share: An executable whose parameters and state this one shares, instead of its own.
        in_turn: Whether to reuse its inputs and temporaries too, where they are large enough.

    Raises:
        ProgramError: The program is malformed, or its parameters are laid out differently from those of `share`.
        TargetError: The program's kernels are not native code.
        DeviceError: LLVM rejects a kernel, or there is not enough memory.
    """

    def __init__(self, program: Program, device: CpuDevice, share: CpuExecutable | None = None, in_turn: bool = False):
        super().__init__(program, device, device.target, RLock() if share is None else share.lock)
        kernels = native_kernels(program)
        self._code = NativeCode(*dict.fromkeys(kernel.text for kernel in kernels))
        self._kernels = [self._code.address(kernel.caller) for kernel in kernels]
        faults = {number: kernel.fault for number, kernel in enumerate(kernels)}
        self._faults = {number: self._code.words(name, 2) for number, name in faults.items() if name is not None}
        self._layout = FrameLayout.of(program)
        self._exchanges = Exchanges()
        self._is_shared = any(isinstance(step, Collective) for step, _ in runs(program.plan))
        self._plan = self.table(program.plan)
        self._plan_address: int = self._plan.ctypes.data
        self._step = native_runtime().function(STEP, *[ctypes.c_void_p] * 4)
        self._buffers = self._allocate(share, in_turn)
        self._ring = OutputRing(program, device, self.lock)
        self._scratch_bytes = max((kernel.workgroup_storage for kernel in program.kernels), default=0)
        self._scratch_memory = device.create_buffer("scratch memory", max(self._scratch_bytes, ALIGNMENT))
        self._scratch: int = self._scratch_memory.ctypes.data
        steps = runs(program.plan)
        self._is_parallel = any(isinstance(step, Dispatch) and step.workgroups[0] > 1 for step, _ in steps)
        self._frames: dict[int, Frame] = {}
        self._borrowed: dict[str, np.ndarray] = {}
        self._places = {tensor.name: place for place, tensor in enumerate(self._layout.inputs.values())}
        """The inputs that may be read in place, each with its place in `_addresses`."""
        self._input_views, self._scalar_views = (
            {name: slot.view(self._buffers[slot.buffer], slot.offset) for name, slot in slots.items()}
            for slots in (self.program_inputs, self._scalar_slots)
        )
        self._view_addresses = np.array([self._input_views[name].ctypes.data for name in self._places], np.uint64)
        self._addresses = self._view_addresses.copy()
        """Where the step reads each of them."""

    def _new_buffer(self, index: int) -> np.ndarray:
        """Returns a new buffer for the program's buffer of this index, with its initial data."""
        buffer = self.program.buffers[index]
        result = self.device.create_buffer(buffer.name, buffer.size)
        if buffer.data:
            result[: len(buffer.data)] = np.frombuffer(buffer.data, np.uint8)
        return result

    def _read_ranges(self, ranges: Sequence[tuple[np.ndarray, int, int]]) -> list[np.ndarray]:
        """Returns copies of (buffer, offset, size) ranges."""
        return self.device.read_ranges(ranges)

    def _write_ranges(self, ranges: Iterable[tuple[np.ndarray, int, np.ndarray]]) -> None:
        """Writes bytes to buffers at the given offsets."""
        for buffer, offset, data in ranges:
            buffer[offset : offset + data.size] = data

    def step(
        self, inputs: Mapping[str, Any], scalars: Mapping[str, float], constant: Mapping[str, np.ndarray] = NOTHING
    ) -> dict[str, OutputHandle]:
        """Runs the program once.

        Args:
            inputs: An array for each of `program_inputs` that is not in `constant`.
            scalars: The scalars, including those that formulas read.
            constant: The inputs that never change: an array that was passed in the last step is not copied again, and
                a mapping that was passed there not looked at.

        Returns:
            A handle for each output.

        Raises:
            InputError: An input is missing, unknown, or of the wrong shape or dtype; nothing has changed.
            DeviceError: A bounds-checked kernel had an out-of-bounds index.
            GroupError: Another process of the group did not join, or ended; the step's results are lost.
        """
        with self.lock:
            filled = self._fill(inputs, scalars, constant)
            turn = Turn(self.device.pool)
            try:
                index = self._ring.acquire()
                frame = self._frame(index)
                # Like `pool`, without the overhead of a context manager, which matters for small steps.
                pool = turn.begin(self._scratch_bytes) if self._is_parallel else 0
                self.runs.count_with(partial(self._step, self._plan_address, frame.address, pool, self._scratch))
                self._filled = filled
            finally:
                turn.end()
                for name in inputs:
                    self._borrowed.pop(name, None)
            if self._is_shared:
                self._check_exchanges()
            if self._faults:
                self.check_faults()
            return self._ring.handles(index)

    def _check_exchanges(self) -> None:
        """Takes back the count of a step that ended at a failed collective, and raises what failed.

        Raises:
            GroupError: Another process did not join, or ended.
        """
        try:
            self._exchanges.check()
        except BaseException:
            self.runs.number -= 1
            raise

    def caller(self, inputs: Sequence[str], outputs: Sequence[str]) -> Callable[[Sequence[Source]], Outputs]:
        """Returns a function that runs the program, without scalars, on inputs by position; it replaces `step`.

        The arrays must have the inputs' shapes and dtypes and never change; they may be outputs of such calls. It
        raises `DeviceError` as `step` does. Arrays of the last call and outputs of earlier calls are not copied.

        Args:
            inputs: The names of all inputs, in the order in which they are passed.
            outputs: The names of the requested outputs, in order.
        """
        layout = FrameLayout.of(self.program, least_borrowed=0)
        plan = table(instructions(self.program.plan, layout, self._kernels, self._exchanges))
        slots = {tensor.name: slot for slot, tensor in layout.inputs.items()}
        views = [(self._input_views[name], slots.get(name)) for name in inputs]
        places = CallBuffers(self.program, self.device, layout.size, plan, self._buffers, views, outputs)

        def call(sources: Sequence[Source]) -> Outputs:
            places.fill(sources)
            result = places.outputs()
            turn = Turn(self.device.pool)
            try:
                pool = turn.begin(self._scratch_bytes) if self._is_parallel else 0
                self._step(places.plan, places.frame, pool, self._scratch)
            finally:
                turn.end()
            if self._is_shared:
                self._exchanges.check()
            if self._faults:
                self.check_faults()
            return result

        return call

    def check_faults(self) -> None:
        """Checks for and clears out-of-bounds indices that kernels have recorded.

        Raises:
            DeviceError: There was one.
        """
        for number, kernel in enumerate(self.program.kernels):
            fault = self._faults.get(number)
            if fault is None or not fault[1]:
                continue
            index, extent = int(fault[0].astype(np.int64)), int(fault[1])
            fault[:] = 0
            steps = [step for step, _ in runs(self.program.plan) if isinstance(step, Dispatch)]
            places = ", ".join(sorted({step.label for step in steps if step.kernel == number}))
            raise DeviceError(
                f"kernel {kernel.entry!r} of {self.program.name!r} ({places}): index {index} in memory of {extent} "
                "elements; what the step has computed is wrong"
            )

    def _write_input(self, name: str, array: np.ndarray) -> None:
        """Stores an input: a large one is read in place, and a constant one is kept alive."""
        place = self._places.get(name)
        if place is not None and array.flags.c_contiguous and array.flags.aligned:
            self._borrowed[name] = array
            self._addresses[place] = array.ctypes.data
            return
        if place is not None:
            self._borrowed.pop(name, None)
            self._addresses[place] = self._view_addresses[place]
        super()._write_input(name, array)

    def table(self, steps: Sequence[Step]) -> np.ndarray:
        """Encodes steps of the plan as an instruction table, for `run`."""
        return table(instructions(steps, self._layout, self._kernels, self._exchanges))

    def prepare(self, inputs: Mapping[str, Any], scalars: Mapping[str, float]) -> tuple[Frame, int]:
        """Prepares a step without running it.

        Returns:
            The frame to run tables with, and the index to pass to `outputs` afterwards.

        Raises:
            InputError: As `step`.
        """
        self._fill(inputs, scalars)
        index = self._ring.acquire()
        return self._frame(index), index

    def stepwise(self, inputs: Mapping[str, Any], scalars: Mapping[str, float]) -> Stepwise[np.ndarray]:
        """Prepares a step; see `ProgramExecutable.stepwise`. All inputs are copied to the program's memory."""
        self._fill(inputs, scalars)
        for name, array in self._borrowed.items():
            self._input_views[name][...] = array
        self._borrowed = {}
        self._addresses[:] = self._view_addresses
        index = self._ring.acquire()
        frame = self._frame(index)

        def run(step: Leaf, indices: tuple[int, ...]) -> None:
            with self.pool() as pool:
                self.run(self.table([step]), frame, pool, indices)
            self.check_faults()

        return Stepwise({**self._buffers, **self._ring.buffers(index)}, run, self._read_ranges, self._write_ranges)

    def outputs(self, index: int) -> dict[str, OutputHandle]:
        """Returns the outputs of a prepared step that has run.

        Raises:
            DeviceError: A bounds-checked kernel had an out-of-bounds index.
        """
        self.runs.count_with(self._borrowed.clear)
        self.check_faults()
        return self._ring.handles(index)

    def run(self, part: np.ndarray, frame: Frame, pool: int, indices: Sequence[int] = ()) -> None:
        """Runs a part of the step.

        Args:
            part: The part's `table`.
            frame: The frame from `prepare`.
            pool: The address from `pool`.
            indices: The iteration indices of the enclosing loops.
        """
        start = self._layout.indices
        frame.words[start : start + len(indices)] = indices
        self._step(part.ctypes.data, frame.address, pool, self._scratch)
        self._exchanges.check()

    def _frame(self, index: int) -> Frame:
        """Returns the frame of a step that writes its outputs to a slot of the ring."""
        buffers, result = self._ring.buffers(index), self._frames.get(index)
        if result is None or result.outputs is not buffers:
            words = np.zeros(self._layout.size, np.uint64)
            for number, buffer in {**self._buffers, **buffers}.items():
                words[number] = buffer.ctypes.data
            result = self._frames[index] = Frame(words, words.ctypes.data, buffers)
        first = len(self.program.buffers)
        result.words[first : first + len(self._addresses)] = self._addresses
        return result

    @contextmanager
    def pool(self) -> Iterator[int]:
        """Acquires the thread pool for a step; yields its address, or 0 if the caller's thread runs all tasks."""
        turn = Turn(self.device.pool)
        try:
            yield turn.begin(self._scratch_bytes) if self._is_parallel else 0
        finally:
            turn.end()
