"""Names and roles of a function's arguments and results, at every level.

They are attributes of arguments and results (`tg.name`, `tg.role`, `tg.formula`, `tg.value`, `tg.dtype`), and of
`buf.view`s once `plan-memory` has turned arguments into ranges of arenas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

NAME, ROLE, FORMULA, VALUE, DTYPE = "tg.name", "tg.role", "tg.formula", "tg.value", "tg.dtype"


@dataclass(frozen=True)
class Slot:
    """One argument or result of a function.

    Attributes:
        name: Unique among the arguments, or among the results, of one role.
        role: For arguments: parameter, state, input, scalar or constant. For results: output, gradient or update.
        formula: How the host computes a scalar, in terms of `step` and the settings.
        value: A constant's dense attribute.
        dtype: The short name of the element type if the buffer's differs: `u32`, whose buffers are signless, or `i8` if
            it is stored as i32.
    """

    name: str
    role: str
    formula: str | None = None
    value: Attribute | None = None
    dtype: str | None = None

    def attributes(self) -> dict[str, Attribute]:
        """Returns the slot as attributes of the IR."""
        result: dict[str, Attribute] = {NAME: StringAttr(self.name), ROLE: StringAttr(self.role)}
        if self.formula is not None:
            result[FORMULA] = StringAttr(self.formula)
        if self.value is not None:
            result[VALUE] = self.value
        if self.dtype is not None:
            result[DTYPE] = StringAttr(self.dtype)
        return result


def read_slot(attributes: dict[str, Attribute], name: str, role: str) -> Slot:
    """Returns the slot in `attributes`; `name` and `role` are the defaults."""

    def text(key: str, default: str) -> str:
        found = attributes.get(key)
        return found.data if isinstance(found, StringAttr) else default

    formula, dtype = attributes.get(FORMULA), attributes.get(DTYPE)
    return Slot(
        text(NAME, name),
        text(ROLE, role),
        formula.data if isinstance(formula, StringAttr) else None,
        attributes.get(VALUE),
        dtype.data if isinstance(dtype, StringAttr) else None,
    )


def _dictionaries(attributes: ArrayAttr[DictionaryAttr] | None, count: int) -> list[dict[str, Attribute]]:
    if attributes is None:
        return [{} for _ in range(count)]
    return [dict(entry.data) for entry in attributes.data]


def arguments_of(function: FuncOp) -> list[Slot]:
    """Returns the slots of a function's arguments; unnamed ones are `arg0`, `arg1`, … and are inputs."""
    count = len(function.body.block.args)
    entries = _dictionaries(function.arg_attrs, count)
    return [read_slot(entry, f"arg{i}", "input") for i, entry in enumerate(entries)]


def results_of(function: FuncOp) -> list[Slot]:
    """Returns the slots of a function's results; unnamed ones are `result0`, `result1`, … and are outputs."""
    count = len(function.function_type.outputs.data)
    entries = _dictionaries(function.res_attrs, count)
    return [read_slot(entry, f"result{i}", "output") for i, entry in enumerate(entries)]


def slots_attribute(slots: Sequence[Slot]) -> ArrayAttr[DictionaryAttr]:
    """Returns slots as the `arg_attrs` or `res_attrs` of a function."""
    return ArrayAttr([DictionaryAttr(slot.attributes()) for slot in slots])
