"""In-place changes, views, leaves and backward passes: the device-independent part of an eager device."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

from tensorgrad.eager.backward import Applier, Backward, Crossing
from tensorgrad.eager.folding import Pass
from tensorgrad.eager.tape import Edge, Leaf, Operand, TapeNode
from tensorgrad.eager.templates import Template
from tensorgrad.eager.values import Kind, Memory, Value, value_of
from tensorgrad.errors import ArgumentError, DTypeError, GradientError, ShapeError, TraceError
from tensorgrad.ops.changes import Changes as At
from tensorgrad.ops.promotion import as_tensor, broadcast_shapes, broadcast_to, cast
from tensorgrad.ops.shape import reshape
from tensorgrad.tracing.dtypes import SHORT, is_float, promote
from tensorgrad.tracing.grad_mode import is_grad_enabled, recording
from tensorgrad.tracing.location import user_place
from tensorgrad.tracing.tensor import Array, Tensor
from tensorgrad.tracing.tensor_device import Live, TensorDevice
from tensorgrad.tracing.tracer import current_trace
from tensorgrad.tracing.views import View

_hook_numbers = count()


class AutogradDevice(TensorDevice):
    """The device-independent part of an eager device that can change tensors in place."""

    @abstractmethod
    def run(
        self, template: Template, operands: Sequence[Value], edges: Sequence[Edge | None] | None
    ) -> tuple[list[Value], list[Edge | None] | None]:
        """Applies a template.

        Args:
            template: The template.
            operands: Its operands.
            edges: The edges of the operands' derivatives; `None` if no derivative is recorded.

        Returns:
            The results, and their edges, if any have one.
        """

    @abstractmethod
    def applied(self, template: Template, operands: Sequence[Operand]) -> list[Operand]:
        """Applies a template, and records it on the tape if derivatives flow through it."""

    @abstractmethod
    def operand(self, x: Array) -> Operand:
        """Returns a tensor's current value, and the edge of its derivative."""

    @abstractmethod
    def copy(self, x: Operand) -> Operand:
        """Returns the same values, as a distinct value."""

    @abstractmethod
    def sum(self, x: Operand, y: Operand) -> Operand:
        """Returns the sum of two tensors of the same type."""

    @abstractmethod
    def full(self, kind: Kind, number: float) -> Operand:
        """Returns a tensor filled with a number."""

    def arrived(self, x: Operand, source: Applier) -> Operand:
        """Returns a copy of another device's tensor, which is computed first; derivatives flow back to that device."""
        value, edge = x
        moved = value_of(np.asarray(value.numpy(), order="C"))
        if edge is None or not is_grad_enabled():
            return moved, None
        return moved, (Crossing(source, edge, moved), 0)

    def whole_pass(self, root: TapeNode, place: int, seed: Kind) -> Pass | None:
        """Returns the backward pass from a result as one application; `None` here, since it would gain nothing."""
        return None

    @abstractmethod
    def wrap(self, value: Value, edge: Edge | None) -> Array:
        """Returns a tensor with a value."""

    def alias(self, x: Array) -> Array:
        """Returns another tensor with the value of `x`; see `TensorDevice.alias`."""
        value, edge = self.operand(x)
        return self.wrap(value, edge if is_grad_enabled() else None)

    def share(self, x: Array, view: Array) -> None:
        """Records that a tensor is a view of `x`; see `TensorDevice.share`."""
        value: Value = live(view).value
        value.version = self.operand(x)[0].versioned()

    def update(self, x: Array) -> None:
        """Updates a view, or a tensor that shares memory with others, after an in-place change."""
        own = live(x)
        if own.view is None:
            own.value = own.memory.value
            return
        _check_certain(own.view, x)
        with recording(own.view.is_recorded):  # regardless of the mode in which it is first read
            view = own.view.again(own.view.parent)
            own.value, own.edge = self.operand(view)
        own.value.version = self.operand(own.view.parent)[0].versioned()

    def assign(self, x: Array, what: str, value: Any) -> None:
        """Assigns another value to a tensor and everything that shares its memory; see `TensorDevice.assign`."""
        trace = current_trace()
        if trace is not None:
            raise TraceError(
                f"{what}: a tensor on {self.name} is changed in place inside {trace.name}, which is "
                "traced and may run any number of times; return the value from there, and change the tensor outside"
            )
        self._check_changeable(x, what)
        whole: Tensor = self._fitting(x, what, value)
        root = x
        while (view := live(root).view) is not None:
            _check_certain(view, root)
            whole = _put(view, whole, what)
            root = view.parent
        assert isinstance(whole, Array)
        contents, edge = self.copy(self.operand(whole))
        self._replace(root, contents, user_place())
        own = live(root)
        if is_grad_enabled() and not isinstance(self._target(root), Leaf):
            own.edge = edge
        if root is not x:
            self.update(x)

    def take(self, x: Array, value: Value, line: tuple[str, int]) -> None:
        """Assigns a new value that no other tensor has; the graph of the tensor's gradient is kept.

        Args:
            x: A tensor that lives here.
            value: A value of its shape and dtype.
            line: The user's line.
        """
        own = live(x)
        if own.view is not None:
            self.assign(x, "replace", self.wrap(value, None))
            return
        self._replace(x, value, line)

    def _replace(self, x: Array, value: Value, line: tuple[str, int]) -> None:
        """Gives a tensor that is no view, and those that share its memory, a value that no other tensor has."""
        version = self.operand(x)[0].versioned()
        version.is_over, version.line = True, line
        own = live(x)
        own.value = value
        if own.memory is not None:
            own.memory.value = value

    def _check_changeable(self, x: Array, what: str) -> None:
        current: Array | None = x if is_grad_enabled() else None
        while current is not None:
            if isinstance(self._target(current), Leaf):
                that = "" if current is x else ", which this tensor is a view of,"
                raise GradientError(
                    f"{what}: a leaf{that} requires a gradient, so that it can't be changed in place; "
                    "inside tg.no_grad() it can"
                )
            view = live(current).view
            current = None if view is None else view.parent

    def _fitting(self, x: Array, what: str, value: Any) -> Array:
        """Returns the new value with the shape and dtype of a tensor."""
        new = as_tensor(value, x.dtype if isinstance(value, bool | int | float) else None)
        if broadcast_shapes(new.shape, x.shape, what=what) != x.shape:
            raise ShapeError(f"{what}: shape {new.shape} does not broadcast to {x.shape}")
        if new.dtype != x.dtype and (promote(new.dtype, x.dtype) != x.dtype and not is_float(x.dtype)):
            raise DTypeError(f"{what}: {SHORT[new.dtype]} can't be stored in {SHORT[x.dtype]}")
        fitted = broadcast_to(cast(new, x.dtype), x.shape)
        assert isinstance(fitted, Array)
        return fitted if fitted.tensor_device is self else self.wrap(*self.operand(fitted))

    def require_gradient(self, x: Array, required: bool) -> None:
        """Makes a tensor a leaf that accumulates its gradient, or one that doesn't."""
        target, own = self._target(x), live(x)
        if isinstance(target, TapeNode):
            raise GradientError("requires_grad can be set on leaves only; detach() gives a tensor without the graph")
        if required and not is_float(x.dtype):
            raise GradientError(f"a tensor of {SHORT[x.dtype]} has no gradient; only floats have")
        if required:
            own.leaf = own.leaf or Leaf()
        own.edge = (own.leaf, 0) if required else None

    def backward(
        self,
        x: Array,
        gradient: Any,
        retain_graph: bool | None,
        create_graph: bool,
        inputs: Array | Sequence[Array] | None,
    ) -> None:
        """Accumulates the gradients of a tensor in its leaves."""
        value, edge = self.operand(x)
        if edge is None:
            raise GradientError(
                "backward: the tensor requires no gradient: nothing that it was computed from does, or it was computed "
                'inside tg.no_grad(); the parameters of model.initialized(0, device="cpu") do, those without a device '
                "are constants"
            )
        if gradient is None and value.shape != () and x.size != 1:
            raise GradientError(
                f"backward: a tensor of shape {value.shape} needs a gradient of that shape; only one of "
                "one element needs none"
            )
        seed = self.full(value.kind, 1) if gradient is None else self._seed(value.kind, gradient)
        only = None if inputs is None else _edges([inputs] if isinstance(inputs, Array) else inputs)
        retain = create_graph if retain_graph is None else retain_graph
        Backward(self, retain, create_graph, only).run(edge, seed)

    def _seed(self, kind: Kind, gradient: Any) -> Operand:
        """Returns the cotangent that the pass starts from."""
        tensor = as_tensor(gradient, kind.dtype)
        if tensor.shape != kind.shape:
            raise ShapeError(f"backward: the gradient has shape {tensor.shape}, the tensor {kind.shape}")
        seed = cast(tensor, kind.dtype)
        assert isinstance(seed, Array)
        return self.operand(seed)

    def detached(self, x: Array) -> Array:
        """Returns a tensor that shares the memory of `x`, and does not propagate derivatives."""
        value, _ = self.operand(x)
        result = self.wrap(value, None)
        own, new = live(x), live(result)
        if own.view is None:
            new.memory = own.memory = own.memory or Memory(value)
        else:
            new.view = replace(own.view, parent=self.detached(own.view.parent))
        return result

    def cloned(self, x: Array) -> Array:
        """Returns a copy that propagates derivatives."""
        return self.wrap(*self.copy(self.operand(x)))

    def add_hook(self, x: Array, hook: Any) -> Callable[[], None]:
        """Registers a function called with the gradient of `x` in each backward pass; returns what removes it."""
        edge = self.operand(x)[1]
        if edge is None:
            raise GradientError("register_hook: the tensor requires no gradient")
        target, place = edge
        hooks = target.hooks if isinstance(target, Leaf) else target.hooks.setdefault(place, {})
        number = next(_hook_numbers)
        hooks[number] = hook
        return lambda: hooks.pop(number, None) and None

    def retain_gradient(self, x: Array) -> None:
        """Keeps the gradient of a non-leaf tensor in `grad`."""
        edge = self.operand(x)[1]
        if edge is None:
            raise GradientError("retain_grad: the tensor requires no gradient")
        target, place = edge
        if isinstance(target, TapeNode):
            target.retained.setdefault(place, Leaf()).gathers = True

    def edge(self, x: Array) -> Edge | None:
        """Returns the edge of a tensor's derivative, if one is needed."""
        return self.operand(x)[1]

    def is_leaf(self, x: Array) -> bool:
        """Returns whether a tensor is not the result of a recorded op."""
        return not isinstance(self._target(x), TapeNode)

    def _target(self, x: Array) -> TapeNode | Leaf | None:
        edge = self.edge(x)
        return None if edge is None else edge[0]

    def _kept(self, x: Array) -> Leaf | None:
        """Returns the accumulator of a tensor's gradient."""
        own = live(x)
        edge: Edge | None = own.edge if own.view is None else self.edge(x)  # an update sets that of a view
        if edge is None:
            return own.leaf
        target, place = edge
        return target if isinstance(target, Leaf) else target.retained.get(place)

    def gradient(self, x: Array) -> Array | None:
        """Returns the accumulated gradient of a tensor."""
        leaf = self._kept(x)
        return None if leaf is None else leaf.grad

    def set_gradient(self, x: Array, gradient: Array | None) -> None:
        """Sets the gradient of a tensor."""
        leaf = self._kept(x)
        if gradient is None:
            if leaf is not None:
                leaf.grad = None
            return
        if leaf is None:
            raise GradientError("grad: the tensor requires no gradient")
        if not isinstance(gradient, Array) or gradient.shape != x.shape or gradient.dtype != x.dtype:
            description = (
                f"a tensor of shape {gradient.shape}" if isinstance(gradient, Array) else type(gradient).__name__
            )
            raise GradientError(
                f"grad: a gradient is a tensor of the shape {x.shape} and the dtype {SHORT[x.dtype]}, not {description}"
            )
        leaf.grad = gradient if gradient.tensor_device is self else self.wrap(*self.operand(gradient))


