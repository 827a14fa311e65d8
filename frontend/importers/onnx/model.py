"""`load`: an ONNX model as a module whose weights are parameters."""

from __future__ import annotations

import difflib
import fnmatch
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import onnx
from onnx import helper

from tensorgrad.errors import InputError, OptionError
from tensorgrad.importers.onnx.checking import check, element_of, inlined, opset
from tensorgrad.importers.onnx.elements import FLOATS, NumpyArray, dtype_of, element_name
from tensorgrad.importers.onnx.evaluation import Evaluation, Graph
from tensorgrad.importers.onnx.reading import Input, fixed_inputs, input_of, listed_parameters, read, reading
from tensorgrad.importers.onnx.table import Role, Setting
from tensorgrad.importers.onnx.weights import Flow, Value, is_statistic, is_trainable, is_weight
from tensorgrad.importers.parts import Part, declare, leaf_at
from tensorgrad.nn.parameters import Buffer, Parameter, buffer, param
from tensorgrad.runtime.conversion import converted, kind_of, to_numpy
from tensorgrad.tracing.dtypes import SHORT
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Array, Tensor
from tensorgrad.tracing.tracer import as_array, current_trace


@dataclass(frozen=True)
class _Source:
    """The parts of a model, except the values of its parameters in a program.

    Attributes:
        graph: The graph.
        inputs: The inputs that a call takes.
        parameters: The file's values of parameters, by path.
        statistics: The file's values of buffers, by path.
        setting: How values are read.
    """

    graph: Graph
    inputs: tuple[Input, ...]
    parameters: Mapping[str, NumpyArray] = field(repr=False)
    statistics: Mapping[str, NumpyArray] = field(repr=False)
    setting: Setting


