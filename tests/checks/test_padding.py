"""`PaddingWarning`: losses that depend on padded positions, told from the IR, and compared with what they compute."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.errors import PaddingWarning

WORDS, WIDTH, ROWS, LENGTH, BUCKET = 11, 8, 3, 5, 8
IGNORED = -100


class Reader(tg.nn.Module):
    """Scores of words at each position, from a layer that mixes positions."""

    def __init__(self, mixing: Callable[[], Any] = lambda: tg.nn.MultiHeadAttention(WIDTH, 2)) -> None:
        super().__init__()
        self.words, self.head, self.mixing = tg.nn.Embedding(WORDS, WIDTH), tg.nn.Linear(WIDTH, WORDS), mixing()

    def __call__(self, tokens: Any, **options: Any) -> Any:
        mixed = self.mixing(self.words(tokens), **options)
        return self.head(mixed[0] if isinstance(mixed, tuple) else mixed)


def ignoring(scores: Any, labels: Any) -> Any:
    return tg.cross_entropy(scores, labels, ignore_index=IGNORED)


def each(scores: Any, labels: Any) -> Any:
    return tg.cross_entropy(scores, tg.maximum(labels, 0), reduction="none")


def causal(tokens: Any) -> Any:
    position = tg.arange(tokens.shape[1])
    return position[:, None] >= position


def words_seen(tokens: Any) -> Any:
    return (tokens != 0)[:, None, None, :]


def low(mask: Any) -> Any:
    """Returns a mask that is added to scores, as BERT's."""
    return (1 - tg.cast(mask, "f32")) * -1e4


def apart(segments: Any) -> Any:
    return (segments[:, :, None] == segments[:, None, :])[:, None]


def recurrent() -> Any:
    return tg.nn.LSTM(WIDTH, WIDTH, batch_first=True)


