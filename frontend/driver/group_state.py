"""Parameters and state that the processes of a group hold together, read and written as the whole that they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from tensorgrad.dialects.functions import find_function
from tensorgrad.driver.distribution import Distribution
from tensorgrad.driver.pipeline import Compilation
from tensorgrad.passes.tensors.accumulate_gradients import PREFIX
from tensorgrad.passes.tensors.distribute.placement import PARTIAL, WHOLE, Layout
from tensorgrad.passes.tensors.updates import state_shapes
from tensorgrad.runtime.backend import ArraySlot, Executable, Slot, check_inputs
from tensorgrad.runtime.group.group import Group


class Persistent(Protocol):
    """Parameters and state by name: an executable's, or those of all processes of a group together."""

    @property
    def persistent(self) -> Mapping[str, Slot]:
        """What there is."""
        ...

    def read(self, names: Iterable[str] | None = None) -> dict[str, np.ndarray]:
        """Returns the present values of these parameters and state, or of all."""
        ...

    def write(self, values: Mapping[str, Any]) -> None:
        """Sets parameters and state by name; everything is checked before anything is written."""
        ...


@dataclass(frozen=True)
class GroupState:
    """The state of a step that a group runs. Every process reads the same names in the same order.

    What the processes have parts of is gathered where it is read, one tensor after another; sums over the processes are
    added up. What is written is the whole, of which each process takes its part; of a sum the first one takes all.

    Attributes:
        group: The processes.
        executable: What runs the step of this one.
        persistent: Parameters and state, with the shapes that they have as a whole.
        layouts: How the group holds each.
        for_file: Whether what is read is for the first process to write: others take part, but keep no tensor of which
            they have a part themselves.
    """

    group: Group
    executable: Executable
    persistent: Mapping[str, ArraySlot]
    layouts: Mapping[str, Layout]
    for_file: bool = False

    @classmethod
    def of(cls, distribution: Distribution, compilation: Compilation, executable: Executable) -> GroupState:
        """Returns the state of a step, whose layouts are seen from what shapes it has in a process and as a whole."""
        traced = compilation.traced
        shapes = state_shapes(traced, find_function(traced, compilation.name))
        slots = {
            name: ArraySlot(name, shapes.get(name, slot.shape), slot.dtype)
            for name, slot in executable.persistent.items()
        }
        layouts = {name: _layout(name, slot.shape, slots[name].shape) for name, slot in executable.persistent.items()}
        return cls(distribution.group, executable, slots, layouts)

    def to_write(self) -> GroupState:
        """Returns the same for the first process to write what is read."""
        return replace(self, for_file=True)

    def read(self, names: Iterable[str] | None = None) -> dict[str, np.ndarray]:
        """Returns the present values of these parameters and state, or of all, as a whole.

        Raises:
            GroupError: Another process did not come.
        """
        chosen = list(self.persistent if names is None else names)
        found = self.executable.read([name for name in chosen if self.layouts[name] == WHOLE])
        for name in chosen:
            if self.layouts[name] != WHOLE:
                found |= self.whole(self.executable.read([name]))
                if self.for_file and self.group.rank:
                    del found[name]
        return {name: found[name] for name in chosen if name in found}

    def write(self, values: Mapping[str, Any]) -> None:
        """Sets parameters and state by name, as a whole.

        Raises:
            InputError: A name is unknown, a shape differs or a value doesn't convert; nothing has changed.
        """
        arrays = check_inputs(self.persistent, values, what="parameter or state", partial=True)
        self.executable.write(self.part(arrays))

    def whole(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns values of this process as a whole.

        Raises:
            GroupError: Another process did not come.
        """
        return {name: self._whole(name, value) for name, value in values.items()}

    def part(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns what this process has of whole values."""
        return {name: self._part(self.layouts[name], value) for name, value in values.items()}

    def _whole(self, name: str, value: np.ndarray) -> np.ndarray:
        layout = self.layouts[name]
        if layout.partial:
            return self.group.all_reduce(np.ascontiguousarray(value), label=name)
        if layout.axis is None:
            return value
        first = np.ascontiguousarray(np.moveaxis(value, layout.axis, 0))
        return np.ascontiguousarray(np.moveaxis(self.group.all_gather(first, label=name), 0, layout.axis))

    def _part(self, layout: Layout, value: np.ndarray) -> np.ndarray:
        if layout.partial:
            return value if self.group.rank == 0 else np.zeros_like(value)
        if layout.axis is None:
            return value
        return np.split(value, self.group.size, layout.axis)[self.group.rank]


def _layout(name: str, own: tuple[int, ...], whole: tuple[int, ...]) -> Layout:
    """Returns how a group holds a state, of which a process has a shape."""
    if name.startswith(f"{PREFIX}/"):
        return PARTIAL
    cut = [axis for axis, (part, extent) in enumerate(zip(own, whole, strict=True)) if part != extent]
    return Layout(cut[0]) if cut else WHOLE
