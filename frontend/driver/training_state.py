"""The state of a training and its setters: parameters, buffers, the optimizer's state and settings, the step count."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tensorgrad.driver import checkpoints
from tensorgrad.driver.accumulation import Accumulation, compiled_accumulation
from tensorgrad.driver.compilation import Compilation, compile_recipe
from tensorgrad.driver.compiled import Compiled
from tensorgrad.driver.distribution import Distribution
from tensorgrad.driver.group_state import GroupState, Persistent
from tensorgrad.driver.model_tracing import checked_loss, trace_model
from tensorgrad.driver.precision import while_tracing
from tensorgrad.driver.recipe import Choice
from tensorgrad.driver.running import Phases
from tensorgrad.driver.step_options import StepOptions
from tensorgrad.driver.step_programs import StepProgram, resized, step_recipe
from tensorgrad.errors import FrozenWarning, InputError, OptionError, PartialStateWarning
from tensorgrad.nn.module import Module, declarations
from tensorgrad.nn.parameters import drawn
from tensorgrad.nn.unchanged import check_same
from tensorgrad.nn.watch import Watch
from tensorgrad.nn.weights import is_live
from tensorgrad.ops import random
from tensorgrad.ops.promotion import as_tensor
from tensorgrad.optim.parts import Losses, Parts
from tensorgrad.optim.settings import HostSettings
from tensorgrad.runtime.backend import check_inputs
from tensorgrad.runtime.counting import completed
from tensorgrad.runtime.group.agreement import by_first, together
from tensorgrad.runtime.group.group import Group
from tensorgrad.tracing.arrays import slot_of
from tensorgrad.tracing.dtypes import Spec
from tensorgrad.tracing.index_ranges import IndexRanges
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tracer import refuse_inside_trace

log = logging.getLogger("tensorgrad")


@dataclass(frozen=True)
class Source:
    """What a training step was traced from.

    Attributes:
        model: The declared model.
        loss: The loss.
        given: The loss's inputs as the caller gave them.
        inputs: Their specifications, the key's included.
        results: The loss and metrics as a tree, with the names of outputs for leaves.
        ranges: The ranges that the loss requires of inputs that are used as indices.
        losses: The parameters that each loss is differentiated with respect to.
        untrained: The parameters that no optimizer updates.
        optimizer: The optimizer, or those of the parts, as the caller gave it.
        options: The other arguments of `tg.compile`, as the caller gave them.
        compile: `tg.compile`.
        distribution: How the step is divided among processes, if it is.
    """

    model: Module
    loss: Callable[..., Any]
    given: Mapping[str, Any]
    inputs: Mapping[str, Spec]
    results: Any
    ranges: IndexRanges
    losses: Losses
    untrained: frozenset[str]
    optimizer: Any
    options: Mapping[str, Any]
    compile: Callable[..., Any]
    distribution: Distribution | None = None


def no_loss(model: Any) -> Any:
    """The loss of a program without one, which only holds its model for attached functions."""
    return as_tensor(0.0)


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


class TrainingState(Compiled):
    """The part of a `Training` that holds its state.

    Attributes:
        replaced: After `replace_model`, how the previous parameters and buffers carried over.
    """

    def __init__(
        self,
        source: Source,
        parts: Parts,
        compilation: Compilation,
        seed: int,
        with_key: bool,
        accumulation: Accumulation | None = None,
    ):
        super().__init__(compilation)
        self._source = source
        self._group_state = None if source.distribution is None else GroupState.of(source.distribution, compilation)
        self._model = source.model
        self._declared, self._watch = declarations(source.model), Watch(source.model)
        self._start = {path: np.array(leaf) for path, leaf in self._declared.items() if is_live(leaf)}
        self._slots = {path: slot_of(path, Spec(p.shape, p.dtype)) for path, p in self._declared.items()}
        self._parameters, self._buffers = (
            {str(path): leaf for path, leaf in leaves.items()}
            for leaves in (source.model.named_parameters(), source.model.named_buffers())
        )
        self._settings = HostSettings(parts.host_settings(), compilation.interface.settings)
        self._rates = parts.rates
        self._seed = seed
        self._key = random.key(seed) if with_key else None
        self._accumulation = accumulation
        self._parts = parts
        self._declared_program = StepProgram(source.inputs, source.ranges, compilation, accumulation)
        self._resized: dict[tuple[tuple[int, ...], ...], StepProgram] = {}
        self._given_inputs = {name: one for name, one in source.inputs.items() if not with_key or name != "key"}
        self._trainable = self._trained_now()
        self.replaced: Replaced | None = None
        self._lock = self._executable.lock
        self._counts = self._declared_program.runs
        self._origin = 0
        self._set_place(0, 0)

    @property
    def step_count(self) -> int:
        """The number of steps run; with `accumulate`, the number of updates."""
        return self._calls // self.accumulate

    @property
    def _calls(self) -> int:
        """The number of micro-batches run, which is counted where the state changes, as one with its change."""
        return self._origin + sum(count.number for count in self._counts)

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step; if the parts have optimizers of their own, the first one's.

        Raises:
            OptionError: Nothing is trained.
        """
        if not self._rates:
            raise OptionError("learning_rate: this program trains nothing")
        name, schedule = next(iter(self._rates.values()))
        rate = self._settings.values[name]
        return rate if schedule is None else schedule.at(self.step_count + 1, rate)

    @property
    def schedules(self) -> dict[str, str]:
        """The names of the learning rate schedules, by part; "" if there is one optimizer for all."""
        return {name or "": one.name for name, (_, one) in self._rates.items() if one is not None}

    @property
    def group(self) -> Group | None:
        """The process group that runs each step, of which this process is a member; `None` without one."""
        return None if self._source.distribution is None else self._source.distribution.group

    @property
    def accumulate(self) -> int:
        """The number of micro-batches of a step."""
        return 1 if self._accumulation is None else self._accumulation.steps

    @property
    def accumulated(self) -> int:
        """The number of micro-batches of the current step that have run."""
        return self._calls % self.accumulate

    def stats(self) -> dict[str, Any]:
        """Returns the cost of a step.

        Returns:
            The costs as in `Compiled.stats`. With `accumulate`, they are those of a step's last micro-batch, and
            `accumulate` holds the number of micro-batches as `steps`, and the costs of the others.
        """
        own = {} if self._accumulation is None else {"accumulate": self._accumulation.statistics()}
        return {**super().stats(), **own}

    @property
    def settings(self) -> dict[str, float]:
        """The current values of what `set` changes: by name, and `<pattern>/<name>` if a group has its own.

        With a schedule, learning rates are those that it scales.
        """
        return self._settings.labeled()

    def set(self, *, group: str | None = None, **settings: Any) -> None:
        """Changes settings of the optimizer for the following steps; compiles nothing.

        Args:
            group: Which settings to change: those of a group, by its pattern; of a link of `tg.optim.chain`, by its
                name; of the optimizer that `muon` leaves the rest to, by "others"; `None` for those of all other
                parameters. If parts have optimizers of their own, the name of a part, or `<part>/<group>`.
            **settings: Settings that the optimizer was created with: `learning_rate`, `weight_decay`, `momentum`,
                `betas`, `eps`, `clip_norm`, … Those that were zero for all parameters, or absent, are not part of the
                program.

        Raises:
            OptionError: There is no such setting or group, or a value is out of range. Nothing is changed then.
        """
        self._settings.set(f"{user_line()}: set", group, settings)

    def set_learning_rate(self, learning_rate: float) -> None:
        """Changes the learning rate of the following steps; compiles nothing.

        With a schedule, this is the rate that it scales.

        Raises:
            OptionError: It is not a finite number, or negative.
        """
        self._settings.set("set_learning_rate", None, {"learning_rate": learning_rate})

    def reset(self, seed: int | None = None) -> None:
        """Restores the state that `tg.compile` returned: parameters, state, step count and settings.

        Args:
            seed: A new seed for parameters and keys; `None` keeps the old one.

        Raises:
            OptionError: The seed is not an integer.
        """
        refuse_inside_trace("reset")
        seed = self._seed if seed is None else seed
        key = random.key(seed)
        with self._lock:
            zeros = {name: np.zeros_like(value) for name, value in self._executable.read().items()}
            values = {**zeros, **drawn(self._declared, key), **self._start}

            def restore() -> None:
                self._executable.write(values)
                self._seed, self._key = seed, None if self._key is None else key
                self._settings.reset()
                self._set_place(0, 0)

            completed(restore)

    def parameters(self) -> dict[str, np.ndarray]:
        """Returns copies of the current parameters, by path."""
        values = self._executable.read(self._parameters)
        return {path: values[path] for path in self._parameters}

    def buffers(self) -> dict[str, np.ndarray]:
        """Returns copies of the model's current buffers, such as running statistics, by path."""
        values = self._executable.read(self._buffers)
        return {path: values[path] for path in self._buffers}

    def load_parameters(self, values: Mapping[str, Any], strict: bool = True) -> checkpoints.Loaded:
        """Sets parameters, and buffers if they are given; the optimizer's state and the step count are not changed.

        `state_dict(parts="model")` contains both parameters and buffers. Without the buffers, running statistics keep
        their values, and a warning is issued.

        Args:
            values: Arrays by path.
            strict: Whether all parameters must be given, and no other names. Otherwise missing ones keep their values.

        Returns:
            The parameters and buffers that were not given, and the names that the model does not have.

        Raises:
            InputError: A name is unknown or missing, or a shape or dtype differs. Nothing is changed then.
            TraceError: This is inside a trace.

        Warns:
            PartialStateWarning: With `strict`, buffers are missing; they keep their values.
        """
        refuse_inside_trace("load_parameters")
        given = values if isinstance(values, Mapping) else {}
        names = self._parameters if strict else ()
        wanted = {path: slot for path, slot in self._slots.items() if path in names or path in given}
        chosen = values if strict else {path: value for path, value in given.items() if path in self._slots}
        loaded = checkpoints.Loaded(
            tuple(path for path in self._slots if path not in given),
            tuple(str(name) for name in given if name not in self._slots),
        )
        self._executable.write(check_inputs(wanted, chosen, what="parameter"))
        if strict and loaded.missing:
            warnings.warn(
                f"{user_line()}: load_parameters leaves the buffers {', '.join(loaded.missing)} as they are; "
                "state_dict(parts='model') has parameters and buffers",
                PartialStateWarning,
                stacklevel=2,
            )
        return loaded

    def state_dict(self, parts: str | Sequence[str] | None = None) -> dict[str, np.ndarray]:
        """Copies everything, or a part of it, that another training of the same program needs to continue bit for bit.

        With a `group`, the values are whole, and any number of processes can resume from them; every process has to
        call this, since sharded values are gathered. Sums of micro-batches are added up, so a step that resumes halfway
        rounds differently.

        Args:
            parts: "model" for parameters and buffers; "optimizer" for the optimizer's state and the step count;
                "settings" for the learning rate, the other settings and the random key; or several of these. `None` is
                all.

        Returns:
            Parameters and buffers by path; the optimizer's state as `optimizer/<state>/<path>`, with `accumulate` also
            the sums of gradients as `optimizer/accumulated/<path>`; the step count, the number of micro-batches done in
            the current step, the random key and the optimizer's settings as `training/<name>`.

        Raises:
            OptionError: There is no such part.
        """
        with self._lock:
            return checkpoints.state_of(self._state, self._kept(), checkpoints.checked_parts(parts))

    @property
    def _state(self) -> Persistent:
        """Returns parameters and state as whole values."""
        return self._executable if self._group_state is None else self._group_state

    def _state_to_write(self) -> dict[str, np.ndarray]:
        """Returns `state_dict()` for writing a file; processes that don't write get no sharded values."""
        found = self._state if self._group_state is None else self._group_state.to_write()
        with self._lock:
            return checkpoints.state_of(found, self._kept())

    def load_state_dict(
        self, values: Mapping[str, Any], strict: bool = True, parts: str | Sequence[str] | None = None
    ) -> checkpoints.Loaded:
        """Continues from a result of `state_dict`.

        With a `group`, every process passes the same values, and takes its part of them.

        Args:
            values: Arrays by name.
            strict: Whether all names of the parts must be given, and no others. Otherwise missing ones keep their
                values, and unknown names are ignored; the result lists both.
            parts: Which parts to load, as for `state_dict`; other values are ignored. `None` is all parts if `strict`,
                and else "model": then the optimizer, its settings and the step count are not changed.

        Returns:
            The names that were missing, and those that were ignored.

        Raises:
            InputError: Names are missing or unexpected, shapes or dtypes differ (lists all), or the step count, the
                number of micro-batches or the key is out of range. Nothing is changed then.
            OptionError: A setting is out of range, or there is no such part. Nothing is changed then.
            TraceError: This is inside a trace.
        """
        refuse_inside_trace("load_state_dict")
        with self._lock:
            return self._load(values, strict, parts)

    def _load(self, values: Mapping[str, Any], strict: bool, parts: str | Sequence[str] | None) -> checkpoints.Loaded:
        chosen = checkpoints.checked_parts("model" if parts is None and not strict else parts)
        state, kept, loaded = checkpoints.checked_state(self._state, self._kept(), values, strict, chosen)
        own = {**self._kept(), **kept}
        (step_count,) = checkpoints.whole("step", own["step"])
        done = 0
        if self._accumulation is not None:
            (done,) = checkpoints.whole("accumulated", own["accumulated"], most=self._accumulation.steps - 1)
        high, low = checkpoints.whole("key", own["key"], most=0xFFFFFFFF)
        settings = self._settings.load({name: own[name].item() for name in self._settings.labeled()})
        seed = high << 32 | low
        key = None if self._key is None else random.key(seed)

        def take() -> None:
            self._state.write(state)
            self._settings.values = settings
            self._seed, self._key = seed, key
            self._set_place(step_count, done)

        completed(take)
        return loaded

    def _kept(self) -> dict[str, np.ndarray]:
        """Returns what the host keeps between steps, in dtypes that every safetensors reader supports."""
        accumulated = {} if self._accumulation is None else {"accumulated": np.array(self.accumulated, np.int64)}
        return {
            "step": np.array(self.step_count, np.int64),
            **accumulated,
            "key": np.asarray(random.key(self._seed)).astype(np.int64),
            **{name: np.array(value, np.float64) for name, value in self._settings.labeled().items()},
        }

    def save_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Writes `state_dict()` to a safetensors file, which is replaced atomically once the data is on disk.

        With a `group`, every process has to call this: the first one writes, and the others wait for it.

        Raises:
            OSError: The file can't be written; the previous file is kept. All processes raise it.
            GroupError: Another process did not join.
        """
        state = self._state_to_write()
        by_first(self.group, lambda: checkpoints.write_checkpoint(path, state), "save_checkpoint")

    def load_checkpoint(
        self, path: str | os.PathLike[str], strict: bool = True, parts: str | Sequence[str] | None = None
    ) -> checkpoints.Loaded:
        """Continues from a file of `save_checkpoint`, of `tg.fit`, or of `save`; see `load_state_dict`.

        Files saved by a web page are files of `save`, and can be loaded on any device. With a `group`, every process
        has to call this, and reads the file; any number of processes may have written it.

        Raises:
            InputError: The file is not a checkpoint, or not of this training. Nothing is changed then.
            OSError: The file can't be read. All processes of a group raise it, and nothing is changed.
            GroupError: Another process did not join.
        """
        refuse_inside_trace("load_checkpoint")
        state = together(self.group, lambda: self._read_checkpoint(path), "load_checkpoint")
        return self.load_state_dict(state, strict, parts)

    def _read_checkpoint(self, path: str | os.PathLike[str]) -> checkpoints.State:
        if checkpoints.is_saved(path):
            return checkpoints.of_saved(path, self._settings.by_label)
        return checkpoints.of_training(checkpoints.read_checkpoint(path)[0])

    def _take(self, other: TrainingState, parts: Sequence[str]) -> None:
        """Takes the values of another training's state that belong to the same parameters, in shape and dtype too."""
        own, found, sources = self.state_dict(), other.state_dict(parts), self._sources(other)
        fitting: dict[str, np.ndarray] = {}
        for name, value in own.items():
            prefix, slash, path = name.rpartition("/")
            source = f"{prefix}{slash}{sources.get(path, '')}" if path in self._declared else name
            if source in found and (found[source].shape, found[source].dtype) == (value.shape, value.dtype):
                fitting[name] = found[source]
        self.load_state_dict(fitting, strict=False, parts=parts)
        used = {sources[path] for path in self._declared if path in fitting}
        self.replaced = Replaced(
            tuple(path for path in self._declared if path in fitting),
            tuple(path for path in self._declared if path not in fitting),
            tuple(path for path in other._declared if path not in used),
        )

    def _sources(self, other: TrainingState) -> dict[str, str]:
        """Returns the path in another training of each parameter and buffer.

        In a model that was changed they are the same objects, wherever they have moved; in another model, they have the
        same paths.
        """
        before = {id(leaf): path for path, leaf in other._declared.items()}
        moved = {path: before[id(leaf)] for path, leaf in self._declared.items() if id(leaf) in before}
        is_changed = moved or self._model is other._model
        return moved if is_changed else {path: path for path in self._declared if path in other._declared}

    def _program_for(self, inputs: Mapping[str, Any], what: str) -> StepProgram:
        """Returns the step's program for the batch size of inputs, which is compiled when it first occurs.

        Raises:
            InputError: Inputs have different batch sizes, or an empty batch.
            ShapeError, ProgramError, …: The loss can't be compiled for it; see `tg.compile`.
        """
        source = self._source
        if source.loss is no_loss:
            raise OptionError(f"{what}: this program was compiled without a loss; attach() runs its model")
        if source.distribution is not None:
            return self._declared_program
        specs = resized(self._given_inputs, inputs, what)
        if specs is self._given_inputs:
            return self._declared_program
        key = tuple(one.shape for one in specs.values())
        if key not in self._resized:
            self._resized[key] = self._compiled_for({**source.inputs, **specs})
        return self._resized[key]

    def _compiled_for(self, specs: Mapping[str, Spec]) -> StepProgram:
        """Returns the step's program for other inputs, loaded with the same parameters and state."""
        source, step, phases = self._source, self._compilation, Phases()
        options = StepOptions(**source.options)
        with phases.measure("trace"), while_tracing("step", options.rounding):
            traced = trace_model(source.model, source.loss, specs, checked_loss, "kept", source.untrained)
        device = step.recipe.device
        recipe = step_recipe(
            traced.function, source.losses, self._parts, self._parameters, options, device, None, phases, step
        )
        tuned = Choice(tuned=step.choice.tuned)
        compilation = compile_recipe(recipe, phases, tuned, share=self._executable, in_turn=True)
        steps = self.accumulate
        adding = None if steps == 1 else compiled_accumulation(compilation, source.losses, steps)
        program = StepProgram(specs, traced.ranges, compilation, adding)
        self._counts += program.runs
        shapes = ", ".join(f"{name} {one.shape}" for name, one in specs.items())
        log.info("%s: compiled for another batch size: %s", recipe.name, shapes)
        return program

    def _next(self, program: StepProgram) -> Compilation:
        """Returns the program that the next call of `step` runs for a batch size."""
        return program.at(self.accumulated)

    def _host_values(self) -> dict[str, float]:
        """Returns the step and settings that the next call of `step` passes to the program."""
        step_count, accumulated = divmod(self._calls, self.accumulate)
        found = self._settings.at(step_count + 1)
        found["step"], found["micro_step"] = float(step_count + 1), float(accumulated + 1)
        return found

    def _with_key(self, inputs: dict[str, Any], what: str) -> dict[str, Any]:
        """Returns the inputs, with the key of the next call of `step` if the loss takes one."""
        if self._key is None:
            return inputs
        if "key" in inputs:
            raise InputError(f"{what} makes the input 'key' itself; add it to tg.compile's inputs to give it")
        return {**inputs, "key": np.asarray(random.fold_in(self._key, self._calls + 1))}

    def _trained_now(self) -> list[bool]:
        """Returns whether the model says that each parameter is trained, in order."""
        return [parameter.trainable for parameter in self._parameters.values()]

    def _check_model(self) -> None:
        """Checks that the model still has the parameters that it was compiled with.

        Raises:
            ParameterError: Its parameters have changed.

        Warns:
            FrozenWarning: Its frozen parameters have changed, for the first time since then.
        """
        advice = "; replace_model() compiles the model as it is, and keeps what fits"
        if not self._watch.is_unchanged():
            found = declarations(self._model)
            where = f"{user_line()}: the model's parameters changed since tg.compile"
            check_same(self._declared, found, f"{where}{advice}")
            self._watch.renew()
        trainable = self._trained_now()
        if trainable != self._trainable:
            before, self._trainable = self._trainable, trainable
            flags = zip(self._parameters, before, trainable, strict=True)
            changed = ", ".join(path for path, one, other in flags if one is not other)
            warnings.warn(
                f"{user_line()}: whether {changed} is frozen is as it was at tg.compile{advice}",
                FrozenWarning,
                stacklevel=3,
            )

    def _set_place(self, step_count: int, done: int) -> None:
        self._set_calls(step_count * self.accumulate + done)

    def _set_calls(self, calls: int) -> None:
        self._origin += calls - self._calls
