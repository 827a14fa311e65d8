"""Fits a sine with a small network in a web page that shows the curve during training.

python examples/web/sine/sine.py && tg serve out/sine
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import tensorgrad as tg

HERE = Path(__file__).parent
BATCH, POINTS = 64, 200


def loss(model: tg.nn.MLP, x: tg.Tensor, y: tg.Tensor) -> tg.Tensor:
    return tg.mse(model(x), y)


def export(folder: Path) -> None:
    """Writes the folder of the page, which trains from scratch."""
    training = tg.compile(
        tg.nn.MLP(1, [32, 32], 1, activation=tg.tanh),
        loss=loss,
        optimizer=tg.optim.adam(1e-2),
        inputs={"x": (BATCH, 1), "y": (BATCH, 1)},
        device="numpy",  # nothing runs here
    )
    fit = training.attach(lambda model, x: model(x), inputs={"x": (POINTS, 1)})
    for files in (HERE.parent / "common", HERE):
        shutil.copytree(files, folder, dirs_exist_ok=True)
    shutil.copyfile(HERE.parents[2] / "docs" / "gallery" / f"{HERE.name}.jpg", folder / "picture.jpg")
    training.export_web(folder, functions={"fit": fit})


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/sine"), help="the folder to write")
    options = parser.parse_args(arguments)
    export(options.out)
    print(f"{options.out} is written: `tg serve {options.out}` serves it")


if __name__ == "__main__":
    main()
