"""Parsing of passes and pipelines, and the driver's errors for bad input."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tensorgrad.passes.buffers.fuse import FusePass
from tensorgrad.passes.buffers.lower_precision import LowerPrecisionPass
from tensorgrad.passes.levels import Effect, effect_of
from tensorgrad.passes.pipelines import (
    FIRST,
    InferencePipeline,
    Phase,
    TrainingPipeline,
    device_passes,
    inference_passes,
    read_passes,
    start_of,
    tensor_passes,
    training_passes,
    until,
)
from tensorgrad.passes.tensors.append_updates import AppendUpdatesPass
from tensorgrad.passes.tensors.grad import GradPass
from tensorgrad.passes.tensors.pack_updates import PackUpdatesPass
from tensorgrad.runtime.target import CPU, WEBGPU_DEFAULT, Target
from tensorgrad.tools.tg_opt import main
from tensorgrad.tools.trace_optimizer import TraceOptimizerPass
from tensorgrad.tools.universe import TENSORGRAD_UNIVERSE

AVAILABLE = TENSORGRAD_UNIVERSE.all_passes


@pytest.mark.parametrize("text", ["8", '"8"', "8.0", "0.8e1"])
def test_floats_are_written_as_anywhere_else(text: str) -> None:
    (pass_,) = read_passes(f"lower-precision{{scale={text}}}")
    assert pass_ == LowerPrecisionPass(scale=8.0)
    assert isinstance(pass_, LowerPrecisionPass)
    assert isinstance(pass_.scale, float)


def test_a_bare_flag_is_true() -> None:
    assert read_passes("fuse{all-prologues}") == (FusePass(all_prologues=True),)


def test_integers_stay_integers() -> None:
    assert read_passes("grad{wrt=0,1}") == (GradPass(wrt=(0, 1)),)


@pytest.mark.parametrize(
    "text",
    [
        "lower-precision{scale=small}",
        "lower-precision{scale=true}",
        "lower-precision{scale}",
        "lower-precision{scale=1,2}",
        "grad{wrt=0.5}",
        "fuse{all-prologues=1}",
        "trace-optimizer{optimizer=1}",
        "training-pipeline{optimizer=adam,sgd}",
    ],
)
def test_wrong_types_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=text.split("{")[0]):
        read_passes(text, AVAILABLE)


def test_pipelines_run_the_passes_of_the_python_api() -> None:
    optimizer = TraceOptimizerPass("adam(eps=1e-7)", "f")
    text = 'training-pipeline{function=f optimizer="adam(eps=1e-7)" target=lavapipe}'
    assert list(read_passes(text, AVAILABLE)) == training_passes("f", optimizer, Target.named("lavapipe"))
    target = Target.named("lavapipe")
    assert training_passes("f", optimizer, target) == [
        optimizer,
        *tensor_passes("f", [PackUpdatesPass("f"), AppendUpdatesPass("f")], target=target),
        *device_passes(target),
    ]
    assert TrainingPipeline(optimizer, "f", Target.named("lavapipe")).expand() == read_passes(text, AVAILABLE)
    assert list(InferencePipeline(Target.named("lavapipe")).expand()) == inference_passes(Target.named("lavapipe"))


@pytest.mark.parametrize("target", [WEBGPU_DEFAULT, CPU])
def test_phases_follow_each_other(target: Target) -> None:
    passes = training_passes("f", TraceOptimizerPass("adam", "f"), target)
    starts = {phase: start_of(phase, passes) for phase in FIRST}
    assert list(starts.values()) == sorted(set(starts.values()))
    assert all(passes[start].name in FIRST[phase] for phase, start in starts.items())
    assert list(until(Phase.TENSORS, passes))[-1] == AppendUpdatesPass("f")
    assert list(until(Phase.DEVICE, passes))[-1].name == ("plan-memory" if target.native else "cut-grids")


def test_a_phase_that_is_left_out_ends_where_the_next_begins() -> None:
    passes = [pass_ for pass_ in device_passes() if pass_.name != "schedule"]
    assert start_of(Phase.SCHEDULED, passes) == start_of(Phase.DEVICE, passes) < len(passes)
    tensors = tensor_passes("f", [])
    assert start_of(Phase.BUFFERS, tensors) == len(tensors) and until(Phase.DEVICE, tensors) == tensors


def test_passes_declare_how_they_change_values() -> None:
    passes = training_passes("f", TraceOptimizerPass("adam", "f"), CPU, LowerPrecisionPass())
    assert {pass_.name: effect_of(pass_) for pass_ in passes if effect_of(pass_) != Effect()} == {
        "grad": Effect(differentiated=0),
        "append-updates": Effect(adds_updates=True),
        "lower-precision": Effect(rounds=2.0**-11),
    }


def test_bad_input_gives_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "f.mlir"
    path.write_text("func.func @f(", encoding="utf-8")
    assert main([str(path)]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("tg-opt: error: ")
    assert "Traceback" not in output.err


@pytest.mark.nightly
def test_a_reader_that_stops_early_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "f.mlir"
    path.write_text("".join(f"func.func private @f{i}()\n" for i in range(5000)), encoding="utf-8")
    command = [sys.executable, "-m", "tensorgrad.tools.tg_opt", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""


def test_the_driver_starts_without_what_it_does_not_need() -> None:
    probe = (
        "import sys; from tensorgrad.tools.tg_opt import TgOpt; TgOpt(['-']); "
        "print(*sorted({'numpy', 'wgpu', 'safetensors', 'tensorgrad.dialects.tg'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []
