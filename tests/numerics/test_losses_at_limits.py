"""Losses at probabilities of 0 and 1 and at infinite logits: as in PyTorch, or the limit where that is NaN."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from case import f32
from harness import NumpyArray
from torch.nn import functional

import tensorgrad as tg

INF = float("inf")


@dataclass(frozen=True)
class Limit:
    """A loss of each element or row of `x`, with fixed targets.

    Attributes:
        ours: The loss here.
        theirs: The same in PyTorch.
        x: The predictions.
        values: Our losses where PyTorch's are NaN, in order.
    """

    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    x: NumpyArray
    values: tuple[float, ...] = ()


def of(name: str, theirs: Any, x: Any, target: Any, *values: float, **options: Any) -> Limit:
    """Returns a loss of predictions and targets."""
    ours = getattr(tg, name)
    of_classes = name in ("nll", "multi_margin") or (name == "cross_entropy" and np.ndim(target) == 1)
    torch_labels, labels = (np.asarray(target, kind if of_classes else np.float32) for kind in (np.int64, np.int32))
    tensors = {key: torch.tensor(value) if key in ("weight", "pos_weight") else value for key, value in options.items()}
    mine = {key: f32(*np.ravel(value)) if key in ("weight", "pos_weight") else value for key, value in options.items()}
    return Limit(
        lambda x: ours(x, labels, "none", **mine),
        lambda x: theirs(x, torch.tensor(torch_labels), reduction="none", **tensors),
        np.asarray(x, np.float32),
        values,
    )


BINARY = ([INF, INF, -INF, -INF, INF, -INF, 40, -40, 0, 1], [0, 1, 0, 1, 0.5, 0.5, 1, 0, 0.3, 0])
ROWS = [[-INF, 0.0, 1.0], [2.0, -INF, -INF], [-INF, -INF, 0.0]]
ONE_HOT = [[0, 0.5, 0.5], [1, 0, 0], [1, 0, 0]]
RATES = ([-INF, INF, -INF, INF, 1], [0, 0, 2, 2, 3])
NO_FIRST = [0.0, 1.0, 2.0]

LIMITS = {
    "binary_cross_entropy": of(
        "binary_cross_entropy",
        functional.binary_cross_entropy,
        [0, 0, 1, 1, 0, 1, 0.25, 1e-20],
        [0, 1, 0, 1, 0.5, 0.5, 0.5, 1],
    ),
    "binary_cross_entropy weighted": of(
        "binary_cross_entropy", functional.binary_cross_entropy, [0, 0, 1], [0, 1, 0], weight=[0.0, 0.0, 2.0]
    ),
    "logits": of(
        "binary_cross_entropy_with_logits",
        functional.binary_cross_entropy_with_logits,
        *BINARY,
        *(0, 0, INF, INF),
    ),
    "logits, positives weighted": of(
        "binary_cross_entropy_with_logits",
        functional.binary_cross_entropy_with_logits,
        *BINARY,
        *(0, 0, INF, INF),
        pos_weight=[3.0],
    ),
    "logits, some of weight 0": of(
        "binary_cross_entropy_with_logits",
        functional.binary_cross_entropy_with_logits,
        [INF, -INF, 1],
        [0, 1, 1],
        *(0, 0),
        weight=[0.0, 0.0, 1.0],
    ),
    "multilabel_soft_margin": of(
        "multilabel_soft_margin",
        functional.multilabel_soft_margin_loss,
        [[INF, -INF], [-INF, -INF], [INF, 0.0]],
        [[1, 0], [1, 0], [1, 1]],
        *(0, INF, np.log(2) / 2),
    ),
    "soft_margin": of("soft_margin", functional.soft_margin_loss, [INF, 9, -9, 0], [1, -1, -1, 1]),
    "labels": of("cross_entropy", functional.cross_entropy, ROWS, [1, 0, 0]),
    "labels, smooth": of("cross_entropy", functional.cross_entropy, ROWS[1:], [0, 2], label_smoothing=0.1),
    "labels, a class of weight 0": of("cross_entropy", functional.cross_entropy, ROWS, [1, 0, 0], 0, weight=NO_FIRST),
    "labels, smooth, a class of weight 0": of(
        "cross_entropy",
        functional.cross_entropy,
        ROWS[:1],
        [1],
        *(0.95 * 1.313262 + 0.05 / 3 * (1.313262 + 2 * 0.313262),),
        weight=NO_FIRST,
        label_smoothing=0.05,
    ),
    "labels, ignored": of("cross_entropy", functional.cross_entropy, [*ROWS, [-INF] * 3], [1, 0, 2, 2], ignore_index=2),
    "probabilities": of("cross_entropy", functional.cross_entropy, ROWS, ONE_HOT, *(0.813262, 0, INF)),
    "probabilities, a class of weight 0": of(
        "cross_entropy", functional.cross_entropy, ROWS, ONE_HOT, *(0.969893, 0, 0), weight=NO_FIRST
    ),
    "nll": of("nll", functional.nll_loss, ROWS, [1, 0, 0]),
    "nll, a class of weight 0": of("nll", functional.nll_loss, ROWS, [1, 0, 0], 0, weight=NO_FIRST),
    "kl_div": of("kl_div", functional.kl_div, [-INF, 0, -INF, -1], [0, 0, 1, 0.5], 0),
    "kl_div of logarithms": of(
        "kl_div", functional.kl_div, [-INF, 0, -INF, -1], [-INF, -INF, 0, -2], *(0, 0), log_target=True
    ),
    "poisson_nll": of("poisson_nll", functional.poisson_nll_loss, *RATES, *(0, INF, INF)),
    "poisson_nll, full": of("poisson_nll", functional.poisson_nll_loss, *RATES, *(0, INF, INF), full=True),
    "poisson_nll of rates": of(
        "poisson_nll", functional.poisson_nll_loss, [0, 0, 2], [0, 1, 1], log_input=False, eps=1e-8
    ),
    "poisson_nll of rates, without eps": of(
        "poisson_nll", functional.poisson_nll_loss, [0, 0, 2], [0, 1, 1], 0, log_input=False, eps=0.0
    ),
    "gaussian_nll": Limit(
        lambda x: tg.gaussian_nll(x, f32(0, 1), f32(0, 2), "none"),
        lambda x: functional.gaussian_nll_loss(x, torch.tensor(f32(0, 1)), torch.tensor(f32(0, 2)), reduction="none"),
        f32(0, 3),
    ),
    "huber": of("huber", functional.huber_loss, [INF, -INF, 0, 1], [0, 0, 0, 0]),
    "l1": of("l1", functional.l1_loss, [INF, -INF, 0], [0, 0, 0]),
    "hinge_embedding": of("hinge_embedding", functional.hinge_embedding_loss, [INF, INF, 0], [1, -1, -1]),
    "multi_margin": of("multi_margin", functional.multi_margin_loss, [[INF, 0.0, 1.0], [0.0, -INF, 0.5]], [0, 2]),
}


def expected(limit: Limit) -> tuple[NumpyArray, NumpyArray]:
    """Returns losses, and the slopes of their sum; a slope is NaN where PyTorch's is."""
    x = torch.tensor(limit.x, requires_grad=True)
    losses = limit.theirs(x)
    losses.sum().backward()
    values = losses.detach().numpy().copy()
    assert np.isnan(values).sum() == len(limit.values)
    values[np.isnan(values)] = limit.values
    assert x.grad is not None
    return values, x.grad.numpy()


