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
from tensorgrad.driver.compiling.compilation import Compilation, compile_recipe, program_for, program_of
from tensorgrad.driver.compiling.recipe import Recipe
from tensorgrad.driver.stepping.distribution import Distribution, passes_of
from tensorgrad.errors import ProgramError
from tensorgrad.optim.parts import Losses
from tensorgrad.passes.functions import order_parameters, return_of
from tensorgrad.passes.pipelines import tensor_passes
from tensorgrad.passes.tensors.accumulate_gradients import AccumulateGradientsPass
from tensorgrad.passes.tensors.updates import drop_updates
from tensorgrad.runtime.backend import Executable
from tensorgrad.runtime.executable import ProgramExecutable
from tensorgrad.runtime.program import Program
from tensorgrad.tracing.checks import checked_integer
from tensorgrad.tracing.location import user_line

ALIGNMENT = 256
"""The largest buffer offset alignment that a WebGPU device may require."""


@dataclass(frozen=True)
class Accumulation:
    """The program of all micro-batches of a step but the last, whose own program also applies the update.

    Attributes:
        steps: How many micro-batches a step has.
        compilation: The program, which shares parameters and state with that of the last micro-batch.
    """

    steps: int
    compilation: Compilation

    def program(self, target: str | None) -> Program:
        """Returns the program in its serializable form; see `Compiled.program_for`."""
        if target is not None:
            return program_for(self.compilation, target)
        executable = self.compilation.executable
        return executable.program if isinstance(executable, ProgramExecutable) else program_of(self.compilation)

    def statistics(self) -> dict[str, Any]:
        """Returns the cost of a micro-batch that is not the last of its step."""
        chosen = ("dispatches", "copies", "kernels", "bytes_moved")
        counts = self.compilation.executable.statistics()
        return {"steps": self.steps, **{name: counts[name] for name in chosen}}


def micro_batches(accumulate: object) -> int:
    """Returns the number of micro-batches of a step, from the caller's option.

    Raises:
        OptionError: It is not a positive integer.
    """
    return checked_integer(accumulate, "accumulate", 1)


def compiled_accumulation(
    step: Compilation, losses: Losses, steps: int, distribution: Distribution | None = None
) -> Accumulation:
    """Compiles the program for all micro-batches but the last.

    Args:
        step: The program of the last one.
        losses: The parameters that each loss is differentiated with respect to.
        steps: How many micro-batches a step has.
        distribution: How the step is divided among processes, if it is.

    Raises:
        ProgramError: Both together take more memory than the limit.
    """
    recipe = step.recipe
    module, name = recipe.traced.clone(), recipe.name
    drop_updates(module)
    function = find_function(module, name)
    order_parameters(function, step.interface.parameters)
    places = {slot.name: place for place, slot in enumerate(arguments_of(function)) if slot.role == Role.PARAMETER}
    wrt = [tuple(places[path] for path in paths) for paths in losses]
    add = AccumulateGradientsPass(steps=steps, last=False, function=name)
    adding = Recipe(
        name,
        module,
        lambda segments, target: [
            *tensor_passes(name, [add], segments, wrt, target),
            *passes_of(distribution, name),
        ],
        recipe.device,
        precision=recipe.precision,
        timeout=recipe.timeout,
        verify=recipe.verify,
    )
    compilation = compile_recipe(adding, step.observers.phases, step.choice, share=step.executable, in_turn=True)
    if recipe.memory_limit is not None:
        _check_memory(step.executable, compilation.executable, recipe.memory_limit, f"{user_line()}: {name}")
    return Accumulation(steps, compilation)


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
    peak = last.statistics()["peak_bytes"] + own
    if peak > limit:
        raise ProgramError(f"{where}: memory_limit is {limit} bytes, but a step of micro-batches needs {peak}")
