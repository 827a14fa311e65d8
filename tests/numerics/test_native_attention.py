"""Attention as native code: every form and its derivative, for each vector width, dtype and tiling."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from attention_forms import Form, causal, discarding, forms, masked, normal
from differences import mid_graph
from harness import BUFFER_PASSES, Names, NumpyArray, apply, on_buffers, reference, traced
from test_attention import EXTREMES, assert_as_zeros, assert_close, loss_of, outlined, plain_results, with_gradient
from xdsl.dialects.builtin import ModuleOp, f16
from xdsl.ir import Attribute

import tensorgrad as tg
from tensorgrad.dialects.attention import Attention, AttentionOp
from tensorgrad.dialects.buf import KernelOp, element_of
from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.native_schedules import NativeAttentionSchedule
from tensorgrad.dialects.schedule import ScheduleAttr
from tensorgrad.dialects.signature import Role, Slot, arguments_of, results_of
from tensorgrad.passes.buffers.fuse import fuse_pass
from tensorgrad.passes.buffers.lower_precision import LowerPrecisionPass
from tensorgrad.passes.codegen.build_program import build_program
from tensorgrad.passes.codegen.choose import neighbours
from tensorgrad.passes.functions import set_signature
from tensorgrad.passes.pipelines import device_passes
from tensorgrad.passes.tensors.attention_cost import composed_cycles, pays, tiled_cycles
from tensorgrad.passes.tensors.outline_attention import OutlineAttentionPass
from tensorgrad.passes.tensors.simplify import SimplifyPass
from tensorgrad.runtime.cpu import CpuDevice, CpuExecutable
from tensorgrad.runtime.target import CPU, Target

SHAPES = [(9, 9), (5, 11), (1, 3), (70, 75)]
"""Queries and keys: fewer than a vector has lanes, and more than a block or a tile has."""

ALL = [form for queries, keys in SHAPES for form in forms(queries, keys)]
IDS = [f"{form.name}-{queries}x{keys}" for queries, keys in SHAPES for form in forms(queries, keys)]
WIDTHS = (16, 32, 64)
"""Bytes of a vector; LLVM splits those that are wider than the CPU's."""


def target(width: int, **changes: bool) -> Target:
    return replace(CpuDevice().target, vector_bytes=width, **changes)


def run(
    module: ModuleOp,
    inputs: Sequence[NumpyArray],
    where: Target,
    change: Callable[[KernelOp], None] = lambda kernel: None,
) -> tuple[Counter[str], list[NumpyArray]]:
    """Returns the number of attention kernels by part, and the results."""
    names, parts = Names(module), Counter[str]()
    for pass_ in device_passes(where):
        apply(pass_, module)
        if pass_.name == "schedule":
            for kernel in module.walk():
                if isinstance(kernel, KernelOp) and kernel.attention is not None:
                    parts[kernel.attention.part.data] += 1
                    change(kernel)
    executable = CpuExecutable(build_program(module, where), CpuDevice())
    outputs = executable.step(dict(zip(names.arguments, inputs, strict=True)), {})
    return parts, [np.array(outputs[key.split("/", 1)[1]].numpy()) for key in names.results]


def gradient(form: Form, width: type[np.floating] = np.float32) -> tuple[ModuleOp, list[NumpyArray]]:
    """Returns the outlined module of a form's loss and gradients, and its inputs."""
    inputs = [x.astype(width) if x.dtype.kind == "f" else x for x in form.inputs]
    module, everything = loss_of(form, inputs)
    everything = [x.astype(width) if x.dtype.kind == "f" else x for x in everything]
    if width != np.float32:
        module = traced(mid_graph(form.function), everything)
    apply(SimplifyPass(), module)
    apply(OutlineAttentionPass(fewest_scores=1, target=CPU), module)
    module = with_gradient(module, everything)
    function = find_function(module, None)
    results = [Slot(f"result{i}", Role.OUTPUT) for i in range(len(results_of(function)))]
    set_signature(function, arguments_of(function), results)
    return module, everything


