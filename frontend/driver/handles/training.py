"""`Training`: a compiled training step with its parameters, functions attached to it, and how it is saved."""

from __future__ import annotations

import html
import itertools
import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast, overload

import numpy as np
from xdsl.dialects.builtin import TensorType

from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.signature import results_of
from tensorgrad.driver.handles.batch_sizes import StepPrograms
from tensorgrad.driver.handles.compiled import (
    Batch,
    Compiled,
    Inference,
    Results,
    Specialization,
    awaited,
    check_values,
    checked_batch,
    device_of_results,
    structure_of,
)
from tensorgrad.driver.handles.diagnosis import Diagnosis
from tensorgrad.driver.handles.model_check import ModelCheck
from tensorgrad.driver.handles.model_functions import ModelFunctions
from tensorgrad.driver.handles.profiling import StepProfile
from tensorgrad.driver.handles.summary import table
from tensorgrad.driver.handles.training_state import TrainingState
from tensorgrad.driver.handles.with_diagnosis import WithDiagnosis
from tensorgrad.driver.handles.with_state import WithState
from tensorgrad.driver.precision import Precision, check_device, checked_precision
from tensorgrad.driver.stepping.distribution import refuse_to_save
from tensorgrad.driver.stepping.model_tracing import checked_results, input_names, nested_specs
from tensorgrad.driver.stepping.nested_inputs import Nesting
from tensorgrad.driver.stepping.step_programs import StepProgram
from tensorgrad.driver.stepping.step_source import Source
from tensorgrad.driver.storage.checkpoints import PARTS
from tensorgrad.driver.storage.web_export import TRAINING, export_programs
from tensorgrad.errors import InputError, OptionError
from tensorgrad.nn.module import argument_of, initialized_copy
from tensorgrad.ops import random
from tensorgrad.runtime.backend import Executable
from tensorgrad.runtime.counting import completed
from tensorgrad.runtime.group.agreement import together
from tensorgrad.runtime.outputs import OutputHandle
from tensorgrad.runtime.saved import STEP, STEP_KEY, Host, Saved
from tensorgrad.surface.calls import public
from tensorgrad.surface.foreign import unknown_attribute
from tensorgrad.tracing import trees
from tensorgrad.tracing.checks import checked_integer
from tensorgrad.tracing.dtypes import Spec
from tensorgrad.tracing.index_ranges import IndexRanges
from tensorgrad.tracing.likes import Positional, Result
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Array
from tensorgrad.tracing.tracer import check_function, function_name, refuse_inside_trace
from tensorgrad.tracing.value_keys import value_key

Given = TypeVar("Given")

log = logging.getLogger("tensorgrad")
SAME: Any = object()
"""Keeps the current optimizer."""
MOST_EVALUATED = 8
"""How many compiled functions `Training.evaluate` caches."""


