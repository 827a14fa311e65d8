"""A training step on the reference: its program on `tg`, which numpy runs op by op from a given state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.locations import calls_in
from tensorgrad.dialects.signature import Role, Slot
from tensorgrad.dialects.tg.base import NumpyArray
from tensorgrad.errors import ProgramError
from tensorgrad.passes import pipelines
from tensorgrad.passes.levels import effect_of
from tensorgrad.passes.running import apply_pass
from tensorgrad.runtime.inputs import ScalarInputs
from tensorgrad.runtime.slots import ArraySlot
from tensorgrad.surface.collector import without_collector

Phase: TypeAlias = Literal["forward", "backward", "update"]


class ReferenceStep:
    """A step's program, with the phase of each op: the loss, its derivative, or the update.

    Args:
        traced: The traced step; not modified.
        passes: The passes on `tg` that build the step.

    Attributes:
        module: The program.
        phases: The phase of each op.

    Raises:
        ProgramError: A pass rejects the program.
    """

    @without_collector()
    def __init__(self, traced: ModuleOp, passes: Sequence[ModulePass]):
        self.module = traced.clone()
        self.phases: dict[Operation, Phase] = {}
        self._scalars: ScalarInputs | None = None
        phase: Phase = "forward"
        context = Context()
        for number, pass_ in enumerate(pipelines.until(pipelines.Phase.TENSORS, passes)):
            if effect_of(pass_).differentiated is not None:
                phase = "backward"
            elif phase != "forward":
                phase = "update"
            try:
                apply_pass(passes, number, context, self.module, None)
            except DiagnosticException as error:
                raise ProgramError(str(error)) from error
            for op in self.module.walk():
                self.phases.setdefault(op, phase)

    def calls(self, op: Operation) -> tuple[str, ...]:
        """Returns the module calls that contain an op, outermost first; updates are in none."""
        return () if self.phases.get(op) == "update" else calls_in(op.location)

    def values(
        self,
        arguments: Sequence[Slot],
        inputs: Mapping[str, NumpyArray],
        persistent: Mapping[str, NumpyArray],
        settings: Mapping[str, float],
    ) -> list[NumpyArray]:
        """Returns the values of the program's arguments.

        Args:
            arguments: The program's arguments.
            inputs: The step's inputs.
            persistent: Parameters and state before the step.
            settings: The scalars that the host passes to the step.
        """
        if self._scalars is None:
            formulas = [ArraySlot(slot.name, (), "f32", slot.formula) for slot in arguments if slot.role == Role.SCALAR]
            self._scalars = ScalarInputs(formulas)
        scalars = self._scalars
        evaluated = scalars.evaluate({name: settings[name] for name in scalars.names})
        known: dict[Role, Mapping[str, NumpyArray]] = {Role.INPUT: inputs, Role.SCALAR: evaluated}
        return [known.get(slot.role, persistent)[slot.name] for slot in arguments]
