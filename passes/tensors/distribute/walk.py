"""Rebuilds a block of the whole program as the block that one process of a group runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from xdsl.dialects.builtin import DictionaryAttr, f32, f64
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.attention import Attention
from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.tg.base import Tensor, TensorOp, is_float, size_of, splat_value
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.dialects.tg.call import CallOp, ReturnOp, returned
from tensorgrad.dialects.tg.collective import CollectiveOp
from tensorgrad.dialects.tg.control import CondOp, ScanOp
from tensorgrad.dialects.tg.traits import is_elementwise
from tensorgrad.passes.tensors.distribute.placement import PARTIAL, WHOLE, Distribution, Placed, Placement
from tensorgrad.passes.tensors.distribute.rules import LINEAR, RULES, elementwise, emit

Known = dict[SSAValue, Placed]


def distribute(d: Distribution, ops: Sequence[Operation], known: Known) -> None:
    """Emits the ops that this process runs in place of ops of the whole program, and records their results.

    Args:
        d: The group and the insertion point.
        ops: Ops of the whole program, without a terminator.
        known: What this process holds of their operands; the results are added.

    Raises:
        DiagnosticException: An op is a collective, although the step sees the whole batch, or is not of `tg`.
    """
    for op in ops:
        d.builder.location = op.location
        operands = [known[operand] for operand in op.operands]
        if isinstance(op, CollectiveOp):
            raise DiagnosticException(
                f"{op.name} at {line_of(op.location)} is in a distributed step, which already computes on the batch of "
                "all processes; remove it"
            )
        if isinstance(op, TensorOp):
            results = [_tensor_op(d, op, operands)]
        elif isinstance(op, CallOp):
            results = _call(d, op, operands)
        elif isinstance(op, ScanOp):
            results = _scan(d, op, operands)
        elif isinstance(op, CondOp):
            results = _cond(d, op, operands)
        else:
            raise DiagnosticException(f"distribute expects tg ops, got {op.name}")
        for result, result_placed in zip(op.results, results, strict=True):
            result_placed.value.name_hint = result_placed.value.name_hint or result.name_hint
            known[result] = result_placed
            if result_placed.is_partial and not _stays_partial(result, known):
                known[result] = d.resolved(result_placed, result)


def _stays_partial(value: SSAValue, known: Known) -> bool:
    """Returns whether to keep a partial sum: it has at most one use, or reducing what its users compute is cheaper."""
    return value.uses.get_length() < 2 or _exchanged(value, known, {}) < size_of(shape_of(value))


def _exchanged(value: SSAValue, known: Known, seen: dict[SSAValue, int]) -> int:
    """Returns how many elements are exchanged to reduce a partial sum: itself, or what its users compute if smaller.

    Float operands whose layout is not known yet are assumed to be partial sums.

    Args:
        value: The partial sum, in the whole program.
        known: What this process holds of operands.
        seen: The results for other partial sums; updated.
    """

    def assumed(operand: SSAValue) -> Placed:
        is_sum = is_float(element_of(operand))
        return known[operand] if operand in known else Placed(operand, PARTIAL if is_sum else WHOLE)

    if value in seen:
        return seen[value]
    seen[value] = size_of(shape_of(value))
    later = 0
    for op in dict.fromkeys(use.operation for use in value.uses):
        operands = [Placed(value, PARTIAL) if operand is value else assumed(operand) for operand in op.operands]
        if not isinstance(op, TensorOp) or type(op) not in LINEAR or not LINEAR[type(op)](op, operands):
            return seen[value]
        later += _exchanged(op.results[0], known, seen)
    seen[value] = min(seen[value], later)
    return seen[value]


def _tensor_op(d: Distribution, op: TensorOp, operands: Sequence[Placed]) -> Placed:
    if all(operand.is_whole for operand in operands):
        return Placed(emit(d, op, [operand.value for operand in operands]))
    is_linear = LINEAR.get(type(op))
    if any(operand.is_partial for operand in operands) and is_linear is not None:
        as_sums = [_zero_as_sum(operand) for operand in operands]
        if is_linear(op, as_sums):
            return Placed(emit(d, op, [operand.value for operand in operands]), PARTIAL)
    operands = [d.resolved(operand, value) for operand, value in zip(operands, op.operands, strict=True)]
    if all(operand.is_whole for operand in operands):
        return Placed(emit(d, op, [operand.value for operand in operands]))
    rule = elementwise if is_elementwise(op) else RULES.get(type(op))
    result = None if rule is None else rule(d, op, operands)
    if result is None:
        result = Placed(emit(d, op, [d.whole(operand).value for operand in operands]))
    return result


def _zero_as_sum(placed: Placed) -> Placed:
    """Returns replicated zeros as a partial sum, which they are as well."""
    return Placed(placed.value, PARTIAL) if placed.is_whole and splat_value(placed.value) == 0 else placed


def _body(
    d: Distribution, block: Block, layouts: Sequence[Placement], expected: Sequence[Placement] | None = None
) -> tuple[Block, list[Placement]]:
    """Returns a region's block as this process runs it, and the layouts of the values that it returns.

    Args:
        d: The group.
        block: The block of the whole program.
        layouts: The layouts of its arguments.
        expected: The layouts to return values in; by default those computed, with partial sums reduced.
    """
    kinds = [d.local(cast(Tensor, argument.type), layout) for argument, layout in zip(block.args, layouts, strict=True)]
    copy = Block(arg_types=kinds)
    for old, new in zip(block.args, copy.args, strict=True):
        new.location, new.name_hint = old.location, old.name_hint
    known: Known = {old: Placed(new, layout) for old, new, layout in zip(block.args, copy.args, layouts, strict=True)}
    inner = d.at(TensorBuilder(copy))
    last = cast(ReturnOp, block.last_op)
    distribute(inner, [op for op in block.ops if op is not last], known)
    inner.builder.location = last.location
    values = [known[value] for value in returned(block)]
    if expected is None:
        values = [inner.resolved(placed, value) for placed, value in zip(values, returned(block), strict=True)]
    else:
        values = [inner.as_layout(value, layout) for value, layout in zip(values, expected, strict=True)]
    new_return = ReturnOp([value.value for value in values])
    new_return.location = last.location
    copy.add_op(new_return)
    return copy, [value.layout for value in values]


def _call(d: Distribution, op: CallOp, operands: Sequence[Placed]) -> list[Placed]:
    operands = [d.resolved(operand, value) for operand, value in zip(operands, op.operands, strict=True)]
    composite = op.composite
    if composite is not None and any(not operand.is_whole for operand in operands):
        operands, composite = _attention(d, op, operands)
    body, layouts = _body(d, op.body.block, [operand.layout for operand in operands])
    if op.composite is not None and {operand.axis for operand in operands} != {layout.axis for layout in layouts}:
        operands, composite = [d.whole(operand) for operand in operands], op.composite
        body, layouts = _body(d, op.body.block, [WHOLE] * len(operands))
    # The step is differentiated already, so custom derivatives are dropped.
    call = CallOp.of(
        op.function,
        [operand.value for operand in operands],
        body,
        recompute=op.recompute is not None,
        composite=composite,
    )
    return _inserted(d, op, call, layouts)


def _attention(d: Distribution, op: CallOp, operands: Sequence[Placed]) -> tuple[list[Placed], DictionaryAttr]:
    """Returns operands sharded along the groups of an attention, or replicated, and the attention's parameters."""
    assert op.composite is not None
    whole = Attention.read(op.composite)
    if whole.groups % d.size or any(shape_of(value)[:1] != (whole.groups,) for value in op.operands):
        return [d.whole(operand) for operand in operands], op.composite
    return [d.cut(operand, Placement(0)) for operand in operands], replace(
        whole, groups=whole.groups // d.size
    ).attribute()


