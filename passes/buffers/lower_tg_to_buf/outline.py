"""Outlines functions with loops and branches: each run of ops between them, and each region, becomes a function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TypeAlias, cast

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import FunctionType, IntegerAttr, LocationAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import buffer_type
from tensorgrad.dialects.buf_control import ChooseOp, RunOp
from tensorgrad.dialects.signature import Role, Slot, arguments_of, results_of, slots_attribute
from tensorgrad.dialects.tg.base import Tensor, TensorOp
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.dialects.tg.call import CallOp, returned
from tensorgrad.dialects.tg.control import CondOp, ScanOp
from tensorgrad.dialects.tg.shape import PackOp
from tensorgrad.dialects.tg.traits import is_view
from tensorgrad.passes.analyses.storage import LOOPS
from tensorgrad.passes.buffers.lower_tg_to_buf.scalars import storage, typed
from tensorgrad.passes.functions import block_of, return_of, set_signature
from tensorgrad.passes.tensors.packing import concatenated

Lower: TypeAlias = Callable[[FuncOp], None]
"""Lowers a function without loops and branches in place."""

ControlOp: TypeAlias = ScanOp | CondOp

PlainOp: TypeAlias = TensorOp | CallOp
"""An op that becomes kernels: a tensor op, or a composite call."""


@dataclass
class _Part:
    """A run of ops without loops and branches, and its results.

    Attributes:
        ops: The ops in order.
        results: The values used elsewhere, each with the buffer that receives it and the slot of the result.
    """

    ops: list[PlainOp] = field(default_factory=list["PlainOp"])
    results: list[tuple[SSAValue, SSAValue, Slot]] = field(default_factory=list[tuple[SSAValue, SSAValue, Slot]])


def has_control(function: FuncOp) -> bool:
    """Returns whether a function has loops or branches."""
    return any(isinstance(op, ControlOp) for op in function.body.block.ops)


class Outlining:
    """Lowers one function with loops and branches, and their regions.

    Args:
        module: The module that receives the new functions, which are private.
        function: The function, which is lowered in place.
        lower: Lowers a part.
        is_called: Whether the function is the body of a loop or a branch.
    """

    def __init__(self, module: ModuleOp, function: FuncOp, lower: Lower, is_called: bool = False):
        self.module, self.function, self.lower, self.is_called = module, function, lower, is_called
        self.name = function.sym_name.data
        self.old = block_of(function)
        self.values = list(return_of(function).operands)
        self.arguments = [typed(slot, a.type) for slot, a in zip(arguments_of(function), self.old.args, strict=True)]
        self.results = [typed(slot, v.type) for slot, v in zip(results_of(function), self.values, strict=True)]
        self.block = Block()
        self.buffers: dict[SSAValue, SSAValue] = {}
        self.slots: dict[SSAValue, Slot] = {}
        self.constants: list[Slot] = []
        self.number = 0
        self.depth = loops_of(function)

    def run(self) -> None:
        """Lowers the function."""
        _without_empty_loops(self.old)
        _with_rows_copied(self.old)
        _with_views_where_they_are_read(self.old)
        self.values = list(return_of(self.function).operands)
        for argument, slot in zip(self.old.args, self.arguments, strict=True):
            buffer = self._argument(argument)
            self.buffers[argument], self.slots[argument] = buffer, slot
        self.outputs = [self._argument(value) for value in self.values]
        parts, controls = self._split()
        self._place_results(parts, controls)
        for position, part in enumerate(parts):
            control = controls[position] if position < len(controls) else None
            self._export(part, control)
            inits = [self._fresh(value, part) for value in control.init] if isinstance(control, ScanOp) else []
            self._run(part)
            if isinstance(control, ScanOp):
                self._loop(control, inits)
            elif control is not None:
                self._branch(control)
        self._finish()

    # Taking apart

    def _split(self) -> tuple[list[_Part], list[ControlOp]]:
        """Returns the loops and branches, and the runs of ops before, between and after them."""
        parts, controls = [_Part()], list[ControlOp]()
        for op in self.old.ops:
            if isinstance(op, PlainOp):
                parts[-1].ops.append(op)
            elif isinstance(op, ControlOp):
                controls.append(op)
                parts.append(_Part())
            elif not isinstance(op, func.ReturnOp):
                raise DiagnosticException(f"lower-tg-to-buf expects tg ops, got {op.name}")
        return parts, controls

    def _place_results(self, parts: Sequence[_Part], controls: Sequence[ControlOp]) -> None:
        """Determines which part writes each result of the function. A loop may write its stacked results directly."""
        maker: dict[SSAValue, int] = {
            result: number for number, part in enumerate(parts) for op in part.ops for result in op.results
        }
        for value, buffer, slot in zip(self.values, self.outputs, self.results, strict=True):
            number = maker.get(value)
            stacks = value.owner.results[value.owner.carries :] if isinstance(value.owner, ScanOp) else ()
            if number is None and value in stacks and value not in self.buffers and slot.role != Role.UPDATE:
                self.buffers[value] = buffer
                continue
            number = len(parts) - 1 if number is None else number
            if slot.role == Role.UPDATE and not self._may_update(slot, parts[number + 1 :], controls[number:]):
                slot = replace(slot, role=Role.OUTPUT)
            if self.is_called:
                slot = replace(slot, name=f"r{len(parts[number].results)}", role=Role.OUTPUT)
            parts[number].results.append((value, buffer, slot))
            if slot.role != Role.UPDATE:
                self.buffers.setdefault(value, buffer) if value in maker else None

    def _may_update(self, slot: Slot, parts: Sequence[_Part], controls: Sequence[ControlOp]) -> bool:
        """Returns whether no later op reads the old value."""
        old = [a for a, s in self.slots.items() if s.name == slot.name and s.role in (Role.PARAMETER, Role.STATE)]
        later: list[Operation] = [*(op for part in parts for op in part.ops), *controls]
        read = {operand for op in later for operand in op.operands}
        return not any(argument in read or argument in self.values for argument in old)

    def _export(self, part: _Part, following: ControlOp | None) -> None:
        """Allocates buffers for the values of a part that are used outside it; ops without operands are recomputed."""
        own = set[Operation](part.ops)
        for op in part.ops:
            for value in op.results:
                outside = [use for use in value.uses if use.operation not in own]
                used = any(
                    (op.operands or isinstance(use.operation, ControlOp))
                    and not isinstance(use.operation, func.ReturnOp)
                    and not (_is_init(use.operation, use.index) and (not op.operands or use.operation is following))
                    for use in outside
                )
                if used and value not in self.buffers:
                    self.buffers[value] = self._alloc(value)
                    part.results.append((value, self.buffers[value], self._result_slot(value)))

    def _fresh(self, value: SSAValue, part: _Part) -> SSAValue:
        """Makes a part store a value in a buffer of its own, which a loop may overwrite, and returns the buffer."""
        buffer = self._alloc(value)
        part.results.append((value, buffer, self._result_slot(value)))
        return buffer

    def _result_slot(self, value: SSAValue) -> Slot:
        self.number += 1
        return typed(Slot(f"value{self.number}", Role.OUTPUT), value.type)

    # Putting together

    def _run(self, part: _Part) -> None:
        """Outlines a part into a function, lowers it, and emits the call."""
        if not part.results:
            return
        needed = _needed(part)
        defined = {result for op in needed for result in op.results}
        used = [*(operand for op in needed for operand in op.operands), *(value for value, _, _ in part.results)]
        elsewhere = list(dict.fromkeys(value for value in used if value not in defined))
        leaves = [value.owner for value in elsewhere if isinstance(value.owner, TensorOp) and not value.owner.operands]
        needed = [*leaves, *needed]
        outside = [value for value in elsewhere if value.owner not in leaves]
        block = Block(arg_types=[value.type for value in outside])
        known: dict[SSAValue, SSAValue] = dict(zip(outside, block.args, strict=True))
        for op in needed:
            clone = op.clone(known)
            for old, new in zip(op.walk(), clone.walk(), strict=True):
                new.location = old.location
            block.add_op(clone)
            for old_result, new_result in zip(op.results, clone.results, strict=True):
                known[old_result] = new_result
                new_result.name_hint = old_result.name_hint
        slots = [self._slot_inside(value, number) for number, value in enumerate(outside)]
        results = [known[value] for value, _, _ in part.results]
        location = needed[-1].location if needed else self.function.location
        function = self._function(f"{self.name}.part", block, results, location)
        set_slots(function, slots, [slot for _, _, slot in part.results])
        self.lower(function)
        consts = [self._buffer(value) for value in outside]
        groups = [consts, [], [], self._constants_of(function), [], [buffer for _, buffer, _ in part.results]]
        self._add(RunOp.of(function.sym_name.data, groups), location)

    def _slot_inside(self, value: SSAValue, number: int) -> Slot:
        slot = self.slots.get(value)
        return typed(Slot(f"a{number}", Role.INPUT), value.type) if slot is None or self.is_called else slot

    def _loop(self, op: ScanOp, inits: Sequence[SSAValue]) -> None:
        inside, carries, slices = op.arguments
        block = op.body.block
        op.body.detach_block(block)
        slots = [Slot(f"c{i}", Role.INPUT) for i in range(len(inside))]
        slots += [Slot(f"carry{i}/value", Role.STATE) for i in range(len(carries))]
        slots += [Slot(f"x{i}", Role.INPUT) for i in range(len(slices))]
        values = returned(block)
        results = [Slot(f"carry{i}/value", Role.UPDATE) for i in range(len(carries))]
        results += [Slot(f"y{i}", Role.OUTPUT) for i in range(len(values) - len(carries))]
        function = self._region(f"{self.name}.body", block, op.location, slots, results, self.depth + 1)
        lasts = [self._own(result) for result in op.results[: op.carries]]
        stacks = [self._own(result) for result in op.results[op.carries :]]
        consts, xs = [self._buffer(value) for value in op.consts], [self._buffer(value) for value in op.xs]
        groups = [consts, inits, xs, self._constants_of(function), lasts, stacks]
        self._add(RunOp.of(function.sym_name.data, groups, op.count, op.reverse is not None), op.location)

    def _branch(self, op: CondOp) -> None:
        functions: list[FuncOp] = []
        for region in (op.then, op.otherwise):
            block = region.block
            region.detach_block(block)
            slots = [Slot(f"c{i}", Role.INPUT) for i in range(len(block.args))]
            results = [Slot(f"y{i}", Role.OUTPUT) for i in range(len(op.results))]
            functions.append(self._region(f"{self.name}.branch", block, op.location, slots, results, self.depth))
        predicate, consts = self._buffer(op.predicate), [self._buffer(value) for value in op.inputs]
        constants = [self._constants_of(function) for function in functions]
        outs = [self._own(result) for result in op.results]
        names = functions[0].sym_name.data, functions[1].sym_name.data
        self._add(ChooseOp.of(names, [[predicate], consts, *constants, outs]), op.location)

    def _region(
        self,
        name: str,
        block: Block,
        location: LocationAttr,
        slots: Sequence[Slot],
        results: Sequence[Slot],
        depth: int,
    ) -> FuncOp:
        """Outlines a region's block into a function, and lowers it."""
        values, last = returned(block), block.last_op
        assert last is not None
        last.detach()
        outputs = list(values)
        last.erase()
        function = self._function(name, block, outputs, location)
        if depth:
            function.attributes[LOOPS] = IntegerAttr(depth, i64)
        slots = [typed(slot, argument.type) for slot, argument in zip(slots, block.args, strict=True)]
        set_slots(function, slots, [typed(slot, value.type) for slot, value in zip(results, outputs, strict=True)])
        if has_control(function):
            Outlining(self.module, function, self.lower, is_called=True).run()
        else:
            self.lower(function)
        return function

    def _function(self, prefix: str, block: Block, results: Sequence[SSAValue], location: LocationAttr) -> FuncOp:
        end = func.ReturnOp(*results)
        end.location = location
        block.add_op(end)
        kind = FunctionType.from_lists([a.type for a in block.args], [value.type for value in results])
        names = {op.sym_name.data for op in self.module.ops if isinstance(op, FuncOp)}
        number = sum(1 for name in names if name.startswith(prefix))
        function = FuncOp(f"{prefix}{number}", kind, Region(block), "private")
        function.location = location
        if self.depth:
            function.attributes[LOOPS] = IntegerAttr(self.depth, i64)
        self.module.body.block.insert_op_before(function, self.function)
        return function

    # Buffers

    def _buffer(self, value: SSAValue) -> SSAValue:
        return self.buffers[value]

    def _own(self, value: SSAValue) -> SSAValue:
        """Returns the buffer of a loop's or a branch's result, allocated if need be."""
        if value not in self.buffers:
            self.buffers[value] = self._alloc(value)
        return self.buffers[value]

    def _argument(self, value: SSAValue) -> SSAValue:
        buffer = self.block.insert_arg(_buffer_type(value), len(self.block.args))
        buffer.location, buffer.name_hint = self.function.location, value.name_hint
        return buffer

    def _alloc(self, value: SSAValue) -> SSAValue:
        op = memref.AllocOp.get(storage(element_of(value)), shape=list(shape_of(value)))
        op.location = value.owner.location if isinstance(value.owner, Operation) else self.function.location
        op.memref.name_hint = value.name_hint
        self.block.add_op(op)
        return op.memref

    def _constants_of(self, function: FuncOp) -> list[SSAValue]:
        """Adds a callee's constants to the arguments of this function, and returns their buffers."""
        values: list[SSAValue] = []
        for argument, slot in zip(function.body.block.args, arguments_of(function), strict=True):
            if slot.role == Role.CONSTANT:
                place = len(self.arguments) + len(self.constants)
                buffer = self.block.insert_arg(argument.type, place, argument.location)
                self.constants.append(replace(slot, name=f"constant{len(self.constants)}"))
                values.append(buffer)
        return values

    def _add(self, op: Operation, location: LocationAttr) -> None:
        op.location = location
        self.block.add_op(op)

    def _finish(self) -> None:
        """Replaces the old block with the new one."""
        end = func.ReturnOp()
        end.location = return_of(self.function).location
        self.block.add_op(end)
        for op in reversed(list(self.old.ops)):
            Rewriter.erase_op(op)
        self.function.body.detach_block(self.old)
        self.function.body.add_block(self.block)
        set_signature(self.function, [*self.arguments, *self.constants, *self.results], [])


