"""Compiles a block of `tg` to one Python function, so that running it doesn't visit the IR.

Each op's NumPy function is prepared once, by `TensorOp.prepare`. The compiled function has one line per op, such as

    v7 = f3(v5, v6); v5 = None

which computes a value and drops dead operands, so that memory is held no longer than by an interpreter. A ufunc
overwrites a dead operand that shares memory with no other array, as in `v7 = f3(v5, v6, v5)`. The text contains only
numbered names; they are bound to functions and constants in the namespace that it is executed in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeAlias, cast

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from tensorgrad.dialects.locations import line_in
from tensorgrad.dialects.tg.base import (
    NumpyArray,
    Tensor,
    TensorOp,
    computes_in_bf16,
    numpy_dtype,
    prepared,
)
from tensorgrad.dialects.tg.call import CallOp
from tensorgrad.dialects.tg.call import returned as returned_by
from tensorgrad.dialects.tg.collective import CollectiveOp
from tensorgrad.dialects.tg.contract import DotGeneralOp
from tensorgrad.dialects.tg.control import CondOp, RegionOp, ScanOp
from tensorgrad.dialects.tg.elementwise.arithmetic import BinaryOp, CompareOp, UnaryOp
from tensorgrad.dialects.tg.reduce import ReduceOp
from tensorgrad.dialects.tg.shape import BroadcastOp, ReshapeOp
from tensorgrad.interpreters.collectives import prepare_collective
from tensorgrad.runtime.errors import DeviceError, ProgramError, TensorgradError

Several: TypeAlias = Callable[..., Sequence[NumpyArray]]
"""A function of arrays that returns any number of arrays."""

Observe: TypeAlias = Callable[["TensorOp | RegionOp", Callable[..., Any]], Callable[..., Any]]
"""Returns the function to run in place of an op's function, such as one that also records the results.

