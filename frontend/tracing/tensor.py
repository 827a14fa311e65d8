"""Tensors: traced ones, which stand for a value of the program, and concrete ones."""

from __future__ import annotations

import abc
import operator
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from xdsl.ir import BlockArgument, SSAValue

from tensorgrad.dialects.tg.base import NumpyArray, numpy_dtype
from tensorgrad.dialects.tg.build import type_of
from tensorgrad.errors import ArgumentError, GradientError, ShapeError, TraceError
from tensorgrad.runtime.dlpack import to_dlpack
from tensorgrad.runtime.outputs import OutputHandle
from tensorgrad.runtime.tracebacks import trim
from tensorgrad.surface.calls import guarded, public
from tensorgrad.surface.foreign import unknown_attribute
from tensorgrad.surface.methods import Methods, revived
from tensorgrad.tracing.dtypes import SHORT, DType
from tensorgrad.tracing.eager import Eager
from tensorgrad.tracing.size import Size
from tensorgrad.tracing.tensor_device import Live, TensorDevice
from tensorgrad.tracing.trace import Trace
from tensorgrad.tracing.views import fixed, is_basic, keeps_order, linked

_NO_OPERANDS = (str, bytes, dict, set, type(None))

UNOFFERED = ("__array_struct__", "__array_interface__")
"""What NumPy asks a tensor for before `__array__`: an error with a suggestion would take longer than the conversion."""


def _operators(name: str) -> tuple[Callable[[Any, Any], Tensor], Callable[[Any, Any], Tensor]]:
    """Returns a binary operator and its reflected form; operands that can't be tensors are left to Python's own."""

    def operator(is_reflected: bool) -> Callable[[Any, Any], Tensor]:
        def operate(own: Any, other: Any) -> Any:
            if isinstance(other, _NO_OPERANDS) or getattr(other, "__array_ufunc__", False) is None:
                return NotImplemented  # by NumPy's protocol, the latter kind has operators of its own
            try:
                return getattr(Tensor, name)(other, own) if is_reflected else getattr(Tensor, name)(own, other)
            except BaseException as error:
                trim(error)
                raise

        return operate

    return operator(False), operator(True)


@public
class Tensor(Methods):
    """The arguments and results of API functions: a shape, a dtype, and operators that follow NumPy's rules.

    Example:
        >>> x = tg.ones((2, 3))
        >>> isinstance(x, tg.Tensor), (x + 1).sum(axis=0).tolist(), x.T.shape
        (True, [4.0, 4.0, 4.0], (3, 2))
    """

    __array_priority__ = 1000  # numpy's operators defer to ours

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
        """Returns the CPU, the device on which values are exported."""
        return (1, 0)

    @abc.abstractmethod
    def detach(self) -> Tensor:
        """Returns the same values, as a constant for derivatives."""

    @abc.abstractmethod
    def clone(self) -> Tensor:
        """Returns a tensor that in-place changes of this one don't affect."""

    @abc.abstractmethod
    def numpy(self) -> NumpyArray:
        """Returns a copy of the values as a numpy array."""

    @abc.abstractmethod
    def item(self) -> float | int | bool:
        """Returns the only element as a Python scalar."""

    def tolist(self) -> Any:
        """Returns the values as nested lists of Python scalars; without axes, as a scalar."""
        return self.numpy().tolist()

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Size:
        """The number of elements; called, as PyTorch's `size`, the shape or the extent of an axis."""
        return Size(self.shape)

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

    if not TYPE_CHECKING:  # type checkers report such names themselves

        def __getattr__(self, name: str) -> NoReturn:
            if name in UNOFFERED:
                raise AttributeError(name)
            try:
                raise unknown_attribute("Tensor", "a tensor", name, self)
            except BaseException as error:
                trim(error)
                raise

        __getattr__.__public__ = True  # it is a boundary of tracebacks by itself

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TraceError("a tensor can't be changed; x = x.at[key].set(value) makes a changed copy")

    def __neg__(self) -> Tensor:
        return self.negative()

    def __abs__(self) -> Tensor:
        return self.abs()

    def __invert__(self) -> Tensor:
        return self.bitwise_invert()

    __add__, __radd__ = _operators("add")
    __sub__, __rsub__ = _operators("subtract")
    __mul__, __rmul__ = _operators("multiply")
    __truediv__, __rtruediv__ = _operators("divide")
    __floordiv__, __rfloordiv__ = _operators("floor_divide")
    __mod__, __rmod__ = _operators("remainder")
    __pow__, __rpow__ = _operators("power")
    __matmul__, __rmatmul__ = _operators("matmul")
    __and__, __rand__ = _operators("bitwise_and")
    __or__, __ror__ = _operators("bitwise_or")
    __xor__, __rxor__ = _operators("bitwise_xor")
    __lshift__, __rlshift__ = _operators("bitwise_left_shift")
    __rshift__, __rrshift__ = _operators("bitwise_right_shift")
    __lt__, __gt__ = _operators("less")[0], _operators("greater")[0]
    __le__, __ge__ = _operators("less_equal")[0], _operators("greater_equal")[0]
    if TYPE_CHECKING:  # they compare elements, where `object` says that a bool is the result

        def __eq__(self, other: Any) -> Any: ...
        def __ne__(self, other: Any) -> Any: ...

    else:
        __eq__, __ne__ = _operators("equal")[0], _operators("not_equal")[0]

    def __divmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return other // self, other % self

    def __pos__(self) -> Tensor:
        return self

    __hash__ = object.__hash__


