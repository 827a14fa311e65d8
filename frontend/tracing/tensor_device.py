"""The device side of eager tensors, and the interface of the devices that they live on, which apply ops to them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from tensorgrad.dialects.tg.base import NumpyArray, TensorOp
from tensorgrad.runtime.outputs import OutputHandle
from tensorgrad.tracing.dtypes import DType


class Live:
    """The device side of an eager tensor.

    Attributes:
        device: The device.
        value: Its value, in the device's own representation. Its `kind` is the same object for all values of its type.
        edge: The graph edge that its derivative flows to; `None` if none is needed.
        view: The view that it is; see `tensorgrad.tracing.views`.
        memory: What it shares with tensors detached from it, in the device's own representation; `None` without any.
        leaf: The accumulator of its gradient, in the device's own representation, once requested.
    """

    __slots__ = ("device", "edge", "leaf", "memory", "value", "view")

    def __init__(self, device: TensorDevice, value: Any, edge: Any):
        self.device, self.value, self.edge = device, value, edge
        self.view: Any = None
        self.memory: Any = None
        self.leaf: Any = None


class Concrete(Protocol):
    """A device's interface to a concrete tensor; it is a `tensorgrad.tracing.tensor.Array`."""

    @property
    def live(self) -> Live | None:
        """Its device side; `None` for a host array."""
        ...

    @property
    def source(self) -> Any:
        """The values, wherever they are stored."""
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
    """A function of tensors, traced for operands of certain types.

    Attributes:
        function: The function in `tg`.
        allows: Whether the function may be applied to given operands, if that depends on their values.
        rebuild: Returns the result as the Python function does, such as a tuple, of a list of tensors.
    """

    function: FuncOp
    allows: Callable[[Sequence[Any]], bool] | None
    rebuild: Callable[[list[Any]], Any]


class TensorDevice(ABC):
    """A device that tensors live on, and on which ops on them run.

    Attributes:
        name: Its name, as `device=` takes it.
    """

    name: str

    @abstractmethod
    def apply(self, kind: type[TensorOp], operands: Sequence[Any], properties: Mapping[str, Attribute]) -> Any:
        """Applies an op.

        Args:
            kind: The op.
            operands: Tensors that live here, and host arrays.
            properties: The op's properties.

        Raises:
            VerifyException: The operands are invalid for the op.
            DTypeError: The device doesn't support the result's dtype.
        """

    @abstractmethod
    def call(self, function: FuncOp, operands: Sequence[Any], key: Hashable) -> list[Any]:
        """Applies a traced function; its derivative is that of its body.

        Args:
            function: The function in `tg`; takes a tensor for each operand, and returns any number of results.
            operands: Tensors that live here, and host arrays.
            key: Equal for identical functions.
        """

    def apply_traced(
        self, key: Hashable, operands: Sequence[Any], traced: Callable[[], TracedFunction | None]
    ) -> Any | None:
        """Returns the result of a function, applied as one op; `None` if its ops must be applied one by one.

        Args:
            key: Equal for applications of the same function to operands of the same types.
            operands: Tensors that live here, and host arrays.
            traced: Traces the function for such operands; returns `None` if that is not possible.
        """
        return None

    @abstractmethod
    def synchronize(self) -> None:
        """Runs all recorded computations."""

    @abstractmethod
    def computed(self, x: Any) -> NumpyArray | OutputHandle:
        """Returns the values of a tensor that lives here: a read-only array, or a handle to values on the device."""

    @abstractmethod
    def alias(self, x: Any) -> Any:
        """Returns another tensor with the value of `x`, which `share` turns into a view of it."""

    @abstractmethod
    def share(self, x: Any, view: Any) -> None:
        """Records that a tensor is a view of `x`, so that it reflects in-place changes."""

    @abstractmethod
    def assign(self, x: Any, what: str, value: Any) -> None:
        """Assigns another value, broadcast to its shape, to a tensor and everything that shares its memory.

        Args:
            x: A tensor that lives here.
            what: The method's name in error messages.
            value: A tensor, array or number.

        Raises:
            TraceError: This is inside a trace.
            GradientError: It is a leaf that requires a gradient, and gradients are recorded; or it is not writable.
            ShapeError: The value doesn't broadcast to the tensor's shape.
            DTypeError: The value's dtype can't be converted to the tensor's.
        """

    @abstractmethod
    def change(self, function: FuncOp, changed: Sequence[Any], others: Sequence[Any], key: Hashable) -> None:
        """Assigns the results of a traced function to tensors that live here, and to all that share their memory.

        No derivative is recorded for it, and their own gradients' graphs are kept.

        Args:
            function: The function in `tg`; takes `changed`, then `others`, and returns a new value for each of
                `changed`.
            changed: Tensors that live here.
            others: Tensors that live here, and host arrays.
            key: Equal for identical functions.
        """

    @abstractmethod
    def require_gradient(self, x: Any, required: bool) -> None:
        """Makes a tensor a leaf that accumulates its gradient, or one that doesn't.

        Raises:
            GradientError: It is the result of a recorded op, or not a float tensor.
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
        """Accumulates the gradients of `x` in its leaves; see `Array.backward`."""

    @abstractmethod
    def detached(self, x: Any) -> Any:
        """Returns a tensor that shares the memory of `x`, and does not propagate derivatives."""

    @abstractmethod
    def cloned(self, x: Any) -> Any:
        """Returns a copy that propagates derivatives."""

    @abstractmethod
    def add_hook(self, x: Any, hook: Any) -> Any:
        """Registers a function called with the gradient of `x` in each backward pass; returns its handle."""

    @abstractmethod
    def is_leaf(self, x: Any) -> bool:
        """Returns whether a tensor is not the result of a recorded op."""

    @abstractmethod
    def edge(self, x: Any) -> Any:
        """Returns the graph edge that a tensor's derivative flows to; `None` if none is needed."""

    @abstractmethod
    def gradient(self, x: Any) -> Any:
        """Returns the accumulated gradient of a tensor."""

    @abstractmethod
    def set_gradient(self, x: Any, gradient: Any) -> None:
        """Sets the gradient of a tensor.

        Raises:
            GradientError: The tensor accumulates none, or the gradient has another shape, dtype or device.
        """

    @abstractmethod
    def retain_gradient(self, x: Any) -> None:
        """Keeps the gradient of a non-leaf tensor in `grad`."""
