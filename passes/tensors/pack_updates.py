"""The pass `pack-updates`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import DiagnosticException
from xdsl.utils.hints import isa

from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.signature import Role, arguments_of
from tensorgrad.dialects.tg.control import CondOp, ScanOp
from tensorgrad.passes.functions import order_parameters
from tensorgrad.passes.levels import TENSORS, LevelPass
from tensorgrad.passes.tensors.packing import packed
from tensorgrad.passes.tensors.update_plans import Pair, UpdatePlan, pairs_of, plans_of

ROWS = "tg.rows"
"""The attribute of a function that lists the parameters of each chunk of each row, by name."""

Rows: TypeAlias = Sequence[Sequence[Sequence[str]]]
"""The names of parameters by row and chunk."""


@dataclass(frozen=True)
class PackUpdatesPass(LevelPass):
    """Chooses which parameters are updated together, in rows, for `append-updates`.

    Expects a function whose results of role `gradient` have the names of arguments of role `parameter`, as `grad`
    returns it, and update functions, as `trace-optimizer` makes them. Guarantees: if an update function needs the norm
    of all gradients or runs as a batch, the function has an attribute `tg.rows`. It lists rows of gradients, each a
    list of chunks, which are lists of the parameters that one kernel updates. No row or chunk takes more bytes than the
    limit, and the parameters of a chunk are consecutive among the function's arguments. Functions with loops or
    branches get no rows.

    One kernel can update all parameters of a row that are updated alike. That pays if all gradients are needed before
    any parameter changes, as for their global norm, or if matrices of one shape are updated as a batch. Other updates
    are not packed, since they can run in the kernels that compute the gradients.

    Attributes:
        function: The function; may be omitted if there is only one.
        row_bytes: The most bytes of parameters, gradients or state in a row: the target's limits on bindings and
            buffers.
    """

    name = "pack-updates"
    levels = TENSORS

    function: str | None = None
    row_bytes: int = 1 << 27

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        function = find_function(op, self.function)
        where = f"{self.name}: @{function.sym_name.data}"
        plans = plans_of(op, function, where)
        if any(isinstance(inner, ScanOp | CondOp) for inner in function.walk()):
            return
        rows: list[list[list[str]]] = []
        for plan in plans:
            if plan.first_in_rows is not None:
                _bring_together(function, plan, where)
                rows += _rows_of(function, plan, where, self.row_bytes)
        if rows:
            function.attributes[ROWS] = ArrayAttr(
                [ArrayAttr([ArrayAttr([StringAttr(name) for name in chunk]) for chunk in row]) for row in rows]
            )


def chosen_rows(function: FuncOp, where: str) -> Rows:
    """Returns the rows that `pack-updates` chose for a function; none if it has no such attribute.

    Raises:
        DiagnosticException: The attribute is not a list of rows.
    """
    attribute = function.attributes.get(ROWS)
    if attribute is None:
        return []
    if not isa(attribute, ArrayAttr[ArrayAttr[ArrayAttr[StringAttr]]]):
        raise DiagnosticException(f"{where}: {ROWS} must be an array of rows, each an array of arrays of names")
    return [[[name.data for name in chunk] for chunk in row] for row in attribute]


def _bring_together(function: FuncOp, plan: UpdatePlan, where: str) -> None:
    """Reorders the parameters among the arguments: those updated alike are consecutive, those not in the plan last."""
    names = [slot.name for slot in arguments_of(function) if slot.role == Role.PARAMETER]
    by_name = {pair.name: pair for pair in _pairs(function, plan, where)}
    ranks: dict[Hashable, int] = {}

    def rank(name: str) -> int:
        if name not in by_name:
            return len(names)
        return ranks.setdefault(plan.alike(by_name[name]), len(ranks))

    order_parameters(function, sorted(names, key=rank))


def _rows_of(function: FuncOp, plan: UpdatePlan, where: str, limit: int) -> list[list[list[str]]]:
    """Divides the parameters of a plan, in their order among the arguments, into rows and chunks."""
    places = {slot.name: place for place, slot in enumerate(arguments_of(function))}
    pairs = sorted(_pairs(function, plan, where), key=lambda pair: places[pair.name])
    members = [pair.member(plan.alike(pair)) for pair in pairs]
    rows = packed([member for member in members if member.size], limit)
    return [[[member.item.name for member in chunk.members] for chunk in row.chunks] for row in rows]


def _pairs(function: FuncOp, plan: UpdatePlan, where: str) -> list[Pair]:
    return [pair for pair in pairs_of(function, where) if pair.name in plan.computed]
