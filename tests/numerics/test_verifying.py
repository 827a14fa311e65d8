"""Verification names the pass that changes a value, and reports nothing for correct passes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from case import Case
from cases import CASES
from differences import float_positions, mid_graph, mid_graph_inputs
from harness import specs
from hypothesis import given
from programs import Program, programs
from rounding import parsed
from test_programs import differentiated, some
from xdsl.context import Context
from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

import tensorgrad as tg
from tensorgrad.checks.numerics import NumericsVerifier
from tensorgrad.dialects import buf, cpu, wgsl
from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.tg.elementwise import arithmetic
from tensorgrad.driver.compiling.recipe import passes_on_tensors, passes_to_kernels
from tensorgrad.errors import NumericsError, OptionError
from tensorgrad.passes.analyses import graph
from tensorgrad.passes.analyses.stages import Parts
from tensorgrad.passes.buffers.fuse import fuse_pass
from tensorgrad.passes.buffers.fuse.merge import aligned_loops
from tensorgrad.passes.buffers.plan_memory import plan_memory_pass
from tensorgrad.passes.pipelines import inference_passes
from tensorgrad.runtime.target import CPU, Target
from tensorgrad.tools.tg_opt import main as tg_opt
from tensorgrad.tracing.tracer import trace
from tensorgrad.transforms.grad import value_and_grad

EACH = 120
"""One in this many cases is run for every change; `make nightly` runs all, and as many random programs."""

PLANTED_NIGHTLY = 500


def loss(model: tg.nn.Module, x: tg.Tensor) -> tg.Tensor:
    """A loss with differences, constants, a softmax, and sums long enough to be split."""
    hidden = tg.tanh(model(x)) - 0.25
    return tg.mean(tg.softmax(hidden, axis=-1) * hidden) - tg.mean(tg.exp(hidden) / 3)


def training(device: Any, **options: Any) -> tg.Training:
    """A small training, whose passes are tested."""
    settings = {"optimizer": tg.optim.adam(0.01), "inputs": {"x": (64, 8)}, **options}
    return tg.compile(tg.nn.Linear(8, 8), loss=loss, device=device, **settings)


def verified(module: ModuleOp, passes: list[ModulePass], plant: Callable[[ModuleOp], None], where: int) -> None:
    """Runs passes with a check after each, and corrupts the output of one of them."""
    verifier = NumericsVerifier(module)
    for number, pass_ in enumerate(passes):
        pass_.apply(Context(), module)
        if number == where:
            plant(module)
        verifier.check(pass_, module)


def swap(name: str) -> Callable[[ModuleOp], None]:
    """A bug: the operands of some ops are swapped. A single swap may be the shift that a softmax cancels."""

    def plant(module: ModuleOp) -> None:
        ops = [op for op in module.walk() if op.name == name]
        assert ops
        for op in ops:
            op.operands = list(op.operands)[::-1]

    return plant


def add_for_multiply(module: ModuleOp) -> None:
    """A bug: the last product of a derivative becomes a sum."""
    op = [op for op in find_function(module, "loss").walk() if isinstance(op, arithmetic.MulOp)][-1]
    sum_ = arithmetic.AddOp.create(operands=op.operands, result_types=[op.results[0].type])
    sum_.location = op.location
    assert op.parent is not None
    op.parent.insert_op_before(sum_, op)
    op.results[0].replace_all_uses_with(sum_.results[0])
    op.detach()
    op.erase()


def overlap(module: ModuleOp) -> None:
    """A bug: two temporary values share bytes."""
    views = [op for op in module.walk() if isinstance(op, buf.ViewOp) and "tg.name" not in op.attributes]
    by_arena: dict[Any, list[buf.ViewOp]] = {}
    for view in views:
        by_arena.setdefault(view.arena, []).append(view)
    shared = max(by_arena.values(), key=len)
    first = shared[0].properties["offset"]
    for view in shared[1:]:
        view.properties["offset"] = first


BUGS: dict[str, tuple[str, Callable[[ModuleOp], None]]] = {
    "simplify": ("cpu", swap("tg.sub")),
    "outline-attention": ("cpu", swap("tg.div")),
    "grad": ("cpu", add_for_multiply),
    "append-updates": ("cpu", swap("tg.sub")),
    "inline-calls": ("cpu", swap("tg.div")),
    "recompute": ("cpu", swap("tg.sub")),
    "lower-tg-to-buf": ("cpu", swap("arith.subf")),
    "fuse": ("cpu", swap("arith.divf")),
    "split-reductions": ("cpu", swap("arith.subf")),
    "split-kernels": ("wgpu", swap("arith.subf")),
    "schedule": ("cpu", swap("arith.divf")),
    "plan-memory": ("cpu", overlap),
    "cut-grids": ("wgpu", swap("arith.subf")),
    "lower-buf-to-cpu": ("cpu", swap("arith.subf")),
    "expand-math": ("cpu", swap("arith.subf")),
    "convert-to-llvm": ("cpu", swap("llvm.fsub")),
    "share-dispatches": ("wgpu", swap("arith.subf")),
    "lower-buf-to-wgsl": ("wgpu", swap("arith.subf")),
    "relay-loops": ("wgpu", swap("arith.divf")),
    "keep-ieee": ("wgpu", swap("arith.subf")),
}
"""For each pass a device, and a bug in what the pass leaves."""


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_blamed_on_its_pass(name: str) -> None:
    device, plant = BUGS[name]
    compilation = training(device)._compilation
    passes = passes_to_kernels(compilation.recipe, compilation.choice)
    where = next(number for number, pass_ in enumerate(passes) if pass_.name == name)
    with pytest.raises(NumericsError, match=rf"^{name}\b"):
        verified(compilation.recipe.traced.clone(), passes, plant, where)


def without_barriers(module: ModuleOp) -> None:
    """A bug that software adapters hide: barriers are missing."""
    barriers = [op for op in module.walk() if isinstance(op, wgsl.BarrierOp)]
    assert barriers
    for op in barriers:
        op.detach()
        op.erase()


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["lower-buf-to-wgsl", "relay-loops"])
def test_a_missing_barrier_is_blamed_on_its_pass(name: str) -> None:
    compilation = training("wgpu")._compilation
    passes = passes_to_kernels(compilation.recipe, compilation.choice)
    where = next(number for number, pass_ in enumerate(passes) if pass_.name == name)
    with pytest.raises(NumericsError, match=rf"^{name}: kernel \w+: .* that another invocation uses, with no barrier"):
        verified(compilation.recipe.traced.clone(), passes, without_barriers, where)


def test_a_permuted_epilogue_is_blamed_on_fuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """The grid is square, so only values reveal it."""

    def permuted(first: Parts, second: Parts) -> list[int] | None:
        loops = aligned_loops(first, second)
        return loops and loops[::-1]

    monkeypatch.setattr(fuse_pass, "aligned_loops", permuted)
    module = trace(lambda x, y, z: tg.exp(x @ y) * z, *(tg.spec((8, 8)) for _ in range(3)))
    with pytest.raises(NumericsError, match=r"^fuse changes output/result0"):
        verified(module, list(inference_passes(CPU)), lambda module: None, 0)


UPDATED = """
func.func @f(%w: tensor<8x8xf32> {tg.name = "w", tg.role = "parameter"})
    -> (tensor<8x8xf32> {tg.name = "w", tg.role = "update"}) {
  %t = tg.transpose %w permutation = [1, 0] : tensor<8x8xf32>
  %s = tg.add %w, %t : tensor<8x8xf32>, tensor<8x8xf32>
  func.return %s : tensor<8x8xf32>
}
"""


def test_an_update_over_what_other_points_read_is_blamed_on_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel overwrites a matrix with the sum of the matrix and its transpose."""
    for module in (graph, plan_memory_pass):
        monkeypatch.setattr(module, "writes_in_place", lambda *_: True)
    with pytest.raises(NumericsError, match=r"^plan-memory: the kernel at .* writes result 0 over operand 0"):
        verified(parsed(UPDATED), list(inference_passes(CPU)), lambda module: None, 0)


