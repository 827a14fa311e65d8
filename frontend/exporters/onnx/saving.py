"""`tg.onnx.save`: functions, models and training steps as ONNX files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError, EncodeError
from onnx import ModelProto
from onnx.external_data_helper import ExternalDataInfo, uses_external_data

from tensorgrad.driver.compile import compile
from tensorgrad.driver.handles.compiled import Inference
from tensorgrad.driver.handles.portable import portable
from tensorgrad.driver.handles.training import Training
from tensorgrad.errors import CompilerError, InputError, OptionError
from tensorgrad.exporters.onnx.programs import model_of
from tensorgrad.nn.module import Module
from tensorgrad.runtime.files import PART, delete_all_abandoned, synchronize
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tracer import function_name, refuse_inside_trace

MOST_BYTES = 1 << 30
"""The most bytes of a file before its arrays go into one beside it: protobuf's files have at most twice as many."""

EXTERNAL_BYTES = 1024
"""The fewest bytes of an array that goes into the file beside."""


def save(
    program: Training[Any] | Inference[Any] | Module | Callable[..., Any],
    path: str | os.PathLike[str],
    inputs: Mapping[str, Any] | None = None,
    *,
    external: bool | None = None,
) -> None:
    """Writes a function, a model or a training step as an ONNX file, which any runtime of ONNX computes.

    Shapes are fixed. Inputs, parameters and results have their names, and parameters their current values; a result
    with the name of an input gets a number behind it. Everything is computed in the dtypes of the program, also with
    `precision="f16"`, which is about storage on our devices.

    A training step takes the inputs of `training.step`. It also has inputs with starting values, which need not be
    given: what the step changes, each under its name (`weight`, `adam.m/weight`), and under `training/` the step
    count, the optimizer's settings and the seed's key. Its results are those of the loss, then under `new/` what
    replaces the inputs of that name; the model's metadata has these pairs as JSON under `tensorgrad.updates`.
    docs/how-to/onnx.md steps it in another runtime.

    Args:
        program: A training, whose step is written; a function that `training.attach` returns, for the shapes of its
            last call or its declared ones; a model, called as `model(**inputs)`, whose parameters without values are
            sampled as by `tg.compile`; or a function, called as `function(**inputs)`.
        path: The file, which is replaced once the new one is complete and ONNX's checker has accepted it. A second file
            that only the old one had is removed.
        inputs: For a model or a function: a shape (f32) or a `tg.spec` for each input, by name, as for `attach`.
        external: Whether arrays of 1 KiB or more are written to a second file beside it, with `.data` behind its name.
            None does so if the file would have more than 1 GiB; it can't have more than 2.

    Raises:
        InputError: The inputs are missing, or one has the name of a parameter; a function that `attach` returned has
            neither been called nor has declared inputs.
        OptionError: Inputs are given for a training or attached function, which have their own; or it runs in a group
            of processes, or a step takes several micro-batches.
        ProgramError: ONNX can't say an op, whose line it names; or a schedule is a Python function.
        TraceError, ParameterError, ShapeError, DTypeError: The function or model does something invalid.
        OSError: The file can't be written; what was there before is still there.

    Example:
        >>> import onnx, tempfile
        >>> model = tg.nn.Sequential(tg.nn.Linear(4, 8), tg.nn.ReLU(), tg.nn.Linear(8, 2))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tg.onnx.save(model, f"{folder}/model.onnx", inputs={"x": (16, 4)})
        ...     graph = onnx.load(f"{folder}/model.onnx").graph
        >>> [node.op_type for node in graph.node]
        ['MatMul', 'Add', 'Relu', 'MatMul', 'Add', 'Identity']
    """
    refuse_inside_trace("onnx.save")
    model = model_of(portable(_handle(program, inputs), "onnx.save"), version("tensorgrad-xdsl"))
    _write(model, Path(path), model.ByteSize() > MOST_BYTES if external is None else external)


def _handle(program: Any, inputs: Mapping[str, Any] | None) -> Training[Any] | Inference[Any]:
    """Returns what is to be written as a compiled program: a function of a model and of named inputs."""
    if isinstance(program, Training | Inference):
        if inputs is not None:
            where = "tg.compile" if isinstance(program, Training) else "attach"
            raise OptionError(f"onnx.save: inputs are for models and functions; this has those given to {where}")
        return program
    if not callable(program):
        raise OptionError(f"onnx.save: takes a training, a model or a function, got {type(program).__name__}")
    if inputs is None:
        raise InputError('onnx.save: a model or function needs inputs, such as inputs={"x": (8, 3)}')
    is_model = isinstance(program, Module)

    def called(model: Any, **arrays: Any) -> Any:
        return model(**arrays) if is_model else program(**arrays)

    called.__name__ = type(program).__name__ if is_model else function_name(program)
    return compile(program if is_model else (), device="numpy").attach(called, inputs=inputs)


def _write(model: ModelProto, path: Path, external: bool) -> None:
    """Writes a model aside, checks it there, and moves it to its place; the arrays in a file of their own first.

    Raises:
        CompilerError: ONNX's checker refuses it.
        OSError: It can't be written.
    """
    data = f"{path.name}.data"
    has_data = _reads(path, data)
    try:
        if path.is_dir():
            raise IsADirectoryError(21, os.strerror(21), os.fspath(path))
        with _beside(path, data) as folder:
            aside = Path(folder, path.name)
            onnx.save(
                model,
                aside,
                save_as_external_data=external,
                location=data if external else None,
                size_threshold=EXTERNAL_BYTES,
            )
            _check(aside)
            files = [file for file in (Path(folder, data), aside) if file.exists()]
            for file in files:
                synchronize(file)
                os.replace(file, path.with_name(file.name))
        if has_data and files == [aside]:
            path.with_name(data).unlink(missing_ok=True)
        synchronize(path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error  # the name that the user knows
    except EncodeError as error:
        raise OptionError(
            f"onnx.save: the file would be too large for protobuf: pass external=True ({error})"
        ) from error


@contextmanager
def _beside(path: Path, data: str) -> Iterator[Path]:
    """Yields a folder in which a model is written, and deletes it; also those that killed processes have left."""
    folder = path.with_name(f".{path.name}.{os.getpid()}{PART}")
    folder.mkdir(exist_ok=True)
    try:
        yield folder
    finally:
        for name in (path.name, data):
            Path(folder, name).unlink(missing_ok=True)
        folder.rmdir()
    delete_all_abandoned(path)


def _reads(path: Path, data: str) -> bool:
    """Returns whether a file is a model whose arrays are in another file beside it."""
    if not path.is_file() or not path.with_name(data).is_file():
        return False
    try:
        graph = onnx.load(path, load_external_data=False).graph
    except DecodeError:
        return False
    return any(ExternalDataInfo(array).location == data for array in graph.initializer if uses_external_data(array))


def _check(path: Path) -> None:
    try:
        onnx.checker.check_model(path, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise CompilerError(f"{user_line()}: onnx.save wrote a file that ONNX's checker refuses: {error}") from error
