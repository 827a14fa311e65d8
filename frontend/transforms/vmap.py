"""`vmap`: maps a function of one example over a batch, op by op."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, overload

from xdsl.ir import SSAValue

from tensorgrad.dialects.tg.base import ints, tensor
from tensorgrad.dialects.tg.build import TensorBuilder, type_of
from tensorgrad.dialects.tg.shape import TransposeOp
from tensorgrad.errors import ShapeError, TraceError
from tensorgrad.passes.tensors.batch import repeated
from tensorgrad.runtime.tracebacks import boundary
from tensorgrad.tracing import trees
from tensorgrad.tracing.likes import Positional, Result
from tensorgrad.tracing.location import user_location
from tensorgrad.tracing.tensor import Tensor, Traced
from tensorgrad.tracing.trace import Trace
from tensorgrad.tracing.tracer import (
    as_argument,
    as_result,
    check_function,
    current_trace,
    emit,
    new_argument,
    tracing,
    value_in,
)
from tensorgrad.transforms.grad import computed


@overload
def vmap(function: Positional[Any, Result], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Result]: ...


@overload
def vmap(function: Callable[..., Result], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Result]: ...


def vmap(function: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
    """Returns a function that maps `function` over an axis of its arguments.

    Each op runs once, along a new leading axis, so the length of the program doesn't depend on the number of examples.
    It nests with itself and with every derivative, inside and outside of a trace.

    Args:
        function: Returns a pytree of tensors for one example.
        in_axes: The batch axis of each argument: one integer for all positional arguments, or a tuple with one entry
            for each; an entry is an integer, None (the same for every example), or a pytree of these that is a prefix
            of the argument. Keyword arguments are batched along axis 0.
        out_axes: The batch axis of the results: an integer, None (if they are the same for every example), or a pytree
            of these that is a prefix of the result.

    Returns:
        A function of all examples.

    Raises:
        ShapeError: At the call: an axis is out of range, the arguments have different numbers of examples or none, or
            a result that `out_axes` declares to be the same for every example is not.
        TraceError: At the call: `in_axes` or `out_axes` does not fit the tree, or no argument has examples.

    Example:
        >>> tg.vmap(lambda x, y: x @ y, in_axes=(0, None))(tg.array([[1.0, 2.0], [3.0, 4.0]]), tg.ones(2))
        Array([3., 7.], dtype=f32)
    """

    check_function(function, "vmap")

    @boundary
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, rebuild = trees.flatten((args, kwargs))
        axes = [*_argument_axes(in_axes, args), *([0] * len(trees.flatten(kwargs)[0]))]
        mapped = [position for position, axis in enumerate(axes) if axis is not None]
        if not mapped:
            raise TraceError(f"vmap: no argument has an axis of examples; in_axes is {in_axes!r}")
        tensors = [as_argument(leaves[position]) for position in mapped]
        places = [_place(argument, axes[position]) for argument, position in zip(tensors, mapped, strict=True)]
        counts = sorted({argument.shape[place] for argument, place in zip(tensors, places, strict=True)})
        if len(counts) != 1 or not counts[0]:
            listed = "none" if len(counts) == 1 else " and ".join(map(str, counts))
            raise ShapeError(f"vmap: the arguments have {listed} examples, not one number of them")

        def program(*arguments: Tensor) -> Any:
            new = list(leaves)
            examples = [_moved(example, place, 0) for example, place in zip(arguments, places, strict=True)]

            def inner(stand_ins: Sequence[Tensor]) -> Any:
                for position, stand_in in zip(mapped, stand_ins, strict=True):
                    new[position] = stand_in
                new_args, new_kwargs = rebuild(new)
                return function(*new_args, **new_kwargs)

            return _mapped(inner, examples, out_axes, getattr(function, "__name__", "function"))

        if current_trace() is None:
            return computed(f"vmap_{getattr(function, '__name__', 'function')}", program, tensors)
        return program(*tensors)

    return call


def _place(x: Tensor, axis: int) -> int:
    if not -x.ndim <= axis < x.ndim:
        raise ShapeError(f"vmap: axis {axis} is out of range for an argument of {x.ndim} axes")
    return axis % x.ndim


def _argument_axes(in_axes: Any, args: Sequence[Any]) -> list[int | None]:
    if not isinstance(in_axes, tuple | list):
        return _spread(in_axes, tuple(args), "in_axes")
    if len(in_axes) != len(args):
        raise TraceError(f"vmap: in_axes has {len(in_axes)} entries for {len(args)} arguments")
    return [axis for entry, arg in zip(in_axes, args, strict=True) for axis in _spread(entry, arg, "in_axes")]


def _spread(axes: Any, tree: Any, what: str) -> list[int | None]:
    """Returns the axis of each leaf of a tree, from a tree of axes that is a prefix of it."""
    parts = None if axes is None else trees.children(axes)
    if parts is None:
        try:
            axis = None if axes is None or isinstance(axes, bool) else operator.index(axes)
        except TypeError:
            raise TraceError(f"vmap: {what} holds {axes!r}, no integer and not None") from None
        return [axis] * len(trees.flatten(tree)[0])
    unpacked = trees.children(tree)
    if unpacked is None or len(unpacked[0]) != len(parts[0]) or type(axes) is not type(tree):
        raise TraceError(f"vmap: {what} holds {axes!r} where the tree has {type(tree).__name__}")
    return [axis for a, b in zip(parts[0], unpacked[0], strict=True) for axis in _spread(a, b, what)]


def _mapped(function: Callable[[Sequence[Tensor]], Any], examples: Sequence[Tensor], out_axes: Any, name: str) -> Any:
    """Traces `function` on one example, and moves its ops into the outer trace, along the axis of all."""
    outer = current_trace()
    assert outer is not None
    actual = [value_in(outer, example) for example in examples]
    with tracing(f"vmap({name})") as inner:
        stand_ins = [
            new_argument(inner, tensor(type_of(value).get_shape()[1:], type_of(value).get_element_type()))
            for value in actual
        ]
        leaves, rebuild = trees.flatten(function(stand_ins))
        axes = _spread(out_axes, rebuild(leaves), "out_axes")
        inner.builder.location = user_location()
        values = [value_in(inner, as_result(leaf, name)) for leaf in leaves]
        notes, inner.notes = inner.notes, []
    known = {stand_in.value: value for stand_in, value in zip(stand_ins, actual, strict=True)}
    dependent = _dependent(inner, known)
    for value, axis in zip(values, axes, strict=True):
        if axis is None and value in dependent:
            raise ShapeError("vmap: out_axes is None for a result that differs between examples")
    builder = TensorBuilder(outer.block, location=user_location())
    noted = [note for note in notes if note.value in dependent]
    results = repeated(inner.block, known, [*values, *(note.value for note in noted)], builder)
    outer.notes += [note for note in notes if note.value not in dependent]
    outer.notes += [replace(note, value=value) for note, value in zip(noted, results[len(values) :], strict=True)]
    return rebuild([_result(outer, value, axis) for value, axis in zip(results, axes, strict=False)])


def _dependent(trace: Trace, known: dict[SSAValue, SSAValue]) -> set[SSAValue]:
    """Returns the values that differ between examples."""
    results = set(known)
    for op in trace.block.ops:
        if any(operand in results for operand in op.operands):
            results.update(op.results)
    return results


def _result(trace: Trace, value: SSAValue, axis: int | None) -> Tensor:
    everything = Traced(trace, value)
    if axis is None:
        return everything[0]
    if not -everything.ndim <= axis < everything.ndim:
        raise ShapeError(f"vmap: out_axes {axis} is out of range for a result of {everything.ndim} axes")
    return _moved(everything, 0, axis)


def _moved(x: Tensor, source: int, destination: int) -> Tensor:
    """Returns a tensor with an axis moved to another position."""
    order = list(range(x.ndim))
    order.insert(destination % x.ndim, order.pop(source))
    return x if order == sorted(order) else emit(TransposeOp, [x], permutation=ints(order))
