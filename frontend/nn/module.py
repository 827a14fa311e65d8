"""Modules: trees of Python objects that declare parameters."""

from __future__ import annotations

import copy
import difflib
import fnmatch
import functools
import math
import numbers
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar, cast

import numpy as np

import tensorgrad as tg
from tensorgrad.errors import ArgumentError, ParameterError
from tensorgrad.nn.description import Entry
from tensorgrad.nn.parameters import Buffer, Parameter, drawn, is_float_array, parameter_of
from tensorgrad.nn.state import Held, Kept, State
from tensorgrad.ops import random
from tensorgrad.runtime.backend import ArraySlot, check_inputs
from tensorgrad.surface.foreign import unknown_attribute
from tensorgrad.tracing.dtypes import SHORT
from tensorgrad.tracing.location import calling, current_call, user_line
from tensorgrad.tracing.tensor import Array, Traced
from tensorgrad.tracing.tracer import current_trace
from tensorgrad.tracing.trees import Rebuild

if TYPE_CHECKING:
    from tensorgrad import DeviceName

T = TypeVar("T", bound="Module")


class Module:
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
    """

    leaf_role: ClassVar[str] = "parameter"  # the role of its leaves as arguments of a traced function
    training: bool = True
    _binding: Binding | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        called = vars(cls).get("__call__")
        if isinstance(called, types.FunctionType):
            type.__setattr__(cls, "__call__", _located(called))

    def __setattr__(self, name: str, value: object) -> None:
        if self._binding is not None and name in vars(self):
            _check_replaceable(self, name)
        if self._binding is None and is_float_array(value):
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
        return {Path(path): parameter for path, parameter in self._named(Parameter).items()}

    def parameters(self) -> list[Any]:
        """Returns the values of `named_parameters()`."""
        return list(self.named_parameters().values())

    def named_buffers(self) -> dict[str, Any]:
        """Returns the buffers by path, each once: declared ones, or, in a traced function, tensors to assign to.

        Raises:
            ParameterError: Two of them, or of the parameters, have the same path.
        """
        return {Path(path): buffer for path, buffer in self._named(Buffer).items()}

    def buffers(self) -> list[Any]:
        """Returns the values of `named_buffers()`."""
        return list(self.named_buffers().values())

    def zero_grad(self) -> None:
        """Clears the gradients of the parameters of a model on a device.

        Raises:
            ParameterError: The parameters are declared, and have no gradients: see `initialized`.
        """
        for path, parameter in self.named_parameters().items():
            if not isinstance(parameter, Array):
                raise ParameterError(
                    f"{user_line()}: zero_grad: {path} is declared and gathers no gradient: that is for a model of "
                    "initialized(seed, device=...); a training's step makes its gradients anew"
                )
            parameter.zero_grad()

    def _opened(self) -> tuple[Module, dict[int, Any] | None]:
        """Returns the declared module, and the values that it is bound to, if any."""
        return (self, None) if self._binding is None else (self._binding.origin, self._binding.values)

    def _named(self, kind: type) -> dict[str, Any]:
        origin, values = self._opened()
        found: dict[str, Any] = {path: leaf for path, leaf in declarations(origin).items() if isinstance(leaf, kind)}
        return found if values is None else {path: values.get(id(leaf), leaf) for path, leaf in found.items()}

    def initialized(
        self, seed: int = 0, values: Mapping[str, Any] | None = None, device: DeviceName | None = None
    ) -> Any:
        """Returns the model with arrays as parameters and buffers: it can be called, eagerly and in `tg.jit`.

        On a device its parameters are eager tensors that collect gradients, for `loss.backward()` and
        `tg.optim.Adam(model.parameters())`; frozen ones don't. Its buffers are updated when it is called, as in a
        training.

        `tg.compile` accepts it too, and starts from its values; each call has its own parameters. It is a pytree of its
        parameters for `tg.grad` and the other transformations. Without a device its buffers never change: layers that
        would update them, such as batch norm, have to be called as `tg.nn.inference(model)`.

        Args:
            seed: The seed from which parameters and buffers are sampled, each with its path, as `tg.compile` does.
            values: Arrays by path to use instead, such as `training.state_dict(parts="model")`.
            device: The device of parameters and buffers, as for `tg.tensor`; `None` makes constants.

        Raises:
            InputError: A name among the values is unknown, or a shape or dtype differs.
            OptionError: The seed is not an integer, or there is no such device.
        """

        origin, present = self._opened()
        declared = declarations(origin)
        if present is None:
            arrays = drawn(declared, random.key(seed))
        else:
            arrays = {path: np.asarray(present[id(leaf)]) for path, leaf in declared.items()}
        slots = {path: ArraySlot(path, leaf.shape, SHORT[leaf.dtype]) for path, leaf in declared.items()}
        given = check_inputs(slots, values or {}, what="parameter", partial=True)
        found = {path: np.array(given.get(path, arrays[path])) for path in declared}
        if device is None:
            return with_values(origin, [Array(array) for array in found.values()])
        return with_values(origin, [_on_device(leaf, found[path], device) for path, leaf in declared.items()])

    def __deepcopy__(self, memo: dict[int, Any]) -> Module:
        """Returns a separate model; immutable values are shared."""
        if self._binding is not None:
            values = {place: copy.deepcopy(value, memo) for place, value in self._binding.values.items()}
            memo[id(self)] = clone = bind(self._binding.origin, values, self._binding.path)
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
            parameter.trainable = False

    def trainable(self, *patterns: str) -> None:
        """Undoes `freeze`: programs compiled from now on train these parameters again.

        Args:
            *patterns: Paths, or patterns such as `encoder.*`; none means all parameters.

        Raises:
            ParameterError: A pattern matches no parameter (the error names the nearest), or this is inside a trace.
                Nothing is changed then.
        """
        for parameter in self._matching("trainable", patterns):
            parameter.trainable = True

    def _matching(self, what: str, patterns: Sequence[str]) -> list[Parameter]:

        if self._binding is not None:
            raise ParameterError(f"{user_line()}: {what}: what is traced can't change which parameters are trained")
        parameters = self._named(Parameter)
        for pattern in patterns:
            if not isinstance(pattern, str) or not fnmatch.filter(parameters, pattern):
                near = difflib.get_close_matches(str(pattern), parameters, cutoff=0) or ["none"]
                raise ParameterError(
                    f"{user_line()}: {what}: {pattern!r} matches no parameter; the nearest are {', '.join(near)}"
                )
        chosen = patterns or ("*",)
        return [
            parameter
            for path, parameter in parameters.items()
            if any(fnmatch.fnmatchcase(path, pattern) for pattern in chosen)
        ]

    def tree_children(self) -> tuple[list[Any], Rebuild]:
        """Returns the parameters, or their values, as leaves, and a function that binds others."""
        origin, values = self._opened()
        parameters = list(origin._named(Parameter).values())
        leaves = parameters if values is None else [values[id(parameter)] for parameter in parameters]
        path = "" if self._binding is None else self._binding.path

        def rebuilt(new: Sequence[Any]) -> Module:
            return bind(origin, {**(values or {}), **dict(zip(map(id, parameters), new, strict=True))}, path)

        return leaves, rebuilt

    def tree_names(self) -> list[str]:
        """Returns the paths of the leaves."""
        return list(self._opened()[0]._named(Parameter))

    def __repr__(self) -> str:
        return described(self._opened()[0]).text()

    def _repr_html_(self) -> str:
        """Returns the summary for notebooks, as a collapsible tree."""
        return f'<div style="font-family: monospace">{described(self._opened()[0]).html()}</div>'


@dataclass(frozen=True)
class Binding:
    """The binding of a module to values.

    Attributes:
        origin: The declared module.
        values: The values of parameters and buffers, by their identity.
        path: The path of the module in the model; empty for the model itself.
    """

    origin: Module
    values: dict[int, Any]
    path: str


def _on_device(leaf: Parameter | Buffer, values: np.ndarray, device: DeviceName) -> Array:
    """Returns the tensor for a parameter or buffer on a device."""
    trained = isinstance(leaf, Parameter) and leaf.trainable
    made = tg.tensor(values, leaf.dtype, device=device, requires_grad=trained)
    assert isinstance(made, Array)
    return made


def _located(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a module's `__call__` that marks the ops traced in it with the module."""

    @functools.wraps(function)
    def call(self: Module, *args: Any, **kwargs: Any) -> Any:
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

    return call


