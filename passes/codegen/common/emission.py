"""Emits stages as straight-line code: loops as index expressions, operands as loads, bodies as scalar ops."""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias, cast

from xdsl.dialects import affine as affine_ops
from xdsl.dialects import arith, memref, scf, vector
from xdsl.dialects.builtin import IndexType, IntegerType, MemRefType, VectorType
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import GenericOp, IndexOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineConstantExpr, AffineDimExpr, AffineExpr
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects import wgsl
from tensorgrad.dialects.buf import (
    KernelOp,
    element_of,
    is_shape_only,
    iterators_of,
    loop_extents,
    maps_of,
    shape_of,
)
from tensorgrad.dialects.locations import line_of
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.scalars import ScalarBuilder, Value

index = IndexType()


@dataclass(frozen=True)
class Binding:
    """The location of a kernel's buffer.

    Attributes:
        memory: The binding.
        start: The first element.
        moved: An additional offset in elements, computed at run time.
        in_place: Whether writes to it overwrite what lanes that share a point read.
    """

    memory: SSAValue
    start: int = 0
    moved: SSAValue | None = None
    in_place: bool = False


@dataclass(frozen=True)
class Loops:
    """The loops of a stage, as expressions over available index values.

    Attributes:
        bases: The index values.
        extents: Base `i` is in `[0, extents[i])`.
        expressions: One for each loop of the stage.
    """

    bases: tuple[Value, ...]
    extents: tuple[int, ...]
    expressions: tuple[AffineExpr, ...]

    def with_own(self, bases: Sequence[Value], extents: Sequence[int]) -> Loops:
        """Returns these loops and further ones, each with its own base."""
        first = len(self.extents)
        return Loops(
            (*self.bases, *bases),
            (*self.extents, *extents),
            (*self.expressions, *(AffineDimExpr(first + i) for i in range(len(extents)))),
        )


def place_of(results: Sequence[AffineExpr], buffer: SSAValue, start: int, loops: Loops) -> affine.Linear:
    """Returns the linear index of an element, from `start` on."""
    placed = [result.replace_dims_and_symbols(loops.expressions, ()) for result in results]
    return affine.linear_position(placed, shape_of(buffer), loops.extents).plus(affine.Linear(constant=start))


class Frame:
    """The frame of a kernel: its share of the dispatch's workgroups, and the workgroup's memory.

    Attributes:
        groups: The kernel's own workgroups.
        number: The linear index of this workgroup among them; `None` if the kernel has the dispatch to itself.
        software: Whether the GPU is emulated on a CPU.
    """

    def __init__(
        self,
        groups: tuple[int, int, int],
        number: SSAValue | None = None,
        arrays: Arrays | None = None,
        software: bool = False,
    ):
        self.groups = groups
        self.software = software
        self.number = number
        self.arrays = Arrays() if arrays is None else arrays
        self.taken: dict[MemRefType[Attribute], int] = {}

    def array(self, code: Code, kind: MemRefType[Attribute]) -> SSAValue:
        """Returns an array in workgroup memory, which kernels that share a dispatch reuse."""
        position = self.taken[kind] = self.taken.get(kind, -1) + 1
        made = self.arrays.made.setdefault(kind, [])
        if position == len(made):
            op = wgsl.WorkgroupAllocOp(kind)
            top = code.block if self.arrays.block is None else self.arrays.block
            if self.arrays.block is None or top.first_op is None:
                top.add_op(op)
            else:
                top.insert_op_before(op, top.first_op)
            made.append(op.results[0])
        return made[position]


@dataclass
class Arrays:
    """Arrays in a workgroup's memory, by type; allocated at the start of `block`, or at their first use."""

    block: Block | None = None
    made: dict[MemRefType[Attribute], list[SSAValue]] = field(
        default_factory=dict["MemRefType[Attribute]", "list[SSAValue]"]
    )


OPERATORS: dict[AffineBinaryOpKind, Callable[[Value, Value], Value]] = {
    AffineBinaryOpKind.Mul: lambda x, y: x * y,
    AffineBinaryOpKind.FloorDiv: lambda x, y: x // y,
    AffineBinaryOpKind.Mod: lambda x, y: x % y,
}
MOST_WRAPS = 2
"""The most subtractions that compute a remainder of a number that is bounded by a multiple of its divisor."""

