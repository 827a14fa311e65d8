"""What faults strike: each operation of a small training, with what is whole before and after it."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from models import MLP, batch, compiled

import tensorgrad as tg
from tensorgrad.errors import DeviceLostError
from tensorgrad.runtime.files import PART

STEPS = 4
CACHE = "cache"
"""The folder of the user's caches in that of an operation."""


def noisy(model: Any, x: Any, y: Any, key: Any) -> Any:
    return tg.mse(model(x) + 0.1 * tg.random.normal(key, y.shape), y)


def error(model: Any, x: Any, y: Any) -> Any:
    return tg.mse(model(x), y)


def training(device: Any, **options: Any) -> tg.Training:
    rate = tg.optim.schedules.cosine(1e-2, 6, warmup=2)
    return compiled(model=MLP(3, 5, 2), loss=noisy, optimizer=tg.optim.adamw(rate), device=device, **options)


def bits(values: Any) -> dict[str, bytes]:
    return {name: np.asarray(value).tobytes() for name, value in values.items()}


def contents(folder: Path) -> dict[str, bytes]:
    """Returns the files of a folder and its folders, except the user's caches, and what is unfinished."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and CACHE not in path.parts]
    names = {path: path.relative_to(folder) for path in paths}
    return {str(name): path.read_bytes() for path, name in names.items() if PART not in str(name)}


class Undisturbed:
    """A training, and what it computes without faults.

    Attributes:
        states: The state after each number of steps.
        losses: The loss of each step.
    """

    def __init__(self, device: Any):
        self.device = device
        self.training = training(device)
        self.states, self.losses = [self.training.state_dict()], []
        for number in range(STEPS):
            self.losses.append(np.asarray(self.training.step(**batch(number))).tobytes())
            self.states.append(self.training.state_dict())

    def revive(self) -> None:
        """Compiles again, on another device, if the last one was lost with its state."""
        try:
            self.training.buffers()
            self.training.parameters()
        except DeviceLostError:
            self.training = training(self.device)
            self.place(self.training, 1)

    def place(self, subject: tg.Training, step: int) -> None:
        subject.load_state_dict(self.states[step])

    def check(self, subject: tg.Training) -> None:
        """Checks that a state is whole, and that the next steps from it are right."""
        assert bits(subject.state_dict()) == bits(self.states[subject.step_count])
        for number in range(subject.step_count, STEPS):
            assert np.asarray(subject.step(**batch(number))).tobytes() == self.losses[number]
        assert bits(subject.state_dict()) == bits(self.states[STEPS])


class Operation(ABC):
    """An operation that faults strike.

    Args:
        reference: What it is compared with.
        folder: An empty folder of its own.
    """

    devices: Sequence[str] = ("numpy", "cpu", "wgpu")
    sample = 12
    """How many points of it are struck in a run of all tests."""
    most: int | None = None
    """How many are struck by night; by default all."""

    def __init__(self, reference: Undisturbed, folder: Path):
        self.reference, self.folder = reference, folder

    def prepare(self) -> None:
        """Brings everything to where the operation starts."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in self.folder.iterdir():
            if path.name != CACHE:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    @abstractmethod
    def run(self) -> object:
        """Runs it; a fault may strike."""

    @abstractmethod
    def check(self) -> None:
        """Checks that everything is as before or as after it, and that it is right when it runs again."""


