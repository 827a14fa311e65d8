"""Learns a picture as a function of coordinates, in a web page that shows it becoming sharper.

The network maps random Fourier features of the coordinates (Tancik et al., "Fourier Features Let Networks Learn High
Frequency Functions", 2020) to colors.

python examples/web/neural_field/neural_field.py && tg serve out/neural_field
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

import tensorgrad as tg

HERE = Path(__file__).parent
BATCH, SIDE = 512, 96


class Field(tg.nn.Module):
    """Maps coordinates `[batch, 2]` in the unit square to colors `[batch, 3]` between 0 and 1."""

    def __init__(self, waves: int = 32, width: int = 64, scale: float = 4.0) -> None:
        super().__init__()
        self.waves = (scale * np.random.default_rng(0).normal(size=(2, waves))).astype(np.float32)
        self.layers = tg.nn.MLP(2 * waves, [width] * 2, 3)

    def __call__(self, places: tg.Tensor) -> tg.Tensor:
        angles = 2 * np.pi * (places @ self.waves)
        return tg.sigmoid(self.layers(tg.concat([tg.sin(angles), tg.cos(angles)], axis=1)))


def loss(model: Field, places: tg.Tensor, colors: tg.Tensor) -> tg.Tensor:
    return tg.mse(model(places), colors)


def picture() -> np.ndarray:
    """Returns a picture of a sun over hills, `[SIDE, SIDE, 3]` in bytes, computed by a formula."""
    y, x = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    sky = np.array([30, 42, 110]) + y[..., None] * np.array([330, 120, -20])
    sun = np.hypot(x - 0.66, y - 0.36)[..., None]
    pixels = np.where(sun < 0.15, [255, 226, 150], sky + 90 * np.exp(-8 * sun))
    for index, color in enumerate(([112, 66, 122], [66, 48, 98], [30, 28, 60])):
        ridge = 0.56 + 0.13 * index + 0.06 * np.sin((7 - index) * x + 2.2 * index) + 0.02 * np.sin(23 * x + index)
        pixels = np.where((y > ridge)[..., None], color, pixels)
    return np.clip(pixels, 0, 255).astype(np.uint8)


def export(folder: Path) -> None:
    """Writes the folder of the page, which trains from scratch."""
    training = tg.compile(
        Field(),
        loss=loss,
        optimizer=tg.optim.adam(5e-3),
        inputs={"places": (BATCH, 2), "colors": (BATCH, 3)},
        device="numpy",  # nothing runs here
    )
    field = training.attach(lambda model, places: model(places), inputs={"places": (SIDE * SIDE, 2)})
    for files in (HERE.parent / "common", HERE):
        shutil.copytree(files, folder, dirs_exist_ok=True)
    shutil.copyfile(HERE.parents[2] / "docs" / "gallery" / f"{HERE.name}.jpg", folder / "picture.jpg")
    save_file({"pixels": picture()}, folder / "picture.safetensors")
    training.export_web(folder, functions={"field": field})


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/neural_field"), help="the folder to write")
    options = parser.parse_args(arguments)
    export(options.out)
    print(f"{options.out} is written: `tg serve {options.out}` serves it")


if __name__ == "__main__":
    main()
