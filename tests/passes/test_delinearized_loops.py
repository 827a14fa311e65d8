"""Loops whose index is divided by constants become nests in native code, with the same results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from draws import generator
from xdsl.dialects import scf

import tensorgrad as tg
from tensorgrad.passes.codegen.llvm import delinearize_loops


def normal(*shape: int) -> np.ndarray:
    return generator(0).normal(size=shape).astype(np.float32)


def interleaved(x: Any) -> Any:
    """Divides the index of a row by 32 and by 96."""
    parts = tg.transpose(tg.reshape(x, (4, 3, 12, 32)), (1, 0, 2, 3))
    return tg.reshape(parts, (3, 4, 384)) + tg.reshape(tg.repeat(x[:, :12], 32, axis=1), (4, 384))


CASES: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "rows and columns": (lambda x: tg.tile(x, (2, 2)), (normal(64, 128),)),
    "few repetitions": (lambda x: tg.tile(x, 3), (normal(96),)),
    "more repetitions": (lambda x: tg.tile(x, (3, 5)), (normal(10, 50),)),
    "three axes": (lambda x: tg.tile(x, (2, 3, 4)), (normal(3, 7, 30),)),
    "a short period": (lambda x: tg.tile(x, 64), (normal(7),)),
    "products": (tg.kron, (normal(5, 6), normal(32, 48))),
    "a divisor of another": (interleaved, (normal(4, 1152),)),
}


@pytest.mark.parametrize("name", CASES)
def test_as_on_the_reference(name: str) -> None:
    function, arguments = CASES[name]
    expected = function(*(tg.tensor(value, device="numpy") for value in arguments))
    np.testing.assert_array_equal(tg.jit(function, device="cpu")(*arguments), expected.numpy())


@pytest.mark.parametrize(("name", "nests"), [("rows and columns", 1), ("few repetitions", 1), ("a short period", 0)])
def test_which_loops_become_nests(name: str, nests: int, monkeypatch: pytest.MonkeyPatch) -> None:
    divided: list[scf.ForOp] = []
    nest = delinearize_loops._nest

    def count(loop: scf.ForOp, *rest: Any) -> None:
        divided.append(loop)
        nest(loop, *rest)

    monkeypatch.setattr(delinearize_loops, "_nest", count)
    monkeypatch.setenv("TENSORGRAD_CACHE_PROGRAMS", "0")
    function, arguments = CASES[name]
    tg.jit(function, device="cpu")(*arguments)
    assert len(divided) == nests
