"""The transformation `attend`: an attention as blocks of rows, which go through tiles of columns.

What a block computes is `AttentionProgram`; here its operations are stages on local memory, with the rows innermost.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce

from xdsl.dialects import arith
from xdsl.dialects.linalg.ops import IndexOp, YieldOp
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap
from xdsl.rewriter import Rewriter

from tensorgrad.dialects.attention import BACKWARD, AttentionOp
from tensorgrad.dialects.buf import element_of, shape_of
from tensorgrad.dialects.buf_tiles import Space, TiledOp
from tensorgrad.dialects.recipe import Attend, Processor
from tensorgrad.dialects.short_floats import SHORT_FLOATS
from tensorgrad.dialects.stages import generic
from tensorgrad.passes.codegen.common.attention import FEATURE, GROUP, QUERY, Numbers, Scores, is_seen
from tensorgrad.passes.codegen.common.attention_program import QUERY_OPERAND, AttentionProgram
from tensorgrad.passes.codegen.transforms.building import TileBuilder
from tensorgrad.passes.codegen.transforms.failure import DoesNotFit
from tensorgrad.passes.codegen.transforms.indices import Index, combined, constant, index_of
from tensorgrad.passes.scalars import ScalarBuilder, Value, both, largest

NAMES = ("queries", "keys", "values", "by_results", "totals", "deltas")
"""The names of the operands that are loaded; those of biases and masks are not."""


def attend(kernel: TiledOp, step: Attend) -> None:
    """Writes an attention as a loop over blocks of rows."""
    stage = kernel.body.block.first_op
    if not isinstance(stage, AttentionOp):
        raise DoesNotFit("the kernel has no attention that is one op")
    _Block(stage, step).write_all()
    Rewriter.erase_op(stage)


@dataclass(frozen=True)
class ColumnTile:
    """A range of columns.

    Attributes:
        start: The first column.
        place: Its position in its head.
        count: The number of columns.
    """

    start: Index
    place: Index
    count: int | SSAValue


@dataclass(frozen=True)
class Features:
    """Features in local memory.

    Attributes:
        memory: A line of rows for each feature, or a line of features for each column.
        by_row: A line of features for each row, if `accumulate_columns` takes them.
    """

    memory: SSAValue
    by_row: SSAValue | None = None


class _Block(AttentionProgram[ColumnTile, Features, Features, Features, Scores, Numbers]):
    """A block of rows, in the scratch memory of a task."""

    def __init__(self, stage: AttentionOp, step: Attend):
        super().__init__(stage, ScalarBuilder(Block()))
        self.b = TileBuilder.before(stage)
        self.row_total = stage.grid[1] if stage.part.data != BACKWARD else self.a.keys
        # The queries of one head have the same causal mask.
        self.head = self.a.period if self.row_loop == QUERY and self.a.causal is not None else self.row_total
        columns = min(step.columns, max(self.row_total, self.a.keys, stage.grid[1]))
        self.step = replace(step, rows=min(step.rows, self.head), columns=columns)
        self.is_cut = self.head % self.step.rows != 0

    def write_all(self) -> None:
        """Writes the loop over blocks; for the whole derivative, over groups."""
        at, blocks = AffineDimExpr(0), self.step.blocks
        total = self.a.groups * (1 if self.stage.part.data == BACKWARD else math.prod(self._blocks))
        with self._inside(self.b.forall([-(-total // blocks)], [Processor.TASK]).body.block) as (task,):
            if blocks == 1:
                self._write_block(task)
                return
            first = combined(at * blocks, [task])
            count = self.b.least([constant(blocks), constant(total).plus(first, -1)])
            with self._inside(self._each(count)) as (block,):
                self._write_block(first.plus(block))

    @property
    def _blocks(self) -> tuple[int, int]:
        """The number of heads of a group, and of blocks of a head."""
        return self.row_total // self.head, -(-self.head // self.step.rows)

    def _write_block(self, number: Index) -> None:
        """Writes the block, or the group, with a number."""
        if self.stage.part.data == BACKWARD:
            self.group = number
        else:
            at, (heads, across) = AffineDimExpr(0), self._blocks
            places = (at // (heads * across), (at // across) % heads, at % across)
            self.group, head, block = (combined(place, [number]) for place in places)
            self._locate(head, block)
        self.write()

    def _locate(self, head: Index, block: Index) -> None:
        """Sets the rows of a block, given its head and its number there."""
        self.first = combined(AffineDimExpr(0) * self.step.rows, [block])
        self.first_row = combined(AffineDimExpr(0) * self.head + AffineDimExpr(1), [head, self.first])
        self.row_count = self.b.least([constant(self.step.rows), constant(self.head).plus(self.first, -1)])

    # Building

    @contextmanager
    def _inside(self, block: Block) -> Generator[tuple[Index, ...]]:
        """Inserts into the body of a loop, and yields its indices."""
        outer, self.b = self.b, self.b.into(block)
        yield tuple(map(index_of, block.args))
        self.b = outer

    def _each(self, *extents: int | SSAValue) -> Block:
        """Returns the body of new independent loops."""
        return self.b.forall(extents, [Processor.SEQUENTIAL] * len(extents)).body.block

    def _local(self, name: str, *shape: int) -> SSAValue:
        memory = self.b.local(shape, self.element, Space.SCRATCH)
        memory.name_hint = name
        return memory

    def _zeros(self, name: str, *shape: int) -> SSAValue:
        memory = self._local(name, *shape)
        self.b.fill(memory, 0.0)
        return memory

    def _line(self, memory: SSAValue, at: Index) -> SSAValue:
        """Returns a line of a matrix."""
        extent = shape_of(memory)[1]
        return self.b.window(memory, [at, constant(0)], [AffineConstantExpr(0), AffineDimExpr(0)], [extent])[0]

    def _element(self, memory: SSAValue, *at: Index) -> SSAValue:
        return self.b.element(memory, at)

    def _operand(self, number: int, **loops: Index) -> SSAValue:
        """Returns an element of an operand in the block's group, given its `row`, `column` and `feature`."""
        places = {"row": self.row_loop, "column": self.column_loop, "feature": FEATURE}
        known = {GROUP: self.group, **{places[name]: at for name, at in loops.items()}}
        place = self.stage.affine_maps()[number]
        parts = [known.get(loop, constant(0)) for loop in range(place.num_dims)]
        return self.b.element(self.stage.operands[number], [combined(result, parts) for result in place.results])

    def _set(self, targets: Sequence[SSAValue], function: Callable[..., Sequence[Value]], *sources: SSAValue) -> None:
        """Inserts a stage that sets elements to what a function of others returns, which may be their old values."""
        self._stage(sources, targets, lambda read, _: function(*read))

    def _fold(self, target: SSAValue, function: Callable[..., Value], *sources: SSAValue) -> None:
        """Inserts a stage that sets elements to what a function of their old values and of others returns."""
        self._stage(sources, [target], lambda read, held: (function(*held, *read),))

    def _stage(
        self,
        sources: Sequence[SSAValue],
        targets: Sequence[SSAValue],
        function: Callable[[Sequence[Value], Sequence[Value]], Sequence[Value]],
    ) -> None:
        """Inserts a stage over lines of the same length, or single elements.

        Args:
            sources: What it reads.
            targets: What it writes.
            function: Returns the new elements, given those of sources and the old ones.
        """
        sources, targets = [*map(self._whole, sources)], [*map(self._whole, targets)]
        rank = len(shape_of(targets[0]))
        maps = [AffineMap.identity(rank) if shape_of(each) else AffineMap(rank, 0, ()) for each in (*sources, *targets)]
        block = Block(arg_types=[element_of(buffer) for buffer in (*sources, *targets)])
        with self.scalars.within(block):
            arguments = [self.scalars.value(argument) for argument in block.args]
            read = [self._widened(value) for value in arguments[: len(sources)]]
            values = function(read, arguments[len(sources) :])
            narrow = [self._narrowed(value, target) for value, target in zip(values, targets, strict=True)]
            block.add_op(YieldOp(*(value.ssa for value in narrow)))
        self.b.insert(generic(sources, targets, maps, rank, 0, block))

    def _whole(self, line: SSAValue) -> SSAValue:
        """Returns a line as a part of a buffer, which leaves out an axis of one element."""
        return self._element(line, constant(0)) if shape_of(line) == (1,) else line

    def _widened(self, value: Value) -> Value:
        return value.cast(arith.ExtFOp, self.element) if value.type in SHORT_FLOATS.values() else value

    def _narrowed(self, value: Value, target: SSAValue) -> Value:
        element = element_of(target)
        return value.cast(arith.TruncFOp, element) if element in SHORT_FLOATS.values() else value

    def _scaled(self, factor: float) -> Callable[[Value], Sequence[Value]]:
        def scale(value: Value) -> Sequence[Value]:
            return (value if factor == 1 else value * factor,)

        return scale

    def _name(self, operand: int) -> str:
        """Returns the name of an operand that is loaded."""
        return NAMES[operand if operand < 3 else 3 + operand - self.a.operands]

    # Operands and results

    def rows(self, operand: int, factor: float = 1.0, as_lines: bool = False) -> Features:
        features = self.features(operand)
        allocate = self._zeros if self.is_cut else self._local
        memory = allocate(self._name(operand), features, self.step.rows)
        by_row = self._local(f"{self._name(operand)}_by_row", self.step.rows, features) if as_lines else None
        with self._inside(self._each(self.row_count, features)) as (row, feature):
            source = self._operand(operand, row=self.first_row.plus(row), feature=feature)
            targets = [self._element(memory, feature, row)]
            if by_row is not None:
                targets.append(self._element(by_row, row, feature))
            for target in targets:
                self._set([target], self._scaled(factor), source)
        return Features(memory, by_row)

    def columns(self, operand: int, tile: ColumnTile, factor: float = 1.0) -> Features:
        features = self.features(operand)
        memory = self._local(self._name(operand), self.step.columns, features)
        with self._inside(self._each(tile.count, features)) as (column, feature):
            source = self._operand(operand, column=tile.start.plus(column), feature=feature)
            self._set([self._element(memory, column, feature)], self._scaled(factor), source)
        return Features(memory)

    def numbers(self, name: str) -> Numbers:
        return Numbers(self._local(name, self.step.rows))

    def row_numbers(self, operand: int) -> Numbers:
        memory = (self._zeros if self.is_cut else self._local)(self._name(operand), self.step.rows)
        with self._inside(self._each(self.row_count)) as (row,):
            source = self._operand(operand, row=self.first_row.plus(row))
            self._set([self._element(memory, row)], self._scaled(1), source)
        return Numbers(memory)

    def column_numbers(self, operand: int, tile: ColumnTile) -> Numbers:
        memory = self._local(self._name(operand), self.step.columns)
        with self._inside(self._each(tile.count)) as (column,):
            source = self._operand(operand, column=tile.start.plus(column))
            self._set([self._element(memory, column)], self._scaled(1), source)
        return Numbers(memory, of_columns=True)

    def store(self, output: int, sums: Features, factors: Numbers | float = 1.0) -> None:
        operand = self.operand_of(output)
        with self._inside(self._each(self.row_count, self.features(operand))) as (row, feature):
            source = self._element(sums.memory, feature, row)
            target = self._operand(operand, row=self.first_row.plus(row), feature=feature)
            if isinstance(factors, Numbers):
                factor = self._element(factors.memory, row)
                self._set([target], _product, source, factor)
            else:
                self._set([target], self._scaled(factors), source)

    def store_numbers(self, output: int, numbers: Numbers) -> None:
        with self._inside(self._each(self.row_count)) as (row,):
            target = self._operand(self.operand_of(output), row=self.first_row.plus(row))
            self._set([target], self._scaled(1), self._element(numbers.memory, row))

    # Loops

    def each_tile(self, carried: Sequence[Numbers | Features], body: Callable[[ColumnTile], None]) -> None:
        a = self.a
        skips = a.skips and a.causal == 0  # other masks hide what could be skipped
        if self.row_loop == QUERY:
            behind = self.first.plus(index_of(self.row_count))
            limits = [constant(a.keys), *([behind] if skips else [])]
            self._each_tile_of(constant(0), constant(0), limits, body)
            return
        period = a.queries if a.causal is None else a.period
        first = self.first if skips else constant(0)
        with self._inside(self.b.loop(a.queries // period).body.block) as (head,):
            self._each_tile_of(combined(AffineDimExpr(0) * period, [head]), first, [constant(period)], body)

    def _each_tile_of(
        self, before: Index, first: Index, limits: Sequence[Index], body: Callable[[ColumnTile], None]
    ) -> None:
        """Writes a loop over the tiles from `first` to the least of some limits, of columns that follow others."""
        size = self.step.columns
        upwards = (AffineDimExpr(0) + (size - 1)) // size
        tiles = [combined(upwards, [limit.plus(first, -1)]) for limit in limits]
        with self._inside(self.b.loop(self.b.least(tiles)).body.block) as (number,):
            place = first.plus(number, size)
            count = self.b.least([constant(size), *(limit.plus(place, -1) for limit in limits)])
            body(ColumnTile(before.plus(place), place, count))

    def each_block(self, body: Callable[[], None]) -> None:
        with self._inside(self.b.loop(self._blocks[1]).body.block) as (block,):
            self._locate(constant(0), block)
            body()

    # Numbers of rows, and scores

    def each_row(self, targets: Sequence[Numbers], function: Callable[..., Sequence[Value]], *sources: Numbers) -> None:
        self._set([target.memory for target in targets], function, *(source.memory for source in sources))

    def each_score(
        self,
        targets: Sequence[Scores],
        function: Callable[..., Sequence[Value]],
        tile: ColumnTile,
        *sources: Scores | Numbers,
    ) -> None:
        with self._inside(self._each(tile.count)) as (column,):
            parts = {part: self._of_column(part, column) for part in dict.fromkeys((*targets, *sources))}
            self._set([parts[target] for target in targets], function, *(parts[source] for source in sources))

    def _of_column(self, source: Scores | Numbers, column: Index) -> SSAValue:
        """Returns a column's line of scores, its number, or the numbers of rows."""
        if isinstance(source, Scores):
            return self._line(source.memory, column)
        return self._element(source.memory, column) if source.of_columns else source.memory

    def raise_to(self, target: Numbers, least: Numbers, scores: Scores, tile: ColumnTile) -> None:
        self.b.copy(least.memory, target.memory)
        with self._inside(self.b.loop(tile.count).body.block) as (column,):
            line = self._line(scores.memory, column)
            self._set([target.memory], _larger, target.memory, line)

    def add_scores(self, total: Numbers, scores: Scores, tile: ColumnTile) -> None:
        with self._inside(self.b.loop(tile.count).body.block) as (column,):
            self._fold(total.memory, operator.add, self._line(scores.memory, column))

    def join(self, total: Numbers) -> None:
        pass  # it has no parts

    def add_biases(self, scores: Scores, tile: ColumnTile) -> None:
        for bias in range(3, 3 + self.a.biases):
            with self._inside(self._each(tile.count, self.row_count)) as (column, row):
                source = self._operand(bias, row=self.first_row.plus(row), column=tile.start.plus(column))
                target = self._element(scores.memory, column, row)
                self._fold(target, operator.add, source)

    def hide(self, scores: Sequence[Scores], number: float, tile: ColumnTile, outside: float) -> None:
        masks = range(3 + self.a.biases, self.a.operands)
        count = len(scores)
        if masks:
            with self._inside(self._each(tile.count, self.row_count)) as (column, row):
                at = {"row": self.first_row.plus(row), "column": tile.start.plus(column)}
                targets = [self._element(each.memory, column, row) for each in scores]

                def by_masks(*read: Value) -> Sequence[Value]:
                    seen = reduce(both, read[count:])
                    return [self.scalars.select(seen, score, number) for score in read[:count]]

                self._set(targets, by_masks, *targets, *(self._operand(mask, **at) for mask in masks))
        if self.a.causal is not None:
            with self._inside(self._each(tile.count)) as (column,):
                lines = [self._line(each.memory, column) for each in scores]
                first, other = self.b.value(self.first), self.b.value(tile.place.plus(column))

                def by_causality(*read: Value) -> Sequence[Value]:
                    row = self.scalars.value(first)
                    if self.step.rows > 1:
                        row = row + self.scalars.add(IndexOp(0))
                    column = self.scalars.value(other)
                    query, key = (row, column) if self.row_loop == QUERY else (column, row)
                    seen = is_seen(self.a, query, key)
                    return [self.scalars.select(seen, score, number) for score in read]

                self._set(lines, by_causality, *lines)

    # Products

    def products(self, rows: Features, columns: Features, tile: ColumnTile) -> Scores:
        scores = Scores(self._local("scores", self.step.columns, self.step.rows))
        with self._inside(self._each(tile.count)) as (column,):
            self._add_products(
                self._line(scores.memory, column),
                shape_of(rows.memory)[0],
                rows.memory,
                lambda feature: self._element(columns.memory, column, feature),
                from_zero=True,
            )
        return scores

    def _add_products(
        self,
        target: SSAValue,
        steps: int | SSAValue,
        lines: SSAValue,
        number: Callable[[Index], SSAValue],
        from_zero: bool = False,
    ) -> None:
        """Adds lines of a matrix, each times a number, to a line; the sums are in registers meanwhile.

        Args:
            target: The line.
            steps: How many lines are added.
            lines: The matrix.
            number: Returns the number of a step.
            from_zero: Whether the sums begin with zeros, not with what is in the target.
        """
        sums = self.b.local(shape_of(target), self.element, Space.REGISTER)
        if from_zero:
            self.b.fill(sums, 0.0)
        else:
            self.b.copy(target, sums)
        with self._inside(self.b.loop(steps).body.block) as (step,):
            self._fold(sums, _plus_product, self._line(lines, step), number(step))
        self.b.copy(sums, target)

    def sums(self, operand: int) -> Features:
        return Features(self._zeros("sums", self.features(operand), self.step.rows))

    def accumulate(
        self, sums: Features, scores: Scores, columns: Features, tile: ColumnTile, shrink: Numbers | None = None
    ) -> None:
        features = shape_of(sums.memory)[0]
        with self._inside(self._each(features)) as (feature,):
            line = self._line(sums.memory, feature)
            if shrink is not None:
                self._fold(line, operator.mul, shrink.memory)
            self._add_products(
                line, tile.count, scores.memory, lambda column: self._element(columns.memory, column, feature)
            )

    # Whole groups

    def clear_columns(self) -> None:
        self.column_sums = self._zeros("sums", self.a.queries, self.features(QUERY_OPERAND))

    def accumulate_columns(self, scores: Scores, rows: Features, tile: ColumnTile) -> None:
        assert rows.by_row is not None  # they were loaded for this
        with self._inside(self._each(tile.count)) as (column,):
            line = self._line(self.column_sums, tile.start.plus(column))
            self._add_products(line, self.row_count, rows.by_row, lambda row: self._element(scores.memory, column, row))

    def store_columns(self, output: int, factor: float) -> None:
        operand = self.operand_of(output)
        with self._inside(self._each(self.a.queries, self.features(operand))) as (column, feature):
            target = self._operand(operand, column=column, feature=feature)
            self._set([target], self._scaled(factor), self._element(self.column_sums, column, feature))


def _product(x: Value, y: Value) -> Sequence[Value]:
    return (x * y,)


def _plus_product(held: Value, x: Value, y: Value) -> Value:
    return held + x * y


def _larger(x: Value, y: Value) -> Sequence[Value]:
    return (largest(x, y),)
