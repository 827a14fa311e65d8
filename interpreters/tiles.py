"""Interprets a `buf.tiled` with NumPy: its loops one after another, its stages on parts of arrays.

Independent iterations run in order, and barriers do nothing; `ForallOp` says why that is one of the allowed orders.
Local memory is poisoned where it is allocated, and a part that doesn't lie within its buffer is an error.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects import affine, arith, gpu, memref, scf
from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType, IntegerAttr
from xdsl.dialects.linalg.ops import FillOp, GenericOp, YieldOp
from xdsl.ir import Block, Operation, SSAValue

from tensorgrad.dialects import buf
from tensorgrad.dialects.attention import AttentionOp
from tensorgrad.dialects.buf_tiles import ForallOp, TiledOp
from tensorgrad.interpreters.attention import run_attention
from tensorgrad.interpreters.prepared import undefined
from tensorgrad.interpreters.scalars import RULES as SCALARS
from tensorgrad.interpreters.scalars import Array, evaluate
from tensorgrad.interpreters.stages import PreparedStage, read
from tensorgrad.runtime.errors import ExecutionError


class PreparedTiles:
    """A kernel of tiles whose ops have been checked, and prepared to be run many times.

    Raises:
        ExecutionError: A stage contains an unsupported op, type or reduction.
    """

    def __init__(self, op: TiledOp):
        self._arguments: Sequence[SSAValue] = op.body.block.args
        self._run = _prepared_block(op.body.block)

    def run(self, operands: Sequence[Array]) -> None:
        """Runs the kernel.

        Args:
            operands: Arrays of the operands' shapes; outputs are written in place. Bools are words.

        Raises:
            ExecutionError: A part or an index is out of bounds, or several points of a stage write one element.
        """
        state = _State()
        state.arrays.update(zip(self._arguments, operands, strict=True))
        with np.errstate(all="ignore"):
            self._run(state)


class _State:
    """The arrays and the indices of a run of a kernel."""

    def __init__(self) -> None:
        self.arrays: dict[SSAValue, Array] = {}
        self.indices: dict[SSAValue, int] = {}


Run: TypeAlias = Callable[[_State], None]


def _prepared_block(block: Block) -> Run:
    """Returns what runs a block."""
    runs = [run for run in (_prepared(op) for op in block.ops) if run is not None]

    def run(state: _State) -> None:
        for each in runs:
            each(state)

    return run


def _prepared(op: Operation) -> Run | None:
    """Returns what runs an op; `None` if that is nothing.

    Raises:
        ExecutionError: The op isn't supported.
    """
    rule = RULES.get(type(op))
    if rule is None:
        raise ExecutionError(f"{op.name} is not supported in a kernel of tiles")
    return rule(op)


def _stage(op: GenericOp) -> Run:
    if not op.iterator_types and all(inner.name in SCALARS or isinstance(inner, YieldOp) for inner in op.body.walk()):
        return _point(op)
    stage, around = PreparedStage(op, in_order=True), _indices_around(op)
    return lambda state: stage.run(state.arrays, indices={value: state.indices[value] for value in around})


def _point(op: GenericOp) -> Run:
    """Runs a stage of one point, whose body has neither control flow nor loads, several times faster."""
    arguments = list(zip(op.body.block.args, op.operands, strict=True))
    taken = [(value, buffer, buf.element_of(buffer)) for value, buffer in arguments if value.uses]
    *body, last = op.body.block.ops
    around = _indices_around(op)
    results = list(zip(last.operands, op.outputs, strict=True))

    def run(state: _State) -> None:
        values: dict[SSAValue, Array] = {value: np.asarray(state.indices[value], np.int64) for value in around}
        values |= {value: read(state.arrays[buffer], element) for value, buffer, element in taken}
        for inner in body:
            operands = [values[operand] for operand in inner.operands]
            values.update(zip(inner.results, evaluate(inner, operands), strict=True))
        for value, target in results:
            state.arrays[target][...] = values[value]

    return run


def _indices_around(stage: GenericOp) -> list[SSAValue]:
    """Returns the indices that a stage's body takes from around it."""
    inner = list(stage.body.walk())
    defined = {value for op in inner for value in op.results}
    defined |= {value for op in (stage, *inner) for region in op.regions for value in region.block.args}
    used = dict.fromkeys(operand for op in inner for operand in op.operands)
    return [value for value in used if value not in defined and value.type == IndexType()]


