"""`Training.inspect`: the values that a user's line or a module computes in a step, on the reference."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation

from tensorgrad.checks.nonfinite import Content
from tensorgrad.checks.reference_step import Phase, ReferenceStep
from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.signature import Role
from tensorgrad.dialects.tg.base import NumpyArray, TensorOp
from tensorgrad.dialects.tg.control import RegionOp
from tensorgrad.errors import OptionError
from tensorgrad.interpreters.tensors import TensorExecutor
from tensorgrad.surface.collector import without_collector

MOST_LINES = 12
"""How many lines an error message lists."""

MOST_MODULES = 4
"""How many modules an error message lists."""


@dataclass(frozen=True, eq=False)
class Inspected:
    """A value computed by an op of a step; `print` summarizes it.

    Attributes:
        op: The op, as in `tg.exp`.
        line: The user's line it comes from, as `file:line`; for a derivative, the line that is differentiated.
        phase: Whether the op belongs to the loss, its derivative, or the optimizer's update.
        value: The op's result.
        module: The path of the innermost module whose call contains the line, numbered from its second call on, as in
            `cell#2`; empty outside of modules.
        is_result: Whether a module was asked for, and this is one of its results.
    """

    op: str
    line: str
    phase: Phase
    value: NumpyArray
    module: str
    is_result: bool

    def __str__(self) -> str:
        about = [self.phase, *([f"in {self.module}"] if self.module else []), *(["a result"] if self.is_result else [])]
        return f"{self.line}: {self.op} ({', '.join(about)}): {Content.of(self.value)}"


class OpSelection:
    """Selects the ops of a step by line, by kind, or by module.

    Args:
        step: The step.
        where: A line as `file:line`, where leading directories may be omitted; an op's name, as in `tg.exp`; or the
            path of a module or of a container of modules, as in `blocks.3`: all its calls, or with a number a single
            one, as in `cell#2`.

    Attributes:
        results: The ops of the loss that compute a module's results, if `where` is a module.

    Raises:
        OptionError: No op of the step matches; lists lines or modules that exist.
    """

    def __init__(self, step: ReferenceStep, where: str):
        self._step, self._where = step, where
        ops = [op for op in step.module.walk() if isinstance(op, TensorOp | RegionOp) and op.operands]
        self._meant: dict[Operation, str | None] = {
            op: self._call(op) for op in ops if self._is_at(op) or self._call(op) is not None
        }
        if not self._meant:
            raise OptionError(f"inspect: no op of the step is from {where!r}; there are {self._there(ops)}")
        self.results = frozenset(op for op, call in self._meant.items() if call is not None and self._leaves(op))

    def __contains__(self, op: Operation) -> bool:
        return op in self._meant

    def _is_at(self, op: Operation) -> bool:
        parts = PurePath(self._where).parts
        return op.name == self._where or PurePath(line_of(op.location)).parts[-len(parts) :] == parts

    def _call(self, op: Operation) -> str | None:
        """Returns the outermost selected call that contains an op, if there is one."""
        for call in self._step.calls(op):
            path = call.partition("#")[0]
            if self._where in (call, path) or path.startswith(f"{self._where}."):
                return call
        return None

    def _leaves(self, op: Operation) -> bool:
        """Returns whether a result of an op of the loss is used outside of its call."""
        phases = self._step.phases
        users = [use.operation for result in op.results for use in result.uses]
        return phases[op] == "forward" and any(
            (phases.get(user) == "forward" or isinstance(user, ReturnOp)) and self._call(user) != self._meant[op]
            for user in users
        )

    def _there(self, ops: Iterable[Operation]) -> str:
        """Returns the modules closest to the requested one, or the lines if it looks like a line."""
        modules = list(dict.fromkeys(call.partition("#")[0] for op in ops for call in self._step.calls(op)))
        if modules and ":" not in self._where and not self._where.startswith("tg."):
            near = difflib.get_close_matches(self._where, modules, MOST_MODULES, cutoff=0)
            return f"the modules {', '.join(near)}"
        lines = list(dict.fromkeys(line_of(op.location) for op in ops))
        more = f" and {len(lines) - MOST_LINES} more" if len(lines) > MOST_LINES else ""
        return f"the lines {', '.join(lines[:MOST_LINES])}{more}"


class Inspector:
    """A step on the reference, whose values can be observed as they are computed.

    Args:
        step: The step.
        where: Which ops to observe, as in `OpSelection`; `None` is all.

    Raises:
        OptionError: No op of the step matches; lists lines or modules that exist.
    """

    @without_collector()
    def __init__(self, step: ReferenceStep, where: str | None):
        self._step, self._places = step, None if where is None else OpSelection(step, where)
        self._look: Callable[[Inspected], object] = lambda value: None
        self._executor = TensorExecutor(step.module, observe=self._observe)

    def run(
        self,
        look: Callable[[Inspected], object],
        inputs: Mapping[str, NumpyArray],
        persistent: Mapping[str, NumpyArray],
        settings: Mapping[str, float],
    ) -> dict[str, NumpyArray]:
        """Runs the step, and returns its outputs by name.

        Args:
            look: Called with each value in execution order; it must copy what it keeps. An op in a loop yields one
                value per iteration.
            inputs: The step's inputs.
            persistent: Parameters and state before the step.
            settings: The scalars that the host passes to the step.
        """
        self._look = look
        executor = self._executor
        values = executor.call(self._step.values(executor.arguments, inputs, persistent, settings))
        return {
            slot.name: value for slot, value in zip(executor.results, values, strict=True) if slot.role == Role.OUTPUT
        }

    def _observe(self, op: TensorOp | RegionOp, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the function to run in place of an op's function."""
        if not (op.operands if self._places is None else op in self._places):
            return function
        one_result = isinstance(op, TensorOp) and len(op.results) == 1
        line, phase, module = line_of(op.location), self._step.phases[op], (self._step.calls(op) or ("",))[-1]
        is_result = self._places is not None and op in self._places.results

        def record(*operands: NumpyArray) -> Any:
            result = function(*operands)
            for value in [result] if one_result else result:
                self._look(Inspected(op.name, line, phase, value, module, is_result))
            return result

        return record
