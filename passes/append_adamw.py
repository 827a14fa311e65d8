"""The pass `append-adamw`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from xdsl.ir import SSAValue

from tensorgrad.passes.append_adam import AppendAdamPass
from tensorgrad.passes.optimizer import Rule, Update


@dataclass(frozen=True)
class AppendAdamWPass(AppendAdamPass):
    """Replaces a function's gradients by updates of its parameters: Adam with decoupled weight decay, as in PyTorch.

    Like `append-adam`, down to the names of its state, but that decay shrinks the parameter, by
    `learning_rate * weight_decay` of it, and stays out of the gradient. What is kept is a scalar of the host's.
    """

    name = "append-adamw"

    _: KW_ONLY
    weight_decay: float = 1e-2

    def rule(self) -> Rule:
        base = super().rule()
        kept = {"adam.kept": f"1 - learning_rate * {self.weight_decay!r}"} if self.weight_decay else {}
        return Rule(base.states, {**base.scalars, **kept}, self._shrink)

    def _shrink(self, update: Update) -> list[SSAValue]:
        parameter = update.parameter
        if update.weight_decay:
            parameter = update.builder.mul(parameter, update.scalar("adam.kept"))
        return self.moved(update, parameter, update.gradient)
