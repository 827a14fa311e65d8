"""The loss of unknown alignments, beside PyTorch's and beside all alignments."""

from __future__ import annotations

import itertools
from typing import Any, cast

import numpy as np
import pytest
import torch

import tensorgrad as tg
from tensorgrad.dialects.tg.base import NumpyArray
from tensorgrad.errors import DTypeError, OptionError, ShapeError

FRAMES, BATCH, CLASSES = 12, 4, 6
SCORES = np.random.default_rng(0).normal(size=(FRAMES, BATCH, CLASSES)).astype(np.float32)
LABELS = np.array([[1, 5, 5, 3], [2, 4, -1, -1], [99, 0, 0, 0], [2, 2, 2, 7]])
COUNTS, LENGTHS = np.array([12, 9, 5, 7]), np.array([4, 2, 0, 3])


def theirs(scores: NumpyArray, counts: NumpyArray, **options: Any) -> tuple[NumpyArray, NumpyArray]:
    """PyTorch's loss, and its derivative with respect to the scores."""
    x = torch.tensor(scores, requires_grad=True)
    labels = torch.tensor(np.clip(LABELS, 0, CLASSES - 1))
    losses = torch.nn.functional.ctc_loss(
        x.log_softmax(-1), labels, torch.tensor(counts), torch.tensor(LENGTHS), **options
    )
    losses.sum().backward()
    assert x.grad is not None
    return losses.detach().numpy(), x.grad.numpy()


@pytest.mark.parametrize("device", ["numpy", "cpu"])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses_and_derivatives_are_pytorchs(reduction: str, device: tg.DeviceName) -> None:
    def loss(x: Any) -> Any:
        return tg.ctc(tg.log_softmax(x), LABELS, COUNTS, LENGTHS, reduction=reduction)

    losses, gradient = tg.jit(lambda x: (loss(x), tg.grad(lambda x: tg.sum(loss(x)))(x)), device=device)(SCORES)
    expected, slopes = theirs(SCORES, COUNTS, reduction=reduction)
    np.testing.assert_allclose(losses, expected, rtol=2e-6)
    np.testing.assert_allclose(gradient, slopes, atol=3e-6)


@pytest.mark.parametrize("blank", [0, 2])
def test_it_adds_all_alignments(blank: int) -> None:
    frames, labels = 4, [1, 1] if blank == 2 else [2, 1]
    logs = np.log(np.random.default_rng(1).dirichlet(np.ones(3), frames))

    def collapsed(path: tuple[int, ...]) -> list[int]:
        return [label for label, _ in itertools.groupby(path) if label != blank]

    paths = [path for path in itertools.product(range(3), repeat=frames) if collapsed(path) == labels]
    likelihood = sum(np.exp(logs[range(frames), path].sum()) for path in paths)
    loss = tg.ctc(tg.array(logs, "f64"), labels, frames, len(labels), blank=blank, reduction="none")
    assert loss.shape == () and loss.dtype == tg.f64
    np.testing.assert_allclose(loss, -np.log(likelihood), rtol=1e-12)


def test_derivatives_beside_differences() -> None:
    scores = tg.array(SCORES, "f64")
    tg.testing.check_grads(lambda x: tg.ctc(tg.log_softmax(x), LABELS, COUNTS, LENGTHS), [scores])


def test_too_few_frames() -> None:
    """The last sequence takes five frames: equal labels have a blank between them."""
    counts = np.array([12, 9, 5, 4])
    losses = tg.ctc(tg.log_softmax(SCORES), LABELS, counts, LENGTHS, reduction="none")
    np.testing.assert_allclose(losses, theirs(SCORES, counts, reduction="none")[0], rtol=2e-6)
    assert np.isinf(np.asarray(losses)[3])

    def mean(x: Any) -> Any:
        return tg.ctc(tg.log_softmax(x), LABELS, counts, LENGTHS, zero_infinity=True)

    expected, slopes = theirs(SCORES, counts, zero_infinity=True)
    np.testing.assert_allclose(mean(SCORES), expected, rtol=2e-6)
    np.testing.assert_allclose(tg.grad(mean)(SCORES), slopes, atol=3e-6)


def test_labels_one_after_another() -> None:
    joined = np.concatenate([row[:length] for row, length in zip(LABELS, LENGTHS, strict=True)])
    logs = tg.log_softmax(SCORES)
    assert float(tg.ctc(logs, joined, COUNTS, LENGTHS)) == float(tg.ctc(logs, LABELS, COUNTS, LENGTHS))
    assert float(tg.ctc(logs, LABELS[:, :0], COUNTS, [0, 0, 0, 0], reduction="sum")) > 0


