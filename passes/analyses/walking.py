"""Fast walks over ops: most have no regions."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, Operation


def operations(block: Block) -> Iterator[Operation]:
    """Yields the ops of a block in pre-order."""
    op = block.first_op
    while op is not None:
        yield op
        for region in op.regions:
            for inner in region.blocks:
                yield from operations(inner)
        op = op.next_op
