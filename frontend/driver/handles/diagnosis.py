"""Runs steps of a training on the reference, op by op, to inspect values and to find the origin of a NaN."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from tensorgrad.checks.blame import Blame, Blamer
from tensorgrad.checks.inspection import Inspected, Inspector
from tensorgrad.checks.reference_step import ReferenceStep
from tensorgrad.dialects.signature import Role
from tensorgrad.driver.compiling.compilation import Compilation
from tensorgrad.driver.compiling.recipe import passes_on_tensors
from tensorgrad.driver.handles.batch_sizes import StepPrograms
from tensorgrad.driver.handles.compiled import Results
from tensorgrad.driver.handles.model_check import ModelCheck
from tensorgrad.driver.handles.training_state import TrainingState
from tensorgrad.driver.stepping.step_programs import StepProgram
from tensorgrad.driver.stepping.step_source import Source
from tensorgrad.errors import DivergenceError
from tensorgrad.nn.module import first_path
from tensorgrad.passes.levels import effect_of
from tensorgrad.runtime.backend import Executable
from tensorgrad.runtime.counting import completed
from tensorgrad.runtime.inputs import check_inputs
from tensorgrad.runtime.outputs import OutputHandle
from tensorgrad.tracing import trees
from tensorgrad.tracing.arrays import slot_of
from tensorgrad.tracing.tracer import refuse_inside_trace


class Diagnosis:
    """The steps of a training on the reference; `WithDiagnosis` documents its methods.

    What it keeps of a program, it keeps as long as the training does.

    Args:
        source: What the steps were traced from.
        programs: Their programs.
        state: The training's state.
        check_model: Checks that the model is as it was compiled.
    """

    def __init__(self, source: Source, programs: StepPrograms, state: TrainingState, check_model: ModelCheck):
        self._source = source
        self._programs = programs
        self._state = state
        self._check_model = check_model
        self._results = Results(source.returned)
        self._losses = frozenset(trees.flatten(source.results.loss)[0])
        self._references: WeakKeyDictionary[Compilation, ReferenceStep] = WeakKeyDictionary()
        self._blamers: WeakKeyDictionary[Compilation, Blamer] = WeakKeyDictionary()

    def inspect(self, where: str, inputs: dict[str, Any]) -> tuple[Inspected, ...]:
        """See `WithDiagnosis.inspect`."""
        values: list[Inspected] = []
        self.replay(lambda seen: values.append(replace(seen, value=np.array(seen.value))), where, inputs, "inspect")
        return tuple(values)

    def replay(self, look: Callable[[Inspected], object], where: str | None, inputs: dict[str, Any], what: str) -> Any:
        """See `WithDiagnosis.replay`; `what` is the method's name in error messages."""
        refuse_inside_trace(what)
        self._check_model()
        program, inputs = self._programs.of(inputs, what)
        compilation = program.at(self._state.accumulated)
        if where is not None:
            path, number, call = where.partition("#")
            where = first_path(self._source.model, path) + number + call
        inspector = Inspector(self._on_reference(compilation), where)
        arrays = self._whole_inputs(compilation.executable, self._state.with_key(inputs, what))
        return self._results.of(inspector.run(look, arrays, self._state.whole.read(), self._state.host_values()))

    def blame(self, inputs: dict[str, Any]) -> Blame | None:
        """See `WithDiagnosis.blame`."""
        refuse_inside_trace("blame")
        self._check_model()
        program, inputs = self._programs.of(inputs, "blame")
        return self._blame(program, self._state.with_key(inputs, "blame"), self._state.whole.read())

    def check_finite(
        self,
        program: StepProgram,
        outputs: Mapping[str, OutputHandle],
        before: Mapping[str, np.ndarray],
        calls: int,
        inputs: Mapping[str, Any],
    ) -> None:
        """Rolls back a step whose loss, parameters or state are not finite.

        Args:
            program: The program that ran.
            outputs: Its results.
            before: Parameters and state before the step.
            calls: The number of micro-batches that had run before it.
            inputs: The step's inputs.

        Raises:
            DivergenceError: They are not; names the cause.
        """
        executable = program.compilation.executable
        # Values that were non-finite before are not this step's fault: a mask of infinities, say.
        is_finite = all(np.isfinite(outputs[name].numpy()).all() for name in self._losses) and all(
            (np.isfinite(value) | ~np.isfinite(before[name])).all() for name, value in executable.read().items()
        )
        group, group_state = self._source.group, self._state.group_state
        if group is not None:
            is_finite = all(group.gather_objects(is_finite, label="check_numerics"))
        if is_finite:
            return

        def take_back() -> None:
            executable.write(before)
            self._state.calls.number = calls

        completed(take_back)
        origin = self._blame(program, inputs, before if group_state is None else group_state.whole(before))
        reason = "a value is NaN or infinite on the device, but none is on the reference" if origin is None else origin
        raise DivergenceError(f"step {self._state.step_count + 1}, which has been taken back: {reason}")

    def _blame(self, program: StepProgram, inputs: Mapping[str, Any], before: Mapping[str, np.ndarray]) -> Blame | None:
        compilation = program.at(self._state.accumulated)
        arrays = self._whole_inputs(compilation.executable, inputs)
        if compilation not in self._blamers:
            self._blamers[compilation] = Blamer(self._on_reference(compilation))
        losses = self._losses
        return self._blamers[compilation].blame(
            arrays, before, self._state.host_values(), lambda slot: slot.role == Role.UPDATE or slot.name in losses
        )

    def _on_reference(self, compilation: Compilation) -> ReferenceStep:
        if compilation not in self._references:
            # The step of a group is the step of one process on the whole batch.
            recipe = compilation.recipe
            passes = passes_on_tensors(recipe, compilation.choice)
            on_whole_batch = [pass_ for pass_ in passes if not effect_of(pass_).distributes]
            self._references[compilation] = ReferenceStep(recipe.traced, on_whole_batch)
        return self._references[compilation]

    def _whole_inputs(self, executable: Executable, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Returns the step's checked inputs, as a single process takes them."""
        distribution = self._source.distribution
        if distribution is None:
            return check_inputs(executable.program_inputs, inputs)
        slots = {name: slot_of(name, spec) for name, spec in distribution.inputs.items()}
        return check_inputs(slots, distribution.whole(inputs))
