"""Runs LLVM IR of several threads in every order, and with every value that an atomic load may return.

Memory follows the model of C++, which is LLVM's, for `monotonic`, `acquire`, `release` and `acq_rel`. Each word has a
list of writes, its modification order, and each thread a view: the oldest write to each word that it may still read.

- A load reads any write that is not older than the thread's view. `acquire` adds the view that came with that write.
- A store enters the list anywhere after the thread's view, not only at the end: another thread may see two stores to
  different words in either order. `release` sends the thread's view along.
- A read-modify-write reads a write and enters the list right behind it. It passes on the view that came with that
  write.

Left out are loads that return what a later store of their own thread leads to, which no compiler or processor has been
seen to do, and sleepers that wake without a cause. A failure may be one that the processor of the tests can't show: x86
keeps the order of stores, Arm does not.

Only the instructions, orders and system calls that the thread pool uses are known.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import add, and_, eq, floordiv, lshift, lt, ne, or_, rshift, sub
from typing import TypeAlias

WORD = 8
FAIL = "fail"
"""The function that a program calls when it finds something wrong."""

STUCK = "from here on, the threads never all end"

LOCK = ("pthread_mutex_lock", "AcquireSRWLockExclusive")
UNLOCK = ("pthread_mutex_unlock", "ReleaseSRWLockExclusive")
SLEEP = ("pthread_cond_wait", "SleepConditionVariableSRW")
WAKE = ("pthread_cond_broadcast", "WakeAllConditionVariable")
SYSTEM = (FAIL, *LOCK, *UNLOCK, *SLEEP, *WAKE)

OPERATORS: Mapping[str, Callable[[int, int], int]] = {
    "add": add,
    "sub": sub,
    "udiv": floordiv,
    "and": and_,
    "or": or_,
    "shl": lshift,
    "lshr": rshift,
    "eq": eq,
    "ne": ne,
    "ult": lt,
    "ugt": lambda x, y: x > y,
    "getelementptr": lambda address, index: address + WORD * index,
}

Value: TypeAlias = int | str
"""A number, an address, or the name of a function."""

Registers: TypeAlias = tuple[tuple[str, Value], ...]
Frame: TypeAlias = tuple[str, int, Registers]
View: TypeAlias = tuple[int, ...]
Write: TypeAlias = tuple[Value, View | None, bool]
"""A value, the view that comes with it, and whether it belongs right behind the write before it."""

Memory: TypeAlias = tuple[tuple[Write, ...], ...]

RUNNING, ASLEEP, WOKEN = range(3)
Thread: TypeAlias = tuple[tuple[Frame, ...], View, int]
"""The frames of its calls, its view, and whether it sleeps; woken, it still has to take the lock."""

State: TypeAlias = tuple[tuple[Thread, ...], Memory, tuple[int, View]]
"""The threads, the memory, and the lock: the number of its owner, or -1, and the view of whoever had it last."""

_OPERAND = re.compile(r"[%@][\w.]+|(?<![\w.])\d+|\bnull\b|\btrue\b|\bfalse\b")
_ORDER = re.compile(r"\b(?:monotonic|acquire|release|acq_rel)\b")
_NAMED: Mapping[str, Value] = {"null": 0, "true": 1, "false": 0}


@dataclass(frozen=True)
class Instruction:
    """An instruction.

    Attributes:
        text: Its line.
        result: The register that it sets, or "".
        kind: Its opcode; for `icmp`, the predicate.
        operands: Registers, constants, functions and labels, in the order in which they are written.
        orders: The memory orders.
    """

    text: str
    result: str
    kind: str
    operands: tuple[str, ...]
    orders: tuple[str, ...]

    @classmethod
    def of(cls, line: str) -> Instruction:
        """Returns the instruction of a line."""
        result, equals, right = line.partition(" = ")
        if not equals:
            result, right = "", line
        words = right.split()
        kind = words[1] if words[0] in ("icmp", "atomicrmw") else words[0]
        if words[0] == "atomicrmw":
            kind = f"atomicrmw {kind}"
        return cls(line, result, kind, tuple(_OPERAND.findall(right)), tuple(_ORDER.findall(right)))

    @property
    def is_shared(self) -> bool:
        """Whether other threads may notice it, or it may notice them."""
        if self.kind == "call":
            return self.operands[0].removeprefix("@") in SYSTEM
        return self.kind in ("load", "store", "cmpxchg") or self.kind.startswith("atomicrmw")

    @property
    def registers(self) -> set[str]:
        """The registers that it reads; labels of branches are among them, and do no harm."""
        return set() if self.kind == "phi" else {operand for operand in self.operands if operand.startswith("%")}


class Function:
    """A function: its parameters, instructions, blocks, and the registers that are live before each instruction."""

    def __init__(self, parameters: Sequence[str], lines: Sequence[str]):
        self.parameters = parameters
        self.code: list[Instruction] = []
        self.starts: dict[str, int] = {}
        self.blocks: list[str] = []
        label = "%entry"
        for line in lines:
            if line.endswith(":"):
                label = f"%{line[:-1]}"
                continue
            self.starts.setdefault(label, len(self.code))
            self.code.append(Instruction.of(line))
            self.blocks.append(label)
        self.live = self._live()

    def jump(self, source: str, target: str) -> tuple[int, dict[str, str]]:
        """Returns the first instruction of a block behind its phis, and what they take from another block."""
        place, incoming = self.starts[target], dict[str, str]()
        while self.code[place].kind == "phi":
            values, labels = self.code[place].operands[::2], self.code[place].operands[1::2]
            incoming[self.code[place].result] = values[labels.index(source)]
            place += 1
        return place, incoming

    def _live(self) -> list[set[str]]:
        live: list[set[str]] = [set() for _ in self.code]
        changed = True
        while changed:
            changed = False
            for place in reversed(range(len(self.code))):
                instruction = self.code[place]
                after: set[str] = set()
                if instruction.kind == "br":
                    for target in instruction.operands[-2:] if len(instruction.operands) > 1 else instruction.operands:
                        start, incoming = self.jump(self.blocks[place], target)
                        after |= (live[start] - incoming.keys()) | {x for x in incoming.values() if x.startswith("%")}
                elif instruction.kind != "ret":
                    after = live[place + 1]
                before = (after - {instruction.result}) | (instruction.registers - self.starts.keys())
                changed |= before != live[place]
                live[place] = before
        return live


def functions_of(text: str) -> dict[str, Function]:
    """Returns the functions that a module defines."""
    functions: dict[str, Function] = {}
    for head, body in re.findall(r"^define ([^{]*)\{\n(.*?)^\}", text, re.DOTALL | re.MULTILINE):
        name, *parameters = _OPERAND.findall(head)
        lines = (line.partition(";")[0].strip() for line in body.splitlines())
        functions[name.removeprefix("@")] = Function(parameters, [line for line in lines if line])
    return functions


@dataclass(frozen=True)
class Result:
    """What all orders together show.

    Attributes:
        states: The number of distinct states.
        failure: The instructions that lead to a failure, each with its thread's number; empty if there is none.
        stuck: The instructions that lead to a state from which the threads don't all end, in any order.
    """

    states: int
    failure: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()


class _FailureError(Exception):
    """A thread has called `fail`, uses memory that is not the program's, or has no right to the lock.

    Attributes:
        texts: What the thread has run since the last state.
    """

    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Threads:
    """A program: the function that each thread runs, and the words of memory, which start with these values.

    Attributes:
        functions: The functions.
        starts: The function and the arguments of each thread.
        words: The initial value of each word, by its number.
        ending: The number of threads that must end, the first ones.
    """

    functions: Mapping[str, Function]
    starts: Sequence[tuple[str, Sequence[Value]]]
    words: Mapping[int, int]
    ending: int

    @cached_property
    def places(self) -> Mapping[Value, int]:
        """The place of each word in memory, by its address."""
        return {WORD * word: place for place, word in enumerate(self.words)}

    def explore(self) -> Result:
        """Runs the threads in all orders."""
        start = self._start()
        numbers: dict[State, int] = {start: 0}
        parents: list[tuple[int, tuple[str, ...]]] = [(-1, ())]
        sources: list[list[int]] = [[]]
        waiting, ends = deque([start]), list[int]()
        while waiting:
            state = waiting.popleft()
            number = numbers[state]
            if all(not frames for frames, _, _ in state[0][: self.ending]):
                ends.append(number)
                continue
            try:
                for thread in range(len(state[0])):
                    for reached, texts in self._steps(state, thread):
                        following = _compact(reached)
                        if following not in numbers:
                            numbers[following] = len(numbers)
                            parents.append((number, texts))
                            sources.append([])
                            waiting.append(following)
                        sources[numbers[following]].append(number)
            except _FailureError as error:
                return Result(len(numbers), failure=(*_trace(parents, number), *error.texts))
        ending, pending = set(ends), list(ends)
        while pending:
            for source in sources[pending.pop()]:
                if source not in ending:
                    ending.add(source)
                    pending.append(source)
        stuck = next((number for number in range(len(numbers)) if number not in ending), None)
        return Result(len(numbers)) if stuck is None else Result(len(numbers), stuck=(*_trace(parents, stuck), STUCK))

    @cached_property
    def _known(self) -> dict[tuple[tuple[Frame, ...], Value], tuple[Frame, ...]]:
        """What `_behind` has returned: threads run the same instructions in most states."""
        return {}

    # Threads

    def _start(self) -> State:
        first = tuple(0 for _ in self.words)
        threads: list[Thread] = []
        for name, arguments in self.starts:
            registers = dict(zip(self.functions[name].parameters, arguments, strict=True))
            threads.append((self._settled((), name, 0, registers), first, RUNNING))
        return tuple(threads), tuple(((value, None, False),) for value in self.words.values()), (-1, first)

    def _next(self, frames: tuple[Frame, ...]) -> Instruction:
        name, place, _ = frames[-1]
        return self.functions[name].code[place]

    def _behind(self, frames: tuple[Frame, ...], value: Value = 0) -> tuple[Frame, ...]:
        """Returns the frames of a thread whose next instruction has this result."""
        behind = self._known.get((frames, value))
        if behind is None:
            name, place, pairs = frames[-1]
            registers = {**dict(pairs), self._next(frames).result: value}
            behind = self._known[frames, value] = self._settled(frames[:-1], name, place + 1, registers)
        return behind

    def _settled(
        self, callers: tuple[Frame, ...], name: str, place: int, registers: dict[str, Value]
    ) -> tuple[Frame, ...]:
        """Runs a thread up to the next instruction that concerns others; returns its frames, none if it ends."""
        while True:
            function = self.functions[name]
            instruction = function.code[place]
            if instruction.is_shared:
                return (*callers, (name, place, _kept(registers, function.live[place])))
            operands = [_value(operand, registers) for operand in instruction.operands]
            place += 1
            if instruction.kind == "br":
                labels = instruction.operands
                target = labels[0] if len(labels) == 1 else labels[1 if operands[0] else 2]
                place, incoming = function.jump(function.blocks[place - 1], target)
                registers |= {result: _value(operand, registers) for result, operand in incoming.items()}
            elif instruction.kind == "ret":
                if not callers:
                    return ()
                *others, (name, place, pairs) = callers
                callers, registers = tuple(others), dict(pairs)
                registers[self.functions[name].code[place].result] = operands[0] if operands else 0
                place += 1
            elif instruction.kind == "call":
                called = str(operands[0]).removeprefix("@")
                if called in self.functions:
                    callers = (*callers, (name, place - 1, _kept(registers, function.live[place])))
                    name, place = called, 0
                    registers = dict(zip(self.functions[called].parameters, operands[1:], strict=True))
            elif instruction.kind in OPERATORS:
                registers[instruction.result] = _calculated(instruction.kind, operands[0], operands[1])
            else:  # conversions
                registers[instruction.result] = operands[0]

    def _steps(self, state: State, thread: int) -> Iterator[tuple[State, tuple[str, ...]]]:
        """Yields the states after the next steps of a thread, and what it has run.

        It runs loads, then one other instruction, then stores. A load may as well come later, since others' steps take
        nothing away that it may read, and a store earlier, since others need not read it; so no other thread has to run
        in between, and a state in which this one has only loaded is not worth a look.
        """
        frames, view, status = state[0][thread]
        if status == ASLEEP:
            return
        known = {(frames, view)}
        pending: list[tuple[tuple[Frame, ...], View, tuple[str, ...]]] = [(frames, view, ())]
        while pending:
            frames, view, texts = pending.pop()
            if not frames:
                yield _replaced(state, thread, (frames, view, status)), texts
                continue
            text = (*texts, f"{thread}: {self._next(frames).text}")
            reached = _replaced(state, thread, (frames, view, status))
            try:
                for loaded in self._loads(reached, thread):
                    if loaded not in known:
                        known.add(loaded)
                        pending.append((*loaded, text))
                for after in self._effects(reached, thread):
                    yield from self._stores(after, thread, text)
            except _FailureError as error:
                error.texts = text
                raise

    def _stores(self, state: State, thread: int, texts: tuple[str, ...]) -> Iterator[tuple[State, tuple[str, ...]]]:
        frames = state[0][thread][0]
        if not frames or self._next(frames).kind != "store":
            yield state, texts
            return
        for after in self._effects(state, thread):
            yield from self._stores(after, thread, (*texts, f"{thread}: {self._next(frames).text}"))

    def _accessed(self, state: State, thread: int) -> tuple[int, Sequence[Value]]:
        """Returns the place of the word that a thread's next instruction accesses, and the other operands."""
        name, place, pairs = state[0][thread][0][-1]
        instruction, registers = self.functions[name].code[place], dict(pairs)
        word, *others = (_value(operand, registers) for operand in instruction.operands)
        if instruction.kind == "store":
            word, others = others[0], [word]
        if word not in self.places:
            raise _FailureError
        return self.places[word], others

    def _loads(self, state: State, thread: int) -> Iterator[tuple[tuple[Frame, ...], View]]:
        """Yields the frames and the view of a thread after a load, or after a compare-and-swap that fails."""
        frames, view, _ = state[0][thread]
        instruction = self._next(frames)
        if instruction.kind not in ("load", "cmpxchg"):
            return
        at, others = self._accessed(state, thread)
        for place, (value, sent, _) in enumerate(state[1][at]):
            if place < view[at] or (instruction.kind == "cmpxchg" and value == others[0]):
                continue
            seen = _with(view, at, place)
            if sent is not None and instruction.orders[-1] in ("acquire", "acq_rel"):
                seen = _joined(seen, sent)
            yield self._behind(frames, value if instruction.kind == "load" else 0), seen

    def _effects(self, state: State, thread: int) -> Iterator[State]:
        """Yields the states after an instruction that is no load."""
        frames, view, _ = state[0][thread]
        instruction = self._next(frames)
        if instruction.kind == "call":
            yield from self._system_steps(state, thread, instruction.operands[0].removeprefix("@"))
        if instruction.kind in ("call", "load"):
            return
        at, others = self._accessed(state, thread)
        order, writes = instruction.orders[0], state[1][at]
        for place in range(view[at], len(writes)):
            old, sent, _ = writes[place]
            if place + 1 < len(writes) and writes[place + 1][2]:
                continue
            if instruction.kind == "store":
                sent = view if order == "release" else None
                yield _written(state, thread, self._behind(frames), view, at, place + 1, (others[0], sent, False))
                continue
            if instruction.kind == "cmpxchg" and old != others[0]:
                continue
            seen = _with(view, at, place)
            if order in ("acquire", "acq_rel") and sent is not None:
                seen = _joined(seen, sent)
            if order in ("release", "acq_rel"):
                sent = seen if sent is None else _joined(seen, sent)
            if instruction.kind == "cmpxchg":
                result, new = 1, others[1]
            else:
                result, new = old, _calculated(instruction.kind.removeprefix("atomicrmw "), old, others[0])
            yield _written(state, thread, self._behind(frames, result), seen, at, place + 1, (new, sent, True))

    def _system_steps(self, state: State, thread: int, called: str) -> Iterator[State]:
        """Yields the states after a call of the operating system."""
        threads, _, (owner, released) = state
        frames, view, status = threads[thread]
        if called == FAIL:
            raise _FailureError
        if called in LOCK or status == WOKEN:
            if owner < 0:
                seen = _joined(view, released)
                yield _replaced(state, thread, (self._behind(frames), seen, RUNNING), (thread, seen))
        elif called in WAKE:
            woken = tuple((f, v, WOKEN if s == ASLEEP else s) for f, v, s in threads)
            yield _replaced((woken, *state[1:]), thread, (self._behind(frames), view, RUNNING))
        elif owner != thread:
            raise _FailureError
        elif called in UNLOCK:
            yield _replaced(state, thread, (self._behind(frames), view, RUNNING), (-1, view))
        else:
            yield _replaced(state, thread, (frames, view, ASLEEP), (-1, view))


