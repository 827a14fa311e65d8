"""`load`: an ONNX model as a module whose float initializers are parameters."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import checker

import tensorgrad as tg
from tensorgrad.errors import InputError, OptionError, ParameterError, TensorgradError
from tensorgrad.nn.module import Module
from tensorgrad.nn.parameters import Parameter, param
from tensorgrad.onnx.checking import all_nodes, check, element_of, graphs_of, inlined, opset, rule_of
from tensorgrad.onnx.elements import NumpyArray, dtype_of, element_name, numpy_dtype
from tensorgrad.onnx.evaluation import Evaluation, Graph
from tensorgrad.onnx.table import Rule, Setting
from tensorgrad.runtime.conversion import converted, to_numpy
from tensorgrad.runtime.errors import MALFORMED
from tensorgrad.tracing import trees
from tensorgrad.tracing.dtypes import SHORT, DType
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Array, Tensor
from tensorgrad.tracing.tracer import as_array, current_trace

_SHAPE_READERS = {"Shape", "Size", "SequenceLength"}


@dataclass(frozen=True)
class Input:
    """An input of a model.

    Attributes:
        name: Its name in the file.
        shape: The extents: numbers, names of extents that may vary but agree everywhere, or None for any; None where
            the number of axes is unknown too.
        dtype: The dtype it is converted to.
        element: ONNX's element type.
        kind: "tensor", "sequence" or "optional".
    """

    name: str
    shape: tuple[int | str | None, ...] | None
    dtype: DType
    element: int
    kind: str = "tensor"


@dataclass(frozen=True)
class _Source:
    """The parts of a model, except the values of its parameters in a program."""

    graph: Graph
    inputs: tuple[Input, ...]
    paths: Mapping[str, str]
    initial: Mapping[str, NumpyArray] = field(repr=False)
    setting: Setting


class Scope(Module):
    """A namespace in the parameter names of an imported model."""


class OnnxModel(Module):
    """An ONNX graph as a module: made by `load`.

    Inside a trace, call the model that `tg.compile` or `attach` gives to the function, with tensors in the order of
    the graph's inputs or by their names. Outside of traces a call computes immediately by numpy, on the file's
    values.
    """

    def __init__(self, source: _Source):
        self._source = source
        for path, values in source.initial.items():
            *scopes, name = path.split(".")
            holder: Module = self
            for scope in scopes:
                holder = vars(holder).setdefault(scope, Scope())
            vars(holder)[name] = param(values.shape, values, values.dtype)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs that a call takes, in order."""
        return self._source.inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the results, in order."""
        return self._source.graph.outputs

    def initialized(
        self, seed: int = 0, values: Mapping[str, Any] | None = None, device: tg.DeviceName | None = None
    ) -> OnnxModel:
        """Returns a copy with the file's values for parameters: a tree of arrays, which `tg.grad` and others take.

        Args:
            seed: Has no effect: every parameter has a value in the file.
            values: Other values for some parameters, by path.
            device: Where parameters are to live and to gather gradients; `None` makes constants of them.

        Raises:
            ParameterError: There is no parameter of such a path.
            OptionError: There is no such device.
        """
        del seed
        given = {} if values is None else values
        names = self.named_parameters()
        unknown = sorted(given.keys() - names.keys())
        if unknown:
            raise ParameterError(f"initialized: the model has no parameter {', '.join(map(repr, unknown))}")
        _, rebuild = trees.flatten(self)
        arrays = [np.asarray(given.get(path, self._source.initial[path])) for path in names]
        if device is None:
            return rebuild([Array(array) for array in arrays])
        return rebuild([tg.tensor(array, array.dtype, device=device, requires_grad=True) for array in arrays])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the graph.

        Args:
            *args: The inputs in order.
            **kwargs: Inputs by name.

        Returns:
            The result, or a tuple where the graph has several outputs.

        Raises:
            InputError: An input is missing, unknown, given twice, or of another shape or dtype than the graph says.
            TraceError: A shape, an axis or the like depends on numbers that are known only when the program runs.
            ShapeError, DTypeError: Shapes or dtypes inside the graph don't fit.
            ParameterError: This is the model as it was loaded, inside a trace: use the one that the function is given.
        """
        source = self._source
        given = self._bound_inputs(args, kwargs)
        sizes: dict[str, int] = {}
        values = {one.name: _checked(one, given[one.name], sizes) for one in source.inputs}
        for name, path in source.paths.items():
            leaf = _at(self, path)
            values[name] = (
                Array(source.initial[path]) if isinstance(leaf, Parameter) and current_trace() is None else leaf
            )
        results = Evaluation(source.setting).outputs(source.graph, values)
        return results[0] if len(results) == 1 else tuple(results)

    def _bound_inputs(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        names = [one.name for one in self.inputs]
        aliases = {re.sub(r"\W", "_", name): name for name in names} | {name: name for name in names}
        if len(args) > len(names):
            raise InputError(
                f"{user_line()}: {len(args)} inputs are given, the model takes {', '.join(names) or 'none'}"
            )
        given: dict[str, Any] = dict(zip(names, args, strict=False))
        for key, value in kwargs.items():
            name = aliases.get(key)
            if name is None or name in given:
                what = "unknown" if name is None else "given twice"
                raise InputError(
                    f"{user_line()}: input {key!r} is {what}; the model takes {', '.join(names) or 'none'}"
                )
            given[name] = value
        for one in self.inputs:
            if one.kind == "optional":
                given.setdefault(one.name, None)
        missing = [name for name in names if name not in given]
        if missing:
            raise InputError(f"{user_line()}: missing inputs: {', '.join(missing)}")
        return given


def _at(model: Module, path: str) -> Any:
    found: Any = model
    for part in path.split("."):
        found = vars(found)[part]
    return found


def _checked(one: Input, value: Any, sizes: dict[str, int]) -> Any:
    """Returns an input as the graph declares it."""
    if value is None and one.kind == "optional":
        return None
    if isinstance(value, (list, tuple)) and one.kind != "tensor":
        return [_checked_tensor(one, part, {}) for part in value]
    return _checked_tensor(one, value, sizes)


def _checked_tensor(one: Input, value: Any, sizes: dict[str, int]) -> Tensor:
    where = f"{user_line()}: input {one.name!r}"
    wanted = one.dtype
    if isinstance(value, Tensor):
        tensor = value
    else:
        array = to_numpy(value, where)
        if array.dtype.kind not in {"f": "fiu", "i": "iu", "u": "iu", "b": "b"}[wanted.kind]:
            raise InputError(f"{where} is {array.dtype}, expected {element_name(one.element)}")
        tensor = Array(converted(array, wanted, SHORT[wanted], where).copy())
    if tensor.dtype != wanted:
        raise InputError(f"{where} is {tensor.dtype}, expected {wanted} for {element_name(one.element)}")
    if one.shape is None:
        return tensor
    fits = len(one.shape) == tensor.ndim and all(
        sizes.setdefault(extent, found) == found if isinstance(extent, str) else extent in (None, found)
        for extent, found in zip(one.shape, tensor.shape, strict=False)
    )
    if not fits:
        raise InputError(f"{where} has shape {tensor.shape}, expected ({', '.join(map(str, one.shape))})")
    return tensor


# Loading


def load(
    source: str | os.PathLike[str] | onnx.ModelProto,
    *,
    constants: Mapping[str, Any] | None = None,
    frozen: str | Sequence[str] = (),
    float64: bool = False,
) -> OnnxModel:
    """Loads an ONNX model, to run, differentiate and fine-tune it.

    Float initializers become trainable parameters, named as in the file, with characters that no path has replaced by
    `_` and `/` by `.`. Constants they stay where the graph needs their numbers while it is traced (a shape, a scale of
    `Resize`), and where they are statistics (the running mean and variance of `BatchNormalization`). Other initializers
    are constants.

    Integers of 64 bits become those of 32, which all of the file's and the inputs' must fit, because not every device
    has them. `DOUBLE` rounds to f32.

    Args:
        source: A path, or a model of the `onnx` library.
        constants: Numbers for inputs of the graph that decide what is traced, such as the shape of a `Reshape`; they
            are no longer inputs.
        frozen: Names of initializers, or patterns such as `encoder.*`, that become constants too.
        float64: Whether `DOUBLE` stays f64, which numpy supports and devices reject.

    Returns:
        The model.

    Raises:
        OptionError: The file is not a valid ONNX model, or has unsupported ops, attributes or types, which are all
            listed; or `frozen` names nothing.
        InputError: `constants` names no input, or its numbers don't fit.
        DTypeError: A number doesn't fit the narrower dtype.
        OSError: The file can't be read.
    """
    with _reading():
        model, folder = _read(source)
        model = inlined(model)
        check(model)
        setting = Setting(opset(model), float64)
    frozen = [frozen] if isinstance(frozen, str) else list(frozen)
    fixed = _fixed_inputs(model, constants or {})
    _check_frozen(model, frozen)
    with _reading():
        graph = Graph.of(model, folder, fixed)
        trainable = _trainable(model, graph, fixed, frozen)
        paths = _paths(trainable)
        wanted = {name: dtype_of(tensor.data_type, float64) for name, tensor in trainable.items()}
        initial = {paths[name]: as_array(graph.constants.pop(name), wanted[name]) for name in trainable}
        inputs = tuple(
            _input(value, float64) for value in model.graph.input if value.name not in {*graph.constants, *trainable}
        )
    return OnnxModel(_Source(graph, inputs, paths, initial, setting))


@contextmanager
def _reading() -> Iterator[None]:
    """Converts any error caused by a damaged model to one; the library's checker doesn't find all damage.

    Raises:
        OptionError: The model is damaged.
    """
    try:
        yield
    except (*MALFORMED, RuntimeError, StopIteration, checker.ValidationError, DecodeError) as error:
        if isinstance(error, TensorgradError):
            raise
        raise OptionError(f"{user_line()}: tg.onnx.load: this is not a valid ONNX model: {error!r}") from None


def _read(source: Any) -> tuple[onnx.ModelProto, str]:
    try:
        if isinstance(source, onnx.ModelProto):
            checker.check_model(source)
            return source, ""
        if not isinstance(source, (str, os.PathLike)):
            raise OptionError(
                f"{user_line()}: tg.onnx.load takes a path or an onnx.ModelProto, not {type(source).__name__}"
            )
        path = Path(source)
        model = onnx.load(path, load_external_data=True)
        checker.check_model(os.fspath(path))  # a large model can't be checked in memory
        return model, str(path.parent)
    except (checker.ValidationError, DecodeError) as error:
        raise OptionError(f"{user_line()}: tg.onnx.load: this is not a valid ONNX model: {error}") from None


def _fixed_inputs(model: onnx.ModelProto, constants: Mapping[str, Any]) -> dict[str, NumpyArray]:
    declared = {value.name: value for value in model.graph.input}
    unknown = sorted(set(constants) - set(declared))
    if unknown:
        raise InputError(f"{user_line()}: constants: the graph has no inputs {', '.join(unknown)}")
    found: dict[str, NumpyArray] = {}
    for name, value in constants.items():
        wanted = numpy_dtype(element_of(declared[name].type) or onnx.TensorProto.FLOAT)
        where = f"{user_line()}: constant {name!r}"
        array = to_numpy(value, where)
        if array.dtype.kind != wanted.kind and not (array.dtype.kind in "iu" and wanted.kind in "iuf"):
            raise InputError(f"{where} is {array.dtype}, expected {wanted}")
        found[name] = converted(array, wanted, str(wanted), where)
    return found


def _check_frozen(model: onnx.ModelProto, frozen: Sequence[str]) -> None:
    names = [tensor.name for tensor in model.graph.initializer]
    vain = [pattern for pattern in frozen if not fnmatch.filter(names, pattern)]
    if vain:
        raise OptionError(f"{user_line()}: frozen: no initializer is called {', '.join(map(repr, vain))}")


def _trainable(
    model: onnx.ModelProto, graph: Graph, fixed: Mapping[str, NumpyArray], frozen: Sequence[str]
) -> dict[str, onnx.TensorProto]:
    """Returns the initializers that are parameters."""
    needed = _needed_while_tracing(model) | _statistics(model)
    floats = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE)
    return {
        tensor.name: tensor
        for tensor in model.graph.initializer
        if tensor.data_type in floats
        and tensor.name not in needed
        and tensor.name not in fixed
        and not any(fnmatch.fnmatchcase(tensor.name, pattern) for pattern in frozen)
    }


