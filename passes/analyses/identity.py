"""Equality of kernels."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from io import StringIO
from typing import TypeVar

from xdsl.ir import Block, SSAValue
from xdsl.printer import Printer

from tensorgrad.dialects.buf import KernelOp

T = TypeVar("T")


def kernel_text(kernel: KernelOp) -> str:
    """Returns a kernel's body and grid as text, independent of its buffers: equal texts mean equal kernels."""
    stream = StringIO()
    stream.write(str(kernel.extents))
    Printer(stream=stream).print_region(kernel.body)
    return stream.getvalue()


def kernel_key(kernel: KernelOp) -> str:
    """Returns a short key shared by all kernels with the same text."""
    return hashlib.sha256(kernel_text(kernel).encode()).hexdigest()[:32]


def kernel_structure(kernel: KernelOp) -> tuple[object, ...]:
    """Returns a kernel's body, grid and recipe, independent of its buffers: equal structures mean equal kernels."""
    recipe = () if kernel.recipe is None else (kernel.recipe,)
    return (kernel.extents, *recipe, *block_structure(kernel.body.block, {}))


def by_structure(function: Callable[[KernelOp], T]) -> Callable[[KernelOp], T]:
    """Returns a function of kernels that is computed once for kernels of equal structure, such as those of all layers.

    Args:
        function: It depends on nothing but the structure.
    """
    known: dict[object, tuple[T]] = {}

    def computed_once(kernel: KernelOp) -> T:
        structure = kernel_structure(kernel)
        found = known.get(structure)
        if found is None:
            found = known[structure] = (function(kernel),)
        return found[0]

    return computed_once


def block_structure(block: Block, numbers: dict[SSAValue, int]) -> Iterator[object]:
    """Yields what a block computes; values from outside are known by their `numbers`, and its own receive numbers."""
    for argument in block.args:
        numbers[argument] = len(numbers)
        yield argument.type
    for op in block.ops:
        properties = (*op.properties.items(), *op.attributes.items())
        yield op.name, tuple(numbers[operand] for operand in op.operands), properties
        for region in op.regions:
            for inner in region.blocks:
                yield tuple(block_structure(inner, numbers))
        for result in op.results:
            numbers[result] = len(numbers)
            yield result.type


def teams_of(kernels: Sequence[KernelOp]) -> list[list[KernelOp]]:
    """Groups kernels that are equal but for their buffers, and have equal schedules."""
    teams: dict[object, list[KernelOp]] = {}
    for kernel in kernels:
        key: object = kernel
        if len(kernels) > 1 and kernel.single is None:
            key = (kernel_structure(kernel), kernel.schedule)
        teams.setdefault(key, []).append(kernel)
    return list(teams.values())
