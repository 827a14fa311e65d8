"""The built-in optimizers, written like custom ones: two functions of tensors each; see `optimizer`.

Formulas are PyTorch's if it has the optimizer. The steps of some are also links of `chain`, such as `scale_by_adam`:
both use `_adam_step`, which returns the value to subtract from the parameter.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tensorgrad as tg
from tensorgrad.errors import OptionError
from tensorgrad.optim.groups import Decay, Groups
from tensorgrad.optim.schedules import Rate, checked
from tensorgrad.optim.settings import checked_betas
from tensorgrad.optim.transforms import Optimizer, Transformation, no_state, optimizer, transformation, zeros_of


def _decayed(gradient: Any, parameter: Any, hyper: Any) -> Any:
    """Returns the gradient of the loss and of `weight_decay / 2` times the square of the parameter."""
    return gradient + parameter * hyper.weight_decay if hyper.weight_decay else gradient


def shrunk(parameter: Any, hyper: Any) -> Any:
    """Returns the parameter after decoupled weight decay (Loshchilov and Hutter, 2019)."""
    return parameter * (1 - hyper.learning_rate * hyper.weight_decay) if hyper.weight_decay else parameter


def _sgd_step(gradient: Any, state: Any, step: Any, hyper: Any, nesterov: bool) -> Any:
    if not state:
        return gradient, {}
    # The first gradient is not dampened.
    added = gradient * (step == 1).select(1.0, 1 - hyper.dampening) if hyper.dampening else gradient
    velocity = state["momentum"] * hyper.momentum + added
    return (gradient + velocity * hyper.momentum if nesterov else velocity), {"momentum": velocity}


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
) -> Optimizer:
    """Stochastic gradient descent, with PyTorch's formulas.

    Args:
        learning_rate: The factor of the update, one of `tg.optim.schedules`, or a function of the step.
        momentum: The factor of the running sum of gradients; 0 means none.
        dampening: The fraction of each gradient after the first that is left out of that sum.
        nesterov: Whether to use Nesterov momentum.
        weight_decay: The factor with which the parameter is added to its gradient.
        decay: Which parameters decay, by name: a glob such as `*.weight`, several, or a predicate; all by default.
        clip_norm: The global norm to which larger gradients are scaled down.
        groups: Settings that some parameters override, by pattern; for each setting, the last matching pattern that
            sets it applies.

    Raises:
        OptionError: A setting is out of range, or nesterov is used without momentum or with dampening.

    Example:
        >>> x = tg.tensor([1.0, -2.0], device="numpy", requires_grad=True)
        >>> x.grad = tg.tensor([3.0, 0.5], device="numpy")
        >>> tg.optim.Stepper([x], tg.optim.sgd(0.5)).step()
        >>> x.detach()
        Array([-0.5 , -2.25], dtype=f32, device='numpy')
    """

    def update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        gradient = _decayed(gradient, parameter, hyper)
        direction, state = _sgd_step(gradient, state, step, hyper, nesterov)
        return parameter - direction * hyper.learning_rate, state

    settings = {"momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
    result = optimizer(
        "sgd", no_state, update, learning_rate, settings, decay=decay, clip_norm=clip_norm, groups=groups
    )
    if nesterov and (not momentum or dampening or any(group.get("dampening") for group in result.groups.values())):
        raise OptionError("sgd: nesterov needs a momentum, and no dampening")
    return replace(result, init=zeros_of("momentum")) if result.uses("momentum") else result


def scale_by_sgd(momentum: float, dampening: float = 0.0, nesterov: bool = False) -> Transformation:
    """Replaces the gradient by the step of `sgd` with momentum, without its learning rate; optax calls it `trace`.

    Args:
        momentum: The factor of the running sum of gradients.
        dampening: The fraction of each gradient after the first that is left out of that sum.
        nesterov: Whether to use Nesterov momentum.

    Raises:
        OptionError: A setting is out of range, or nesterov is used without momentum or with dampening.

    Example:
        >>> x = tg.tensor([1.0, -2.0], device="numpy", requires_grad=True)
        >>> x.grad = tg.tensor([3.0, 0.5], device="numpy")
        >>> chain = tg.optim.chain(tg.optim.scale_by_sgd(0.9), tg.optim.scale_by_learning_rate(0.5))
        >>> tg.optim.Stepper([x], chain).step()
        >>> x.detach()
        Array([-0.5 , -2.25], dtype=f32, device='numpy')
    """
    if nesterov and (not momentum or dampening):
        raise OptionError("scale_by_sgd: nesterov needs a momentum, and no dampening")

    def update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        return _sgd_step(gradient, state, step, hyper, nesterov)

    return transformation("scale_by_sgd", zeros_of("momentum"), update, {"momentum": momentum, "dampening": dampening})


def scale_by_learning_rate(learning_rate: Rate) -> Optimizer:
    """Ends a chain without an optimizer: subtracts the transformed gradients from the parameters, times a rate.

    Args:
        learning_rate: The factor of the update, one of `tg.optim.schedules`, or a function of the step.

    Raises:
        OptionError: It is out of range.

    Example:
        >>> x = tg.tensor([1.0, -2.0], device="numpy", requires_grad=True)
        >>> x.grad = tg.tensor([3.0, 0.5], device="numpy")
        >>> tg.optim.Stepper([x], tg.optim.chain(tg.optim.scale(2.0), tg.optim.scale_by_learning_rate(0.5))).step()
        >>> x.detach()
        Array([-2. , -2.5], dtype=f32, device='numpy')
    """
    if not callable(learning_rate):
        checked("scale_by_learning_rate", "learning_rate", learning_rate)

    def update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        return parameter - gradient * hyper.learning_rate, state

    return optimizer("sgd", no_state, update, learning_rate)


def _adam_step(gradient: Any, state: Any, step: Any, hyper: Any, rate: Any) -> Any:
    mean = state["m"] + (gradient - state["m"]) * (1 - hyper.beta1)
    square = state["v"] * hyper.beta2 + gradient * gradient * (1 - hyper.beta2)
    root = tg.sqrt(square) / (1 - hyper.beta2**step).sqrt()
    return rate / (1 - hyper.beta1**step) * (mean / (root + hyper.eps)), {"m": mean, "v": square}


def adam(
    learning_rate: Rate = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    *,
    decay: Decay | None = None,
    clip_norm: float | None = None,
    groups: Groups | None = None,
) -> Optimizer:
    """Adam, with PyTorch's formulas.

    Args:
        learning_rate: The factor of the update, one of `tg.optim.schedules`, or a function of the step.
        betas: The decay rates of the running means of the gradients and of their squares.
        eps: Added to the square root of the latter, after its bias correction.
        weight_decay: The factor with which the parameter is added to its gradient.
        decay: Which parameters decay, by name: a glob such as `*.weight`, several, or a predicate; all by default.
        clip_norm: The global norm to which larger gradients are scaled down.
        groups: Settings that some parameters override, by pattern; for each setting, the last matching pattern that
            sets it applies.

    Raises:
        OptionError: A setting is out of range.

    Example:
        >>> x = tg.tensor([1.0, -2.0], device="numpy", requires_grad=True)
        >>> x.grad = tg.tensor([3.0, 0.5], device="numpy")
        >>> tg.optim.Stepper([x], tg.optim.adam(0.5)).step()
        >>> x.detach()
        Array([ 0.5, -2.5], dtype=f32, device='numpy')
    """

    def update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        gradient = _decayed(gradient, parameter, hyper)
        move, state = _adam_step(gradient, state, step, hyper, hyper.learning_rate)
        return parameter - move, state

    settings = {**checked_betas("adam", betas), "eps": eps, "weight_decay": weight_decay}
    return optimizer(
        "adam", zeros_of("m", "v"), update, learning_rate, settings, decay=decay, clip_norm=clip_norm, groups=groups
    )


def adamw(
    learning_rate: Rate = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 1e-2,
    *,
    decay: Decay | None = None,
    clip_norm: float | None = None,
    groups: Groups | None = None,
) -> Optimizer:
    """Adam with decoupled weight decay, with PyTorch's formulas.

    Args:
        learning_rate: The factor of the update, one of `tg.optim.schedules`, or a function of the step.
        betas: The decay rates of the running means of the gradients and of their squares.
        eps: Added to the square root of the latter, after its bias correction.
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
        >>> tg.optim.Stepper([x], tg.optim.adamw(0.5)).step()
        >>> x.detach()
        Array([ 0.49500003, -2.49      ], dtype=f32, device='numpy')
    """

    def update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        move, state = _adam_step(gradient, state, step, hyper, hyper.learning_rate)
        return shrunk(parameter, hyper) - move, state

    settings = {**checked_betas("adamw", betas), "eps": eps, "weight_decay": weight_decay}
    result = optimizer(
        "adamw", zeros_of("m", "v"), update, learning_rate, settings, decay=decay, clip_norm=clip_norm, groups=groups
    )
    return replace(result, state="adam")


def scale_by_adam(betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> Transformation:
    """Returns the step of `adam` instead of the gradient, without its learning rate.

    Args:
        betas: The decay rates of the running means of the gradients and of their squares.
        eps: Added to the square root of the latter, after its bias correction.

    Raises:
        OptionError: A setting is out of range.

    Example:
        >>> x = tg.tensor([1.0, -2.0], device="numpy", requires_grad=True)
        >>> x.grad = tg.tensor([3.0, 0.5], device="numpy")
        >>> chain = tg.optim.chain(tg.optim.scale_by_adam(), tg.optim.scale_by_learning_rate(0.5))
        >>> tg.optim.Stepper([x], chain).step()
        >>> x.detach()
        Array([ 0.5, -2.5], dtype=f32, device='numpy')
    """

    def update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        return _adam_step(gradient, state, step, hyper, 1.0)

    settings = {**checked_betas("scale_by_adam", betas), "eps": eps}
    return transformation("scale_by_adam", zeros_of("m", "v"), update, settings)


def _rmsprop_step(gradient: Any, state: Any, hyper: Any, centered: bool) -> Any:
    new = 1 - hyper.alpha
    square = variance = state["v"] * hyper.alpha + gradient * gradient * new
    new_state = {"v": square}
    if centered:
        mean = new_state["m"] = state["m"] + (gradient - state["m"]) * new
        variance = square - mean * mean
        # Rounding may make the square of the mean larger than the mean of the squares.
        variance = tg.where(variance < 0.0, 0.0, variance)
    move = gradient / (tg.sqrt(variance) + hyper.eps)
    if hyper.momentum:
        move = new_state["momentum"] = state["momentum"] * hyper.momentum + move
    return move, new_state


def _rmsprop_state(centered: bool, momentum: bool) -> tuple[str, ...]:
    return ("v", *(["m"] if centered else []), *(["momentum"] if momentum else []))


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
) -> Optimizer:
    """RMSprop, with PyTorch's formulas.

    Args:
        learning_rate: The factor of the update, one of `tg.optim.schedules`, or a function of the step.
        alpha: The decay rate of the running mean of squared gradients.
        eps: Added to the square root of that mean.
        weight_decay: The factor with which the parameter is added to its gradient.
        momentum: The factor of the running sum of updates; 0 means none.
        centered: Whether to divide by the deviation from the mean of the gradients.
        decay: Which parameters decay, by name: a glob such as `*.weight`, several, or a predicate; all by default.
        clip_norm: The global norm to which larger gradients are scaled down.
        groups: Settings that some parameters override, by pattern; for each setting, the last matching pattern that
            sets it applies.

    Raises:
        OptionError: A setting is out of range.

    Example:
        >>> x = tg.tensor([1.0, -2.0], device="numpy", requires_grad=True)
        >>> x.grad = tg.tensor([3.0, 0.5], device="numpy")
        >>> tg.optim.Stepper([x], tg.optim.rmsprop(0.05)).step()
        >>> x.detach()
        Array([ 0.5, -2.5], dtype=f32, device='numpy')
    """

    def update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        gradient = _decayed(gradient, parameter, hyper)
        move, state = _rmsprop_step(gradient, state, hyper, centered)
        return parameter - move * hyper.learning_rate, state

    settings = {"alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum}
    result = optimizer(
        "rmsprop", no_state, update, learning_rate, settings, decay=decay, clip_norm=clip_norm, groups=groups
    )
    return replace(result, init=zeros_of(*_rmsprop_state(centered, result.uses("momentum"))))


def scale_by_rmsprop(
    alpha: float = 0.99, eps: float = 1e-8, momentum: float = 0.0, centered: bool = False
) -> Transformation:
    """Returns the step of `rmsprop` instead of the gradient, without its learning rate.

    Args:
        alpha: The decay rate of the running mean of squared gradients.
        eps: Added to the square root of that mean.
        momentum: The factor of the running sum of updates; 0 means none.
        centered: Whether to divide by the deviation from the mean of the gradients.

    Raises:
        OptionError: A setting is out of range.

    Example:
        >>> x = tg.tensor([1.0, -2.0], device="numpy", requires_grad=True)
        >>> x.grad = tg.tensor([3.0, 0.5], device="numpy")
        >>> chain = tg.optim.chain(tg.optim.scale_by_rmsprop(), tg.optim.scale_by_learning_rate(0.05))
        >>> tg.optim.Stepper([x], chain).step()
        >>> x.detach()
        Array([ 0.5, -2.5], dtype=f32, device='numpy')
    """

    def update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        return _rmsprop_step(gradient, state, hyper, centered)

    states = _rmsprop_state(centered, bool(momentum))
    settings = {"alpha": alpha, "eps": eps, "momentum": momentum}
    return transformation("scale_by_rmsprop", zeros_of(*states), update, settings)


def _adagrad_step(gradient: Any, state: Any, hyper: Any) -> Any:
    squares = state["sum"] + gradient * gradient
    return gradient / (tg.sqrt(squares) + hyper.eps), {"sum": squares}


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
) -> Optimizer:
    """Adagrad, with PyTorch's formulas.

    Args:
        learning_rate: The factor of the update, one of `tg.optim.schedules`, or a function of the step.
        lr_decay: The decay of the learning rate, which is divided by `1 + lr_decay` times the previous steps.
        weight_decay: The factor with which the parameter is added to its gradient.
        initial_accumulator_value: The initial value of the sum of squared gradients.
        eps: Added to the square root of that sum.
        decay: Which parameters decay, by name: a glob such as `*.weight`, several, or a predicate; all by default.
        clip_norm: The global norm to which larger gradients are scaled down.
        groups: Settings that some parameters override, by pattern; for each setting, the last matching pattern that
            sets it applies.

    Raises:
        OptionError: A setting is out of range.

    Example:
        >>> x = tg.tensor([1.0, -2.0], device="numpy", requires_grad=True)
        >>> x.grad = tg.tensor([3.0, 0.5], device="numpy")
        >>> tg.optim.Stepper([x], tg.optim.adagrad(0.5)).step()
        >>> x.detach()
        Array([ 0.5, -2.5], dtype=f32, device='numpy')
    """
    start = checked("adagrad", "initial_accumulator_value", initial_accumulator_value)

    def init(parameter: Any) -> Any:
        return {"sum": tg.full(parameter.shape, start)}

    def update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        gradient = _decayed(gradient, parameter, hyper)
        move, state = _adagrad_step(gradient, state, hyper)
        rate = hyper.learning_rate
        return parameter - move * (rate / (1 + (step - 1) * hyper.lr_decay) if hyper.lr_decay else rate), state

    settings = {"lr_decay": lr_decay, "weight_decay": weight_decay, "eps": eps}
    return optimizer("adagrad", init, update, learning_rate, settings, decay=decay, clip_norm=clip_norm, groups=groups)


def scale_by_adagrad(initial_accumulator_value: float = 0.0, eps: float = 1e-10) -> Transformation:
    """Returns the step of `adagrad` instead of the gradient, without its learning rate.

    Args:
        initial_accumulator_value: The initial value of the sum of squared gradients.
        eps: Added to the square root of that sum.

    Raises:
        OptionError: A setting is out of range.

    Example:
        >>> x = tg.tensor([1.0, -2.0], device="numpy", requires_grad=True)
        >>> x.grad = tg.tensor([3.0, 0.5], device="numpy")
        >>> chain = tg.optim.chain(tg.optim.scale_by_adagrad(), tg.optim.scale_by_learning_rate(0.5))
        >>> tg.optim.Stepper([x], chain).step()
        >>> x.detach()
        Array([ 0.5, -2.5], dtype=f32, device='numpy')
    """
    start = checked("scale_by_adagrad", "initial_accumulator_value", initial_accumulator_value)

    def init(parameter: Any) -> Any:
        return {"sum": tg.full(parameter.shape, start)}

    def update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        return _adagrad_step(gradient, state, hyper)

    return transformation("scale_by_adagrad", init, update, {"eps": eps})


def _lion_step(gradient: Any, state: Any, hyper: Any) -> Any:
    blend = state["m"] * hyper.beta1 + gradient * (1 - hyper.beta1)
    return tg.sign(blend), {"m": state["m"] * hyper.beta2 + gradient * (1 - hyper.beta2)}


def lion(
    learning_rate: Rate = 1e-4,
    betas: tuple[float, float] = (0.9, 0.99),
    weight_decay: float = 0.0,
    *,
    decay: Decay | None = None,
    clip_norm: float | None = None,
    groups: Groups | None = None,
) -> Optimizer:
    """Lion (Chen et al., 2023): steps of constant size, in the direction of the sign of a mean of the gradients.

    Args:
        learning_rate: The size of the update, one of `tg.optim.schedules`, or a function of the step.
        betas: The weight of the mean in the direction, and the decay rate of the mean.
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
        >>> tg.optim.Stepper([x], tg.optim.lion(0.5)).step()
        >>> x.detach()
        Array([ 0.5, -2.5], dtype=f32, device='numpy')
    """

    def update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        direction, state = _lion_step(gradient, state, hyper)
        return shrunk(parameter, hyper) - direction * hyper.learning_rate, state

    settings = {**checked_betas("lion", betas), "weight_decay": weight_decay}
    return optimizer(
        "lion", zeros_of("m"), update, learning_rate, settings, decay=decay, clip_norm=clip_norm, groups=groups
    )


def scale_by_lion(betas: tuple[float, float] = (0.9, 0.99)) -> Transformation:
    """Returns the step of `lion` instead of the gradient, without its learning rate: a sign.

    Args:
        betas: The weight of the mean in the direction, and the decay rate of the mean.

    Raises:
        OptionError: A setting is out of range.

    Example:
        >>> x = tg.tensor([1.0, -2.0], device="numpy", requires_grad=True)
        >>> x.grad = tg.tensor([3.0, 0.5], device="numpy")
        >>> chain = tg.optim.chain(tg.optim.scale_by_lion(), tg.optim.scale_by_learning_rate(0.5))
        >>> tg.optim.Stepper([x], chain).step()
        >>> x.detach()
        Array([ 0.5, -2.5], dtype=f32, device='numpy')
    """

    def update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        return _lion_step(gradient, state, hyper)

    return transformation("scale_by_lion", zeros_of("m"), update, checked_betas("scale_by_lion", betas))
