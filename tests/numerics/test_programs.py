"""Random programs: every level computes what the reference does, and gradients are those of the values."""

from __future__ import annotations

import numpy as np
from differences import extrapolated
from harness import assert_same, levels, reference, traced, with_gradient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from programs import Program, programs

NIGHTLY = 1000
"""The examples of the nightly profile; a change is tested with fewer than its profile's: each runs every pass."""

examples = settings.get_profile(settings.get_current_profile_name()).max_examples
random_programs = settings(
    max_examples=examples if examples >= NIGHTLY else 80,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@given(programs(), st.integers(0, 3))
@random_programs
def test_levels_agree(program: Program, seed: int) -> None:
    inputs = program.samples(seed)
    module = with_gradient(traced(program.function, inputs), range(len(inputs)))
    (_, expected), *rest = levels(module, inputs)
    for level, results in rest:
        for actual, wanted in zip(results, expected, strict=True):
            assert_same(actual, wanted, 1e-10, level)


@given(programs(), st.integers(0, 3))
@random_programs
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
        return  # A kink, or a step, lies within reach of the differences.
    stopped = any(step.name == "stopped" for step in program.steps)
    slope = sum(float(np.sum(g * d)) for g, d in zip(gradients, directions, strict=True))
    assert stopped or abs(slope - fine) <= 1e-6 * max(1.0, abs(fine))
