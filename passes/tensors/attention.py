"""Attention composed of `tg` ops inside a composite call, with a derivative that keeps no scores.

The derivative is FlashAttention-2's (Dao, 2023, https://arxiv.org/abs/2307.08691): the forward pass keeps the logarithm
of each row's sum of exponentials, from which the backward pass recomputes the weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import DictionaryAttr, LocationAttr, i32
from xdsl.ir import Attribute, Block, SSAValue

from tensorgrad.dialects.attention import Attention
from tensorgrad.dialects.tg import reduce
from tensorgrad.dialects.tg.base import tensor
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.dialects.tg.call import CallOp, ReturnOp
from tensorgrad.dialects.tg.elementwise import arithmetic, functions

FORWARD_NAME = "attention"
BACKWARD_NAME = "attention.backward"


def attention_call(attention: Attention, operands: Sequence[SSAValue], builder: TensorBuilder) -> CallOp:
    """Inserts an attention as a composite call.

    Args:
        attention: The parameters.
        operands: Queries, keys, values, biases and masks, with the shapes that `Attention` states.
        builder: The insertion point; the call gets its location.

    Returns:
        The call. Its results are the attention's result, `[groups, queries, values]`, and the logarithm of each row's
        sum of exponentials, `[groups, queries]`.
    """
    location = builder.location
    kinds = [operand.type for operand in operands]
    body = _forward(attention, operands, location)
    keep = Block(arg_types=kinds)
    again = CallOp.of(
        FORWARD_NAME,
        keep.args,
        _forward(attention, operands, location),
        recursive=True,
        composite=attention.attribute(),
    )
    again.location = location
    keep.add_op(again)
    _end(keep, [*again.results, *keep.args, *again.results], location)
    backward = _backward(attention, [*kinds, *(result.type for result in again.results)], location)
    wrt = range(3 + attention.biases)
    call = CallOp.of(FORWARD_NAME, operands, body, [keep, backward], wrt, composite=attention.attribute())
    call.location = location
    builder.insert(call)
    return call


def parameters_of(call: CallOp) -> Attention:
    """Returns the parameters of a composite attention."""
    return Attention.read(cast(DictionaryAttr, call.composite))


def _end(block: Block, values: Sequence[SSAValue], location: LocationAttr) -> None:
    last = ReturnOp(values)
    last.location = location
    block.add_op(last)
    for argument in block.args:
        argument.location = location


def _forward(attention: Attention, operands: Sequence[SSAValue], location: LocationAttr) -> Block:
    block = Block(arg_types=[operand.type for operand in operands])
    b = TensorBuilder(block, location=location)
    scores, allowed = _scores(b, attention, block.args)
    rows = tensor((attention.groups, attention.queries), element_of(scores))
    one, zero = b.full(rows, 1), b.full(rows, 0)
    # As `tensorgrad.softmax` composes it: with `where`, which may be true everywhere, or without.
    if attention.zeros:

        def masked(values: SSAValue, otherwise: float) -> SSAValue:
            return values if allowed is None else b.select(allowed, values, b.full_like(values, otherwise))

        top = b.unary(arithmetic.StopGradientOp, b.reduce(reduce.MaxOp, masked(scores, -math.inf), [2]))
        top = b.select(b.emit(functions.IsFiniteOp, [top]), top, zero)
        shifted = masked(b.sub(scores, _along(b, top, scores)), 0)
        powers = masked(b.unary(functions.ExpOp, shifted), 0)
        total = b.sum(powers, [2])
        total = b.select(b.compare("eq", total, zero), one, total)
        weights = b.div(powers, _along(b, total, scores))
        logarithm = b.unary(functions.LogOp, total)
    else:
        top = b.unary(arithmetic.StopGradientOp, b.reduce(reduce.MaxOp, scores, [2]))
        lowest = b.full(rows, -math.inf)
        top = b.select(b.compare("eq", top, lowest), zero, top)
        powers = b.unary(functions.ExpOp, b.sub(scores, _along(b, top, scores)))
        total = b.sum(powers, [2])
        nothing = b.compare("eq", total, zero)
        total = b.select(nothing, one, total)
        undefined = b.select(nothing, b.full(rows, math.nan), zero)
        weights = b.add(b.div(powers, _along(b, total, scores)), _along(b, undefined, scores))
        logarithm = b.select(nothing, lowest, b.unary(functions.LogOp, total))
    result = b.dot_general(weights, block.args[2], ([0], [0]), ([2], [1]))
    _end(block, [result, b.add(top, logarithm)], location)
    return block


def _backward(attention: Attention, kinds: Sequence[Attribute], location: LocationAttr) -> Block:
    """Returns the derivative: from operands, both results and their cotangents to those of all operands but masks."""
    block = Block(arg_types=[*kinds, *kinds[-2:]])
    b = TensorBuilder(block, location=location)
    operands = list(block.args[: attention.operands])
    result, total, by_result, by_total = block.args[attention.operands :]
    delta = b.sub(b.sum(b.mul(by_result, result), [2]), by_total)
    if attention.may_be_empty:
        # The result is NaN where all scores are -inf; the weights there must be 0, not exp(-inf - -inf).
        zero = b.full_like(total, 0)
        empty = b.compare("eq", total, b.full_like(total, -math.inf))
        delta, total = b.select(empty, zero, delta), b.select(empty, zero, total)
    inner = Block(arg_types=[value.type for value in (*operands, by_result, total, delta)])
    call = CallOp.of(
        BACKWARD_NAME,
        [*operands, by_result, total, delta],
        _backward_body(attention, inner, location),
        composite=attention.attribute(),
    )
    call.location = location
    b.insert(call)
    pieces = list(call.results)
    if attention.biases:
        # Cotangents of the scores' shape are computed outside the call: there they are erased if unused.
        _, by_scores = _score_cotangents(b, attention, [*operands, by_result, total, delta])
        pieces += [by_scores] * attention.biases
    _end(block, pieces, location)
    return block


def _backward_body(attention: Attention, block: Block, location: LocationAttr) -> Block:
    b = TensorBuilder(block, location=location)
    q, k = block.args[:2]
    weights, by_scores = _score_cotangents(b, attention, block.args)
    if attention.scale != 1:
        by_scores = b.scale(by_scores, attention.scale)
    by_q = b.dot_general(by_scores, k, ([0], [0]), ([2], [1]))
    by_k = b.dot_general(by_scores, q, ([0], [0]), ([1], [1]))
    by_v = b.dot_general(weights, block.args[attention.operands], ([0], [0]), ([1], [1]))
    _end(block, [by_q, by_k, by_v], location)
    return block


def _score_cotangents(b: TensorBuilder, attention: Attention, args: Sequence[SSAValue]) -> tuple[SSAValue, SSAValue]:
    """Returns the weights and the cotangent of the scaled scores, both `[groups, queries, keys]`."""
    by_result, total, delta = args[attention.operands :]
    scores, allowed = _scores(b, attention, args)
    shifted = b.sub(scores, _along(b, total, scores))
    nothing = b.full_like(scores, 0)
    if attention.zeros and allowed is not None:
        weights = b.select(allowed, b.unary(functions.ExpOp, b.select(allowed, shifted, nothing)), nothing)
    else:
        weights = b.unary(functions.ExpOp, shifted)
    by_weights = b.dot_general(by_result, args[2], ([0], [0]), ([2], [2]))
    by_scores = b.mul(weights, b.sub(by_weights, _along(b, delta, scores)))
    return weights, by_scores if allowed is None else b.select(allowed, by_scores, nothing)


def _scores(b: TensorBuilder, attention: Attention, args: Sequence[SSAValue]) -> tuple[SSAValue, SSAValue | None]:
    """Returns the scores and the mask; masked scores are `fill`, unless `zeros` makes their values irrelevant."""
    scores = b.dot_general(args[0], args[1], ([0], [0]), ([2], [2]))
    if attention.scale != 1:
        scores = b.scale(scores, attention.scale)
    for bias in args[3 : 3 + attention.biases]:
        scores = b.add(scores, bias)
    allowed = _causal(b, attention)
    for mask in args[3 + attention.biases : attention.operands]:
        allowed = mask if allowed is None else b.binary(arithmetic.AndOp, allowed, mask)
    if allowed is not None and not attention.zeros:
        scores = b.select(allowed, scores, b.full_like(scores, attention.fill))
    return scores, allowed


def _causal(b: TensorBuilder, attention: Attention) -> SSAValue | None:
    if attention.causal is None:
        return None
    period, keys = attention.period, attention.keys
    heads = attention.queries // period
    rows, columns = (b.iota((period, keys), axis, i32) for axis in (0, 1))
    if attention.causal:
        rows = b.add(rows, b.full_like(rows, attention.causal))
    allowed = b.broadcast(b.compare("le", columns, rows), (attention.groups, heads, period, keys), [2, 3])
    return b.reshape(allowed, (attention.groups, attention.queries, keys))


def _along(b: TensorBuilder, rows: SSAValue, scores: SSAValue) -> SSAValue:
    return b.broadcast(rows, shape_of(scores), [0, 1])
