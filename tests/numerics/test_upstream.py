"""Every case, gradient and a training step, run by upstream MLIR on the output of `buf-to-upstream`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from case import Case
from cases import CASES, SMOOTH
from differences import float_positions, in_f64, mid_graph, mid_graph_inputs
from harness import (
    BUFFER_PASSES,
    GRADIENT,
    Names,
    NumpyArray,
    apply,
    assert_same,
    check_module,
    reference,
    traced,
)
from upstream import Batch
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func
from xdsl.parser import Parser
from xdsl.passes import ModulePass

from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.signature import arguments_of
from tensorgrad.dialects.tg import Tg
from tensorgrad.dialects.tg.collective import CollectiveOp
from tensorgrad.dialects.tg.shape import PackOp
from tensorgrad.interpreters.buffers import BufferExecutor
from tensorgrad.passes.buffers.fuse.fuse_pass import FusePass
from tensorgrad.passes.buffers.lower_tg_to_buf.lower_tg_to_buf import LowerTgToBufPass
from tensorgrad.passes.pipelines import tensor_passes
from tensorgrad.passes.tensors.append_updates import AppendUpdatesPass
from tensorgrad.passes.tensors.inline_calls import InlineCallsPass
from tensorgrad.passes.tensors.simplify import SimplifyPass
from tensorgrad.runtime.formula import Formula
from tensorgrad.tools.trace_optimizer import TraceOptimizerPass
from tensorgrad.transforms.grad import value_and_grad

pytestmark = pytest.mark.mlir

BATCHES = 16
EXCLUDED: dict[str, str] = {
    case.id: "values of other processes come from the runtime, which upstream has none of"
    for case in CASES
    if issubclass(case.op, CollectiveOp)
}
"""The cases that upstream's lowering cannot run, by id, with the reason."""

PACKED = {case.id for case in CASES if issubclass(case.op, PackOp)}
"""The cases that have no counterpart on tensors: tensors are no ranges of others."""


class Comparison:
    """Modules that upstream MLIR runs together, and the differences of their results."""

    def __init__(self, on_tensors: bool = False) -> None:
        self.batch = Batch(on_tensors)
        self._expected: dict[str, tuple[list[str], list[NumpyArray], float, float | None]] = {}

    def add(
        self,
        name: str,
        module: ModuleOp,
        names: Names,
        inputs: Sequence[NumpyArray],
        expected: Sequence[NumpyArray],
        rtol: float,
        absolute: float | None = None,
    ) -> None:
        """Adds a module of `buf`, and the leading results that it should have."""
        self.batch.add(name, module, dict(zip(names.arguments, inputs, strict=True)))
        check_module(module)
        self._expected[name] = names.results, list(expected), rtol, absolute

    def differences(self, folder: Path) -> list[str]:
        """One message for each result that is off."""
        errors: list[str] = []
        results = self.batch.run(folder)
        for name, (keys, expected, rtol, absolute) in self._expected.items():
            for key, correct in zip(keys, expected, strict=False):
                try:
                    if absolute is None:
                        assert_same(results[name][key], correct, rtol, name)
                    else:
                        scale = max(1.0, float(np.abs(correct).max(initial=0.0)))
                        np.testing.assert_allclose(results[name][key], correct, rtol=0, atol=absolute * scale)
                except AssertionError as error:
                    errors.append(f"{name}, {key}: {error}")
        return errors


@pytest.mark.parametrize("number", range(BATCHES))
def test_values(number: int, tmp_path: Path) -> None:
    comparison = Comparison()
    for case in [case for case in CASES if case.id not in EXCLUDED][number::BATCHES]:
        module = traced(case.function, case.inputs)
        names, expected = Names(module), case.value()
        rtol = case.tolerance
        apply(InlineCallsPass(), module)
        apply(SimplifyPass(), module)
        for pass_ in BUFFER_PASSES:
            apply(pass_, module)
            comparison.add(f"{case.id} after {pass_.name}", module.clone(), names, case.inputs, [expected], rtol)
    differences = comparison.differences(tmp_path)
    assert not differences, "\n".join(differences)


@pytest.mark.parametrize("number", range(BATCHES))
def test_values_on_tensors(number: int, tmp_path: Path) -> None:
    comparison = Comparison(on_tensors=True)
    for case in [case for case in CASES if case.id not in (*EXCLUDED, *PACKED)][number::BATCHES]:
        module = traced(case.function, case.inputs)
        names, expected = Names(module), case.value()
        for pass_ in (InlineCallsPass(), SimplifyPass(), LowerTgToBufPass(), FusePass()):
            apply(pass_, module)
        comparison.add(case.id, module, names, case.inputs, [expected], case.tolerance)
    differences = comparison.differences(tmp_path)
    assert not differences, "\n".join(differences)


