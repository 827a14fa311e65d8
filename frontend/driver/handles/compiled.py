"""Base classes of compiled programs on their devices: training steps, functions, and their specializations."""

from __future__ import annotations

import html
import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, NoReturn, TypeAlias, TypeVar, cast

import numpy as np

from tensorgrad.driver.compiling.compilation import Compilation, facts_of, program_for, program_of
from tensorgrad.driver.compiling.level_texts import text
from tensorgrad.driver.compiling.recipe import Recipe
from tensorgrad.driver.device import described
from tensorgrad.driver.handles.eager_devices import eager_device_on
from tensorgrad.driver.handles.profiling import StepProfile
from tensorgrad.driver.stepping.distribution import Distribution, refuse_to_save
from tensorgrad.driver.stepping.nested_inputs import Nesting
from tensorgrad.eager.devices import EagerDevice
from tensorgrad.errors import InputError, OptionError, ProgramError
from tensorgrad.report import CompilationReport
from tensorgrad.runtime.backend import NOTHING
from tensorgrad.runtime.conversion import kind_of, to_numpy
from tensorgrad.runtime.inputs import check_inputs, named_inputs
from tensorgrad.runtime.outputs import OutputHandle
from tensorgrad.runtime.program import PERSISTENT_ROLES, Program
from tensorgrad.runtime.saved import FUNCTION, Host, Saved
from tensorgrad.runtime.weights import F32, WEIGHTS
from tensorgrad.surface.calls import public
from tensorgrad.tracing import trees
from tensorgrad.tracing.arrays import slot_of
from tensorgrad.tracing.dims import Dims
from tensorgrad.tracing.dtypes import Spec
from tensorgrad.tracing.index_ranges import IndexRanges
from tensorgrad.tracing.likes import Result
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Array
from tensorgrad.tracing.tracer import as_array, refuse_inside_trace

_log = logging.getLogger("tensorgrad.cache")


Batch: TypeAlias = Mapping[str, Any] | Sequence[Any]
"""The inputs of a call: by name, or a tuple or list of all of them in their order, as PyTorch's loaders make."""


class Held:
    """An object that holds device memory, and so can be neither copied nor pickled."""

    def __reduce__(self) -> NoReturn:
        raise ProgramError(
            f"{user_line()}: a {type(self).__name__} holds compiled programs and can't be copied or pickled: compile "
            "another, and hand over its numbers by state_dict() and load_state_dict(), or save_checkpoint()"
        )


class Compiled(Held):
    """A compiled program on its device."""

    def __init__(self, compilation: Compilation):
        self._compilation = compilation
        self._executable = compilation.executable
        self._program: Program | None = getattr(compilation.executable, "program", None)

    @property
    def device(self) -> str:
        """Where it runs: "numpy", or "cpu" or "wgpu" and its name."""
        device = self._compilation.recipe.device
        return "numpy" if device is None else described(device)

    @property
    def program(self) -> Program:
        """The program in its serializable form; on numpy, compiled for the WebGPU default limits.

        Raises:
            ProgramError, TargetError: No WebGPU device can run it: it uses f64, or is too large.
        """
        if self._program is None:
            self._program = program_of(self._compilation)
        return self._program

    def program_for(self, target: str) -> Program:
        """Returns the program in its serializable form, compiled for another target than the device.

        Args:
            target: A profile's name, the path of a JSON file, or inline JSON; see `tensorgrad.runtime.target`.

        Raises:
            TargetError: There is no such target.
            ProgramError: The program does not fit it.
        """
        return program_for(self._compilation, target)

    def stats(self) -> dict[str, Any]:
        """Returns the cost of a step.

        Returns:
            Counts: `dispatches`, `submits`, `copies`, and `kernels` (distinct); `peak_bytes` of all buffers as planned;
            on a device `device_bytes`, the bytes currently allocated, including unread results; `bytes_moved` by a
            step; `compile_seconds` by phase. Numpy dispatches nothing. With a memory limit, `memory_limit`: the
            `segments` that the loss was divided into, all but the last of which are recomputed, and
            `peak_bytes_without` and `bytes_moved_without` any.
        """
        seconds = dict(self._compilation.observers.phases.seconds)
        costs = {**self._executable.statistics(), "compile_seconds": seconds}
        limit = self._compilation.memory_cost
        return {**costs, "memory_limit": dict(limit)} if limit else costs

    def module(self, level: str = "tg") -> str:
        """Returns the IR as text.

        Args:
            level: "traced"; "tg" with gradients and updates; "stablehlo", the same for XLA and IREE; "buf" with kernels
                and a memory plan; or "wgsl".

        Raises:
            OptionError: Another level.
        """
        return text(self._compilation.recipe, self._compilation.choice, level)

    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        beside: Compiled | None = None,
        profile: StepProfile | None = None,
    ) -> CompilationReport:
        """Returns a report on the compilation: source, IR of every level, passes, kernels, data flow and memory.

        This reruns all passes.

        Args:
            path: Where to write it as one self-contained HTML page, which includes the source lines that the program
                was traced from; `None` writes nothing.
            beside: Another program to compare with.
            profile: A profile of its steps, for the time of each kernel.

        Returns:
            The report, which `print` shows as text.

        Raises:
            OptionError: The packages that render the page are not installed; names them.
            ProgramError: It runs on numpy, and no WebGPU device can run the program.
            InputError: The profile is of another program.
            OSError: The page can't be written.
        """
        measured = None if profile is None else profile.of(self._executable)
        other = None if beside is None else beside.report().facts
        compilation_report = CompilationReport(facts_of(self._compilation, self.device, measured), other)
        if path is not None:
            compilation_report.save(path)
        return compilation_report


