"""Inlines pointwise producers: their results are computed where they are read instead of stored."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import affine as affine_ops
from xdsl.dialects import memref
from xdsl.dialects.builtin import AffineMapAttr
from xdsl.dialects.linalg.ops import IndexOp, YieldOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.rewriter import Rewriter

from tensorgrad.dialects.buf import element_of, shape_of
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.guards import fold_guards, loop_numbers
from tensorgrad.passes.analyses.stages import Parts, Stage, erase_unused, index_value
from tensorgrad.passes.analyses.storage import Accesses
from tensorgrad.passes.analyses.walking import cloned
from tensorgrad.passes.analyses.windows import index_form
from tensorgrad.passes.rewriting import index_before, insert_before
from tensorgrad.passes.tensors.simplify import simplify_block


def inverse(written: AffineMap) -> list[AffineExpr] | None:
    """Returns each loop as an expression of the written index, or `None` if the map is not a plain placement.

    A plain placement maps each loop to one axis of the buffer; other axes have a constant index.
    """
    loops: dict[int, AffineExpr] = {}
    for position, result in enumerate(written.results):
        if isinstance(result, AffineDimExpr) and result.position not in loops:
            loops[result.position] = AffineDimExpr(position)
        elif not isinstance(result, AffineConstantExpr):
            return None
    if len(loops) != written.num_dims:
        return None
    return [loops[loop] for loop in range(written.num_dims)]


def inline(producer: Parts, consumer: Parts) -> None:
    """Computes `producer` in every stage of `consumer` that reads its result.

    Args:
        producer: A kernel of one pointwise stage with one output, whose map is a plain placement. It is not changed.
        consumer: A kernel that reads that output.
    """
    source, stage = producer.outputs[0], producer.stages[0]
    back = inverse(stage.writes[0][1])
    assert back is not None
    for reader in consumer.stages:
        if source in reader.buffers():
            _inline_reads(stage, source, back, reader)
            _inline_loads(stage, source, back, reader)
            fold_guards(reader.body, loop_numbers(reader.extents))
            simplify_block(reader.body)
            erase_unused(reader)
            _read_what_exists(reader)
            reader.merge_equal_reads()
    consumer.changed()


def inlined_accesses(producer: Parts, consumer: Parts) -> list[Accesses]:
    """Returns the accesses of `consumer`'s stages as they would be with `producer` inlined."""
    source, stage = producer.outputs[0], producer.stages[0]
    back = inverse(stage.writes[0][1])
    assert back is not None
    loaded = [load.memref for load in stage.loads()]
    result: list[Accesses] = []
    for reader in consumer.stages:
        reads = list(reader.reads)
        loads = [load.memref for load in reader.loads()]
        for _, index_map in [read for read in reader.reads if read[0] is source]:
            placed = AffineMap(len(index_map.results), 0, tuple(back))
            loops = affine.composed(placed, index_map, reader.extents)
            reads += [(buffer, affine.composed(m, loops, reader.extents)) for buffer, m in stage.reads]
            loads += loaded
        if source in loads:
            loads += [*loaded, *(buffer for buffer, _ in stage.reads)]
        result.append(Accesses(reads, reader.writes, loads))
    return result


def _inline_reads(stage: Stage, source: SSAValue, back: Sequence[AffineExpr], reader: Stage) -> None:
    """Replaces reads through index maps with reads of the producer's operands through composed maps."""
    for position in reversed([i for i, (buffer, _) in enumerate(reader.reads) if buffer is source]):
        _, index_map = reader.reads.pop(position)
        argument = reader.body.args[position]
        rank = len(reader.extents)
        placed = AffineMap(len(index_map.results), 0, tuple(back))
        loops = affine.composed(placed, index_map, reader.extents)
        count = len(reader.reads)
        values: list[SSAValue] = []
        for number, (buffer, m) in enumerate(stage.reads):
            reader.reads.append((buffer, affine.composed(m, loops, reader.extents)))
            kind = stage.body.args[number].type
            values.append(reader.body.insert_arg(kind, count + 1 + number))
        # The replaced argument keeps its position until it is erased: the new ones come after the remaining reads.
        mapping: dict[SSAValue, SSAValue] = dict(zip(stage.body.args, values, strict=False))
        anchor = reader.body.first_op
        result = _clone_body(stage, mapping, reader.body, anchor, loops.results, rank)
        argument.replace_all_uses_with(result)
        reader.body.erase_arg(argument)


