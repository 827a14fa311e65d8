"""A neural field: a network that represents a picture as a function from coordinates to colors.

Fits one of scikit-learn's sample pictures, reduced to 106 x 160 pixels, through random Fourier features (Tancik et al.,
"Fourier Features Let Networks Learn High Frequency Functions", 2020). After 1,000 steps of 2,048 pixels each, the peak
signal-to-noise ratio of the whole picture is over 30 dB.

python examples/neural_field.py --device auto
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import tensorgrad as tg

BATCH = 2048


class Field(tg.nn.Module):
    """Maps coordinates `[batch, 2]` in the unit square to colors `[batch, 3]` between 0 and 1."""

    def __init__(self, waves: int = 64, width: int = 128, scale: float = 6.0) -> None:
        super().__init__()
        self.waves = (scale * np.random.default_rng(0).normal(size=(2, waves))).astype(np.float32)
        self.layers = tg.nn.MLP(2 * waves, [width] * 2, 3)

    def __call__(self, places: tg.Tensor) -> tg.Tensor:
        angles = 2 * np.pi * (places @ self.waves)
        return tg.sigmoid(self.layers(tg.concat([tg.sin(angles), tg.cos(angles)], axis=1)))


def error(model: Field, places: tg.Tensor, colors: tg.Tensor) -> tg.Tensor:
    return tg.mse(model(places), colors)


def picture(reduce: int = 4) -> np.ndarray:
    """Returns a picture of a flower, `[height, width, 3]`, downsampled by averaging squares of pixels."""
    from sklearn.datasets import load_sample_image

    pixels = load_sample_image("flower.jpg").astype(np.float32) / 255
    height, width = (extent // reduce for extent in pixels.shape[:2])
    squares = pixels[: height * reduce, : width * reduce].reshape(height, reduce, width, reduce, 3)
    return squares.mean(axis=(1, 3))


def places_of(pixels: np.ndarray) -> np.ndarray:
    """Returns the center of each pixel in the unit square, `[pixels, 2]`."""
    rows, columns = (np.arange(extent) + 0.5 for extent in pixels.shape[:2])
    grid = np.meshgrid(rows / len(rows), columns / len(columns), indexing="ij")
    return np.stack(grid, axis=-1).reshape(-1, 2).astype(np.float32)


def batches(pixels: np.ndarray, seed: int) -> Iterator[dict[str, np.ndarray]]:
    places, colors, generator = places_of(pixels), pixels.reshape(-1, 3), np.random.default_rng(seed)
    while True:
        chosen = generator.integers(0, len(places), BATCH)
        yield {"places": places[chosen], "colors": colors[chosen]}


def train(pixels: np.ndarray, steps: int, device: tg.DeviceName, seed: int = 0) -> tuple[tg.Training, float]:
    """Trains a field; returns it and the peak signal-to-noise ratio of the whole picture, in dB."""
    training = tg.compile(
        Field(),
        loss=error,
        optimizer=tg.optim.adam(tg.optim.schedules.cosine(3e-3, steps)),
        inputs={"places": (BATCH, 2), "colors": (BATCH, 3)},
        device=device,
        seed=seed,
    )
    training.run(steps, batches(pixels, seed))
    places, colors = places_of(pixels), pixels.reshape(-1, 3)
    parts = range(0, len(places), BATCH)
    whole = ({"places": places[i : i + BATCH], "colors": colors[i : i + BATCH]} for i in parts)
    return training, float(-10 * np.log10(training.evaluate(error, whole)))


def draw(training: tg.Training, height: int, width: int, path: Path) -> None:
    """Renders the field as a picture of any size, and writes it."""
    from matplotlib import image

    places = places_of(np.empty((height, width)))
    field = training.attach(lambda model, places: model(places), inputs={"places": (width, 2)})
    rows = [np.asarray(field(places=places[i * width : (i + 1) * width])) for i in range(height)]
    path.parent.mkdir(parents=True, exist_ok=True)
    image.imsave(path, np.stack(rows))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", choices=["auto", "wgpu", "cpu", "numpy"])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("out/neural_field.png"), help="where the picture goes")
    options = parser.parse_args(arguments)
    if options.steps < 1:
        parser.error("--steps must be at least 1")
    pixels = picture()
    training, ratio = train(pixels, options.steps, options.device, options.seed)
    draw(training, 2 * pixels.shape[0], 2 * pixels.shape[1], options.out)
    print(f"backend: {training.device}")
    print(f"picture: {options.out}, twice as large as what it was learned from")
    print(f"peak signal-to-noise ratio: {ratio:.1f} dB")


if __name__ == "__main__":
    main()
