"""Blocks of recorded ops as programs: interpreted when they first come, compiled when they come again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Region, SSAValue

from tensorgrad.dialects.signature import Slot, slots_attribute
from tensorgrad.dialects.tg.base import NumpyArray
from tensorgrad.dialects.tg.build import TensorBuilder
from tensorgrad.eager.recording import Recording
from tensorgrad.eager.values import Value
from tensorgrad.interpreters.tensors import TensorExecutor
from tensorgrad.runtime.backend import OutputHandle
from tensorgrad.tracing.tracer import checked_module

NAME = "eager_block"


Run: TypeAlias = Callable[[Sequence[NumpyArray]], Sequence[NumpyArray | OutputHandle]]
"""Runs a block on arrays by position, which never change."""

Load: TypeAlias = Callable[[ModuleOp], Run]
"""Compiles a module with one function for a device, and loads it."""


class Program:
    """What computes the blocks of one structure.

    Small arrays of the host are constants of the program at first, so that it is simplified by them. One that is
    another the next time becomes an input, so that a number that changes compiles a program once more and no more.

    Args:
        recording: A block of that structure.
        alive: Its results that are asked for.
        load: Compiles and loads it.
        compiled_at: How often a block comes until it is compiled; before that it is interpreted by NumPy.
    """

    def __init__(self, recording: Recording, alive: Sequence[Value], load: Load, compiled_at: int):
        self._entries = list(recording.entries)
        self._kinds = [value.kind for value in recording.inputs]
        self._constants = list(recording.constants)
        self._outputs = [value.number for value in alive]
        self._load, self._compiled_at = load, compiled_at
        self._runs = 0
        self._run: Run | None = None
        self._places: Sequence[int] = ()
        self._is_compiled = False
        self.compilations = 0

    def run(self, recording: Recording) -> Sequence[NumpyArray | OutputHandle]:
        """Returns the results that are asked for.

        Args:
            recording: A block of the structure.

        Raises:
            TensorgradError: What the compiler or the device reported.
        """
        if recording.constants != self._constants:
            self._vary(recording.constants)
        self._runs += 1
        if self._run is None or (not self._is_compiled and self._runs >= self._compiled_at):
            self._prepare()
        assert self._run is not None
        return self._run([recording.inputs[place].numpy() for place in self._places])

    def _vary(self, constants: Sequence[bytes | None]) -> None:
        """Makes inputs of constants that are others now."""
        for place, (before, now) in enumerate(zip(self._constants, constants, strict=True)):
            if before is not None and before != now:
                self._constants[place] = None
                self._run = None

    def _prepare(self) -> None:
        module, self._places = self._module()
        if self._runs < self._compiled_at:
            self._run = TensorExecutor(module).call
            return
        self._run = self._load(module)
        self._is_compiled = True
        self.compilations += 1

    def _module(self) -> tuple[ModuleOp, list[int]]:
        """Returns the block as a module, and which inputs its arguments are."""
        places = [place for place, constant in enumerate(self._constants) if constant is None]
        block = Block(arg_types=[self._kinds[place].type for place in places])
        builder = TensorBuilder(block)
        values: dict[int, SSAValue] = {-1 - place: one for place, one in zip(places, block.args, strict=True)}
        for place, constant in enumerate(self._constants):
            if constant is not None:
                kind = self._kinds[place]
                values[-1 - place] = builder.constant(np.frombuffer(constant, kind.dtype).reshape(kind.shape))
        needed = self._needed()
        count = 0
        for number, (template, operands) in enumerate(self._entries):
            results = range(count, count + len(template.results))
            count += len(template.results)
            if number in needed:
                found = template.inlined([values[operand] for operand in operands], builder)
                values.update(zip(results, found, strict=True))
        returned = [values[number] for number in self._outputs]
        block.add_op(func.ReturnOp(*returned))
        kinds = FunctionType.from_lists([one.type for one in block.args], [one.type for one in returned])
        made = FuncOp(NAME, kinds, Region(block))
        made.properties["arg_attrs"] = slots_attribute([Slot(f"x{place}", "input") for place in places])
        made.properties["res_attrs"] = slots_attribute([Slot(f"y{i}", "output") for i in range(len(returned))])
        return checked_module(made), places

    def _needed(self) -> set[int]:
        """Returns the entries that the outputs depend on."""
        owners = [number for number, (template, _) in enumerate(self._entries) for _ in template.results]
        waiting = [owners[number] for number in self._outputs]
        found: set[int] = set()
        while waiting:
            number = waiting.pop()
            if number not in found:
                found.add(number)
                waiting += [owners[operand] for operand in self._entries[number][1] if operand >= 0]
        return found
