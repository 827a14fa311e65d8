"""A trace in progress."""

from __future__ import annotations

from collections import Counter

from xdsl.ir import Block, SSAValue

from tensorgrad.dialects.tg.build import TensorBuilder
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
        self.notes: list[Note] = []
        """What is asked of indices; those of an inner trace become the outer one's."""

    @property
    def outermost(self) -> Trace:
        """The trace that this one is in, or itself."""
        return self if self.parent is None else self.parent.outermost

    def sees(self, other: Trace) -> bool:
        """Returns whether values of `other` may be used here."""
        trace: Trace | None = self
        while trace is not None and trace is not other:
            trace = trace.parent
        return trace is not None
