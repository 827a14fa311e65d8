"""The derivatives of the ops behind random numbers."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from tensorgrad.dialects.tg import random, unary
from tensorgrad.dialects.tg.build import TensorBuilder
from tensorgrad.passes.tensors.grad.rules import NO_DERIVATIVE, Cotangents, rule

NO_DERIVATIVE[random.ThreefryOp] = "bits have no derivative"


@rule(random.ErfinvOp)
def _erfinv(b: TensorBuilder, op: random.ErfinvOp, g: SSAValue) -> Cotangents:
    growth = b.unary(unary.ExpOp, b.mul(op.result, op.result))
    return [b.mul(g, b.scale(growth, math.sqrt(math.pi) / 2))]