def set_slots(function: FuncOp, arguments: Sequence[Slot], results: Sequence[Slot]) -> None:
    """Sets the names and roles of a function's arguments and results."""
    function.properties["arg_attrs"] = slots_attribute(arguments)
    function.properties["res_attrs"] = slots_attribute(results)


def loops_of(function: FuncOp) -> int:
    """Returns the number of loops around the calls of a function."""
    attribute = function.attributes.get(LOOPS)
    return attribute.value.data if isinstance(attribute, IntegerAttr) else 0


def _buffer_type(value: SSAValue) -> Attribute:
    kind = cast(Tensor, value.type)
    return buffer_type(kind.get_shape(), storage(kind.get_element_type()))


def _is_init(op: Operation, position: int) -> bool:
    """Returns whether an operand is an initial value of a loop, which gets a copy of it."""
    return isinstance(op, ScanOp) and len(op.consts) <= position < len(op.consts) + op.carries


def _needed(part: _Part) -> list[PlainOp]:
    """Returns the ops of a part that its results depend on, in order."""
    needed = {value for value, _, _ in part.results}
    ops: list[PlainOp] = []
    for op in reversed(part.ops):
        if any(result in needed for result in op.results):
            needed.update(op.operands)
            ops.append(op)
    return ops[::-1]