def _trace(parents: Sequence[tuple[int, tuple[str, ...]]], number: int) -> tuple[str, ...]:
    texts: tuple[str, ...] = ()
    while number > 0:
        number, last = parents[number]
        texts = (*last, *texts)
    return texts


def _value(operand: str, registers: Mapping[str, Value]) -> Value:
    """Returns the value of an operand; that of a label, or of a register of another path, is not used."""
    if operand.isdigit():
        return int(operand)
    return _NAMED.get(operand, registers.get(operand, operand))


def _calculated(operator: str, left: Value, right: Value) -> int:
    assert isinstance(left, int) and isinstance(right, int)
    return int(OPERATORS[operator](left, right)) & (2**64 - 1)


def _kept(registers: Mapping[str, Value], live: set[str]) -> Registers:
    return tuple(sorted((name, value) for name, value in registers.items() if name in live))


# Views


def _with(view: View, at: int, place: int) -> View:
    return (*view[:at], place, *view[at + 1 :])


def _joined(view: View, other: View) -> View:
    return tuple(map(max, view, other))


def _mapped(state: State, change: Callable[[View], View]) -> State:
    """Returns a state with each view changed."""
    threads, memory, (owner, released) = state
    return (
        tuple((frames, change(view), status) for frames, view, status in threads),
        tuple(
            tuple((value, None if sent is None else change(sent), is_tied) for value, sent, is_tied in writes)
            for writes in memory
        ),
        (owner, change(released)),
    )


