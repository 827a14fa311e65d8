"""What optimizers are made of: settings, and links of what becomes of gradients before."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from tensorgrad.errors import OptionError
from tensorgrad.optim.schedules import Rate, Schedule, as_schedule, checked
from tensorgrad.optim.settings import (
    FIXED,
    RATE,
    Setting,
    checked_groups,
    checked_setting,
    host_settings,
    resolved_groups,
)
from tensorgrad.passes.registry import pass_class
from tensorgrad.passes.tensors.optimizer import OptimizerPass

if TYPE_CHECKING:
    from xdsl.passes import ModulePass


OTHERS = "others_"
"""How the names begin that formulas have for the settings of the optimizer of the rest."""
Decay: TypeAlias = str | Sequence[str] | Callable[[str], bool]
"""Which parameters decay, by name: a glob such as `*.weight`, several, or a predicate."""
Groups: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Settings by pattern, for parameters that have others: `{"*.bias": {"weight_decay": 0.0}}`."""


class Optimizer(Protocol):
    """What `tg.compile` takes for an optimizer."""

    @property
    def learning_rate(self) -> float:
        """The learning rate at first; `Training.set_learning_rate` changes it."""
        ...

    @property
    def schedule(self) -> Schedule | None:
        """What scales the learning rate, if anything does."""
        ...

    def host_settings(self) -> Mapping[str, Setting]:
        """The settings that `Training.set` changes, by the names that the pass' formulas have for them."""
        ...

    def append_pass(self, function: str, parameters: Sequence[str]) -> ModulePass:
        """The pass that replaces the gradients that `function` returns, by these parameters, by the update."""
        ...


@dataclass(frozen=True)
class Link:
    """What becomes of gradients before an optimizer takes them: one of `chain`'s arguments.

    Attributes:
        name: What it does.
        options: Its settings; numbers change without another program.
        schedule: What scales it with the steps, if anything does.
        decay: The parameters that it is for, if not for all.
    """

    name: str
    options: Mapping[str, float | bool]
    schedule: Schedule | None = None
    decay: Decay | None = None

    def numbers(self) -> dict[str, float]:
        """The settings that can change."""
        return {name: value for name, value in self.options.items() if not isinstance(value, bool)}

    def text(self, live: str, parameters: Sequence[str]) -> str:
        """The link as an optimizer's pass has it; empty where it does nothing.

        Args:
            live: How the names begin that formulas have for its settings.
            parameters: The names of the parameters.

        Raises:
            OptionError: A pattern of `decay` fits no parameter.
        """
        given = {name: _quoted(value) for name, value in self.options.items()}
        if self.schedule is not None and self.schedule.text is not None:
            given["schedule"] = _text(" ".join(self.schedule.text.split()))
        if self.decay is not None:
            names = decaying(self.name, self.decay, parameters)
            if not names:
                return ""
            given["decay"] = ",".join(map(_text, names))
        options = " ".join(f"{name}={value}" for name, value in {**given, "live": live}.items())
        return f"{self.name.replace('_', '-')}{{{options}}}"


