"""Blocks of recorded ops as programs: interpreted on first occurrence, compiled when they recur."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Region, SSAValue

from tensorgrad.dialects.signature import Role, Slot, slots_attribute
from tensorgrad.dialects.tg.base import NumpyArray
from tensorgrad.dialects.tg.build import TensorBuilder
from tensorgrad.eager.recording import Entry, Recording
from tensorgrad.eager.values import Value
from tensorgrad.runtime.outputs import Outputs, Source
from tensorgrad.tracing.tracer import checked_module

NAME = "eager_block"


RunBlock: TypeAlias = Callable[[Sequence[Source]], Iterable[Source]]
"""Runs a block on inputs by position; its results are immutable."""

Load: TypeAlias = Callable[[ModuleOp], RunBlock]
"""Compiles a module with one function for a device, and loads it."""


class Program:
    """The program that computes all blocks of one structure.

    Small host arrays are constants of the program at first, which simplifies it. A constant that differs in a later
    block becomes an input, so that a changing number recompiles the program only once.

    Args:
        recording: A block of that structure.
        alive: Its results that are needed.
        load: Compiles and loads it.
        compiled_at: How many times a block must occur before it is compiled; until then NumPy interprets it.
    """

    def __init__(self, recording: Recording, alive: Sequence[Value], load: Load, compiled_at: int):
        self._structure = recording.structure
        self._kinds = [value.kind for value in recording.inputs]
        self._constants: dict[int, bytes] = {
            place: value.numpy().tobytes() for place, value in enumerate(recording.inputs) if value.is_constant
        }
        self._outputs = [value.number for value in alive]
        self._load, self._compiled_at = load, compiled_at
        self._runs = 0
        self._run: RunBlock | None = None
        self._places: Sequence[int] = ()
        self._past: list[tuple[weakref.ref[Outputs], Sequence[weakref.ref[Value]]]] = []
        self.compilations = 0

    def run(self, recording: Recording) -> Iterable[Source]:
        """Returns the results that are needed.

        Args:
            recording: A block of the structure.

        Raises:
            TensorgradError: The compiler or the device reported an error.
        """
        inputs = recording.inputs
        others = [place for place, known in self._constants.items() if inputs[place].numpy().tobytes() != known]
        if others:
            self._vary(others)
        self._runs += 1
        if self._runs < self._compiled_at:
            return self._interpreted(recording)
        if self._run is None:
            self._compile()
        assert self._run is not None
        return self._run([inputs[place].known() for place in self._places])

    def _interpreted(self, recording: Recording) -> list[NumpyArray]:
        """Computes op by op: a block that occurs once has no IR of its own, which takes longer than its ops."""
        values = {-1 - place: value.numpy() for place, value in enumerate(recording.inputs)}
        entries = self._needed()
        last = {operand: place for place, entry in enumerate(entries) for operand in entry.operands}
        for place, entry in enumerate(entries):
            results = entry.template.evaluate([values[operand] for operand in entry.operands])
            for operand in {*entry.operands}:
                if last[operand] == place and operand not in self._outputs:
                    del values[operand]
            values.update(zip(range(entry.first, entry.count), results, strict=True))
        return [values[number] for number in self._outputs]

    def note(self, recording: Recording, alive: Sequence[Value]) -> None:
        """Limits how long results share the memory of the output they arrived in: until the second run after this one.

        By then most have been replaced by newer ones; what is kept longer, such as a loss, is copied.
        """
        if not alive or not isinstance(alive[0].source, tuple):
            return
        self._past.append((weakref.ref(alive[0].source[0]), recording.results))
        if len(self._past) > 2:
            outputs, results = self._past.pop(0)
            if outputs() is not None:
                for value in (reference() for reference in results):
                    if value is not None and isinstance(value.source, tuple):
                        value.settled()

    def _vary(self, places: Sequence[int]) -> None:
        """Turns constants whose values have changed into inputs."""
        for place in places:
            del self._constants[place]
        self._run = None

    def _compile(self) -> None:
        module, self._places = self._module()
        self._run = self._load(module)
        self.compilations += 1

    def _module(self) -> tuple[ModuleOp, list[int]]:
        """Returns the block as a module, and the input that each argument stands for."""
        places = [place for place in range(len(self._kinds)) if place not in self._constants]
        block = Block(arg_types=[self._kinds[place].type for place in places])
        builder = TensorBuilder(block)
        values: dict[int, SSAValue] = {-1 - place: argument for place, argument in zip(places, block.args, strict=True)}
        for place, constant in self._constants.items():
            kind = self._kinds[place]
            values[-1 - place] = builder.constant(np.frombuffer(constant, kind.dtype).reshape(kind.shape))
        for entry in self._needed():
            results = entry.template.inlined([values[operand] for operand in entry.operands], builder)
            values.update(zip(range(entry.first, entry.count), results, strict=True))
        returned = [values[number] for number in self._outputs]
        block.add_op(func.ReturnOp(*returned))
        kinds = FunctionType.from_lists([value.type for value in block.args], [value.type for value in returned])
        func_op = FuncOp(NAME, kinds, Region(block))
        func_op.properties["arg_attrs"] = slots_attribute([Slot(f"x{place}", Role.INPUT) for place in places])
        func_op.properties["res_attrs"] = slots_attribute([Slot(f"y{i}", Role.OUTPUT) for i in range(len(returned))])
        return checked_module(func_op), places

    def _needed(self) -> list[Entry]:
        """Returns the entries that the outputs depend on, in order."""
        entries = self._structure.entries()
        owners = [place for place, entry in enumerate(entries) for _ in range(entry.first, entry.count)]
        waiting = [owners[number] for number in self._outputs]
        needed: set[int] = set()
        while waiting:
            place = waiting.pop()
            if place not in needed:
                needed.add(place)
                waiting += [owners[operand] for operand in entries[place].operands if operand >= 0]
        return [entries[place] for place in sorted(needed)]
