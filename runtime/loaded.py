"""Programs loaded from files, with the call signature of what they were saved from."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tensorgrad.runtime import keys
from tensorgrad.runtime.backend import Executable
from tensorgrad.runtime.errors import ArgumentError, InputError, ProgramError
from tensorgrad.runtime.inputs import check_inputs, check_named, flat_inputs, named_inputs
from tensorgrad.runtime.outputs import OutputHandle
from tensorgrad.runtime.program import PERSISTENT_ROLES, Program, ProgramRole
from tensorgrad.runtime.saved import FUNCTION, STEP, Host, Saved, fill

PLACE = ("step", "micro_step")
"""The names by which formulas read the training progress."""


class Loaded:
    """A program from a file, on a device, with its own parameters and state.

    A file holds a function, a training or a generator; running it as another one raises an error that says so.

    Attributes:
        device: The device that it runs on: "wgpu" and the adapter's name.
    """

    kind: str
    use: str
    """What it is and how it is run, in messages."""

    def __init__(self, saved: Saved, executable: Executable, device: str):
        assert saved.host is not None
        self._saved = saved
        self._host: Host = saved.host
        self._executable = executable
        self._lock = executable.lock
        self.device = device
        executable.write(saved.state)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.program.name!r}, {self.device})"

    def __call__(self, /, *positional: Any, **inputs: Any) -> Any:
        """Runs the function; see `LoadedFunction`.

        Raises:
            ProgramError: The file holds no function.
        """
        raise ProgramError(f"{self.program.name!r} is {self.use}")

    def step(self, /, *positional: Any, **inputs: Any) -> Any:
        """Runs a step of the training; see `LoadedTraining`.

        Raises:
            ProgramError: The file holds no training.
        """
        raise ProgramError(f"{self.program.name!r} is {self.use}")

    @property
    def program(self) -> Program:
        """The program as data."""
        return self._saved.program

    @property
    def inputs(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """The shape and dtype of each input to pass, by name; of a tree, those of its leaves by paths, as `batch.x`."""
        slots = self._executable.program_inputs
        return {name: (slot.shape, slot.dtype) for name, slot in slots.items() if name not in self._host.made}

    def parameters(self) -> dict[str, np.ndarray]:
        """Copies of the current values of the parameters, by path."""
        return self._executable.read(self.program.slots(ProgramRole.PARAMETER))

    def load_parameters(self, values: Mapping[str, Any]) -> None:
        """Sets all parameters, and the model's other state if given, by path.

        Raises:
            InputError: A name is unknown or missing, or a shape or dtype differs; nothing has changed.
        """
        check_named(values, "parameter")
        slots = self.program.slots(*PERSISTENT_ROLES).items()
        needed = {name: slot for name, slot in slots if slot.role == ProgramRole.PARAMETER or name in values}
        self._executable.write(check_inputs(needed, values, what="parameter"))

    def stats(self) -> dict[str, Any]:
        """Returns the cost of a call; see `Training.stats`."""
        return self._executable.statistics()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the complete current state to a file, from which it can be resumed.

        Raises:
            OSError: The file can't be written; the old file is unchanged.
        """
        with self._lock:
            state = self._executable.read(self._saved.state)
            host = self._current_host()
        replace(self._saved, state=state, host=host).save(path)

    def _current_host(self) -> Host:
        """Returns what the host keeps, as it is now."""
        return self._host

    def _input_names(self) -> list[str]:
        """Returns the names of inputs to pass, some of which may be trees."""
        return list(dict.fromkeys(path.partition(".")[0] for path in self.inputs))

    def _flat(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Returns the inputs of a call by the paths of their leaves."""
        paths = self._executable.program_inputs
        return inputs if inputs.keys() <= paths.keys() else flat_inputs(inputs, paths)

    def _refuse_positional(self, what: str, positional: Sequence[Any]) -> None:
        """Rejects positional inputs.

        Raises:
            ArgumentError: There are any.
        """
        if positional:
            names = ", ".join(f"{name}=..." for name in self._input_names())
            raise ArgumentError(f"{what} takes its inputs by name: {names or 'there are none'}")

    def _results(self, outputs: Mapping[str, OutputHandle]) -> Any:
        return fill(self._host.results, outputs.__getitem__)


class LoadedFunction(Loaded):
    """A function that was attached to a training, with the parameters that it was saved with.

    Example:
        >>> import tempfile
        >>> model, loss = tg.nn.Linear(3, 2), lambda model, x: tg.mean(model(x) ** 2)
        >>> training = tg.compile(model, loss=loss, optimizer=tg.optim.sgd(0.1), inputs={"x": (4, 3)}, device="cpu")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     training.attach(lambda model, x: model(x), inputs={"x": (4, 3)}).save(f"{folder}/predict.tgp")
        ...     predict = tg.load(f"{folder}/predict.tgp", device="cpu")
        >>> type(predict).__name__, predict(x=np.ones((4, 3))).shape
        ('LoadedFunction', (4, 2))
    """

    kind, use = FUNCTION, "a function: call it"

    def __call__(self, /, *positional: Any, **inputs: Any) -> Any:
        """Runs the function, for the shapes that it was saved with.

        Args:
            *positional: The input, if there is only one.
            **inputs: An array for each input, or a tree of arrays, as the function took it.

        Returns:
            The function's results, with its dicts, lists and tuples; other pytree nodes become dicts of their parts.
            Leaves are arrays that are read from the device on first access: by NumPy, `float`, or `numpy()`.

        Raises:
            InputError: An input is unknown, missing, or of the wrong shape or dtype.
            ArgumentError: One of several inputs is passed by position.
            DeviceError: The device reported an error.
        """
        names = self._input_names()
        if len(names) == 1:
            inputs = dict(named_inputs("the function", names, positional, inputs))
        else:
            self._refuse_positional("the function", positional)
        return self._results(self._executable.step(self._flat(inputs), {}))


class LoadedTraining(Loaded):
    """A training step with its parameters, state, settings and random key; it resumes where it was saved.

    Example:
        >>> import tempfile
        >>> model, loss = tg.nn.Linear(3, 2), lambda model, x: tg.mean(model(x) ** 2)
        >>> training = tg.compile(model, loss=loss, optimizer=tg.optim.sgd(0.1), inputs={"x": (4, 3)}, device="cpu")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     training.save(f"{folder}/step.tgp")
        ...     loaded = tg.load(f"{folder}/step.tgp", device="cpu")
        >>> value = loaded.step(x=np.ones((4, 3)))
        >>> type(loaded).__name__, loaded.step_count
        ('LoadedTraining', 1)
    """

    kind, use = STEP, "a training: step(...) runs a step of it"

    def __init__(self, saved: Saved, executable: Executable, device: str, others: Executable | None = None):
        super().__init__(saved, executable, device)
        self._others = others
        self._counts = [runner.runs for runner in (executable, others) if runner is not None]
        self._start = self._host.step_count * self.accumulate + self._host.accumulated
        self._names = {runner: runner.scalar_names for runner in (executable, others) if runner is not None}
        missing = set[str]().union(*self._names.values()) - {*PLACE, *self._host.settings}
        if missing:
            raise ProgramError(f"program {self.program.name!r} has no value for {', '.join(sorted(missing))}")

    @property
    def step_count(self) -> int:
        """The number of steps that have run."""
        return self._calls // self.accumulate

    @property
    def accumulate(self) -> int:
        """The number of micro-batches in a step."""
        return self._host.accumulate

    @property
    def accumulated(self) -> int:
        """The number of micro-batches of the current step that have run."""
        return self._calls % self.accumulate

    @property
    def _calls(self) -> int:
        """The number of micro-batches that have run, including those before the file was saved."""
        return self._start + sum(count.number for count in self._counts)

    def _current_host(self) -> Host:
        return replace(self._host, step_count=self.step_count, accumulated=self.accumulated)

    @property
    def settings(self) -> dict[str, float]:
        """The values that the optimizer's formulas read, such as `learning_rate`."""
        return dict(self._host.settings)

    @property
    def learning_rate(self) -> float:
        """The setting of that name; with a schedule, the value that the schedule scales.

        Raises:
            InputError: There is no such setting.
        """
        if "learning_rate" not in self._host.settings:
            raise InputError(f"learning_rate: there is none; settings are {', '.join(self._host.settings) or 'none'}")
        return self._host.settings["learning_rate"]

    def set(self, *positional: Any, **settings: float) -> None:
        """Changes settings for the following steps.

        Args:
            *positional: Not allowed.
            **settings: New values.

        Raises:
            ArgumentError: A setting is passed by position.
            InputError: There is no such setting, or a value is not a finite number; nothing has changed.
        """
        if positional:
            raise ArgumentError(f"set takes settings by name: {', '.join(self._host.settings) or 'there are none'}")
        for name, value in settings.items():
            if name not in self._host.settings:
                raise InputError(
                    f"set: no setting {name!r}; the settings are {', '.join(self._host.settings) or 'none'}"
                )
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise InputError(f"set: {name} must be a finite number, got {value!r}")
        self._host = replace(self._host, settings={**self._host.settings, **settings})

    def step(self, /, *positional: Any, **inputs: Any) -> Any:
        """Runs one step, or one micro-batch of it, asynchronously.

        Args:
            *positional: Not allowed.
            **inputs: An array for each input, or a tree of arrays, as the training took it; random keys are made by the
                step itself.

        Returns:
            The loss before the update, or a pair of the loss and its metrics, as the loss function returned them; see
            `LoadedFunction.__call__`.

        Raises:
            InputError: An input is unknown, missing, or of the wrong shape or dtype.
            ArgumentError: An input is passed by position.
            DeviceError: The device reported an error.
        """
        self._refuse_positional("step", positional)
        inputs = self._flat(inputs)
        with self._lock:
            host, calls = self._host, self._calls
            step_count, accumulated = divmod(calls, host.accumulate)
            last = accumulated == host.accumulate - 1
            executable = self._executable if last or self._others is None else self._others
            for name in host.made:
                if name in inputs:
                    raise InputError(f"step makes the input {name!r} itself")
                inputs[name] = np.array(keys.fold_in(host.key, calls + 1), np.uint32)
            known = {**host.settings, "step": step_count + 1.0, "micro_step": accumulated + 1.0}
            outputs = executable.step(inputs, {name: known[name] for name in self._names[executable]})
            return self._results(outputs)
