"""A program that is loaded on the CPU: its memory, its step, its parameters and state."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from tensorgrad.runtime.backend import OutputHandle, OutputRing, ScalarInputs, check_inputs
from tensorgrad.runtime.cpu.code import NativeCode
from tensorgrad.runtime.cpu.device import ALIGNMENT, CpuDevice
from tensorgrad.runtime.cpu.stepping import STEP, step_text
from tensorgrad.runtime.errors import InputError, ProgramError
from tensorgrad.runtime.program import PERSISTENT_ROLES, Copy, Dispatch, Program, Repeat, Step, TensorSlot, runs
from tensorgrad.runtime.sharing import persistent_in, temporary_in


class CpuExecutable:
    """A program on the CPU, with parameters and state that start at zero. It is for one thread at a time.

    A step is one native function, which lets go of the interpreter's lock while it runs.

    Args:
        program: What to run; its kernels are native code, which is trusted: a program from elsewhere can do anything.
        device: The CPU.
        share: An executable whose parameters and state this one uses too, instead of its own.
        in_turn: Whether to use the memory of its inputs and temporary values too, as far as that suffices.

    Attributes:
        shared_bytes: How much of the memory that the program takes is that of `share`.

    Raises:
        ProgramError: The program is malformed, or its parameters are not those of `share`.
        TargetError: The program's kernels are not native code.
        DeviceError: LLVM refuses a kernel, or there is not enough memory.
    """

    def __init__(self, program: Program, device: CpuDevice, share: CpuExecutable | None = None, in_turn: bool = False):
        program.validate()
        program.check_fits(device.target)
        self.program = program
        self.device = device
        self.program_inputs: Mapping[str, TensorSlot] = program.slots("input")
        self.persistent: Mapping[str, TensorSlot] = program.slots(*PERSISTENT_ROLES)
        self._scalar_slots = program.slots("scalar")
        self._scalars = ScalarInputs(list(self._scalar_slots.values()))
        self.scalar_names = self._scalars.names
        shared = {} if share is None else self._shared(share, in_turn)
        self.shared_bytes = sum(program.buffers[index].size for index in shared)
        self._code = NativeCode(step_text(program))
        self._step = self._code.function(STEP, *[ctypes.c_void_p] * 3)
        self._buffers = self._create_buffers(shared)
        self._ring: OutputRing[np.ndarray] = OutputRing(program, device)
        self._scratch_bytes = max((kernel.workgroup_storage for kernel in program.kernels), default=0)
        self._scratch = device.create_buffer("scratch memory", max(self._scratch_bytes, ALIGNMENT))
        steps = runs(program.plan)
        self._is_parallel = any(isinstance(step, Dispatch) and step.workgroups[0] > 1 for step, _ in steps)
        self._frames: dict[int, np.ndarray] = {}
        self._input_views, self._scalar_views = (
            {name: slot.view(self._buffers[slot.buffer], slot.offset) for name, slot in slots.items()}
            for slots in (self.program_inputs, self._scalar_slots)
        )
        self._given: Mapping[str, Any] = {}

    def _shared(self, share: CpuExecutable, in_turn: bool) -> dict[int, np.ndarray]:
        """Returns the other executable's buffers that this one uses, by our index."""
        if share.device is not self.device:
            raise ProgramError("parameters can be shared on one device only")
        found = persistent_in(self.program, share.program)
        if in_turn:
            found |= temporary_in(self.program, share.program)
        return {index: share._buffers[other] for index, other in found.items()}

    def _create_buffers(self, shared: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
        """Returns all buffers by index, but the outputs', which the ring has."""
        buffers: dict[int, np.ndarray] = {}
        for index, buffer in enumerate(self.program.buffers):
            if buffer.role == "output":
                continue
            buffers[index] = shared[index] if index in shared else self.device.create_buffer(buffer.name, buffer.size)
            if buffer.data and index not in shared:
                buffers[index][: len(buffer.data)] = np.frombuffer(buffer.data, np.uint8)
        return buffers

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
        with self.pool() as pool:
            self._step(frame.ctypes.data, pool, self.scratch)
        return self._ring.handles(index)

    def prepare(
        self, inputs: Mapping[str, Any], scalars: Mapping[str, float]
    ) -> tuple[np.ndarray, Mapping[int, np.ndarray]]:
        """Prepares a step without running it; it has no outputs.

        Returns:
            The frame that its dispatches take, and all buffers by index.

        Raises:
            InputError: As `step`.
        """
        self._fill(inputs, scalars, ())
        index = self._ring.acquire()
        return self._frame(index), {**self._buffers, **self._ring.buffers(index)}

    def _fill(self, inputs: Mapping[str, Any], scalars: Mapping[str, float], constant: Collection[str]) -> None:
        """Checks what a step is given, and writes what is new of it where kernels read it."""
        arrays = check_inputs(self.program_inputs, inputs)
        numbers = self._scalars.evaluate(scalars)
        for name, array in arrays.items():
            if name not in constant or self._given.get(name) is not inputs[name]:
                self._input_views[name][...] = array
        for name, number in numbers.items():
            self._scalar_views[name][...] = number
        self._given = {name: inputs[name] for name in constant}

    def _frame(self, index: int) -> np.ndarray:
        """Returns the addresses of buffers, those of a slot of the ring among them, and room for loops' indices."""
        found = self._frames.get(index)
        if found is None:
            count = len(self.program.buffers)
            found = self._frames[index] = np.zeros(count + _depth(self.program.plan), np.uint64)
            for number, buffer in {**self._buffers, **self._ring.buffers(index)}.items():
                found[number] = buffer.ctypes.data
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

    @property
    def scratch(self) -> int:
        """The address of the scratch memory of the caller's thread."""
        return self._scratch.ctypes.data

    def address(self, name: str) -> int:
        """Returns where a function of the step's code is."""
        return self._code.address(name)

    def function(self, name: str, *arguments: Any) -> Any:
        """Returns a function of the step's code, to call."""
        return self._code.function(name, *arguments)

    def read(self, names: Iterable[str] | None = None) -> dict[str, np.ndarray]:
        """Returns the present values of these parameters and state, or of all.

        Raises:
            InputError: There is no parameter or state of that name.
        """
        chosen = list(self.persistent if names is None else names)
        unknown = [name for name in chosen if name not in self.persistent]
        if unknown:
            known = ", ".join(sorted(self.persistent))
            raise InputError(f"no parameter or state {', '.join(map(repr, unknown))} (there are: {known})")
        slots = [self.persistent[name] for name in chosen]
        raws = self.device.read_ranges([(self._buffers[s.buffer], s.offset, s.size) for s in slots])
        return {name: slot.decode(raw) for name, slot, raw in zip(chosen, slots, raws, strict=True)}

    def write(self, values: Mapping[str, Any]) -> None:
        """Sets parameters and state by name.

        Raises:
            InputError: A name is unknown, a shape differs or a value doesn't convert; nothing has changed.
        """
        arrays = check_inputs(self.persistent, values, what="parameter or state", partial=True)
        for name, array in arrays.items():
            slot = self.persistent[name]
            self._buffers[slot.buffer][slot.offset : slot.offset + slot.size] = slot.encode(array)

    def statistics(self) -> dict[str, Any]:
        """Returns the program's statistics, such as the `peak_bytes` that it plans, with what a step runs."""
        steps = [(step, math.prod(counts)) for step, counts in runs(self.program.plan)]
        dispatches = [(step, times) for step, times in steps if isinstance(step, Dispatch)]
        return {
            **self.program.statistics,
            "dispatches": sum(times for _, times in dispatches),
            "copies": sum(times for step, times in steps if isinstance(step, Copy)),
            "submits": 1,
            "kernels": len({step.kernel for step, _ in dispatches}),
            "device_bytes": sum(buffer.size for buffer in self._buffers.values()) + self._ring.bytes,
        }


def _depth(steps: Iterable[Step]) -> int:
    """Returns how deep loops stand inside each other."""
    return max((1 + _depth(step.steps) for step in steps if isinstance(step, Repeat)), default=0)
