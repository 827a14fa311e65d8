"""Links of a chain: what becomes of gradients before an optimizer takes them, in the manner of optax."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, ClassVar, cast

from xdsl.ir import SSAValue
from xdsl.utils.arg_spec import ArgSpec, ArgSpecConvertible, parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException

from tensorgrad.dialects.signature import Slot
from tensorgrad.dialects.tg.binary import MaximumOp, MinimumOp
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.dialects.tg.unary import SqrtOp
from tensorgrad.passes.pipelines import as_declared, read_pass
from tensorgrad.passes.registry import PASSES
from tensorgrad.passes.tensors.optimizer_groups import RATE, coefficients, substituted
from tensorgrad.passes.tensors.optimizer_rules import Rule, Update, sum_of_squares

if TYPE_CHECKING:
    from tensorgrad.passes.tensors.optimizer import OptimizerPass

NORM_OFFSET = 1e-6
"""What is added to the norm that gradients are divided by; PyTorch's."""


@dataclass(frozen=True)
class Link(ArgSpecConvertible, ABC):
    """What becomes of every gradient; computed from itself, its parameter and its state.

    Attributes:
        live: How the names begin of the numbers that the host gives at each step: `link1` for `link1_decay`. Absent
            where they are constants of the program.
    """

    live: str | None = field(default=None, kw_only=True)

    is_alone: ClassVar[bool] = False
    """Whether it needs each parameter on its own: in a row of several, each has its share of what is computed."""

    positive: ClassVar[tuple[str, ...]] = ()
    signed: ClassVar[tuple[str, ...]] = ()
    below: ClassVar[Mapping[str, float]] = {}

    def states(self) -> tuple[str, ...]:
        """What each parameter has of state, all of its shape and zero at first."""
        return ()

    @abstractmethod
    def formulas(self) -> Mapping[str, str]:
        """The formula of each number that it takes, in terms of `step`, 1 at first, and of what the host gives."""

    def concerns(self, parameter: str) -> bool:
        """Whether it does anything to the gradient of a parameter."""
        return True

    def term(self, setting: str) -> str:
        """What stands for a setting in formulas."""
        return repr(float(getattr(self, setting))) if self.live is None else f"{self.live}_{setting}"

    def check(self, where: str) -> None:
        """Requires settings to be in range.

        Raises:
            DiagnosticException: One is not; names it.
        """
        for one in fields(self):
            value = getattr(self, one.name)
            if not isinstance(value, float):
                continue
            below = self.below.get(one.name, math.inf)
            least = -math.inf if one.name in self.signed else 0.0
            if not least <= value < below or math.isinf(value) or (one.name in self.positive and not value):
                limit = (
                    "finite"
                    if one.name in self.signed
                    else "more than 0"
                    if one.name in self.positive
                    else "at least 0"
                )
                limit += "" if below == math.inf else f" and less than {below:g}"
                raise DiagnosticException(f"{where}: {one.name} must be {limit}, got {value}")


class PlainLink(Link, ABC):
    """A link that works on each element alone, or on each parameter; see `is_alone`."""

    @abstractmethod
    def write(self, update: Update) -> list[SSAValue]:
        """The next link's gradient, and the next values of the state."""


class NormLink(Link, ABC):
    """A link that scales all gradients by a number which depends on their norm together."""

    @abstractmethod
    def factor(self, b: TensorBuilder, norm: SSAValue, numbers: Mapping[str, float | SSAValue]) -> SSAValue:
        """The number."""


def _scalar(b: TensorBuilder, number: float | SSAValue, like: SSAValue) -> SSAValue:
    return number if isinstance(number, SSAValue) else b.full_like(like, number)


@dataclass(frozen=True)
class ClipByGlobalNormLink(NormLink):
    """Scales gradients down to a norm that they together may have; as `torch.nn.utils.clip_grad_norm_`.

    Attributes:
        max_norm: The norm.
    """

    name = "clip-by-global-norm"
    positive = ("max_norm",)

    max_norm: float

    def formulas(self) -> Mapping[str, str]:
        return {"": self.term("max_norm")}

    def factor(self, b: TensorBuilder, norm: SSAValue, numbers: Mapping[str, float | SSAValue]) -> SSAValue:
        """1 where the norm is below, NaN where it is NaN."""
        most = _scalar(b, numbers[""], norm)
        scale = b.div(most, b.add(norm, b.full_like(norm, NORM_OFFSET)))
        one = b.full_like(scale, 1.0)
        return b.select(b.compare("gt", scale, one), one, scale)


