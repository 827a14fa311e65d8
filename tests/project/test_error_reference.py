"""Errors and warnings that users may see: each is provoked and compared with its section in the reference."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import models
import numpy as np
import pytest
from layers import FOLDERS, ROOT
from models import MLP, batch, compiled
from wgpu.backends.wgpu_native import lib
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

import tensorgrad as tg
from tensorgrad import errors
from tensorgrad.checks.nonfinite import _Found
from tensorgrad.dialects.tg.base import ElementException
from tensorgrad.errors import TensorgradError, UserError
from tensorgrad.passes.codegen.transforms.building import Entangled
from tensorgrad.passes.codegen.transforms.failure import DoesNotFit
from tensorgrad.passes.codegen.wgsl.emit_wgsl import EmitError
from tensorgrad.passes.stablehlo.importing.reader import Unsupported
from tensorgrad.runtime.formula import Formula
from tensorgrad.runtime.schema import SchemaError
from tensorgrad.runtime.webgpu import WebGPUDevice
from tensorgrad.runtime.webgpu.encoding import NoHandleError
from tensorgrad.tools.tg_opt import TgOpt

untyped: Any = tg
"""The package as code without types calls it."""

HERE = re.escape(__file__) + r":\d+: "
"""The user's line, which is one of this file."""

MODELS = re.escape(str(Path(models.__file__))) + r":\d+: "

BASES = {TensorgradError, UserError}
"""Base classes, which are caught but never raised themselves."""

INTERNAL = {
    NoHandleError: "encoding falls back on wgpu-py's methods, and profiling says so by a DeviceError",
    Unsupported: "reading StableHLO lists what its ops raise, and raises one error of all",
    ElementException: "the tracer says it as a DTypeError",
    DoesNotFit: "`tile` says which step of a recipe doesn't fit which kernel, in a DiagnosticException",
    Entangled: "an operand is loaded at a computed index instead",
    SchemaError: "who reads a file raises their own error of it, mostly a ProgramError",
    _Found: "ends the run of NonfiniteSearch, which takes what it has",
}
"""Exceptions that are always caught, by what catches them."""

DIVERGED = {**batch(), "x": np.full((4, 3), np.nan, np.float32)}

TWICE = """
func.func @f(%x: memref<8xf32> {tg.name = "x", tg.role = "input"},
             %y: memref<10xf32> {tg.name = "y", tg.role = "output"}) {
  buf.kernel grid = [8] ins(%x : memref<8xf32>) outs(%y : memref<10xf32>) {
  ^bb0(%a: memref<8xf32>, %b: memref<10xf32>):
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ((d0 mod 4) * 3)>],
                    iterator_types = ["parallel"]} ins(%a : memref<8xf32>) outs(%b : memref<10xf32>) {
    ^bb0(%v: f32, %w: f32):
      linalg.yield %v : f32
    }
  }
  func.return
}
"""

NO_WGSL = """
wgsl.kernel @k workgroup_size = [1, 1, 1] access = ["read_write"] {
^bb0(%x: memref<1xf32>):
  %i = arith.constant 0 : index
  %a = memref.load %x[%i] : memref<1xf32>
  %b = math.erf %a : f32
  memref.store %b, %x[%i] : memref<1xf32>
}
"""


class CrashPass(ModulePass):
    """A user-defined pass that crashes."""

    name = "crash"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise KeyError(op.name)


class SwapPass(ModulePass):
    """A user-defined pass that changes values."""

    name = "swap"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for one in op.walk():
            if one.name == "tg.sub":
                one.operands = one.operands[::-1]


