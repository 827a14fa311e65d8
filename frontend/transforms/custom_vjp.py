"""`custom_vjp`: functions with a custom derivative."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic

from xdsl.ir import Block, SSAValue

from tensorgrad.dialects.tg.base import Tensor as TensorType
from tensorgrad.dialects.tg.base import numpy_dtype
from tensorgrad.dialects.tg.build import type_of
from tensorgrad.dialects.tg.call import CallOp, ReturnOp, returned
from tensorgrad.errors import ArgumentError, DTypeError, ShapeError, TraceError
from tensorgrad.runtime.tracebacks import boundary
from tensorgrad.tracing import trees
from tensorgrad.tracing.dtypes import SHORT, is_float
from tensorgrad.tracing.likes import Result
from tensorgrad.tracing.location import user_line, user_location
from tensorgrad.tracing.tensor import Tensor, Traced
from tensorgrad.tracing.trace import Trace
from tensorgrad.tracing.tracer import (
    as_argument,
    as_result,
    check_usable,
    current_trace,
    device_of,
    function_name,
    new_argument,
    tracing,
    value_in,
)
from tensorgrad.transforms.grad import computed


class _Derivatives(threading.local):
    """The calls whose derivatives are being traced, outermost first: function, operand types, name."""

    def __init__(self) -> None:
        self.stack: list[tuple[CustomVjp, tuple[TensorType, ...], str]] = []


_derivatives = _Derivatives()


class CustomVjp(Generic[Result]):
    """A function with a custom derivative, as `custom_vjp` returns it."""

    def __init__(self, function: Callable[..., Result], nondiff_argnums: Sequence[int] = ()):
        functools.update_wrapper(self, function)
        self._function = function
        self._static = tuple(nondiff_argnums)
        self._forward: Callable[..., Any] | None = None
        self._backward: Callable[..., Any] | None = None

    @property
    def name(self) -> str:
        """The function's name in messages and in the IR."""
        return function_name(self._function)

    def defvjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> None:
        """Sets the derivative.

        Args:
            forward: Takes the function's arguments; returns a tuple of the function's result and of residuals, a pytree
                of whatever `backward` needs.
            backward: Takes the arguments in `nondiff_argnums`, the residuals, and the cotangent of the result: a pytree
                like it, with `None` for leaves that aren't floats. Returns a tuple with the cotangent of each other
                argument; `None`, for all or part of one, means zero.
        """
        self._forward, self._backward = forward, backward

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Result:
        """Returns the function's value. Arguments by name are passed on by position, to `forward` too.

        Raises:
            ArgumentError: There is no such argument, or it has no position.
            TraceError: There is no derivative yet; the function or its derivative uses traced tensors that are not
                among its arguments; or a derivative returns what it must not.
            ShapeError, DTypeError: A derivative's results don't fit the function's.
        """
        if self._forward is None or self._backward is None:
            raise TraceError(f"{self.name} has no derivative yet; call {self.name}.defvjp before it")
        arguments = _Arguments(self._static, _by_position(self._function, args, kwargs) if kwargs else args)
        trace = current_trace()
        if trace is None:
            if device_of(arguments.leaves) is None:
                return self._function(*arguments.filled(arguments.leaves))
            return computed(self.name, lambda *leaves: self(*arguments.filled(leaves)), arguments.leaves)
        return _Call(self, arguments, trace, self._function, self._forward, self._backward).emit()


def custom_vjp(function: Callable[..., Result], nondiff_argnums: Sequence[int] = ()) -> CustomVjp[Result]:
    """Gives a function a custom derivative, set by `defvjp`.

    The value is always the function's. Its derivative is `backward` of the residuals that `forward` returns; higher
    derivatives follow from the ops in `forward` and `backward`, and forward mode works if `backward` is linear in the
    cotangent. Common subexpressions of the function, `forward` and `backward` are computed once.

    Args:
        function: A function of pytrees of tensors, all of them arguments: it must not capture traced tensors.
        nondiff_argnums: The positions of arguments that are passed on unchanged, such as numbers and names.

    Example:
        >>> @tg.custom_vjp
        ... def bounded(x):
        ...     return x
        >>> bounded.defvjp(lambda x: (x, None), lambda _, g: (tg.minimum(tg.maximum(g, -1.0), 1.0),))
        >>> float(tg.grad(lambda x: 5.0 * bounded(x))(2.0))
        1.0
    """
    return CustomVjp(function, nondiff_argnums)


