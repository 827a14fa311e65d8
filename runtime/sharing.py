"""Determines the buffers that a program can share with another one on the same device."""

from __future__ import annotations

from tensorgrad.runtime.errors import ProgramError
from tensorgrad.runtime.program import PERSISTENT_ROLES, Program, ProgramRole, TensorSlot

TEMPORARY_ROLES, PACKED = (ProgramRole.INPUT, ProgramRole.WORKSPACE), "packed"
"""The roles of buffers that a step fills before it reads them, except the packed one, whose gaps must stay zero."""


def persistent_in(program: Program, other: Program) -> dict[int, int]:
    """Returns the other program's buffers of parameters and state for each of ours, by index.

    The other may have more state, such as an optimizer's, in buffers of its own.

    Raises:
        ProgramError: Their layout differs from ours.
    """
    others = {buffer.name: i for i, buffer in enumerate(other.buffers) if buffer.role in PERSISTENT_ROLES}
    results: dict[int, int] = {}
    for index, buffer in enumerate(program.buffers):
        if buffer.role not in PERSISTENT_ROLES:
            continue
        size = other.buffers[others[buffer.name]].size if buffer.name in others else None
        if size != buffer.size:
            has = f"has {size}" if size is not None else "lacks it"
            raise ProgramError(
                f"{buffer.role} buffer {buffer.name!r} has {buffer.size} bytes, the shared program {has}"
            )
        results[index] = others[buffer.name]
    for role in PERSISTENT_ROLES:
        theirs = other.slots(role)
        for name, slot in program.slots(role).items():
            if _place(program, slot) != (_place(other, theirs[name]) if name in theirs else None):
                raise ProgramError(f"{role} {name!r} is at a different place than in the shared program")
    return results


def temporary_in(program: Program, other: Program) -> dict[int, int]:
    """Returns the other program's input and temporary buffers that are large enough for ours, by index."""
    theirs = {
        (buffer.name, buffer.role): i
        for i, buffer in enumerate(other.buffers)
        if buffer.role in TEMPORARY_ROLES and not buffer.name.startswith(PACKED)
    }
    places = {index: theirs.get((buffer.name, buffer.role)) for index, buffer in enumerate(program.buffers)}
    return {
        index: place
        for index, place in places.items()
        if place is not None and other.buffers[place].size >= program.buffers[index].size
    }


def _place(program: Program, slot: TensorSlot) -> tuple[object, ...]:
    return program.buffers[slot.buffer].name, slot.offset, slot.shape, slot.dtype