LoopBody: TypeAlias = "Callable[[Value, list[Value]], Sequence[Value]]"
"""A loop body: maps the index and the carried values to the next carried values."""

ADDRESSING = (IndexOp, affine_ops.ApplyOp, memref.LoadOp, scf.IfOp, scf.ForOp)
"""Ops of a body that are not cloned verbatim: they take indices, or contain ops that do."""


class Code(ScalarBuilder):
    """Appends ops to a `wgsl.kernel` or a `cpu.kernel`; index constants are uniqued in a block."""

    def __init__(self, block: Block, bindings: Mapping[SSAValue, Binding], frame: Frame):
        super().__init__(block)
        self.bindings = bindings
        self.frame = frame
        self._numbers: ChainMap[int, Value] = ChainMap()

    @contextmanager
    def within(self, block: Block) -> Generator[None]:
        around, self._numbers = self._numbers, self._numbers.new_child()
        with super().within(block):
            yield
        self._numbers = around

    def with_bindings(self, bindings: Mapping[SSAValue, Binding]) -> Code:
        """Returns code in the same block, of a kernel with these bindings."""
        code = Code(self.block, bindings, self.frame)
        code._numbers.update((number, code.value(found.ssa)) for number, found in self._numbers.items())
        return code

    def constant(self, number: float, element: Attribute) -> Value:
        return self.number(int(number)) if element == index else super().constant(number, element)

    # The dispatch

    def group(self, dim: int) -> Value:
        """Returns the index of this workgroup among the kernel's, in one dimension."""
        number, extent = self.frame.number, self.frame.groups[dim]
        if number is None:
            return self.add(wgsl.WorkgroupIdOp(dim))
        before = math.prod(self.frame.groups[:dim])
        if extent == 1:
            return self.number(0)
        last = math.prod(self.frame.groups[dim:]) == extent
        inner = self.value(number) // before
        return inner if last else inner % extent

    # Indices

    def number(self, value: int) -> Value:
        """Returns a constant index."""
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = super().constant(value, index)
        return found

    def concealed(self, value: int) -> Value:
        """Returns an index constant hidden from the drivers of CPUs, so that they don't unroll loops up to it."""
        if not self.frame.software:
            return self.number(value)
        # No dispatch has 2^31 workgroups in one dimension.
        none = self.add(wgsl.WorkgroupIdOp(0)) >> 31
        return self.number(value) + none

    def expression(self, expression: AffineExpr, bases: Sequence[Value], extents: Sequence[int] | None = None) -> Value:
        """Emits an index expression. Its subexpressions are never negative, as built by `affine.linear`.

        Args:
            expression: An expression over the bases.
            bases: The index values.
            extents: Upper bounds of the bases (exclusive), if known.
        """
        if isinstance(expression, AffineConstantExpr):
            # Index arithmetic is modulo 2^32, so a negative term is right once it is added.
            return self.number(expression.value)
        if isinstance(expression, AffineDimExpr):
            return bases[expression.position]
        assert isinstance(expression, AffineBinaryOpExpr)
        lhs, rhs = self.expression(expression.lhs, bases, extents), expression.rhs
        if expression.kind == AffineBinaryOpKind.Add:
            if isinstance(rhs, AffineConstantExpr) and rhs.value < 0:
                return lhs - -rhs.value
            if isinstance(rhs, AffineBinaryOpExpr) and rhs.kind == AffineBinaryOpKind.Mul:
                factor = rhs.rhs
                if isinstance(factor, AffineConstantExpr) and factor.value < 0:
                    return lhs - self.expression(rhs.lhs * -factor.value, bases, extents)
            return lhs + self.expression(rhs, bases, extents)
        if expression.kind == AffineBinaryOpKind.Mul and isinstance(rhs, AffineConstantExpr) and rhs.value < 0:
            return 0 - lhs * -rhs.value
        if expression.kind == AffineBinaryOpKind.Mod and isinstance(rhs, AffineConstantExpr) and extents is not None:
            wraps = affine.linear(expression.lhs, extents).bounds(extents)[1] // rhs.value
            if wraps <= MOST_WRAPS and rhs.value & (rhs.value - 1):
                return _wrapped(lhs, rhs.value, wraps)
        return OPERATORS[expression.kind](lhs, self.expression(rhs, bases, extents))

    def position(self, results: Sequence[AffineExpr], buffer: SSAValue, loops: Loops) -> Value:
        """Returns the linear index of an element, for an index map's results over a stage's loops."""
        return self._moved(place_of(results, buffer, self.bindings[buffer].start, loops), buffer, loops)

    def position_at(self, found: affine.Linear, buffer: SSAValue, loops: Loops) -> Value:
        """Returns the linear index of an element, given as a linear form over a stage's loops."""
        placed = found.expression().replace_dims_and_symbols(loops.expressions, ())
        start = affine.Linear(constant=self.bindings[buffer].start)
        return self._moved(affine.linear(placed, loops.extents).plus(start), buffer, loops)

    def _moved(self, found: affine.Linear, buffer: SSAValue, loops: Loops) -> Value:
        """Emits an index in a buffer, plus the buffer's run-time offset."""
        at, moved = self.place(found, loops), self.bindings[buffer].moved
        return at if moved is None else self.value(moved) + at

    def place(self, found: affine.Linear, loops: Loops) -> Value:
        """Emits an index; terms of outer loops are summed first, so that they can be hoisted."""
        by_loop: dict[int, dict[AffineExpr, int]] = {}
        for atom, factor in found.terms.items():
            by_loop.setdefault(max(atom.used_dims(), default=-1), {})[atom] = factor
        at: Value | None = None
        for loop in sorted(by_loop):
            constant = found.constant if at is None else 0
            part = affine.Linear(by_loop[loop], constant).expression()
            term = self.expression(part, loops.bases, loops.extents)
            at = term if at is None else at + term
        return self.number(found.constant) if at is None else at

    # Memory

    def load(self, buffer: SSAValue, results: Sequence[AffineExpr], loops: Loops) -> Value:
        """Loads an element at an index map."""
        at = self.position(results, buffer, loops)
        return self.element(self.bindings[buffer].memory, at)

    def store(self, value: Value, buffer: SSAValue, results: Sequence[AffineExpr], loops: Loops) -> None:
        """Stores an element at an index map."""
        at = self.position(results, buffer, loops)
        self.put(value, self.bindings[buffer].memory, at)

    def element(self, memory: SSAValue, at: Value) -> Value:
        """Loads an element of an array."""
        return self.make(memref.LoadOp, (memory, at.ssa), element_of(memory))

    def element_if(self, condition: Value, memory: SSAValue, at: Value) -> Value:
        """Loads an element of an array if a condition holds, else returns zero; the index may be out of bounds."""
        element = element_of(memory)
        return self.choose(
            condition, [element], lambda: [self.element(memory, at)], lambda: [self.constant(0.0, element)]
        )[0]

    def put(self, value: Value, memory: SSAValue, at: Value) -> None:
        """Stores an element of an array."""
        self.append(memref.StoreOp.create(operands=[value.ssa, memory, at.ssa]))

    def vector(self, memory: SSAValue, at: Value, kind: VectorType[Attribute]) -> Value:
        """Loads a vector from an array."""
        return self.add(vector.LoadOp(memory, [at.ssa], kind))

    def put_vector(self, value: Value, memory: SSAValue, at: Value) -> None:
        """Stores a vector to an array."""
        self.append(vector.StoreOp(value.ssa, memory, [at.ssa]))

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
            block.add_op(_yield(body(at, held)))
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

        def level(found: list[Value], values: list[Value]) -> Sequence[Value]:
            if len(found) == len(extents):
                return body(found, values)
            return self.loop(extents[len(found)], values, lambda at, held: level([*found, at], held))

        return list(level([], list(carried)))

    def when(self, condition: Value, body: Callable[[], None], otherwise: Callable[[], None] | None = None) -> None:
        """Runs `body` if `condition` holds, else `otherwise`, if given."""
        regions: list[Region] = []
        for branch in (body, otherwise):
            if branch is not None:
                block = Block()
                with self.within(block):
                    branch()
                    block.add_op(scf.YieldOp())
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
                block.add_op(_yield(branch()))
        op = scf.IfOp(condition.ssa, kinds, Region(branches[0]), Region(branches[1]))
        self.append(op)
        return self.values(op.results)

    # Bodies of stages

    def operands(self, stage: GenericOp, loops: Loops, known: Mapping[SSAValue, Value]) -> list[Value | None]:
        """Returns the values of a stage's inputs: those known at this point, or loaded."""
        values: list[Value | None] = []
        for buffer, m in zip(stage.inputs, maps_of(stage), strict=False):
            if is_shape_only(buffer):
                values.append(None)
            else:
                values.append(known[buffer] if buffer in known else self.load(buffer, m.results, loops))
        return values

    def body(self, block: Block, env: dict[SSAValue, SSAValue], loops: Loops) -> list[Value]:
        """Clones a body's ops; returns the values it yields."""
        for op in block.ops:
            if isinstance(op, YieldOp | scf.YieldOp):
                return [self.value(env.get(operand, operand)) for operand in op.operands]
            self.scalar_op(op, env, loops)
        return []

    def scalar_op(self, op: Operation, env: dict[SSAValue, SSAValue], loops: Loops) -> None:
        """Clones an op of a body, unless its result is known; loop indices become expressions, loads linear ones."""
        if op.results and op.results[0] in env:
            return
        if type(op) not in ADDRESSING:
            clone = op.clone(env)
            self.block.add_op(clone)
            env.update(zip(op.results, clone.results, strict=True))
        elif isinstance(op, IndexOp):
            at = self.expression(loops.expressions[op.dim.value.data], loops.bases, loops.extents)
            env[op.results[0]] = at.ssa
        elif isinstance(op, affine_ops.ApplyOp):
            values = [self.value(env.get(operand, operand)) for operand in op.operands]
            env[op.result] = self.expression(op.map.data.results[0], values).ssa
        elif isinstance(op, memref.LoadOp):
            env[op.results[0]] = self._computed_load(op, env).ssa
        elif isinstance(op, scf.IfOp):
            branches = [partial(self.body, one.block, dict(env), loops) for one in (op.true_region, op.false_region)]
            condition, kinds = self.value(env.get(op.cond, op.cond)), [result.type for result in op.results]
            found = self.choose(condition, kinds, *branches)
            env.update((result, value.ssa) for result, value in zip(op.results, found, strict=True))
        elif isinstance(op, scf.ForOp):
            env.update(zip(op.results, self._repetition(op, env, loops), strict=True))

    def _computed_load(self, op: memref.LoadOp, env: Mapping[SSAValue, SSAValue]) -> Value:
        binding, extents = self.bindings[op.memref], shape_of(op.memref)
        at: Value | None = None
        for operand, stride in zip(op.indices, affine.strides(extents), strict=True):
            term = self.value(env.get(operand, operand)) * stride
            at = term if at is None else at + term
        at = self.number(binding.start) if at is None else at + binding.start
        if binding.moved is not None:
            at = self.value(binding.moved) + at
        return self.element(binding.memory, at)

    def _repetition(self, op: scf.ForOp, env: dict[SSAValue, SSAValue], loops: Loops) -> Sequence[SSAValue]:
        block = Block(arg_types=[argument.type for argument in op.body.block.args])
        inner = {**env, **dict(zip(op.body.block.args, block.args, strict=True))}
        with self.within(block):
            block.add_op(_yield(self.body(op.body.block, inner, loops)))
        start, stop, step = (env.get(bound, bound) for bound in (op.lb, op.ub, op.step))
        new = scf.ForOp(start, stop, step, [env.get(value, value) for value in op.iter_args], block)
        new.attributes |= op.attributes
        self.block.add_op(new)
        return new.results


