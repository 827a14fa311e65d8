"""The state of a training: parameters, buffers, the optimizer's state and settings, the key, the step count."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tensorgrad.driver.handles.call_count import CallCount
from tensorgrad.driver.handles.group_state import GroupState
from tensorgrad.driver.stepping.step_programs import StepProgram
from tensorgrad.driver.stepping.step_source import Source
from tensorgrad.driver.storage import checkpoints
from tensorgrad.driver.storage.checkpoints import Persistent
from tensorgrad.errors import InputError, OptionError, ParameterError, PartialStateWarning
from tensorgrad.nn.module import declarations
from tensorgrad.nn.named_values import Loaded, check_layouts
from tensorgrad.nn.parameters import drawn
from tensorgrad.nn.weights import is_live
from tensorgrad.ops import random
from tensorgrad.optim.averaging import averages_among, averages_of, checked_averages
from tensorgrad.optim.settings import HostSettings
from tensorgrad.runtime.counting import completed
from tensorgrad.runtime.errors import warn_user
from tensorgrad.runtime.group.agreement import by_first, together
from tensorgrad.runtime.inputs import check_inputs
from tensorgrad.tracing.arrays import slot_of
from tensorgrad.tracing.dtypes import Spec
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tracer import refuse_inside_trace


class Replaced(NamedTuple):
    """How the parameters and buffers of a model carried over when another replaced it.

    Attributes:
        kept: The paths of those that kept their values.
        new: The paths of those that were initialized: they did not exist, or had another shape or dtype.
        dropped: The paths of those in the old model whose values were not used.
    """

    kept: tuple[str, ...]
    new: tuple[str, ...]
    dropped: tuple[str, ...]


class TrainingState:
    """Everything that a step changes, and what the host passes to it; `WithState` documents its methods.

    Args:
        source: What the step was traced from.
        program: Its program for the declared batch size.

    Attributes:
        declared: The model's parameters and buffers, by path.
        parameter_paths: The paths of the parameters.
        settings: The settings of the optimizer.
        seed: The seed of the initialization and the keys.
        key: The key that those of the steps are derived from; `None` if the loss takes none.
        calls: The number of micro-batches run, which is counted where the state changes, as one with its change.
        accumulate: The number of micro-batches of a step.
        lock: Held while the state changes.
        group_state: The state as whole values, if a group of processes holds it.
        are_averages: Whether averages stand in the place of the parameters, inside `averaged`.
        replaced: After `replace_model`, how the previous parameters and buffers carried over.
    """

    def __init__(self, source: Source, program: StepProgram):
        compilation = program.compilation
        self._source = source
        self._executable = compilation.executable
        self.declared = declarations(source.model)
        self._start = {path: np.array(leaf) for path, leaf in self.declared.items() if is_live(leaf)}
        self._slots = {path: slot_of(path, Spec(leaf.shape, leaf.dtype)) for path, leaf in self.declared.items()}
        self.parameter_paths = [str(path) for path in source.model.named_parameters()]
        self._buffer_paths = [str(path) for path in source.model.named_buffers()]
        self.settings = HostSettings(source.parts.host_settings(), compilation.interface.settings)
        self.seed: int = source.options["seed"]
        self.key = random.key(self.seed) if source.with_key else None
        self.accumulate = 1 if program.accumulation is None else program.accumulation.steps
        self.lock = self._executable.lock
        distribution = source.distribution
        self.group_state = None if distribution is None else GroupState.of(distribution, compilation)
        self.are_averages = False
        self.replaced: Replaced | None = None
        self.calls = CallCount(program.runs)

    @property
    def step_count(self) -> int:
        """The number of steps run."""
        return self.calls.number // self.accumulate

    @property
    def accumulated(self) -> int:
        """The number of micro-batches of the current step that have run."""
        return self.calls.number % self.accumulate

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step."""
        rates = self._source.parts.rates
        if not rates:
            raise OptionError("learning_rate: this program trains nothing")
        name, schedule = next(iter(rates.values()))
        rate = self.settings.values[name]
        return rate if schedule is None else schedule.at(self.step_count + 1, rate)

    def reset(self, seed: int | None = None) -> None:
        """See `WithState.reset`."""
        refuse_inside_trace("reset")
        seed = self.seed if seed is None else seed
        key = random.key(seed)
        with self.lock:
            zeros = {name: np.zeros_like(value) for name, value in self._executable.read().items()}
            values = {**zeros, **drawn(self.declared, key), **self._start}

            def restore() -> None:
                self._executable.write(values)
                self.seed, self.key = seed, None if self.key is None else key
                self.settings.reset()
                self._set_place(0, 0)

            completed(restore)

    def parameters(self) -> dict[str, np.ndarray]:
        """Returns copies of the current parameters, by path."""
        values = self._executable.read(self.parameter_paths)
        return {path: values[path] for path in self.parameter_paths}

    def averages(self) -> dict[str, np.ndarray]:
        """See `WithState.averages`."""
        names = checked_averages(self.whole.persistent)
        return averages_of(self.parameters(), names if self.step_count else {}, self.whole.read)

    def check_steps(self, what: str) -> None:
        """Checks that the parameters are those that steps change.

        Raises:
            ParameterError: They are averages, in whose place the parameters come back.
        """
        if self.are_averages:
            raise ParameterError(f"{what}: the parameters are averages here; train after `with training.averaged():`")

    def check_agreement(self, data: Mapping[str, Any] | None) -> None:
        """Checks that all processes of a group go on from the same parameters, settings and step, with the same data.

        Args:
            data: The place and the fingerprint of the data, if the group divides it.

        Raises:
            GroupError: They differ.
        """
        if self._source.distribution is None:
            return
        facts = {
            "the step": self.calls.number,
            "the settings of the optimizer": self.settings.labeled(),
            "the seed": self.seed,
            "the data": data,
        }
        self._source.distribution.agree_on_state(self._executable, self.parameter_paths, facts)

    def buffers(self) -> dict[str, np.ndarray]:
        """Returns copies of the current buffers, by path."""
        values = self._executable.read(self._buffer_paths)
        return {path: values[path] for path in self._buffer_paths}

    def load_parameters(self, values: Mapping[str, Any], strict: bool) -> Loaded:
        """See `WithState.load_parameters`."""
        refuse_inside_trace("load_parameters")
        is_named = isinstance(values, Mapping)
        passed = values if is_named else {}
        check_layouts("load_parameters", values)
        names = self.parameter_paths if strict else ()
        expected = {path: slot for path, slot in self._slots.items() if path in names or path in passed}
        ignores = is_named and not strict
        chosen = {path: value for path, value in passed.items() if path in self._slots} if ignores else values
        loaded = Loaded(
            tuple(path for path in self._slots if path not in passed),
            tuple(str(name) for name in passed if name not in self._slots),
        )
        group = self._source.group
        arrays = together(group, lambda: check_inputs(expected, chosen, what="parameter"), "load_parameters")
        self._executable.write(arrays)
        if strict and loaded.missing:
            warn_user(
                f"{user_line()}: load_parameters leaves the buffers {', '.join(loaded.missing)} as they are; "
                "state_dict(parts='model') has parameters and buffers",
                PartialStateWarning,
            )
        return loaded

    def state_dict(self, parts: str | Sequence[str] | None = None) -> dict[str, np.ndarray]:
        """See `WithState.state_dict`."""
        with self.lock:
            return checkpoints.state_of(self.whole, self._kept(), checkpoints.checked_parts(parts))

    def load_state_dict(self, values: Mapping[str, Any], strict: bool, parts: str | Sequence[str] | None) -> Loaded:
        """See `WithState.load_state_dict`."""
        refuse_inside_trace("load_state_dict")
        with self.lock:
            return self._load(values, strict, parts)

    def _load(self, values: Mapping[str, Any], strict: bool, parts: str | Sequence[str] | None) -> Loaded:
        chosen = checkpoints.checked_parts("model" if parts is None and not strict else parts)
        state, host, loaded = checkpoints.checked_state(self.whole, self._kept(), values, strict, chosen)
        own = {**self._kept(), **host}
        (step_count,) = checkpoints.whole("step", own["step"])
        done = 0
        if self.accumulate > 1:
            (done,) = checkpoints.whole("accumulated", own["accumulated"], most=self.accumulate - 1)
        high, low = checkpoints.whole("key", own["key"], most=0xFFFFFFFF)
        settings = self.settings.load({name: own[name].item() for name in self.settings.labeled()})
        seed = high << 32 | low
        key = None if self.key is None else random.key(seed)

        def take() -> None:
            self.whole.write(state)
            self.settings.values = settings
            self.seed, self.key = seed, key
            self._set_place(step_count, done)

        completed(take)
        return loaded

    def save_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """See `WithState.save_checkpoint`."""
        state = self.to_write()
        by_first(self._source.group, lambda: checkpoints.write_checkpoint(path, state), "save_checkpoint")

    def load_checkpoint(self, path: str | os.PathLike[str], strict: bool, parts: str | Sequence[str] | None) -> Loaded:
        """See `WithState.load_checkpoint`."""
        refuse_inside_trace("load_checkpoint")
        state = together(self._source.group, lambda: self._read_checkpoint(path), "load_checkpoint")
        return self.load_state_dict(state, strict, parts)

    @property
    def whole(self) -> Persistent:
        """Parameters and state as whole values."""
        return self._executable if self.group_state is None else self.group_state

    def to_write(self) -> dict[str, np.ndarray]:
        """Returns `state_dict()` for writing a file; processes that don't write get no sharded values."""
        values = self._executable if self.group_state is None else self.group_state.to_write()
        with self.lock:
            return checkpoints.state_of(values, self._kept())

    def take(self, other: TrainingState, parts: Sequence[str]) -> Replaced:
        """Takes the values of another training's state that belong to the same parameters, in shape and dtype too."""
        own, theirs, sources = self.state_dict(), other.state_dict(parts), self._sources(other)
        fitting: dict[str, np.ndarray] = {}
        for name, value in own.items():
            prefix, slash, path = name.rpartition("/")
            source = f"{prefix}{slash}{sources.get(path, '')}" if path in self.declared else name
            if source in theirs and (theirs[source].shape, theirs[source].dtype) == (
                value.shape,
                value.dtype,
            ):
                fitting[name] = theirs[source]
        for path, state in averages_among(own).items():  # a new parameter's average starts with it
            fitting.setdefault(state, fitting.get(path, own[path]).astype(own[state].dtype))
        self.load_state_dict(fitting, strict=False, parts=parts)
        used = {sources[path] for path in self.declared if path in fitting}
        self.replaced = Replaced(
            tuple(path for path in self.declared if path in fitting),
            tuple(path for path in self.declared if path not in fitting),
            tuple(path for path in other.declared if path not in used),
        )
        return self.replaced

    def host_values(self) -> dict[str, float]:
        """Returns the step and settings that the next call of `step` passes to the program."""
        step_count, accumulated = divmod(self.calls.number, self.accumulate)
        values = self.settings.at(step_count + 1)
        values["step"], values["micro_step"] = float(step_count + 1), float(accumulated + 1)
        return values

    def with_key(self, inputs: dict[str, Any], what: str) -> dict[str, Any]:
        """Returns the inputs, with the key of the next call of `step` if the loss takes one."""
        if self.key is None:
            return inputs
        if "key" in inputs:
            raise InputError(f"{what} makes the input 'key' itself; add it to tg.compile's inputs to give it")
        return {**inputs, "key": np.asarray(random.fold_in(self.key, self.calls.number + 1))}

    def _kept(self) -> dict[str, np.ndarray]:
        """Returns what the host keeps between steps, in dtypes that every safetensors reader supports."""
        accumulated = {} if self.accumulate == 1 else {"accumulated": np.array(self.accumulated, np.int64)}
        return {
            "step": np.array(self.step_count, np.int64),
            **accumulated,
            "key": np.asarray(random.key(self.seed)).astype(np.int64),
            **{name: np.array(value, np.float64) for name, value in self.settings.labeled().items()},
        }

    def _read_checkpoint(self, path: str | os.PathLike[str]) -> checkpoints.State:
        if checkpoints.is_saved(path):
            return checkpoints.of_saved(path, self.settings.by_label)
        return checkpoints.of_training(checkpoints.read_checkpoint(path)[0])

    def _sources(self, other: TrainingState) -> dict[str, str]:
        """Returns the path in another training of each parameter and buffer.

        In a model that was changed they are the same objects, wherever they have moved; in another model, they have the
        same paths.
        """
        before = {id(leaf): path for path, leaf in other.declared.items()}
        moved = {path: before[id(leaf)] for path, leaf in self.declared.items() if id(leaf) in before}
        is_changed = moved or self._source.model is other._source.model
        return moved if is_changed else {path: path for path in self.declared if path in other.declared}

    def _set_place(self, step_count: int, done: int) -> None:
        self.calls.number = step_count * self.accumulate + done
