"""Compiles a block of `tg` to one Python function: running it looks at no IR.

An op's meaning is prepared once (`TensorOp.prepare`). The function is a line for each op that runs, such as

    v7 = f3(v5, v6); v5 = None

which computes a value and drops what no later line needs, so that memory is held no longer than by an interpreter.
Where an operand is no longer needed and no other array has its memory, a ufunc writes over it, as in
`v7 = f3(v5, v6, v5)`. The text has numbered names only; what they stand for is given beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeAlias, cast

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from tensorgrad.dialects.locations import line_in
from tensorgrad.dialects.tg.base import NumpyArray, Tensor, TensorOp, int_list, numpy_dtype
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
"""A function of arrays that gives any number of them."""

Observe: TypeAlias = Callable[["TensorOp | RegionOp", Callable[..., Any]], Callable[..., Any]]
"""Returns what runs in place of an op's function, such as one that also records its results.

The function of a `TensorOp` with one result returns the array, any other one a sequence of them.
"""


@dataclass(frozen=True)
class _Step:
    """One op: its place in the program.

    Attributes:
        op: The op.
        operands: What it is computed from; not always its own operands.
        dead: The values whose last use it is.
        bodies: The plans of its regions.
        overwritten: The operand whose memory its result takes.
    """

    op: TensorOp | RegionOp
    operands: tuple[SSAValue, ...]
    dead: tuple[SSAValue, ...]
    bodies: tuple[Plan, ...] = ()
    overwritten: SSAValue | None = None

    @property
    def times(self) -> int:
        """How often its region runs."""
        return self.op.count if isinstance(self.op, ScanOp) else 1


class Plan:
    """A block, compiled.

    Attributes:
        text: The Python function.
        row_major: The values that are known to be in row-major order, without gaps.
    """

    def __init__(
        self, block: Block, returned: Sequence[SSAValue], row_major: bool = False, observe: Observe | None = None
    ):
        """Compiles a block.

        Args:
            block: Of `tg`.
            returned: The values to return.
            row_major: Whether the arguments' arrays are in row-major order, without gaps.
            observe: Wraps the function of every op, nested ones included; no operand is written over then.

        Raises:
            ProgramError: It has an op that is none of `tg`.
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
            DeviceError: NumPy can't do what an op asks for; names the op and its line.
        """
        try:
            return self._function(*values)
        except TensorgradError:
            raise  # by a region's op, which it names
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
        """Returns the most bytes alive at once."""
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
        """Returns how much the ops read and write, those of a loop every time, of two branches those of the larger."""
        return sum(
            step.times * max(body.bytes_moved() for body in step.bodies)
            if step.bodies
            else sum(map(value_bytes, (*step.op.results, *set(step.operands))))
            for step in self._steps
        )


FIRST_LINE = 2
"""The line of the first op, behind that of the function's name."""


class _Text:
    """Writes the function, and keeps what its names stand for.

    Attributes:
        known: Functions and constants by name.
    """

    def __init__(self, constants: dict[SSAValue, NumpyArray], observe: Observe | None = None):
        self._observe = observe
        self._names = {value: f"c{i}" for i, value in enumerate(constants)}
        self.known: dict[str, Any] = dict(zip(self._names.values(), constants.values(), strict=True))
        self._functions: dict[int, str] = {}

    def function(self, arguments: Sequence[SSAValue], steps: Sequence[_Step], returned: Sequence[SSAValue]) -> str:
        """Returns the text of the function, which is called `run`."""
        lines = [f"def run({self._listed(arguments)}):"]
        lines += [f" {self._line(step)}" for step in steps]
        return "\n".join([*lines, f" return [{self._listed(returned)}]", ""])

    def _line(self, step: _Step) -> str:
        given = self._listed(step.operands)
        if step.overwritten is not None:
            function = cast(Any, step.op).function
            # By position it costs a quarter less of small arrays; NumPy deprecates it for these two.
            keyword = "out=" if function in (np.maximum, np.minimum) else ""
            given = f"{given}, {keyword}{self._name(step.overwritten)}"
        else:
            function = _prepared(step.op) if isinstance(step.op, TensorOp) else _meaning(step.op, step.bodies)
            function = function if self._observe is None else self._observe(step.op, function)
        call = f"{self._function(function)}({given})"
        results = self._listed(step.op.results) + ("" if isinstance(step.op, TensorOp) else ",")
        line = f"{results} = {call}" if step.op.results else call
        # A constant is kept for the next run.
        dropped = "".join(f"; {name} = None" for value in step.dead if (name := self._name(value))[0] != "c")
        return line + dropped

    def _listed(self, values: Sequence[SSAValue]) -> str:
        return ", ".join(map(self._name, values))

    def _name(self, value: SSAValue) -> str:
        return self._names.setdefault(value, f"v{len(self._names)}")

    def _function(self, function: Callable[..., Any]) -> str:
        """Returns a name for a function, one for a ufunc that many ops call; `known` keeps their ids alive."""
        name = self._functions.setdefault(id(function), f"f{len(self._functions)}")
        self.known[name] = function
        return name