def _yield(values: Sequence[Value]) -> scf.YieldOp:
    return scf.YieldOp(*(value.ssa for value in values))


def _wrapped(value: Value, divisor: int, times: int) -> Value:
    """Returns the remainder of a number below `(times + 1) * divisor`, by subtractions and unsigned minima."""
    for _ in range(times):
        value = value.at_most(value - divisor)
    return value


NEUTRAL: dict[type[Operation], Callable[[Attribute], float]] = {
    arith.AddfOp: lambda element: 0.0,
    arith.AddiOp: lambda element: 0,
    arith.MulfOp: lambda element: 1.0,
    arith.MuliOp: lambda element: 1,
    arith.MaximumfOp: lambda element: float("-inf"),
    arith.MinimumfOp: lambda element: float("inf"),
    arith.MaxSIOp: lambda element: -(2 ** (cast(IntegerType, element).bitwidth - 1)),
    arith.MinSIOp: lambda element: 2 ** (cast(IntegerType, element).bitwidth - 1) - 1,
    arith.MaxUIOp: lambda element: 0,
    arith.MinUIOp: lambda element: -1,
}
"""The identity element of a reduction by each op."""


@dataclass(frozen=True)
class Reduction:
    """A reduced output of a stage: the combining op, and the value of the body that it folds in."""

    combine: Operation
    value: SSAValue
    element: Attribute

    def start(self) -> float:
        """Returns the identity element."""
        return NEUTRAL[type(self.combine)](self.element)


