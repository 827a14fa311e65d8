"""Judges trainings: options, interruptions, other devices and eager tensors must leave what a plain training computes.

The plain one runs on NumPy, without options, three more times from parameters and batches that are rounded otherwise:
a training that these take elsewhere is discarded, as in `judging`.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from judging import ROUNDINGS, Verdict, compared, reach_of

import tensorgrad as tg
from tensorgrad.tracing.dtypes import Spec

LARGEST = 8
"""The number of examples that programs in files are for."""

EPSILON = float(np.finfo(np.float32).eps)

Batch = Mapping[str, np.ndarray]

Results = dict[str, np.ndarray]


@dataclass(frozen=True)
class TrainingProgram:
    """A training.

    Attributes:
        scope: What its source defines: `model`, `loss`, `optimizer`, `INPUTS`, `BATCHES`, and what must not change a
            result: `OPTIONS`, `EVENTS` before each step, and whether it runs on `EAGER` tensors.
        text: Its source, to be read where it differs.
    """

    scope: Mapping[str, Any]
    text: str

    def compiled(self, device: Any, **options: Any) -> tg.Training[Any]:
        """Returns the training, compiled from the same initial values whatever the options."""
        model = self.scope["model"]().initialized(0, device="numpy")
        loss, optimizer, inputs = self.scope["loss"], self.scope["optimizer"](), self.scope["INPUTS"]
        return tg.compile(model, loss=loss, optimizer=optimizer, inputs=inputs, device=device, **options)


def judged(subject: TrainingProgram, seed: int, device: Any) -> Verdict:
    """Returns what becomes of a training on a device."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        # Right of random models, some of whose layers a loss doesn't reach; what is judged are numbers.
        warnings.simplefilter("ignore", tg.errors.UnusedParameterWarning)
        try:
            expected = _plain(subject, None)
        except tg.errors.UserError as error:
            return Verdict("discarded", f"plain: {' '.join(str(error).splitlines()[:2])}")
        if not all(np.isfinite(value).all() for value in expected.values()):
            return Verdict("discarded", "not finite")
        draw = np.random.default_rng(seed)
        reach = reach_of((_plain(subject, draw) for _ in range(ROUNDINGS)), expected)
        return compared(partial(_varied, subject, device), expected, reach, EPSILON)


def _varied(subject: TrainingProgram, device: Any) -> Results:
    """Returns the results on a device, as the training's source says."""
    if subject.scope["EAGER"]:
        return _eager(subject, device)
    if {"group", "shard"} & subject.scope["OPTIONS"].keys():
        return _divided(subject, device)
    return _Variant(subject, device).run()