@public
class Training(Compiled, WithState, WithDiagnosis[Result]):
    """A training step with its parameters.

    A step is whole or has not been, also if it ends by an exception from outside, such as `KeyboardInterrupt`: the
    parameters, the optimizer's state, `step_count` and the random key are always those after the same step. Several
    threads may call it; their steps run one after the other.

    Example:
        >>> model, loss = tg.nn.Linear(3, 2), lambda model, x: tg.mean(model(x) ** 2)
        >>> training = tg.compile(model, loss=loss, optimizer=tg.optim.sgd(0.1), inputs={"x": (4, 3)}, device="numpy")
        >>> value = training.step(x=np.ones((4, 3)))
        >>> training.step_count, value.shape, training.parameters()["weight"].shape
        (1, (), (3, 2))
    """

    def __init__(self, source: Source, program: StepProgram):
        """Makes a training of a step that is on its device, with its first parameters.

        Args:
            source: What the step was traced from.
            program: Its program for the declared batch size.
        """
        compilation = program.compilation
        super().__init__(compilation)
        self._source = source
        self._state = TrainingState(source, program)
        self._programs = StepPrograms(source, program, self._state.calls)
        self._check_model = ModelCheck(source.model)
        self._diagnosis = Diagnosis(source, self._programs, self._state, self._check_model)
        self._functions = ModelFunctions(source, compilation)
        self._results = Results(source.returned, device_of_results(compilation.recipe))
        self._checks, self._check_numerics = source.options["checks"], source.options["check_numerics"]
        self._profile: StepProfile | None = None
        self._evaluated: OrderedDict[Hashable, Inference] = OrderedDict()

    def __repr__(self) -> str:
        is_fallback = self._source.options["device"] == "auto" and self.device.startswith("cpu")
        device = f"{self.device} (auto: no hardware adapter)" if is_fallback else self.device
        return f"Training({self._compilation.recipe.name!r}, {device}, step_count={self.step_count})"

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        """Returns the summary for notebooks."""
        return f"<pre>{html.escape(self.summary())}</pre>"

    def _scalar_metrics(self) -> list[str]:
        """Returns the paths of the loss' metrics that are scalars."""
        recipe, metrics = self._compilation.recipe, self._source.results.metrics
        function = find_function(recipe.traced, recipe.name)
        kinds = zip(results_of(function), function.function_type.outputs.data, strict=True)
        scalars = {slot.name for slot, kind in kinds if isinstance(kind, TensorType) and not kind.get_shape()}
        names = zip(trees.paths(metrics), trees.flatten(metrics)[0], strict=True)
        return [path for path, name in names if name in scalars]

    def summary(self) -> str:
        """Returns a table, which `print(training)` shows too.

        Returns:
            Each parameter and buffer with its shape, dtype, element count and whether it is trained; the totals; and
            the cost of a step: dispatches, and bytes as in `stats`.
        """
        trained = frozenset(self._source.parts.trained)
        return table(repr(self), self._state.declared, trained, self.stats())

    def stats(self) -> dict[str, Any]:
        """Returns the cost of a step.

        Returns:
            The costs as in `Compiled.stats`. With `accumulate`, they are those of a step's last micro-batch, and
            `accumulate` holds the number of micro-batches as `steps`, and the costs of the others.
        """
        adding = self._programs.declared.accumulation
        return {**super().stats(), **({} if adding is None else {"accumulate": adding.statistics()})}

    @property
    def _input_names(self) -> Sequence[str]:
        """The input names that error messages list when inputs are given by position."""
        return list(self._source.inputs)

    if not TYPE_CHECKING:  # type checkers report such names themselves

        def __getattr__(self, name: str) -> NoReturn:
            raise unknown_attribute("Training", "a training", name, self)

    def step(self, /, **inputs: Any) -> Result:
        """Runs one step, or one micro-batch of it with `accumulate`, without waiting for it.

        Args:
            **inputs: An array for each input: numbers, or anything with `__array__` or `__dlpack__`, such as CPU
                tensors of other libraries; or a tree of arrays, as it was declared. The key of a loss that takes one is
                generated here. The batch size may differ from that of `tg.compile`: the leading extent of the inputs
                that were declared with the same one; or, if extents were declared by `tg.dim`, those. The step is
                compiled for each size when it first occurs, unless it runs in a group of processes, and continues with
                the same parameters and state. The 8 most recently used other sizes are kept, and all buckets.

        Returns:
            The loss's result: its value before the update, a `tg.Array`, or a dict of those of the parts; or a pair of
            that and its metrics. They are read from the device on first access, and are unaffected by later steps.

        Raises:
            InputError: An input is unknown, missing, or of the wrong shape or dtype.
            ParameterError: The model's parameters have changed since it was compiled, or this is inside of `averaged`.
            TraceError: This is inside a trace.
            DeviceError: What the device reported.
        """
        refuse_inside_trace("step")
        state = self._state
        with state.lock:
            state.check_steps("step")
            self._check_model()
            program, inputs = self._programs.of(inputs, "step")
            inputs = self._own(inputs, "step", program.ranges)
            compilation = program.at(state.accumulated)
            executable = compilation.executable
            before, calls = self._executable.read() if self._check_numerics else {}, state.calls.number
            settings = state.host_values()
            run = executable.step if self._profile is None else partial(self._measured, self._profile, executable)
            outputs = run(inputs, {name: settings[name] for name in compilation.interface.settings})
            if self._check_numerics:
                self._diagnosis.check_finite(program, outputs, before, calls, inputs)
            return self._results.of(outputs)

    def _own(self, inputs: dict[str, Any], what: str, ranges: IndexRanges) -> dict[str, Any]:
        """Returns the inputs of this process's program, the step's key included.

        Args:
            inputs: The inputs of the call.
            what: The method's name in error messages.
            ranges: The ranges that the loss requires of indices.

        Raises:
            InputError: An input is neither the whole nor a part; or, with `checks`, a value is out of range in any
                process.
        """
        distribution = self._source.distribution
        own = self._state.with_key(inputs if distribution is None else distribution.own(inputs), what)
        if self._checks:  # on the whole batch, since the loss may index by it
            whole = own if distribution is None else distribution.whole(inputs)
            together(self.group, lambda: check_values(whole, ranges), what)
        else:
            ranges.check_labels(own)
        return own

    @contextmanager
    def profile(self) -> Iterator[StepProfile]:
        """Measures the steps inside a `with` block, kernel by kernel; each step is waited for.

        Yields:
            The profile: `print` shows a table, `save_trace` writes a trace for Perfetto, and `report` takes it.

        Raises:
            OptionError: A step runs on numpy, which has no kernels.
            DeviceError: The device has no timestamps.
        """
        before = self._profile
        self._profile = StepProfile(
            f"{self._compilation.recipe.name} on {self.device}", self._compilation.observers.phases.seconds
        )
        try:
            yield self._profile
        finally:
            self._profile = before

    def _measured(
        self, profile: StepProfile, executable: Executable, inputs: Mapping[str, Any], scalars: Mapping[str, float]
    ) -> Mapping[str, OutputHandle]:
        """Measures a step, whose kernels run one by one: if it ends in between, it is taken back."""
        before, calls = self._executable.read(), self._state.calls.number

        def take_back() -> None:
            self._executable.write(before)
            self._state.calls.number = calls

        try:
            return profile.step(executable, inputs, scalars)
        except BaseException:
            completed(take_back)
            raise

    async def step_async(self, /, **inputs: Any) -> Result:
        """Runs one step, and lets the event loop run until its results are available; see `step`.

        Coroutines may step the same training concurrently: each gets its own step's results.
        """
        return await awaited(self.step(**inputs))

    def run(self, steps: int, data: Mapping[str, Any] | Iterable[Batch]) -> Any:
        """Calls `step` many times; the results are read from the device in groups of some dozens of calls.

        Args:
            steps: The number of calls.
            data: An iterable of the inputs of each step, or one set of inputs for every step.

        Returns:
            The loss's results as arrays, with the steps as their first axis.

        Raises:
            InputError: The data ended early, or a step's inputs don't match; the steps before that have run.
            OptionError: `steps` is not a positive integer.
        """
        refuse_inside_trace("run")
        steps = checked_integer(steps, "run: steps", 1)
        if not isinstance(data, Iterable):
            raise InputError(f"run: data must be dicts of inputs, or one, got {type(data).__name__}")
        batches = itertools.repeat(cast(Mapping[str, Any], data)) if isinstance(data, Mapping) else data
        names = [*self._source.loss_inputs]
        results = [self.step(**checked_batch(inputs, "run", names)) for inputs in itertools.islice(batches, steps)]
        if len(results) < steps:
            raise InputError(f"run: the data ended after {len(results)} of {steps} steps")
        _, rebuild = trees.flatten(results[0])
        columns = zip(*(trees.flatten(result)[0] for result in results), strict=True)
        return rebuild([np.stack([np.asarray(value) for value in column]) for column in columns])

    def evaluate(
        self,
        function: Callable[..., Any] | Inference,
        batches: Iterable[Batch],
        *,
        weight: str | None = None,
    ) -> Any:
        """Averages the results of a function of the model over batches; the parameters are not changed.

        Args:
            function: Called as `function(model, **inputs)`, and returns averages over a batch; compiled on first use,
                for each set of shapes. Or a result of `attach`.
            batches: The inputs of each call.
            weight: The input that holds the weight of each example; see `Inference.evaluate`.

        Returns:
            The tree of results, with floats for scalars and arrays otherwise.

        Raises:
            InputError: There are no batches, their total weight is zero, or an input doesn't match.
            TraceError, ParameterError, ShapeError, DTypeError, ProgramError, TargetError: As `tg.compile`.
        """
        refuse_inside_trace("evaluate")
        if not isinstance(function, Inference):
            key = value_key(function)
            if key not in self._evaluated:
                self._evaluated[key] = self.attach(function)
                if len(self._evaluated) > MOST_EVALUATED:
                    self._evaluated.popitem(last=False)
            self._evaluated.move_to_end(key)
            function = self._evaluated[key]
        return function.evaluate(batches, weight=weight)

    def capture(self, names: str | Sequence[str], /, **inputs: Any) -> dict[str, Array]:
        """Runs the loss up to the values that `tg.capture` names in it, without changing the state.

        It is a separate program, compiled when the names are first requested, so steps pay nothing for it.

        Args:
            names: Names, or patterns such as `blocks.*`.
            **inputs: As for `step`; the key is the same as well.

        Returns:
            The values by name.

        Raises:
            InputError: No value has such a name; or an input is unknown, missing, or of the wrong shape or dtype.
        """
        refuse_inside_trace("capture")
        self._check_model()
        patterns = (names,) if isinstance(names, str) else tuple(names) if isinstance(names, Iterable) else ()
        if not patterns or not all(isinstance(pattern, str) for pattern in patterns):
            raise InputError(f"capture: takes a name or several, got {names!r}")
        program, inputs = self._programs.of(inputs, "capture")
        captures = self._functions.captures(program, patterns)
        return captures.run(self._own(inputs, "capture", program.ranges))

    def gradients(self, /, **inputs: Any) -> dict[str, Array]:
        """Returns the gradients of the loss with respect to the current parameters, without changing the state.

        It is a separate program, compiled on the first call. Gradients are the raw derivatives: before the links of
        `tg.optim.chain`, before `clip_norm`, and with `accumulate` for these inputs alone. If parts have losses of
        their own, each parameter has the gradient of its part's loss.

        Args:
            **inputs: As for `step`; the key is the same as well.

        Returns:
            An array by path for each trained parameter.

        Raises:
            InputError: An input is unknown, missing, or of the wrong shape or dtype.
            OptionError: Nothing is trained.
            TraceError: This is inside a trace.
        """
        refuse_inside_trace("gradients")
        self._check_model()
        if not self._source.losses:
            raise OptionError("gradients: this program trains nothing")
        program, inputs = self._programs.of(inputs, "gradients")
        inputs = self._own(inputs, "gradients", program.ranges)
        gradients = self._functions.gradients(program).run(inputs)
        return {path: gradients[path] for path in self._state.parameter_paths if path in gradients}

    def model(self) -> Any:
        """Returns the model with the current values, as `initialized` does, to be called outside of this program.

        Returns:
            A module with arrays for parameters and buffers; or the same tree as the model, with arrays.

        Raises:
            ParameterError: The model's parameters have changed since it was compiled.
        """
        self._check_model()
        values = self._executable.read(self._state.declared)
        return argument_of(initialized_copy(self._source.model, values.items()))

    def replace_model(
        self,
        model: Any = None,
        *,
        loss: Callable[..., Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        optimizer: Any = SAME,
        **options: Any,
    ) -> Training:
        """Compiles a training that continues from this one with a changed model, or with other parameters frozen.

        If the model is the one of this training, or shares a parameter with it, parameters and buffers keep their
        values by identity: layers may have been wrapped, swapped, shared or moved to other paths, and only new ones are
        initialized, whatever their paths. In an entirely different model, those whose path, shape and dtype match do.
        With the same optimizer, its state carries over in the same way, as do the step count and the settings; another
        optimizer starts fresh, as for a second phase of fine-tuning. `replaced` of the result reports what was kept.
        This training is not changed, and keeps its memory until nothing refers to it.

        Args:
            model: The model; by default the current one, as it is now.
            loss: The loss, if it changes.
            inputs: Its inputs, if they change.
            optimizer: Another optimizer, one for each part, or `None`, as for `tg.compile`.
            **options: Other arguments of `tg.compile` that change: `device`, `accumulate`, `precision`, …

        Returns:
            The new training.

        Raises:
            OptionError: There is no such option; or a step has run only some of its micro-batches.
            TraceError, ParameterError, InputError, ShapeError, DTypeError, ProgramError, TargetError: As `tg.compile`.
        """
        refuse_inside_trace("replace_model")
        source = self._source
        for name in options:
            if name not in source.options:
                listed = ", ".join(source.options)
                raise OptionError(f"replace_model: tg.compile has no setting {name!r}; the settings are {listed}")
        if self.accumulated:
            raise OptionError(f"replace_model: {self.accumulated} micro-batches of a step have run")
        is_same = optimizer is SAME
        training: Training[Any] = source.compile(
            argument_of(source.model) if model is None else model,
            loss=source.loss if loss is None else loss,
            inputs=source.loss_inputs if inputs is None else inputs,
            optimizer=source.optimizer if is_same else optimizer,
            **{**source.options, **options},
        )
        kept, new, dropped = training._state.take(self._state, PARTS if is_same else ("model",))
        log.info("replace_model: %d kept; new: %s; dropped: %s", len(kept), ", ".join(new), ", ".join(dropped))
        return training

    @overload
    def attach(
        self,
        forward: Positional[Any, Given],
        *,
        inputs: Mapping[str, Any] | None = None,
        precision: Precision | None = None,
    ) -> Inference[Given]: ...

    @overload
    def attach(
        self,
        forward: Callable[..., Given],
        *,
        inputs: Mapping[str, Any] | None = None,
        precision: Precision | None = None,
    ) -> Inference[Given]: ...

    def attach(
        self,
        forward: Callable[..., Given],
        *,
        inputs: Mapping[str, Any] | None = None,
        precision: Precision | None = None,
    ) -> Inference[Given]:
        """Compiles another function of the same parameters.

        Args:
            forward: Called as `forward(model, **inputs)`, with traced tensors; returns a tensor or a pytree of them.
            inputs: A shape (f32) or a `tg.spec` for each input, by name, or a dict or dataclass of `tg.spec`s; or
                `tg.like` of examples. It is compiled for these immediately, and for other leading extents when it is
                called with them. `None` compiles on calls only.
            precision: What has fewer bits than f32, as for `tg.compile`; `None` is as in the training.

        Returns:
            The compiled function, which always uses the current parameters.

        Raises:
            TraceError, ParameterError, InputError, ShapeError, DTypeError, ProgramError, TargetError: As `tg.compile`.
        """
        refuse_inside_trace("attach")
        check_function(forward, "attach")
        rounding = self._compilation.recipe.precision if precision is None else checked_precision("attach", precision)
        check_device("attach", rounding, self._compilation.recipe.device)
        self._check_model()

        whole = self._source.distribution

        def specialize(specs: Mapping[str, Spec], nesting: Nesting) -> Specialization:
            self._check_model()
            distribution = None if whole is None else whole.of_inputs(specs)
            return self._functions.compiled(
                nesting.function(forward), specs, checked_results, "refused", "attach", rounding, distribution
            )

        declared = None if inputs is None else nested_specs(inputs)
        order = input_names(forward) if inputs is None else list(inputs)
        return Inference(function_name(forward), order, declared, specialize, self._checks)

    def save(self, path: str | os.PathLike[str], target: str | None = None) -> None:
        """Writes the step with all that it needs to continue to one file, which `tg.load` runs without the compiler.

        The file contains the program, or both programs with `accumulate`; parameters and state; the seed, the step
        count and the settings; what the program requires of a device; and the structure of its results. It contains no
        paths of this machine outside the current directory.

        Args:
            path: The file, which is replaced atomically once it is complete.
            target: What to compile for, instead of the device here; see `Inference.save`.

        Raises:
            OptionError: The step runs in a group of processes.
            TargetError: There is no such target, or the program doesn't fit it.
            ProgramError: No WebGPU device can run the program, or a schedule is a Python function.
            OSError: The file can't be written; what was there before is still there.
        """
        refuse_to_save(self._source.distribution, "save")
        host, adding = self._host_state(f"{user_line()}: save"), self._programs.declared.accumulation
        program = self.program if target is None else self.program_for(target)
        others = None if adding is None else adding.program(target)
        Saved(program, self._executable.read(), host, others).save(path)

    def _host_state(self, what: str) -> Host:
        """Returns what the host computes for a step, as files contain it.

        Args:
            what: The beginning of error messages.

        Raises:
            ProgramError: A schedule is a Python function, or the results can't be named.
        """
        state = self._state
        state.settings.refuse_functions(what)
        key = np.asarray(random.key(state.seed)).tolist()
        return Host(
            kind=STEP,
            results=structure_of(self._source.returned),
            made={} if state.key is None else {"key": STEP_KEY},
            key=(key[0], key[1]),
            step_count=self.step_count,
            accumulate=self.accumulate,
            accumulated=self.accumulated,
            settings=dict(state.settings.values),
        )

    def export_web(
        self,
        folder: str | os.PathLike[str],
        *,
        functions: Mapping[str, Inference[Any]] | None = None,
        example: Mapping[str, Any] | None = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        """Writes a directory from which a web page continues the training; any web server can serve it, or `tg serve`.

        It contains the step, compiled for any browser with WebGPU, with its current state; attached functions, which
        use the parameters of the page's training; the ES module that runs them; and a starter page, which later exports
        don't overwrite.

        Args:
            folder: The directory; created if it does not exist.
            functions: Results of `attach`, by the name of their file, each already called or with declared inputs.
            example: An array for each input, or for some, that the page trains on, and calls functions on if they take
                arrays of these shapes. The page makes up the others. The functions' results for it are recorded, for
                browsers without WebGPU.
            labels: The names of the classes, which the page shows for results with as many entries along their last
                axis; indices otherwise.

        Raises:
            OptionError: The web module is not built, the path or a function's name is not allowed, a function is no
                result of `attach`, none has as many results as there are labels, or the step runs in a group of
                processes.
            InputError: The example doesn't match, or a function has neither been called nor has declared inputs.
            TargetError, ProgramError: No browser can run a program; see `save`.
            OSError: A file can't be written.
        """
        refuse_to_save(self._source.distribution, "export_web")
        if not isinstance(functions, Mapping | None):
            raise OptionError(f"export_web: functions must be a dict of functions by name, got {functions!r}")
        named = dict(functions or {})
        if TRAINING in named:
            raise OptionError(f"export_web: a function can't be called {TRAINING!r}")
        export_programs(folder, self, named, example, labels)
