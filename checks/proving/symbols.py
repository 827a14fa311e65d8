"""The integers and conditions of a kernel as symbols: sums over the numbers of invocations and of iterations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias, cast

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, SSAValue

from tensorgrad.checks.proving.facts import (
    choice,
    greatest,
    held,
    least,
    product,
    quotient,
    remainder,
    wrapped,
)
from tensorgrad.checks.proving.terms import (
    Condition,
    Linear,
    Range,
    Unknown,
    Variable,
    both,
    either,
    negation,
    nonnegative,
    number,
    of_atom,
    zero,
)
from tensorgrad.dialects.buf import element_of

Leaf: TypeAlias = Callable[[SSAValue], "Linear | None"]
"""Returns what a value is that doesn't follow from other values: the number of an invocation."""


def range_of_type(type_: Attribute, index_bits: int) -> Range:
    """Returns the numbers of a type: an index is not negative, other integers have a sign."""
    if isinstance(type_, IntegerType):
        width = type_.width.data
        return (0, 1) if width == 1 else (-(1 << width - 1), (1 << width - 1) - 1)
    return 0, (1 << index_bits) - 1


def is_integer(type_: Attribute) -> bool:
    """Returns whether values of a type are integers or conditions."""
    return isinstance(type_, IntegerType | IndexType)


