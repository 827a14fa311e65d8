"""Runs the dispatches of a program with NumPy, one by one, on memory with the program's layout.

A dispatch computes what the kernels that it was lowered from compute in the function with its memory plan.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeVar, cast

import numpy as np
from xdsl.dialects import memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, SSAValue

from tensorgrad.checks.perturbation import perturbed, perturbed_sum
from tensorgrad.checks.tolerance import is_float
from tensorgrad.checks.widening import widened_kernel
from tensorgrad.dialects import buf
from tensorgrad.dialects.buf_control import BranchOp, RepeatOp, RowOp, view_of
from tensorgrad.dialects.signature import NAME, read_slot
from tensorgrad.interpreters.functions import function_of
from tensorgrad.interpreters.prepared import PreparedKernel, poison
from tensorgrad.interpreters.scalars import Array, stored_dtype
from tensorgrad.interpreters.stages import read
from tensorgrad.runtime.errors import ExecutionError
from tensorgrad.runtime.program import Collective, Copy, Dispatch, Program, ProgramRole, Repeat, Step, Wait

UNDEFINED_ROLES = (ProgramRole.WORKSPACE, ProgramRole.OUTPUT)
"""The roles of the buffers whose contents are undefined before a step."""


@dataclass(frozen=True)
class OperandLocation:
    """The location of a kernel's operand.

    Attributes:
        buffer: The index of the program's buffer.
        start: The first byte's offset.
        shape: The extents.
        element: The element type.
        name: The user's name of the tensor, such as "parameter 'weight'"; "" for temporaries.
    """

    buffer: int
    start: int
    shape: tuple[int, ...]
    element: Attribute
    name: str

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The stored dtype."""
        return stored_dtype(self.element)

    @property
    def size(self) -> int:
        """The size in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def array(self, memory: Mapping[int, Array]) -> Array:
        """Returns the elements, as a view of the buffers' bytes."""
        return memory[self.buffer][self.start : self.start + self.size].view(self.dtype).reshape(self.shape)


@dataclass(frozen=True)
class KernelRun:
    """One run of a kernel, with its operands and results.

    Attributes:
        op: The kernel.
        places: The locations of its operands.
        before: Copies of the operands before the run.
        after: Copies of the results.
    """

    op: buf.KernelOp
    places: tuple[OperandLocation, ...]
    before: tuple[Array, ...]
    after: tuple[Array, ...]
    _wide: dict[buf.KernelOp, PreparedKernel]

    @property
    def written(self) -> tuple[OperandLocation, ...]:
        """The locations of its results."""
        return self.places[len(self.places) - len(self.after) :]

    def read(self, number: int, stored: Array) -> Array:
        """Returns the values of the result of this index, from its stored elements."""
        return read(stored, self.written[number].element)

    def again(self, seed: int | None = None) -> tuple[Array, ...]:
        """Reruns the kernel with all floats widened to f64; returns the results.

        Args:
            seed: The seed for perturbing operands and sums like rounding errors; `None` for no perturbation.
        """
        if self.op not in self._wide:
            self._wide[self.op] = PreparedKernel(widened_kernel(self.op))
        operands = [_widened(array, seed) for array in self.before]
        self._wide[self.op].run(operands, None if seed is None else partial(perturbed_sum, seed=seed))
        return tuple(operands[len(operands) - len(self.after) :])


@dataclass(frozen=True)
class _Choice:
    """The work of a dispatch that decides which of two branches runs.

    Attributes:
        conditions: The predicates of the enclosing branches, each with the outcome that leads here.
        predicate: The predicate of the two branches.
        dispatches: The dispatches of both branches, each with the outcome that runs it.
    """

    conditions: tuple[tuple[SSAValue, bool], ...]
    predicate: SSAValue
    dispatches: tuple[tuple[Dispatch, bool], ...]