class OnnxModel(Part):
    """An ONNX graph as a module: made by `load`.

    Inside a trace, call the model that `tg.compile` or `attach` gives to the function, with tensors in the order of
    the graph's inputs or by their names. Outside of traces a call computes immediately by numpy, on the file's
    values.

    Example:
        >>> import onnx.parser
        >>> text = '<ir_version: 10, opset_import: ["": 21]> f (float[2] x) => (float[2] y) { y = Neg(x) }'
        >>> model = tg.onnx.load(onnx.parser.parse_model(text))
        >>> model.inputs[0].name, model.inputs[0].shape, model(x=[-1.0, 2.0])
        ('x', (2,), Array([ 1., -2.], dtype=f32))
    """

    def __init__(self, source: _Source):
        self._source = source
        for kind, arrays in ((param, source.parameters), (buffer, source.statistics)):
            for path, values in arrays.items():
                declare(self, path, kind(values.shape, values, values.dtype))

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs that a call takes, in order."""
        return self._source.inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the results, in order."""
        return self._source.graph.outputs

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
        arguments = self._bound_inputs(args, kwargs)
        sizes: dict[str, int] = {}
        values = {declared.name: _checked(declared, arguments[declared.name], sizes) for declared in source.inputs}
        parameters: dict[str, Any] = {}
        for path, array in {**source.parameters, **source.statistics}.items():
            leaf = leaf_at(self, path)
            is_declared = isinstance(leaf, Parameter | Buffer) and current_trace() is None
            parameters[path] = Array(array) if is_declared else leaf
        results = Evaluation(source.setting, parameters).outputs(source.graph, values)
        return results[0] if len(results) == 1 else tuple(results)

    def _bound_inputs(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        names = [declared.name for declared in self.inputs]
        aliases = {re.sub(r"\W", "_", name): name for name in names} | {name: name for name in names}
        if len(args) > len(names):
            raise InputError(f"{len(args)} inputs are given, the model takes {', '.join(names) or 'none'}")
        arguments: dict[str, Any] = dict(zip(names, args, strict=False))
        for key, value in kwargs.items():
            name = aliases.get(key)
            if name is None or name in arguments:
                what = "unknown" if name is None else "given twice"
                raise InputError(f"input {key!r} is {what}; the model takes {', '.join(names) or 'none'}")
            arguments[name] = value
        for declared in self.inputs:
            if declared.kind == "optional":
                arguments.setdefault(declared.name, None)
        missing = [name for name in names if name not in arguments]
        if missing:
            raise InputError(f"missing inputs: {', '.join(missing)}")
        return arguments


def _checked(declared: Input, value: Any, sizes: dict[str, int]) -> Any:
    """Returns an input as the graph declares it."""
    if value is None and declared.kind == "optional":
        return None
    if isinstance(value, (list, tuple)) and declared.kind != "tensor":
        return [_checked_tensor(declared, part, {}) for part in value]
    return _checked_tensor(declared, value, sizes)


def _checked_tensor(declared: Input, value: Any, sizes: dict[str, int]) -> Tensor:
    where = f"{user_line()}: input {declared.name!r}"
    dtype = declared.dtype
    if isinstance(value, Tensor):
        tensor = value
    else:
        array = to_numpy(value, where)
        if kind_of(array.dtype) not in {"f": "fiu", "i": "iu", "u": "iu", "b": "b"}[kind_of(dtype)]:
            raise InputError(f"{where} is {array.dtype}, expected {element_name(declared.element)}")
        tensor = Array(converted(array, dtype, SHORT[dtype], where).copy())
    if tensor.dtype != dtype:
        raise InputError(f"{where} is {tensor.dtype}, expected {dtype} for {element_name(declared.element)}")
    if declared.shape is None:
        return tensor
    fits = len(declared.shape) == tensor.ndim and all(
        sizes.setdefault(extent, actual) == actual if isinstance(extent, str) else extent in (None, actual)
        for extent, actual in zip(declared.shape, tensor.shape, strict=False)
    )
    if not fits:
        raise InputError(f"{where} has shape {tensor.shape}, expected ({', '.join(map(str, declared.shape))})")
    return tensor


# Loading


Trainable: TypeAlias = bool | str | Sequence[str] | Callable[[str], bool | None]
"""Which arrays of a file are parameters: all, none, those with some names, or what a function of a name says."""


def load(
    source: str | os.PathLike[str] | onnx.ModelProto,
    *,
    constants: Mapping[str, Any] | None = None,
    trainable: Trainable | None = None,
    frozen: str | Sequence[str] = (),
    float64: bool = False,
) -> OnnxModel:
    """Loads an ONNX model, to run, differentiate and fine-tune it.

    The arrays of floats that are weights become parameters, whether the file has them as initializers or in `Constant`
    nodes. What is a weight is decided by the ops that use an array, however rearranged: the operands of products, the
    filters of convolutions, the scales of normalizations, tables that are looked up, and so on; docs/how-to/onnx.md has
    the rule. A file that `tg.onnx.save` wrote says itself which they are. Running statistics are buffers. All other
    arrays are constants: numbers, masks, exponents, shapes.

    Parameters are named as in the file, with characters that no path has replaced by `_` and `/` by `.`; where graphs
    inside the graph have arrays of the same name, they are prefixed by the node and its attribute.

    Integers of 64 bits become those of 32, which all of the inputs' and of the file's that the program computes with
    must fit, because not every device has them. `DOUBLE` rounds to f32.

    Args:
        source: A path, or a model of the `onnx` library.
        constants: Numbers for inputs of the graph that decide what is traced, such as the shape of a `Reshape`; they
            are no longer inputs.
        trainable: The arrays that are parameters, instead of those which the rule finds: names in the file, paths, or
            patterns such as `encoder.*`; True for every array of floats but running statistics and what is needed while
            tracing, False for none; or a function of a path, which returns None where the rule is to decide.
        frozen: Names, paths or patterns of arrays that are constants in any case.
        float64: Whether `DOUBLE` stays f64, which numpy supports and devices reject.

    Returns:
        The model.

    Raises:
        OptionError: The file is not a valid ONNX model, or has unsupported ops, attributes or types, which are all
            listed; or `trainable` or `frozen` names nothing that could be a parameter.
        InputError: `constants` names no input, or its numbers don't fit.
        DTypeError: A number doesn't fit the narrower dtype.
        OSError: The file can't be read.

    Example:
        >>> import onnx.parser
        >>> text = '<ir_version: 10, opset_import: ["": 21]> f (float[2] x) => (float[2] y) { y = Relu(x) }'
        >>> tg.onnx.load(onnx.parser.parse_model(text))([-1.0, 2.0])
        Array([0., 2.], dtype=f32)
    """
    with reading():
        model, folder = read(source)
        listed = listed_parameters(model)
        model = inlined(model)
        check(model)
        setting = Setting(opset(model), float64)
    fixed = fixed_inputs(model, constants or {})
    with reading():
        graph = Graph.of(model, folder, fixed)
        declared = [value for value in model.graph.input if value.name not in graph.constants]
        arrays = [value for value in _flow(model, graph).arrays if value.graph is not graph or value.name not in fixed]
        inputs = tuple(input_of(value, float64) for value in declared)
        floats = [value for value in arrays if is_trainable(value) or is_statistic(value)]
        paths = dict(zip(_paths([value.name for value in floats]), floats, strict=True))
    if trainable is None and listed is not None:
        trainable = {path: value.name in listed for path, value in paths.items()}.__getitem__
    chosen = _parameters(paths, trainable, frozen)
    statistics = {path: value for path, value in paths.items() if is_statistic(value)}
    return OnnxModel(_Source(graph, inputs, _taken(chosen, float64), _taken(statistics, float64), setting))


def _flow(model: onnx.ModelProto, graph: Graph) -> Flow:
    floats = [value.name for value in model.graph.input if element_of(value.type) in FLOATS]
    return Flow(graph, floats, opset(model))


def _taken(arrays: Mapping[str, Value], float64: bool) -> dict[str, NumpyArray]:
    """Takes arrays out of their graphs, which get them from the model from now on; returns them by path."""
    parameters: dict[str, NumpyArray] = {}
    for path, value in arrays.items():
        assert value.graph is not None and value.array is not None
        del value.graph.constants[value.key]
        value.graph.parameters[value.key] = path
        element = helper.np_dtype_to_tensor_dtype(value.array.dtype)
        parameters[path] = as_array(value.array, dtype_of(element, float64))
    return parameters


def _parameters(
    arrays: Mapping[str, Value], trainable: Trainable | None, frozen: str | Sequence[str]
) -> dict[str, Value]:
    """Returns the arrays that are parameters, by path.

    Raises:
        OptionError: A name or pattern matches no array.
    """
    floats = {path: value for path, value in arrays.items() if is_trainable(value)}
    excluded = _matching("frozen", frozen, arrays)
    if callable(trainable):
        answers = {path: trainable(path) for path in floats}
    elif trainable is None or isinstance(trainable, bool):
        answers = dict.fromkeys(floats, trainable)
    else:
        named = _matching("trainable", trainable, floats)
        answers = {path: path in named for path in floats}
    paths = {path for path, answer in answers.items() if (is_weight(floats[path]) if answer is None else answer)}
    return {path: value for path, value in floats.items() if path in paths - excluded}


def _matching(option: str, patterns: str | Sequence[str], arrays: Mapping[str, Value]) -> set[str]:
    """Returns the paths of the arrays whose name in the file or path matches a pattern."""
    listed = [patterns] if isinstance(patterns, str) else patterns
    if not isinstance(listed, Sequence) or not all(isinstance(pattern, str) for pattern in listed):
        raise OptionError(f"tg.onnx.load: {option} must be names or patterns, got {patterns!r}")
    results: set[str] = set()
    for pattern in listed:
        own = {
            path
            for path, value in arrays.items()
            if fnmatch.fnmatchcase(path, pattern) or fnmatch.fnmatchcase(value.name, pattern)
        }
        if not own:
            near = ", ".join(difflib.get_close_matches(pattern, arrays, cutoff=0)) or "none"
            raise OptionError(
                f"tg.onnx.load: {option}: no initializer is called {pattern!r}; the nearest that can be "
                f"parameters are {near}"
            )
        results |= own
    return results


def constant_inputs(source: str | os.PathLike[str] | onnx.ModelProto) -> tuple[str, ...]:
    """Returns the names of a graph's inputs that decide what is traced: those that `load` requires as `constants`.

    Raises:
        OptionError, OSError: As `load`.

    Example:
        >>> import onnx.parser
        >>> header = '<ir_version: 10, opset_import: ["": 21]>'
        >>> text = header + "f (float[6] x, int64[1] s) => (float[n] y) { y = Tile(x, s) }"
        >>> tg.onnx.constant_inputs(onnx.parser.parse_model(text))
        ('s',)
    """
    with reading():
        model, folder = read(source)
        model = inlined(model)
        flow = _flow(model, Graph.of(model, folder, {}))
    return tuple(value.name for value in flow.inputs if value.array is None and Role.CONSTANT in value.roles)


def _paths(names: Sequence[str]) -> list[str]:
    """Returns an attribute path for each name, all distinct, none a prefix of another."""
    split = [[_part(part) for part in re.split(r"[./]", name) if part] or ["parameter"] for name in names]
    scopes = {tuple(parts[:end]) for parts in split for end in range(1, len(parts))}
    paths: set[tuple[str, ...]] = set()
    for parts in split:
        while tuple(parts) in paths or tuple(parts) in scopes:
            parts[-1] += "_"
        paths.add(tuple(parts))
    return [".".join(parts) for parts in split]


def _part(text: str) -> str:
    part = re.sub(r"\W", "_", text)
    return f"{part}_" if part in _RESERVED or hasattr(OnnxModel, part) else part


_RESERVED = {"_source", "_binding"}