def constant_inputs(source: str | os.PathLike[str] | onnx.ModelProto) -> tuple[str, ...]:
    """Returns the names of a graph's inputs that decide what is traced: those that `load` requires as `constants`.

    Raises:
        OptionError, OSError: As `load`.
    """
    with _reading():
        model = inlined(_read(source)[0])
        needed = _needed_while_tracing(model)
    initialized = {tensor.name for tensor in model.graph.initializer}
    return tuple(value.name for value in model.graph.input if value.name in needed - initialized)


def _needed_while_tracing(model: onnx.ModelProto) -> set[str]:
    """Returns the values whose numbers decide what is traced, and those they are computed from."""
    nodes = list(all_nodes(model.graph))
    makers = {name: node for node in nodes for name in node.output}
    found = set(_operands(nodes, lambda known, position: known.needs_constant(position)))
    waiting = list(found)
    while waiting:
        node = makers.get(waiting.pop())
        if node is not None and node.op_type not in _SHAPE_READERS:
            inner = {value.name for graph in graphs_of(node) for value in graph.output}
            new = (set(node.input) | inner) - found
            found |= new
            waiting += new
    return found


def _statistics(model: onnx.ModelProto) -> set[str]:
    """Returns the values that are running statistics, not trained."""
    return set(_operands(all_nodes(model.graph), lambda known, position: position in known.statistics))


