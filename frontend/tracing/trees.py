"""Pytrees: nested dicts, lists, tuples, dataclasses and modules with tensors as leaves."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, cast, overload

import numpy as np

from tensorgrad.errors import InputError, ShapeError
from tensorgrad.tracing.likes import Positional
from tensorgrad.tracing.value_keys import value_key

Rebuild: TypeAlias = Callable[[Sequence[Any]], Any]

_LEAVES = frozenset((np.ndarray, bool, int, float))
"""The usual types of leaves, which are told at once: each call of a function asks for each of its arguments."""


class TreeNode(Protocol):
    """A class that defines its own flattening.

    It may set the role of its leaves as arguments of a traced function, by a class attribute `leaf_role`. If
    `tree_flat` is true, all of its children are leaves, whatever they are.
    """

    def tree_children(self) -> tuple[list[Any], Rebuild]:
        """Returns the children, and a function that rebuilds an equal node from new ones."""
        ...


def children(node: Any) -> tuple[list[Any], Rebuild] | None:
    """Returns the children of a node and how to rebuild it; `None` for a leaf. Dict items are sorted by key.

    A class whose `tree_leaf` is true is a leaf, even if it is a dataclass. Of other dataclasses, the fields that their
    constructor takes are children; a node is rebuilt as a copy, with its other attributes, without its constructor.

    Raises:
        InputError: Two keys of a dict have the same string, by which they are named.
    """
    kind = type(node)
    if kind in _LEAVES or getattr(kind, "tree_leaf", False):
        return None
    if hasattr(kind, "tree_children"):
        return cast(TreeNode, node).tree_children()
    if isinstance(node, dict):
        keys = _sorted_keys(node)
        return [node[key] for key in keys], lambda new: dict(zip(keys, new, strict=True))
    if isinstance(node, list | tuple):
        make: Callable[..., Any] = type(node)
        named = hasattr(node, "_fields")  # a named tuple takes its fields as separate arguments
        return list(node), lambda new: make(*new) if named else make(new)
    if node is None:
        return [], lambda new: None
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        names = _child_fields(node)
        values = [getattr(node, name) for name in names]
        return values, lambda new: _with_attributes(
            type(node), {**_fixed_attributes(node), **dict(zip(names, new, strict=True))}
        )
    return None


def _sorted_keys(node: Mapping[Any, Any]) -> list[Any]:
    """Returns the keys of a dict in the order of their strings.

    Raises:
        InputError: Two have the same.
    """
    keys = sorted(node, key=str)
    if not _are_strings(keys):
        for key, following in itertools.pairwise(keys):
            if str(key) == str(following):
                raise InputError(
                    f"a dict has the keys {key!r} and {following!r}, which have the same string, and its items are "
                    "named by that: use other keys"
                )
    return keys


def _are_strings(keys: Iterable[Any]) -> bool:
    return {*map(type, keys)} <= {str}


def _child_fields(node: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(node) if field.init]


def _fixed_attributes(node: Any) -> dict[str, Any]:
    """Returns the attributes of a dataclass that are not its children, nor computed from them when they are read."""
    slots = (_slot_name(kind, slot) for kind in type(node).__mro__ for slot in _slots(kind))
    attributes = {name: getattr(node, name) for name in slots if hasattr(node, name)} | getattr(node, "__dict__", {})
    fields = _child_fields(node)
    return {name: value for name, value in attributes.items() if name not in fields and not _is_cache(node, name)}


def _slots(kind: type) -> Sequence[str]:
    slots = vars(kind).get("__slots__", ())
    return [slot for slot in ((slots,) if isinstance(slots, str) else slots) if slot not in ("__dict__", "__weakref__")]


def _slot_name(kind: type, slot: str) -> str:
    """Returns the name of a slot as an attribute: private ones contain the name of their class."""
    is_private = slot.startswith("__") and not slot.endswith("__")
    return f"_{kind.__name__.lstrip('_')}{slot}" if is_private else slot


def _is_cache(node: Any, name: str) -> bool:
    return isinstance(getattr(type(node), name, None), functools.cached_property)


def _with_attributes(kind: type, attributes: Mapping[str, Any]) -> Any:
    """Returns an object with these attributes, whose constructor has not been called, as in copies of objects."""
    new = object.__new__(kind)
    for name, value in attributes.items():
        object.__setattr__(new, name, value)  # also where assignment is overridden, as in frozen dataclasses
    return new


def names(node: Any) -> list[str]:
    """Returns the names of a node's children, in the order of `children`."""
    if hasattr(node, "tree_names") and not isinstance(node, type):
        return list(node.tree_names())
    if isinstance(node, dict):
        return list(map(str, _sorted_keys(node)))
    if isinstance(node, tuple) and hasattr(node, "_fields"):
        return list(cast(Any, node)._fields)
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        return _child_fields(node)
    unpacked = children(node)
    return [] if unpacked is None else [str(position) for position in range(len(unpacked[0]))]


def paths(tree: Any) -> list[str]:
    """Returns the path of each leaf, names joined by dots; a tree that is a leaf has the empty path."""
    unpacked = children(tree)
    if unpacked is None:
        return [""]
    return [
        ".".join(part for part in (name, path) if part)
        for name, child in zip(names(tree), unpacked[0], strict=True)
        for path in paths(child)
    ]


def structure(tree: Any) -> Hashable:
    """Returns the structure of a pytree: equal for trees with the same types, names, and types of keys.

    What else has to be equal are the attributes of dataclasses that are not leaves, and what a method `tree_key` of a
    class returns.
    """
    return leaves_and_structure(tree)[1]


