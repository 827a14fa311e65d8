"""Runs `tg` functions by numpy: the reference, and the backend where there is no GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from tensorgrad.dialects.signature import arguments_of, results_of
from tensorgrad.dialects.tg.base import NumpyArray, Tensor, TensorOp
from tensorgrad.dialects.tg.leaves import ConstantOp
from tensorgrad.runtime.errors import ProgramError


class TensorExecutor:
    """Runs one `tg` function op by op; a value is freed after its last use."""

    def __init__(self, module: ModuleOp, function: str | None = None):
        functions = [op for op in module.ops if isinstance(op, FuncOp) and function in (None, op.sym_name.data)]
        if len(functions) != 1:
            raise ProgramError(f"expected one function {function or ''}, the module has {len(functions)}")
        self.function = functions[0]
        self.arguments = arguments_of(self.function)
        self.results = results_of(self.function)
        self._block = self.function.body.block
        self._steps: list[tuple[TensorOp, tuple[SSAValue, ...], tuple[SSAValue, ...]]] = []
        self._constants: dict[SSAValue, NumpyArray] = {}
        self._returned: tuple[SSAValue, ...] = ()
        self._schedule()

    def _schedule(self) -> None:
        """Numbers the ops and finds, for each, the values whose last use it is."""
        seen: set[SSAValue] = set()
        last = self._block.last_op
        assert isinstance(last, func.ReturnOp)
        self._returned = tuple(last.operands)
        seen.update(self._returned)
        for op in reversed(list(self._block.ops)):
            if isinstance(op, ConstantOp):
                self._constants[op.results[0]] = op.evaluate()
            elif isinstance(op, TensorOp):
                operands = tuple(op.operands)
                dead = tuple({operand for operand in operands if operand not in seen})
                seen.update(operands)
                unused = () if op.results[0] in seen else (op.results[0],)
                self._steps.append((op, operands, (*dead, *unused)))
            elif op is not last:
                raise ProgramError(f"the reference runs tg, not {op.name}")
        self._steps.reverse()

    def call(self, values: Sequence[NumpyArray]) -> list[NumpyArray]:
        """The results for these arguments, in order."""
        known: dict[SSAValue, NumpyArray] = dict(self._constants)
        known.update(zip(self._block.args, values, strict=True))
        with np.errstate(all="ignore"):
            for op, operands, dead in self._steps:
                known[op.results[0]] = op.evaluate(*[known[operand] for operand in operands])
                for value in dead:
                    del known[value]
        return [np.array(known[value]) for value in self._returned]

    def run(self, values: Mapping[str, NumpyArray]) -> dict[str, NumpyArray]:
        """The results as `role/name`, for arguments by name."""
        results = self.call([values[slot.name] for slot in self.arguments])
        return {f"{slot.role}/{slot.name}": value for slot, value in zip(self.results, results, strict=True)}

    def peak_bytes(self) -> int:
        """The most bytes alive at once, by the order of the ops: arguments, constants and live values."""
        live = sum(value_bytes(argument) for argument in self._block.args)
        live += sum(array.nbytes for array in self._constants.values() if 0 not in array.strides)
        peak = live
        for op, _, dead in self._steps:
            live += value_bytes(op.results[0])
            peak = max(peak, live)
            live -= sum(value_bytes(value) for value in dead)
        return peak

    def bytes_moved(self) -> int:
        """Bytes that the ops read and write in one run, each operand and result once."""
        return sum(
            value_bytes(op.results[0]) + sum(value_bytes(operand) for operand in set(operands))
            for op, operands, _ in self._steps
        )


def value_bytes(value: SSAValue) -> int:
    """Bytes of a tensor value in numpy."""
    kind = cast(Tensor, value.type)
    from tensorgrad.dialects.tg.base import numpy_dtype

    return kind.element_count() * numpy_dtype(kind).itemsize
