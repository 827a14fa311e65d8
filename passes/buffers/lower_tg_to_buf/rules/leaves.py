"""Ops without operands: positions, which every kernel that reads them computes from its loop indices."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32

from tensorgrad.dialects.tg import leaves
from tensorgrad.dialects.tg.base import is_float
from tensorgrad.dialects.tg.build import element_of
from tensorgrad.passes.buffers.lower_tg_to_buf.kernels import KernelSpec, StageBody
from tensorgrad.passes.buffers.lower_tg_to_buf.registry import rule
from tensorgrad.passes.buffers.lower_tg_to_buf.scalars import storage
from tensorgrad.passes.buffers.lower_tg_to_buf.views import Lowered
from tensorgrad.passes.scalars import Value


@rule(leaves.IotaOp)
def _iota(op: leaves.IotaOp, operands: Sequence[Lowered]) -> KernelSpec:
    element = element_of(op.results[0])
    result = storage(element)
    axis = op.axis.value.data

    def compute(b: StageBody, args: Sequence[Value]) -> Value:
        position = b.loop(axis).cast(arith.IndexCastOp, i32 if is_float(element) else result)
        return position.cast(arith.UIToFPOp, element) if is_float(element) else position

    return KernelSpec(grid=op.shape, reads=(), result=result, compute=compute, location=op.location)
