"""The derivatives of loops and branches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import Rewriter

from tensorgrad.dialects.tg.base import TensorOp
from tensorgrad.dialects.tg.build import TensorBuilder
from tensorgrad.dialects.tg.call import CallOp, ReturnOp, returned
from tensorgrad.dialects.tg.control import CondOp, RegionOp, ScanOp
from tensorgrad.dialects.tg.traits import is_rearrangement
from tensorgrad.passes.tensors.grad.registry import Cotangents
from tensorgrad.passes.tensors.moving import copied

Differentiate: TypeAlias = Callable[
    [Block, dict[SSAValue, SSAValue], Sequence[SSAValue], TensorBuilder], list[SSAValue | None]
]
Differentiated: TypeAlias = Callable[[Block, Sequence[SSAValue]], tuple[set[SSAValue], list[TensorOp | RegionOp]]]
Summed: TypeAlias = Callable[[Sequence[SSAValue], Cotangents, TensorBuilder], dict[SSAValue, SSAValue]]


@dataclass(frozen=True)
class Seeds:
    """The cotangents that an iteration of a scan's derivative begins with: arguments of its body.

    Attributes:
        carried: That of each carried value that has one, as the next iteration of the scan reads it, by its position.
        rows: The row of that of each stacked result, by the result's position.
        by_value: The cotangent of each value that the scan's body returns: the sum, if it returns the value repeatedly.
    """

    carried: Mapping[int, BlockArgument]
    rows: Mapping[int, BlockArgument]
    by_value: dict[SSAValue, SSAValue]


@dataclass(frozen=True)
class Carries:
    """What an iteration of a scan's derivative hands on besides the cotangents of the carried values.

    Attributes:
        sums: The argument with the sum of a constant's cotangents so far, by the constant's position.
        slices: The positions of the sequences that have a cotangent; the derivative stacks those of their slices.
    """

    sums: Mapping[int, BlockArgument]
    slices: Sequence[int]


class ScanDerivative:
    """Builds the derivative of a scan by its operands: a scan over the same positions in reverse order.

    It carries the cotangents of the carried values, and the sums of those of the constants. The differentiated scan
    gets further results: stacks of the values of its body that the derivative reads. Only these are saved; views of
    them, the slices of `xs` and the constants are not.

    Args:
        op: The scan.
        cotangents: The cotangents of its results.
        needed: The operands whose cotangents are needed.
        differentiate: Reverse mode over a block: `reverse.cotangents`.
        differentiated: The dependence analysis: `reverse.differentiated`.
        summed: `reverse.summed`.
    """

    def __init__(
        self,
        op: ScanOp,
        cotangents: Cotangents,
        needed: Sequence[bool],
        differentiate: Differentiate,
        differentiated: Differentiated,
        summed: Summed,
    ):
        self.op, self.cotangents, self.needed = op, cotangents, needed
        self.differentiate, self.differentiated, self.summed = differentiate, differentiated, summed
        self.body = op.body.block
        self.consts, self.carries, self.slices = op.arguments
        self.moving = self._moving()
        self.seeded = self._seeded()

    def _moving(self) -> set[SSAValue]:
        """Returns the body's arguments that depend on needed operands, also through values carried earlier."""
        moving: set[SSAValue] = {a for a, is_needed in zip(self.body.args, self.needed, strict=True) if is_needed}
        values = returned(self.body)
        while True:
            active, self.path = self.differentiated(self.body, [a for a in self.body.args if a in moving])
            added = {carry for carry, value in zip(self.carries, values, strict=False) if value in active} - moving
            self.active = active
            if not added:
                return moving
            moving |= added

    def _seeded(self) -> list[int]:
        """Returns the carried values that have a cotangent, also through those of later iterations."""
        count, values = len(self.carries), returned(self.body)
        stacks = [
            value
            for value, cotangent in zip(values[count:], self.cotangents[count:], strict=True)
            if cotangent is not None
        ]
        seeded = {i for i in range(count) if self.cotangents[i] is not None and self.carries[i] in self.moving}
        while True:
            needed: set[SSAValue] = {*stacks, *(values[i] for i in seeded)}
            for op in reversed(self.path):
                if any(result in needed for result in op.results):
                    needed.update(operand for operand in op.operands if operand in self.active)
            added = {i for i, carry in enumerate(self.carries) if carry in needed and carry in self.moving} - seeded
            if not added:
                return sorted(seeded)
            seeded |= added

    def emit(self, builder: TensorBuilder) -> Cotangents:
        """Adds the derivative; returns the cotangents of the operands."""
        back = Block()
        seeds = self._seeds(back)
        cotangents = self._body(back, seeds)
        carries = self._carries(back, cotangents)
        return self._by_operand(self._assembled(builder, back, seeds, carries), carries)

    def _seeds(self, back: Block) -> Seeds:
        """Adds an argument to the derivative's body for each cotangent that an iteration begins with."""
        values, count = returned(self.body), len(self.carries)
        carried = {i: self._argument(back, values[i]) for i in self.seeded}
        stacks = [i for i in range(count, len(values)) if self.cotangents[i] is not None and values[i] in self.active]
        rows = {i: self._argument(back, values[i]) for i in stacks}
        by_result = [{**carried, **rows}.get(i) for i in range(len(values))]
        return Seeds(carried, rows, self.summed(values, by_result, TensorBuilder(back, location=self.op.location)))

    def _body(self, back: Block, seeds: Seeds) -> dict[SSAValue, SSAValue | None]:
        """Adds the derivative of one iteration; returns the cotangents of the moving arguments of the scan's body.

        It still reads values of the scan's body, which `_fetch` passes to it.
        """
        arguments = [argument for argument in self.body.args if argument in self.moving]
        inner = TensorBuilder(back, location=self.op.location)
        cotangents = self.differentiate(self.body, seeds.by_value, arguments, inner)
        for op in list(back.ops):
            known = _same_composite(op, self.body.ops)
            if known is not None:
                for old, new in zip(op.results, known.results, strict=True):
                    old.replace_all_uses_with(new)
                Rewriter.erase_op(op)
        return dict(zip(arguments, cotangents, strict=True))

    def _carries(self, back: Block, cotangents: dict[SSAValue, SSAValue | None]) -> Carries:
        """Ends an iteration: adds to the sums of the constants' cotangents, and returns all that it hands on."""
        location, count = self.op.location, len(self.consts) + len(self.carries)
        tail = TensorBuilder(back, location=location)
        carried = [cotangents[self.carries[i]] or tail.full_like(self.carries[i], 0) for i in self.seeded]
        sums: dict[int, BlockArgument] = {}
        totals: list[SSAValue] = []
        for position, argument in enumerate(self.consts):
            piece = cotangents.get(argument)
            if self.needed[position] and piece is not None:
                sums[position] = self._argument(back, argument)
                totals.append(tail.add(sums[position], piece))
        sliced = [(i, cotangents.get(x)) for i, x in enumerate(self.slices) if self.needed[count + i]]
        pieces = {i: piece for i, piece in sliced if piece is not None}
        last = ReturnOp([*carried, *totals, *pieces.values()])
        last.location = location
        back.add_op(last)
        return Carries(sums, list(pieces))

    def _assembled(self, builder: TensorBuilder, back: Block, seeds: Seeds, carries: Carries) -> ScanOp:
        """Adds the scan of the finished body."""
        consts, xs = self._fetch(back)
        builder.location = self.op.location
        init = [self.cotangents[i] or builder.full_like(self.op.results[i], 0) for i in seeds.carried]
        init += [builder.full_like(self.consts[position], 0) for position in carries.sums]
        stacks = [(row, self.cotangents[i]) for i, row in seeds.rows.items()]
        over = [*((row, value) for row, value in stacks if value is not None), *xs]
        carried = [*seeds.carried.values(), *carries.sums.values()]
        _reorder(back, [argument for argument, _ in consts], carried, [argument for argument, _ in over])
        operands = [[value for _, value in pairs] for pairs in (consts, over)]
        scan = ScanOp.of(operands[0], init, operands[1], self.op.count, self.op.reverse is None, back)
        scan.location = self.op.location
        builder.insert(scan)
        return scan

    def _argument(self, block: Block, like: SSAValue) -> BlockArgument:
        return block.insert_arg(like.type, len(block.args), self.op.location)

    def _fetch(self, back: Block) -> tuple[list[tuple[BlockArgument, SSAValue]], list[tuple[BlockArgument, SSAValue]]]:
        """Passes the values of the body that the derivative reads to it as arguments: constants and sequences."""
        consts: list[tuple[BlockArgument, SSAValue]] = []
        xs: list[tuple[BlockArgument, SSAValue]] = []
        known: dict[SSAValue, SSAValue] = {}
        first = back.first_op

        def fetched(value: SSAValue) -> SSAValue:
            if value in known:
                return known[value]
            owner = value.owner
            if isinstance(owner, TensorOp) and (not owner.operands or is_rearrangement(owner)):
                clone = owner.clone({operand: fetched(operand) for operand in owner.operands})
                assert first is not None
                back.insert_op_before(clone, first)
                known[value] = clone.results[0]
                return known[value]
            argument = self._argument(back, value)
            if value in self.consts:
                consts.append((argument, self.op.consts[self.consts.index(value)]))
            elif value in self.slices:
                xs.append((argument, self.op.xs[self.slices.index(value)]))
            else:
                xs.append((argument, self.op.stack(value)))
            known[value] = argument
            return argument

        own: set[SSAValue] = {*back.args, *(result for op in back.ops for result in op.results)}
        for op in list(back.ops):
            op.operands = [operand if operand in own else fetched(operand) for operand in op.operands]
        return consts, xs

    def _by_operand(self, scan: ScanOp, carries: Carries) -> Cotangents:
        """Returns the cotangents of the operands of the differentiated scan from the results of its derivative."""
        by_operand: list[SSAValue | None] = [None] * len(self.op.operands)
        first, count = len(self.consts), len(self.carries)
        results = iter(scan.results)
        for i in self.seeded:
            result = next(results)
            by_operand[first + i] = result if self.needed[first + i] else None
        for position in carries.sums:
            by_operand[position] = next(results)
        for i in carries.slices:
            by_operand[first + count + i] = next(results)
        return by_operand


