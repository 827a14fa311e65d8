"""Writes kernels of the archetype `recipe`: a translation of their tiles, in which nothing is left to choose.

Loops without a mapping of their own run one after another, `unroll` writes the code of each iteration, and `vector`
that of vectors. Registers whose places are numbers become values, which loops carry; all other local memory is scratch.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, TypeAlias

from xdsl.dialects import affine as affine_ops
from xdsl.dialects import arith, memref, scf, vector
from xdsl.dialects.builtin import IndexType, VectorType
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import FillOp, GenericOp, YieldOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import (
    KernelOp,
    element_bytes,
    element_of,
    is_shape_only,
    iterators_of,
    loop_extents,
    maps_of,
    shape_of,
)
from tensorgrad.dialects.buf_tiles import (
    ForallOp,
    Space,
    TiledOp,
    mapping_of,
    root_of,
    sources_of,
    space_of,
    targets_of,
)
from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.native_schedules import RecipeSchedule
from tensorgrad.dialects.recipe import Processor
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.codegen.common.kernel_code import Binding, Code
from tensorgrad.passes.codegen.common.stage_bodies import clone_op
from tensorgrad.passes.codegen.common.stage_loops import Loops
from tensorgrad.passes.codegen.llvm.loop_kinds import mark_parallel
from tensorgrad.passes.codegen.llvm.recipe_schedule import task_loop, tiles_of
from tensorgrad.passes.codegen.llvm.scratch import new_array
from tensorgrad.passes.codegen.transforms.building import Part
from tensorgrad.passes.codegen.transforms.indices import Index, bounds_of, extent_of, index_of
from tensorgrad.passes.codegen.transforms.vectorize import VECTORS
from tensorgrad.passes.scalars import Value

VECTORIZED = (
    arith.AddfOp,
    arith.SubfOp,
    arith.MulfOp,
    arith.DivfOp,
    arith.NegfOp,
    arith.MaximumfOp,
    arith.MinimumfOp,
    arith.ConstantOp,
    YieldOp,
)
"""The ops of bodies that are written for vectors; stages with others are loops, of which LLVM makes vectors."""

At: TypeAlias = "int | Value"
"""An index: a number, or one that is known when the code runs."""

Register: TypeAlias = "tuple[SSAValue, int, int]"
"""Local memory that is a value: the buffer, the place of the first element, and the number of elements."""


def write_recipe(
    kernel: KernelOp, schedule: RecipeSchedule, code: Code, first: Value, last: Value, vector_bytes: int
) -> None:
    """Writes a loop over the tasks in [`first`, `last`).

    Args:
        kernel: A kernel with a recipe.
        schedule: Its schedule.
        code: Where to write.
        first: The first task.
        last: The one after the last task.
        vector_bytes: The size of the widest vectors.

    Raises:
        DiagnosticException: A step of the recipe doesn't fit, it makes another number of tasks, or what it makes isn't
            for native code.
    """
    tiles = tiles_of(kernel)
    loops = task_loop(tiles)
    if loops.extents != schedule.groups[:1]:
        raise DiagnosticException(
            f"the recipe of the kernel made at {line_of(kernel.location)} makes {loops.extents[0]} tasks, its schedule "
            f"has {schedule.groups[0]}: take that away, and run `schedule` again"
        )
    bindings: dict[SSAValue, Binding] = {
        inner: code.bindings[outer] for inner, outer in zip(tiles.body.block.args, kernel.body.block.args, strict=True)
    }
    translation = _Translation(code.with_bindings(bindings), tiles, vector_bytes)

    def task(at: Value, _: Sequence[Value]) -> list[Value]:
        translation.index[loops.indices[0]] = at
        translation.block(loops.body.block)
        return []

    code = translation.code
    code.loop_to(last, [], task, start=first)
    tiles.erase()


class _Translation:
    """Writes the code of tiles.

    Attributes:
        code: Where to write.
        index: The values of the loops' indices, and of the least of several.
    """

    def __init__(self, code: Code, tiles: TiledOp, vector_bytes: int):
        self.code = code
        self.index: dict[SSAValue, At] = {}
        self._top, self._location = code.block, tiles.location
        self._vector_bytes = vector_bytes
        self._as_vectors, self._spilled = _registers(tiles), set[SSAValue]()
        self._arrays: dict[SSAValue, SSAValue] = {}
        self._registers: dict[Register, Value] = {}
        self._parts: dict[SSAValue, Part] = {}
        self._extents: dict[SSAValue, int] = {}

    def block(self, block: Block) -> None:
        """Writes the ops of a block."""
        for op in block.ops:
            rule = RULES.get(type(op))
            if rule is None:
                self._refuse(f"{op.name} is not for native code")
            else:
                rule(self, op)

    def _refuse(self, reason: str) -> NoReturn:
        raise DiagnosticException(f"the recipe of the kernel made at {line_of(self._location)}: {reason}")

    # Indices

    def _expression(self, expression: AffineExpr, loops: Sequence[tuple[At, int]]) -> At:
        """Returns an index over loops, each given by its value and its extent."""
        bases, extents, places = list[Value](), list[int](), list[AffineExpr]()
        for at, extent in loops:
            if isinstance(at, int):
                places.append(AffineConstantExpr(at))
            else:
                places.append(AffineDimExpr(len(bases)))
                bases.append(at)
                extents.append(extent)
        simple = affine.linear(expression.replace_dims_and_symbols(places, ()), extents).expression()
        if isinstance(simple, AffineConstantExpr):
            return simple.value
        return self.code.expression(simple, bases, extents)

    def _at(self, index: Index) -> At:
        return self._expression(index.expression, [(self.index[loop], extent_of(loop)) for loop in index.loops])

    def _value(self, at: At) -> Value:
        return self.code.number(at) if isinstance(at, int) else at

    def least(self, op: affine_ops.MinOp) -> None:
        """Writes the least of some indices."""
        first, *others = sorted((self._at(bound) for bound in bounds_of(op.result)), key=lambda at: isinstance(at, int))
        for other in others:
            first = self._value(first).at_most(other)
        self.index[op.result] = first

    # Loops

    def forall(self, op: ForallOp) -> None:
        """Writes independent loops."""
        wrong = next((p for p in op.mapping if p not in (Processor.SEQUENTIAL, Processor.UNROLL)), None)
        if wrong is not None or not op.mapping:
            self._refuse(f"a loop inside tasks has {wrong or 'no processor'}, it needs sequential or unroll")
        if _is_unrolled(op):
            for point in itertools.product(*(range(extent) for extent in op.extents if isinstance(extent, int))):
                self.index.update(zip(op.indices, point, strict=True))
                self.block(op.body.block)
        else:
            self._nest(op, 0)

    def _nest(self, op: ForallOp, loop: int) -> None:
        if loop == len(op.indices):
            self.block(op.body.block)
            return

        def body(at: Value) -> None:
            self.index[op.indices[loop]] = at
            self._nest(op, loop + 1)

        # Iterations that have registers in memory share it, one after another.
        is_parallel = all(space_of(buffer) is not Space.REGISTER for buffer in _buffers(op))
        self._loop(self._value(self._at(index_of(op.extents[loop]))), body, op, is_parallel)

    def in_order(self, op: scf.ForOp) -> None:
        """Writes a loop in order."""

        def body(at: Value) -> None:
            self.index[op.body.block.args[0]] = at
            self.block(op.body.block)

        self._loop(self._value(self._at(index_of(op.ub))), body, op, is_parallel=False)

    def _loop(self, stop: Value, body: Callable[[Value], None], op: Operation, is_parallel: bool) -> None:
        """Writes a loop, which carries the registers that an op in it writes."""
        written = {root_of(target) for inner in op.walk() for target in targets_of(inner)}
        carried = [register for register in self._registers if register[0] in written]

        def iteration(at: Value, held: Sequence[Value]) -> list[Value]:
            self._registers.update(zip(carried, held, strict=True))
            body(at)
            return [self._registers[register] for register in carried]

        known = {*self._registers}
        results = self.code.loop_to(stop, [self._registers[register] for register in carried], iteration)
        self._registers = {register: value for register, value in self._registers.items() if register in known}
        self._registers.update(zip(carried, results, strict=True))
        if is_parallel and not carried:
            mark_parallel(self.code)

    # Memory

    def _binding(self, root: SSAValue) -> Binding:
        if root in self.code.bindings:
            return self.code.bindings[root]
        if root not in self._arrays:
            self._arrays[root] = new_array(self._top, element_of(root), math.prod(shape_of(root)))
        return Binding(self._arrays[root])

    def _place(self, buffer: SSAValue, within: Sequence[AffineExpr], point: Sequence[At], extents: Sequence[int]) -> At:
        """Returns the place of an element in the root of a buffer, at a point of a stage's loops."""
        part = self._parts.get(buffer)
        if part is None:
            part = self._parts[buffer] = Part.of(buffer)
        loops = tuple(dict.fromkeys(loop for offset in part.offsets for loop in offset.loops))
        own = [AffineDimExpr(len(loops) + dim) for dim in range(len(point))]
        inside = dict(zip(part.axes, within, strict=True))
        total: AffineExpr = AffineConstantExpr(0)
        for axis, (offset, stride) in enumerate(zip(part.offsets, affine.strides(shape_of(part.root)), strict=True)):
            places = [AffineDimExpr(loops.index(loop)) for loop in offset.loops]
            at = offset.expression.replace_dims_and_symbols(places, ())
            if axis in inside:
                at = at + inside[axis].replace_dims_and_symbols(own, ())
            total = total + at * stride
        self._extents |= {loop: extent_of(loop) for loop in loops if loop not in self._extents}
        around = [(self.index[loop], self._extents[loop]) for loop in loops]
        return self._expression(total, [*around, *zip(point, extents, strict=True)])

    def _load(self, buffer: SSAValue, at: At, lanes: int) -> Value:
        root, element = root_of(buffer), element_of(buffer)
        if self._is_register(root):
            assert isinstance(at, int)
            register = self._registers.get((root, at, lanes))
            if register is None:
                self._refuse("it reads a register that it hasn't written")
            return register
        memory, place = self._addressed(root, at)
        if lanes == 1:
            return self.code.element(memory, place)
        return self.code.vector(memory, place, VectorType(element, [lanes]))

    def _store(self, value: Value, buffer: SSAValue, at: At, lanes: int) -> None:
        root = root_of(buffer)
        if self._is_register(root):
            assert isinstance(at, int)
            self._registers[root, at, lanes] = value
            return
        self._put(value, root, at, lanes)

    def _put(self, value: Value, root: SSAValue, at: At, lanes: int) -> None:
        memory, place = self._addressed(root, at)
        if lanes == 1:
            self.code.put(value, memory, place)
        else:
            self.code.put_vector(value, memory, place)

    def _is_register(self, root: SSAValue) -> bool:
        return root in self._as_vectors and root not in self._spilled

    def _addressed(self, root: SSAValue, at: At) -> tuple[SSAValue, Value]:
        binding = self._binding(root)
        place = self.code.number(binding.start + at) if isinstance(at, int) else at + binding.start
        return binding.memory, place if binding.moved is None else self.code.value(binding.moved) + place

    def _spill(self, op: GenericOp | FillOp | memref.CopyOp) -> None:
        """Stores the registers that a stage reads otherwise than they were written, so that it reads memory."""
        for number, buffer in enumerate(op.operands):
            root = root_of(buffer)
            if root in self._as_vectors and buffer not in targets_of(op):
                is_vector = _is_vector(op) and _moves(op, number)
                if is_vector != self._as_vectors[root] or not _is_known(op, buffer):
                    self._spilled.add(root)
        for (root, start, lanes), value in self._registers.items():
            if root in self._spilled:
                self._put(value, root, start, lanes)

    # Stages

    def stage(self, op: GenericOp) -> None:
        """Writes a stage."""
        extents = loop_extents(op)
        self._each(op, extents, lambda point, lanes: self._point(op, extents, point, lanes))

    def move(self, op: FillOp | memref.CopyOp) -> None:
        """Writes a fill or a copy."""
        (target,) = targets_of(op)
        extents, dims = shape_of(target), [AffineDimExpr(dim) for dim in range(len(shape_of(target)))]

        def element(point: Sequence[At], lanes: int) -> None:
            if isinstance(op, memref.CopyOp):
                value = self._load(op.source, self._place(op.source, dims, point, extents), lanes)
            else:
                value = self._spread(self.code.add(_owner(op.inputs[0]).clone()), lanes)
            self._store(value, target, self._place(target, dims, point, extents), lanes)

        self._each(op, extents, element)

    def _each(
        self,
        op: GenericOp | FillOp | memref.CopyOp,
        extents: Sequence[int],
        body: Callable[[Sequence[At], int], None],
    ) -> None:
        """Writes the loops of a stage, as they are mapped."""
        mapping = _mapping(op)
        self._spill(op)

        def level(point: list[At]) -> None:
            if len(point) == len(extents):
                body(point, 1)
                return
            extent, processor = extents[len(point)], mapping[len(point)]
            if processor is Processor.VECTOR:
                most, start = self._vector_bytes // element_bytes(element_of(targets_of(op)[0])), 0
                while start < extent:
                    lanes = min(most, 1 << (extent - start).bit_length() - 1)
                    body([*point, start], lanes)
                    start += lanes
            elif processor is Processor.SEQUENTIAL:
                is_parallel = not isinstance(op, GenericOp) or iterators_of(op)[len(point)] == IteratorType.PARALLEL
                self._loop(self.code.number(extent), lambda at: level([*point, at]), op, is_parallel)
            else:
                for at in range(extent):
                    level([*point, at])

        level([])
        self._spilled.clear()

    def _point(self, op: GenericOp, extents: Sequence[int], point: Sequence[At], lanes: int) -> None:
        """Writes the body of a stage at a point, or at as many as a vector has elements."""
        maps, places, known = maps_of(op), dict[int, At](), dict[SSAValue, SSAValue]()
        for number, (argument, buffer) in enumerate(zip(op.body.block.args, op.operands, strict=True)):
            if is_shape_only(buffer):
                continue
            places[number] = self._place(buffer, maps[number].results, point, extents)
            if argument.uses:
                moves = lanes > 1 and _moves(op, number)
                value = self._load(buffer, places[number], lanes if moves else 1)
                known[argument] = (value if moves else self._spread(value, lanes)).ssa
        results = self._values(op, known, self._loops(extents, point), lanes)
        for number, (value, buffer) in enumerate(zip(results, op.outputs, strict=True), len(op.inputs)):
            self._store(value, buffer, places[number], lanes)

    def _values(self, op: GenericOp, known: dict[SSAValue, SSAValue], loops: Loops, lanes: int) -> list[Value]:
        code, body = self.code, op.body.block
        known |= self._around(op)
        for inner in body.ops:
            if isinstance(inner, YieldOp):
                return [code.value(known.get(operand, operand)) for operand in inner.operands]
            if lanes == 1:
                clone_op(code, inner, known, loops)
            elif isinstance(inner, arith.ConstantOp):
                known[inner.result] = self._spread(code.add(inner.clone()), lanes).ssa
            else:
                operands = [known[operand] for operand in inner.operands]
                kind = VectorType(inner.results[0].type, [lanes])
                result = code.make(type(inner), operands, kind, inner.properties)
                known[inner.results[0]] = result.ssa
        return []

    def _around(self, op: GenericOp) -> dict[SSAValue, SSAValue]:
        """Returns the values of the indices around a stage that its body takes."""
        inner = [*op.body.walk()]
        if any(isinstance(each, memref.LoadOp) and each.memref not in self.code.bindings for each in inner):
            self._refuse("a stage loads from a part of a buffer at a computed index")
        taken = {value for each in inner for value in each.operands if isinstance(value.type, IndexType)}
        defined = {value for each in inner for value in each.results}
        defined |= {
            value for each in inner for region in each.regions for block in region.blocks for value in block.args
        }
        return {value: self._value(self._at(index_of(value))).ssa for value in taken - defined}

    @staticmethod
    def _loops(extents: Sequence[int], point: Sequence[At]) -> Loops:
        bases = [at for at in point if isinstance(at, Value)]
        own = [extent for at, extent in zip(point, extents, strict=True) if isinstance(at, Value)]
        places: list[AffineExpr] = [
            AffineDimExpr(bases.index(at)) if isinstance(at, Value) else AffineConstantExpr(at) for at in point
        ]
        return Loops(tuple(bases), tuple(own), tuple(places))

    def _spread(self, value: Value, lanes: int) -> Value:
        if lanes == 1:
            return value
        return self.code.make(vector.BroadcastOp, (value.ssa,), VectorType(value.type, [lanes]))


