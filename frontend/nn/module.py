"""Modules: trees of Python objects that declare parameters."""

from __future__ import annotations

import copy
import difflib
import fnmatch
import functools
import itertools
import math
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, TypeVar, cast

import numpy as np

import tensorgrad as tg
from tensorgrad.errors import ArgumentError, OptionError, ParameterError, ShapeError, TraceError
from tensorgrad.nn.ambient import keyed
from tensorgrad.nn.description import Entry, named_call
from tensorgrad.nn.named_values import NamedValues, Path, check_kinds
from tensorgrad.nn.parameters import Buffer, Parameter, drawing, is_float_array, parameter_of
from tensorgrad.nn.state import State
from tensorgrad.nn.weights import BUFFERS, PARAMETERS, Held, Kept, Leaf, Weight, described_leaf, is_leaf, is_parameter
from tensorgrad.ops import random
from tensorgrad.runtime.inputs import check_inputs
from tensorgrad.runtime.slots import ArraySlot
from tensorgrad.runtime.tracebacks import trim
from tensorgrad.surface.foreign import unknown_attribute
from tensorgrad.tracing.dtypes import SHORT
from tensorgrad.tracing.location import calling, current_call, user_line
from tensorgrad.tracing.tensor import Array, Tensor, Traced
from tensorgrad.tracing.tracer import current_trace
from tensorgrad.tracing.trees import Rebuild

if TYPE_CHECKING:
    from tensorgrad import DeviceName

T = TypeVar("T", bound="Module")


