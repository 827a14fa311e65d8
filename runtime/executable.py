"""What every executable of a program has in common, whatever the device: its slots, inputs, parameters and state."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from tensorgrad.runtime.backend import BufferT, OutputHandle, OutputRing, ScalarInputs, check_inputs
from tensorgrad.runtime.errors import InputError, ProgramError
from tensorgrad.runtime.program import (
    DISPATCH_COSTS,
    PERSISTENT_ROLES,
    Collective,
    Copy,
    Dispatch,
    Program,
    TensorSlot,
    Wait,
    runs,
)
from tensorgrad.runtime.sharing import persistent_in, temporary_in
from tensorgrad.runtime.stepwise import Stepwise
from tensorgrad.runtime.target import Target

DeviceT = TypeVar("DeviceT")


class ProgramExecutable(ABC, Generic[DeviceT, BufferT]):
    """A program on a device, with parameters and state that start at zero. It is for one thread at a time.

    A subclass allocates `_buffers`, `_ring`, `_input_views` and `_scalar_views`.

    Args:
        program: What to run.
        device: Where.
        target: What the device can do.

    Attributes:
        program_inputs: What `step` takes, by name.
        persistent: Parameters and state, by name.
        scalar_names: The scalars that `step` takes, or what their formulas are computed from.
        shared_bytes: How much of the memory that the program takes is that of the executable that it shares with.

    Raises:
        ProgramError: The program is malformed.
        TargetError: The program doesn't fit the device.
    """

    _buffers: dict[int, BufferT]
    """All buffers by index, but the outputs', which the ring has."""
    _ring: OutputRing[BufferT]
    _input_views: Mapping[str, np.ndarray]
    """Where each input is written on the host."""
    _scalar_views: Mapping[str, np.ndarray]

    def __init__(self, program: Program, device: DeviceT, target: Target):
        program.validate()
        program.check_fits(target)
        self.program = program
        self.device = device
        self.program_inputs: Mapping[str, TensorSlot] = program.slots("input")
        self.persistent: Mapping[str, TensorSlot] = program.slots(*PERSISTENT_ROLES)
        self._scalar_slots = program.slots("scalar")
        self._scalars = ScalarInputs(list(self._scalar_slots.values()))
        self.scalar_names = self._scalars.names
        self.shared_bytes = 0
        self._given: Mapping[str, Any] = {}

    @abstractmethod
    def step(
        self, inputs: Mapping[str, Any], scalars: Mapping[str, float], constant: Collection[str] = ()
    ) -> dict[str, OutputHandle]:
        """Runs the program once; see `Executable.step`."""

    @abstractmethod
    def stepwise(self, inputs: Mapping[str, Any], scalars: Mapping[str, float]) -> Stepwise[BufferT]:
        """Prepares a step whose dispatches and copies its caller runs, one by one.

        Args:
            inputs: As `step` takes them.
            scalars: As `step` takes them.

        Raises:
            InputError: As `step`.
            DeviceError: What the device reported.
        """

    @abstractmethod
    def _new_buffer(self, index: int) -> BufferT:
        """Returns a new buffer for one of the program's, with the data that it starts with."""

    @abstractmethod
    def _read_ranges(self, ranges: Sequence[tuple[BufferT, int, int]]) -> list[np.ndarray]:
        """Returns the bytes of (buffer, offset, size) ranges."""

    @abstractmethod
    def _write_ranges(self, ranges: Iterable[tuple[BufferT, int, np.ndarray]]) -> None:
        """Writes bytes to buffers, each at an offset."""

    def _allocate(
        self, share: ProgramExecutable[DeviceT, BufferT] | None, in_turn: bool, unshared: Collection[int] = ()
    ) -> dict[int, BufferT]:
        """Returns all buffers by index, but the outputs'; some may be those of another executable.

        Args:
            share: An executable on the same device whose parameters and state this one uses too, or none.
            in_turn: Whether to use the memory of its inputs and temporary values too, as far as that suffices.
            unshared: The temporary buffers that this one needs for itself.

        Raises:
            ProgramError: The parameters are not those of `share`.
            DeviceError: There is not enough memory.
        """
        shared: dict[int, BufferT] = {}
        if share is not None:
            if share.device is not self.device:
                raise ProgramError("parameters can be shared on one device only")
            found = persistent_in(self.program, share.program)
            if in_turn:
                others = temporary_in(self.program, share.program)
                found |= {index: other for index, other in others.items() if index not in unshared}
            shared = {index: share._buffers[other] for index, other in found.items()}
        self.shared_bytes = sum(self.program.buffers[index].size for index in shared)
        return {
            index: shared[index] if index in shared else self._new_buffer(index)
            for index, buffer in enumerate(self.program.buffers)
            if buffer.role != "output"
        }

    def _fill(
        self, inputs: Mapping[str, Any], scalars: Mapping[str, float], constant: Collection[str]
    ) -> Collection[str]:
        """Checks what a step is given, and writes what is new of it to the views.

        Returns:
            The inputs that were given in the last step and are constant, which were not written again.

        Raises:
            InputError: Something is missing, unknown, or of the wrong shape or dtype; nothing has changed.
        """
        arrays = check_inputs(self.program_inputs, inputs)
        numbers = self._scalars.evaluate(scalars)
        kept = {name for name in constant if self._given.get(name) is inputs[name]} if constant else constant
        for name, array in arrays.items():
            if name not in kept:
                self._write_input(name, array)
        for name, number in numbers.items():
            self._scalar_views[name][()] = number
        self._given = {name: inputs[name] for name in constant}
        return kept

    def _write_input(self, name: str, array: np.ndarray) -> None:
        """Takes an input's value, which has its shape and dtype."""
        self._input_views[name][...] = array

    def read(self, names: Iterable[str] | None = None) -> dict[str, np.ndarray]:
        """Returns the present values of these parameters and state, or of all.

        Raises:
            InputError: There is no parameter or state of that name.
            DeviceError: What the device reported.
        """
        chosen = list(self.persistent if names is None else names)
        unknown = [name for name in chosen if name not in self.persistent]
        if unknown:
            known = ", ".join(sorted(self.persistent))
            raise InputError(f"no parameter or state {', '.join(map(repr, unknown))} (there are: {known})")
        slots = [self.persistent[name] for name in chosen]
        raws = self._read_ranges([(self._buffers[slot.buffer], slot.offset, slot.size) for slot in slots])
        return {name: slot.decode(raw) for name, slot, raw in zip(chosen, slots, raws, strict=True)}

    def write(self, values: Mapping[str, Any]) -> None:
        """Sets parameters and state by name.

        Raises:
            InputError: A name is unknown, a shape differs or a value doesn't convert; nothing has changed.
            DeviceError: What the device reported.
        """
        arrays = check_inputs(self.persistent, values, what="parameter or state", partial=True)
        slots = [(self.persistent[name], array) for name, array in arrays.items()]
        self._write_ranges(
            (self._buffers[slot.buffer], slot.offset, slot.encode(array)) for slot, array in slots if slot.size
        )

    def statistics(self) -> dict[str, Any]:
        """Returns the program's statistics, such as the `peak_bytes` that it plans, with what a step runs.

        `device_bytes` is what this executable takes on the device by now: the planned buffers (those that are shared
        count for both executables) and the outputs of steps that have not been read.
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
