"""Interchanges a parallel loop with a nested fold whose bounds are loop-invariant.

LLVM vectorizes innermost loops only, and a fold whose trip count is read from memory can't be unrolled. With the loops
interchanged, each term of the fold is a parallel loop over an array of accumulators, without a branch:

```
for c, parallel:                              for c, parallel: sums[c] = 0
  s = for t = low to high: s + x[t, c]   =>   for t = low to high:
  y[c] = f(s)                                   for c, parallel: sums[c] += x[t, c]
                                              for c, parallel: y[c] = f(sums[c])
```

Rows of an embedding's gradient that no token selects thus become zeros written by vector stores. The terms of each
element are added in the same order as before, long sums in blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects import memref, scf
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from tensorgrad.dialects.cpu import PARALLEL
from tensorgrad.passes.analyses.trips import most_trips
from tensorgrad.passes.analyses.walking import cloned, operations
from tensorgrad.passes.codegen.common.block_builder import BlockBuilder
from tensorgrad.passes.codegen.common.blocked_sums import Accumulators, block_widths, fold_in_blocks, terms_of
from tensorgrad.passes.codegen.common.hoisting import stands_in
from tensorgrad.passes.codegen.llvm.scratch import new_array
from tensorgrad.passes.scalars import Value, constant_integer
from tensorgrad.passes.tensors.simplify import is_pure

Values: TypeAlias = dict[SSAValue, SSAValue]
"""Maps values of a loop's body to those in a copy of its ops."""

LEAST_EXTENT, MOST_EXTENT = 8, 1 << 14
"""Shorter loops don't fill a vector; the accumulators of longer ones don't fit the L1 cache."""


def interchange_folds(top: Block) -> None:
    """Interchanges all such loops of a kernel's block. Expects invariants in front of their loops."""
    loops = [op for op in operations(top) if type(op) is scf.ForOp]
    written = _written(top) if loops else set[SSAValue]()
    for loop in loops:
        interchange = _Interchange.of(loop, written)
        if interchange is not None:
            interchange.write(top)


def _written(top: Block) -> set[SSAValue]:
    """Returns the memory that a block's ops store to."""
    return {op.memref for op in operations(top) if type(op) is memref.StoreOp}


