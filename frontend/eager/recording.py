"""Blocks of recorded ops: what was applied to what, until someone looks at a value."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Sequence
from typing import TypeAlias

import numpy as np

from tensorgrad.dialects.tg.base import NumpyArray
from tensorgrad.eager.templates import Template
from tensorgrad.eager.values import Recorder, Value, kind_of

Entry: TypeAlias = tuple[Template, tuple[int, ...]]
"""What is applied, and the numbers of its operands: results count from 0 up, inputs from -1 down."""

FIXED_BYTES = 8
"""Arrays of the host of at most so many bytes are taken for constants, until another one comes in their place."""


class Recording:
    """A block of ops that are not computed yet.

    Attributes:
        recorder: What computes it.
        entries: The ops in order.
        inputs: What they take from outside the block.
        constants: For each input, its bytes where it is a small array of the host, else `None`.
        size: How many ops there are in all.
    """

    def __init__(self, recorder: Recorder):
        self.recorder = recorder
        self.entries: list[Entry] = []
        self.inputs: list[Value] = []
        self.constants: list[bytes | None] = []
        self.size = 0
        self._numbers: dict[int, int] = {}
        self._results: list[weakref.ref[Value]] = []

    def record(self, template: Template, operands: Sequence[Value]) -> list[Value]:
        """Adds an application; returns its results, which are yet to be computed."""
        numbers = [operand.number if operand.recording is self else self._input(operand) for operand in operands]
        self.entries.append((template, tuple(numbers)))
        self.size += template.size
        made = [Value(kind) for kind in template.results]
        for number, value in enumerate(made, len(self._results)):
            value.recording, value.number = self, number
        self._results += map(weakref.ref, made)
        return made

    def _input(self, value: Value) -> int:
        number = self._numbers.get(id(value))
        if number is None:
            self.inputs.append(value)
            self.constants.append(None)
            number = self._numbers[id(value)] = -len(self.inputs)
        return number

    def constant(self, array: NumpyArray) -> Value:
        """Returns a small array of the host as a value that is a constant of the block."""
        value = Value(kind_of(array.shape, array.dtype), array)
        self.inputs.append(value)
        self.constants.append(array.tobytes())
        self._numbers[id(value)] = -len(self.inputs)
        return value

    def alive(self) -> list[Value]:
        """Returns the results that someone may still look at, in order."""
        values = [reference() for reference in self._results]
        return [value for value in values if value is not None]

    def key(self, alive: Sequence[Value]) -> Hashable:
        """Returns the structure of the block: equal for blocks that one program computes, whatever the numbers."""
        fixed = tuple([None if constant is None else len(constant) for constant in self.constants])
        kinds = tuple([value.kind for value in self.inputs])
        return tuple(self.entries), kinds, fixed, tuple([value.number for value in alive])

    def period(self) -> int:
        """Returns after how many ops the block repeats itself at its end, or 0 where it doesn't.

        A block that is cut at a multiple of it is followed by blocks of the same structure.
        """
        names = [id(template) for template, _ in self.entries]
        for length in range(1, len(names) // 3 + 1):
            if names[-length:] == names[-2 * length : -length] == names[-3 * length : -2 * length]:
                return sum(template.size for template, _ in self.entries[-length:])
        return 0


def is_constant(array: NumpyArray) -> bool:
    """Returns whether an array of the host is taken for a constant."""
    return array.nbytes <= FIXED_BYTES


def splat_of(array: NumpyArray) -> NumpyArray | None:
    """Returns the only element of an array that repeats it without holding it more than once, or `None`."""
    if array.ndim and array.size > 1 and not any(array.strides):
        return np.asarray(array[(0,) * array.ndim])
    return None
