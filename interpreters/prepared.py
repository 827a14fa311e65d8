"""Interprets a `buf.kernel` with NumPy on any arrays, and a copy of it with all floats widened to f64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType, f16, f32, f64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tensorgrad.dialects import buf
from tensorgrad.interpreters.attention import run_attention
from tensorgrad.interpreters.collectives import run_collective
from tensorgrad.interpreters.control import Storage
from tensorgrad.interpreters.scalars import Array
from tensorgrad.interpreters.stages import Stage

POISON = np.uint32(0x7FFE7FFD)
"""NaN as f16, f32 or f64, a large integer, and true as a bool."""


def poison(target: Array) -> None:
    """Fills an array's bytes with the poison pattern."""
    whole = target.size // 4 * 4
    target[:whole].view(np.uint32)[...] = POISON
    target[whole:] = np.frombuffer(POISON.tobytes(), np.uint8)[: target.size - whole]


class PreparedKernel:
    """A kernel whose stages have been checked.

    Raises:
        ExecutionError: A stage contains an unsupported op, type or reduction.
    """

    def __init__(self, op: buf.KernelOp):
        self._arguments: Sequence[SSAValue] = op.body.block.args
        self._stages = [Stage(stage) for stage in op.stages]
        self._locals = [Storage.of(x.memref) for x in op.locals if not buf.is_shape_only(x.memref)]
        self._attention = op.attention
        self._collective = op.collective

    def run(self, operands: Sequence[Array], seed: int | None = None) -> None:
        """Runs the kernel.

        Args:
            operands: Arrays of the operands' shapes; outputs are written in place. Bools are words.
            seed: The seed for perturbing f64 sums like rounding errors; None for none.

        Raises:
            ExecutionError: A stage has an out-of-bounds index, or several points write one element.
        """
        arrays: dict[SSAValue, Array] = dict(zip(self._arguments, operands, strict=True))
        for place in self._locals:
            raw = np.empty(place.end - place.start, np.uint8)
            poison(raw)
            arrays[place.arena] = raw.view(place.dtype).reshape(place.shape)
        with np.errstate(all="ignore"):
            for stage in self._stages:
                stage.run(arrays, seed)
            if self._attention is not None:
                run_attention(self._attention, arrays)
            if self._collective is not None:
                run_collective(self._collective, arrays)


def widened_kernel(op: buf.KernelOp) -> buf.KernelOp:
    """Returns a copy of a kernel with all floats widened to f64; bitcasts still see the narrow ones.

    It has no operands, only the arguments of its body.
    """
    made = buf.KernelOp.create(properties=dict(op.properties), regions=[op.body.clone()])
    for inner, given in [(one, one.input.type) for one in made.body.walk() if isinstance(one, arith.BitcastOp)]:
        _keep_width(inner, given)
    kept = {value for inner in made.body.walk() for value in _narrow_values(inner)}
    for inner in made.walk():
        arguments = [argument for region in inner.regions for block in region.blocks for argument in block.args]
        for value in (*inner.results, *arguments):
            kind = _widened(value.type)
            if kind != value.type and value not in kept:
                Rewriter.replace_value_with_new_type(value, kind)
    return made


def _keep_width(op: arith.BitcastOp, given: Attribute) -> None:
    """Inserts the conversions that a bitcast needs between widened floats."""
    rewriter = Rewriter()
    if given in (f16, f32):
        rounded = arith.TruncFOp(op.input, cast(Any, given))
        rewriter.insert_op(rounded, InsertPoint.before(op))
        op.operands = [rounded.result]
    if op.result.type in (f16, f32):
        wide = arith.ExtFOp(op.result, f64)
        op.result.replace_all_uses_with(wide.result)
        wide.operands = [op.result]
        rewriter.insert_op(wide, InsertPoint.after(op))


def _narrow_values(op: Operation) -> list[SSAValue]:
    """Returns the operands and results of a bitcast, which are not widened."""
    return [*op.operands, *op.results] if isinstance(op, arith.BitcastOp) else []


def _widened(kind: Attribute) -> Attribute:
    if kind in (f16, f32):
        return f64
    if isinstance(kind, MemRefType) and kind.element_type in (f16, f32):
        return buf.buffer_type(kind.get_shape(), f64)
    return kind
