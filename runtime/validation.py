"""Checks what a program's parts have to do with each other: names, indices, ranges, access and loops."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from tensorgrad.runtime.errors import ProgramError
from tensorgrad.runtime.files import check_shape
from tensorgrad.runtime.plan import (
    COLLECTIVES,
    COUNTS_BYTES,
    PERSISTENT_ROLES,
    TENSOR_BUFFERS,
    WIDENED,
    Binding,
    Buffer,
    Collective,
    Copy,
    Dispatch,
    Kernel,
    ProgramRole,
    Repeat,
    Step,
    TensorSlot,
    runs,
    touched,
)
from tensorgrad.runtime.requests import check_requests
from tensorgrad.runtime.shaders import check_shader

MOST_COMMANDS = 1 << 22
"""The most dispatches and copies in a step, as each is encoded anew in every step."""
MOST_LOOPS = 32
"""The most loops inside each other."""


def check_parts(
    kernels: Sequence[Kernel], buffers: Sequence[Buffer], tensors: Sequence[TensorSlot], plan: Sequence[Step]
) -> None:
    """Checks what the annotations of fields don't say.

    Raises:
        ProgramError: Something is malformed; says how.
    """
    _check_kernels(kernels)
    _check_buffers(buffers)
    _check_tensors(tensors, buffers)
    shaders = any(kernel.language == "wgsl" for kernel in kernels)
    if shaders:
        _check_stored(tensors)
    commands = _commands(plan)
    require(commands <= MOST_COMMANDS, f"a step runs {commands} dispatches and copies, at most {MOST_COMMANDS}")
    for position, (step, counts) in enumerate(runs(plan)):
        if isinstance(step, Dispatch):
            _check_dispatch(step, f"dispatch {position} ({step.label!r})", kernels, buffers, counts)
        elif isinstance(step, Collective):
            _check_collective(step, f"collective {position} ({step.label!r})", buffers)
        elif isinstance(step, Copy):
            _check_copy(step, f"copy {position}", buffers)
    _check_written(tensors, plan)
    check_requests(plan, is_native=not shaders)


def require(condition: bool, message: str) -> None:
    """Raises a `ProgramError` with `message` unless `condition` holds."""
    if not condition:
        raise ProgramError(message)


def _unique(names: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        require(name not in seen, f"two {what}s are named {name!r}")
        seen.add(name)


def _check_kernels(kernels: Sequence[Kernel]) -> None:
    _unique((kernel.entry for kernel in kernels if kernel.language == "llvm"), "kernel")
    for index, kernel in enumerate(kernels):
        where = f"kernel {index} ({kernel.entry!r})"
        require(kernel.language == kernels[0].language, f"{where}: a program's kernels are in one language")
        if kernel.language == "wgsl":
            check_shader(kernel.code, where)
        else:
            require(f"define void @{kernel.entry}(" in kernel.code, f"{where}: its code does not define it")


def _check_buffers(buffers: Sequence[Buffer]) -> None:
    _unique((buffer.name for buffer in buffers), "buffer")
    for buffer in buffers:
        where = f"buffer {buffer.name!r}"
        if buffer.role == ProgramRole.CONSTANT:
            require(buffer.data is not None, f"{where}: a constant has no data")
        else:
            require(buffer.data is None, f"{where}: only constants have data")
        size = len(buffer.data or b"")
        require(size <= buffer.size, f"{where}: {size} bytes of data in {buffer.size}")
    inputs = [buffer.name for buffer in buffers if buffer.role == ProgramRole.INPUT]
    require(len(inputs) <= 1, f"more than one input buffer: {', '.join(inputs)}")


def _check_tensors(tensors: Sequence[TensorSlot], buffers: Sequence[Buffer]) -> None:
    for slot in tensors:
        where = f"{slot.role} {slot.name!r}"
        stored = (None, WIDENED.get(slot.dtype))
        require(slot.stored in stored, f"{where}: {slot.dtype} is not stored as {slot.stored!r}")
        try:
            check_shape(where, slot.shape)
        except ValueError as error:
            raise ProgramError(str(error)) from None
        _check_range(where, slot.buffer, slot.offset, slot.size, buffers)
        role, needed = buffers[slot.buffer].role, TENSOR_BUFFERS[slot.role]
        require(role == needed, f"{where} lies in a buffer of role {role!r}, not {needed!r}")
        if slot.role == ProgramRole.SCALAR:
            require(slot.shape == (), f"{where}: a scalar of shape {slot.shape}")
        if slot.formula is not None:
            require(slot.role == ProgramRole.SCALAR, f"{where}: only scalars have a formula")
    _unique((slot.name for slot in tensors if slot.role in PERSISTENT_ROLES), "parameter or state tensor")
    for role in (ProgramRole.INPUT, ProgramRole.SCALAR, ProgramRole.OUTPUT):
        _unique((slot.name for slot in tensors if slot.role == role), role)
    _check_disjoint([slot for slot in tensors if slot.role != ProgramRole.OUTPUT and slot.size])


def _check_stored(tensors: Sequence[TensorSlot]) -> None:
    """Checks dtypes for shaders, which have no f64 and can't store integers narrower than a word."""
    for slot in tensors:
        where = f"{slot.role} {slot.name!r}"
        require(slot.dtype != "f64", f"{where}: f64 is for native code alone")
        wide = slot.dtype not in WIDENED or slot.stored is not None or slot.dtype == "bool"
        require(wide, f"{where}: shaders store no {slot.dtype}, but {WIDENED.get(slot.dtype)}")