def chosen(name: str, queries: int, keys: int, features: int = 6) -> Form:
    (form,) = [form for form in forms(queries, keys, features) if form.name == name]
    return form


@pytest.mark.in_turns(80, 20)
@pytest.mark.parametrize(("number", "form"), list(enumerate(ALL)), ids=IDS)
def test_every_form(number: int, form: Form) -> None:
    module, inputs = gradient(form)
    parts, results = run(module, inputs, target(WIDTHS[number % 3]))
    assert parts == {"forward": 1, "backward": 1} or form.inputs[0].shape[-2] == 1
    assert_close(results, plain_results(form), 2e-5)


@pytest.mark.nightly
@pytest.mark.parametrize("form", discarding(33, 37)[:-1], ids=lambda form: form.name)
def test_discarded_rows(form: Form) -> None:
    module, inputs = gradient(form)
    parts, results = run(module, inputs, target(32))
    assert parts == {"forward": 1, "backward": 1}
    assert_as_zeros(results, 33, 37, 2e-5)


@pytest.mark.in_turns(9)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["padded-causal", "grouped", "added"])
def test_two_kernels_of_the_derivative(name: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a group were too large for one task."""
    monkeypatch.setattr(fuse_pass, "as_one", lambda *arguments: None)
    form = chosen(name, 33, 37, 9)
    module, inputs = gradient(form)
    parts, results = run(module, inputs, target(width))
    assert parts == {"forward": 1, "queries": 1, "keys": 1}
    assert_close(results, plain_results(form), 2e-5)


@pytest.mark.parametrize("joined", [True, False])
def test_one_kernel_on_buffers(joined: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference on buffers runs both forms of the derivative."""
    if not joined:
        monkeypatch.setattr(fuse_pass, "as_one", lambda *arguments: None)
    form = chosen("padded-causal", 9, 11)
    module, inputs = gradient(form)
    expected, names = plain_results(form), Names(module)
    parts = set[str]()
    for pass_ in BUFFER_PASSES:
        apply(replace(pass_, target=CPU) if pass_.name == "fuse" else pass_, module)
        parts = {op.part.data for op in module.walk() if isinstance(op, AttentionOp)}
        assert_close(on_buffers(module, inputs, names), expected, 1e-5)
    assert parts == ({"forward", "backward"} if joined else {"forward", "queries", "keys"})


@pytest.mark.in_turns(9, 1)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["plain", "padded-causal", "grouped"])
def test_f64(name: str, width: int) -> None:
    form = chosen(name, 21, 19)
    module, inputs = gradient(form, np.float64)
    expected = reference(module.clone(), inputs)
    parts, results = run(module, inputs, target(width))
    assert parts == {"forward": 1, "backward": 1} and all(result.dtype == np.float64 for result in results)
    assert_close(results, expected, 1e-13)


@pytest.mark.in_turns(3, 1)
@pytest.mark.parametrize("name", ["plain", "causal", "grouped"])
def test_half_floats_are_storage(name: str) -> None:
    """Operands and results stored as f16 are computed in f32, as numpy does it."""
    form = chosen(name, 40, 36, 8)

    def function(*inputs: tg.Tensor) -> tg.Tensor:  # products are stored as f16
        projected = [x @ w for x, w in zip(inputs[::2], inputs[1::2], strict=True)]
        return form.function(*projected) @ inputs[-1]

    inputs = [both for x in form.inputs for both in (x, normal(x.shape[-1], x.shape[-1], seed=4))]
    module, where = outlined(traced(function, inputs)), target(64)
    parts, stored = Counter[str](), Counter[Attribute]()
    halved = device_passes(where, precision=LowerPrecisionPass(smallest=1))
    names, expected = Names(module), list[NumpyArray]()
    for pass_ in halved:
        apply(pass_, module)
        if pass_.name == "schedule":
            expected = on_buffers(module.clone(), inputs, names)
            attentions = [op for op in module.walk() if isinstance(op, AttentionOp)]
            parts = Counter(op.part.data for op in attentions)
            stored = Counter(element_of(value) for op in attentions for value in op.operands)
    executable = CpuExecutable(build_program(module, where), CpuDevice())
    outputs = executable.step(dict(zip(names.arguments, inputs, strict=True)), {})
    assert parts == {"forward": 1} and stored[f16] >= 3
    assert_close([np.array(output.numpy()) for output in outputs.values()], expected, 2e-3)


