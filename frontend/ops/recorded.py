"""Functions that eager tensors record as one application each: traced once for operands of given types."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import OpResult

from tensorgrad.dialects.signature import Slot
from tensorgrad.errors import TensorgradError
from tensorgrad.ops.promotion import common_dtype
from tensorgrad.tracing.dtypes import Spec
from tensorgrad.tracing.home import TracedFunction
from tensorgrad.tracing.index_ranges import IndexRanges
from tensorgrad.tracing.tensor import Array
from tensorgrad.tracing.tracer import as_array, current_trace, trace_call

Function = TypeVar("Function", bound=Callable[..., Any])

STATIC = (bool, int, str, type(None))
"""What arguments are that a function is traced for anew when they differ; floats would be too many."""


def recorded_whole(function: Function) -> Function:
    """Has eager tensors record a function of tensors as one application, where users call it.

    It gives one tensor, whose type depends on the types of tensors and on the other arguments alone.
    """
    marked: Any = function
    marked.__whole__ = _Whole(function, takes_numbers=False)
    return function


def recorded_operator(function: Function) -> Function:
    """Does as `recorded_whole` for a function of two operands, one of which may be a Python number.

    A number is an operand, so that another one is no other function.
    """
    marked: Any = function
    marked.__whole__ = _Whole(function, takes_numbers=True)
    return function


_OPERAND = object()
"""Stands for an operand in keys, in which its type comes last."""


class _Whole:
    """What records a function whole.

    Args:
        function: The function.
        takes_numbers: Whether Python numbers are operands.
    """

    def __init__(self, function: Callable[..., Any], takes_numbers: bool):
        self._function, self._takes_numbers = function, takes_numbers

    def __call__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Array | None:
        """Returns what a call gives; `None` where the function is to be called as it is."""
        if current_trace() is not None:
            return None
        home = None
        operands: list[Array] = []
        given = [*args, *kwargs.values()] if kwargs else args
        parts: list[Hashable] = [self, len(args), *kwargs]
        for one in given:
            kind = type(one)
            if isinstance(one, Array):
                home = one.live.home if home is None and one.live is not None else home
                operand = one
            elif kind is np.ndarray:
                operand = Array(as_array(one))
            elif self._takes_numbers and (kind is float or kind is int):
                operand = _number_beside(args, one)
                if operand is None:
                    return None
            elif kind in STATIC or (kind is tuple and all(type(part) is int for part in one)):
                parts.append((kind, one))
                continue
            else:
                return None
            parts.append(_OPERAND)
            operands.append(operand)
        if home is None:
            return None
        # In the key, what is known of each argument stands behind the function, the count and the names.
        known = parts[2 + len(kwargs) :]
        return home.apply_traced(tuple(parts), operands, lambda: self._traced(given, known, list(kwargs), operands))

    def _traced(
        self, given: Sequence[Any], known: Sequence[Hashable], names: Sequence[str], operands: Sequence[Array]
    ) -> TracedFunction | None:
        """Returns the function for operands of such types; `None` where it is more than a function of these.

        Args:
            given: The arguments; those by keyword come last.
            known: For each, `_OPERAND` where it is one.
            names: The keywords.
            operands: The operands among them, in order.
        """
        if any(0 in one.shape for one in operands):
            return None  # there are warnings about those

        def function(*tensors: Any) -> Any:
            rest = iter(tensors)
            values = [next(rest) if what is _OPERAND else one for one, what in zip(given, known, strict=True)]
            count = len(values) - len(names)
            return self._function(*values[:count], **dict(zip(names, values[count:], strict=True)))

        specs = [Spec(one.shape, one.dtype) for one in operands]
        slots = [Slot(f"x{i}", "input") for i in range(len(operands))]
        ranges: list[IndexRanges] = []
        try:
            made, result = trace_call(self._function.__name__, function, specs, slots, ranges.append)
        except TensorgradError:
            return None  # the function itself says what is wrong
        if result != 0 or not ranges[0].is_complete or not _computes(made):
            return None
        return TracedFunction(made, None if ranges[0].is_empty else _checked_by(ranges[0]))


def _number_beside(args: Sequence[Any], number: float) -> Array | None:
    """Returns a Python number as the operand that it is beside a tensor."""
    others = [one for one in args if isinstance(one, Array)]
    if len(args) != 2 or len(others) != 1:
        return None
    try:
        return Array(as_array(number, common_dtype([others[0].dtype], [number])))
    except TensorgradError:
        return None


def _computes(function: FuncOp) -> bool:
    """Returns whether the result is that of an op on something: neither an argument as it is, nor a constant."""
    last = function.body.block.last_op
    assert last is not None
    (value,) = last.operands
    return isinstance(value, OpResult) and bool(value.owner.operands)


def _checked_by(ranges: IndexRanges) -> Callable[[Sequence[Any]], bool]:
    return lambda operands: ranges.allow({f"x{i}": one for i, one in enumerate(operands)})