def test_an_error_names_the_result_its_line_and_the_values() -> None:
    compilation = training("cpu")._compilation
    passes = passes_on_tensors(compilation.recipe, compilation.choice)
    with pytest.raises(NumericsError) as caught:
        verified(compilation.recipe.traced.clone(), passes, swap("tg.sub"), 0)
    line, value = rf"{re.escape(__file__)}:\d+", r"[-\d.e]+"
    start = rf"simplify changes output/loss, which is computed at {line}: 1 of 1 elements, the first at \[\], "
    assert re.match(rf"{start}is {value} and was {value}; {value} is allowed", str(caught.value))


@pytest.mark.nightly
@pytest.mark.parametrize("device", ["cpu", "wgpu"])
@pytest.mark.parametrize("precision", ["f32", "f16"])
def test_a_training_that_is_compiled_rightly(device: str, precision: str) -> None:
    verified_training = training(
        device, verify=True, precision=precision, optimizer=tg.optim.adamw(0.01, clip_norm=1.0)
    )
    x = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)
    plain = training(device, precision=precision, optimizer=tg.optim.adamw(0.01, clip_norm=1.0))
    assert float(verified_training.step(x=x)) == float(plain.step(x=x))


def metrics(model: tg.nn.Module, x: tg.Tensor) -> Any:
    return tg.mean(model(x) ** 2), {"of/half": tg.mean(tg.exp(model(x).astype("f16")).astype("f32"))}