def _same_composite(op: Operation, forward: Iterable[Operation]) -> CallOp | None:
    """Returns a composite call of the forward pass that a derivative would repeat; its results are kept instead."""
    if not isinstance(op, CallOp) or op.composite is None:
        return None
    calls = (inner for inner in forward if isinstance(inner, CallOp) and inner.composite == op.composite)
    return next((call for call in calls if call.callee == op.callee and call.operands == op.operands), None)


def _reorder(block: Block, *groups: Sequence[BlockArgument]) -> None:
    """Reorders all arguments of a block."""
    arguments = [argument for group in groups for argument in group]
    old = list(block.args)
    assert len(old) == len(arguments)
    for argument in arguments:
        new = block.insert_arg(argument.type, len(block.args), argument.location)
        argument.replace_all_uses_with(new)
    for argument in old:
        block.erase_arg(argument)


def cond_derivative(
    builder: TensorBuilder,
    op: CondOp,
    cotangents_of_results: Cotangents,
    needed: Sequence[bool],
    differentiate: Differentiate,
    summed: Summed,
) -> Cotangents:
    """Returns the derivative of a cond: a cond of the branches' derivatives, each of which recomputes its branch.

    Values of the branch that ran are not kept: each would need a result that the other branch fills with zeros.
    """
    present = [cotangent for cotangent in cotangents_of_results if cotangent is not None]
    inputs = list(op.inputs)
    positions = [i for i in range(len(inputs)) if needed[i + 1]]
    blocks: list[Block] = []
    cotangents_of_branches: list[list[SSAValue | None]] = []
    for region in (op.then, op.otherwise):
        block = copied(region)
        inner = TensorBuilder(block, before=block.last_op, location=op.location)
        seeds = iter([block.insert_arg(value.type, len(block.args)) for value in present])
        pairs = [None if cotangent is None else next(seeds) for cotangent in cotangents_of_results]
        wrt = [block.args[i] for i in positions]
        cotangents_of_branches.append(differentiate(block, summed(returned(block), pairs, inner), wrt, inner))
        blocks.append(block)
    nonzero = [
        i
        for i, pieces in enumerate(zip(*cotangents_of_branches, strict=True))
        if any(piece is not None for piece in pieces)
    ]
    for block, pieces in zip(blocks, cotangents_of_branches, strict=True):
        last = block.last_op
        assert last is not None
        inner = TensorBuilder(block, before=last, location=op.location)
        results = [pieces[i] or inner.full_like(block.args[positions[i]], 0) for i in nonzero]
        end = ReturnOp(results)
        end.location = op.location
        block.insert_op_after(end, last)
        Rewriter.erase_op(last)
    result: list[SSAValue | None] = [None] * len(op.operands)
    if not nonzero:
        return result
    derivative = CondOp.of(op.predicate, [*inputs, *present], *blocks)
    derivative.location = op.location
    builder.insert(derivative)
    for i, value in zip(nonzero, derivative.results, strict=True):
        result[positions[i] + 1] = value
    return result
