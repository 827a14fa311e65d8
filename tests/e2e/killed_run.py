"""A training run that test_kill_and_resume kills; started again with the same arguments, it resumes."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

import tensorgrad as tg
from tensorgrad.train.callbacks import Checkpoints, EarlyStop
from tensorgrad.train.run import Callback


def loss(model: Any, x: Any, y: Any, key: Any) -> Any:
    return tg.mse(model(tg.random.dropout(key, x, 0.1)), y)


def error(model: Any, x: Any, y: Any) -> Any:
    return tg.mse(model(x), y)


class Told(Callback):
    """Prints each finished step, and then sleeps for a while so that it can be killed."""

    def on_step(self, run: Any) -> None:
        print(run.step, flush=True)
        time.sleep(0.002)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="numpy")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--accumulate", type=int, default=1)
    options = parser.parse_args()
    generator = np.random.default_rng(0)
    arrays = {"x": generator.normal(size=(100, 8)), "y": generator.normal(size=(100, 4))}
    training = tg.compile(
        tg.nn.MLP(8, 16, 4),
        loss=loss,
        optimizer=tg.optim.adamw(tg.optim.schedules.cosine(1e-2, options.steps, warmup=20)),
        inputs={"x": (16, 8), "y": (16, 4)},
        device=options.device,
        accumulate=options.accumulate,
    )
    tg.fit(
        training,
        tg.data.batches(arrays, 16, shuffle=1),
        steps=options.steps,
        evaluate=lambda training: {"error": training.evaluate(error, [arrays])},
        evaluate_every=23,
        callbacks=[Told(), EarlyStop("error", patience=10**6)],
        # Epochs of six batches end within steps, where steps have several.
        checkpoint=Checkpoints(
            options.folder / "checkpoints", every=10 if options.accumulate == 1 else None, keep=2, best="error"
        ),
        resume=True,
        log=options.folder / "log.csv",
        progress=False,
    )
    training.save_checkpoint(options.folder / "final.safetensors")


if __name__ == "__main__":
    main()
