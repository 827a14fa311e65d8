"""Chooses the values to store with fewer bits: those that depend on a network's products, unless they need f32.

The lists follow PyTorch's autocast (https://docs.pytorch.org/docs/stable/amp.html, "CUDA Ops that can autocast to
float16" and "to float32"): products and convolutions return f16, and so do elementwise ops on their results;
exponentials, logarithms, powers, sums, norms, softmaxes and losses are computed in f32. Here all arithmetic is in f32,
so the second list determines which results stay in f32.
"""

from __future__ import annotations

import math as numbers
from collections.abc import Sequence

from xdsl.dialects import arith, math, memref
from xdsl.dialects.builtin import FloatAttr, ModuleOp, f32
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from tensorgrad.dialects.attention import AttentionOp
from tensorgrad.dialects.buf import (
    KernelOp,
    element_of,
    is_reduction,
    iterators_of,
    loop_extents,
    pack_of,
    shape_of,
)
from tensorgrad.dialects.buf_control import ChooseOp, RunOp
from tensorgrad.dialects.functions import defined_functions, is_private
from tensorgrad.dialects.signature import Role, arguments_of
from tensorgrad.passes.analyses.walking import reached
from tensorgrad.passes.buffers.lower_precision.equality import compared
from tensorgrad.passes.buffers.lower_precision.flow import Flow, Value, is_product, yielded

WIDE: tuple[type[Operation], ...] = (
    math.ExpOp,
    math.Exp2Op,
    math.ExpM1Op,
    math.LogOp,
    math.Log1pOp,
    math.Log2Op,
    math.Log10Op,
    math.PowFOp,
    math.RsqrtOp,
    math.TanOp,
    math.SinhOp,
    math.CoshOp,
)
"""The elementwise ops of autocast's f32 list: their results leave the range of f16, or exhaust its precision."""

LARGEST = 65504.0
"""The largest finite f16."""

MOST_FOLDED = 16
"""The most elements of a pooling window; a maximum of more elements is a statistic of a row."""

KEPT_SHAPES = (Role.PARAMETER, Role.STATE, Role.UPDATE)
"""The roles of arguments whose shapes gradients and optimizer values share; cotangents of these shapes stay in f32."""


def chosen(module: ModuleOp, smallest: int, scale: float) -> dict[Value, float]:
    """Returns the values to store with fewer bits, each with the factor by which it is multiplied.

    Args:
        module: A module of `buf` functions before `plan-memory`.
        smallest: The fewest elements of a value that is worth changing.
        scale: The factor of cotangents; 0 leaves cotangents in f32.
    """
    flow = Flow(module)
    outputs, kept_sizes = _ends(module, flow)
    forward = flow.needed_for(outputs)
    products = [value for value in flow.values() if any(is_product(stage, k) for stage, k in value.writers)]
    updates = _of_updates(module, flow, forward, kept_sizes) if scale else set[Value]()
    results: dict[Value, float] = {}
    for value in flow.depending_on(products) - compared(flow):
        count = _elements(value)
        if count < smallest or not _is_temporary(value) or not all(may_round(stage, k) for stage, k in value.writers):
            continue
        if value in forward:
            results[value] = 1.0
        elif scale and value not in updates and count not in kept_sizes and not _meets_attention(value):
            results[value] = scale
    return results


def _ends(module: ModuleOp, flow: Flow) -> tuple[list[Value], set[int]]:
    """Returns the outputs of the module's functions, and the numbers of elements of parameters and states."""
    outputs, kept_sizes = list[Value](), set[int]()
    for function in functions(module):
        for argument, slot in zip(function.body.block.args, arguments_of(function), strict=True):
            if slot.role == Role.OUTPUT:
                outputs.append(flow.value_of(argument))
            if slot.role in KEPT_SHAPES:
                kept_sizes.add(numbers.prod(shape_of(argument)))
    return outputs, kept_sizes


def _of_updates(module: ModuleOp, flow: Flow, forward: set[Value], kept_sizes: set[int]) -> set[Value]:
    """Returns the values that optimizers compute: all that depend on state, host scalars, or products of gradients."""
    values: list[Value] = []
    for function in functions(module):
        for argument, slot in zip(function.body.block.args, arguments_of(function), strict=True):
            if slot.role in (Role.STATE, Role.SCALAR):
                values.append(flow.value_of(argument))
    for value in flow.values():
        gradients = [
            gradient
            for gradient in value.made_from
            if gradient not in forward and gradient.writers and _elements(gradient) in kept_sizes
        ]
        if len(gradients) == len(value.made_from) and any(is_product(stage, k) for stage, k in value.writers):
            values.append(value)
    return flow.depending_on(values)


def functions(module: ModuleOp) -> list[FuncOp]:
    """Returns the functions of the module that no other function runs."""
    return [function for function in defined_functions(module) if not is_private(function)]


def _elements(value: Value) -> int:
    return max((numbers.prod(shape_of(name)) for name in value.names), default=0)


def _is_temporary(value: Value) -> bool:
    """Returns whether a value is a temporary: all of its buffers are f32, unpacked, and accessed by kernels only."""
    return bool(value.writers) and not value.carried and all(_may_change(name) for name in value.names)


def _may_change(name: SSAValue) -> bool:
    if element_of(name) != f32 or pack_of(name) is not None:
        return False
    if isinstance(name, BlockArgument):
        around = name.block.parent_op()
        if isinstance(around, KernelOp):
            return around.collective is None  # all processes exchange the same element type
        return isinstance(around, FuncOp) and is_private(around)
    uses = (use.operation for use in name.uses)
    return isinstance(name.owner, memref.AllocOp) and all(isinstance(op, KernelOp | RunOp | ChooseOp) for op in uses)


def _meets_attention(value: Value) -> bool:
    """Returns whether an attention reads or writes a value; attentions don't support factors."""
    return any(isinstance(use.operation, AttentionOp) for name in value.names for use in name.uses)


def may_round(stage: GenericOp | AttentionOp, position: int) -> bool:
    """Returns whether an output of a stage may be stored with fewer bits."""
    if is_product(stage, position):
        return True
    if isinstance(stage, AttentionOp):
        return False
    if not is_reduction(stage):
        last = yielded(stage, position)
        is_wide = any(isinstance(value.owner, WIDE) for value in reached(last, _chosen))
        return not is_wide and not any(map(_is_beyond, reached(last)))
    return (
        type(yielded(stage, position).owner) in (arith.MaximumfOp, arith.MinimumfOp) and _folded(stage) <= MOST_FOLDED
    )


def _folded(stage: GenericOp) -> int:
    """Returns the number of elements that a reduction combines into one."""
    loops = zip(loop_extents(stage), iterators_of(stage), strict=True)
    return numbers.prod(extent for extent, kind in loops if kind == IteratorType.REDUCTION)


def _is_beyond(value: SSAValue) -> bool:
    """Returns whether a scalar is a finite constant outside the range of f16, such as a mask's score."""
    number = value.owner.value if isinstance(value.owner, arith.ConstantOp) else None
    return isinstance(number, FloatAttr) and LARGEST < abs(number.value.data) < numbers.inf


def _chosen(value: SSAValue) -> Sequence[SSAValue]:
    """Returns the values that a select chooses from; none behind another op."""
    op = value.owner
    return op.operands[1:] if isinstance(op, arith.SelectOp) else ()
