"""The pass `grad`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.signature import Role, Slot, arguments_of, results_of
from tensorgrad.dialects.tg.base import is_float
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.passes.functions import block_of, return_of, set_returned, set_signature
from tensorgrad.passes.levels import TENSORS, Effect, LevelPass
from tensorgrad.passes.tensors.grad.reverse import gradients


@dataclass(frozen=True)
class GradPass(LevelPass):
    """Appends the gradient of one of a function's results, a float scalar, to its results.

    Expects a `tg` function of one block. Guarantees: existing results stay in front; they are followed by one
    gradient for each argument in `wrt`, in that order, with role `gradient` and the argument's name. The ops of a
    derivative have the location of the op that is differentiated.

    Attributes:
        function: The function to differentiate; may be omitted if there is only one.
        wrt: The arguments to differentiate by. Default: those with role `parameter`, or the first if there are none.
        result: The index of the result to differentiate.
    """

    name = "grad"
    levels = TENSORS

    function: str | None = None
    wrt: tuple[int, ...] | None = None
    result: int = 0

    @property
    def effect(self) -> Effect:
        return Effect(differentiated=self.result)

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        function = find_function(op, self.function)
        block, name, returned = block_of(function), function.sym_name.data, return_of(function)
        arguments, results = arguments_of(function), results_of(function)
        wrt = self._chosen(arguments)
        values = list(returned.operands)
        if not 0 <= self.result < max(len(values), 1):
            raise DiagnosticException(f"@{name} has no result {self.result}")
        if not values or shape_of(values[self.result]) != () or not is_float(element_of(values[self.result])):
            kind = values[self.result].type if values else "nothing"
            place = f"result {self.result}" if self.result else "first result"
            raise DiagnosticException(f"grad needs a float scalar as {place}, @{name} returns {kind}")
        for place, position in enumerate(wrt):
            if position in wrt[:place]:
                raise DiagnosticException(f"wrt names argument {position} of @{name} twice")
            if not 0 <= position < len(block.args):
                raise DiagnosticException(f"@{name} has no argument {position}")
            if not is_float(element_of(block.args[position])):
                raise DiagnosticException(
                    f"argument {position} of @{name} is {block.args[position].type}: only floats have derivatives"
                )
        builder = TensorBuilder(block, before=returned, location=returned.location)
        cotangents_ = gradients(block, values[self.result], [block.args[position] for position in wrt], builder)
        set_returned(function, [*values, *cotangents_])
        slots = [Slot(arguments[position].name, Role.GRADIENT) for position in wrt]
        set_signature(function, arguments, [*results, *slots])

    def _chosen(self, arguments: list[Slot]) -> tuple[int, ...]:
        if self.wrt is not None:
            return self.wrt
        parameters = tuple(i for i, slot in enumerate(arguments) if slot.role == Role.PARAMETER)
        return parameters or (0,)
