"""A run of `tg.fit` that resumes from its last checkpoint with any number of processes.

Arguments: a folder; and the step after which the last process is killed, the first time that it gets there.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np

import tensorgrad as tg

EXAMPLES, BATCH, EPOCHS = 40, 8, 4


class Kill(tg.callbacks.Callback):
    """Kills the last process after a step, unless that has already happened."""

    def __init__(self, step: int, mark: Path) -> None:
        self.step, self.mark, self.happened = step, mark, mark.exists()

    def on_step(self, run: Any) -> None:
        if run.step == self.step and not self.happened and tg.distributed.rank() == tg.distributed.size() - 1:
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)


class Seen(tg.callbacks.Callback):
    """Records the losses by step."""

    def __init__(self) -> None:
        self.losses: dict[int, float] = {}

    def on_records(self, run: Any, records: Any) -> None:
        self.losses |= {record.step: float(record.loss) for record in records}


def main() -> None:
    folder, group = Path(sys.argv[1]), tg.distributed.group()
    random = np.random.default_rng(0)
    arrays = {
        "x": random.normal(size=(EXAMPLES, 6)).astype(np.float32),
        "y": random.integers(0, 3, EXAMPLES).astype(np.int32),
    }

    def loss(model: Any, x: Any, y: Any, key: Any) -> Any:
        return tg.cross_entropy(model(tg.random.dropout(key, x, 0.2)), y)

    training = tg.compile(
        tg.nn.MLP(6, (16,), 3),
        loss=loss,
        optimizer=tg.optim.adamw(tg.optim.schedules.cosine(1e-2, 20, warmup=4), clip_norm=1.0),
        inputs={"x": (BATCH, 6), "y": tg.spec(BATCH, "i32")},
        device="cpu",
        group=group,
    )
    seen = Seen()
    callbacks: list[Any] = [seen]
    if len(sys.argv) > 2:
        callbacks.append(Kill(int(sys.argv[2]), folder / "killed"))
    report = tg.fit(
        training,
        tg.data.batches(arrays, BATCH, shuffle=3),
        epochs=EPOCHS,
        callbacks=callbacks,
        checkpoint=tg.callbacks.Checkpoints(folder / "checkpoints", every=3),
        resume=True,
        progress=False,
    )
    state: dict[str, Any] = training.state_dict()
    if tg.distributed.is_first():
        print(f"{group.size} processes ran the steps {min(seen.losses)} to {max(seen.losses)}")
        np.savez(folder / "end.npz", losses=report.losses, **state)


main()