class Path(str):
    """The path of a parameter, such as `layers.0.weight`.

    Unpacking it raises, so that a PyTorch loop over pairs of a name and a parameter gets a helpful error.
    """

    __slots__ = ()

    def __iter__(self) -> NoReturn:
        raise ArgumentError(
            f"{user_line()}: parameters and buffers come as a dict by path: for name, parameter in "
            "model.named_parameters().items()"
        )


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


def _check_replaceable(module: Module, name: str) -> None:
    """Checks that a module is not initialized: those are immutable.

    Raises:
        ParameterError: It is initialized.
    """

    assert module._binding is not None
    if any(isinstance(value, Array) for value in module._binding.values.values()):
        raise ParameterError(
            f"{user_line()}: {type(module).__name__}.{name} is set in an initialized model, which stays as it is: "
            "initialized(values={path: array}) gives one with other values; all else is set in the declared model"
        )


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
        is_leaf = isinstance(node, Parameter | Buffer)
        kind = type(node).__name__ if isinstance(node, Module) else repr(node) if is_leaf else ""
        entry = Entry(": ".join(part for part in (name, kind) if part), isinstance(node, Module))
        if id(node) in seen:
            entry.shared = seen[id(node)]
            return None if id(node) in empty else entry
        seen[id(node)] = path
        if is_leaf:
            entry.count = math.prod(node.shape) if isinstance(node, Parameter) else 0
            return entry
        for key, value in entries(node):
            if isinstance(value, Parameter | Buffer) or is_container(value):
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


