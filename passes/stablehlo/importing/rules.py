"""The table of all rules, by the name of the op of StableHLO."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tensorgrad.dialects.stablehlo.control import CompositeOp
from tensorgrad.passes.stablehlo.correspondence import RULE
from tensorgrad.passes.stablehlo.importing import contract, control, elementwise, index, reduce, shape, sort
from tensorgrad.passes.stablehlo.importing.reader import Reader, Rule

FAMILIES = (elementwise, shape, contract, reduce, index, sort, control)


def _composite(reader: Reader, op: CompositeOp) -> SSAValue | Sequence[SSAValue]:
    name = op.callee.data
    return control.call(reader, op) if name.startswith(RULE) else RULES[name](reader, op)


RULES: dict[str, Rule] = {
    "stablehlo.composite": _composite,
    **{name: rule for family in FAMILIES for name, rule in family.RULES.items()},
}
"""The rule of each op; an op without one has no counterpart."""
