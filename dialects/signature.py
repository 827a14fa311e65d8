"""Names and roles of a function's arguments and results, at every level.

They are attributes of arguments and results (`tg.name`, `tg.role`, `tg.formula`, `tg.value`, `tg.dtype`), and of
`buf.view`s once `plan-memory` has turned arguments into ranges of arenas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    ShapedType,
    StringAttr,
    TensorType,
    UnrankedMemRefType,
    UnrankedTensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from tensorgrad.dialects.functions import is_private

NAME, ROLE, FORMULA, VALUE, DTYPE = "tg.name", "tg.role", "tg.formula", "tg.value", "tg.dtype"

UNRANKED = (UnrankedMemRefType, UnrankedTensorType)
"""The types of tensors and buffers that don't even have a number of axes."""


class Role(StrEnum):
    """What a value is for, in the words of the IR and of files: arguments, results, and the buffers that hold them."""

    PARAMETER = "parameter"
    """Trained."""
    STATE = "state"
    """Kept between steps, such as an optimizer's."""
    INPUT = "input"
    """Passed by the caller."""
    SCALAR = "scalar"
    """Computed on the host."""
    CONSTANT = "constant"
    """Known when the program is compiled."""
    OUTPUT = "output"
    """A result for the caller."""
    GRADIENT = "gradient"
    """A result: the gradient of the parameter of its name."""
    UPDATE = "update"
    """A result: the new value of the parameter or state of its name."""
    NORM = "norm"
    """The global norm of the gradients, an argument of an optimizer's update."""
    WORKSPACE = "workspace"
    """A buffer of what only the program itself reads."""
    COUNTER = "counter"
    """A buffer of the numbers from 0 on, each at an aligned offset."""

    def __repr__(self) -> str:
        """Returns the text in quotes, as messages show names."""
        return repr(self.value)


GIVEN = (Role.PARAMETER, Role.STATE, Role.INPUT, Role.SCALAR)
"""The roles of tensors that are arguments."""
GIVEN_TO_UPDATES = (*GIVEN, Role.GRADIENT, Role.NORM)
"""The roles of those of private functions, which may be an optimizer's update."""
RETURNED = (Role.OUTPUT, Role.GRADIENT, Role.UPDATE)
"""The roles of results. Buffers for them are arguments, and so are constants then."""


@dataclass(frozen=True)
class Slot:
    """One argument or result of a function.

    Attributes:
        name: Unique among the arguments, or among the results, of one role; gradients of several results share one.
        role: For arguments one of `GIVEN` or, in private functions, `GIVEN_TO_UPDATES`; for results one of `RETURNED`.
        formula: How the host computes a scalar, in terms of `step` and the settings.
        value: A constant's dense attribute.
        dtype: The short name of the element type if the buffer's differs: `u32`, whose buffers are signless, or `i8` if
            it is stored as i32.
    """

    name: str
    role: Role
    formula: str | None = None
    value: Attribute | None = None
    dtype: str | None = None

    def attributes(self) -> dict[str, Attribute]:
        """Returns the slot as attributes of the IR."""
        result: dict[str, Attribute] = {NAME: StringAttr(self.name), ROLE: StringAttr(str(self.role))}
        if self.formula is not None:
            result[FORMULA] = StringAttr(self.formula)
        if self.value is not None:
            result[VALUE] = self.value
        if self.dtype is not None:
            result[DTYPE] = StringAttr(self.dtype)
        return result


def read_slot(attributes: dict[str, Attribute], name: str = "", role: Role = Role.WORKSPACE) -> Slot:
    """Returns the slot in `attributes`; `name` and `role` are the defaults.

    Raises:
        VerifyException: There is no such role, or an attribute is no text.
    """
    own_name, own_role = _text(attributes, NAME), _text(attributes, ROLE)
    return Slot(
        name if own_name is None else own_name,
        role if own_role is None else role_of(own_role),
        _text(attributes, FORMULA),
        attributes.get(VALUE),
        _text(attributes, DTYPE),
    )


def _text(attributes: dict[str, Attribute], key: str) -> str | None:
    attribute = attributes.get(key)
    if attribute is not None and not isinstance(attribute, StringAttr):
        raise VerifyException(f"{key} must be a string, got {attribute}")
    return None if attribute is None else attribute.data


def role_of(text: str) -> Role:
    """Returns the role of a text of the IR.

    Raises:
        VerifyException: There is no such role.
    """
    try:
        return Role(text)
    except ValueError:
        raise VerifyException(f"role {text!r} is not one of {', '.join(Role)}") from None