def walk(root: Module, is_leaf: Callable[[Any], bool]) -> Iterator[tuple[str, Any]]:
    """Yields the leaves of a module tree with their paths, each object once, in order of assignment."""
    return _walk("", root, is_leaf, set())


# Not a nested function: a recursive closure is a reference cycle, left to the garbage collector on every step.
def _walk(path: str, node: Any, is_leaf: Callable[[Any], bool], seen: set[int]) -> Iterator[tuple[str, Any]]:
    if id(node) in seen:
        return
    if is_leaf(node):
        seen.add(id(node))
        yield path, node
    elif is_container(node):
        seen.add(id(node))
        for name, value in entries(node):
            yield from _walk(f"{path}.{name}" if path else name, value, is_leaf, seen)


def first_path(root: Module, path: str) -> str:
    """Returns the first path to the module at a path; the path itself if there is no module."""
    wanted = _at(root, path)
    return next((found for found, node in _containers("", root, set()) if node is wanted), path)


def _at(node: Any, path: str) -> Any:
    if not path:
        return node
    for name, value in entries(node) if is_container(node) else ():
        if path == name or path.startswith(f"{name}."):
            found = _at(value, path[len(name) + 1 :])
            if found is not None:
                return found
    return None


def _containers(path: str, node: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Yields the modules and containers of a tree with their first paths, in the order in which `copied_tree` does."""
    if is_container(node) and id(node) not in seen:
        seen.add(id(node))
        yield path, node
        for name, value in entries(node):
            yield from _containers(f"{path}.{name}" if path else name, value, seen)


def declarations(root: Module) -> dict[str, Parameter | Buffer]:
    """Returns the declared parameters and buffers of a module tree by path, each once, in the order of assignment.

    Raises:
        ParameterError: Two of them have the same path; or a list, tuple or dict contains an array of floats, which
            could be meant as a parameter or as a constant.
    """
    found: dict[str, Parameter | Buffer] = {}
    for path, leaf in walk(root, lambda value: isinstance(value, Parameter | Buffer) or is_float_array(value)):
        if not isinstance(leaf, Parameter | Buffer):
            raise ParameterError(
                f"{path!r} is an array in a container: declare it by tg.nn.param(array.shape, init=array) if it is to "
                "be trained, else by tg.nn.buffer(array.shape, init=array)"
            )
        if path in found:
            raise ParameterError(f"two parameters have the path {path!r}")
        found[path] = leaf
    return found


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
        return binding[id(node)] if isinstance(node, Parameter) else binding.get(id(node), node)

    def made(clone: Module, node: Module, within: str) -> None:
        vars(clone)["_binding"] = Binding(node, binding, ".".join(part for part in (path, within) if part))

    return copied_tree(root, leaf, made)


def with_values(origin: Module, values: Sequence[Any]) -> Module:
    """Returns a declared model with values for its parameters and buffers, in the order of `declarations`.

    Its buffers can't be assigned to.
    """
    found: dict[int, Any] = {}
    for (path, leaf), value in zip(declarations(origin).items(), values, strict=True):
        held = value
        if isinstance(leaf, Buffer) and isinstance(value, Traced):
            held = State(value, path, value.trace.name, "refused")
        elif isinstance(leaf, Buffer) and isinstance(value, Array):
            held = Held(value, path) if value.live is None else Kept.of(value)
        found[id(leaf)] = held
    return bind(origin, found)


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
    """
    if not isinstance(model, Module):
        raise ParameterError(f"{user_line()}: inference: the model must be a tg.nn.Module, not {type(model).__name__}")
    origin = model._opened()[0]

    def made(clone: Module, node: Module, path: str) -> None:
        if isinstance(node.training, bool):  # not a parameter of that name
            vars(clone)["training"] = False
        if hasattr(type(node), "inference_call"):
            clone.__class__ = _inference_form(type(node))

    copied = copied_tree(origin, lambda node: node, made)
    return cast(T, copied if model._binding is None else bind(copied, model._binding.values, model._binding.path))


@functools.cache
def _inference_form(kind: Any) -> Any:
    """Returns a module's class with `inference_call` for `__call__`."""
    return type(kind.__name__, (kind,), {"__call__": kind.inference_call, "__module__": kind.__module__})


def copied_tree(root: Module, leaf: Callable[[Any], Any], made: Callable[[Module, Module, str], None]) -> Module:
    """Returns a copy of a module tree: modules and containers are copied once each, everything else is shared.

    Args:
        root: The tree.
        leaf: Returns the value for a declared parameter or buffer.
        made: Called with each module's copy, the module, and the first path to it.
    """
    copies: dict[int, Any] = {}

    def visit(node: Any, path: str) -> Any:
        if isinstance(node, Parameter | Buffer):
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
            made(clone, node, path)
        elif isinstance(node, Module):
            clone = copies[id(node)] = object.__new__(type(node))
            vars(clone).update({name: visit(value, within + name) for name, value in entries(node)})
            made(clone, node, path)
        else:
            clone = copies[id(node)] = copy.copy(node)
            keys = list(node) if isinstance(node, dict) else range(len(node))
            for key, (name, value) in zip(keys, entries(node), strict=True):
                clone[key] = visit(value, within + name)

    return visit(root, "")


def check_bound(bound: Module, where: str) -> None:
    """Checks that the parameters and buffers of a bound tree are still where they were bound.

    Raises:
        ParameterError: The traced function has replaced, moved, added or removed one.
    """
    assert bound._binding is not None
    origin, values = bound._opened()
    assert values is not None
    expected = {path: values.get(id(declared), declared) for path, declared in declarations(origin).items()}
    ids = {id(value) for value in values.values()}
    found = dict(walk(bound, lambda value: isinstance(value, Parameter | Buffer) or id(value) in ids))
    check_same(expected, found, where)


def check_attributes(bound: Module, where: str) -> None:
    """Checks that no tensor or number was assigned to an attribute of the declared module.

    It would be lost with the copy, although the code looks as if it were kept from step to step.

    Raises:
        ParameterError: One was; names the attributes.
    """

    assert bound._binding is not None
    origin, values = bound._opened()
    assert values is not None
    declared = {id(value) for value in values.values()}
    lost: list[str] = []
    seen: set[int] = set()

    def visit(path: str, node: Any, origin: Any) -> None:
        if id(node) in seen or not is_container(node) or type(node) is not type(origin):
            return
        seen.add(id(node))
        before = dict(entries(origin))
        for name, value in entries(node):
            there = f"{path}.{name}" if path else name
            is_new = name in before and value is not before[name] and id(value) not in declared
            if is_new and isinstance(node, Module) and isinstance(value, Traced | numbers.Number):
                lost.append(there)
            elif name in before:
                visit(there, value, before[name])

    visit("", bound, origin)
    if lost:
        raise ParameterError(
            f"{where} sets {', '.join(lost)} of the copy that it is given, where it is lost: tg.nn.buffer and assign "
            "keep a value from step to step, and tg.capture shows one"
        )


def check_same(expected: Mapping[str, object], found: Mapping[str, object], where: str) -> None:
    """Checks that two trees have the same parameters at the same paths.

    Raises:
        ParameterError: They don't; lists the paths.
    """
    changes = {
        "added": [path for path in found if path not in expected],
        "removed": [path for path in expected if path not in found],
        "replaced": [path for path in expected if path in found and found[path] is not expected[path]],
    }
    if any(changes.values()):
        listed = "; ".join(f"{kind} {', '.join(paths)}" for kind, paths in changes.items() if paths)
        raise ParameterError(f"{where}: {listed}")
