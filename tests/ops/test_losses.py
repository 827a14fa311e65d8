"""Losses compared with their formulas in numpy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

import tensorgrad as tg
from tensorgrad.errors import DTypeError, OptionError, ShapeError

untyped: Any = tg
"""The package as code without types calls it."""

rng = np.random.default_rng(0)
LOGITS = rng.normal(size=(4, 5, 6)) * 3
LABELS = rng.integers(0, 6, (4, 5)).astype(np.int32)
LABELS[0, 0] = LABELS[2, 3] = 2
SOFT = rng.dirichlet(np.ones(6), (4, 5))
WEIGHT = rng.uniform(0.5, 2, 6)
REDUCTIONS = ("mean", "sum", "none")


def log_softmax(x: np.ndarray) -> np.ndarray:
    shifted = x - x.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def reduced(losses: np.ndarray, reduction: str, weights: np.ndarray | None = None) -> np.ndarray:
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    return losses.mean() if weights is None else losses.sum() / weights.sum()


def close(actual: Any, expected: Any) -> None:
    values = np.asarray(actual)
    assert values.shape == np.shape(expected)
    assert np.allclose(values, expected, rtol=1e-5, atol=3e-6)


def hard_cross_entropy(smoothing: float, weight: Any, ignored: int | None, reduction: str) -> np.ndarray:
    likelihoods, classes = log_softmax(LOGITS), np.ones(6) if weight is None else weight
    counted = np.where(ignored == LABELS, 0.0, classes[LABELS])
    hard = -np.take_along_axis(likelihoods, LABELS[..., None], -1)[..., 0] * counted
    even = np.where(ignored == LABELS, 0.0, -(likelihoods * classes).sum(-1))
    return reduced((1 - smoothing) * hard + smoothing / 6 * even, reduction, counted)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("ignored", [None, 2])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_of_integer_labels(reduction, weight, ignored, smoothing):
    loss = tg.cross_entropy(LOGITS, LABELS, reduction, weight=weight, ignore_index=ignored, label_smoothing=smoothing)
    close(loss, hard_cross_entropy(smoothing, weight, ignored, reduction))
    if not smoothing:
        loss = tg.nll(tg.log_softmax(LOGITS), LABELS, reduction, weight=weight, ignore_index=ignored)
        close(loss, hard_cross_entropy(0.0, weight, ignored, reduction))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_of_probabilities(reduction, weight, smoothing):
    target = SOFT * (1 - smoothing) + smoothing / 6
    losses = -(target * log_softmax(LOGITS) * (1 if weight is None else weight)).sum(-1)
    loss = tg.cross_entropy(LOGITS, SOFT, reduction, weight=weight, label_smoothing=smoothing)
    close(loss, reduced(losses, reduction))


def test_integer_labels_are_one_hot_probabilities():
    for smoothing in (0.0, 0.3):
        hard = tg.grad(lambda x, s=smoothing: tg.cross_entropy(x, LABELS, label_smoothing=s))(LOGITS)
        hot = np.eye(6)[LABELS]
        soft = tg.grad(lambda x, s=smoothing, t=hot: tg.cross_entropy(x, t, label_smoothing=s))(LOGITS)
        close(hard, np.asarray(soft))
        expected = np.exp(log_softmax(LOGITS)) - (1 - smoothing) * hot - smoothing / 6
        close(hard, expected / LABELS.size)


def test_ignored_labels_count_for_nothing():
    """Regardless of their value and of the logits there; and they get no gradient."""
    labels = np.array([1, -100, 0], np.int32)
    logits = np.array([[1.0, 2.0], [math.inf, -math.inf], [0.5, 0.0]])
    for smoothing in (0.0, 0.1):
        loss = tg.cross_entropy(logits, labels, ignore_index=-100, label_smoothing=smoothing)
        close(loss, np.asarray(tg.cross_entropy(logits[::2], labels[::2], label_smoothing=smoothing)))
    finite = np.where(np.isfinite(logits), logits, 3.0)
    gradient = np.asarray(tg.grad(lambda x: tg.cross_entropy(x, labels, ignore_index=-100))(finite))
    assert not gradient[1].any() and gradient[0].any()
    assert np.isnan(float(tg.cross_entropy(finite, np.full(3, -100, np.int32), ignore_index=-100)))
    assert np.isnan(float(tg.jit(lambda labels: tg.cross_entropy(finite, labels), device="numpy")(labels)))
    with pytest.raises(ShapeError, match="index -100 is out of range"):
        tg.cross_entropy(finite, labels)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_distances(reduction):
    x, y = rng.normal(size=(2, 4, 6)) * 2
    error = x - y
    close(tg.mse(x, y, reduction), reduced(error**2, reduction))
    close(tg.l1(x, y, reduction), reduced(abs(error), reduction))
    expected = np.where(abs(error) <= 0.7, error**2 / 2, 0.7 * (abs(error) - 0.35))
    close(tg.huber(x, y, reduction, delta=0.7), reduced(expected, reduction))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_binary_cross_entropy_with_logits(reduction):
    x, t, weight = rng.normal(size=(4, 6)) * 4, rng.uniform(size=(4, 6)), rng.uniform(1, 2, 6)
    p = 1 / (1 + np.exp(-x))
    expected = -(t * np.log(p) + (1 - t) * np.log(1 - p))
    close(tg.binary_cross_entropy_with_logits(x, t, reduction), reduced(expected, reduction))
    expected = -weight * (3 * t * np.log(p) + (1 - t) * np.log(1 - p))
    loss = tg.binary_cross_entropy_with_logits(x, t, reduction, weight=weight, pos_weight=3.0)
    close(loss, reduced(expected, reduction))


def test_binary_cross_entropy_does_not_overflow():
    x, t = np.array([1e4, -1e4, 1e4, -1e4, 0.0], np.float32), np.array([1, 0, 0, 1, 0.5], np.float32)
    losses = np.asarray(tg.binary_cross_entropy_with_logits(x, t, "none"))
    assert np.allclose(losses, [0, 0, 1e4, 1e4, math.log(2)])
    gradient = tg.grad(lambda x: tg.binary_cross_entropy_with_logits(x, t, "sum"))(x)
    assert np.allclose(np.asarray(gradient), [0, 0, 1, -1, 0])


@pytest.mark.parametrize("reduction", [*REDUCTIONS, "batchmean"])
def test_kl_div(reduction):
    x, target = log_softmax(LOGITS[0]), SOFT[0].copy()
    target[0, 0] = 0
    terms = np.where(target == 0, 0, target * (np.log(np.where(target == 0, 1, target)) - x))
    expected = terms.sum() / 5 if reduction == "batchmean" else reduced(terms, reduction)
    close(tg.kl_div(x, target, reduction), expected)
    logs = np.log(SOFT[0])
    terms = SOFT[0] * (logs - x)
    expected = terms.sum() / 5 if reduction == "batchmean" else reduced(terms, reduction)
    close(tg.kl_div(x, logs, reduction, log_target=True), expected)
    gradient = tg.grad(lambda t: tg.kl_div(x, t, "sum"))(target)
    assert np.isfinite(np.asarray(gradient)).all()


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_losses_of_two_classes(reduction):
    x, y = rng.normal(size=(2, 4, 6))
    sign = np.array([1, -1, 1, -1], np.int32)
    cosine = (x * y).sum(-1) / np.sqrt(((x * x).sum(-1) + 1e-12) * ((y * y).sum(-1) + 1e-12))
    expected = np.where(sign == 1, 1 - cosine, np.maximum(cosine - 0.1, 0))
    close(tg.cosine_embedding(x, y, sign, reduction, margin=0.1), reduced(expected, reduction))
    signs = np.where(y > 0, 1.0, -1.0)
    close(tg.hinge(x, signs, reduction), reduced(np.maximum(1 - signs * x, 0), reduction))
    expected = np.where(signs == 1, x, np.maximum(0.5 - x, 0))
    close(tg.hinge_embedding(x, signs, reduction, margin=0.5), reduced(expected, reduction))


@pytest.mark.parametrize(("x", "y", "axis"), [((1, 2, 3), (2, 1, 3), -2), ((4, 3), (4, 3), 1), ((5,), (2, 3, 5), -1)])
def test_cosine_similarity_broadcasts_before_it_sums(x, y, axis):
    left, right = rng.normal(size=x).astype(np.float32), rng.normal(size=y).astype(np.float32)
    expected = functional.cosine_similarity(torch.tensor(left), torch.tensor(right), axis)
    similarity = tg.cosine_similarity(left, right, axis)
    assert similarity.shape == expected.shape
    close(similarity, expected.numpy())
    assert float(tg.cosine_similarity(np.zeros(3), np.ones(3))) == 0
    slopes = np.asarray(tg.grad(lambda x: tg.cosine_similarity(x, np.ones(3)))(np.zeros(3, np.float32)))
    assert np.isfinite(slopes).all()


def test_a_cosine_of_zeros():
    zeros = np.zeros((1, 3), np.float32)
    gradient = tg.grad(lambda x: tg.cosine_embedding(x, np.ones((1, 3), np.float32), np.ones(1)))(zeros)
    assert np.isfinite(np.asarray(gradient)).all()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: tg.cross_entropy(LOGITS, LABELS, "average"), OptionError),
        (lambda: tg.cross_entropy(LOGITS, LABELS, label_smoothing=1.5), OptionError),
        (lambda: tg.cross_entropy(LOGITS, SOFT, ignore_index=0), OptionError),
        (lambda: tg.cross_entropy(LOGITS, LABELS.astype(np.uint32), ignore_index=-1), OptionError),
        (lambda: untyped.cross_entropy(LOGITS, LABELS, ignore_index=1.5), OptionError),
        (lambda: tg.cross_entropy(LOGITS, LABELS, weight=np.ones(5)), ShapeError),
        (lambda: tg.cross_entropy(LOGITS, LABELS[0]), ShapeError),
        (lambda: tg.cross_entropy(LOGITS, LABELS.astype(np.float32)), DTypeError),
        (lambda: tg.nll(LOGITS, LABELS[0]), ShapeError),
        (lambda: tg.nll(LOGITS, SOFT), DTypeError),
        (lambda: tg.l1(np.ones(3), np.ones((1, 3))), ShapeError),
        (lambda: tg.huber(np.ones(3), np.ones(3), delta=0.0), OptionError),
        (lambda: tg.huber(np.ones(3), np.ones(3), "all"), OptionError),
        (lambda: tg.kl_div(np.ones(()), np.ones(()), "batchmean"), ShapeError),
        (lambda: tg.l1(np.ones(3), np.ones(3), "batchmean"), OptionError),
        (lambda: tg.binary_cross_entropy_with_logits(np.ones(3), np.ones(2)), ShapeError),
        (lambda: tg.binary_cross_entropy_with_logits(np.ones(3), np.ones(3, int)), DTypeError),
        (lambda: tg.binary_cross_entropy_with_logits(np.ones(3), np.ones(3), weight=np.ones((2, 3))), ShapeError),
        (lambda: tg.cosine_embedding(np.ones((2, 3)), np.ones((2, 3)), np.ones(3)), ShapeError),
        (lambda: tg.hinge(np.ones(3), np.ones(2)), ShapeError),
    ],
)
def test_wrong_use(call, error):
    with pytest.raises(error):
        call()