class Compile(Operation):
    """Compiles a step, with the user's caches in the folder, and runs it.

    NumPy allocates some 2,500 arrays in it: `sweeps.py` strikes them all, in an hour.
    """

    sample = 2
    most = 120

    def prepare(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    def run(self) -> None:
        subject = training(self.reference.device)
        assert np.asarray(subject.step(**batch(0))).tobytes() == self.reference.losses[0]

    def check(self) -> None:
        self.run()


class Steps(Operation):
    def prepare(self) -> None:
        self.reference.place(self.reference.training, 0)

    def run(self) -> None:
        losses = [self.reference.training.step(**batch(number)) for number in range(STEPS)]
        assert [np.asarray(loss).tobytes() for loss in losses] == self.reference.losses

    def check(self) -> None:
        self.reference.check(self.reference.training)


class Evaluate(Operation):
    def prepare(self) -> None:
        self.reference.place(self.reference.training, 2)
        self.expected = getattr(self, "expected", None) or self._evaluated()

    def _evaluated(self) -> float:
        return self.reference.training.evaluate(error, [batch(1), batch(2)])

    def run(self) -> None:
        assert self._evaluated() == self.expected

    def check(self) -> None:
        self.reference.check(self.reference.training)
        self.reference.place(self.reference.training, 2)
        self.run()


class Written(Operation):
    """Writes a file over an older one."""

    suffix = ".safetensors"

    def write(self, path: Path) -> None:
        self.reference.training.save_checkpoint(path)

    def prepare(self) -> None:
        super().prepare()
        self.path = self.folder / f"file{self.suffix}"
        versions: list[dict[str, bytes]] = []
        for step in (2, 1):
            self.reference.place(self.reference.training, step)
            self.write(self.path)
            versions.append(contents(self.folder))
        self.after, self.before = versions
        self.reference.place(self.reference.training, 2)

    def run(self) -> None:
        self.write(self.path)

    def check(self) -> None:
        files = contents(self.folder)
        assert files.keys() <= self.before.keys() | self.after.keys(), files.keys()
        for name, content in files.items():
            assert content in (self.before.get(name), self.after.get(name)), name
        assert self.before.keys() & self.after.keys() <= files.keys()
        self.reference.check(self.reference.training)
        self.reference.place(self.reference.training, 2)
        self.run()
        assert contents(self.folder) == self.after


class SavedProgram(Written):
    suffix = ".tgp"

    def write(self, path: Path) -> None:
        self.reference.training.save(path)


class LoadedCheckpoint(Operation):
    def prepare(self) -> None:
        super().prepare()
        self.path = self.folder / "file.safetensors"
        self.reference.place(self.reference.training, 2)
        self.reference.training.save_checkpoint(self.path)
        self.reference.place(self.reference.training, 1)

    def run(self) -> None:
        self.reference.training.load_checkpoint(self.path)

    def check(self) -> None:
        assert self.reference.training.step_count in (1, 2)
        self.reference.check(self.reference.training)
        self.run()
        assert self.reference.training.step_count == 2
        self.reference.check(self.reference.training)


class LoadedProgram(Operation):
    devices = ("cpu", "wgpu")

    def prepare(self) -> None:
        super().prepare()
        self.path = self.folder / "step.tgp"
        self.reference.place(self.reference.training, 1)
        self.reference.training.save(self.path)

    def run(self) -> None:
        loaded: Any = tg.load(self.path, device=self.reference.device)
        for number in range(1, STEPS):
            assert np.asarray(loaded.step(**batch(number))).tobytes() == self.reference.losses[number]

    def check(self) -> None:
        self.run()


class Fit(Operation):
    """A run with checkpoints, a log and evaluations, which goes on where a fault has ended it."""

    def _fit(self, folder: Path) -> Any:
        arrays = {name: np.concatenate([batch(number)[name] for number in range(3)]) for name in batch()}
        return tg.fit(
            self.reference.training, tg.data.batches(arrays, 4, shuffle=1), steps=STEPS, prefetch=0, progress=False,
            evaluate=lambda subject: {"error": subject.evaluate(error, [batch(9)])}, evaluate_every=2,
            checkpoint=tg.callbacks.Checkpoints(folder / "kept", every=1, keep=2, best="error"), resume=True,
            log=folder / "log.csv",
        )  # fmt: skip

    def prepare(self) -> None:
        if not hasattr(self, "expected"):
            super().prepare()
            self.reference.place(self.reference.training, 0)
            self.expected_losses = self._fit(self.folder).losses.tobytes()
            self.expected = contents(self.folder)
        super().prepare()
        self.reference.place(self.reference.training, 0)

    def run(self) -> None:
        self._fit(self.folder)

    def check(self) -> None:
        subject = self.reference.training
        assert subject.step_count in range(STEPS + 1)
        self.reference.place(subject, 0)
        assert self._fit(self.folder).losses.tobytes() == self.expected_losses
        assert contents(self.folder) == self.expected


OPERATIONS: dict[str, type[Operation]] = {
    "compile": Compile,
    "steps": Steps,
    "evaluate": Evaluate,
    "save_checkpoint": Written,
    "save": SavedProgram,
    "load_checkpoint": LoadedCheckpoint,
    "load": LoadedProgram,
    "fit": Fit,
}
