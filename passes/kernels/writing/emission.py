"""Turns stages into straight code: loops as index expressions, operands as loads, bodies as scalar ops."""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeAlias, cast

from xdsl.dialects import affine as affine_ops
from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IndexType, IntegerAttr, IntegerType, MemRefType
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
from tensorgrad.dialects.tg.base import is_float
from tensorgrad.passes.analyses import affine

index = IndexType()


@dataclass(frozen=True)
class Binding:
    """Where a buffer of a kernel lies.

    Attributes:
        memory: The binding.
        start: The element that it starts at.
        moved: By how many elements more, at run time.
        in_place: Whether writes to it overwrite what lanes that share a point read.
    """

    memory: SSAValue
    start: int = 0
    moved: SSAValue | None = None
    in_place: bool = False


@dataclass(frozen=True)
class Loops:
    """The loops of a stage as expressions of index values that the code has at hand.

    Attributes:
        bases: The index values.
        extents: The base `i` is in `[0, extents[i])`.
        expressions: One for each loop of the stage.
    """

    bases: tuple[SSAValue, ...]
    extents: tuple[int, ...]
    expressions: tuple[AffineExpr, ...]

    def with_own(self, bases: Sequence[SSAValue], extents: Sequence[int]) -> Loops:
        """Returns these loops and further ones, each a base of its own."""
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
    """What all code of a kernel shares: its share of the dispatch's workgroups, and the workgroup's memory.

    Attributes:
        groups: The kernel's own workgroups.
        number: Which of them this is, as one number; `None` where the kernel has the dispatch to itself.
        software: Whether a CPU plays the GPU.
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
    """Arrays in a workgroup's memory, by type; they stand at the start of `block`, or where they are first wanted."""

    block: Block | None = None
    made: dict[MemRefType[Attribute], list[SSAValue]] = field(
        default_factory=dict["MemRefType[Attribute]", "list[SSAValue]"]
    )


INDEX_OPS: dict[AffineBinaryOpKind, type[Operation]] = {
    AffineBinaryOpKind.Mul: arith.MuliOp,
    AffineBinaryOpKind.FloorDiv: arith.DivUIOp,
    AffineBinaryOpKind.Mod: arith.RemUIOp,
}
MOST_WRAPS = 2
"""A remainder of a number below so many more times its divisor is computed by subtractions."""

LoopBody: TypeAlias = "Callable[[Code, SSAValue, Sequence[SSAValue]], Sequence[SSAValue]]"
"""Fills a loop: from the index and the carried values to their next ones."""

ADDRESSING = (IndexOp, affine_ops.ApplyOp, memref.LoadOp, scf.IfOp, scf.ForOp)
"""The ops of a body that are not copied as they are: they hold indices, or ops that do."""


