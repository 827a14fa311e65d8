"""The pass `append-lion`."""

from __future__ import annotations

from dataclasses import dataclass

from tensorgrad.passes.tensors.optimizer import OptimizerPass, Rule, Step, Update


@dataclass(frozen=True)
class AppendLionPass(OptimizerPass):
    """Replaces a function's gradients by updates of its parameters: Lion (Chen et al., 2023).

    Expects a function whose results of role `gradient` bear the names of arguments of role `parameter`, such as `grad`
    leaves behind. Guarantees: the other results stay, in front; behind them comes a result of role `update` for each
    parameter and for its state `lion.m/<parameter>`. Step size and decay, which shrinks the parameter and stays out of
    the gradient, are scalar arguments that the host computes. `OptimizerPass` has further options.

    Attributes:
        beta1: How much of the mean of the gradients goes into the direction of the step.
        beta2: How much of that mean stays at each step.
    """

    name = "append-lion"

    beta1: float = 0.9
    beta2: float = 0.99

    def rule(self) -> Rule:
        self.check("beta1", "beta2", below=1)
        numbers = {
            "lion.step_size": "learning_rate",
            "lion.kept": "1 - learning_rate * weight_decay",
            "lion.blend_mean": "beta1",
            "lion.blend_gradient": "1 - beta1",
            "lion.mean_kept": "beta2",
            "lion.mean_new": "1 - beta2",
        }
        return Rule(("lion.m",), numbers, self._write, ("lion.kept",))

    def _write(self, update: Update) -> Step:
        b, parameter, (mean,) = update.builder, update.parameter, update.state
        if update.decays:
            parameter = update.scaled(parameter, "lion.kept")
        blend = update.running_mean(mean, update.gradient, "lion.blend_mean", "lion.blend_gradient")
        step, zero = update.full("lion.step_size"), b.full_like(blend, 0.0)
        # Zero stays zero, and NaN NaN.
        down = b.select(b.compare("lt", blend, zero), b.neg(step), b.mul(step, blend))
        moved = b.select(b.compare("gt", blend, zero), step, down)
        return Step(parameter, moved, [update.running_mean(mean, update.gradient, "lion.mean_kept", "lion.mean_new")])
