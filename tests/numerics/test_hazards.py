"""Programs that a wrong order of reads, writes and merges would miscompile agree at every level and on the device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from draws import generator
from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

import tensorgrad as tg
from tensorgrad.dialects import wgsl
from tensorgrad.dialects.buf_control import Buf
from tensorgrad.dialects.tg import Tg
from tensorgrad.interpreters.buffers import BufferExecutor
from tensorgrad.interpreters.tensors import TensorExecutor
from tensorgrad.passes.buffers.lower_tg_to_buf import LowerTgToBufPass
from tensorgrad.passes.codegen.build_program import build_program
from tensorgrad.passes.pipelines import inference_passes
from tensorgrad.runtime.target import Target
from tensorgrad.runtime.webgpu import WebGPUDevice, WebGPUExecutable

TARGETS = [Target.named("lavapipe"), Target.named("webgpu-default")]
RNG = generator(0)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def parsed(text: str) -> ModuleOp:
    context = Context()
    for name, factory in get_all_dialects().items():
        context.register_dialect(name, factory)
    for dialect in (Tg, Buf):
        context.load_dialect(dialect)
    return Parser(context, text).parse_module()


def lowered(module: ModuleOp, target: Target) -> ModuleOp:
    for pass_ in inference_passes(target):
        pass_.apply(Context(), module)
        module.verify()
    return module


def run(device: WebGPUDevice, module: ModuleOp, target: Target, values: dict[str, np.ndarray]) -> dict[str, Any]:
    """Returns the outputs and updated parameters of a module on the device."""
    program = replace(build_program(lowered(module, target), target), target=None)
    executable = WebGPUExecutable(program, device, trusted=True)
    persistent = {name for name, slot in program.slots("parameter").items() if slot}
    executable.write({name: value for name, value in values.items() if name in persistent})
    outputs = executable.step({name: value for name, value in values.items() if name not in persistent}, {})
    return {**{name: handle.numpy() for name, handle in outputs.items()}, **executable.read(persistent)}


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_sum_reads_what_its_own_kernel_computed_before(device: WebGPUDevice, target: Target) -> None:
    def function(x: Any, y: Any, a: Any) -> Any:
        t = tg.tanh(a)
        p = x.reshape(16, 32, 1) * y.reshape(1, 32, 16)
        r = tg.sum(p * t.reshape(16, 1, 16), axis=1)
        return r * t, r, tg.sum(p, axis=(0, 2))

    inputs = [floats(16, 32), floats(32, 16), floats(16, 16)]
    module = tg.trace(function, *inputs)
    expected = TensorExecutor(module).call(inputs)
    results = run(device, module, target, dict(zip(("x", "y", "a"), inputs, strict=True)))
    for value, correct in zip(results.values(), expected, strict=True):
        np.testing.assert_allclose(value, correct, rtol=1e-4, atol=1e-4)


ROWS = """
func.func @f(%w: tensor<64x64xf32> {tg.name = "w", tg.role = "parameter"},
             %g: tensor<64x64xf32> {tg.name = "g", tg.role = "input"})
    -> (tensor<64x64x4xf32> {tg.name = "o", tg.role = "output"},
        tensor<64x64xf32> {tg.name = "w", tg.role = "update"}) {
  %s = tg.sum %g axes = [1] : tensor<64x64xf32>
  %eb = tg.broadcast %s shape = [64, 64, 4] dims = [0] : tensor<64xf32>
  %wb = tg.broadcast %w shape = [64, 64, 4] dims = [0, 1] : tensor<64x64xf32>
  %o = tg.mul %wb, %eb : tensor<64x64x4xf32>, tensor<64x64x4xf32>
  %e2 = tg.broadcast %s shape = [64, 64] dims = [0] : tensor<64xf32>
  %n = tg.sub %w, %e2 : tensor<64x64xf32>, tensor<64x64xf32>
  func.return %o, %n : tensor<64x64x4xf32>, tensor<64x64xf32>
}
"""


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_rows_are_read_before_they_are_updated(device: WebGPUDevice, target: Target) -> None:
    w, g = floats(64, 64), floats(64, 64)
    results = run(device, parsed(ROWS), target, {"w": w, "g": g})
    total = g.sum(1, dtype=np.float32)
    np.testing.assert_allclose(results["o"], np.repeat((w * total[:, None])[:, :, None], 4, 2), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(results["w"], w - total[:, None], rtol=1e-4, atol=1e-4)


OLD_AND_NEW = """
func.func @f(%w: tensor<40x40xf32> {tg.name = "w", tg.role = "parameter"},
             %g: tensor<40x40xf32> {tg.name = "g", tg.role = "input"})
    -> (tensor<40x40xf32> {tg.name = "w", tg.role = "update"}, tensor<40xf32> {tg.name = "o", tg.role = "output"}) {
  %n = tg.sub %w, %g : tensor<40x40xf32>, tensor<40x40xf32>
  %p = tg.neg %w : tensor<40x40xf32>
  %r = tg.mul %p, %n : tensor<40x40xf32>, tensor<40x40xf32>
  %s = tg.sum %r axes = [1] : tensor<40x40xf32>
  func.return %n, %s : tensor<40x40xf32>, tensor<40xf32>
}
"""


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_work_on_the_old_and_the_new_value(device: WebGPUDevice, target: Target) -> None:
    w, g = floats(40, 40), floats(40, 40)
    results = run(device, parsed(OLD_AND_NEW), target, {"w": w, "g": g})
    np.testing.assert_allclose(results["w"], w - g, rtol=1e-6)
    np.testing.assert_allclose(results["o"], (-w * (w - g)).sum(1), rtol=1e-4, atol=1e-4)


def test_lanes_fold_by_halves_whatever_the_limit(device: WebGPUDevice) -> None:
    target = replace(Target.named("webgpu-default"), name="odd", max_compute_invocations_per_workgroup=192)
    x = floats(3, 700)
    results = run(device, tg.trace(lambda x: tg.sum(x, axis=1), x), target, {"x": x})
    np.testing.assert_allclose(results["result0"], x.sum(1), rtol=1e-4, atol=1e-4)


def test_two_functions_share_equal_kernels() -> None:
    text = """
    func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = tg.neg %x : tensor<4xf32>
      func.return %0 : tensor<4xf32>
    }
    """
    module = lowered(parsed(text + text.replace("@f", "@g")), TARGETS[0])
    assert sum(isinstance(op, wgsl.KernelOp) for op in module.walk()) == 1


def test_negative_zero_stays_negative() -> None:
    """On buffers only, as drivers may change the sign of a zero."""
    x = np.array([1.0, -1.0], np.float32)
    module = tg.trace(lambda x: x * -0.0, x)
    LowerTgToBufPass().apply(Context(), module)
    assert np.signbit(BufferExecutor(module).run({"x": x})["output/result0"]).tolist() == [True, False]


def test_concrete_tensors_own_their_numbers() -> None:
    buffer = np.zeros(2, np.float32)
    tensors = [tg.reshape(buffer, (2, 1)), tg.array(buffer), tg.stop_gradient(buffer)]
    _, pullback = tg.vjp(lambda z: tg.sum(z**2), buffer)
    buffer[:] = 7
    assert all(not np.asarray(tensor).any() for tensor in tensors)
    assert not np.asarray(pullback(1.0)[0]).any()
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(tensors[0])[0] = 1


def test_a_power_of_a_half_is_no_square_root() -> None:
    x = np.array([-np.inf, -0.0, 4.0], np.float32)
    module = tg.trace(lambda x: x**0.5, x)
    (powers,) = TensorExecutor(module).call([x])
    np.testing.assert_array_equal(powers, [np.inf, 0, 2])
    assert not np.signbit(powers[1])


def test_large_splats_are_not_looked_at_one_by_one() -> None:
    module = tg.trace(lambda x: tg.sum(x * 2.0), tg.spec((1 << 30, 1 << 10)))
    for pass_ in inference_passes()[:1]:
        pass_.apply(Context(), module)
    assert "dense<2.0" in str(module)
