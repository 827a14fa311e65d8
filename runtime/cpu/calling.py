"""Calls of a program by position: arrays in, arrays out, without names, checks and handles."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from tensorgrad.runtime.backend import LEAST_GIVEN, Outputs, Source, array_of
from tensorgrad.runtime.cpu.stepping import LEAST_BORROWED
from tensorgrad.runtime.program import Program, TensorSlot


class Memory(Protocol):
    """What gives memory."""

    def create_buffer(self, label: str, size: int) -> np.ndarray:
        """Returns a new buffer of so many bytes."""
        ...


class Block:
    """Memory for what one call puts out.

    Attributes:
        buffers: The output buffers by index.
        starts: Their addresses.
        addresses: Those of the outputs by position.
        is_given: Whether someone reads the memory itself: it is not written to again.
        user: The outputs that lie in it, as long as someone has them.
    """

    def __init__(self, buffers: Mapping[int, np.ndarray], tensors: Sequence[TensorSlot]):
        self.buffers = buffers
        self.starts: dict[int, int] = {number: one.ctypes.data for number, one in buffers.items()}
        self.addresses = [self.starts[tensor.buffer] + tensor.offset for tensor in tensors]
        self.is_given = False
        self.user: weakref.ref[CallOutputs] | None = None


class CallOutputs(Outputs):
    """What one call has put out, in memory that is used again once nobody has this object.

    Args:
        tensors: What they are, by position.
        block: Where they lie.

    Attributes:
        addresses: Where each lies, as the program has it.
    """

    __slots__ = ("_block", "_tensors", "addresses")

    def __init__(self, tensors: Sequence[TensorSlot], block: Block):
        self._tensors, self._block, self.addresses = tensors, block, block.addresses

    def array(self, place: int) -> np.ndarray:
        """Returns an output as an array that can't be written to: a copy, unless it is large."""
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


class Places:
    """Takes inputs to where a step reads them, and outputs to memory of their own.

    Args:
        program: What is called.
        device: Gives memory for outputs.
        size: The words of the step's frame.
        plan: The instructions of the step.
        buffers: All buffers by index, but the outputs'.
        inputs: For each input, where it is copied to, and the slot of its address where it may stay where it is.
        outputs: The names of those that are wanted.

    Attributes:
        frame: The address of the step's frame.
        plan: That of its instructions.
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
        self._last: Sequence[Source | None] = [None] * len(inputs)
        self._words, self._plan = np.zeros(size, np.uint64), plan
        self._view = self._words.data  # which takes single numbers in half the time
        self.frame: int = self._words.ctypes.data
        self.plan: int = plan.ctypes.data
        for number, buffer in buffers.items():
            self._words[number] = buffer.ctypes.data
        slots = program.slots("output")
        self._outputs = [slots[name] for name in outputs]
        self._numbers = sorted({tensor.buffer for tensor in slots.values()})
        self._blocks: list[Block] = []

    def fill(self, inputs: Sequence[Source]) -> None:
        """Takes the inputs of a call. Those of the last one, and what a call has put out, stay where they are."""
        words = self._view
        for (view, address, slot), given, last in zip(self._inputs, inputs, self._last, strict=True):
            if given is last:
                continue
            if slot is not None and type(given) is tuple and type(outputs := given[0]) is CallOutputs:
                words[slot] = outputs.addresses[given[1]]
                continue
            if slot is None or (there := _address(given)) is None:
                view[...] = array_of(given)
                there = address
            if slot is not None:
                words[slot] = there
        self._last = inputs

    def outputs(self) -> CallOutputs:
        """Takes memory for the outputs of the call that follows; returns what they are once it has run."""
        for block in self._blocks:
            if not block.is_given and (block.user is None or block.user() is None):
                break
        else:
            block = self._new_block()
        for number in self._numbers:
            self._view[number] = block.starts[number]
        made = CallOutputs(self._outputs, block)
        block.user = weakref.ref(made)
        return made

    def _new_block(self) -> Block:
        self._blocks = [one for one in self._blocks if not one.is_given]
        described = self._program.buffers
        found = {i: self._device.create_buffer(described[i].name, described[i].size) for i in self._numbers}
        self._blocks.append(Block(found, self._outputs))
        return self._blocks[-1]


def _address(given: Source) -> int | None:
    """Returns where an array may be read, unless it is to be copied."""
    if not isinstance(given, np.ndarray) or given.nbytes < LEAST_BORROWED:
        return None
    return given.ctypes.data if given.flags.c_contiguous and given.flags.aligned else None
