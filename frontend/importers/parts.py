"""The tree of an imported model: its parameters and buffers under their dotted paths elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensorgrad.nn.module import Module
from tensorgrad.nn.parameters import Buffer, Parameter


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
