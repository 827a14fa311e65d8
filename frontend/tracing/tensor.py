"""Tensors: traced ones, which stand for a value of the program, and concrete ones."""

from __future__ import annotations

import abc
import math
import operator
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from xdsl.ir import SSAValue

from tensorgrad.dialects.tg.base import NumpyArray, numpy_dtype
from tensorgrad.dialects.tg.build import type_of
from tensorgrad.errors import ArgumentError, GradientError, ShapeError, TraceError
from tensorgrad.runtime.backend import OutputHandle
from tensorgrad.surface.calls import public
from tensorgrad.surface.foreign import unknown_attribute
from tensorgrad.surface.methods import Methods, revived
from tensorgrad.tracing.dtypes import SHORT, DType
from tensorgrad.tracing.eager import Eager
from tensorgrad.tracing.home import Home, Live
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.trace import Trace
from tensorgrad.tracing.views import fixed, is_basic, keeps_order, linked

_NO_OPERANDS = (str, bytes, dict, set, type(None))


def _operator(name: str, x: Any, y: Any) -> Any:
    """Returns a binary operator; what can be no tensor is left to Python's other side."""
    if isinstance(x, _NO_OPERANDS) or isinstance(y, _NO_OPERANDS):
        return NotImplemented
    return getattr(Tensor, name)(x, y)