def test_half_precision_and_certain_frames() -> None:
    logs = tg.log_softmax(SCORES)
    halves = tg.ctc(tg.cast(logs, "f16"), LABELS, COUNTS, LENGTHS)
    assert halves.dtype == tg.f16
    np.testing.assert_allclose(float(halves), float(tg.ctc(logs, LABELS, COUNTS, LENGTHS)), rtol=2e-3)
    certain = np.full((3, 1, 2), -np.inf, np.float32)
    certain[[0, 1, 2], 0, [0, 1, 0]] = 0
    assert float(tg.ctc(certain, [[1]], [3], [1])) == 0
    assert np.isfinite(tg.grad(lambda x: tg.ctc(x, [[1]], [3], [1]))(certain)).all()


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_nan_stays_nan(zero_infinity: bool) -> None:
    """A run that has diverged has no loss of 0."""
    logs = np.log(np.full((3, 1, 2), 0.5, np.float32))
    logs[1] = np.nan
    assert np.isnan(float(tg.ctc(logs, [[1]], [3], [1], zero_infinity=zero_infinity)))


def test_no_labels_at_all() -> None:
    logs = np.log(np.full((3, 1, 2), 0.5, np.float32))
    nothing = np.zeros(0, np.int32)
    np.testing.assert_allclose(tg.ctc(logs, nothing, [3], [0]), np.log(8), rtol=1e-6)
    np.testing.assert_allclose(tg.ctc(logs, nothing.reshape(1, 0), [3], [0]), np.log(8), rtol=1e-6)


def test_on_a_device_and_in_batches() -> None:
    logs = tg.log_softmax(SCORES)
    on_device = tg.ctc(tg.tensor(logs, device="cpu"), LABELS, COUNTS, LENGTHS, reduction="none")
    each = tg.vmap(lambda x, y, frames, labels: tg.ctc(x, y, frames, labels, reduction="none"), in_axes=(1, 0, 0, 0))
    expected = np.asarray(tg.ctc(logs, LABELS, COUNTS, LENGTHS, reduction="none"))
    np.testing.assert_allclose(on_device.numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(each(logs, LABELS, COUNTS, LENGTHS), expected, rtol=1e-6)


def test_a_model_learns_to_spell() -> None:
    frames = np.random.default_rng(2).normal(size=(10, 3, 5)).astype(np.float32)
    training = tg.compile(
        tg.nn.Sequential(tg.nn.Linear(5, 16), tg.nn.Tanh(), tg.nn.Linear(16, CLASSES)),
        loss=lambda model, x, labels, counts, lengths: tg.ctc(tg.log_softmax(model(x)), labels, counts, lengths),
        optimizer=tg.optim.adam(0.02),
        inputs={
            "x": frames.shape,
            "labels": tg.spec((3, 4), "i32"),
            "counts": tg.spec(3, "i32"),
            "lengths": tg.spec(3, "i32"),
        },
        device="cpu",
    )
    batch = {"x": frames, "labels": LABELS[[0, 1, 3]].clip(0, 5), "counts": [10, 9, 8], "lengths": [4, 2, 3]}
    last = first = float(training.step(**batch))
    for _ in range(150):
        last = float(training.step(**batch))
    assert first > 1 and last < 0.1


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (ShapeError, r"\[frames, batch, classes\] or \[frames, classes\], not \(3,\)", ([0.0, 0.0, 0.0], [1], 3, 1)),
        (ShapeError, r"a batch of 4, not \(3, 4\)", (SCORES, LABELS[:3], COUNTS, LENGTHS)),
        (
            ShapeError,
            r"input_lengths have shape \[batch\] with a batch of 4, not \(3,\)",
            (SCORES, LABELS, [1, 2, 3], LENGTHS),
        ),
        (ShapeError, "input_lengths: index 13 is out of range", (SCORES, LABELS, [13, 1, 1, 1], LENGTHS)),
        (ShapeError, "target_lengths: index 5 is out of range", (SCORES, LABELS, COUNTS, [5, 1, 1, 1])),
        (ShapeError, "add up to 9, and there are 3 targets", (SCORES, [1, 2, 3], COUNTS, LENGTHS)),
        (ShapeError, "targets: index 8 is out of range", (SCORES, LABELS + 3, COUNTS, LENGTHS)),
        (DTypeError, "log_probs must be floats, not i32", (np.zeros((3, 1, 2), np.int32), [[1]], [3], [1])),
        (DTypeError, "targets: indices must be integers, got f32", (SCORES, LABELS * 1.0, COUNTS, LENGTHS)),
        (OptionError, "blank is class 6, of 6", (SCORES, LABELS, COUNTS, LENGTHS, 6)),
        (OptionError, "reduction must be one of", (SCORES, LABELS, COUNTS, LENGTHS, 0, "max")),
    ],
)
def test_what_is_refused(error: type[Exception], message: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(error, match=message):
        cast(Any, tg.ctc)(*arguments)