class Specialization(Compiled):
    """A function compiled for one set of shapes.

    Attributes:
        inputs: The names of its inputs in order, if they are given by position.
    """

    def __init__(
        self,
        compilation: Compilation,
        results: Any,
        ranges: IndexRanges | None = None,
        distribution: Distribution | None = None,
        inputs: Sequence[str] = (),
    ):
        super().__init__(compilation)
        self._distribution = distribution
        self.inputs = inputs
        self._tree = results
        self._results = Results(results, device_of_results(compilation.recipe))
        self.ranges = ranges

    def run(self, inputs: Mapping[str, Any], constant: Mapping[str, np.ndarray] = NOTHING) -> Any:
        """Runs it, and returns the tree of its results.

        Args:
            inputs: An array for each input; with a group, the whole batch or this process's part.
            constant: Further inputs, which never change; see `Executable.step`.
        """
        if self._distribution is not None:
            inputs = self._distribution.own(inputs)
        return self._results.of(self._executable.step(inputs, {}, constant))

    def save(self, path: str | os.PathLike[str], target: str | None, weights: str) -> None:
        """See `Inference.save`."""
        refuse_to_save(self._distribution, "save")
        program = self.program if target is None else self.program_for(target)
        state = self._executable.read(program.slots(*PERSISTENT_ROLES))
        Saved(program, state, Host(FUNCTION, structure_of(self._tree))).save(path, weights)


def structure_of(results: Any) -> Any:
    """Returns the structure of results as it is stored in files.

    Raises:
        ProgramError: The structure can't be stored.
    """
    try:
        return trees.described(results)
    except ValueError as error:
        raise ProgramError(f"{user_line()}: save: the results can't be named: {error}") from None


class Results:
    """A tree with the names of outputs for leaves, flattened once.

    Args:
        tree: The tree.
        device: Where the outputs live; `None` returns arrays on the host.
    """

    def __init__(self, tree: Any, device: EagerDevice | None = None):
        self._names, self._rebuild = trees.flatten(tree)
        self._make = Array if device is None else device.output

    def of(self, outputs: Mapping[str, OutputHandle | np.ndarray]) -> Any:
        """Returns the tree with these outputs."""
        return self._rebuild([self._make(outputs[name]) for name in self._names])


def device_of_results(recipe: Recipe) -> EagerDevice | None:
    """Returns where the results of a program live: its device, or `None` if that may be replaced."""
    return None if recipe.snapshot_every is not None else eager_device_on(recipe.device)


Key = TypeVar("Key", bound=Hashable)