def half(model: tg.nn.Module, x: tg.Tensor) -> tg.Tensor:
    return tg.mean(tg.exp(model(x).astype("f16")).astype("f32"))


@pytest.mark.nightly
@pytest.mark.parametrize(
    "options", [{"accumulate": 2}, {"loss": metrics}, {"loss": half}], ids=["micro", "metric", "half"]
)
def test_other_trainings_that_are_compiled_rightly(options: dict[str, Any]) -> None:
    settings: Any = {"loss": loss, "optimizer": tg.optim.adam(0.01), "inputs": {"x": (64, 8)}, **options}
    tg.compile(tg.nn.Linear(8, 8), device="cpu", verify=True, **settings)


class Wrong(ModulePass):
    """A user-defined pass with a bug."""

    name = "wrong"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        swap("tg.sub")(op)


def test_a_users_pass_leaves_a_file_that_shows_it_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)

    def edit(passes: list[ModulePass]) -> list[ModulePass]:
        return [*passes, Wrong()] if passes[0].name == "simplify" else passes

    with pytest.raises(NumericsError, match="wrong changes output/loss") as caught:
        training("cpu", verify=True, edit_passes=edit)
    (file,) = tmp_path.glob("wrong-*.mlir")
    assert str(file) in str(caught.value)
    assert file.read_text(encoding="utf-8").startswith(f"// tg-opt {file.name} -p 'wrong' --verify-numerics-each")


class ReadsPastTheEnd(ModulePass):
    """Adds a load behind the end of a kernel's first buffer, of a value that nothing uses."""

    name = "reads-past-the-end"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernel = next(kernel for kernel in op.walk() if isinstance(kernel, cpu.KernelOp | wgsl.KernelOp))
        block = kernel.body.block
        buffer = SSAValue.get(block.args[0], type=MemRefType)
        last, *others = (arith.ConstantOp(IntegerAttr(extent, IndexType())) for extent in buffer.type.get_shape())
        load = memref.LoadOp.get(buffer, [last, *others])
        load.location = kernel.location
        Rewriter.insert_op([last, *others, load], InsertPoint.at_start(block))


@pytest.mark.parametrize("device", ["cpu", pytest.param("wgpu", marks=pytest.mark.nightly)])
def test_kernels_are_proved_as_values_do_not_show_all(device: str) -> None:
    def edit(passes: list[ModulePass]) -> list[ModulePass]:
        places = [number for number, pass_ in enumerate(passes) if pass_.name == "expand-math"]
        return [*passes[: places[0] + 1], ReadsPastTheEnd(), *passes[places[0] + 1 :]] if places else passes

    here = re.escape(__file__)
    with pytest.raises(NumericsError, match=rf"bounds: memref.load \({here}:\d+\) may be out of bounds"):
        training(device, verify=True, edit_passes=edit)


