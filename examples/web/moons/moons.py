"""Separates two moons with a small network in a web page that shows the decision boundary during training.

python examples/web/moons/moons.py && tg serve out/moons
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from sklearn import datasets

import tensorgrad as tg

HERE = Path(__file__).parent
BATCH, CELLS, COUNT = 64, 40, 240


class Border(tg.nn.Module):
    """Maps points `[batch, 2]` to the logits of the second class, `[batch]`."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = tg.nn.MLP(2, [32, 32], 1, activation=tg.tanh)

    def __call__(self, points: tg.Tensor) -> tg.Tensor:
        return self.layers(points)[:, 0]


def loss(model: Border, points: tg.Tensor, kinds: tg.Tensor) -> tg.Tensor:
    return tg.binary_cross_entropy_with_logits(model(points), kinds)


def spirals(count: int, noise: float, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Returns the points of two intertwined spirals, and their classes."""
    kinds = np.arange(count) % 2
    turn = 3 * np.pi * np.sqrt(generator.uniform(0.03, 1, count))
    angle = turn + np.pi * kinds
    points = turn[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1) / 6
    return points + generator.normal(0, noise, points.shape), kinds


def clouds() -> dict[str, np.ndarray]:
    """Returns data sets of two classes, by name, with coordinates between -1 and 1."""
    data = {
        "moons": datasets.make_moons(COUNT, noise=0.12, random_state=0),
        "rings": datasets.make_circles(COUNT, noise=0.08, factor=0.45, random_state=0),
        "spirals": spirals(COUNT, 0.05, np.random.default_rng(0)),
    }
    arrays: dict[str, np.ndarray] = {}
    for name, (points, kinds) in data.items():
        least, most = points.min(axis=0), points.max(axis=0)
        arrays[f"{name}.points"] = (2 * (points - least) / (most - least) - 1).astype(np.float32)
        arrays[f"{name}.kinds"] = kinds.astype(np.float32)
    return arrays


def export(folder: Path) -> None:
    """Writes the folder of the page, which trains from scratch."""
    training = tg.compile(
        Border(),
        loss=loss,
        optimizer=tg.optim.adam(1e-2),
        inputs={"points": (BATCH, 2), "kinds": BATCH},
        device="numpy",  # nothing runs here
    )
    chance = training.attach(lambda model, points: tg.sigmoid(model(points)), inputs={"points": (CELLS * CELLS, 2)})
    for files in (HERE.parent / "common", HERE):
        shutil.copytree(files, folder, dirs_exist_ok=True)
    shutil.copyfile(HERE.parents[2] / "docs" / "gallery" / f"{HERE.name}.jpg", folder / "picture.jpg")
    save_file(clouds(), folder / "clouds.safetensors")
    training.export_web(folder, functions={"chance": chance})


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/moons"), help="the folder to write")
    options = parser.parse_args(arguments)
    export(options.out)
    print(f"{options.out} is written: `tg serve {options.out}` serves it")


if __name__ == "__main__":
    main()