def both_ways() -> Any:
    return tg.nn.LSTM(WIDTH, WIDTH // 2, batch_first=True, bidirectional=True)


FILTERS = np.random.default_rng(5).normal(size=(WIDTH, WIDTH, 3)).astype(np.float32)


def windows(x: Any, filters: Any) -> Any:
    return tg.conv1d(x.swapaxes(1, 2), filters, padding=1).swapaxes(1, 2)


def convolved(x: Any) -> Any:
    return windows(x, tg.ones((WIDTH, WIDTH, 3)))


def last_word(model: Any, tokens: Any, labels: Any, mask: Any) -> Any:
    """Reads the last position that isn't padded."""
    place = tg.cast(tg.sum(mask, axis=1), "i32") - 1
    scores = model(tokens, mask=causal(tokens))
    return tg.mean(tg.square(tg.take_along_axis(scores, place[:, None, None], 1)))


Loss = Callable[..., Any]
CLEAN: dict[str, tuple[Loss, Callable[[], Reader]]] = {
    "causal attention": (lambda model, tokens, labels: ignoring(model(tokens, mask=causal(tokens)), labels), Reader),
    "masked words": (lambda model, tokens, labels: ignoring(model(tokens, mask=words_seen(tokens)), labels), Reader),
    "segments": (lambda model, tokens, labels, mask: ignoring(model(tokens, mask=apart(mask)), labels), Reader),
    "a mask that is added": (
        lambda model, tokens, labels: tg.sum(
            tg.softmax(tg.sum(model.words(tokens), axis=-1) + low(tokens != 0), axis=-1)[..., None]
            * model(tokens[:, :1])
        ),
        Reader,
    ),
    "a weighted mean": (
        lambda model, tokens, labels, mask: (
            tg.sum(each(model(tokens, mask=causal(tokens)), labels) * mask) / tg.sum(mask)
        ),
        Reader,
    ),
    "steps of a loop": (lambda model, tokens, labels: ignoring(model(tokens), labels), lambda: Reader(recurrent)),
    "running sums": (
        lambda model, tokens, labels: ignoring(model.head(tg.cumsum(model.words(tokens), axis=1)), labels),
        Reader,
    ),
    "the first word": (
        lambda model, tokens, labels: ignoring(model(tokens, mask=causal(tokens))[:, 0], labels[:, 0]),
        Reader,
    ),
    "the last word": (last_word, Reader),
    "the largest of those not masked": (
        lambda model, tokens, labels: tg.sum(
            tg.max(tg.where((tokens != 0)[..., None], model.words(tokens), -np.inf), axis=1)
        ),
        Reader,
    ),
    "windows over masked words": (
        lambda model, tokens, labels: ignoring(
            model.head(convolved(model.words(tokens) * (tokens != 0)[..., None])), labels
        ),
        Reader,
    ),
    "a mask of lengths": (
        lambda model, tokens, labels, lengths: tg.sum(
            each(model(tokens, mask=causal(tokens)), labels) * (tg.arange(tokens.shape[1]) < lengths[:, None])
        ),
        Reader,
    ),
    "a mask that is subtracted": (
        lambda model, tokens, labels: tg.sum(
            tg.softmax(tg.sum(model.words(tokens), axis=-1) - tg.cast(tokens == 0, "f32") * 1e9, axis=-1)[..., None]
            * model(tokens[:, :1])
        ),
        Reader,
    ),
    "the same in both branches": (
        lambda model, tokens, labels, mask: tg.sum(
            tg.where(tg.sum(model.words(tokens), -1) > 0, each(model.head(model.words(tokens)), labels) * mask, 0.0)
        ),
        Reader,
    ),
    "experts of each word": (
        lambda model, tokens, labels: ignoring(
            tg.sum(tg.top_k(tg.softmax(model(tokens, mask=causal(tokens))), 2)[0], -1, keepdims=True)
            * model.head(model.words(tokens)),
            labels,
        ),
        Reader,
    ),
    "the position of the last word": (
        lambda model, tokens, labels: tg.mean(
            tg.square(
                tg.take_along_axis(
                    model(tokens, mask=causal(tokens)),
                    tg.max((tokens != 0) * tg.arange(tokens.shape[1]), axis=1)[:, None, None],
                    1,
                )
            )
        ),
        Reader,
    ),
    "windows of constants": (
        lambda model, tokens, labels: ignoring(
            model.head(windows(model.words(tokens) * (tokens != 0)[..., None], tg.array(FILTERS))), labels
        ),
        Reader,
    ),
    "flat rows": (
        lambda model, tokens, labels: ignoring(model.head(model.words(tokens).reshape(-1, WIDTH)), labels.reshape(-1)),
        Reader,
    ),
}
REACHED: dict[str, tuple[Loss, Callable[[], Reader], str]] = {
    "attention to all": (lambda model, tokens, labels: ignoring(model(tokens), labels), Reader, "tg.max"),
    "a sum of all": (
        lambda model, tokens, labels: tg.sum(each(model(tokens, mask=causal(tokens)), labels)),
        Reader,
        "tg.sum",
    ),
    "a mean that counts all": (
        lambda model, tokens, labels, mask: tg.mean(each(model(tokens, mask=causal(tokens)), labels) * mask),
        Reader,
        "tg.sum",
    ),
    "a division by the size": (
        lambda model, tokens, labels, mask: tg.sum(each(model(tokens, mask=causal(tokens)), labels) * mask) / mask.size,
        Reader,
        "tg.sum",
    ),
    "means of rows": (
        lambda model, tokens, labels, mask: tg.sum(
            tg.vmap(tg.mean)(each(model(tokens, mask=causal(tokens)), labels) * mask)
        ),
        Reader,
        "tg.sum",
    ),
    "the last step of a loop": (
        lambda model, tokens, labels: tg.mean(tg.square(model(tokens)[:, -1])),
        lambda: Reader(recurrent),
        "tg.slice",
    ),
    "a loop that starts in padding": (
        lambda model, tokens, labels: ignoring(model(tokens), labels),
        lambda: Reader(both_ways),
        "tg.scan",
    ),
    "the largest of all": (
        lambda model, tokens, labels: tg.sum(tg.max(model.words(tokens) ** 2, axis=1)),
        Reader,
        "tg.max",
    ),
    "features that data choose": (
        lambda model, tokens, labels: tg.sum(tg.take(model.words(tokens) ** 2, labels[0, :1] % WIDTH, axis=2)),
        Reader,
        "tg.sum",
    ),
    "windows that reach over the end": (
        lambda model, tokens, labels: ignoring(model.head(convolved(model.words(tokens))), labels),
        Reader,
        "tg.conv",
    ),
}


def batch(length: int, names: Any) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    whole = {
        "tokens": generator.integers(1, WORDS, (ROWS, length)).astype(np.int32),
        "labels": generator.integers(0, WORDS, (ROWS, length)).astype(np.int32),
        "mask": np.ones((ROWS, length), np.float32),
        "lengths": np.full(ROWS, length, np.int32),
    }
    return {name: whole[name] for name in names}


def loss_of(loss: Loss, model: Callable[[], Reader], length: Any) -> float:
    """Returns the first loss of a training with rows of some length."""
    names = loss.__code__.co_varnames[1 : loss.__code__.co_argcount]
    shapes = {name: (ROWS,) if name == "lengths" else (ROWS, length) for name in names}
    inputs = {name: tg.spec(shape, "f32" if name == "mask" else "i32") for name, shape in shapes.items()}
    training = tg.compile(model(), loss=loss, inputs=inputs, device="numpy", seed=1)
    return float(training.step(**batch(LENGTH, names)))


def padded() -> Any:
    return tg.dim("length", at_most=BUCKET, buckets=(BUCKET,), padding={"labels": IGNORED})


@pytest.mark.parametrize("name", CLEAN)
def test_a_loss_that_masks_padding_is_that_of_the_exact_length(name: str) -> None:
    loss, model = CLEAN[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error", PaddingWarning)
        value = loss_of(loss, model, padded())
    assert value == pytest.approx(loss_of(loss, model, LENGTH), rel=1e-5)


@pytest.mark.parametrize("name", REACHED)
def test_a_loss_that_padding_reaches_is_told_with_the_op_and_the_line(name: str) -> None:
    loss, model, op = REACHED[name]
    with pytest.warns(PaddingWarning, match=rf"test_padding\.py:\d+: padded .* the loss of .*\(\) through {op}\b"):
        value = loss_of(loss, model, padded())
    assert value != pytest.approx(loss_of(loss, model, LENGTH), rel=1e-5)


@pytest.mark.parametrize(
    "loss",
    [
        lambda model, tokens, labels: tg.sum(tg.max(model.words(tokens).reshape(ROWS, -1, 2, WIDTH), axis=2)[:, :1]),
        lambda model, tokens, labels: tg.sum(model.words(tokens)[:, :4] ** 2),
        lambda model, tokens, labels: tg.sum(model.words(tokens)[:, 3] ** 2),
    ],
)
def test_rows_of_one_word_are_thought_of(loss: Loss) -> None:
    with pytest.warns(PaddingWarning, match="reach the loss of"):
        loss_of(loss, Reader, padded())


def compiled(model: tg.nn.Module, loss: Loss, **inputs: Any) -> tg.Training:
    rows = {name: tg.spec((ROWS, padded()), kind) for name, kind in (("tokens", "i32"), ("labels", "i32"))}
    return tg.compile(model, loss=loss, inputs={**rows, **inputs}, device="numpy")


def test_dropout_keeps_what_is_masked() -> None:
    def loss(model: Any, tokens: Any, labels: Any, mask: Any, key: Any) -> Any:
        terms = each(model(tokens, mask=causal(tokens)), labels) * mask
        return tg.sum(tg.random.dropout(key, terms, 0.1)) / tg.sum(mask)

    with warnings.catch_warnings():
        warnings.simplefilter("error", PaddingWarning)
        compiled(Reader(), loss, mask=tg.spec((ROWS, padded())))


def test_models_mask_what_is_padded() -> None:
    def loss(model: Any, tokens: Any, mask: Any, labels: Any, key: Any) -> Any:
        return tg.cross_entropy(model(tokens, attention_mask=mask, key=key), labels)

    options = tg.models.BertOptions(
        vocab_size=WORDS, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=8, num_labels=2
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", PaddingWarning)
        model = tg.models.BertForSequenceClassification(options)
        compiled(model, loss, mask=tg.spec((ROWS, padded())), labels=tg.spec(ROWS, "i32"))


def test_metrics_buffers_and_attached_functions_are_told_too() -> None:
    class Normalized(Reader):
        def __init__(self) -> None:
            super().__init__()
            self.norm = tg.nn.BatchNorm1d(WIDTH)

    def loss(model: Any, tokens: Any, labels: Any) -> Any:
        hidden = model.words(tokens)
        model.norm(hidden.reshape(-1, WIDTH))
        return ignoring(model.head(hidden), labels), {"mean": tg.mean(hidden)}

    with pytest.warns(PaddingWarning, match=r"reach the result 'metrics\.mean', the buffer 'norm\.running_mean', the"):
        training = compiled(Normalized(), loss)
    rows = {"tokens": tg.spec((ROWS, padded()), "i32")}
    with warnings.catch_warnings():
        warnings.simplefilter("error", PaddingWarning)
        training.attach(lambda model, tokens: model.words(tokens), inputs=rows)
    with pytest.warns(PaddingWarning, match="reach the result 'output' of"):
        training.attach(lambda model, tokens: tg.mean(model.words(tokens)), inputs=rows)
    with pytest.warns(PaddingWarning, match="reach the result 'output'"):
        training.attach(lambda model, tokens: tg.mean(model(tokens), 1), inputs=rows)


def test_the_warning_lists_three_places() -> None:
    def loss(model: Any, tokens: Any, labels: Any) -> Any:
        hidden = model.words(tokens)
        return tg.sum(hidden) + tg.max(hidden) + tg.min(hidden) + tg.prod(hidden) + tg.sum(labels)

    with pytest.warns(PaddingWarning, match=r"through tg\.sum, tg\.max at \S+, tg\.min at \S+ and 1 more: "):
        loss_of(loss, Reader, padded())


@pytest.mark.parametrize(("padding", "is_warned"), [(4, False), (-1, False), (0, True)])
def test_what_is_padded_out_of_the_range_of_segments(padding: int, is_warned: bool) -> None:
    """Edges of a graph that belong to no node have no effect, whatever their values."""
    edges = tg.dim("edges", at_most=8, buckets=(8,), padding={"nodes": padding})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        training = tg.compile(
            tg.nn.Linear(2, 2),
            loss=lambda model, x, nodes: tg.mean(tg.square(tg.segment_sum(model(x), nodes, 4))),
            optimizer=tg.optim.sgd(0.0),
            inputs={"x": (edges, 2), "nodes": tg.spec(edges, "i32")},
            device="numpy",
        )
    assert bool(caught) == is_warned
    x, nodes = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32), np.array([0, 1, 2, 3, 0])
    weight, bias = (np.asarray(value) for value in training.parameters().values())
    sums = np.stack([(x[nodes == node] @ weight + bias).sum(0) for node in range(4)])
    assert np.isclose(float(training.step(x=x, nodes=nodes)), np.mean(sums**2), rtol=1e-5) != is_warned
