"""The pass `append-muon`."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass

from xdsl.ir import SSAValue
from xdsl.utils.arg_spec import parse_spec
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException

from tensorgrad.dialects.tg.binary import MaximumOp
from tensorgrad.dialects.tg.build import TensorBuilder, shape_of
from tensorgrad.dialects.tg.unary import SqrtOp
from tensorgrad.passes.pipelines import read_pass
from tensorgrad.passes.registry import PASSES
from tensorgrad.passes.tensors.optimizer import OptimizerPass, Rule, Step, Update

ADJUSTMENTS = ("original", "match_rms_adamw")
MOST_STEPS = 100


@dataclass(frozen=True)
class AppendMuonPass(OptimizerPass):
    """Replaces a function's gradients by updates of its parameters: Muon (Jordan et al., 2024), as in PyTorch.

    Expects a function whose results of role `gradient` bear the names of arguments of role `parameter`, such as `grad`
    leaves behind. Guarantees: the other results stay, in front; behind them comes a result of role `update` for each
    parameter and for its state `muon.m/<parameter>`. A matrix moves along its momentum, which a Newton-Schulz iteration
    has brought near to an orthogonal one; decay shrinks the parameter. All matrices of one shape go through the
    iteration as one batch, so that kernels grow with the number of shapes. Other parameters are updated by another
    optimizer. `OptimizerPass` has further options, of which clipping and links are for all gradients together.

    Attributes:
        momentum: How much of the mean of the gradients stays at each step.
        nesterov: Whether to look ahead by the momentum.
        eps: The least norm that a matrix is divided by.
        coefficients: Those of the iteration's polynomial, of `x`, of `x ** 3` and of `x ** 5`.
        steps: How often the iteration runs; less than 100.
        adjust: What the rate is scaled by for a matrix of shape `[in, out]`: `original` is the root of `out / in`,
            where that is above 1, `match_rms_adamw` 0.2 times the root of the larger extent.
        only: The matrices that are updated so; absent for all.
        others: The pass that updates the rest, as a pass is written or as an object.
    """

    name = "append-muon"

    momentum: float = 0.95
    nesterov: bool = True
    eps: float = 1e-7
    coefficients: tuple[float, ...] = (3.4445, -4.775, 2.0315)
    steps: int = 5
    adjust: str = "original"
    only: tuple[str, ...] | None = None
    others: OptimizerPass | str | None = None

    def rule(self) -> Rule:
        self.check("momentum", "eps")
        if len(self.coefficients) != 3:
            raise DiagnosticException(f"{self.name}: coefficients must be three, got {len(self.coefficients)}")
        if not 0 <= self.steps < MOST_STEPS:
            raise DiagnosticException(f"{self.name}: steps must be from 0 to below {MOST_STEPS}, got {self.steps}")
        if self.adjust not in ADJUSTMENTS:
            raise DiagnosticException(f"{self.name}: adjust must be {' or '.join(ADJUSTMENTS)}, got {self.adjust!r}")
        numbers = {
            "muon.step_size": "learning_rate",
            "muon.kept": "1 - learning_rate * weight_decay",
            "muon.mean_kept": "momentum",
            "muon.mean_new": "1 - momentum",
            "muon.eps": "eps",
        }
        return Rule(("muon.m",), numbers, self._write, ("muon.kept",), alike=_of_shape, in_rows=True)

    def each_optimizer(self) -> list[OptimizerPass]:
        if self.others is None:
            return [self]
        rest = self.others if isinstance(self.others, OptimizerPass) else self._read(self.others)
        if isinstance(rest, AppendMuonPass) or rest.before is not None or rest.clip_norm is not None:
            raise DiagnosticException(
                f"{self.name}: others must be another optimizer, without links or clipping: these are for all gradients"
            )
        return [self, rest]

    def _read(self, text: str) -> OptimizerPass:
        try:
            found = read_pass(parse_spec(text), PASSES)
        except (ValueError, ArgSpecParseError) as error:
            raise DiagnosticException(f"{self.name}: others: {error}") from error
        if not isinstance(found, OptimizerPass):
            raise DiagnosticException(f"{self.name}: others must be the pass of an optimizer, got {text!r}")
        return found

    def takes(self, name: str, shape: tuple[int, ...]) -> bool:
        return len(shape) == 2 and (self.only is None or name in self.only)

    def refusal(self, name: str, shape: tuple[int, ...]) -> str:
        what = "no matrix" if len(shape) != 2 else "none of those it is to update"
        return f"it does not take {name!r} of shape {list(shape)}, {what}; give others=, an optimizer for the rest"

    def _write(self, update: Update) -> Step:
        b, gradient = update.builder, update.gradient
        mean = update.running_mean(update.state[0], gradient, "muon.mean_kept", "muon.mean_new")
        ahead = update.running_mean(mean, gradient, "muon.mean_kept", "muon.mean_new") if self.nesterov else mean
        matrices = update.stacked(ahead)
        rows, columns = update.extents
        if rows > columns:
            matrices = b.transpose(matrices, [0, 2, 1])
        matrices = self._orthogonalized(update, matrices)
        if rows > columns:
            matrices = b.transpose(matrices, [0, 2, 1])
        wide = math.sqrt(max(1.0, columns / rows))
        ratio = wide if self.adjust == "original" else 0.2 * math.sqrt(max(rows, columns))
        step = update.unstacked(b.scale(matrices, ratio))
        parameter = update.scaled(update.parameter, "muon.kept") if update.decays else update.parameter
        return Step(parameter, update.scaled(step, "muon.step_size"), [mean])

    def _orthogonalized(self, update: Update, x: SSAValue) -> SSAValue:
        """A stack of wide matrices, each brought near to one with singular values of 1."""
        b, (first, second, third) = update.builder, self.coefficients
        norms = b.unary(SqrtOp, b.sum(b.sum(b.mul(x, x), [2]), [1]))  # row by row side by side at first
        x = b.div(x, b.broadcast(b.binary(MaximumOp, norms, update.number("muon.eps", norms)), shape_of(x), [0]))
        for _ in range(self.steps):
            gram = _product(b, x, x, transposed=True)
            inner = b.add(b.scale(gram, second), b.scale(_product(b, gram, gram), third))
            x = b.add(b.scale(x, first), _product(b, inner, x))
        return x


def _of_shape(name: str, shape: tuple[int, ...]) -> Hashable:
    """Matrices of one shape are a batch."""
    return shape


def _product(b: TensorBuilder, x: SSAValue, y: SSAValue, transposed: bool = False) -> SSAValue:
    """The products of two stacks of matrices, the second of which may be transposed."""
    return b.dot_general(x, y, ([0], [0]), ([2], [2 if transposed else 1]))
