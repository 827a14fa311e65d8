"""Optimizers: settings, which the compiler turns into a part of the training step."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from tensorgrad import schedules
from tensorgrad.errors import OptionError
from tensorgrad.optimizer_settings import FIXED, Setting, checked_groups, host_settings, resolved_groups
from tensorgrad.schedules import Schedule, checked

if TYPE_CHECKING:
    from xdsl.passes import ModulePass

__all__ = ["Optimizer", "Schedule", "Settings", "adagrad", "adam", "adamw", "lion", "rmsprop", "schedules", "sgd"]

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
    """

    name: str
    learning_rate: float
    schedule: Schedule | None
    clip_norm: float | None
    decay: Decay | None
    options: Mapping[str, float | bool]
    groups: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])

    def host_settings(self) -> dict[str, Setting]:
        """The settings that `Training.set` changes, by the names that the pass' formulas have for them."""
        return host_settings(self.learning_rate, self.clip_norm, self.options, self.groups)

    def append_pass(self, function: str, parameters: Sequence[str]) -> ModulePass:
        """The pass that appends the update.

        Args:
            function: What returns the gradients.
            parameters: The names of what it has gradients of.

        Raises:
            OptionError: A pattern of `decay` or of `groups` fits no parameter.
        """
        from tensorgrad.passes.registry import pass_class

        given: dict[str, Any] = {"function": function, "clip_norm": self.clip_norm, **self.options}
        live = self.host_settings()
        given["live"] = tuple(name for name, one in live.items() if one.group is None and name != "learning_rate")
        given["groups"] = resolved_groups(self.name, self.groups, parameters, live)
        if self.schedule is not None:
            given["learning_rate"] = self.schedule.formula()
        if self.decay is not None:
            given["decay"] = _decaying(self.name, self.decay, parameters)
        return pass_class(f"append-{self.name}")(**given)


def _decaying(owner: str, decay: Decay, parameters: Sequence[str]) -> tuple[str, ...]:
    if callable(decay):
        return tuple(name for name in parameters if decay(name))
    patterns = [decay] if isinstance(decay, str) else decay
    for pattern in patterns:
        if not fnmatch.filter(parameters, pattern):
            raise OptionError(f"{owner}: decay {pattern!r} fits no parameter; there are {', '.join(parameters)}")
    return tuple(name for name in parameters if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns))


def _settings(
    owner: str,
    learning_rate: float | Schedule,
    clip_norm: float | None,
    decay: Decay | None,
    options: Mapping[str, float | bool],
    groups: Groups | None,
) -> Settings:
    """An optimizer, once what all of them have is checked, and that numbers among the options are not negative."""
    if isinstance(learning_rate, Schedule):
        schedule, rate = learning_rate, learning_rate.rate
    else:
        schedule, rate = None, checked(owner, "learning_rate", learning_rate)
    if clip_norm is not None and not checked(owner, "clip_norm", clip_norm):
        raise OptionError(f"{owner}: clip_norm must be more than 0, got {clip_norm!r}")
    names = isinstance(decay, Sequence) and all(isinstance(pattern, str) for pattern in decay)
    if decay is not None and not names and not callable(decay):
        raise OptionError(f"{owner}: decay must be a pattern, a list of them or a function of a name, got {decay!r}")
    numbers = {
        name: value if isinstance(value, bool) else checked(owner, name, value) for name, value in options.items()
    }
    norm = None if clip_norm is None else float(clip_norm)
    grouped = [name for name, value in numbers.items() if not isinstance(value, bool) and name not in FIXED]
    by_pattern = {} if groups is None else checked_groups(owner, groups, ["learning_rate", *grouped])
    return Settings(owner, rate, schedule, norm, decay, numbers, by_pattern)


def _betas(owner: str, betas: tuple[float, float]) -> dict[str, float]:
    try:
        first, second = betas
    except (TypeError, ValueError):
        raise OptionError(f"{owner}: betas must be two numbers, got {betas!r}") from None
    return {
        "beta1": checked(owner, "betas[0]", first, below=1),
        "beta2": checked(owner, "betas[1]", second, below=1),
    }


def sgd(
    learning_rate: float | Schedule,
    momentum: float = 0.0,
    dampening: float = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
    *,
    decay: Decay | None = None,
    clip_norm: float | None = None,
    groups: Groups | None = None,
) -> Settings:
    """Stochastic gradient descent, by PyTorch's formulas.

    Args:
        learning_rate: The factor of the update, or one of `tg.optim.schedules`.
        momentum: The factor of the running sum of gradients; 0 keeps none.
        dampening: How much of each gradient after the first is left out of that sum.
        nesterov: Whether to look ahead by the momentum.
        weight_decay: The factor of the parameter that is added to its gradient.
        decay: Which parameters decay, by name: a glob such as `*.weight`, several, or a predicate; all if absent.
        clip_norm: The norm of all gradients together above which they are scaled down to it.
        groups: Settings that some parameters have of their own, by pattern; for each setting, the last pattern that
            fits and gives it counts.

    Raises:
        OptionError: A setting is out of range, or nesterov goes without momentum or with dampening.
    """
    checked("sgd", "dampening", dampening, below=math.nextafter(1, 2))
    options = {"momentum": momentum, "dampening": dampening, "nesterov": bool(nesterov), "weight_decay": weight_decay}
    settings = _settings("sgd", learning_rate, clip_norm, decay, options, groups)
    if nesterov and (not momentum or dampening or any(given.get("dampening") for given in settings.groups.values())):
        raise OptionError("sgd: nesterov needs a momentum, and no dampening")
    return settings


