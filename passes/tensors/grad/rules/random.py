"""The derivatives of the ops behind random numbers."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from tensorgrad.dialects.tg import random
from tensorgrad.dialects.tg.build import TensorBuilder
from tensorgrad.dialects.tg.elementwise import functions
from tensorgrad.passes.tensors.grad.registry import Cotangents, no_rule, rule

no_rule("bits have no derivative", random.ThreefryOp)


@rule(random.ErfinvOp)
def _erfinv(b: TensorBuilder, op: random.ErfinvOp, g: SSAValue) -> Cotangents:
    growth = b.unary(functions.ExpOp, b.mul(op.result, op.result))
    return [b.mul(g, b.scale(growth, math.sqrt(math.pi) / 2))]
