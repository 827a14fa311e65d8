"""The programs of a training step, one for each batch size; all share parameters and state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from tensorgrad.driver.accumulation import Accumulation, bytes_of_outputs
from tensorgrad.driver.compilation import Compilation
from tensorgrad.driver.distribution import Distribution, passes_of
from tensorgrad.driver.recipe import Recipe
from tensorgrad.driver.running import Phases
from tensorgrad.driver.step_options import StepOptions
from tensorgrad.errors import InputError
from tensorgrad.nn.parameters import Parameter
from tensorgrad.nn.weights import Weight
from tensorgrad.optim.parts import Losses, Parts, wrt_of
from tensorgrad.passes.functions import order_parameters
from tensorgrad.passes.pipelines import tensor_passes
from tensorgrad.passes.tensors.accumulate_gradients import AccumulateGradientsPass
from tensorgrad.passes.tensors.append_updates import AppendUpdatesPass
from tensorgrad.passes.tensors.pack_updates import PackUpdatesPass
from tensorgrad.runtime.conversion import to_numpy
from tensorgrad.runtime.counting import RunCount
from tensorgrad.runtime.target import Target
from tensorgrad.tracing.dtypes import Spec
from tensorgrad.tracing.index_ranges import IndexRanges
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tracer import checked_module

if TYPE_CHECKING:
    from tensorgrad.driver.device import ProgramDevice


@dataclass(frozen=True)
class StepProgram:
    """A training step compiled for one batch size.

    Attributes:
        inputs: The specifications of its inputs.
        ranges: The ranges that the loss requires of inputs that are used as indices.
        compilation: The program, which also applies the update.
        accumulation: The program of all micro-batches but the last, if a step has several.
    """

    inputs: Mapping[str, Spec]
    ranges: IndexRanges
    compilation: Compilation
    accumulation: Accumulation | None

    @property
    def runs(self) -> list[RunCount]:
        """The counts of the micro-batches that its executables have run."""
        adding = [] if self.accumulation is None else [self.accumulation.compilation]
        return [one.executable.runs for one in (self.compilation, *adding)]

    def at(self, micro_batch: int) -> Compilation:
        """Returns the program of a step's micro-batch of this number, from 0 on."""
        adding = self.accumulation
        return self.compilation if adding is None or micro_batch == adding.steps - 1 else adding.compilation


def step_recipe(
    function: FuncOp,
    losses: Losses,
    parts: Parts,
    parameters: Mapping[str, Parameter | Weight],
    options: StepOptions,
    device: ProgramDevice | None,
    distribution: Distribution | None,
    phases: Phases,
    like: Compilation | None = None,
) -> Recipe:
    """Returns the recipe of a traced loss with its derivatives and updates.

    Args:
        function: The traced loss, which becomes part of the recipe.
        losses: The parameters that each loss is differentiated with respect to.
        parts: Which optimizer updates which parameters.
        parameters: All parameters by path.
        options: The options of `tg.compile`.
        device: The device; `None` is numpy.
        distribution: How the step is divided among processes, if it is.
        phases: Receives the time of each phase.
        like: The program of the same step for another batch size, whose parameters this one is to share.
    """
    name, micro = function.sym_name.data, options.micro_batches
    if like is not None:
        order_parameters(function, like.interface.parameters)
    wrt = wrt_of(function, losses)

    def passes(segments: int, target: Target | None) -> Sequence[ModulePass]:
        mean = [AccumulateGradientsPass(steps=micro, function=name)] if micro > 1 else []
        updates = [*mean, *_updating(name, target, distribution)] if parts.all else []
        return [*tensor_passes(name, updates, segments, wrt, target), *passes_of(distribution, name)]

    module = checked_module(function)
    with phases.measure("trace"):
        parts.add_updates(module, parameters)
    return Recipe(
        name,
        module,
        passes,
        device,
        options.memory_limit,
        0 if micro == 1 else bytes_of_outputs(function),
        options.tuning_seconds if like is None else 0.0,
        precision=options.rounding,
        timeout=options.timeout,
        snapshot_every=options.snapshot_every if options.restarts else None,
        edit_passes=options.edit_passes,
        verify=options.verify,
    )


def _updating(function: str, target: Target | None, distribution: Distribution | None) -> list[ModulePass]:
    """Returns the passes that append the updates, in rows that a kernel of the target can bind."""
    if distribution is not None and distribution.shard is not None:
        return [AppendUpdatesPass(function, by_axes=True)]  # a part of a row is no part of each of its parameters
    appending = AppendUpdatesPass(function)
    if target is None:
        return [PackUpdatesPass(function), appending]
    limits = target.max_storage_buffer_binding_size, target.max_buffer_size
    return [PackUpdatesPass(function, row_bytes=min(limits)), appending]


def resized(declared: Mapping[str, Spec], inputs: Mapping[str, Any], what: str) -> Mapping[str, Spec]:
    """Returns the specifications of inputs whose batch size may differ from the declared one.

    The batch is the leading axis of one input or of several, which were declared with the same extent and still have
    the same one. If inputs differ in anything else, the declared specifications are returned: their program reports it.

    Args:
        declared: The declared specifications.
        inputs: The inputs of a call.
        what: The method's name in error messages.

    Raises:
        InputError: Inputs declared with the same leading extent have different ones, or a batch is empty.
    """
    shapes = {name: _shape(name, inputs[name]) for name in declared if name in inputs}
    changed = [name for name, shape in shapes.items() if shape != declared[name].shape]
    if not changed or inputs.keys() != declared.keys():
        return declared
    for name in changed:
        shape, expected = shapes[name], declared[name].shape
        if len(shape) != len(expected) or not shape or shape[1:] != expected[1:]:
            return declared
    sizes = {declared[name].shape[0]: shapes[name][0] for name in changed}
    for name, one in declared.items():
        size = sizes.get(one.shape[0]) if one.shape else None
        if size is not None and (shapes[name][0] != size or not size or len(sizes) > 1):
            raise InputError(_message(declared, shapes, changed, what))
    return {name: Spec(shapes[name], one.dtype) for name, one in declared.items()}


def _shape(name: str, value: Any) -> tuple[int, ...]:
    shape = getattr(value, "shape", None)
    return to_numpy(value, f"input {name!r}").shape if shape is None else tuple(shape)


def _message(
    declared: Mapping[str, Spec], shapes: Mapping[str, tuple[int, ...]], changed: Sequence[str], what: str
) -> str:
    first = changed[0]
    others = [name for name, one in declared.items() if one.shape[:1] == declared[first].shape[:1]]
    return (
        f"{user_line()}: {what}: input {first!r} has shape {shapes[first]}, expected {declared[first].shape}; another "
        f"batch size is one leading extent, from 1, of {', '.join(others)} and of no other input"
    )
