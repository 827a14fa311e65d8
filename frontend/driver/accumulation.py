"""Gradient accumulation: the program for all micro-batches of a step but the last."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.dialects.func import FuncOp

from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.signature import Role, arguments_of
from tensorgrad.dialects.tg.base import numpy_dtype
from tensorgrad.dialects.tg.build import element_of, shape_of
from tensorgrad.driver.distribution import Distribution, passes_of
from tensorgrad.driver.pipeline import Compilation
from tensorgrad.errors import OptionError, ProgramError
from tensorgrad.optim.parts import Losses
from tensorgrad.passes.functions import order_parameters, return_of
from tensorgrad.passes.pipelines import tensor_passes
from tensorgrad.passes.tensors.accumulate_gradients import AccumulateGradientsPass
from tensorgrad.passes.tensors.updates import drop_updates
from tensorgrad.runtime.backend import Executable
from tensorgrad.runtime.executable import ProgramExecutable
from tensorgrad.runtime.program import Program
from tensorgrad.tracing.checks import is_integer
from tensorgrad.tracing.location import user_line

ALIGNMENT = 256
"""The largest buffer offset alignment that a WebGPU device may require."""


@dataclass(frozen=True)
class Accumulation:
    """The program of all micro-batches of a step but the last, whose own program also applies the update.

    Attributes:
        steps: How many micro-batches a step has.
        compilation: Where the program comes from.
        executable: The program, which shares parameters and state with that of the last micro-batch.
    """

    steps: int
    compilation: Compilation
    executable: Executable

    def program(self, target: str | None) -> Program:
        """Returns the program in its serializable form; see `Compiled.program_for`."""
        if target is not None:
            return self.compilation.program_for(target)
        executable = self.executable
        return executable.program if isinstance(executable, ProgramExecutable) else self.compilation.program()

    def statistics(self) -> dict[str, Any]:
        """Returns the cost of a micro-batch that is not the last of its step."""
        chosen = ("dispatches", "copies", "kernels", "bytes_moved")
        counts = self.executable.statistics()
        return {"steps": self.steps, **{name: counts[name] for name in chosen}}


def micro_batches(accumulate: object) -> int:
    """Returns the number of micro-batches of a step, from the caller's option.

    Raises:
        OptionError: It is not a positive integer.
    """
    if not is_integer(accumulate, 1):
        raise OptionError(f"accumulate must be an integer from 1, got {accumulate!r}")
    return accumulate


def compiled_accumulation(
    step: Compilation, executable: Executable, losses: Losses, steps: int, distribution: Distribution | None = None
) -> Accumulation:
    """Compiles the program for all micro-batches but the last.

    Args:
        step: The compilation of the last one, loaded.
        executable: The executable it was loaded as.
        losses: The parameters that each loss is differentiated with respect to.
        steps: How many micro-batches a step has.
        distribution: How the step is divided among processes, if it is.

    Raises:
        ProgramError: Both together take more memory than the limit.
    """
    module, name = step.traced.clone(), step.name
    drop_updates(module)
    function = find_function(module, name)
    order_parameters(function, step.parameters)
    places = {slot.name: place for place, slot in enumerate(arguments_of(function)) if slot.role == Role.PARAMETER}
    wrt = [tuple(places[path] for path in paths) for paths in losses]
    add = AccumulateGradientsPass(steps=steps, last=False, function=name)
    compilation = Compilation(
        name,
        module,
        lambda segments, target: [
            *tensor_passes(name, [add], segments, wrt, target),
            *passes_of(distribution, name),
        ],
        step.device,
        step.phases,
        segments=step.segments,
        frugal=step.frugal,
        tuned=step.tuned,
        precision=step.precision,
        timeout=step.timeout,
        verify=step.verify,
    )
    loaded = compilation.load(share=executable, in_turn=True)
    if step.memory_limit is not None:
        _check_memory(executable, loaded, step.memory_limit, f"{user_line()}: {name}")
    return Accumulation(steps, compilation, loaded)


def bytes_of_outputs(function: FuncOp) -> int:
    """Returns the bytes that the results of a traced function take on a device, at the largest alignment."""
    sizes = [prod(shape_of(value)) * numpy_dtype(element_of(value)).itemsize for value in return_of(function).operands]
    return sum(-(-max(size, 4) // ALIGNMENT) * ALIGNMENT for size in sizes)


def _check_memory(last: Executable, others: Executable, limit: int, where: str) -> None:
    """Checks the memory that both programs of a step take together.

    Raises:
        ProgramError: It exceeds the limit.
    """
    assert isinstance(others, ProgramExecutable)
    own = others.statistics()["peak_bytes"] - others.shared_bytes
    taken = last.statistics()["peak_bytes"] + own
    if taken > limit:
        raise ProgramError(f"{where}: memory_limit is {limit} bytes, but a step of micro-batches needs {taken}")