The function of a `TensorOp` with one result returns an array; all others return a sequence of arrays.
"""


@dataclass(frozen=True)
class _Step:
    """An op of the block, scheduled for execution.

    Attributes:
        op: The op.
        operands: The values passed to its function; a broadcast operand may be replaced by the tensor that it repeats.
        dead: The values whose last use is this op.
        bodies: Its regions, compiled.
        overwritten: The operand that the result overwrites, if any.
    """

    op: TensorOp | RegionOp
    operands: tuple[SSAValue, ...]
    dead: tuple[SSAValue, ...]
    bodies: tuple[CompiledBlock, ...] = ()
    overwritten: SSAValue | None = None

    @property
    def times(self) -> int:
        """The number of times that its region runs."""
        return self.op.count if isinstance(self.op, ScanOp) else 1


class CompiledBlock:
    """A compiled block.

    Attributes:
        text: The source of the Python function.
        row_major: The values that are known to be contiguous in row-major order.
    """

    def __init__(
        self, block: Block, returned: Sequence[SSAValue], row_major: bool = False, observe: Observe | None = None
    ):
        """Compiles a block.

        Args:
            block: A block of `tg` ops.
            returned: The values to return.
            row_major: Whether the arguments' arrays are contiguous in row-major order.
            observe: Wraps the function of every op, nested ones included; no operand is overwritten then.

        Raises:
            ProgramError: The block contains an op of another dialect.
        """
        self._arguments = tuple(block.args)
        self._constants: dict[SSAValue, NumpyArray] = {}
        self._steps = _steps(block, returned, self._constants, observe)
        self.row_major: set[SSAValue] = set()
        if observe is None:
            arguments = self._arguments if row_major else ()
            self._steps, self.row_major = _overwriting(self._steps, arguments, self._constants)
        written = _Text(self._constants, observe)
        self.text = written.function(self._arguments, self._steps, returned)
        exec(compile(self.text, "<tg>", "exec"), written.known)
        self._function: Several = written.known["run"]

    def run(self, *values: NumpyArray) -> Sequence[NumpyArray]:
        """Returns the returned values for these arguments.

        Raises:
            DeviceError: NumPy can't execute an op; names the op and its line.
        """
        try:
            return self._function(*values)
        except TensorgradError:
            raise  # raised by an op of a region, which the message names
        except Exception as error:
            self._refuse(error)

    def _refuse(self, error: Exception) -> NoReturn:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code is not cast(Any, self._function).__code__:
            trace = trace.tb_next
        if trace is None:
            raise error
        op = self._steps[trace.tb_lineno - FIRST_LINE].op
        where = line_in(op.location)
        line = "" if where is None else f"{where.filename.data}:{where.line.data}: "
        raise DeviceError(f"{line}{op.name}: {str(error) or type(error).__name__}") from error

    def peak_bytes(self) -> int:
        """Returns the peak live bytes."""
        live = sum(map(value_bytes, self._arguments))
        live += sum(array.nbytes for array in self._constants.values() if 0 not in array.strides)
        peak = live
        for step in self._steps:
            for body in step.bodies:
                peak = max(peak, live + body.peak_bytes() - sum(map(value_bytes, step.operands)))
            live += sum(map(value_bytes, step.op.results))
            peak = max(peak, live)
            live -= sum(map(value_bytes, step.dead))
        return peak

    def bytes_moved(self) -> int:
        """Returns the bytes that the ops read and write; loops count every iteration, branches their larger side."""
        return sum(
            step.times * max(body.bytes_moved() for body in step.bodies)
            if step.bodies
            else sum(map(value_bytes, (*step.op.results, *set(step.operands))))
            for step in self._steps
        )


FIRST_LINE = 2
"""The line number of the first op, below the `def` line."""


class _Text:
    """Emits the function's source, and collects its namespace.

    Attributes:
        known: Functions and constants by name.
    """

    def __init__(self, constants: dict[SSAValue, NumpyArray], observe: Observe | None = None):
        self._observe = observe
        self._names = {value: f"c{i}" for i, value in enumerate(constants)}
        self.known: dict[str, Any] = dict(zip(self._names.values(), constants.values(), strict=True))
        self._functions: dict[int, str] = {}

    def function(self, arguments: Sequence[SSAValue], steps: Sequence[_Step], returned: Sequence[SSAValue]) -> str:
        """Returns the source of the function, which is called `run`."""
        lines = [f"def run({self._listed(arguments)}):"]
        lines += [f" {self._line(step)}" for step in steps]
        return "\n".join([*lines, f" return [{self._listed(returned)}]", ""])

    def _line(self, step: _Step) -> str:
        arguments = self._listed(step.operands)
        if step.overwritten is not None:
            function = cast(Any, step.op).function
            # A positional `out` makes calls on small arrays a quarter faster; NumPy deprecates it for these two.
            keyword = "out=" if function in (np.maximum, np.minimum) else ""
            arguments = f"{arguments}, {keyword}{self._name(step.overwritten)}"
        else:
            function = _prepared(step.op) if isinstance(step.op, TensorOp) else _meaning(step.op, step.bodies)
            function = function if self._observe is None else self._observe(step.op, function)
        call = f"{self._function(function)}({arguments})"
        results = self._listed(step.op.results) + ("" if isinstance(step.op, TensorOp) else ",")
        line = f"{results} = {call}" if step.op.results else call
        # Constants are kept for the next run.
        dropped = "".join(f"; {name} = None" for value in step.dead if (name := self._name(value))[0] != "c")
        return line + dropped

    def _listed(self, values: Sequence[SSAValue]) -> str:
        return ", ".join(map(self._name, values))

    def _name(self, value: SSAValue) -> str:
        return self._names.setdefault(value, f"v{len(self._names)}")

    def _function(self, function: Callable[..., Any]) -> str:
        """Returns a function's name, which ops with the same ufunc share; `known` keeps ids from being reused."""
        name = self._functions.setdefault(id(function), f"f{len(self._functions)}")
        self.known[name] = function
        return name


def value_bytes(value: SSAValue) -> int:
    """Returns the bytes of a tensor value as a NumPy array."""
    kind = cast(Tensor, value.type)
    return kind.element_count() * numpy_dtype(kind).itemsize


def is_fresh(value: SSAValue) -> bool:
    """Returns whether a value's array is newly allocated whenever it is computed, rather than a view."""
    return isinstance(value.owner, TensorOp) and is_ufunc(value.owner)


def is_ufunc(op: Operation) -> bool:
    """Returns whether NumPy computes an op by a single ufunc."""
    by_one = isinstance(op, CompareOp) or isinstance(getattr(op, "function", None), np.ufunc)
    return by_one and isinstance(op, TensorOp) and not computes_in_bf16(op)


def _steps(
    block: Block, returned: Sequence[SSAValue], constants: dict[SSAValue, NumpyArray], observe: Observe | None
) -> list[_Step]:
    """Returns the ops of a block that run; ops without operands are evaluated now, and added to `constants`."""
    steps: list[_Step] = []
    seen = set(returned)
    repeated: dict[SSAValue, SSAValue] = {
        op.results[0]: op.operands[0] for op in block.ops if _is_repeated_by_numpy(op, seen)
    }
    for op in reversed(list(block.ops)):
        if isinstance(op, TensorOp) and not op.operands:
            constants[op.results[0]] = prepared(op)()
        elif op.results and op.results[0] in repeated:
            continue
        elif isinstance(op, TensorOp | RegionOp):
            operands = tuple(repeated.get(operand, operand) for operand in op.operands)
            dead = dict.fromkeys(value for value in (*operands, *op.results) if value not in seen)
            seen.update(operands)
            bodies = tuple(CompiledBlock(block, returned_by(block), observe=observe) for block in _bodies(op))
            steps.append(_Step(op, operands, tuple(dead), bodies))
        elif op is not block.last_op:
            raise ProgramError(f"the reference runs tg ops, got {op.name}")
    return steps[::-1]


