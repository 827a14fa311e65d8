"""Functions that eager tensors record as a single application each: traced once per operand types."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import FunctionType
from typing import Any, TypeVar

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import OpResult

from tensorgrad.dialects.signature import Role, Slot
from tensorgrad.dialects.tg.base import NumpyArray
from tensorgrad.errors import TensorgradError
from tensorgrad.ops.promotion import common_dtype
from tensorgrad.tracing import trees
from tensorgrad.tracing.dtypes import Spec
from tensorgrad.tracing.index_ranges import IndexRanges
from tensorgrad.tracing.tensor import Array
from tensorgrad.tracing.tensor_device import TracedFunction
from tensorgrad.tracing.tracer import as_array, current_trace, trace_call

Function = TypeVar("Function", bound=Callable[..., Any])


class Static:
    """An argument whose value specializes a trace; it can be compared and hashed."""


STATIC = (bool, int, str, type(None), FunctionType)
"""The types of other such arguments; functions specialize a trace by identity."""

MOST_OPTIONS = 16
"""The number of values of a function's float arguments that specialize traces; each traces the function once more."""


def recorded_whole(function: Function) -> Function:
    """Makes eager tensors record a function of tensors as a single application when users call it.

    It must return new tensors, no views of its arguments: one, or a tuple of them. Their types may depend only on the
    types of tensors and on the other arguments.
    """
    marked: Any = function
    marked.__whole__ = _Whole(function, takes_numbers=False)
    return function


def recorded_operator(function: Function) -> Function:
    """Like `recorded_whole`, for a function of two operands, one of which may be a Python number.

    The number is an operand, so that a different one does not retrace the function.
    """
    marked: Any = function
    marked.__whole__ = _Whole(function, takes_numbers=True)
    return function


def whole(function: Callable[..., Any], *args: Any) -> Any:
    """Returns the result of a function that is marked, called from others: recorded whole if that is possible."""
    marked: Any = function
    result = marked.__whole__(args, {})
    return function(*args) if result is None else result


