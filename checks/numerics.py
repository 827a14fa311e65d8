"""Numerical verification of passes: the module is run at its own level after each pass, and its results compared.

Results that a pass adds are compared from then on. A gradient is compared with central differences in f64 when it
appears. A pass that changes values on purpose declares it, as its `Effect`.

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
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from tensorgrad.checks import tolerance
from tensorgrad.checks.certify import certify_plan, check_dispatches
from tensorgrad.checks.dispatches import PlannedSteps
from tensorgrad.checks.evaluation import PROGRAMS, Evaluation, Samples, program_device, slot_key
from tensorgrad.checks.kernels import check_kernels
from tensorgrad.checks.proving.apart import prove_apart
from tensorgrad.checks.races import check_races
from tensorgrad.checks.tolerance import is_float
from tensorgrad.checks.widening import widened_module
from tensorgrad.dialects.functions import defined_functions, find_function
from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.signature import arguments_of, results_of
from tensorgrad.dialects.tg.base import NumpyArray
from tensorgrad.dialects.tg.call import CallOp
from tensorgrad.dialects.tg.elementwise.arithmetic import StopGradientOp
from tensorgrad.driver.device import described, load_program
from tensorgrad.errors import ExecutionError, NumericsError
from tensorgrad.interpreters.tensors import TensorExecutor
from tensorgrad.passes.functions import return_of
from tensorgrad.passes.levels import Level, effect_of, level_of
from tensorgrad.runtime.target import Target

_log = logging.getLogger("tensorgrad")

PROVABLE = (Level.WGSL, Level.CPU)
"""The levels whose kernels can be proved."""

STEPS = (1e-5, 1e-6)
"""The steps of central differences: the second is tried if a kink may lie within the first."""

SLOPE = 1e-5
"""The tolerance of a derivative against a difference, relative to the larger of both and of the function's value."""


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
        self._evaluation = Evaluation(Samples(inputs or {}, seed), function)
        self._function = function
        level = level_of(module)
        self._is_program = level in PROGRAMS
        self._evaluation.start_at(level)
        self._unplanned = _without_plan(module)
        self._planned = module.clone() if level is Level.PLANNED else None
        self._emitted: ModuleOp | None = None
        self._formulas = _formulas(module)
        self._expected: dict[str, Expected] = {}
        self._add(module, self._evaluation.results(module))

    def check(self, pass_: ModulePass, module: ModuleOp) -> None:
        """Runs a module after a pass.

        Raises:
            NumericsError: A result has changed or is missing, or a gradient is wrong.
            NoAdapterError: There is no adapter for kernels of `wgsl`.
        """
        self._evaluation.applied.append(pass_.name)
        target = getattr(pass_, "target", None)
        if isinstance(target, Target) and not self._is_program:  # passes on kernels have one only if they need it
            self._evaluation.target = target
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
            actual = self._evaluation.results(module)
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
        built, program = self._evaluation.built(module)
        try:
            steps = PlannedSteps(self._planned, built, program, self._function)
        except ExecutionError as error:
            _log.warning("kernels are not compared one by one: %s", error)
            return
        device = program_device(self._evaluation.target.native)
        executable = load_program(device, program)
        inputs, scalars = self._evaluation.prepare(executable)
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
        wide = self._evaluation.tensors(widened_module(module)) if is_wide else results
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
        return {slot_key(slot): _line(value) for slot, value in zip(results_of(function), values, strict=True)}

    def _check_gradients(self, pass_: ModulePass, module: ModuleOp, result: int, gradients: Sequence[str]) -> None:
        """Compares newly added gradients of a result with central differences in f64."""
        if any(isinstance(op, CallOp) and op.derivative for op in module.walk()):
            return  # custom derivatives are declared to differ
        wide, stopped = widened_module(module), _Stopped()
        executor = self._evaluation.executor(wide, stopped.observe)
        values, loss = self._evaluation.values(executor), slot_key(executor.results[result])
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
