"""Steps that run once more on the reference, op by op: to look at values, and to find what made a NaN."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar

import numpy as np

from tensorgrad.driver.accumulation import Accumulation
from tensorgrad.driver.blame import Blame, Blamer
from tensorgrad.driver.compiled import Results, home_of_results
from tensorgrad.driver.distribution import DISTRIBUTING
from tensorgrad.driver.inspection import Inspected, Inspector
from tensorgrad.driver.pipeline import Compilation
from tensorgrad.driver.reference_step import ReferenceStep
from tensorgrad.driver.training_state import Source, TrainingState
from tensorgrad.errors import DivergenceError
from tensorgrad.nn.module import first_path
from tensorgrad.optim.parts import Parts
from tensorgrad.runtime.backend import Executable, OutputHandle, check_inputs
from tensorgrad.tracing import trees
from tensorgrad.tracing.arrays import slot_of
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tracer import refuse_inside_trace

Result = TypeVar("Result")


class ReplayedTraining(TrainingState, Generic[Result]):
    """The part of a `Training` that runs steps on the reference."""

    def __init__(
        self,
        source: Source,
        parts: Parts,
        compilation: Compilation,
        executable: Executable,
        seed: int,
        with_key: bool,
        accumulation: Accumulation | None = None,
    ):
        super().__init__(source, parts, compilation, executable, seed, with_key, accumulation)
        tree = source.results
        shape = tree.loss if tree.metrics is None else (tree.loss, tree.metrics)
        self._results = Results(shape, home_of_results(compilation))
        self._replayed = Results(shape)
        self._losses = frozenset(trees.flatten(tree.loss)[0])
        self._references: dict[Compilation, ReferenceStep] = {}
        self._blamers: dict[Compilation, Blamer] = {}

    def inspect(self, where: str, /, **inputs: Any) -> tuple[Inspected, ...]:
        """Returns the values that a line or a module has in a step from the present state, and changes nothing.

        The step runs on the reference, op by op, in f32 whatever `precision` is: values that a kernel keeps to itself
        are there too, those of derivatives and updates as well. For a step of the past, load the checkpoint before it
        and give it its batch.

        Args:
            where: A line as `file:line`, of whose folders any number may be left out; an op, as in "tg.exp"; or the
                path of a module, as in "blocks.3.attention": what is made while its `__call__` runs, with derivatives
                of that. "cell#2" is the second call alone.
            **inputs: As for `step`, which would get the same key.

        Returns:
            The values in the order in which they are made, each with its op, line, phase and module; `is_result` marks
            those that the module gives to others.

        Raises:
            OptionError: The step has no op there; names lines or modules that it has.
            InputError: An input is unknown, missing, or of the wrong shape or dtype.
            ParameterError: The model has other parameters than when it was compiled.
            TraceError: This is inside a trace.
        """
        found: list[Inspected] = []
        self._replay(lambda one: found.append(replace(one, value=np.array(one.value))), where, inputs, "inspect")
        return tuple(found)

    def replay(self, look: Callable[[Inspected], object], where: str | None = None, /, **inputs: Any) -> Result:
        """Runs a step from the present state on the reference, op by op, and changes nothing.

        It runs in f32 whatever `precision` is. For a step of the past, load the checkpoint before it and give it its
        batch: a loss that draws random numbers draws the same. `tg replay` does that for a file.

        Args:
            look: Is given each value when it is made; a value that is kept longer has to be copied.
            where: Of which ops, as for `inspect`; by default of all.
            **inputs: As for `step`, which would get the same key.

        Returns:
            What `step` would return.

        Raises:
            OptionError: The step has no op there; names lines or modules that it has.
            InputError: An input is unknown, missing, or of the wrong shape or dtype.
            ParameterError: The model has other parameters than when it was compiled.
            TraceError: This is inside a trace.
        """
        return self._replay(look, where, inputs, "replay")

    def _replay(self, look: Callable[[Inspected], object], where: str | None, inputs: dict[str, Any], what: str) -> Any:
        refuse_inside_trace(what)
        self._check_model()
        executable, compilation = self._next()
        if where is not None:
            path, number, call = where.partition("#")
            where = first_path(self._model, path) + number + call
        inspector = Inspector(self._on_reference(compilation), where)
        arrays = self._whole_inputs(executable, self._with_key(inputs, what))
        return self._replayed.of(inspector.run(look, arrays, self._state.read(), self._host_values()))

    def _whole_inputs(self, executable: Executable, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Returns the step's inputs, checked, as one process takes them."""
        distribution = self._source.distribution
        if distribution is None:
            return check_inputs(executable.program_inputs, inputs)
        slots = {name: slot_of(name, spec) for name, spec in distribution.inputs.items()}
        return check_inputs(slots, distribution.whole(inputs))

    def blame(self, /, **inputs: Any) -> Blame | None:
        """Finds the op that makes the first NaN or infinity of a step from the present state, and changes nothing.

        The step runs on the reference, op by op, in f32 whatever `precision` is. The search goes back from the loss,
        the updated parameters and the optimizer's state, so that infinities that vanish again are not taken for faults.
        A training that has run on with a NaN has it in its parameters, which is what is found then: `check_numerics`
        of `tg.compile` stops at the step that makes it.

        Args:
            **inputs: As for `step`, which would get the same key.

        Returns:
            The op with the user's line, whether it is of the loss, of its derivative or of the update, and what its
            operands were; `None` where everything is finite.

        Raises:
            InputError: An input is unknown, missing, or of the wrong shape or dtype.
            ParameterError: The model has other parameters than when it was compiled.
            TraceError: This is inside a trace.
        """
        refuse_inside_trace("blame")
        self._check_model()
        return self._blame(self._with_key(inputs, "blame"), self._state.read())

    def _blame(self, inputs: Mapping[str, Any], before: Mapping[str, np.ndarray]) -> Blame | None:
        executable, compilation = self._next()
        arrays = self._whole_inputs(executable, inputs)
        if compilation not in self._blamers:
            self._blamers[compilation] = Blamer(self._on_reference(compilation))
        losses = self._losses
        return self._blamers[compilation].blame(
            arrays, before, self._host_values(), lambda slot: slot.role == "update" or slot.name in losses
        )

    def _on_reference(self, compilation: Compilation) -> ReferenceStep:
        if compilation not in self._references:
            # A group's step is that of one process with all of the batch.
            passes = [one for one in compilation.tensor_passes() if not isinstance(one, DISTRIBUTING)]
            self._references[compilation] = ReferenceStep(compilation.traced, passes)
        return self._references[compilation]

    def _check_finite(
        self, outputs: Mapping[str, OutputHandle], before: Mapping[str, np.ndarray], inputs: Mapping[str, Any]
    ) -> None:
        """Takes back a step whose loss, parameters or state are not finite.

        Raises:
            DivergenceError: They are not; says what made them so.
        """
        executable, _ = self._next()
        # What was not finite before is no fault of this step: a mask of infinities, say.
        is_finite = all(np.isfinite(outputs[name].numpy()).all() for name in self._losses) and all(
            (np.isfinite(value) | ~np.isfinite(before[name])).all() for name, value in executable.read().items()
        )
        if self.group is not None:
            is_finite = all(self.group.gather_objects(is_finite, label="check_numerics"))
        if is_finite:
            return
        executable.write(before)
        found = self._blame(inputs, before if self._group_state is None else self._group_state.whole(before))
        reason = "a value is NaN or infinite on the device, but none is on the reference" if found is None else found
        raise DivergenceError(f"{user_line()}: step {self.step_count + 1}, which has been taken back: {reason}")
