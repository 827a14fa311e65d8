"""Classifies handwritten digits, 1,797 real images of 8x8 pixels, by a multilayer perceptron.

python examples/digits.py --device auto
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import tensorgrad as tg

BATCH, TEST_SIZE, STEPS = 128, 360, 1000
LEARNING_RATE, WEIGHT_DECAY = 5e-3, 1e-3


class Classifier(tg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [tg.nn.Linear(64, 256), tg.nn.Linear(256, 128), tg.nn.Linear(128, 10)]

    def __call__(self, images: tg.Tensor) -> tg.Tensor:
        hidden = images
        for layer in self.layers[:-1]:
            hidden = tg.relu(layer(hidden))
        return self.layers[-1](hidden)


def loss(model: Classifier, images: tg.Tensor, labels: tg.Tensor) -> tg.Tensor:
    return tg.cross_entropy(model(images), labels)


def load_digits() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Returns the training images and labels, and the test images and labels; the split is always the same."""
    from sklearn import datasets

    data: Any = datasets.load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    images, labels = (data.data[order] / 16).astype(np.float32), data.target[order].astype(np.int32)
    return (images[TEST_SIZE:], labels[TEST_SIZE:]), (images[:TEST_SIZE], labels[:TEST_SIZE])


def train(device: tg.DeviceName, steps: int, seed: int, out: Path | None = None) -> tuple[tg.Training, list[float]]:
    """Trains a classifier; returns it and the loss of every step."""
    (images, labels), _ = load_digits()
    training = tg.compile(
        Classifier(),
        loss=loss,
        optimizer=tg.optim.adam(tg.optim.schedules.cosine(LEARNING_RATE, steps), weight_decay=WEIGHT_DECAY),
        inputs={"images": (BATCH, 64), "labels": tg.spec(BATCH, "i32")},
        device=device,
        seed=seed,
    )
    data = tg.data.batches({"images": images, "labels": labels}, BATCH, shuffle=seed)
    report = tg.fit(training, data, steps=steps, plot=out)
    return training, report.losses.tolist()


def test_accuracy(training: tg.Training) -> float:
    """Returns the classifier's accuracy on the test images."""
    _, (images, labels) = load_digits()
    predict = training.attach(lambda model, images: model(images), inputs={"images": images.shape})
    return float(np.mean(np.argmax(predict(images=images), axis=1) == labels))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto", choices=["auto", "wgpu", "cpu", "numpy"])
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("out/digits.png"), help="where the loss curve goes")
    options = parser.parse_args(arguments)
    if options.steps < 1:
        parser.error("--steps must be at least 1")
    training, _ = train(options.device, options.steps, options.seed, options.out)
    accuracy = test_accuracy(training)
    print(f"backend: {training.device}")
    print(f"loss curve: {options.out}")
    print(f"test accuracy: {accuracy:.1%}")


if __name__ == "__main__":
    main()
