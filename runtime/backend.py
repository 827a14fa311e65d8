"""What the backends share: the protocol of executables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from threading import RLock
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from tensorgrad.runtime.counting import RunCount
from tensorgrad.runtime.outputs import OutputHandle
from tensorgrad.runtime.slots import Slot

NOTHING: Mapping[str, np.ndarray] = MappingProxyType({})
"""No inputs, in each call the same mapping."""


class Executable(Protocol):
    """A program loaded on a device, with its parameters and state.

    Each call is made as a whole, or has not been made if it raises an exception: also if that comes from outside, as
    `KeyboardInterrupt` does, and if another thread calls meanwhile.

    Attributes:
        lock: Held during each call; executables that share parameters and state share it.
        runs: Counts the steps that have run, each together with what it changes.
    """

    lock: RLock
    runs: RunCount

    @property
    def program_inputs(self) -> Mapping[str, Slot]:
        """The inputs that `step` takes, by name."""
        ...

    @property
    def persistent(self) -> Mapping[str, Slot]:
        """Parameters and state, which persist between steps, by name."""
        ...

    @property
    def scalar_names(self) -> frozenset[str]:
        """The scalars that `step` takes, including those that formulas read."""
        ...

    def step(
        self, inputs: Mapping[str, Any], scalars: Mapping[str, float], constant: Mapping[str, np.ndarray] = NOTHING
    ) -> Mapping[str, OutputHandle]:
        """Runs the program once.

        Args:
            inputs: An array for each of `program_inputs` that is not in `constant`.
            scalars: The scalars, including those that formulas read.
            constant: The inputs that never change: an array is not uploaded again when it is passed again, and a
                mapping not looked at again.

        Raises:
            InputError: An input is missing, unknown, or of the wrong shape or dtype; nothing has changed.
            DeviceError: The device reported an error.
        """
        ...

    def read(self, names: Iterable[str] | None = None) -> dict[str, np.ndarray]:
        """Returns the current values of these parameters and state, or of all of them."""
        ...

    def write(self, values: Mapping[str, Any]) -> None:
        """Sets parameters and state by name; everything is checked before anything is written."""
        ...

    def statistics(self) -> dict[str, Any]:
        """Returns counts of what a step runs and of the memory that it takes."""
        ...
