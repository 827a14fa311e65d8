"""Moving averages of parameters, which often generalize better than the parameters themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from tensorgrad.errors import OptionError
from tensorgrad.optim.settings import EMA_DECAY, checked_setting
from tensorgrad.optim.transforms import Optimizer

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

AVERAGE = "weight_average"
"""The name of the state that holds the average of a parameter."""


def weight_ema(optimizer: Optimizer, decay: float = 0.999, *, warm_up: bool = False) -> Optimizer:
    """Keeps an exponential moving average of the parameters that an optimizer updates, beside them.

    After each step, `average = decay * average + (1 - decay) * parameter`; it starts as the parameter before the first
    step (Polyak & Juditsky, 1992). PyTorch's `AveragedModel` with `get_ema_multi_avg_fn` starts as the parameter after
    that step, when it is updated first, and follows the same rule from then on. It is computed with the update, and is
    a state of the optimizer, in checkpoints too. `training.averages()` returns it, and `with training.averaged():` runs
    on it; eager optimizers have both, too.

    Args:
        optimizer: One of `tg.optim`, or a chain that ends with one.
        decay: The weight of the previous average; `Training.set(ema_decay=...)` changes it.
        warm_up: Whether the decay is at most `(1 + step) / (10 + step)`, so that a short run forgets its start
            (TensorFlow's `ExponentialMovingAverage`, timm's `ModelEmaV3`).

    Raises:
        OptionError: It is not an optimizer, has an average already, or the decay is out of range.

    Example:
        >>> training = tg.compile(
        ...     tg.nn.Linear(1, 1),
        ...     loss=lambda model, x: tg.mean(model(x) ** 2),
        ...     optimizer=tg.optim.weight_ema(tg.optim.sgd(0.1), decay=0.5),
        ...     inputs={"x": (4, 1)},
        ...     device="numpy",
        ... )
        >>> before = training.parameters()["weight"]
        >>> loss = training.step(x=np.ones((4, 1)))
        >>> after = training.parameters()["weight"]
        >>> bool(np.allclose(training.averages()["weight"], (before + after) / 2))
        True
    """
    if not isinstance(optimizer, Optimizer):
        raise OptionError(f"weight_ema: takes an optimizer such as tg.optim.adam(1e-3), not {optimizer!r}")
    if EMA_DECAY in optimizer.settings:
        raise OptionError(f"weight_ema: {optimizer.name} keeps an average already")
    share = checked_setting("weight_ema", "decay", decay)

    def init(parameter: Any) -> Mapping[str, Any]:
        return {**optimizer.init(parameter), AVERAGE: parameter}

    def update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        average = state[AVERAGE]
        own = {name: value for name, value in state.items() if name != AVERAGE}
        new, own = optimizer.update(gradient, own, parameter, step, hyper)
        effective_decay = hyper.ema_decay.minimum((1 + step) / (10 + step)) if warm_up else hyper.ema_decay
        return new, {**own, AVERAGE: average + (new - average) * (1 - effective_decay)}

    return replace(
        optimizer,
        init=init,
        update=update,
        settings={**optimizer.settings, EMA_DECAY: share},
        others=None if optimizer.others is None else weight_ema(optimizer.others, decay, warm_up=warm_up),
    )


def averages_among(states: Iterable[str]) -> dict[str, str]:
    """Returns the names of those states that are averages, by the paths of their parameters."""
    parts = {name: name.rpartition("/") for name in states}
    return {path: name for name, (state, _, path) in parts.items() if state.rpartition(".")[2] == AVERAGE}


def averages_of(
    parameters: Mapping[str, Array], names: Mapping[str, str], read: Callable[[Iterable[str]], Mapping[str, Array]]
) -> dict[str, Array]:
    """Returns parameters by path, with their averages in their place.

    Args:
        parameters: The values of all parameters.
        names: The states that are averages, by path; none before the first step, when they are the parameters.
        read: Returns the values of states.
    """
    states = read(names.values()) if names else {}
    return {**parameters, **{path: states[name].astype(parameters[path].dtype) for path, name in names.items()}}


def checked_averages(states: Iterable[str]) -> dict[str, str]:
    """Returns `averages_among` states.

    Raises:
        OptionError: There are none.
    """
    names = averages_among(states)
    if not names:
        raise OptionError("averages: the optimizer keeps no averages: tg.optim.weight_ema(optimizer) does")
    return names
