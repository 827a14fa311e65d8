"""Finds values that are compared for equality, whose rounding must not change the result of the comparison.

The derivative of a maximum tests which elements equal it. The test is reliable if element and maximum are selected from
the same buffer, however that was rounded. It fails if one of them is rounded and the other is recomputed, as the rule
`recompute` of `fuse` often does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import FloatAttr
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from tensorgrad.passes.analyses.walking import reached
from tensorgrad.passes.buffers.lower_precision.flow import Flow, Value, is_product, sources_of, yielded

EQUALITIES = frozenset(arith.CMPF_COMPARISON_OPERATIONS.index(name) for name in ("oeq", "one", "ueq", "une"))

SELECTING = (arith.MaximumfOp, arith.MinimumfOp, arith.SelectOp)
"""The ops whose float result is one of their float operands."""


@dataclass
class _Origin:
    """The origin of a scalar, found by tracing it back through selections.

    Attributes:
        through: The values through which it passes unchanged.
        buffers: The values that it originates from.
        computed: Whether an operand of the selections is computed.
    """

    through: dict[Value, None] = field(default_factory=dict["Value", None])
    buffers: dict[Value, None] = field(default_factory=dict["Value", None])
    computed: bool = False


def compared(flow: Flow) -> set[Value]:
    """Returns the values that must stay in f32 because values that depend on them are compared for equality."""
    values = set[Value]()
    for stage in flow.stages:
        for op in list(stage.body.walk()):
            if not isinstance(op, arith.CmpfOp) or op.predicate.value.data not in EQUALITIES:
                continue
            if op.lhs is op.rhs or _is_constant(op.lhs) or _is_constant(op.rhs):
                continue
            origin = _Origin()
            for operand in (op.lhs, op.rhs):
                _trace(flow, stage, operand, origin)
            if origin.computed or len(origin.buffers) > 1:
                sources = [flow.value_of(source) for side in (op.lhs, op.rhs) for source in sources_of(stage, side)]
                values |= _behind_products([*origin.through, *origin.buffers, *sources])
    return values


def _behind_products(values: Iterable[Value]) -> set[Value]:
    """Returns the values and those that they are computed from, up to products, which are never recomputed."""
    results, pending = set[Value](), list(values)
    while pending:
        value = pending.pop()
        if value in results or (value.writers and all(is_product(stage, k) for stage, k in value.writers)):
            continue
        results.add(value)
        pending += value.made_from
    return results


def _trace(flow: Flow, stage: GenericOp, scalar: SSAValue, origin: _Origin) -> None:
    for value in reached(scalar, _selected_from):
        owner = value.owner
        if isinstance(owner, memref.LoadOp):
            _trace_value(flow, flow.value_of(owner.memref), origin)
        elif isinstance(value, BlockArgument) and value.block is stage.body.block:
            if value.index < len(stage.inputs):
                _trace_value(flow, flow.value_of(stage.inputs[value.index]), origin)
        elif not isinstance(owner, SELECTING) and not _is_exact(owner):
            origin.computed = True


def _selected_from(value: SSAValue) -> Sequence[SSAValue]:
    """Returns the values that an op selects among; none behind another op."""
    op = value.owner
    return op.operands[isinstance(op, arith.SelectOp) :] if isinstance(op, SELECTING) else ()


def _trace_value(flow: Flow, value: Value, origin: _Origin) -> None:
    if value in origin.through or value in origin.buffers:
        return
    if not value.writers:
        origin.buffers[value] = None
        return
    for stage, position in value.writers:
        last = yielded(stage, position) if isinstance(stage, GenericOp) else None
        if isinstance(stage, GenericOp) and last is not None and _is_selected(last):
            origin.through[value] = None
            _trace(flow, stage, last, origin)
        else:
            origin.buffers[value] = None


def _is_selected(scalar: SSAValue) -> bool:
    """Returns whether a scalar is one of the elements that a stage reads, or a selection among them."""
    owner = scalar.owner
    return isinstance(scalar, BlockArgument) or isinstance(owner, (*SELECTING, memref.LoadOp)) or _is_exact(owner)


def _is_exact(owner: object) -> bool:
    """Returns whether an op is a constant that any float type represents exactly: 0 or an infinity."""
    if not isinstance(owner, arith.ConstantOp):
        return False
    value = owner.value
    return isinstance(value, FloatAttr) and value.value.data in (0.0, float("inf"), float("-inf"))


def _is_constant(scalar: SSAValue) -> bool:
    return isinstance(scalar.owner, Operation) and isinstance(scalar.owner, arith.ConstantOp)
