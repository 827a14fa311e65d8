"""The programs of a training step for each size of its inputs, all of which share parameters and state."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from tensorgrad.driver.compiling.compilation import compile_recipe
from tensorgrad.driver.compiling.recipe import Choice
from tensorgrad.driver.compiling.running import Phases
from tensorgrad.driver.handles.call_count import CallCount
from tensorgrad.driver.precision import while_tracing
from tensorgrad.driver.stepping.accumulation import compiled_accumulation
from tensorgrad.driver.stepping.model_tracing import checked_loss, trace_model
from tensorgrad.driver.stepping.nested_inputs import flat_inputs
from tensorgrad.driver.stepping.step_options import StepOptions
from tensorgrad.driver.stepping.step_programs import StepProgram, step_recipe
from tensorgrad.driver.stepping.step_source import Source, no_loss
from tensorgrad.errors import InputError, OptionError
from tensorgrad.tracing.dims import Dims, shape_of
from tensorgrad.tracing.dtypes import Spec
from tensorgrad.tracing.location import user_line

log = logging.getLogger("tensorgrad")

MOST_SIZES = 8
"""The number of batch sizes besides the declared one whose programs are kept."""

Shapes: TypeAlias = tuple[tuple[int, ...], ...]


class StepPrograms:
    """A training step's programs.

    Args:
        source: What the step was traced from.
        declared: Its program for the declared batch size.
        calls: Counts the runs of all programs.

    Attributes:
        declared: Its program for the declared batch size.
    """

    def __init__(self, source: Source, declared: StepProgram, calls: CallCount):
        self.declared = declared
        self._source = source
        self._calls = calls
        self._resized: OrderedDict[Shapes, StepProgram] = OrderedDict()
        self._inputs = {name: spec for name, spec in source.inputs.items() if not source.with_key or name != "key"}
        self._dims = Dims(self._inputs)

    def of(self, inputs: dict[str, Any], what: str) -> tuple[StepProgram, dict[str, Any]]:
        """Returns the step's program for the size of inputs, compiled when it first occurs, and the inputs for it.

        Args:
            inputs: The inputs of a call.
            what: The method's name in error messages.

        Returns:
            The program, and the inputs by the paths of their leaves, padded as their extents say.

        Raises:
            InputError: Inputs have different batch sizes, or an empty batch.
            ShapeError, ProgramError, …: The loss can't be compiled for it; see `tg.compile`.
        """
        if self._source.loss is no_loss:
            raise OptionError(f"{what}: this program was compiled without a loss; attach() runs its model")
        inputs = flat_inputs(inputs)
        if self._source.distribution is not None:
            return self.declared, inputs
        inputs, specs = self._fitted(inputs, what)
        if specs is self._inputs:
            return self.declared, inputs
        shapes = tuple(spec.shape for spec in specs.values())
        if shapes not in self._resized:
            self._resized[shapes] = self._compiled({**self._source.inputs, **specs})
            if len(self._resized) > max(MOST_SIZES, self._dims.most_programs):
                self._drop_oldest()
        self._resized.move_to_end(shapes)
        return self._resized[shapes], inputs

    def _fitted(self, inputs: dict[str, Any], what: str) -> tuple[dict[str, Any], Mapping[str, Spec]]:
        """Returns the inputs of a call, padded as their extents say, and their specifications."""
        return self._dims.fitted(inputs, what) if self._dims else (inputs, resized(self._inputs, inputs, what))

    def _drop_oldest(self) -> None:
        """Forgets the least recently used program, whose runs remain counted."""
        if self.declared.compilation.recipe.snapshot_every is not None:
            self.declared.compilation.executable.read()  # a snapshot: only programs that exist can be replayed
        _, oldest = self._resized.popitem(last=False)
        self._calls.retire(oldest.runs)

    def _compiled(self, specs: Mapping[str, Spec]) -> StepProgram:
        """Returns the step's program for other inputs, loaded with the same parameters and state."""
        source, step, phases = self._source, self.declared.compilation, Phases()
        options = StepOptions(**source.options)
        with phases.measure("trace"), while_tracing("step", options.rounding):
            traced = trace_model(source.model, source.flat_loss, specs, checked_loss, "kept", source.untrained)
        recipe = step_recipe(traced.function, source, options, step.recipe.device, phases, step)
        tuned = Choice(tuned=step.choice.tuned)
        compilation = compile_recipe(recipe, phases, tuned, share=step.executable, in_turn=True)
        steps = options.micro_batches
        adding = None if steps == 1 else compiled_accumulation(compilation, source.losses, steps)
        program = StepProgram(specs, traced.ranges, compilation, adding)
        self._calls.add(program.runs)
        shapes = ", ".join(f"{name} {spec.shape}" for name, spec in specs.items())
        what = "other extents" if self._dims else "another batch size"
        log.info("%s: compiled for %s in %.2f s: %s", recipe.name, what, sum(phases.seconds.values()), shapes)
        return program


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
    shapes = {name: shape_of(name, inputs[name]) for name in declared if name in inputs}
    changed = [name for name, shape in shapes.items() if shape != declared[name].shape]
    if not changed or inputs.keys() != declared.keys():
        return declared
    for name in changed:
        shape, expected = shapes[name], declared[name].shape
        if len(shape) != len(expected) or not shape or shape[1:] != expected[1:]:
            return declared
    sizes = {declared[name].shape[0]: shapes[name][0] for name in changed}
    for name, input_spec in declared.items():
        size = sizes.get(input_spec.shape[0]) if input_spec.shape else None
        if size is not None and (shapes[name][0] != size or not size or len(sizes) > 1):
            raise InputError(_message(declared, shapes, changed, what))
    return {name: Spec(shapes[name], spec.dtype) for name, spec in declared.items()}


def _message(
    declared: Mapping[str, Spec], shapes: Mapping[str, tuple[int, ...]], changed: Sequence[str], what: str
) -> str:
    first = changed[0]
    others = [name for name, spec in declared.items() if spec.shape[:1] == declared[first].shape[:1]]
    return (
        f"{user_line()}: {what}: input {first!r} has shape {shapes[first]}, expected {declared[first].shape}; another "
        f"batch size is one leading extent, from 1, of {', '.join(others)} and of no other input"
    )
