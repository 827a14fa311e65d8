"""Random programs by the generators of others are right, and the judge tells when they aren't."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import drawing
import numpy as np
import pytest
import run
import torch
import torch_programs
import training_judging
import training_programs
from judging import Subject, Verdict, compared, judged, reach_of

import tensorgrad as tg
from tensorgrad.dialects.tg.elementwise.functions import CosOp
from tensorgrad.importers.torch.rules import RULES
from tensorgrad.passes.stablehlo.correspondence import ELEMENTWISE
from tensorgrad.runtime.cpu import CpuExecutable

RUN = Path(run.__file__)

PLACES = ("numpy", "cpu", "wgpu", "onnx", "onnxruntime", "stablehlo")

COMPARED = 4
"""The seed of a program, and of a training, that can be compared everywhere."""

NIGHTLY = {
    "torch": (200, (*PLACES, "xla")),
    "nnsmith": (200, ("numpy", "cpu", "onnx")),
    "jax": (40, ("numpy", "cpu", "wgpu")),
    "trainings": (40, ("numpy", "cpu", "wgpu")),
}
"""The programs of a nightly test by each generator, and where they are judged."""

PARTS = 8
"""How many nightly tests there are of each generator."""


def written(expression: str) -> Subject:
    """Returns a program of one expression of a matrix and a vector."""
    text = f"import torch\n\n\ndef program(x0, x1):\n    return {expression}\n"
    inputs = [((3, 4), torch.float32), ((4,), torch.float32)]
    return Subject(torch_programs.Source(text, f"<{expression}>"), inputs, torch.float32, text)


@pytest.mark.usefixtures("device")
@pytest.mark.in_turns(4)
@pytest.mark.parametrize("place", PLACES)
def test_a_program_is_right(place: str) -> None:
    assert judged(torch_programs.program(COMPARED), COMPARED, place) == Verdict("right")


def test_a_program_is_that_of_its_seed() -> None:
    assert torch_programs.program(3).text == torch_programs.program(3).text != torch_programs.program(4).text


def test_a_wrong_rule_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = written("(torch.sin(x0) + x1).cumsum(-1)")
    assert judged(subject, 0, "numpy").kind == "right"
    monkeypatch.setitem(RULES, "aten.sin", replace(RULES["aten.sin"], function=lambda self: tg.sin(self) * 1.0001))
    verdict = judged(subject, 0, "numpy")
    assert verdict.kind == "wrong" and "gradient of values.0" in verdict.reason


def test_a_wrong_derivative_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_derivative(self: tg.Tensor) -> tg.Tensor:
        return tg.stop_gradient(tg.sin(self))

    monkeypatch.setitem(RULES, "aten.sin", replace(RULES["aten.sin"], function=without_derivative))
    verdict = judged(written("torch.sin(x0) * x1"), 0, "numpy")
    assert verdict.kind == "wrong" and verdict.reason.startswith("gradient of values.0")


def test_native_code_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    original = CpuExecutable.__init__

    def noted(self: CpuExecutable, program: Any, *args: Any, **kwargs: Any) -> None:
        sizes.append(len(program.kernels))
        original(self, program, *args, **kwargs)

    monkeypatch.setattr(CpuExecutable, "__init__", noted)
    assert judged(written("torch.sin(x0) * x1"), 0, "cpu") == Verdict("right")
    assert len(sizes) == 1 and sizes[0] > 0


@pytest.mark.nightly
def test_a_wrong_rule_for_jax_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    programs, judging = map(import_module, ("jax_programs", "jax_judging"))
    text = f"{programs.LANGUAGE.prelude}\ndef program(x):\n    return jnp.sin(x) * x\n"
    subject = judging.JaxProgram(drawing.function(text, "<sine>"), [((3, 4), "float32")], text)
    assert judging.judged(subject, 0, "numpy").kind == "right"
    monkeypatch.setitem(ELEMENTWISE, "stablehlo.sine", CosOp)
    assert judging.judged(subject, 0, "numpy").kind == "wrong"


def test_a_training_is_what_a_plain_one_is() -> None:
    assert training_judging.judged(training_programs.program(COMPARED), COMPARED, "cpu") == Verdict("right")


def test_a_wrong_eager_training_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = next(program for program in map(training_programs.program, range(100)) if program.scope["EAGER"])
    assert training_judging.judged(subject, 0, "numpy").kind == "right"
    monkeypatch.setattr(tg.optim.Stepper, "zero_grad", lambda self: None)
    assert training_judging.judged(subject, 0, "numpy").kind == "wrong"


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("torch.log(-torch.exp(x0)) + x1", "not finite"),
        ("torch.sin(x0 * 1e9) + x1", "it amplifies rounding"),
        ("(x0 - x0 * (1 + x1) / (1 + x1) > 0) + x1", "it amplifies rounding"),
        ("torch.sign(torch.fft.fft(x0).imag.sum(-1, keepdim=True)) + x1", "it amplifies rounding"),
    ],
)
def test_what_can_t_be_compared_is_discarded(expression: str, reason: str) -> None:
    verdict = judged(written(expression), 0, "numpy")
    assert (verdict.kind, verdict.reason) == ("discarded", reason)


def test_a_result_that_other_roundings_make_nan_is_discarded() -> None:
    reach = reach_of([{"x": np.ones(2)}, {"x": np.array([1.0, np.nan])}, {"x": np.ones(2)}], {"x": np.ones(2)})
    verdict = compared(lambda: {"x": np.ones(2)}, {"x": np.ones(2)}, reach, 1e-7)
    assert verdict == Verdict("discarded", "it amplifies rounding")


@pytest.mark.parametrize("expression", ["x0.amax(-1)", "x0.amin() + x1", "torch.max(x0) * x1"])
def test_extremes_are_compared(expression: str) -> None:
    assert judged(written(expression), 0, "numpy") == Verdict("right")


@pytest.mark.parametrize("place", ["numpy", "cpu"])
def test_the_rounding_of_a_mean_counts_as_others(place: str) -> None:
    """A norm of equal numbers divides it by the root of the norm's epsilon."""
    expression = "torch.nn.functional.group_norm(10 * x0[:, :1].repeat(1, 15), 1) * x1[:1]"
    assert judged(written(expression), 0, place) == Verdict("right")


