"""Update functions: an optimizer's update of one parameter, as a function of the module.

An update function is private and has the attribute `tg.updates`, the names of the parameters that it updates. Its
arguments have the roles `gradient`, `parameter`, `state`, `scalar` and `norm`, the global norm of the gradients; it
returns the next gradient or, if it is the last of its optimizer, the next value of the parameter, and then that of each
state. The functions of one parameter run in the order of `tg.stage`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.hints import isa

from tensorgrad.dialects.signature import Role, Slot, arguments_of, results_of
from tensorgrad.dialects.tg.base import TensorOp, tensor
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.dialects.tg.leaves import ConstantOp
from tensorgrad.dialects.tg.shape import BroadcastOp
from tensorgrad.dialects.tg.traits import is_elementwise
from tensorgrad.passes.functions import return_of
from tensorgrad.passes.tensors.batch import repeated
from tensorgrad.passes.tensors.moving import copied

UPDATES, STAGE, OPTIMIZER, BATCHED = "tg.updates", "tg.stage", "tg.optimizer", "tg.batched"

Given: TypeAlias = Mapping[tuple[Role, str], SSAValue]
"""The values of arguments, by role and name."""


@dataclass(frozen=True)
class Update:
    """An update function.

    Attributes:
        function: The function in the IR.
    """

    function: FuncOp

    @property
    def block(self) -> Block:
        """The body."""
        return self.function.body.block

    @cached_property
    def slots(self) -> list[Slot]:
        """The arguments."""
        return arguments_of(self.function)

    @cached_property
    def parameters(self) -> list[str]:
        """The names of the parameters that it updates."""
        names = self.function.attributes[UPDATES]
        assert isa(names, ArrayAttr[StringAttr])
        return [name.data for name in names]

    @property
    def stage(self) -> int:
        """Its position among the functions of a parameter."""
        return self._number(STAGE)

    @property
    def optimizer(self) -> int:
        """The number of the optimizer that it belongs to."""
        return self._number(OPTIMIZER)

    @property
    def is_batched(self) -> bool:
        """Whether parameters of the same shape run through it as a batch."""
        return BATCHED in self.function.attributes

    @cached_property
    def states(self) -> dict[str, tuple[int, ...]]:
        """The shape of each state."""
        pairs = zip(self.slots, self.block.args, strict=True)
        return {slot.name: shape_of(value) for slot, value in pairs if slot.role == Role.STATE}

    @property
    def needs_norm(self) -> bool:
        """Whether it takes the global norm of the gradients."""
        return any(slot.role == Role.NORM for slot in self.slots)

    @property
    def is_last(self) -> bool:
        """Whether it returns the parameter's next value rather than a gradient."""
        return results_of(self.function)[0].role == Role.UPDATE

    @cached_property
    def is_elementwise(self) -> bool:
        """Whether each element of the results depends only on the same element of the arguments, and on scalars."""
        return self.structure is not None

    @cached_property
    def structure(self) -> Hashable | None:
        """A key that is equal for elementwise functions that differ only in the parameter's shape, or `None`."""
        names: dict[SSAValue, Hashable] = {argument: place for place, argument in enumerate(self.block.args)}
        shape = shape_of(self.block.args[0])
        if any(state != shape for state in self.states.values()):
            return None
        full = self.per_element()
        parts: list[Hashable] = [tuple(self.slots), tuple(element_of(argument) for argument in self.block.args)]
        for op in self.block.ops:
            if isinstance(op, ReturnOp):
                parts.append(tuple(names[value] for value in op.operands))
            elif isinstance(op, ConstantOp) and _is_splat(op):
                names[op.result] = ("constant", _number_of(op), element_of(op.result))
            elif isinstance(op, BroadcastOp) and op.operands[0] not in full:
                # The same function for a parameter without axes has no broadcast.
                names[op.result] = names[op.operands[0]]
            elif is_elementwise(op):
                operands = tuple(names[value] for value in op.operands)
                parts.append((op.name, operands, tuple(sorted(op.properties.items(), key=lambda item: item[0]))))
                names[op.results[0]] = ("result", len(parts))
            else:
                return None
        return tuple(parts)

    def per_element(self) -> set[SSAValue]:
        """Returns the values that depend on the element of the parameter."""
        arguments = zip(self.slots, self.block.args, strict=True)
        full: set[SSAValue] = {
            value for slot, value in arguments if slot.role in (Role.GRADIENT, Role.PARAMETER, Role.STATE)
        }
        for op in self.block.ops:
            if any(operand in full for operand in op.operands):
                full.update(op.results)
        return full

    def _number(self, name: str) -> int:
        attribute = self.function.attributes.get(name)
        return attribute.value.data if isinstance(attribute, IntegerAttr) else 0

    def _operands(self, values: Given) -> dict[SSAValue, SSAValue]:
        return {
            value: values[slot.role, slot.name]
            for slot, value in zip(self.slots, self.block.args, strict=True)
            if (slot.role, slot.name) in values
        }

    def applied(self, builder: TensorBuilder, values: Given) -> list[SSAValue]:
        """Copies the body to the builder's insertion point.

        Args:
            builder: The insertion point, with the location of the ops.
            values: The arguments; those of an elementwise function may have a different shape than its own.

        Returns:
            The results.
        """
        operands = self._operands(values)
        return _elementwise(self, builder, operands) if self.is_elementwise else _copied(self, builder, operands)

    def batched(self, builder: TensorBuilder, given: Given) -> list[SSAValue]:
        """Like `applied`, for several parameters at once: all arguments except scalars have a new leading axis."""
        block, operands = copied(self.function.body), self._operands(given)
        known: dict[SSAValue, SSAValue] = {}
        for argument, old in zip(block.args, self.block.args, strict=True):
            value = operands.get(old)
            if value is None:
                continue
            if len(shape_of(value)) == len(shape_of(argument)):
                argument.replace_all_uses_with(value)
            else:
                known[argument] = value
        terminator = block.last_op
        assert terminator is not None
        values = list(terminator.operands)
        Rewriter.erase_op(terminator)
        return repeated(block, known, values, builder)


