"""The derivative of sorting, which permutes by the sorted positions."""

from __future__ import annotations

from tensorgrad.dialects.tg import sort
from tensorgrad.passes.tensors.grad.registry import no_rule

no_rule("its result is integer", sort.ArgsortOp)
