"""The edits of a reduction: each is a list of small changes to a module, of which a subset is applied at a time.

A change is applied to a copy of the module, after others of its edit. If its op is gone, it does nothing; it may
leave an invalid module, which is not tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator

from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.signature import NAME, ROLE, Role
from tensorgrad.dialects.tg.base import Tensor
from tensorgrad.dialects.tg.build import TensorBuilder
from tensorgrad.dialects.tg.call import CallOp, returned

Change: TypeAlias = Callable[[], object]
Edit: TypeAlias = Callable[[ModuleOp], list[Change]]
Choice: TypeAlias = Callable[[Operation, SSAValue], SSAValue | None]
"""Returns the replacement of a value that an op defines, or `None`."""

KEPT = ("sym_name", "function_type", "operandSegmentSizes", "resultSegmentSizes")
"""Properties without which an op can't even be printed."""


def inner(module: ModuleOp) -> Iterator[Operation]:
    """Yields the ops in functions, except terminators."""
    for op in module.walk():
        if op.parent_op() not in (None, module) and not op.has_trait(IsTerminator):
            yield op


def functions(module: ModuleOp) -> list[tuple[FuncOp, ReturnOp]]:
    """Returns the functions with one block that returns, each with its return."""
    ops = [op for op in module.ops if isinstance(op, FuncOp) and len(op.body.blocks) == 1]
    ends = [(function, function.body.block.last_op) for function in ops]
    return [(function, end) for function, end in ends if isinstance(end, ReturnOp)]


def defined(op: Operation) -> Sequence[SSAValue]:
    """Returns the values that an op defines: its results, or the buffers that it writes."""
    return tuple(op.outputs) if isinstance(op, KernelOp | GenericOp) else tuple(op.results)


def is_present(op: Operation) -> bool:
    """Returns whether an op is still a part of its module."""
    while (above := op.parent_op()) is not None:
        op = above
    return isinstance(op, ModuleOp)


def is_unused(op: Operation) -> bool:
    """Returns whether an op's values are unused; always true for an op without results."""
    return all(result.first_use is None for result in op.results)


def erase(op: Operation) -> None:
    """Erases an op, and earlier ones whose results are then unused."""
    operands = list(op.operands)
    op.detach()
    op.erase(safe_erase=False)
    erase_unused(operands)


def erase_unused(values: Sequence[SSAValue]) -> None:
    """Erases the ops that define values, if all of their results are unused."""
    for value in values:
        owner = value.owner
        if isinstance(owner, Operation) and is_present(owner) and is_unused(owner):
            erase(owner)


def set_attributes(function: FuncOp, name: str, entries: Sequence[Attribute]) -> None:
    """Sets the attributes of a function's arguments or results, or removes them if all are empty."""
    if any(cast(DictionaryAttr, entry).data for entry in entries):
        function.properties[name] = ArrayAttr(entries)
    else:
        function.properties.pop(name, None)


def attributes_of(function: FuncOp, name: str) -> list[Attribute]:
    """Returns the attributes of a function's arguments or results, if it has any."""
    attributes = function.properties.get(name)
    return list(cast("ArrayAttr[Attribute]", attributes).data) if isinstance(attributes, ArrayAttr) else []


def set_type(function: FuncOp) -> None:
    """Updates a function's type from its arguments and its return."""
    block = function.body.block
    ends = cast(ReturnOp, block.last_op)
    function.properties["function_type"] = FunctionType.from_lists(
        [argument.type for argument in block.args], [operand.type for operand in ends.operands]
    )


def add_argument(function: FuncOp, kind: Attribute, role: Role) -> SSAValue:
    """Returns a new argument of a function."""
    block, entries = function.body.block, attributes_of(function, "arg_attrs")
    names = {cast(DictionaryAttr, entry).data.get(NAME) for entry in entries}
    name = next(name for n in range(len(entries) + 1) if (name := StringAttr(f"cut{n}")) not in names)
    if entries:
        new = DictionaryAttr({NAME: name, ROLE: StringAttr(str(role))})
        function.properties["arg_attrs"] = ArrayAttr([*entries, new])
    argument = block.insert_arg(kind, len(block.args))
    set_type(function)
    return argument


def drop_functions(module: ModuleOp) -> list[Change]:
    """Drops top-level ops of the module, such as functions and kernels."""

    def drop(op: Operation) -> None:
        op.detach()
        op.erase(safe_erase=False)

    return [partial(drop, op) for op in module.ops]


def drop_results(module: ModuleOp) -> list[Change]:
    """Drops results of functions, last to first, with the ops that only they need."""

    def drop(function: FuncOp, end: ReturnOp, place: int) -> None:
        entries = attributes_of(function, "res_attrs")
        value, values = end.operands[place], [operand for n, operand in enumerate(end.operands) if n != place]
        end.operands = values
        set_attributes(function, "res_attrs", [entry for n, entry in enumerate(entries) if n != place])
        set_type(function)
        erase_unused([value])

    pairs = functions(module)
    return [partial(drop, *pair, place) for pair in pairs for place in reversed(range(len(pair[1].operands)))]


