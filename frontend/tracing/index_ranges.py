"""Bounds of indices: checked during tracing if their values are known, and with `checks=True` on the inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from tensorgrad.dialects.signature import Role, Slot
from tensorgrad.dialects.tg import leaves, shape
from tensorgrad.dialects.tg.base import NumpyArray, TensorOp, numpy_dtype
from tensorgrad.dialects.tg.build import type_of
from tensorgrad.dialects.tg.call import CallOp
from tensorgrad.dialects.tg.elementwise import arithmetic
from tensorgrad.errors import InputError, ShapeError
from tensorgrad.interpreters.tensors import TensorExecutor
from tensorgrad.runtime.conversion import converted, to_numpy
from tensorgrad.tracing.dtypes import SHORT

FOLLOWED = (
    arithmetic.UnaryOp,
    arithmetic.BinaryOp,
    arithmetic.CompareOp,
    arithmetic.SelectOp,
    arithmetic.CastOp,
    leaves.ConstantOp,
    leaves.IotaOp,
    shape.ReshapeOp,
    shape.TransposeOp,
    shape.BroadcastOp,
    shape.SliceOp,
    shape.ReverseOp,
    shape.PadOp,
    shape.ConcatOp,
)
"""The ops through which an index is traced back to inputs: those whose cost is linear in its size."""

IN_MEMORY = ("host", "numpy", "cpu")
"""The devices of tensors that can be read without waiting for a copy."""

MOST_OPS = 200
"""An index that depends on more ops than this counts as computed, and is not checked."""


@dataclass(frozen=True)
class Note:
    """The required range of a traced index.

    Attributes:
        value: The index.
        low: The minimum.
        high: The maximum.
        what: What it indexes, for error messages.
        line: The user's line.
        is_label: Whether it is a class of a loss: those are checked in every call, if they are an input.
    """

    value: SSAValue
    low: int
    high: int
    what: str
    line: str
    is_label: bool = False

    def complaint(self, indices: NumpyArray) -> str | None:
        """Returns an error message about the index's values, or None if they are valid."""
        # Counting twice is faster than `any` of both conditions, for few indices as for many.
        if not np.count_nonzero(indices < self.low) and not np.count_nonzero(indices > self.high):
            return None
        outside = (indices < self.low) | (indices > self.high)
        place = tuple(int(i) for i in np.argwhere(outside)[0])
        at = f" at {place}" if place else ""
        hint = "; ignore_index=-100 leaves such labels out" if self.is_label and indices[place] == -100 else ""
        return f"{self.what}: index {indices[place]}{at} is out of range, {allowed(self.low, self.high)}{hint}"


def allowed(low: int, high: int) -> str:
    """Returns the part of an index error message that states the valid range."""
    return f"it must be in {low} to {high}" if low <= high else "there is nothing to index"


