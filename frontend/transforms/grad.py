"""`grad` and `value_and_grad`: derivatives of Python functions, nestable to any order."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, Literal, cast, overload

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from tensorgrad.dialects.signature import Role, Slot
from tensorgrad.dialects.tg.build import TensorBuilder, type_of
from tensorgrad.errors import DTypeError, ShapeError, TraceError
from tensorgrad.interpreters.tensors import TensorExecutor
from tensorgrad.passes.tensors.grad import gradients
from tensorgrad.passes.tensors.inline_calls import InlineCallsPass
from tensorgrad.passes.tensors.outline_attention import outlined
from tensorgrad.passes.tensors.simplify import SimplifyPass
from tensorgrad.runtime.tracebacks import boundary
from tensorgrad.tracing import trees
from tensorgrad.tracing.dtypes import SHORT, Spec, is_float
from tensorgrad.tracing.index_ranges import IndexRanges
from tensorgrad.tracing.likes import Aux, First, Positional
from tensorgrad.tracing.location import user_location
from tensorgrad.tracing.tensor import Array, Tensor, Traced
from tensorgrad.tracing.trace import Lifting
from tensorgrad.tracing.tracer import (
    as_argument,
    as_result,
    current_trace,
    device_of,
    new_argument,
    note_derivative,
    sanitized,
    trace_call,
    tracing,
    value_in,
)


@overload
def value_and_grad(
    function: Positional[First, Any], argnums: Literal[0] = 0, has_aux: Literal[False] = False
) -> Callable[..., tuple[Tensor, First]]: ...


@overload
def value_and_grad(
    function: Positional[First, tuple[Any, Aux]], argnums: Literal[0] = 0, *, has_aux: Literal[True]
) -> Callable[..., tuple[tuple[Tensor, Aux], First]]: ...


@overload
def value_and_grad(
    function: Positional[Any, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., tuple[Any, Any]]: ...


@overload
def value_and_grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., tuple[Any, Any]]: ...


def value_and_grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Returns a function that computes the value and the gradient of `function`.

    Args:
        function: Returns a float scalar; if `has_aux`, a pair of it and of what else it has computed.
        argnums: The positions of the arguments to differentiate with respect to; each may be a pytree of tensors.
        has_aux: Whether `function` returns `(value, aux)`, where `aux` is any pytree of tensors of any dtype, such as
            metrics and new state. It is returned as it is, and doesn't affect the gradient.

    Returns:
        A function of the same arguments that returns `(value, gradient)`, or `((value, aux), gradient)`. The gradient
        has the shape of the argument, or is a tuple with one for each of `argnums`. On numpy arrays it computes
        eagerly; inside a trace it is traced.

    Raises:
        TraceError: `argnums` are not positions of arguments; or at the call, `function` returns something else.
        ShapeError: At the call: the value is not a float scalar.

    Example:
        >>> def loss(w, x):
        ...     error = w * x - 1.0
        ...     return tg.sum(error**2), {"largest": tg.max(tg.abs(error))}
        >>> (value, metrics), gradient = tg.value_and_grad(loss, has_aux=True)(2.0, tg.array([1.0, 3.0]))
        >>> float(value), float(metrics["largest"]), float(gradient)
        (26.0, 5.0, 32.0)
    """
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if not all(isinstance(number, int) for number in numbers):
        raise TraceError(f"grad: argnums must be the positions of arguments, got {argnums!r}")

    @boundary
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        chosen = []
        for number in numbers:
            if not -len(args) <= number < len(args):
                raise TraceError(f"grad: there is no argument {number}, only {len(args)} are positional")
            chosen.append(number % len(args))
        differentiate = _at_once if current_trace() is None else _differentiate
        return differentiate(function, args, kwargs, chosen, isinstance(argnums, int), has_aux)

    return call


@overload
def grad(
    function: Positional[First, Any], argnums: Literal[0] = 0, has_aux: Literal[False] = False
) -> Callable[..., First]: ...


@overload
def grad(
    function: Positional[First, tuple[Any, Aux]], argnums: Literal[0] = 0, *, has_aux: Literal[True]
) -> Callable[..., tuple[First, Aux]]: ...


