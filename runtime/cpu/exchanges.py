"""Collectives within a native step: host functions that native code calls, which call the group."""

from __future__ import annotations

import ctypes
import time
from typing import Any

import numpy as np

from tensorgrad.runtime.group.background import Task
from tensorgrad.runtime.group.collective import check_size, exchange
from tensorgrad.runtime.group.group import Group
from tensorgrad.runtime.group.membership import current_group
from tensorgrad.runtime.plan import Collective, Wait

_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(ctypes.c_uint64))


class Exchanges:
    """The collectives of an executable, by number. Arrays are passed in place, without a copy.

    An asynchronous collective runs on a background thread until it is waited for, while the step continues. Collectives
    that follow it in the meantime run on that thread too, so that every process keeps the order of the plan.
    """

    def __init__(self) -> None:
        self._numbers: dict[Collective | Wait, int] = {}
        self._steps: list[Collective | Wait] = []
        self._failure: BaseException | None = None
        self._function = _FUNCTION(self._run)
        self._address = ctypes.cast(self._function, ctypes.c_void_p).value or 0
        self._under_way: dict[int, Task] = {}

    def __call__(self, step: Collective | Wait) -> tuple[int, int]:
        """Returns the address of the function that exchanges or waits, and the number to pass to it."""
        if step not in self._numbers:
            self._numbers[step] = len(self._steps)
            self._steps.append(step)
        return self._address, self._numbers[step]

    def check(self) -> None:
        """Raises the exception of a failed collective, as native code can't.

        Raises:
            GroupError: Another process did not join, or ended.
        """
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _run(self, number: int, addresses: Any) -> int:
        step, group, begun = self._steps[number], current_group(), time.perf_counter()
        try:
            if isinstance(step, Wait):
                self._wait(step.request)
            else:
                self._exchange(group, step, addresses)
        except BaseException as error:  # re-raised by `check`, after the native step
            self._failure = self._abandoned(group, error)
            return 1
        finally:
            group.traffic.stalled += time.perf_counter() - begun
        return 0

    def _exchange(self, group: Group, step: Collective, addresses: Any) -> None:
        check_size(group, step.size)
        counts = [part.count for part in step.parts] + [part.result_count for part in step.parts]
        arrays = [_array(addresses[slot], count, step.device_dtype) for slot, count in enumerate(counts)]

        def act() -> None:
            exchange(group, step, arrays[: len(step.parts)], arrays[len(step.parts) :])

        if step.request is not None and group.has_threads:
            self._under_way[step.request] = group.begin(act)
        elif self._under_way:
            group.begin(act).result()
        else:
            act()

    def _wait(self, request: int) -> None:
        if request in self._under_way:
            self._under_way[request].result()
            del self._under_way[request]

    def _abandoned(self, group: Group, error: BaseException) -> BaseException:
        """Cancels pending collectives before the step ends, as they use its memory; returns the first error."""
        tasks = list(self._under_way.values())
        self._under_way.clear()
        if tasks:
            group.abandon(f"a step failed: {str(error) or type(error).__name__}")
        failures = [failure for task in tasks if (failure := task.joined()) is not None]
        return failures[0] if failures and isinstance(error, Exception) else error


def _array(address: int, count: int, dtype: np.dtype[np.generic]) -> np.ndarray[Any, Any]:
    """Returns a view of the elements at an address."""
    memory = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(address)
    return np.ctypeslib.as_array(memory).view(dtype)
