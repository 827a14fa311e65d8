"""A step on the CPU: the plan as an instruction table, and the native function that interprets it.

The table is data, so that only a program's kernels have to be compiled for it. An instruction is an opcode and three
operands, of 64 bits each. A slot is a word of the step's frame: the frame holds the address of each buffer, then of
each input that is read in place, then the iteration index for each depth of loops, then the arguments of the current
dispatch.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from functools import cache

import numpy as np

from tensorgrad.runtime.cpu import objects
from tensorgrad.runtime.cpu.code import NativeCode
from tensorgrad.runtime.cpu.tasks import pool_text
from tensorgrad.runtime.plan import renamed
from tensorgrad.runtime.program import (
    Collective,
    Copy,
    Dispatch,
    Kernel,
    Program,
    ProgramRole,
    Repeat,
    Step,
    TensorSlot,
    Wait,
    fault_name,
    runs,
    touched,
)

STEP = "tg_step"
"""The function's name; its arguments are the table, the frame, the pool, and scratch memory.

Without a pool, the caller's thread runs all tasks.
"""


LEAST_BORROWED = 1 << 15
"""Inputs of fewer bytes are copied, which is as fast as finding out where they are."""


class Opcode(IntEnum):
    """Opcodes, and their effect with the operands a, b and c."""

    END = 0
    """Ends the step."""
    ADDRESS = 1
    """frame[a] = frame[b] + c"""
    MOVE = 2
    """frame[a] += frame[b] * c"""
    SKIP = 3
    """Skips the next a instructions if the 32-bit word at address frame[b] is 0."""
    CALL = 4
    """Runs the b tasks of the kernel at address a, whose arguments begin at slot c."""
    COPY = 5
    """Copies a bytes from address frame[b] to address frame[c]."""
    SET = 6
    """frame[a] = b"""
    REPEAT = 7
    """frame[a] += 1, and jumps b instructions back while that is less than c."""
    HOST = 8
    """Calls the host function at address a with the number b and the slots from c on; ends the step if it returns
    anything but 0."""


Instruction = tuple[int, int, int, int]
Exchanges = Callable[[Collective | Wait], tuple[int, int]]
END: Instruction = (Opcode.END, 0, 0, 0)


@dataclass(frozen=True)
class NativeKernel:
    """A kernel as it is compiled: under a name that only its code determines.

    Its name in the program numbers it among the others. So that an edit of one layer compiles the kernels of that layer
    and finds the object code of all others, the object code has another name, the hash of its text.

    Attributes:
        symbol: The function's name.
        text: The LLVM IR of a module: the kernel, and the function that `CALL` calls.
    """

    symbol: str
    text: str

    @classmethod
    def of(cls, kernel: Kernel, count: int) -> NativeKernel:
        """Returns a program's kernel with `count` bindings."""
        content = f"{count} {renamed(kernel.code, kernel.entry, 'kernel')}"
        symbol = f"kernel.{hashlib.sha256(content.encode()).hexdigest()[:32]}"
        return cls(symbol, f"{renamed(kernel.code, kernel.entry, symbol)}\n{_caller_text(symbol, count)}")

    @property
    def caller(self) -> str:
        """The name of the function that calls the kernel with an array of its buffers' addresses."""
        return f"{self.symbol}.call"

    @property
    def fault(self) -> str | None:
        """The name of its fault record (see `fault_name`); `None` if it checks no bounds."""
        name = fault_name(self.symbol)
        return name if f"@{name} =" in self.text else None


def native_kernels(program: Program) -> list[NativeKernel]:
    """Returns the kernels of a program as they are compiled."""
    steps = [step for step, _ in runs(program.plan) if isinstance(step, Dispatch)]
    counts = {step.kernel: len(step.bindings) for step in steps}
    return [NativeKernel.of(kernel, counts.get(i, 0)) for i, kernel in enumerate(program.kernels)]


def _caller_text(symbol: str, count: int) -> str:
    lines: list[str] = []
    for number in range(count):
        lines.append(f"  %s{number} = getelementptr ptr, ptr %arguments, i64 {number}")
        lines.append(f"  %a{number} = load ptr, ptr %s{number}, align 8")
    addresses = "".join(f"ptr %a{number}, " for number in range(count))
    return "\n".join(
        [
            f"define void @{symbol}.call(ptr %arguments, ptr %scratch, i64 %first, i64 %last) {{",
            *lines,
            f"  call void @{symbol}({addresses}ptr %scratch, i64 %first, i64 %last) noinline",
            "  ret void",
            "}",
        ]
    )


