"""Fast walks over ops, and copies of them: most have no regions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from xdsl.ir import Block, Operation, SSAValue


def operations(block: Block) -> Iterator[Operation]:
    """Yields the ops of a block in pre-order."""
    op = block.first_op
    while op is not None:
        yield op
        for region in op.regions:
            for inner in region.blocks:
                yield from operations(inner)
        op = op.next_op


def defined_values(op: Operation) -> list[SSAValue]:
    """Returns an op's results, and the arguments of its blocks."""
    return [*op.results, *(argument for region in op.regions for block in region.blocks for argument in block.args)]


def operands_behind(value: SSAValue) -> list[SSAValue]:
    """Returns the operands of the op that computes a value, and of those in its regions."""
    return [] if isinstance(value.owner, Block) else [x for op in value.owner.walk() for x in op.operands]


def reached(value: SSAValue, behind: Callable[[SSAValue], Iterable[SSAValue]] = operands_behind) -> Iterator[SSAValue]:
    """Yields a value, and those that it depends on by the values `behind` each, once however many ops share them."""
    seen, pending = set[SSAValue](), [value]
    while pending:
        current = pending.pop()
        if current not in seen:
            seen.add(current)
            yield current
            pending += behind(current)


def cloned(op: Operation, values: dict[SSAValue, SSAValue]) -> Operation:
    """Returns a copy of an op that reads `values` instead of its operands; adds the copy's results to them."""
    return op.clone(values) if op.regions else op.clone_without_regions(values)
