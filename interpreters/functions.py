"""Finds the function of a module to interpret."""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.functions import find_function
from tensorgrad.runtime.errors import ExecutionError


def function_of(module: ModuleOp, name: str | None) -> FuncOp:
    """Returns a single-block function: by its name, or the only public one.

    Raises:
        ExecutionError: There is no such function, or it has several blocks.
    """
    try:
        function = find_function(module, name)
    except DiagnosticException as error:
        raise ExecutionError(str(error)) from error
    if len(function.body.blocks) != 1:
        raise ExecutionError(
            f"@{function.sym_name.data} has {len(function.body.blocks)} blocks, numpy runs functions of a single block"
        )
    return function


def returned_by(block: Block) -> tuple[SSAValue, ...]:
    """Returns the operands of a block's return."""
    last = block.last_op
    assert isinstance(last, func.ReturnOp)
    return tuple(last.operands)
