"""Storage of buffers: their arenas, and which may share memory."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import memref
from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineMap

from tensorgrad.dialects.buf import Buffer, KernelOp, PackOp, ViewOp, buffer_bytes, element_of, maps_of, pack_of
from tensorgrad.dialects.signature import ROLE, Role, Slot, arguments_of
from tensorgrad.dialects.tg.shape import PACK_ALIGNMENT
from tensorgrad.passes.analyses.walking import operations
from tensorgrad.runtime.target import Target

WORKSPACE_BYTES = "buf.workspace_bytes"
LEAST_WORKSPACE_BYTES = "buf.least_workspace_bytes"
PEAK_BYTES = "buf.peak_bytes"
"""The attributes of a function with the memory that its plan takes."""

LOOPS = "buf.loops"
"""The attribute of a function that runs in loops: their number. Each takes one of a kernel's bindings."""


def arena_of(slot: Slot) -> tuple[str, Role]:
    """Returns the label and role of the arena that contains a function argument."""
    if slot.role == Role.STATE:
        return slot.name.split("/")[0] if "/" in slot.name else "state", Role.STATE
    return ARENAS.get(slot.role, ("updates", Role.WORKSPACE))


ARENAS: dict[Role, tuple[str, Role]] = {
    Role.PARAMETER: ("parameters", Role.PARAMETER),
    Role.INPUT: ("inputs", Role.INPUT),
    Role.SCALAR: ("inputs", Role.INPUT),
    Role.OUTPUT: ("outputs", Role.OUTPUT),
    Role.GRADIENT: ("gradients", Role.OUTPUT),
    Role.CONSTANT: ("constants", Role.CONSTANT),
}
"""The label and role of the arena for arguments with each role but `state`."""

PACKED = "packed"
"""The label of the arena for allocations that are packed."""


@dataclass(frozen=True)
class Accesses:
    """The buffers that a stage of a kernel accesses.

    Attributes:
        reads: Read buffers and their index maps.
        writes: Written buffers and their index maps.
        loads: Buffers read at computed indices.
    """

    reads: Sequence[tuple[SSAValue, AffineMap]]
    writes: Sequence[tuple[SSAValue, AffineMap]]
    loads: Sequence[SSAValue]


