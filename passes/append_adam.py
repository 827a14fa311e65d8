"""The pass `append-adam`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from tensorgrad.dialects.tg.unary import SqrtOp
from tensorgrad.passes.optimizer import Rule, Update, append_updates, check_option


@dataclass(frozen=True)
class AppendAdamPass(ModulePass):
    """Replaces a function's gradients by updates of its parameters: Adam, as in PyTorch.

    Expects a function whose results of role `gradient` bear the names of arguments of role `parameter`, such as `grad`
    leaves behind. Guarantees: the other results stay, in front; behind them comes a result of role `update` for each
    parameter and for its state `adam.m/<parameter>` and `adam.v/<parameter>`. Step size and bias corrections are scalar
    arguments that the host computes from `learning_rate` and `step` in float64, so that powers of the betas are exact
    and another rate needs no other program.

    Attributes:
        function: The function; may be absent where there is only one.
        beta1: How much of the mean of the gradients stays at each step.
        beta2: How much of the mean of their squares stays.
        eps: Added to the root of that mean, after its bias correction.
        weight_decay: The factor of the parameter that is added to its gradient.
    """

    name = "append-adam"

    function: str | None = None
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for option in ("beta1", "beta2"):
            check_option(self.name, option, getattr(self, option), below=1)
        for option in ("eps", "weight_decay"):
            check_option(self.name, option, getattr(self, option))
        scalars = {
            "adam.step_size": f"learning_rate / (1 - {self.beta1!r} ** step)",
            "adam.root_correction": f"sqrt(1 - {self.beta2!r} ** step)",
        }
        append_updates(op, self.function, self.name, Rule(("adam.m", "adam.v"), scalars, self._write))

    def _write(self, update: Update) -> list[SSAValue]:
        b, gradient, (mean, square) = update.builder, update.gradient, update.state
        if self.weight_decay:
            gradient = b.add(gradient, b.scale(update.parameter, self.weight_decay))
        mean = b.add(mean, b.scale(b.sub(gradient, mean), 1 - self.beta1))
        square = b.add(b.scale(square, self.beta2), b.scale(b.mul(gradient, gradient), 1 - self.beta2))
        root = b.div(b.unary(SqrtOp, square), update.scalar("adam.root_correction"))
        step = b.mul(update.scalar("adam.step_size"), b.div(mean, b.add(root, b.full_like(root, self.eps))))
        return [b.sub(update.parameter, step), mean, square]
