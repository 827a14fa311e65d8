"""Numerical verification of passes: the module is run at its own level after each pass, and its results compared.

Modules of `tg` and `buf` run in numpy, kernels of `wgsl` on an adapter and native code on the CPU. Results that a pass
adds are compared from then on. A gradient is compared with central differences in f64 when it appears. A pass that
changes values on purpose declares it, as its `Effect`.

The tolerance of a result follows from the program itself: a multiple of the reference's error in f32 against f64, and
at least the error of an elementary function.

Properties that values can't show are checked statically: that a memory plan keeps live buffers apart, that the kernels
of a dispatch are independent, and that shaders have the barriers that they need. Kernels as they are emitted can be
proved at the end: for all data, rather than for samples.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from tensorgrad.checks import tolerance
from tensorgrad.checks.certify import certify_plan, check_dispatches
from tensorgrad.checks.dispatches import PlannedSteps
from tensorgrad.checks.kernels import check_kernels
from tensorgrad.checks.proving.apart import prove_apart
from tensorgrad.checks.races import check_races
from tensorgrad.checks.tolerance import is_float
from tensorgrad.checks.widening import widened_module
from tensorgrad.dialects.functions import defined_functions, find_function
from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.signature import Role, Slot, arguments_of, results_of
from tensorgrad.dialects.tg.base import NumpyArray, numpy_dtype
from tensorgrad.dialects.tg.build import shape_of
from tensorgrad.dialects.tg.call import CallOp
from tensorgrad.dialects.tg.elementwise.arithmetic import StopGradientOp
from tensorgrad.driver.device import described, find_device, load_program
from tensorgrad.errors import ExecutionError, NumericsError, ProgramError
from tensorgrad.interpreters.buffers import BufferExecutor
from tensorgrad.interpreters.tensors import TensorExecutor
from tensorgrad.passes.codegen.build_program import build_program
from tensorgrad.passes.functions import return_of
from tensorgrad.passes.levels import LOWERED_BY, TILES_AND_ABOVE, Level, effect_of, level_of
from tensorgrad.passes.pipelines import scheduled_passes
from tensorgrad.runtime.backend import DTYPES, ArraySlot, ScalarInputs
from tensorgrad.runtime.executable import ProgramExecutable
from tensorgrad.runtime.program import Program, ProgramRole, TensorSlot
from tensorgrad.runtime.target import WEBGPU_DEFAULT, Target

if TYPE_CHECKING:
    from tensorgrad.driver.device import ProgramDevice

_log = logging.getLogger("tensorgrad")

PROGRAMS = (Level.WGSL, Level.CPU, Level.LLVM)
"""The levels that run on a device."""

PROVABLE = (Level.WGSL, Level.CPU)
"""The levels whose kernels can be proved."""

STEPS = (1e-5, 1e-6)
"""The steps of central differences: the second is tried if a kink may lie within the first."""

SLOPE = 1e-5
"""The tolerance of a derivative against a difference, relative to the larger of both and of the function's value."""

SETTINGS = {"step": 3.0, "micro_step": 1.0, "learning_rate": 0.01}
"""The host's values that formulas use; all others are one half."""


class Samples:
    """Sample values for function arguments, which depend only on a seed, their role and name.

    Args:
        given: Values by name, used instead of sampled ones.
        seed: Selects the sampled values.
    """

    def __init__(self, arguments: Mapping[str, NumpyArray], seed: int):
        self._arguments = arguments
        self._seed = seed

    def array(self, role: str, name: str, shape: Sequence[int], dtype: np.dtype[Any]) -> NumpyArray:
        """Returns the value of an argument: normal floats, positive ones for state, small integers.

        Along every axis of a tensor of floats there is a row of negative ones, whose maximum is not 0; integers are -1
        too, which is the last index.

        Raises:
            ProgramError: The given value has another shape.
        """
        if name in self._arguments:
            value = np.asarray(self._arguments[name])
            if value.shape != tuple(shape):
                raise ProgramError(f"{role} {name!r} has shape {tuple(shape)}, the value for it {value.shape}")
            return value.astype(dtype)
        random = np.random.default_rng([self._seed, zlib.crc32(f"{role}/{name}".encode())])
        if dtype.kind == "b":
            return np.asarray(random.random(shape) < 0.5)
        if dtype.kind == "u":
            return random.integers(0, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)
        if dtype.kind == "i":
            return random.integers(-1, 3, shape, dtype=dtype)
        drawn = random.normal(scale=0.5, size=shape).astype(dtype)
        for axis in range(len(shape) if len(shape) > 1 else 0):
            row = tuple(slice(None) if other == axis else slice(1) for other in range(len(shape)))
            drawn[row] = -np.abs(drawn[row])
        return np.asarray(np.abs(drawn) if role == Role.STATE else drawn)

    def settings(self, names: frozenset[str]) -> dict[str, float]:
        """Returns the host's values."""
        return {name: SETTINGS.get(name, 0.5) for name in names}


