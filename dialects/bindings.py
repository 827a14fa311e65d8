"""The bytes of buffers on a device, and what dispatches bind to kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias, cast

from xdsl.dialects.builtin import MemRefType, ModuleOp, VectorType, i8
from xdsl.ir import Attribute, IRNode, Operation, SSAValue
from xdsl.traits import SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

Buffer: TypeAlias = MemRefType[Attribute]


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """Returns the static shape of a memref value."""
    return cast(Buffer, value.type).get_shape()


def element_of(value: SSAValue) -> Attribute:
    """Returns the element type of a memref value."""
    return cast(Buffer, value.type).get_element_type()


def element_bytes(element: Attribute) -> int:
    """Returns the bytes of an element on a device; an `i1` is one 32-bit word."""
    if element == i8:
        return 1
    if isinstance(element, VectorType):
        vector = cast("VectorType[Attribute]", element)
        return vector.element_count() * element_bytes(vector.get_element_type())
    width = getattr(element, "bitwidth", None)
    if width is None:
        raise VerifyException(f"{element} has no width in memory")
    return 4 if width == 1 else cast(int, width) // 8


def buffer_bytes(kind: Buffer) -> int:
    """Returns the bytes of a memref on a device."""
    return kind.element_count() * element_bytes(kind.get_element_type())


def verify_bindings(module: IRNode, dispatches: Iterable[tuple[str, Sequence[Attribute]]]) -> None:
    """Checks dispatches, each a kernel's name and the types of what it binds, against a module's kernels.

    A kernel's buffers are flat, and their elements may be vectors, or words that hold short integers. Functions of LLVM
    take addresses, and IR that is in no module has no kernels: these are not looked at.

    Raises:
        VerifyException: One names no kernel, or binds other buffers than it takes.
    """
    if not isinstance(module, ModuleOp):
        return
    kernels = _symbols(module)
    for name, bound in dispatches:
        if name not in kernels:
            raise VerifyException(f"there is no kernel @{name}")
        if kernels[name].name not in ("wgsl.kernel", "cpu.kernel"):
            continue
        arguments = kernels[name].regions[0].block.arg_types
        taken = [cast(Buffer, kind) for kind in arguments if isinstance(kind, MemRefType)]
        if len(bound) != len(taken):
            raise VerifyException(f"dispatch of @{name}: it takes {len(taken)} bindings, got {len(bound)}")
        for number, (binding, buffer) in enumerate(zip(bound, taken, strict=True)):
            if buffer_bytes(cast(Buffer, binding)) != buffer_bytes(buffer):
                raise VerifyException(f"dispatch of @{name}: binding {number} is a {buffer}, got a {binding}")


def _symbols(module: ModuleOp) -> dict[str, Operation]:
    symbols: dict[str, Operation] = {}
    for op in module.body.block.ops:
        trait = op.get_trait(SymbolOpInterface)
        name = None if trait is None else trait.get_sym_attr_name(op)
        if name is not None:
            symbols[name.data] = op
    return symbols