def chunk_bytes(target: Target) -> int:
    """Returns the bytes in each binding but the last of a buffer that exceeds the binding size limit."""
    alignment = target.min_storage_buffer_offset_alignment
    return max(target.max_storage_buffer_binding_size // alignment, 1) * alignment


def bindings_of(size: int, target: Target) -> int:
    """Returns how many bindings a buffer of `size` bytes takes: one that exceeds the limit is bound in chunks."""
    if target.native or size <= target.max_storage_buffer_binding_size:
        return 1
    return -(-size // chunk_bytes(target))


def count_bindings(sizes: Mapping[Hashable, int | None], target: Target) -> int:
    """Returns how many bindings buffers take.

    Args:
        sizes: The bytes of each; `None` for one that takes a single binding whatever its size, such as all scalars.
        target: The limits on bindings.
    """
    return sum(1 if size is None else bindings_of(size, target) for size in sizes.values())


def is_scalar_view(view: ViewOp) -> bool:
    """Returns whether a view is of a scalar: all scalars of an arena share one binding."""
    role = view.attributes.get(ROLE)
    return isinstance(role, StringAttr) and role.data == Role.SCALAR


def is_temporary(buffer: SSAValue) -> bool:
    """Returns whether a buffer is an allocation of the function that isn't part of a pack."""
    return isinstance(buffer.owner, memref.AllocOp) and pack_of(buffer) is None


def may_write_over(stages: Sequence[Accesses], old: SSAValue, new: SSAValue) -> bool:
    """Returns whether stages may overwrite `old` with `new`: each element is read only just before it is written."""
    written, place = next((i, m) for i, stage in enumerate(stages) for buffer, m in stage.writes if buffer is new)
    for position, stage in enumerate(stages):
        if any(buffer is old for buffer in stage.loads):
            return False
        maps = [m for buffer, m in stage.reads if buffer is old]
        if any(position > written or m.results != place.results for m in maps):
            return False
    return True


def writes_in_place(writer: KernelOp, old: SSAValue, new: SSAValue) -> bool:
    """Returns whether a kernel may overwrite `old` with `new`."""
    if old not in writer.inputs:
        return True
    if writer.single is not None:
        return False
    reading = writer.input_arguments[list(writer.inputs).index(old)]
    writing = writer.output_arguments[list(writer.outputs).index(new)]
    touching = {_stage_around(use.operation) for argument in (reading, writing) for use in argument.uses}
    stages = [stage for stage in writer.stages if stage in touching]
    return may_write_over([_accesses(stage) for stage in stages], reading, writing)


def _stage_around(op: Operation) -> Operation:
    """Returns the stage that an op is or is nested in."""
    while not isinstance(op, GenericOp):
        parent = op.parent_op()
        assert parent is not None
        op = parent
    return op


def accesses_of(kernel: KernelOp) -> list[Accesses]:
    """Returns the accesses of a kernel's stages, to its operands and its locals."""
    operands: dict[SSAValue, SSAValue] = dict(zip(kernel.body.block.args, kernel.operands, strict=True))

    def outside(places: Sequence[tuple[SSAValue, AffineMap]]) -> list[tuple[SSAValue, AffineMap]]:
        return [(operands.get(value, value), index) for value, index in places]

    inside = map(_accesses, kernel.stages)
    return [
        Accesses(
            outside(accesses.reads), outside(accesses.writes), [operands.get(value, value) for value in accesses.loads]
        )
        for accesses in inside
    ]


def _accesses(stage: GenericOp) -> Accesses:
    places = list(zip(stage.operands, maps_of(stage), strict=True))
    count = len(stage.inputs)
    loads = [op.memref for op in operations(stage.body.block) if isinstance(op, memref.LoadOp)]
    return Accesses(places[:count], places[count:], loads)


class Bindings:
    """The number of bindings that a kernel will need once `plan-memory` has placed its buffers.

    Scalars share one binding; an in-place update shares the binding of the old value; a buffer that exceeds the binding
    size limit may take several; an arena that fits one binding is bound once if its buffers are too many.
    """

    def __init__(
        self,
        function: FuncOp,
        target: Target,
        in_place: Mapping[SSAValue, SSAValue],
        workspace: int | None = None,
        arguments: bool = False,
    ):
        """Prepares the counts for a function's kernels.

        Args:
            function: A function before `plan-memory`.
            target: The limits.
            in_place: The old value of each in-place update.
            workspace: The approximate bytes of all allocations, if those of a kernel may share one binding.
            arguments: Whether inputs, and outputs, may share one binding too.
        """
        self.target = target
        self.workspace = workspace is not None and workspace <= target.max_storage_buffer_binding_size
        loops = function.attributes.get(LOOPS)
        self.limit = target.max_storage_buffers_per_shader_stage
        self.limit -= loops.value.data if isinstance(loops, IntegerAttr) else 0
        self.in_place = in_place
        slots = arguments_of(function)
        values = list(zip(function.body.block.args, slots, strict=True))
        self.scalars = {value for value, slot in values if slot.role == Role.SCALAR}
        self.arenas = _shared_arenas(values, target, (Role.INPUT, Role.OUTPUT) if arguments else ())
        self.arenas.update(_packed_arenas(function, target, self.arenas))

    def fit(self, buffers: Collection[SSAValue], windows: Collection[SSAValue] = ()) -> bool:
        """Returns whether a kernel with these buffers fits the binding limit.

        Args:
            buffers: The buffers that it accesses.
            windows: Buffers of which it accesses no more than fits one binding.
        """
        unique = {self.in_place.get(value, value) for value in buffers}
        whole = {self.in_place.get(value, value) for value in buffers if value not in windows}
        scalars = unique & self.scalars
        needed = unique - scalars
        if self._count(needed, needed - whole) + bool(scalars) <= self.limit:
            return True
        if windows:
            return False
        arenas = {self.arenas[value] for value in needed if value in self.arenas}
        rest = {value for value in needed if value not in self.arenas}
        values = {value for value in rest if is_temporary(value)}
        apart = self._count(rest)
        if self.workspace and len({element_of(value) for value in values}) == 1:
            apart -= len(values) - 1
        return len(arenas) + apart + bool(scalars) <= self.limit

    def _count(self, values: Iterable[SSAValue], windows: Collection[SSAValue] = ()) -> int:
        sizes = {value: None if value in windows else buffer_bytes(cast(Buffer, value.type)) for value in values}
        return count_bindings(cast("dict[Hashable, int | None]", sizes), self.target)


def _shared_arenas(
    values: Sequence[tuple[SSAValue, Slot]], target: Target, roles: Sequence[Role]
) -> dict[SSAValue, str]:
    """Returns the arena of each parameter, state, update and `roles`, if it fits one binding."""
    arenas = {slot.name: arena_of(slot)[0] for _, slot in values if slot.role in (Role.PARAMETER, Role.STATE)}
    others = {value: arena_of(slot)[0] for value, slot in values if slot.role in roles}
    members: dict[str, list[SSAValue]] = {}
    for value, slot in values:
        label = arenas[slot.name] if slot.role in (Role.PARAMETER, Role.STATE) else others.get(value)
        if label is not None:
            members.setdefault(label, []).append(value)
    limit, alignment = target.max_storage_buffer_binding_size, target.min_storage_buffer_offset_alignment
    whole = {
        label
        for label, values in members.items()
        if sum(buffer_bytes(cast(Buffer, v.type)) + alignment for v in values) <= limit
        and len({element_of(v) for v in values}) == 1
    }
    labels = {value: arenas[slot.name] for value, slot in values if slot.role == Role.UPDATE and slot.name in arenas}
    labels |= {value: label for label, values in members.items() for value in values}
    return {value: label for value, label in labels.items() if label in whole}


def _packed_arenas(function: FuncOp, target: Target, arenas: Mapping[SSAValue, str]) -> dict[SSAValue, str]:
    """Returns the arena of each row, and of each packed allocation if all of them fit one binding."""
    rows = [op for op in function.body.block.ops if isinstance(op, PackOp)]
    results: dict[SSAValue, str] = {row.result: arenas[row.parts[0]] for row in rows if row.parts[0] in arenas}
    packed = [row for row in rows if isinstance(row.parts[0].owner, memref.AllocOp)]
    size = sum(buffer_bytes(row.result.type) + PACK_ALIGNMENT for row in packed)
    if size <= target.max_storage_buffer_binding_size and len({element_of(row.result) for row in packed}) == 1:
        results.update({value: PACKED for row in packed for value in (row.result, *row.parts)})
    return results