def _scan(d: Distribution, op: ScanOp, operands: Sequence[Placed]) -> list[Placed]:
    """Distributes a loop, and chooses for each carry the first of these layouts that every iteration keeps.

    First its initial layout, for which zeros count as a partial sum; then, if it is initially replicated, the layout
    in which an iteration returns it; then replicated.
    """
    operands = [d.resolved(operand, value) for operand, value in zip(operands, op.operands, strict=True)]
    consts, init, sequences = op.split(operands)
    xs = [d.whole(operand) if operand.axis == 0 else operand for operand in sequences]
    rows = [WHOLE if row.axis is None else row.layout.along(row.axis - 1) for row in xs]
    begun = [operand.layout for operand in init]
    carried = [PARTIAL if splat_value(operand.value) == 0 else operand.layout for operand in init]
    changed = [False] * op.carries
    while True:
        layouts = [*(placed.layout for placed in consts), *carried, *rows]
        inner = _found_layouts(d, op.body.block, layouts)
        before = list(carried)
        for place, (old, new) in enumerate(zip(before, inner, strict=False)):
            if old != new:
                carried[place] = WHOLE if changed[place] or begun[place] != WHOLE else new
                changed[place] = True
        if carried == before:  # results of an iteration in other layouts are converted
            break
    stacks = [WHOLE if layout.partial else layout for layout in inner[op.carries :]]
    body, _ = _body(d, op.body.block, layouts, [*carried, *stacks])
    init = [d.as_layout(operand, layout) for operand, layout in zip(init, carried, strict=True)]
    scan = ScanOp.of(
        [placed.value for placed in consts],
        [placed.value for placed in init],
        [placed.value for placed in xs],
        op.count,
        op.reverse is not None,
        body,
    )
    moved = [WHOLE if layout.axis is None else layout.along(layout.axis + 1) for layout in stacks]
    return _inserted(d, op, scan, [*carried, *moved])


