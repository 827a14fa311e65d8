"""A training that resumes from its last checkpoint, and that a signal ends at moments listed in a file.

Arguments: a folder; and the file of moments, each "rank step seconds", of which every run uses the next one.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.passes import ModulePass

import tensorgrad as tg
from tensorgrad.passes.buffers.overlap_collectives import OverlapCollectivesPass

STEPS, BATCH, EVERY = 40, 8, 4


def moment(folder: Path, moments: list[str], rank: int) -> tuple[int, float] | None:
    """Returns the step, and the seconds after its start, at which this process is to end in this run, if any."""
    counter = folder / f"runs{rank}"
    number = int(counter.read_text()) if counter.exists() else 0
    counter.write_text(str(number + 1))
    if number >= len(moments):
        return None
    who, step, seconds = moments[number].split()
    return (int(step), float(seconds)) if int(who) == rank else None


def in_small_buckets(passes: list[ModulePass]) -> list[ModulePass]:
    """Makes each gradient a separate bucket, exchanged while the next one is computed."""
    return [
        replace(pass_, message_bytes=64) if isinstance(pass_, OverlapCollectivesPass) else pass_ for pass_ in passes
    ]


def main() -> None:
    folder = Path(sys.argv[1])
    moments = Path(sys.argv[2]).read_text().splitlines() if len(sys.argv) > 2 else []
    group = tg.distributed.group()
    end = moment(folder, moments, group.rank)

    def loss(model, x, y, key):
        mask = tg.random.bernoulli(key, 0.8, x.shape)
        return tg.mse(model(tg.where(mask, x, 0.0)), y)

    training = tg.compile(
        tg.nn.MLP(6, (16,), 2),
        loss=loss,
        optimizer=tg.optim.adam(1e-2, clip_norm=1.0),
        inputs={"x": (BATCH, 6), "y": (BATCH, 2)},
        device="cpu",
        group=group,
        shard="optimizer",
        edit_passes=in_small_buckets,
    )
    assert training.stats()["overlapped"] > 1 or group.size == 1
    checkpoint = folder / "last.safetensors"
    if checkpoint.exists():
        training.load_checkpoint(checkpoint)
    for step in range(training.step_count, STEPS):
        if end is not None and step >= end[0]:
            threading.Timer(end[1], os.kill, (os.getpid(), signal.SIGKILL)).start()
            end = None
        rng = np.random.default_rng(step)
        x, y = rng.normal(size=(BATCH, 6)).astype("f4"), rng.normal(size=(BATCH, 2)).astype("f4")
        float(training.step(x=x, y=y))
        if training.step_count % EVERY == 0:
            training.save_checkpoint(checkpoint)
    state: dict[str, Any] = training.state_dict()
    if tg.distributed.is_first():
        np.savez(folder / "end.npz", **state)


main()
