"""Guarded loads at constant positions: every pair of rearrangements, and random chains, on a device and in numpy."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

import numpy as np
import pytest
from case_programs import on_device
from guards import ENDS, MOVES, Chain, chains
from harness import reference, traced
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import tensorgrad as tg
from tensorgrad.runtime.webgpu import WebGPUDevice
from tensorgrad.tracing.tensor import Tensor

X = np.array([0.5, -1.25, 2.0], np.float32)
FORMS: dict[str, Callable[[Callable[[Tensor], Tensor]], Callable[..., Any]]] = {
    "value": lambda function: function,
    "gradient": lambda function: tg.value_and_grad(lambda x: tg.sum(tg.sin(function(x)))),
    "hessian": lambda function: tg.hessian(lambda x: tg.sum(tg.sin(function(x)))),
}
CHANGE, NIGHTLY = 10, 3000


def check(function: Callable[..., Any], device: WebGPUDevice, x: np.ndarray[Any, Any] = X) -> None:
    """Checks that a device's results equal the reference's."""
    expected = reference(traced(function, [x]), [x])
    for result, correct in zip(on_device(device, traced(function, [x]), [x]), expected, strict=True):
        assert result.shape == correct.shape
        np.testing.assert_allclose(result, correct, rtol=3e-5, atol=3e-5)


@pytest.mark.nightly
@pytest.mark.parametrize("first", MOVES)
def test_every_pair_of_moves(first: str, device: WebGPUDevice) -> None:
    def function(x: Tensor) -> Any:
        outcomes: list[Any] = []
        for number, (second, ask) in enumerate(zip(MOVES, cycle(ENDS.values()), strict=False)):
            moved = Chain(((first, 1), (second, 2)), ("all", 0))(x)
            outcomes += [moved[0], moved[-1], ask(moved, number)]
        return tuple(outcomes)

    check(function, device)


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("end", [end for end in ENDS if end != "all"])
def test_every_element(end: str, device: WebGPUDevice) -> None:
    def function(x: Tensor) -> Any:
        moved = [move(x, 1) for move in MOVES.values()]
        return tuple(ENDS[end](tensor, k) for tensor in moved for k in range(tensor.shape[0]))

    check(function, device)


@pytest.mark.nightly
@pytest.mark.parametrize("end", ["from the end", "tail"])
def test_gradients(end: str, device: WebGPUDevice) -> None:
    def function(x: Tensor) -> Any:
        return tuple(FORMS["gradient"](Chain(((move, 1),), (end, 0)))(x)[1] for move in MOVES)

    check(function, device)


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("move", ["concat", "pad", "roll", "scatter"])
def test_hessians(move: str, device: WebGPUDevice) -> None:
    check(FORMS["hessian"](Chain(((move, 1), ("square", 0)), ("tail", 1))), device)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tg.concat([x, x])[-1],
        lambda x: tg.concat([x, x * 2.0])[4],
        lambda x: tg.sum(tg.concat([x, x * 2.0])[5:]),
        lambda x: tg.flip(tg.concat([x, x]), 0)[1],
        lambda x: tg.roll(tg.concat([x, x]), 1)[0],
        lambda x: tg.pad(tg.concat([x, x]), 1)[-2],
        lambda x: x.at[-1].get(),
    ],
)
def test_one_element(function: Callable[[Tensor], Any], device: WebGPUDevice) -> None:
    check(function, device)


def check_chains(count: int, device: WebGPUDevice) -> None:
    @given(chains(), st.sampled_from(("value", "value", "gradient", "hessian")), st.integers(1, 4))
    @settings(
        max_examples=count,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=[HealthCheck.too_slow],
    )
    def check_chain(chain: Chain, form: str, extent: int) -> None:
        check(FORMS[form](chain), device, np.linspace(-1.0, 1.5, extent, dtype=np.float32))

    check_chain()


@pytest.mark.nightly
def test_chains(device: WebGPUDevice) -> None:
    check_chains(CHANGE, device)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_many_chains(device: WebGPUDevice) -> None:
    check_chains(NIGHTLY, device)
