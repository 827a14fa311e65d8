"""Pointwise kernels of which a thread takes several points: they share indices and loads, and load vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects import arith, memref, vector
from xdsl.dialects.builtin import f32
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from tensorgrad.dialects import affine, wgsl
from tensorgrad.dialects.affine import Linear
from tensorgrad.dialects.buf import KernelOp, element_of, is_shape_only, loop_extents, maps_of
from tensorgrad.passes.lower_buf_to_wgsl.emission import Code, Loops, grid_loops, place_of
from tensorgrad.passes.lower_buf_to_wgsl.rows import at_point
from tensorgrad.passes.lower_buf_to_wgsl.vectors import VECTOR_WIDTH, are_vector


def neighbours_in_thread(kernel: KernelOp, code: Code, lanes: int, width: int) -> None:
    """Each thread takes `width` points of the grid side by side, and runs the stages on each.

    Expects pointwise stages, and a multiple of `width` along the grid's last loop.
    """
    total = math.prod(kernel.extents) // width
    at_point(code, total, lanes, lambda inner, point: _Neighbours(kernel, inner, point, width).run())


class _Neighbours:
    """The code of one thread."""

    def __init__(self, kernel: KernelOp, code: Code, point: SSAValue, width: int):
        self.kernel, self.code = kernel, code
        self.loops = [_shifted(grid_loops(point, _blocks(kernel.extents, width)), width, e) for e in range(width)]
        self.known: list[dict[SSAValue, SSAValue]] = [{} for _ in self.loops]

    def run(self) -> None:
        for stage in self.kernel.stages:
            loaded = [self._loaded(stage, position) for position in range(len(stage.inputs))]
            args = stage.body.block.args
            values: list[list[SSAValue]] = []
            for e, loops in enumerate(self.loops):
                env: dict[SSAValue, SSAValue] = {
                    argument: found[e] for argument, found in zip(args, loaded, strict=False) if found
                }
                values.append(self.code.body(stage.body.block, env, loops))
            for number, output in enumerate(stage.outputs):
                results = [one[number] for one in values]
                for known, result in zip(self.known, results, strict=True):
                    known[output] = result
                if output in self.kernel.output_arguments:
                    self._store(output, maps_of(stage)[len(stage.inputs) + number].results, results)

    def _loaded(self, stage: GenericOp, position: int) -> list[SSAValue]:
        """An operand at each point; elements that several points read are loaded once. Empty if it has no values."""
        buffer, results = stage.inputs[position], maps_of(stage)[position].results
        if is_shape_only(buffer):
            return []
        if buffer in self.known[0]:
            return [known[buffer] for known in self.known]
        places = [self._place(buffer, results, loops) for loops in self.loops]
        if self._is_vector(buffer):
            found = self.code.add(memref.LoadOp.get(self._memory(buffer), [self._vector_at(buffer, places[0])]))
            return [self.code.add(vector.ExtractOp(found, [e], f32)) for e in range(len(places))]
        loaded: dict[tuple[object, ...], SSAValue] = {}
        for place in places:
            key = _key(place)
            if key not in loaded:
                loaded[key] = self.code.add(memref.LoadOp.get(self._memory(buffer), [self._at(buffer, place)]))
        return [loaded[_key(place)] for place in places]

    def _store(self, buffer: SSAValue, results: Sequence[AffineExpr], values: Sequence[SSAValue]) -> None:
        places = [self._place(buffer, results, loops) for loops in self.loops]
        if self._is_vector(buffer):
            at = self._vector_at(buffer, places[0])
            joined = self.code.add(wgsl.JoinOp(values))
            self.code.block.add_op(memref.StoreOp.get(joined, self._memory(buffer), [at]))
            return
        for value, place in zip(values, places, strict=True):
            self.code.block.add_op(memref.StoreOp.get(value, self._memory(buffer), [self._at(buffer, place)]))

    def _memory(self, buffer: SSAValue) -> SSAValue:
        return self.code.bindings[buffer].memory

    def _is_vector(self, buffer: SSAValue) -> bool:
        return element_of(self._memory(buffer)) == wgsl.VECTOR

    def _place(self, buffer: SSAValue, results: Sequence[AffineExpr], loops: Loops) -> Linear:
        return place_of(results, buffer, self.code.bindings[buffer].start, loops)

    def _at(self, buffer: SSAValue, place: Linear) -> SSAValue:
        """A position as code; the constant comes last, so that neighbours share the rest."""
        code, loops, moved = self.code, self.loops[0], self.code.bindings[buffer].moved
        at = code.expression(Linear(place.terms).expression(), loops.bases, loops.extents)
        at = at if moved is None else code.index_op(arith.AddiOp, moved, at)
        if place.constant < 0:
            return code.index_op(arith.SubiOp, at, -place.constant)
        return code.index_op(arith.AddiOp, at, place.constant)

    def _vector_at(self, buffer: SSAValue, place: Linear) -> SSAValue:
        code, loops = self.code, self.loops[0]
        assert self.code.bindings[buffer].moved is None
        return code.expression(place.over(VECTOR_WIDTH).expression(), loops.bases, loops.extents)


def _key(place: Linear) -> tuple[object, ...]:
    return frozenset(place.terms.items()), place.constant


def _blocks(grid: Sequence[int], width: int) -> tuple[int, ...]:
    """A grid of blocks of points along the last loop."""
    return (*grid[:-1], grid[-1] // width)


def _shifted(loops: Loops, width: int, number: int) -> Loops:
    """The loops at one point of a block."""
    return Loops(loops.bases, loops.extents, (*loops.expressions[:-1], loops.expressions[-1] * width + number))


def vector_arguments(kernel: KernelOp, width: int, starts: Sequence[int]) -> set[SSAValue]:
    """The arguments of which `neighbours_in_thread` reads and writes nothing but whole vectors.

    Args:
        kernel: Pointwise.
        width: How many points a thread takes.
        starts: For each argument: the element of its binding that it starts at.
    """
    if width != VECTOR_WIDTH:
        return set()
    blocks = _blocks(kernel.extents, width)
    expressions = tuple(affine.delinearized(affine.dims(1)[0], blocks))
    total = math.prod(blocks)
    simplified = tuple(affine.linear(e, [total]).expression() for e in expressions)
    start_of: dict[SSAValue, int] = dict(zip(kernel.body.block.args, starts, strict=True))
    scalar: set[SSAValue] = {op.memref for op in kernel.walk() if isinstance(op, memref.LoadOp)}
    for stage in kernel.stages:
        assert len(loop_extents(stage)) == len(kernel.extents)
        for buffer, m in zip(stage.operands, maps_of(stage), strict=True):
            if buffer not in start_of:
                continue
            places = [
                place_of(m.results, buffer, start_of[buffer], _shifted(Loops((), (total,), simplified), width, e))
                for e in range(width)
            ]
            if element_of(buffer) != f32 or not are_vector(places):
                scalar.add(buffer)
    return {argument for argument in kernel.body.block.args if argument not in scalar}
