"""Optimizers: settings, which the compiler turns into a part of the training step."""

from __future__ import annotations

import math
from dataclasses import replace

from tensorgrad.errors import OptionError
from tensorgrad.optim import schedules
from tensorgrad.optim.chain import (
    add_decayed_weights,
    chain,
    clip,
    clip_by_global_norm,
    ema,
    normalize,
    normalize_per_parameter,
    scale,
    scale_by_adagrad,
    scale_by_adam,
    scale_by_learning_rate,
    scale_by_lion,
    scale_by_rmsprop,
    scale_by_sgd,
)
from tensorgrad.optim.optimizer import Decay, Groups, Link, Optimizer, Settings, check_decay, checked_betas, settings_of
from tensorgrad.optim.schedules import Rate, Schedule, checked

__all__ = [
    "Link",
    "Optimizer",
    "Schedule",
    "Settings",
    "adafactor",
    "adagrad",
    "adam",
    "adamw",
    "add_decayed_weights",
    "chain",
    "clip",
    "clip_by_global_norm",
    "ema",
    "lion",
    "muon",
    "normalize",
    "normalize_per_parameter",
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
    learning_rate: Rate,
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
        learning_rate: The factor of the update, one of `tg.optim.schedules`, or a function of the step.
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
    learning_rate: Rate = 1e-3,
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
        learning_rate: The factor of the update, one of `tg.optim.schedules`, or a function of the step.
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
    learning_rate: Rate = 1e-3,
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
        learning_rate: The factor of the update, one of `tg.optim.schedules`, or a function of the step.
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
    learning_rate: Rate = 1e-2,
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
        learning_rate: The factor of the update, one of `tg.optim.schedules`, or a function of the step.
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
    learning_rate: Rate = 1e-2,
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
        learning_rate: The factor of the update, one of `tg.optim.schedules`, or a function of the step.
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
    learning_rate: Rate = 1e-4,
    betas: tuple[float, float] = (0.9, 0.99),
    weight_decay: float = 0.0,
    *,
    decay: Decay | None = None,
    clip_norm: float | None = None,
    groups: Groups | None = None,
) -> Settings:
    """Lion (Chen et al., 2023): steps of one size, in the direction of the sign of a mean of the gradients.

    Args:
        learning_rate: The size of the update, one of `tg.optim.schedules`, or a function of the step.
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


def adafactor(
    learning_rate: Rate = 1e-2,
    beta2_decay: float = -0.8,
    eps: tuple[float | None, float] = (None, 1e-3),
    d: float = 1.0,
    weight_decay: float = 0.0,
    *,
    decay: Decay | None = None,
    clip_norm: float | None = None,
    groups: Groups | None = None,
) -> Settings:
    """Adafactor (Shazeer and Stern, 2018), by PyTorch's formulas: state of one row and one column for a matrix.

    Steps are in proportion to the norm of the parameter. Each parameter has norms of its own, so one kernel can't
    update them all; what is computed for several runs side by side, in a few dispatches more than others take.

    Args:
        learning_rate: The largest size of the update, one of `tg.optim.schedules`, or a function of the step; it falls
            by the root of the step.
        beta2_decay: The exponent of the step that says how much of the means of squares is new; at most 0.
        eps: The least divisor of a gradient, where `None` is the distance from 1 to the next float; and the least norm
            of a parameter, per element, that the step is taken in proportion to.
        d: The largest norm of an update, per element; at least 1.
        weight_decay: How much of a parameter each step takes off it, times the learning rate.
        decay: Which parameters decay, by name: a glob such as `*.weight`, several, or a predicate; all if absent.
        clip_norm: The norm of all gradients together above which they are scaled down to it.
        groups: Settings that some parameters have of their own, by pattern; for each setting, the last pattern that
            fits and gives it counts.

    Raises:
        OptionError: A setting is out of range.
    """
    try:
        eps1, eps2 = eps
    except (TypeError, ValueError):
        raise OptionError(f"adafactor: eps must be two numbers, or None and a number, got {eps!r}") from None
    options = {"beta2_decay": beta2_decay, "eps2": eps2, "d": d, "weight_decay": weight_decay}
    options |= {} if eps1 is None else {"eps1": eps1}
    return settings_of("adafactor", learning_rate, clip_norm, decay, options, groups)


def muon(
    learning_rate: Rate = 1e-3,
    weight_decay: float = 0.1,
    momentum: float = 0.95,
    nesterov: bool = True,
    ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
    eps: float = 1e-7,
    ns_steps: int = 5,
    adjust_lr_fn: str | None = None,
    *,
    only: Decay | None = None,
    others: Settings | None = None,
    decay: Decay | None = None,
    clip_norm: float | None = None,
    groups: Groups | None = None,
) -> Settings:
    """Muon (Jordan et al., 2024), by PyTorch's formulas: matrices move along an orthogonal matrix near their momentum.

    It is for the matrices of hidden layers. Everything else needs `others`, and embeddings and a last layer do better
    with it: `muon(0.02, only="blocks.*.weight", others=adamw(3e-4))`. The Newton-Schulz iteration computes in the dtype
    of the optimizer's state, where PyTorch's is in bfloat16; matrices of one shape go through it together.

    Args:
        learning_rate: The factor of the update, one of `tg.optim.schedules`, or a function of the step.
        weight_decay: How much of a parameter each step takes off it, times the learning rate.
        momentum: How much of the mean of the gradients stays at each step.
        nesterov: Whether to look ahead by the momentum.
        ns_coefficients: Those of the iteration's polynomial, of `x`, of `x ** 3` and of `x ** 5`.
        eps: The least norm that a matrix is divided by.
        ns_steps: How often the iteration runs; less than 100.
        adjust_lr_fn: What the rate is scaled by for a matrix of shape `[in, out]`, as `Linear` has it (PyTorch's is the
            other way round): `None` and "original" are the root of `out / in`, where that is above 1,
            "match_rms_adamw" 0.2 times the root of the larger.
        only: Which matrices it updates, by name: a glob, several, or a predicate; all if absent.
        others: The optimizer of all other parameters, such as `adamw(3e-4)`; its settings change by
            `Training.set(group="others", ...)`. Without links and `clip_norm`: those of this one are for all gradients.
        decay: Which parameters decay, by name: a glob such as `*.weight`, several, or a predicate; all if absent.
        clip_norm: The norm of all gradients together above which they are scaled down to it.
        groups: Settings that some parameters have of their own, by pattern; for each setting, the last pattern that
            fits and gives it counts.

    Raises:
        OptionError: A setting is out of range.
    """
    try:
        first, second, third = (float(one) for one in ns_coefficients)
    except (TypeError, ValueError):
        raise OptionError(f"muon: ns_coefficients must be three numbers, got {ns_coefficients!r}") from None
    if not all(map(math.isfinite, (first, second, third))):
        raise OptionError(f"muon: ns_coefficients must be finite, got {ns_coefficients!r}")
    if isinstance(ns_steps, bool) or not isinstance(ns_steps, int) or not 0 <= ns_steps < 100:
        raise OptionError(f"muon: ns_steps must be an integer from 0 to below 100, got {ns_steps!r}")
    adjustments = {None: "original", "original": "original", "match_rms_adamw": "match_rms_adamw"}
    if adjust_lr_fn not in adjustments:
        raise OptionError(f"muon: adjust_lr_fn must be 'original' or 'match_rms_adamw', got {adjust_lr_fn!r}")
    check_decay("muon", only, "only")
    if others is not None and (
        not isinstance(others, Settings) or others.name == "muon" or others.links or others.clip_norm is not None
    ):
        raise OptionError(
            f"muon: others must be another optimizer, without links or clip_norm, which go with muon, got {others!r}"
        )
    checked("muon", "momentum", momentum, below=math.nextafter(1, 2))
    options = {"weight_decay": weight_decay, "momentum": momentum, "nesterov": bool(nesterov), "eps": eps}
    fixed = {"coefficients": (first, second, third), "steps": ns_steps, "adjust": adjustments[adjust_lr_fn]}
    settings = settings_of("muon", learning_rate, clip_norm, decay, options, groups)
    if others is not None and "others" in settings.groups:
        raise OptionError(
            "muon: a group 'others' has the name of the other optimizer's settings; write it as '[o]thers'"
        )
    return replace(settings, fixed=fixed, only=only, others=others, rank=2)
