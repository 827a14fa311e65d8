"""What imported models share: their trees, under the dotted paths that they have elsewhere, and their inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import tensorgrad as tg
from tensorgrad.errors import InputError
from tensorgrad.nn.module import Module
from tensorgrad.nn.parameters import Buffer, Parameter
from tensorgrad.runtime.conversion import converted, to_numpy
from tensorgrad.tracing.dtypes import SHORT
from tensorgrad.tracing.tensor import Array, Tensor


class Part(Module):
    """A part of an imported model: its parameters, buffers and parts, under the names that they have elsewhere."""

    if TYPE_CHECKING:  # what they are is known when the model is

        def __getattr__(self, name: str) -> Any: ...


def declare(model: Module, path: str, leaf: Parameter | Buffer) -> None:
    """Puts a leaf at its path in a model."""
    *parts, name = path.split(".")
    for part in parts:
        model = vars(model).setdefault(part, Part())
    vars(model)[name] = leaf


def leaf_at(model: Module, path: str) -> Any:
    """Returns what a model has at a path: a parameter's declaration, or its value in a trace."""
    leaf: Any = model
    for part in path.split("."):
        leaf = vars(leaf)[part]
    return leaf


def value_of(leaf: Any) -> Any:
    """Returns the initial value of a declared leaf, which a model has outside of traces; any other leaf as it is."""
    if isinstance(leaf, Parameter | Buffer):
        return Array(np.asarray(leaf.initializer(tg.random.key(0), leaf.shape, leaf.dtype)))
    return leaf


def as_input(value: Any, dtype: Any, where: str) -> Tensor:
    """Returns an argument as a tensor of a dtype.

    Raises:
        InputError: It is a tensor of another dtype, or can't be converted to it.
    """
    if not isinstance(value, Tensor):
        return Array(converted(to_numpy(value, where), dtype, SHORT[dtype], where).copy())
    if value.dtype != dtype:
        raise InputError(f"{where} is {SHORT[value.dtype]}, expected {SHORT[dtype]}")
    return value
