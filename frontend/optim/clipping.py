"""Clips the gradients of eager tensors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import tensorgrad as tg
from tensorgrad.errors import GradientError, OptionError
from tensorgrad.nn.module import Module
from tensorgrad.ops.promotion import widened
from tensorgrad.optim.parameter_groups import by_name
from tensorgrad.tracing.grad_mode import no_grad
from tensorgrad.tracing.tensor import Tensor


def clip_gradients(parameters: Module | Mapping[str, Tensor] | Iterable[Tensor], max_norm: float) -> Tensor:
    """Scales the gradients of eager tensors down to a maximum global norm: by `max_norm / (norm + 1e-6)`, if below 1.

    In a compiled program, and where the norm isn't needed, an optimizer's `clip_norm=` does that.

    Args:
        parameters: A model on a device, or tensors: a list, or by name. Those without a gradient don't count.
        max_norm: The maximum norm; infinite to measure it alone.

    Returns:
        The norm before, without axes.

    Raises:
        OptionError: The norm is not more than 0.
        GradientError: No parameter has a gradient.

    Example:
        >>> x = tg.tensor([1.0, -2.0], device="numpy", requires_grad=True)
        >>> (1.5 * x * x).sum().backward()
        >>> float(tg.optim.clip_gradients([x], max_norm=1.0)) > 6
        True
        >>> round(float(tg.norm(x.grad)), 4)
        1.0
    """
    if not max_norm > 0:
        raise OptionError(f"clip_gradients: max_norm must be more than 0, got {max_norm!r}")
    held = [parameter for parameter in by_name(parameters).values() if parameter.grad is not None]
    if not held:
        raise GradientError("clip_gradients: no parameter has a gradient; call loss.backward() first")
    with no_grad():
        norm = tg.norm(tg.stack([tg.norm(widened(parameter.grad)) for parameter in held]))
        if max_norm != math.inf:
            scale = tg.minimum(max_norm / (norm + 1e-6), 1.0)
            for parameter in held:
                parameter.grad = tg.cast(widened(parameter.grad) * scale, parameter.grad.dtype)
    return norm