def leaves_and_structure(tree: Any) -> tuple[list[Any], Hashable]:
    """Returns the leaves of a pytree, in the order of `flatten`, and its `structure`, in one walk."""
    kind = type(tree)
    if kind is dict and _are_strings(tree):  # at once, as each call of a function has its arguments in one
        keys = sorted(tree)
        parts, key, own_names = [tree[name] for name in keys], None, tuple(keys)
    else:
        unpacked = children(tree)
        if unpacked is None:
            return [tree], None
        parts, key = unpacked[0], _fixed_key(tree)
        if getattr(kind, "tree_flat", False):
            return parts, (kind, key, len(parts))
        own_names = tuple(names(tree))
    leaves: list[Any] = []
    structures: list[Hashable] = []
    for part in parts:
        own, inner = leaves_and_structure(part)
        leaves += own
        structures.append(inner)
    return leaves, (kind, key, own_names, tuple(structures))


def _fixed_key(node: Any) -> Hashable:
    """Returns what has to be equal in nodes of the same structure, beside their types and names."""
    kind = type(node)
    if hasattr(kind, "tree_key"):
        return node.tree_key()
    if isinstance(node, dict):
        return tuple(value_key(key) for key in _sorted_keys(node) if not isinstance(key, str)) or None
    if dataclasses.is_dataclass(kind) and not hasattr(kind, "tree_children"):
        return tuple((name, value_key(value)) for name, value in sorted(_fixed_attributes(node).items()))
    return None


def described(tree: Any) -> Any:
    """Returns a pytree of strings as JSON: `{"dict": ...}`, `{"list": ...}`, `{"tuple": ...}`, or a node's own dict.

    Raises:
        ValueError: Two children of a node have the same name.
    """
    unpacked = children(tree)
    if unpacked is None or tree is None:
        return tree
    parts = [described(child) for child in unpacked[0]]
    if isinstance(tree, list | tuple):
        return {"list" if isinstance(tree, list) else "tuple": parts}
    if len(set(names(tree))) < len(parts):
        raise ValueError(f"two children have one name: {', '.join(names(tree))}")
    return {"dict": dict(zip(names(tree), parts, strict=True))}


def flatten(tree: Any) -> tuple[list[Any], Rebuild]:
    """Returns the leaves of a tree in order, and a function that rebuilds the tree from as many new leaves."""
    results = children(tree)
    if results is None:
        return [tree], lambda leaves: leaves[0]
    if getattr(type(tree), "tree_flat", False):
        return results
    parts = [flatten(child) for child in results[0]]
    counts = [len(leaves) for leaves, _ in parts]

    def rebuild(leaves: Sequence[Any]) -> Any:
        new: list[Any] = []
        start = 0
        for count, (_, part) in zip(counts, parts, strict=True):
            new.append(part(leaves[start : start + count]))
            start += count
        return results[1](new)

    return [leaf for leaves, _ in parts for leaf in leaves], rebuild


@overload
def tree_map(function: Positional[Any, Any], tree: Any, *rest: Any) -> Any: ...


@overload
def tree_map(function: Callable[..., Any], tree: Any, *rest: Any) -> Any: ...


def tree_map(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Applies a function to each leaf of a tree, and returns a tree of the results; JAX's `jax.tree.map`.

    Args:
        function: Takes a leaf of each tree; its results may be anything.
        tree: A pytree: nested dicts, lists, tuples, dataclasses and modules. Whatever else there is, is a leaf, except
            `None`, which has no leaves. The items of a dict come in the order of their keys.
        *rest: Further trees of the same structure, whose leaves are the function's other arguments.

    Returns:
        A tree of the same structure. A module is copied, with the results for its parameters.

    Raises:
        ShapeError: Two trees differ in structure; names the path of the first difference.

    Example:
        >>> tg.tree_map(lambda x, y: x + 10 * y, {"a": 1, "b": [2, 3]}, {"a": 4, "b": [5, 6]})
        {'a': 41, 'b': [52, 63]}
    """
    leaves, rebuild = flatten(tree)
    for other in rest:
        mismatch = difference(tree, other)
        if mismatch is not None:
            raise ShapeError(f"tree_map: the trees differ{mismatch}")
    return rebuild([function(*row) for row in zip(leaves, *(flatten(other)[0] for other in rest), strict=True)])


def difference(tree: Any, other: Any) -> str | None:
    """Returns where the structures of two trees first differ, as the end of a message; `None` if they agree."""
    return None if structure(tree) == structure(other) else _difference("", tree, other)


def _difference(path: str, tree: Any, other: Any) -> str:
    pair = children(tree), children(other)
    if type(tree) is type(other) and pair[0] and pair[1] and names(tree) == names(other):
        for name, child, other_child in zip(names(tree), pair[0][0], pair[1][0], strict=True):
            if structure(child) != structure(other_child):
                return _difference(f"{path}{path and '.'}{name}", child, other_child)
    nodes = _node(tree), _node(other)
    others = ", whose other attributes differ" if nodes[0] == nodes[1] else ""
    return f"{path and f' at {path}'}: {' and '.join(nodes)}{others}"


def _node(tree: Any) -> str:
    """Returns a description of a node: its type, and the names of its children."""
    unpacked, kind = children(tree), type(tree).__name__
    if unpacked is None:
        return f"a leaf ({kind})"
    if not unpacked[0] or isinstance(tree, list | tuple):
        return "None" if tree is None else f"a {kind} of {len(unpacked[0])}"
    if isinstance(tree, dict):
        return f"a {kind} of {', '.join(map(_key, _sorted_keys(tree)))}"
    return f"a {kind} of {', '.join(names(tree))}"


def _key(key: Any) -> str:
    return key if isinstance(key, str) else f"{key} ({type(key).__name__})"