class Code:
    """Appends ops to a block of a `wgsl.kernel`; bodies of loops and conditions are filled through it too."""

    def __init__(self, block: Block, bindings: Mapping[SSAValue, Binding], frame: Frame):
        self.block = block
        self.bindings = bindings
        self.frame = frame
        self._numbers: ChainMap[int, SSAValue] = ChainMap()

    def inside(self, block: Block) -> Code:
        """Code of the same kernel in a block inside, which sees the constants that are there."""
        code = Code(block, self.bindings, self.frame)
        code._numbers = self._numbers.new_child()
        return code

    def with_bindings(self, bindings: Mapping[SSAValue, Binding]) -> Code:
        """Code in the same block, of a kernel with these bindings."""
        code = Code(self.block, bindings, self.frame)
        code._numbers = self._numbers
        return code

    def add(self, op: Operation) -> SSAValue:
        """Appends an op and gives its first result."""
        self.block.add_op(op)
        return op.results[0]

    # The dispatch

    def group(self, dim: int) -> SSAValue:
        """Returns which of the kernel's workgroups this is, in one dimension."""
        number, extent = self.frame.number, self.frame.groups[dim]
        if number is None:
            return self.add(wgsl.WorkgroupIdOp(dim))
        before = math.prod(self.frame.groups[:dim])
        if extent == 1:
            return self.number(0)
        last = math.prod(self.frame.groups[dim:]) == extent
        inner = self.index_op(arith.DivUIOp, number, before)
        return inner if last else self.index_op(arith.RemUIOp, inner, extent)

    # Indices

    def number(self, value: int) -> SSAValue:
        """Returns a constant index."""
        found = self._numbers.get(value)
        if found is None:
            found = self.add(arith.ConstantOp.create(result_types=[index], properties=_index_value(value)))
            self._numbers[value] = found
        return found

    def index_op(self, kind: type[Operation], lhs: SSAValue, rhs: SSAValue | int) -> SSAValue:
        """Returns an op on two indices; `x * 1`, `x / 1` and `x + 0` are `x`."""
        if (kind in (arith.MuliOp, arith.DivUIOp) and rhs == 1) or (kind is arith.AddiOp and rhs == 0):
            return lhs
        right = self.number(rhs) if isinstance(rhs, int) else rhs
        return self.add(kind.create(operands=[lhs, right], result_types=[index], properties=_flags(kind)))

    def concealed(self, value: int) -> SSAValue:
        """Returns a constant index that a CPU's driver does not know to be one, so that it unrolls no loop up to it."""
        if not self.frame.software:
            return self.number(value)
        # No dispatch has two thousand million workgroups in one dimension.
        none = self.index_op(arith.ShRUIOp, self.add(wgsl.WorkgroupIdOp(0)), 31)
        return self.index_op(arith.AddiOp, self.number(value), none)

    def below(self, lhs: SSAValue, limit: int) -> SSAValue:
        """Returns whether an index is below a limit."""
        return self.add(arith.CmpiOp(lhs, self.number(limit), "ult"))

    def expression(
        self, expression: AffineExpr, bases: Sequence[SSAValue], extents: Sequence[int] | None = None
    ) -> SSAValue:
        """Returns an index expression as code. Its subexpressions are never negative, as `affine.linear` makes them.

        Args:
            expression: Over the bases.
            bases: The index values.
            extents: What the bases are below, if that is known.
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
                return self.index_op(arith.SubiOp, lhs, -rhs.value)
            if isinstance(rhs, AffineBinaryOpExpr) and rhs.kind == AffineBinaryOpKind.Mul:
                factor = rhs.rhs
                if isinstance(factor, AffineConstantExpr) and factor.value < 0:
                    term = self.expression(rhs.lhs * -factor.value, bases, extents)
                    return self.index_op(arith.SubiOp, lhs, term)
            return self.index_op(arith.AddiOp, lhs, self.expression(rhs, bases, extents))
        if expression.kind == AffineBinaryOpKind.Mul and isinstance(rhs, AffineConstantExpr) and rhs.value < 0:
            positive = self.index_op(arith.MuliOp, lhs, -rhs.value)
            return self.index_op(arith.SubiOp, self.number(0), positive)
        if expression.kind == AffineBinaryOpKind.Mod and isinstance(rhs, AffineConstantExpr) and extents is not None:
            wraps = affine.linear(expression.lhs, extents).bounds(extents)[1] // rhs.value
            if wraps <= MOST_WRAPS and rhs.value & (rhs.value - 1):
                return self._wrapped(lhs, rhs.value, wraps)
        return self.index_op(INDEX_OPS[expression.kind], lhs, self.expression(rhs, bases, extents))

    def _wrapped(self, value: SSAValue, divisor: int, times: int) -> SSAValue:
        """Returns the remainder of a number below `(times + 1) * divisor`, by subtractions and minima."""
        for _ in range(times):
            value = self.index_op(arith.MinUIOp, value, self.index_op(arith.SubiOp, value, divisor))
        return value

    def position(self, results: Sequence[AffineExpr], buffer: SSAValue, loops: Loops) -> SSAValue:
        """Returns the linear index of an element, for an index map's results over a stage's loops."""
        return self._moved(place_of(results, buffer, self.bindings[buffer].start, loops), buffer, loops)

    def position_at(self, found: affine.Linear, buffer: SSAValue, loops: Loops) -> SSAValue:
        """Returns the linear index of an element, for one over a stage's loops."""
        placed = found.expression().replace_dims_and_symbols(loops.expressions, ())
        start = affine.Linear(constant=self.bindings[buffer].start)
        return self._moved(affine.linear(placed, loops.extents).plus(start), buffer, loops)

    def _moved(self, found: affine.Linear, buffer: SSAValue, loops: Loops) -> SSAValue:
        """Returns an index in a buffer as code, by as many more as the buffer has moved."""
        at, moved = self.place(found, loops), self.bindings[buffer].moved
        return at if moved is None else self.index_op(arith.AddiOp, moved, at)

    def place(self, found: affine.Linear, loops: Loops) -> SSAValue:
        """Returns an index as code; what depends on outer loops alone is summed first, so that it can be hoisted."""
        by_loop: dict[int, dict[AffineExpr, int]] = {}
        for atom, factor in found.terms.items():
            by_loop.setdefault(max(atom.used_dims(), default=-1), {})[atom] = factor
        at: SSAValue | None = None
        for loop in sorted(by_loop):
            constant = found.constant if at is None else 0
            part = affine.Linear(by_loop[loop], constant).expression()
            term = self.expression(part, loops.bases, loops.extents)
            at = term if at is None else self.index_op(arith.AddiOp, at, term)
        return self.number(found.constant) if at is None else at

    # Memory

    def load(self, buffer: SSAValue, results: Sequence[AffineExpr], loops: Loops) -> SSAValue:
        """Returns an element at an index map."""
        at = self.position(results, buffer, loops)
        return self.element(self.bindings[buffer].memory, at)

    def store(self, value: SSAValue, buffer: SSAValue, results: Sequence[AffineExpr], loops: Loops) -> None:
        """Writes an element at an index map."""
        at = self.position(results, buffer, loops)
        self.put(value, self.bindings[buffer].memory, at)

    def element(self, memory: SSAValue, at: SSAValue) -> SSAValue:
        """Returns an element of an array."""
        return self.add(memref.LoadOp.create(operands=[memory, at], result_types=[element_of(memory)]))

    def element_if(self, condition: SSAValue, memory: SSAValue, at: SSAValue) -> SSAValue:
        """Returns an element of an array where a condition holds, else zero; the place may be outside of the array."""
        branches = [Block(), Block()]
        loaded, absent = (self.inside(block) for block in branches)
        branches[0].add_op(scf.YieldOp(loaded.element(memory, at)))
        branches[1].add_op(scf.YieldOp(absent.scalar(0.0, element_of(memory))))
        return self.add(scf.IfOp(condition, [element_of(memory)], Region(branches[0]), Region(branches[1])))

    def put(self, value: SSAValue, memory: SSAValue, at: SSAValue) -> None:
        """Writes an element of an array."""
        self.block.add_op(memref.StoreOp.create(operands=[value, memory, at]))

    # Scalars

    def scalar(self, number: float, element: Attribute) -> SSAValue:
        """Returns a constant of an element type."""
        if is_float(element):
            return self.add(arith.ConstantOp(FloatAttr(float(number), cast(AnyFloat, element))))
        return self.add(arith.ConstantOp(IntegerAttr(int(number), cast("IntegerType | IndexType", element))))

    def combine(self, kind: type[Operation], lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Folds two values by a reduction's op."""
        return self.add(kind.create(operands=[lhs, rhs], result_types=[lhs.type], properties=_flags(kind)))

    # Control

    def loop(
        self, extent: int, carried: Sequence[SSAValue], body: LoopBody, start: SSAValue | None = None, step: int = 1
    ) -> list[SSAValue]:
        """Returns a loop up to `extent` that carries values; gives their last ones."""
        return self.loop_to(self.number(extent), carried, body, start, step)

    def loop_to(
        self,
        extent: SSAValue,
        carried: Sequence[SSAValue],
        body: LoopBody,
        start: SSAValue | None = None,
        step: int = 1,
    ) -> list[SSAValue]:
        """Returns a loop up to a computed extent."""
        block = Block(arg_types=[index, *(value.type for value in carried)])
        inner = self.inside(block)
        results = body(inner, block.args[0], block.args[1:])
        block.add_op(scf.YieldOp(*results))
        low = self.number(0) if start is None else start
        op = scf.ForOp(low, extent, self.number(step), list(carried), block)
        self.block.add_op(op)
        return list(op.results)

    def nest(
        self,
        extents: Sequence[int],
        carried: Sequence[SSAValue],
        body: Callable[[Code, list[SSAValue], Sequence[SSAValue]], Sequence[SSAValue]],
    ) -> list[SSAValue]:
        """Loops inside each other, the last the innermost."""

        def level(code: Code, found: list[SSAValue], values: Sequence[SSAValue]) -> Sequence[SSAValue]:
            if len(found) == len(extents):
                return body(code, found, values)
            return code.loop(extents[len(found)], values, lambda inner, at, held: level(inner, [*found, at], held))

        return list(level(self, [], carried))

    def when(self, condition: SSAValue, body: Callable[[Code], None]) -> None:
        """Runs `body` where `condition` holds."""
        block = Block()
        body(self.inside(block))
        block.add_op(scf.YieldOp())
        self.block.add_op(scf.IfOp(condition, [], Region(block)))

    # Bodies of stages

    def operands(self, stage: GenericOp, loops: Loops, known: Mapping[SSAValue, SSAValue]) -> list[SSAValue | None]:
        """Returns the values of a stage's inputs: those known at this point, or loaded."""
        values: list[SSAValue | None] = []
        for buffer, m in zip(stage.inputs, maps_of(stage), strict=False):
            if is_shape_only(buffer):
                values.append(None)
            else:
                values.append(known[buffer] if buffer in known else self.load(buffer, m.results, loops))
        return values

    def body(self, block: Block, env: dict[SSAValue, SSAValue], loops: Loops) -> list[SSAValue]:
        """Copies a body's ops; gives what it yields."""
        for op in block.ops:
            if isinstance(op, YieldOp | scf.YieldOp):
                return [env.get(operand, operand) for operand in op.operands]
            self.scalar_op(op, env, loops)
        return []

    def scalar_op(self, op: Operation, env: dict[SSAValue, SSAValue], loops: Loops) -> None:
        """Copies one op of a body, unless its result is known: loop indices become expressions, loads linear."""
        if op.results and op.results[0] in env:
            return
        if type(op) not in ADDRESSING:
            clone = op.clone(env)
            self.block.add_op(clone)
            env.update(zip(op.results, clone.results, strict=True))
        elif isinstance(op, IndexOp):
            env[op.results[0]] = self.expression(loops.expressions[op.dim.value.data], loops.bases, loops.extents)
        elif isinstance(op, affine_ops.ApplyOp):
            values = [env.get(operand, operand) for operand in op.operands]
            env[op.result] = self.expression(op.map.data.results[0], values)
        elif isinstance(op, memref.LoadOp):
            env[op.results[0]] = self._computed_load(op, env)
        elif isinstance(op, scf.IfOp):
            env.update(zip(op.results, self._condition(op, env, loops), strict=True))
        elif isinstance(op, scf.ForOp):
            env.update(zip(op.results, self._repetition(op, env, loops), strict=True))

    def _computed_load(self, op: memref.LoadOp, env: Mapping[SSAValue, SSAValue]) -> SSAValue:
        binding, extents = self.bindings[op.memref], shape_of(op.memref)
        at: SSAValue | None = None
        for operand, stride in zip(op.indices, affine.strides(extents), strict=True):
            value = env.get(operand, operand)
            term = value if stride == 1 else self.index_op(arith.MuliOp, value, stride)
            at = term if at is None else self.index_op(arith.AddiOp, at, term)
        if at is None:
            at = self.number(binding.start)
        elif binding.start:
            at = self.index_op(arith.AddiOp, at, binding.start)
        if binding.moved is not None:
            at = self.index_op(arith.AddiOp, binding.moved, at)
        return self.element(binding.memory, at)

    def _repetition(self, op: scf.ForOp, env: dict[SSAValue, SSAValue], loops: Loops) -> Sequence[SSAValue]:
        block = Block(arg_types=[argument.type for argument in op.body.block.args])
        inner = {**env, **dict(zip(op.body.block.args, block.args, strict=True))}
        block.add_op(scf.YieldOp(*self.inside(block).body(op.body.block, inner, loops)))
        start, stop, step = (env.get(bound, bound) for bound in (op.lb, op.ub, op.step))
        new = scf.ForOp(start, stop, step, [env.get(value, value) for value in op.iter_args], block)
        new.attributes |= op.attributes
        self.block.add_op(new)
        return new.results

    def _condition(self, op: scf.IfOp, env: dict[SSAValue, SSAValue], loops: Loops) -> Sequence[SSAValue]:
        regions: list[Region] = []
        for region in (op.true_region, op.false_region):
            block = Block()
            values = self.inside(block).body(region.block, dict(env), loops)
            block.add_op(scf.YieldOp(*values))
            regions.append(Region(block))
        new = scf.IfOp(env.get(op.cond, op.cond), [r.type for r in op.results], regions[0], regions[1])
        self.block.add_op(new)
        return new.results


@cache
def _index_value(value: int) -> dict[str, Attribute]:
    """Returns the properties of a constant index."""
    return {"value": IntegerAttr(value, index)}


@cache
def _flags(kind: type[Operation]) -> dict[str, Attribute]:
    """Returns the properties of an op without any that bends its rules."""
    if issubclass(kind, (arith.AddfOp, arith.MulfOp, arith.MaximumfOp, arith.MinimumfOp)):
        return {"fastmath": arith.FastMathFlagsAttr("none")}
    return {}


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
"""What a reduction by an op starts from."""


@dataclass(frozen=True)
class Reduction:
    """One reduced output of a stage: the op that folds values in, and the value of the body that it folds."""

    combine: Operation
    value: SSAValue
    element: Attribute

    def start(self) -> float:
        """Returns the neutral element."""
        return NEUTRAL[type(self.combine)](self.element)


def reductions_of(stage: GenericOp) -> list[Reduction]:
    """Returns the reductions of a stage, one an output.

    Raises:
        DiagnosticException: An output's accumulator is not folded by one op that is yielded.
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
            raise DiagnosticException(f"a reduction must fold its accumulator by one op, at {stage.location}")
        value = op.operands[1] if op.operands[0] is accumulator else op.operands[0]
        found.append(Reduction(op, value, element_of(stage.outputs[position])))
    return found


def reduced_values(code: Code, stage: GenericOp, loops: Loops, known: Mapping[SSAValue, SSAValue]) -> list[SSAValue]:
    """Returns what a reducing stage folds in at one point: for each output, the value before the fold."""
    return values_to_fold(code, stage, stage_env(code, stage, loops, known), loops)


def values_to_fold(code: Code, stage: GenericOp, env: dict[SSAValue, SSAValue], loops: Loops) -> list[SSAValue]:
    """Returns what a reducing stage folds in at one point, where the values of its operands are known."""
    reductions = reductions_of(stage)
    skip = {reduction.combine for reduction in reductions}
    for op in stage.body.block.ops:
        if op not in skip and not isinstance(op, YieldOp):
            code.scalar_op(op, env, loops)
    return [env.get(reduction.value, reduction.value) for reduction in reductions]


def stage_env(
    code: Code, stage: GenericOp, loops: Loops, known: Mapping[SSAValue, SSAValue]
) -> dict[SSAValue, SSAValue]:
    """Returns the values of a stage's block arguments for its inputs."""
    args = stage.body.block.args
    values = code.operands(stage, loops, known)
    return {argument: value for argument, value in zip(args, values, strict=False) if value is not None}


def stage_values(code: Code, stage: GenericOp, loops: Loops, known: Mapping[SSAValue, SSAValue]) -> list[SSAValue]:
    """Returns what a stage without reductions yields at one point."""
    return code.body(stage.body.block, stage_env(code, stage, loops, known), loops)


def own_loops(kernel: KernelOp, stage: GenericOp) -> tuple[list[int], list[int]]:
    """Returns the extents of a stage's own loops: the parallel ones, which come first, and those that reduce."""
    rank = len(kernel.extents)
    own, kinds = list(loop_extents(stage)[rank:]), iterators_of(stage)[rank:]
    count = sum(kind == IteratorType.PARALLEL for kind in kinds)
    return own[:count], own[count:]


def store_outputs(kernel: KernelOp, stage: GenericOp, code: Code, loops: Loops, values: list[SSAValue]) -> None:
    """Stores what a stage yields into those of its outputs that outlive the kernel."""
    maps = maps_of(stage)[len(stage.inputs) :]
    for output, m, value in zip(stage.outputs, maps, values, strict=True):
        if output in kernel.output_arguments:
            code.store(value, output, m.results, loops)


def strided(loops: Loops, at: SSAValue, own: list[int]) -> Loops:
    """Returns a stage's loops with its own ones from one index over all of them."""
    total = math.prod(own)
    base = AffineDimExpr(len(loops.bases))
    extents = (*loops.extents, total)
    expressions = [affine.linear(e, extents).expression() for e in affine.delinearized(base, own)]
    return Loops((*loops.bases, at), extents, (*loops.expressions, *expressions))


def grid_loops(point: SSAValue, grid: Sequence[int]) -> Loops:
    """Returns the loops of a grid, from the row-major number of a point."""
    total = 1
    for extent in grid:
        total *= extent
    expressions = affine.delinearized(AffineDimExpr(0), grid)
    simplified = tuple(affine.linear(e, [total]).expression() for e in expressions)
    return Loops((point,), (total,), simplified)
