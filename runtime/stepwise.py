"""A step that runs one dispatch after another, with all of its memory in view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeAlias

import numpy as np

from tensorgrad.runtime.backend import BufferT
from tensorgrad.runtime.program import Leaf

Range: TypeAlias = tuple[int, int, int]
"""The index of one of the program's buffers, the first byte, and how many bytes."""


class Stepwise(Generic[BufferT]):
    """A step of an executable that has been prepared: its caller runs each dispatch and copy of the plan.

    Args:
        buffers: All of the program's buffers, by index.
        run: Runs a dispatch or copy, given the iteration index of each loop around it.
        read: Returns the bytes of (buffer, offset, size) ranges, once what was run has run.
        write: Writes bytes to buffers, each at an offset, after everything that was run before.
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
            DeviceError: What the device reported.
        """
        return self._read([(self._buffers[buffer], offset, size) for buffer, offset, size in ranges])

    def write(self, parts: Iterable[tuple[int, int, np.ndarray]]) -> None:
        """Writes bytes to buffers by index, each at an offset; whole words.

        Raises:
            DeviceError: What the device reported.
        """
        self._write((self._buffers[buffer], offset, data) for buffer, offset, data in parts)