class _Whole:
    """Records a function as a single application.

    Args:
        function: The function.
        takes_numbers: Whether Python numbers are operands.
    """

    def __init__(self, function: Callable[..., Any], takes_numbers: bool):
        self._function, self._takes_numbers = function, takes_numbers
        self._floats: set[Hashable] = set()

    def __call__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any | None:
        """Returns the result of a call; `None` if the function has to be called normally."""
        if current_trace() is not None:
            return None
        device = None
        operands: list[Array] = []
        floats: list[Hashable] = []
        # In the key an operand is its type, as the object shared by all tensors of that type on a device or as a shape
        # and dtype; another argument is a pair of a class and a value.
        key: list[Hashable] = [self, len(args), *kwargs]
        for argument in (*args, *kwargs.values()) if kwargs else args:
            kind = type(argument)
            if kind is Array or isinstance(argument, Array):
                operand: Array = argument
            elif kind is np.ndarray:
                if argument.itemsize == 8 and any(type(x) is Array and x.dtype == argument.dtype for x in args):
                    return None  # beside such a tensor, it stays of 64 bits
                operand = Array(as_array(argument))
            elif self._takes_numbers and (kind is float or kind is int):
                beside = _number_beside(args, argument)
                if beside is None:
                    return None
                operand = beside
            elif kind is float:
                floats.append(argument or str(argument))  # 0.0 == -0.0
                key.append((kind, floats[-1]))
                continue
            elif kind in STATIC or issubclass(kind, Static) or _is_of_integers(argument):
                key.append((kind, argument))
                continue
            else:
                return None
            operands.append(operand)
            own = operand.live
            if own is None:
                key.append((operand.shape, operand.dtype))
            else:
                device = own.device if device is None else device
                key.append(own.value.kind)
        if device is None or (floats and not self._is_option(tuple(floats))):
            return None
        return device.apply_traced(tuple(key), operands, lambda: self._traced(args, kwargs, operands))

    @staticmethod
    def distinct(result: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Returns the result of a normal call; a copy if it is an argument itself, or a view of one.

        Otherwise in-place changes of the one would show in the other, as they do in no other result.
        """
        source = result
        while isinstance(source, Array) and source.live is not None:
            if any(source is argument for argument in (*args, *kwargs.values())):
                return result.clone()
            source = None if source.live.view is None else source.live.view.parent
        return result

    def _is_option(self, floats: Hashable) -> bool:
        """Returns whether floats are options of a few values, rather than numbers that change from call to call."""
        if floats not in self._floats and len(self._floats) < MOST_OPTIONS:
            self._floats.add(floats)
        return floats in self._floats

    def _traced(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], operands: Sequence[Array]
    ) -> TracedFunction | None:
        """Returns the function for operands of such types; `None` if its result depends on anything else.

        Args:
            args: The arguments by position.
            kwargs: Those by keyword.
            operands: The operands among them, in order.
        """
        if any(0 in operand.shape for operand in operands):
            return None  # these cause warnings

        def function(*tensors: Any) -> Any:
            rest = iter(tensors)
            values = [next(rest) if self._is_operand(argument) else argument for argument in (*args, *kwargs.values())]
            return self._function(*values[: len(args)], **dict(zip(kwargs, values[len(args) :], strict=True)))

        specs = [Spec(operand.shape, operand.dtype) for operand in operands]
        slots = [Slot(f"x{i}", Role.INPUT) for i in range(len(operands))]
        ranges: list[IndexRanges] = []
        try:
            traced, result = trace_call(self._function.__name__, function, specs, slots, ranges.append)
        except TensorgradError:
            return None  # calling the function itself raises the error
        places, rebuild = trees.flatten(result)
        if (
            not ranges[0].is_complete
            or not _computes(traced)
            or places != list(range(len(traced.function_type.outputs)))
        ):
            return None
        return TracedFunction(traced, None if ranges[0].is_empty else _Checked(ranges[0]), rebuild)

    def _is_operand(self, argument: Any) -> bool:
        return isinstance(argument, Array | np.ndarray) or (self._takes_numbers and type(argument) in (float, int))


def _is_of_integers(argument: Any) -> bool:
    return type(argument) is tuple and all(type(part) is int for part in argument)


def _number_beside(args: Sequence[Any], number: float) -> Array | None:
    """Returns a Python number as an operand next to a tensor."""
    others = [argument for argument in args if isinstance(argument, Array)]
    if len(args) != 2 or len(others) != 1:
        return None
    try:
        return Array(as_array(number, common_dtype([others[0].dtype], [number])))
    except TensorgradError:
        return None


def _computes(function: FuncOp) -> bool:
    """Returns whether ops with operands compute all results: none is an argument itself, or a constant."""
    last = function.body.block.last_op
    assert last is not None
    return all(isinstance(value, OpResult) and value.owner.operands for value in last.operands)


class _Checked:
    """Checks that all indices in operands are in range. Those of the last call are not checked again.

    Args:
        ranges: The ranges required of the operands, which are called x0, x1, ….
    """

    def __init__(self, ranges: IndexRanges):
        self._ranges = ranges
        self._places = [int(name[1:]) for name in ranges.inputs]
        self._last: Sequence[weakref.ref[NumpyArray]] = ()

    def __call__(self, operands: Sequence[Any]) -> bool:
        """Returns whether the operands are valid; their arrays are immutable."""
        sources = [operands[place].source for place in self._places]
        arrays = [source if isinstance(source, np.ndarray) else source.numpy() for source in sources]
        if self._last and all(array is last() for array, last in zip(arrays, self._last, strict=True)):
            return True
        if not self._ranges.allow({f"x{place}": array for place, array in zip(self._places, arrays, strict=True)}):
            return False
        self._last = [weakref.ref(array) for array in arrays]
        return True