class IndexRanges:
    """The ranges that a traced function requires of indices that depend only on its inputs.

    Attributes:
        is_complete: Whether there are no other indices with required ranges.
    """

    def __init__(self, notes: Sequence[Note], block: Block, slots: Sequence[Slot]):
        """Copies the ops that compute indices, and checks the indices that depend on no argument.

        Raises:
            ShapeError: An index is out of range in every run.
        """
        inputs: dict[SSAValue, Slot] = {
            argument: slot for argument, slot in zip(block.args, slots, strict=True) if slot.role == Role.INPUT
        }
        kinds = {slot.name: type_of(argument) for argument, slot in inputs.items()}
        self._specs = {name: (kind.get_shape(), numpy_dtype(kind)) for name, kind in kinds.items()}
        self._parts: list[tuple[Note, tuple[str, ...], Callable[..., NumpyArray]]] = []
        self._labels: list[tuple[Note, str]] = []
        self.is_complete = True
        for note in notes:
            ops = _origin(note.value, block, inputs)
            if ops is None:
                self.is_complete = False
                continue
            used, index = _copied(note.value, ops, inputs)
            if used:
                self._parts.append((note, used, index))
                if note.is_label and all(isinstance(op, shape.ReshapeOp | shape.TransposeOp) for op in ops):
                    self._labels.append((note, used[0]))
            elif (complaint := note.complaint(index())) is not None:
                raise ShapeError(f"{note.line}: {complaint}")

    @property
    def is_empty(self) -> bool:
        """Whether the inputs have no required ranges."""
        return not self._parts

    @property
    def inputs(self) -> list[str]:
        """The inputs with required ranges."""
        return list(dict.fromkeys(name for _, used, _ in self._parts for name in used))

    def allow(self, inputs: Mapping[str, Any]) -> bool:
        """Returns whether all indices are in range."""
        return not self._parts or next(self._complaints(inputs), None) is None

    def check(self, inputs: Mapping[str, Any]) -> None:
        """Checks the inputs of a call; missing or misshapen ones are left to the program's own check.

        Raises:
            InputError: An index is out of range; names the input and the line that indexes by it.
        """
        for note, used, complaint in self._complaints(inputs):
            listed = " and ".join(repr(name) for name in used)
            raise InputError(f"input {listed}, at {note.line}: {complaint}")

    def check_labels(self, inputs: Mapping[str, Any]) -> None:
        """Checks labels that are inputs of a call as they are, in the host's memory: that takes microseconds.

        Raises:
            InputError: A label is out of range; names the input and the line of the loss.
        """
        for note, name in self._labels:
            value = inputs.get(name)
            if value is None or str(getattr(value, "device", "host")) not in IN_MEMORY:
                continue
            array = to_numpy(value, f"input {name!r}")
            if array.dtype.kind not in "iu" or array.shape != self._specs[name][0]:
                continue  # left to the program's own check, or to that of all values
            complaint = note.complaint(array)
            if complaint is not None:
                raise InputError(f"input {name!r}, at {note.line}: {complaint}")

    def check_known(self, inputs: Mapping[str, Any]) -> None:
        """Checks the inputs of a function that runs immediately.

        Raises:
            ShapeError: An index is out of range.
        """
        for note, _, complaint in self._complaints(inputs):
            raise ShapeError(f"{note.line}: {complaint}")

    def _complaints(self, inputs: Mapping[str, Any]) -> Iterator[tuple[Note, tuple[str, ...], str]]:
        arrays: dict[str, NumpyArray] = {}
        for note, used, index in self._parts:
            for name in used:
                if name not in arrays and name in inputs:
                    dtype = self._specs[name][1]
                    array = to_numpy(inputs[name], f"input {name!r}")
                    arrays[name] = converted(array, dtype, SHORT[dtype], f"input {name!r}")
            if any(name not in arrays or arrays[name].shape != self._specs[name][0] for name in used):
                continue
            complaint = note.complaint(index(*[arrays[name] for name in used]))
            if complaint is not None:
                yield note, used, complaint


def _origin(value: SSAValue, root: Block, inputs: Mapping[SSAValue, Slot]) -> list[TensorOp] | None:
    """Returns the ops that compute a value, in order; `None` if they include unsupported ops or other inputs."""
    ops: dict[TensorOp, None] = {}
    pending: list[tuple[SSAValue, bool]] = [(value, False)]
    while pending:
        current, is_ready = pending.pop()
        current = _passed(current)
        if current is None or isinstance(current, BlockArgument):
            if current not in inputs:
                return None
            continue
        op = current.owner
        if not isinstance(op, FOLLOWED) or not _is_within(op, root) or len(ops) > MOST_OPS:
            return None
        if is_ready:
            ops[op] = None
        elif op not in ops:
            pending.append((current, True))
            pending += [(operand, False) for operand in op.operands]
    return list(ops)


def _passed(value: SSAValue) -> SSAValue | None:
    """Returns the operand that an argument of a call's body is bound to; `None` if it belongs to another region."""
    while isinstance(value, BlockArgument) and isinstance(call := value.block.parent_op(), CallOp):
        if value.block is not call.body.block or len(call.operands) != len(value.block.args):
            return None
        value = call.operands[value.index]
    return value


def _is_within(op: Operation, root: Block) -> bool:
    block = op.parent
    while block is not None and block is not root:
        around = block.parent_op()
        block = None if around is None else around.parent
    return block is root


def _copied(
    value: SSAValue, ops: Sequence[TensorOp], inputs: Mapping[SSAValue, Slot]
) -> tuple[tuple[str, ...], Callable[..., NumpyArray]]:
    """Returns the names of the inputs that ops use, and a function that computes a value from these."""
    operands = [_passed(operand) for op in ops for operand in op.operands] + [_passed(value)]
    used = [argument for argument in inputs if argument in operands]
    block = Block(arg_types=[argument.type for argument in used])
    known: dict[SSAValue, SSAValue] = dict(zip(used, block.args, strict=True))
    for op in ops:
        for operand in op.operands:
            source = _passed(operand)
            assert source is not None
            known[operand] = known[source]
        block.add_op(op.clone(known))
    source = _passed(value)
    assert source is not None
    result = known[source]
    block.add_op(func.ReturnOp(result))
    kinds = FunctionType.from_lists([argument.type for argument in used], [result.type])
    names = tuple(inputs[argument].name for argument in used)
    if not ops:
        return names, lambda array: array
    executor = TensorExecutor(ModuleOp([FuncOp("index", kinds, Region(block))]))
    return names, lambda *arrays: executor.call(arrays)[0]
