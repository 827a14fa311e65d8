"""Adafactor and Muon: optimizers that treat parameters as matrices."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import tensorgrad as tg
from tensorgrad.errors import OptionError
from tensorgrad.optim.groups import Decay, Groups, check_choice
from tensorgrad.optim.optimizers import shrunk
from tensorgrad.optim.schedules import Rate, checked
from tensorgrad.optim.transforms import Optimizer, Transformation, no_state, optimizer, zeros_of
from tensorgrad.tracing.checks import checked_integer


def _adafactor_state(parameter: Any) -> Any:
    """Returns the state of Adafactor; means over an axis keep it, with extent 1."""
    shape = parameter.shape
    if len(shape) < 2:
        return {"v": tg.zeros(shape)}
    return {"row": tg.zeros((*shape[:-1], 1)), "column": tg.zeros((*shape[:-2], 1, shape[-1]))}


def _per_element(x: Any) -> Any:
    """Returns the root mean square of all elements."""
    # First over the last axis, so that rows are summed in parallel.
    squares = tg.sum(x * x, axis=-1) if x.ndim else x * x
    return tg.sqrt(tg.sum(squares) * (1 / x.size))


def _mean(x: Any, axis: int) -> Any:
    return tg.sum(x, axis=axis, keepdims=True) * (1 / x.shape[axis])


def _adafactor_variance(gradient: Any, state: Any, step: Any, least: Any, hyper: Any) -> Any:
    """Returns the second moment of a gradient; for a matrix, the product of those of its rows and columns."""
    squares, new = gradient * gradient, step**hyper.beta2_decay
    if "v" in state:
        square = state["v"] + (squares - state["v"]) * new
        return square, {"v": square}
    row = state["row"] + (_mean(squares, -1) - state["row"]) * new
    column = state["column"] + (_mean(squares, -2) - state["column"]) * new
    return row * column / tg.maximum(_mean(row, -2), least), {"row": row, "column": column}


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
) -> Optimizer:
    """Adafactor (Shazeer and Stern, 2018), with PyTorch's formulas: the state of a matrix is one row and one column.

    Steps are proportional to the norm of the parameter. Since every parameter has its own norms, one kernel can't
    update them all; their updates are co-scheduled, in a few more dispatches than those of other optimizers.

    Args:
        learning_rate: The largest size of the update, one of `tg.optim.schedules`, or a function of the step; it falls
            with the square root of the step.
        beta2_decay: The exponent of the step in the weight of new squares in their running mean; at most 0.
        eps: The least divisor of a gradient, where `None` is the distance from 1 to the next float; and the least
            norm of a parameter, per element, to which the step is proportional.
        d: The largest norm of an update, per element; at least 1.
        weight_decay: The fraction of a parameter that each step subtracts, times the learning rate.
        decay: Which parameters decay, by name: a glob such as `*.weight`, several, or a predicate; all by default.
        clip_norm: The global norm to which larger gradients are scaled down.
        groups: Settings that some parameters override, by pattern; for each setting, the last matching pattern that
            sets it applies.

    Raises:
        OptionError: A setting is out of range.

    Example:
        >>> x = tg.tensor([1.0, -2.0], device="numpy", requires_grad=True)
        >>> x.grad = tg.tensor([3.0, 0.5], device="numpy")
        >>> tg.optim.Stepper([x], tg.optim.adafactor(0.5)).step()
        >>> x.detach()
        Array([ 0.20943058, -2.7905693 ], dtype=f32, device='numpy')
    """
    try:
        eps1, eps2 = eps
    except (TypeError, ValueError):
        raise OptionError(f"adafactor: eps must be two numbers, or None and a number, got {eps!r}") from None

    def update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        least = hyper.eps1 if eps1 is not None else 2.0**-52 if parameter.dtype == tg.f64 else 2.0**-23
        variance, state = _adafactor_variance(gradient, state, step, least, hyper)
        move = gradient / tg.sqrt(tg.maximum(variance, least * least))
        rate = hyper.learning_rate.minimum(1 / step.sqrt()) * tg.maximum(_per_element(parameter), hyper.eps2)
        return shrunk(parameter, hyper) - move * (rate / tg.maximum(_per_element(move) / hyper.d, 1.0)), state

    settings = {"beta2_decay": beta2_decay, "eps2": eps2, "d": d, "weight_decay": weight_decay}
    settings |= {} if eps1 is None else {"eps1": eps1}
    return optimizer(
        "adafactor", _adafactor_state, update, learning_rate, settings, decay=decay, clip_norm=clip_norm, groups=groups
    )


def _muon_momentum(nesterov: bool) -> Any:
    def update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        momentum, new = hyper.momentum, 1 - hyper.momentum
        mean = state["m"] * momentum + gradient * new
        return (mean * momentum + gradient * new if nesterov else mean), {"m": mean}

    return Transformation("muon", zeros_of("m"), update, batched=True)


def _orthogonalized(steps: int, coefficients: tuple[float, float, float], adjust: str | None) -> Any:
    """Approximately orthogonalizes a matrix by a Newton-Schulz iteration (Jordan et al., 2024)."""
    first, second, third = coefficients

    def update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        rows, columns = gradient.shape
        x = tg.transpose(gradient) if rows > columns else gradient
        x = x / tg.maximum(tg.sqrt(tg.sum(tg.sum(x * x, axis=1))), hyper.eps)  # first per row, in parallel
        for _ in range(steps):
            gram = tg.einsum("ik,jk->ij", x, x)
            x = x * first + (gram * second + gram @ gram * third) @ x
        x = tg.transpose(x) if rows > columns else x
        wide = adjust == "match_rms_adamw"
        return x * (0.2 * math.sqrt(max(rows, columns)) if wide else math.sqrt(max(1.0, columns / rows))), state

    return Transformation("muon", no_state, update, batched=True)


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
    others: Optimizer | None = None,
    decay: Decay | None = None,
    clip_norm: float | None = None,
    groups: Groups | None = None,
) -> Optimizer:
    """Muon (Jordan et al., 2024), with PyTorch's formulas: matrices move along their orthogonalized momentum.

    It is for the matrices of hidden layers. Everything else needs `others`, and embeddings and the last layer do better
    with it: `muon(0.02, only="blocks.*.weight", others=adamw(3e-4))`. The Newton-Schulz iteration computes in the dtype
    of the optimizer's state, while PyTorch's uses bfloat16; matrices of the same shape are batched.

    Args:
        learning_rate: The factor of the update, one of `tg.optim.schedules`, or a function of the step.
        weight_decay: The fraction of a parameter that each step subtracts, times the learning rate.
        momentum: The decay rate of the running mean of the gradients.
        nesterov: Whether to use Nesterov momentum.
        ns_coefficients: The coefficients of `x`, `x ** 3` and `x ** 5` in the iteration's polynomial.
        eps: The least norm that a matrix is divided by.
        ns_steps: The number of iterations; less than 100.
        adjust_lr_fn: How the rate is scaled for a matrix of shape `[in, out]`, as in `Linear` (PyTorch's is
            transposed): `None` and "original" use the square root of `out / in`, if that is above 1, and
            "match_rms_adamw" 0.2 times the square root of the larger extent.
        only: Which matrices it updates, by name: a glob, several, or a predicate; all by default.
        others: The optimizer of all other parameters, such as `adamw(3e-4)`; `Training.set(group="others", ...)`
            changes its settings. It can't have links or `clip_norm`: those of this one apply to all gradients.
        decay: Which parameters decay, by name: a glob such as `*.weight`, several, or a predicate; all by default.
        clip_norm: The global norm to which larger gradients are scaled down.
        groups: Settings that some parameters override, by pattern; for each setting, the last matching pattern that
            sets it applies.

    Raises:
        OptionError: A setting is out of range.

    Example:
        >>> x = tg.tensor(np.eye(2), dtype="f32", device="numpy", requires_grad=True)
        >>> (x @ x).sum().backward()
        >>> tg.optim.Stepper([x], tg.optim.muon(0.1)).step()
        >>> x.detach()
        Array([[ 0.9551782 , -0.03482182],
         [-0.03482182,  0.9551782 ]], dtype=f32, device='numpy')
    """
    try:
        first, second, third = (float(coefficient) for coefficient in ns_coefficients)
    except (TypeError, ValueError):
        raise OptionError(f"muon: ns_coefficients must be three numbers, got {ns_coefficients!r}") from None
    if not all(map(math.isfinite, (first, second, third))):
        raise OptionError(f"muon: ns_coefficients must be finite, got {ns_coefficients!r}")
    ns_steps = checked_integer(ns_steps, "muon: ns_steps", 0, 99)
    if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
        raise OptionError(f"muon: adjust_lr_fn must be 'original' or 'match_rms_adamw', got {adjust_lr_fn!r}")
    check_choice("muon", only, "only")
    if others is not None and (
        not isinstance(others, Optimizer) or others.name == "muon" or others.links or others.clip_norm is not None
    ):
        raise OptionError(
            f"muon: others must be another optimizer, without links or clip_norm, which go with muon, got {others!r}"
        )
    checked("muon", "momentum", momentum, below=math.nextafter(1, 2))

    def update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        return shrunk(parameter, hyper) - gradient * hyper.learning_rate, state

    settings = {"weight_decay": weight_decay, "momentum": momentum, "eps": eps}
    muon_optimizer = optimizer(
        "muon", no_state, update, learning_rate, settings, decay=decay, clip_norm=clip_norm, groups=groups
    )
    if others is not None and "others" in muon_optimizer.groups:
        raise OptionError(
            "muon: a group 'others' has the name of the other optimizer's settings; write it as '[o]thers'"
        )
    inner = _muon_momentum(nesterov), _orthogonalized(ns_steps, (first, second, third), adjust_lr_fn)
    return replace(muon_optimizer, inner=inner, only=only, others=others, rank=2)
