"""Links of `chain`: what becomes of gradients before an optimizer takes them, in the manner of optax."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tensorgrad as tg
from tensorgrad.optim.groups import Decay
from tensorgrad.optim.schedules import Rate, as_schedule
from tensorgrad.optim.transforms import Transformation, no_state, transformation, zeros_of

COLUMNS, MOST_ROWS = 1024, 4096
"""How many squares one workgroup adds up at least, and how many such sums there are at most."""


def norm_of(x: Any) -> Any:
    """Returns the norm of a tensor; those of large ones are sums of two steps, which workgroups share."""
    flat, columns = tg.reshape(x, -1), COLUMNS
    if x.size <= columns:
        return tg.sqrt(tg.sum(flat * flat))
    while columns * MOST_ROWS < x.size:
        columns *= 2
    rows = tg.reshape(tg.pad(flat, (0, -x.size % columns)), (-1, columns))
    return tg.sqrt(tg.sum(tg.sum(rows * rows, axis=1)))


def clip(max_delta: float) -> Transformation:
    """Brings each element of a gradient into the range from `-max_delta` to `max_delta`.

    As `torch.nn.utils.clip_grad_value_` and `optax.clip`; NaN stays NaN.

    Args:
        max_delta: The largest magnitude.

    Raises:
        OptionError: It is not a number, or not more than 0.
    """

    def update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        return tg.maximum(tg.minimum(gradient, hyper.max_delta), -hyper.max_delta), state

    return transformation("clip", no_state, update, {"max_delta": max_delta})


def add_decayed_weights(weight_decay: float, *, decay: Decay | None = None) -> Transformation:
    """Adds `weight_decay` times the parameter to its gradient; as `optax.add_decayed_weights`.

    Behind a `scale_by_...`, and in front of `scale_by_learning_rate`, that is decoupled decay, as `adamw` has it.

    Args:
        weight_decay: How much of the parameter.
        decay: Which parameters decay, by name: a glob such as `*.weight`, several, or a predicate; all if absent.

    Raises:
        OptionError: A setting is out of range.
    """

    def update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        return gradient + parameter * hyper.weight_decay if hyper.weight_decay else gradient, state

    return transformation("add_decayed_weights", no_state, update, {"weight_decay": weight_decay}, only=decay)


def normalize(scale: float = 1.0, eps: float = 1e-6) -> Transformation:
    """Scales gradients by `scale / (norm + eps)`, where `norm` is that of all of them together.

    As `optax.normalize_by_update_norm`.

    Args:
        scale: The norm that they then have.
        eps: What keeps the divisor from 0.

    Raises:
        OptionError: A setting is out of range.
    """

    def update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        return gradient * (hyper.scale / (hyper.norm + hyper.eps)), state

    return transformation("normalize", no_state, update, {"scale": scale, "eps": eps})


def normalize_per_parameter(scale: float = 1.0, eps: float = 1e-6) -> Transformation:
    """Scales each parameter's gradient by `scale / (norm + eps)`, where `norm` is its own.

    So each parameter moves by a step of one length, however steep the loss is in it. A gradient of zeros stays zeros.
    Norms of several parameters run side by side: in as many dispatches as `clip_by_global_norm` takes; behind a link
    that depends on the norm of all gradients, in one more for every four parameters or so.

    Args:
        scale: The norm that each gradient then has.
        eps: What keeps the divisor from 0.

    Raises:
        OptionError: A setting is out of range.
    """

    def update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        return gradient * (hyper.scale / (norm_of(gradient) + hyper.eps)), state

    return transformation("normalize_per_parameter", no_state, update, {"scale": scale, "eps": eps})


def ema(decay: float, debias: bool = True) -> Transformation:
    """Takes a running mean of the gradients: `mean = decay * mean + (1 - decay) * gradient`; as `optax.ema`.

    Args:
        decay: How much of the mean stays at each step.
        debias: Whether to divide it by `1 - decay ** step`, which the weights of all gradients so far add up to.

    Raises:
        OptionError: The decay is not a number from 0 to below 1.
    """

    def update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        mean = state["mean"] * hyper.decay + gradient * (1 - hyper.decay)
        return (mean * (1 / (1 - hyper.decay**step)) if debias else mean), {"mean": mean}

    return transformation("ema", zeros_of("mean"), update, {"decay": decay})


def scale(factor: Rate) -> Transformation:
    """Scales gradients; as `optax.scale` and `optax.scale_by_schedule`.

    Args:
        factor: By how much, of any sign; or one of `tg.optim.schedules`, which are not for learning rates alone, or a
            function of the step.

    Raises:
        OptionError: It is not a finite number.
    """

    def update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        return gradient * hyper.factor, state

    schedule = as_schedule("scale", factor) if callable(factor) else None
    settings = {"factor": factor if schedule is None else schedule.rate}
    found = transformation("scale", no_state, update, settings)
    return replace(found, schedule=schedule)