def value_bytes(value: SSAValue) -> int:
    """Bytes of a tensor value in numpy."""
    kind = cast(Tensor, value.type)
    return kind.element_count() * numpy_dtype(kind).itemsize


def is_fresh(value: SSAValue) -> bool:
    """Returns whether a value's array is new whenever it is computed, and no view of another one."""
    return isinstance(value.owner, TensorOp) and is_ufunc(value.owner)


def is_ufunc(op: Operation) -> bool:
    """Returns whether NumPy computes an op by one ufunc."""
    return isinstance(op, CompareOp) or isinstance(getattr(op, "function", None), np.ufunc)


def _steps(
    block: Block, returned: Sequence[SSAValue], constants: dict[SSAValue, NumpyArray], observe: Observe | None
) -> list[_Step]:
    """Returns the ops of a block that run; the values of those without operands are put into `constants` instead."""
    steps: list[_Step] = []
    seen = set(returned)
    repeated: dict[SSAValue, SSAValue] = {
        op.results[0]: op.operands[0] for op in block.ops if _is_repeated_by_numpy(op, seen)
    }
    for op in reversed(list(block.ops)):
        if isinstance(op, TensorOp) and not op.operands:
            constants[op.results[0]] = op.evaluate()
        elif op.results and op.results[0] in repeated:
            continue
        elif isinstance(op, TensorOp | RegionOp):
            operands = tuple(repeated.get(operand, operand) for operand in op.operands)
            dead = dict.fromkeys(value for value in (*operands, *op.results) if value not in seen)
            seen.update(operands)
            bodies = tuple(Plan(block, returned_by(block), observe=observe) for block in _bodies(op))
            steps.append(_Step(op, operands, tuple(dead), bodies))
        elif op is not block.last_op:
            raise ProgramError(f"the reference runs tg, not {op.name}")
    return steps[::-1]


def _overwriting(
    steps: Sequence[_Step], arguments: Sequence[SSAValue], constants: dict[SSAValue, NumpyArray]
) -> tuple[list[_Step], set[SSAValue]]:
    """Returns the steps, some of which write over an operand, and the values in row-major order; all bits stay.

    That needs all operands in row-major order: otherwise the result's order could be another one than NumPy would
    choose for it, and what sums it up could round in another order.
    """
    shared = {operand for step in steps if not _is_new(step.op) for operand in step.operands}
    ordered = {*arguments, *(value for value, array in constants.items() if _is_row_major(array))}
    found: list[_Step] = []
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
        found.append(step)
    return found, ordered


def _is_row_major(array: NumpyArray) -> bool:
    return array.flags.c_contiguous or not any(array.strides)


def _is_new(op: TensorOp | RegionOp) -> bool:
    """Returns whether an op's result shares memory with nothing."""
    return is_ufunc(op) or isinstance(op, ReduceOp | DotGeneralOp)


def _follows_order(op: TensorOp | RegionOp) -> bool:
    """Returns whether an op's result is in row-major order where its operands are, repeated elements aside."""
    return is_ufunc(op) or isinstance(op, ReduceOp | ReshapeOp | BroadcastOp)


def _keeps_order(op: TensorOp | RegionOp) -> bool:
    """Returns whether an op's result is in row-major order whatever its operands are in."""
    return isinstance(op, DotGeneralOp) and not int_list(op.properties, "lhs_batch")


def _is_repeated_by_numpy(op: Operation, returned: set[SSAValue]) -> bool:
    """Returns whether a tensor is only repeated for ufuncs, which broadcast by themselves."""
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
    """Returns the regions of an op that run; a custom derivative doesn't."""
    if isinstance(op, CallOp | ScanOp):
        return (op.body.block,)
    return op.branches if isinstance(op, CondOp) else ()


def _prepared(op: TensorOp) -> Callable[..., NumpyArray]:
    return prepare_collective(op) if isinstance(op, CollectiveOp) else op.prepare()


def _meaning(op: RegionOp, bodies: Sequence[Plan]) -> Several:
    if isinstance(op, ScanOp):
        return _scan(op, bodies[0])
    if isinstance(op, CondOp):
        then, otherwise = bodies
        return lambda predicate, *values: (then if predicate else otherwise).run(*values)
    return bodies[0].run


def _scan(op: ScanOp, body: Plan) -> Several:
    first, second, carries = len(op.consts), len(op.consts) + op.carries, op.carries
    kinds = [cast(Tensor, result.type) for result in op.results[carries:]]
    stacks_of = [(kind.get_shape(), numpy_dtype(kind)) for kind in kinds]
    positions = range(op.count)
    order = positions if op.reverse is None else positions[::-1]

    def run(*values: NumpyArray) -> Sequence[NumpyArray]:
        consts, carry, xs = values[:first], values[first:second], values[second:]
        stacks = [np.empty(shape, dtype) for shape, dtype in stacks_of]
        for position in order:
            found = body.run(*consts, *carry, *(x[position, ...] for x in xs))
            carry = found[:carries]
            for stack, row in zip(stacks, found[carries:], strict=True):
                stack[position] = row
        return [*carry, *stacks]

    return run
