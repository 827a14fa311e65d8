"""Parameters and buffers: their declaration, and the sampling of their values."""

from __future__ import annotations

import numbers
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias, cast

import numpy as np

from tensorgrad.errors import DTypeError, InputError, OptionError, ParameterError, TraceError
from tensorgrad.nn.initializers import Initializer, constant
from tensorgrad.ops import random
from tensorgrad.runtime.conversion import converted, kind_of, to_numpy
from tensorgrad.tracing.declared import Declared
from tensorgrad.tracing.dtypes import NAMES, SHORT, DType, is_float, spec
from tensorgrad.tracing.tensor import Traced
from tensorgrad.tracing.tracer import current_trace


@dataclass(eq=False, repr=False, slots=True)
class Parameter(Declared):
    """A declared parameter: a shape, a dtype and an initializer, but no values. `tg.compile` samples them.

    Attributes:
        shape: The extents.
        dtype: The numpy dtype of the elements.
        initializer: Samples the values from a key.
        trainable: Whether programs compiled from now on train it; `Module.freeze` changes it.

    Example:
        >>> weight = tg.nn.Linear(3, 5).weight
        >>> weight, weight.shape, weight.trainable
        (f32[3, 5], (3, 5), True)
    """

    kind: ClassVar[str] = "parameter"

    shape: tuple[int, ...]
    dtype: DType
    initializer: Initializer
    trainable: bool = True

    @property
    def requires_grad(self) -> bool:
        """Whether it is trained, under PyTorch's name; it can be set."""
        return self.trainable

    @requires_grad.setter
    def requires_grad(self, required: bool) -> None:
        self.trainable = bool(required)

    def requires_grad_(self, requires_grad: bool = True) -> Parameter:
        """Sets whether it is trained; returns it."""
        self.requires_grad = requires_grad
        return self

    def __repr__(self) -> str:
        return f"{SHORT[self.dtype]}[{', '.join(map(str, self.shape))}]{'' if self.trainable else ' frozen'}"


Init: TypeAlias = "Initializer | float | np.ndarray[Any, Any]"
"""An initial value: an initializer, a fill value, or an array of values."""


def param(shape: int | Sequence[int], init: Init, dtype: object = "f32") -> Parameter:
    """Declares a parameter; assign it to an attribute of a module.

    Args:
        shape: The extents.
        init: One of `tg.initializers` or any function of a key, a shape and a dtype; a fill value; or an array of
            values.
        dtype: A floating-point dtype.

    Raises:
        ShapeError: The shape is invalid.
        DTypeError: The dtype is not a floating-point one.
        OptionError: `init` is none of these, or an array of a different shape.

    Example:
        >>> tg.nn.param((3, 5), init=tg.initializers.he_normal)
        f32[3, 5]
    """
    abstract = spec(shape, dtype)
    if not is_float(abstract.dtype):
        raise DTypeError(f"a parameter has a floating-point dtype, not {SHORT[abstract.dtype]}")
    return Parameter(abstract.shape, abstract.dtype, as_initializer(init, abstract.shape))


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Buffer(Declared):
    """Declared state that optimizers don't change: a shape, a dtype and an initializer, but no values.

    In the loss of `tg.compile` it is a tensor that can be assigned to: `self.mean.assign(value)`. The next step and
    attached functions read its last value; see `tensorgrad.nn.state`.

    Attributes:
        shape: The extents.
        dtype: The numpy dtype of the elements.
        initializer: Samples the values from a key.

    Example:
        >>> tg.nn.buffer((3,))
        buffer f32[3]
    """

    kind: ClassVar[str] = "buffer"

    shape: tuple[int, ...]
    dtype: DType
    initializer: Initializer

    def assign(self, value: object) -> None:
        """Raises, since only the tensor in the loss of `tg.compile` can be assigned to.

        Raises:
            ParameterError: Always: here it is only declared.
        """

        raise ParameterError(
            f"assign: the {self!r} has no values: buffers are declared at construction; assign them in "
            "the loss of tg.compile, through the model that it is given"
        )

    def __repr__(self) -> str:
        return f"buffer {SHORT[self.dtype]}[{', '.join(map(str, self.shape))}]"