@dataclass(frozen=True)
class Expected:
    """The expected value of a result, from the first module that has it.

    Attributes:
        value: The array.
        slack: The tolerance of each finite element; NaN if none can be given.
        line: The user's line that computes it.
        nonfinite: Where the value is NaN or infinite in f64 too. Elsewhere an element that is not finite overflowed, or
            came from one that did, which depends on the order of operations.
    """

    value: NumpyArray
    slack: float
    line: str
    nonfinite: NumpyArray


class NumericsVerifier:
    """Compares a module's results after each pass with those before it.

    Args:
        module: The module before the first pass. StableHLO has no reference: results are compared from `tg` on.
        function: Its function; by default the only public one.
        inputs: Values of arguments, by name; others are sampled.
        seed: The seed for sampling.

    Raises:
        ProgramError: A value's shape differs from its argument's.
    """

    def __init__(
        self,
        module: ModuleOp,
        function: str | None = None,
        inputs: Mapping[str, NumpyArray] | None = None,
        seed: int = 0,
    ):
        self._samples = Samples(inputs or {}, seed)
        self._function = function
        level = level_of(module)
        self._is_program = level in PROGRAMS
        self._applied = [LOWERED_BY[level]] if level in LOWERED_BY else []
        self._target: Target = WEBGPU_DEFAULT
        if self._is_program:
            self._target = _device(level is not Level.WGSL).target
        self._unplanned = _without_plan(module)
        self._planned = module.clone() if level is Level.PLANNED else None
        self._emitted: ModuleOp | None = None
        self._formulas = _formulas(module)
        self._expected: dict[str, Expected] = {}
        self._add(module, self._results(module))

    def check(self, pass_: ModulePass, module: ModuleOp) -> None:
        """Runs a module after a pass.

        Raises:
            NumericsError: A result has changed or is missing, or a gradient is wrong.
            NoAdapterError: There is no adapter for kernels of `wgsl`.
        """
        self._applied.append(pass_.name)
        target = getattr(pass_, "target", None)
        if isinstance(target, Target) and not self._is_program:  # passes on kernels have one only if they need it
            self._target = target
        level = level_of(module)
        if level is Level.STABLEHLO:
            return
        self._is_program = level in PROGRAMS
        if level is Level.PLANNED:
            self._planned = module.clone()
        if level in PROVABLE:
            self._emitted = module.clone()
        if self._unplanned is not None and level is Level.PLANNED:
            with _blamed_on(pass_):
                certify_plan(self._unplanned, module, self._function)
        self._unplanned = _without_plan(module)
        with _blamed_on(pass_):
            if level in (Level.BUF, Level.PLANNED):
                check_dispatches(module, self._function)
            check_races(module)
        effect = effect_of(pass_)
        if effect.changes_gradients:
            self._expected = {key: value for key, value in self._expected.items() if not key.startswith("gradient/")}
        if effect.rounds:
            self._expected = {key: _rounded(expected, effect.rounds) for key, expected in self._expected.items()}
        with _blamed_on(pass_):
            actual = self._results(module)
        if effect.adds_updates:
            self._check_formulas(pass_, module)
        self._formulas = _formulas(module)
        updated = any(key.startswith("update/") for key in actual)
        for key, expected in list(self._expected.items()):
            if key in actual:
                self._compare(pass_, module, key, expected, actual[key])
            elif updated and key.startswith("gradient/"):
                del self._expected[key]  # updates replace it
            elif expected.value.size:  # an update without elements is no write of the old value
                raise NumericsError(f"{pass_.name} loses the result {key}")
        if effect.differentiated is not None:
            gradients = [key for key in actual if key not in self._expected]
            self._check_gradients(pass_, module, effect.differentiated, gradients)
        self._add(module, {key: value for key, value in actual.items() if key not in self._expected})

    def _check_formulas(self, pass_: ModulePass, module: ModuleOp) -> None:
        """Checks that a pass has added no formula of a scalar: updates have no earlier results to compare with.

        Raises:
            NumericsError: A scalar has a formula that no scalar had before.
        """
        new = sorted(_formulas(module) - self._formulas)
        if new:
            raise NumericsError(f"{pass_.name} makes a scalar of {new[0]!r}, which no function had before it")

    def check_kernels(self, module: ModuleOp) -> None:
        """Compares each kernel on the device with `buf`; does nothing without a memory plan.

        Args:
            module: The kernels of a device; the remaining passes are run first.

        Raises:
            NumericsError: A kernel's result differs; says which.
        """
        if self._planned is None or level_of(module) not in PROGRAMS:
            return
        built, program = self._built(module)
        try:
            steps = PlannedSteps(self._planned, built, program, self._function)
        except ExecutionError as error:
            _log.warning("kernels are not compared one by one: %s", error)
            return
        device = _device(self._target.native)
        executable = load_program(device, program)
        inputs, scalars = self._given(executable)
        check_kernels(steps, executable, inputs, scalars, described(device))

    def prove_kernels(self) -> None:
        """Proves what holds of the kernels that the last pass has left, if any, and logs it; see `prove_apart`.

        Raises:
            NumericsError: A kernel may leave its buffers, or its invocations collide.
        """
        if self._emitted is not None:
            _log.info("proofs of kernels:\n%s", prove_apart(self._emitted))

    def _compare(self, pass_: ModulePass, module: ModuleOp, key: str, expected: Expected, actual: NumpyArray) -> None:
        """Compares a result with the expected one; if kernels of a device compute it, names the first that is wrong.

        Raises:
            NumericsError: They differ.
        """
        try:
            _compare(pass_.name, key, expected, actual, strict=level_of(module) is not Level.WGSL)
        except NumericsError as error:
            try:
                self.check_kernels(module)
            except NumericsError as second:
                raise NumericsError(f"{error}; {second}") from error
            raise

    def _add(self, module: ModuleOp, results: Mapping[str, NumpyArray]) -> None:
        """Records results as expected from now on."""
        if not results:
            return
        is_wide = level_of(module) is Level.TG
        wide = self._tensors(widened_module(module)) if is_wide else results
        lines = self._lines(module) if is_wide else {}
        for key, value in results.items():
            slack = tolerance.slack(value, wide[key], tolerance.least_of(value.size))
            nonfinite = ~np.isfinite(value) & _equal(value, wide[key])
            if np.isnan(slack) and value.size and not nonfinite.any():
                _log.warning("%s is not finite, or not exact: it is not compared", key)
            self._expected[key] = Expected(value, slack, lines.get(key, "<unknown>"), nonfinite)

    def _lines(self, module: ModuleOp) -> dict[str, str]:
        function = find_function(module, self._function)
        values = return_of(function).operands
        return {_key(slot): _line(value) for slot, value in zip(results_of(function), values, strict=True)}

    def _results(self, module: ModuleOp) -> dict[str, NumpyArray]:
        """Returns the results of a module by `role/name`, run at its own level; none of StableHLO."""
        level = level_of(module)
        if level is Level.STABLEHLO:
            return {}
        if level is Level.TG:
            return self._tensors(module)
        if level in TILES_AND_ABOVE:
            executor = BufferExecutor(module, self._function, poisons=False)
            return executor.run({key: self._value(*slot) for key, slot in executor.inputs.items()})
        return self._program(module)

    def _tensors(self, module: ModuleOp) -> dict[str, NumpyArray]:
        executor = TensorExecutor(module, find_function(module, self._function).sym_name.data)
        return executor.run(self._values(executor))

    def _values(self, executor: TensorExecutor) -> dict[str, NumpyArray]:
        """Returns the arguments of a function.

        Raises:
            ProgramError: One is not a tensor.
        """
        others = [value.type for value in executor.function.body.block.args if not isinstance(value.type, TensorType)]
        if others:
            raise ProgramError(
                f"@{executor.function.sym_name.data} takes {others[0]}: only tensors have values to draw"
            )
        places = zip(executor.arguments, executor.function.body.block.args, strict=True)
        return {slot.name: self._value(slot, shape_of(value), _dtype_of(slot, value)) for slot, value in places}

    def _value(self, slot: Slot | TensorSlot, shape: Sequence[int], dtype: np.dtype[Any]) -> NumpyArray:
        if slot.role != Role.SCALAR:
            return self._samples.array(slot.role, slot.name, shape, dtype)
        scalars = ScalarInputs([ArraySlot(slot.name, tuple(shape), "f32", slot.formula)])
        return np.asarray(scalars.evaluate(self._samples.settings(scalars.names))[slot.name], dtype)

    def _program(self, module: ModuleOp) -> dict[str, NumpyArray]:
        """Returns the results of kernels on the device that they target; the remaining passes are run first."""
        executable = load_program(_device(self._target.native), self._built(module)[1])
        inputs, scalars = self._given(executable)
        outputs = executable.step(inputs, scalars)
        results = {
            name if name in self._expected else f"output/{name}": handle.numpy() for name, handle in outputs.items()
        }
        return {**results, **{f"update/{name}": value for name, value in executable.read().items()}}

    def _built(self, module: ModuleOp) -> tuple[ModuleOp, Program]:
        """Returns the module after the remaining passes, and its program."""
        copy = module.clone()
        remaining = scheduled_passes(self._target)
        while any(pass_.name in self._applied for pass_ in remaining):  # earlier passes that were skipped stay skipped
            remaining.pop(0)
        for pass_ in remaining:
            pass_.apply(Context(), copy)
        return copy, build_program(copy, self._target, self._function)

    def _given(self, executable: ProgramExecutable[Any, Any]) -> tuple[dict[str, NumpyArray], dict[str, float]]:
        """Returns the inputs and scalars of a step, and sets parameters and state."""
        slots = executable.program.slots(ProgramRole.PARAMETER, ProgramRole.STATE, ProgramRole.INPUT).items()
        values = {name: self._value(slot, slot.shape, DTYPES[slot.dtype]) for name, slot in slots}
        executable.write({name: values[name] for name in executable.persistent})
        inputs = {name: values[name] for name in executable.program_inputs}
        return inputs, self._samples.settings(executable.scalar_names)

    def _check_gradients(self, pass_: ModulePass, module: ModuleOp, result: int, gradients: Sequence[str]) -> None:
        """Compares newly added gradients of a result with central differences in f64."""
        if any(isinstance(op, CallOp) and op.derivative for op in module.walk()):
            return  # custom derivatives are declared to differ
        wide, stopped = widened_module(module), _Stopped()
        executor = TensorExecutor(wide, find_function(wide, self._function).sym_name.data, stopped.observe)
        values, loss = self._values(executor), _key(executor.results[result])
        actual = executor.run(values)
        for key in gradients:
            name = key.partition("/")[2]
            direction = np.random.default_rng(zlib.crc32(key.encode())).normal(size=values[name].shape)
            expected = float(np.sum(actual[key] * direction))
            slopes: list[float] = []
            for step in STEPS:
                above, below = (
                    float(stopped.run(executor, {**values, name: values[name] + by * direction})[loss])
                    for by in (step, -step)
                )
                slopes.append((above - below) / (2 * step))
            scale = max(abs(expected), abs(float(actual[loss])), *map(abs, slopes))
            if all(abs(slope - expected) > SLOPE * scale for slope in slopes):
                raise NumericsError(
                    f"{pass_.name}: the derivative of {loss} by {name!r} is {expected:.6g} in a random direction, a "
                    f"central difference in f64 {slopes[-1]:.6g}"
                )


