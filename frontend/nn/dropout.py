"""Layers that drop elements or channels at random."""

from __future__ import annotations

from typing import Any, ClassVar

import tensorgrad as tg
from tensorgrad.errors import ShapeError
from tensorgrad.nn.checks import check_in_place, drop_rate, number_between
from tensorgrad.nn.module import Module
from tensorgrad.ops.promotion import as_tensor


class Dropout(Module):
    """Sets elements to 0 with probability `p` and divides the others by `1 - p`; see `tg.random.dropout`.

    Args:
        p: The probability.
        inplace: Makes no difference: it is PyTorch's.

    Raises:
        OptionError: `p` is not a number between 0 and 1, or `inplace` not True or False.

    Example:
        >>> tg.nn.inference(tg.nn.Dropout(0.5))([1.0, 2.0])
        [1.0, 2.0]
    """

    key_argument: ClassVar[str] = "key"

    def __init__(self, p: float = 0.5, inplace: bool = False):
        super().__init__()
        self.p = number_between("Dropout", "p", p, 0, 1)
        check_in_place(self, inplace)

    def __call__(self, x: Any, key: Any = None) -> Any:
        """Applies the layer; in the form of `tg.nn.inference(model)`, or with `p=0`, it returns `x`, key or not.

        Args:
            x: A tensor of floats.
            key: A random key, different for each layer and step.

        Raises:
            OptionError: `key` is not a key, or there is none.
            DTypeError: `x` is not a float tensor.
        """
        rate = drop_rate(self, self.p, key)
        return tg.random.dropout(key, x, rate) if rate else x


class _ChannelDropout(Dropout):
    """The base of layers that drop whole channels."""

    spatial: ClassVar[int]

    def __call__(self, x: Any, key: Any = None) -> tg.Tensor:
        """Applies the layer to `[batch, channels, spatial...]`; see `Dropout`.

        Args:
            x: A tensor of floats.
            key: A random key, different for each layer and step.

        Raises:
            ShapeError: `x` has another number of axes.
            OptionError: `key` is not a key, or there is none.
            DTypeError: `x` is not a float tensor.
        """
        tensor = as_tensor(x)
        if tensor.ndim != self.spatial + 2:
            raise ShapeError(
                f"{type(self).__name__}: expected {self.spatial + 2} axes, [batch, channels, "
                f"spatial...], got {tensor.shape}"
            )
        rate = drop_rate(self, self.p, key)
        if not rate:
            return tensor
        channels = tg.ones((*tensor.shape[:2], *[1] * self.spatial), dtype=tensor.dtype)
        return tensor * tg.random.dropout(key, channels, rate)


class Dropout1d(_ChannelDropout):
    """Sets channels of `[batch, channels, length]` to 0 with probability `p`, and divides the others by `1 - p`.

    J. Tompson et al., Efficient Object Localization Using Convolutional Networks, 2015. Arguments and errors are those
    of `Dropout`.

    Example:
        >>> tg.nn.inference(tg.nn.Dropout1d(0.5))(tg.ones((2, 3, 4))).shape
        (2, 3, 4)
    """

    spatial = 1


class Dropout2d(_ChannelDropout):
    """Sets channels of `[batch, channels, height, width]` to 0 with probability `p`; see `Dropout1d`.

    Example:
        >>> tg.nn.inference(tg.nn.Dropout2d(0.5))(tg.ones((2, 3, 4, 4))).shape
        (2, 3, 4, 4)
    """

    spatial = 2


class Dropout3d(_ChannelDropout):
    """Sets channels of `[batch, channels, depth, height, width]` to 0 with probability `p`; see `Dropout1d`.

    Example:
        >>> tg.nn.inference(tg.nn.Dropout3d(0.5))(tg.ones((2, 3, 2, 4, 4))).shape
        (2, 3, 2, 4, 4)
    """

    spatial = 3