def _check_disjoint(slots: Sequence[TensorSlot]) -> None:
    """Checks that tensors don't overlap. The caller excludes outputs, which may share one value."""
    ordered = sorted(slots, key=lambda slot: (slot.buffer, slot.offset))
    for first, second in itertools.pairwise(ordered):
        require(
            first.buffer != second.buffer or first.offset + first.size <= second.offset,
            f"{first.role} {first.name!r} and {second.role} {second.name!r} overlap",
        )


def _check_range(where: str, buffer: int, offset: int, size: int, buffers: Sequence[Buffer]) -> None:
    require(buffer < len(buffers), f"{where}: there is no buffer {buffer}")
    room, end = buffers[buffer].size, offset + size
    if end > room:
        raise ProgramError(f"{where}: bytes {offset} to {end} of buffer {buffers[buffer].name!r}, which has {room}")


def check_loops(steps: Sequence[Step], depth: int = 0) -> None:
    """Checks that a plan's loops have steps, and are not nested too deeply for recursive functions."""
    require(depth <= MOST_LOOPS, f"more than {MOST_LOOPS} loops are nested")
    for step in steps:
        if isinstance(step, Repeat):
            require(len(step.steps) > 0, "a loop has no steps")
            check_loops(step.steps, depth + 1)


def _commands(steps: Sequence[Step]) -> int:
    """Returns the number of dispatches and copies that run, over all loop iterations."""
    return sum(step.count * _commands(step.steps) if isinstance(step, Repeat) else 1 for step in steps)


def _check_dispatch(
    step: Dispatch, where: str, kernels: Sequence[Kernel], buffers: Sequence[Buffer], counts: tuple[int, ...]
) -> None:
    require(step.kernel < len(kernels), f"{where}: no kernel {step.kernel}")
    for index, binding in enumerate(step.bindings):
        location, buffer, moved = f"{where}, binding {index}", binding.buffer, 0
        if strides := binding.strides:
            require(len(strides) == len(counts), f"{location} moves in {len(strides)} of {len(counts)} loops")
            require(binding.access == "read", f"{location} moves and is written")
            moved = sum(stride * (count - 1) for stride, count in zip(strides, counts, strict=True))
        _check_range(location, buffer, binding.offset, binding.size + moved, buffers)
        if buffers[buffer].role == ProgramRole.CONSTANT and binding.access != "read":
            raise ProgramError(f"{location} writes constant {buffers[buffer].name!r}")
    _check_aliasing(step.bindings, where, buffers)
    if step.indirect is not None:
        buffer, offset = step.indirect
        _check_range(f"{where}, numbers of workgroups", buffer, offset, COUNTS_BYTES, buffers)
        require(
            all(binding.buffer != buffer for binding in step.bindings), f"{where} binds its own numbers of workgroups"
        )


def _check_aliasing(bindings: Sequence[Binding], where: str, buffers: Sequence[Buffer]) -> None:
    """Checks that a dispatch uses each buffer with one access, as devices track it, and writes disjoint ranges."""
    ordered = sorted(bindings, key=lambda binding: (binding.buffer, binding.offset))
    for first, second in itertools.pairwise(ordered):
        if first.buffer != second.buffer:
            continue
        name = buffers[first.buffer].name
        require(first.access == second.access, f"{where}: buffer {name!r} is bound both 'read' and 'read_write'")
        require(
            first.access == "read" or first.offset + first.size <= second.offset,
            f"{where}: two writable bindings of buffer {name!r} overlap",
        )


def _check_copy(step: Copy, where: str, buffers: Sequence[Buffer]) -> None:
    _check_range(f"{where}, source", step.source, step.source_offset, step.size, buffers)
    _check_range(f"{where}, destination", step.destination, step.destination_offset, step.size, buffers)
    require(step.source != step.destination, f"{where}: within buffer {buffers[step.source].name!r}")
    require(buffers[step.destination].role != ProgramRole.CONSTANT, f"{where} writes a constant")


def _check_collective(step: Collective, where: str, buffers: Sequence[Buffer]) -> None:
    require(step.root < step.size, f"{where}: rank {step.root} of {step.size}")
    require(len(step.parts) > 0, f"{where} is empty")
    inputs, outputs = COLLECTIVES[step.kind]
    for buffer, offset, size in (*step.reads, *step.writes):
        _check_range(where, buffer, offset, size, buffers)
    for part in step.parts:
        equal = part.count * (step.size if inputs else 1) == part.result_count * (step.size if outputs else 1)
        require(equal, f"{where}: {part.count} elements become {part.result_count} in a group of {step.size}")
        require(buffers[part.destination].role != ProgramRole.CONSTANT, f"{where} writes a constant")


def _check_written(tensors: Sequence[TensorSlot], plan: Sequence[Step]) -> None:
    """Checks that something writes each output, which would stay zero; what passes through is copied."""
    written: dict[int, list[tuple[int, int]]] = {slot.buffer: [] for slot in tensors if slot.role == ProgramRole.OUTPUT}
    for step, counts in runs(plan):
        for buffer, start, size, is_written in touched(step, counts):
            if is_written and buffer in written:
                written[buffer].append((start, start + size))
    for slot in tensors:
        if slot.role == ProgramRole.OUTPUT and slot.size:
            is_written = any(
                start < slot.offset + slot.size and slot.offset < end for start, end in written[slot.buffer]
            )
            require(is_written, f"no step of the plan writes output {slot.name!r}")