class _Stopped:
    """Replays the results of `tg.stop_gradient` from the first run of a function in later runs."""

    def __init__(self) -> None:
        self._values: dict[Operation, list[NumpyArray]] = {}
        self._next: dict[Operation, int] | None = None

    def observe(self, op: Operation, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the function to run in place of an op's function."""
        if not isinstance(op, StopGradientOp):
            return function

        def stop(*operands: NumpyArray) -> NumpyArray:
            known = self._values.setdefault(op, [])
            if self._next is None:
                known.append(np.array(function(*operands)))
                return known[-1]
            number = self._next.get(op, 0)
            self._next[op] = number + 1
            return known[number] if number < len(known) else function(*operands)  # another branch is taken

        return stop

    def run(self, executor: TensorExecutor, values: Mapping[str, NumpyArray]) -> dict[str, NumpyArray]:
        """Reruns the function with these arguments."""
        self._next = {}
        return executor.run(values)


def _device(native: bool) -> ProgramDevice:
    device = find_device("cpu" if native else "wgpu")
    assert device is not None
    return device


def _dtype_of(slot: Slot, value: SSAValue) -> np.dtype[Any]:
    """Returns the dtype of an argument's value, which a pass may store as another dtype."""
    return numpy_dtype(value.type) if slot.dtype is None else DTYPES[slot.dtype]


def _key(slot: Slot) -> str:
    return f"{slot.role}/{slot.name}"


def _line(value: SSAValue) -> str:
    return line_of(value.owner.location) if isinstance(value.owner, Operation) else "<unknown>"


def _rounded(expected: Expected, roundoff: float) -> Expected:
    """Returns the expected value when values are rounded with a unit roundoff."""
    if not is_float(expected.value):
        return replace(expected, slack=np.nan)
    largest = np.abs(expected.value[np.isfinite(expected.value)]).max(initial=0.0)
    return replace(expected, slack=max(expected.slack, tolerance.SEVERAL * roundoff * float(largest)))


def _without_plan(module: ModuleOp) -> ModuleOp | None:
    """Returns a copy of a module whose memory is not planned yet; `None` at other levels."""
    return module.clone() if level_of(module) is Level.BUF else None


def _formulas(module: ModuleOp) -> frozenset[str]:
    """Returns the formulas of the scalars that a module's functions take."""
    functions = defined_functions(module)
    return frozenset(slot.formula for function in functions for slot in arguments_of(function) if slot.formula)


@contextmanager
def _blamed_on(pass_: ModulePass) -> Iterator[None]:
    """Has a fault that is found without comparing values name the pass."""
    try:
        yield
    except NumericsError as error:
        raise NumericsError(f"{pass_.name}: {error}") from error
    except ExecutionError as error:
        raise NumericsError(f"{pass_.name} leaves what can't be run: {error}") from error


def _equal(first: NumpyArray, other: NumpyArray) -> NumpyArray:
    """Returns where two arrays have equal elements; NaN equals NaN."""
    return (first == other) | ((first != first) & (other != other))


def _compare(where: str, key: str, expected: Expected, actual: NumpyArray, strict: bool) -> None:
    """Compares a result with the expected one.

    Args:
        where: The name of the pass.
        key: The role and name of the result.
        expected: What it was before the pass.
        actual: What it is now.
        strict: Whether elements that are not finite must stay what they are. WGSL lets implementations assume that no
            value is infinite or NaN (section 15.7).

    Raises:
        NumericsError: They differ.
    """
    value = expected.value
    if actual.shape != value.shape:
        raise NumericsError(f"{where} changes the shape of {key} from {value.shape} to {actual.shape}")
    off = expected.nonfinite & ~_equal(value, actual) if strict else np.zeros(value.shape, np.bool_)
    if not np.isnan(expected.slack):
        with np.errstate(invalid="ignore"):
            near = np.abs(actual.astype(np.float64) - value.astype(np.float64)) <= expected.slack
        off |= np.isfinite(value) & ~near
    if off.any():
        first = tuple(map(int, np.argwhere(off)[0]))
        raise NumericsError(
            f"{where} changes {key}, which is computed at {expected.line}: {int(off.sum())} of {value.size} elements, "
            f"the first at {list(first)}, is {actual[first]} and was {value[first]}; {expected.slack:.3g} is allowed"
        )
