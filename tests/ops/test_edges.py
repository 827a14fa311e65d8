"""Values at the edges of functions, beside PyTorch: the range of f16, powers, infinities, and points on a bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
import torch

import tensorgrad as tg
from tensorgrad.dialects.tg.base import NumpyArray
from tensorgrad.errors import DTypeError, OptionError, ShapeError


def f32(values: Any) -> NumpyArray:
    return np.array(values, np.float32)


DEVICES: tuple[tg.DeviceName, ...] = ("numpy", "cpu")
FAR = np.array([[300.0, -400.0, 1000.0, 2.0], [6e4, -6e4, 4e4, 5e4]], np.float16)
"""Numbers whose squares, and some of whose sums, f16 doesn't have."""


IMAGE = f32([[[[0, 1], [2, 3]]]])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("name", "ours", "theirs"),
    [
        ("layer_norm", lambda x: tg.layer_norm(x, 4), lambda x: torch.nn.functional.layer_norm(x, (4,))),
        ("rms_norm", lambda x: tg.rms_norm(x, 4), lambda x: torch.nn.functional.rms_norm(x, (4,))),
        ("group_norm", lambda x: tg.group_norm(x, 2), lambda x: torch.nn.functional.group_norm(x, 2)),
        ("softsign", tg.softsign, torch.nn.functional.softsign),
        ("avg_pool", lambda x: tg.avg_pool(x[None], 2), lambda x: torch.nn.functional.avg_pool1d(x[None], 2)),
        (
            "adaptive_avg_pool",
            lambda x: tg.adaptive_avg_pool(x[None], (1,)),
            lambda x: torch.nn.functional.adaptive_avg_pool1d(x[None], 1),
        ),
        ("corrcoef", tg.corrcoef, lambda x: torch.corrcoef(x.float())),
        ("lerp", lambda x: tg.lerp(x, -x, 0.5), lambda x: torch.lerp(x, -x, 0.5)),
        (
            "hypot's slopes",
            lambda x: tg.grad(lambda y: 4 * tg.sum(tg.hypot(y, x[0])))(x),
            lambda x: 4 * x.float() / torch.hypot(x.float(), x[0].float()),
        ),
    ],
)
def test_squares_beyond_the_range_of_f16(device: tg.DeviceName, name: str, ours: Any, theirs: Any) -> None:
    result = tg.jit(ours, device=device)(FAR)
    expected = theirs(torch.from_numpy(FAR)).numpy().astype(np.float16)
    assert result.dtype == tg.f16
    np.testing.assert_allclose(result.numpy().astype("f4"), expected.astype("f4"), rtol=2e-3, atol=2e-3, err_msg=name)


