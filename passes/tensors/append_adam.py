"""The pass `append-adam`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from tensorgrad.dialects.tg.unary import SqrtOp
from tensorgrad.passes.tensors.optimizer import OptimizerPass, Rule, Step, Update


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
        numbers = {
            "adam.step_size": "learning_rate / (1 - beta1 ** step)",
            "adam.root_correction": "sqrt(1 - beta2 ** step)",
            "adam.mean_new": "1 - beta1",
            "adam.square_kept": "beta2",
            "adam.square_new": "1 - beta2",
            "adam.eps": "eps",
            "adam.weight_decay": "weight_decay",
        }
        return Rule(("adam.m", "adam.v"), numbers, self._write, ("adam.weight_decay",))

    def _write(self, update: Update) -> Step:
        return self.moved(update, update.parameter, update.decayed_gradient("adam.weight_decay"))

    def moved(self, update: Update, parameter: SSAValue, gradient: SSAValue) -> Step:
        """The step along a gradient."""
        b, (mean, square) = update.builder, update.state
        mean = b.add(mean, update.scaled(b.sub(gradient, mean), "adam.mean_new"))
        kept = update.scaled(square, "adam.square_kept")
        square = b.add(kept, update.scaled(b.mul(gradient, gradient), "adam.square_new"))
        root = b.div(b.unary(SqrtOp, square), update.full("adam.root_correction"))
        step = b.mul(update.full("adam.step_size"), b.div(mean, b.add(root, update.full("adam.eps"))))
        return Step(parameter, step, [mean, square])
