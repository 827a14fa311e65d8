"""`tg.compile`: a model, a loss and an optimizer become one program that runs a training step."""

from __future__ import annotations

import inspect
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from tensorgrad import random, trees
from tensorgrad.device import find_device
from tensorgrad.dialects.signature import Slot, results_of, slots_attribute
from tensorgrad.dtypes import SHORT, Spec, is_float, spec
from tensorgrad.errors import DTypeError, InputError, OptionError, ParameterError, ShapeError, TraceError
from tensorgrad.location import user_line
from tensorgrad.nn.module import Module, Parameter, check_bound, check_same
from tensorgrad.optim import Optimizer, checked
from tensorgrad.passes.pipelines import tensor_passes
from tensorgrad.passes.simplify import SimplifyPass
from tensorgrad.pipeline import Compilation, Phases
from tensorgrad.runtime.backend import Executable, check_inputs
from tensorgrad.runtime.numpy_backend import ArraySlot
from tensorgrad.runtime.program import Program
from tensorgrad.tensor import Array, Traced
from tensorgrad.tracer import as_result, checked_module, function_name, refuse_inside_trace, trace_call, unique


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
    parameters = _parameters(model)
    key = random.key(seed)
    phases = Phases()
    with_key = _takes_key(loss) and isinstance(inputs, Mapping) and "key" not in inputs
    given = {**inputs, "key": spec(2, "u32")} if with_key else inputs
    with phases.measure("trace"):
        traced, _ = _traced(model, loss, given, _checked_loss, ["loss"])
    name = traced.sym_name.data
    with phases.measure("initialize"):
        values = {path: _draw(path, parameter, key) for path, parameter in parameters.items()}
    with phases.measure("load"):
        found = find_device(device)

    def passes() -> Sequence[ModulePass]:
        return tensor_passes(name, optimizer.append_pass(name, list(parameters)))

    compilation = Compilation(name, checked_module(traced), passes, found, phases)
    executable = compilation.load(share=None)
    executable.write(values)
    return Training(model, parameters, optimizer, compilation, executable, key if with_key else None)


class _Compiled:
    """A program on its device."""

    def __init__(self, compilation: Compilation, executable: Executable):
        self._compilation = compilation
        self._executable = executable
        self._program: Program | None = getattr(executable, "program", None)

    @property
    def device(self) -> str:
        """Where it runs: "numpy", or "wgpu" and the adapter's name."""
        found = self._compilation.device
        return "numpy" if found is None else f"wgpu ({found.info.name}, {found.info.backend}, {found.info.type})"

    @property
    def program(self) -> Program:
        """The program as data; where it runs by numpy, compiled for what every WebGPU device has.

        Raises:
            ProgramError, TargetError: No WebGPU device could run it: it has f64, or is too large.
        """
        if self._program is None:
            self._program = self._compilation.program()
        return self._program

    def stats(self) -> dict[str, Any]:
        """What a step costs.

        Returns:
            Counts: `dispatches`, `submits`, `copies`, and `kernels` (distinct); `peak_bytes` of all buffers;
            `bytes_moved` by a step; `compile_seconds` by phase. Numpy dispatches nothing.
        """
        return {**self._executable.statistics(), "compile_seconds": dict(self._compilation.phases.seconds)}

    def module(self, level: str = "tg") -> str:
        """The IR as text.

        Args:
            level: "traced"; "tg" with gradients and updates; "buf" with kernels and a memory plan; or "wgsl".

        Raises:
            OptionError: Another level.
        """
        return self._compilation.text(level)


class Training(_Compiled):
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
            traced, positions = _traced(self._model, forward, inputs, _checked_results, None)
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


class Inference(_Compiled):
    """A function of a model's parameters, compiled; see `Training.attach`."""

    def __init__(self, compilation: Compilation, executable: Executable, names: Sequence[str], positions: Any):
        super().__init__(compilation, executable)
        self._names = names
        self._positions = positions

    def __call__(self, /, **inputs: Any) -> Any:
        """Runs the function.

        Args:
            **inputs: An array for each input.

        Returns:
            What the function gives, with `tg.Array`s for tensors; they are read from the device when looked at.

        Raises:
            InputError: An input is unknown, missing, or of the wrong shape or dtype.
            TraceError: This is inside a trace.
            DeviceError: What the device reported.
        """
        refuse_inside_trace("a compiled function called")
        outputs = self._executable.step(inputs, {})
        order, rebuild = trees.flatten(self._positions)
        return rebuild([Array(outputs[self._names[int(position)]]) for position in order])

    def __repr__(self) -> str:
        return f"Inference({self._compilation.name!r}, {self.device})"