def _dictionaries(attributes: ArrayAttr[DictionaryAttr] | None, count: int) -> list[dict[str, Attribute]]:
    if attributes is None:
        return [{} for _ in range(count)]
    return [dict(entry.data) for entry in attributes.data]


def arguments_of(function: FuncOp) -> list[Slot]:
    """Returns the slots of a function's arguments; unnamed ones are `arg0`, `arg1`, … and are inputs."""
    count = len(function.function_type.inputs.data)
    entries = _dictionaries(function.arg_attrs, count)
    return [read_slot(entry, f"arg{i}", Role.INPUT) for i, entry in enumerate(entries)]


def results_of(function: FuncOp) -> list[Slot]:
    """Returns the slots of a function's results; unnamed ones are `result0`, `result1`, … and are outputs."""
    count = len(function.function_type.outputs.data)
    entries = _dictionaries(function.res_attrs, count)
    return [read_slot(entry, f"result{i}", Role.OUTPUT) for i, entry in enumerate(entries)]


def slots_attribute(slots: Sequence[Slot]) -> ArrayAttr[DictionaryAttr]:
    """Returns slots as the `arg_attrs` or `res_attrs` of a function."""
    return ArrayAttr([DictionaryAttr(slot.attributes()) for slot in slots])


def verify_signatures(module: ModuleOp) -> None:
    """Checks the signature of each function of a module, which xDSL's verifier knows nothing of.

    Raises:
        VerifyException: One is invalid; the message names the function and the argument or result.
    """
    for op in module.ops:
        if isinstance(op, FuncOp):
            verify_signature(op)


def verify_signature(function: FuncOp) -> None:
    """Checks the types, names and roles of a function's arguments and results.

    Raises:
        VerifyException: A shape is not static, an attribute is not a string, a role is unknown or is none of arguments
            or of results, two arguments or two results have one name and role, or an update has no parameter or state
            of its name and type. Several gradients of a parameter may have its name: each is that of another result. A
            private function may be a part of another one, which has the parameter or state of its update.
    """
    kinds, where = function.function_type, f"@{function.sym_name.data}"
    given = GIVEN_TO_UPDATES if is_private(function) else GIVEN
    arguments = _verified(f"{where}: argument", kinds.inputs.data, function.arg_attrs, Slot("arg", Role.INPUT), given)
    result = Slot("result", Role.OUTPUT)
    results = _verified(f"{where}: result", kinds.outputs.data, function.res_attrs, result, RETURNED)
    for (name, role), kind in (*arguments.items(), *results.items()):
        olds = [arguments.get((name, old)) for old in (Role.PARAMETER, Role.STATE)]
        if role is Role.UPDATE and kind not in olds and not is_private(function):
            raise VerifyException(f"{where}: update {name!r} of {kind} needs a parameter or state of its name and type")


def _verified(
    what: str,
    kinds: Sequence[Attribute],
    attributes: ArrayAttr[DictionaryAttr] | None,
    default: Slot,
    roles: Sequence[Role],
) -> dict[tuple[str, Role], Attribute]:
    """Returns the types of arguments, or of results, by name and role."""
    if attributes is not None and len(attributes.data) != len(kinds):
        raise VerifyException(f"{what}s: {len(kinds)} must have as many dictionaries, got {len(attributes.data)}")
    types: dict[tuple[str, Role], Attribute] = {}
    for number, (kind, entry) in enumerate(zip(kinds, _dictionaries(attributes, len(kinds)), strict=True)):
        here = f"{what} {number}"
        is_static = kind.has_static_shape() if isinstance(kind, ShapedType) else not isinstance(kind, UNRANKED)
        if not is_static:
            raise VerifyException(f"{here}: shapes must be static, got {kind}")
        for key in (NAME, ROLE, FORMULA, DTYPE):
            if not isinstance(entry.get(key, StringAttr("")), StringAttr):
                raise VerifyException(f"{here}: {key} must be a string, got {entry[key]}")
        try:
            slot = read_slot(entry, f"{default.name}{number}", default.role)
        except VerifyException as error:
            raise VerifyException(f"{here}: {error}") from error
        if isinstance(kind, TensorType) and slot.role not in roles:
            raise VerifyException(f"{here}: the role must be one of {', '.join(roles)}, got {slot.role!r}")
        if (slot.name, slot.role) in types and slot.role is not Role.GRADIENT:
            raise VerifyException(f"{here}: {slot.role!s} {slot.name!r} is there already")
        types[slot.name, slot.role] = kind
    return types