@dataclass(frozen=True)
class NormalizeLink(NormLink):
    """Scales gradients so that their norm together is `scale`, but for `eps`; as optax' `normalize_by_update_norm`.

    Attributes:
        scale: The norm.
        eps: Added to the norm that gradients are divided by.
    """

    name = "normalize"

    scale: float = 1.0
    eps: float = 1e-6

    def formulas(self) -> Mapping[str, str]:
        return {"scale": self.term("scale"), "eps": self.term("eps")}

    def factor(self, b: TensorBuilder, norm: SSAValue, numbers: Mapping[str, float | SSAValue]) -> SSAValue:
        return b.div(_scalar(b, numbers["scale"], norm), b.add(norm, _scalar(b, numbers["eps"], norm)))


@dataclass(frozen=True)
class NormalizePerParameterLink(PlainLink):
    """Scales each gradient so that its own norm is `scale`, but for `eps`.

    Attributes:
        scale: The norm.
        eps: Added to the norm that the gradient is divided by.
    """

    name = "normalize-per-parameter"
    is_alone = True

    scale: float = 1.0
    eps: float = 1e-6

    def formulas(self) -> Mapping[str, str]:
        return {"scale": self.term("scale"), "eps": self.term("eps")}

    def write(self, update: Update) -> list[SSAValue]:
        b, gradient = update.builder, update.gradient
        norm = b.unary(SqrtOp, sum_of_squares(b, gradient, element_of(gradient)))
        factor = b.div(update.number("scale", norm), b.add(norm, update.number("eps", norm)))
        return [b.mul(gradient, b.broadcast(factor, shape_of(gradient), []))]


@dataclass(frozen=True)
class ClipLink(PlainLink):
    """Brings each element into a range around 0.

    Attributes:
        max_delta: The largest magnitude.
    """

    name = "clip"
    positive = ("max_delta",)

    max_delta: float

    def formulas(self) -> Mapping[str, str]:
        return {"": self.term("max_delta")}

    def write(self, update: Update) -> list[SSAValue]:
        b, most = update.builder, update.full("")
        return [b.binary(MaximumOp, b.binary(MinimumOp, update.gradient, most), b.neg(most))]


@dataclass(frozen=True)
class AddDecayedWeightsLink(PlainLink):
    """Adds a part of the parameter.

    Attributes:
        weight_decay: How much of it.
        decay: The parameters; absent for all.
    """

    name = "add-decayed-weights"

    weight_decay: float
    decay: tuple[str, ...] | None = None

    def formulas(self) -> Mapping[str, str]:
        return {"": self.term("weight_decay")}

    def concerns(self, parameter: str) -> bool:
        return self.decay is None or parameter in self.decay

    def write(self, update: Update) -> list[SSAValue]:
        return [update.builder.add(update.gradient, update.scaled(update.parameter, ""))]


@dataclass(frozen=True)
class EmaLink(PlainLink):
    """Takes a running mean of the gradients.

    Attributes:
        decay: How much of the mean stays at each step.
        debias: Whether to divide it by what the weights of all gradients so far add up to.
    """

    name = "ema"
    below: ClassVar[Mapping[str, float]] = {"decay": 1.0}

    decay: float
    debias: bool = True

    def states(self) -> tuple[str, ...]:
        return ("mean",)

    def formulas(self) -> Mapping[str, str]:
        decay = self.term("decay")
        found = {"kept": decay, "new": f"1 - {decay}"}
        return {**found, "correction": f"1 / (1 - {decay} ** step)"} if self.debias else found

    def write(self, update: Update) -> list[SSAValue]:
        mean = update.running_mean(update.state[0], update.gradient, "kept", "new")
        return [update.scaled(mean, "correction") if self.debias else mean, mean]


@dataclass(frozen=True)
class ScaleLink(PlainLink):
    """Scales gradients.

    Attributes:
        factor: By how much.
        schedule: A formula of `step` that scales the factor; absent for none.
    """

    name = "scale"
    signed = ("factor",)

    factor: float = 1.0
    schedule: str | None = None

    def formulas(self) -> Mapping[str, str]:
        factor = self.term("factor")
        return {"": factor if self.schedule is None else f"{factor} * ({self.schedule})"}

    def write(self, update: Update) -> list[SSAValue]:
        return [update.scaled(update.gradient, "")]