def reductions_of(stage: GenericOp) -> list[Reduction]:
    """Returns the reductions of a stage, one per output.

    Raises:
        DiagnosticException: An output's accumulator is not updated by a single yielded op.
    """
    count = len(stage.inputs)
    last = stage.body.block.last_op
    assert isinstance(last, YieldOp)
    found: list[Reduction] = []
    for position, result in enumerate(last.operands):
        accumulator = stage.body.block.args[count + position]
        op = result.owner
        uses = list(accumulator.uses)
        if not isinstance(op, Operation) or type(op) not in NEUTRAL or len(uses) != 1 or uses[0].operation is not op:
            raise DiagnosticException(
                f"a reduction must update its accumulator by a single op, at {line_of(stage.location)}"
            )
        value = op.operands[1] if op.operands[0] is accumulator else op.operands[0]
        found.append(Reduction(op, value, element_of(stage.outputs[position])))
    return found


def reduced_values(code: Code, stage: GenericOp, loops: Loops, known: Mapping[SSAValue, Value]) -> list[Value]:
    """Returns the values that a reducing stage folds in at one point, one per output."""
    return values_to_fold(code, stage, stage_env(code, stage, loops, known), loops)


def values_to_fold(code: Code, stage: GenericOp, env: dict[SSAValue, SSAValue], loops: Loops) -> list[Value]:
    """Returns the values that a reducing stage folds in at one point, given its operands' values."""
    reductions = reductions_of(stage)
    skip = {reduction.combine for reduction in reductions}
    for op in stage.body.block.ops:
        if op not in skip and not isinstance(op, YieldOp):
            code.scalar_op(op, env, loops)
    return [code.value(env.get(one.value, one.value)) for one in reductions]


