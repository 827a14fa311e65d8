"""Runs modules of any level, each at its own level, on given or sampled arguments.

Modules of `tg` and `buf` run in numpy, kernels of `wgsl` on an adapter and native code on the CPU.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import SSAValue

from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.signature import Role, Slot
from tensorgrad.dialects.tg.base import NumpyArray, numpy_dtype
from tensorgrad.dialects.tg.build import shape_of
from tensorgrad.driver.device import find_device, load_program
from tensorgrad.errors import InputError, ProgramError
from tensorgrad.interpreters.buffers import BufferExecutor
from tensorgrad.interpreters.compiled import Observe
from tensorgrad.interpreters.tensors import TensorExecutor
from tensorgrad.passes.codegen.build_program import build_program
from tensorgrad.passes.levels import LOWERED_BY, TILES_AND_ABOVE, Level, level_of
from tensorgrad.passes.pipelines import scheduled_passes
from tensorgrad.runtime.conversion import converted, kind_of, to_numpy
from tensorgrad.runtime.executable import ProgramExecutable
from tensorgrad.runtime.inputs import ScalarInputs
from tensorgrad.runtime.program import Program, ProgramRole, TensorSlot
from tensorgrad.runtime.slots import DTYPES, ArraySlot
from tensorgrad.runtime.target import WEBGPU_DEFAULT, Target

if TYPE_CHECKING:
    from tensorgrad.driver.device import ProgramDevice

PROGRAMS = (Level.WGSL, Level.CPU, Level.LLVM)
"""The levels that run on a device."""

SETTINGS = {"step": 3.0, "micro_step": 1.0, "learning_rate": 0.01}
"""The host's values that formulas use; all others are one half."""


class Samples:
    """Sample values for function arguments, which depend only on a seed, their role and name.

    Args:
        arguments: Values by name, used instead of sampled ones; also of the host's settings, such as "learning_rate".
        seed: Selects the sampled values.

    Attributes:
        used: The names of `arguments` that something has asked for.
    """

    def __init__(self, arguments: Mapping[str, NumpyArray], seed: int):
        self._arguments = arguments
        self._seed = seed
        self.used: set[str] = set()

    def array(self, role: str, name: str, shape: Sequence[int], dtype: np.dtype[Any]) -> NumpyArray:
        """Returns the value of an argument: normal floats, positive ones for state, small integers.

        Along every axis of a tensor of floats there is a row of negative ones, whose maximum is not 0; integers are -1
        too, which is the last index.

        Raises:
            ProgramError: The given value has another shape.
            InputError: It doesn't fit the dtype.
        """
        if name in self._arguments:
            what = f"{role} {name!r}"
            value = to_numpy(self._arguments[name], what)
            if value.shape != tuple(shape):
                raise ProgramError(f"{what} has shape {tuple(shape)}, the value for it {value.shape}")
            self.used.add(name)
            return converted(value, dtype, dtype.name, what)
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
        """Returns the host's values.

        Raises:
            InputError: A given value is not one number.
        """
        values = {name: SETTINGS.get(name, 0.5) for name in names}
        for name in names & self._arguments.keys():
            value = np.asarray(self._arguments[name])
            if value.shape or kind_of(value.dtype) not in "biuf":
                raise InputError(
                    f"{name} is a number that the host computes with, got {value.dtype}{list(value.shape)}"
                )
            self.used.add(name)
            values[name] = float(value)
        return values