@public
class Tensor(Methods):
    """What API functions take and give: a shape, a dtype, and operators that follow NumPy's rules."""

    __array_priority__ = 1000  # numpy's operators give way to ours

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The extent of each axis."""

    @property
    @abc.abstractmethod
    def dtype(self) -> DType:
        """The dtype of the elements."""

    @abc.abstractmethod
    def __bool__(self) -> bool: ...

    @abc.abstractmethod
    def __int__(self) -> int: ...

    @abc.abstractmethod
    def __float__(self) -> float: ...

    @abc.abstractmethod
    def __complex__(self) -> complex: ...

    @abc.abstractmethod
    def __index__(self) -> int: ...

    @abc.abstractmethod
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NumpyArray: ...

    @abc.abstractmethod
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...

    def __dlpack_device__(self) -> tuple[int, int]:
        """Returns the CPU, where values are handed over."""
        return (1, 0)

    @abc.abstractmethod
    def detach(self) -> Tensor:
        """Returns the same values as a constant to derivatives."""

    @abc.abstractmethod
    def clone(self) -> Tensor:
        """Returns a tensor that changes of this one in place don't show in."""

    @abc.abstractmethod
    def numpy(self) -> NumpyArray:
        """Returns the values as a numpy array, a copy."""

    @abc.abstractmethod
    def item(self) -> float | int | bool:
        """Returns the only element as a Python scalar."""

    def tolist(self) -> Any:
        """Returns the values as nested lists of Python scalars; as a scalar, without axes."""
        return self.numpy().tolist()

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def T(self) -> Tensor:
        """The tensor with its axes reversed."""
        return self.transpose()

    def __len__(self) -> int:
        if not self.shape:
            raise ArgumentError("a tensor without axes has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[position] for position in range(len(self)))

    if not TYPE_CHECKING:  # a type checker finds such names by itself

        def __getattr__(self, name: str) -> NoReturn:
            raise unknown_attribute("Tensor", "a tensor", name, self)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TraceError("a tensor can't be changed; x = x.at[key].set(value) makes a changed copy")

    def __neg__(self) -> Tensor:
        return self.negative()

    def __abs__(self) -> Tensor:
        return self.abs()

    def __invert__(self) -> Tensor:
        return self.bitwise_invert()

    def __add__(self, other: Any) -> Tensor:
        return _operator("add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return _operator("add", other, self)

    def __sub__(self, other: Any) -> Tensor:
        return _operator("subtract", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return _operator("subtract", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return _operator("multiply", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return _operator("multiply", other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return _operator("divide", self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return _operator("divide", other, self)

    def __pow__(self, other: Any) -> Tensor:
        return _operator("power", self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return _operator("power", other, self)

    def __matmul__(self, other: Any) -> Tensor:
        return _operator("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return _operator("matmul", other, self)

    def __and__(self, other: Any) -> Tensor:
        return _operator("bitwise_and", self, other)

    def __rand__(self, other: Any) -> Tensor:
        return _operator("bitwise_and", other, self)

    def __or__(self, other: Any) -> Tensor:
        return _operator("bitwise_or", self, other)

    def __ror__(self, other: Any) -> Tensor:
        return _operator("bitwise_or", other, self)

    def __xor__(self, other: Any) -> Tensor:
        return _operator("bitwise_xor", self, other)

    def __rxor__(self, other: Any) -> Tensor:
        return _operator("bitwise_xor", other, self)

    def __lshift__(self, other: Any) -> Tensor:
        return _operator("bitwise_left_shift", self, other)

    def __rlshift__(self, other: Any) -> Tensor:
        return _operator("bitwise_left_shift", other, self)

    def __rshift__(self, other: Any) -> Tensor:
        return _operator("bitwise_right_shift", self, other)

    def __rrshift__(self, other: Any) -> Tensor:
        return _operator("bitwise_right_shift", other, self)

    def __floordiv__(self, other: Any) -> Tensor:
        return _operator("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return _operator("floor_divide", other, self)

    def __mod__(self, other: Any) -> Tensor:
        return _operator("remainder", self, other)

    def __rmod__(self, other: Any) -> Tensor:
        return _operator("remainder", other, self)

    def __divmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return other // self, other % self

    def __pos__(self) -> Tensor:
        return self

    def __lt__(self, other: Any) -> Tensor:
        return _operator("less", self, other)

    def __le__(self, other: Any) -> Tensor:
        return _operator("less_equal", self, other)

    def __gt__(self, other: Any) -> Tensor:
        return _operator("greater", self, other)

    def __ge__(self, other: Any) -> Tensor:
        return _operator("greater_equal", self, other)

    def __eq__(self, other: object) -> Any:
        return _operator("equal", self, other)

    def __ne__(self, other: object) -> Any:
        return _operator("not_equal", self, other)

    __hash__ = object.__hash__


class Traced(Tensor):
    """A value of a program that is being traced: a shape and a dtype, but no numbers yet."""

    __slots__ = ("_trace", "_value")

    def __init__(self, trace: Trace, value: SSAValue):
        self._trace = trace
        self._value = value

    @property
    def trace(self) -> Trace:
        """The trace that the tensor belongs to."""
        return self._trace

    @property
    def value(self) -> SSAValue:
        """The value in the IR."""
        return self._value

    @property
    def shape(self) -> tuple[int, ...]:
        """The extent of each axis."""
        return type_of(self._value).get_shape()

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        return numpy_dtype(self._value.type)

    def __repr__(self) -> str:
        return f"Traced(shape={self.shape}, dtype={SHORT[self.dtype]})"

    def _concrete(self, what: str, instead: str) -> NoReturn:
        raise TraceError(
            f"{user_line()}: {what} needs the numbers of a traced tensor of shape {self.shape}, which exist only when "
            f"the program runs; {instead}"
        )

    def __bool__(self) -> bool:
        self._concrete("Python control flow (if, while, and, or, not)", "use tg.where to choose between values")

    def __float__(self) -> float:
        self._concrete("float()", "return the tensor from the function and read it then")

    def __complex__(self) -> complex:
        self._concrete("complex()", "return the tensor from the function and read it then")

    def __int__(self) -> int:
        self._concrete("int()", "return the tensor from the function and read it then")

    def __index__(self) -> int:
        self._concrete("use as an index", "use tg.take to index by a tensor")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NumpyArray:
        self._concrete("conversion to a numpy array", "use the functions of tensorgrad, not numpy's")

    def __dlpack__(self, **options: Any) -> NoReturn:
        self._concrete("conversion to another library's array", "use the functions of tensorgrad")

    def numpy(self) -> NumpyArray:
        """Raises `TraceError`: there are no values yet."""
        self._concrete("numpy()", "return the tensor from the function and read it then")

    def item(self) -> float | int | bool:
        """Raises `TraceError`: there are no values yet."""
        self._concrete("item()", "return the tensor from the function and read it then")

    def detach(self) -> Tensor:
        """Returns a constant to derivatives, as `tg.stop_gradient` does."""
        return self.stop_gradient()

    def clone(self) -> Tensor:
        """Returns the tensor: what is traced does not change."""
        return self

    def contiguous(self) -> Tensor:
        """Returns the tensor: there are no other layouts to tell apart."""
        return self

    def __format__(self, specification: str) -> str:
        return (
            self._concrete("formatting", "print its repr with !r, or return it and format it then")
            if specification
            else repr(self)
        )


@public
class Array(Eager, Tensor):
    """A concrete tensor: what functions give outside a trace, and programs put out.

    A program's output is read from the device when its numbers are first looked at; it stays that step's value. In a
    coroutine, `await array` gives the array once it is read, and lets the event loop run meanwhile.

    One that `tg.tensor` makes lives on a device, and so does what is computed from it: ops are recorded, and computed
    once a number is looked at. It has gradients and can be changed in place.
    """

    __slots__ = ("_source", "live")

    def __init__(self, source: NumpyArray | OutputHandle):
        if isinstance(source, np.ndarray):
            source = source.view()
            source.flags.writeable = False
        elif not isinstance(source, OutputHandle):
            raise ArgumentError(f"Array holds what programs put out; tg.array makes one of {type(source).__name__}")
        self._source = source
        self.live = None

    @classmethod
    def eager(cls, value: Any, home: Home, edge: Any = None) -> Array:
        """Returns a tensor that lives on a device.

        Args:
            value: Its value, in the device's own terms.
            home: The device.
            edge: Where a derivative by it goes.
        """
        made = object.__new__(cls)
        made._source, made.live = value.kind, Live(home, value, edge)
        return made

    @property
    def source(self) -> NumpyArray | OutputHandle:
        """The numbers, wherever they are."""
        return self._source if self.live is None else self.live.home.computed(self)

    @property
    def _array(self) -> NumpyArray:
        source = self.source
        return source if isinstance(source, np.ndarray) else source.numpy()

    @property
    def shape(self) -> tuple[int, ...]:
        """The extent of each axis."""
        return self._source.shape

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        return self._source.dtype

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """Pickled as its numbers, with its device, and whether it is a leaf that requires a gradient."""
        if self.live is None:
            return Array, (self.numpy(),)
        return revived, (self.numpy(), str(self.dtype), self.device, self.is_leaf and self.requires_grad)

    def __copy__(self) -> Array:
        """Returns a tensor that shares the memory of this one, and its gradient where it is a leaf."""
        return self if self.live is None else linked(self, self, lambda other: other, in_order=True)

    def __deepcopy__(self, memo: dict[int, Any]) -> Array:
        """Returns a tensor of its own: a leaf on the same device, which gathers a gradient if this one does."""
        if self.live is None:
            return self
        if not self.is_leaf:
            raise GradientError(f"{user_line()}: a tensor with a graph behind it can't be copied: copy its detach()")
        copied = self.live.home.cloned(self.detach())
        assert copied.live is not None
        found = type(self).eager(copied.live.value, self.live.home)
        memo[id(self)] = found
        return found.requires_grad_(self.requires_grad)

    def numpy(self) -> NumpyArray:
        """Returns the values as a numpy array, a copy."""
        return self._array.copy()

    def item(self) -> float | int | bool:
        """Returns the only element as a Python scalar.

        Raises:
            ShapeError: There are several elements, or none.
        """
        return self._only("item()")

    def _only(self, what: str) -> Any:
        if self.size != 1:
            raise ShapeError(f"{what} takes a tensor of one element, this one has the shape {self.shape}")
        return self._array.item()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NumpyArray:
        return np.array(self._array, dtype=dtype, copy=copy)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Returns a DLPack capsule, by which other libraries take the values.

        They share the memory where they ask for `copy=False` and take arrays that can't be written to, as of version
        1.0 of DLPack; otherwise it is a copy on the CPU, theirs to change.

        Args:
            stream: `None`: the CPU has no streams.
            max_version: The latest version of DLPack that the other library reads.
            dl_device: The device that it asks for: the CPU.
            copy: Whether it is to be a copy.

        Raises:
            BufferError: It is not to be a copy, and the other library does not take what can't be written to; or it
                asks for another device.
        """
        given = self._array if copy is False else self.numpy()
        return given.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __await__(self) -> Generator[Any, None, Array]:
        return self._read().__await__()

    async def _read(self) -> Array:
        """Itself, once its numbers are here; the event loop runs meanwhile."""
        source = self.source
        if isinstance(source, OutputHandle):
            await source.wait()
        return self

    def __float__(self) -> float:
        return float(self._only("float()"))

    def __complex__(self) -> complex:
        return complex(self._only("complex()"))

    def __int__(self) -> int:
        return int(self._only("int()"))

    def __index__(self) -> int:
        return operator.index(self._only("use as an index"))

    def __bool__(self) -> bool:
        return bool(self._only("a condition (any() and all() make one of several elements)"))

    def __format__(self, specification: str) -> str:
        return format(self._only("formatting by :" + specification), specification) if specification else repr(self)

    def __repr__(self) -> str:
        more = "" if self.live is None else f", device={self.device!r}"
        more += ", requires_grad=True" if self.requires_grad else ""
        return f"Array({np.array2string(self._array, separator=', ')}, dtype={SHORT[self.dtype]}{more})"

    def __getitem__(self, key: Any) -> Any:
        if self.live is None or not is_basic(key):
            return super().__getitem__(key)
        key = fixed(key)
        found = super().__getitem__(key)
        return linked(self, found, lambda other: other[key], keeps_order(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.live is None:
            super().__setitem__(key, value)
        else:
            self.live.home.assign(self, "x[key] = value", self.at[key].set(value))
