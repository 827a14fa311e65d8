"""The warning about `(n,)` against `(n, 1)`: where it is given, and where all pairs are meant."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.errors import BroadcastWarning

X, Y = np.ones((5, 3), np.float32), np.ones(5, np.float32)


def compiled(loss: Callable[..., Any], rows: int = 5) -> tg.Training:
    return tg.compile(
        tg.nn.MLP(3, 4, 1),
        loss=loss,
        optimizer=tg.optim.sgd(0.1),
        inputs={"x": (rows, 3), "y": (rows,)},
        device="numpy",
    )


MISTAKES: dict[str, Callable[..., Any]] = {
    "sub": lambda m, x, y: tg.mean((m(x) - y) ** 2),
    "mul": lambda m, x, y: tg.mean(tg.softplus(y * m(x))),
    "compare": lambda m, x, y: tg.mean(tg.where((y > 0) == (m(x) > 0), 1.0, m(x))),
    "div": lambda m, x, y: tg.mean(m(x) / (y + 1)),
}
PAIRS: dict[str, Callable[..., Any]] = {
    "an added axis": lambda m, x, y: tg.mean(m(x)) + tg.mean((y[:, None] - y) ** 2),
    "both explicit": lambda m, x, y: tg.mean(m(x)[:, 0][:, None] - y[None, :]),
    "a row": lambda m, x, y: tg.mean(m(x) - y[None, :]),
    "an added axis, computed with": lambda m, x, y: tg.mean(tg.exp(2 * m(x)[:, 0][:, None]) - y),
    "a mean": lambda m, x, y: tg.mean(tg.mean(m(x) * x, axis=1, keepdims=True) - y),
    "the same shape": lambda m, x, y: tg.mean(m(x)[:, 0] - y) + tg.mean(m(x) - y[:, None]),
    "a bias": lambda m, x, y: tg.mean((x @ m.layers[0].weight + m.layers[0].bias) ** 2) + tg.mean(m(x)),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_loss_over_all_pairs_warns(name: str) -> None:
    pattern = re.escape(__file__) + rf":\d+: {name} in .*\(\) broadcasts the shapes \(5, 1\) and \(5,\) to \(5, 5\)"
    with pytest.warns(BroadcastWarning, match=pattern) as warned:
        training = compiled(MISTAKES[name])
    assert len(warned) == 1 and warned[0].filename == __file__
    training.step(x=X, y=Y)
    training.gradients(x=X, y=Y)  # traces again, without another warning
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BroadcastWarning)
        compiled(MISTAKES[name])


@pytest.mark.parametrize("name", PAIRS)
def test_explicit_pairs_do_not(name: str) -> None:
    compiled(PAIRS[name]).step(x=X, y=Y)


def test_one_row_has_no_pairs() -> None:
    compiled(MISTAKES["sub"], rows=1).step(x=X[:1], y=Y[:1])


def test_jitted_functions_warn_too() -> None:
    function = tg.jit(lambda w, x, y: tg.mean((x @ w - y) ** 2), device="numpy")
    with pytest.warns(BroadcastWarning, match=r"sub in .* \(5, 1\) and \(5,\) to \(5, 5\)") as warned:
        function(np.ones((3, 1), np.float32), X, Y)
    assert warned[0].filename == __file__, "filters by module ask for the caller's"
    images = tg.jit(lambda a, b: a - b, device="numpy")
    with pytest.warns(BroadcastWarning, match=r"\(4, 4, 1\) and \(4, 4\) to \(4, 4, 4\)"):
        images(np.ones((4, 4, 1)), np.ones((4, 4)))