def updates_of(module: ModuleOp) -> list[Update]:
    """Returns the update functions of a module."""
    return [Update(op) for op in module.ops if isinstance(op, FuncOp) and UPDATES in op.attributes]


def state_shapes(module: ModuleOp, function: FuncOp) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of all state of update functions, by the names that `append-updates` gives it.

    Args:
        module: The module that contains the update functions.
        function: The function whose parameters they update.
    """
    arguments = zip(arguments_of(function), function.body.block.args, strict=True)
    parameters = {slot.name: shape_of(value) for slot, value in arguments if slot.role == Role.PARAMETER}
    return {
        f"{kind}/{name}": parameters[name] if update.is_elementwise else shape
        for update in updates_of(module)
        for name in update.parameters
        for kind, shape in update.states.items()
    }


def drop_updates(module: ModuleOp) -> None:
    """Removes the update functions of a module."""
    for update in updates_of(module):
        Rewriter.erase_op(update.function)


def mark(function: FuncOp, parameters: Sequence[str], stage: int, optimizer: int, batched: bool) -> None:
    """Marks a function as an update function."""
    function.attributes[UPDATES] = ArrayAttr([StringAttr(name) for name in parameters])
    function.attributes[STAGE] = IntegerAttr(stage, i64)
    if optimizer:
        function.attributes[OPTIMIZER] = IntegerAttr(optimizer, i64)
    if batched:
        function.attributes[BATCHED] = UnitAttr()


def _is_splat(op: ConstantOp) -> bool:
    value = op.properties["value"]
    return isinstance(value, DenseIntOrFPElementsAttr) and value.is_splat()


def _number_of(op: ConstantOp) -> float | int:
    value = op.properties["value"]
    assert isinstance(value, DenseIntOrFPElementsAttr)
    return value.get_values()[0]


def _copied(update: Update, builder: TensorBuilder, known: dict[SSAValue, SSAValue]) -> list[SSAValue]:
    for op in update.block.ops:
        if not isinstance(op, ReturnOp):
            copy = op.clone(known)
            copy.location = builder.location
            builder.insert(copy)
    return [known[value] for value in return_of(update.function).operands]


def _elementwise(update: Update, builder: TensorBuilder, known: dict[SSAValue, SSAValue]) -> list[SSAValue]:
    """Copies an elementwise body for parameters of any shape. Values common to all elements remain scalars."""
    full = update.per_element()
    shape = next(shape_of(value) for old, value in known.items() if old in full)
    numbers: dict[SSAValue, ConstantOp] = {}

    def read(value: SSAValue, extents: tuple[int, ...]) -> SSAValue:
        if value in numbers:
            return builder.full(tensor(extents, element_of(value)), _number_of(numbers[value]))
        return builder.broadcast(known[value], extents, []) if value not in full else known[value]

    for op in update.block.ops:
        if isinstance(op, ReturnOp):
            continue
        result = op.results[0]
        if isinstance(op, ConstantOp):
            numbers[result] = op
        elif isinstance(op, BroadcastOp):
            (operand,) = op.operands
            if operand in numbers:
                numbers[result] = numbers[operand]
            else:
                known[result] = known[operand]
        else:
            known[result] = _emitted(op, builder, [read(x, shape if result in full else ()) for x in op.operands])
    return [read(value, shape) for value in return_of(update.function).operands]


def _emitted(op: Operation, builder: TensorBuilder, operands: Sequence[SSAValue]) -> SSAValue:
    assert isinstance(op, TensorOp)
    return builder.emit(type(op), operands, **op.properties)
