"""Models with values: initialized modules, and pytrees of arrays as models."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable
from typing import Any, ClassVar

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
from tensorgrad.nn.watch import Watch
from tensorgrad.nn.weights import is_leaf
from tensorgrad.tracing import trees
from tensorgrad.tracing.dtypes import Spec
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Array, Traced
from tensorgrad.tracing.value_keys import value_key


def _imported(model: object) -> str:
    """Returns how to import a model of PyTorch, as the end of a message."""
    is_torch = any(kind.__module__.startswith("torch.nn") for kind in type(model).__mro__)
    return "; tg.from_torch(model, example inputs) imports a module of PyTorch" if is_torch else ""


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
            f"the model must be a tg.nn.Module, or a dict, list or tuple of arrays and modules, not "
            f"{type(model).__name__}{_imported(model)}"
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
        raise ParameterError("the model is one that a traced function was given; give the declared one")
    return model.initialized()


class ModuleStructure:
    """What a declared module consists of, collected once for as long as it stays the same.

    Attributes:
        leaves: The parameters and buffers.
        ids: Their identities.
        paths: Their paths.
        key: Equal for modules with the same structure and the same other attributes.
    """

    def __init__(self, origin: Module):
        self._watch = Watch(origin)
        declared = declarations(origin)
        self.leaves, self.ids = list(declared.values()), list(map(id, declared.values()))
        self.paths = list(declared)
        arrays: list[np.ndarray] = []
        self.key: Hashable = _Hashed(_fixed(origin, {}, arrays))
        self._arrays = [(array, array.tobytes()) for array in arrays]

    @property
    def is_current(self) -> bool:
        """Whether the module, and the arrays that are its constants, are the same."""
        return self._watch.is_unchanged() and all(array.tobytes() == before for array, before in self._arrays)

    @staticmethod
    def of(module: Module) -> ModuleStructure:
        """Returns the layout of a module, which an initialized one keeps."""
        binding, (origin, _) = module._binding, module._opened()
        if binding is None:
            return ModuleStructure(origin)
        layout: ModuleStructure | None = binding.kept.get(ModuleStructure)
        if layout is None or not layout.is_current:
            layout = binding.kept[ModuleStructure] = ModuleStructure(origin)
        return layout


class Opened:
    """A module as an argument or a result of a compiled function: a pytree of parameters and buffers.

    Args:
        module: The module, with any values.
    """

    tree_flat: ClassVar[bool] = True

    def __init__(self, module: Module):
        self.module = module
        self._layout = ModuleStructure.of(module)

    def tree_children(self) -> tuple[list[Any], trees.Rebuild]:
        """Returns the values of parameters and buffers."""
        origin, values = self.module._opened()
        layout = self._layout
        leaves = layout.leaves if values is None else list(map(values.get, layout.ids, layout.leaves))
        return leaves, lambda new: Opened(with_values(origin, new))

    def tree_names(self) -> list[str]:
        """Returns their paths."""
        return self._layout.paths

    def tree_key(self) -> Hashable:
        """Returns a key that is equal for modules with the same structure and the same other attributes."""
        return self._layout.key


def opened(tree: Any) -> Any:
    """Returns a tree with its modules as `Opened`."""
    return _mapped(tree, Module, Opened)


def closed(tree: Any) -> Any:
    """Returns a tree with the modules that `opened` took."""
    return _mapped(tree, Opened, lambda node: node.module)


def check_kept(tree: Any, where: str) -> None:
    """Checks that a traced function did not change its module arguments.

    Args:
        tree: The result of `opened`, with tensors.
        where: The prefix of messages.

    Raises:
        ParameterError: It replaced, added or removed a parameter or buffer of one.
    """
    if isinstance(tree, Opened):
        check_bound(tree.module, f"{where} must leave a module as it is, and return another")
    elif not isinstance(tree, Traced):
        for part in (trees.children(tree) or ([], None))[0]:
            check_kept(part, where)


def _mapped(tree: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    if isinstance(tree, kind):
        return change(tree)
    if isinstance(tree, Array | Traced | np.ndarray | Spec):
        return tree
    unpacked = trees.children(tree)
    if unpacked is None:
        return tree
    parts, rebuild = unpacked
    changed = [_mapped(part, kind, change) for part in parts]
    return tree if all(map(operator.is_, parts, changed)) else rebuild(changed)


class _Hashed:
    """A key that is hashed once."""

    __slots__ = ("_hash", "value")

    def __init__(self, value: Hashable):
        self.value, self._hash = value, hash(value)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Hashed) and other.value == self.value)

    def __hash__(self) -> int:
        return self._hash


def _fixed(node: Any, seen: dict[int, int], arrays: list[np.ndarray]) -> Hashable:
    """Returns the structure of a module tree, without the values of its parameters, for comparison.

    Args:
        node: The tree.
        seen: The numbers of the nodes that occurred before.
        arrays: Receives the arrays that are constants.
    """
    if id(node) in seen:
        return seen[id(node)]
    if is_leaf(node):
        seen[id(node)] = len(seen)
        return type(node), node.shape, node.dtype.str
    if is_container(node):
        seen[id(node)] = len(seen)
        return type(node), tuple((name, _fixed(value, seen, arrays)) for name, value in entries(node))
    if isinstance(node, np.ndarray):
        arrays.append(node)
        return node.shape, node.dtype.str, node.tobytes()
    return value_key(node)