def live(x: Array) -> Live:
    """Returns the device side of a tensor that lives on a device."""
    assert x.live is not None
    return x.live


def _edges(inputs: Sequence[Any]) -> set[Edge]:
    edges: set[Edge] = set()
    for x in inputs:
        edge: Edge | None = x.live.device.edge(x) if isinstance(x, Array) and x.live is not None else None
        if edge is None:
            raise GradientError(f"backward: inputs are tensors that require a gradient, not {x!r}")
        edges.add(edge)
        if isinstance(edge[0], TapeNode):
            edge[0].retained.setdefault(edge[1], Leaf(gathers=False))
    return edges


def _check_certain(view: View, x: Tensor) -> None:
    if not _is_certain(view):
        raise GradientError(
            f"a tensor of shape {x.shape} is a reshape of one whose elements lie in memory so that no strides fit this "
            "shape, as those of a transposed one may, and a change in place is to show in it or to be made through it: "
            "NumPy and PyTorch copy there, so say what is meant by clone()"
        )


def _is_certain(view: View) -> bool:
    """Returns whether a view, and those that it is of, share memory in NumPy and PyTorch, too."""
    if view.is_certain is None:
        around = live(view.parent).view
        view.is_certain = (around is None or _is_certain(around)) and (not view.reshapes or _keeps_memory(view))
    return view.is_certain