def adam(
    learning_rate: float | Schedule = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    *,
    decay: Decay | None = None,
    clip_norm: float | None = None,
    groups: Groups | None = None,
) -> Settings:
    """Adam, by PyTorch's formulas.

    Args:
        learning_rate: The factor of the update, or one of `tg.optim.schedules`.
        betas: How much of the means of the gradients and of their squares stays at each step.
        eps: Added to the root of the latter, after its bias correction.
        weight_decay: The factor of the parameter that is added to its gradient.
        decay: Which parameters decay, by name: a glob such as `*.weight`, several, or a predicate; all if absent.
        clip_norm: The norm of all gradients together above which they are scaled down to it.
        groups: Settings that some parameters have of their own, by pattern; for each setting, the last pattern that
            fits and gives it counts.

    Raises:
        OptionError: A setting is out of range.
    """
    options = {**_betas("adam", betas), "eps": eps, "weight_decay": weight_decay}
    return _settings("adam", learning_rate, clip_norm, decay, options, groups)


def adamw(
    learning_rate: float | Schedule = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 1e-2,
    *,
    decay: Decay | None = None,
    clip_norm: float | None = None,
    groups: Groups | None = None,
) -> Settings:
    """Adam with decoupled weight decay, by PyTorch's formulas.

    Args:
        learning_rate: The factor of the update, or one of `tg.optim.schedules`.
        betas: How much of the means of the gradients and of their squares stays at each step.
        eps: Added to the root of the latter, after its bias correction.
        weight_decay: How much of a parameter each step takes off it, times the learning rate.
        decay: Which parameters decay, by name: a glob such as `*.weight`, several, or a predicate; all if absent.
        clip_norm: The norm of all gradients together above which they are scaled down to it.
        groups: Settings that some parameters have of their own, by pattern; for each setting, the last pattern that
            fits and gives it counts.

    Raises:
        OptionError: A setting is out of range.
    """
    options = {**_betas("adamw", betas), "eps": eps, "weight_decay": weight_decay}
    return _settings("adamw", learning_rate, clip_norm, decay, options, groups)


def rmsprop(
    learning_rate: float | Schedule = 1e-2,
    alpha: float = 0.99,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    momentum: float = 0.0,
    centered: bool = False,
    *,
    decay: Decay | None = None,
    clip_norm: float | None = None,
    groups: Groups | None = None,
) -> Settings:
    """RMSprop, by PyTorch's formulas.

    Args:
        learning_rate: The factor of the update, or one of `tg.optim.schedules`.
        alpha: How much of the mean of the squares of the gradients stays at each step.
        eps: Added to the root of that mean.
        weight_decay: The factor of the parameter that is added to its gradient.
        momentum: The factor of the running sum of updates; 0 keeps none.
        centered: Whether to divide by the deviation from the mean of the gradients.
        decay: Which parameters decay, by name: a glob such as `*.weight`, several, or a predicate; all if absent.
        clip_norm: The norm of all gradients together above which they are scaled down to it.
        groups: Settings that some parameters have of their own, by pattern; for each setting, the last pattern that
            fits and gives it counts.

    Raises:
        OptionError: A setting is out of range.
    """
    options = {
        "alpha": checked("rmsprop", "alpha", alpha, below=1),
        "eps": eps,
        "weight_decay": weight_decay,
        "momentum": momentum,
        "centered": bool(centered),
    }
    return _settings("rmsprop", learning_rate, clip_norm, decay, options, groups)


def adagrad(
    learning_rate: float | Schedule = 1e-2,
    lr_decay: float = 0.0,
    weight_decay: float = 0.0,
    initial_accumulator_value: float = 0.0,
    eps: float = 1e-10,
    *,
    decay: Decay | None = None,
    clip_norm: float | None = None,
    groups: Groups | None = None,
) -> Settings:
    """Adagrad, by PyTorch's formulas.

    Args:
        learning_rate: The factor of the update, or one of `tg.optim.schedules`.
        lr_decay: How fast the learning rate falls: it is divided by `1 + lr_decay` times the steps before.
        weight_decay: The factor of the parameter that is added to its gradient.
        initial_accumulator_value: What the sum of the squares of the gradients starts from.
        eps: Added to the root of that sum.
        decay: Which parameters decay, by name: a glob such as `*.weight`, several, or a predicate; all if absent.
        clip_norm: The norm of all gradients together above which they are scaled down to it.
        groups: Settings that some parameters have of their own, by pattern; for each setting, the last pattern that
            fits and gives it counts.

    Raises:
        OptionError: A setting is out of range.
    """
    options = {
        "lr_decay": lr_decay,
        "weight_decay": weight_decay,
        "initial_accumulator_value": initial_accumulator_value,
        "eps": eps,
    }
    return _settings("adagrad", learning_rate, clip_norm, decay, options, groups)


def lion(
    learning_rate: float | Schedule = 1e-4,
    betas: tuple[float, float] = (0.9, 0.99),
    weight_decay: float = 0.0,
    *,
    decay: Decay | None = None,
    clip_norm: float | None = None,
    groups: Groups | None = None,
) -> Settings:
    """Lion (Chen et al., 2023): steps of one size, in the direction of the sign of a mean of the gradients.

    Args:
        learning_rate: The size of the update, or one of `tg.optim.schedules`.
        betas: How much of the mean goes into the direction, and how much of it stays at each step.
        weight_decay: How much of a parameter each step takes off it, times the learning rate.
        decay: Which parameters decay, by name: a glob such as `*.weight`, several, or a predicate; all if absent.
        clip_norm: The norm of all gradients together above which they are scaled down to it.
        groups: Settings that some parameters have of their own, by pattern; for each setting, the last pattern that
            fits and gives it counts.

    Raises:
        OptionError: A setting is out of range.
    """
    return _settings(
        "lion", learning_rate, clip_norm, decay, {**_betas("lion", betas), "weight_decay": weight_decay}, groups
    )