class Evaluation:
    """Runs modules at their own levels, all on the same arguments.

    Args:
        samples: The values of arguments.
        function: The name of the function; by default the only public one.
        poisons: Whether undefined contents of buffers read as garbage.

    Attributes:
        target: The target of the remaining passes of a module above the level of devices.
        applied: The names of passes that the module has been through, and that are not repeated to run it.
        arguments: The values of the last run by `role/name`.
    """

    def __init__(self, samples: Samples, function: str | None = None, poisons: bool = False):
        self._samples = samples
        self._poisons = poisons
        self._function = function
        self.target: Target = WEBGPU_DEFAULT
        self.applied: list[str] = []
        self.arguments: dict[str, NumpyArray] = {}

    def start_at(self, level: Level | None) -> None:
        """Takes a level's lowering as applied, and for kernels the target that they are written for."""
        self.applied = [LOWERED_BY[level]] if level in LOWERED_BY else []
        if level in PROGRAMS:
            self.target = program_device(level is not Level.WGSL).target

    def results(self, module: ModuleOp) -> dict[str, NumpyArray]:
        """Returns the results of a module by `role/name`, run at its own level; none of StableHLO.

        Raises:
            NoAdapterError: There is no adapter for kernels of `wgsl`.
            TensorgradError: The module can't be run, or a value doesn't fit its argument.
        """
        level = level_of(module)
        if level is Level.STABLEHLO:
            return {}
        if level in (None, Level.TG):
            return self.tensors(module)
        if level in TILES_AND_ABOVE:
            executor = BufferExecutor(module, self._function, poisons=self._poisons)
            return executor.run({key: self._value(*slot) for key, slot in executor.inputs.items()})
        return self._program(module)

    def tensors(self, module: ModuleOp) -> dict[str, NumpyArray]:
        """Returns the results of a module at the level `tg`."""
        executor = self.executor(module)
        return executor.run(self.values(executor))

    def executor(self, module: ModuleOp, observe: Observe | None = None) -> TensorExecutor:
        """Returns what runs the function of a module at the level `tg`."""
        return TensorExecutor(module, find_function(module, self._function).sym_name.data, observe)

    def values(self, executor: TensorExecutor) -> dict[str, NumpyArray]:
        """Returns the arguments of a function by name.

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

    def built(self, module: ModuleOp) -> tuple[ModuleOp, Program]:
        """Returns the module after the remaining passes, and its program."""
        copy = module.clone()
        remaining = scheduled_passes(self.target)
        while any(pass_.name in self.applied for pass_ in remaining):  # earlier passes that were skipped stay skipped
            remaining.pop(0)
        for pass_ in remaining:
            pass_.apply(Context(), copy)
        return copy, build_program(copy, self.target, self._function)

    def prepare(self, executable: ProgramExecutable[Any, Any]) -> tuple[dict[str, NumpyArray], dict[str, float]]:
        """Returns the inputs and scalars of a step, and sets parameters and state."""
        program = executable.program

        def values(*roles: ProgramRole) -> dict[str, NumpyArray]:
            slots = program.slots(*roles).items()
            return {name: self._value(slot, slot.shape, DTYPES[slot.dtype]) for name, slot in slots}

        kept, inputs = values(ProgramRole.PARAMETER, ProgramRole.STATE), values(ProgramRole.INPUT)
        values(ProgramRole.SCALAR)  # which the executable evaluates from the settings, as here
        executable.write({name: kept[name] for name in executable.persistent})
        taken = {name: inputs[name] for name in executable.program_inputs}
        return taken, self._samples.settings(executable.scalar_names)

    def _program(self, module: ModuleOp) -> dict[str, NumpyArray]:
        """Returns the results of kernels on the device that they target; the remaining passes are run first."""
        executable = load_program(program_device(self.target.native), self.built(module)[1])
        outputs = executable.step(*self.prepare(executable))
        results = {
            name if name.startswith(f"{Role.GRADIENT}/") else f"{Role.OUTPUT}/{name}": handle.numpy()
            for name, handle in outputs.items()
        }
        return {**results, **{f"{Role.UPDATE}/{name}": value for name, value in executable.read().items()}}

    def _value(self, slot: Slot | TensorSlot, shape: Sequence[int], dtype: np.dtype[Any]) -> NumpyArray:
        if slot.role == Role.SCALAR:
            scalars = ScalarInputs([ArraySlot(slot.name, tuple(shape), "f32", slot.formula)])
            value = np.asarray(scalars.evaluate(self._samples.settings(scalars.names))[slot.name], dtype)
        else:
            value = self._samples.array(slot.role, slot.name, shape, dtype)
        self.arguments[slot_key(slot)] = value
        return value


def program_device(native: bool) -> ProgramDevice:
    """Returns the device that runs kernels: native code, or those of `wgsl`.

    Raises:
        NoAdapterError: There is no adapter.
    """
    device = find_device("cpu" if native else "wgpu")
    assert device is not None
    return device


def slot_key(slot: Slot | TensorSlot) -> str:
    """Returns the name of an argument or result among those of all roles."""
    return f"{slot.role}/{slot.name}"


def _dtype_of(slot: Slot, value: SSAValue) -> np.dtype[Any]:
    """Returns the dtype of an argument's value, which a pass may store as another dtype."""
    return numpy_dtype(value.type) if slot.dtype is None else DTYPES[slot.dtype]
