"""What a training's steps compute, as its users ask for it: values, replays and the origin of a NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic

from tensorgrad.checks.blame import Blame
from tensorgrad.checks.inspection import Inspected
from tensorgrad.driver.handles.diagnosis import Diagnosis
from tensorgrad.tracing.likes import Result


class WithDiagnosis(Generic[Result]):
    """A handle that has the diagnosis of a training's steps."""

    _diagnosis: Diagnosis

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
        return self._diagnosis.inspect(where, inputs)

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
        return self._diagnosis.replay(look, where, inputs, "replay")

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
        return self._diagnosis.blame(inputs)
