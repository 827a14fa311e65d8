"""The pass `bucket-collectives`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeGuard, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.tg.base import numpy_dtype, size_of
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.dialects.tg.collective import AllReduceOp, CollectiveOp
from tensorgrad.dialects.tg.control import CondOp, ScanOp
from tensorgrad.dialects.tg.shape import PACK_ALIGNMENT, PackOp, SliceOp
from tensorgrad.dialects.tg.traits import is_elementwise, is_leaf, is_view
from tensorgrad.passes.analyses.blocks import rounded_up
from tensorgrad.passes.analyses.machine import bucket_bytes
from tensorgrad.passes.functions import block_of, return_of
from tensorgrad.passes.levels import TENSORS, LevelPass

SMALL = 8
"""A sum whose result is packed again joins a bucket, which costs a copy, only if it takes at most 1/8 of the bucket."""


@dataclass(frozen=True)
class BucketCollectivesPass(LevelPass):
    """Groups sums over the processes into buckets: rows of several tensors, each sent as one message without a copy.

    Expects a function of `tg`, such as `distribute` returns. Guarantees the same results, bit for bit, and that each
    `tg.all_reduce` of a sum takes at most `bucket_bytes` (plus padding), unless it is of a single tensor. Small sums
    that do not depend on each other are packed into a row (`tg.pack`). A row of many tensors, such as all gradients
    whose norm is taken, is split into runs of its tensors, each with its own all-reduce. So the gradients of a model's
    last layers are exchanged while those of its first layers are still computed.

    Ops are reordered in rounds: first the ops that depend on no collective, then all collectives that they enable, in
    the order in which their operands become ready, then the ops that depend on no other collectives, and so on.

    A function with loops or branches is left unchanged, since its kernels have no rows.

    Attributes:
        bucket_bytes: The bytes of a bucket. The default grows with the group, see `analyses.machine.bucket_bytes`.
        function: The function; may be omitted if there is only one.
    """

    name = "bucket-collectives"
    levels = TENSORS

    bucket_bytes: int | None = None
    function: str | None = None

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        if self.bucket_bytes is not None and self.bucket_bytes < 1:
            raise DiagnosticException(f"{self.name}: bucket-bytes must be at least 1, got {self.bucket_bytes}")
        function = find_function(op, self.function)
        ops = list(block_of(function).ops)
        if any(isinstance(inner, ScanOp | CondOp) for inner in function.walk()):
            return
        size = max((collective.size for collective in ops if isinstance(collective, CollectiveOp)), default=0)
        limit = self.bucket_bytes or bucket_bytes(size)
        for member in ops:
            if _is_sum(member):
                _split_row(member, limit)
        if size:
            _Rounds(function, limit).run()


def _is_sum(op: Operation) -> TypeGuard[AllReduceOp]:
    return isinstance(op, AllReduceOp) and op.reduction.data == "sum"


def _width(value: SSAValue) -> int:
    """Returns the bytes of an element."""
    return numpy_dtype(element_of(value)).itemsize


def _bytes(value: SSAValue) -> int:
    return size_of(shape_of(value)) * _width(value)


def _aligned(value: SSAValue) -> int:
    """Returns the number of elements that a tensor takes in a row, padding included."""
    unit = PACK_ALIGNMENT // _width(value)
    return rounded_up(size_of(shape_of(value)), unit)


# Rows


def _split_row(op: AllReduceOp, limit: int) -> None:
    """Splits the all-reduce of a row that is larger than a bucket into all-reduces of runs of its tensors."""
    row = op.operand.owner
    if not isinstance(row, PackOp) or _bytes(op.operand) <= limit:
        return
    starts = {0} | {slice_.start.get_values()[0] for slice_ in _slices(op)}
    runs: list[list[tuple[SSAValue, int]]] = []
    size = 0
    for part, offset in zip(row.parts, row.offsets.get_values(), strict=True):
        if not runs or offset in starts or size + _bytes(part) > limit:
            runs.append([])
            size = 0
        runs[-1].append((part, offset))
        size += _bytes(part)
    if len(runs) == 1:
        return
    builder = TensorBuilder(cast(Block, op.parent), before=op, location=op.location)
    sums = [builder.all_reduce(_run(builder, run), op.size) for run in runs]
    whole = builder.pack(sums, [run[0][1] for run in runs], row.shape[0])
    _replace(op, whole)


def _replace(op: CollectiveOp, value: SSAValue) -> None:
    """Replaces a collective with a value, and erases it; its row is erased too if that has no other use."""
    op.result.replace_all_uses_with(value)
    value.name_hint = value.name_hint or op.result.name_hint
    row = op.operand.owner
    Rewriter.erase_op(op)
    if isinstance(row, PackOp) and not row.result.uses:
        Rewriter.erase_op(row)


def _slices(op: AllReduceOp) -> list[SliceOp]:
    return [use.operation for use in op.result.uses if isinstance(use.operation, SliceOp)]


def _run(builder: TensorBuilder, run: Sequence[tuple[SSAValue, int]]) -> SSAValue:
    """Packs adjacent tensors of a row into a row of their own; a single tensor is returned unchanged."""
    (first, start), (last, end) = run[0], run[-1]
    if len(run) == 1:
        return first
    size = end - start + size_of(shape_of(last))
    return builder.pack([part for part, _ in run], [offset - start for _, offset in run], size)


# Rounds


class _Rounds:
    """The ops of a function by rounds, each of which ends with its collectives, in buckets."""

    def __init__(self, function: FuncOp, limit: int):
        self.block, self.last = block_of(function), return_of(function)
        self.limit = limit
        self.rounds: list[tuple[list[Operation], list[CollectiveOp]]] = []
        self.ready: dict[Operation, int] = {}
        number: dict[Operation, int] = {}
        for place, op in enumerate(self.block.ops):
            producers = [owner for owner in (value.owner for value in op.operands) if isinstance(owner, Operation)]
            number[op] = max(
                (number[producer] + isinstance(producer, CollectiveOp) for producer in producers), default=0
            )
            # Elementwise ops, views and packs fuse into their operands' kernels: they, and collectives, are ready then.
            is_along = is_elementwise(op) or is_view(op) or is_leaf(op) or isinstance(op, CollectiveOp | PackOp)
            self.ready[op] = max((self.ready[producer] for producer in producers), default=0) if is_along else place
            if op is self.last:
                continue
            while len(self.rounds) <= number[op]:
                self.rounds.append(([], []))
            others, collectives = self.rounds[number[op]]
            if isinstance(op, CollectiveOp):
                collectives.append(op)
            else:
                others.append(op)

    def run(self) -> None:
        """Reorders the ops, and packs each bucket."""
        for others, collectives in self.rounds:
            for op in others:
                self._append(op)
            collectives.sort(key=self.ready.__getitem__)
            apart = [op for op in collectives if not self._may_share(op)]
            buckets = [[op] for op in apart] + self._buckets([op for op in collectives if op not in apart])
            for bucket in sorted(buckets, key=lambda ops: max(self.ready[op] for op in ops)):
                if len(bucket) == 1:
                    self._append(bucket[0])
                else:
                    self._exchange(bucket)

    def _append(self, op: Operation) -> None:
        op.detach()
        self.block.insert_op_before(op, self.last)

    def _may_share(self, op: CollectiveOp) -> bool:
        """Returns whether a collective may join a bucket; if its result is packed again, that takes a copy."""
        is_moved = any(isinstance(use.operation, PackOp) for use in op.result.uses)
        return _is_sum(op) and (not is_moved or _bytes(op.operand) <= self.limit // SMALL)

    def _buckets(self, sums: Sequence[CollectiveOp]) -> list[list[CollectiveOp]]:
        """Divides sums, given in the order in which they become ready, into buckets."""
        results: list[list[CollectiveOp]] = []
        open_by_kind: dict[tuple[Attribute, int], list[CollectiveOp]] = {}
        for op in sums:
            kind = element_of(op.operand), op.size
            bucket = open_by_kind.get(kind)
            if bucket is None or sum(_bytes(member.operand) for member in [*bucket, op]) > self.limit:
                bucket = open_by_kind[kind] = []
                results.append(bucket)
            bucket.append(op)
        return results

    def _exchange(self, bucket: Sequence[CollectiveOp]) -> None:
        """Replaces the collectives of a bucket with one all-reduce of a row."""
        builder = TensorBuilder(self.block, before=self.last, location=bucket[0].location)
        starts = list(accumulate((_aligned(op.operand) for op in bucket), initial=0))
        parts: list[SSAValue] = []
        offsets: list[int] = []
        for op, start in zip(bucket, starts, strict=False):
            row = op.operand.owner
            if isinstance(row, PackOp):
                parts += row.parts
                offsets += [start + offset for offset in row.offsets.get_values()]
            else:
                parts.append(op.operand)
                offsets.append(start)
        row = builder.pack(parts, offsets, starts[-1])
        total = builder.all_reduce(row, bucket[0].size)
        for op, start in zip(bucket, starts, strict=False):
            builder.location = op.location
            _replace(op, builder.part(total, start, shape_of(op.operand)))