def _forall(op: ForallOp) -> Run:
    indices, extents, body = op.indices, op.extents, _prepared_block(op.body.block)

    def run(state: _State) -> None:
        numbers = [extent if isinstance(extent, int) else state.indices[extent] for extent in extents]
        for point in itertools.product(*map(range, numbers)):
            state.indices.update(zip(indices, point, strict=True))
            body(state)

    return run


def _loop(op: scf.ForOp) -> Run:
    bounds, index, body = (op.lb, op.ub, op.step), op.body.block.args[0], _prepared_block(op.body.block)

    def run(state: _State) -> None:
        for at in range(*(state.indices[bound] for bound in bounds)):
            state.indices[index] = at
            body(state)

    return run


def _mapped(op: affine.ApplyOp | affine.MinOp) -> Run:
    results, operands, result = op.map.data.results, tuple(op.operands), op.result

    def run(state: _State) -> None:
        values = [state.indices[operand] for operand in operands]
        state.indices[result] = min(expression.eval(values, []) for expression in results)

    return run


def _part(op: memref.SubviewOp) -> Run:
    """Takes the part of an array, without the axes of extent 1 that its type leaves out."""
    source, result, shape = op.source, op.result, buf.shape_of(op.result)
    sizes, dynamic = op.static_sizes.get_values(), iter(op.offsets)
    offsets = [next(dynamic) if offset == DYNAMIC_INDEX else offset for offset in op.static_offsets.get_values()]
    extents = buf.shape_of(source)

    def run(state: _State) -> None:
        starts = [offset if isinstance(offset, int) else state.indices[offset] for offset in offsets]
        for axis, (start, size, extent) in enumerate(zip(starts, sizes, extents, strict=True)):
            if start < 0 or start + size > extent:
                raise ExecutionError(
                    f"{op.name}: indices {start} to {start + size - 1} are out of range for axis {axis} of "
                    f"{list(extents)}"
                )
        key = tuple(slice(start, start + size) for start, size in zip(starts, sizes, strict=True))
        state.arrays[result] = state.arrays[source][(*key, ...)].reshape(shape)

    return run


def _local(op: memref.AllocaOp) -> Run:
    def run(state: _State) -> None:
        state.arrays[op.memref] = undefined(op.memref)

    return run


def _fill(op: FillOp) -> Run:
    value, target = op.inputs[0], op.outputs[0]

    def run(state: _State) -> None:
        state.arrays[target][...] = state.arrays[value]

    return run


def _copy(op: memref.CopyOp) -> Run:
    source, target = op.source, op.destination

    def run(state: _State) -> None:
        state.arrays[target][...] = state.arrays[source]

    return run


def _constant(op: arith.ConstantOp) -> Run:
    (value,) = evaluate(op, [])
    number = op.value.value.data if isinstance(op.value, IntegerAttr) else None

    def run(state: _State) -> None:
        state.arrays[op.result] = value
        if number is not None:
            state.indices[op.result] = number

    return run


def _attention(op: AttentionOp) -> Run:
    return lambda state: run_attention(op, state.arrays)


def _nothing(op: Operation) -> None:
    return None


RULES: dict[type[Operation], Callable[[Any], Run | None]] = {
    AttentionOp: _attention,
    GenericOp: _stage,
    ForallOp: _forall,
    scf.ForOp: _loop,
    affine.ApplyOp: _mapped,
    affine.MinOp: _mapped,
    memref.SubviewOp: _part,
    memref.AllocaOp: _local,
    FillOp: _fill,
    memref.CopyOp: _copy,
    arith.ConstantOp: _constant,
    gpu.BarrierOp: _nothing,
    scf.YieldOp: _nothing,
}
"""How each op of a kernel of tiles is prepared."""
