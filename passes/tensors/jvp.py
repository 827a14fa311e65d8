"""The pass `jvp`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.signature import Role, Slot, arguments_of, results_of
from tensorgrad.dialects.tg.base import is_float
from tensorgrad.dialects.tg.build import TensorBuilder, element_of
from tensorgrad.passes.functions import block_of, return_of, set_returned, set_signature
from tensorgrad.passes.levels import TENSORS, LevelPass
from tensorgrad.passes.tensors.grad.forward import tangents


@dataclass(frozen=True)
class JvpPass(LevelPass):
    """Appends the derivatives of a function's float results along a direction, by forward mode.

    Expects a `tg` function of one block. Guarantees: existing arguments and results stay in front. The arguments are
    followed by one direction for each argument in `wrt`, an input named `tangent.` plus the argument's name; the
    results by one derivative for each float result, an output named `tangent.` plus the result's name.

    Attributes:
        function: The function to differentiate; may be omitted if there is only one.
        wrt: The arguments to differentiate by. Default: every float.
    """

    name = "jvp"
    levels = TENSORS

    function: str | None = None
    wrt: tuple[int, ...] | None = None

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        function = find_function(op, self.function)
        block, name, returned = block_of(function), function.sym_name.data, return_of(function)
        arguments, results = arguments_of(function), results_of(function)
        floats = [position for position, value in enumerate(block.args) if is_float(element_of(value))]
        wrt = floats if self.wrt is None else list(self.wrt)
        if len(set(wrt)) != len(wrt):
            raise DiagnosticException(f"wrt must be distinct positions of arguments, got {wrt}")
        for position in wrt:
            if not 0 <= position < len(block.args):
                raise DiagnosticException(f"@{name} has no argument {position}")
            if position not in floats:
                raise DiagnosticException(
                    f"argument {position} of @{name} is {block.args[position].type}: only floats have derivatives"
                )
        primals, values = list(block.args), list(returned.operands)
        directions = [block.insert_arg(primals[position].type, len(block.args)) for position in wrt]
        for position, direction in zip(wrt, directions, strict=True):
            direction.location = primals[position].location
        builder = TensorBuilder(block, before=returned, location=returned.location)
        tangents_ = tangents(block, values, [primals[position] for position in wrt], directions, builder)
        builder.location = returned.location
        moving = [i for i, value in enumerate(values) if is_float(element_of(value))]
        appended = [builder.full_like(values[i], 0) if (tangent := tangents_[i]) is None else tangent for i in moving]
        set_returned(function, [*values, *appended])
        set_signature(
            function,
            [*arguments, *(Slot(_tangent(arguments[i].name), Role.INPUT) for i in wrt)],
            [*results, *(Slot(_tangent(results[i].name), Role.OUTPUT) for i in moving)],
        )


def _tangent(name: str) -> str:
    return f"tangent.{name}"