@pytest.mark.parametrize("place", ["numpy", "cpu"])
def test_running_sums_near_zero_count_as_rounded(place: str) -> None:
    """PyTorch adds them in f64, so that the rounding of the result alone says nothing of what it may be off."""
    text = "import torch\n\n\ndef program(x0, x1):\n    return torch.cumsum(x0, -1).reciprocal() * x1\n"
    inputs = [((8, 64), torch.float32), ((1,), torch.float32)]
    subject = Subject(torch_programs.Source(text, "<running sums>"), inputs, torch.float32, text)
    assert judged(subject, 2, place) == Verdict("right")


def test_memory_that_is_still_to_be_written_is_not_judged() -> None:
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)  # new memory is NaN
    try:
        assert judged(written("x0.new_empty((3, 4)).copy_(x0) + x1"), 0, "numpy") == Verdict("right")
    finally:
        torch.use_deterministic_algorithms(before)


def test_what_is_unsupported_is_refused_by_name() -> None:
    verdict = judged(written("torch.special.zeta(x0.detach().abs() + 2, x1.detach().abs() + 1) + x0"), 0, "numpy")
    assert verdict.kind == "refused" and "aten.special_zeta" in verdict.reason


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("generator", NIGHTLY)
def test_many_programs_are_right(generator: str, part: int) -> None:
    count, places = NIGHTLY[generator]
    first = ["--first", str(count * part), "--count", str(count), "--on", ",".join(places)]
    process = subprocess.run([sys.executable, RUN, generator, *first], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout


@pytest.mark.nightly
def test_a_program_that_does_not_end_has_failed_and_others_are_judged() -> None:
    judge = run.Judge("torch", limit=0)
    try:
        outcome = judge.judged(COMPARED, "numpy")
        assert outcome == ("failed", "it didn't end in 0 seconds", torch_programs.program(COMPARED).text)
        judge.process.kill()
        assert judge.judged(COMPARED, "numpy") == ("failed", "it ended the process, with status -9", "")
        judge.limit = 300
        assert judge.judged(COMPARED, "numpy").kind == "right"
    finally:
        judge.close()
