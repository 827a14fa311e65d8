"""Parameters and state of a process group, read and written as whole values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensorgrad.dialects.functions import find_function
from tensorgrad.driver.compiling.compilation import Compilation
from tensorgrad.driver.stepping.distribution import Distribution
from tensorgrad.passes.tensors.accumulate_gradients import PREFIX
from tensorgrad.passes.tensors.distribute.placement import PARTIAL, WHOLE, Placement
from tensorgrad.passes.tensors.updates import state_shapes
from tensorgrad.runtime.backend import Executable
from tensorgrad.runtime.group.group import Group
from tensorgrad.runtime.inputs import check_inputs
from tensorgrad.runtime.slots import ArraySlot


@dataclass(frozen=True)
class GroupState:
    """The state of a step that runs in a group. Every process must read the same names in the same order.

    On reading, sharded values are gathered, one tensor at a time, and partial sums are added up. On writing, each
    process takes its part of the whole value; of a partial sum the first process takes all.

    Attributes:
        group: The processes.
        executable: Runs the step of this process.
        persistent: Parameters and state, with their whole shapes.
        layouts: How the group holds each of them.
        for_file: Whether reads are for the first process to write to a file: the other processes take part, but don't
            keep tensors of which they hold a part themselves.
    """

    group: Group
    executable: Executable
    persistent: Mapping[str, ArraySlot]
    layouts: Mapping[str, Placement]
    for_file: bool = False

    @classmethod
    def of(cls, distribution: Distribution, compilation: Compilation) -> GroupState:
        """Returns the state of a step; its layouts follow from the shapes in one process and as a whole."""
        recipe, executable = compilation.recipe, compilation.executable
        shapes = state_shapes(recipe.traced, find_function(recipe.traced, recipe.name))
        slots = {
            name: ArraySlot(name, shapes.get(name, slot.shape), slot.dtype)
            for name, slot in executable.persistent.items()
        }
        layouts = {name: _layout(name, slot.shape, slots[name].shape) for name, slot in executable.persistent.items()}
        return cls(distribution.group, executable, slots, layouts)

    def to_write(self) -> GroupState:
        """Returns the same state for reading in order to write a file from the first process."""
        return replace(self, for_file=True)

    def read(self, names: Iterable[str] | None = None) -> dict[str, np.ndarray]:
        """Returns the current values of these parameters and state, or of all, as a whole.

        Raises:
            GroupError: Another process did not join.
        """
        chosen = list(self.persistent if names is None else names)
        values = self.executable.read([name for name in chosen if self.layouts[name] == WHOLE])
        for name in chosen:
            if self.layouts[name] != WHOLE:
                values |= self.whole(self.executable.read([name]))
                if self.for_file and self.group.rank:
                    del values[name]
        return {name: values[name] for name in chosen if name in values}

    def write(self, values: Mapping[str, Any]) -> None:
        """Sets parameters and state by name, from whole values.

        Raises:
            InputError: A name is unknown, a shape differs or a value doesn't convert; nothing is changed then.
        """
        arrays = check_inputs(self.persistent, values, what="parameter or state", partial=True)
        self.executable.write(self.part(arrays))

    def whole(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns whole values from the values of each process.

        Raises:
            GroupError: Another process did not join.
        """
        return {name: self._whole(name, value) for name, value in values.items()}

    def part(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns this process's part of whole values."""
        return {name: self._part(self.layouts[name], value) for name, value in values.items()}

    def _whole(self, name: str, value: np.ndarray) -> np.ndarray:
        layout = self.layouts[name]
        if layout.partial:
            return self.group.all_reduce(np.ascontiguousarray(value), label=name)
        if layout.axis is None:
            return value
        first = np.ascontiguousarray(np.moveaxis(value, layout.axis, 0))
        return np.ascontiguousarray(np.moveaxis(self.group.all_gather(first, label=name), 0, layout.axis))

    def _part(self, layout: Placement, value: np.ndarray) -> np.ndarray:
        if layout.partial:
            return value if self.group.rank == 0 else np.zeros_like(value)
        if layout.axis is None:
            return value
        return np.split(value, self.group.size, layout.axis)[self.group.rank]


def _layout(name: str, own: tuple[int, ...], whole: tuple[int, ...]) -> Placement:
    """Returns the layout of a state, from its shape in one process and as a whole."""
    if name.startswith(f"{PREFIX}/"):
        return PARTIAL
    cut = [axis for axis, (part, extent) in enumerate(zip(own, whole, strict=True)) if part != extent]
    return Placement(cut[0]) if cut else WHOLE