def _replaced(state: State, thread: int, changed: Thread, lock: tuple[int, View] | None = None) -> State:
    """Returns a state with another thread, and another lock if there is one."""
    threads, memory, old = state
    return (*threads[:thread], changed, *threads[thread + 1 :]), memory, lock or old


def _written(
    state: State, thread: int, frames: tuple[Frame, ...], view: View, at: int, place: int, write: Write
) -> State:
    """Returns the state after a thread with this view has written to a word, at this place among its writes."""

    def shifted(view: View) -> View:
        return _with(view, at, view[at] + 1) if view[at] >= place else view

    threads, memory, lock = _mapped(state, shifted)
    writes, (value, sent, is_tied) = memory[at], write
    sent = None if sent is None else _with(shifted(sent), at, place)
    memory = (*memory[:at], (*writes[:place], (value, sent, is_tied), *writes[place:]), *memory[at + 1 :])
    return _replaced((threads, memory, lock), thread, (frames, _with(shifted(view), at, place), RUNNING))


def _compact(state: State) -> State:
    """Returns a state without the writes that no thread can read any longer; threads that have ended read nothing."""
    views = [view for frames, view, _ in state[0] if frames]
    first = tuple(map(min, *views)) if len(views) > 1 else views[0] if views else tuple(len(w) - 1 for w in state[1])
    threads = tuple(
        (frames, view if frames else first, status if frames else RUNNING) for frames, view, status in state[0]
    )
    if not any(first):
        return threads, *state[1:]

    def shifted(view: View) -> View:
        return tuple(max(place - start, 0) for place, start in zip(view, first, strict=True))

    memory = tuple(writes[start:] for writes, start in zip(state[1], first, strict=True))
    memory = tuple(((*writes[0][:2], False), *writes[1:]) for writes in memory)
    return _mapped((threads, memory, state[2]), shifted)