class Symbols:
    """What the integers of a kernel are, in terms of its invocations' numbers and its loops' counters.

    Args:
        leaf: What a value is that doesn't follow from others.
        index_bits: The size of an index.
        contents: The integers in buffers that are constant.
        constant: The buffers that don't change while the kernel runs.
    """

    def __init__(
        self,
        leaf: Leaf,
        index_bits: int,
        contents: Mapping[SSAValue, tuple[int, ...]],
        constant: frozenset[SSAValue],
    ):
        self._leaf = leaf
        self.index_bits = index_bits
        self._contents = contents
        self._constant = constant
        self._values: dict[SSAValue, Linear] = {}
        self._conditions: dict[SSAValue, Condition] = {}
        self._turns: dict[scf.ForOp, Variable] = {}
        self._tables: dict[SSAValue, Range | None] = {}
        self._count = 0

    def turn(self, loop: scf.ForOp) -> Variable | None:
        """Returns the variable that counts the iterations of a loop; `None` if there is at most one iteration."""
        self.value(loop.body.block.args[0])
        return self._turns.get(loop)

    def value(self, value: SSAValue) -> Linear:
        """Returns what an integer is."""
        result = self._values.get(value)
        if result is None:
            result = self._values[value] = self._computed(value)
        return result

    def condition(self, value: SSAValue) -> Condition:
        """Returns what a condition is."""
        result = self._conditions.get(value)
        if result is None:
            result = self._conditions[value] = self._decided(value)
        return result

    def fresh(self, what: str, range_: Range) -> Linear:
        """Returns data of which nothing but a range is known."""
        self._count += 1
        return of_atom(Variable(f"{what}#{self._count}", range_, True)) if range_[0] < range_[1] else number(range_[0])

    # Integers

    def _computed(self, value: SSAValue) -> Linear:
        known = self._leaf(value)
        if known is not None:
            return known
        range_ = range_of_type(value.type, self.index_bits)
        if isinstance(value, BlockArgument):
            return self._argument(value, range_)
        op = cast(Operation, value.owner)
        if value.type == IntegerType(1):
            return choice(self.condition(value), number(1), number(0))
        if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
            return wrapped(number(op.value.value.data), *range_)
        if isinstance(op, scf.IfOp):
            return self._yielded(op, value)
        if isinstance(op, scf.ForOp):
            return self._after(op, cast(OpResult, value).index, range_)
        if isinstance(op, arith.SelectOp):
            return choice(self.condition(op.cond), self.value(op.lhs), self.value(op.rhs))
        if isinstance(op, memref.LoadOp):
            return self._loaded(op, range_)
        if isinstance(op, arith.ExtUIOp):
            source = self.value(op.input)
            low, high = range_of_type(op.input.type, self.index_bits)
            return wrapped(source, 0, high - low) if low < 0 else source
        if isinstance(op, arith.IndexCastOp | arith.ExtSIOp | arith.TruncIOp):
            return wrapped(self.value(op.input), *range_)
        rule = RULES.get(type(op))
        if rule is None or not all(is_integer(operand.type) for operand in op.operands):
            return self.fresh(op.name, range_)
        result = rule(self, *(self.value(operand) for operand in op.operands), range_)
        return self.fresh(op.name, range_) if result is None else result

    def _argument(self, value: BlockArgument, range_: Range) -> Linear:
        """Returns the counter of a loop, or a number that it carries."""
        loop = value.owner.parent_op()
        if not isinstance(loop, scf.ForOp):
            return self.fresh("carried", range_)
        if value.index:
            return self._carried(loop, value, range_)
        step = self.value(loop.step).number
        first, last = self.value(loop.lb), self.value(loop.ub)
        if step is None or step < 1:
            return self.fresh("counter", range_)
        trips = max(-((first.range[0] - last.range[1]) // step), 1)
        self._count += 1
        if trips == 1:
            return first
        turn = self._turns[loop] = Variable(f"turn#{self._count}", (0, trips - 1))
        return first.plus(of_atom(turn), step)

    def _carried(self, loop: scf.ForOp, value: BlockArgument, range_: Range) -> Linear:
        """Returns a number that a loop carries, if what each iteration adds to it is known."""
        unknown = self._values[value] = self.fresh("carried", range_)  # what is added may depend on the number itself
        added = self._added(cast(Operation, loop.body.block.last_op).operands[value.index - 1], value)
        if added is None:
            return unknown
        turn, first = self.turn(loop), self.value(loop.iter_args[value.index - 1])
        if turn is None:
            return first
        if added[0] == added[1]:
            return wrapped(first.plus(of_atom(turn), added[0]), *range_)
        return self._sum_of(first, added, turn.range[1], range_)

    def _after(self, loop: scf.ForOp, index: int, range_: Range) -> Linear:
        """Returns the number that a loop has carried when it ends."""
        value = loop.body.block.args[index + 1]
        added = self._added(cast(Operation, loop.body.block.last_op).operands[index], value)
        turn, first = self.turn(loop), self.value(loop.iter_args[index])
        if added is None:
            return self.fresh("carried", range_)
        return self._sum_of(first, added, 1 if turn is None else turn.range[1] + 1, range_)

    def _sum_of(self, first: Linear, added: Range, times: int, range_: Range) -> Linear:
        """Returns a number to which another is added at most so many times."""
        low, high = first.range[0] + min(times * added[0], 0), first.range[1] + max(times * added[1], 0)
        return self.fresh("carried", (low, high) if range_[0] <= low and high <= range_[1] else range_)

    def _added(self, value: SSAValue, carried: BlockArgument) -> Range | None:
        """Returns the range of what is added to a number that a loop carries; `None` if it is computed otherwise."""
        if value is carried:
            return 0, 0
        op = value.owner
        if isinstance(op, arith.AddiOp):
            before, more = self._added(op.lhs, carried), self.value(op.rhs).range
            return None if before is None else (before[0] + more[0], before[1] + more[1])
        if isinstance(op, arith.SelectOp):
            either = self._added(op.lhs, carried), self._added(op.rhs, carried)
            known = [side for side in either if side is not None]
            return (min(low for low, _ in known), max(high for _, high in known)) if len(known) == 2 else None
        return None

    def _yielded(self, op: scf.IfOp, value: SSAValue) -> Linear:
        place = cast(OpResult, value).index
        values: list[Linear] = []
        for region in (op.true_region, op.false_region):
            last = cast(Block, region.block).last_op
            assert last is not None
            values.append(self.value(last.operands[place]))
        return choice(self.condition(op.cond), values[0], values[1])

    def _loaded(self, op: memref.LoadOp, range_: Range) -> Linear:
        known = self._contents.get(op.memref)
        if known is not None:
            return held(self.value(op.indices[0]), known)
        stored = self.stored(op.memref)
        if stored is not None:
            range_ = max(range_[0], stored[0]), min(range_[1], stored[1])
        if range_[0] >= range_[1]:
            return number(range_[0])
        if op.memref in self._constant:
            key = ("load", op.memref, self.value(op.indices[0]))
            return of_atom(Variable(_Load(key), range_, True))
        return self.fresh("load", range_)

    def stored(self, memory: SSAValue) -> Range | None:
        """Returns the range of all that is stored in a table of the kernel's own; `None` if that can't be told."""
        if memory not in self._tables:
            self._tables[memory] = None  # what is stored may depend on what the memory holds
            ops = [use.operation for use in memory.uses]
            stores = [op for op in ops if isinstance(op, memref.StoreOp)]
            is_own = isinstance(memory.owner, memref.AllocaOp) and is_integer(element_of(memory)) and len(stores) > 0
            if is_own and all(isinstance(op, memref.LoadOp | memref.StoreOp) for op in ops):
                ranges = [self.value(op.value).range for op in stores]
                self._tables[memory] = min(low for low, _ in ranges), max(high for _, high in ranges)
        return self._tables[memory]

    def counts(self, loop: scf.ForOp, index: int) -> bool:
        """Returns whether each iteration of a loop adds 0 or 1 to a number that it carries."""
        last, value = cast(Operation, loop.body.block.last_op), loop.body.block.args[index + 1]
        added = self._added(last.operands[index], value)
        return added is not None and 0 <= added[0] <= added[1] <= 1

    # Conditions

    def _decided(self, value: SSAValue) -> Condition:
        op = value.owner
        if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
            return bool(op.value.value.data)
        if isinstance(op, arith.CmpiOp) and all(is_integer(operand.type) for operand in op.operands):
            return self._comparison(op)
        if isinstance(op, arith.AndIOp | arith.OrIOp | arith.XOrIOp):
            first, second = self.condition(op.lhs), self.condition(op.rhs)
            if isinstance(op, arith.XOrIOp):
                return either(both(first, negation(second)), both(negation(first), second))
            return both(first, second) if isinstance(op, arith.AndIOp) else either(first, second)
        if isinstance(op, arith.SelectOp):
            chosen = self.condition(op.cond)
            then, other = self.condition(op.lhs), self.condition(op.rhs)
            return either(both(chosen, then), both(negation(chosen), other))
        if isinstance(op, scf.IfOp):
            place = cast(OpResult, value).index
            chosen = self.condition(op.cond)
            then, other = (
                self.condition(cast(Operation, region.block.last_op).operands[place])
                for region in (op.true_region, op.false_region)
            )
            return either(both(chosen, then), both(negation(chosen), other))
        self._count += 1
        return Unknown(f"condition#{self._count}")

    def _comparison(self, op: arith.CmpiOp) -> Condition:
        predicate = op.predicate.value.data
        first, second = (self._compared(operand, predicate) for operand in op.operands)
        difference = first.minus(second)
        match predicate:
            case 0:
                return zero(difference)
            case 1:
                return negation(zero(difference))
            case 2 | 6:  # less
                return nonnegative(number(-1).minus(difference))
            case 3 | 7:  # less or equal
                return nonnegative(difference.times(-1))
            case 4 | 8:  # greater
                return nonnegative(difference.plus(number(-1)))
            case _:
                return nonnegative(difference)

    def _compared(self, operand: SSAValue, predicate: int) -> Linear:
        """Returns an operand as a comparison reads it: with a sign, or without one."""
        value = self.value(operand)
        low, high = range_of_type(operand.type, self.index_bits)
        if predicate < 2 or operand.type == IntegerType(1):
            return value
        size = high - low + 1
        return wrapped(value, -size // 2, size // 2 - 1) if predicate < 6 else wrapped(value, 0, size - 1)


class _Load:
    """What a constant buffer holds at an address, which is the same for equal addresses."""

    def __init__(self, key: tuple[str, SSAValue, Linear]):
        self._key = key

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Load) and self._key == other._key

    def __repr__(self) -> str:
        name = self._key[1].name_hint or (self._key[1].index if isinstance(self._key[1], BlockArgument) else "?")
        return f"%{name}[{self._key[2]}]"


def _sum(_: Symbols, x: Linear, y: Linear, range_: Range) -> Linear:
    return wrapped(x.plus(y), *range_)


def _difference(_: Symbols, x: Linear, y: Linear, range_: Range) -> Linear:
    return wrapped(x.minus(y), *range_)


def _product(_: Symbols, x: Linear, y: Linear, range_: Range) -> Linear:
    return wrapped(product(x, y), *range_)


def _unsigned(x: Linear, range_: Range) -> Linear:
    return wrapped(x, 0, range_[1] - range_[0])


def _quotient(symbols: Symbols, x: Linear, y: Linear, range_: Range) -> Linear | None:
    """Returns an unsigned quotient."""
    x = _unsigned(x, range_)
    divisor = y.number
    return wrapped(quotient(x, divisor), *range_) if divisor is not None and divisor > 0 else None


def _remainder(symbols: Symbols, x: Linear, y: Linear, range_: Range) -> Linear | None:
    """Returns an unsigned remainder."""
    x = _unsigned(x, range_)
    divisor = y.number
    if divisor is not None and divisor > 0:
        return wrapped(remainder(x, divisor), *range_)
    return symbols.fresh("remainder", (0, y.range[1] - 1)) if y.range[0] > 0 else None


def _signed_quotient(symbols: Symbols, x: Linear, y: Linear, range_: Range) -> Linear | None:
    return _quotient(symbols, x, y, range_) if x.range[0] >= 0 else None


def _signed_remainder(symbols: Symbols, x: Linear, y: Linear, range_: Range) -> Linear | None:
    divisor = y.number
    if divisor is None or divisor <= 0:
        return None
    low, high = max(x.range[0], 1 - divisor), min(x.range[1], divisor - 1)
    return remainder(x, divisor) if x.range[0] >= 0 else symbols.fresh("remainder", (min(low, 0), max(high, 0)))


def _unsigned_extreme(pick: Callable[[Linear, Linear], Linear]) -> Callable[..., Linear]:
    def rule(_: Symbols, x: Linear, y: Linear, range_: Range) -> Linear:
        return wrapped(pick(_unsigned(x, range_), _unsigned(y, range_)), *range_)

    return rule


def _signed_extreme(pick: Callable[[Linear, Linear], Linear]) -> Callable[..., Linear]:
    def rule(_: Symbols, x: Linear, y: Linear, range_: Range) -> Linear:
        if range_[0] < 0:
            return pick(x, y)
        half = (range_[1] + 1) // 2
        return wrapped(pick(wrapped(x, -half, half - 1), wrapped(y, -half, half - 1)), *range_)

    return rule


def _and(symbols: Symbols, x: Linear, y: Linear, range_: Range) -> Linear | None:
    for one, other in ((x, y), (y, x)):
        mask = other.number
        if mask is not None and mask >= 0:
            if mask & mask + 1 == 0:
                return remainder(_unsigned(one, range_), mask + 1)
            return symbols.fresh("and", (0, mask))
    return symbols.fresh("and", (0, min(x.range[1], y.range[1]))) if min(x.range[0], y.range[0]) >= 0 else None


def _shifted_left(_: Symbols, x: Linear, y: Linear, range_: Range) -> Linear | None:
    bits = y.number
    return wrapped(x.times(1 << bits), *range_) if bits is not None and 0 <= bits < 32 else None


def _shifted_right(_: Symbols, x: Linear, y: Linear, range_: Range) -> Linear | None:
    bits = y.number
    if bits is None or not 0 <= bits < 32:
        return None
    return wrapped(quotient(_unsigned(x, range_), 1 << bits), *range_)


def _shifted_right_signed(_: Symbols, x: Linear, y: Linear, range_: Range) -> Linear | None:
    bits = y.number
    return quotient(x, 1 << bits) if bits is not None and 0 <= bits < 32 and range_[0] < 0 else None


RULES: dict[type[Operation], Callable[..., Linear | None]] = {
    arith.AddiOp: _sum,
    arith.SubiOp: _difference,
    arith.MuliOp: _product,
    arith.DivUIOp: _quotient,
    arith.RemUIOp: _remainder,
    arith.DivSIOp: _signed_quotient,
    arith.RemSIOp: _signed_remainder,
    arith.MinUIOp: _unsigned_extreme(least),
    arith.MaxUIOp: _unsigned_extreme(greatest),
    arith.MinSIOp: _signed_extreme(least),
    arith.MaxSIOp: _signed_extreme(greatest),
    arith.AndIOp: _and,
    arith.ShLIOp: _shifted_left,
    arith.ShRUIOp: _shifted_right,
    arith.ShRSIOp: _shifted_right_signed,
}
"""What an op's result is, from its operands and the range of its type; `None` if nothing is known of it."""
