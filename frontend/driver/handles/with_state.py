"""The state of a training as its users read and set it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tensorgrad.driver.handles.training_state import Replaced, TrainingState
from tensorgrad.driver.stepping.step_source import Source
from tensorgrad.nn.named_values import Loaded
from tensorgrad.runtime.group.group import Group
from tensorgrad.tracing.location import user_line


class WithState:
    """A handle that has a training's state: parameters, buffers, the optimizer's state and settings, the step count."""

    _source: Source
    _state: TrainingState

    @property
    def step_count(self) -> int:
        """The number of steps run; with `accumulate`, the number of updates."""
        return self._state.step_count

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step; if the parts have optimizers of their own, the first one's.

        Raises:
            OptionError: Nothing is trained.
        """
        return self._state.learning_rate

    @property
    def schedules(self) -> dict[str, str]:
        """The names of the learning rate schedules, by part; "" if there is one optimizer for all."""
        rates = self._source.parts.rates.items()
        return {name or "": schedule.name for name, (_, schedule) in rates if schedule is not None}

    @property
    def group(self) -> Group | None:
        """The process group that runs each step, of which this process is a member; `None` without one."""
        return self._source.group

    @property
    def accumulate(self) -> int:
        """The number of micro-batches of a step."""
        return self._state.accumulate

    @property
    def accumulated(self) -> int:
        """The number of micro-batches of the current step that have run."""
        return self._state.accumulated

    @property
    def replaced(self) -> Replaced | None:
        """After `replace_model`, how the previous parameters and buffers carried over."""
        return self._state.replaced

    @property
    def settings(self) -> dict[str, float]:
        """The current values of what `set` changes: by name, and `<pattern>/<name>` if a group has its own.

        With a schedule, learning rates are those that it scales.
        """
        return self._state.settings.labeled()

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
        self._state.settings.set(f"{user_line()}: set", group, settings)

    def set_learning_rate(self, learning_rate: float) -> None:
        """Changes the learning rate of the following steps; compiles nothing.

        With a schedule, this is the rate that it scales.

        Raises:
            OptionError: It is not a finite number, or negative.
        """
        self._state.settings.set("set_learning_rate", None, {"learning_rate": learning_rate})

    def reset(self, seed: int | None = None) -> None:
        """Restores the state that `tg.compile` returned: parameters, state, step count and settings.

        Args:
            seed: A new seed for parameters and keys; `None` keeps the old one.

        Raises:
            OptionError: The seed is not an integer.
        """
        self._state.reset(seed)

    def parameters(self) -> dict[str, np.ndarray]:
        """Returns copies of the current parameters, by path."""
        return self._state.parameters()

    def averages(self) -> dict[str, np.ndarray]:
        """Returns copies of the parameters, by path, with the averages that `tg.optim.weight_ema` keeps in their place.

        Before the first step they are the parameters.

        Raises:
            OptionError: The optimizer keeps none.
        """
        return self._state.averages()

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Sets the parameters to their averages inside the context: to evaluate, save or export them.

        At its end the parameters are as before, so a step inside is an error.

        Raises:
            OptionError: The optimizer keeps no averages.
        """
        averages, before, were_averages = self.averages(), self.parameters(), self._state.are_averages
        try:
            self.load_parameters(averages, strict=False)
            self._state.are_averages = True
            yield
        finally:
            self.load_parameters(before, strict=False)
            self._state.are_averages = were_averages

    def buffers(self) -> dict[str, np.ndarray]:
        """Returns copies of the model's current buffers, such as running statistics, by path."""
        return self._state.buffers()

    def load_parameters(self, values: Mapping[str, Any], strict: bool = True) -> Loaded:
        """Sets parameters, and buffers if they are given; the optimizer's state and the step count are not changed.

        `state_dict(parts="model")` contains both parameters and buffers. Without the buffers, running statistics keep
        their values, and a warning is issued. With a `group`, every process has to call this, with the same values.

        Args:
            values: Arrays by path.
            strict: Whether all parameters must be given, and no other names. Otherwise missing ones keep their values.

        Returns:
            The parameters and buffers that were not given, and the names that the model does not have.

        Raises:
            InputError: A name is unknown or missing, or a shape or dtype differs. Nothing is changed then.
            GroupError: Another process did not join.
            TraceError: This is inside a trace.

        Warns:
            PartialStateWarning: With `strict`, buffers are missing; they keep their values.
        """
        return self._state.load_parameters(values, strict)

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
        return self._state.state_dict(parts)

    def load_state_dict(
        self, values: Mapping[str, Any], strict: bool = True, parts: str | Sequence[str] | None = None
    ) -> Loaded:
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
            InputError: Names are missing or unexpected, shapes or dtypes differ, or the step count, the
                number of micro-batches or the key is out of range. Nothing is changed then.
            OptionError: A setting is out of range, or there is no such part. Nothing is changed then.
            TraceError: This is inside a trace.
        """
        return self._state.load_state_dict(values, strict, parts)

    def save_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Writes `state_dict()` to a safetensors file, which is replaced atomically once the data is on disk.

        With a `group`, every process has to call this: the first one writes, and the others wait for it.

        Raises:
            OSError: The file can't be written; the previous file is kept. All processes raise it.
            GroupError: Another process did not join.
        """
        self._state.save_checkpoint(path)

    def load_checkpoint(
        self, path: str | os.PathLike[str], strict: bool = True, parts: str | Sequence[str] | None = None
    ) -> Loaded:
        """Continues from a file of `save_checkpoint`, of `tg.fit`, or of `save`; see `load_state_dict`.

        Files saved by a web page are files of `save`, and can be loaded on any device. With a `group`, every process
        has to call this, and reads the file; any number of processes may have written it.

        Raises:
            InputError: The file is not a checkpoint, or not of this training. Nothing is changed then.
            OSError: The file can't be read. All processes of a group raise it, and nothing is changed.
            GroupError: Another process did not join.
        """
        return self._state.load_checkpoint(path, strict, parts)
