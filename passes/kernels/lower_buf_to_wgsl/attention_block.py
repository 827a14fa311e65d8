"""What the kernels of an attention share: where a thread's rows are, products, and sums over a tile."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue

from tensorgrad.dialects import wgsl
from tensorgrad.dialects.attention import AttentionOp
from tensorgrad.dialects.schedule import AttentionSchedule
from tensorgrad.passes.kernels.writing.attention import (
    FEATURE,
    GROUP,
    KEY,
    LOWEST,
    QUERY,
    Element,
    is_seen,
    seen_keys,
)
from tensorgrad.passes.kernels.writing.emission import Code
from tensorgrad.passes.kernels.writing.scalars import folded, largest, product, summed

UNROLLED = 4
"""How many steps of a product over features stand in one iteration, where they divide them."""

Grid = list[list[SSAValue]]
"""A value for each row of a thread and each of its columns."""


class AttentionBlock(ABC):
    """What the three parts share."""

    row_loop, column_loop = QUERY, KEY

    alternates = False
    """Whether values pass through two arrays of workgroup memory alternately."""

    def __init__(self, stage: AttentionOp, code: Code, tile: AttentionSchedule):
        self.stage, self.code, self.tile = stage, code, tile
        self.a = stage.attention
        self.element = stage.computed_in
        self.width = tile.lanes * tile.columns
        self.row_count = self.a.queries if self.row_loop == QUERY else self.a.keys
        self.zero = code.scalar(0.0, self.element)
        self.one = code.scalar(1.0, self.element)
        self.infinity = code.scalar(float("-inf"), self.element)
        self.fill = self.infinity if self.a.fill == -math.inf else code.scalar(self.a.fill, self.element)
        self.scale = code.scalar(self.a.scale, self.element)
        self._locate(tile.groups)
        self.shared: list[SSAValue] = []

    def _locate(self, groups: Sequence[int]) -> None:
        code, tile, a = self.code, self.tile, self.a
        self.lane = code.add(wgsl.LocalIdOp(0))
        self.depth = code.add(wgsl.LocalIdOp(1))
        group = code.add(wgsl.WorkgroupIdOp(1))
        self.group_inside: SSAValue | None = None
        if groups[2] > 1:
            layer = code.index_op(arith.MuliOp, code.add(wgsl.WorkgroupIdOp(2)), groups[1])
            group = code.index_op(arith.AddiOp, group, layer)
        if groups[1] * groups[2] != a.groups:
            self.group_inside = code.below(group, a.groups)
            group = code.index_op(arith.MinUIOp, group, a.groups - 1)
        self.group = group
        self.block_start = code.index_op(arith.MuliOp, code.add(wgsl.WorkgroupIdOp(0)), tile.rows * tile.depth)
        mine = code.index_op(arith.MuliOp, self.depth, tile.rows)
        self.first = code.index_op(arith.AddiOp, self.block_start, mine) if tile.depth > 1 else self.block_start
        self.cut_rows = self.row_count % (tile.rows * tile.depth) != 0
        self.rows = [self._row(i) for i in range(tile.rows)]
        # With subgroups, each lane reads every `lanes`-th row of the block and passes it on.
        shared = (
            [code.index_op(arith.RemUIOp, self.lane, tile.rows)]
            if tile.rows < tile.lanes
            else [code.index_op(arith.AddiOp, self.lane, start) for start in range(0, tile.rows, tile.lanes)]
        )
        self.lane_rows = [self._within(code.index_op(arith.AddiOp, self.first, row)) for row in shared]

    def _row(self, i: int) -> SSAValue:
        return self._within(self.code.index_op(arith.AddiOp, self.first, i))

    def _within(self, row: SSAValue) -> SSAValue:
        return self.code.index_op(arith.MinUIOp, row, self.row_count - 1) if self.cut_rows else row

    # Operands

    def element_at(self, operand: int) -> Element:
        """Returns an operand's element in this thread's group."""
        return Element.of(self.stage, operand, self.code).with_loops(self.code, {GROUP: self.group})

    def known(self, **loops: SSAValue) -> dict[int, SSAValue]:
        """Returns the loops of a thread: its group, and those given as `row`, `column` and `feature`."""
        places = {"row": self.row_loop, "column": self.column_loop, "feature": FEATURE}
        return {GROUP: self.group, **{places[name]: value for name, value in loops.items()}}

    def of_rows(self, code: Code, operand: int) -> list[Element]:
        """Returns an operand's elements in each row of the thread."""
        at = self.element_at(operand)
        return [at.with_loops(code, self.known(row=row)) for row in self.rows]

    # Products

    def products(self, code: Code, row_operand: int, column_operand: int, columns: Sequence[SSAValue]) -> Grid:
        """Returns the scalar products of the thread's rows with its columns, of two operands' features."""
        tile, a = self.tile, self.a
        features = a.shapes(self.stage.part.data)[row_operand][-1]
        at_column = self.element_at(column_operand)
        across = [at_column.with_loops(code, self.known(column=column)) for column in columns]
        if tile.broadcast:
            at_row = self.element_at(row_operand)
            down = [at_row.with_loops(self.code, self.known(row=row)) for row in self.lane_rows]
        else:
            down = self.of_rows(self.code, row_operand)
        steps = UNROLLED if features % UNROLLED == 0 else 1

        def body(inner: Code, at: SSAValue, held: Sequence[SSAValue]) -> Sequence[SSAValue]:
            sums = list(held)
            for step in range(steps):
                feature = {FEATURE: inner.index_op(arith.AddiOp, at, step)}
                found = [one.with_loops(inner, feature).load(inner) for one in down]
                if tile.broadcast:
                    found = [
                        inner.add(wgsl.SubgroupBroadcastOp(found[row // tile.lanes], row % tile.lanes))
                        for row in range(tile.rows)
                    ]
                others = [one.with_loops(inner, feature).load(inner) for one in across]
                for i, x in enumerate(found):
                    for j, y in enumerate(others):
                        place = i * len(others) + j
                        sums[place] = summed(inner, sums[place], product(inner, x, y))
            return sums

        flat = code.loop(features, [self.zero] * (tile.rows * len(columns)), body, step=steps)
        return [flat[i * len(columns) : (i + 1) * len(columns)] for i in range(tile.rows)]

    def accumulate(
        self, code: Code, weights: Grid, memory: int, operand: int, start: SSAValue, stop: int, held: Sequence[SSAValue]
    ) -> list[SSAValue]:
        """Adds the weighted features of a tile's columns to the accumulators.

        Args:
            code: Where to.
            weights: Of the thread's rows and columns.
            memory: Which workgroup memory passes them on, where subgroups don't.
            operand: What has the features.
            start: The tile's first column.
            stop: The number of columns.
            held: The accumulators, row by row.
        """
        tile = self.tile
        columns = self.feature_places(code, operand)
        at = self.element_at(operand)
        cut = stop % self.width != 0 or self.starts_anywhere

        def add(
            inner: Code, column: SSAValue, row_weights: Sequence[SSAValue], sums: Sequence[SSAValue]
        ) -> list[SSAValue]:
            place = inner.index_op(arith.MinUIOp, column, stop - 1) if cut else column
            here = at.with_loops(inner, self.known(column=self.column_at(inner, place)))
            values = [here.with_loops(inner, {FEATURE: feature}).load(inner) for feature in columns]
            count = len(columns)
            return [
                summed(inner, sums[i * count + j], product(inner, weight, value))
                for i, weight in enumerate(row_weights)
                for j, value in enumerate(values)
            ]

        if tile.broadcast:
            found = list(held)
            for j in range(tile.columns):
                for lane in range(tile.lanes):
                    column = code.index_op(arith.AddiOp, start, j * tile.lanes + lane)
                    row_weights = [code.add(wgsl.SubgroupBroadcastOp(row[j], lane)) for row in weights]
                    found = add(code, column, row_weights, found)
            return found
        self._share(code, weights, memory)
        begin = [self._shared_row(code, i) for i in range(tile.rows)]

        def body(inner: Code, k: SSAValue, sums: Sequence[SSAValue]) -> Sequence[SSAValue]:
            row_weights = [inner.element(self.shared[memory], inner.index_op(arith.AddiOp, one, k)) for one in begin]
            return add(inner, inner.index_op(arith.AddiOp, start, k), row_weights, sums)

        left = code.index_op(arith.SubiOp, code.number(stop), start)
        return code.loop_to(code.index_op(arith.MinUIOp, left, self.width), held, body)

    def feature_places(self, code: Code, operand: int) -> list[SSAValue]:
        """Returns the features that this lane accumulates; those behind the last stand at it, and are not stored."""
        features = self.a.shapes(self.stage.part.data)[operand][-1]
        lanes = self.tile.lanes
        places = [code.index_op(arith.AddiOp, self.lane, i * lanes) for i in range(-(-features // lanes))]
        if features % lanes:
            places[-1] = code.index_op(arith.MinUIOp, places[-1], features - 1)
        return places

    # Passing on between lanes

    def _shared_row(self, code: Code, i: int) -> SSAValue:
        row = code.index_op(arith.AddiOp, code.index_op(arith.MuliOp, self.depth, self.tile.rows), i)
        return code.index_op(arith.MuliOp, row, self.width)

    def _share(self, code: Code, values: Grid, memory: int) -> None:
        """Writes the thread's values to workgroup memory, a row of it for each row, and waits until all threads have.

        First it waits until none of them still reads there; if two arrays alternate, the wait for the other did that.
        """
        while len(self.shared) <= memory:
            kind = MemRefType(self.element, [self.tile.rows * self.tile.depth * self.width])
            self.shared.append(self.code.add(wgsl.WorkgroupAllocOp(kind)))
        if not self.alternates:
            code.block.add_op(wgsl.BarrierOp())
        for i, row in enumerate(values):
            begin = code.index_op(arith.AddiOp, self._shared_row(code, i), self.lane)
            for j, value in enumerate(row):
                at = code.index_op(arith.AddiOp, begin, j * self.tile.lanes)
                code.put(value, self.shared[memory], at)
        code.block.add_op(wgsl.BarrierOp())

    def across_lanes(self, code: Code, values: Grid, kind: str) -> list[SSAValue]:
        """For each row, the maximum ("max") or sum ("add") of all lanes' values."""
        fold = largest if kind == "max" else summed
        if self.tile.broadcast:
            mine = [folded(code, row, fold) for row in values]
            return [code.add(wgsl.SubgroupReduceOp(kind, value)) for value in mine]
        self._share(code, values, 0)
        count = self.tile.lanes * len(values[0])
        begin = [self._shared_row(code, i) for i in range(self.tile.rows)]

        def body(inner: Code, k: SSAValue, held: Sequence[SSAValue]) -> Sequence[SSAValue]:
            found = [inner.element(self.shared[0], inner.index_op(arith.AddiOp, one, k)) for one in begin]
            return [fold(inner, old, new) for old, new in zip(held, found, strict=True)]

        start = self.code.scalar(LOWEST, self.element) if kind == "max" else self.zero
        return code.loop(count, [start] * len(values), body)

    # Scores

    starts_anywhere = False

    def column_at(self, code: Code, place: SSAValue) -> SSAValue:
        """Returns the index along the columns' loop of a place within a tile's range."""
        return place

    def tile_columns(self, code: Code, start: SSAValue, stop: int) -> tuple[list[SSAValue], list[SSAValue | None]]:
        """Returns this lane's columns in the tile that starts at a place, and whether each lies before `stop`."""
        places, inside = list[SSAValue](), list[SSAValue | None]()
        for j in range(self.tile.columns):
            place = code.index_op(arith.AddiOp, start, code.index_op(arith.AddiOp, self.lane, j * self.tile.lanes))
            within = None
            if stop % self.width or self.starts_anywhere:
                within = code.below(place, stop)
                place = code.index_op(arith.MinUIOp, place, stop - 1)
            places.append(place)
            inside.append(within)
        return places, inside

    def scores(self, code: Code, columns: Sequence[SSAValue]) -> Grid:
        """Scaled products of queries and keys with biases, whatever is allowed."""
        row_operand, column_operand = (0, 1) if self.row_loop == QUERY else (1, 0)
        found = self.products(code, row_operand, column_operand, columns)
        biases = [self.element_at(3 + i) for i in range(self.a.biases)]
        for i, row in enumerate(self.rows):
            for j, column in enumerate(columns):
                value = product(code, found[i][j], self.scale) if self.a.scale != 1 else found[i][j]
                for bias in biases:
                    value = summed(code, value, bias.with_loops(code, self.known(row=row, column=column)).load(code))
                found[i][j] = value
        return found

    def allowed(self, code: Code, row: SSAValue, column: SSAValue) -> SSAValue | None:
        """Returns whether a row and a column attend to each other; `None` where all do."""
        a = self.a
        found: SSAValue | None = None
        if a.causal is not None:
            query, key = (row, column) if self.row_loop == QUERY else (column, row)
            place = query if a.period == a.queries else code.index_op(arith.RemUIOp, query, a.period)
            found = is_seen(code, a, place, key)
        for i in range(a.masks):
            element = self.element_at(3 + a.biases + i)
            mask = element.with_loops(code, self.known(row=row, column=column)).load(code)
            found = mask if found is None else code.add(arith.AndIOp(found, mask))
        return found

    def key_limit(self, code: Code) -> SSAValue:
        """Returns how many keys the workgroup's queries may attend to."""
        a = self.a
        if not a.skips:
            return code.number(a.keys)
        first = code.index_op(arith.RemUIOp, self.block_start, a.period)
        behind = code.index_op(arith.AddiOp, first, self.tile.rows * self.tile.depth)
        return seen_keys(code, a, code.index_op(arith.MinUIOp, behind, a.period))

    # Results

    def store_rows(self, output: int, sums: Sequence[SSAValue]) -> None:
        """Stores accumulators as rows of an output."""
        code, operand = self.code, len(self.stage.inputs) + output
        features = self.a.shapes(self.stage.part.data)[operand][-1]
        places = self.feature_places(code, operand)
        last = features - (len(places) - 1) * self.tile.lanes
        elements = self.of_rows(code, operand)
        for i, element in enumerate(elements):
            row = sums[i * len(places) : (i + 1) * len(places)]
            whole = len(row) if last == self.tile.lanes else len(row) - 1

            def store(inner: Code, start: int, stop: int, to: Element = element, row: Sequence[SSAValue] = row) -> None:
                for place, value in zip(places[start:stop], row[start:stop], strict=True):
                    to.with_loops(inner, {FEATURE: place}).store(inner, value)

            self._when(self._row_conditions(i), lambda c, s=store, n=whole: s(c, 0, n))
            if whole < len(row):
                conditions = [*self._row_conditions(i), code.below(self.lane, last)]
                self._when(conditions, lambda c, s=store, n=whole: s(c, n, n + 1))

    def store_scalars(self, output: int, values: Sequence[SSAValue]) -> None:
        """Stores one value a row; the first lane does."""
        code, elements = self.code, self.of_rows(self.code, len(self.stage.inputs) + output)
        for i, (element, value) in enumerate(zip(elements, values, strict=True)):
            first = code.add(arith.CmpiOp(self.lane, code.number(0), "eq"))
            self._when([*self._row_conditions(i), first], lambda c, e=element, v=value: e.store(c, v))

    def _row_conditions(self, i: int) -> list[SSAValue]:
        found = [] if self.group_inside is None else [self.group_inside]
        if self.cut_rows:
            found.append(self.code.below(self.code.index_op(arith.AddiOp, self.first, i), self.row_count))
        return found

    def _when(self, conditions: Sequence[SSAValue], body: Callable[[Code], None]) -> None:
        if not conditions:
            body(self.code)
            return
        both = conditions[0]
        for condition in conditions[1:]:
            both = self.code.add(arith.AndIOp(both, condition))
        self.code.when(both, body)

    def accumulators(self, operand: int) -> list[SSAValue]:
        """As many zeros as a thread accumulates of an operand's features."""
        return [self.zero] * (self.tile.rows * len(self.feature_places(self.code, operand)))

    @abstractmethod
    def write(self) -> None:
        """Writes the kernel."""