def _rounded(array: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    if array.dtype != np.float32:
        return array
    return (array * (1 + EPSILON * draw.normal(size=array.shape))).astype(np.float32)


def _plain(subject: TrainingProgram, draw: np.random.Generator | None) -> Results:
    """Returns the results on NumPy, from numbers that are rounded otherwise if there is a generator."""
    training = subject.compiled("numpy")
    batches: Sequence[Batch] = subject.scope["BATCHES"]
    if draw is not None:
        training.load_parameters({name: _rounded(value, draw) for name, value in training.state_dict("model").items()})
        batches = [{name: _rounded(value, draw) for name, value in batch.items()} for batch in batches]
    losses = {number: _loss(training.step(**batch)) for number, batch in enumerate(batches)}
    return _results(losses, training)


def _loss(result: Any) -> np.ndarray:
    return np.asarray(result[0] if isinstance(result, tuple) else result)


def _results(losses: Mapping[int, np.ndarray], training: tg.Training[Any]) -> Results:
    """Returns the losses, parameters, buffers and averages of a training that has run."""
    averages = training.averages() if "weight_average" in "".join(training.state_dict("optimizer")) else {}
    return {
        **{f"loss {number}": loss for number, loss in losses.items()},
        **training.state_dict("model"),
        **{f"average {name}": value for name, value in averages.items()},
    }


@dataclass
class _Variant:
    """A training with options, in which something happens before steps.

    Attributes:
        subject: The training.
        device: Where it runs.
        group: The processes that it is divided among, if it is.
        training: As it is at the moment.
        loaded: The training as a file of this step had it.
        losses: Those of the steps so far, but for those of `tg.fit`.
    """

    subject: TrainingProgram
    device: Any
    group: Any = None
    training: tg.Training[Any] = field(init=False)
    loaded: tg.LoadedTraining | None = None
    losses: dict[int, np.ndarray] = field(default_factory=dict[int, np.ndarray])

    def __post_init__(self) -> None:
        self.options = {name: value for name, value in self.subject.scope["OPTIONS"].items() if name != "group"}
        if self.group is not None:
            self.options["group"] = self.group
        if "memory_limit" in self.options and self.device != "numpy":
            peak = self.subject.compiled(self.device).stats()["peak_bytes"]
            self.options["memory_limit"] = int(self.options["memory_limit"] * peak)
        try:
            self.training = self._compiled(self.device)
        except tg.errors.ProgramError as error:
            if "memory_limit" not in str(error):
                raise
            del self.options["memory_limit"]  # it can't be kept, which says nothing of results
            self.training = self._compiled(self.device)

    def _compiled(self, device: Any) -> tg.Training[Any]:
        """Returns the training with its options on a device; NumPy plans no memory that could be limited."""
        options = {name: value for name, value in self.options.items() if name != "memory_limit" or device != "numpy"}
        parts = options.get("accumulate", 1)
        if parts == 1:
            return self.subject.compiled(device, **options)
        inputs = {name: self._part(spec, parts) for name, spec in self.subject.scope["INPUTS"].items()}
        scope = {**self.subject.scope, "INPUTS": inputs}
        return TrainingProgram(scope, self.subject.text).compiled(device, **options)

    @staticmethod
    def _part(declared: Any, parts: int) -> Any:
        shape = tuple(declared.shape) if isinstance(declared, Spec) else tuple(declared)
        dtype = declared.dtype if isinstance(declared, Spec) else np.dtype(np.float32)
        return tg.spec((shape[0] // parts, *shape[1:]), dtype)

    def run(self) -> Results:
        """Returns the results."""
        scope = self.subject.scope
        for number, (batch, events) in enumerate(zip(scope["BATCHES"], scope["EVENTS"], strict=True)):
            self.loaded = None
            for event in events:
                if event != "fit":
                    getattr(self, f"_{event}")(self._micro(batch)[0])
            parts = self._micro(batch)
            if "fit" in events and self.group is None:
                tg.fit(self.training, parts, steps=1, progress=False)
                continue
            losses = [_loss(self.training.step(**part)) for part in parts]
            self.losses[number] = np.mean(losses, axis=0)
            if self.loaded is not None:
                self._compare(self.loaded, parts, losses)
        return _results(self.losses, self.training)

    def _micro(self, batch: Batch) -> list[Batch]:
        parts = self.options.get("accumulate", 1)
        columns = {name: np.split(array, parts) for name, array in batch.items()}
        return [{name: pieces[number] for name, pieces in columns.items()} for number in range(parts)]

    def _save(self, batch: Batch) -> None:
        if self.group is not None or self.training.device == "numpy" or len(batch["y"]) < LARGEST:
            return
        with TemporaryDirectory() as folder, contextlib.suppress(tg.errors.ProgramError):  # a schedule in Python
            self.training.save(Path(folder) / "program")
            loaded = tg.load(Path(folder) / "program", device=self.device)
            assert isinstance(loaded, tg.LoadedTraining)
            self.loaded = loaded

    def _compare(self, loaded: tg.LoadedTraining, parts: Sequence[Batch], losses: Sequence[np.ndarray]) -> None:
        """Checks that a file's step gives the bits of ours."""
        again = [_loss(loaded.step(**part)) for part in parts]
        assert np.array_equal(again, losses), f"a saved step gives {again}, not {losses}"
        for name, value in self.training.parameters().items():
            assert np.array_equal(loaded.parameters()[name], value), f"a saved step gives another {name}"

    def _move_to(self, device: Any) -> None:
        self.loaded = None  # which is of the device before
        self.training, before = self._compiled(device), self.training
        self.training.reset(seed=5)
        with TemporaryDirectory() as folder:
            path = Path(folder) / "checkpoint"
            before.save_checkpoint(path)
            self.training.load_checkpoint(path)

    def _checkpoint(self, batch: Batch) -> None:
        if self.group is None:
            self._move_to(self.device)

    def _move(self, batch: Batch) -> None:
        if self.group is None:
            self._move_to("numpy")

    def _state(self, batch: Batch) -> None:
        values = self.training.state_dict()
        self.training = self._compiled(self.device)
        self.training.load_state_dict(values)

    def _replace(self, batch: Batch) -> None:
        self.training = self.training.replace_model()

    def _attach(self, batch: Batch) -> None:
        self.training.attach(lambda model, x: tg.nn.inference(model)(x))(batch["x"])

    def _gradients(self, batch: Batch) -> None:
        self.training.gradients(**batch)

    def _evaluate(self, batch: Batch) -> None:
        self.training.evaluate(lambda model, x, y: tg.mse(tg.nn.inference(model)(x), y), [batch])

    def _blame(self, batch: Batch) -> None:
        assert self.training.blame(**batch) is None

    def _capture(self, batch: Batch) -> None:
        with contextlib.suppress(tg.errors.InputError):  # there is nothing to capture
            self.training.capture("*", **batch)


def _divided(subject: TrainingProgram, device: Any) -> Results:
    """Returns the results of a training that two processes divide, or threads in their place."""
    first, second = tg.distributed.simulate(2, lambda group: _Variant(subject, device, group).run())
    for name, value in first.items():
        assert np.array_equal(value, second[name]), f"{name} differs between the processes"
    return first


def _eager(subject: TrainingProgram, device: Any) -> Results:
    """Returns the results by eager tensors."""
    scope = subject.scope
    model = scope["model"]().initialized(0, device=device)
    stepper = tg.optim.Stepper(model, scope["optimizer"]())
    takes_key = "key" in scope["loss"].__code__.co_varnames[: scope["loss"].__code__.co_argcount]
    losses: list[np.ndarray] = []
    for number, batch in enumerate(scope["BATCHES"], 1):
        tensors = {name: tg.tensor(array, array.dtype, device=device) for name, array in batch.items()}
        if takes_key:
            tensors["key"] = tg.random.fold_in(tg.random.key(0), number)
        stepper.zero_grad()
        result = scope["loss"](model, **tensors)
        loss = result[0] if isinstance(result, tuple) else result
        loss.backward()
        stepper.step()
        losses.append(loss.numpy())
    leaves = {**model.named_parameters(), **model.named_buffers()}
    return {
        **{f"loss {number}": loss for number, loss in enumerate(losses)},
        **{name: leaf.numpy() for name, leaf in leaves.items()},
    }
