"""Classifies digits drawn in a web page, and learns from them, starting with scikit-learn's 1,797 handwritten digits.

python examples/web/digits/digits.py && tg serve out/digits
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from sklearn import datasets

import tensorgrad as tg

HERE = Path(__file__).parent
BATCH, TEST_SIZE, STEPS = 64, 297, 2000


def loss(model: tg.nn.MLP, images: tg.Tensor, labels: tg.Tensor) -> tg.Tensor:
    return tg.cross_entropy(model(images), labels)


def load_digits() -> tuple[np.ndarray, np.ndarray]:
    """Returns images `[count, 64]` with values from 0 to 1, and their labels, in random order."""
    data: Any = datasets.load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    return (data.data[order] / 16).astype(np.float32), data.target[order].astype(np.int32)


def moved(images: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Returns the images, each shifted horizontally by up to a pixel, as users don't draw exactly in the center."""
    pixels = images.reshape(-1, 8, 8)
    by = generator.uniform(-1, 1, (len(pixels), 1, 1))
    neighbors = np.where(by > 0, np.roll(pixels, 1, axis=2), np.roll(pixels, -1, axis=2))
    return (pixels + np.abs(by) * (neighbors - pixels)).reshape(-1, 64).astype(np.float32)


def export(folder: Path, steps: int = STEPS, device: tg.DeviceName = "auto") -> None:
    """Pretrains the model briefly, and writes the folder of the page, which continues the training."""
    images, labels = load_digits()
    training = tg.compile(
        tg.nn.MLP(64, [64, 64], 10),
        loss=loss,
        optimizer=tg.optim.adam(1e-3),
        inputs={"images": (BATCH, 64), "labels": tg.spec(BATCH, "i32")},
        device=device,
    )

    def batch(number: int) -> dict[str, np.ndarray]:
        generator = np.random.default_rng(number)
        chosen = generator.integers(TEST_SIZE, len(labels), BATCH)
        return {"images": moved(images[chosen], generator), "labels": labels[chosen]}

    tg.fit(training, tg.data.generated(batch), steps=steps)

    def chances(model: tg.nn.MLP, images: tg.Tensor) -> tg.Tensor:
        return tg.softmax(model(images))

    def right(model: tg.nn.MLP, images: tg.Tensor, labels: tg.Tensor) -> tg.Tensor:
        return tg.mean(tg.cast(tg.argmax(model(images), axis=1) == labels, "f32"))

    for files in (HERE.parent / "common", HERE):
        shutil.copytree(files, folder, dirs_exist_ok=True)
    shutil.copyfile(HERE.parents[2] / "docs" / "gallery" / f"{HERE.name}.jpg", folder / "picture.jpg")
    # Pixel values are multiples of 1/16, so a byte is enough.
    save_file(
        {"images": np.rint(images * 16).astype(np.uint8), "labels": labels.astype(np.uint8)},
        folder / "digits.safetensors",
    )
    training.export_web(
        folder,
        functions={
            "read": training.attach(chances, inputs={"images": (1, 64)}),
            "test": training.attach(right, inputs={"images": (TEST_SIZE, 64), "labels": tg.spec(TEST_SIZE, "i32")}),
        },
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/digits"), help="the folder to write")
    parser.add_argument("--steps", type=int, default=STEPS, help="how many steps to train before")
    parser.add_argument("--device", default="auto", choices=["auto", "wgpu", "cpu", "numpy"], help="where to train")
    options = parser.parse_args(arguments)
    export(options.out, options.steps, options.device)
    print(f"{options.out} is written: `tg serve {options.out}` serves it")


if __name__ == "__main__":
    main()