@dataclass(frozen=True)
class _Interchange:
    """A loop to interchange.

    Attributes:
        loop: The parallel loop, from 0 to a constant.
        fold: The nested loop.
        extent: The trip count of the parallel loop.
        invariant: Invariant ops of the parallel loop's body, loads included.
        before: The other ops before the fold.
        after: The ops after the fold.
    """

    loop: scf.ForOp
    fold: scf.ForOp
    extent: int
    invariant: Sequence[Operation]
    before: Sequence[Operation]
    after: Sequence[Operation]

    @staticmethod
    def of(loop: scf.ForOp, written: set[SSAValue]) -> _Interchange | None:
        """Returns the interchange of a loop; `None` if it isn't possible."""
        if PARALLEL not in loop.attributes or loop.iter_args:
            return None
        ops = list(loop.body.block.ops)
        folds = [op for op in ops if isinstance(op, scf.ForOp)]
        low, extent = constant_integer(loop.lb), constant_integer(loop.ub)
        if len(folds) != 1 or low != 0 or extent is None or not LEAST_EXTENT <= extent <= MOST_EXTENT:
            return None
        (fold,) = folds
        place = ops.index(fold)
        before, after = ops[:place], ops[place + 1 : -1]
        if not fold.iter_args or any(op.regions or not _is_repeatable(op, written) for op in before):
            return None
        if any(op.regions or isinstance(op, memref.StoreOp) for op in fold.body.block.ops):
            return None
        invariant = _invariant(before, loop.body.block)
        known = {result for op in invariant for result in op.results}
        if any(stands_in(value, loop.body.block) and value not in known for value in (fold.lb, fold.ub, fold.step)):
            return None
        rest = [op for op in before if op not in invariant]
        return _Interchange(loop, fold, extent, invariant, rest, after)

    def write(self, top: Block) -> None:
        """Replaces the loop."""
        around = self.loop.parent
        assert around is not None
        for op in self.invariant:
            op.detach()
            around.insert_op_before(op, self.loop)
        sums = [new_array(top, value.type, self.extent) for value in self.fold.iter_args]
        initial = self._each(lambda block, at: self._start(block, at, sums))
        folds = self._folds(top, sums)
        final = self._each(lambda block, at: self._finish(block, at, sums))
        for op in (initial, *folds, final):
            op.location = self.loop.location
            around.insert_op_before(op, self.loop)
        Rewriter.erase_op(self.loop)

    def _folds(self, top: Block, sums: Sequence[SSAValue]) -> list[Operation]:
        """Returns ops that fold all terms into the accumulators.

        The first block of a long sum is added to them directly, as few sums have another one.
        """
        block_of_folds = Block()
        code = BlockBuilder(block_of_folds)

        def fold(low: Value, high: Value, into: Sequence[SSAValue]) -> None:
            terms = Block(arg_types=[self.fold.body.block.args[0].type])
            terms.add_ops([self._each(lambda block, at: self._fold(block, at, terms.args[0], into)), scf.YieldOp()])
            code.append(scf.ForOp(low.ssa, high.ssa, self.fold.step, [], terms))

        low, high = code.values((self.fold.lb, self.fold.ub))
        trips, is_sum = most_trips(self.fold), all(terms_of(self.fold, i) for i in range(len(sums)))
        widths = block_widths(trips) if is_sum and constant_integer(self.fold.step) == 1 else ()
        if not widths:
            fold(low, high, sums)
        else:
            first = low + (high - low).at_most(widths[0])
            memory = Accumulators(
                lambda: [new_array(top, value.type, self.extent) for value in self.fold.iter_args],
                lambda part: code.append(self._each(lambda block, at: self._clear(block, at, part))),
                lambda into, part: code.append(self._each(lambda block, at: self._merge(block, at, into, part))),
            )
            fold(low, first, sums)
            fold_in_blocks(code, first, high, widths, memory, sums, fold)
        ops = list(block_of_folds.ops)
        for op in ops:
            op.detach()
        return ops

    def _clear(self, block: Block, at: SSAValue, part: Sequence[SSAValue]) -> None:
        """Sets the accumulators of a block of a sum to zero."""
        code = BlockBuilder(block)
        for array, value in zip(part, self.fold.iter_args, strict=True):
            code.put(code.constant(0.0, value.type), array, code.value(at))

    def _merge(self, block: Block, at: SSAValue, into: Sequence[SSAValue], part: Sequence[SSAValue]) -> None:
        """Adds the sums of a block to the accumulators."""
        code = BlockBuilder(block)
        for array, other in zip(into, part, strict=True):
            code.put(code.element(array, code.value(at)) + code.element(other, code.value(at)), array, code.value(at))

    def _each(self, body: Callable[[Block, SSAValue], None]) -> scf.ForOp:
        """Returns a parallel loop over the same iterations."""
        block = Block(arg_types=[self.loop.body.block.args[0].type])
        body(block, block.args[0])
        block.add_op(scf.YieldOp())
        for_op = scf.ForOp(self.loop.lb, self.loop.ub, self.loop.step, [], block)
        for_op.attributes |= self.loop.attributes
        return for_op

    def _copied(
        self, block: Block, at: SSAValue, ops: Sequence[Operation], results: Sequence[SSAValue], env: Values
    ) -> Values:
        """Copies those ops of an iteration that `results` values, or ops without results, depend on."""
        env = {**env, self.loop.body.block.args[0]: at}
        needed, chosen = {*results}, list[Operation]()
        for op in reversed([*self.before, *ops]):
            if not op.results or needed.intersection(op.results):
                needed.update(operand for inner in op.walk() for operand in inner.operands)
                chosen.append(op)
        for op in reversed(chosen):
            block.add_op(cloned(op, env))
        return env

    def _start(self, block: Block, at: SSAValue, sums: Sequence[SSAValue]) -> None:
        """Initializes the accumulators."""
        env = self._copied(block, at, [], self.fold.iter_args, {})
        self._store(block, at, [env.get(value, value) for value in self.fold.iter_args], sums)

    def _fold(self, block: Block, at: SSAValue, term: SSAValue, sums: Sequence[SSAValue]) -> None:
        """Writes one term of the fold."""
        index, *carried = self.fold.body.block.args
        *ops, last = self.fold.body.block.ops
        loaded: Values = dict(zip(carried, self._loaded(block, at, sums), strict=True))
        env = self._copied(block, at, ops, last.operands, {**loaded, index: term})
        self._store(block, at, [env.get(value, value) for value in last.operands], sums)

    def _finish(self, block: Block, at: SSAValue, sums: Sequence[SSAValue]) -> None:
        """Writes the ops after the fold."""
        env: Values = dict(zip(self.fold.results, self._loaded(block, at, sums), strict=True))
        self._copied(block, at, self.after, [], env)

    @staticmethod
    def _loaded(block: Block, at: SSAValue, sums: Sequence[SSAValue]) -> list[SSAValue]:
        loads = [memref.LoadOp.get(array, [at]) for array in sums]
        block.add_ops(loads)
        return [load.res for load in loads]

    @staticmethod
    def _store(block: Block, at: SSAValue, values: Sequence[SSAValue], sums: Sequence[SSAValue]) -> None:
        for value, array in zip(values, sums, strict=True):
            block.add_op(memref.StoreOp.get(value, array, [at]))


def _invariant(ops: Sequence[Operation], body: Block) -> list[Operation]:
    """Returns the ops before a fold that are invariant in the parallel loop."""
    inside: set[SSAValue] = {*body.args, *(result for op in ops for result in op.results)}
    results: list[Operation] = []
    for op in ops:
        if not any(operand in inside for operand in op.operands):
            results.append(op)
            inside.difference_update(op.results)
    return results


def _is_repeatable(op: Operation, written: set[SSAValue]) -> bool:
    """Returns whether an op can be hoisted: it is pure, or loads from memory that the kernel doesn't write."""
    return is_pure(op) or (isinstance(op, memref.LoadOp) and op.memref not in written)
