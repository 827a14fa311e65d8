"""Helpers for passes on functions: their blocks and signatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.signature import Role, Slot, arguments_of, results_of, slots_attribute


def block_of(function: FuncOp) -> Block:
    """Returns the only block of a function, which ends in `func.return`.

    Raises:
        DiagnosticException: The function has other blocks, or ends in something else.
    """
    if len(function.body.blocks) != 1 or not isinstance(function.body.block.last_op, func.ReturnOp):
        raise DiagnosticException(f"@{function.sym_name.data} must have one block that ends in func.return")
    return function.body.block


def return_of(function: FuncOp) -> func.ReturnOp:
    """Returns the `func.return` at the end of a function of one block."""
    return cast(func.ReturnOp, block_of(function).last_op)


def retype(value: SSAValue, new_type: Attribute) -> None:
    """Gives a value another type; an argument of a block keeps its location."""
    location = getattr(value, "location", None)
    new = Rewriter.replace_value_with_new_type(value, new_type)
    if location is not None:
        cast(Any, new).location = location


def set_signature(function: FuncOp, arguments: Sequence[Slot], results: Sequence[Slot]) -> None:
    """Sets a function's slots, and updates its type to its block arguments and returned values."""
    block = function.body.block
    returned = return_of(function)
    function.properties["function_type"] = FunctionType.from_lists(
        [argument.type for argument in block.args], [value.type for value in returned.operands]
    )
    function.properties["arg_attrs"] = slots_attribute(arguments)
    if results:
        function.properties["res_attrs"] = slots_attribute(results)
    else:
        function.properties.pop("res_attrs", None)


def order_parameters(function: FuncOp, names: Sequence[str]) -> None:
    """Reorders a function's parameters; other arguments keep their positions.

    Args:
        function: A function of one block.
        names: The names of all of its parameters, in the new order.
    """
    block, slots = function.body.block, arguments_of(function)
    places = {slot.name: place for place, slot in enumerate(slots) if slot.role == Role.PARAMETER}
    order = list(range(len(slots)))
    for place, name in zip(places.values(), names, strict=True):
        order[place] = places[name]
    if order == list(range(len(slots))):
        return
    old = list(block.args)
    for place in order:
        new = block.insert_arg(old[place].type, len(block.args))
        new.location, new.name_hint = old[place].location, old[place].name_hint
        old[place].replace_all_uses_with(new)
    for argument in reversed(old):
        block.erase_arg(argument)
    set_signature(function, [slots[place] for place in order], results_of(function))


def set_returned(function: FuncOp, values: Sequence[SSAValue]) -> None:
    """Makes a function return `values`."""
    old = return_of(function)
    new = func.ReturnOp(*values)
    new.location = old.location
    function.body.block.insert_op_after(new, old)
    Rewriter.erase_op(old)
