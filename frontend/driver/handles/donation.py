"""Donated arguments of `tg.jit`: they are the state of the program, which results replace in place."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tensorgrad.driver.compiling.compilation import Compilation
from tensorgrad.driver.handles.compiled import Specialization, device_of_results
from tensorgrad.errors import InputError, OptionError
from tensorgrad.runtime.backend import NOTHING
from tensorgrad.runtime.outputs import OutputHandle
from tensorgrad.runtime.slots import ArraySlot
from tensorgrad.tracing import trees
from tensorgrad.tracing.dtypes import SHORT
from tensorgrad.tracing.tensor import Array, Traced


class StateHandle(OutputHandle):
    """A result that is the state of a program, until a call that it is donated to replaces it.

    Args:
        slot: The state's name, shape and dtype.
        holder: The program whose state it is.
    """

    __slots__ = ("_holder", "_version")

    def __init__(self, slot: ArraySlot, holder: Donating):
        super().__init__(slot, self._read)
        self._holder = holder
        self._version = holder.version

    def is_state_of(self, holder: Donating, name: str) -> bool:
        """Returns whether it is the current state of this name."""
        return self._holder is holder and self.name == name and self._version == holder.version

    def _read(self) -> np.ndarray:
        holder = self._holder
        with holder.lock:
            if self._version != holder.version:
                raise InputError(
                    f"this array was donated to {holder.name}(), which has replaced it by its result; "
                    "np.asarray(array) before the call keeps the values"
                )
            return holder.read(self.name)


class Donation:
    """Which results of a traced function replace which donated arguments.

    Args:
        donated: The donated tensors by their paths.
        result: The function's result.
        what: The function's name in error messages.

    Attributes:
        others: The other results, in order.
        updates: The results that replace arguments, by the arguments' paths.
        places: For each result, the path of the argument that it replaces, or `None`.
        rebuild: Returns the result's tree from its leaves.

    Raises:
        OptionError: No result has the shape and dtype of a donated argument.
    """

    def __init__(self, donated: Mapping[str, Traced], result: Any, what: str):
        leaves, self.rebuild = trees.flatten(result)
        self.places: list[str | None] = [None] * len(leaves)
        self.updates: dict[str, Any] = {}
        for path, argument in donated.items():
            kind = argument.shape, argument.dtype
            fitting = (
                place
                for place, leaf in enumerate(leaves)
                if isinstance(leaf, Traced) and self.places[place] is None and (leaf.shape, leaf.dtype) == kind
            )
            place = next(fitting, None)
            if place is None:
                raise OptionError(
                    f"jit: donate: no result of {what} takes the place of {path!r}, of shape "
                    f"{argument.shape} and dtype {SHORT[argument.dtype]}"
                )
            self.places[place] = path
            self.updates[path] = leaves[place]
        self.others = [leaf for leaf, path in zip(leaves, self.places, strict=True) if path is None]


class Donating(Specialization):
    """A function whose donated arguments are the state of its program.

    An argument that is the result of its last call is there already; another one is copied there.

    Args:
        compilation, inputs: See `Specialization`; of these inputs, some are state.
        donation: Which results are state.
        outputs: The names of the other results, in order.
    """

    def __init__(
        self,
        compilation: Compilation,
        inputs: Sequence[str],
        donation: Donation,
        outputs: Sequence[str],
    ):
        super().__init__(compilation, list(outputs), inputs=inputs)
        executable = compilation.executable
        self.name, self.lock = compilation.recipe.name, executable.lock
        self._donation = donation
        self._states = {name: slot for name, slot in executable.persistent.items() if name in donation.updates}
        self._device = device_of_results(compilation.recipe)
        self._writes = 0
        self._handles: list[weakref.ref[StateHandle]] = []

    @property
    def version(self) -> tuple[int, int]:
        """Differs whenever the state has changed."""
        return self._writes, self._executable.runs.number

    def read(self, name: str) -> np.ndarray:
        """Returns a copy of a state."""
        return self._executable.read([name])[name]

    def run(self, inputs: Mapping[str, Any], constant: Mapping[str, np.ndarray] = NOTHING) -> Any:
        """Runs it; see `Specialization.run`. An input may be a `StateHandle`."""
        with self.lock:
            self._place({name: inputs[name] for name in self._states})
            others = {name: _array(value) for name, value in inputs.items() if name not in self._states}
            results = iter(super().run(others, constant))
            handles = {name: StateHandle(self._slot(name), self) for name in self._states}
            self._handles = [weakref.ref(handle) for handle in handles.values()]
            make = Array if self._device is None else self._device.output
            return self._donation.rebuild(
                [next(results) if path is None else make(handles[path]) for path in self._donation.places]
            )

    def _place(self, values: Mapping[str, Any]) -> None:
        """Makes these values the state, if they aren't; results that are the state, and are still held, are read."""
        if all(isinstance(value, StateHandle) and value.is_state_of(self, name) for name, value in values.items()):
            return
        for handle in (reference() for reference in self._handles):
            if handle is not None and handle.is_pending:
                handle.numpy()
        arrays = {name: _array(value) for name, value in values.items()}
        self._writes += 1
        self._executable.write(arrays)

    def _slot(self, name: str) -> ArraySlot:
        slot = self._states[name]
        return ArraySlot(name, slot.shape, slot.dtype)


def _array(value: Any) -> np.ndarray:
    return value.numpy() if isinstance(value, OutputHandle) else value
