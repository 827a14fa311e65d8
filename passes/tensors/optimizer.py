"""What the optimizer passes share: their options, and which formulas these come to."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass, fields

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.passes.levels import TENSORS, LevelPass
from tensorgrad.passes.tensors.optimizer_groups import RATE, Group, read_groups
from tensorgrad.passes.tensors.optimizer_links import ClipByGlobalNormLink, Stage, read_stages
from tensorgrad.passes.tensors.optimizer_rules import Rule, Step, Update, check_option
from tensorgrad.passes.tensors.optimizer_updates import append_updates
from tensorgrad.runtime.errors import FormulaError
from tensorgrad.runtime.formula import Formula

__all__ = ["OptimizerPass", "Rule", "Step", "Update"]

CLIP_NORM = "clip_norm"
"""The setting that is a link of its own."""


@dataclass(frozen=True)
class ClipNormOption(ClipByGlobalNormLink):
    """The option `clip_norm` as a link.

    Attributes:
        is_live: Whether the host gives it.
        host: How the name begins by which it does.
    """

    is_live: bool = False
    host: str = ""

    def term(self, setting: str) -> str:
        return self.host + CLIP_NORM if self.is_live else super().term(setting)


@dataclass(frozen=True)
class OptimizerPass(LevelPass, ABC):
    """A pass that replaces a function's gradients by updates of its parameters.

    Where the norm of all gradients counts, such as where they are clipped, all of them are needed before any parameter
    changes. Then gradients, parameters and state are packed, each as rows in which one kernel works on all parameters
    that are updated alike, and those parameters come one behind another among the function's arguments. Else, and in
    functions with loops or branches, each parameter has an update of its own, which can run in the kernel that computes
    its gradient.

    Attributes:
        function: The function; may be absent where there is only one.
        learning_rate: A formula that stands for the learning rate, in terms of `step` and `learning_rate`.
        clip_norm: The norm of all gradients together above which they are scaled down to it; absent for never.
        weight_decay: The factor of the decay, which is added to the gradient unless the optimizer says otherwise.
        decay: The parameters that decay; absent for all.
        row_bytes: The most bytes of parameters, gradients or state that one kernel binds as one row: the target's
            limits on bindings and buffers.
        live: The settings that the host gives at each step, by their names; others are constants of the program.
        groups: JSON: parameters that have settings of their own; see `read_groups`.
        host: How the names begin by which the host gives settings, and those of the scalars that it computes.
        parameters: The parameters to update, where other passes update the others; absent for all that have gradients.
        before: What becomes of gradients before the optimizer takes them, link by link, as passes are written:
            `clip{max-delta=1.0},ema{decay=0.9}`. The links are those of `optimizer_links`.
    """

    levels = TENSORS

    function: str | None = None
    _: KW_ONLY
    learning_rate: str = "learning_rate"
    clip_norm: float | None = None
    weight_decay: float = 0.0
    decay: tuple[str, ...] | None = None
    row_bytes: int = 1 << 27
    live: tuple[str, ...] = ()
    groups: str | None = None
    before: str | None = None
    host: str = ""
    parameters: tuple[str, ...] | None = None

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        stages = self.stages()
        for one in self.each_optimizer():
            one.check_common()
        append_updates(op, self, stages)

    def check_common(self) -> None:
        """Requires what all optimizers have to be in range.

        Raises:
            DiagnosticException: Something is not.
        """
        unknown = {*self.live} - {*self.settings(), CLIP_NORM}
        if unknown:
            raise DiagnosticException(f"{self.name}: there is no setting {min(unknown)!r} for the host to give")
        self.check("weight_decay")
        try:
            unknown = Formula(self.learning_rate).names - {"step", "learning_rate"}
        except FormulaError as error:
            raise DiagnosticException(f"{self.name}: learning_rate: {error}") from error
        if unknown:
            raise DiagnosticException(
                f"{self.name}: learning_rate is computed from step and learning_rate, not {', '.join(sorted(unknown))}"
            )

    def stages(self) -> list[Stage]:
        """What becomes of gradients before the optimizer takes them; clipping comes last.

        Raises:
            DiagnosticException: There is no such link, or a setting is out of range.
        """
        stages = read_stages(self.before, self.name)
        if self.clip_norm is None:
            return stages
        if not 0 < self.clip_norm < math.inf:
            raise DiagnosticException(f"{self.name}: clip_norm must be more than 0 and finite, got {self.clip_norm}")
        clip = ClipNormOption(max_norm=self.clip_norm, is_live=CLIP_NORM in self.live, host=self.host)
        return [*stages, Stage.of(clip, CLIP_NORM)]

    def each_optimizer(self) -> list[OptimizerPass]:
        """This, and what updates the parameters that it does not take."""
        return [self]

    def takes(self, name: str, shape: tuple[int, ...]) -> bool:
        """Whether it updates a parameter."""
        return True

    def refusal(self, name: str, shape: tuple[int, ...]) -> str:
        """Why it does not take a parameter that nothing else takes either."""
        return f"no optimizer takes {name!r} of shape {list(shape)}"

    @abstractmethod
    def rule(self) -> Rule:
        """What the optimizer does.

        Raises:
            DiagnosticException: An option is out of range.
        """

    def settings(self) -> dict[str, float]:
        """The options that groups may have of their own, and that the host may give."""
        fixed = {"row_bytes", CLIP_NORM}
        values = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in fixed}
        return {name: value for name, value in values.items() if isinstance(value, float)}

    def each_group(self) -> list[Group]:
        """The groups, of which the first has all parameters that are in no other.

        Raises:
            DiagnosticException: `groups` is no such JSON.
        """
        own = Group(names={name: name for name in self.live})
        return [own, *read_groups(self.groups, self.settings(), self.name)]

    def uses(self, setting: str) -> bool:
        """Whether a setting is other than zero for any parameter."""
        return any(group.values.get(setting, getattr(self, setting)) for group in self.each_group())

    def check(self, *options: str, below: float = math.inf) -> None:
        """Requires options to be numbers from 0 to just under `below`, in every group.

        Raises:
            DiagnosticException: One is not; names it.
        """
        for option in options:
            for group in self.each_group():
                check_option(self.name, option, group.values.get(option, getattr(self, option)), below=below)

    def terms(self, group: Group) -> dict[str, str]:
        """What stands for each setting in the formulas of a group."""
        values = {**self.settings(), **group.values}
        names = {name: name for name in self.live if name not in group.values} | {**group.names}
        terms = {
            name: self.host + names[name] if name in names else repr(float(value)) for name, value in values.items()
        }
        rate = terms.get(RATE, self.host + RATE)
        if self.learning_rate == RATE:
            return {**terms, RATE: rate}
        scheduled = re.sub(rf"\b{RATE}\b", lambda _: rate, self.learning_rate)
        return {**terms, RATE: f"({scheduled})"}
