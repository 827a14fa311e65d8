"""Collectives in the middle of a native step: a function that native code calls, which calls the group."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tensorgrad.runtime.group.collective import check_size, exchange, host_dtype
from tensorgrad.runtime.group.membership import current_group
from tensorgrad.runtime.plan import Collective

_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(ctypes.c_uint64))


class Exchanges:
    """The collectives of an executable, by number. Arrays are handed over where they lie, without a copy."""

    def __init__(self) -> None:
        self._numbers: dict[Collective, int] = {}
        self._steps: list[Collective] = []
        self._failure: BaseException | None = None
        self._function = _FUNCTION(self._run)
        self._address = ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def __call__(self, step: Collective) -> tuple[int, int]:
        """Returns the address of the function that runs a collective, and the number to call it with."""
        if step not in self._numbers:
            self._numbers[step] = len(self._steps)
            self._steps.append(step)
        return self._address, self._numbers[step]

    def check(self) -> None:
        """Raises what a collective raised: native code can't.

        Raises:
            GroupError: Another process did not come, or ended.
        """
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _run(self, number: int, addresses: Any) -> int:
        step = self._steps[number]
        try:
            group = current_group()
            check_size(group, step.size)
            counts = [part.count for part in step.parts] + [part.result_count for part in step.parts]
            arrays = [_array(addresses[slot], count, host_dtype(step)) for slot, count in enumerate(counts)]
            exchange(group, step, arrays[: len(step.parts)], arrays[len(step.parts) :])
        except BaseException as error:  # raised again by `check`, behind the native step
            self._failure = error
            return 1
        return 0


def _array(address: int, count: int, dtype: np.dtype[np.generic]) -> np.ndarray[Any, Any]:
    """Returns the elements at an address, as an array that shares their memory."""
    memory = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(address)
    return np.ctypeslib.as_array(memory).view(dtype)
