"""`checkpoint`: functions whose values are recomputed for the derivative instead of kept."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

from xdsl.ir import Block, SSAValue

from tensorgrad.dialects.tg.call import CallOp, ReturnOp
from tensorgrad.runtime.tracebacks import boundary
from tensorgrad.tracing import trees
from tensorgrad.tracing.likes import Result
from tensorgrad.tracing.location import user_location
from tensorgrad.tracing.tensor import Array, Traced
from tensorgrad.tracing.tracer import (
    as_result,
    check_function,
    current_trace,
    device_of,
    function_name,
    tracing,
    value_in,
)
from tensorgrad.transforms.grad import computed

Arguments = ParamSpec("Arguments")


def checkpoint(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Returns a function whose derivative keeps only the arguments and results, and recomputes everything else.

    The derivative runs the function again before it goes backwards, which trades time for memory (T. Chen et al.,
    Training Deep Nets with Sublinear Memory Cost, 2016). Values and derivatives are the same, to any order.

    Args:
        function: Takes anything, and returns a pytree of tensors. A module will do. It may capture tensors, such as a
            module's parameters.

    Returns:
        A function to call instead.

    Raises:
        TraceError: It is not a function; or, when called: a result is not a tensor.

    Example:
        >>> wave = tg.checkpoint(lambda x: tg.sin(tg.sin(x)))
        >>> float(tg.grad(wave)(0.0))
        1.0
    """

    check_function(function, "tg.checkpoint")

    @boundary
    @functools.wraps(function, updated=())
    def recomputed(*args: Any, **kwargs: Any) -> Any:
        trace = current_trace()
        if trace is None:
            leaves, rebuild = trees.flatten((args, kwargs))
            tensors = [leaf for leaf in leaves if isinstance(leaf, Array)]
            if device_of(tensors) is None:
                return function(*args, **kwargs)
            return computed(function_name(function), _filling(recomputed, leaves, rebuild), tensors)
        name = function_name(function)
        with tracing(name) as inner:
            leaves, rebuild = trees.flatten(function(*args, **kwargs))
            tensors = [as_result(leaf, name) for leaf in leaves]
            inner.builder.location = user_location()
            values = [value_in(inner, tensor) for tensor in tensors]
            end = ReturnOp(values)
            end.location = user_location()
            inner.block.add_op(end)
        call = CallOp.of(name, _closed(inner.block), inner.block, recompute=True)
        call.location = user_location()
        trace.builder.insert(call)
        return rebuild([Traced(trace, result) for result in call.results])

    return recomputed


def _filling(function: Callable[..., Any], leaves: Sequence[Any], rebuild: trees.Rebuild) -> Callable[..., Any]:
    """Returns a function of only the arrays among the arguments."""

    def call(*tensors: Any) -> Any:
        rest = iter(tensors)
        args, kwargs = rebuild([next(rest) if isinstance(leaf, Array) else leaf for leaf in leaves])
        return function(*args, **kwargs)

    return call


def _closed(block: Block) -> list[SSAValue]:
    """Turns the values that a block captures into arguments, and returns them."""
    inside = {result for op in block.ops for result in op.results}
    arguments: dict[SSAValue, SSAValue] = {}
    for op in block.ops:
        for place, operand in enumerate(op.operands):
            if operand in inside:
                continue
            if operand not in arguments:
                arguments[operand] = block.insert_arg(operand.type, len(block.args))
            op.operands[place] = arguments[operand]
    return list(arguments)
