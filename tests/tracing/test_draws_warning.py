"""The warning about numbers of global generators that a compiled function repeats."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.errors import RepeatedDrawWarning

X, Y = np.ones((4, 3), np.float32), np.ones((4, 2), np.float32)


def compiled(loss: Callable[..., Any]) -> tg.Training:
    inputs = {"x": X.shape, "y": Y.shape}
    return tg.compile(tg.nn.Linear(3, 2), loss=loss, optimizer=tg.optim.sgd(0.1), inputs=inputs, device="numpy")


def quiet(model: Any, x: Any, y: Any) -> Any:
    return tg.mse(model(x), y)


DRAWS: dict[str, tuple[Callable[[], float], str]] = {
    "NumPy's": (lambda: float(np.random.uniform()), r"numpy\.random"),
    "Python's": (random.random, "random"),
    "both": (lambda: random.random() + float(np.random.uniform()), r"numpy\.random and of random"),
}


@pytest.mark.parametrize("name", DRAWS)
def test_losses_and_jitted_functions_warn(name: str) -> None:
    draw, modules = DRAWS[name]

    def noisy(model: Any, x: Any, y: Any) -> Any:
        return tg.mse(model(x) + draw(), y)

    pattern = rf"test_draws_warning\.py:\d+: the global generator of {modules} moved while noisy\(\) was traced"
    with pytest.warns(RepeatedDrawWarning, match=pattern) as warned:
        compiled(noisy)
    assert len(warned) == 1 and warned[0].filename == __file__
    function = tg.jit(lambda x: x + draw(), device="numpy")
    with pytest.warns(RepeatedDrawWarning, match=f"of {modules} moved while lambda"):
        first = function(1.0)
    assert float(function(1.0)) == float(first)  # as it says, and without another warning


def test_evaluated_functions_warn() -> None:
    training = compiled(quiet)
    training.step(x=X, y=Y)
    with pytest.warns(RepeatedDrawWarning, match=r"moved while \w+\(\) was traced"):
        training.evaluate(lambda model, x: tg.mean(model(x)) * np.random.uniform(), [{"x": X}])


def test_keys_eager_functions_and_other_generators_do_not() -> None:
    generator = np.random.default_rng(0)

    def noisy(model: Any, x: Any, y: Any, key: Any) -> Any:
        return tg.mse(model(x + tg.random.normal(key, x.shape)) + generator.uniform(), y)

    compiled(noisy).step(x=X, y=Y)
    x = tg.tensor(X, device="numpy")
    assert not np.array_equal(x + np.random.uniform(), x + np.random.uniform())


def test_a_failing_trace_raises_what_failed() -> None:
    with pytest.raises(tg.errors.ShapeError):
        tg.jit(lambda x: x + np.random.normal(size=5), device="numpy")(X)
