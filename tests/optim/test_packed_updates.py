"""Updates of many parameters by one kernel: the number of dispatches, and values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func
from xdsl.dialects.memref import CopyOp
from xdsl.ir import SSAValue
from xdsl.parser import Parser

import tensorgrad as tg
from tensorgrad.dialects.buf import ArenaOp, KernelOp, ViewOp
from tensorgrad.dialects.tg import Tg
from tensorgrad.dialects.tg.build import shape_of
from tensorgrad.interpreters.buffers import BufferExecutor
from tensorgrad.interpreters.tensors import TensorExecutor
from tensorgrad.passes.buffers.fuse import FusePass
from tensorgrad.passes.buffers.lower_tg_to_buf import LowerTgToBufPass
from tensorgrad.passes.buffers.plan_memory import PlanMemoryPass
from tensorgrad.passes.pipelines import tensor_passes
from tensorgrad.passes.tensors.append_updates import AppendUpdatesPass
from tensorgrad.passes.tensors.pack_updates import PackUpdatesPass
from tensorgrad.passes.tensors.packing import Member, packed
from tensorgrad.passes.tensors.updates import drop_updates
from tensorgrad.runtime.program import Dispatch, Program
from tensorgrad.runtime.target import WEBGPU_DEFAULT
from tensorgrad.tools.trace_optimizer import TraceOptimizerPass


class Chain(tg.nn.Module):
    """Linear layers of changing widths, so that no two consecutive parameters have the same shape."""

    def __init__(self, layers: int):
        self.layers = [tg.nn.Linear(7 + i % 3, 7 + (i + 1) % 3) for i in range(layers)]
        self.unused = tg.nn.param((3,), 1.0)

    def __call__(self, x):
        for layer in self.layers:
            x = tg.tanh(layer(x))
        return x


def loss(model, x):
    return tg.mean((model(x) - 1.0) ** 2) + tg.sum(model.unused) * 0.0


X = np.random.default_rng(0).normal(size=(4, 7)).astype(np.float32)


def trained(layers, optimizer, device, steps=4):
    training = tg.compile(Chain(layers), loss=loss, optimizer=optimizer, inputs={"x": (4, 7)}, device=device)
    losses = [float(training.step(x=X)) for _ in range(steps)]
    return training, losses


def roles(program: Program, step: Dispatch) -> set[tuple[str, str]]:
    return {(program.buffers[b.buffer].name, b.access) for b in step.bindings}


def counts(program: Program) -> tuple[int, int]:
    """Returns the numbers of dispatches that change parameters, and of others that read gradients."""
    dispatches = [roles(program, step) for step in program.plan if isinstance(step, Dispatch)]
    updates = [touched for touched in dispatches if ("parameters", "read_write") in touched]
    norms = [touched for touched in dispatches if ("packed", "read") in touched and touched not in updates]
    return len(updates), len(norms)


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("layers", [1, 5, 20])
def test_one_kernel_updates_all_parameters_of_a_group(layers):
    training, _ = trained(layers, tg.optim.adamw(1e-2, clip_norm=0.1), "numpy", 0)
    updates, norms = counts(training.program)
    assert updates == 1 and norms <= 2
    assert not any(not isinstance(step, Dispatch) for step in training.program.plan)
    training, _ = trained(layers, tg.optim.adamw(1e-2, clip_norm=0.1, decay="*.weight"), "numpy", 0)
    updates, norms = counts(training.program)
    assert 1 <= updates <= 2 and norms <= 2


@pytest.mark.nightly
@pytest.mark.parametrize("decay", [None, "*.weight", lambda name: name.endswith("3.bias")])
@pytest.mark.parametrize("kind", ["sgd", "adamw"])
def test_packed_updates_are_those_of_single_parameters(kind, decay):
    settings = {"sgd": tg.optim.sgd, "adamw": tg.optim.adamw}[kind]
    single, expected = trained(5, settings(1e-2, weight_decay=0.1, decay=decay), "numpy")
    for device in ("numpy", "cpu", "wgpu"):
        training, losses = trained(5, settings(1e-2, weight_decay=0.1, decay=decay, clip_norm=1e6), device)
        assert np.allclose(losses, expected, rtol=1e-5)
        assert list(training.parameters()) == list(single.parameters())
        for name, value in single.parameters().items():
            assert np.allclose(training.parameters()[name], value, rtol=1e-4, atol=1e-6), name


@pytest.mark.nightly
def test_attached_functions_find_parameters_that_changed_places():
    training, _ = trained(3, tg.optim.adamw(1e-2, clip_norm=0.1, decay=["*.bias"]), "wgpu")
    forward = training.attach(lambda model, x: model(x), inputs={"x": (4, 7)})
    values = training.parameters()
    x = X
    for i in range(3):
        x = np.tanh(x @ values[f"layers.{i}.weight"] + values[f"layers.{i}.bias"])
    assert np.allclose(np.asarray(forward(x=X)), x, atol=1e-5)


def test_half_floats_are_packed_with_their_wide_state():
    class Half(tg.nn.Module):
        def __init__(self):
            self.w = tg.nn.param((5, 3), 0.5, dtype="f16")
            self.b = tg.nn.param((3,), 0.25, dtype="f16")
            self.c = tg.nn.param((3,), 0.25)

    def half_loss(model, x):
        return tg.sum((tg.cast(tg.cast(x, "f16") @ model.w + model.b, "f32") * model.c) ** 2)

    x = np.linspace(-1, 1, 10, dtype=np.float32).reshape(2, 5)
    results = []
    for norm in (None, 1e6):
        training = tg.compile(
            Half(), loss=half_loss, optimizer=tg.optim.adam(1e-2, clip_norm=norm), inputs={"x": (2, 5)}, device="numpy"
        )
        results.append([float(training.step(x=x)) for _ in range(3)])
    assert np.allclose(*results, rtol=1e-3)


SMALL = '{"max_storage_buffer_binding_size": 4096, "max_buffer_size": 8192}'


def label(value: SSAValue) -> str:
    """Returns the arena of a view."""
    assert isinstance(value.owner, ViewOp) and isinstance(value.owner.arena.owner, ArenaOp)
    return value.owner.arena.owner.label.data


@pytest.mark.nightly
@pytest.mark.parametrize("row_bytes", [1 << 27, 4096])
def test_buffers_are_packed_at_every_level(row_bytes):
    context = Context()
    for dialect in (Builtin, Func, Tg):
        context.load_dialect(dialect)
    module = Parser(context, trained(16, tg.optim.sgd(1.0), "numpy", 0)[0].module("traced")).parse_module()
    drop_updates(module)
    tracing = TraceOptimizerPass('adamw(clip_norm=0.1, decay="layers.*.weight")')
    for pass_ in (tracing, *tensor_passes(None, [PackUpdatesPass(row_bytes=row_bytes), AppendUpdatesPass()])):
        pass_.apply(context, module)
    executor, random = TensorExecutor(module), np.random.default_rng(0)
    arguments = zip(executor.arguments, executor.function.body.block.args, strict=True)
    values = {slot.name: random.uniform(0.1, 1, shape_of(value)).astype(np.float32) for slot, value in arguments}
    expected = executor.run(values)
    target = (
        replace(WEBGPU_DEFAULT, max_storage_buffer_binding_size=4096, max_buffer_size=4096)
        if row_bytes == 4096
        else WEBGPU_DEFAULT
    )
    for pass_ in (LowerTgToBufPass(), FusePass(target=target), PlanMemoryPass(target=target)):
        pass_.apply(context, module)
        module.verify()
        actual = BufferExecutor(module).run(values)
        assert actual.keys() == expected.keys()
        for name, value in expected.items():
            assert np.allclose(actual[name], value, rtol=1e-4, atol=1e-6), (pass_.name, name)
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    updates = [op for op in kernels if any(label(view).startswith("parameters") for view in op.outputs)]
    assert len(updates) == 2 if row_bytes > 4096 else 4 <= len(updates) <= 6
    assert not any(isinstance(op, CopyOp) for op in module.walk())


def member(size: int, stored: int = 4, computed: int = 4, group: object = 0) -> Member[int]:
    return Member(size, size, stored, computed, group, computed)


def test_rows_stay_within_the_limit():
    rows = packed([member(1000), member(1000), member(1), member(30, group=1), member(900, group=1)], 8192)
    assert [[(chunk.offsets, chunk.start) for chunk in row.chunks] for row in rows] == [
        [([0, 1024], 0)],
        [([0], 0), ([0, 64], 64)],
    ]
    for row in rows:
        assert row.padded * 4 <= 8192 and row.padded % row.columns == 0
        assert all(chunk.size * 4 <= 8192 for chunk in row.chunks)


def test_chunks_end_where_arenas_end():
    rows = packed([member(512), member(512), member(512), member(512), member(512)], 4096)
    assert [[len(chunk.members) for chunk in row.chunks] for row in rows] == [[2], [2], [1]]


def test_rows_of_large_models_are_added_up_in_larger_parts():
    (row,) = packed([member(1 << 26)], 1 << 28)
    assert row.columns == 1 << 14 and row.padded == 1 << 26
