"""Leaves, which have no operands to differentiate by."""

from __future__ import annotations

from tensorgrad.dialects.tg import leaves
from tensorgrad.passes.tensors.grad.registry import no_rule

no_rule("it has no operands", leaves.ConstantOp, leaves.IotaOp)
