"""Compares the time of `training.blame` with that of a step: a GPT of 24 layers, one with a NaN in its derivative.

Both alternate in one process, and their ratio is reported. The timed step is the same program on an input that produces
no NaN.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
from rich.console import Console

import tensorgrad as tg
from benchmarks.harness import Contestant, machine, measure
from benchmarks.workloads import gpt
from benchmarks.workloads.transformer import Transformer
from tensorgrad.checks.blame import Blame

LAYERS, PLANTED = 24, 13
ROUNDS = 3


class Faulty(Transformer):
    """A transformer in which one layer has a square root whose argument may be zero."""

    def logits(self, tokens: tg.Tensor, scale: tg.Tensor) -> tg.Tensor:
        x = self.tokens(tokens) + self.positions
        for number, block in enumerate(self.blocks):
            x = block(x)
            if number == PLANTED:
                x = x + tg.sqrt(tg.sum(x * x, axis=-1, keepdims=True) * scale)  # planted
        return self.tokens.attend(self.norm(x))


def loss(model: Faulty, tokens: tg.Tensor, following: tg.Tensor, scale: tg.Tensor) -> tg.Tensor:
    return tg.cross_entropy(model.logits(tokens, scale), following)


def compiled(device: tg.DeviceName, width: int = gpt.WIDTH) -> tg.Training:
    """Returns the training."""
    shape = tg.spec((gpt.BATCH, gpt.LENGTH), "i32")
    return tg.compile(
        Faulty(gpt.VOCABULARY, gpt.LENGTH, width, gpt.HEADS, LAYERS),
        loss=loss,
        optimizer=tg.optim.adamw(3e-4, weight_decay=0.1, decay="*.weight", clip_norm=1.0),
        inputs={"tokens": shape, "following": shape, "scale": ()},
        device=device,
    )


def report(device: tg.DeviceName, width: int, out: Path) -> None:
    """Prints the time of a step, of blaming one, and of the first blame; writes them as JSON."""
    training, batch = compiled(device, width), gpt.batch()
    sound, faulty = {**batch, "scale": np.float32(1e-6)}, {**batch, "scale": np.float32(0)}
    start = time.perf_counter()
    checked(training.blame(**faulty))
    first = time.perf_counter() - start

    def blame() -> float:
        checked(training.blame(**faulty))
        return 0.0

    step, blamed = measure(
        [Contestant("step", lambda: float(training.step(**sound))), Contestant("blame", blame)], ROUNDS
    )
    results = {
        "device": training.device,
        "width": width,
        "step_milliseconds": step.median * 1e3,
        "blame_milliseconds": blamed.median * 1e3,
        "ratio": blamed.median / step.median,
        "first_seconds": first,
    }
    console = Console()
    console.print(
        f"{LAYERS} layers of width {width} on {training.device}: a step takes {results['step_milliseconds']:.0f} ms, "
        f"blaming one {results['blame_milliseconds']:.0f} ms, {results['ratio']:.1f} times as long; the first blame, "
        f"which prepares the reference, {first:.1f} s",
        soft_wrap=True,
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"machine": machine(), **results}, indent=1))
    console.print(f"written to {out}")


def checked(blame: Blame | None) -> None:
    """Checks that the planted line is blamed.

    Raises:
        RuntimeError: Another line is, or none.
    """
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    planted = next(number for number, line in enumerate(lines, 1) if line.endswith("# planted"))
    if blame is None or blame.phase != "backward" or not str(blame.line).endswith(f"blame.py:{planted}"):
        raise RuntimeError(f"line {planted} was to be blamed, found {blame}")