def _keeps_memory(view: View) -> bool:
    """Returns whether NumPy reshapes without a copy what lies in memory as the parent of a view does."""
    places = _places(view.parent)
    if not places.size:
        return True
    first = places.reshape(-1)[0]
    strides = [places.take(min(1, extent - 1), axis).flat[0] - first for axis, extent in enumerate(places.shape)]
    memory = np.empty(places.max() + 1, np.int8)
    strided = np.lib.stride_tricks.as_strided(memory[first:], places.shape, strides)
    return np.may_share_memory(memory, strided.reshape(view.again(Array(places)).shape))


def _places(x: Array) -> np.ndarray:
    """Returns where in memory each element of a tensor lies."""
    view = live(x).view
    if view is None:
        return np.arange(x.size, dtype=np.int32).reshape(x.shape)
    return np.asarray(view.again(Array(_places(view.parent))))


def _put(view: View, new: Tensor, what: str) -> Tensor:
    """Returns the base tensor of a view, with the elements that the view covers replaced."""
    parent = view.parent
    places = np.asarray(view.again(Array(np.arange(parent.size, dtype=np.int32).reshape(parent.shape)))).reshape(-1)
    if len(np.unique(places)) < len(places):
        raise ArgumentError(
            f"{what}: several elements of the tensor are one in memory, as after broadcast_to; change a clone() of it"
        )
    flat = At(reshape(parent, -1))[places].set(reshape(new, -1))
    return reshape(flat, parent.shape)
