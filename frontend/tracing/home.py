"""Where a concrete tensor lives: what applies ops to tensors of a device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from tensorgrad.dialects.tg.base import NumpyArray, TensorOp
from tensorgrad.runtime.backend import OutputHandle
from tensorgrad.tracing.dtypes import DType


class Live:
    """What an eager tensor is on its device.

    Attributes:
        home: The device.
        value: Its value, in the device's own terms. It has a `kind`, which is the same object for all of its type.
        edge: Where a derivative by it goes; `None` where nothing asks for one.
        view: What it is a view of; see `tensorgrad.tracing.views`.
        leaf: Where its gradient is gathered, in the device's own terms, once it was to be.
    """

    __slots__ = ("edge", "home", "leaf", "value", "view")

    def __init__(self, home: Home, value: Any, edge: Any):
        self.home, self.value, self.edge = home, value, edge
        self.view: Any = None
        self.leaf: Any = None


class Concrete(Protocol):
    """What a home knows of a concrete tensor; it is a `tensorgrad.tracing.tensor.Array`."""

    @property
    def live(self) -> Live | None:
        """What it is on a device."""
        ...

    @property
    def source(self) -> Any:
        """The numbers, wherever they are."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """The extent of each axis."""
        ...

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        ...


@dataclass(frozen=True)
class TracedFunction:
    """A function of tensors, traced for operands of some types.

    Attributes:
        function: In `tg`; gives one result.
        allows: Whether the function may be applied to such operands, where that depends on their values.
    """

    function: FuncOp
    allows: Callable[[Sequence[Any]], bool] | None


class Home(ABC):
    """A device that tensors live on, and on which ops on them run.

    Attributes:
        device: Its name, as `device=` takes it.
    """

    device: str

    @abstractmethod
    def apply(self, kind: type[TensorOp], operands: Sequence[Any], properties: Mapping[str, Attribute]) -> Any:
        """Applies an op.

        Args:
            kind: The op.
            operands: Tensors that live here, and arrays of the host.
            properties: The op's.

        Raises:
            VerifyException: The operands don't fit the op.
            DTypeError: The device has no elements of the result's dtype.
        """

    @abstractmethod
    def call(self, function: FuncOp, operands: Sequence[Any], key: Hashable) -> list[Any]:
        """Applies a traced function, whose derivative is that of its body.

        Args:
            function: In `tg`; a tensor for each operand, and any number of results.
            operands: Tensors that live here, and arrays of the host.
            key: Equal for functions that are the same.
        """

    def apply_traced(
        self, key: Hashable, operands: Sequence[Any], traced: Callable[[], TracedFunction | None]
    ) -> Any | None:
        """Applies a function as one op; gives `None` where its ops are to be applied one by one.

        Args:
            key: Equal for applications of the same function to operands of the same types.
            operands: Tensors that live here, and arrays of the host.
            traced: Traces the function for such operands; gives `None` where that is not possible.
        """
        return None

    @abstractmethod
    def synchronize(self) -> None:
        """Computes what is recorded."""

    @abstractmethod
    def computed(self, x: Any) -> NumpyArray | OutputHandle:
        """Returns the numbers of a tensor that lives here: a read-only array, or what is still on the device."""

    @abstractmethod
    def alias(self, x: Any) -> Any:
        """Returns another tensor with the value of `x`, which `share` makes a view of it."""

    @abstractmethod
    def share(self, x: Any, view: Any) -> None:
        """Notes that a tensor is a view of `x`, so that it follows changes in place."""

    @abstractmethod
    def assign(self, x: Any, what: str, value: Any) -> None:
        """Gives a tensor, and all that shares its memory, another value, broadcast to its shape.

        Args:
            x: Lives here.
            what: The method that messages name.
            value: A tensor, array or number.

        Raises:
            TraceError: This is inside a trace.
            GradientError: It is a leaf that requires a gradient, and gradients are recorded; or it can't be written to.
            ShapeError: The value doesn't broadcast to the tensor's shape.
            DTypeError: The value has a dtype that the tensor's can't hold.
        """

    @abstractmethod
    def change(self, function: FuncOp, changed: Sequence[Any], given: Sequence[Any], key: Hashable) -> None:
        """Gives tensors that live here, and all that share their memory, new values by a traced function.

        No derivative is recorded for it, and what is recorded for their own gradients stays.

        Args:
            function: In `tg`; takes `changed`, then `given`, and gives a new value for each of `changed`.
            changed: Tensors that live here.
            given: Tensors that live here, and arrays of the host.
            key: Equal for functions that are the same.
        """

    @abstractmethod
    def require_gradient(self, x: Any, required: bool) -> None:
        """Makes a tensor a leaf that gathers its gradient, or one that doesn't.

        Raises:
            GradientError: It is the result of an op that is recorded, or not of floats.
        """

    @abstractmethod
    def backward(
        self,
        x: Any,
        gradient: Any,
        retain_graph: bool | None,
        create_graph: bool,
        inputs: Any,
    ) -> None:
        """Adds the gradients of `x` to its leaves; see `Array.backward`."""

    @abstractmethod
    def detached(self, x: Any) -> Any:
        """Returns a tensor that shares the memory of `x`, and through which no derivative goes."""

    @abstractmethod
    def cloned(self, x: Any) -> Any:
        """Returns a copy, through which derivatives go."""

    @abstractmethod
    def add_hook(self, x: Any, hook: Any) -> Any:
        """Has a function called with the gradient of `x` in each backward pass; returns what removes it."""

    @abstractmethod
    def is_leaf(self, x: Any) -> bool:
        """Returns whether no recorded op made a tensor."""

    @abstractmethod
    def edge(self, x: Any) -> Any:
        """Returns where a derivative by a tensor goes; `None` where nothing asks for one."""

    @abstractmethod
    def gradient(self, x: Any) -> Any:
        """Returns the gradient that a tensor has gathered."""

    @abstractmethod
    def set_gradient(self, x: Any, gradient: Any) -> None:
        """Sets the gradient of a tensor.

        Raises:
            GradientError: The tensor gathers none, or the gradient has another shape, dtype or device.
        """

    @abstractmethod
    def retain_gradient(self, x: Any) -> None:
        """Has the gradient of a tensor that is not a leaf kept in `grad`."""
