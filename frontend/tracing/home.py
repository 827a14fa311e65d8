"""Where a concrete tensor lives: what applies ops to tensors of a device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from tensorgrad.dialects.tg.base import NumpyArray, TensorOp
from tensorgrad.runtime.backend import OutputHandle

if TYPE_CHECKING:
    from tensorgrad.tracing.tensor import Array


class Live:
    """What an eager tensor is on its device.

    Attributes:
        home: The device.
        value: Its value, in the device's own terms.
        edge: Where a derivative by it goes; `None` where nothing asks for one.
        view: What it is a view of; see `tensorgrad.tracing.views`.
    """

    __slots__ = ("edge", "home", "value", "view")

    def __init__(self, home: Home, value: Any, edge: Any):
        self.home, self.value, self.edge = home, value, edge
        self.view: Any = None


class Home(ABC):
    """A device that tensors live on, and on which ops on them run.

    Attributes:
        device: Its name, as `device=` takes it.
    """

    device: str

    @abstractmethod
    def apply(self, kind: type[TensorOp], operands: Sequence[Array], properties: Mapping[str, Attribute]) -> Array:
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
    def call(self, function: FuncOp, operands: Sequence[Array], key: Hashable) -> list[Array]:
        """Applies a traced function, whose derivative is that of its body.

        Args:
            function: In `tg`; a tensor for each operand, and any number of results.
            operands: Tensors that live here, and arrays of the host.
            key: Equal for functions that are the same.
        """

    @abstractmethod
    def synchronize(self) -> None:
        """Computes what is recorded."""

    @abstractmethod
    def computed(self, x: Array) -> NumpyArray | OutputHandle:
        """Returns the numbers of a tensor that lives here: a read-only array, or what is still on the device."""

    @abstractmethod
    def share(self, x: Array, view: Array) -> None:
        """Notes that a tensor is a view of `x`, so that it follows changes in place."""

    @abstractmethod
    def assign(self, x: Array, what: str, value: Any) -> None:
        """Gives a tensor, and all that shares its memory, another value, broadcast to its shape.

        Args:
            x: Lives here.
            what: The method that messages name.
            value: A tensor, array or number.

        Raises:
            GradientError: It is a leaf that requires a gradient, and gradients are recorded; or it can't be written to.
            ShapeError: The value doesn't broadcast to the tensor's shape.
            DTypeError: The value has a dtype that the tensor's can't hold.
        """

    @abstractmethod
    def replace(self, x: Array, new: Array) -> None:
        """Gives a tensor, and all that shares its memory, the value of a new one of its shape and dtype.

        Args:
            x: Lives here. What is recorded for its gradient stays.
            new: What an op or a function has given, and nobody else has.
        """

    @abstractmethod
    def require_gradient(self, x: Array, required: bool) -> None:
        """Makes a tensor a leaf that gathers its gradient, or one that doesn't.

        Raises:
            GradientError: It is the result of an op that is recorded, or not of floats.
        """

    @abstractmethod
    def backward(
        self,
        x: Array,
        gradient: Any,
        retain_graph: bool | None,
        create_graph: bool,
        inputs: Array | Sequence[Array] | None,
    ) -> None:
        """Adds the gradients of `x` to its leaves; see `Array.backward`."""

    @abstractmethod
    def detached(self, x: Array) -> Array:
        """Returns a tensor that shares the memory of `x`, and through which no derivative goes."""

    @abstractmethod
    def cloned(self, x: Array) -> Array:
        """Returns a copy, through which derivatives go."""

    @abstractmethod
    def add_hook(self, x: Array, hook: Any) -> Any:
        """Has a function called with the gradient of `x` in each backward pass; returns what removes it."""

    @abstractmethod
    def is_leaf(self, live: Live) -> bool:
        """Returns whether no recorded op made a tensor."""

    @abstractmethod
    def gradient(self, x: Array) -> Array | None:
        """Returns the gradient that a tensor has gathered."""

    @abstractmethod
    def set_gradient(self, x: Array, gradient: Array | None) -> None:
        """Sets the gradient of a tensor.

        Raises:
            GradientError: The tensor gathers none, or the gradient has another shape, dtype or device.
        """

    @abstractmethod
    def retain_gradient(self, x: Array) -> None:
        """Has the gradient of a tensor that is not a leaf kept in `grad`."""
