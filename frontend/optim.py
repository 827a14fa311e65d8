"""Optimizers: settings, which the compiler turns into a part of the training step."""

from __future__ import annotations

import math

from tensorgrad import schedules
from tensorgrad.errors import OptionError
from tensorgrad.optimizer import Decay, Groups, Link, Optimizer, Settings, checked_betas, settings_of
from tensorgrad.optimizer_chain import (
    add_decayed_weights,
    chain,
    clip,
    clip_by_global_norm,
    ema,
    normalize,
    scale,
    scale_by_adagrad,
    scale_by_adam,
    scale_by_learning_rate,
    scale_by_lion,
    scale_by_rmsprop,
    scale_by_sgd,
)
from tensorgrad.schedules import Schedule, checked

__all__ = [
    "Link",
    "Optimizer",
    "Schedule",
    "Settings",
    "adagrad",
    "adam",
    "adamw",
    "add_decayed_weights",
    "chain",
    "clip",
    "clip_by_global_norm",
    "ema",
    "lion",
    "normalize",
    "rmsprop",
    "scale",
    "scale_by_adagrad",
    "scale_by_adam",
    "scale_by_learning_rate",
    "scale_by_lion",
    "scale_by_rmsprop",
    "scale_by_sgd",
    "schedules",
    "sgd",
]


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
    settings = settings_of("sgd", learning_rate, clip_norm, decay, options, groups)
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
    options = {**checked_betas("adam", betas), "eps": eps, "weight_decay": weight_decay}
    return settings_of("adam", learning_rate, clip_norm, decay, options, groups)


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
    options = {**checked_betas("adamw", betas), "eps": eps, "weight_decay": weight_decay}
    return settings_of("adamw", learning_rate, clip_norm, decay, options, groups)


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
    return settings_of("rmsprop", learning_rate, clip_norm, decay, options, groups)


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
    return settings_of("adagrad", learning_rate, clip_norm, decay, options, groups)


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
    return settings_of(
        "lion", learning_rate, clip_norm, decay, {**checked_betas("lion", betas), "weight_decay": weight_decay}, groups
    )
