"""Members of concrete tensors beyond the tensor functions: device, gradients, and in-place changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from tensorgrad.errors import GradientError
from tensorgrad.tracing.tensor_device import Live, TensorDevice


class HookHandle:
    """A handle returned by `register_hook`."""

    def __init__(self, remove: Callable[[], None]):
        self._remove = remove

    def remove(self) -> None:
        """Removes the hook."""
        self._remove()


class Eager:
    """Devices, gradients and in-place changes, with PyTorch's names.

    Only tensors that live on a device, `tg.tensor(...)` and what is computed from them, have gradients and can be
    changed; host arrays, `tg.array(...)`, are constants.
    """

    __slots__ = ()
    live: Live | None

    @property
    def tensor_device(self) -> TensorDevice | None:
        """The device that the tensor lives on; `None` for a host array."""
        return None if self.live is None else self.live.device

    @property
    def device(self) -> str:
        """Where the tensor lives: "cpu", "wgpu" or "numpy"; "host" for a host array, usable with any of them."""
        return "host" if self.live is None else self.live.device.name

    def _on_device(self, what: str) -> tuple[TensorDevice, Any]:
        itself: Any = self
        if self.live is None:
            raise GradientError(
                f"{what}: the array is a constant of the host; tg.tensor(x) makes a tensor that lives "
                "on a device, has a gradient and can be changed"
            )
        return self.live.device, itself

    @property
    def requires_grad(self) -> bool:
        """Whether gradients with respect to the tensor or its inputs are needed; can be set on leaves."""
        return self.live is not None and self.live.device.edge(self) is not None

    @requires_grad.setter
    def requires_grad(self, required: bool) -> None:
        self.requires_grad_(required)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Makes the tensor a leaf that accumulates its gradient in `grad`, or one that doesn't; returns it.

        Raises:
            GradientError: It is not a leaf, not a float tensor, or a host array.
        """
        device, itself = self._on_device("requires_grad_")
        device.require_gradient(itself, requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor is not the result of a recorded op."""
        return self.live is None or self.live.device.is_leaf(self)

    @property
    def grad(self) -> Any:
        """The accumulated gradient of all backward passes so far; `None` before the first. It can be set."""
        return None if self.live is None else self.live.device.gradient(self)

    @grad.setter
    def grad(self, gradient: Any) -> None:
        live = self.live
        if live is None:
            self._on_device("grad")
        else:
            live.device.set_gradient(self, gradient)

    def zero_grad(self) -> None:
        """Resets the gradient: `grad` is `None` again."""
        if self.live is not None:
            self.grad = None

    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Accumulates this tensor's gradients with respect to the leaves that it was computed from in their `grad`.

        Args:
            gradient: The cotangent of the tensor, of the same shape; 1 if the tensor has one element.
            retain_graph: Whether the graph is kept for another pass; defaults to `create_graph`.
            create_graph: Whether this pass is recorded too, so that gradients can be differentiated.
            inputs: The tensors whose `grad` is accumulated; all leaves by default.

        Raises:
            GradientError: The tensor requires no gradient; it has several elements and `gradient` is missing; a tensor
                that is needed was changed in place since (names both lines); or an earlier pass freed the graph.
            ShapeError: The gradient has another shape.
        """
        device, itself = self._on_device("backward")
        device.backward(itself, gradient, retain_graph, create_graph, inputs)

    def detach(self) -> Any:
        """Returns a tensor that shares the memory of this one, and does not propagate derivatives."""
        itself: Any = self
        return itself if self.live is None else self.live.device.detached(itself)

    def clone(self) -> Any:
        """Returns a copy that propagates derivatives."""
        itself: Any = self
        return itself if self.live is None else self.live.device.cloned(itself)

    def contiguous(self) -> Any:
        """Returns the tensor itself: there are no other memory layouts."""
        itself: Any = self
        return itself

    def retain_grad(self) -> None:
        """Keeps the gradient in `grad` even though the tensor is not a leaf.

        Raises:
            GradientError: It requires no gradient.
        """
        device, itself = self._on_device("retain_grad")
        device.retain_gradient(itself)

    def register_hook(self, hook: Callable[[Any], Any]) -> HookHandle:
        """Registers a function that is called with the gradient of this tensor in each backward pass.

        Args:
            hook: Takes the gradient; returns a replacement, or None.

        Returns:
            A handle whose `remove()` removes the hook.

        Raises:
            GradientError: The tensor requires no gradient.
        """
        device, itself = self._on_device("register_hook")
        return HookHandle(device.add_hook(itself, hook))

    def _changed(self, what: str, function: str, *operands: Any) -> Self:
        device, itself = self._on_device(what)
        if any(isinstance(operand, Eager) and operand.requires_grad for operand in (itself, *operands)):
            itself = device.cloned(itself)  # the change must not affect what its own derivative needs
        device.assign(self, what, getattr(itself, function)(*operands))
        return self

    def copy_(self, other: Any) -> Self:
        """Copies the values of another tensor, array or number into this one, broadcast; returns it.

        Raises:
            GradientError, ShapeError, DTypeError: The change is not possible; see `add_`.
        """
        device, itself = self._on_device("copy_")
        device.assign(itself, "copy_", other)
        return self

    def fill_(self, value: float) -> Self:
        """Fills the tensor with a number; returns it."""
        return self.copy_(value)

    def zero_(self) -> Self:
        """Fills the tensor with zeros; returns it."""
        return self.copy_(0)

    def add_(self, other: Any, alpha: Any = 1) -> Self:
        """Adds `alpha * other` in place; returns the tensor.

        Raises:
            GradientError: It is a leaf that requires a gradient, outside `tg.no_grad()`, or a host array.
            ShapeError: The result would have another shape.
            DTypeError: The result's dtype can't be converted to the tensor's.
        """
        scaled = other if isinstance(alpha, int) and alpha == 1 else other * alpha
        return self._changed("add_", "add", scaled)

    def sub_(self, other: Any, alpha: Any = 1) -> Self:
        """Subtracts `alpha * other` in place; returns the tensor. Raises as `add_` does."""
        scaled = other if isinstance(alpha, int) and alpha == 1 else other * alpha
        return self._changed("sub_", "subtract", scaled)

    def mul_(self, other: Any) -> Self:
        """Multiplies in place; returns the tensor. Raises as `add_` does."""
        return self._changed("mul_", "multiply", other)

    def div_(self, other: Any) -> Self:
        """Divides in place; returns the tensor. Raises as `add_` does."""
        return self._changed("div_", "divide", other)

    def pow_(self, other: Any) -> Self:
        """Raises to a power in place; returns the tensor. Raises as `add_` does."""
        return self._changed("pow_", "power", other)

    def clamp_(self, min: Any = None, max: Any = None) -> Self:
        """Clamps elements to a range in place; returns the tensor. Raises as `add_` does."""
        return self._changed("clamp_", "clamp", min, max)

    def abs_(self) -> Self:
        """Takes absolute values in place; returns the tensor. Raises as `add_` does."""
        return self._changed("abs_", "abs")

    def neg_(self) -> Self:
        """Negates in place; returns the tensor. Raises as `add_` does."""
        return self._changed("neg_", "negative")

    def exp_(self) -> Self:
        """Takes the exponential in place; returns the tensor. Raises as `add_` does."""
        return self._changed("exp_", "exp")

    def sqrt_(self) -> Self:
        """Takes the square root in place; returns the tensor. Raises as `add_` does."""
        return self._changed("sqrt_", "sqrt")

    def relu_(self) -> Self:
        """Sets negative elements to 0 in place; returns the tensor. Raises as `add_` does."""
        return self._changed("relu_", "relu")

    def sigmoid_(self) -> Self:
        """Applies the logistic function in place; returns the tensor. Raises as `add_` does."""
        return self._changed("sigmoid_", "sigmoid")

    def tanh_(self) -> Self:
        """Takes the hyperbolic tangent in place; returns the tensor. Raises as `add_` does."""
        return self._changed("tanh_", "tanh")

    def masked_fill_(self, mask: Any, value: Any) -> Self:
        """Sets the elements where a mask is true to a value, in place; returns the tensor. Raises as `add_` does."""
        return self._changed("masked_fill_", "masked_fill", mask, value)

    def _augmented(self, what: str, function: str, other: Any) -> Any:
        # For host arrays Python falls back to the plain operator: `x += y` then binds a new array.
        return NotImplemented if self.live is None else self._changed(what, function, other)

    def __iadd__(self, other: Any) -> Any:
        return self._augmented("+=", "add", other)

    def __isub__(self, other: Any) -> Any:
        return self._augmented("-=", "subtract", other)

    def __imul__(self, other: Any) -> Any:
        return self._augmented("*=", "multiply", other)

    def __itruediv__(self, other: Any) -> Any:
        return self._augmented("/=", "divide", other)

    def __ifloordiv__(self, other: Any) -> Any:
        return self._augmented("//=", "floor_divide", other)

    def __imod__(self, other: Any) -> Any:
        return self._augmented("%=", "remainder", other)

    def __ipow__(self, other: Any) -> Any:
        return self._augmented("**=", "power", other)

    def __iand__(self, other: Any) -> Any:
        return self._augmented("&=", "bitwise_and", other)

    def __ior__(self, other: Any) -> Any:
        return self._augmented("|=", "bitwise_or", other)

    def __ixor__(self, other: Any) -> Any:
        return self._augmented("^=", "bitwise_xor", other)

    def __ilshift__(self, other: Any) -> Any:
        return self._augmented("<<=", "bitwise_left_shift", other)

    def __irshift__(self, other: Any) -> Any:
        return self._augmented(">>=", "bitwise_right_shift", other)
