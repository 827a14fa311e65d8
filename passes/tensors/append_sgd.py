"""The pass `append-sgd`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.ir import SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.passes.tensors.optimizer import OptimizerPass, Rule, Step, Update


@dataclass(frozen=True)
class AppendSgdPass(OptimizerPass):
    """Replaces a function's gradients by updates of its parameters: stochastic gradient descent, as in PyTorch.

    Expects a function whose results of role `gradient` bear the names of arguments of role `parameter`, such as `grad`
    leaves behind. Guarantees: the other results stay, in front; behind them comes a result of role `update` for each
    parameter, and with momentum for each state `sgd.momentum/<parameter>`. The step size is a scalar argument that the
    host computes from `learning_rate`, so another rate needs no other program. `OptimizerPass` has further options.

    Attributes:
        momentum: The factor of the running sum of gradients; 0 keeps none.
        dampening: How much of each gradient after the first is left out of that sum.
        nesterov: Whether to look ahead by the momentum. Needs momentum, and no dampening.
    """

    name = "append-sgd"

    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False

    def rule(self) -> Rule:
        self.check("momentum")
        self.check("dampening", below=math.nextafter(1, 2))
        if self.nesterov and (not self.momentum or self.uses("dampening")):
            raise DiagnosticException(f"{self.name}: nesterov needs a momentum, and no dampening")
        states = ("sgd.momentum",) if self.uses("momentum") else ()
        numbers = {"sgd.step_size": "learning_rate", "sgd.momentum": "momentum", "sgd.weight_decay": "weight_decay"}
        if states and self.uses("dampening"):
            # The first gradient starts the running sum whole.
            numbers["sgd.gradient_scale"] = "1.0 if step == 1 else 1 - dampening"
        return Rule(states, numbers, self._write, ("sgd.weight_decay",))

    def _write(self, update: Update) -> Step:
        b, gradient = update.builder, update.decayed_gradient("sgd.weight_decay")
        state: list[SSAValue] = []
        if update.state:
            added = update.scaled(gradient, "sgd.gradient_scale") if self.uses("dampening") else gradient
            velocity = b.add(update.scaled(update.state[0], "sgd.momentum"), added)
            state = [velocity]
            gradient = b.add(gradient, update.scaled(velocity, "sgd.momentum")) if self.nesterov else velocity
        return Step(update.parameter, update.scaled(gradient, "sgd.step_size"), state)
