"""Traced programs as ONNX models, run by ONNX Runtime and by ONNX's own evaluator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from harness import Names, NumpyArray, apply
from onnx.reference import ReferenceEvaluator
from xdsl.dialects.builtin import ModuleOp

from tensorgrad.driver.handles.portable import Portable
from tensorgrad.exporters.onnx.programs import model_of
from tensorgrad.passes.tensors.inline_calls import InlineCallsPass
from tensorgrad.passes.tensors.simplify import SimplifyPass
from tensorgrad.runtime.saved import FUNCTION, Host

ERRORS_ONLY = 3
"""ONNX Runtime warns of each input that has a starting value."""


def exported(module: ModuleOp) -> onnx.ModelProto:
    """Returns a traced `tg` module as a model, which ONNX's checker has accepted."""
    for pass_ in (InlineCallsPass(), SimplifyPass()):
        apply(pass_, module)
    model = model_of(Portable("case", module, {}, Host(FUNCTION, None)), "0")
    onnx.checker.check_model(model, full_check=True)
    return model


def session(model: onnx.ModelProto | Path) -> onnxruntime.InferenceSession:
    """Returns a model, or a file, in ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = ERRORS_ONLY
    options.intra_op_num_threads = 1
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    return onnxruntime.InferenceSession(source, options)


def computed(model: onnx.ModelProto | Path, feeds: Mapping[str, NumpyArray]) -> list[NumpyArray]:
    """Returns the results of a model, or of a file, as ONNX Runtime computes them."""
    results: Sequence[Any] = session(model).run(None, dict(feeds))
    return [np.asarray(result) for result in results]


def in_runtime(module: ModuleOp, inputs: Sequence[NumpyArray]) -> list[NumpyArray]:
    """Returns the results of a traced module as ONNX Runtime computes them."""
    feeds = _feeds(module, inputs)
    return computed(exported(module), feeds)


def in_evaluator(module: ModuleOp, inputs: Sequence[NumpyArray]) -> list[NumpyArray]:
    """Returns the results of a traced module as ONNX's evaluator computes them."""
    feeds = _feeds(module, inputs)
    with np.errstate(all="ignore"):
        return [np.asarray(result) for result in ReferenceEvaluator(exported(module)).run(None, feeds)]


def _feeds(module: ModuleOp, inputs: Sequence[NumpyArray]) -> dict[str, NumpyArray]:
    return {name: np.asarray(value) for name, value in zip(Names(module).arguments, inputs, strict=True)}


class Stepped:
    """A training step in ONNX Runtime, stepped as the documentation says."""

    def __init__(self, path: Path):
        self._session = session(path)
        self._names = [output.name for output in self._session.get_outputs()]
        self.state: dict[str, Any] = {}

    def step(self, **batch: NumpyArray) -> Mapping[str, NumpyArray]:
        """Runs a step, and returns all outputs."""
        values: Sequence[Any] = self._session.run(None, {**self.state, **batch})
        results = dict(zip(self._names, values, strict=True))
        self.state |= {name.removeprefix("new/"): value for name, value in results.items() if name.startswith("new/")}
        return results
