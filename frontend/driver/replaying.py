"""Replays steps on the reference, op by op, to inspect values and to find the origin of a NaN."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar

import numpy as np

from tensorgrad.checks.blame import Blame, Blamer
from tensorgrad.checks.inspection import Inspected, Inspector
from tensorgrad.checks.reference_step import ReferenceStep
from tensorgrad.dialects.signature import Role
from tensorgrad.driver.accumulation import Accumulation
from tensorgrad.driver.compilation import Compilation
from tensorgrad.driver.compiled import Results, device_of_results
from tensorgrad.driver.distribution import DISTRIBUTING
from tensorgrad.driver.recipe import passes_on_tensors
from tensorgrad.driver.step_programs import StepProgram
from tensorgrad.driver.training_state import Source, TrainingState
from tensorgrad.errors import DivergenceError
from tensorgrad.nn.module import first_path
from tensorgrad.optim.parts import Parts
from tensorgrad.runtime.backend import Executable, OutputHandle, check_inputs
from tensorgrad.runtime.counting import completed
from tensorgrad.tracing import trees
from tensorgrad.tracing.arrays import slot_of
from tensorgrad.tracing.tracer import refuse_inside_trace

Result = TypeVar("Result")


class ReplayedTraining(TrainingState, Generic[Result]):
    """The part of a `Training` that runs steps on the reference."""

    def __init__(
        self,
        source: Source,
        parts: Parts,
        compilation: Compilation,
        seed: int,
        with_key: bool,
        accumulation: Accumulation | None = None,
    ):
        super().__init__(source, parts, compilation, seed, with_key, accumulation)
        tree = source.results
        shape = tree.loss if tree.metrics is None else (tree.loss, tree.metrics)
        self._results = Results(shape, device_of_results(compilation.recipe))
        self._replayed = Results(shape)
        self._losses = frozenset(trees.flatten(tree.loss)[0])
        self._references: dict[Compilation, ReferenceStep] = {}
        self._blamers: dict[Compilation, Blamer] = {}

    def inspect(self, where: str, /, **inputs: Any) -> tuple[Inspected, ...]:
        """Returns the values that a line or a module computes in a step from the current state, which is not changed.

        The step runs on the reference, op by op, in f32 regardless of `precision`: this includes values that are
        internal to a kernel, and those of derivatives and updates. For a past step, load the checkpoint before it and
        pass its batch.

        Args:
            where: A line as `file:line`, where leading directories may be omitted; an op, as in "tg.exp"; or the path
                of a module, as in "blocks.3.attention": everything computed while its `__call__` runs, with its
                derivatives. "cell#2" is the second call alone.
            **inputs: As for `step`; the key is the same as well.

        Returns:
            The values in execution order, each with its op, line, phase and module; `is_result` marks the module's
            results.

        Raises:
            OptionError: No op of the step matches; lists lines or modules that exist.
            InputError: An input is unknown, missing, or of the wrong shape or dtype.
            ParameterError: The model's parameters have changed since it was compiled.
            TraceError: This is inside a trace.
        """
        found: list[Inspected] = []
        self._replay(lambda one: found.append(replace(one, value=np.array(one.value))), where, inputs, "inspect")
        return tuple(found)

    def replay(self, look: Callable[[Inspected], object], where: str | None = None, /, **inputs: Any) -> Result:
        """Runs a step from the current state on the reference, op by op, without changing the state.

        It runs in f32 regardless of `precision`. For a past step, load the checkpoint before it and pass its batch: a
        loss that samples random numbers samples the same ones. `tg replay` does that for a file.

        Args:
            look: Called with each value as it is computed; it must copy values that it keeps.
            where: Which ops to observe, as for `inspect`; by default all.
            **inputs: As for `step`; the key is the same as well.

        Returns:
            The value that `step` would return.

        Raises:
            OptionError: No op of the step matches; lists lines or modules that exist.
            InputError: An input is unknown, missing, or of the wrong shape or dtype.
            ParameterError: The model's parameters have changed since it was compiled.
            TraceError: This is inside a trace.
        """
        return self._replay(look, where, inputs, "replay")

    def _replay(self, look: Callable[[Inspected], object], where: str | None, inputs: dict[str, Any], what: str) -> Any:
        refuse_inside_trace(what)
        self._check_model()
        program = self._program_for(inputs, what)
        compilation = self._next(program)
        if where is not None:
            path, number, call = where.partition("#")
            where = first_path(self._model, path) + number + call
        inspector = Inspector(self._on_reference(compilation), where)
        arrays = self._whole_inputs(compilation.executable, self._with_key(inputs, what))
        return self._replayed.of(inspector.run(look, arrays, self._state.read(), self._host_values()))

    def _whole_inputs(self, executable: Executable, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Returns the step's checked inputs, as a single process takes them."""
        distribution = self._source.distribution
        if distribution is None:
            return check_inputs(executable.program_inputs, inputs)
        slots = {name: slot_of(name, spec) for name, spec in distribution.inputs.items()}
        return check_inputs(slots, distribution.whole(inputs))

    def blame(self, /, **inputs: Any) -> Blame | None:
        """Finds the op that produces the first NaN or infinity of a step from the current state, which is not changed.

        The step runs on the reference, op by op, in f32 regardless of `precision`. The search goes backwards from the
        loss, the updated parameters and the optimizer's state, so that infinities that vanish again are not reported.
        If a training has continued after a NaN, its parameters contain it, and these are what is found:
        `check_numerics` of `tg.compile` stops at the step that produces it.

        Args:
            **inputs: As for `step`; the key is the same as well.

        Returns:
            The op with the user's line, its phase (loss, derivative or update), and a description of its operands;
            `None` if everything is finite.

        Raises:
            InputError: An input is unknown, missing, or of the wrong shape or dtype.
            ParameterError: The model's parameters have changed since it was compiled.
            TraceError: This is inside a trace.
        """
        refuse_inside_trace("blame")
        self._check_model()
        program = self._program_for(inputs, "blame")
        return self._blame(program, self._with_key(inputs, "blame"), self._state.read())

    def _blame(self, program: StepProgram, inputs: Mapping[str, Any], before: Mapping[str, np.ndarray]) -> Blame | None:
        compilation = self._next(program)
        arrays = self._whole_inputs(compilation.executable, inputs)
        if compilation not in self._blamers:
            self._blamers[compilation] = Blamer(self._on_reference(compilation))
        losses = self._losses
        return self._blamers[compilation].blame(
            arrays, before, self._host_values(), lambda slot: slot.role == Role.UPDATE or slot.name in losses
        )

    def _on_reference(self, compilation: Compilation) -> ReferenceStep:
        if compilation not in self._references:
            # The step of a group is the step of one process on the whole batch.
            recipe = compilation.recipe
            passes = passes_on_tensors(recipe, compilation.choice)
            on_whole_batch = [one for one in passes if not isinstance(one, DISTRIBUTING)]
            self._references[compilation] = ReferenceStep(recipe.traced, on_whole_batch)
        return self._references[compilation]

    def _check_finite(
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
        if self.group is not None:
            is_finite = all(self.group.gather_objects(is_finite, label="check_numerics"))
        if is_finite:
            return

        def take_back() -> None:
            executable.write(before)
            self._set_calls(calls)

        completed(take_back)
        found = self._blame(program, inputs, before if self._group_state is None else self._group_state.whole(before))
        reason = "a value is NaN or infinite on the device, but none is on the reference" if found is None else found
        raise DivergenceError(f"step {self.step_count + 1}, which has been taken back: {reason}")
