"""Models with values: initialized modules, and pytrees of arrays as models."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorgrad.errors import ParameterError
from tensorgrad.nn.module import (
    Module,
    Tree,
    declarations,
    entries,
    is_container,
    with_values,
)
from tensorgrad.nn.parameters import is_float_array, is_float_number, parameter_of
from tensorgrad.nn.unchanged import check_bound
from tensorgrad.nn.weights import is_leaf
from tensorgrad.tracing import trees
from tensorgrad.tracing.dtypes import Spec
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Array, Traced


def declared_model(model: Any) -> Module:
    """Returns a model as `tg.compile` needs it, with everything declared.

    Arrays of floats, and floats of Python and NumPy, in a dict, list or tuple become parameters with these initial
    values; an initialized module becomes one whose parameters start from its values.

    Raises:
        ParameterError: It is not a model.
    """
    if isinstance(model, Module):
        return _with_own_values(model)
    if not isinstance(model, dict | list | tuple):
        raise ParameterError(
            f"{user_line()}: the model must be a tg.nn.Module, or a dict, list or tuple of arrays and modules, not "
            f"{type(model).__name__}"
        )
    known: dict[int, Any] = {}

    def declared(node: Any) -> Any:
        if isinstance(node, Module):
            if id(node) not in known:
                known[id(node)] = declared_model(node)
            return known[id(node)]
        if is_leaf(node):
            return node
        if is_float_number(node) or is_float_array(node):
            return parameter_of(node, f"{user_line()}: the model")
        if isinstance(node, dict):
            return {key: declared(value) for key, value in node.items()}
        if isinstance(node, list | tuple):
            make: Callable[..., Any] = type(node)
            items = [declared(value) for value in node]
            return make(*items) if hasattr(node, "_fields") else make(items)
        return node

    return Tree(declared(model))


def _with_own_values(model: Module) -> Module:
    """Returns a module whose leaves declare its parameters: the module itself, or one that starts from its values."""
    if model._opened()[1] is None:
        return model
    assert model._binding is not None
    if any(isinstance(value, Traced) for value in model._binding.values.values()):
        raise ParameterError(f"{user_line()}: the model is one that a traced function was given; give the declared one")
    return model.initialized()


@dataclass
class Opened:
    """A module as an argument or a result of a compiled function: a pytree of parameters and buffers.

    Attributes:
        module: The module, with any values.
    """

    module: Module

    def tree_children(self) -> tuple[list[Any], trees.Rebuild]:
        """Returns the values of parameters and buffers."""
        origin, values = self.module._opened()
        leaves = [(values or {}).get(id(leaf), leaf) for leaf in declarations(origin).values()]
        return leaves, lambda new: Opened(with_values(origin, new))

    def tree_names(self) -> list[str]:
        """Returns their paths."""
        return list(declarations(self._origin))

    def tree_key(self) -> Hashable:
        """Returns a key that is equal for modules with the same structure and the same other attributes."""
        return _fixed(self._origin, {})

    @property
    def _origin(self) -> Module:
        return self.module._opened()[0]


def opened(tree: Any) -> Any:
    """Returns a tree with its modules as `Opened`."""
    return _mapped(tree, Module, Opened)


def closed(tree: Any) -> Any:
    """Returns a tree with the modules that `opened` took."""
    return _mapped(tree, Opened, lambda node: node.module)


def check_kept(given: Any, where: str) -> None:
    """Checks that a traced function did not change its module arguments.

    Args:
        given: The result of `opened`, with tensors.
        where: The prefix of messages.

    Raises:
        ParameterError: It replaced, added or removed a parameter or buffer of one.
    """
    if isinstance(given, Opened):
        check_bound(given.module, f"{where} must leave a module as it is, and return another")
    elif not isinstance(given, Traced):
        for part in (trees.children(given) or ([], None))[0]:
            check_kept(part, where)


def _mapped(tree: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    if isinstance(tree, kind):
        return change(tree)
    if isinstance(tree, Array | Traced | np.ndarray | Spec):
        return tree
    found = trees.children(tree)
    if found is None:
        return tree
    parts, rebuild = found
    return rebuild([_mapped(part, kind, change) for part in parts])


@dataclass(frozen=True, eq=False)
class _Same:
    """A key that is equal only to itself."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def _fixed(node: Any, seen: dict[int, int]) -> Hashable:
    """Returns the structure of a module tree, without the values of its parameters, for comparison."""
    if id(node) in seen:
        return seen[id(node)]
    if is_leaf(node):
        seen[id(node)] = len(seen)
        return type(node), node.shape, node.dtype.str
    if is_container(node):
        seen[id(node)] = len(seen)
        return type(node), tuple((name, _fixed(value, seen)) for name, value in entries(node))
    if isinstance(node, np.ndarray):
        return node.shape, node.dtype.str, node.tobytes()
    try:
        hash(node)
    except TypeError:
        return _Same(node)
    return type(node), node
