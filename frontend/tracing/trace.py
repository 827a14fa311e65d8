"""A trace in progress."""

from __future__ import annotations

from collections import Counter
from typing import Any

from xdsl.ir import Block, SSAValue

from tensorgrad.dialects.tg.base import ELEMENT_TYPES, tensor
from tensorgrad.dialects.tg.build import TensorBuilder
from tensorgrad.tracing.home import Concrete
from tensorgrad.tracing.index_ranges import Note


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
        self.eager: dict[int, tuple[Any, SSAValue]] | None = None
        """The eager tensors that the function uses from around it, which are further arguments; `None` where they are
        constants. Of the outermost trace."""
        self.notes: list[Note] = []
        """What is asked of indices; those of an inner trace become the outer one's."""

    @property
    def outermost(self) -> Trace:
        """The trace that this one is in, or itself."""
        return self if self.parent is None else self.parent.outermost

    def lifted(self, x: Concrete) -> SSAValue | None:
        """Returns the argument that an eager tensor is, where the outermost trace takes such."""
        outermost = self.outermost
        if outermost.eager is None:
            return None
        if id(x) not in outermost.eager:
            kind = tensor(x.shape, ELEMENT_TYPES[x.dtype])
            outermost.eager[id(x)] = x, outermost.block.insert_arg(kind, len(outermost.block.args))
        return outermost.eager[id(x)][1]

    def sees(self, other: Trace) -> bool:
        """Returns whether values of `other` may be used here."""
        trace: Trace | None = self
        while trace is not None and trace is not other:
            trace = trace.parent
        return trace is not None
