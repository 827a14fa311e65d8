"""The pass `append-adam`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from tensorgrad.dialects.tg.unary import SqrtOp
from tensorgrad.passes.optimizer import OptimizerPass, Rule, Update


@dataclass(frozen=True)
class AppendAdamPass(OptimizerPass):
    """Replaces a function's gradients by updates of its parameters: Adam, as in PyTorch.

    Expects a function whose results of role `gradient` bear the names of arguments of role `parameter`, such as `grad`
    leaves behind. Guarantees: the other results stay, in front; behind them comes a result of role `update` for each
    parameter and for its state `adam.m/<parameter>` and `adam.v/<parameter>`. Step size and bias corrections are scalar
    arguments that the host computes from `learning_rate` and `step` in float64, so that powers of the betas are exact
    and another rate needs no other program. `OptimizerPass` has further options.

    Attributes:
        beta1: How much of the mean of the gradients stays at each step.
        beta2: How much of the mean of their squares stays.
        eps: Added to the root of that mean, after its bias correction.
    """

    name = "append-adam"

    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8

    def rule(self) -> Rule:
        self.check("beta1", "beta2", below=1)
        self.check("eps")
        scalars = {
            "adam.step_size": f"learning_rate / (1 - {self.beta1!r} ** step)",
            "adam.root_correction": f"sqrt(1 - {self.beta2!r} ** step)",
        }
        return Rule(("adam.m", "adam.v"), scalars, self._write)

    def _write(self, update: Update) -> list[SSAValue]:
        return self.moved(update, update.parameter, update.decayed_gradient())

    def moved(self, update: Update, parameter: SSAValue, gradient: SSAValue) -> list[SSAValue]:
        """The parameter and its state after a step along a gradient."""
        b, (mean, square) = update.builder, update.state
        mean = b.add(mean, b.scale(b.sub(gradient, mean), 1 - self.beta1))
        square = b.add(b.scale(square, self.beta2), b.scale(b.mul(gradient, gradient), 1 - self.beta2))
        root = b.div(b.unary(SqrtOp, square), update.scalar("adam.root_correction"))
        step = b.mul(update.scalar("adam.step_size"), b.div(mean, b.add(root, b.full_like(root, self.eps))))
        return [b.sub(parameter, step), mean, square]