def _quoted(value: float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else _text(repr(value))


def _text(value: str) -> str:
    """A value as options of passes are written."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@dataclass(frozen=True)
class Settings:
    """An optimizer with its settings; `sgd`, `adam` and the others make it.

    Attributes:
        name: The optimizer.
        learning_rate: The learning rate, or what the schedule scales.
        schedule: The schedule, if there is one.
        clip_norm: The norm of all gradients together above which they are scaled down to it, if there is one.
        decay: Which parameters decay; `None` is all of them.
        options: The options of the optimizer's pass.
        groups: The settings of some parameters, by pattern.
        links: What becomes of gradients before, in order.
        fixed: Options of the optimizer's pass that never change.
        only: Which parameters it updates, if not all that it can.
        others: What updates the rest, if there is any.
        rank: How many axes the parameters have that it can update, if not any number.
    """

    name: str
    learning_rate: float
    schedule: Schedule | None
    clip_norm: float | None
    decay: Decay | None
    options: Mapping[str, float | bool]
    groups: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    links: tuple[Link, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    only: Decay | None = None
    others: Settings | None = None
    rank: int | None = None

    def check_parameters(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Checks that every parameter has an optimizer.

        Args:
            shapes: The shapes of those that are trained, by path.

        Raises:
            OptionError: One has none; says why, and what to do.
        """
        if self.rank is None or self.others is not None:
            return
        chosen = shapes if self.only is None else decaying(self.name, self.only, list(shapes), "only")
        for path, shape in shapes.items():
            if len(shape) != self.rank or path not in chosen:
                what = f"does not have {self.rank} axes" if len(shape) != self.rank else "is not among only="
                raise OptionError(
                    f"{self.name}: {path!r} of shape {list(shape)} {what}; give others=, an optimizer for the rest, "
                    "such as others=tg.optim.adamw(3e-4)"
                )

    def host_settings(self) -> dict[str, Setting]:
        """The settings that `Training.set` changes, by the names that the pass' formulas have for them."""
        own = host_settings(self.learning_rate, self.clip_norm, self.options, self.groups)
        rates = _called(self.schedule)
        own = {name: replace(one, schedule=rates) if one.name == RATE else one for name, one in own.items()}
        for number, (link, label) in enumerate(self.labeled(), 1):
            own |= {
                f"{_live(number)}_{name}": Setting(name, label, value, _called(link.schedule))
                for name, value in link.numbers().items()
            }
        if self.others is not None:
            for name, one in self.others.host_settings().items():
                label = "others" if one.group is None else f"others/{one.group}"
                own[OTHERS + name] = Setting(one.name, label, one.value, one.schedule)
        return own

    def append_pass(self, function: str, parameters: Sequence[str]) -> ModulePass:
        """The pass that appends the update; see `optimizer_pass`."""
        return self.optimizer_pass(function, parameters)

    def optimizer_pass(self, function: str, parameters: Sequence[str], host: str = "") -> OptimizerPass:
        """The pass that appends the update.

        Args:
            function: What returns the gradients.
            parameters: The names of what it has gradients of.
            host: How the names begin that formulas have for the settings.

        Raises:
            OptionError: A pattern of `decay` or of `groups` fits no parameter.
        """

        given: dict[str, Any] = {"function": function, "clip_norm": self.clip_norm, **self.options, **self.fixed}
        given["host"] = host
        live = self.host_settings()
        given["live"] = tuple(name for name, one in live.items() if one.group is None and name != "learning_rate")
        if self.only is not None:
            given["only"] = decaying(self.name, self.only, parameters, "only")
        if self.others is not None:
            given["others"] = self.others.optimizer_pass(function, parameters, host + OTHERS)
        texts = [link.text(host + _live(number), parameters) for number, link in enumerate(self.links, 1)]
        given["before"] = ",".join(text for text in texts if text) or None
        given["groups"] = resolved_groups(self.name, self.groups, parameters, live)
        if self.schedule is not None:
            given["learning_rate"] = self.schedule.formula()
        if self.decay is not None:
            given["decay"] = decaying(self.name, self.decay, parameters)
        return cast("type[OptimizerPass]", pass_class(f"append-{self.name}"))(**given)

    def labeled(self) -> list[tuple[Link, str]]:
        """The links, each with the name of its own that settings and state have."""
        names = [link.name for link in self.links]
        numbers = [names[: place + 1].count(name) for place, name in enumerate(names)]
        return [
            (link, link.name if number == 1 else f"{link.name}.{number}")
            for link, number in zip(self.links, numbers, strict=True)
        ]


def _called(schedule: Schedule | None) -> Schedule | None:
    """A schedule, if the host is to call it: formulas are part of the program."""
    return None if schedule is None or schedule.text is not None else schedule


def _live(number: int) -> str:
    """How the names begin that formulas have for the settings of a link."""
    return f"link{number}"


def decaying(owner: str, decay: Decay, parameters: Sequence[str], what: str = "decay") -> tuple[str, ...]:
    """The parameters that decay, or that something else is for.

    Raises:
        OptionError: A pattern fits none.
    """
    if callable(decay):
        return tuple(name for name in parameters if decay(name))
    patterns = [decay] if isinstance(decay, str) else decay
    for pattern in patterns:
        if not fnmatch.filter(parameters, pattern):
            raise OptionError(f"{owner}: {what} {pattern!r} fits no parameter; there are {', '.join(parameters)}")
    return tuple(name for name in parameters if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns))


def settings_of(
    owner: str,
    learning_rate: Rate,
    clip_norm: float | None,
    decay: Decay | None,
    options: Mapping[str, float | bool],
    groups: Groups | None,
) -> Settings:
    """An optimizer, once what all of them have is checked, and that numbers among the options are not negative."""
    if isinstance(learning_rate, Schedule) or callable(learning_rate):
        schedule = as_schedule(owner, learning_rate)
        rate = schedule.rate
    else:
        schedule, rate = None, checked(owner, "learning_rate", learning_rate)
    if clip_norm is not None and not checked(owner, "clip_norm", clip_norm):
        raise OptionError(f"{owner}: clip_norm must be more than 0, got {clip_norm!r}")
    check_decay(owner, decay)
    numbers = {
        name: value if isinstance(value, bool) else checked_setting(owner, name, value)
        for name, value in options.items()
    }
    norm = None if clip_norm is None else float(clip_norm)
    grouped = [name for name, value in numbers.items() if not isinstance(value, bool) and name not in FIXED]
    by_pattern = {} if groups is None else checked_groups(owner, groups, ["learning_rate", *grouped])
    return Settings(owner, rate, schedule, norm, decay, numbers, by_pattern)


def check_decay(owner: str, decay: Decay | None, what: str = "decay") -> None:
    """Checks that parameters are chosen by patterns or by a function.

    Raises:
        OptionError: They are not.
    """
    names = isinstance(decay, Sequence) and all(isinstance(pattern, str) for pattern in decay)
    if decay is not None and not names and not callable(decay):
        raise OptionError(f"{owner}: {what} must be a pattern, a list of them or a function of a name, got {decay!r}")


def checked_betas(owner: str, betas: tuple[float, float]) -> dict[str, float]:
    """Both as settings.

    Raises:
        OptionError: They are not two numbers from 0 to below 1.
    """
    try:
        first, second = betas
    except (TypeError, ValueError):
        raise OptionError(f"{owner}: betas must be two numbers, got {betas!r}") from None
    return {
        "beta1": checked(owner, "betas[0]", first, below=1),
        "beta2": checked(owner, "betas[1]", second, below=1),
    }
