"""The fast path for calling a program: arrays by position, without names, checks and handles."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from tensorgrad.runtime.cpu.stepping import LEAST_BORROWED
from tensorgrad.runtime.outputs import LEAST_GIVEN, Outputs, Source, array_of
from tensorgrad.runtime.program import Program, ProgramRole, TensorSlot


class Memory(Protocol):
    """An allocator of buffers."""

    def create_buffer(self, label: str, size: int) -> np.ndarray:
        """Returns a new buffer of `size` bytes."""
        ...


class Block:
    """Memory for the outputs of one call.

    Attributes:
        buffers: The output buffers, by index.
        starts: Their addresses.
        addresses: The addresses of the outputs, by position.
        is_given: Whether the memory itself was handed out, so it must not be written again.
        user: A weak reference to the outputs that use the block.
    """

    def __init__(self, buffers: Mapping[int, np.ndarray], tensors: Sequence[TensorSlot]):
        self.buffers = buffers
        self.starts: dict[int, int] = {number: buffer.ctypes.data for number, buffer in buffers.items()}
        self.addresses = [self.starts[tensor.buffer] + tensor.offset for tensor in tensors]
        self.is_given = False
        self.user: weakref.ref[CallOutputs] | None = None


class CallOutputs(Outputs):
    """The outputs of one call, in memory that is reused once this object is garbage.

    Args:
        tensors: The outputs' descriptions, by position.
        block: The memory that holds them.

    Attributes:
        addresses: The address of each output, in its device representation.
    """

    __slots__ = ("_block", "_tensors", "addresses")

    def __init__(self, tensors: Sequence[TensorSlot], block: Block):
        self._tensors, self._block, self.addresses = tensors, block, block.addresses

    def array(self, place: int) -> np.ndarray:
        """Returns an output as a read-only array: a copy, unless it is large."""
        tensor = self._tensors[place]
        view = tensor.view(self._block.buffers[tensor.buffer], tensor.offset)
        if tensor.dtype == "bool":
            view = np.asarray(view != 0)
        elif tensor.size < LEAST_GIVEN:
            view = view.copy()
        else:
            self._block.is_given = True
        view.setflags(write=False)
        return view


class CallBuffers:
    """Copies inputs to where a step reads them, or lets it read them in place, and allocates outputs.

    Args:
        program: The program that is called.
        device: Allocates memory for outputs.
        size: The step's frame size in words.
        plan: The step's instructions.
        buffers: All buffers by index, except output buffers.
        inputs: For each input, the memory that it is copied to, and the slot of its address if it may be read in place.
        outputs: The names of the requested outputs.

    Attributes:
        frame: The address of the step's frame.
        plan: The address of the instructions.
    """

    def __init__(
        self,
        program: Program,
        device: Memory,
        size: int,
        plan: np.ndarray,
        buffers: Mapping[int, np.ndarray],
        inputs: Sequence[tuple[np.ndarray, int | None]],
        outputs: Sequence[str],
    ):
        self._program, self._device = program, device
        self._inputs = [(view, view.ctypes.data, slot) for view, slot in inputs]
        self._nothing: Sequence[Source | None] = [None] * len(inputs)
        self._last = self._nothing
        self._words, self._plan = np.zeros(size, np.uint64), plan
        self._view = self._words.data  # faster than the array for single elements, by half
        self.frame: int = self._words.ctypes.data
        self.plan: int = plan.ctypes.data
        for number, buffer in buffers.items():
            self._words[number] = buffer.ctypes.data
        slots = program.slots(ProgramRole.OUTPUT)
        self._outputs = [slots[name] for name in outputs]
        self._numbers = sorted({tensor.buffer for tensor in slots.values()})
        self._blocks: list[Block] = []

    def fill(self, inputs: Sequence[Source]) -> None:
        """Sets the inputs of a call. Inputs of the last call, and outputs of earlier calls, are not copied."""
        words = self._view
        before, self._last = self._last, self._nothing  # until all are where the step reads them
        for (view, address, slot), array, last in zip(self._inputs, inputs, before, strict=True):
            if array is last:
                continue
            if slot is not None and type(array) is tuple and type(outputs := array[0]) is CallOutputs:
                words[slot] = outputs.addresses[array[1]]
                continue
            if slot is None or (there := _address(array)) is None:
                view[...] = array_of(array)
                there = address
            if slot is not None:
                words[slot] = there
        self._last = inputs

    def outputs(self) -> CallOutputs:
        """Allocates the outputs of the next call, and returns them; they are valid once it has run."""
        for block in self._blocks:
            if not block.is_given and (block.user is None or block.user() is None):
                break
        else:
            block = self._new_block()
        for number in self._numbers:
            self._view[number] = block.starts[number]
        result = CallOutputs(self._outputs, block)
        block.user = weakref.ref(result)
        return result

    def _new_block(self) -> Block:
        self._blocks = [block for block in self._blocks if not block.is_given]
        described = self._program.buffers
        buffers = {i: self._device.create_buffer(described[i].name, described[i].size) for i in self._numbers}
        self._blocks.append(Block(buffers, self._outputs))
        return self._blocks[-1]


def _address(source: Source) -> int | None:
    """Returns the address where an array may be read in place, or None if it must be copied."""
    if not isinstance(source, np.ndarray) or source.nbytes < LEAST_BORROWED:
        return None
    return source.ctypes.data if source.flags.c_contiguous and source.flags.aligned else None