def _found_layouts(d: Distribution, block: Block, layouts: Sequence[Placement]) -> list[Placement]:
    """Returns the layouts in which a block computes the values that it returns, without reducing partial sums."""
    scratch = Block(
        arg_types=[d.local(cast(Tensor, a.type), layout) for a, layout in zip(block.args, layouts, strict=True)]
    )
    known: Known = {
        old: Placed(new, layout) for old, new, layout in zip(block.args, scratch.args, layouts, strict=True)
    }
    distribute(d.at(TensorBuilder(scratch)), [op for op in block.ops if op is not block.last_op], known)
    results = [known[value].layout for value in returned(block)]
    scratch.erase()
    return results


def _cond(d: Distribution, op: CondOp, operands: Sequence[Placed]) -> list[Placed]:
    """Distributes a branch, and chooses a layout for each result.

    A result keeps the layout that both branches return it in. If one branch replicates it, it has the layout of the
    other. Otherwise it is replicated.
    """
    operands = [d.resolved(operand, value) for operand, value in zip(operands, op.operands, strict=True)]
    predicate, inputs = d.whole(operands[0]), operands[1:]
    layouts = [placed.layout for placed in inputs]
    ones, others = (_found_layouts(d, block, layouts) for block in op.branches)
    agreed = [_agreed(*pair) for pair in zip(ones, others, op.results, strict=True)]
    then, otherwise = (_body(d, block, layouts, agreed)[0] for block in op.branches)
    return _inserted(d, op, CondOp.of(predicate.value, [placed.value for placed in inputs], then, otherwise), agreed)


def _agreed(first: Placement, other: Placement, result: SSAValue) -> Placement:
    """Returns the layout of a result from the layouts that the two branches return it in, see `_cond`."""
    if first == other:
        return first
    agreed = other if first == WHOLE else first
    is_divided = not agreed.partial or element_of(result) in (f32, f64)  # dividing f16 into equal summands loses bits
    return agreed if WHOLE in (first, other) and is_divided else WHOLE


def _inserted(d: Distribution, op: Operation, inserted: Operation, layouts: Sequence[Placement]) -> list[Placed]:
    inserted.location = op.location
    inserted.attributes.update(op.attributes)
    d.builder.insert(inserted)
    return [Placed(value, layout) for value, layout in zip(inserted.results, layouts, strict=True)]
