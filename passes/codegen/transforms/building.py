"""Builds tiles: indices, parts of buffers, local memory, loops, and stages over parts of their loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from xdsl.builder import Builder
from xdsl.dialects import affine as affine_ops
from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    IndexType,
    IntegerAttr,
    LocationAttr,
    MemRefType,
    StridedLayoutAttr,
    UnitAttr,
    UnknownLoc,
    i1,
)
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import FillOp, GenericOp, IndexOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from tensorgrad.dialects.buf import (
    Buffer,
    element_of,
    is_shape_only,
    iterators_of,
    loop_extents,
    maps_of,
    shape_of,
)
from tensorgrad.dialects.buf_tiles import ForallOp, Space, SpaceAttr
from tensorgrad.dialects.recipe import Processor
from tensorgrad.dialects.stages import Reduction, generic
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.codegen.transforms.indices import Index, combined, constant, index_of, map_over
from tensorgrad.passes.scalars import constant_attribute

SHAPE_ONLY = "buf.shape_only"

OperationT = TypeVar("OperationT", bound=Operation)


@dataclass(frozen=True)
class Range:
    """The part of a loop that a stage keeps: `size` iterations from `first` on, or, without a size, only that one."""

    first: Index
    size: int | None = None


@dataclass(frozen=True)
class Part:
    """Part of a buffer: where it begins along each axis of its root, and which axes it keeps."""

    root: SSAValue
    offsets: tuple[Index, ...]
    axes: tuple[int, ...]

    @staticmethod
    def of(buffer: SSAValue) -> Part:
        """Returns a buffer as a part of its root."""
        op = buffer.owner
        if not isinstance(op, memref.SubviewOp):
            rank = len(shape_of(buffer))
            return Part(buffer, (constant(0),) * rank, tuple(range(rank)))
        outer, dynamic = Part.of(op.source), iter(op.offsets)
        offsets = list(outer.offsets)
        for axis, offset in zip(outer.axes, op.static_offsets.get_values(), strict=True):
            inner = index_of(next(dynamic) if offset == DYNAMIC_INDEX else offset)
            offsets[axis] = offsets[axis].plus(inner)
        return Part(outer.root, tuple(offsets), tuple(outer.axes[place] for place in _kept_axes(op)))


def _kept_axes(op: memref.SubviewOp) -> list[int]:
    """Returns the axes of the source that a part keeps: it leaves out those of extent 1."""
    return [axis for axis, size in enumerate(op.static_sizes.get_values()) if size > 1]


class Entangled(Exception):
    """Raised if an index mixes loops that a stage keeps whole with others."""


class TileBuilder:
    """Inserts ops of tiled kernels at a point.

    Args:
        point: Where to insert.
        location: The line of the user that new ops belong to.
    """

    def __init__(self, point: InsertPoint, location: LocationAttr):
        self._builder, self.location = Builder(point), location

    @staticmethod
    def before(op: Operation) -> TileBuilder:
        """Returns a builder that inserts before an op, and for it."""
        return TileBuilder(InsertPoint.before(op), op.location)

    def into(self, block: Block) -> TileBuilder:
        """Returns a builder that appends to a block, before its terminator if it has one."""
        last = block.last_op
        point = InsertPoint.before(last) if isinstance(last, scf.YieldOp) else InsertPoint.at_end(block)
        return TileBuilder(point, self.location)

    def insert(self, op: OperationT) -> OperationT:
        """Inserts a new op, and what is in it."""
        for inner in op.walk():
            if isinstance(inner.location, UnknownLoc):
                inner.location = self.location
        return self._builder.insert(op)

    def move(self, op: Operation) -> None:
        """Inserts an op that has its own location."""
        self._builder.insert(op)

    # Indices

    def index(self, index: Index) -> SSAValue | int:
        """Returns an index as a number or a value."""
        if index.constant is not None:
            return index.constant
        if isinstance(index.expression, AffineDimExpr):
            return index.loops[0]
        affine_map = AffineMapAttr(AffineMap(len(index.loops), 0, (index.expression,)))
        return self.insert(affine_ops.ApplyOp(index.loops, affine_map)).result

    def value(self, index: Index) -> SSAValue:
        """Returns an index as a value."""
        at = self.index(index)
        return self.number(at) if isinstance(at, int) else at

    def number(self, value: int) -> SSAValue:
        """Returns a constant index."""
        return self.insert(arith.ConstantOp(IntegerAttr(value, IndexType()))).result

    def least(self, indices: Sequence[Index]) -> SSAValue | int:
        """Returns the least of some indices, without those that are never less than a constant one."""
        numbers = [index.constant for index in indices if index.constant is not None]
        others = [index for index in indices if index.constant is None]
        if numbers:
            others = [index for index in others if index.bounds()[0] < min(numbers)]
        chosen = [*([constant(min(numbers))] if numbers else []), *others]
        if len(chosen) == 1:
            return self.index(chosen[0])
        loops = tuple(dict.fromkeys(loop for index in chosen for loop in index.loops))
        return self.insert(affine_ops.MinOp(loops, AffineMapAttr(map_over(loops, chosen)))).result

    # Loops

    def forall(self, extents: Sequence[int | SSAValue], mapping: Sequence[Processor] = ()) -> ForallOp:
        """Inserts independent loops."""
        return self.insert(ForallOp.of(extents, mapping))

    def loop(self, extent: int | SSAValue) -> scf.ForOp:
        """Inserts a loop that runs in order."""
        block = Block([scf.YieldOp()], arg_types=[IndexType()])
        stop = extent if isinstance(extent, SSAValue) else self.number(extent)
        return self.insert(scf.ForOp(self.number(0), stop, self.number(1), [], block))

    # Memory

    def local(self, shape: Sequence[int], element: Attribute, space: Space) -> SSAValue:
        """Allocates local memory."""
        return self.insert(memref.AllocaOp.get(element, shape=shape, memory_space=SpaceAttr(space))).memref

    def fill(self, target: SSAValue, value: float) -> FillOp:
        """Fills a buffer with a number."""
        element = element_of(target)
        scalar = self.insert(
            arith.ConstantOp.create(result_types=[element], properties={"value": constant_attribute(value, element)})
        )
        return self.insert(FillOp([scalar.results[0]], [target], res=[]))

    def copy(self, source: SSAValue, target: SSAValue) -> memref.CopyOp:
        """Copies a buffer."""
        return self.insert(memref.CopyOp(source, target))

    def part(self, part: Part, sizes: Sequence[int]) -> SSAValue:
        """Returns a part of a buffer, of these extents along all axes of its root."""
        root, kind = part.root, cast(Buffer, part.root.type)
        shape = kind.get_shape()
        whole = all(offset.constant == 0 for offset in part.offsets) and tuple(sizes) == shape
        if whole and len(part.axes) == len(shape):
            return root
        strides, constants = affine.strides(shape), [offset.constant for offset in part.offsets]
        start = sum(c * stride for c, stride in zip(constants, strides, strict=True) if c is not None)
        offset = None if None in constants else start
        layout = StridedLayoutAttr([strides[axis] for axis in part.axes], offset)
        result = MemRefType(kind.element_type, [sizes[axis] for axis in part.axes], layout, kind.memory_space)
        offsets = [self.index(offset) for offset in part.offsets]
        return self.insert(memref.SubviewOp.get(root, offsets, list(sizes), [1] * len(shape), result)).result

    def element(self, buffer: SSAValue, at: Sequence[Index]) -> SSAValue:
        """Returns one element of a buffer, given the index along each of its axes."""
        part = Part.of(buffer)
        offsets = list(part.offsets)
        for axis, index in zip(part.axes, at, strict=True):
            offsets[axis] = offsets[axis].plus(index)
        return self.part(Part(part.root, tuple(offsets), ()), [1] * len(offsets))

    def window(
        self, buffer: SSAValue, offsets: Sequence[Index], within: Sequence[AffineExpr], sizes: Sequence[int]
    ) -> tuple[SSAValue, AffineMap]:
        """Returns the part of a buffer that a stage accesses, and its index map there.

        Args:
            buffer: The buffer.
            offsets: The part of the index along each axis that is fixed around the stage.
            within: The part of the index that depends on the stage's loops.
            sizes: The extents of the stage's loops.
        """
        part = Part.of(buffer)
        starts, extents, axes, results = list(part.offsets), [1] * len(part.offsets), list[int](), list[AffineExpr]()
        for axis, offset, expression in zip(part.axes, offsets, within, strict=True):
            inside = affine.linear(expression, sizes)
            low, high = inside.bounds(sizes)
            starts[axis] = starts[axis].plus(offset).plus(constant(low))
            inside = inside.plus(affine.Linear(constant=-low))
            extents[axis] = high - low + 1
            if high > low:
                axes.append(axis)
                results.append(inside.expression())
        value = self.part(Part(part.root, tuple(starts), tuple(axes)), extents)
        return value, AffineMap(len(sizes), 0, tuple(results))

    # Stages

    def narrowed(
        self,
        stage: GenericOp,
        ranges: Mapping[int, Range],
        replaced: Mapping[SSAValue, SSAValue] | None = None,
        spread: bool = False,
    ) -> GenericOp:
        """Inserts a stage over parts of its loops.

        An input whose index mixes loops that are divided with others is loaded in the body, at a computed index.

        Args:
            stage: The stage, which stays as it is.
            ranges: The part of each loop that isn't kept whole. A loop without a size is fixed, and no longer a loop.
            replaced: Buffers of one element that take the place of operands.
            spread: Whether the only loop that is kept folds each term into an element of its own, of buffers of as
                many elements that take the place of the outputs.

        Raises:
            Entangled: An output's index mixes them.
        """
        extents, replaced = loop_extents(stage), replaced or {}
        kept = [loop for loop in range(len(extents)) if loop not in ranges or ranges[loop].size is not None]
        sizes = [extents[loop] if loop not in ranges else cast(int, ranges[loop].size) for loop in kept]
        operands: list[list[SSAValue]] = [[], []]
        maps, arguments = [list[AffineMap](), list[AffineMap]()], list[int]()
        for number, (buffer, m) in enumerate(zip(stage.operands, maps_of(stage), strict=True)):
            is_output = number >= len(stage.inputs)
            if is_shape_only(buffer):
                continue
            if buffer in replaced:
                value = replaced[buffer]
                inside = AffineMap(len(kept), 0, (AffineDimExpr(0),) if spread and is_output else ())
            else:
                try:
                    divided = [_divided(result, extents, ranges, kept) for result in m.results]
                except Entangled:
                    if is_output:
                        raise
                    continue
                value, inside = self.window(buffer, [d[0] for d in divided], [d[1] for d in divided], sizes)
            operands[is_output].append(value)
            maps[is_output].append(inside)
            arguments.append(number)
        self._add_shape(sizes, operands, maps)
        kinds = [IteratorType.PARALLEL if spread else iterators_of(stage)[loop] for loop in kept]
        return self._stage(stage, operands, maps, kinds, arguments, {**ranges}, kept)

    def _add_shape(self, sizes: Sequence[int], operands: list[list[SSAValue]], maps: list[list[AffineMap]]) -> None:
        """Adds an operand that only has a shape, of the loops that no operand indexes plainly."""
        plain = {r.position for m in (*maps[0], *maps[1]) for r in m.results if isinstance(r, AffineDimExpr)}
        missing = [loop for loop in range(len(sizes)) if loop not in plain]
        if missing:
            local = self.insert(memref.AllocaOp.get(i1, shape=[sizes[loop] for loop in missing]))
            local.attributes[SHAPE_ONLY] = UnitAttr()
            operands[0].append(local.memref)
            maps[0].append(AffineMap(len(sizes), 0, tuple(AffineDimExpr(loop) for loop in missing)))

    def _stage(
        self,
        stage: GenericOp,
        operands: Sequence[Sequence[SSAValue]],
        maps: Sequence[Sequence[AffineMap]],
        kinds: Sequence[IteratorType],
        arguments: Sequence[int],
        ranges: Mapping[int, Range],
        kept: Sequence[int],
    ) -> GenericOp:
        """Inserts a stage with the body of another one, whose loops are the kept ones."""
        inputs, outputs = operands
        region = stage.body.clone()
        block = region.block
        for number, argument in enumerate(block.args):
            if number not in arguments and argument.uses:
                argument.replace_all_uses_with(_load(block, stage, number))
        for number in reversed(range(len(block.args))):
            if number not in arguments:
                block.erase_arg(block.args[number])
        count = len(inputs) + len(outputs) - len(arguments)
        for _ in range(count):
            block.insert_arg(i1, len(inputs) - 1)
        for op in [op for op in region.walk() if isinstance(op, IndexOp)]:
            self._rewrite_index(op, ranges, kept)
        region.detach_block(block)
        parallel = sum(kind == IteratorType.PARALLEL for kind in kinds)
        new = generic(inputs, outputs, [*maps[0], *maps[1]], parallel, len(kinds) - parallel, block)
        new.location = stage.location
        return self.insert(new)

    def widened(self, stage: GenericOp, loops: Sequence[SSAValue], extents: Sequence[int]) -> GenericOp | None:
        """Inserts a stage with loops around it as the first of its own, if its operands' elements move evenly.

        Args:
            stage: The stage, which stays as it is.
            loops: The indices of the loops.
            extents: The numbers of their iterations.
        """
        if any(_depends_on(value, loop) for op in stage.body.walk() for value in op.operands for loop in loops):
            return None
        count, sizes = len(loops), [*extents, *loop_extents(stage)]
        shifted = [AffineDimExpr(dim) for dim in range(count, len(sizes))]
        operands: list[list[SSAValue]] = [[], []]
        maps, arguments = [list[AffineMap](), list[AffineMap]()], list[int]()
        for number, (buffer, m) in enumerate(zip(stage.operands, maps_of(stage), strict=True)):
            if is_shape_only(buffer):
                continue
            swept = self._swept(
                buffer, loops, [result.replace_dims_and_symbols(shifted, ()) for result in m.results], sizes
            )
            if swept is None:
                return None
            is_output = number >= len(stage.inputs)
            operands[is_output].append(swept[0])
            maps[is_output].append(swept[1])
            arguments.append(number)
        self._add_shape(sizes, operands, maps)
        kinds = [*[IteratorType.PARALLEL] * count, *iterators_of(stage)]
        return self._stage(stage, operands, maps, kinds, arguments, {}, range(-count, len(sizes) - count))

    def widened_move(
        self, op: FillOp | memref.CopyOp, loops: Sequence[SSAValue], extents: Sequence[int]
    ) -> Operation | None:
        """Inserts a fill or a copy of what one in loops goes through, if that is a part of each buffer, in order."""
        identity, buffers = AffineMap.identity(len(loops)), list[SSAValue]()
        for buffer in op.outputs if isinstance(op, FillOp) else (op.source, op.destination):
            swept = None if shape_of(buffer) else self._swept(buffer, loops, [], extents)
            if swept is None or swept[1] != identity:
                return None
            buffers.append(swept[0])
        if isinstance(op, memref.CopyOp):
            return self.copy(*buffers)
        number = self.insert(cast(Operation, op.inputs[0].owner).clone())
        return self.insert(FillOp(number.results, buffers, res=[]))

    def _swept(
        self, buffer: SSAValue, loops: Sequence[SSAValue], within: Sequence[AffineExpr], sizes: Sequence[int]
    ) -> tuple[SSAValue, AffineMap] | None:
        """Returns the part of a buffer that loops go through, and the index there; `None` if they don't move evenly.

        Args:
            buffer: The buffer.
            loops: The indices of the loops.
            within: The index along each of its axes, over the loops and further ones.
            sizes: The extents of all these.
        """
        part, rests, places = Part.of(buffer), list[Index](), list[AffineExpr]()
        inside = dict(zip(part.axes, within, strict=True))
        for axis, offset in enumerate(part.offsets):
            move = _moved_by(offset, loops)
            if move is None:
                return None
            rests.append(move[0])
            start = inside.get(axis, AffineConstantExpr(0))
            places.append(sum((AffineDimExpr(dim) * step for dim, step in enumerate(move[1])), start))
        return self.window(part.root, rests, places, sizes)

    def combine(self, reduction: Reduction, target: SSAValue, source: SSAValue) -> GenericOp:
        """Combines the elements of a buffer with those of another one of the same shape."""
        rank, element = len(shape_of(target)), element_of(target)
        block = Block(arg_types=[element, element])
        other, held = block.args
        kind = reduction.combine
        folded = type(kind).create(operands=[held, other], result_types=[element], properties=dict(kind.properties))
        block.add_ops([folded, YieldOp(*folded.results)])
        return self.insert(generic([source], [target], [AffineMap.identity(rank)] * 2, rank, 0, block))

    def _rewrite_index(self, op: IndexOp, ranges: Mapping[int, Range], kept: Sequence[int]) -> None:
        """Replaces the index of a loop in a body by one around it, or by a part of it plus where that begins."""
        loop = op.dim.value.data
        inner = TileBuilder.before(op)
        if loop not in kept:
            op.result.replace_all_uses_with(self.value(ranges[loop].first))
        else:
            new = inner.insert(IndexOp(kept.index(loop)))
            at = new.result
            if loop in ranges and ranges[loop].first.constant != 0:
                plus = AffineMapAttr(AffineMap(2, 0, (AffineDimExpr(0) + AffineDimExpr(1),)))
                at = inner.insert(affine_ops.ApplyOp([at, self.value(ranges[loop].first)], plus)).result
            op.result.replace_all_uses_with(at)
        Rewriter.erase_op(op)


def _depends_on(value: SSAValue, loop: SSAValue) -> bool:
    """Returns whether an index, or where a part of a buffer begins, depends on a loop."""
    if isinstance(value.type, MemRefType):
        return any(loop in offset.loops for offset in Part.of(value).offsets)
    return isinstance(value.type, IndexType) and loop in index_of(value).loops


def _moved_by(offset: Index, loops: Sequence[SSAValue]) -> tuple[Index, list[int]] | None:
    """Returns an offset without some loops, and how far an iteration of each moves it; `None` if not evenly."""
    steps = list[int]()
    for loop in loops:
        step = 0
        if loop in offset.loops:
            step = offset.linear.terms.get(AffineDimExpr(offset.loops.index(loop)), 0)
            offset = offset.plus(index_of(loop), -step)
        if loop in offset.loops:
            return None
        steps.append(step)
    return offset, steps


def _load(block: Block, stage: GenericOp, number: int) -> SSAValue:
    """Inserts the load of an operand at the start of a body, at indices over the loops of its stage."""
    first = block.first_op
    assert first is not None
    builder = TileBuilder.before(first)
    builder.location = stage.location
    affine_map = maps_of(stage)[number]
    loops = [builder.insert(IndexOp(loop)).result for loop in range(affine_map.num_dims)]
    indices = [builder.value(combined(result, [index_of(loop) for loop in loops])) for result in affine_map.results]
    return builder.insert(memref.LoadOp.get(stage.operands[number], indices)).res


def _divided(
    result: AffineExpr, extents: Sequence[int], ranges: Mapping[int, Range], kept: Sequence[int]
) -> tuple[Index, AffineExpr]:
    """Divides an index into what is fixed around a stage, and what depends on the loops that it keeps."""
    lin = affine.linear(result, extents)
    fixed, inside = constant(lin.constant), affine.Linear()
    starts = [ranges[loop].first if loop in ranges else constant(0) for loop in range(len(extents))]
    nowhere = AffineConstantExpr(0)
    places = [AffineDimExpr(kept.index(loop)) if loop in kept else nowhere for loop in range(len(extents))]
    for atom, factor in lin.terms.items():
        loops = atom.used_dims()
        divided = [loop for loop in loops if loop in ranges]
        if isinstance(atom, AffineDimExpr) or all(loop not in kept for loop in loops):
            fixed = fixed.plus(combined(atom, starts), factor)
        elif divided:
            raise Entangled(f"{result} mixes loops {sorted(loops)}")
        if isinstance(atom, AffineDimExpr) and atom.position in kept:
            inside = inside.plus(affine.Linear({places[atom.position]: 1}), factor)
        elif not isinstance(atom, AffineDimExpr) and not divided:
            inside = inside.plus(affine.Linear({atom.replace_dims_and_symbols(places, ()): 1}), factor)
    return fixed, inside.expression()


def entangled(stage: GenericOp, divided: set[int]) -> set[int]:
    """Returns the other loops of a stage that must be fixed if some are fixed or divided: outputs' indices mix them."""
    extents, result = loop_extents(stage), set[int]()
    atoms = [
        atom.used_dims()
        for m in maps_of(stage)[len(stage.inputs) :]
        for expression in m.results
        for atom in affine.linear(expression, extents).terms
        if not isinstance(atom, AffineDimExpr)
    ]
    for _ in atoms:  # each may entangle the loops of another one
        for loops in atoms:
            if loops & (divided | result):
                result |= loops - divided
    return result
