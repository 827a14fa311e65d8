"""A trace in progress."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from xdsl.ir import Block, SSAValue

from tensorgrad.dialects.tg.base import ELEMENT_TYPES, tensor
from tensorgrad.dialects.tg.build import TensorBuilder
from tensorgrad.tracing.home import Concrete
from tensorgrad.tracing.index_ranges import Note


class Lifting:
    """Concrete tensors that a traced function uses from around it, as further arguments.

    Args:
        arrays: Whether arrays of the host are among them too, unless they are small or all their elements are one: a
            program with another array is the same one then.

    Attributes:
        tensors: What the arguments are.
    """

    def __init__(self, arrays: bool):
        self._arrays = arrays
        self._arguments: dict[int, SSAValue] = {}
        self.tensors: list[Any] = []

    def takes(self, x: Concrete) -> bool:
        """Returns whether a tensor becomes an argument."""
        if x.live is not None:
            return True
        source: Any = x.source if self._arrays else None
        return isinstance(source, np.ndarray) and source.nbytes > MOST_CONSTANT and any(source.strides)

    def argument(self, x: Concrete, block: Block) -> SSAValue:
        """Returns the argument that a tensor is."""
        if id(x) not in self._arguments:
            kind = tensor(x.shape, ELEMENT_TYPES[x.dtype])
            self._arguments[id(x)] = block.insert_arg(kind, len(block.args))
            self.tensors.append(x)
        return self._arguments[id(x)]


MOST_CONSTANT = 64
"""Arrays of at most so many bytes stay constants, by which a program is simplified."""


class Trace:
    """One trace in progress: a block that ops are appended to. Traces nest: an inner one sees the outer's values."""

    def __init__(self, name: str, parent: Trace | None):
        self.name = name
        self.parent = parent
        self.block = Block()
        self.open = True
        self.builder = TensorBuilder(self.block)
        self.captures: dict[str, tuple[SSAValue, str]] = {}
        """What `tg.capture` has named, and on which line; of the outermost trace."""
        self.calls: Counter[str] = Counter()
        """How often each module has been called, by its path; of the outermost trace."""
        self.lifting: Lifting | None = None
        """What the function uses from around it that becomes further arguments; `None` makes constants of it. Of the
        outermost trace."""
        self.is_closed = False
        """Whether nothing from around it may be used in it but constants."""
        self.notes: list[Note] = []
        """What is asked of indices; those of an inner trace become the outer one's."""

    @property
    def outermost(self) -> Trace:
        """The trace that this one is in, or itself."""
        return self if self.parent is None else self.parent.outermost

    def lifted(self, x: Concrete) -> SSAValue | None:
        """Returns the argument that a concrete tensor is, where the outermost trace takes such."""
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
