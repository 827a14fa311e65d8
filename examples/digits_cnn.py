"""Classifies handwritten digits by a convolutional network, with an accuracy of at least 98.5% on 360 test images.

There are 1,797 real images of 8x8 pixels; training images are randomly shifted by up to a pixel in each batch. If
`--checkpoints` names a folder, an interrupted run resumes.

python examples/digits_cnn.py --device auto
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import tensorgrad as tg

BATCH, TEST_SIZE, EPOCHS, WIDTH = 64, 360, 20, 32


class Network(tg.nn.Module):
    """Maps images `[batch, 1, 8, 8]` to the logits of ten classes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = tg.nn.Conv2d(1, width, 3, padding=1)
        self.conv2 = tg.nn.Conv2d(width, 2 * width, 3, padding=1)
        self.hidden = tg.nn.Linear(2 * width * 4, 4 * width)
        self.out = tg.nn.Linear(4 * width, 10)
        self.dropout = tg.nn.Dropout(0.3)

    def __call__(self, images: tg.Tensor, key: Any = None) -> tg.Tensor:
        x = tg.max_pool(tg.relu(self.conv1(images)), 2)
        x = tg.max_pool(tg.relu(self.conv2(x)), 2)
        x = tg.relu(self.hidden(x.reshape(len(images), -1)))
        return self.out(self.dropout(x, key))


def loss(model: Network, images: tg.Tensor, labels: tg.Tensor, key: tg.Tensor) -> tg.Tensor:
    return tg.cross_entropy(model(images, key), labels, label_smoothing=0.05)


def accuracy(model: Network, images: tg.Tensor, labels: tg.Tensor) -> tg.Tensor:
    return tg.mean(tg.cast(tg.argmax(tg.nn.inference(model)(images), axis=1) == labels, "f32"))


def load_digits() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Returns the training set and the test set; the split is always the same."""
    from sklearn import datasets

    data: Any = datasets.load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    images, labels = (data.images[order, None] / 16).astype(np.float32), data.target[order].astype(np.int32)
    test, train = slice(TEST_SIZE), slice(TEST_SIZE, None)
    return {"images": images[train], "labels": labels[train]}, {"images": images[test], "labels": labels[test]}


def shifted(batches: tg.data.Batches, seed: int) -> tg.data.Generated:
    """Returns the same batches, with each image shifted by up to a pixel along both axes."""

    def batch(number: int) -> dict[str, np.ndarray]:
        chosen = batches.at(*divmod(number, len(batches)))
        generator = np.random.default_rng((seed, number))
        padded = np.pad(chosen["images"], ((0, 0), (0, 0), (1, 1), (1, 1)))
        places = generator.integers(0, 3, (len(padded), 2))
        moved = [image[:, y : y + 8, x : x + 8] for image, (y, x) in zip(padded, places, strict=True)]
        return {**chosen, "images": np.stack(moved)}

    return tg.data.generated(batch, len(batches))


def train(
    device: tg.DeviceName,
    seed: int = 0,
    epochs: int = EPOCHS,
    width: int = WIDTH,
    checkpoints: Path | None = None,
    progress: bool = True,
) -> tuple[tg.Training, tg.Report]:
    """Trains a network; the report's last evaluation is its test accuracy."""
    examples, test = load_digits()
    batches = tg.data.batches(examples, BATCH, shuffle=seed)
    steps = epochs * len(batches)
    training = tg.compile(
        Network(width),
        loss=loss,
        optimizer=tg.optim.adamw(tg.optim.schedules.one_cycle(4e-3, steps), weight_decay=1e-2, decay="*.weight"),
        inputs={"images": (BATCH, 1, 8, 8), "labels": tg.spec(BATCH, "i32")},
        device=device,
        seed=seed,
    )
    report = tg.fit(
        training,
        shifted(batches, seed),
        epochs=epochs,
        evaluate=lambda training: {"accuracy": training.evaluate(accuracy, [test])},
        evaluate_every=5 * len(batches),
        checkpoint=checkpoints,
        resume=checkpoints is not None,
        progress=progress,
    )
    return training, report


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", choices=["auto", "wgpu", "cpu", "numpy"])
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoints", type=Path, help="a folder to keep checkpoints in, and to go on from")
    options = parser.parse_args(arguments)
    if options.epochs < 1:
        parser.error("--epochs must be at least 1")
    training, report = train(options.device, options.seed, options.epochs, checkpoints=options.checkpoints)
    print(f"backend: {training.device}")
    print(f"test accuracy: {report.evaluations[-1][1]['accuracy']:.1%}")


if __name__ == "__main__":
    main()
