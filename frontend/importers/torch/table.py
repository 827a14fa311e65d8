"""The table of ATen ops: the function that computes each, by the names of the arguments in PyTorch's schema."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NoReturn

import numpy as np
import torch

from tensorgrad.errors import OptionError
from tensorgrad.tracing.dtypes import NAMES, DType
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.tracing.tracer import as_array

DTYPES: Mapping[torch.dtype, DType] = {
    torch.float64: NAMES["f64"],
    torch.float32: NAMES["f32"],
    torch.bfloat16: NAMES["bf16"],
    torch.float16: NAMES["f16"],
    torch.int64: NAMES["i32"],
    torch.int32: NAMES["i32"],
    torch.int16: NAMES["i16"],
    torch.int8: NAMES["i8"],
    torch.uint8: NAMES["u8"],
    torch.bool: NAMES["bool"],
}
"""The dtypes that tensors have here: 64-bit integers become those of 32 bits."""


@dataclass(frozen=True)
class Call:
    """One call of an op, beside its arguments.

    Attributes:
        name: The op's name, such as `aten.add`.
        outputs: PyTorch's result: a tensor without values, or a sequence of them.
        key: Returns a random key of its own.
        run: Runs a subgraph on values.
    """

    name: str
    outputs: Any
    key: Callable[[], Tensor]
    run: Callable[[Any, Sequence[Any]], Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the only output.

        Raises:
            OptionError: It depends on values.
        """
        if not has_known_shape(self.outputs):
            self.refuse("the shape of its result is known only when the program runs")
        return tuple(self.outputs.shape)

    @property
    def dtype(self) -> DType:
        """The dtype in which the only output is computed; that of its parts, if it is complex."""
        return computed_in(self.outputs.dtype.to_real())

    def refuse(self, reason: str) -> NoReturn:
        """Raises `OptionError`: the call is unsupported for this reason."""
        raise OptionError(f"{self.name}: {reason}")


def has_known_shape(output: torch.Tensor) -> bool:
    """Returns whether a result of PyTorch has a shape that doesn't depend on values."""
    return all(type(extent) is int for extent in output.shape)


def dtype_of(dtype: torch.dtype) -> DType:
    """Returns the dtype here for one of PyTorch's.

    Raises:
        OptionError: There is none.
    """
    if dtype not in DTYPES:
        raise OptionError(f"there are no tensors of {dtype} here")
    return DTYPES[dtype]


def computed_in(dtype: torch.dtype) -> DType:
    """Returns the dtype in which ops compute what has one of PyTorch's: f32 for bfloat16.

    Raises:
        OptionError: There is none.
    """
    kept = dtype_of(dtype)
    return NAMES["f32"] if kept == NAMES["bf16"] else kept


def array_of(value: torch.Tensor) -> np.ndarray[Any, Any]:
    """Returns the numbers of one of PyTorch's tensors, in their dtype here; a copy.

    Raises:
        OptionError: Its dtype has none here.
        DTypeError: A 64-bit integer doesn't fit 32 bits.
    """
    kept, dense = dtype_of(value.dtype), value.detach().cpu()
    if dense.dtype == torch.bfloat16:
        return np.array(dense.contiguous().view(torch.int16).numpy().view(kept))
    return as_array(np.array(dense.numpy()), kept)


@dataclass(frozen=True)
class Rule:
    """How an op is computed.

    Attributes:
        function: Takes the arguments by their names in the schema, as tensors, numbers, lists and PyTorch's dtypes;
            one that it doesn't take must have its default value. If it takes `call`, that is the `Call`.
        is_random: Whether its result depends on more than its arguments.
        moves: Whether it passes elements on without computing with them, so that they stay as narrow as they are.
        parameters_of: The function whose parameters count, if `function` passes all on to it.
    """

    function: Callable[..., Any]
    is_random: bool = False
    moves: bool = False
    parameters_of: Callable[..., Any] | None = None

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The names of the function's parameters, in order."""
        return tuple(inspect.signature(self.parameters_of or self.function).parameters)

    @cached_property
    def takes_all(self) -> bool:
        """Whether the function takes arguments by any name."""
        kinds = {
            parameter.kind for parameter in inspect.signature(self.parameters_of or self.function).parameters.values()
        }
        return inspect.Parameter.VAR_KEYWORD in kinds


RULES: dict[str, Rule] = {}
"""The table, by the op's name without its overload."""

WITHOUT_MEANING = frozenset(
    (
        *("device", "layout", "pin_memory", "memory_format", "non_blocking", "copy", "implicit", "generator"),
        *("cudnn_enabled", "cudnn_enable", "benchmark", "deterministic", "allow_tf32", "is_coalesced", "sparse"),
    )
)
"""Arguments that say where and how PyTorch stores and computes, not what."""


def rule(
    names: str, is_random: bool = False, moves: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function in the table.

    Args:
        names: The op, or several, with spaces between; `aten.` is left out.
        is_random: See `Rule`.
        moves: See `Rule`.
    """

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names.split():
            full = name if "." in name else f"aten.{name}"
            assert full not in RULES, full
            RULES[full] = Rule(function, is_random, moves)
        return function

    return enter


moving = partial(rule, moves=True)
"""Registers a function that passes elements on without computing with them."""


def same(names: Mapping[str, Callable[[Any], Any]]) -> None:
    """Registers functions of one tensor, by the op's name."""
    for name, function in names.items():
        rule(name)(_unary(function))


def _unary(function: Callable[[Any], Any]) -> Callable[..., Any]:
    def apply(self: Tensor) -> Any:
        return function(self)

    return apply
