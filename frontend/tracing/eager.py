"""What concrete tensors have beside the functions of tensors: a device, gradients, and changes in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from tensorgrad.errors import GradientError
from tensorgrad.tracing.home import Home, Live
from tensorgrad.tracing.location import user_line


class HookHandle:
    """What `register_hook` gives."""

    def __init__(self, remove: Callable[[], None]):
        self._remove = remove

    def remove(self) -> None:
        """Takes the hook back."""
        self._remove()


class Eager:
    """Devices, gradients and changes in place, by PyTorch's names.

    Only tensors that live on a device, `tg.tensor(...)` and what is computed from them, have gradients and can be
    changed; arrays of the host, `tg.array(...)`, are constants.
    """

    __slots__ = ()
    live: Live | None

    @property
    def home(self) -> Home | None:
        """The device that the tensor lives on; `None` for an array of the host."""
        return None if self.live is None else self.live.home

    @property
    def device(self) -> str:
        """Where the tensor lives: "cpu", "wgpu" or "numpy"; "host" for an array that goes along to any of them."""
        return "host" if self.live is None else self.live.home.device

    def _at_home(self, what: str) -> tuple[Home, Any]:
        itself: Any = self
        if self.live is None:
            raise GradientError(
                f"{user_line()}: {what}: the array is a constant of the host; tg.tensor(x) makes a tensor that lives "
                "on a device, has a gradient and can be changed"
            )
        return self.live.home, itself

    @property
    def requires_grad(self) -> bool:
        """Whether the gradient by the tensor, or by what it was computed from, is asked for; can be set on leaves."""
        return self.live is not None and self.live.home.edge(self) is not None

    @requires_grad.setter
    def requires_grad(self, required: bool) -> None:
        self.requires_grad_(required)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Makes the tensor a leaf that gathers its gradient in `grad`, or one that doesn't; returns it.

        Raises:
            GradientError: It is no leaf, not of floats, or an array of the host.
        """
        home, itself = self._at_home("requires_grad_")
        home.require_gradient(itself, requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded op made the tensor."""
        return self.live is None or self.live.home.is_leaf(self)

    @property
    def grad(self) -> Any:
        """The sum of the gradients of the backward passes so far; `None` before the first. It can be set."""
        return None if self.live is None else self.live.home.gradient(self)

    @grad.setter
    def grad(self, gradient: Any) -> None:
        live = self.live
        if live is None:
            self._at_home("grad")
        else:
            live.home.set_gradient(self, gradient)

    def zero_grad(self) -> None:
        """Lets the gradient go: `grad` is `None` again."""
        if self.live is not None:
            self.grad = None

    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Adds the gradients of this tensor by the leaves that it was computed from to their `grad`.

        Args:
            gradient: What the gradients are multiplied by, of the tensor's shape; 1 where it has one element.
            retain_graph: Whether what was recorded stays for another pass; by default as `create_graph` says.
            create_graph: Whether this pass is recorded too, so that gradients have derivatives.
            inputs: The tensors whose `grad` is wanted; all leaves if absent.

        Raises:
            GradientError: The tensor requires no gradient; it has several elements and `gradient` is missing; a tensor
                that is needed was changed in place since (names both lines); or an earlier pass let it go.
            ShapeError: The gradient has another shape.
        """
        home, itself = self._at_home("backward")
        home.backward(itself, gradient, retain_graph, create_graph, inputs)

    def detach(self) -> Any:
        """Returns a tensor that shares the memory of this one, and through which no derivative goes."""
        itself: Any = self
        return itself if self.live is None else self.live.home.detached(itself)

    def clone(self) -> Any:
        """Returns a copy, through which derivatives go."""
        itself: Any = self
        return itself if self.live is None else self.live.home.cloned(itself)

    def contiguous(self) -> Any:
        """Returns the tensor: there are no other layouts to tell apart."""
        itself: Any = self
        return itself

    def retain_grad(self) -> None:
        """Has the gradient kept in `grad` though the tensor is no leaf.

        Raises:
            GradientError: It requires no gradient.
        """
        home, itself = self._at_home("retain_grad")
        home.retain_gradient(itself)

    def register_hook(self, hook: Callable[[Any], Any]) -> HookHandle:
        """Has a function called with the gradient by this tensor in each backward pass.

        Args:
            hook: Takes the gradient; gives another one in its place, or None.

        Returns:
            What takes it back, by `remove()`.

        Raises:
            GradientError: The tensor requires no gradient.
        """
        home, itself = self._at_home("register_hook")
        return HookHandle(home.add_hook(itself, hook))

    def _changed(self, what: str, function: str, *operands: Any) -> Self:
        home, itself = self._at_home(what)
        if any(isinstance(one, Eager) and one.requires_grad for one in (itself, *operands)):
            itself = home.cloned(itself)  # what the derivative of the change itself needs is not changed by it
        home.assign(self, what, getattr(itself, function)(*operands))
        return self

    def copy_(self, other: Any) -> Self:
        """Takes the values of another tensor, array or number, broadcast; returns itself.

        Raises:
            GradientError, ShapeError, DTypeError: It can't be changed so; see `add_`.
        """
        home, itself = self._at_home("copy_")
        home.assign(itself, "copy_", other)
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
            GradientError: It is a leaf that requires a gradient, outside `tg.no_grad()`, or an array of the host.
            ShapeError: The result would have another shape.
            DTypeError: The result would have a dtype that the tensor's can't hold.
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
        """Brings elements into a range in place; returns the tensor. Raises as `add_` does."""
        return self._changed("clamp_", "clamp", min, max)

    def abs_(self) -> Self:
        """Takes magnitudes in place; returns the tensor. Raises as `add_` does."""
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
        """Sets what is negative to 0 in place; returns the tensor. Raises as `add_` does."""
        return self._changed("relu_", "relu")

    def sigmoid_(self) -> Self:
        """Applies the logistic function in place; returns the tensor. Raises as `add_` does."""
        return self._changed("sigmoid_", "sigmoid")

    def tanh_(self) -> Self:
        """Takes the hyperbolic tangent in place; returns the tensor. Raises as `add_` does."""
        return self._changed("tanh_", "tanh")

    def masked_fill_(self, mask: Any, value: Any) -> Self:
        """Sets the elements where a mask holds to a value, in place; returns the tensor. Raises as `add_` does."""
        return self._changed("masked_fill_", "masked_fill", mask, value)

    def _augmented(self, what: str, function: str, other: Any) -> Any:
        # Python takes the plain operator where there is nothing to change: `x += y` names a new array then.
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
