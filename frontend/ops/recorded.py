"""Functions that eager tensors record as one application each: traced once for operands of given types."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import OpResult

from tensorgrad.dialects.signature import Slot
from tensorgrad.errors import TensorgradError
from tensorgrad.ops.promotion import as_tensor, common_dtype
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
        key: list[Hashable] = [self, len(args), *kwargs]
        for one in (*args, *kwargs.values()):
            kind = type(one)
            if isinstance(one, Array):
                home = one.live.home if home is None and one.live is not None else home
            elif kind is np.ndarray:
                one = as_tensor(one)
                assert isinstance(one, Array)
            elif self._takes_numbers and (kind is float or kind is int):
                one = _number_beside(args, one)
                if one is None:
                    return None
            elif kind in STATIC or (kind is tuple and all(type(part) is int for part in one)):
                key.append((kind, one))
                continue
            else:
                return None
            key.append(Array)
            operands.append(one)
        if home is None:
            return None
        return home.apply_traced(tuple(key), operands, lambda: self._traced(args, kwargs, operands))

    def _traced(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], operands: Sequence[Array]
    ) -> TracedFunction | None:
        """Returns the function for operands of such types; `None` where it is more than a function of these."""
        if any(0 in one.shape for one in operands):
            return None  # there are warnings about those

        def function(*tensors: Any) -> Any:
            rest = iter(tensors)
            given = [one if _is_static(one) else next(rest) for one in (*args, *kwargs.values())]
            return self._function(*given[: len(args)], **dict(zip(kwargs, given[len(args) :], strict=True)))

        def _is_static(one: Any) -> bool:
            return type(one) in (*STATIC, tuple) and not (self._takes_numbers and type(one) is int)

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
