"""Steps that run one dispatch at a time, with access to all of the program's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeAlias

import numpy as np

from tensorgrad.runtime.outputs import BufferT
from tensorgrad.runtime.program import Leaf

Range: TypeAlias = tuple[int, int, int]
"""A range of a buffer as (buffer index, offset, size)."""


class Stepwise(Generic[BufferT]):
    """A prepared step of an executable, whose dispatches and copies the caller runs one by one.

    Args:
        buffers: All of the program's buffers, by index.
        run: Runs a dispatch or copy, given the iteration indices of its enclosing loops.
        read: Returns the bytes of (buffer, offset, size) ranges, after all submitted work has completed.
        write: Writes bytes to buffers at the given offsets, after all work submitted before.
    """

    def __init__(
        self,
        buffers: Mapping[int, BufferT],
        run: Callable[[Leaf, tuple[int, ...]], None],
        read: Callable[[Sequence[tuple[BufferT, int, int]]], list[np.ndarray]],
        write: Callable[[Iterable[tuple[BufferT, int, np.ndarray]]], None],
    ):
        self._buffers = buffers
        self._read, self._write = read, write
        self.run = run

    def read(self, ranges: Sequence[Range]) -> list[np.ndarray]:
        """Returns copies of the bytes of ranges.

        Raises:
            DeviceError: The device reported an error.
        """
        return self._read([(self._buffers[buffer], offset, size) for buffer, offset, size in ranges])

    def write(self, parts: Iterable[tuple[int, int, np.ndarray]]) -> None:
        """Writes bytes, whole words, to buffers at the given offsets.

        Raises:
            DeviceError: The device reported an error.
        """
        self._write((self._buffers[buffer], offset, data) for buffer, offset, data in parts)
