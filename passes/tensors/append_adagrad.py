"""The pass `append-adagrad`."""

from __future__ import annotations

from dataclasses import dataclass

from tensorgrad.dialects.tg.unary import SqrtOp
from tensorgrad.passes.tensors.optimizer import OptimizerPass, Rule, Step, Update


@dataclass(frozen=True)
class AppendAdagradPass(OptimizerPass):
    """Replaces a function's gradients by updates of its parameters: Adagrad, as in PyTorch.

    Expects a function whose results of role `gradient` bear the names of arguments of role `parameter`, such as `grad`
    leaves behind. Guarantees: the other results stay, in front; behind them comes a result of role `update` for each
    parameter and for its state `adagrad.sum/<parameter>`. The step size is a scalar argument that the host computes.
    `OptimizerPass` has further options.

    Attributes:
        lr_decay: How fast the learning rate falls: it is divided by `1 + lr_decay` times the steps before.
        initial_accumulator_value: What the sum of the squares of the gradients starts from.
        eps: Added to the root of that sum.
    """

    name = "append-adagrad"

    lr_decay: float = 0.0
    initial_accumulator_value: float = 0.0
    eps: float = 1e-10

    def rule(self) -> Rule:
        self.check("lr_decay", "initial_accumulator_value", "eps")
        divisor = " / (1 + (step - 1) * lr_decay)" if self.uses("lr_decay") else ""
        numbers = {
            "adagrad.step_size": f"learning_rate{divisor}",
            "adagrad.eps": "eps",
            "adagrad.weight_decay": "weight_decay",
        }
        if self.uses("initial_accumulator_value"):
            # State starts from zero, so the first step adds what the sum starts from.
            numbers["adagrad.initial"] = "initial_accumulator_value if step == 1 else 0.0"
        return Rule(("adagrad.sum",), numbers, self._write, ("adagrad.weight_decay",))

    def _write(self, update: Update) -> Step:
        b, gradient, (total,) = update.builder, update.decayed_gradient("adagrad.weight_decay"), update.state
        if self.uses("initial_accumulator_value"):
            total = b.add(total, update.full("adagrad.initial"))
        total = b.add(total, b.mul(gradient, gradient))
        root = b.unary(SqrtOp, total)
        step = b.div(gradient, b.add(root, update.full("adagrad.eps")))
        return Step(update.parameter, update.scaled(step, "adagrad.step_size"), [total])
