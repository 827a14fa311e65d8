"""Runs `tg` functions by numpy: the reference, and the backend where there is no GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue

from tensorgrad.dialects.signature import arguments_of, results_of
from tensorgrad.dialects.tg.base import NumpyArray, Tensor, TensorOp, numpy_dtype
from tensorgrad.dialects.tg.call import CallOp
from tensorgrad.dialects.tg.call import returned as returned_by
from tensorgrad.dialects.tg.control import CondOp, RegionOp, ScanOp
from tensorgrad.dialects.tg.leaves import ConstantOp
from tensorgrad.runtime.errors import ProgramError


@dataclass(frozen=True)
class _Step:
    """One op: how its results come from its operands, and the values whose last use it is."""

    evaluate: Callable[..., Sequence[NumpyArray]]
    operands: tuple[SSAValue, ...]
    results: tuple[SSAValue, ...]
    dead: tuple[SSAValue, ...]
    bodies: tuple[_Plan, ...] = ()
    times: int = 1


class _Plan:
    """The ops of a block in order; a value is freed after its last use."""

    def __init__(self, block: Block, returned: Sequence[SSAValue]):
        self.arguments = tuple(block.args)
        self.returned = tuple(returned)
        self.constants: dict[SSAValue, NumpyArray] = {}
        self.steps: list[_Step] = []
        seen = set(self.returned)
        for op in reversed(list(block.ops)):
            if isinstance(op, ConstantOp):
                self.constants[op.results[0]] = op.evaluate()
            elif isinstance(op, TensorOp | RegionOp):
                operands, results = tuple(op.operands), tuple(op.results)
                dead = {*operands, *results} - seen
                seen.update(operands)
                bodies = tuple(_Plan(block, returned_by(block)) for block in _bodies(op))
                times = op.count if isinstance(op, ScanOp) else 1
                self.steps.append(_Step(_meaning(op, bodies), operands, results, tuple(dead), bodies, times))
            elif op is not block.last_op:
                raise ProgramError(f"the reference runs tg, not {op.name}")
        self.steps.reverse()

    def run(self, values: Sequence[NumpyArray]) -> list[NumpyArray]:
        """The returned values for these arguments."""
        known: dict[SSAValue, NumpyArray] = dict(self.constants)
        known.update(zip(self.arguments, values, strict=True))
        for step in self.steps:
            found = step.evaluate(*[known[operand] for operand in step.operands])
            known.update(zip(step.results, found, strict=True))
            for value in step.dead:
                del known[value]
        return [known[value] for value in self.returned]

    def peak_bytes(self) -> int:
        """The most bytes alive at once."""
        live = sum(value_bytes(argument) for argument in self.arguments)
        live += sum(array.nbytes for array in self.constants.values() if 0 not in array.strides)
        peak = live
        for step in self.steps:
            for body in step.bodies:
                peak = max(peak, live + body.peak_bytes() - sum(map(value_bytes, step.operands)))
            live += sum(map(value_bytes, step.results))
            peak = max(peak, live)
            live -= sum(map(value_bytes, step.dead))
        return peak

    def bytes_moved(self) -> int:
        """Bytes that the ops read and write, those of a loop every time, of two branches those of the larger."""
        return sum(
            step.times * max(body.bytes_moved() for body in step.bodies)
            if step.bodies
            else sum(map(value_bytes, (*step.results, *set(step.operands))))
            for step in self.steps
        )


def _bodies(op: TensorOp | RegionOp) -> tuple[Block, ...]:
    """What runs where an op holds regions; a custom derivative doesn't."""
    if isinstance(op, CallOp | ScanOp):
        return (op.body.block,)
    return op.branches if isinstance(op, CondOp) else ()


def _meaning(op: TensorOp | RegionOp, bodies: Sequence[_Plan]) -> Callable[..., Sequence[NumpyArray]]:
    if isinstance(op, TensorOp):
        return lambda *values: (op.evaluate(*values),)
    if isinstance(op, ScanOp):
        return lambda *values: _scan(op, bodies[0], values)
    if isinstance(op, CondOp):
        return lambda *values: bodies[0 if values[0] else 1].run(values[1:])
    return lambda *values: bodies[0].run(values)


def _scan(op: ScanOp, body: _Plan, values: Sequence[NumpyArray]) -> list[NumpyArray]:
    first, second = len(op.consts), len(op.consts) + op.carries
    consts, carry, xs = values[:first], list(values[first:second]), values[second:]
    kinds = [cast(Tensor, result.type) for result in op.results[op.carries :]]
    stacks = [np.empty(kind.get_shape(), numpy_dtype(kind)) for kind in kinds]
    positions = range(op.count)
    for position in reversed(positions) if op.reverse is not None else positions:
        found = body.run([*consts, *carry, *(x[position] for x in xs)])
        carry = found[: op.carries]
        for stack, row in zip(stacks, found[op.carries :], strict=True):
            stack[position] = row
    return [*carry, *stacks]


class TensorExecutor:
    """Runs one `tg` function op by op, the bodies of calls included; a value is freed after its last use."""

    def __init__(self, module: ModuleOp, function: str | None = None):
        functions = [op for op in module.ops if isinstance(op, FuncOp) and function in (None, op.sym_name.data)]
        if len(functions) != 1:
            raise ProgramError(f"expected one function {function or ''}, the module has {len(functions)}")
        self.function = functions[0]
        self.arguments = arguments_of(self.function)
        self.results = results_of(self.function)
        block = self.function.body.block
        last = block.last_op
        assert isinstance(last, func.ReturnOp)
        self._plan = _Plan(block, tuple(last.operands))

    def call(self, values: Sequence[NumpyArray]) -> list[NumpyArray]:
        """The results for these arguments, in order."""
        with np.errstate(all="ignore"):
            return [np.array(value) for value in self._plan.run(values)]

    def run(self, values: Mapping[str, NumpyArray]) -> dict[str, NumpyArray]:
        """The results as `role/name`, for arguments by name."""
        results = self.call([values[slot.name] for slot in self.arguments])
        return {f"{slot.role}/{slot.name}": value for slot, value in zip(self.results, results, strict=True)}

    def peak_bytes(self) -> int:
        """The most bytes alive at once, by the order of the ops: arguments, constants and live values."""
        return self._plan.peak_bytes()

    def bytes_moved(self) -> int:
        """Bytes that the ops read and write in one run, each operand and result once."""
        return self._plan.bytes_moved()


def value_bytes(value: SSAValue) -> int:
    """Bytes of a tensor value in numpy."""
    kind = cast(Tensor, value.type)
    return kind.element_count() * numpy_dtype(kind).itemsize
