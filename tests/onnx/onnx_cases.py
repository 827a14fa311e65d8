"""The node cases of ONNX's own backend test suite, built in process, and functions that run them."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

import tensorgrad as tg
from tensorgrad.errors import TensorgradError
from tensorgrad.interpreters.tensors import TensorExecutor
from tensorgrad.onnx import OnnxModel, constant_inputs
from tensorgrad.passes.codegen.build_program import build_program
from tensorgrad.passes.pipelines import inference_passes
from tensorgrad.runtime.conversion import kind_of
from tensorgrad.runtime.webgpu import WebGPUDevice, WebGPUExecutable
from tensorgrad.tracing import trees

NumpyArray = np.ndarray[Any, np.dtype[Any]]


@functools.cache
def cases() -> dict[str, Any]:
    """Returns the suite's node cases by name, each with a model, and inputs and outputs in memory."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():  # warnings of the suite's own numpy code
        warnings.simplefilter("ignore")
        return {case.name: case for case in collect_testcases(None)}


@functools.cache
def halves() -> frozenset[str]:
    """Returns the names of cases with f16 inputs or outputs, which not every device supports."""

    def has_halves(graph: onnx.GraphProto) -> bool:
        values = [*graph.input, *graph.output]
        return any(value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT16 for value in values)

    return frozenset(name for name, case in cases().items() if has_halves(case.model.graph))


def plain(value: Any) -> Any:
    """Returns a case's input or output as numpy arrays, lists of them, or None."""
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    if isinstance(value, list):
        return [plain(part) for part in value]
    return None if value is None else np.asarray(value)


class Run:
    """One data set of a case: the loaded model, its run-time inputs, and what must come out.

    Inputs that decide what is traced are constants; a case whose other inputs are missing has none at run time.
    """

    def __init__(self, case: Any, data_set: int, float64: bool):
        inputs, outputs = case.data_sets[data_set]
        names = [value.name for value in case.model.graph.input]
        values = {name: plain(value) for name, value in zip(names, inputs, strict=True)}
        fixed = set(constant_inputs(case.model))
        constants = {name: values[name] for name in names if name in fixed}
        self.case = case
        self.model: OnnxModel = tg.onnx.load(case.model, constants=constants, trainable=False, float64=float64)
        self.inputs = [values[value.name] for value in self.model.inputs]
        self.expected = [plain(value) for value in outputs]

    def traced(self) -> ModuleOp:
        """The model's program on inputs of these shapes."""
        _, rebuild = trees.flatten(self._typed)

        def model(*leaves: Any) -> Any:
            return self.model(*rebuild(leaves))

        return tg.trace(model, *[tg.spec(leaf.shape, leaf.dtype) for leaf in self.flat])

    @property
    def _typed(self) -> list[Any]:
        """The inputs in the dtypes that the model takes them in."""
        return [_typed(value, self.model.inputs[i].dtype) for i, value in enumerate(self.inputs)]

    @property
    def flat(self) -> list[NumpyArray]:
        """The inputs as the program takes them."""
        return trees.flatten(self._typed)[0]

    def compare(self, results: Sequence[NumpyArray]) -> None:
        """Checks the results, in order, against what the suite expects, at its own tolerance.

        Raises:
            AssertionError: They differ in number, shape, kind or value.
        """
        expected = [leaf for value in self.expected for leaf in (value if isinstance(value, list) else [value])]
        assert len(results) == len(expected), f"{len(results)} results, expected {len(expected)}"
        for result, correct in zip(results, expected, strict=True):
            assert result.shape == correct.shape, f"shape {result.shape}, expected {correct.shape}"
            narrowed = {"int64": "int32", "uint64": "uint32"}.get(correct.dtype.name, correct.dtype.name)
            exact = correct.dtype.kind in "iub" and result.dtype == narrowed
            assert exact or kind_of(result.dtype) == kind_of(correct.dtype) == "f", (
                f"{result.dtype}, expected {correct.dtype}"
            )
            rtol = self.case.rtol
            if correct.dtype == tg.bf16:  # of which NumPy knows no NaN
                result, correct, rtol = result.astype(np.float32), correct.astype(np.float32), max(rtol, 2.0**-6)
            np.testing.assert_allclose(result.astype(correct.dtype), correct, rtol=rtol, atol=self.case.atol)


def _typed(value: Any, dtype: Any) -> Any:
    if isinstance(value, list):
        return [_typed(part, dtype) for part in value]
    return None if value is None else np.asarray(value).astype(dtype)


def on_reference(run: Run) -> list[NumpyArray]:
    """Returns the results of a traced case by numpy, in order."""
    return list(TensorExecutor(run.traced()).call(run.flat))


def on_device(run: Run, device: WebGPUDevice) -> list[NumpyArray]:
    """Returns the results of a case, compiled to WGSL, on a device, in order."""
    module, target = run.traced(), device.target
    executor = TensorExecutor(module)
    names, results = [slot.name for slot in executor.arguments], [slot.name for slot in executor.results]
    for pass_ in inference_passes(target):
        pass_.apply(Context(), module)
    executable = WebGPUExecutable(build_program(module, target), device, trusted=True)
    outputs = executable.step(dict(zip(names, run.flat, strict=True)), {})
    return [outputs[name].numpy() for name in results]


def failure(case: Any, device: WebGPUDevice | None) -> Exception | None:
    """Runs a case, by numpy (in f64 where it has `DOUBLE`) or on a device (in f32).

    Returns:
        None where all results are as expected, else why they aren't: our own error, or the assertion that fails. Any
        other exception is raised.
    """
    for data_set in range(len(case.data_sets)):
        try:
            run = Run(case, data_set, float64=device is None)
            run.compare(on_reference(run) if device is None else on_device(run, device))
        except (TensorgradError, AssertionError) as error:
            return error
    return None