def _clone_body(
    stage: Stage,
    mapping: dict[SSAValue, SSAValue],
    block: Block,
    anchor: Operation | None,
    loops: Sequence[AffineExpr],
    rank: int,
) -> SSAValue:
    """Clones a body before `anchor`, with its loop indices replaced by expressions; returns the yielded value."""
    values = dict(mapping)
    result: SSAValue | None = None
    for op in stage.body.ops:
        if isinstance(op, YieldOp):
            result = values.get(op.operands[0], op.operands[0])
        elif isinstance(op, IndexOp):
            expression = loops[op.dim.value.data]
            if isinstance(expression, AffineConstantExpr):
                assert anchor is not None
                values[op.results[0]] = index_before(expression.value, anchor)
            else:
                values[op.results[0]] = index_value(block, anchor, expression, rank)
        else:
            assert anchor is not None
            block.insert_op_before(cloned(op, values), anchor)
    assert result is not None
    return result


def _inline_loads(stage: Stage, source: SSAValue, back: Sequence[AffineExpr], reader: Stage) -> None:
    """Replaces loads at computed indices with the producer's body on loads of its operands."""
    for load in [load for load in reader.loads() if load.memref is source]:
        block = load.parent
        assert block is not None
        indices = list(load.indices)
        loops = [_index_of(expression, indices, load) for expression in back]
        values: dict[SSAValue, SSAValue] = {}
        for argument, (buffer, m) in zip(stage.body.args, stage.reads, strict=False):
            at = [_index_of(result, loops, load) for result in m.results]
            operands, kinds = (buffer, *at), (element_of(buffer),)
            read = memref.LoadOp.create(operands=operands, result_types=kinds, location=load.location)
            block.insert_op_before(read, load)
            values[argument] = read.results[0]
        result: SSAValue | None = None
        for op in stage.body.ops:
            if isinstance(op, YieldOp):
                result = values.get(op.operands[0], op.operands[0])
            elif isinstance(op, IndexOp):
                values[op.results[0]] = loops[op.dim.value.data]
            else:
                block.insert_op_before(cloned(op, values), load)
        assert result is not None
        load.results[0].replace_all_uses_with(result)
        Rewriter.erase_op(load)


def _read_what_exists(stage: Stage) -> None:
    """Makes operands of loads that are the same along a loop, and in bounds at all points: they need no condition.

    Padding asks whether an element of the image exists. The parameters of its channel always do, and what is computed
    from them alone is then the same for all elements of a line.
    """
    for load in stage.loads():
        forms = [index_form(index, stage.extents) for index in load.indices]
        known = [form for form in forms if form is not None]
        results = tuple(form.expression() for form in known)
        used = {loop for result in results for loop in result.used_dims()}
        if len(known) < len(forms) or all(i in used or n == 1 for i, n in enumerate(stage.extents)):
            continue
        bounds = [form.bounds(stage.extents) for form in known]
        if any(low < 0 or high >= n for (low, high), n in zip(bounds, shape_of(load.memref), strict=True)):
            continue
        argument = stage.body.insert_arg(load.results[0].type, len(stage.reads))
        stage.reads.append((load.memref, AffineMap(len(stage.extents), 0, results)))
        load.results[0].replace_all_uses_with(argument)
        Rewriter.erase_op(load)


def _index_of(expression: AffineExpr, values: Sequence[SSAValue], before: Operation) -> SSAValue:
    if isinstance(expression, AffineDimExpr):
        return values[expression.position]
    if isinstance(expression, AffineConstantExpr):
        return index_before(expression.value, before)
    return insert_before(affine_ops.ApplyOp(values, AffineMapAttr(AffineMap(len(values), 0, (expression,)))), before)


def can_inline(producer: Parts) -> bool:
    """Returns whether a kernel is one pointwise stage with one output, stored through a plain placement."""
    if len(producer.stages) != 1 or len(producer.outputs) != 1 or not producer.is_pointwise:
        return False
    return inverse(producer.stages[0].writes[0][1]) is not None