def test_the_tool_says_which_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = trace(lambda x: tg.exp(x) - tg.sum(x * 2), tg.spec((8, 4)))
    path = tmp_path / "f.mlir"
    path.write_text(str(module), encoding="utf-8")
    (tmp_path / "passes.py").write_text(
        "from xdsl.passes import ModulePass\n\n\nclass Wrong(ModulePass):\n    name = 'wrong'\n\n"
        "    def apply(self, ctx, op):\n        for one in op.walk():\n            if one.name == 'tg.sub':\n"
        "                one.operands = list(one.operands)[::-1]\n",
        encoding="utf-8",
    )
    command = [str(path), "--verify-numerics-each", "--load", str(tmp_path / "passes.py")]
    assert tg_opt([*command, "-p", "simplify,lower-tg-to-buf,fuse"]) == 0
    assert tg_opt([*command, "-p", "simplify,wrong,lower-tg-to-buf"]) == 1
    assert "tg-opt: error: wrong changes output/result0" in capsys.readouterr().err


def test_the_file_of_a_pass_on_kernels_shows_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    module = trace(lambda x: tg.exp(x) - tg.sum(x * 2), tg.spec((8, 4)))
    (tmp_path / "f.mlir").write_text(str(module), encoding="utf-8")
    (tmp_path / "passes.py").write_text(
        "from xdsl.passes import ModulePass\n\n\nclass Wrong(ModulePass):\n    name = 'wrong'\n\n"
        "    def apply(self, ctx, op):\n        for one in op.walk():\n            if one.name == 'arith.subf':\n"
        "                one.operands = list(one.operands)[::-1]\n",
        encoding="utf-8",
    )
    passes = "lower-tg-to-buf,schedule{target=cpu},plan-memory{target=cpu},lower-buf-to-cpu{target=cpu},wrong"
    command = [str(tmp_path / "f.mlir"), "--load", str(tmp_path / "passes.py"), "--verify-numerics-each"]
    assert tg_opt([*command, "-p", passes]) == 1
    message = "wrong changes output/result0"
    assert message in capsys.readouterr().err
    (file,) = tmp_path.glob("wrong-*.mlir")
    _, _, *again = shlex.split(file.read_text(encoding="utf-8").splitlines()[0])[1:]
    assert tg_opt([str(file), *again]) == 1
    assert message in capsys.readouterr().err


def silent(case: Case, target: Target) -> None:
    """Compiles a case, and its gradient if it has one, with a check after every pass."""
    pairs: list[tuple[Callable[..., Any], list[Any]]] = [(case.function, list(case.inputs))]
    if case.derivative:
        inputs = [np.asarray(x, np.float32) if x.dtype.kind == "f" else x for x in mid_graph_inputs(case)]
        pairs.append((value_and_grad(mid_graph(case.function), argnums=tuple(float_positions(inputs))), inputs))
    for function, inputs in pairs:
        module = trace(function, *specs(inputs))
        names = [f"arg{i}" for i in range(len(inputs))]
        verifier = NumericsVerifier(module, inputs=dict(zip(names, inputs, strict=True)))
        for pass_ in inference_passes(target):
            pass_.apply(Context(), module)
            verifier.check(pass_, module)


@pytest.mark.nightly
@pytest.mark.parametrize("case", CASES[::EACH], ids=lambda case: case.id)
def test_nothing_is_said_of_some_cases(case: Case) -> None:
    silent(case, CPU)


@pytest.mark.nightly
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_nothing_is_said_of_any_case(case: Case) -> None:
    silent(case, CPU)


def check_program(program: Program) -> None:
    module = differentiated(program)
    inputs = {f"x{i}": np.asarray(x, np.float32) for i, x in enumerate(program.samples(0))}
    verifier = NumericsVerifier(module, inputs=inputs)
    for pass_ in inference_passes(CPU):
        pass_.apply(Context(), module)
        verifier.check(pass_, module)


@pytest.mark.nightly
@some(2)
@given(programs())
def test_nothing_is_said_of_some_random_programs(program: Program) -> None:
    check_program(program)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@some(PLANTED_NIGHTLY)
@given(programs())
def test_nothing_is_said_of_random_programs(program: Program) -> None:
    check_program(program)


def test_mistakes() -> None:
    with pytest.raises(OptionError, match="verify must be True or False"):
        training("cpu", verify=1)