def _operands(nodes: Iterable[onnx.NodeProto], wanted: Callable[[Rule, int], bool]) -> Iterator[str]:
    for node in nodes:
        known = rule_of(node)
        if known is not None:
            yield from (name for position, name in enumerate(node.input) if wanted(known, position))


def _paths(names: Mapping[str, Any]) -> dict[str, str]:
    """Returns an attribute path for each name, all distinct, none a prefix of another."""
    split = {name: [_part(part) for part in re.split(r"[./]", name) if part] or ["parameter"] for name in names}
    scopes = {tuple(parts[:end]) for parts in split.values() for end in range(1, len(parts))}
    taken: set[tuple[str, ...]] = set()
    for parts in split.values():
        while tuple(parts) in taken or tuple(parts) in scopes:
            parts[-1] += "_"
        taken.add(tuple(parts))
    return {name: ".".join(parts) for name, parts in split.items()}


def _part(text: str) -> str:
    part = re.sub(r"\W", "_", text)
    return f"{part}_" if part in _RESERVED or hasattr(OnnxModel, part) else part


_RESERVED = {"_source", "_binding"}


def _input(value: onnx.ValueInfoProto, float64: bool) -> Input:
    kind, which = value.type, "tensor"
    while kind.WhichOneof("value") != "tensor_type":
        outer = kind.WhichOneof("value")
        if outer == "optional_type":
            kind, which = kind.optional_type.elem_type, "optional"
        elif outer == "sequence_type":
            kind, which = kind.sequence_type.elem_type, which if which == "optional" else "sequence"
        else:
            raise OptionError(f"{user_line()}: tg.onnx.load: input {value.name!r} is no tensor, sequence or optional")
    tensor, dtype = kind.tensor_type, dtype_of(kind.tensor_type.elem_type, float64)
    if not tensor.HasField("shape"):
        return Input(value.name, None, dtype, tensor.elem_type, which)
    extents = [
        extent.dim_value if extent.HasField("dim_value") else extent.dim_param or None for extent in tensor.shape.dim
    ]
    return Input(value.name, tuple(extents), dtype, tensor.elem_type, which)
