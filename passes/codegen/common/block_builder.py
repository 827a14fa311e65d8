"""Builds loads, stores, loops and branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from xdsl.dialects import memref, scf, vector
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, Block, Region, SSAValue

from tensorgrad.dialects.buf import element_of
from tensorgrad.passes.codegen.common.index_builder import IndexBuilder, index
from tensorgrad.passes.scalars import Value

LoopBody: TypeAlias = "Callable[[Value, list[Value]], Sequence[Value]]"
"""A loop body: maps the index and the carried values to the next carried values."""


class BlockBuilder(IndexBuilder):
    """Appends loads and stores of arrays, loops and branches."""

    # Arrays

    def element(self, memory: SSAValue, at: Value) -> Value:
        """Loads an element of an array."""
        return self.make(memref.LoadOp, (memory, at.ssa), element_of(memory))

    def put(self, value: Value, memory: SSAValue, at: Value) -> None:
        """Stores an element of an array."""
        self.append(memref.StoreOp.create(operands=[value.ssa, memory, at.ssa]))

    def vector(self, memory: SSAValue, at: Value, kind: VectorType[Attribute]) -> Value:
        """Loads a vector from an array."""
        return self.make(vector.LoadOp, (memory, at.ssa), kind)

    def put_vector(self, value: Value, memory: SSAValue, at: Value) -> None:
        """Stores a vector to an array."""
        self.append(vector.StoreOp.create(operands=(value.ssa, memory, at.ssa)))

    # Control flow

    def loop(
        self, extent: int, carried: Sequence[Value], body: LoopBody, start: Value | None = None, step: int = 1
    ) -> list[Value]:
        """Writes a loop up to `extent` that carries values; returns their final ones."""
        return self.loop_to(self.number(extent), carried, body, start, step)

    def loop_to(
        self, extent: Value, carried: Sequence[Value], body: LoopBody, start: Value | None = None, step: int = 1
    ) -> list[Value]:
        """Writes a loop up to a dynamic extent; otherwise as `loop`."""
        block = Block(arg_types=[index, *(value.type for value in carried)])
        with self.within(block):
            at, *held = self.values(block.args)
            block.add_op(yield_op(body(at, held)))
        low = self.number(0) if start is None else start
        op = scf.ForOp(low.ssa, extent.ssa, self.number(step).ssa, [value.ssa for value in carried], block)
        self.append(op)
        return self.values(op.results)

    def nest(
        self,
        extents: Sequence[int],
        carried: Sequence[Value],
        body: Callable[[list[Value], list[Value]], Sequence[Value]],
    ) -> list[Value]:
        """Writes nested loops, the last one innermost."""

        def level(indices: list[Value], values: list[Value]) -> Sequence[Value]:
            if len(indices) == len(extents):
                return body(indices, values)
            return self.loop(extents[len(indices)], values, lambda at, held: level([*indices, at], held))

        return list(level([], list(carried)))

    def when(self, condition: Value, body: Callable[[], None], otherwise: Callable[[], None] | None = None) -> None:
        """Runs `body` if `condition` holds, else `otherwise`, if given."""
        regions: list[Region] = []
        for branch in (body, otherwise):
            if branch is not None:
                block = Block()
                with self.within(block):
                    branch()
                    block.add_op(yield_op(()))
                regions.append(Region(block))
        self.append(scf.IfOp(condition.ssa, [], regions[0], regions[1] if otherwise is not None else None))

    def choose(
        self,
        condition: Value,
        kinds: Sequence[Attribute],
        body: Callable[[], Sequence[Value]],
        otherwise: Callable[[], Sequence[Value]],
    ) -> list[Value]:
        """Returns the result of `body` if `condition` holds, else that of `otherwise`; only one of them runs."""
        branches = [Block(), Block()]
        for block, branch in zip(branches, (body, otherwise), strict=True):
            with self.within(block):
                block.add_op(yield_op(branch()))
        op = scf.IfOp(condition.ssa, kinds, Region(branches[0]), Region(branches[1]))
        self.append(op)
        return self.values(op.results)


def yield_op(values: Sequence[Value]) -> scf.YieldOp:
    """Returns the terminator of a loop body or a branch."""
    return scf.YieldOp.create(operands=[value.ssa for value in values])
