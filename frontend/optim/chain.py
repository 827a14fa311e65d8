"""`tg.optim.chain`: gradients go through links, one after another, to an optimizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tensorgrad.errors import OptionError
from tensorgrad.optim.optimizer import Decay, Link, Settings, check_decay, checked_betas, settings_of
from tensorgrad.optim.schedules import Rate, Schedule, as_schedule, checked
from tensorgrad.optim.settings import checked_setting


def chain(*links: Link | Settings) -> Settings:
    """An optimizer that takes gradients which have gone through links before.

    `chain(clip_by_global_norm(1.0), add_decayed_weights(0.1), adam(1e-3))`: each link takes what the one before made of
    the gradients, and the last is an optimizer. Links compute in the kernels of gradients and of the update, and take
    none of their own, but for those that depend on the norm of all gradients: two each, or two for each group of
    parameters that are updated alike where it is not the first such link; and for `normalize_per_parameter`.

    Args:
        *links: What functions of this module give that say so, and at the end an optimizer, or
            `scale_by_learning_rate`.

    Returns:
        The optimizer. `Training.set(group=name, ...)` changes settings of the link of that name; of two links of one
        name, the second is called `<name>.2`, and so on.

    Raises:
        OptionError: There is no optimizer at the end, or one before it.
    """
    *before, last = links or (None,)
    if not isinstance(last, Settings):
        raise OptionError(f"chain: the last must be an optimizer, or scale_by_learning_rate(...), got {last!r}")
    for one in before:
        if not isinstance(one, Link):
            raise OptionError(f"chain: all but the last must be links such as tg.optim.clip(1.0), got {one!r}")
    chained = replace(last, links=(*(one for one in before if isinstance(one, Link)), *last.links))
    labels = {label for _, label in chained.labeled()}
    for pattern in chained.groups:
        if pattern in labels:
            raise OptionError(f"chain: the group {pattern!r} has the name of a link")
    return chained


def _link(name: str, options: Mapping[str, Any], decay: Decay | None = None) -> Link:
    """A link, once its settings are checked."""
    check_decay(name, decay)
    numbers = {key: one if isinstance(one, bool) else checked_setting(name, key, one) for key, one in options.items()}
    return Link(name, numbers, decay=decay)


def clip_by_global_norm(max_norm: float) -> Link:
    """Scales gradients down to a norm that they together may have: by `max_norm / (norm + 1e-6)`, if that is below 1.

    That is what `torch.nn.utils.clip_grad_norm_` does; optax does without the `1e-6`. An optimizer's `clip_norm=` is
    this link right before it.

    Args:
        max_norm: The norm.

    Raises:
        OptionError: It is no number, or not more than 0.
    """
    return _link("clip_by_global_norm", {"max_norm": max_norm})


def clip(max_delta: float) -> Link:
    """Brings each element of a gradient into the range from `-max_delta` to `max_delta`.

    As `torch.nn.utils.clip_grad_value_` and `optax.clip`; NaN stays NaN.

    Args:
        max_delta: The largest magnitude.

    Raises:
        OptionError: It is no number, or not more than 0.
    """
    return _link("clip", {"max_delta": max_delta})


def add_decayed_weights(weight_decay: float, *, decay: Decay | None = None) -> Link:
    """Adds `weight_decay` times the parameter to its gradient; as `optax.add_decayed_weights`.

    Behind a `scale_by_...`, and in front of `scale_by_learning_rate`, that is decoupled decay, as `adamw` has it.

    Args:
        weight_decay: How much of the parameter.
        decay: Which parameters decay, by name: a glob such as `*.weight`, several, or a predicate; all if absent.

    Raises:
        OptionError: A setting is out of range.
    """
    return _link("add_decayed_weights", {"weight_decay": weight_decay}, decay)


def normalize(scale: float = 1.0, eps: float = 1e-6) -> Link:
    """Scales gradients by `scale / (norm + eps)`, where `norm` is that of all of them together.

    As `optax.normalize_by_update_norm`.

    Args:
        scale: The norm that they then have.
        eps: What keeps the divisor from 0.

    Raises:
        OptionError: A setting is out of range.
    """
    return _link("normalize", {"scale": scale, "eps": eps})


def normalize_per_parameter(scale: float = 1.0, eps: float = 1e-6) -> Link:
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
    return _link("normalize_per_parameter", {"scale": scale, "eps": eps})


def ema(decay: float, debias: bool = True) -> Link:
    """Takes a running mean of the gradients: `mean = decay * mean + (1 - decay) * gradient`; as `optax.ema`.

    Args:
        decay: How much of the mean stays at each step.
        debias: Whether to divide it by `1 - decay ** step`, which the weights of all gradients so far add up to.

    Raises:
        OptionError: The decay is no number from 0 to below 1.
    """
    return _link("ema", {"decay": decay, "debias": bool(debias)})


def scale(factor: Rate) -> Link:
    """Scales gradients; as `optax.scale` and `optax.scale_by_schedule`.

    Args:
        factor: By how much, of any sign; or one of `tg.optim.schedules`, which are not for learning rates alone, or a
            function of the step.

    Raises:
        OptionError: It is no finite number.
    """
    if isinstance(factor, Schedule) or callable(factor):
        schedule = as_schedule("scale", factor)
        return replace(_link("scale", {"factor": schedule.rate}), schedule=schedule)
    return _link("scale", {"factor": factor})


def scale_by_learning_rate(learning_rate: Rate) -> Settings:
    """The end of a chain without an optimizer: parameters go against what links made of gradients, times a rate.

    Args:
        learning_rate: The factor of the update, one of `tg.optim.schedules`, or a function of the step.

    Raises:
        OptionError: It is out of range.
    """
    if not isinstance(learning_rate, Schedule) and not callable(learning_rate):
        checked("scale_by_learning_rate", "learning_rate", learning_rate)
    return settings_of("sgd", learning_rate, None, None, {}, None)


def scale_by_adam(betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> Link:
    """The step of `adam` in place of the gradient, without its learning rate.

    Args:
        betas: How much of the means of the gradients and of their squares stays at each step.
        eps: Added to the root of the latter, after its bias correction.

    Raises:
        OptionError: A setting is out of range.
    """
    return _link("scale_by_adam", {**checked_betas("scale_by_adam", betas), "eps": eps})


def scale_by_rmsprop(alpha: float = 0.99, eps: float = 1e-8, momentum: float = 0.0, centered: bool = False) -> Link:
    """The step of `rmsprop` in place of the gradient, without its learning rate.

    Args:
        alpha: How much of the mean of the squares of the gradients stays at each step.
        eps: Added to the root of that mean.
        momentum: The factor of the running sum of updates; 0 keeps none.
        centered: Whether to divide by the deviation from the mean of the gradients.

    Raises:
        OptionError: A setting is out of range.
    """
    options = {"alpha": alpha, "eps": eps, "momentum": momentum, "centered": bool(centered)}
    return _link("scale_by_rmsprop", options)


def scale_by_adagrad(initial_accumulator_value: float = 0.0, eps: float = 1e-10) -> Link:
    """The step of `adagrad` in place of the gradient, without its learning rate.

    Args:
        initial_accumulator_value: What the sum of the squares of the gradients starts from.
        eps: Added to the root of that sum.

    Raises:
        OptionError: A setting is out of range.
    """
    return _link("scale_by_adagrad", {"initial_accumulator_value": initial_accumulator_value, "eps": eps})


def scale_by_lion(betas: tuple[float, float] = (0.9, 0.99)) -> Link:
    """The step of `lion` in place of the gradient, without its learning rate: a sign.

    Args:
        betas: How much of the mean goes into the direction, and how much of it stays at each step.

    Raises:
        OptionError: A setting is out of range.
    """
    return _link("scale_by_lion", checked_betas("scale_by_lion", betas))


def scale_by_sgd(momentum: float, dampening: float = 0.0, nesterov: bool = False) -> Link:
    """The step of `sgd` with momentum in place of the gradient, without its learning rate; optax calls it `trace`.

    Args:
        momentum: The factor of the running sum of gradients.
        dampening: How much of each gradient after the first is left out of that sum.
        nesterov: Whether to look ahead by the momentum.

    Raises:
        OptionError: A setting is out of range, or nesterov goes without momentum or with dampening.
    """
    if nesterov and (not momentum or dampening):
        raise OptionError("scale_by_sgd: nesterov needs a momentum, and no dampening")
    options = {"momentum": momentum, "dampening": dampening, "nesterov": bool(nesterov)}
    return _link("scale_by_sgd", options)