def _without_empty_loops(block: Block) -> None:
    """Replaces loops of trip count 0 with their initial values, and with stacks without elements."""
    for op in list(block.ops):
        if isinstance(op, ScanOp) and not op.count:
            builder = TensorBuilder(block, before=op, location=op.location)
            new = [*op.init, *(builder.zeros(shape_of(r), element_of(r)) for r in op.results[op.carries :])]
            for old, value in zip(op.results, new, strict=True):
                old.replace_all_uses_with(value)
            Rewriter.erase_op(op)


def _with_rows_copied(block: Block) -> None:
    """Moves the parts of rows: where there are loops and branches, each buffer has a place of its own."""
    for op in list(block.walk()):
        if isinstance(op, PackOp):
            assert op.parent is not None
            copy = concatenated(TensorBuilder(op.parent, op, op.location), op, op.parts)
            op.result.replace_all_uses_with(copy)
            Rewriter.erase_op(op)


def _with_views_where_they_are_read(block: Block) -> None:
    """Clones views into each run of ops that reads them.

    Passed from one run to another, a view would be a copy, and a broadcast a large one. Views with fewer elements than
    their operand stay: to pass the operand instead would keep more memory live.
    """
    controls: list[Operation] = [op for op in block.ops if isinstance(op, ControlOp)]
    runs = dict(zip(block.ops, accumulate((isinstance(op, ControlOp) for op in block.ops), initial=0), strict=False))
    for op in reversed(list(block.ops)):  # the end of a chain first: its clone is then a use of the view before it
        if not is_view(op) or math.prod(shape_of(op.operands[0])) > math.prod(op.shape):
            continue
        views: dict[int, Operation] = {}
        for use in list(op.results[0].uses):
            run = runs[use.operation]
            if run == runs[op] or not isinstance(use.operation, PlainOp):
                continue
            if run not in views:
                clone = views[run] = op.clone()
                clone.location, clone.results[0].name_hint = op.location, op.results[0].name_hint
                block.insert_op_after(clone, controls[run - 1])
                runs[clone] = run
            use.operation.operands[use.index] = views[run].results[0]