@guarded
class Traced(Tensor):
    """A value in a program that is being traced: it has a shape and a dtype, but no numbers yet."""

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
            f"{what} needs the numbers of a traced tensor of shape {self.shape}, which exist only when "
            f"the program runs; {instead}"
        )

    def __bool__(self) -> bool:
        is_argument = isinstance(self._value, BlockArgument) and not self.shape
        self._concrete(
            "Python control flow (if, while, and, or, not)",
            "use tg.where to choose between values, tg.cond or tg.while_loop to choose what runs"
            + "; static= of tg.jit names arguments that stay Python's, such as flags" * is_argument,
        )

    def __float__(self) -> float:
        self._concrete("float()", "return the tensor from the function and read it then")

    def __complex__(self) -> complex:
        self._concrete("complex()", "return the tensor from the function and read it then")

    def __int__(self) -> int:
        self._concrete("int()", "return the tensor from the function and read it then")

    def __index__(self) -> int:
        self._concrete(
            "use as an index",
            "use tg.take to index by a tensor, tg.fori_loop as range, or static= of tg.jit for a Python number",
        )

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
        """Returns a constant for derivatives, as `tg.stop_gradient` does."""
        return self.stop_gradient()

    def clone(self) -> Tensor:
        """Returns the tensor itself: traced values are immutable."""
        return self

    def contiguous(self) -> Tensor:
        """Returns the tensor itself: there are no other memory layouts."""
        return self

    def __format__(self, specification: str) -> str:
        return (
            self._concrete("formatting", "print its repr with !r, or return it and format it then")
            if specification
            else repr(self)
        )


@public
class Array(Eager, Tensor):
    """A concrete tensor: the result of functions outside a trace, and the outputs of programs.

    A program's output is read from the device on first access; later steps don't change it. In a coroutine, `await
    array` returns the array once it has been read, and lets the event loop run meanwhile.

    An array from `tg.tensor`, and whatever is computed from it, lives on a device: ops are recorded, and computed once
    a value is read. It has gradients and can be changed in place.

    Example:
        >>> x = tg.array([[1.0, 2.0], [3.0, 4.0]])
        >>> x.shape, x.dtype, x.sum().item(), (x @ x).tolist()
        ((2, 2), dtype('float32'), 10.0, [[7.0, 10.0], [15.0, 22.0]])
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
    def eager(cls, value: Any, device: TensorDevice, edge: Any = None) -> Array:
        """Returns a tensor that lives on a device.

        Args:
            value: Its value, in the device's own representation.
            device: The device.
            edge: The graph edge that its derivative flows to.
        """
        new = object.__new__(cls)
        new._source, new.live = value.kind, Live(device, value, edge)
        return new

    @property
    def source(self) -> NumpyArray | OutputHandle:
        """The values, wherever they are stored."""
        return self._source if self.live is None else self.live.device.computed(self)

    @property
    def host_array(self) -> NumpyArray | None:
        """The values as a read-only array, if they are on the host and can't change; else `None`."""
        source = self._source
        return source if self.live is None and type(source) is np.ndarray else None

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
        """Pickles the values, the device, and whether it is a leaf that requires a gradient."""
        if self.live is None:
            return Array, (self.numpy(),)
        return revived, (self.numpy(), str(self.dtype), self.device, self.is_leaf and self.requires_grad)

    def __copy__(self) -> Array:
        """Returns a tensor that shares the memory of this one, and its gradient if it is a leaf."""
        return self if self.live is None else linked(self, self, lambda other: other, in_order=True)

    def __deepcopy__(self, memo: dict[int, Any]) -> Array:
        """Returns an independent leaf on the same device, which accumulates a gradient if this one does."""
        if self.live is None:
            return self
        if not self.is_leaf:
            raise GradientError("a tensor with a graph behind it can't be copied: copy its detach()")
        copied = self.live.device.cloned(self.detach())
        assert copied.live is not None
        clone = type(self).eager(copied.live.value, self.live.device)
        memo[id(self)] = clone
        return clone.requires_grad_(self.requires_grad)

    def numpy(self) -> NumpyArray:
        """Returns a copy of the values as a numpy array."""
        return self._array.copy()

    def item(self) -> float | int | bool:
        """Returns the only element as a Python scalar.

        Raises:
            ShapeError: There is not exactly one element.
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
        """Returns a DLPack capsule, through which other libraries access the values.

        The memory is shared if they request `copy=False` and support read-only arrays, as of DLPack 1.0; otherwise it
        is a copy on the CPU, which they may modify.

        Args:
            stream: `None`: the CPU has no streams.
            max_version: The latest DLPack version that the other library supports.
            dl_device: The requested device: the CPU.
            copy: Whether a copy is requested.

        Raises:
            BufferError: No copy is allowed, but the other library does not support read-only arrays; or it requests
                another device.
        """
        array = self._array if copy is False else self.numpy()
        return to_dlpack(array, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __await__(self) -> Generator[Any, None, Array]:
        return self._read().__await__()

    async def _read(self) -> Array:
        """Returns itself once its values have been read; the event loop runs meanwhile."""
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
        item = super().__getitem__(key)
        return linked(self, item, lambda other: other[key], keeps_order(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.live is None:
            super().__setitem__(key, value)
        else:
            self.live.device.assign(self, "x[key] = value", self.at[key].set(value))
