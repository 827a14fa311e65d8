"""Loops, branches, and ops across processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, TensorProto, helper
from xdsl.ir import Block, SSAValue

from tensorgrad.dialects.tg import collective
from tensorgrad.dialects.tg.build import shape_of
from tensorgrad.dialects.tg.call import returned
from tensorgrad.dialects.tg.control import CondOp, ScanOp
from tensorgrad.exporters.onnx.graph import Graph, dtype_of, refusal, value_info
from tensorgrad.exporters.onnx.table import emit_block, rule


@rule(ScanOp)
def _scan(graph: Graph, op: ScanOp) -> Sequence[str]:
    if not op.count:
        stacks = [graph.constant(np.zeros(shape_of(stack), dtype_of(stack))) for stack in op.results[op.carries :]]
        return [*(graph.value(value) for value in op.init), *stacks]
    consts, carried, slices = op.arguments
    body = graph.inner()
    for argument, value in zip(consts, op.consts, strict=True):
        body.bind(argument, graph.value(value))
    inputs = [value_info(_declared(body, argument), argument) for argument in (*carried, *slices)]
    sequences = [graph.value(value) for value in op.xs]
    if not sequences:  # ONNX takes the trip count from a sequence
        sequences = [graph.constant(np.zeros(op.count, np.bool_))]
        inputs.append(helper.make_tensor_value_info(graph.file.unique("position"), TensorProto.BOOL, ()))
    emit_block(body, op.body.block)
    values = returned(op.body.block)
    outputs = [value_info(name, value) for name, value in zip(body.outputs_of(values), values, strict=True)]
    stacks, reverse = len(values) - op.carries, int(op.reverse is not None)
    attributes: dict[str, Any] = {
        "body": body.proto("body", inputs, outputs),
        "num_scan_inputs": len(sequences),
        "scan_input_directions": [reverse] * len(sequences),
        "scan_output_directions": [reverse] * stacks or None,
    }
    operands = [*(graph.value(value) for value in op.init), *sequences]
    return graph.nodes_of("Scan", *operands, outputs=len(op.results), **attributes)


def _declared(body: Graph, argument: SSAValue) -> str:
    """Binds an argument of a body to a new name, and returns it."""
    name = body.file.unique("argument")
    body.bind(argument, name)
    return name


@rule(CondOp)
def _cond(graph: Graph, op: CondOp) -> Sequence[str]:
    operands = [graph.value(value) for value in op.inputs]
    then, otherwise = (_branch(graph, block, operands) for block in op.branches)
    predicate = graph.value(op.predicate)
    return graph.nodes_of("If", predicate, outputs=len(op.results), then_branch=then, else_branch=otherwise)


def _branch(graph: Graph, block: Block, operands: Sequence[str]) -> GraphProto:
    """Returns the graph of a branch, which sees the operands by their names outside."""
    branch = graph.inner()
    for argument, name in zip(block.args, operands, strict=True):
        branch.bind(argument, name)
    emit_block(branch, block)
    values = returned(block)
    names = branch.outputs_of(values)
    return branch.proto("branch", [], [value_info(name, value) for name, value in zip(names, values, strict=True)])


@rule(*collective.OPS)
def _alone(graph: Graph, op: collective.CollectiveOp) -> str:
    if op.size != 1:
        raise refusal(op, f"ONNX has no groups of processes, and this is one of {op.size}")
    return graph.value(op.operand)
