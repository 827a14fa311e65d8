"""The leaves of initialized models: arrays that are parameters and buffers, wherever they move in a tree."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, Self, TypeAlias, TypeGuard

import numpy as np

from tensorgrad.errors import DTypeError, ParameterError, ShapeError
from tensorgrad.nn.parameters import Buffer, Parameter
from tensorgrad.ops.elementwise.arithmetic import stop_gradient
from tensorgrad.ops.promotion import as_tensor
from tensorgrad.tracing.dtypes import SHORT
from tensorgrad.tracing.tensor import Array, Tensor


class Initialized(Array):
    """A parameter or buffer of an initialized model: an array, or an eager tensor, that is its own declaration."""

    __slots__ = ()

    @classmethod
    def of(cls, values: Array) -> Self:
        """Returns an array or an eager tensor, without its gradient, as a leaf."""
        if values.live is None:
            new = object.__new__(cls)
            Array.__init__(new, values.source)
            return new
        result = cls.eager(values.live.value, values.live.device)
        assert isinstance(result, cls)
        return result

    @property
    def initializer(self) -> Callable[..., np.ndarray[Any, Any]]:
        """Returns the current values, as an initializer does."""
        return lambda key, shape, dtype: np.array(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Returns a separate leaf; models that share this one share the copy."""
        copied = memo[id(self)] = self.of(self) if self.live is None else super().__deepcopy__(memo)
        return _restored(copied, self._own())

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return _revived, (type(self), *super().__reduce__(), self._own())

    def _own(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in type(self).__slots__}


def _revived(kind: type[Initialized], make: Callable[..., Array], arguments: tuple[Any, ...], own: Any) -> Initialized:
    """Returns an unpickled leaf."""
    values = make(*arguments)
    leaf = _restored(kind.of(values), own)
    return leaf.requires_grad_() if values.requires_grad else leaf


def _restored(leaf: Any, own: dict[str, Any]) -> Any:
    for name, value in own.items():
        setattr(leaf, name, value)
    return leaf


class Weight(Initialized):
    """A parameter of an initialized model.

    Attributes:
        trainable: Whether programs compiled from now on train it; `Module.freeze` changes it.
    """

    __slots__ = ("trainable",)
    trainable: bool

    @classmethod
    def trained(cls, values: Array, trainable: bool) -> Weight:
        """Returns an array as a parameter; on a device it collects gradients if it is trained."""
        return cls.of(values).requires_grad_(trainable)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Sets whether it is trained, and, on a device, whether it collects a gradient; returns it."""
        if self.live is not None:
            super().requires_grad_(requires_grad)
        self.trainable = requires_grad
        return self


class Held(Initialized):
    """A buffer of an initialized model: an immutable array."""

    __slots__ = ("_path",)

    @classmethod
    def of_path(cls, values: Array, path: str) -> Held:
        """Returns an array as the buffer at a path."""
        held = cls.of(values)
        held._path = path
        return held

    def assign(self, value: Any) -> None:
        """Raises, since buffers can only be assigned to in the loss of `tg.compile`.

        Raises:
            ParameterError: Always: it is an array of the host.
        """
        raise ParameterError(
            f"assign: buffer {self._path!r} is that of an initialized model, which stays as it is: only "
            "the loss of tg.compile changes buffers; the form of a model that changes none is tg.nn.inference(model)"
        )


class Kept(Initialized):
    """A buffer of a model on a device: an eager tensor, which the model assigns to."""

    __slots__ = ()

    def assign(self, value: Any) -> None:
        """Sets it to a value; derivatives don't propagate through it.

        Args:
            value: A tensor of the same shape and dtype, or a fill value.

        Raises:
            ShapeError: The value has a different shape.
            DTypeError: It has a different dtype.
        """
        new = value if isinstance(value, Real) else stop_gradient(as_tensor(value))
        if isinstance(new, Tensor):
            if new.shape != self.shape:
                raise ShapeError(f"assign: the buffer has shape {self.shape}, the value {new.shape}")
            if new.dtype != self.dtype:
                raise DTypeError(
                    f"assign: the buffer is {SHORT[self.dtype]}, the value {SHORT[new.dtype]}; tg.cast converts it"
                )
        self.copy_(new)


PARAMETERS = (Parameter, Weight)
BUFFERS = (Buffer, Held, Kept)
Leaf: TypeAlias = Parameter | Buffer | Weight | Held | Kept
"""A parameter or a buffer, declared or of an initialized model."""


def is_leaf(value: object) -> TypeGuard[Leaf]:
    """Returns whether a value is a parameter or a buffer."""
    return isinstance(value, (*PARAMETERS, *BUFFERS))


def is_parameter(leaf: object) -> TypeGuard[Parameter | Weight]:
    """Returns whether a value is a parameter."""
    return isinstance(leaf, PARAMETERS)


def is_live(leaf: object) -> bool:
    """Returns whether a parameter or buffer lives on a device, where its values may change."""
    return isinstance(leaf, Initialized) and leaf.live is not None


def described_leaf(leaf: Leaf) -> str:
    """Returns the dtype and shape of a parameter or buffer, as text."""
    if isinstance(leaf, Parameter | Buffer):
        return repr(leaf)
    kind = "" if isinstance(leaf, Weight) else "buffer "
    frozen = " frozen" if isinstance(leaf, Weight) and not leaf.trainable else ""
    return f"{kind}{SHORT[leaf.dtype]}[{', '.join(map(str, leaf.shape))}]{frozen}"
