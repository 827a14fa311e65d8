"""Sums of up to 2^28 equal terms: the error grows with the logarithm of their number, on every device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg

DEVICES: tuple[tg.DeviceName, ...] = ("cpu", "wgpu", "numpy")
TENTH = np.float32(0.1)
ERROR = 2e-5
"""The most relative error: 2^-24 for each of some 300 additions that a term takes part in."""

MOST = 1 << 28


def full(*shape: int) -> np.ndarray:
    return np.full(shape, TENTH, np.float32)


def gradient_of_take(table: Any, indices: Any) -> Any:
    return tg.grad(lambda t: tg.sum(tg.take(t, indices, axis=0) * TENTH))(table)[0]


def transposed_sum(x: Any) -> Any:
    return tg.sum(tg.transpose(x, (2, 1, 0)), axis=(0, 2))


Sum = tuple[Callable[..., Any], Callable[[], list[np.ndarray]], float]

SUMS: dict[str, Sum] = {
    "everything": (tg.sum, lambda: [full(300_000, 4)], 1_200_000),
    "columns": (lambda x: tg.sum(x, axis=0), lambda: [full(300_000, 4)], 300_000),
    "many columns": (lambda x: tg.sum(x, axis=0), lambda: [full(20_000, 64)], 20_000),
    "an odd number": (tg.sum, lambda: [full(100_003, 3)], 300_009),
    "rows": (lambda x: tg.sum(x, axis=1), lambda: [full(4, 300_000)], 300_000),
    "one column": (lambda x: tg.sum(x, axis=0), lambda: [full(300_000, 1)], 300_000),
    "channels": (lambda x: tg.sum(x, axis=(0, 2, 3)), lambda: [full(64, 10, 28, 28)], 64 * 28 * 28),
    "small images": (lambda x: tg.sum(x, axis=(2, 3)), lambda: [full(3, 11, 7, 7)], 7 * 7),
    "all but a middle axis": (transposed_sum, lambda: [full(100, 50, 100)], 100 * 100),
    "a norm": (lambda x: tg.sum(x * x) * 10, lambda: [full(1000, 100)], 100_000),
    "running sums": (lambda x: tg.cumsum(x)[-1], lambda: [full(100_000)], 100_000),
    "a product": (tg.matmul, lambda: [np.ones((8, 300_000), np.float32), full(300_000, 4)], 300_000),
    "a product of columns": (
        lambda x, w: tg.transpose(x, (1, 0)) @ w,
        lambda: [np.ones((50_000, 20), np.float32), full(50_000, 37)],
        50_000,
    ),
    "a product with an epilogue": (
        lambda x, w: (x @ w + 1) - 1,
        lambda: [np.ones((16, 20_000), np.float32), full(20_000, 16)],
        20_000,
    ),
    "an inner product": (tg.matmul, lambda: [np.ones((1, 300_000), np.float32), full(300_000, 1)], 300_000),
    "a convolution": (tg.conv, lambda: [np.ones((1, 2000, 6, 6), np.float32), full(4, 2000, 3, 3)], 18_000),
    "few equal indices": (gradient_of_take, lambda: [full(2, 8), np.zeros(4096, np.int32)], 4096),
    "equal indices": (gradient_of_take, lambda: [full(50, 8), np.zeros(60_000, np.int32)], 60_000),
}
"""A sum, its operands, and how many tenths it adds."""


def error_of(function: Callable[..., Any], inputs: list[np.ndarray], terms: float, device: tg.DeviceName) -> float:
    """Returns the largest relative error of the elements of a sum of tenths."""
    sums = np.asarray(tg.jit(function, device=device)(*inputs)).astype(np.float64)
    return float(np.max(np.abs(sums / (terms * float(TENTH)) - 1)))


@pytest.mark.in_turns(6)
@pytest.mark.parametrize("kind", SUMS)
@pytest.mark.parametrize("device", DEVICES)
def test_sums_of_tenths(kind: str, device: tg.DeviceName) -> None:
    function, inputs, terms = SUMS[kind]
    assert error_of(function, inputs(), terms, device) < ERROR


@pytest.mark.parametrize("device", ["cpu", "numpy"])
def test_f16_is_summed_in_f32(device: tg.DeviceName) -> None:
    x = np.full((200_000, 3), 2.0**-4, np.float16)
    sums = np.asarray(tg.jit(lambda x: tg.sum(x, axis=0), device=device)(x))
    assert np.array_equal(sums, np.full(3, 12_500, np.float16))


LONGEST: dict[str, tuple[Callable[[Any], Any], tuple[int, ...], float]] = {
    "everything": (lambda x: tg.sum(tg.broadcast_to(x, (MOST,))), (1,), MOST),
    "columns": (lambda x: tg.sum(tg.broadcast_to(x, (MOST // 16, 16)), axis=0), (16,), MOST // 16),
    "rows": (lambda x: tg.sum(tg.broadcast_to(x, (2, MOST // 2)), axis=1), (2, 1), MOST // 2),
    "two axes": (lambda x: tg.sum(tg.broadcast_to(x, (1 << 14, 1 << 13, 2)), axis=(0, 1)), (2,), MOST // 2),
    "a product": (
        lambda x: tg.broadcast_to(x * 10, (2, MOST // 16)) @ tg.broadcast_to(x, (MOST // 16, 4)),
        (1,),
        MOST // 16,
    ),
}
"""A sum over broadcasts of an operand, which take no memory in a kernel, its shape, and how many elements it adds."""


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("kind", LONGEST)
@pytest.mark.parametrize("device", ["cpu", "wgpu", pytest.param("numpy", marks=pytest.mark.nightly)])
def test_the_longest_sums_of_tenths(kind: str, device: tg.DeviceName) -> None:
    function, shape, terms = LONGEST[kind]
    assert error_of(function, [full(*shape)], terms, device) < ERROR


@pytest.mark.parametrize("device", ["cpu", "wgpu", pytest.param("numpy", marks=pytest.mark.nightly)])
def test_ones_are_counted_beyond_the_largest_integer_of_a_significand(device: tg.DeviceName) -> None:
    total = tg.jit(lambda x: tg.sum(tg.broadcast_to(x, (MOST,))), device=device)(np.ones(1, np.float32))
    assert float(total) == MOST


def test_the_variance_of_equal_elements_is_almost_zero() -> None:
    for device in DEVICES:
        variance = np.asarray(tg.jit(lambda x: tg.var(x, axis=0), device=device)(full(100_000, 4)))
        assert np.max(variance) < 1e-11


def test_the_bits_are_those_of_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).standard_normal((100_000, 8), dtype=np.float32)

    def sums(x: Any) -> Any:
        return tg.sum(x), tg.sum(x, axis=0), tg.swapaxes(x, 0, 1) @ x

    runs: list[list[bytes]] = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("TG_NUM_THREADS", threads)
        runs.append([np.asarray(value).tobytes() for value in tg.jit(sums, device="cpu")(x)])
    assert runs[0] == runs[1] == runs[2]
