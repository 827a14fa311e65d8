"""The pass `append-rmsprop`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from tensorgrad.dialects.tg.unary import SqrtOp
from tensorgrad.passes.optimizer import OptimizerPass, Rule, Update


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
        kept = {"v": True, "m": self.centered, "momentum": self.momentum > 0}
        states = tuple(f"rmsprop.{name}" for name, wanted in kept.items() if wanted)
        return Rule(states, {"rmsprop.step_size": "learning_rate"}, self._write)

    def _write(self, update: Update) -> list[SSAValue]:
        b, gradient, (square, *others) = update.builder, update.decayed_gradient(), update.state
        square = variance = update.running_mean(square, b.mul(gradient, gradient), self.alpha)
        state = [square]
        if self.centered:
            mean = b.add(others[0], b.scale(b.sub(gradient, others[0]), 1 - self.alpha))
            state.append(mean)
            variance = b.sub(square, b.mul(mean, mean))
            zero = b.full_like(variance, 0.0)
            # Rounding may put the square of the mean above the mean of the squares.
            variance = b.select(b.compare("lt", variance, zero), zero, variance)
        root = b.unary(SqrtOp, variance)
        step = b.div(gradient, b.add(root, b.full_like(root, self.eps)))
        if self.momentum:
            step = b.add(b.scale(others[-1], self.momentum), step)
            state.append(step)
        return [b.sub(update.parameter, b.mul(step, update.scalar("rmsprop.step_size"))), *state]
