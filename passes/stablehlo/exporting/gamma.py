"""The polygamma functions, by their formula: what XLA makes of `chlo.polygamma` is wrong below 0."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.dialects.builtin import f32, f64
from xdsl.ir import Operation, SSAValue

from tensorgrad.dialects.tg.build import element_of
from tensorgrad.dialects.tg.elementwise import gamma
from tensorgrad.passes.stablehlo.exporting.writer import Rule, Writer

NAMES = {
    "abs": "abs",
    "add": "add",
    "floor": "floor",
    "log": "log",
    "mul": "multiply",
    "neg": "negate",
    "sub": "subtract",
    "truediv": "divide",
}
"""The ops for what `gamma.Symbol` appends, beside comparisons and selections."""


def _append(writer: Writer, name: str, values: Sequence[SSAValue]) -> SSAValue:
    if name in NAMES:
        return writer.one(f"stablehlo.{NAMES[name]}", values)
    if name == "select":
        condition, on_true, on_false = values
        return writer.select(condition, on_true, on_false)
    x, y = values
    return writer.compare(name, x, y)


def _polygamma(writer: Writer, op: gamma.PolygammaOp) -> SSAValue:
    element = element_of(op.operand)
    precision = gamma.F64 if element == f64 else gamma.F32
    x = writer.convert(writer[op.operand], f64 if element == f64 else f32)
    symbol = gamma.Symbol(partial(_append, writer), partial(writer.full_like, x), x)
    result = gamma.polygamma(gamma.SYMBOLS, symbol, op.order.value.data, precision)
    return writer.convert(result.value, element)


RULES: dict[type[Operation], Rule] = {gamma.PolygammaOp: _polygamma}