@dataclass(frozen=True)
class ScaleByLink(PlainLink):
    """Makes of gradients the step of an optimizer, as it were with a learning rate of 1 and against the gradient.

    Attributes:
        optimizer: The optimizer's pass, with its settings.
    """

    name = "scale-by"

    optimizer: OptimizerPass

    def states(self) -> tuple[str, ...]:
        return tuple(_own(prefix) for prefix in self._rule().states)

    def formulas(self) -> Mapping[str, str]:
        own = self.optimizer.settings()
        table = {name: repr(value) if self.live is None else f"{self.live}_{name}" for name, value in own.items()}
        rule = self._rule()
        return {
            _own(name): substituted(formula, {**table, RATE: "1.0"})
            for name, formula in rule.coefficients.items()
            if name not in rule.of_decay
        }

    def write(self, update: Update) -> list[SSAValue]:
        rule = self._rule()
        numbers = {
            name: update.coefficients[_own(name)] for name in rule.coefficients if _own(name) in update.coefficients
        }
        found = rule.write(replace(update, coefficients=numbers, decays=False))
        return [found.step, *found.state]

    def _rule(self) -> Rule:
        return self.optimizer.rule()


def _own(name: str) -> str:
    """The name of a coefficient or state without its optimizer's."""
    return name.partition(".")[2]


LINKS: dict[str, type[Link]] = {
    kind.name: kind
    for kind in (
        ClipByGlobalNormLink,
        NormalizeLink,
        NormalizePerParameterLink,
        ClipLink,
        AddDecayedWeightsLink,
        EmaLink,
        ScaleLink,
    )
}
"""The links by name, but for those that are made of optimizers."""

CORES = ("sgd", "adam", "rmsprop", "adagrad", "lion")
"""The optimizers that can be a link, called `scale-by-` and their name."""
NOT_OF_CORES = ("function", "learning_rate", "clip_norm", "weight_decay", "decay", "row_bytes", "groups", "before")


@dataclass(frozen=True)
class Stage:
    """A link in its place, with its numbers.

    Attributes:
        link: What is done.
        label: How the names of its state and scalars begin; no other link's do.
        slots: The scalars that the host computes for it.
        numbers: Its numbers: constants, and the names of scalars.
    """

    link: Link
    label: str
    slots: tuple[Slot, ...]
    numbers: Mapping[str, float | str]

    @classmethod
    def of(cls, link: Link, label: str) -> Stage:
        """The stage of a link."""
        formulas = {key: f"{label}.{key}" if key else label for key in link.formulas()}
        found = coefficients({formulas[key]: text for key, text in link.formulas().items()}, [{}], [()])
        return cls(link, label, found.slots, {key: found.by_group[0][name] for key, name in formulas.items()})

    @property
    def prefixes(self) -> tuple[str, ...]:
        """How the names of its state begin."""
        return tuple(f"{self.label}.{state}" for state in self.link.states())


def read_stages(text: str | None, where: str) -> list[Stage]:
    """The links that a pass' option has as text: `clip-by-global-norm{max-norm=1.0},ema{decay=0.9}`.

    Raises:
        DiagnosticException: There is no such link, or a setting is unknown, missing or out of range.
    """
    stages: list[Stage] = []
    names: list[str] = []
    try:
        for spec in parse_pipeline(text or ""):
            link = _read_link(spec.normalize_parameter_names())
            link.check(f"{where}: {spec.name}")
            names.append(spec.name.replace("-", "_"))
            number = names.count(names[-1])
            stages.append(Stage.of(link, names[-1] if number == 1 else f"{names[-1]}.{number}"))
    except (ValueError, ArgSpecParseError) as error:
        raise DiagnosticException(f"{where}: before: {error}") from error
    return stages


def _read_link(spec: ArgSpec) -> Link:
    core = spec.name.removeprefix("scale-by-")
    if core != spec.name and core in CORES:
        given = dict(spec.parameters)
        live = given.pop("live", (None,))[0]
        refused = ", ".join(name for name in NOT_OF_CORES if name in given)
        if refused:
            raise ValueError(f"{spec.name} has no {refused}")
        optimizer = cast("OptimizerPass", read_pass(ArgSpec(f"append-{core}", given), PASSES))
        return ScaleByLink(optimizer, live=None if live is None else str(live))
    if spec.name not in LINKS:
        listed = ", ".join([*LINKS, *(f"scale-by-{name}" for name in CORES)])
        raise ValueError(f"there is no link {spec.name!r}; there are {listed}")
    kind = LINKS[spec.name]
    return kind.from_spec(ArgSpec(spec.name, as_declared(spec.parameters, kind)))
