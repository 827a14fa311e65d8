"""Random programs: every level and a device agree with the reference, and gradients with central differences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import replay
from differences import extrapolated
from harness import apply, reference, traced, with_gradient
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from programs import FEWEST_OPS, MOST_OPS, Program, Step, ops_in, programs
from replay import REGRESSIONS, Variant, check_everywhere, replayed
from xdsl.dialects.builtin import ModuleOp

import tensorgrad as tg
from tensorgrad.dialects.functions import find_function
from tensorgrad.passes.tensors.grad import GradPass
from tensorgrad.runtime.webgpu import WebGPUDevice
from tensorgrad.tracing.tensor import Tensor

CHANGE, NIGHTLY = 3, 2000
"""The number of programs for every change, and for `make nightly`."""

PARTS = 8
"""The nightly programs are that many tests, which run side by side."""

MOST_DISCARDED = 0.2
"""The maximum fraction of programs that are too close to a discontinuity to compare."""

variants = st.builds(
    Variant,
    seed=st.integers(0, 3),
    frugal=st.sampled_from((False, False, True)),
    schedules=st.sampled_from((0, 0, 1, 2)),
    target=st.sampled_from(("lavapipe", "webgpu-default")),
    half=st.sampled_from((False, False, True)),
)


def some(count: int) -> settings:
    # A failure is kept as IR; nothing is explained by running variations of it.
    phases = [Phase.explicit, Phase.generate, Phase.shrink]
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(max_examples=count, phases=phases, suppress_health_check=checks)


def differentiated(program: Program) -> ModuleOp:
    """Returns the program's results in f32, followed by the gradients of the first."""
    module = traced(program.function, [np.asarray(x, np.float32) for x in program.samples(0)])
    apply(GradPass(wrt=tuple(range(len(program.inputs)))), module)
    # Without their roles the gradients are results like all others, which a device gives back.
    del find_function(module, None).properties["res_attrs"]
    return module


def check_random_programs(count: int, device: WebGPUDevice) -> None:
    compared: list[bool] = []

    @given(programs(), variants)
    @some(count)
    def check(program: Program, variant: Variant) -> None:
        assert FEWEST_OPS <= ops_in(program) <= MOST_OPS
        compared.append(check_everywhere(differentiated(program), variant, device))

    check()
    discarded = compared.count(False)
    print(f"{len(compared)} programs, {discarded} of them discarded")
    assert len(compared) >= count // 2
    assert discarded <= MOST_DISCARDED * len(compared), f"{discarded} of {len(compared)} sit too near a jump"


def test_programs_agree(device: WebGPUDevice) -> None:
    check_random_programs(CHANGE, device)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("_part", range(PARTS))
def test_many_programs_agree(_part: int, device: WebGPUDevice) -> None:
    check_random_programs(NIGHTLY // PARTS, device)


@pytest.mark.parametrize("path", sorted(REGRESSIONS.glob("*.mlir")), ids=lambda path: path.stem)
def test_what_differed_once_agrees(path: Path, device: WebGPUDevice) -> None:
    assert check_everywhere(*replayed(path), device)


def test_a_program_that_differs_is_kept(device: WebGPUDevice, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = Program(((3,), (3,)), (Step("multiply", (0, 1)), Step("stopped", (2,))))
    module, variant = differentiated(program), Variant(seed=2, frugal=True, schedules=1, target="lavapipe")
    correct = replay.on_device
    monkeypatch.setattr(replay, "REGRESSIONS", tmp_path)
    monkeypatch.setattr(replay, "on_device", lambda *arguments: [x * 1.0001 for x in correct(*arguments)])
    with pytest.raises(AssertionError, match="device"):
        check_everywhere(module, variant, device)
    (path,) = tmp_path.iterdir()
    saved, how = replayed(path)
    assert path.name == "found-device.mlir"
    assert (str(saved), how) == (str(module), variant)


def test_programs_at_a_jump_are_not_compared(device: WebGPUDevice) -> None:
    def at_a_jump(x: Tensor) -> Tensor:
        return tg.where(tg.sin(x) ** 2 + tg.cos(x) ** 2 > 1.0, x, 0.0)

    def near_none(x: Tensor) -> Tensor:
        return tg.where(tg.maximum(x, -x) == tg.abs(x), x, 0.0)

    inputs = [np.ones(20, np.float32)]
    assert not check_everywhere(traced(at_a_jump, inputs), Variant(), device)
    assert check_everywhere(traced(near_none, inputs), Variant(), device)


@given(programs(), st.integers(0, 3))
@some(CHANGE)
def test_gradients_are_slopes(program: Program, seed: int) -> None:
    inputs = program.samples(seed)
    plain = traced(program.function, inputs)
    count = len(reference(plain, inputs))
    gradients = reference(with_gradient(traced(program.function, inputs), range(len(inputs))), inputs)[count:]
    random = np.random.default_rng(seed + 10)
    directions = [np.asarray(random.normal(size=x.shape)) for x in inputs]

    def along(offset: float) -> float:
        moved = [x + offset * direction for x, direction in zip(inputs, directions, strict=True)]
        return float(reference(plain, moved)[0])

    coarse, fine = extrapolated(along), 10 * extrapolated(lambda offset: along(offset * 0.1))
    if abs(coarse - fine) > 1e-8 * max(1.0, abs(fine)):
        return  # A kink or jump is within reach of the differences.
    stopped = any(step.name == "stopped" for step in program.steps)
    slope = sum(float(np.sum(g * d)) for g, d in zip(gradients, directions, strict=True))
    assert stopped or abs(slope - fine) <= 1e-6 * max(1.0, abs(fine))
