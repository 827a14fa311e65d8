"""PyTorch's state dicts: conversion of names and layouts to and from parameters and buffers by path.

| Layer | in PyTorch | here |
|---|---|---|
| `Linear` | `weight` `[out, in]`, `bias` | `weight` `[in, out]`, transposed; `bias` |
| `Conv1d` … `ConvTranspose3d`, `Embedding`, `LayerNorm`, `RMSNorm`, `GroupNorm`, `PReLU` | the same | the same |
| `BatchNorm1d` … `BatchNorm3d`, buffers included | the same | the same |
| `RNN`, `GRU`, `LSTM` | the same | the same |
| `MultiHeadAttention` | `in_proj_weight`, `in_proj_bias` | each `weight` of `q`, `k`, `v`, transposed; each `bias` |
| … with `kdim` or `vdim` | `q_proj_weight`, `k_…`, `v_…`, `in_proj_bias` | the same, but separately |
| … its result | `out_proj.weight`, `out_proj.bias` | `out.weight`, transposed; `out.bias` |
| … with `num_kv_heads` | it has none | `q`, `k`, `v` and `out` are four `Linear` |
| `Sequential`, lists, dicts, own modules | attribute paths | the same |

A parameter that is reachable by several paths has each of these names in PyTorch's dict, and the first one here.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tensorgrad.errors import InputError, OptionError, ParameterError, TensorgradError
from tensorgrad.nn.attention import MultiHeadAttention
from tensorgrad.nn.layers import Linear
from tensorgrad.nn.module import Module, declarations, entries, is_container
from tensorgrad.nn.parameters import Parameter
from tensorgrad.nn.weight_files import WeightFiles
from tensorgrad.nn.weights import Leaf, is_leaf, is_parameter
from tensorgrad.runtime.inputs import check_inputs
from tensorgrad.tracing.arrays import as_numpy, slot_of
from tensorgrad.tracing.dtypes import Spec
from tensorgrad.tracing.location import user_line


@dataclass(frozen=True)
class Stored:
    """One of PyTorch's tensors.

    Attributes:
        name: Its name, relative to the module.
        parts: Our parameters, by path relative to the module, which it stacks along its first axis.
        transposed: Whether the two axes of each part are swapped.
        member: If it is one of those that our only part stacks along a new first axis: its number there.
    """

    name: str
    parts: tuple[str, ...]
    transposed: bool = False
    member: int | None = None


def _linear(module: Linear) -> list[Stored]:
    return [Stored("weight", ("weight",), True), Stored("bias", ("bias",))]


def _attention(module: MultiHeadAttention) -> list[Stored]:
    if module.num_kv_heads != module.num_heads:
        return []
    weights, biases = (tuple(f"{part}.{name}" for part in "qkv") for name in ("weight", "bias"))
    inputs = {layer.in_features for layer in (module.q, module.k, module.v)}
    apart = [Stored(f"{part}_proj_weight", (weight,), True) for part, weight in zip("qkv", weights, strict=True)]
    packed = [Stored("in_proj_weight", weights, True)]
    out = [Stored("out_proj.weight", ("out.weight",), True), Stored("out_proj.bias", ("out.bias",))]
    return [*(packed if len(inputs) == 1 else apart), Stored("in_proj_bias", biases), *out]


RULES: dict[type[Module], Callable[[Any], list[Stored]]] = {Linear: _linear, MultiHeadAttention: _attention}
"""The layers whose names or layouts differ, each with its PyTorch tensors; all others are stored unchanged."""


@runtime_checkable
class HasConstants(Protocol):
    """A module for which some names of PyTorch's state dict are constants."""

    torch_constants: Mapping[str, np.ndarray]


@runtime_checkable
class HasComplex(Protocol):
    """A module with parameters that are complex in PyTorch: here their parts lie along a first axis."""

    torch_complex: frozenset[str]


@runtime_checkable
class HasStored(Protocol):
    """A module that says itself how PyTorch stores its parameters."""

    def torch_stored(self) -> list[Stored]:
        """Returns PyTorch's tensors."""
        ...