class Specializations(Held, Generic[Key]):
    """A function that is compiled once per signature of input shapes; the 32 most recently used programs are kept."""

    def __init__(self, name: str):
        self._name = name
        self._by_key: OrderedDict[Key, Specialization] = OrderedDict()

    @property
    def device(self) -> str:
        """Where it runs: "numpy", or "cpu" or "wgpu" and its name."""
        return self._latest("device").device

    @property
    def program(self) -> Program:
        """The program in its serializable form, for the shapes of the last call.

        Raises:
            ProgramError, TargetError: No WebGPU device can run it: it uses f64, or is too large.
        """
        return self._latest("program").program

    def stats(self) -> dict[str, Any]:
        """Returns the cost of a call with the shapes of the last call; see `Training.stats`."""
        return self._latest("stats").stats()

    def module(self, level: str = "tg") -> str:
        """Returns the IR as text, for the shapes of the last call; see `Training.module`."""
        return self._latest("module").module(level)

    def report(
        self, path: str | os.PathLike[str] | None = None, *, beside: Specializations[Any] | Compiled | None = None
    ) -> CompilationReport:
        """Returns a report on the compilation for the shapes of the last call; see `Training.report`."""
        other = beside._latest("report") if isinstance(beside, Specializations) else beside
        return self._latest("report").report(path, beside=other)

    @property
    def specializations(self) -> int:
        """The number of shape signatures it is compiled for."""
        return len(self._by_key)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r}, specializations={self.specializations})"

    def _repr_html_(self) -> str:
        """Returns a description, and a step of the program for the shapes of the last call, for notebooks."""
        program = self._latest("show")._program if self._by_key else None
        return f"<pre>{html.escape(repr(self))}</pre>{'' if program is None else program._repr_html_()}"

    def _latest(self, what: str) -> Specialization:
        if not self._by_key:
            raise InputError(f"{what}: {self._name} is compiled when it is first called: call it first")
        return next(reversed(self._by_key.values()))

    def _compiled(self, key: Key, make: Callable[[], Specialization]) -> Specialization:
        """Returns the program for a key, compiling it on a miss."""
        if key not in self._by_key:
            self._by_key[key] = make()
            _log.debug("%s: compiled for a set of shapes, %d in all", self._name, len(self._by_key))
            if len(self._by_key) > MOST_SPECIALIZATIONS:
                self._by_key.popitem(last=False)
        self._by_key.move_to_end(key)
        return self._by_key[key]


MOST_SPECIALIZATIONS = 32
Specialize: TypeAlias = Callable[[Mapping[str, Spec], Nesting], Specialization]