@overload
def grad(
    function: Positional[Any, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]: ...


@overload
def grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]: ...


def grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Returns a function that computes the gradient of `function`, or `(gradient, aux)`; see `value_and_grad`.

    Example:
        >>> float(tg.grad(tg.grad(lambda x: x**3))(2.0))
        12.0
    """
    both = value_and_grad(function, argnums, has_aux)

    @boundary
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return call


def _differentiate(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    chosen: Sequence[int],
    single: bool,
    has_aux: bool,
) -> tuple[Any, Any]:
    """Traces `function` into a separate block, differentiates it, and moves its ops into the outer trace."""
    note_derivative()
    outer = current_trace()
    assert outer is not None
    parts = {number: trees.flatten(args[number]) for number in chosen}
    primals = {number: [primal(leaf) for leaf in leaves] for number, (leaves, _) in parts.items()}
    name = getattr(function, "__name__", "function")
    with tracing(f"grad({name})") as inner:
        stand_ins = {
            number: [new_argument(inner, type_of(value_in(outer, leaf))) for leaf in leaves]
            for number, leaves in primals.items()
        }
        new_args = [parts[i][1](stand_ins[i]) if i in parts else arg for i, arg in enumerate(args)]
        value, *aux = apart("grad", name, function(*new_args, **kwargs), has_aux)
        results, rebuild = trees.flatten([_scalar(value, name), *aux])
        inner.builder.location = user_location()
        outputs = outlined(inner.block, [value_in(inner, leaf) for leaf in results])
        wrt = [leaf.value for number in parts for leaf in stand_ins[number]]
        builder = TensorBuilder(inner.block, location=user_location())
        entries = [*outputs, *gradients(inner.block, outputs[0], wrt, builder)]
    for argument, leaf in zip(
        list(inner.block.args), (leaf for leaves in primals.values() for leaf in leaves), strict=True
    ):
        actual = value_in(outer, leaf)
        argument.replace_all_uses_with(actual)
        entries = [actual if entry is argument else entry for entry in entries]
    for op in list(inner.block.ops):
        op.detach()
        outer.block.add_op(op)
    tensors = [Traced(outer, entry) for entry in entries]
    outer_found = iter(tensors[len(results) :])
    trees_out = {number: parts[number][1]([next(outer_found) for _ in primals[number]]) for number in parts}
    both = rebuild(tensors[: len(results)])
    return tuple(both) if has_aux else both[0], _arranged(trees_out, chosen, single)


def apart(what: str, name: str, result: Any, has_aux: bool) -> tuple[Any, ...]:
    """Returns the result of a function in parts: `(value,)`, or `(value, aux)` with tensors for the leaves of `aux`.

    Raises:
        TraceError: There should be a pair and is not, or its second part has something else than tensors.
    """
    if not has_aux:
        return (result,)
    if not isinstance(result, tuple) or len(result) != 2:
        raise TraceError(f"{what}: with has_aux=True, {name} must return (value, aux), got {kind_of(result)}")
    return result[0], trees.tree_map(lambda leaf: as_result(leaf, name), result[1])


def kind_of(result: Any) -> str:
    """Returns what a function has returned, for messages that say what it must return."""
    if isinstance(result, tuple):
        return f"a tuple of {len(result)}"
    return "a tensor" if isinstance(result, Tensor) else type(result).__name__


def _arranged(by_number: dict[int, Any], chosen: Sequence[int], single: bool) -> Any:
    return by_number[chosen[0]] if single else tuple(by_number[number] for number in chosen)


def primal(leaf: Any, what: str = "grad") -> Tensor:
    """Returns an argument to differentiate with respect to as a tensor.

    Raises:
        DTypeError: It is not a float.
        TraceError: Its trace has ended.
    """
    tensor = as_argument(_weak(leaf))
    if not is_float(tensor.dtype):
        raise DTypeError(
            f"{what}: an argument to differentiate by is {SHORT[tensor.dtype]}; only floats have derivatives"
        )
    return tensor


def _weak(leaf: Any) -> Any:
    return float(leaf) if isinstance(leaf, int) and not isinstance(leaf, bool) else leaf


def _scalar(result: Any, name: str) -> Tensor:
    if isinstance(result, tuple):
        raise TraceError(f"grad: {name} returned a tuple; if it is (value, aux), give has_aux=True")
    tensor = as_result(result, name)
    if tensor.shape != () or not is_float(tensor.dtype):
        advice = "; take tg.mean or tg.sum, or tg.jacobian for all derivatives" if tensor.shape else ""
        shown = f"shape {tensor.shape} of {SHORT[tensor.dtype]}"
        raise ShapeError(f"grad: {name} must return a float scalar, got {shown}{advice}")
    return tensor


def _at_once(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    chosen: Sequence[int],
    single: bool,
    has_aux: bool,
) -> tuple[Any, Any]:
    """Outside a trace: traces, differentiates, and runs the result on the reference."""
    parts = {number: trees.flatten(args[number]) for number in chosen}
    leaves = {number: [primal(leaf) for leaf in part] for number, (part, _) in parts.items()}
    flat = [leaf for number in parts for leaf in leaves[number]]

    def program(*tensors: Tensor) -> Any:
        rest = iter(tensors)
        stand_ins = {number: parts[number][1]([next(rest) for _ in leaves[number]]) for number in parts}
        new_args = [stand_ins.get(number, arg) for number, arg in enumerate(args)]
        return _differentiate(function, new_args, kwargs, chosen, single, has_aux)

    return computed(f"grad_{getattr(function, '__name__', 'function')}", program, flat)


def computed(name: str, program: Callable[..., Any], arguments: Sequence[Tensor]) -> Any:
    """Traces a program of concrete tensors, runs it, and returns its results in the same tree.

    It runs on the device of the first tensor that lives on one, including captured eager tensors, and can be
    differentiated; if there is none, the reference runs it.
    """
    return Computation(name, program, arguments)(arguments)


class Computation:
    """A program of concrete tensors, traced for the shapes and dtypes of the first ones; see `computed`."""

    def __init__(self, name: str, program: Callable[..., Any], arguments: Sequence[Tensor]):
        self._slots = [Slot(f"arg{i}", Role.INPUT) for i in range(len(arguments))]
        specs = [Spec(argument.shape, argument.dtype) for argument in arguments]
        self._ranges: list[IndexRanges] = []
        lifting = Lifting(arrays=device_of(arguments) is not None)
        self._function, positions = trace_call(
            sanitized(name), program, specs, self._slots, self._checking(arguments), lifting
        )
        self._order, self._rebuild = trees.flatten(positions)
        self._captured = lifting.tensors

    @functools.cached_property
    def _key(self) -> bytes:
        """Tells programs apart, for devices that keep what they compiled; the reference needs no text of it."""
        return sha256(str(self._function).encode()).digest()

    def _checking(self, arguments: Sequence[Tensor]) -> Callable[[IndexRanges], None]:
        """Returns what keeps the required ranges of indices, and checks them for these arguments at once."""

        def check(ranges: IndexRanges) -> None:
            self._ranges.append(ranges)
            self._check(arguments)

        return check

    def _check(self, arguments: Sequence[Tensor]) -> None:
        for ranges in self._ranges:
            ranges.check_known({slot.name: argument for slot, argument in zip(self._slots, arguments, strict=True)})

    def again(self, arguments: Sequence[Tensor]) -> Any:
        """Runs it on other arguments of the same shapes and dtypes, and returns its results.

        Raises:
            InputError: An index is out of range.
        """
        self._check(arguments)
        return self(arguments)

    def __call__(self, arguments: Sequence[Tensor]) -> Any:
        """Runs it, and returns its results."""
        operands = [*cast("Sequence[Array]", arguments), *self._captured]
        device = device_of(operands)
        if device is not None:
            values = device.call(self._function, operands, self._key)
            return self._rebuild([values[position] for position in self._order])
        module = ModuleOp([self._function.clone()])
        for pass_ in (InlineCallsPass(), SimplifyPass()):
            pass_.apply(Context(), module)
        results = TensorExecutor(module).call([np.asarray(argument) for argument in arguments])
        return self._rebuild([Array(results[position]) for position in self._order])
