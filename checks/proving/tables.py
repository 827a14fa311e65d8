"""Tables of integers in a kernel's own memory: what they hold, and which of their elements have been stored.

Native kernels look indices of loops and places of windows up in such tables, which loops fill in front of those that
read them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects import memref, scf
from xdsl.ir import BlockArgument, Operation, SSAValue

from tensorgrad.checks.proving.symbols import Symbols
from tensorgrad.checks.proving.terms import Linear, number, of_atom


@dataclass(frozen=True)
class Stored:
    """The elements of a table, from the first on, that are stored whenever it is read.

    Attributes:
        count: How many they are.
        is_all: Whether no store may have stored others.
    """

    count: Linear
    is_all: bool


def stored_before(symbols: Symbols, load: memref.LoadOp) -> Stored | None:
    """Returns the elements of a table that are stored whenever it is read; `None` if none surely are.

    Those are of a loop that goes through them, and of single stores behind these, such as the remainder of the loop.

    Args:
        symbols: What the kernel's integers are.
        load: What reads the table.
    """
    stores = stores_of(load.memref)
    counts = [count for store in stores if (count := _stored_by(symbols, store, load)) is not None]
    singles = [symbols.value(store.indices[0]) for store in stores if _runs_before(store, load)]
    stored = first = counts[-1] if counts else number(0)
    behind = list[Linear]()
    while stored in singles:
        behind.append(stored)
        stored = stored.plus(number(1))
    is_all = len(counts) + len(singles) == len(stores) and set(counts) <= {first} and set(singles) <= set(behind)
    return None if stored.number == 0 else Stored(stored, is_all)


def _runs_before(op: Operation, reader: Operation) -> bool:
    """Returns whether an op runs before each time that a reader does: it is in front of it, or of what it is in."""
    around = next((other for other in _with_parents(reader) if other.parent_block() is op.parent_block()), None)
    return around is not None and op.is_before_in_block(around)


def stores_of(memory: SSAValue) -> list[memref.StoreOp]:
    """Returns what stores to a memory."""
    return [use.operation for use in memory.uses if isinstance(use.operation, memref.StoreOp) and use.index == 1]


def _stored_by(symbols: Symbols, store: memref.StoreOp, load: memref.LoadOp) -> Linear | None:
    """Returns how many elements a store in loops has stored before a load, if these go through them in order."""
    readers, loops, op = {reader.parent_block(): reader for reader in _with_parents(load)}, list[scf.ForOp](), store
    for op in _with_parents(store):
        if op.parent_block() in readers:
            break
        parent = op.parent_op()
        if not isinstance(parent, scf.ForOp):
            return None
        loops.insert(0, parent)
    if not loops or not op.is_before_in_block(readers[op.parent_block()]):
        return None
    place = store.indices[0]
    if isinstance(place, BlockArgument) and place.index and place.owner is loops[-1].body.block:
        return _kept(symbols, loops, place)
    return _counted(symbols, loops, symbols.value(place))


def _counted(symbols: Symbols, loops: list[scf.ForOp], place: Linear) -> Linear | None:
    """Returns the number of iterations of nested loops, if a place is their number in order."""
    total, expected = number(1), number(0)
    for loop in reversed(loops):
        each, turn = total.number, symbols.turn(loop)
        if each is None or (symbols.value(loop.lb).number, symbols.value(loop.step).number) != (0, 1):
            return None
        stop = symbols.value(loop.ub)
        if turn is None and stop.number != 1:
            return None
        expected = expected if turn is None else expected.plus(of_atom(turn), each)
        total = stop.times(each)
    return total if place == expected else None


def _kept(symbols: Symbols, loops: list[scf.ForOp], place: BlockArgument) -> Linear | None:
    """Returns the number that a loop has carried when it ends, if it begins with 0 and is what elements are stored at.

    An iteration adds at most 1, so each smaller number is the place of a store.
    """
    (*outer, loop), index = loops, place.index - 1
    if outer or symbols.value(loop.iter_args[index]).number != 0 or not symbols.counts(loop, index):
        return None
    return symbols.value(loop.results[index])


def _with_parents(op: Operation) -> Iterator[Operation]:
    """Yields an op and those around it, from the inside out."""
    parent: Operation | None = op
    while parent is not None:
        yield parent
        parent = parent.parent_op()
