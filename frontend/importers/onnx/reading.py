"""Reads models: from files or the library's objects, and what their inputs are."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError
from onnx import checker

from tensorgrad.errors import InputError, OptionError, TensorgradError
from tensorgrad.importers.onnx.checking import element_of
from tensorgrad.importers.onnx.elements import NumpyArray, dtype_of, numpy_dtype
from tensorgrad.runtime.conversion import converted, to_numpy
from tensorgrad.runtime.errors import MALFORMED
from tensorgrad.tracing.dtypes import DType
from tensorgrad.tracing.location import user_line

PARAMETERS = "tensorgrad.parameters"
"""The entry of a model's metadata in which `tg.onnx.save` lists the names of parameters, as JSON."""


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

    Example:
        >>> import onnx.parser
        >>> text = '<ir_version: 10, opset_import: ["": 21]> f (float[n, 2] x) => (float[n, 2] y) { y = Neg(x) }'
        >>> tg.onnx.load(onnx.parser.parse_model(text)).inputs[0]
        Input(name='x', shape=('n', 2), dtype=dtype('float32'), element=1, kind='tensor')
    """

    name: str
    shape: tuple[int | str | None, ...] | None
    dtype: DType
    element: int
    kind: str = "tensor"


@contextmanager
def reading() -> Iterator[None]:
    """Converts any error caused by a damaged model to one; the library's checker doesn't find all damage.

    Raises:
        OptionError: The model is damaged.
    """
    try:
        yield
    except (*MALFORMED, RuntimeError, StopIteration, checker.ValidationError, DecodeError) as error:
        if isinstance(error, TensorgradError):
            raise
        raise OptionError(f"tg.onnx.load: this is not a valid ONNX model: {error!r}") from None


def read(source: Any) -> tuple[onnx.ModelProto, str]:
    """Returns a valid model, with its external data, and the folder that it was read from.

    Raises:
        OptionError: It is not a valid model.
        OSError: It can't be read.
    """
    try:
        if isinstance(source, onnx.ModelProto):
            _check(source, source)
            return source, ""
        if not isinstance(source, (str, os.PathLike)):
            raise OptionError(f"tg.onnx.load takes a path or an onnx.ModelProto, not {type(source).__name__}")
        path = Path(source)
        model = onnx.load(path, load_external_data=True)
        _check(model, os.fspath(path))  # a large model can't be checked in memory
        return model, str(path.parent)
    except (checker.ValidationError, DecodeError) as error:
        raise OptionError(f"tg.onnx.load: this is not a valid ONNX model: {error}") from None


def listed_parameters(model: onnx.ModelProto) -> frozenset[str] | None:
    """Returns the names of the parameters of a model that `tg.onnx.save` wrote; None of any other."""
    texts = [entry.value for entry in model.metadata_props if entry.key == PARAMETERS]
    return frozenset(map(str, json.loads(texts[0]))) if texts else None


def _check(model: onnx.ModelProto, source: onnx.ModelProto | str) -> None:
    """Runs the library's checker, which demands the shapes of inputs and outputs that the standard lets files omit.

    Raises:
        checker.ValidationError: The model is not valid.
    """
    if all(kind.HasField("shape") for kind in _tensor_types(model.graph)):
        checker.check_model(source)
        return
    shaped = onnx.ModelProto()
    shaped.CopyFrom(model)
    for kind in _tensor_types(shaped.graph):
        kind.shape.SetInParent()
    checker.check_model(shaped)


def _tensor_types(graph: onnx.GraphProto) -> list[onnx.TypeProto.Tensor]:
    """Returns the types of the tensors, or of the elements of sequences, that a graph takes and gives."""
    return [_element(value.type)[0].tensor_type for value in (*graph.input, *graph.output)]


def fixed_inputs(model: onnx.ModelProto, constants: Mapping[str, Any]) -> dict[str, NumpyArray]:
    """Returns the numbers given for inputs, in the element types of the graph.

    Raises:
        InputError: There is no such input, or the numbers don't fit.
    """
    declared = {value.name: value for value in model.graph.input}
    unknown = sorted(set(constants) - set(declared))
    if unknown:
        raise InputError(f"constants: the graph has no inputs {', '.join(unknown)}")
    results: dict[str, NumpyArray] = {}
    for name, value in constants.items():
        expected = numpy_dtype(element_of(declared[name].type) or onnx.TensorProto.FLOAT)
        where = f"{user_line()}: constant {name!r}"
        array = to_numpy(value, where)
        if array.dtype.kind != expected.kind and not (array.dtype.kind in "iu" and expected.kind in "iuf"):
            raise InputError(f"{where} is {array.dtype}, expected {expected}")
        results[name] = converted(array, expected, str(expected), where)
    return results


def _element(kind: onnx.TypeProto) -> tuple[onnx.TypeProto, str]:
    """Returns the innermost type of a value, and which kind of input it is."""
    which = "tensor"
    while kind.WhichOneof("value") in ("optional_type", "sequence_type"):
        if kind.HasField("optional_type"):
            kind, which = kind.optional_type.elem_type, "optional"
        else:
            kind, which = kind.sequence_type.elem_type, which if which == "optional" else "sequence"
    return kind, which


def input_of(value: onnx.ValueInfoProto, float64: bool) -> Input:
    """Returns an input as a graph declares it.

    Raises:
        OptionError: It is neither a tensor nor a sequence or optional of tensors.
    """
    kind, which = _element(value.type)
    if not kind.HasField("tensor_type"):
        raise OptionError(f"tg.onnx.load: input {value.name!r} is no tensor, sequence or optional")
    tensor, dtype = kind.tensor_type, dtype_of(kind.tensor_type.elem_type, float64)
    shape = tuple(map(_extent, tensor.shape.dim)) if tensor.HasField("shape") else None
    return Input(value.name, shape, dtype, tensor.elem_type, which)


def _extent(extent: onnx.TensorShapeProto.Dimension) -> int | str | None:
    """Returns an extent: a number, a name, or None for any, for which some exporters write -1, 0 or a placeholder."""
    if extent.HasField("dim_value"):
        return extent.dim_value if extent.dim_value > 0 else None
    return None if extent.dim_param in _ANY else extent.dim_param


_ANY = ("", "?", "*", "-1", "None")
