"""`tg.compile`: a model, a loss and an optimizer become one program that runs a training step."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.passes import ModulePass

from tensorgrad import random
from tensorgrad.compiled import Compiled, Inference
from tensorgrad.device import find_device
from tensorgrad.dialects.signature import results_of
from tensorgrad.dtypes import SHORT, spec
from tensorgrad.errors import InputError, OptionError
from tensorgrad.location import user_line
from tensorgrad.model_tracing import checked_loss, checked_results, draw, parameters_of, takes_key, trace_model
from tensorgrad.nn.module import Module, Parameter, check_same
from tensorgrad.optim import Optimizer, checked
from tensorgrad.passes.pipelines import tensor_passes
from tensorgrad.passes.simplify import SimplifyPass
from tensorgrad.pipeline import Compilation, Phases
from tensorgrad.runtime.backend import Executable, check_inputs
from tensorgrad.runtime.numpy_backend import ArraySlot
from tensorgrad.tensor import Array
from tensorgrad.tracer import checked_module, refuse_inside_trace


def compile(
    model: Module,
    *,
    loss: Callable[..., Any],
    optimizer: Optimizer,
    inputs: Mapping[str, Any],
    device: str = "auto",
    seed: int = 0,
) -> Training:
    """Compiles a training step: the loss, its gradient by every parameter, and the optimizer's update.

    Args:
        model: The parameters to train; each is drawn from the seed and its path.
        loss: Called once, as `loss(model, **inputs)`, with traced tensors; gives a float scalar. A loss that takes a
            `key` which is none of the inputs gets `tg.random.fold_in(tg.random.key(seed), step)`, step being 1 first.
        optimizer: One of `tg.optim`.
        inputs: A shape (f32) or a `tg.spec` for each input of the loss, by name.
        device: "auto" for a hardware adapter where there is one, else numpy; "wgpu" for any adapter; "numpy".
        seed: What parameters and the keys of the steps are drawn from.

    Returns:
        What runs the step; see `Training`.

    Raises:
        TraceError: This is inside a trace, or the loss does what can't be traced.
        ParameterError: The model has no parameters, or the loss changes which it has.
        InputError: The loss takes other arguments than `inputs`.
        ShapeError, DTypeError: Shapes or dtypes in the loss don't fit, or its result is no float scalar.
        OptionError: A setting is out of range.
        NoAdapterError: There is no adapter for device "wgpu".
        ProgramError, TargetError: The device can't run the program.
    """
    refuse_inside_trace("tg.compile")
    if not callable(getattr(optimizer, "append_pass", None)):
        raise OptionError(f"optimizer must be one of tg.optim, such as tg.optim.adam(1e-3), got {optimizer!r}")
    parameters = parameters_of(model)
    key = random.key(seed)
    phases = Phases()
    with_key = takes_key(loss) and isinstance(inputs, Mapping) and "key" not in inputs
    given = {**inputs, "key": spec(2, "u32")} if with_key else inputs
    with phases.measure("trace"):
        traced, _ = trace_model(model, loss, given, checked_loss, ["loss"])
    name = traced.sym_name.data
    with phases.measure("initialize"):
        values = {path: draw(path, parameter, key) for path, parameter in parameters.items()}
    with phases.measure("load"):
        found = find_device(device)

    def passes() -> Sequence[ModulePass]:
        return tensor_passes(name, optimizer.append_pass(name, list(parameters)))

    compilation = Compilation(name, checked_module(traced), passes, found, phases)
    executable = compilation.load(share=None)
    executable.write(values)
    return Training(model, parameters, optimizer, compilation, executable, key if with_key else None)


class Training(Compiled):
    """A training step with its parameters. It is for one thread at a time.

    Attributes:
        step_count: How many steps have run.
    """

    def __init__(
        self,
        model: Module,
        parameters: Mapping[str, Parameter],
        optimizer: Optimizer,
        compilation: Compilation,
        executable: Executable,
        key: random.Key | None,
    ):
        super().__init__(compilation, executable)
        self._key = key
        self._model = model
        self._declared = dict(parameters)
        self._slots = {
            path: ArraySlot(path, parameter.shape, SHORT[parameter.dtype]) for path, parameter in parameters.items()
        }
        self._learning_rate = optimizer.learning_rate
        self._schedule = optimizer.schedule
        self.step_count = 0

    def __repr__(self) -> str:
        return f"Training({self._compilation.name!r}, {self.device}, step_count={self.step_count})"

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step."""
        if self._schedule is None:
            return self._learning_rate
        return self._schedule.at(self.step_count + 1, self._learning_rate)

    def set_learning_rate(self, learning_rate: float) -> None:
        """Changes the learning rate of the steps that follow; compiles nothing.

        With a schedule, this is the rate that it scales.

        Raises:
            OptionError: It is no finite number, or negative.
        """
        self._learning_rate = checked("set_learning_rate", "learning_rate", learning_rate)

    def step(self, /, **inputs: Any) -> Array:
        """Runs one step, without waiting for it.

        Args:
            **inputs: An array for each input; the key of a loss that takes one is made here.

        Returns:
            The loss before the update. It is read from the device when it is looked at, and stays this step's.

        Raises:
            InputError: An input is unknown, missing, or of the wrong shape or dtype.
            ParameterError: The model has other parameters than when it was compiled.
            TraceError: This is inside a trace.
            DeviceError: What the device reported.
        """
        refuse_inside_trace("step")
        self._check_model()
        settings = {"step": float(self.step_count + 1), "learning_rate": self._learning_rate}
        if self._key is not None:
            if "key" in inputs:
                raise InputError(
                    f"{user_line()}: step makes the input 'key' itself; add it to tg.compile's inputs to give it"
                )
            inputs["key"] = np.asarray(random.fold_in(self._key, self.step_count + 1))
        outputs = self._executable.step(inputs, {name: settings[name] for name in self._compilation.settings})
        self.step_count += 1
        return Array(outputs["loss"])

    def parameters(self) -> dict[str, np.ndarray]:
        """Copies of the present values of the parameters, by path."""
        values = self._executable.read(self._declared)
        return {path: values[path] for path in self._declared}

    def load_parameters(self, values: Mapping[str, Any]) -> None:
        """Sets all parameters; the optimizer's state and the step count stay.

        Args:
            values: An array for each parameter, by path.

        Raises:
            InputError: A name is unknown or missing, or a shape or dtype differs. Then nothing has changed.
            TraceError: This is inside a trace.
        """
        refuse_inside_trace("load_parameters")
        self._executable.write(check_inputs(self._slots, values, what="parameter"))

    def attach(self, forward: Callable[..., Any], *, inputs: Mapping[str, Any]) -> Inference:
        """Compiles another function of the same parameters.

        Args:
            forward: Called once, as `forward(model, **inputs)`, with traced tensors; gives a tensor or a tree of them.
            inputs: A shape (f32) or a `tg.spec` for each input, by name.

        Returns:
            What runs it, always with the parameters as they are then.

        Raises:
            TraceError, ParameterError, InputError, ShapeError, DTypeError, ProgramError, TargetError: As `tg.compile`.
        """
        refuse_inside_trace("attach")
        self._check_model()
        phases = Phases()
        with phases.measure("trace"):
            traced, positions = trace_model(self._model, forward, inputs, checked_results, None)
        compilation = Compilation(
            traced.sym_name.data, checked_module(traced), lambda: [SimplifyPass()], self._compilation.device, phases
        )
        names = [slot.name for slot in results_of(traced)]
        return Inference(compilation, compilation.load(share=self._executable), names, positions)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the program, its parameters and state to one file, which loads without the compiler.

        The file is replaced at once, when it is complete. `tensorgrad.runtime` loads and runs it; the step count and
        the learning rate are among the program's statistics.

        Raises:
            ProgramError, TargetError: No WebGPU device could run the program.
            OSError: The file can't be written.
        """
        from dataclasses import replace

        settings = {"step_count": self.step_count, "learning_rate": self._learning_rate}
        program = self.program
        saved = replace(program, statistics={**program.statistics, **settings})
        saved.save(path, self._executable.read())

    def _check_model(self) -> None:
        found = self._model.named_parameters()
        check_same(self._declared, found, f"{user_line()}: the model's parameters changed since tg.compile")
