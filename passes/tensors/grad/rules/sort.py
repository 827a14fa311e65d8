"""Sorting: the derivative goes through the positions that it gives."""

from __future__ import annotations

from tensorgrad.dialects.tg import sort
from tensorgrad.passes.tensors.grad.registry import no_rule

no_rule("its result is integer", sort.ArgsortOp)
