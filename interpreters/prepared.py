"""Interprets a `buf.kernel` with NumPy on any arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from tensorgrad.dialects import buf
from tensorgrad.interpreters.attention import run_attention
from tensorgrad.interpreters.collectives import run_collective
from tensorgrad.interpreters.control import Storage
from tensorgrad.interpreters.counting_sort import run_counting_sort
from tensorgrad.interpreters.scalars import Array
from tensorgrad.interpreters.stages import Perturb, PreparedStage

POISON = np.uint32(0x7FFE7FFD)
"""NaN as f16, f32 or f64, a large integer, and true as a bool."""


def poison(target: Array) -> None:
    """Fills an array's bytes with the poison pattern."""
    whole = target.size // 4 * 4
    target[:whole].view(np.uint32)[...] = POISON
    target[whole:] = np.frombuffer(POISON.tobytes(), np.uint8)[: target.size - whole]


def undefined(value: SSAValue) -> Array:
    """Returns new memory for a local buffer, with undefined contents."""
    place = Storage.of(value)
    raw = np.empty(place.end - place.start, np.uint8)
    poison(raw)
    return raw.view(place.dtype).reshape(place.shape)


class PreparedKernel:
    """A kernel whose stages have been checked.

    Raises:
        ExecutionError: A stage contains an unsupported op, type or reduction.
    """

    def __init__(self, op: buf.KernelOp):
        self._arguments: Sequence[SSAValue] = op.body.block.args
        self._stages = [PreparedStage(stage) for stage in op.stages]
        self._locals = [local.memref for local in op.locals if not buf.is_shape_only(local.memref)]
        self._attention = op.attention
        self._collective = op.collective
        self._counting_sort = op.counting_sort

    def run(self, operands: Sequence[Array], perturb: Perturb | None = None) -> None:
        """Runs the kernel.

        Args:
            operands: Arrays of the operands' shapes; outputs are written in place. Bools are words.
            perturb: Perturbs f64 sums like rounding errors; `None` for no perturbation.

        Raises:
            ExecutionError: A stage has an out-of-bounds index, or several points write one element.
        """
        arrays: dict[SSAValue, Array] = dict(zip(self._arguments, operands, strict=True))
        arrays |= {local: undefined(local) for local in self._locals}
        with np.errstate(all="ignore"):
            for stage in self._stages:
                stage.run(arrays, perturb)
            if self._attention is not None:
                run_attention(self._attention, arrays)
            if self._collective is not None:
                run_collective(self._collective, arrays)
            if self._counting_sort is not None:
                run_counting_sort(self._counting_sort, arrays)
