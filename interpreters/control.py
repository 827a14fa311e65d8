"""Visits the kernels of a `buf` function in execution order: unrolls loops, decides branches, tracks byte ranges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import numpy as np
from xdsl.dialects import func, memref
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tensorgrad.dialects import buf
from tensorgrad.dialects.buf_control import BranchOp, ChooseOp, RepeatOp, RowOp, RunOp, row_type
from tensorgrad.dialects.buf_tiles import TiledOp
from tensorgrad.interpreters.scalars import stored_dtype
from tensorgrad.runtime.errors import ExecutionError


@dataclass(frozen=True)
class Storage:
    """The location of a buffer: bytes `[start, end)` of an arena; allocations, arguments and rows are their own arenas.

    Two views of the same bytes are different buffers, distinguished by `value`. Views and their rows that are parts of
    a single value carried around loops have the number of that value instead.
    """

    arena: SSAValue
    start: int
    end: int
    shape: tuple[int, ...]
    element: Attribute
    value: SSAValue | int | None = None

    @classmethod
    def of(cls, value: SSAValue) -> Storage:
        """Returns the storage of an allocation, an argument or a view."""
        shape, element = buf.shape_of(value), buf.element_of(value)
        size = buf.buffer_bytes(cast(buf.Buffer, value.type))
        owner, pack = value.owner, buf.pack_of(value)
        if pack is not None:
            start = pack.starts[list(pack.parts).index(value)] * buf.element_bytes(element)
            return cls(pack.result, start, start + size, shape, element)
        if isinstance(owner, buf.ViewOp):
            number = owner.attributes.get(buf.VALUE)
            known = number.value.data if isinstance(number, IntegerAttr) else value
            return cls(owner.arena, owner.start, owner.start + size, shape, element, known)
        return cls(value, 0, size, shape, element)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The stored dtype."""
        return stored_dtype(self.element)

    def equals(self, other: Storage) -> bool:
        """Returns whether the two have the same bytes and type."""
        return replace(self, value=None) == replace(other, value=None)

    def overlaps(self, other: Storage) -> bool:
        """Returns whether the two overlap."""
        return self.arena == other.arena and max(self.start, other.start) < min(self.end, other.end)

    def part(self, start: int, kind: Attribute) -> Storage:
        """Returns the buffer of a type that begins at a byte offset in this one."""
        whole = cast(buf.Buffer, kind)
        first = self.start + start
        end = first + buf.buffer_bytes(whole)
        return Storage(self.arena, first, end, whole.get_shape(), whole.get_element_type(), self.value)

    def is_part(self, other: Storage) -> bool:
        """Returns whether the two are parts of one value: its slices along axis 0, windows of it, or all of it."""
        return self.element == other.element and self.value == other.value and self.arena == other.arena

    def row(self, position: int) -> Storage:
        """Returns the slice at an index along axis 0."""
        kind = row_type(buf.buffer_type(self.shape, self.element))
        return self.part(position * buf.buffer_bytes(kind), kind)


Step: TypeAlias = "buf.KernelOp | TiledOp | memref.CopyOp"
Env: TypeAlias = dict[SSAValue, Storage]
Decide: TypeAlias = Callable[[Storage], bool]


@dataclass(frozen=True)
class BoundRun:
    """One run of a kernel or copy, with its storage."""

    op: Step
    operands: tuple[Storage, ...]

    @property
    def reads(self) -> list[Storage]:
        """The storage that it reads."""
        return list(self.operands[: self._inputs])

    @property
    def writes(self) -> list[Storage]:
        """The storage that it writes."""
        return list(self.operands[self._inputs :])

    @property
    def _inputs(self) -> int:
        return 1 if isinstance(self.op, memref.CopyOp) else len(self.op.inputs)


class Unrolling:
    """Walks a function in execution order.

    Args:
        module: The module with the functions that it calls.
        emit: Called with each run, in order.
        decide: Returns whether a predicate is true; called once all previous runs have been emitted.
    """

    def __init__(self, module: ModuleOp, emit: Callable[[BoundRun], None], decide: Decide):
        self._functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
        self._emit, self._decide = emit, decide

    def run(self, block: Block, env: Env, iterations: dict[SSAValue, int] | None = None) -> None:
        """Walks a block.

        Raises:
            ExecutionError: It contains an unsupported op; the message names it.
        """
        times = {} if iterations is None else iterations
        for op in block.ops:
            self._visit(op, env, times)

    def _visit(self, op: Operation, env: Env, iterations: dict[SSAValue, int]) -> None:
        if isinstance(op, buf.KernelOp | TiledOp | memref.CopyOp):
            self._emit(BoundRun(op, tuple(env[operand] for operand in op.operands)))
        elif isinstance(op, memref.AllocOp | buf.ViewOp | buf.PackOp):
            env[op.results[0]] = Storage.of(op.results[0])
        elif isinstance(op, RowOp):
            start = op.start([iterations[index] for index in op.indices])
            env[op.result] = env[op.view].part(start * buf.element_bytes(buf.element_of(op.view)), op.result.type)
        elif isinstance(op, RunOp):
            self._call(op, env)
        elif isinstance(op, ChooseOp):
            branch = 0 if self._decide(env[op.predicate]) else 1
            operands = op.operands_of(branch)
            block = self._block_of(op.functions[branch], len(operands))
            arguments = block.args
            self.run(block, {a: env[v] for a, v in zip(arguments, operands, strict=True)})
        elif isinstance(op, RepeatOp):
            for iteration in range(op.times):
                self.run(op.body.block, env, {**iterations, op.iteration: iteration})
        elif isinstance(op, BranchOp):
            self.run(op.branches[0 if self._decide(env[op.predicate]) else 1], env, iterations)
        elif isinstance(op, func.ReturnOp) and op.operands:
            raise ExecutionError("func.return: a function of buffers returns nothing")
        elif not isinstance(op, buf.ArenaOp | memref.DeallocOp | func.ReturnOp):
            raise ExecutionError(f"{op.name} is not supported in a function of buffers")

    def _block_of(self, name: str, count: int) -> Block:
        function = self._functions.get(name)
        if function is None or len(function.body.block.args) != count:
            raise ExecutionError(f"there is no function @{name} of {count} buffers to run")
        return function.body.block

    def _call(self, op: RunOp, env: Env) -> None:
        block = self._block_of(op.function, len(op.operands))
        arguments = list(block.args)
        if op.count is None:
            self.run(block, {a: env[value] for a, value in zip(arguments, op.operands, strict=True)})
            return
        groups = op.arguments_of(block)
        before, after = groups["init"], groups["last"]
        carried = [env[value] for value in op.init]
        for iteration in range(op.count):
            position = op.position(iteration)
            # Carried values are double-buffered; the function's arguments name both buffers.
            fresh = [Storage.of((old, new)[iteration % 2]) for old, new in zip(before, after, strict=True)]
            operands = [
                *(env[value] for value in op.consts),
                *carried,
                *(env[value].row(position) for value in op.over),
                *(env[value] for value in op.constants),
                *fresh,
                *(env[value].row(position) for value in op.stacks),
            ]
            self.run(block, dict(zip(arguments, operands, strict=True)))
            carried = fresh
        env.update(zip(op.last, carried, strict=True))


def decided(answers: Sequence[bool]) -> Decide:
    """Returns a `Decide` that gives known outcomes, in order."""
    rest = iter(answers)
    return lambda _: next(rest)