@pytest.mark.nightly
@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
def test_limits(device: Any) -> None:
    """All losses, compiled as one program."""

    def losses(inputs: dict[str, Any]) -> dict[str, Any]:
        slopes = tg.grad(lambda xs: sum(tg.sum(limit.ours(xs[name])) for name, limit in LIMITS.items()))
        return {"value": {name: limit.ours(inputs[name]) for name, limit in LIMITS.items()}, "slope": slopes(inputs)}

    results: Any = tg.jit(losses, device=device)({name: limit.x for name, limit in LIMITS.items()})
    check(results)


def test_limits_without_a_trace() -> None:
    check(
        {
            "value": {name: limit.ours(limit.x) for name, limit in LIMITS.items()},
            "slope": {
                name: tg.grad(lambda x, limit=limit: tg.sum(limit.ours(x)))(limit.x) for name, limit in LIMITS.items()
            },
        }
    )


def check(results: dict[str, dict[str, Any]]) -> None:
    for name, limit in LIMITS.items():
        values, slopes = expected(limit)
        value, slope = (np.asarray(results[part][name]) for part in ("value", "slope"))
        np.testing.assert_allclose(value, values, rtol=2e-6, atol=1e-6, err_msg=name)
        assert not np.isnan(slope).any(), name
        known = ~np.isnan(slopes)
        np.testing.assert_allclose(slope[known], slopes[known], rtol=2e-5, atol=1e-6, err_msg=name)


REDUCED = ("binary_cross_entropy_with_logits", "kl_div", "cross_entropy", "poisson_nll")


@pytest.mark.parametrize("name", REDUCED)
def test_sums_and_means_of_limits(name: str) -> None:
    """A term without weight leaves the sum of the others."""
    arguments = {
        "cross_entropy": (np.asarray(ROWS[:2], np.float32), np.asarray(ONE_HOT[:2], np.float32)),
        "kl_div": (f32(-INF, 0, -1), f32(0, 0, 0.5)),
        "poisson_nll": (f32(-INF, 1), f32(0, 3)),
        "binary_cross_entropy_with_logits": (f32(INF, -INF, 1), f32(1, 0, 1)),
    }[name]
    loss = getattr(tg, name)
    each = np.asarray(loss(*arguments, "none"))
    assert np.isfinite(each).all()
    assert float(loss(*arguments, "sum")) == pytest.approx(each.sum(), rel=1e-6)
    assert float(loss(*arguments, "mean")) == pytest.approx(each.mean(), rel=1e-6)


def test_a_probability_on_the_wrong_side_recovers() -> None:
    p = f32(0.0)
    for _ in range(3):
        slope = np.asarray(tg.grad(lambda p: tg.binary_cross_entropy(p, f32(1.0)))(p))
        p = np.clip(p - 0.1 * slope, 0, 1).astype(np.float32)
    assert p[0] == 1


def test_slopes_of_binary_cross_entropy_are_differentiable() -> None:
    """Twice, and in forward mode."""
    p, t = f32(0.2, 0.7, 0.5), f32(1, 0.25, 0)
    second = np.asarray(tg.hessian(lambda p: tg.binary_cross_entropy(p, t, "sum"))(p))
    np.testing.assert_allclose(second, np.diag(t / p**2 + (1 - t) / (1 - p) ** 2), rtol=1e-5)
    _, tangent = tg.jvp(lambda p: tg.binary_cross_entropy(p, t, "none"), (p,), (np.ones(3, np.float32),))
    np.testing.assert_allclose(np.asarray(tangent), (p - t) / (p * (1 - p)), rtol=1e-5)
    half = tg.grad(lambda p: tg.binary_cross_entropy(p, np.array([1, 0, 0], np.float16), "sum"))(
        np.array([0, 0, 1], np.float16)
    )
    np.testing.assert_allclose(np.asarray(half), [-16384, 0, 16384])
