"""Writes the body of a stage at one point: operands as loads, loop indices as expressions, all else as it is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from xdsl.dialects import affine as affine_ops
from xdsl.dialects import memref, scf
from xdsl.dialects.linalg.ops import GenericOp, IndexOp, YieldOp
from xdsl.ir import Block, Operation, SSAValue

from tensorgrad.dialects.buf import KernelOp, is_shape_only, maps_of, shape_of
from tensorgrad.dialects.stages import reductions_of
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.walking import cloned
from tensorgrad.passes.analyses.windows import load_place
from tensorgrad.passes.codegen.common.block_builder import yield_op
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.common.stage_loops import Loops
from tensorgrad.passes.scalars import Value

UNBOUNDED = 1 << 62
"""An extent that simplifies nothing: those of a stage's loops are not known where its body is written."""


def reduced_values(code: Code, stage: GenericOp, loops: Loops, known: Mapping[SSAValue, Value]) -> list[Value]:
    """Returns the values that a reducing stage folds in at one point, one per output."""
    return values_to_fold(code, stage, stage_env(code, stage, loops, known), loops)


def values_to_fold(code: Code, stage: GenericOp, env: dict[SSAValue, SSAValue], loops: Loops) -> list[Value]:
    """Returns the values that a reducing stage folds in at one point, given its operands' values."""
    reductions = reductions_of(stage)
    skip = {reduction.combine for reduction in reductions}
    for op in stage.body.block.ops:
        if op not in skip and not isinstance(op, YieldOp):
            clone_op(code, op, env, loops)
    return [code.value(env.get(reduction.value, reduction.value)) for reduction in reductions]


def stage_env(code: Code, stage: GenericOp, loops: Loops, known: Mapping[SSAValue, Value]) -> dict[SSAValue, SSAValue]:
    """Returns the values of a stage's block arguments for its inputs."""
    args = stage.body.block.args
    values = _operands(code, stage, loops, known)
    return {argument: value.ssa for argument, value in zip(args, values, strict=False) if value is not None}


def stage_values(code: Code, stage: GenericOp, loops: Loops, known: Mapping[SSAValue, Value]) -> list[Value]:
    """Returns the values that a stage without reductions yields at one point."""
    return clone_body(code, stage.body.block, stage_env(code, stage, loops, known), loops)


def store_outputs(kernel: KernelOp, stage: GenericOp, code: Code, loops: Loops, values: list[Value]) -> None:
    """Stores a stage's results into those of its outputs that outlive the kernel."""
    maps = maps_of(stage)[len(stage.inputs) :]
    for output, m, value in zip(stage.outputs, maps, values, strict=True):
        if output in kernel.output_arguments:
            code.store(value, output, m.results, loops)


def _operands(code: Code, stage: GenericOp, loops: Loops, known: Mapping[SSAValue, Value]) -> list[Value | None]:
    """Returns the values of a stage's inputs: those known at this point, or loaded."""
    values: list[Value | None] = []
    for buffer, m in zip(stage.inputs, maps_of(stage), strict=False):
        if is_shape_only(buffer):
            values.append(None)
        else:
            values.append(known[buffer] if buffer in known else code.load(buffer, m.results, loops))
    return values


# Ops of a body


def clone_body(code: Code, block: Block, env: dict[SSAValue, SSAValue], loops: Loops) -> list[Value]:
    """Clones a body's ops; returns the values it yields."""
    for op in block.ops:
        if isinstance(op, YieldOp | scf.YieldOp):
            return [code.value(env.get(operand, operand)) for operand in op.operands]
        clone_op(code, op, env, loops)
    return []


def clone_needed(
    code: Code, block: Block, env: dict[SSAValue, SSAValue], needed: Collection[SSAValue], loops: Loops
) -> None:
    """Clones the ops of a body that compute needed values, as far as these are not known yet."""
    for op in block.ops:
        if any(result in needed and result not in env for result in op.results):
            clone_op(code, op, env, loops)


def clone_op(code: Code, op: Operation, env: dict[SSAValue, SSAValue], loops: Loops) -> None:
    """Clones an op of a body, unless its result is known; see `ADDRESSING` for those that are not cloned verbatim.

    Args:
        code: Where to write.
        op: The op.
        env: The values that are known instead of those of the body; receives the op's results.
        loops: The stage's loops.
    """
    if op.results and op.results[0] in env:
        return
    rule = ADDRESSING.get(type(op))
    if rule is None:
        code.block.add_op(cloned(op, env))
    else:
        env.update(zip(op.results, rule(code, op, env, loops), strict=True))


def _loop_index(code: Code, op: IndexOp, env: Mapping[SSAValue, SSAValue], loops: Loops) -> Sequence[SSAValue]:
    return [code.expression(loops.expressions[op.dim.value.data], loops.bases, loops.extents).ssa]


def _apply(code: Code, op: affine_ops.ApplyOp, env: Mapping[SSAValue, SSAValue], loops: Loops) -> Sequence[SSAValue]:
    values = [code.value(env.get(operand, operand)) for operand in op.operands]
    return [code.expression(op.map.data.results[0], values).ssa]


def _load(code: Code, op: memref.LoadOp, env: Mapping[SSAValue, SSAValue], loops: Loops) -> Sequence[SSAValue]:
    """Loads at computed indices, linearized."""
    binding, extents = code.bindings[op.memref], shape_of(op.memref)
    place = load_place(op, [UNBOUNDED] * len(loops.expressions))
    if place is not None:
        return [code.element(binding.memory, code.position_at(place, op.memref, loops)).ssa]
    at: Value | None = None
    for operand, stride in zip(op.indices, affine.strides(extents), strict=True):
        term = code.value(env.get(operand, operand)) * stride
        at = term if at is None else at + term
    at = code.number(binding.start) if at is None else at + binding.start
    if binding.moved is not None:
        at = code.value(binding.moved) + at
    return [code.element(binding.memory, at).ssa]


def _branches(code: Code, op: scf.IfOp, env: Mapping[SSAValue, SSAValue], loops: Loops) -> Sequence[SSAValue]:
    bodies = [partial(clone_body, code, region.block, dict(env), loops) for region in (op.true_region, op.false_region)]
    condition, kinds = code.value(env.get(op.cond, op.cond)), [result.type for result in op.results]
    return [value.ssa for value in code.choose(condition, kinds, *bodies)]


def _repetition(code: Code, op: scf.ForOp, env: Mapping[SSAValue, SSAValue], loops: Loops) -> Sequence[SSAValue]:
    block = Block(arg_types=[argument.type for argument in op.body.block.args])
    inner = {**env, **dict(zip(op.body.block.args, block.args, strict=True))}
    with code.within(block):
        block.add_op(yield_op(clone_body(code, op.body.block, inner, loops)))
    start, stop, step = (env.get(bound, bound) for bound in (op.lb, op.ub, op.step))
    new = scf.ForOp(start, stop, step, [env.get(value, value) for value in op.iter_args], block)
    new.attributes |= op.attributes
    code.block.add_op(new)
    return new.results


ADDRESSING: dict[type[Operation], Callable[[Code, Any, Mapping[SSAValue, SSAValue], Loops], Sequence[SSAValue]]] = {
    IndexOp: _loop_index,
    affine_ops.ApplyOp: _apply,
    memref.LoadOp: _load,
    scf.IfOp: _branches,
    scf.ForOp: _repetition,
}
"""How ops of a body are written that take indices, or contain ops that do."""