class Spare(tg.nn.Module):
    """A model with an unused layer."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.spare = MLP(3, 2), tg.nn.Linear(2, 2, bias=False)

    def __call__(self, x: Any) -> Any:
        return self.body(x)


@dataclass(frozen=True)
class Mistake:
    """A user's mistake, and the resulting message.

    Attributes:
        make: Does it, in a folder of its own.
        message: The whole message, as a regular expression.
    """

    make: Callable[[], object]
    message: str


def tg_opt(text: str, *arguments: str) -> None:
    """Runs `tg-opt` on a text."""
    Path("given.mlir").write_text(text, encoding="utf-8")
    TgOpt(["given.mlir", *arguments]).run()


def load_a_text() -> object:
    Path("notes.txt").write_text("no program", encoding="utf-8")
    return tg.load("notes.txt")


def compile_with(variable: str, value: str) -> object:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(variable, value)
        return compiled(device="cpu")


def compile_without(module: str) -> object:
    with pytest.MonkeyPatch.context() as environment:
        environment.setitem(sys.modules, module, None)
        return compiled(device="wgpu")


def lose_the_device(**options: Any) -> object:
    """Destroys the device between two steps, as a driver reset would."""
    with pytest.MonkeyPatch.context() as own:
        own.setattr(WebGPUDevice, "_by_request", {})
        own.setattr(WebGPUDevice, "_by_adapter", {})
        training = compiled(device="wgpu", **options)
        training.step(**batch())
        native: Any = lib
        native.wgpuDeviceDestroy(WebGPUDevice().wgpu_device._internal)
        return float(training.step(**batch()))


def freeze_after_compile() -> object:
    model = MLP(3, 2)
    training = compiled(model=model)
    model.layers[0].freeze()
    return training.step(**batch())


def load_parameters_alone() -> None:
    training = compiled(model=tg.nn.Sequential(tg.nn.Linear(3, 2), tg.nn.BatchNorm1d(2)))
    training.load_parameters(training.parameters())


MISTAKES: dict[type[BaseException], Mistake] = {
    errors.InputError: Mistake(
        lambda: compiled().step(**{**batch(), "y": np.zeros((4, 1))}),
        HERE + r"input 'y' has shape \(4, 1\), expected \(4, 2\)",
    ),
    errors.ShapeError: Mistake(
        lambda: tg.ones((2, 3)) + tg.ones(4),
        HERE + r"add: shapes \(2, 3\) and \(4,\) do not broadcast",
    ),
    errors.AxisError: Mistake(
        lambda: tg.sum(tg.ones(2, 3), 2),
        HERE + "sum: axis 2 is out of range for a tensor of 2 axes",
    ),
    errors.IndexingError: Mistake(
        lambda: tg.ones(2, 3)[2, 0],
        HERE + r"index 2 is out of range for axis 0 of \(2, 3\)",
    ),
    errors.DTypeError: Mistake(
        lambda: tg.concat([tg.ones(2, "i32"), tg.ones(2, "u64")]),
        HERE + "concat: i32 and u64 have no common type; cast one of them",
    ),
    errors.ArgumentError: Mistake(
        lambda: untyped.nn.LayerNorm(3, epsilon=1e-5),
        HERE
        + r"LayerNorm\(\) has no argument 'epsilon'; did you mean eps\?; it takes \(normalized_shape, eps=1e-05, .*\)",
    ),
    errors.UnknownNameError: Mistake(
        lambda: untyped.softmx,
        r"module 'tensorgrad' has no attribute 'softmx'; did you mean softmax\?",
    ),
    errors.OptionError: Mistake(
        lambda: compiled(device="cuda"),
        MODELS + "device must be one of auto, wgpu, cpu, numpy, not 'cuda'; the nearest is 'wgpu'",
    ),
    errors.ParameterError: Mistake(
        lambda: tg.nn.Linear(3, 2)(np.ones((1, 3), np.float32)),
        HERE
        + r"parameter f32\[3, 2\] has no values: parameters are declared at construction and drawn by tg\.compile; "
        r"use them in a compiled loss or forward function, through the model that it is given, or call "
        r"model\.initialized\(seed\)",
    ),
    errors.TraceError: Mistake(
        lambda: tg.jit(lambda x: x if x > 0 else -x)(1.0),
        HERE + r"Python control flow \(if, while, and, or, not\) needs the numbers of a traced tensor of shape \(\), "
        r"which exist only when the program runs; use tg\.where to choose between values, tg\.cond or "
        r"tg\.while_loop to choose what runs",
    ),
    errors.GradientError: Mistake(
        lambda: tg.tensor([1.0], device="numpy", requires_grad=True).add_(1),
        HERE + r"add_: a leaf requires a gradient, so that it can't be changed in place; inside tg\.no_grad\(\) it can",
    ),
    errors.DivergenceError: Mistake(
        lambda: tg.fit(compiled(), [DIVERGED], steps=1, on_nan="raise"),
        HERE + "fit: the loss was nan at step 1; there is no checkpoint",
    ),
    errors.ProgramError: Mistake(
        load_a_text,
        r"notes\.txt is not a safetensors file of arrays: .+",
    ),
    errors.TargetError: Mistake(
        lambda: compiled().program_for("geforce"),
        r"target 'geforce' is not a profile \(cpu, lavapipe, webgpu-default\), no inline JSON, and no file that can be "
        r"read: \[Errno 2\] No such file or directory: 'geforce'",
    ),
    errors.FormulaError: Mistake(
        lambda: Formula("learning_rate / open(step)"),
        r"formula 'learning_rate / open\(step\)': 'open\(step\)' is not allowed; a formula has numbers, names, "
        r"\+ - \* / \*\*, comparisons, 'a if c else b' and the functions min, max, sqrt, cos, exp, floor",
    ),
    errors.DeviceError: Mistake(
        lambda: compile_with("TG_NUM_THREADS", "many"),
        "TG_NUM_THREADS must be a positive integer, got 'many'",
    ),
    errors.DeviceLostError: Mistake(
        lose_the_device,
        r"running 'squared_error', in which kernel '\w+' \(\S*models\.py:\d+\) has the most to do: .*lost.*\n"
        r"the device was lost, and all that it held: compile again and load a checkpoint; with "
        r"on_device_lost='restart', a program resumes by itself",
    ),
    errors.DeviceLostWarning: Mistake(
        lambda: lose_the_device(on_device_lost="restart"),
        r"the device was lost: running 'squared_error', .*lost\. The program continues on .+: from its last snapshot 1 "
        r"steps were repeated, and none is lost",
    ),
    errors.GroupError: Mistake(
        lambda: tg.distributed.simulate(2, lambda group: group.rank == 1 and group.barrier()),
        "rank 1 of 2 waited in barrier, but rank 0 returned",
    ),
    errors.NoAdapterError: Mistake(
        lambda: compile_without("tensorgrad.runtime.webgpu"),
        r"device 'wgpu' needs the package wgpu: pip install wgpu \(import of tensorgrad\.runtime\.webgpu halted; .*\)",
    ),
    errors.CompilerError: Mistake(
        lambda: compiled(edit_passes=lambda passes: [CrashPass(), *passes]),
        r"crash crashed at test_error_reference\.py:\d+, in apply: KeyError: 'builtin\.module'; the module before it "
        r"is in \S*crash-\w+\.mlir, whose first line says how to run it again",
    ),
    errors.NumericsError: Mistake(
        lambda: compiled(verify=True, edit_passes=lambda passes: [*passes, SwapPass()]),
        r"swap changes update/layers\.0\.weight, which is computed at \S+: 15 of 15 elements, the first at \[0, 0\], "
        r"is \S+ and was \S+; \S+ is allowed; the module before it is in \S*swap-\w+\.mlir, whose first line says "
        r"how to run it again",
    ),
    errors.ExecutionError: Mistake(
        lambda: tg_opt(TWICE, "--verify-numerics-each", "-p", "simplify"),
        r"linalg\.generic: several points write one element through \(d0\) -> \(\(\(d0 mod 4\) \* 3\)\)",
    ),
    EmitError: Mistake(
        lambda: tg_opt(NO_WGSL, "-t", "wgsl"),
        r"math\.erf at .*: no WGSL for this op; the pass that lowers it has not run",
    ),
    errors.UnusedParameterWarning: Mistake(
        lambda: compiled(model=Spare()),
        MODELS + r"squared_error\(\) does not depend on the parameter 'spare\.weight', which is to be trained",
    ),
    errors.BroadcastWarning: Mistake(
        lambda: tg.jit(lambda x, y: x @ np.ones((3, 1), np.float32) - y, device="numpy")(np.ones((4, 3)), np.ones(4)),
        HERE + r"sub in .*\(\) broadcasts the shapes \(4, 1\) and \(4,\) to \(4, 4\), all pairs of their elements: .*",
    ),
    errors.PaddingWarning: Mistake(
        lambda: compiled(
            model=tg.nn.Linear(4, 4),
            inputs=dict.fromkeys("xy", (tg.dim("rows", at_most=4, buckets=(4,), padding=0), 4)),
        ),
        MODELS + r"padded positions reach the loss of squared_error\(\) through tg\.sum: they have no effect where .*",
    ),
    errors.EmptyAxisWarning: Mistake(
        lambda: tg.var(tg.ones((1, 2)), 0, correction=1),
        HERE + r"var: axes \[0\] of \(1, 2\) are too short for correction 1; the result is not finite",
    ),
    errors.RepeatedDrawWarning: Mistake(
        lambda: tg.jit(lambda x: x * np.random.normal(), device="numpy")(1.0),
        HERE + r"the global generator of numpy\.random moved while lambda\S*\(\) was traced, which happens once: .+",
    ),
    errors.FrozenWarning: Mistake(
        freeze_after_compile,
        HERE + r"whether layers\.0\.weight, layers\.0\.bias is frozen is as it was at tg\.compile; replace_model\(\) "
        r"compiles the model as it is, and keeps what fits",
    ),
    errors.PartialStateWarning: Mistake(
        load_parameters_alone,
        HERE
        + r"load_parameters leaves the buffers 1\.running_mean, 1\.running_var, 1\.num_batches_tracked as they are; "
        r"state_dict\(parts='model'\) has parameters and buffers",
    ),
}
"""By class, one way to meet it."""


def exceptions() -> Iterator[type[BaseException]]:
    """Returns every exception and warning that the project defines."""
    for package in FOLDERS.values():
        for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if found.name.startswith("tensorgrad.lab.chapters."):
                continue  # notebooks, which take long to import here: marimo reads the whole stack
            for value in list(vars(importlib.import_module(found.name)).values()):
                if isinstance(value, type) and issubclass(value, BaseException) and value.__module__ == found.name:
                    yield value


CLASSES = sorted({one for one in exceptions() if one not in INTERNAL}, key=lambda one: one.__name__)


def named(kind: type[BaseException]) -> str:
    return kind.__name__


def test_they_have_one_base() -> None:
    """So that one `except` catches all errors, and one filter all warnings."""
    assert [one for one in CLASSES if not issubclass(one, TensorgradError | UserWarning)] == []


def test_what_can_be_caught_is_exported() -> None:
    """Except those that need xDSL, which `tensorgrad.errors` doesn't import."""
    assert {one.__name__ for one in CLASSES} - set(errors.__all__) == {"EmitError"}