Work: TypeAlias = "tuple[buf.KernelOp, ...] | memref.CopyOp | _Choice"
"""What a step of the plan was lowered from."""


class PlannedSteps:
    """The dispatches and copies of a program, each with the kernels that it was lowered from.

    Args:
        module: The module with a memory plan.
        lowered: The same module with dispatches.
        program: The program that `lowered` was translated to.
        name: The function's name; by default the only public one.

    Attributes:
        memory: The bytes of the program's buffers by index; the caller initializes them, and steps write to them.

    Raises:
        ExecutionError: The program's plan doesn't match the function.
    """

    def __init__(self, module: ModuleOp, lowered: ModuleOp, program: Program, name: str | None = None):
        self.memory: dict[int, Array] = {}
        self._block = function_of(module, name).body.block
        self._program = program
        self._buffers = {buffer.name: index for index, buffer in enumerate(program.buffers)}
        self._depths: dict[SSAValue, int] = {}
        self._work: dict[int, Work] = {}
        self._prepared: dict[buf.KernelOp, PreparedKernel] = {}
        self._wide: dict[buf.KernelOp, PreparedKernel] = {}
        dispatches = (op for op in function_of(lowered, name).walk() if isinstance(op, buf.DispatchOp))
        self._counts = iter([op.kernels for op in dispatches])
        steps = iter(program.plan)
        self._match(self._block, steps, (), 0)
        if next(steps, None) is not None or next(self._counts, None) is not None:
            raise ExecutionError("the program has more steps than the function that it was built from")

    def _match(
        self, block: Block, steps: Iterator[Step], conditions: tuple[tuple[SSAValue, bool], ...], depth: int
    ) -> list[Dispatch]:
        """Matches the ops of a block to steps, in order; returns the dispatches, which an enclosing branch may skip."""
        results: list[Dispatch] = []
        kernels = iter([op for op in block.ops if isinstance(op, buf.KernelOp)])
        noted: set[buf.KernelOp] = set()
        for op in block.ops:
            if isinstance(op, buf.KernelOp) and op.collective is not None:
                next(kernels)
                _ = _next(steps, Wait) if op.collective.is_wait else _next(steps, Collective)
            elif isinstance(op, buf.KernelOp) and op not in noted:
                step = _next(steps, Dispatch)
                team = tuple(itertools.islice(kernels, next(self._counts, 0)))
                if op not in team:
                    raise ExecutionError(f"the dispatch {step.label!r} is not that of its kernel")
                noted.update(team)
                self._work[id(step)] = team
                results.append(step)
            elif isinstance(op, memref.CopyOp):
                self._work[id(_next(steps, Copy))] = op
            elif isinstance(op, RepeatOp):
                loop = _next(steps, Repeat)
                self._depths[op.iteration] = depth
                inner = iter(loop.steps)
                results += self._match(op.body.block, inner, conditions, depth + 1)
                if loop.count != op.times or next(inner, None) is not None:
                    raise ExecutionError("a loop of the program is not that of the function with its memory plan")
            elif isinstance(op, BranchOp) and any(isinstance(inner, buf.KernelOp) for inner in op.walk()):
                results.append(self._match_branches(op, steps, conditions, depth))
        return results

    def _match_branches(
        self, op: BranchOp, steps: Iterator[Step], conditions: tuple[tuple[SSAValue, bool], ...], depth: int
    ) -> Dispatch:
        """Matches the ops of two branches to steps; returns the dispatch that decides which branch runs."""
        choice = _next(steps, Dispatch)
        if next(self._counts, None) != 0:
            raise ExecutionError(f"the dispatch {choice.label!r} is not that of a branch")
        rows: list[tuple[Dispatch, bool]] = []
        for block, outcome in zip(op.branches, (True, False), strict=True):
            inside = self._match(block, steps, (*conditions, (op.predicate, outcome)), depth)
            rows += [(step, outcome) for step in inside]
        self._work[id(choice)] = _Choice(conditions, op.predicate, tuple(rows))
        return choice

    def poison(self) -> None:
        """Poisons buffers whose contents are undefined before a step; padding between the parts of rows stays zero."""
        for op in self._block.ops:
            if isinstance(op, buf.ViewOp) and buf.PACKED_VIEW not in op.attributes:
                place = self._place(op.result, ())
                if self._program.buffers[place.buffer].role in UNDEFINED_ROLES:
                    poison(self.memory[place.buffer][place.start : place.start + place.size])

    def run(self, step: Dispatch | Copy, times: tuple[int, ...]) -> list[KernelRun]:
        """Runs a step of the program's plan on `memory`.

        Args:
            step: The step, by identity: an object of the plan.
            times: The iteration indices of the enclosing loops.

        Returns:
            The runs of the step's kernels; none for copies and for dispatches that decide branches.

        Raises:
            ExecutionError: A kernel does something illegal, such as an out-of-bounds access.
        """
        work = self._work[id(step)]
        if isinstance(work, memref.CopyOp):
            source, target = (self._place(value, times) for value in (work.source, work.destination))
            target.array(self.memory)[...] = source.array(self.memory)
            return []
        if isinstance(step, Dispatch) and step.indirect is not None and not self._words(*step.indirect).all():
            return []
        if isinstance(work, _Choice):
            self._choose(work, times)
            return []
        return [self._run(op, times) for op in work]

    def _words(self, buffer: int, offset: int) -> Array:
        """Returns a view of the three workgroup counts of an indirect dispatch."""
        return self.memory[buffer][offset : offset + 12].view(np.uint32)

    def _choose(self, choice: _Choice, times: tuple[int, ...]) -> None:
        def holds(predicate: SSAValue) -> bool:
            return bool(self._place(predicate, times).array(self.memory).reshape(-1)[0])

        around = all(holds(predicate) == outcome for predicate, outcome in choice.conditions)
        chosen = holds(choice.predicate)
        for step, outcome in choice.dispatches:
            if step.indirect is not None:
                self._words(*step.indirect)[...] = step.workgroups if around and chosen == outcome else 0

    def _run(self, op: buf.KernelOp, times: tuple[int, ...]) -> KernelRun:
        if op not in self._prepared:
            self._prepared[op] = PreparedKernel(op)
        places = tuple(self._place(value, times) for value in op.operands)
        arrays = [place.array(self.memory) for place in places]
        before = tuple(array.copy() for array in arrays)
        self._prepared[op].run(arrays)
        after = tuple(array.copy() for array in arrays[len(op.inputs) :])
        return KernelRun(op, places, before, after, self._wide)

    def _place(self, value: SSAValue, times: tuple[int, ...]) -> OperandLocation:
        """Returns the location of a view, or of a row of one in an iteration of the enclosing loops."""
        row = value.owner if isinstance(value.owner, RowOp) else None
        view = view_of(value)
        element, start = buf.element_of(value), view.start
        if row is not None:
            start += buf.element_bytes(element) * row.start([times[self._depths[index]] for index in row.indices])
        label = cast(buf.ArenaOp, view.arena.owner).label.data
        slot = read_slot(view.attributes) if NAME in view.attributes else None
        name = "" if slot is None else f"{slot.role} {slot.name!r}"
        return OperandLocation(self._buffers[label], start, buf.shape_of(value), element, name)


StepT = TypeVar("StepT", Dispatch, Copy, Collective, Wait, Repeat)


def _next(steps: Iterator[Step], kind: type[StepT]) -> StepT:
    step = next(steps, None)
    if not isinstance(step, kind):
        raise ExecutionError(f"the program has {type(step).__name__} where the function has {kind.__name__}")
    return step


def _widened(array: Array, seed: int | None) -> Array:
    if not is_float(array):
        return array.copy()
    wide = array.astype(np.float64)
    return wide if seed is None else perturbed(wide, seed)
