"""The pass `append-rmsprop`."""

from __future__ import annotations

from dataclasses import dataclass

from tensorgrad.dialects.tg.unary import SqrtOp
from tensorgrad.passes.tensors.optimizer import OptimizerPass, Rule, Step, Update


@dataclass(frozen=True)
class AppendRmspropPass(OptimizerPass):
    """Replaces a function's gradients by updates of its parameters: RMSprop, as in PyTorch.

    Expects a function whose results of role `gradient` bear the names of arguments of role `parameter`, such as `grad`
    leaves behind. Guarantees: the other results stay, in front; behind them comes a result of role `update` for each
    parameter and for its state: `rmsprop.v/<parameter>`, `rmsprop.m/<parameter>` if centered, and with momentum
    `rmsprop.momentum/<parameter>`. The step size is a scalar argument that the host computes. `OptimizerPass` has
    further options.

    Attributes:
        alpha: How much of the mean of the squares of the gradients stays at each step.
        eps: Added to the root of that mean.
        momentum: The factor of the running sum of updates; 0 keeps none.
        centered: Whether to divide by the deviation from the mean of the gradients.
    """

    name = "append-rmsprop"

    alpha: float = 0.99
    eps: float = 1e-8
    momentum: float = 0.0
    centered: bool = False

    def rule(self) -> Rule:
        self.check("alpha", below=1)
        self.check("eps", "momentum")
        kept = {"v": True, "m": self.centered, "momentum": self.uses("momentum")}
        states = tuple(f"rmsprop.{name}" for name, wanted in kept.items() if wanted)
        numbers = {
            "rmsprop.step_size": "learning_rate",
            "rmsprop.square_kept": "alpha",
            "rmsprop.new": "1 - alpha",
            "rmsprop.eps": "eps",
            "rmsprop.momentum": "momentum",
            "rmsprop.weight_decay": "weight_decay",
        }
        return Rule(states, numbers, self._write, ("rmsprop.weight_decay",))

    def _write(self, update: Update) -> Step:
        b, gradient = update.builder, update.decayed_gradient("rmsprop.weight_decay")
        square, *others = update.state
        square = variance = update.running_mean(square, b.mul(gradient, gradient), "rmsprop.square_kept", "rmsprop.new")
        state = [square]
        if self.centered:
            mean = b.add(others[0], update.scaled(b.sub(gradient, others[0]), "rmsprop.new"))
            state.append(mean)
            variance = b.sub(square, b.mul(mean, mean))
            zero = b.full_like(variance, 0.0)
            # Rounding may put the square of the mean above the mean of the squares.
            variance = b.select(b.compare("lt", variance, zero), zero, variance)
        root = b.unary(SqrtOp, variance)
        step = b.div(gradient, b.add(root, update.full("rmsprop.eps")))
        if self.uses("momentum"):
            step = b.add(update.scaled(others[-1], "rmsprop.momentum"), step)
            state.append(step)
        return Step(update.parameter, update.scaled(step, "rmsprop.step_size"), state)