def buffer(shape: int | Sequence[int], init: Init = 0.0, dtype: object = "f32") -> Buffer:
    """Declares state that isn't trained; assign it to an attribute of a module.

    Args:
        shape: The extents.
        init: As for `param`; zeros by default.
        dtype: Any but bool.

    Raises:
        ShapeError: The shape is invalid.
        DTypeError: The dtype is not supported.
        OptionError: `init` is not an initializer, number or array, or an array of another shape.

    Example:
        >>> tg.nn.buffer((), init=0, dtype="i32")
        buffer i32[]
    """
    abstract = spec(shape, dtype)
    if kind_of(abstract.dtype) not in "fiu":
        raise DTypeError(f"a buffer holds numbers, not {SHORT[abstract.dtype]}")
    return Buffer(abstract.shape, abstract.dtype, as_initializer(init, abstract.shape))


def as_initializer(init: object, shape: tuple[int, ...]) -> Initializer:
    """Returns the initializer for the `init` of `param`.

    Raises:
        OptionError: It is not an initializer, number or array, or an array of another shape.
    """
    if callable(init):
        return cast(Initializer, init)
    if isinstance(init, numbers.Real):
        return constant(float(init))
    try:
        values = np.array(to_numpy(init, "param: init"))
    except InputError as error:
        raise OptionError(str(error)) from None
    if kind_of(values.dtype) not in "fiu":
        raise OptionError(f"param: init must be an initializer, a number or an array of numbers, got {init!r}")
    if values.shape != shape:
        raise OptionError(f"param: init has shape {values.shape}, the parameter {shape}")
    return lambda key, shape, dtype: values.astype(dtype)


def is_float_array(value: object) -> bool:
    """Returns whether a value is a concrete array of floats, of any library; traced tensors aren't."""
    kind = type(value)  # asked for what it lacks, a module makes an exception with a hint
    if not (hasattr(kind, "__array__") or hasattr(kind, "__dlpack__")) or isinstance(value, np.generic | Traced):
        return False
    dtype = str(getattr(value, "dtype", ""))  # similar for numpy and others: float32, torch.float32
    return "float" in dtype


def is_float_number(value: object) -> bool:
    """Returns whether a value is a float of Python or NumPy: in a tree that is a model, a parameter of no axes."""
    return isinstance(value, float) or (isinstance(value, np.generic) and "float" in value.dtype.name)


def parameter_of(values: object, where: str) -> Parameter:
    """Returns a parameter with an array of floats as its initial value: f16 if the array is, otherwise f32.

    So bf16 is widened, as where files are read: an update below 1/256 of a weight would be lost. Of another library's
    parameter, such as `torch.nn.Parameter`, it takes the values.
    """
    is_leaf = getattr(values, "requires_grad", False) is True and getattr(values, "is_leaf", False) is True
    array = to_numpy(cast("Any", values).detach() if is_leaf else values, where)
    dtype = array.dtype if array.dtype == NAMES["f16"] else NAMES["f32"]
    array = np.array(converted(array, dtype, SHORT[dtype], where))
    return Parameter(array.shape, dtype, as_initializer(array, array.shape))


class Sampled(Protocol):
    """What has an initial value: a declaration, or a leaf of an initialized model."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        ...

    @property
    def dtype(self) -> DType:
        """The numpy dtype of the elements."""
        ...

    @property
    def initializer(self) -> Initializer:
        """Samples the values from a key."""
        ...


def drawn(parameters: Mapping[str, Sampled], key: random.Key) -> dict[str, np.ndarray]:
    """Returns the initial values of parameters and buffers; each depends only on the key and its path.

    Raises:
        ParameterError: An initializer returns a different shape or dtype.
    """
    return dict(drawing(parameters, key))


def drawing(parameters: Mapping[str, Sampled], key: random.Key) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the path and the initial value of parameters and buffers, one at a time; see `drawn`."""
    for path, parameter in parameters.items():
        yield path, _draw(path, parameter, key)


def _draw(path: str, parameter: Sampled, key: random.Key) -> np.ndarray:
    own = random.fold_in(key, zlib.crc32(path.encode()))
    try:
        values = np.asarray(parameter.initializer(own, parameter.shape, parameter.dtype))
    except TraceError:
        if current_trace() is None:
            raise
        raise TraceError(
            f"{path} would be drawn inside a trace, where it has no numbers: initialize models outside of compiled "
            "functions, and pass them as arguments, or give values= for all"
        ) from None
    if values.shape != parameter.shape or values.dtype != parameter.dtype:
        what = "parameter " if isinstance(parameter, Parameter) else ""
        raise ParameterError(
            f"{what}{path} is {parameter!r}, its initializer gave shape {values.shape} of {values.dtype}"
        )
    return values
