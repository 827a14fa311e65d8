"""Replaces calls by what they call."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.locations import line_in, line_of
from tensorgrad.dialects.stablehlo.control import CompositeOp
from tensorgrad.passes.functions import return_of
from tensorgrad.passes.stablehlo.correspondence import COMPOSITES, RULE


def inline_calls(module: ModuleOp) -> None:
    """Replaces every call, and every composite that is no op here, by the ops of its function.

    Ops keep their own lines, or take that of the call if they have none.

    Raises:
        DiagnosticException: A function is missing, has several blocks, or calls itself.
    """
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
    finished: set[str] = set()
    for name in functions:
        _inline(name, functions, finished, ())


def _inline(name: str, functions: dict[str, FuncOp], finished: set[str], around: tuple[str, ...]) -> None:
    if name in around:
        raise DiagnosticException(f"@{name} calls itself")
    if name in finished:
        return
    for op in list(functions[name].walk()):
        called = _called(op)
        if called is None:
            continue
        if called not in functions or not functions[called].body.blocks:
            raise DiagnosticException(f"@{called}, which is called at {line_of(op.location)}, is not defined")
        _inline(called, functions, finished, (*around, name))
        _replace(op, functions[called])
    finished.add(name)


def _called(op: Operation) -> str | None:
    """Returns the name of the function that an op calls; `None` for other ops."""
    callee: SymbolRefAttr | None = None
    if isinstance(op, CallOp):
        callee = op.callee
    elif isinstance(op, CompositeOp) and op.callee.data not in COMPOSITES and not op.callee.data.startswith(RULE):
        callee = op.decomposition
    return None if callee is None else callee.root_reference.data


def _replace(op: Operation, function: FuncOp) -> None:
    block = op.parent
    assert block is not None
    end = return_of(function)
    values: dict[SSAValue, SSAValue] = dict(zip(function.body.block.args, op.operands, strict=True))
    for body_op in function.body.block.ops:
        if body_op is end:
            break
        clone = body_op.clone(values)
        if line_in(clone.location) is None:
            clone.location = op.location
        block.insert_op_before(clone, op)
    for result, value in zip(op.results, end.operands, strict=True):
        result.replace_all_uses_with(values.get(value, value))
    Rewriter.erase_op(op)