@public
class Inference(Specializations[tuple[Hashable, ...]], Generic[Result]):
    """A compiled function of a model's parameters; see `Training.attach`.

    It is compiled once per signature of input shapes; the 32 most recently used programs are kept.

    Attributes:
        order: The names of the inputs that may be given by position.

    Example:
        >>> model, loss = tg.nn.Linear(3, 2), lambda model, x: tg.mean(model(x) ** 2)
        >>> training = tg.compile(model, loss=loss, optimizer=tg.optim.sgd(0.1), inputs={"x": (4, 3)}, device="numpy")
        >>> predict = training.attach(lambda model, x: model(x))
        >>> predict(x=np.ones((5, 3))).shape
        (5, 2)
    """

    def __init__(
        self,
        name: str,
        order: Sequence[str],
        declared: tuple[Mapping[str, Spec], Nesting] | None,
        specialize: Specialize,
        checks: bool,
    ):
        """Makes a function that is compiled for declared inputs, or else when it is called.

        Args:
            name: Its name.
            order: The names of the inputs that may be given by position.
            declared: The specifications of its inputs.
            specialize: Compiles it for some inputs.
            checks: Whether the inputs of every call are checked.
        """
        super().__init__(name)
        self.order = order
        self._checks = checks
        self._declared = None if declared is None else dict(declared[0])
        self._dims = Dims(self._declared or {})
        self._specialize = specialize
        if declared is not None:
            self._compiled_for(*declared)

    def __call__(self, /, *positional: Any, **inputs: Any) -> Result:
        """Runs the function.

        Args:
            *positional: Inputs in the order in which they were declared, or else in that of the function's parameters.
            **inputs: An array for each input, or a dict or dataclass of arrays and of lists and tuples of them. If
                inputs were declared, each `tg.dim` may have another extent, or, without any, the leading extents may
                differ from the declared ones, as long as inputs that shared one still do.

        Returns:
            The function's result, with `tg.Array`s for tensors; they are read from the device on first access.

        Raises:
            InputError: An input is unknown, missing, or of the wrong shape or dtype.
            ArgumentError: There are too many inputs by position, or one is given by name too.
            TraceError: This is inside a trace.
            DeviceError: What the device reported.
        """
        refuse_inside_trace("a compiled function called")
        nesting = Nesting(named_inputs(f"{self._name}()", self.order, positional, inputs))
        arrays = {name: to_numpy(value, f"input {name!r}") for name, value in nesting.flat.items()}
        if self._declared is None:
            arrays = {name: as_array(value) for name, value in arrays.items()}
        if self._dims:
            arrays, specs = self._dims.fitted(arrays, self._name)
        else:
            specs = self._specs(arrays)
        compiled = self._compiled_for(specs, nesting)
        if self._checks:
            check_values(arrays, compiled.ranges)
        elif compiled.ranges is not None:
            compiled.ranges.check_labels(arrays)
        return compiled.run(arrays)

    def evaluate(self, batches: Iterable[Batch], *, weight: str | None = None) -> Any:
        """Averages the function's results over batches, in float64.

        A batch is weighted by its number of examples, the inputs' leading extent, so that the last one may be smaller;
        or, if `weight` names an input, by the sum of that input. One of weight zero is left out.

        Args:
            batches: The inputs of each call.
            weight: The input that holds the weight of each example, such as a padding mask; the function has to average
                with the same weights.

        Returns:
            The tree of results, with floats for scalars and arrays otherwise.

        Raises:
            InputError: There are no batches, their total weight is zero, or an input doesn't match.
        """
        return average(self, batches, weight)

    def save(self, path: str | os.PathLike[str], target: str | None = None, *, weights: str = F32) -> None:
        """Writes the function with the current parameters to one file, which `tg.load` runs without the compiler.

        It is compiled for the shapes of the last call, or else for the declared ones. The file contains what the
        program requires of a device, the structure of its results, and no paths of this machine outside the current
        directory.

        Args:
            path: The file, which is replaced atomically once it is complete.
            target: What to compile for, instead of the device here: a profile such as "webgpu-default", which every
                WebGPU device runs; the path of a JSON file; or inline JSON.
            weights: How the file stores f32 parameters of two or more axes: "f32", "f16", or "int8" with a scale per
                channel. They are f32 again when the file is loaded, with the rounded values.

        Raises:
            InputError: It has neither been called nor has declared inputs, or a parameter can't be stored so: it is not
                finite, or too large for f16.
            OptionError: It runs in a group of processes, or there are no such weights.
            TargetError: There is no such target, or the program doesn't fit it.
            ProgramError: No WebGPU device can run the program: it uses f64, or is too large.
            OSError: The file can't be written; what was there before is still there.
        """
        if weights not in WEIGHTS:
            raise OptionError(f"save: weights must be one of {', '.join(WEIGHTS)}, got {weights!r}")
        self._latest("save").save(path, target, weights)

    def _compiled_for(self, specs: Mapping[str, Spec], nesting: Nesting) -> Specialization:
        return self._compiled((tuple(specs.items()), nesting.key), lambda: self._specialize(specs, nesting))

    def _specs(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, Spec]:
        """Returns the inputs' shapes and dtypes.

        Raises:
            InputError: They differ from the declared ones in more than the extents that vary, or the leading ones.
        """
        if self._declared is None:
            return {name: Spec(array.shape, array.dtype) for name, array in sorted(inputs.items())}
        if inputs.keys() != self._declared.keys():
            return self._declared  # its program reports what is wrong
        specs = {name: _resized(declared, inputs[name]) for name, declared in self._declared.items()}
        if specs != self._declared:
            check_inputs({name: slot_of(name, spec) for name, spec in specs.items()}, inputs)
            _check_together(self._declared, specs)
        return specs


def _resized(declared: Spec, array: np.ndarray) -> Spec:
    """Returns the declared spec, with the array's leading extent if that is all that differs."""
    fits = array.ndim == len(declared.shape) and array.shape[1:] == declared.shape[1:]
    return Spec(array.shape, declared.dtype) if fits else declared


def _check_together(declared: Mapping[str, Spec], specs: Mapping[str, Spec]) -> None:
    """Checks that inputs declared with the same leading extent still share one."""
    first: dict[int, str] = {}
    for name, spec in specs.items():
        if not spec.shape:
            continue
        other = first.setdefault(declared[name].shape[0], name)
        if specs[other].shape[0] != spec.shape[0]:
            raise InputError(
                f"inputs {other!r} and {name!r} were declared with one leading extent, now they have "
                f"{specs[other].shape[0]} and {spec.shape[0]}"
            )