def _owner(value: SSAValue) -> Operation:
    assert isinstance(value.owner, Operation)
    return value.owner


def _buffers(op: Operation) -> Iterator[SSAValue]:
    """Yields what the stages in an op read and write."""
    for inner in op.walk():
        yield from sources_of(inner)
        yield from targets_of(inner)


def _registers(tiles: TiledOp) -> dict[SSAValue, bool]:
    """Returns the registers that are values, and whether they are vectors: all are written alike, at known places."""
    as_vectors: dict[SSAValue, bool] = {}
    others: set[SSAValue] = set()
    for op in tiles.walk():
        for target in targets_of(op):
            root = root_of(target)
            assert isinstance(op, GenericOp | FillOp | memref.CopyOp)
            is_alike = as_vectors.setdefault(root, _is_vector(op)) == _is_vector(op)
            if space_of(root) is not Space.REGISTER or not is_alike or not _is_known(op, target):
                others.add(root)
    return {root: is_vector for root, is_vector in as_vectors.items() if root not in others}


def _is_known(op: GenericOp | FillOp | memref.CopyOp, buffer: SSAValue) -> bool:
    """Returns whether a stage goes through a register at places that are numbers, and outside of loops over points."""
    if Processor.SEQUENTIAL in _mapping(op):
        return False
    local, parent = root_of(buffer).owner, op.parent_op()
    while parent is not None and not parent.is_ancestor(local):
        if isinstance(parent, ForallOp) and not _is_unrolled(parent):
            return False
        parent = parent.parent_op()
    loops = {loop.owner for offset in Part.of(buffer).offsets for loop in offset.loops}
    return all(isinstance(block, Block) and _is_unrolled(block.parent_op()) for block in loops)


