"""Links of `chain`: gradient transformations, as in optax."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tensorgrad as tg
from tensorgrad.optim.groups import Decay
from tensorgrad.optim.schedules import Rate, as_schedule
from tensorgrad.optim.transforms import Transformation, no_state, transformation, zeros_of

COLUMNS, MOST_ROWS = 1024, 4096
"""The minimum number of squares summed by a workgroup, and the maximum number of such sums."""


def norm_of(x: Any) -> Any:
    """Returns the norm of a tensor; large tensors are summed in two steps, spread over workgroups."""
    flat, columns = tg.reshape(x, -1), COLUMNS
    if x.size <= columns:
        return tg.sqrt(tg.sum(flat * flat))
    while columns * MOST_ROWS < x.size:
        columns *= 2
    rows = tg.reshape(tg.pad(flat, (0, -x.size % columns)), (-1, columns))
    return tg.sqrt(tg.sum(tg.sum(rows * rows, axis=1)))


def clip(max_delta: float) -> Transformation:
    """Clips each element of a gradient to the range from `-max_delta` to `max_delta`.

    Like `torch.nn.utils.clip_grad_value_` and `optax.clip`; NaN stays NaN.

    Args:
        max_delta: The largest magnitude.

    Raises:
        OptionError: It is not a number, or not more than 0.

    Example:
        >>> x = tg.tensor([1.0, -2.0], device="numpy", requires_grad=True)
        >>> x.grad = tg.tensor([3.0, 0.5], device="numpy")
        >>> tg.optim.Stepper([x], tg.optim.chain(tg.optim.clip(1.0), tg.optim.sgd(1.0))).step()
        >>> x.detach()
        Array([ 0. , -2.5], dtype=f32, device='numpy')
    """

    def update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        return tg.maximum(tg.minimum(gradient, hyper.max_delta), -hyper.max_delta), state

    return transformation("clip", no_state, update, {"max_delta": max_delta})


def add_decayed_weights(weight_decay: float, *, decay: Decay | None = None) -> Transformation:
    """Adds `weight_decay` times the parameter to its gradient, like `optax.add_decayed_weights`.

    Between a `scale_by_...` and `scale_by_learning_rate`, this is decoupled decay, as in `adamw`.

    Args:
        weight_decay: The factor.
        decay: Which parameters decay, by name: a glob such as `*.weight`, several, or a predicate; all by default.

    Raises:
        OptionError: A setting is out of range.

    Example:
        >>> x = tg.tensor([1.0, -2.0], device="numpy", requires_grad=True)
        >>> x.grad = tg.tensor([3.0, 0.5], device="numpy")
        >>> tg.optim.Stepper([x], tg.optim.chain(tg.optim.add_decayed_weights(0.01), tg.optim.sgd(1.0))).step()
        >>> x.detach()
        Array([-2.01, -2.48], dtype=f32, device='numpy')
    """

    def update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        return gradient + parameter * hyper.weight_decay if hyper.weight_decay else gradient, state

    return transformation("add_decayed_weights", no_state, update, {"weight_decay": weight_decay}, only=decay)


def normalize(scale: float = 1.0, eps: float = 1e-6) -> Transformation:
    """Scales gradients by `scale / (norm + eps)`, where `norm` is their global norm.

    Like `optax.normalize_by_update_norm`.

    Args:
        scale: The resulting norm.
        eps: Keeps the divisor from being 0.

    Raises:
        OptionError: A setting is out of range.

    Example:
        >>> x = tg.tensor([1.0, -2.0], device="numpy", requires_grad=True)
        >>> x.grad = tg.tensor([3.0, 0.5], device="numpy")
        >>> tg.optim.Stepper([x], tg.optim.chain(tg.optim.normalize(), tg.optim.sgd(1.0))).step()
        >>> x.detach()
        Array([ 0.01360643, -2.164399  ], dtype=f32, device='numpy')
    """

    def update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        return gradient * (hyper.scale / (hyper.norm + hyper.eps)), state

    return transformation("normalize", no_state, update, {"scale": scale, "eps": eps})


def normalize_per_parameter(scale: float = 1.0, eps: float = 1e-6) -> Transformation:
    """Scales each parameter's gradient by `scale / (norm + eps)`, where `norm` is its own norm.

    Each parameter then moves by the same distance, however steep the loss is. A gradient of zeros stays zero. The norms
    of several parameters are computed concurrently, in as many dispatches as `clip_by_global_norm` takes; after a link
    that depends on the global norm, in one more for every four parameters or so.

    Args:
        scale: The resulting norm of each gradient.
        eps: Keeps the divisor from being 0.

    Raises:
        OptionError: A setting is out of range.

    Example:
        >>> x = tg.tensor([1.0, -2.0], device="numpy", requires_grad=True)
        >>> x.grad = tg.tensor([3.0, 0.5], device="numpy")
        >>> tg.optim.Stepper([x], tg.optim.chain(tg.optim.normalize_per_parameter(), tg.optim.sgd(1.0))).step()
        >>> x.detach()
        Array([ 0.01360643, -2.164399  ], dtype=f32, device='numpy')
    """

    def update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        return gradient * (hyper.scale / (norm_of(gradient) + hyper.eps)), state

    return transformation("normalize_per_parameter", no_state, update, {"scale": scale, "eps": eps})


def ema(decay: float, debias: bool = True) -> Transformation:
    """Replaces gradients with their running mean: `mean = decay * mean + (1 - decay) * gradient`; like `optax.ema`.

    Args:
        decay: The decay rate of the mean.
        debias: Whether to divide it by `1 - decay ** step`, the sum of the weights of all gradients so far.

    Raises:
        OptionError: The decay is not a number from 0 to below 1.

    Example:
        >>> x = tg.tensor([1.0, -2.0], device="numpy", requires_grad=True)
        >>> x.grad = tg.tensor([3.0, 0.5], device="numpy")
        >>> tg.optim.Stepper([x], tg.optim.chain(tg.optim.ema(0.9), tg.optim.sgd(1.0))).step()
        >>> x.detach()
        Array([-2. , -2.5], dtype=f32, device='numpy')
    """

    def update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        mean = state["mean"] * hyper.decay + gradient * (1 - hyper.decay)
        return (mean * (1 / (1 - hyper.decay**step)) if debias else mean), {"mean": mean}

    return transformation("ema", zeros_of("mean"), update, {"decay": decay})


def scale(factor: Rate) -> Transformation:
    """Scales gradients, like `optax.scale` and `optax.scale_by_schedule`.

    Args:
        factor: A number of any sign, one of `tg.optim.schedules`, or a function of the step.

    Raises:
        OptionError: It is not a finite number.

    Example:
        >>> x = tg.tensor([1.0, -2.0], device="numpy", requires_grad=True)
        >>> x.grad = tg.tensor([3.0, 0.5], device="numpy")
        >>> tg.optim.Stepper([x], tg.optim.chain(tg.optim.scale(0.5), tg.optim.sgd(1.0))).step()
        >>> x.detach()
        Array([-0.5 , -2.25], dtype=f32, device='numpy')
    """

    def update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        return gradient * hyper.factor, state

    schedule = as_schedule("scale", factor) if callable(factor) else None
    settings = {"factor": factor if schedule is None else schedule.rate}
    link = transformation("scale", no_state, update, settings)
    return replace(link, schedule=schedule)
