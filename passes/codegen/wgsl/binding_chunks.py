"""Splits buffers larger than the binding size limit over several bindings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IndexType, IntegerAttr, VectorType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import Rewriter

from tensorgrad.dialects.buf import buffer_type, element_bytes, element_of, shape_of
from tensorgrad.passes.analyses.storage import bindings_of, chunk_bytes
from tensorgrad.passes.codegen.common.block_builder import BlockBuilder
from tensorgrad.passes.scalars import Value
from tensorgrad.runtime.target import Target

Access = Callable[[BlockBuilder, SSAValue, Value], Sequence[Value]]
"""Reads or writes an array at an index; returns what it reads."""


def divide_bindings(block: Block, access: Sequence[str], target: Target) -> list[str]:
    """Splits each binding that exceeds a target's size limit into several consecutive ones.

    A constant index selects its binding statically; any other is tested at run time.

    Args:
        block: The kernel; its arguments are flat buffers.
        access: The access mode of each argument.
        target: Has the limit on a binding's size in bytes.

    Returns:
        The access mode of each new argument.
    """
    result: list[str] = []
    for argument, kind in zip(list(block.args), access, strict=True):
        count = 1
        if not isinstance(element_of(argument), VectorType):  # vector bindings are never split
            width = element_bytes(element_of(argument))
            count = bindings_of(shape_of(argument)[0] * width, target)
            if count > 1:
                _divide(block, argument, chunk_bytes(target) // width)
        result += [kind] * count
    return result


def _divide(block: Block, argument: BlockArgument, each: int) -> None:
    """Replaces an argument with several of at most `each` elements."""
    total, element = shape_of(argument)[0], element_of(argument)
    parts = [
        block.insert_arg(buffer_type([min(each, total - start)], element), argument.index)
        for start in range(0, total, each)
    ]
    for use in list(argument.uses):
        op = use.operation
        if isinstance(op, memref.LoadOp):
            _replace(op, op.indices[0], parts, each, lambda code, part, at: [code.element(part, at)])
        else:
            store = cast(memref.StoreOp, op)
            _replace(op, store.indices[0], parts, each, _put(store.value))
    block.erase_arg(argument)


def _put(value: SSAValue) -> Access:
    """Returns an access that writes a value."""

    def write(code: BlockBuilder, part: SSAValue, at: Value) -> Sequence[Value]:
        code.put(code.value(value), part, at)
        return ()

    return write


def _replace(op: Operation, at: SSAValue, parts: Sequence[SSAValue], each: int, access: Access) -> None:
    """Replaces an access to a whole buffer with one to the part that contains the index."""
    block = Block()
    code = BlockBuilder(block)
    results = _access(code, code.value(at), parts, each, access, [result.type for result in op.results])
    for inner in list(block.ops):
        inner.detach()
        cast(Block, op.parent).insert_op_before(inner, op)
    for old, new in zip(op.results, results, strict=True):
        old.replace_all_uses_with(new.ssa)
    Rewriter.erase_op(op)


def _access(
    code: BlockBuilder, at: Value, parts: Sequence[SSAValue], each: int, access: Access, kinds: Sequence[Attribute]
) -> Sequence[Value]:
    """Accesses the part that contains an index, which counts from the start of the first one."""
    if isinstance(at.ssa.owner, arith.ConstantOp):
        position = cast("IntegerAttr[IndexType]", at.ssa.owner.value).value.data
        number = min(position // each, len(parts) - 1)
        return access(code, parts[number], code.number(position - number * each))
    if len(parts) == 1:
        return access(code, parts[0], at)
    return code.choose(
        at < each,
        kinds,
        lambda: access(code, parts[0], at),
        lambda: _access(code, at - each, parts[1:], each, access, kinds),
    )
