"""Learns to read handwritten digits: 1,797 real ones of 8x8 pixels, by a multilayer perceptron.

python examples/digits.py --device auto
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

import tensorgrad as tg

BATCH, TEST_SIZE, STEPS = 128, 360, 1000
LEARNING_RATE, WEIGHT_DECAY = 5e-3, 1e-3
HINT = (
    "No hardware adapter was found, so this trains by numpy; to use a GPU, install its Vulkan driver, or try "
    "DEVICE=wgpu with a software one (on Debian: apt-get install mesa-vulkan-drivers)."
)


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
    """The images and labels to train on, and those to test on: always the same split."""
    from sklearn import datasets

    data: Any = datasets.load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    images, labels = (data.data[order] / 16).astype(np.float32), data.target[order].astype(np.int32)
    return (images[TEST_SIZE:], labels[TEST_SIZE:]), (images[:TEST_SIZE], labels[:TEST_SIZE])


def batches(images: np.ndarray, labels: np.ndarray, seed: int) -> Iterator[dict[str, np.ndarray]]:
    """Random batches without end; each example comes once an epoch."""
    generator = np.random.default_rng(seed)
    while True:
        order = generator.permutation(len(labels))
        for start in range(0, len(order) - BATCH + 1, BATCH):
            chosen = order[start : start + BATCH]
            yield {"images": images[chosen], "labels": labels[chosen]}


def train(device: str, steps: int, seed: int) -> tuple[tg.Training, list[float]]:
    """Trains a classifier; returns it and the loss of every step."""
    (images, labels), _ = load_digits()
    training = tg.compile(
        Classifier(),
        loss=loss,
        optimizer=tg.optim.adam(LEARNING_RATE, weight_decay=WEIGHT_DECAY),
        inputs={"images": (BATCH, 64), "labels": tg.spec(BATCH, "i32")},
        device=device,
        seed=seed,
    )
    if device == "auto" and training.device == "numpy":
        print(HINT)
    handles: list[tg.Array] = []
    columns = (TextColumn("training"), BarColumn(), TextColumn("loss {task.fields[loss]}"), TimeRemainingColumn())
    with Progress(*columns) as progress:
        task = progress.add_task("", total=steps, loss="")
        for step, batch in zip(range(steps), batches(images, labels, seed), strict=False):
            training.set_learning_rate(LEARNING_RATE * (1 + math.cos(math.pi * step / steps)) / 2)
            handles.append(training.step(**batch))
            if len(handles) % 50 == 0 or len(handles) == steps:
                progress.update(task, completed=len(handles), loss=f"{handles[-1]:.4f}")
    return training, [float(value) for value in handles]


def test_accuracy(training: tg.Training) -> float:
    """The fraction of the test images that the classifier reads right."""
    _, (images, labels) = load_digits()
    predict = training.attach(lambda model, images: model(images), inputs={"images": images.shape})
    return float(np.mean(np.argmax(predict(images=images), axis=1) == labels))


def plot(losses: list[float], accuracy: float, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    axes.semilogy(range(1, len(losses) + 1), losses, linewidth=0.8)
    axes.set(title=f"Digits: test accuracy {accuracy:.1%}", xlabel="step", ylabel="loss (cross-entropy)")
    axes.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto", choices=["auto", "wgpu", "numpy"])
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("out/digits.png"), help="where the loss curve goes")
    options = parser.parse_args(arguments)
    if options.steps < 1:
        parser.error("--steps must be at least 1")
    training, losses = train(options.device, options.steps, options.seed)
    accuracy = test_accuracy(training)
    plot(losses, accuracy, options.out)
    print(f"backend: {training.device}")
    print(f"loss curve: {options.out}")
    print(f"test accuracy: {accuracy:.1%}")


if __name__ == "__main__":
    main()
