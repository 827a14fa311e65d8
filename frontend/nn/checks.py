"""Checks shared by layers."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

from tensorgrad.errors import OptionError, ShapeError
from tensorgrad.nn.module import Module
from tensorgrad.ops.promotion import as_tensor
from tensorgrad.tracing.checks import checked_extent


def positive(layer: str, **extents: Any) -> tuple[int, ...]:
    """Returns positive integers as Python integers.

    Raises:
        ShapeError: One is none; names it.
    """
    return tuple(checked_extent(extent, f"{layer}: {name}", 1) for name, extent in extents.items())


def listed(layer: str, name: str, value: int | Sequence[int], count: int | None = None) -> tuple[int, ...]:
    """Returns positive integers from a single one, repeated for each of `count` axes, or from a sequence.

    Raises:
        ShapeError: They are not positive integers, or not `count` of them.
    """
    repeated = [value] * (1 if count is None else count)
    extents: list[Any] = list(value) if isinstance(value, (tuple, list)) else repeated
    if not extents or (count is not None and len(extents) != count):
        expected = "positive integers" if count is None else f"one positive integer or {count}"
        raise ShapeError(f"{layer}: {name} must be {expected}, got {value!r}")
    names = [name] if len(extents) == 1 else [f"{name}[{i}]" for i in range(len(extents))]
    return positive(layer, **dict(zip(names, extents, strict=True)))


def divides(layer: str, **numbers: int) -> None:
    """Checks that the first number divides all others.

    Raises:
        ShapeError: It doesn't; names both.
    """
    (name, number), *others = numbers.items()
    for other, value in others:
        if value % number:
            raise ShapeError(f"{layer}: {name} {number} does not divide {other} {value}")


def number_between(layer: str, name: str, value: Any, low: float, high: float) -> float:
    """Returns a number in `[low, high]`.

    Raises:
        OptionError: It is not.
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not low <= float(value) <= high:
        raise OptionError(f"{layer}: {name} must be a number between {low} and {high}, got {value!r}")
    return float(value)


def check_in_place(layer: Module, inplace: object) -> None:
    """Checks what PyTorch's layers are told about their memory, which makes no difference to values.

    Raises:
        OptionError: It is neither True nor False, so that another argument may be meant.
    """
    if not isinstance(inplace, bool):
        raise OptionError(f"{type(layer).__name__}: inplace must be True or False, got {inplace!r}; it is ignored")


def drop_rate(layer: Module, rate: float, key: Any, argument: str = "key") -> float:
    """Returns the probability with which a layer drops elements: 0 in the form for inference.

    Raises:
        OptionError: It is above 0, and there is no key.
    """
    active = rate if layer.training else 0.0
    if active:
        check_key(type(layer).__name__, active, key, argument)
    return active


def check_key(what: str, rate: float, key: Any, argument: str) -> None:
    """Checks that what drops elements has a key to draw them with.

    Raises:
        OptionError: There is none; says how to pass one, and how to drop nothing.
    """
    if key is None:
        raise OptionError(
            f"{what} drops with probability {rate:g}, and has no key: pass one on, "
            f"as in model(x, {argument}=key); a loss gets a new one at each step if it has an argument `key` without a "
            "default, and tg.random.key(seed) makes one elsewhere; tg.nn.inference(model)(x) drops nothing"
        )


def trailing(layer: str, x: Any, shape: tuple[int, ...]) -> Any:
    """Returns a tensor whose last axes are `shape`.

    Raises:
        ShapeError: They are not.
    """

    tensor = as_tensor(x)
    if tensor.shape[tensor.ndim - len(shape) :] != shape or tensor.ndim < len(shape):
        expected = ", ".join(("...", *map(str, shape)))
        raise ShapeError(f"{layer}: expected a shape [{expected}], got {tensor.shape}")
    return tensor


def channelled(layer: str, x: Any, channels: int, spatial: int | None) -> Any:
    """Returns a tensor `[batch, channels, spatial...]`, with the given number of spatial axes.

    Raises:
        ShapeError: It has a different number of channels or axes.
    """

    tensor = as_tensor(x)
    if tensor.ndim < 2 or tensor.shape[1] != channels or spatial not in (None, tensor.ndim - 2):
        axes = "spatial..." if spatial is None else f"{spatial} spatial axes" if spatial > 1 else "1 spatial axis"
        raise ShapeError(f"{layer}: expected a shape [batch, {channels}, {axes}], got {tensor.shape}")
    return tensor
