"""Inputs by name that are trees of arrays, as flat inputs named by paths."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from tensorgrad.errors import InputError
from tensorgrad.tracing import trees
from tensorgrad.tracing.dtypes import Spec
from tensorgrad.tracing.tracer import as_array, function_name


class Nesting:
    """The structure of inputs, some of which are trees: dicts, dataclasses, and lists and tuples within them.

    Args:
        inputs: Inputs by name: arrays, specifications, or trees of them.

    Attributes:
        flat: The leaves of all inputs, by paths such as `cache.0.keys`.
        key: Equal for inputs with the same trees; `None` if there are none.

    Raises:
        InputError: Two leaves have the same path.
    """

    def __init__(self, inputs: Mapping[str, Any]):
        self.flat: dict[str, Any] = {}
        self._parts: dict[str, tuple[list[str], trees.Rebuild]] = {}
        key: list[tuple[str, Hashable]] = []
        for name, value in inputs.items():
            if not is_tree(value):
                self._add([name], [value])
                continue
            leaves, rebuild = trees.flatten(value)
            paths = [f"{name}.{path}" for path in trees.paths(value)]
            self._add(paths, leaves)
            self._parts[name] = paths, rebuild
            key.append((name, trees.structure(value)))
        self._names = list(inputs)
        self.key: Hashable = tuple(sorted(key, key=lambda part: part[0])) or None

    def _add(self, paths: Sequence[str], leaves: Sequence[Any]) -> None:
        for path, leaf in zip(paths, leaves, strict=True):
            if path in self.flat:
                raise InputError(f"the input {path!r} is given twice: two parts of the inputs have this path")
            self.flat[path] = leaf

    def function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function of the model and of flat inputs that calls one of the nested inputs."""
        if self.key is None:
            return function

        def nested(model: Any, **flat: Any) -> Any:
            values: dict[str, Any] = {}
            for name in self._names:
                paths, rebuild = self._parts.get(name, ([name], _only))
                values[name] = rebuild([flat[path] for path in paths])
            return function(model, **values)

        functools.update_wrapper(nested, function)  # its signature is the function's
        nested.__name__ = function_name(function)
        return nested


def flat_inputs(inputs: dict[str, Any]) -> dict[str, Any]:
    """Returns the inputs of a call by the paths of their leaves."""
    return Nesting(inputs).flat if any(map(is_tree, inputs.values())) else inputs


def like(batch: Any) -> Any:
    """Describes inputs by examples: the shapes and dtypes that they have as inputs.

    Numbers of 64 bits are those of 32, since NumPy makes them by default; those of a `tg.Array` keep theirs.

    Args:
        batch: Arrays by name, as a loader of data gives them; or an array. An input may be a tree of arrays: a dict or
            a dataclass.

    Returns:
        The same tree with a `tg.spec` for each array, such as `inputs=` of `tg.compile` takes.

    Raises:
        DTypeError: Something is not an array of numbers.

    Example:
        >>> tg.like({"x": np.zeros((32, 8)), "y": np.zeros(32, np.int64)})
        {'x': spec((32, 8), 'f32'), 'y': spec((32,), 'i32')}
    """
    return {name: _specs(value) for name, value in batch.items()} if isinstance(batch, dict) else _specs(batch)


def _specs(value: Any) -> Any:
    leaves, rebuild = trees.flatten(value) if is_tree(value) else ([value], _only)
    arrays = [leaf if isinstance(leaf, Spec) else as_array(leaf) for leaf in leaves]
    return rebuild([Spec(array.shape, array.dtype) for array in arrays])


def is_tree(value: Any) -> bool:
    """Returns whether an input is a tree: lists and tuples of numbers or arrays are arrays."""
    if getattr(type(value), "tree_leaf", False) or hasattr(value, "__array__"):
        return False
    return isinstance(value, dict) or (dataclasses.is_dataclass(value) and not isinstance(value, type))


def _only(leaves: Any) -> Any:
    return leaves[0]