@dataclass(frozen=True)
class TorchTensor:
    """One of PyTorch's tensors, by its full name; its parts are declared parameters.

    Attributes:
        name: Its name in the state dict.
        parts: Our parameters, which it stacks along its first axis.
        transposed: Whether the two axes of each part are swapped.
        member: If it is one of those that our only part stacks along a new first axis: its number there.
        turned: Whether its own two axes are swapped besides, as in GPT-2.
    """

    name: str
    parts: tuple[Leaf, ...]
    transposed: bool
    member: int | None = None
    turned: bool = False

    def kind(self, place: int) -> Spec:
        """Returns the shape and dtype of one of our parts, or of its member."""
        part = self.parts[place]
        return Spec(part.shape if self.member is None else part.shape[1:], part.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extents there."""
        kinds = map(self.kind, range(len(self.parts)))
        shapes = [kind.shape[::-1] if self.transposed else kind.shape for kind in kinds]
        shape = (sum(shape[0] for shape in shapes), *shapes[0][1:]) if len(shapes) > 1 else shapes[0]
        return shape[::-1] if self.turned else shape

    def part(self, value: np.ndarray, place: int) -> np.ndarray:
        """Returns one of our parts, or its member, of PyTorch's tensor."""
        stacked = value.T if self.turned else value
        if len(self.parts) > 1:
            extents = [part.shape[-1] for part in self.parts]  # the first axis of a transposed tensor, or the only one
            stacked = stacked[sum(extents[:place]) : sum(extents[: place + 1])]
        return np.asarray(stacked.T if self.transposed else stacked, order="C")

    def join(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """Returns PyTorch's tensor, joined from our parts."""
        own = values if self.member is None else [values[0][self.member]]
        stacked = [value.T if self.transposed else value for value in own]
        joined = np.concatenate(stacked) if len(stacked) > 1 else stacked[0]
        return np.asarray(joined.T if self.turned else joined, order="C")


class Converted(dict[str, np.ndarray]):
    """Arrays by path, and the mismatches that `from_torch` tolerated.

    Attributes:
        missing: The paths of parameters and buffers that are not in PyTorch's dict.
        unexpected: PyTorch's names without a counterpart here, except ignored ones.
    """

    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()


def from_torch(
    model: Module,
    state_dict: Mapping[str, Any],
    names: Mapping[str, str] | None = None,
    ignore: str | Sequence[str] = (),
    strict: bool = True,
    conv1d: str | Sequence[str] = (),
) -> Converted:
    """Returns a model's parameters and buffers from PyTorch's `state_dict()` of the same; see `tensorgrad.nn.pytorch`.

    `training.load_parameters(tg.nn.from_torch(model, torch_model.state_dict()))` continues training from there.

    Args:
        model: The model.
        state_dict: PyTorch's tensors, or arrays, by name.
        names: If PyTorch's model has different attribute names: maps the path of a module or parameter here to its
            name there; `""` is the whole model, as in `names={"": "transformer"}`. The longest matching path applies.
        ignore: Patterns of PyTorch's names that have no counterpart here.
        strict: Whether every parameter and buffer must be given, and no other name. Otherwise `missing` and
            `unexpected` of the result list the mismatches; `training.load_parameters(values, strict=False)` loads the
            rest.
        conv1d: Patterns of PyTorch's names of weights that are stored as `[in, out]`, as those of transformers'
            `Conv1D` layers, which GPT-2 has.

    Returns:
        An array for each parameter and buffer, by path, in its own dtype.

    Raises:
        InputError: With `strict`, names are missing or unexpected; or shapes differ (lists all); a value doesn't fit
            the parameter's dtype; or one parameter here has two different values there.
        OptionError: A path in `names` or a pattern in `ignore` or `conv1d` matches nothing.

    Example:
        >>> state = {"weight": np.ones((5, 3), np.float32), "bias": np.zeros(5, np.float32)}  # of torch.nn.Linear(3, 5)
        >>> tg.nn.from_torch(tg.nn.Linear(3, 5), state)["weight"].shape
        (3, 5)
    """
    if not isinstance(state_dict, Mapping):
        raise InputError(f"from_torch: takes a state_dict, got {type(state_dict).__name__}")
    skipped, turned = _matching("ignore", state_dict, ignore), _matching("conv1d", state_dict, conv1d)
    tensors = torch_tensors(model, names, turned)
    paths = {id(parameter): path for path, parameter in declarations(model).items()}
    constants = _constants(model)
    arrays = {name: as_numpy(name, _as_real(value)) for name, value in state_dict.items() if name not in skipped}
    for name in constants.keys() & arrays.keys():
        if not np.array_equal(arrays.pop(name), constants[name]):
            raise _mistake(f"from_torch: {name} is a constant of the model, and other numbers are given")
    advice = "ignore= leaves names out" + ("; strict=False takes what there is" if strict else "")
    shapes = {name: array.shape for name, array in arrays.items()}
    unexpected = _unexpected("from_torch", tensors, shapes, strict, advice)
    result: dict[str, dict[int | None, np.ndarray]] = {}
    for tensor in tensors:
        if tensor.name not in arrays:
            continue
        for place, part in enumerate(tensor.parts):
            path = paths[id(part)]
            array = _checked({path: tensor.kind(place)}, {path: tensor.part(arrays[tensor.name], place)})[path]
            if not np.array_equal(result.setdefault(path, {}).setdefault(tensor.member, array), array, equal_nan=True):
                raise _mistake(f"from_torch: {tensor.name} differs from what {path} is under another name")
    counts = {paths[id(tensor.parts[0])]: tensor.parts[0].shape[0] for tensor in tensors if tensor.member is not None}
    whole = {path: _stacked(members) for path, members in result.items() if len(members) == counts.get(path, 1)}
    converted = Converted((path, whole[path]) for path in paths.values() if path in whole)
    converted.missing = tuple(path for path in paths.values() if path not in whole)
    converted.unexpected = tuple(unexpected)
    return converted


def initialize_from(
    model: Module,
    weights: WeightFiles,
    names: Mapping[str, str] | None = None,
    ignore: str | Sequence[str] = (),
    conv1d: str | Sequence[str] = (),
    optional: str | Sequence[str] = (),
) -> None:
    """Makes PyTorch's tensors in files the initial values of a declared model: each is read when it is drawn.

    So `tg.compile` and `model.initialized()` start from them, and nothing is in memory twice. The files must stay as
    they are until then.

    Args:
        model: The model, whose parameters are declared. It is changed.
        weights: The files.
        names: As for `from_torch`.
        ignore: As for `from_torch`.
        conv1d: As for `from_torch`.
        optional: Patterns of PyTorch's names of what the files may lack: such parameters keep their initializers.

    Raises:
        InputError: Names are missing or unexpected, or shapes differ (lists all).
        OptionError: A path in `names` or a pattern in `ignore` or `conv1d` matches nothing.

    Example:
        >>> import pathlib, tempfile
        >>> from safetensors.numpy import save_file
        >>> file = pathlib.Path(tempfile.mkdtemp(), "model.safetensors")
        >>> save_file({"weight": np.ones((5, 3), np.float16), "bias": np.zeros(5, np.float16)}, file)
        >>> model = tg.nn.Linear(3, 5)
        >>> tg.nn.initialize_from(model, tg.nn.read_weights(file))
        >>> model.initialized()(tg.ones(3))
        Array([3., 3., 3., 3., 3.], dtype=f32)
    """
    skipped = _matching("ignore", weights, ignore)
    tensors = torch_tensors(model, names, _matching("conv1d", weights, conv1d))
    shapes = {name: shape for name, shape in weights.shapes.items() if name not in skipped}
    patterns = [optional] if isinstance(optional, str) else optional
    needed = [
        tensor
        for tensor in tensors
        if tensor.name in shapes or not any(fnmatch.fnmatchcase(tensor.name, pattern) for pattern in patterns)
    ]
    _unexpected("initialize_from", needed, shapes, True, "ignore= and optional= name exceptions")
    parts = [(tensor, place) for tensor in needed if tensor.name in shapes for place in range(len(tensor.parts))]
    declared = {id(leaf): leaf for leaf in declarations(model).values() if isinstance(leaf, Parameter)}
    for tensor, place in parts:
        if id(tensor.parts[place]) not in declared:
            raise _mistake(f"initialize_from: {tensor.name} is no declared parameter", ParameterError)
    sources: dict[int, dict[int | None, tuple[TorchTensor, int]]] = {}
    for tensor, place in parts:
        sources.setdefault(id(tensor.parts[place]), {})[tensor.member] = tensor, place
    for leaf, members in sources.items():
        declared[leaf].initializer = _Stored(weights, members)


@dataclass(frozen=True)
class _Stored:
    """An initializer: a part of a tensor in a file, or tensors that are its members."""

    weights: WeightFiles
    members: Mapping[int | None, tuple[TorchTensor, int]]

    def __call__(self, key: Any, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        return _stacked({member: self._read(*source) for member, source in self.members.items()})

    def _read(self, tensor: TorchTensor, place: int) -> np.ndarray:
        value = tensor.part(self.weights[tensor.name], place)
        return _checked({tensor.name: tensor.kind(place)}, {tensor.name: value})[tensor.name]


def _stacked(members: Mapping[int | None, np.ndarray]) -> np.ndarray:
    """Returns the only array, or those that are members in their order, stacked along a new first axis."""
    return members[None] if None in members else np.stack([members[number] for number in range(len(members))])


def _unexpected(
    what: str, tensors: Sequence[TorchTensor], shapes: Mapping[str, tuple[int, ...]], strict: bool, advice: str
) -> list[str]:
    """Returns the names that aren't a model's, after checking the others against it.

    Raises:
        InputError: With `strict`, names are missing or unexpected; or shapes differ.
    """
    covered = {(id(part), tensor.member) for tensor in tensors if tensor.name in shapes for part in tensor.parts}
    names = {tensor.name for tensor in tensors}
    missing = [
        tensor.name
        for tensor in tensors
        if tensor.name not in shapes and any((id(part), tensor.member) not in covered for part in tensor.parts)
    ]
    unexpected = [name for name in shapes if name not in names]
    problems = {
        "missing": missing if strict else [],
        "unexpected": unexpected if strict else [],
        "of another shape": [
            f"{tensor.name} is {list(shapes[tensor.name])}, expected {list(tensor.shape)}"
            for tensor in tensors
            if tensor.name in shapes and shapes[tensor.name] != tensor.shape
        ],
    }
    if any(problems.values()):
        texts = "; ".join(f"{kind}: {', '.join(listing)}" for kind, listing in problems.items() if listing)
        raise _mistake(f"{what}: the state is not this model's. {texts}. {advice}")
    return unexpected


def to_torch(
    model: Module,
    values: Mapping[str, Any],
    names: Mapping[str, str] | None = None,
    conv1d: str | Sequence[str] = (),
) -> dict[str, np.ndarray]:
    """Returns arrays for the `load_state_dict` of the same model in PyTorch, after `torch.from_numpy` of each.

    That takes no arrays of bf16, of which `torch.from_dlpack(tg.array(value))` makes tensors.

    Args:
        model: The model.
        values: Arrays by path, such as `training.state_dict()`; or `training.parameters()`, if there are no buffers.
        names: As for `from_torch`.
        conv1d: As for `from_torch`.

    Returns:
        Arrays by PyTorch's names.

    Raises:
        InputError: Paths are missing or unexpected, or shapes differ.
        OptionError: A path in `names` or a pattern in `conv1d` matches nothing.

    Example:
        >>> values = {"weight": np.ones((3, 5), np.float32), "bias": np.zeros(5, np.float32)}
        >>> tg.nn.to_torch(tg.nn.Linear(3, 5), values)["weight"].shape
        (5, 3)
    """
    parameters = declarations(model)
    arrays = _checked(parameters, {name: as_numpy(name, value) for name, value in values.items() if "/" not in name})
    by_parameter = {id(parameter): arrays[path] for path, parameter in parameters.items()}
    turned = _matching("conv1d", {tensor.name: None for tensor in torch_tensors(model, names)}, conv1d)
    tensors = torch_tensors(model, names, turned)
    joined = {tensor.name: tensor.join([by_parameter[id(part)] for part in tensor.parts]) for tensor in tensors}
    if isinstance(model, HasComplex):
        joined |= {name: joined[name][0] + 1j * joined[name][1] for name in model.torch_complex}
    return joined | _constants(model)


# Declaring layers must stay lightweight; the imports below are only needed once there are values.


def _mistake(message: str, kind: type[TensorgradError] = InputError) -> TensorgradError:

    return kind(f"{user_line()}: {message}")


def _as_real(value: Any) -> Any:
    """Returns complex numbers as real ones, both parts along a first axis; others as they are."""
    is_complex = getattr(value, "is_complex", None)
    if not (np.iscomplexobj(value) if is_complex is None else is_complex()):
        return value
    numbers = np.asarray(value if is_complex is None else value.detach().cpu())
    return np.stack([np.real(numbers), np.imag(numbers)])


def _checked(parameters: Mapping[str, Leaf | Spec], values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns values in the parameters' shapes and dtypes."""

    slots = {path: slot_of(path, Spec(parameter.shape, parameter.dtype)) for path, parameter in parameters.items()}
    return check_inputs(slots, values, what="parameter")


def _constants(model: Module) -> dict[str, np.ndarray]:
    """Returns the arrays of PyTorch's dict that are constants of the model itself, by name."""
    return dict(model.torch_constants) if isinstance(model, HasConstants) else {}


def _matching(option: str, names: Mapping[str, Any], patterns: str | Sequence[str]) -> set[str]:
    """Returns the names that patterns match.

    Raises:
        OptionError: A pattern matches none.
    """
    matching: set[str] = set()
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        own = {name for name in names if fnmatch.fnmatchcase(name, pattern)}
        if not own:
            raise _mistake(f"from_torch: {option} {pattern!r} matches none of {', '.join(names)}", OptionError)
        matching |= own
    return matching


def torch_tensors(
    model: Module, names: Mapping[str, str] | None = None, turned: Collection[str] = ()
) -> list[TorchTensor]:
    """Returns all of PyTorch's tensors; those with several names appear under each.

    Args:
        model: The model.
        names: As for `from_torch`.
        turned: The names of those whose axes are swapped.

    Raises:
        OptionError: A path in `names` matches nothing.
    """
    tensors = [
        TorchTensor(f"{path}.{stored.name}" if path else stored.name, parts, stored.transposed, stored.member)
        for path, stored, parts in _visited("", model, ())
    ]
    for prefix in names or {}:
        if not any(_is_below(tensor.name, prefix) for tensor in tensors):
            raise _mistake(f"names: {prefix!r} is not a path to a module or parameter", OptionError)
    renamed = [replace(tensor, name=_renamed(tensor.name, names or {})) for tensor in tensors]
    return [replace(tensor, turned=tensor.name in turned) for tensor in renamed]


def _is_below(name: str, prefix: str) -> bool:
    return prefix in ("", name) or name.startswith(prefix + ".")


def _renamed(name: str, names: Mapping[str, str]) -> str:
    fitting = [prefix for prefix in names if _is_below(name, prefix)]
    if not fitting:
        return name
    longest = max(fitting, key=len)
    return f"{names[longest]}.{name[len(longest) :].removeprefix('.')}".strip(".")


def _visited(path: str, node: Any, above: tuple[int, ...]) -> Iterator[tuple[str, Stored, tuple[Leaf, ...]]]:
    """Yields a node's PyTorch tensors, with the path of the module and the parts; shared nodes each time."""
    if id(node) in above:
        return
    stored_names: set[str] = set()
    for stored in _own_stored(node):
        parts = tuple(_part(node, name) for name in stored.parts)
        stored_names.update(name.partition(".")[0] for name in stored.parts)
        if all(is_parameter(part) for part in parts):
            yield path, stored, parts
    for name, value in entries(node):
        if name in stored_names:
            continue
        if is_leaf(value):
            yield path, Stored(name, (name,)), (value,)
        elif is_container(value):
            yield from _visited(f"{path}.{name}" if path else name, value, (*above, id(node)))


def _own_stored(node: Any) -> list[Stored]:
    """Returns the tensors of a node whose names or layouts differ."""
    if isinstance(node, HasStored):
        return node.torch_stored()
    rule = next((RULES[kind] for kind in type(node).__mro__ if kind in RULES), None)
    return [] if rule is None else rule(node)


def _part(module: Module, path: str) -> Any:
    value: Any = module
    for name in path.split("."):
        value = getattr(value, name)
    return value
