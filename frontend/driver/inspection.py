"""`Training.inspect`: the values that a line of the user's program or a module has in a step, on the reference."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation

from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.tg.base import NumpyArray, TensorOp
from tensorgrad.dialects.tg.control import RegionOp
from tensorgrad.driver.reference_step import Phase, ReferenceStep
from tensorgrad.errors import OptionError
from tensorgrad.interpreters.nonfinite import Content
from tensorgrad.interpreters.tensors import TensorExecutor
from tensorgrad.surface.collector import without_collector
from tensorgrad.tracing.location import user_line

MOST_LINES = 12
"""How many lines a message names."""

MOST_MODULES = 4
"""How many modules a message names."""


@dataclass(frozen=True, eq=False)
class Inspected:
    """A value that an op of a step made; `print` summarizes it.

    Attributes:
        op: The op, as in `tg.exp`.
        line: The user's line that it is from, as `file:line`: of a derivative, the line that is differentiated.
        phase: Whether the op is of the loss, of its derivative, or of the optimizer's update.
        value: What it made.
        module: The path of the innermost module whose call the line ran in, with a number from its second call on, as
            in `cell#2`; nothing outside of modules.
        is_result: Whether a module was asked for, and this is what it gives to others.
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


class Places:
    """Which ops of a step are from a line, are of a kind, or are of a module.

    Args:
        step: The step.
        where: A line as `file:line`, of whose folders any number may be left out; an op's name, as in `tg.exp`; or the
            path of a module or of a container of modules, as in `blocks.3`: all its calls, or with a number one of
            them, as in `cell#2`.

    Attributes:
        results: The ops of the loss that give a module's results to others, where a module is meant.

    Raises:
        OptionError: The step has no op there; names lines or modules that it has.
    """

    def __init__(self, step: ReferenceStep, where: str):
        self._step, self._where = step, where
        ops = [op for op in step.module.walk() if isinstance(op, TensorOp | RegionOp) and op.operands]
        self._meant: dict[Operation, str | None] = {
            op: self._call(op) for op in ops if self._is_at(op) or self._call(op) is not None
        }
        if not self._meant:
            raise OptionError(
                f"{user_line()}: inspect: no op of the step is from {where!r}; there are {self._there(ops)}"
            )
        self.results = frozenset(op for op, call in self._meant.items() if call is not None and self._leaves(op))

    def __contains__(self, op: Operation) -> bool:
        return op in self._meant

    def _is_at(self, op: Operation) -> bool:
        wanted = PurePath(self._where).parts
        return op.name == self._where or PurePath(line_of(op.location)).parts[-len(wanted) :] == wanted

    def _call(self, op: Operation) -> str | None:
        """Returns the outermost call of what is meant that an op is in, if it is in one."""
        for call in self._step.calls(op):
            path = call.partition("#")[0]
            if self._where in (call, path) or path.startswith(f"{self._where}."):
                return call
        return None

    def _leaves(self, op: Operation) -> bool:
        """Returns whether an op of the loss makes what another one takes outside of its call."""
        phases = self._step.phases
        users = [use.operation for result in op.results for use in result.uses]
        return phases[op] == "forward" and any(
            (phases.get(user) == "forward" or isinstance(user, ReturnOp)) and self._call(user) != self._meant[op]
            for user in users
        )

    def _there(self, ops: Iterable[Operation]) -> str:
        """Returns the modules that are nearest to what is asked for, or the lines where it reads like one."""
        modules = list(dict.fromkeys(call.partition("#")[0] for op in ops for call in self._step.calls(op)))
        if modules and ":" not in self._where and not self._where.startswith("tg."):
            near = difflib.get_close_matches(self._where, modules, MOST_MODULES, cutoff=0)
            return f"the modules {', '.join(near)}"
        lines = list(dict.fromkeys(line_of(op.location) for op in ops))
        more = f" and {len(lines) - MOST_LINES} more" if len(lines) > MOST_LINES else ""
        return f"the lines {', '.join(lines[:MOST_LINES])}{more}"


class Inspector:
    """A step on the reference, whose values can be looked at when they are made.

    Args:
        step: The step.
        where: Of which ops, as `Places` has it; `None` is all.

    Raises:
        OptionError: The step has no op there; names lines or modules that it has.
    """

    @without_collector()
    def __init__(self, step: ReferenceStep, where: str | None):
        self._step, self._places = step, None if where is None else Places(step, where)
        self._look: Callable[[Inspected], object] = lambda one: None
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
            look: Is given the values in the order in which they are made, and must copy what it keeps of them; an op
                in a loop makes one for each iteration.
            inputs: The step's.
            persistent: Parameters and state before it.
            settings: What the host gives a step.
        """
        self._look = look
        executor = self._executor
        found = executor.call(self._step.values(executor.arguments, inputs, persistent, settings))
        return {slot.name: value for slot, value in zip(executor.results, found, strict=True) if slot.role == "output"}

    def _observe(self, op: TensorOp | RegionOp, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns what runs in place of an op's function."""
        if not (op.operands if self._places is None else op in self._places):
            return function
        one_result = isinstance(op, TensorOp) and len(op.results) == 1
        line, phase, module = line_of(op.location), self._step.phases[op], (self._step.calls(op) or ("",))[-1]
        is_result = self._places is not None and op in self._places.results

        def record(*operands: NumpyArray) -> Any:
            made = function(*operands)
            for value in [made] if one_result else made:
                self._look(Inspected(op.name, line, phase, value, module, is_result))
            return made

        return record
