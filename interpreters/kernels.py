"""Interprets a function's kernels with NumPy in place of its `tg` form, to round what kernels store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tensorgrad.dialects.tg.base import NumpyArray, Tensor, numpy_dtype
from tensorgrad.interpreters.buffers import BufferExecutor
from tensorgrad.interpreters.tensors import TensorExecutor


class KernelExecutor:
    """Interprets the kernels of a function, with the arguments and results of its `tg` form.

    Args:
        tensors: The `tg` function, which is not run itself.
        module: The same function on `buf`.
    """

    def __init__(self, tensors: TensorExecutor, module: ModuleOp):
        self.function, self.arguments, self.results = tensors.function, tensors.arguments, tensors.results
        self.row_major = [False] * len(self.results)
        self._kernels = BufferExecutor(module, poisons=False)
        names = [slot.name for slot in self.arguments]
        self._names = [s.name if names.count(s.name) == 1 else f"{s.role}/{s.name}" for s in self.arguments]
        kinds = self.function.function_type.outputs.data
        self._dtypes = [numpy_dtype(cast(Tensor, kind)) for kind in kinds]

    def call(self, values: Sequence[NumpyArray], row_major: bool = False) -> list[NumpyArray]:
        """Returns the results for these arguments, in order; arguments may have any memory layout."""
        results = self._kernels.run(dict(zip(self._names, values, strict=True)))
        names = [f"{slot.role}/{slot.name}" for slot in self.results]
        return [np.asarray(results[name]).astype(dtype) for name, dtype in zip(names, self._dtypes, strict=True)]

    def peak_bytes(self) -> int:
        """Returns the peak live bytes in the order of kernels: arguments, results, constants and temporaries."""
        return self._kernels.peak_bytes()

    def bytes_moved(self) -> int:
        """Returns the bytes that kernels read and write in one run, each operand once."""
        return self._kernels.bytes_moved()