def return_early(module: ModuleOp) -> list[Change]:
    """Makes a function return the results of one of its ops, and nothing else."""

    def cut(function: FuncOp, end: ReturnOp, op: Operation) -> None:
        before = list(end.operands)
        end.operands = list(op.results)
        set_attributes(function, "res_attrs", [])
        set_type(function)
        erase_unused(before)

    return [
        partial(cut, *pair, op)
        for pair in functions(module)
        for op in pair[0].body.block.ops
        if op.results and not any(isinstance(kind, MemRefType) for kind in op.result_types)
    ]


def drop_unused(module: ModuleOp) -> list[Change]:
    """Erases ops with unused results, including kernels and stages, last to first."""

    def drop(op: Operation) -> None:
        if is_present(op) and is_unused(op):
            erase(op)

    return [partial(drop, op) for op in reversed(list(inner(module)))]


def replace_by(choose: Choice, module: ModuleOp) -> list[Change]:
    """Replaces the results of ops, last to first, with the values that a function chooses."""

    def replace(op: Operation) -> None:
        if not is_present(op):
            return
        pairs = [(old, choose(op, old)) for old in defined(op)]
        if pairs and all(new is not None for _, new in pairs):
            for old, new in pairs:
                old.replace_all_uses_with(cast(SSAValue, new))
            erase(op)

    return [partial(replace, op) for op in reversed(list(inner(module)))]


def first_operand(op: Operation, old: SSAValue) -> SSAValue | None:
    """Returns the first operand of the same type."""
    return next((operand for operand in op.operands if operand.type == old.type and operand not in defined(op)), None)


def last_operand(op: Operation, old: SSAValue) -> SSAValue | None:
    """Returns the last operand of the same type."""
    return next(
        (operand for operand in reversed(op.operands) if operand.type == old.type and operand not in defined(op)), None
    )


def argument(op: Operation, old: SSAValue) -> SSAValue | None:
    """Returns the first argument of the same type of the op's block."""
    block = op.parent_block()
    others = () if block is None else (other for other in block.args if other.type == old.type and other != old)
    return next(iter(others), None)


def new_argument(op: Operation, old: SSAValue) -> SSAValue | None:
    """Returns a new argument of the op's function."""
    function = op.parent_op()
    return add_argument(function, old.type, Role.INPUT) if isinstance(function, FuncOp) else None


def zero(op: Operation, old: SSAValue) -> SSAValue | None:
    """Returns a constant of zeros, if the type has one."""
    block, kind = op.parent_block(), old.type
    if block is None:
        return None
    if isinstance(kind, TensorType):
        return TensorBuilder(block, op).full(cast(Tensor, kind), 0)
    if not isinstance(kind, AnyFloat | IntegerType | IndexType):
        return None
    value: Any = FloatAttr(0.0, kind) if isinstance(kind, AnyFloat) else IntegerAttr(0, kind)
    constant = arith.ConstantOp(value)
    block.insert_op_before(constant, op)
    return constant.result


def inline_calls(module: ModuleOp) -> list[Change]:
    """Inlines a `tg.call`."""

    def inline(call: CallOp) -> None:
        if not is_present(call):
            return
        block = call.body.block
        values, end = returned(block), cast(Operation, block.last_op)
        Rewriter.inline_block(block, InsertPoint.before(call), list(call.operands))
        end.detach()
        for old, new in zip(call.results, values, strict=True):
            old.replace_all_uses_with(new)
        end.erase()
        erase(call)

    return [partial(inline, op) for op in module.walk() if isinstance(op, CallOp)]


def drop_arguments(module: ModuleOp) -> list[Change]:
    """Drops unused arguments of functions, last to first."""

    def drop(function: FuncOp, place: int) -> None:
        block, entries = function.body.block, attributes_of(function, "arg_attrs")
        if block.args[place].first_use is None:
            block.erase_arg(block.args[place])
            set_attributes(function, "arg_attrs", [entry for n, entry in enumerate(entries) if n != place])
            set_type(function)

    pairs = functions(module)
    return [
        partial(drop, function, place)
        for function, _ in pairs
        for place in reversed(range(len(function.body.block.args)))
    ]


def drop_attributes(module: ModuleOp) -> list[Change]:
    """Drops attributes of ops, and of arguments and results of functions."""

    def empty(function: FuncOp, name: str, place: int) -> None:
        entries = attributes_of(function, name)
        entries[place] = DictionaryAttr({})
        set_attributes(function, name, entries)

    changes: list[Change] = []
    for op in module.walk():
        changes += [partial(op.attributes.pop, name) for name in sorted(op.attributes)]
        if isinstance(op, FuncOp):
            names = ("arg_attrs", "res_attrs")
            changes += [partial(empty, op, name, n) for name in names for n in range(len(attributes_of(op, name)))]
        else:
            changes += [partial(op.properties.pop, name) for name in sorted(op.properties) if name not in KEPT]
    return changes