def stage_env(code: Code, stage: GenericOp, loops: Loops, known: Mapping[SSAValue, Value]) -> dict[SSAValue, SSAValue]:
    """Returns the values of a stage's block arguments for its inputs."""
    args = stage.body.block.args
    values = code.operands(stage, loops, known)
    return {argument: value.ssa for argument, value in zip(args, values, strict=False) if value is not None}


def stage_values(code: Code, stage: GenericOp, loops: Loops, known: Mapping[SSAValue, Value]) -> list[Value]:
    """Returns the values that a stage without reductions yields at one point."""
    return code.body(stage.body.block, stage_env(code, stage, loops, known), loops)


def own_loops(kernel: KernelOp, stage: GenericOp) -> tuple[list[int], list[int]]:
    """Returns the extents of a stage's own loops: the parallel ones, which come first, and the reduction loops."""
    rank = len(kernel.extents)
    own, kinds = list(loop_extents(stage)[rank:]), iterators_of(stage)[rank:]
    count = sum(kind == IteratorType.PARALLEL for kind in kinds)
    return own[:count], own[count:]


def store_outputs(kernel: KernelOp, stage: GenericOp, code: Code, loops: Loops, values: list[Value]) -> None:
    """Stores a stage's results into those of its outputs that outlive the kernel."""
    maps = maps_of(stage)[len(stage.inputs) :]
    for output, m, value in zip(stage.outputs, maps, values, strict=True):
        if output in kernel.output_arguments:
            code.store(value, output, m.results, loops)


def strided(loops: Loops, at: Value, own: list[int]) -> Loops:
    """Returns a stage's loops, with its own ones delinearized from one flat index."""
    total = math.prod(own)
    base = AffineDimExpr(len(loops.bases))
    extents = (*loops.extents, total)
    expressions = [affine.linear(e, extents).expression() for e in affine.delinearized(base, own)]
    return Loops((*loops.bases, at), extents, (*loops.expressions, *expressions))


def grid_loops(point: Value, grid: Sequence[int]) -> Loops:
    """Returns the loops of a grid, delinearized from the row-major index of a point."""
    total = 1
    for extent in grid:
        total *= extent
    expressions = affine.delinearized(AffineDimExpr(0), grid)
    simplified = tuple(affine.linear(e, [total]).expression() for e in expressions)
    return Loops((point,), (total,), simplified)
