"""Optimizers: settings, which the compiler turns into a part of the training step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tensorgrad.errors import OptionError

if TYPE_CHECKING:
    from xdsl.passes import ModulePass


class Optimizer(Protocol):
    """What `tg.compile` takes for an optimizer."""

    @property
    def learning_rate(self) -> float:
        """The learning rate at first; `Training.set_learning_rate` changes it."""
        ...

    def append_pass(self, function: str) -> ModulePass:
        """The pass that replaces the gradients that `function` returns by the update."""
        ...


def checked(owner: str, name: str, value: float, *, below: float = math.inf) -> float:
    """A setting as a float.

    Raises:
        OptionError: It is no number from 0 to just under `below`; names it.
    """
    limit = "a finite number that is not negative" if below == math.inf else f"a number from 0 to below {below:g}"
    try:
        number = math.nan if isinstance(value, (bool, str, bytes)) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 <= number < below:
        raise OptionError(f"{owner}: {name} must be {limit}, got {value!r}")
    return number


@dataclass(frozen=True)
class SGD:
    """The settings of stochastic gradient descent; see `sgd`."""

    learning_rate: float
    momentum: float
    dampening: float
    nesterov: bool
    weight_decay: float

    def append_pass(self, function: str) -> ModulePass:
        """The pass that appends the update."""
        from tensorgrad.passes.append_sgd import AppendSgdPass

        return AppendSgdPass(function, self.momentum, self.dampening, self.nesterov, self.weight_decay)


@dataclass(frozen=True)
class Adam:
    """The settings of Adam; see `adam`."""

    learning_rate: float
    betas: tuple[float, float]
    eps: float
    weight_decay: float

    def append_pass(self, function: str) -> ModulePass:
        """The pass that appends the update."""
        from tensorgrad.passes.append_adam import AppendAdamPass

        return AppendAdamPass(function, *self.betas, self.eps, self.weight_decay)


def sgd(
    learning_rate: float,
    momentum: float = 0.0,
    dampening: float = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
) -> SGD:
    """Stochastic gradient descent, by PyTorch's formulas.

    Args:
        learning_rate: The factor of the update.
        momentum: The factor of the running sum of gradients; 0 keeps none.
        dampening: How much of each gradient after the first is left out of that sum.
        nesterov: Whether to look ahead by the momentum.
        weight_decay: The factor of the parameter that is added to its gradient.

    Raises:
        OptionError: A setting is out of range, or nesterov goes without momentum or with dampening.
    """
    settings = SGD(
        checked("sgd", "learning_rate", learning_rate),
        checked("sgd", "momentum", momentum),
        checked("sgd", "dampening", dampening, below=math.nextafter(1, 2)),
        bool(nesterov),
        checked("sgd", "weight_decay", weight_decay),
    )
    if nesterov and (not settings.momentum or settings.dampening):
        raise OptionError("sgd: nesterov needs a momentum, and no dampening")
    return settings


def adam(
    learning_rate: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
) -> Adam:
    """Adam, by PyTorch's formulas.

    Args:
        learning_rate: The factor of the update.
        betas: How much of the means of the gradients and of their squares stays at each step.
        eps: Added to the root of the latter, after its bias correction.
        weight_decay: The factor of the parameter that is added to its gradient.

    Raises:
        OptionError: A setting is out of range.
    """
    try:
        first, second = betas
    except (TypeError, ValueError):
        raise OptionError(f"adam: betas must be two numbers, got {betas!r}") from None
    return Adam(
        checked("adam", "learning_rate", learning_rate),
        (checked("adam", "betas[0]", first, below=1), checked("adam", "betas[1]", second, below=1)),
        checked("adam", "eps", eps),
        checked("adam", "weight_decay", weight_decay),
    )