def _mapping(op: GenericOp | FillOp | memref.CopyOp) -> tuple[Processor, ...]:
    """Returns the processor of each loop of a stage; vectors of other ops are loops, of which LLVM makes vectors."""
    mapping = mapping_of(op)
    if Processor.VECTOR in mapping and not _is_vector(op):
        return tuple(Processor.SEQUENTIAL if p is Processor.VECTOR else p for p in mapping)
    return mapping


def _is_vector(op: GenericOp | FillOp | memref.CopyOp) -> bool:
    """Returns whether the innermost loop of a stage is written as vectors."""
    kinds = {element_of(buffer) for buffer in (*sources_of(op), *targets_of(op))}
    if Processor.VECTOR not in mapping_of(op) or len(kinds) > 1 or not kinds <= {*VECTORS}:
        return False
    return not isinstance(op, GenericOp) or all(isinstance(inner, VECTORIZED) for inner in op.body.block.ops)


def _moves(op: GenericOp | FillOp | memref.CopyOp, number: int) -> bool:
    """Returns whether the innermost loop of a stage goes along one of its operands."""
    return not isinstance(op, GenericOp) or AffineDimExpr(len(op.iterator_types) - 1) in maps_of(op)[number].results


def _is_unrolled(op: Operation | None) -> bool:
    """Returns whether the code of each iteration of some loops is written out."""
    if not isinstance(op, ForallOp) or {*op.mapping} != {Processor.UNROLL}:
        return False
    return all(isinstance(extent, int) for extent in op.extents)


def _nothing(translation: _Translation, op: Operation) -> None:
    """Writes nothing: whoever uses the op's result computes it."""


RULES: dict[type[Operation], Callable[[_Translation, Any], None]] = {
    ForallOp: _Translation.forall,
    scf.ForOp: _Translation.in_order,
    scf.YieldOp: _nothing,
    affine_ops.ApplyOp: _nothing,
    affine_ops.MinOp: _Translation.least,
    arith.ConstantOp: _nothing,
    memref.SubviewOp: _nothing,
    memref.AllocaOp: _nothing,
    GenericOp: _Translation.stage,
    FillOp: _Translation.move,
    memref.CopyOp: _Translation.move,
}
"""How each op of a kernel of tiles is written."""