@pytest.mark.nightly
@pytest.mark.parametrize("features", [1, 3, 64, 160])
def test_features(features: int) -> None:
    """Fewer than a panel has, and more than shaders support."""
    form = chosen("causal", 40, 40, features)
    module, inputs = gradient(form)
    parts, results = run(module, inputs, target(64))
    assert parts == {"forward": 1, "backward": 1}
    assert_close(results, plain_results(form), 5e-5)


@pytest.mark.nightly
@pytest.mark.parametrize("choice", range(4))
@pytest.mark.parametrize("name", ["padded-causal", "grouped", "added"])
def test_other_schedules(name: str, choice: int) -> None:
    """Schedules that differ in one choice give the same results, with any edges and remaining columns."""
    form, where = chosen(name, 70, 75, 9), target(32)
    module, inputs = gradient(form)

    def change(kernel: KernelOp) -> None:
        assert kernel.schedule is not None
        near = list(neighbours(kernel.schedule.data, kernel, where))
        kernel.properties["schedule"] = ScheduleAttr(near[choice % len(near)])

    _, results = run(module, inputs, where, change)
    assert_close(results, plain_results(form), 2e-5)


@pytest.mark.nightly
def test_awkward_tiles() -> None:
    """One column per tile, and tiles that don't divide the sums."""
    form = chosen("padded-causal", 20, 23)
    for columns in (1, 2, 7, 23):
        module, inputs = gradient(form)

        def change(kernel: KernelOp, columns: int = columns) -> None:
            schedule = kernel.schedule
            assert schedule is not None and isinstance(schedule.data, NativeAttentionSchedule)
            kernel.properties["schedule"] = ScheduleAttr(replace(schedule.data, columns=columns))

        _, results = run(module, inputs, target(32), change)
        assert_close(results, plain_results(form), 2e-5)


@pytest.mark.in_turns(3, 2)
@pytest.mark.parametrize("form", EXTREMES, ids=lambda form: form.name)
@pytest.mark.parametrize("width", WIDTHS)
def test_extremes(form: Form, width: int) -> None:
    """Scores of ten thousand, and rows that attend to nothing, which give zeros or the mean of all values."""
    module = outlined(traced(form.function, form.inputs))
    _, results = run(module, form.inputs, target(width))
    assert_close(results, reference(traced(form.function, form.inputs), form.inputs), 1e-5)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["padded-causal", "grouped", "added", "biased"])
def test_every_index_is_inside(name: str) -> None:
    """With bounds checks, a step raises if an index is out of range."""
    form = chosen(name, 37, 70)
    module, inputs = gradient(form)
    _, results = run(module, inputs, target(64, check_bounds=True))
    assert_close(results, plain_results(form), 2e-5)


@pytest.mark.nightly
def test_what_is_hidden_does_not_count_even_as_nan() -> None:
    """Keys that no query attends to give no NaN to others, and have no cotangent."""
    form = chosen("causal", 24, 70)
    keys, values = (x.copy() for x in form.inputs[1:])
    hidden = np.s_[:, :, -9:]
    mask = np.ones((1, 1, 1, 70), np.bool_)
    mask[..., -9:] = False
    form = replace(form, function=masked, inputs=(form.inputs[0], keys, values, mask))
    clean = run(*gradient(form), target(32))[1]
    keys[hidden] = np.nan
    parts, results = run(*gradient(form), target(32))
    assert parts == {"forward": 1, "backward": 1}
    by_queries, by_keys, by_values = results[-3:]
    np.testing.assert_array_equal(by_keys[hidden], 0)
    np.testing.assert_array_equal(by_values[hidden], 0)
    assert_close([by_keys, by_values], clean[-2:], 1e-6)
    # As everywhere, zero times a key that is NaN is NaN in a product with weights.
    assert np.isnan(by_queries).all()