def average(function: Inference, batches: Iterable[Batch], weight: str | None) -> Any:
    """See `Inference.evaluate`."""
    pending: list[tuple[float, Any]] = []
    sums: list[Any] = []
    total, rebuild = 0.0, None

    def add_up() -> None:
        for count, result in pending:
            for i, leaf in enumerate(trees.flatten(result)[0]):
                sums[i] = sums[i] + count * np.asarray(leaf, np.float64)
        pending.clear()

    if not isinstance(batches, Iterable) or isinstance(batches, Mapping):
        raise InputError(f"evaluate: expected an iterable of batches, got {type(batches).__name__}")
    for inputs in batches:
        batch = checked_batch(inputs, "evaluate", function.order)
        result = function(**batch)
        leaves, rebuild = trees.flatten(result)
        sums = sums or [0.0] * len(leaves)
        count = _count(batch, weight)
        if count:  # the mean of no examples may be NaN
            pending.append((count, result))
        total += count
        if len(pending) == RESULTS_AT_ONCE:
            add_up()
    add_up()
    if rebuild is None or total <= 0:
        what = "there are no batches" if rebuild is None else f"the batches count {total} in all"
        raise InputError(f"evaluate: {what}")
    means = [np.asarray(leaf / total) for leaf in sums]
    return rebuild([float(mean) if mean.ndim == 0 else mean for mean in means])


RESULTS_AT_ONCE = 32
"""How many batches' results may stay unread on the device."""


def _count(batch: Mapping[str, Any], weight: str | None) -> float:
    """Returns the weight of a batch."""
    if weight is not None:
        if weight not in batch:
            raise InputError(f"evaluate: weight {weight!r} is not an input: {', '.join(batch)}")
        return float(np.sum(as_array(batch[weight]), dtype=np.float64))
    shapes = {name: to_numpy(value, f"input {name!r}").shape for name, value in Nesting(batch).flat.items()}
    extents = {name: shape[0] for name, shape in shapes.items() if shape}
    if len(set(extents.values())) > 1:
        listed = ", ".join(f"{name} has {extent}" for name, extent in extents.items())
        raise InputError(f"evaluate: the number of examples is not clear: {listed}; give weight=")
    return float(next(iter(extents.values()), 1))


def checked_batch(batch: Any, what: str, names: Sequence[str]) -> Mapping[str, Any]:
    """Returns the inputs of a batch by name.

    Args:
        batch: See `Batch`.
        what: What takes it, for messages.
        names: The names of the inputs in their order.

    Raises:
        InputError: It is something else.
    """
    if isinstance(batch, tuple | list) and len(cast(Sequence[Any], batch)) == len(names):
        return dict(zip(names, cast(Sequence[Any], batch), strict=True))
    if not isinstance(batch, Mapping) or not all(isinstance(name, str) for name in batch):
        kind = f"{type(batch).__name__}{f' of {len(batch)}' if isinstance(batch, tuple | list) else ''}"
        raise InputError(
            f"{what}: a batch must be a dict of inputs by name, or a tuple of {', '.join(names)}, got {kind}"
        )
    return cast(Mapping[str, Any], batch)


def check_finite(inputs: Mapping[str, Any]) -> None:
    """Checks inputs for NaN and infinities.

    Raises:
        InputError: There is one; says where.
    """
    for name, value in inputs.items():
        array = to_numpy(value, f"input {name!r}")
        finite = np.isfinite(array) if kind_of(array.dtype) == "f" else np.True_
        if not np.all(finite):
            place = tuple(int(i) for i in np.argwhere(~finite)[0])
            where = f"{user_line()}: input {name!r} is {array[place]} at {place}"
            raise InputError(f"{where}; {np.sum(~finite)} of its values are not finite")


def check_values(inputs: Mapping[str, Any], ranges: IndexRanges | None) -> None:
    """Checks that inputs are finite, and that indices are in range.

    Raises:
        InputError: They are not; says where.
    """
    check_finite(inputs)
    if ranges is not None:
        ranges.check(inputs)


async def awaited(tree: Any) -> Any:
    """Returns a tree of arrays once they have all been read; the event loop runs meanwhile."""
    for leaf in trees.flatten(tree)[0]:
        await leaf
    return tree