def _overwriting(
    steps: Sequence[_Step], arguments: Sequence[SSAValue], constants: dict[SSAValue, NumpyArray]
) -> tuple[list[_Step], set[SSAValue]]:
    """Makes ops overwrite dead operands where possible; returns the steps, and the values in row-major order.

    Results stay bit-identical. An op may overwrite an operand only if all its operands are in row-major order:
    otherwise the result's memory layout could differ from the one that NumPy would choose, and a later sum could add
    its elements in another order.
    """
    shared = {operand for step in steps if not _is_new(step.op) for operand in step.operands}
    ordered = {*arguments, *(value for value, array in constants.items() if _is_row_major(array))}
    rewritten: list[_Step] = []
    for step in steps:
        op = step.op
        if _keeps_order(op) or (_follows_order(op) and all(operand in ordered for operand in step.operands)):
            ordered.update(op.results)
        if isinstance(op, UnaryOp | BinaryOp) and is_ufunc(op) and op.results[0] in ordered:
            free = [
                value
                for value in step.dead
                if value.type == op.type
                and value in step.operands
                and isinstance(value.owner, TensorOp)
                and _is_new(value.owner)
                and value not in shared
            ]
            step = replace(step, overwritten=free[0]) if free else step
        rewritten.append(step)
    return rewritten, ordered


def _is_row_major(array: NumpyArray) -> bool:
    return array.flags.c_contiguous or not any(array.strides)


def _is_new(op: TensorOp | RegionOp) -> bool:
    """Returns whether an op's result shares memory with no other array."""
    return is_ufunc(op) or isinstance(op, ReduceOp | DotGeneralOp)


def _follows_order(op: TensorOp | RegionOp) -> bool:
    """Returns whether an op's result is in row-major order if its operands are, except for broadcast axes."""
    return is_ufunc(op) or isinstance(op, ReduceOp | ReshapeOp | BroadcastOp)


def _keeps_order(op: TensorOp | RegionOp) -> bool:
    """Returns whether an op's result is in row-major order regardless of its operands' layouts."""
    return isinstance(op, DotGeneralOp) and not op.lhs_batch.get_values()


def _is_repeated_by_numpy(op: Operation, returned: set[SSAValue]) -> bool:
    """Returns whether an op only broadcasts a tensor for ufuncs, which broadcast by themselves."""
    return (
        isinstance(op, BroadcastOp)
        and op.is_leading()
        and op.results[0] not in returned
        and all(
            isinstance(use.operation, BinaryOp | CompareOp)
            and is_ufunc(use.operation)
            and not isinstance(use.operation.operands[1 - use.index].owner, BroadcastOp)
            for use in op.results[0].uses
        )
    )


def _bodies(op: TensorOp | RegionOp) -> tuple[Block, ...]:
    """Returns the blocks of an op's regions that run, which excludes custom derivatives."""
    if isinstance(op, CallOp | ScanOp):
        return (op.body.block,)
    return op.branches if isinstance(op, CondOp) else ()


def _prepared(op: TensorOp) -> Callable[..., NumpyArray]:
    return prepare_collective(op) if isinstance(op, CollectiveOp) else prepared(op)


def _meaning(op: RegionOp, bodies: Sequence[CompiledBlock]) -> Several:
    if isinstance(op, ScanOp):
        return _scan(op, bodies[0])
    if isinstance(op, CondOp):
        then, otherwise = bodies
        return lambda predicate, *values: (then if predicate else otherwise).run(*values)
    return bodies[0].run


def _scan(op: ScanOp, body: CompiledBlock) -> Several:
    carries = op.carries
    kinds = [cast(Tensor, result.type) for result in op.results[carries:]]
    stacks_of = [(kind.get_shape(), numpy_dtype(kind)) for kind in kinds]
    positions = range(op.count)
    order = positions if op.reverse is None else positions[::-1]

    def run(*values: NumpyArray) -> Sequence[NumpyArray]:
        consts, carry, xs = op.split(values)
        stacks = [np.empty(shape, dtype) for shape, dtype in stacks_of]
        for position in order:
            results = body.run(*consts, *carry, *(x[position, ...] for x in xs))
            carry = results[:carries]
            for stack, row in zip(stacks, results[carries:], strict=True):
                stack[position] = row
        return [*carry, *stacks]

    return run
