"""The transformation `stage`: what a product reads of one side is copied to local memory, and read there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import memref, scf
from xdsl.dialects.builtin import IndexType
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from tensorgrad.dialects.buf import is_shape_only
from tensorgrad.dialects.buf_tiles import DISPATCHED, ForallOp, Space, TiledOp, around, space_of
from tensorgrad.dialects.recipe import Processor, Stage
from tensorgrad.dialects.stages import generic
from tensorgrad.passes.analyses.axes import loops_of_values, needed_for, values_of_one_side
from tensorgrad.passes.codegen.transforms.building import Part, TileBuilder
from tensorgrad.passes.codegen.transforms.failure import DoesNotFit
from tensorgrad.passes.codegen.transforms.grid import free_nests, most_points
from tensorgrad.passes.codegen.transforms.indices import (
    Index,
    bounds_of,
    combined,
    constant,
    index_of,
    most_of,
    places_of,
)
from tensorgrad.passes.codegen.transforms.tidy import INDICES


def stage(kernel: TiledOp, step: Stage) -> None:
    """Copies what the terms of a product take from one side, in front of the loops over the points."""
    products = [
        _Staging(loops, loop, product, step)
        for loops in free_nests(kernel)
        for loop in loops.body.block.ops
        if isinstance(loop, scf.ForOp)
        for product in loop.body.block.ops
        if isinstance(product, GenericOp) and not product.iterator_types
    ]
    if not products:
        raise DoesNotFit("no loop adds single terms of a product: it comes after `interchange` or `step_reduction`")
    for product in products:
        product.write()


class _Staging:
    """A product in a loop over its terms, in loops over points, and who copies its operands where to."""

    def __init__(self, loops: ForallOp, loop: scf.ForOp, product: GenericOp, step: Stage):
        self.loops, self.loop, self.product, self.step = loops, loop, product, step
        self.sizes, self.terms = most_points(loops), bounds_of(loop.ub)
        self.most_terms = most_of(loop.ub)
        outside = [*around(loops)]
        if step.lanes > 1 and (Processor.LANE in outside or not any(p.is_workgroup for p in outside)):
            raise DoesNotFit(
                "lanes copy for their workgroup: it comes between the loops over workgroups and over lanes"
            )
        if step.lanes == 1 and Processor.TASK not in outside:
            raise DoesNotFit("a task copies to scratch memory; a workgroup needs the number of its lanes")
        if len(self.sizes) > 2 or any(side >= len(self.sizes) for side in step.along):
            raise DoesNotFit(f"it takes loops over rows and columns, or one of them, not {len(self.sizes)} loops")

    def write(self) -> None:
        """Writes the copies, and makes the product read them."""
        builder, inside = TileBuilder.before(self.loops), TileBuilder.before(self.product)
        values = {
            value: side for value, side in self._one_sided().items() if side in self.step.along or not self.step.along
        }
        if not values:
            raise DoesNotFit("the product takes nothing that depends on one side alone, and on the terms")
        elements: dict[SSAValue, SSAValue] = {}
        for value, side in values.items():
            memory = self._memory(value, self.sizes[side])
            self._copy(builder, value, side, memory)
            at = [index_of(self.loop.body.block.args[0]), index_of(self.loops.indices[side])]
            elements[value] = inside.element(memory, at)
        _insert(inside, self._reading(elements))
        Rewriter.erase_op(self.product)

    def _one_sided(self) -> dict[SSAValue, int]:
        """Returns the values of the product's body that depend on one of the loops over the points, and that loop."""
        body, rank = self.product.body.block, len(self.sizes)
        inner = [*body.walk()]
        blocks = [body, *(block for op in inner for region in op.regions for block in region.blocks)]
        defined = {value for op in inner for value in op.results} | {value for block in blocks for value in block.args}
        taken = {value: value for op in inner for value in op.operands if value not in defined}
        taken |= zip(body.args, self.product.inputs, strict=False)
        known = {value: self._around(source) for value, source in taken.items() if not is_shape_only(source)}
        row, column = frozenset([-2]), frozenset([-1])
        if rank == 1:  # the only row is that of what varies with the terms alone
            known |= {value: row | loops for value, loops in known.items() if loops == frozenset([0])}
        known[body.args[-1]] = row | column  # a sum belongs to both
        loops = loops_of_values(body, (), known)
        copies = {argument for argument, source in taken.items() if argument in body.args and space_of(source)}
        values = [value for value in values_of_one_side(body, loops, 0, row, column) if value not in copies]
        return {value: side for value in values if (side := min(loops[value]) + rank) >= 0}

    def _around(self, value: SSAValue) -> frozenset[int]:
        """Returns the loops that an index or a part of a buffer depends on: the last one over points is -1, terms 0."""
        indices = [index_of(value)] if isinstance(value.type, IndexType) else Part.of(value).offsets
        used = {loop for index in indices for loop in index.loops}
        order = [*self.loops.indices, self.loop.body.block.args[0]]
        return frozenset(number - len(self.sizes) for number, loop in enumerate(order) if loop in used)

    def _memory(self, value: SSAValue, size: int) -> SSAValue:
        """Allocates memory for a value of all terms and points of a side, in the task or the workgroup."""
        outer: Operation | None = self.loops
        while not isinstance(outer, ForallOp) or not {*outer.mapping} & {*DISPATCHED}:
            assert outer is not None
            outer = outer.parent_op()
        first = next(op for op in outer.body.block.ops if not isinstance(op, memref.AllocaOp))
        builder = TileBuilder(InsertPoint.before(first), self.product.location)
        space = Space.SCRATCH if self.step.lanes == 1 else Space.WORKGROUP
        return builder.local((self.most_terms, size + self.step.padding), value.type, space)

    # Copies

    def _copy(self, builder: TileBuilder, value: SSAValue, side: int, memory: SSAValue) -> None:
        """Writes loops that copy a value of all terms and points: those that are contiguous in memory innermost."""
        shape, last = (self.most_terms, self.sizes[side]), int(not self._lies_along_terms(value))
        points = bounds_of(self.loops.extents[side])
        order = (1 - last, last)
        if self.step.lanes == 1:
            extents = builder.least(self.terms), builder.least(points)
            nest = builder.forall([extents[axis] for axis in order], [Processor.SEQUENTIAL] * 2)
            builder, at = builder.into(nest.body.block), [index_of(index) for index in nest.indices]
        else:
            builder, flat = self._take_turns(builder, shape[0] * shape[1])
            at = places_of(flat, [shape[axis] for axis in order])
        term, point = (at[order.index(axis)] for axis in range(2))
        target = builder.element(memory, [term, point])
        if self.step.lanes > 1:  # what lies behind an edge is a copy of what lies there
            term, point = (_at_most(builder, *both) for both in ((term, self.terms), (point, points)))
        places = [point if axis == side else constant(0) for axis in range(len(self.sizes))]
        _insert(builder, self._computing(value, target), self._values(builder, places, term))

    def _take_turns(self, builder: TileBuilder, count: int) -> tuple[TileBuilder, Index]:
        """Inserts loops in which lanes share some iterations; returns where their body is, and its iteration."""
        lanes = min(self.step.lanes, count)
        loop = builder.forall([lanes], [Processor.LANE])
        builder, at = builder.into(loop.body.block), index_of(loop.indices[0])
        if count > lanes:
            turns = combined((AffineDimExpr(0) * -1 + (count + lanes - 1)) // lanes, [at])
            loop = builder.forall([builder.index(turns)], [Processor.SEQUENTIAL])
            builder, at = builder.into(loop.body.block), at.plus(index_of(loop.indices[0]), lanes)
        return builder, at

    def _lies_along_terms(self, value: SSAValue) -> bool:
        """Returns whether the terms of what a value is computed from are contiguous, or the points."""
        needed, term = needed_for([value]), self.loop.body.block.args[0]
        for argument, buffer in zip(self.product.body.block.args, self.product.inputs, strict=False):
            if argument in needed and (offsets := Part.of(buffer).offsets) and 0 in self._around(buffer):
                return term in offsets[-1].loops
        return False

    def _values(self, builder: TileBuilder, points: Sequence[Index], term: Index) -> dict[SSAValue, SSAValue]:
        """Writes the index arithmetic of a term at a point, and returns what takes the place of which value."""
        old: list[SSAValue] = [*self.loops.indices, self.loop.body.block.args[0]]
        values = {index: builder.value(new) for index, new in zip(old, (*points, term), strict=True)}
        for op in (*self.loops.body.block.ops, *self.loop.body.block.ops):
            if isinstance(op, INDICES):
                builder.move(op.clone(values))
        return values

    # Stages

    def _computing(self, value: SSAValue, target: SSAValue) -> GenericOp:
        """Returns a stage that writes a value of the product's body to an element of a buffer."""
        body, copies = self._body()
        last = body.last_op
        assert last is not None
        Rewriter.erase_op(last)
        body.add_op(YieldOp(copies[value]))
        _erase_dead(body)
        body.erase_arg(body.args[-1])
        body.insert_arg(value.type, len(body.args))
        return _point(body, self.product.inputs, [target])

    def _reading(self, elements: Mapping[SSAValue, SSAValue]) -> GenericOp:
        """Returns the product, which reads elements of buffers in place of values that its body computes."""
        body, copies = self._body()
        inputs = [*self.product.inputs]
        for value, element in elements.items():
            argument = body.insert_arg(value.type, len(inputs))
            copies[value].replace_all_uses_with(argument)
            inputs.append(element)
        _erase_dead(body)
        return _point(body, inputs, self.product.outputs)

    def _body(self) -> tuple[Block, dict[SSAValue, SSAValue]]:
        """Returns a copy of the product's body, and what became of each of its values."""
        copies: dict[SSAValue, SSAValue] = {}
        copy = self.product.clone(copies)
        body = copy.body.detach_block(0)
        copy.erase()
        return body, copies


def _at_most(builder: TileBuilder, index: Index, bounds: Sequence[Index]) -> Index:
    """Returns an index in a loop of whole tiles, or the last one of a tile that is smaller."""
    ends = [bound.plus(constant(-1)) for bound in bounds if bound.constant is None]
    return index_of(builder.least([index, *ends]))


def _erase_dead(body: Block) -> None:
    """Erases the ops of a body that nothing uses."""
    for op in reversed([*body.ops]):
        if op.results and not any(result.uses for result in op.results):
            Rewriter.erase_op(op)


def _point(body: Block, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> GenericOp:
    """Returns a stage of one point, without the inputs that its body doesn't read."""
    read = [buffer for argument, buffer in zip(body.args, inputs, strict=False) if argument.uses]
    for argument in body.args[: len(inputs)]:
        if not argument.uses:
            body.erase_arg(argument)
    return generic(read, outputs, [AffineMap(0, 0, ())] * (len(read) + len(outputs)), 0, 0, body)


def _insert(builder: TileBuilder, stage: GenericOp, values: Mapping[SSAValue, SSAValue] | None = None) -> None:
    """Inserts a stage of one point with other values for what it takes; one that only copies becomes a copy."""
    here = stage.clone({**(values or {})})
    stage.erase()
    body = here.body.block
    if isinstance(body.first_op, YieldOp) and body.first_op.operands[0] is body.args[0]:
        builder.copy(here.inputs[0], here.outputs[0])
        here.erase()
    else:
        builder.insert(here)
