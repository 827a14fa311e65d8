"""`Training.inspect`: the values that a line of the user's program has in a step, on the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tensorgrad.dialects.tg.base import NumpyArray, TensorOp
from tensorgrad.dialects.tg.control import RegionOp
from tensorgrad.driver.reference_step import Phase, ReferenceStep
from tensorgrad.errors import OptionError
from tensorgrad.interpreters.nonfinite import Content
from tensorgrad.interpreters.tensors import TensorExecutor
from tensorgrad.tracing.location import line_of, user_line

MOST_LINES = 12
"""How many lines a message names."""


@dataclass(frozen=True, eq=False)
class Inspected:
    """A value that an op of a step made; `print` summarizes it.

    Attributes:
        op: The op, as in `tg.exp`.
        line: The user's line that it is from, as `file:line`: of a derivative, the line that is differentiated.
        phase: Whether the op is of the loss, of its derivative, or of the optimizer's update.
        value: What it made.
    """

    op: str
    line: str
    phase: Phase
    value: NumpyArray

    def __str__(self) -> str:
        return f"{self.line}: {self.op} ({self.phase}): {Content.of(self.value)}"


class Inspector:
    """A step on the reference, to be asked for the values of some of its ops.

    Args:
        step: The step.
        where: A line as `file:line`, of whose folders any number may be left out; or an op's name, as in `tg.exp`.

    Raises:
        OptionError: The step has no op there; names lines that it has.
    """

    def __init__(self, step: ReferenceStep, where: str):
        self._step, self._where = step, where
        self._found: list[Inspected] = []
        ops = [op for op in step.module.walk() if isinstance(op, TensorOp | RegionOp) and op.operands]
        if not any(map(self._is_meant, ops)):
            lines = list(dict.fromkeys(line_of(op.location) for op in ops))
            more = f" and {len(lines) - MOST_LINES} more" if len(lines) > MOST_LINES else ""
            raise OptionError(
                f"{user_line()}: inspect: no op of the step is from {where!r}; there are the lines "
                f"{', '.join(lines[:MOST_LINES])}{more}"
            )
        self._executor = TensorExecutor(step.module, observe=self._observe)

    def run(
        self, inputs: Mapping[str, NumpyArray], persistent: Mapping[str, NumpyArray], settings: Mapping[str, float]
    ) -> tuple[Inspected, ...]:
        """Returns the values in the order in which they were made; an op in a loop has one for each iteration.

        Args:
            inputs: The step's.
            persistent: Parameters and state before it.
            settings: What the host gives a step.
        """
        self._found = []
        self._executor.call(self._step.values(self._executor.arguments, inputs, persistent, settings))
        return tuple(self._found)

    def _is_meant(self, op: Operation) -> bool:
        wanted = PurePath(self._where).parts
        return op.name == self._where or PurePath(line_of(op.location)).parts[-len(wanted) :] == wanted

    def _observe(self, op: TensorOp | RegionOp, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns what runs in place of an op's function."""
        if not self._is_meant(op):
            return function
        one_result = isinstance(op, TensorOp) and len(op.results) == 1

        def record(*operands: NumpyArray) -> Any:
            made = function(*operands)
            for value in [made] if one_result else made:
                line, phase = line_of(op.location), self._step.phases[op]
                self._found.append(Inspected(op.name, line, phase, np.array(value)))
            return made

        return record
