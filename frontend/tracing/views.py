"""Views: results of functions that share memory with their first argument, which in-place changes reveal."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tensorgrad.tracing.eager import Eager
from tensorgrad.tracing.grad_mode import is_grad_enabled

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(eq=False)
class View:
    """Describes what a tensor is a view of.

    Attributes:
        parent: The tensor that it was made from, which may itself be a view.
        again: Recomputes the view from a replacement of `parent`.
        in_order: Whether its elements are known to lie one after another in memory.
        reshapes: Whether it changes the axes, for which other libraries copy where elements lie otherwise.
        is_certain: Whether other libraries share memory here; `None` where that is not computed yet.
        is_recorded: Whether it propagates derivatives: not if it was made inside `no_grad`.
    """

    parent: Any
    again: Callable[[Any], Any]
    in_order: bool
    reshapes: bool
    is_certain: bool | None
    is_recorded: bool


def linked(x: Any, result: Any, again: Callable[[Any], Any], in_order: bool, reshapes: bool = False) -> Any:
    """Returns the result of a function as a view of its argument, if that is an eager tensor.

    Args:
        x: The argument.
        result: The function's result: a tensor, or a list or tuple of them.
        again: Calls the function with a replacement of `x`.
        in_order: Whether the function preserves the order of elements.
        reshapes: Whether the function changes the axes, which is certain to share memory only where elements are in
            order.
    """
    if not isinstance(x, Eager) or x.live is None:
        return result
    if isinstance(result, list | tuple):
        parts: Any = result
        for i, part in enumerate(parts):
            linked(x, part, lambda other, i=i: again(other)[i], in_order, reshapes)
        return parts
    if result is x:
        result = x.live.device.alias(x)
    if isinstance(result, Eager) and result.live is not None:
        around: View | None = x.live.view
        ordered = around is None or around.in_order
        certain = (around is None or around.is_certain) and (ordered or not reshapes)
        result.live.view = View(x, again, in_order and ordered, reshapes, certain or None, is_grad_enabled())
        x.live.device.share(x, result)
    return result


def is_basic(key: Any) -> bool:
    """Returns whether a key of `x[key]` consists of slices and single indices only, so that it yields a view."""
    entries = key if isinstance(key, tuple) else (key,)
    return all(
        entry is None
        or entry is Ellipsis
        or isinstance(entry, slice)
        or (isinstance(entry, int | np.integer) and not isinstance(entry, bool))
        for entry in entries
    )


def fixed(key: Any) -> Any:
    """Returns a frozen copy of a basic key: bounds that are tensors become numbers."""
    if isinstance(key, tuple):
        return tuple(fixed(entry) for entry in key)
    if isinstance(key, slice):
        return slice(*(None if bound is None else operator.index(bound) for bound in (key.start, key.stop, key.step)))
    return key


def keeps_order(key: Any) -> bool:
    """Returns whether a basic key selects a contiguous block."""
    entries = list(key) if isinstance(key, tuple) else [key]
    while entries and isinstance(entries[0], int | np.integer):
        entries.pop(0)
    return not entries or (len(entries) == 1 and isinstance(entries[0], slice) and entries[0].step in (None, 1))


def viewing(in_order: bool, reshapes: bool = False) -> Callable[[Function], Function]:
    """Makes a function return views of its first argument; see `linked`."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def call(x: Any, *args: Any, **kwargs: Any) -> Any:
            result = function(x, *args, **kwargs)
            if not isinstance(x, Eager) or x.live is None:
                return result
            # Lists belong to the caller, who may change them later.
            arguments = [tuple(arg) if isinstance(arg, list) else arg for arg in args]
            named = {name: tuple(arg) if isinstance(arg, list) else arg for name, arg in kwargs.items()}
            return linked(x, result, lambda other: function(other, *arguments, **named), in_order, reshapes)

        decorated: Any = call
        return decorated

    return decorate
