"""The device-independent part of executables: slots, inputs, parameters and state."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from threading import RLock
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from tensorgrad.runtime.backend import NOTHING
from tensorgrad.runtime.counting import RunCount, completed
from tensorgrad.runtime.errors import InputError, ProgramError
from tensorgrad.runtime.inputs import ScalarInputs, check_inputs
from tensorgrad.runtime.outputs import BufferT, OutputHandle, OutputRing
from tensorgrad.runtime.program import (
    DISPATCH_COSTS,
    PERSISTENT_ROLES,
    Collective,
    Copy,
    Dispatch,
    Program,
    ProgramRole,
    TensorSlot,
    Wait,
    runs,
)
from tensorgrad.runtime.sharing import persistent_in, temporary_in
from tensorgrad.runtime.stepwise import Stepwise
from tensorgrad.runtime.target import Target

DeviceT = TypeVar("DeviceT")


class Filled(NamedTuple):
    """The inputs of a step that are where it reads them.

    Attributes:
        constant: Those that never change.
        others: The slots of the others.
        unchanged: The names of constant ones that were there before.
    """

    constant: Mapping[str, np.ndarray]
    others: Mapping[str, TensorSlot]
    unchanged: Collection[str]


class ProgramExecutable(ABC, Generic[DeviceT, BufferT]):
    """A program on a device, with parameters and state initialized to zero.

    A subclass allocates `_buffers`, `_ring`, `_input_views` and `_scalar_views`.

    Args:
        program: The program to run.
        device: The device to run it on.
        target: The device's limits and features.
        lock: Held during each call.

    Attributes:
        lock: Held during each call; see `Executable`.
        runs: Counts the steps; see `Executable`.
        program_inputs: The inputs that `step` takes, by name.
        persistent: Parameters and state, by name.
        scalar_names: The scalars that `step` takes, including those that formulas read.
        shared_bytes: The bytes of this program's memory that belong to the executable it shares with.

    Raises:
        ProgramError: The program is malformed.
        TargetError: The program doesn't fit the device.
    """

    _buffers: dict[int, BufferT]
    """All buffers by index, except output buffers, which the ring owns."""
    _ring: OutputRing[BufferT]
    _input_views: Mapping[str, np.ndarray]
    """The host memory that each input is written to."""
    _scalar_views: Mapping[str, np.ndarray]

    def __init__(self, program: Program, device: DeviceT, target: Target, lock: RLock):
        program.validate()
        program.check_fits(target)
        self.program = program
        self.device = device
        self.lock = lock
        self.runs = RunCount()
        self.program_inputs: Mapping[str, TensorSlot] = program.slots(ProgramRole.INPUT)
        self.persistent: Mapping[str, TensorSlot] = program.slots(*PERSISTENT_ROLES)
        self._scalar_slots = program.slots(ProgramRole.SCALAR)
        self._scalars = ScalarInputs(list(self._scalar_slots.values()))
        self.scalar_names = self._scalars.names
        self.shared_bytes = 0
        self._unfilled = self._filled = Filled(NOTHING, self.program_inputs, ())

    @abstractmethod
    def step(
        self, inputs: Mapping[str, Any], scalars: Mapping[str, float], constant: Mapping[str, np.ndarray] = NOTHING
    ) -> dict[str, OutputHandle]:
        """Runs the program once; see `Executable.step`."""

    @abstractmethod
    def stepwise(self, inputs: Mapping[str, Any], scalars: Mapping[str, float]) -> Stepwise[BufferT]:
        """Prepares a step whose dispatches and copies the caller runs one by one.

        Args:
            inputs: As `step` takes them.
            scalars: As `step` takes them.

        Raises:
            InputError: As `step`.
            DeviceError: The device reported an error.
        """

    @abstractmethod
    def _new_buffer(self, index: int) -> BufferT:
        """Returns a new buffer for the program's buffer of this index, with its initial data."""

    @abstractmethod
    def _read_ranges(self, ranges: Sequence[tuple[BufferT, int, int]]) -> list[np.ndarray]:
        """Returns the bytes of (buffer, offset, size) ranges."""

    @abstractmethod
    def _write_ranges(self, ranges: Iterable[tuple[BufferT, int, np.ndarray]]) -> None:
        """Writes bytes to buffers at the given offsets."""

    def _allocate(
        self, share: ProgramExecutable[DeviceT, BufferT] | None, in_turn: bool, unshared: Collection[int] = ()
    ) -> dict[int, BufferT]:
        """Returns all buffers by index, except output buffers; some may belong to another executable.

        Args:
            share: An executable on the same device whose parameters and state this one shares, or None.
            in_turn: Whether to reuse its inputs and temporaries too, where they are large enough.
            unshared: The temporary buffers that must not be shared.

        Raises:
            ProgramError: The parameters are laid out differently from those of `share`.
            DeviceError: There is not enough memory.
        """
        shared: dict[int, BufferT] = {}
        if share is not None:
            if share.device is not self.device:
                raise ProgramError("parameters can be shared on one device only")
            persistent = persistent_in(self.program, share.program)
            if in_turn:
                others = temporary_in(self.program, share.program)
                persistent |= {index: other for index, other in others.items() if index not in unshared}
            shared = {index: share._buffers[other] for index, other in persistent.items()}
        self.shared_bytes = sum(self.program.buffers[index].size for index in shared)
        return {
            index: shared[index] if index in shared else self._new_buffer(index)
            for index, buffer in enumerate(self.program.buffers)
            if buffer.role != ProgramRole.OUTPUT
        }

    def _fill(
        self, inputs: Mapping[str, Any], scalars: Mapping[str, float], constant: Mapping[str, np.ndarray] = NOTHING
    ) -> Filled:
        """Validates the arguments of a step, and writes those that changed to the views.

        The caller sets `_filled` to the result once the inputs are where the step reads them.

        Raises:
            InputError: An input is missing, unknown, or of the wrong shape or dtype; nothing has changed.
        """
        filled = self._filled
        if constant is filled.constant:
            arrays = check_inputs(filled.others, inputs)
            if len(filled.unchanged) < len(constant):
                filled = filled._replace(unchanged=constant.keys())
        else:
            unchanged = {name for name, array in constant.items() if filled.constant.get(name) is array}
            arrays = check_inputs(self.program_inputs, {**inputs, **constant}, known=unchanged)
            others = {name: slot for name, slot in self.program_inputs.items() if name not in constant}
            filled = Filled(constant, others, unchanged)
        numbers = self._scalars.evaluate(scalars)
        self._filled = self._unfilled
        for name, array in arrays.items():
            self._write_input(name, array)
        for name, number in numbers.items():
            self._scalar_views[name][()] = number
        return filled

    def _write_input(self, name: str, array: np.ndarray) -> None:
        """Stores an input's value, which already has the slot's shape and dtype."""
        self._input_views[name][...] = array

    def read(self, names: Iterable[str] | None = None) -> dict[str, np.ndarray]:
        """Returns the current values of these parameters and state, or of all of them.

        Raises:
            InputError: There is no parameter or state of that name.
            DeviceError: The device reported an error.
        """
        chosen = list(self.persistent if names is None else names)
        unknown = [name for name in chosen if name not in self.persistent]
        if unknown:
            known = ", ".join(sorted(self.persistent))
            raise InputError(f"no parameter or state {', '.join(map(repr, unknown))} (there are: {known})")
        slots = [self.persistent[name] for name in chosen]
        with self.lock:
            raws = self._read_ranges([(self._buffers[slot.buffer], slot.offset, slot.size) for slot in slots])
        return {name: slot.decode(raw) for name, slot, raw in zip(chosen, slots, raws, strict=True)}

    def write(self, values: Mapping[str, Any]) -> None:
        """Sets parameters and state by name.

        Raises:
            InputError: A name is unknown, a shape differs or a value doesn't convert; nothing has changed.
            DeviceError: The device reported an error.
        """
        arrays = check_inputs(self.persistent, values, what="parameter or state", partial=True)
        slots = [(self.persistent[name], array) for name, array in arrays.items()]
        # All before the first is written, since there may be no memory for one of them.
        encoded = [(self._buffers[slot.buffer], slot.offset, slot.encode(array)) for slot, array in slots if slot.size]
        with self.lock:
            completed(lambda: self._write_ranges(encoded))

    def statistics(self) -> dict[str, Any]:
        """Returns the program's statistics, such as the planned `peak_bytes`, and what a step runs.

        `device_bytes` is the device memory in use by this executable: the planned buffers (shared ones count for both
        executables) and the output buffers allocated so far.
        """
        steps = [(step, math.prod(counts)) for step, counts in runs(self.program.plan)]
        dispatches = [(step, times) for step, times in steps if isinstance(step, Dispatch)]
        sizes = [self.program.buffers[index].size for index in self._buffers]
        return {
            **{name: value for name, value in self.program.statistics.items() if name != DISPATCH_COSTS},
            "dispatches": sum(times for _, times in dispatches),
            "copies": sum(times for step, times in steps if isinstance(step, Copy)),
            "collectives": sum(times for step, times in steps if isinstance(step, Collective)),
            "overlapped": sum(times for step, times in steps if isinstance(step, Wait)),
            "submits": 1,
            "kernels": len({step.kernel for step, _ in dispatches}),
            "device_bytes": sum(sizes) + self._ring.bytes,
        }
