"""The derivative rules of ops by class, or the reason for having none; the modules of `rules` fill it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar, cast

from xdsl.ir import SSAValue

from tensorgrad.dialects.tg.base import TensorOp
from tensorgrad.dialects.tg.build import TensorBuilder

Cotangents: TypeAlias = Sequence[SSAValue | None]
OpT = TypeVar("OpT", bound=TensorOp)
Rule: TypeAlias = Callable[[TensorBuilder, OpT, SSAValue], Cotangents]

RULES: dict[type[TensorOp], Callable[[TensorBuilder, TensorOp, SSAValue], Cotangents]] = {}

NO_DERIVATIVE: dict[type[TensorOp], str] = {}
"""The ops without a rule, each with its reason."""


def rule(*kinds: type[OpT]) -> Callable[[Rule[OpT]], Rule[OpT]]:
    """Registers the derivative of ops."""

    def register(function: Rule[OpT]) -> Rule[OpT]:
        for kind in kinds:
            RULES[kind] = cast("Callable[[TensorBuilder, TensorOp, SSAValue], Cotangents]", function)
        return function

    return register


def no_rule(reason: str, *kinds: type[TensorOp]) -> None:
    """Registers the reason why ops have no derivative."""
    NO_DERIVATIVE.update(dict.fromkeys(kinds, reason))