@dataclass(frozen=True)
class FrameLayout:
    """The layout of a program's frame.

    Attributes:
        inputs: The slots of inputs that are read in place, each with its tensor.
        indices: The slot of the outermost loop's iteration index.
        arguments: The slot of a dispatch's first argument.
        size: The number of slots.
    """

    inputs: Mapping[int, TensorSlot]
    indices: int
    arguments: int
    size: int

    @staticmethod
    def of(program: Program, least_borrowed: int = LEAST_BORROWED) -> FrameLayout:
        """Returns the layout of a program's frame.

        Args:
            program: The program.
            least_borrowed: The size in bytes from which inputs may be read in place.
        """
        steps = [step for step, _ in runs(program.plan)]
        arguments = max((len(step.bindings) for step in steps if isinstance(step, Dispatch)), default=0)
        exchanged = max((2 * len(step.parts) for step in steps if isinstance(step, Collective)), default=0)
        inputs = dict(enumerate(borrowed_inputs(program, least_borrowed), len(program.buffers)))
        indices = len(program.buffers) + len(inputs)
        start = indices + _depth(program.plan)
        return FrameLayout(inputs, indices, start, start + max(arguments, exchanged, 2))

    def base(self, buffer: int, offset: int) -> tuple[int, int]:
        """Returns the base slot for a position in a buffer, and the byte offset from its address."""
        for slot, tensor in self.inputs.items():
            if tensor.buffer == buffer and tensor.offset <= offset < tensor.offset + tensor.size:
                return slot, offset - tensor.offset
        return buffer, offset


def borrowed_inputs(program: Program, least: int = LEAST_BORROWED) -> list[TensorSlot]:
    """Returns the inputs that steps may read in place: those of at least `least` bytes that no step writes to.

    Not bools, which are stored as words and need a conversion, nor arrays that are not a whole number of words.
    """
    ranges = [range_ for step, counts in runs(program.plan) for range_ in touched(step, counts)]

    def is_only_read(tensor: TensorSlot) -> bool:
        end = tensor.offset + tensor.size
        return all(
            buffer != tensor.buffer
            or offset + size <= tensor.offset
            or offset >= end
            or (not is_written and tensor.offset <= offset and offset + size <= end)
            for buffer, offset, size, is_written in ranges
        )

    slots = [slot for slot in program.slots(ProgramRole.INPUT).values() if slot.size >= least and is_only_read(slot)]
    return [
        slot
        for slot in slots
        if not slot.is_converted and slot.size == math.prod(slot.shape) * slot.device_dtype.itemsize
    ]


def _depth(steps: Sequence[Step]) -> int:
    """Returns the maximum depth of nested loops."""
    return max((1 + _depth(step.steps) for step in steps if isinstance(step, Repeat)), default=0)


def instructions(
    steps: Sequence[Step], layout: FrameLayout, kernels: Sequence[int], exchange: Exchanges, depth: int = 0
) -> Iterator[Instruction]:
    """Yields the instructions for steps of a plan.

    Args:
        steps: The steps.
        layout: The frame's layout.
        kernels: The address of each kernel's `CALL` function.
        exchange: Returns the address of the function that exchanges or waits, and the number to pass to it.
        depth: The number of enclosing loops.
    """
    for step in steps:
        if isinstance(step, Repeat):
            body = list(instructions(step.steps, layout, kernels, exchange, depth + 1))
            index = layout.indices + depth
            yield (Opcode.SET, index, 0, 0)
            yield from body
            yield (Opcode.REPEAT, index, len(body), step.count)
        elif isinstance(step, Copy):
            source, target = layout.arguments, layout.arguments + 1
            yield (Opcode.ADDRESS, source, *layout.base(step.source, step.source_offset))
            yield (Opcode.ADDRESS, target, step.destination, step.destination_offset)
            yield (Opcode.COPY, step.size, source, target)
        elif isinstance(step, Collective):
            for slot, (buffer, offset, _) in enumerate((*step.reads, *step.writes), layout.arguments):
                yield (Opcode.ADDRESS, slot, *layout.base(buffer, offset))
            yield (Opcode.HOST, *exchange(step), layout.arguments)
        elif isinstance(step, Wait):
            yield (Opcode.HOST, *exchange(step), layout.arguments)
        else:
            yield from _dispatch(step, layout, kernels[step.kernel])


def _dispatch(step: Dispatch, layout: FrameLayout, kernel: int) -> Iterator[Instruction]:
    work: list[Instruction] = []
    for slot, binding in enumerate(step.bindings, layout.arguments):
        work.append((Opcode.ADDRESS, slot, *layout.base(binding.buffer, binding.offset)))
        moves = enumerate(binding.strides, layout.indices)
        work += [(Opcode.MOVE, slot, index, stride) for index, stride in moves if stride]
    work.append((Opcode.CALL, kernel, step.workgroups[0], layout.arguments))
    if step.indirect is not None:
        yield (Opcode.ADDRESS, layout.arguments, *layout.base(*step.indirect))
        yield (Opcode.SKIP, len(work), layout.arguments, 0)
    yield from work