def test_each_has_a_mistake() -> None:
    assert set(CLASSES) - BASES == set(MISTAKES)


@pytest.mark.parametrize("kind", MISTAKES, ids=named)
def test_its_text(kind: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with warnings.catch_warnings(), pytest.raises(kind) as caught:
        warnings.simplefilter("error")
        MISTAKES[kind].make()
    assert caught.type is kind
    assert re.fullmatch(MISTAKES[kind].message, str(caught.value), re.DOTALL), str(caught.value)
    if issubclass(kind, UserError):
        assert MISTAKES[kind].message.startswith((HERE, MODELS)), "it names the user's line"


# ------------------------------------------------------------------------------------------------ the reference pages

SECTIONS = {
    name: text
    for page in ("errors.md", "warnings.md")
    for name, text in re.findall(
        r"^##+ (\w+)\n(.*?)(?=^##|\Z)",
        (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
}
"""The pages' sections of one word, by class."""


def test_the_pages_have_a_section_for_each() -> None:
    assert SECTIONS.keys() == {one.__name__ for one in CLASSES}


@pytest.mark.parametrize("kind", CLASSES, ids=named)
def test_its_section(kind: type[BaseException]) -> None:
    """It has the base classes, the cause, the remedy, and a message; `test_docs` runs the example that prints it."""
    text = SECTIONS[kind.__name__]
    also = re.search(r"^Also (.*?)\.$", text, re.MULTILINE)
    bases = {one.__name__ for one in kind.__mro__[1:-2] if one not in BASES} - {"Exception", "Warning", "UserWarning"}
    assert set(re.findall(r"`(\w+)`", also[1]) if also else ()) == bases
    assert "**Cause.** " in text and "**Remedy.** " in text
    assert re.findall(r"<!-- output -->\n```text\n(\w+): ", text) == ([] if kind in BASES else [kind.__name__])
