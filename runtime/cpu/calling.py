"""Calls of a program by position: arrays in, arrays out, without names, checks and handles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from tensorgrad.runtime.backend import LEAST_GIVEN
from tensorgrad.runtime.program import Program


class Memory(Protocol):
    """What gives memory."""

    def create_buffer(self, label: str, size: int) -> np.ndarray:
        """Returns a new buffer of so many bytes."""
        ...


class Places:
    """Takes inputs to where a step reads them, and outputs from where it writes them.

    Args:
        program: What is called.
        device: Gives memory for outputs.
        size: The words of the step's frame.
        buffers: All buffers by index, but the outputs'.
        inputs: For each input, where it is copied to, and the slot of its address where it may stay where it is.
        outputs: The names of those that are wanted.

    Attributes:
        frame: The address of the step's frame.
    """

    def __init__(
        self,
        program: Program,
        device: Memory,
        size: int,
        buffers: Mapping[int, np.ndarray],
        inputs: Sequence[tuple[np.ndarray, int | None]],
        outputs: Sequence[str],
    ):
        self._program, self._device = program, device
        self._inputs = inputs
        self._last: Sequence[np.ndarray | None] = [None] * len(inputs)
        self._words = np.zeros(size, np.uint64)
        self.frame: int = self._words.ctypes.data
        for number, buffer in buffers.items():
            self._words[number] = buffer.ctypes.data
        slots = program.slots("output")
        self._outputs = [slots[name] for name in outputs]
        # Large results are given as they lie, so that the next call writes to other memory.
        self._given = [tensor.size >= LEAST_GIVEN and tensor.dtype != "bool" for tensor in self._outputs]
        self._views = [np.empty(0)] * len(self._outputs)
        self._renewed = {one.buffer for one, is_given in zip(self._outputs, self._given, strict=True) if is_given}
        self._special = bool(self._renewed) or any(tensor.dtype == "bool" for tensor in self._outputs)
        self._renew({tensor.buffer for tensor in slots.values()})

    def _renew(self, numbers: set[int]) -> None:
        """Takes new memory for some buffers of outputs."""
        made: dict[int, np.ndarray] = {}
        for number in numbers:
            buffer = self._program.buffers[number]
            made[number] = self._device.create_buffer(buffer.name, buffer.size)
            self._words[number] = made[number].ctypes.data
        for place, tensor in enumerate(self._outputs):
            if tensor.buffer in made:
                self._views[place] = tensor.view(made[tensor.buffer], tensor.offset)

    def fill(self, inputs: Sequence[np.ndarray]) -> None:
        """Takes the inputs of a call; those of the last one are where they were, if they are the same arrays."""
        for (view, slot), array, last in zip(self._inputs, inputs, self._last, strict=True):
            if array is last:
                continue
            if slot is not None and array.flags.c_contiguous and array.flags.aligned:
                self._words[slot] = array.ctypes.data
                continue
            view[...] = array
            if slot is not None:
                self._words[slot] = view.ctypes.data
        self._last = inputs

    def outputs(self) -> list[np.ndarray]:
        """Returns the outputs of a call, once it has run: read-only arrays of the caller's own."""
        found = [view.copy() for view in self._views] if not self._special else self._apart()
        for array in found:
            array.setflags(write=False)
        return found

    def _apart(self) -> list[np.ndarray]:
        """Returns outputs of which some are not copied as they lie."""
        found = [
            view if is_given else np.asarray(view != 0) if tensor.dtype == "bool" else view.copy()
            for tensor, view, is_given in zip(self._outputs, self._views, self._given, strict=True)
        ]
        if self._renewed:
            self._renew(self._renewed)
        return found