class Module(NamedValues):
    """A part of a model: an object with parameters and other modules as attributes.

    Parameters are declared at construction, `self.w = tg.nn.param(...)`, and named by the path of attributes that leads
    to them, through modules, lists, tuples and dicts: `blocks.0.attention.w`. A module that is reached by several paths
    has one set of parameters, named by the first. A compiled loss gets a copy of the tree with tensors as parameters;
    the module itself never changes, so one instance serves several programs.

    Assigning an array of floats to an attribute, `self.w = np.zeros((3, 4))`, makes a parameter with that initial
    value; `tg.nn.buffer` holds floats that are not trained. Arrays of integers and booleans, and numbers, are
    constants.

    Attributes:
        training: False in the form of `tg.nn.inference(model)`, otherwise True.

    Raises:
        InputError: An assigned array has values too large for f32, or requires a gradient.

    Example:
        >>> class Line(tg.nn.Module):
        ...     def __init__(self):
        ...         self.weight = tg.nn.param((3,), init=0.5)
        ...     def __call__(self, x):
        ...         return x @ self.weight
        >>> Line().initialized(0)(tg.ones((2, 3)))
        Array([1.5, 1.5], dtype=f32)
    """

    leaf_role: ClassVar[str] = "parameter"  # the role of its leaves as arguments of a traced function
    training: bool = True
    _binding: Binding | None = None

    def __init__(self) -> None:  # so that wrong arguments of a class without its own are an `ArgumentError`
        super().__init__()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        called = vars(cls).get("__call__")
        if isinstance(called, types.FunctionType):
            type.__setattr__(cls, "__call__", _located(called, getattr(cls, "key_argument", None)))

    def __setattr__(self, name: str, value: object) -> None:
        if name in vars(self):
            check_replaceable(self, name, value)
        if self._binding is None and is_float_array(value) and not is_leaf(value):
            value = parameter_of(value, f"{user_line()}: {type(self).__name__}.{name}")
        object.__setattr__(self, name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Applies the module, as defined by a subclass.

        Raises:
            ArgumentError: The class defines no `__call__`.
        """
        name = type(self).__name__
        meant = "; name its forward __call__: that is what model(...) calls" if hasattr(self, "forward") else ""
        raise ArgumentError(f"{name} is called, but defines no __call__{meant}")

    if not TYPE_CHECKING:  # type checkers report such names themselves

        def __getattr__(self, name: str) -> NoReturn:

            raise unknown_attribute("Module", f"a module {type(self).__name__}", name, self)

    def named_parameters(self) -> dict[str, Any]:
        """Returns the parameters by path, each once: declared ones, or, in a traced function, their tensors.

        Raises:
            ParameterError: Two of them have the same path.
        """
        return {Path(path): parameter for path, parameter in self._named(PARAMETERS).items()}

    def parameters(self) -> list[Any]:
        """Returns the values of `named_parameters()`."""
        return list(self.named_parameters().values())

    def named_buffers(self) -> dict[str, Any]:
        """Returns the buffers by path, each once: declared ones, or, in a traced function, tensors to assign to.

        Raises:
            ParameterError: Two of them, or of the parameters, have the same path.
        """
        return {Path(path): buffer for path, buffer in self._named(BUFFERS).items()}

    def buffers(self) -> list[Any]:
        """Returns the values of `named_buffers()`."""
        return list(self.named_buffers().values())

    def named_modules(self) -> dict[str, Module]:
        """Returns the module itself, by an empty path, and all modules in it by path, each once."""
        found = _containers("", self, set())
        return {Path(path): node for path, node in found if isinstance(node, Module)}

    def modules(self) -> list[Module]:
        """Returns the values of `named_modules()`."""
        return list(self.named_modules().values())

    def named_children(self) -> dict[str, Module]:
        """Returns the modules that no other module in this one contains by path, in lists and dicts too."""
        return {Path(path): child for name, value in entries(self) for path, child in _nearest(name, value)}

    def children(self) -> list[Module]:
        """Returns the values of `named_children()`, each once."""
        return list({id(child): child for child in self.named_children().values()}.values())

    def zero_grad(self) -> None:
        """Clears the gradients of the parameters of a model on a device.

        Raises:
            ParameterError: The parameters are declared, and have no gradients: see `initialized`.
        """
        for path, parameter in self.named_parameters().items():
            if not isinstance(parameter, Array):
                raise ParameterError(
                    f"zero_grad: {path} is declared and gathers no gradient: that is for a model of "
                    "initialized(seed, device=...); a training's step makes its gradients anew"
                )
            parameter.zero_grad()

    def _opened(self) -> tuple[Module, dict[int, Any] | None]:
        """Returns the module whose leaves declare parameters and buffers, and the values bound to them, if any."""
        binding = self._binding
        return (self, None) if binding is None or binding.origin is None else (binding.origin, binding.values)

    def _leaves(self) -> tuple[dict[str, Leaf], dict[str, Any]]:
        origin, present = self._opened()
        declared = declarations(origin)
        return declared, {path: (present or {}).get(id(leaf), leaf) for path, leaf in declared.items()}

    def _bound(self, values: Mapping[str, Any]) -> Self:
        path = "" if self._binding is None else self._binding.path
        return cast("Self", with_values(self._opened()[0], list(values.values()), path))

    def _named(self, kinds: tuple[type, ...]) -> dict[str, Any]:
        origin, values = self._opened()
        leaves: dict[str, Any] = {path: leaf for path, leaf in declarations(origin).items() if isinstance(leaf, kinds)}
        return leaves if values is None else {path: values.get(id(leaf), leaf) for path, leaf in leaves.items()}

    def initialized(
        self, seed: int = 0, values: Mapping[str, Any] | None = None, device: DeviceName | None = None
    ) -> Any:
        """Returns the model with arrays as parameters and buffers: it can be called, eagerly and in `tg.jit`.

        On a device its parameters are eager tensors that collect gradients, for `loss.backward()` and
        `tg.optim.Adam(model.parameters())`; frozen ones don't. Its buffers are updated when it is called, as in a
        training.

        It is a model of its own, which can be changed: a layer keeps its values wherever it is moved, `model.q =
        LoRA(model.q)`. New layers have no values yet; called again, on the result, this initializes only them. What is
        left out or shared is so by identity. `tg.compile` accepts it too, and starts from its values. It is a pytree of
        its parameters for `tg.grad` and the other transformations. Without a device its buffers never change: layers
        that would update them, such as batch norm, have to be called as `tg.nn.inference(model)`.

        Args:
            seed: The seed from which parameters and buffers without values are sampled, each with its path, as
                `tg.compile` does.
            values: Arrays by path to use instead, such as `training.state_dict(parts="model")`. If there are tensors
                computed in a trace, or that require gradients, among them, the result is the model as a function of
                these, through which derivatives propagate; it can be called, but not changed.
            device: The device of parameters and buffers, as for `tg.tensor`; `None` makes constants.

        Raises:
            InputError: A name among the values is unknown, or a shape or dtype differs.
            OptionError: The seed is not an integer, or there is no such device.
            TraceError: The seed is a traced tensor.
        """
        origin = self._opened()[0]
        declared, start = self._leaves()
        slots = {path: ArraySlot(path, leaf.shape, SHORT[leaf.dtype]) for path, leaf in declared.items()}
        computed = {path: value for path, value in (values or {}).items() if _is_computed(value)}
        absent = {
            path: np.broadcast_to(np.zeros((), declared[path].dtype), declared[path].shape)
            for path in computed
            if path in declared
        }
        start.update(check_inputs(slots, {**(values or {}), **absent}, what="parameter", partial=True))
        start.update(_checked_computed(declared, computed, device))
        new = {path: leaf for path, leaf in start.items() if isinstance(leaf, Parameter | Buffer)}
        if new and isinstance(seed, Traced):
            raise TraceError(
                "initialized: the seed is a traced tensor, but values are sampled on the host: make "
                "the models outside of the trace, and tg.stack their parameters"
            )
        drawn = drawing(new, random.key(seed))
        if any(_is_computed(value) for path, value in start.items() if path in computed or isinstance(value, Traced)):
            start.update(drawn)
            return with_values(
                origin, [value if isinstance(value, Tensor) else Array(value) for value in start.values()]
            )
        present = ((path, value) for path, value in start.items() if path not in new)
        return initialized_copy(origin, itertools.chain(present, drawn), device)

    def __deepcopy__(self, memo: dict[int, Any]) -> Module:
        """Returns a separate model; immutable values are shared."""
        binding = self._binding
        if binding is not None and binding.origin is not None:
            values = {place: copy.deepcopy(value, memo) for place, value in binding.values.items()}
            memo[id(self)] = clone = bind(binding.origin, values, binding.path)
            return clone
        clone = memo[id(self)] = object.__new__(type(self))
        vars(clone).update({name: copy.deepcopy(value, memo) for name, value in vars(self).items()})
        return clone

    def freeze(self, *patterns: str) -> None:
        """Excludes parameters from training: programs compiled from now on don't compute their gradients or updates.

        Args:
            *patterns: Paths, or patterns such as `encoder.*`; none means all parameters.

        Raises:
            ParameterError: A pattern matches no parameter (the error names the nearest), or this is inside a trace.
                Nothing is changed then.
        """
        for parameter in self._matching("freeze", patterns):
            parameter.requires_grad_(False)

    def trainable(self, *patterns: str) -> None:
        """Undoes `freeze`: programs compiled from now on train these parameters again.

        Args:
            *patterns: Paths, or patterns such as `encoder.*`; none means all parameters.

        Raises:
            ParameterError: A pattern matches no parameter (the error names the nearest), or this is inside a trace.
                Nothing is changed then.
        """
        for parameter in self._matching("trainable", patterns):
            parameter.requires_grad_(True)

    def _matching(self, what: str, patterns: Sequence[str]) -> list[Parameter | Weight]:
        if self._opened()[1] is not None:
            raise ParameterError(f"{what}: what is traced can't change which parameters are trained")
        parameters = self._named(PARAMETERS)
        for pattern in patterns:
            if not isinstance(pattern, str) or not fnmatch.filter(parameters, pattern):
                near = difflib.get_close_matches(str(pattern), parameters, cutoff=0) or ["none"]
                raise ParameterError(f"{what}: {pattern!r} matches no parameter; the nearest are {', '.join(near)}")
        chosen = patterns or ("*",)
        return [
            parameter
            for path, parameter in parameters.items()
            if any(fnmatch.fnmatchcase(path, pattern) for pattern in chosen)
        ]

    def tree_children(self) -> tuple[list[Any], Rebuild]:
        """Returns the parameters, or their values, as leaves, and a function that binds others."""
        origin, values = self._opened()
        parameters = list(origin._named(PARAMETERS).values())
        leaves = parameters if values is None else [values[id(parameter)] for parameter in parameters]
        path = "" if self._binding is None else self._binding.path

        def rebuilt(new: Sequence[Any]) -> Module:
            return bind(origin, {**(values or {}), **dict(zip(map(id, parameters), new, strict=True))}, path)

        return leaves, rebuilt

    def tree_names(self) -> list[str]:
        """Returns the paths of the leaves."""
        return list(self._opened()[0]._named(PARAMETERS))

    def __repr__(self) -> str:
        return described(self._opened()[0]).text()

    def _repr_html_(self) -> str:
        """Returns the summary for notebooks, as a collapsible tree."""
        return f'<div style="font-family: monospace">{described(self._opened()[0]).html()}</div>'


@dataclass(frozen=True)
class Binding:
    """The binding of a module to values.

    Attributes:
        origin: The module that declares them; `None` in an initialized model, whose leaves are values themselves.
        values: The values of parameters and buffers, by the identity of their declarations.
        path: The path of the module in the model; empty for the model itself.
        kept: What functions of the module keep for their next call, by its class.
    """

    origin: Module | None
    values: dict[int, Any]
    path: str
    kept: dict[type, Any] = field(default_factory=dict, compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.origin, self.values, self.path)  # copies and unpickled modules are of other objects


def _is_computed(value: object) -> bool:
    """Returns whether a value is a tensor of a trace, or one that derivatives propagate through."""
    return isinstance(value, Traced) or (isinstance(value, Array) and value.requires_grad)


def _checked_computed(
    declared: Mapping[str, Leaf], values: Mapping[str, Any], device: DeviceName | None
) -> Mapping[str, Any]:
    """Returns computed values, after checking that they have the declared shapes and dtypes.

    Raises:
        InputError: A shape or dtype differs.
        OptionError: They are to be copied to a device.
    """
    if values and device is not None:
        raise OptionError(f"initialized: values that are computed in a trace can't go to {device!r}")
    check_kinds("initialized", declared, values)
    return values


def initialized_copy(origin: Module, values: Iterable[tuple[str, Any]], device: DeviceName | None = None) -> Module:
    """Returns a separate copy of a model whose leaves are these values.

    Args:
        origin: The model.
        values: The path and an array of each parameter and buffer; one at a time is copied.
        device: The device of the copy; `None` makes constants.
    """
    leaves: dict[int, Leaf] = {}
    declared = declarations(origin)
    for path, source in values:
        leaf, array = declared[path], np.array(source)
        value = Array(array) if device is None else tg.tensor(array, leaf.dtype, device=device)
        assert isinstance(value, Array)
        if is_parameter(leaf):
            leaves[id(leaf)] = Weight.trained(value, leaf.trainable)
        else:
            leaves[id(leaf)] = Held.of_path(value, path) if value.live is None else Kept.of(value)

    def finish(clone: Module, node: Module, path: str) -> None:
        vars(clone)["_binding"] = Binding(None, {}, path)

    return copied_tree(origin, lambda leaf: leaves[id(leaf)], finish)


def _located(method: Callable[..., Any], key_argument: str | None) -> Callable[..., Any]:
    """Returns a module's `__call__` that marks the ops traced in it with the module, and knows the key it was given."""
    function = method if key_argument is None else keyed(method, key_argument)

    @functools.wraps(method)
    def call(self: Module, *args: Any, **kwargs: Any) -> Any:
        try:
            trace = current_trace()
            if trace is None:
                return function(self, *args, **kwargs)
            path = "" if self._binding is None else self._binding.path
            around = current_call()
            if not path or (around is not None and around.path == path):  # called by a subclass's `__call__`
                return function(self, *args, **kwargs)
            calls = trace.outermost.calls
            calls[path] += 1
            with calling(path, calls[path]):
                return function(self, *args, **kwargs)
        except BaseException as error:
            if isinstance(error, ShapeError) and self._binding is not None and self._binding.path:
                error.name_layer(named_call(self, self._binding.path, args, kwargs))
            trim(error)
            raise

    return call


class Tree(Module):
    """A dict, list or tuple of parameters and modules as a model; paths are relative to it.

    Attributes:
        tree: The dict, list or tuple.
    """

    def __init__(self, tree: Any):
        super().__init__()
        self.tree = tree


def argument_of(model: Module) -> Any:
    """Returns the model as functions receive it: itself, or its tree."""
    return vars(model)["tree"] if isinstance(model, Tree) else model


def check_replaceable(module: Module, name: str, value: object) -> None:
    """Checks that an attribute of a module may be set: values are not lost, nor mistaken for others.

    Raises:
        ParameterError: It may not.
    """
    binding = module._binding
    if binding is None:
        return
    title = f"{user_line()}: {type(module).__name__}.{name} is set in"
    if binding.origin is None:
        if is_leaf(vars(module).get(name)) and not (value is None or is_leaf(value) or isinstance(value, Module)):
            raise ParameterError(
                f"{title} an initialized model, where it is an array: initialized(values={{path: array}}) gives a "
                "model with other values; on a device, copy_(array) changes this one"
            )
    elif any(isinstance(value, Array) for value in binding.values.values()):
        raise ParameterError(f"{title} a model that a function returned: initialized() makes one that can be changed")


def is_container(value: object) -> bool:
    """Returns whether a value may contain parameters."""
    return isinstance(value, Module | list | tuple | dict)


def entries(node: Any) -> list[tuple[str, Any]]:
    """Returns the members of a module or container, by name."""
    if isinstance(node, Tree):
        return entries(node.tree)
    if isinstance(node, Module):
        return [(name, value) for name, value in vars(node).items() if name != "_binding"]
    if isinstance(node, dict):
        return [(str(name), value) for name, value in node.items()]
    names = getattr(node, "_fields", None) or map(str, range(len(node)))
    return list(zip(names, node, strict=True))


def described(model: Module) -> Entry:
    """Returns the tree of a model."""

    seen: dict[int, str] = {}
    empty: set[int] = set()

    def visit(name: str, path: str, node: Any) -> Entry | None:
        kind = type(node).__name__ if isinstance(node, Module) else described_leaf(node) if is_leaf(node) else ""
        entry = Entry(": ".join(part for part in (name, kind) if part), isinstance(node, Module))
        if id(node) in seen:
            entry.shared = seen[id(node)]
            return None if id(node) in empty else entry
        seen[id(node)] = path
        if is_leaf(node):
            entry.count = math.prod(node.shape) if is_parameter(node) else 0
            return entry
        for key, value in entries(node):
            if is_leaf(value) or is_container(value):
                child = visit(key, f"{path}.{key}" if path else key, value)
                entry.children += [] if child is None else [child]
        entry.count = sum(child.count for child in entry.children)
        if entry.children or entry.is_module:
            return entry
        empty.add(id(node))  # a tuple of numbers, say
        return None

    root = visit("", "", model)
    assert root is not None
    root.label += f": {root.count:,} parameter{'' if root.count == 1 else 's'}"
    root.is_module = False  # its count is in the label
    return root


def walk(root: Module, is_end: Callable[[Any], bool]) -> Iterator[tuple[str, Any]]:
    """Yields the leaves of a module tree with their paths, each object once, in order of assignment."""
    return _walk("", root, is_end, set())


# Not a nested function: a recursive closure is a reference cycle, left to the garbage collector on every step.
def _walk(
    path: str, node: Any, is_end: Callable[[Any], bool], seen: set[int], has_values: bool = False
) -> Iterator[tuple[str, Any]]:
    if id(node) in seen or (has_values and is_float_array(node) and not is_leaf(node)):  # a result that a module kept
        return
    if is_end(node):
        seen.add(id(node))
        yield path, node
    elif is_container(node):
        seen.add(id(node))
        has_values = node._binding is not None if isinstance(node, Module) else has_values
        for name, value in entries(node):
            yield from _walk(f"{path}.{name}" if path else name, value, is_end, seen, has_values)


def first_path(root: Module, path: str) -> str:
    """Returns the first path to the module at a path; the path itself if there is no module."""
    target = _at(root, path)
    return next((candidate for candidate, node in _containers("", root, set()) if node is target), path)


def _at(node: Any, path: str) -> Any:
    if not path:
        return node
    for name, value in entries(node) if is_container(node) else ():
        if path == name or path.startswith(f"{name}."):
            result = _at(value, path[len(name) + 1 :])
            if result is not None:
                return result
    return None


def _containers(path: str, node: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Yields the modules and containers of a tree with their first paths, in the order in which `copied_tree` does."""
    if is_container(node) and id(node) not in seen:
        seen.add(id(node))
        yield path, node
        for name, value in entries(node):
            yield from _containers(f"{path}.{name}" if path else name, value, seen)


def _nearest(path: str, node: Any) -> Iterator[tuple[str, Module]]:
    """Yields a module itself, or those in a container that are in no other module, with their paths."""
    if isinstance(node, Module):
        yield path, node
    elif is_container(node):
        for name, value in entries(node):
            yield from _nearest(f"{path}.{name}", value)


def declarations(root: Module) -> dict[str, Leaf]:
    """Returns the parameters and buffers of a module tree by path, each once, in the order of assignment.

    Raises:
        ParameterError: Two of them have the same path, or one has a slash in it; or a list, tuple or dict contains an
            array of floats, which could be meant as a parameter or as a constant.
    """
    results: dict[str, Leaf] = {}
    for path, leaf in walk(root, lambda value: is_leaf(value) or is_float_array(value)):
        if not is_leaf(leaf):
            raise ParameterError(
                f"{path!r} is an array in a container: declare it by tg.nn.param(array.shape, init=array) if it is to "
                "be trained, else by tg.nn.buffer(array.shape, init=array)"
            )
        if path in results:
            raise ParameterError(f"two parameters have the path {path!r}")
        if "/" in path:
            raise ParameterError(
                f"the path {path!r} of a parameter has a slash, as only names of the optimizer's state do: rename the "
                f"attribute or key, as in {path.replace('/', '_')!r}"
            )
        results[path] = leaf
    return results


def bind(root: Module, values: Mapping[int, Any], path: str = "") -> Module:
    """Returns a copy of a module tree with `values[id(parameter)]` in place of each parameter and buffer.

    Changes that a traced function makes to modules and containers affect only the copy.

    Args:
        root: The tree.
        values: The values, by the identity of parameters and buffers.
        path: The path of the tree in its model.
    """
    binding = dict(values)

    def leaf(node: Any) -> Any:
        return binding[id(node)] if is_parameter(node) else binding.get(id(node), node)

    def finish(clone: Module, node: Module, within: str) -> None:
        vars(clone)["_binding"] = Binding(node, binding, ".".join(part for part in (path, within) if part))

    return copied_tree(root, leaf, finish)


def with_values(origin: Module, values: Sequence[Any], path: str = "") -> Module:
    """Returns a declared model with values for its parameters and buffers, in the order of `declarations`.

    Its buffers can't be assigned to, except for those whose values are buffers themselves.

    Args:
        origin: The model.
        values: The values.
        path: The path of the model, if it is a part of another.
    """
    values_by_leaf: dict[int, Any] = {}
    for (name, leaf), value in zip(declarations(origin).items(), values, strict=True):
        held = value
        if not is_parameter(leaf) and isinstance(value, Traced) and not isinstance(value, State):
            held = State(value, name, value.trace.name, "refused")
        elif not is_parameter(leaf) and isinstance(value, Array) and not is_leaf(value):
            held = Held.of_path(value, name) if value.live is None else Kept.of(value)
        values_by_leaf[id(leaf)] = held
    return bind(origin, values_by_leaf, path)


def inference(model: T) -> T:
    """Returns a version of a model for inference: a copy whose layers behave as after training.

    Batch norm uses its running statistics without updating them; dropout does nothing, and needs no key. It has the
    same parameters and buffers as the model. Use it in attached functions, `tg.nn.inference(model)(x)`, and in losses.

    A custom layer can read `self.training`, which is False then; or it can define a method `inference_call`, which is
    then called instead of `__call__`.

    Args:
        model: A module, declared or as a traced function receives it.

    Raises:
        ParameterError: It is not a module.

    Example:
        >>> model = tg.nn.Sequential(tg.nn.Linear(3, 2), tg.nn.Dropout(0.5)).initialized(0)
        >>> tg.nn.inference(model)(tg.ones((4, 3))).shape
        (4, 2)
    """
    if not isinstance(model, Module):
        raise ParameterError(f"inference: the model must be a tg.nn.Module, not {type(model).__name__}")
    origin, values = model._opened()

    def finish(clone: Module, node: Module, path: str) -> None:
        if isinstance(node.training, bool):  # not a parameter of that name
            vars(clone)["training"] = False
        if hasattr(type(node), "inference_call"):
            clone.__class__ = _inference_form(type(node))
        if node._binding is not None:
            vars(clone)["_binding"] = node._binding

    copied = copied_tree(origin, lambda node: node, finish)
    binding = model._binding
    return cast(T, copied if values is None or binding is None else bind(copied, values, binding.path))


@functools.lru_cache
def _inference_form(kind: Any) -> Any:
    """Returns a module's class with `inference_call` for `__call__`."""
    return type(kind.__name__, (kind,), {"__call__": kind.inference_call, "__module__": kind.__module__})


def copied_tree(root: Module, leaf: Callable[[Any], Any], finish: Callable[[Module, Module, str], None]) -> Module:
    """Returns a copy of a module tree: modules and containers are copied once each, everything else is shared.

    Args:
        root: The tree.
        leaf: Returns the value for a declared parameter or buffer.
        finish: Called with each module's copy, the module, and the first path to it.
    """
    copies: dict[int, Any] = {}

    def visit(node: Any, path: str) -> Any:
        if is_leaf(node):
            return leaf(node)
        if not is_container(node):
            return node
        if id(node) not in copies:
            _copied(node, path)
        return copies[id(node)]

    def _copied(node: Any, path: str) -> None:
        within = f"{path}." if path else ""
        if isinstance(node, tuple):
            items = [visit(value, within + name) for name, value in entries(node)]
            copies[id(node)] = type(node)(*items) if hasattr(node, "_fields") else tuple(items)
        elif isinstance(node, Tree):
            clone = copies[id(node)] = object.__new__(type(node))
            vars(clone)["tree"] = visit(node.tree, path)
            finish(clone, node, path)
        elif isinstance(node, Module):
            clone = copies[id(node)] = object.__new__(type(node))
            vars(clone).update({name: visit(value, within + name) for name, value in entries(node)})
            finish(clone, node, path)
        else:
            clone = copies[id(node)] = copy.copy(node)
            keys = list(node) if isinstance(node, dict) else range(len(node))
            for key, (name, value) in zip(keys, entries(node), strict=True):
                clone[key] = visit(value, within + name)

    return visit(root, "")