def test_batch_norm_of_f16() -> None:
    x = FAR.T.copy()
    ours, theirs = tg.nn.BatchNorm1d(2).initialized(0, device="numpy"), torch.nn.BatchNorm1d(2)
    values = [("running_mean", [7e4, -7e4]), ("running_var", [1e10, 1e10])]
    for name, value in values:
        getattr(ours, name).copy_(np.array(value, np.float32))
        getattr(theirs, name).copy_(torch.tensor(value))
    normalized = tg.nn.inference(ours)(tg.tensor(x, device="numpy"))
    expected = theirs.eval()(torch.from_numpy(x).float())
    np.testing.assert_allclose(normalized.detach().numpy(), expected.detach().numpy(), rtol=2e-3)
    training = tg.compile(
        tg.nn.BatchNorm1d(2),
        loss=lambda model, x: tg.mean(tg.square(model(tg.cast(x, "f16")))),
        optimizer=tg.optim.sgd(0.0),
        inputs={"x": (4, 2)},
        device="cpu",
    )
    assert abs(float(training.step(x=x.astype("f4"))) - 1) < 1e-2


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("exponent", [-1, -2, -3, -4, -5, -9, -16, 3, 16])
def test_powers_with_a_constant_exponent(device: tg.DeviceName, exponent: int) -> None:
    """Derivatives are finite wherever they are in f32: the powers that they consist of need not be."""
    with np.errstate(over="ignore", divide="ignore"):
        x = np.array([1e-30, 1e-8, 0.3, 1.5, -2.5, 1e7, 1e20, 0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)
        values, slopes = tg.jit(lambda x: (x**exponent, tg.grad(lambda x: tg.sum(x**exponent))(x)), device=device)(x)
    theirs = torch.tensor(x, requires_grad=True)
    powers = theirs**exponent
    powers.sum().backward()
    least = float(np.finfo(np.float32).tiny)  # what is smaller may be 0
    np.testing.assert_allclose(values, powers.detach().numpy(), rtol=2e-6, atol=least)
    assert theirs.grad is not None
    np.testing.assert_allclose(slopes, theirs.grad.numpy(), rtol=3e-6, atol=least)


def test_norms_of_negative_order() -> None:
    assert float(tg.norm([np.inf, np.inf], -1)) == np.inf
    assert float(tg.norm([0.0, 2.0], -1)) == 0
    np.testing.assert_allclose(float(tg.norm([2.0, 3.0], -2)), np.linalg.norm([2, 3], -2), rtol=1e-6)


@pytest.mark.parametrize("size", [1e-30, 1e-20, 3.0, 1e20, 1e30])
def test_complex_quotients_need_no_squares(size: float) -> None:
    x, y = np.complex64(size * (1 + 2j)), np.complex64(size * (3 - 1j))
    parts = [tg.fft.Complex(tg.array([z.real], "f32"), tg.array([z.imag], "f32")) for z in (x, y)]
    np.testing.assert_allclose((parts[0] / parts[1]).numpy(), [(1 + 2j) / (3 - 1j)], rtol=1e-6)
    np.testing.assert_allclose((2j / parts[1]).numpy(), [2j / np.complex128(y)], rtol=1e-6)
    np.testing.assert_allclose((parts[0] / (1 + 2j)).numpy(), [size], rtol=1e-6, atol=size * 1e-6)


@pytest.mark.parametrize(
    ("ours", "theirs", "x"),
    [
        (
            lambda x: tg.hinge_embedding(x, f32([-1])),
            lambda x: torch.nn.functional.hinge_embedding_loss(x, torch.tensor([-1.0])),
            [1.0],
        ),
        (
            lambda x: tg.margin_ranking(x, f32([1]), f32([1])),
            lambda x: torch.nn.functional.margin_ranking_loss(x, torch.tensor([1.0]), torch.tensor([1.0])),
            [1.0],
        ),
        (
            lambda x: tg.triplet_margin(x, f32([[0]]), f32([[1]]), margin=0.5, eps=0.0),
            lambda x: torch.nn.functional.triplet_margin_loss(
                x, torch.zeros(1, 1), torch.ones(1, 1), margin=0.5, eps=0.0
            ),
            [[0.25]],
        ),
        (
            lambda x: tg.multi_margin(x, np.array([0])),
            lambda x: torch.nn.functional.multi_margin_loss(x, torch.tensor([0])),
            [[1.0, 0.0]],
        ),
        (
            lambda x: tg.cosine_embedding(x, f32([[0, 1]]), np.array([-1])),
            lambda x: torch.nn.functional.cosine_embedding_loss(x, torch.tensor([[0.0, 1.0]]), torch.tensor([-1])),
            [[1.0, 0.0]],
        ),
        (
            lambda x: tg.sum(tg.grid_sample(IMAGE, x, padding_mode="border", align_corners=True)),
            lambda x: torch.nn.functional.grid_sample(
                torch.tensor(IMAGE), x, padding_mode="border", align_corners=True
            ).sum(),
            [[[[-1.0, -1.0], [1.0, 0.5], [0.25, -0.5]]]],
        ),
        (lambda x: tg.sum(tg.asinh(x)), lambda x: torch.asinh(x).sum(), [np.inf, -np.inf, 2.0]),
    ],
)
@pytest.mark.parametrize("device", DEVICES)
def test_derivatives_on_a_bound(
    ours: Callable[[Any], Any], theirs: Callable[[Any], Any], x: Any, device: tg.DeviceName
) -> None:
    point = torch.tensor(x, dtype=torch.float32, requires_grad=True)
    theirs(point).backward()
    assert point.grad is not None
    slopes = tg.jit(tg.grad(ours), device=device)(np.asarray(x, np.float32))
    np.testing.assert_allclose(slopes, point.grad.numpy(), rtol=1e-5)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (DTypeError, "relu: takes numbers, not bool; cast first", lambda: tg.relu([True])),
        (DTypeError, "abs: takes numbers, not bool; cast first", lambda: tg.abs([True])),
        (
            OptionError,
            r"matrix_power: n must be an integer, got 1\.5",
            lambda: tg.linalg.matrix_power(np.eye(2), cast(Any, 1.5)),
        ),
        (OptionError, "fftfreq: samples at a distance of 0 have no frequencies", lambda: tg.fft.fftfreq(4, 0.0)),
        (ShapeError, "arange: from 0 to inf by 1 is no finite number of elements", lambda: tg.arange(0, np.inf)),
        (OptionError, r"quantile: q must be a number in \[0, 1\] or a list", lambda: tg.quantile([1.0, 2.0], [])),
        *(
            (
                OptionError,
                "histogram: the edges of bins must be in increasing",
                lambda edges=edges: tg.histogram([1.0], edges),
            )
            for edges in ([3, 2, 1], np.array([3, 2, 1], np.uint8), tg.array([3.0, 2.0]), [1, np.nan, 3])
        ),
        (DTypeError, "scatter_add: takes numbers, not bool", lambda: tg.array([True]).at[np.array([0])].add(True)),
    ],
)
def test_what_is_refused(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    with pytest.raises(error, match=message):
        call()


def test_segments_of_unsigned_numbers() -> None:
    assert np.array_equal(tg.segment_sum(tg.array([1.0, 2.0]), tg.array([0, 1], "u64")), [1, 2])
    assert tg.segment_sum(tg.zeros(0), tg.array(np.zeros(0), "i32")).shape == (0,)


def test_histograms_ignore_nan() -> None:
    counts, edges = tg.histogram([1.0, np.nan, 3.0], 2)
    assert np.array_equal(counts, [1, 1]) and np.array_equal(edges, [1, 2, 3])


def test_attention_without_features() -> None:
    q, v = np.zeros((1, 3, 0), np.float32), f32([[[1], [2], [3]]])
    np.testing.assert_allclose(tg.nn.scaled_dot_product_attention(q, q, v), np.full((1, 3, 1), 2), rtol=1e-6)