# The chosen form, and what it saves


def test_when_tiles_pay() -> None:
    """With causal masks if rows are long; otherwise with narrow heads, and if the scores leave the caches."""

    def heads(length: int, features: int, ahead: int | None, groups: int = 8) -> Attention:
        return Attention(groups, length, length, features, features, zeros=True, causal=ahead, period=length)

    assert not pays(heads(16, 32, 0), CPU)  # few scores, whatever the cost
    assert pays(heads(64, 32, 0), CPU) and pays(heads(128, 64, 0), CPU) and pays(heads(1024, 256, 0), CPU)
    assert not pays(heads(64, 32, None), CPU) and not pays(heads(128, 64, None), CPU)
    assert pays(heads(512, 64, None), CPU) and not pays(heads(512, 128, None), CPU)
    assert not pays(heads(1024, 32, None, groups=1), CPU)  # two kernels of the derivative compute scores once more
    assert pays(heads(2048, 256, None), CPU)  # as they would take a hundred megabytes
    assert tiled_cycles(heads(64, 32, 0)) < composed_cycles(heads(64, 32, 0)) < tiled_cycles(heads(64, 32, None))


def test_no_scores_are_stored() -> None:
    """The memory of a step grows linearly with the row length, not quadratically."""

    def peak(length: int) -> int:
        x = tg.spec((1, 2, length, 8), "f32")

        def function(x: tg.Tensor) -> tg.Tensor:
            return tg.grad(lambda x: tg.sum(causal(x, x * 2, x + 1) ** 2))(x)

        jitted = tg.jit(function, device="cpu")
        jitted(np.zeros(x.shape, np.float32))
        return jitted.stats()["peak_bytes"]

    short, long = peak(256), peak(1024)
    assert long < 5 * short
    assert long < 4 * 2 * 1024 * 1024  # of one matrix of scores


# Threads, and bounds checks, in separate processes

PROGRAM = """
import sys
import numpy as np
import tensorgrad as tg
class Model(tg.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = tg.nn.MultiHeadAttention(24, 3, num_kv_heads=1, causal=True, rotary=1e4)
    def __call__(self, x):
        return self.attention(x)
training = tg.compile(Model(), loss=lambda model, x: tg.mean((model(x) - x) ** 2), optimizer=tg.optim.adam(1e-2),
                      inputs={{"x": (3, 65, 24)}}, device="cpu")
assert "native_attention" in training.module("buf")
x = np.random.default_rng(0).normal(size=(3, 65, 24)).astype(np.float32)
losses = [float(training.step(x=x)) for _ in range(4)]
np.savez({path!r}, losses=losses, **training.parameters())
"""


def trained(path: Path, **environment: str) -> dict[str, NumpyArray]:
    command = [sys.executable, "-c", PROGRAM.format(path=str(path))]
    subprocess.run(command, env={**os.environ, **environment}, check=True)
    with np.load(path) as saved:
        return dict(saved)


@pytest.mark.nightly
def test_any_number_of_threads_gives_the_same_bits(tmp_path: Path) -> None:
    alone, *others = (trained(tmp_path / f"{count}.npz", TG_NUM_THREADS=str(count)) for count in (1, 2, 4))
    for other in others:
        for name, value in alone.items():
            np.testing.assert_array_equal(other[name], value)
    checked = trained(tmp_path / "checked.npz", TG_DEBUG="bounds")
    np.testing.assert_allclose(checked["losses"], alone["losses"], rtol=1e-4)
