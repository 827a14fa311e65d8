"""The pass `append-adamw`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from tensorgrad.passes.tensors.append_adam import AppendAdamPass
from tensorgrad.passes.tensors.optimizer import Rule, Step, Update


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
        numbers = {name: formula for name, formula in base.coefficients.items() if name not in base.of_decay}
        numbers["adam.kept"] = "1 - learning_rate * weight_decay"
        return Rule(base.states, numbers, self._shrink, ("adam.kept",))

    def _shrink(self, update: Update) -> Step:
        parameter = update.parameter
        if update.decays:
            parameter = update.scaled(parameter, "adam.kept")
        return self.moved(update, parameter, update.gradient)
