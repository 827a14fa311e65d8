"""Interprets `tg` functions with NumPy: the reference, and the fallback backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from tensorgrad.dialects.signature import Slot, arguments_of, results_of
from tensorgrad.dialects.tg.base import NumpyArray, numpy_dtype
from tensorgrad.interpreters.compiled import CompiledBlock, Observe, is_fresh
from tensorgrad.interpreters.functions import function_of, returned_by
from tensorgrad.runtime.errors import ProgramError
from tensorgrad.runtime.plan import HOST_DTYPES


class TensorExecutor:
    """Runs one `tg` function, including the bodies of calls; it is compiled once, and runs don't visit the IR."""

    def __init__(self, module: ModuleOp, function: str | None = None, observe: Observe | None = None):
        """Compiles a function.

        Args:
            module: The module that holds the function.
            function: Its name; by default the only one.
            observe: Wraps the function of every op, as in `CompiledBlock`.

        Raises:
            ExecutionError: There is no such function, or several without a name.
        """
        self.function = function_of(module, function)
        self.arguments = arguments_of(self.function)
        self.results = results_of(self.function)
        block = self.function.body.block
        returned = returned_by(block)
        self._compiled = CompiledBlock(block, returned, row_major=True, observe=observe)
        # Results that may be an argument, a constant, or a view of another result are copied.
        seen = set[SSAValue]()
        self._copied: list[int] = []
        for place, value in enumerate(returned):
            if value in seen or not is_fresh(value):
                self._copied.append(place)
            seen.add(value)
        self.row_major = [value in self._compiled.row_major for value in returned]
        """For each result: whether its array is known to be contiguous in row-major order."""

    def call(self, values: Sequence[NumpyArray], row_major: bool = False) -> list[NumpyArray]:
        """Returns the results for these arguments, in order; none aliases another result or an argument.

        Args:
            values: The arguments.
            row_major: Whether all of them are known to be contiguous in row-major order.

        Raises:
            ProgramError: The number of arguments is wrong.
            DeviceError: NumPy can't execute an op, such as allocate its result; names the op and its line.
        """
        if len(values) != len(self.arguments):
            raise ProgramError(f"the function takes {len(self.arguments)} arguments, got {len(values)}")
        arrays = values if row_major else list(map(ordered, values))
        with np.errstate(all="ignore"):
            results = list(self._compiled.run(*arrays))
        for place in self._copied:
            results[place] = np.array(results[place])
        return results

    def run(self, values: Mapping[str, NumpyArray]) -> dict[str, NumpyArray]:
        """Returns the results as `role/name`, for arguments by name; both in the dtypes of their slots.

        After `widen-integers` tensors have other dtypes, with the same values.
        """
        kinds = [numpy_dtype(argument.type) for argument in self.function.body.block.args]
        arrays = [
            values[slot.name].astype(dtype, copy=False) for slot, dtype in zip(self.arguments, kinds, strict=True)
        ]
        results = zip(self.results, self.call(arrays), strict=True)
        return {f"{slot.role}/{slot.name}": _as_named(slot, value) for slot, value in results}

    def peak_bytes(self) -> int:
        """Returns the peak live bytes, in op order: arguments, constants and temporaries."""
        return self._compiled.peak_bytes()

    def bytes_moved(self) -> int:
        """Returns the bytes that ops read and write in one run, each operand and result once."""
        return self._compiled.bytes_moved()


def _as_named(slot: Slot, value: NumpyArray) -> NumpyArray:
    return value if slot.dtype is None else value.astype(HOST_DTYPES[slot.dtype])


def ordered(array: NumpyArray) -> NumpyArray:
    """Returns an array contiguous in row-major order: itself, or a copy."""
    return array if array.flags.c_contiguous else np.array(array, order="C")
