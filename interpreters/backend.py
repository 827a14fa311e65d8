"""The fallback backend: interprets a `tg` function with NumPy, with its parameters and state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import groupby
from threading import RLock
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tensorgrad.dialects.signature import Role, Slot
from tensorgrad.dialects.tg.base import NumpyArray, Tensor, numpy_dtype
from tensorgrad.interpreters.kernels import KernelExecutor
from tensorgrad.interpreters.tensors import TensorExecutor, ordered
from tensorgrad.runtime.backend import NOTHING
from tensorgrad.runtime.counting import RunCount
from tensorgrad.runtime.errors import ProgramError
from tensorgrad.runtime.inputs import ScalarInputs, check_inputs
from tensorgrad.runtime.outputs import OutputHandle
from tensorgrad.runtime.slots import DTYPES, ArraySlot

_NAMES = {dtype: name for name, dtype in DTYPES.items()}


class NumpyExecutable:
    """A `tg` function with parameters and state initialized to zero.

    Args:
        module: The module that holds the function.
        function: Its name, or `None` if it is the only one.
        share: An executable whose parameters and state this one shares, instead of its own.
        kernels: The function lowered to kernels, to run in its place if stored values must be rounded.

    Raises:
        ExecutionError: There is no such function.
        ProgramError: The parameters differ from those of `share`, or `share` lacks its state.
    """

    def __init__(
        self,
        module: ModuleOp,
        function: str | None = None,
        share: NumpyExecutable | None = None,
        kernels: ModuleOp | None = None,
    ):
        tensors = TensorExecutor(module, function)
        self._executor = tensors if kernels is None else KernelExecutor(tensors, kernels)
        arguments = list(zip(self._executor.arguments, self._executor.function.body.block.args, strict=True))
        slots = {(slot.role, slot.name): _array_slot(slot, cast(Tensor, value.type)) for slot, value in arguments}
        self.program_inputs: Mapping[str, ArraySlot] = {
            name: slot for (role, name), slot in slots.items() if role == Role.INPUT
        }
        self._parameter_slots = {name: slot for (role, name), slot in slots.items() if role == Role.PARAMETER}
        self._state_slots = {name: slot for (role, name), slot in slots.items() if role == Role.STATE}
        self.persistent: Mapping[str, ArraySlot] = {**self._parameter_slots, **self._state_slots}
        self._scalars = ScalarInputs([slot for (role, _), slot in slots.items() if role == Role.SCALAR])
        self.scalar_names = self._scalars.names
        returned = zip(self._executor.results, self._executor.function.function_type.outputs.data, strict=True)
        self._outputs = [_array_slot(_output(slot), cast(Tensor, kind)) for slot, kind in returned]
        if share is not None and share._parameter_slots != self._parameter_slots:
            raise ProgramError("the parameters differ from those of the program to share them with")
        if share is not None and any(share._state_slots.get(name) != slot for name, slot in self._state_slots.items()):
            raise ProgramError("the state is not a subset of that of the program to share it with")
        self._values = _zeros(self.persistent) if share is None else share._values
        """Parameters and state by name, with those of executables that share them; updated by one call."""
        self.lock = RLock() if share is None else share.lock
        self.runs = RunCount()
        self._given = [
            (role, [slot.name for slot in run])
            for role, run in groupby(self._executor.arguments, key=lambda slot: slot.role)
        ]
        """The arguments, grouped into runs of the same role."""
        places = range(len(self._executor.results))
        updates = [place for place in places if self._executor.results[place].role == Role.UPDATE]
        self._handed = [place for place in places if self._executor.results[place].role != Role.UPDATE]
        self._unordered = [place for place in updates if not self._executor.row_major[place]]
        self._updates = {self._outputs[place].name: place for place in updates}
        """The names of updated parameters and state, and the indices of the results that update them."""

    def step(
        self, inputs: Mapping[str, Any], scalars: Mapping[str, float], constant: Mapping[str, np.ndarray] = NOTHING
    ) -> dict[str, OutputHandle]:
        """Runs the function once.

        Args:
            inputs: An array for each of `program_inputs` that is not in `constant`.
            scalars: The scalars, including those that formulas read.
            constant: The inputs that never change.

        Returns:
            A handle for each output.

        Raises:
            InputError: An input is missing, unknown, or of the wrong shape or dtype; nothing has changed.
        """
        with self.lock:
            return self._step({**inputs, **constant}, scalars)

    def _step(self, inputs: Mapping[str, Any], scalars: Mapping[str, float]) -> dict[str, OutputHandle]:
        known: dict[Role, Mapping[str, NumpyArray]] = {
            Role.PARAMETER: self._values,
            Role.STATE: self._values,
            Role.INPUT: {name: ordered(value) for name, value in check_inputs(self.program_inputs, inputs).items()},
            Role.SCALAR: self._scalars.evaluate(scalars),
        }
        operands: list[NumpyArray] = []
        for role, names in self._given:
            operands += map(known[role].__getitem__, names)
        values = self._executor.call(operands, row_major=True)
        for place in self._unordered:
            values[place] = ordered(values[place])
        updates = {name: values[place] for name, place in self._updates.items()}
        self.runs.count_with(partial(self._values.update, updates))
        handles: dict[str, OutputHandle] = {}
        for place in self._handed:
            slot, value = self._outputs[place], values[place]
            handles[slot.name] = handle = OutputHandle(slot)
            handle.deliver(value)
        return handles

    def read(self, names: Iterable[str] | None = None) -> dict[str, np.ndarray]:
        """Returns copies of the current values of these parameters and state, or of all of them."""
        values = dict(self._values)
        return {name: values[name].copy() for name in (self.persistent if names is None else names)}

    def write(self, values: Mapping[str, Any]) -> None:
        """Sets parameters and state by name; everything is checked before anything is written.

        Raises:
            InputError: A name is unknown, or a shape or dtype differs.
        """
        checked = check_inputs(self.persistent, values, what="parameter or state", partial=True)
        with self.lock:
            self._values.update({name: np.array(value, order="C") for name, value in checked.items()})

    def statistics(self) -> dict[str, Any]:
        """Returns counts of what a step runs and of the memory that it takes; nothing is dispatched."""
        return {
            "dispatches": 0,
            "submits": 0,
            "copies": 0,
            "kernels": 0,
            "peak_bytes": self._executor.peak_bytes(),
            "bytes_moved": self._executor.bytes_moved(),
        }


def _output(slot: Slot) -> Slot:
    """Returns a result's slot under the name that the caller uses, as in a compiled program."""
    return slot if slot.role != Role.GRADIENT else Slot(f"gradient/{slot.name}", Role.OUTPUT)


def _array_slot(slot: Slot, kind: Tensor) -> ArraySlot:
    return ArraySlot(slot.name, kind.get_shape(), _NAMES[numpy_dtype(kind)], slot.formula)


def _zeros(slots: Mapping[str, ArraySlot]) -> dict[str, NumpyArray]:
    return {name: np.zeros(slot.shape, DTYPES[slot.dtype]) for name, slot in slots.items()}