def _parameters(model: Module) -> dict[str, Parameter]:
    if not isinstance(model, Module):
        raise ParameterError(f"{user_line()}: the model must be a tg.nn.Module, not {type(model).__name__}")
    parameters = model.named_parameters()
    if not parameters:
        raise ParameterError(
            f"{user_line()}: {type(model).__name__} has no parameters: they are found as attributes, in modules, "
            "lists, tuples and dicts"
        )
    return parameters


def _draw(path: str, parameter: Parameter, key: random.Key) -> np.ndarray:
    drawn = parameter.initializer(random.fold_in(key, zlib.crc32(path.encode())), parameter.shape, parameter.dtype)
    values = np.asarray(drawn)
    if values.shape != parameter.shape or values.dtype != parameter.dtype:
        raise ParameterError(
            f"parameter {path} is {parameter!r}, its initializer gave shape {values.shape} of {values.dtype}"
        )
    return values


def _input_specs(inputs: Mapping[str, Any]) -> dict[str, Spec]:
    specs: dict[str, Spec] = {}
    if not isinstance(inputs, Mapping):
        raise InputError(f"{user_line()}: inputs must map names to shapes, got {inputs!r}")
    for name, given in inputs.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise InputError(f"{user_line()}: the name of an input must be an identifier, got {name!r}")
        try:
            specs[name] = given if isinstance(given, Spec) else spec(given)
        except (ShapeError, DTypeError, TypeError) as error:
            raise InputError(f"{user_line()}: input {name!r} must be a shape or a tg.spec: {error}") from error
    return specs


def _takes_key(function: Callable[..., Any]) -> bool:
    """Whether a function has an argument called `key` that must be given."""
    try:
        found = inspect.signature(function).parameters.get("key")
    except (TypeError, ValueError):
        return False
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return found is not None and found.kind in by_name and found.default is inspect.Parameter.empty


def _check_names(function: Callable[..., Any], specs: Mapping[str, Spec], what: str) -> None:
    """Checks that a function takes the model and these inputs."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(None, **specs)
    except TypeError as error:
        given = ", ".join(["model", *specs])
        raise InputError(
            f"{user_line()}: {what} takes the arguments {signature}, it is called with ({given}): {error}"
        ) from None


def _traced(
    model: Module,
    function: Callable[..., Any],
    inputs: Mapping[str, Any],
    check: Callable[[Any, str], Any],
    result_names: Sequence[str] | None,
) -> tuple[FuncOp, Any]:
    """Traces a function of a model and named inputs; returns it, and its results' positions as a tree."""
    specs = _input_specs(inputs)
    what = f"{function_name(function)}()"
    _check_names(function, specs, what)
    parameters = model.named_parameters()

    def program(bound: Module, tensors: list[Any]) -> Any:
        result = function(bound, **dict(zip(specs, tensors, strict=True)))
        where = f"{user_line()}: {what} must leave the model's parameters as they are"
        check_bound(bound, where)
        check_same(parameters, model.named_parameters(), where)
        return check(result, what)

    # The same tree with specifications for parameters.
    _, rebuild = trees.flatten(model)
    declared = rebuild([Spec(parameter.shape, parameter.dtype) for parameter in parameters.values()])
    slots = [*(Slot(path, "parameter") for path in parameters), *(Slot(name, "input") for name in specs)]
    made, positions = trace_call(function_name(function), program, [declared, list(specs.values())], slots)
    names = trees.paths(positions) if result_names is None else result_names
    outputs = unique([Slot(name or "output", "output") for name in names])
    made.properties["res_attrs"] = slots_attribute(outputs)
    return made, positions


def _checked_loss(result: Any, what: str) -> Any:
    """Requires a float scalar.

    Raises:
        TraceError, ShapeError, DTypeError: It is none; names the line that computed it.
    """
    if trees.children(result) is not None:
        raise TraceError(f"{user_line()}: {what} must return one float scalar, it returned {type(result).__name__}")
    tensor = as_result(result, what)
    where = user_line()
    if isinstance(tensor, Traced) and isinstance(tensor.value.owner, Operation):
        location: Any = tensor.value.owner.location
        where = f"{location.filename.data}:{location.line.data}"
    if tensor.shape != ():
        raise ShapeError(
            f"{where}: {what} must return a float scalar, it returned shape {tensor.shape}; take tg.mean or tg.sum"
        )
    if not is_float(tensor.dtype):
        raise DTypeError(f"{where}: {what} must return a float scalar, it returned {SHORT[tensor.dtype]}")
    return tensor


def _checked_results(result: Any, what: str) -> Any:
    if not trees.flatten(result)[0]:
        raise TraceError(f"{user_line()}: {what} returned no tensor")
    return result
