"""`Training.blame`: which line made the NaN or infinity of a step, found by running the step on the reference.

A step costs nothing extra until it is asked about: its program is then rerun in numpy, op by op, from the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tensorgrad.checks.nonfinite import Content, NonfiniteSearch, Origin
from tensorgrad.checks.reference_step import Phase, ReferenceStep
from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.signature import Role, Slot
from tensorgrad.dialects.tg.base import NumpyArray
from tensorgrad.surface.collector import without_collector

MOST_REACHED = 4
"""How many non-finite results are listed."""


@dataclass(frozen=True)
class Blame:
    """The origin of the first NaN or infinity of a step; `print` shows it.

    Attributes:
        op: The op, as in `tg.log`; None if a value that the step was given already has it.
        line: The user's line that the op is from, as `file:line`: of a derivative, the line that is differentiated.
        phase: Whether the op is of the loss, of its derivative, or of the optimizer's update.
        result: A description of the op's result, or of the given value.
        operands: A description of the op's operands.
        given: The parameter, state or input that already has it, such as "parameter 'weight'".
        nan: Where an infinity turned into a NaN, as "`tg.sub` of the loss at file:line".
        reached: Results of the step that are non-finite because of it, such as "output 'loss'"; if these are NaN
            regardless of all other values, the step was not run to its end, and there may be more.
    """

    op: str | None
    line: str | None
    phase: Phase | None
    result: Content
    operands: tuple[Content, ...]
    given: str | None
    nan: str | None
    reached: tuple[str, ...]

    def __str__(self) -> str:
        what = self.result.flaws()
        if self.given is not None:
            lines = [f"{self.given} has {what}, before the step"]
        else:
            lines = [f"{self.line}: {_of(self.op or '', self.phase)} makes {what}, of"]
            lines += [f"  {content}" for content in self.operands]
        if self.nan is not None:
            lines.append(f"it becomes NaN in {self.nan}")
        others = len(self.reached) - MOST_REACHED
        more = f" and {others} more" if others > 0 else ""
        return "\n".join([*lines, f"it reaches {', '.join(self.reached[:MOST_REACHED])}{more}"])


_WORDS = {"forward": "of the loss", "backward": "of the derivative", "update": "of the update"}


def _of(op: str, phase: Phase | None) -> str:
    return f"{op} {_WORDS[phase]}" if phase else op


class Blamer:
    """A step on the reference, which can be asked where non-finite values come from.

    Args:
        step: The step.
    """

    @without_collector()
    def __init__(self, step: ReferenceStep):
        self._step, self._phases = step, step.phases
        self._search = NonfiniteSearch(step.module)
        self._states = frozenset(argument.name for argument in self._search.arguments if argument.role == Role.STATE)

    @without_collector()
    def blame(
        self,
        inputs: Mapping[str, NumpyArray],
        persistent: Mapping[str, NumpyArray],
        settings: Mapping[str, float],
        is_checked: Callable[[Slot], bool],
    ) -> Blame | None:
        """Returns the origin of the first NaN or infinity; None if the step has none on the reference.

        Args:
            inputs: The step's inputs.
            persistent: Parameters and state before the step.
            settings: The scalars that the host passes to the step.
            is_checked: Whether a result of the step must be finite.
        """
        values = self._step.values(self._search.arguments, inputs, persistent, settings)
        origin = self._search.run(values, is_checked)
        return None if origin is None else self._blame(origin)

    def _blame(self, origin: Origin) -> Blame:
        op, slots = origin.op, self._search.arguments
        input_name = None if op is not None else "a constant"
        if origin.argument is not None:
            input_name = _named(slots[origin.argument].role, slots[origin.argument].name)
        return Blame(
            op and op.name,
            op and line_of(op.location),
            op and self._phases.get(op),
            origin.result,
            origin.operands,
            input_name,
            origin.nan and f"{_of(origin.nan.name, self._phases.get(origin.nan))} at {line_of(origin.nan.location)}",
            tuple(self._result(self._search.results[place]) for place in origin.results),
        )

    def _result(self, slot: Slot) -> str:
        return _named(Role.STATE if slot.name in self._states else slot.role, slot.name)


def _named(role: Role, name: str) -> str:
    return f"{_ROLES.get(role, role)} {name!r}"


_ROLES = {Role.UPDATE: "the updated", Role.STATE: "the optimizer's"}