def table(instructions: Iterator[Instruction]) -> np.ndarray:
    """Encodes instructions as a table, for `STEP`."""
    return np.array([*instructions, END], np.int64)


@cache
def native_runtime() -> NativeCode:
    """Returns the native code that every program needs: `STEP`, and the pool's functions."""
    code = NativeCode(_runtime_text())
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))  # Threads may still run it when the interpreter exits.
    return code


@contextmanager
def compiling_ahead() -> Iterator[Callable[[Kernel, int], None]]:
    """Yields a function of a kernel and its number of bindings, which starts to compile it in worker processes."""
    with objects.compiling_ahead() as ahead:
        if not native_runtime.cache_info().currsize:
            ahead.add(_runtime_text())
        yield lambda kernel, count: ahead.add(NativeKernel.of(kernel, count).text)


def _runtime_text() -> str:
    return pool_text() + _step_text()


def _step_text() -> str:
    cases = "\n".join(f"    i64 {opcode.value}, label %do.{opcode.name.lower()}" for opcode in Opcode)
    bodies = "\n".join(f"do.{opcode.name.lower()}:\n{_BODIES[opcode]}" for opcode in Opcode)
    return f"""
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)

define void @{STEP}(ptr %plan, ptr %frame, ptr %pool, ptr %scratch) {{
entry:
  %alone = icmp eq ptr %pool, null
  br label %fetch
fetch:
  %at = phi ptr [ %plan, %entry ], [ %following, %next ], [ %skipped, %do.skip ], [ %back, %do.repeat ]
  %op = load i64, ptr %at, align 8
  %pa = getelementptr i64, ptr %at, i64 1
  %a = load i64, ptr %pa, align 8
  %pb = getelementptr i64, ptr %at, i64 2
  %b = load i64, ptr %pb, align 8
  %pc = getelementptr i64, ptr %at, i64 3
  %c = load i64, ptr %pc, align 8
  %sa = getelementptr i64, ptr %frame, i64 %a
  %sb = getelementptr i64, ptr %frame, i64 %b
  %sc = getelementptr i64, ptr %frame, i64 %c
  switch i64 %op, label %do.end [
{cases}
  ]
{bodies}
together:
  call void @tg_run(ptr %pool, ptr %kernel, ptr %sc, ptr %scratch, i64 %b)
  br label %next
single:
  call void %kernel(ptr %sc, ptr %scratch, i64 0, i64 %b)
  br label %next
next:
  %following = getelementptr i64, ptr %at, i64 4
  br label %fetch
}}
"""


_BODIES: Mapping[Opcode, str] = {
    Opcode.END: """
  ret void""",
    Opcode.ADDRESS: """
  %base = load i64, ptr %sb, align 8
  %address = add i64 %base, %c
  store i64 %address, ptr %sa, align 8
  br label %next""",
    Opcode.MOVE: """
  %index = load i64, ptr %sb, align 8
  %distance = mul i64 %index, %c
  %moving = load i64, ptr %sa, align 8
  %moved = add i64 %moving, %distance
  store i64 %moved, ptr %sa, align 8
  br label %next""",
    Opcode.SKIP: """
  %pword = load ptr, ptr %sb, align 8
  %word = load i32, ptr %pword, align 4
  %nothing = icmp eq i32 %word, 0
  %passed = select i1 %nothing, i64 %a, i64 0
  %passing = add i64 %passed, 1
  %forward = mul i64 %passing, 4
  %skipped = getelementptr i64, ptr %at, i64 %forward
  br label %fetch""",
    Opcode.CALL: """
  %kernel = inttoptr i64 %a to ptr
  %one = icmp eq i64 %b, 1
  %whole = or i1 %alone, %one
  br i1 %whole, label %single, label %together""",
    Opcode.COPY: """
  %source = load ptr, ptr %sb, align 8
  %target = load ptr, ptr %sc, align 8
  call void @llvm.memmove.p0.p0.i64(ptr %target, ptr %source, i64 %a, i1 false)
  br label %next""",
    Opcode.SET: """
  store i64 %b, ptr %sa, align 8
  br label %next""",
    Opcode.REPEAT: """
  %last = load i64, ptr %sa, align 8
  %count = add i64 %last, 1
  store i64 %count, ptr %sa, align 8
  %more = icmp slt i64 %count, %c
  %length = mul i64 %b, -4
  %distant = select i1 %more, i64 %length, i64 4
  %back = getelementptr i64, ptr %at, i64 %distant
  br label %fetch""",
    Opcode.HOST: """
  %host = inttoptr i64 %a to ptr
  %status = call i64 %host(i64 %b, ptr %sc)
  %fine = icmp eq i64 %status, 0
  br i1 %fine, label %next, label %do.end""",
}
"""The native code of each opcode."""
