"""Functions that eager tensors record as one application each: traced once for operands of given types."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import OpResult

from tensorgrad.dialects.signature import Slot
from tensorgrad.dialects.tg.base import NumpyArray
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
        # An operand is its type in the key, by the object that all tensors of a device have for it or as a shape and
        # dtype; another argument is a pair of a class and a value.
        key: list[Hashable] = [self, len(args), *kwargs]
        for one in (*args, *kwargs.values()) if kwargs else args:
            kind = type(one)
            if kind is Array or isinstance(one, Array):
                operand: Array = one
            elif kind is np.ndarray:
                operand = Array(as_array(one))
            elif self._takes_numbers and (kind is float or kind is int):
                beside = _number_beside(args, one)
                if beside is None:
                    return None
                operand = beside
            elif kind in STATIC or (kind is tuple and all(type(part) is int for part in one)):
                key.append((kind, one))
                continue
            else:
                return None
            operands.append(operand)
            own = operand.live
            if own is None:
                key.append((operand.shape, operand.dtype))
            else:
                home = own.home if home is None else home
                key.append(own.value.kind)
        if home is None:
            return None
        return home.apply_traced(tuple(key), operands, lambda: self._traced(args, kwargs, operands))

    def _traced(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], operands: Sequence[Array]
    ) -> TracedFunction | None:
        """Returns the function for operands of such types; `None` where it is more than a function of these.

        Args:
            args: The arguments by position.
            kwargs: Those by keyword.
            operands: The operands among them, in order.
        """
        if any(0 in one.shape for one in operands):
            return None  # there are warnings about those

        def function(*tensors: Any) -> Any:
            rest = iter(tensors)
            values = [next(rest) if self._is_operand(one) else one for one in (*args, *kwargs.values())]
            return self._function(*values[: len(args)], **dict(zip(kwargs, values[len(args) :], strict=True)))

        specs = [Spec(one.shape, one.dtype) for one in operands]
        slots = [Slot(f"x{i}", "input") for i in range(len(operands))]
        ranges: list[IndexRanges] = []
        try:
            made, result = trace_call(self._function.__name__, function, specs, slots, ranges.append)
        except TensorgradError:
            return None  # the function itself says what is wrong
        if result != 0 or not ranges[0].is_complete or not _computes(made):
            return None
        return TracedFunction(made, None if ranges[0].is_empty else _Checked(ranges[0]))

    def _is_operand(self, one: Any) -> bool:
        return isinstance(one, Array | np.ndarray) or (self._takes_numbers and type(one) in (float, int))


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


class _Checked:
    """Says whether no index in operands is out of range. Those of the last call need no second look.

    Args:
        ranges: What is asked of the operands, which are called x0, x1, ….
    """

    def __init__(self, ranges: IndexRanges):
        self._ranges = ranges
        self._places = [int(name[1:]) for name in ranges.inputs]
        self._last: Sequence[weakref.ref[NumpyArray]] = ()

    def __call__(self, operands: Sequence[Any]) -> bool:
        """Returns whether these may be used; their arrays never change."""
        sources = [operands[place].source for place in self._places]
        arrays = [one if isinstance(one, np.ndarray) else one.numpy() for one in sources]
        if self._last and all(one is last() for one, last in zip(arrays, self._last, strict=True)):
            return True
        if not self._ranges.allow({f"x{place}": one for place, one in zip(self._places, arrays, strict=True)}):
            return False
        self._last = [weakref.ref(one) for one in arrays]
        return True
