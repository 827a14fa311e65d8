"""A trace in progress."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from xdsl.ir import Block, SSAValue

from tensorgrad.dialects.tg.base import ELEMENT_TYPES, tensor
from tensorgrad.dialects.tg.build import TensorBuilder
from tensorgrad.tracing.index_ranges import Note
from tensorgrad.tracing.tensor_device import Concrete


class Lifting:
    """Lifts concrete tensors that a traced function captures to additional arguments.

    Args:
        arrays: Whether host arrays are lifted too, unless they are small or all their elements are one: the program is
            then the same for other arrays.

    Attributes:
        tensors: The tensors that the arguments stand for.
    """

    def __init__(self, arrays: bool):
        self._arrays = arrays
        self._arguments: dict[int, SSAValue] = {}
        self.tensors: list[Any] = []

    def takes(self, x: Concrete) -> bool:
        """Returns whether a tensor is lifted to an argument."""
        if x.live is not None:
            return True
        source: Any = x.source if self._arrays else None
        return isinstance(source, np.ndarray) and source.nbytes > MOST_CONSTANT and any(source.strides)

    def argument(self, x: Concrete, block: Block) -> SSAValue:
        """Returns the argument that stands for a tensor."""
        if id(x) not in self._arguments:
            kind = tensor(x.shape, ELEMENT_TYPES[x.dtype])
            self._arguments[id(x)] = block.insert_arg(kind, len(block.args))
            self.tensors.append(x)
        return self._arguments[id(x)]


MOST_CONSTANT = 64
"""Arrays of at most this many bytes stay constants, which simplifies the program."""


class Trace:
    """A trace in progress: a block that ops are appended to. Traces nest: an inner one sees the outer's values."""

    def __init__(self, name: str, parent: Trace | None):
        self.name = name
        self.parent = parent
        self.block = Block()
        self.open = True
        self.builder = TensorBuilder(self.block)
        self.captures: dict[str, tuple[SSAValue, str]] = {}
        """The values that `tg.capture` has named, each with its line; in the outermost trace."""
        self.calls: Counter[str] = Counter()
        """How many times each module has been called, by its path; in the outermost trace."""
        self.lifting: Lifting | None = None
        """Lifts captured tensors to additional arguments; `None` makes them constants. In the outermost trace."""
        self.is_closed = False
        """Whether it may capture nothing but constants."""
        self.notes: list[Note] = []
        """The required ranges of indices; those of an inner trace are moved to the outer one."""

    @property
    def outermost(self) -> Trace:
        """The outermost enclosing trace, or itself."""
        return self if self.parent is None else self.parent.outermost

    def lifted(self, x: Concrete) -> SSAValue | None:
        """Returns the argument that stands for a concrete tensor, if the outermost trace lifts such tensors."""
        outermost = self.outermost
        if outermost.lifting is None or not outermost.lifting.takes(x) or self._is_within_closed():
            return None
        return outermost.lifting.argument(x, outermost.block)

    def _is_within_closed(self) -> bool:
        trace: Trace | None = self
        while trace is not None and not trace.is_closed:
            trace = trace.parent
        return trace is not None

    def sees(self, other: Trace) -> bool:
        """Returns whether values of `other` may be used here."""
        trace: Trace | None = self
        while trace is not None and trace is not other:
            trace = trace.parent
        return trace is not None
