"""A training step: its recipe, with derivatives and updates, and its program for one batch size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from tensorgrad.driver.compiling.compilation import Compilation
from tensorgrad.driver.compiling.recipe import Recipe
from tensorgrad.driver.compiling.running import Phases
from tensorgrad.driver.stepping.accumulation import Accumulation, bytes_of_outputs
from tensorgrad.driver.stepping.distribution import Distribution, passes_of
from tensorgrad.driver.stepping.model_tracing import parameters_of
from tensorgrad.driver.stepping.step_options import StepOptions
from tensorgrad.driver.stepping.step_source import Source
from tensorgrad.optim.parts import wrt_of
from tensorgrad.passes.functions import order_parameters
from tensorgrad.passes.pipelines import tensor_passes
from tensorgrad.passes.tensors.accumulate_gradients import AccumulateGradientsPass
from tensorgrad.passes.tensors.append_updates import AppendUpdatesPass
from tensorgrad.passes.tensors.pack_updates import PackUpdatesPass
from tensorgrad.runtime.counting import RunCount
from tensorgrad.runtime.target import Target
from tensorgrad.tracing.dtypes import Spec
from tensorgrad.tracing.index_ranges import IndexRanges
from tensorgrad.tracing.tracer import checked_module

if TYPE_CHECKING:
    from tensorgrad.driver.device import ProgramDevice


@dataclass(frozen=True, eq=False)
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
        return [compilation.executable.runs for compilation in (self.compilation, *adding)]

    def at(self, micro_batch: int) -> Compilation:
        """Returns the program of a step's micro-batch of this number, from 0 on."""
        adding = self.accumulation
        return self.compilation if adding is None or micro_batch == adding.steps - 1 else adding.compilation


def step_recipe(
    function: FuncOp,
    source: Source,
    options: StepOptions,
    device: ProgramDevice | None,
    phases: Phases,
    like: Compilation | None = None,
) -> Recipe:
    """Returns the recipe of a traced loss with its derivatives and updates.

    Args:
        function: The traced loss, which becomes part of the recipe.
        source: What it was traced from.
        options: The options of `tg.compile`.
        device: The device; `None` is numpy.
        phases: Receives the time of each phase.
        like: The program of the same step for another batch size, whose parameters this one is to share.
    """
    name, micro, distribution = function.sym_name.data, options.micro_batches, source.distribution
    if like is not None:
        order_parameters(function, like.interface.parameters)
    wrt = wrt_of(function, source.losses)

    def passes(segments: int, target: Target | None) -> Sequence[ModulePass]:
        mean = [AccumulateGradientsPass(steps=micro, function=name)] if micro > 1 else []
        updates = [*mean, *_updating(name, target, distribution)] if source.parts.all else []
        return [*tensor_passes(name, updates, segments, wrt, target), *passes_of(distribution, name)]

    module = checked_module(function)
    with phases.measure("trace"):
        source.parts.add_updates(module, parameters_of(source.model, trained=False))
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