@pytest.mark.parametrize("number", range(BATCHES))
def test_gradients(number: int, tmp_path: Path) -> None:
    comparison = Comparison()
    for case in [case for case in SMOOTH if case.id not in EXCLUDED][number::BATCHES]:
        _add_gradient(comparison, case)
    differences = comparison.differences(tmp_path)
    assert not differences, "\n".join(differences)


def _add_gradient(comparison: Comparison, case: Case) -> None:
    inputs = [np.asarray(x, np.float32) if x.dtype.kind == "f" else x for x in mid_graph_inputs(case)]
    function = value_and_grad(mid_graph(case.function), argnums=tuple(float_positions(inputs)))
    wide = in_f64(inputs)
    expected = reference(traced(function, wide), wide)
    module = traced(function, inputs)
    names = Names(module)
    for pass_ in (InlineCallsPass(), SimplifyPass(), *BUFFER_PASSES):
        apply(pass_, module)
    comparison.add(f"gradient of {case.id}", module, names, inputs, expected, 0.0, GRADIENT)


LOSS = """
func.func @loss(%x: tensor<6x5xf32> {tg.name = "x", tg.role = "input"},
                %w: tensor<5x4xf32> {tg.name = "w", tg.role = "parameter"},
                %v: tensor<4x5xf32> {tg.name = "v", tg.role = "parameter"})
    -> (tensor<f32> {tg.name = "loss", tg.role = "output"}) {
  %0 = tg.dot_general %x, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0]
    : tensor<6x5xf32>, tensor<5x4xf32>
  %1 = tg.tanh %0 : tensor<6x4xf32>
  %2 = tg.dot_general %1, %v lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0]
    : tensor<6x4xf32>, tensor<4x5xf32>
  %3 = tg.sub %2, %x : tensor<6x5xf32>, tensor<6x5xf32>
  %4 = tg.mul %3, %3 : tensor<6x5xf32>, tensor<6x5xf32>
  %5 = tg.sum %4 axes = [0, 1] : tensor<6x5xf32>
  func.return %5 : tensor<f32>
}
"""


def _parsed(text: str) -> ModuleOp:
    context = Context()
    for dialect in (Builtin, Func, Tg):
        context.load_dialect(dialect)
    return Parser(context, text, "loss.mlir").parse_module()


def test_training_step(tmp_path: Path) -> None:
    """Parameters and state are updated in place, in arenas; host scalars are arguments."""
    assert_step(_step(BUFFER_PASSES), Batch(), tmp_path)


def test_training_step_on_tensors(tmp_path: Path) -> None:
    """Updated parameters and state are results, in place of arguments that are written."""
    assert_step(_step([LowerTgToBufPass(), FusePass()]), Batch(on_tensors=True), tmp_path)


def assert_step(step: tuple[ModuleOp, dict[str, NumpyArray]], batch: Batch, folder: Path) -> None:
    """Compares a step's results with those of the reference."""
    module, values = step
    expected = BufferExecutor(module).run(values)
    batch.add("step", module, values)
    results = batch.run(folder)["step"]
    assert len(expected) == 7
    for name, correct in expected.items():
        assert_same(results[name], correct, 5e-6, name)


def _step(passes: Sequence[ModulePass]) -> tuple[ModuleOp, dict[str, NumpyArray]]:
    """Returns a training step after passes, and values for its inputs."""
    module = _parsed(LOSS)
    for pass_ in (TraceOptimizerPass("adam"), *tensor_passes("loss", [AppendUpdatesPass()])):
        pass_.apply(Context(), module)
    formulas = [slot.formula for slot in arguments_of(find_function(module, None)) if slot.formula]
    for pass_ in passes:
        pass_.apply(Context(), module)
    generator = np.random.default_rng(3)
    shapes = {"x": (6, 5), "w": (5, 4), "v": (4, 5)}
    shapes |= {f"adam.{kind}/{name}": shapes[name] for kind in "mv" for name in "wv"}
    values = {name: np.abs(generator.normal(size=shape)).astype(np.float32) for name, shape in shapes.items()}
    settings = {"learning_rate": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "step": 2.0}
    values |= {text: np.array(Formula(text).evaluate(settings), np.float32) for text in formulas}
    return module, values