def _by_position(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
    """Returns all arguments of a call by position, up to the last that is given.

    Raises:
        ArgumentError: They don't bind to the function, or one has no position.
    """
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise ArgumentError(f"{function_name(function)}: {error}; it takes {signature}") from None
    bound.apply_defaults()
    unplaced = [name for name in kwargs if name in bound.kwargs]
    if unplaced:
        raise ArgumentError(
            f"{function_name(function)}: {', '.join(unplaced)} can only be given by name, and arguments of a custom "
            "derivative need positions: nondiff_argnums and backward refer to them"
        )
    names = list(signature.parameters)
    given = max(len(args), *(names.index(name) + 1 for name in kwargs))
    return bound.args[:given]


class _Arguments:
    """The arguments of a call, and their tensors."""

    def __init__(self, static: Sequence[int], args: Sequence[Any]):
        for number in static:
            if not -len(args) <= number < len(args):
                raise TraceError(f"custom_vjp: there is no argument {number}, only {len(args)}")
        numbers = {number % len(args) for number in static}
        self._args = list(args)
        self.static = [args[number] for number in sorted(numbers)]
        self.moving = [number for number in range(len(args)) if number not in numbers]
        parts = [trees.flatten(args[number]) for number in self.moving]
        self.counts = [len(leaves) for leaves, _ in parts]
        self.paths = [trees.paths(args[number]) for number in self.moving]
        self._rebuild = [rebuild for _, rebuild in parts]
        self.leaves = [as_argument(leaf) for leaves, _ in parts for leaf in leaves]

    def filled(self, leaves: Sequence[Any]) -> list[Any]:
        """Returns the arguments with other tensors."""
        result, rest = list(self._args), iter(leaves)
        for number, count, rebuild in zip(self.moving, self.counts, self._rebuild, strict=True):
            result[number] = rebuild([next(rest) for _ in range(count)])
        return result


class _Call:
    """One call in a trace: traces the function and its derivative into regions."""

    def __init__(
        self,
        owner: CustomVjp,
        arguments: _Arguments,
        trace: Trace,
        function: Callable[..., Any],
        forward: Callable[..., Any],
        backward: Callable[..., Any],
    ):
        self.owner, self.arguments, self.trace = owner, arguments, trace
        self.function, self.forward, self.backward = function, forward, backward
        self.trace.builder.location = user_location()
        self.operands = [value_in(trace, leaf) for leaf in arguments.leaves]
        self.kinds = tuple(type_of(value) for value in self.operands)

    def emit(self) -> Any:
        """Adds the call to the trace; returns the tree of results."""
        body, outputs = self._traced("", self.kinds, self._value)
        around = [entry for entry in _derivatives.stack if entry[0] is self.owner and entry[1] == self.kinds]
        if around:
            call = CallOp.of(around[-1][2], self.operands, body, recursive=True)
        else:
            name = self._name()
            with self._differentiating(name):
                derivative, wrt = self._derivative(outputs)
            call = CallOp.of(name, self.operands, body, derivative, wrt)
        call.location = user_location()
        self.trace.builder.insert(call)
        return self.rebuild([Traced(self.trace, result) for result in call.results])

    def _name(self) -> str:
        names = {name for _, _, name in _derivatives.stack}
        name, number = self.owner.name, 0
        while name in names:
            number += 1
            name = f"{self.owner.name}_{number}"
        return name

    @contextmanager
    def _differentiating(self, name: str) -> Iterator[None]:
        _derivatives.stack.append((self.owner, self.kinds, name))
        try:
            yield
        finally:
            _derivatives.stack.pop()

    def _traced(
        self, part: str, kinds: Sequence[TensorType], run: Callable[[list[Traced]], Sequence[Tensor]]
    ) -> tuple[Block, Sequence[Tensor]]:
        """Traces a region, which may use only its arguments and constants."""
        with tracing(f"{self.owner.name}{part}") as inner:
            inner.is_closed = True
            results = run([new_argument(inner, kind) for kind in kinds])
            for tensor in results:
                if isinstance(tensor, Traced):
                    check_usable(tensor)
            inner.builder.location = user_location()
            values = [value_in(inner, tensor) for tensor in results]
        self._check_closed(inner.block, values)
        end = ReturnOp(values)
        end.location = user_location()
        inner.block.add_op(end)
        return inner.block, results

    def _check_closed(self, block: Block, values: Sequence[SSAValue]) -> None:
        inside = {*block.args, *(result for op in block.ops for result in op.results)}
        for value in [*(operand for op in block.ops for operand in op.operands), *values]:
            if value not in inside:
                raise TraceError(
                    f"custom_vjp: {self.owner.name} uses a traced tensor of shape "
                    f"{type_of(value).get_shape()} from around it; pass it as an argument"
                )

    def _value(self, leaves: list[Traced]) -> list[Tensor]:
        results, self.rebuild = trees.flatten(self.function(*self.arguments.filled(leaves)))
        return [as_result(leaf, self.owner.name) for leaf in results]

    def _derivative(self, outputs: Sequence[Tensor]) -> tuple[tuple[Block, Block], list[int]]:
        residuals: list[Any] = []
        places: list[int] = []
        rebuild: trees.Rebuild = list

        def run_forward(leaves: list[Traced]) -> list[Tensor]:
            nonlocal rebuild
            pair = self.forward(*self.arguments.filled(leaves))
            if not isinstance(pair, tuple) or len(pair) != 2:
                name = self.owner.name
                raise TraceError(f"custom_vjp: forward of {name} must return (result, residuals)")
            as_results = [as_result(leaf, f"forward of {self.owner.name}") for leaf in trees.flatten(pair[0])[0]]
            self._check_results(as_results, outputs)
            residual_leaves, rebuild = trees.flatten(pair[1])
            residuals.extend(residual_leaves)
            places.extend(i for i, leaf in enumerate(residual_leaves) if isinstance(leaf, Traced))
            return [*as_results, *(residual_leaves[i] for i in places)]

        forward, _ = self._traced(".forward", self.kinds, run_forward)
        wrt: list[int] = []

        def run_backward(leaves: list[Traced]) -> list[Tensor]:
            for place, leaf in zip(places, leaves, strict=False):
                residuals[place] = leaf
            rest = iter(leaves[len(places) :])
            cotangent = self.rebuild([next(rest) if is_float(output.dtype) else None for output in outputs])
            cotangents = self.backward(*self.arguments.static, rebuild(residuals), cotangent)
            pieces = self._pieces(cotangents)
            wrt.extend(sorted(pieces))
            return [pieces[position] for position in wrt]

        kinds = [type_of(value) for value in returned(forward)[len(outputs) :]]
        kinds += [type_of(value) for value in returned(forward)[: len(outputs)] if is_float(numpy_dtype(value.type))]
        backward, _ = self._traced(".backward", kinds, run_backward)
        return (forward, backward), wrt

    def _check_results(self, results: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        ours, theirs = ([(x.shape, SHORT[x.dtype]) for x in group] for group in (results, outputs))
        if ours != theirs:
            raise ShapeError(f"custom_vjp: forward of {self.owner.name} returns {ours}, the function {theirs}")

    def _pieces(self, cotangents: Any) -> dict[int, Tensor]:
        """Returns the cotangents returned by `backward`, by operand."""
        what = f"{user_line()}: custom_vjp: backward of {self.owner.name}"
        if not isinstance(cotangents, tuple | list) or len(cotangents) != len(self.arguments.moving):
            raise TraceError(
                f"{what} must return a tuple of {len(self.arguments.moving)}, a cotangent for each argument"
            )
        pieces: dict[int, Tensor] = {}
        start = 0
        for number, tree, paths in zip(self.arguments.moving, cotangents, self.arguments.paths, strict=True):
            for path, leaf in zip(trees.paths(tree), trees.flatten(tree)[0], strict=True):
                if path not in paths:
                    raise TraceError(
                        f"{what} returns a cotangent {path!r} for argument {number}, which has no such tensor"
                    )
                position = start + paths.index(path)
                pieces[position] = self._piece(f"{what}: argument {number}", leaf, self.arguments.leaves[position])
            start += len(paths)
        return pieces

    def _piece(self, what: str, leaf: Any, like: Tensor) -> Tensor:
        if not is_float(like.dtype):
            raise DTypeError(f"{what} is {SHORT[like.dtype]}; only floats have cotangents, give None")
        tensor = as_argument(leaf, like.dtype)
        if tensor.shape != like.shape:
            raise ShapeError(f"{what} has shape {like.shape}, its cotangent {tensor.shape}")
        if tensor.dtype != like.dtype:
            raise DTypeError(f"{what} is {SHORT[like.dtype]}, its cotangent {SHORT[tensor.dtype]}")
        return tensor
