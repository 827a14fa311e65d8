"""Plans functions that run others in loops and branches: the kernels of all of them are inlined into one function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, cast

from xdsl.dialects import memref
from xdsl.dialects.builtin import IntegerAttr, LocationAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import Buffer, KernelOp, buffer_bytes, element_bytes, element_of
from tensorgrad.dialects.buf_control import ChooseOp, RepeatOp, RunOp, row_type
from tensorgrad.passes.analyses.blocks import rounded_up
from tensorgrad.passes.analyses.graph import ExecutionOrder, KernelGraph, has_calls, starts_of, steps_of
from tensorgrad.passes.analyses.storage import writes_in_place


class Loop:
    """A loop: its trip count, its op, and the first and last step of its body."""

    def __init__(self, count: int, location: LocationAttr):
        self.count = count
        self.first = self.last = 0
        self.op = RepeatOp.of(count)
        self.op.location = location


@dataclass(eq=False)
class Root:
    """The memory of one value, or of both buffers of a double-buffered carry.

    Attributes:
        size: The size in bytes.
        location: The location of the op that allocates the value.
        home: The loops around that op.
        argument: The function's argument, if the value is one.
        uses: The steps at which the value is read or written, each with the loops around it.
    """

    size: int
    location: LocationAttr
    home: tuple[Loop, ...] = ()
    argument: SSAValue | None = None
    uses: list[tuple[int, tuple[Loop, ...]]] = field(default_factory=list["tuple[int, tuple[Loop, ...]]"])

    def lifetime(self) -> tuple[int, int]:
        """Returns the first and last step of the live range. A use in a loop that it outlives counts for all of it."""
        firsts: list[int] = []
        lasts: list[int] = []
        for step, loops in self.uses:
            outlived = loops[len(self.home)] if len(loops) > len(self.home) else None
            firsts.append(step if outlived is None else outlived.first)
            lasts.append(step if outlived is None else outlived.last)
        return min(firsts), max(lasts)


@dataclass(frozen=True)
class ValueLocation:
    """The location of a value: `offset` bytes into a root, plus a distance that depends on the iterations of loops.

    Attributes:
        terms: For each such loop: the loop, a position as an expression of its iteration index, and the stride of the
            position in elements.
    """

    root: Root
    offset: int = 0
    terms: tuple[tuple[Loop, AffineExpr, int], ...] = ()

    def row(self, loop: Loop, position: AffineExpr, stride: int) -> ValueLocation:
        """Returns the slice at a position that depends on a loop's iteration index."""
        return replace(self, terms=(*self.terms, (loop, position, stride)))


Env: TypeAlias = dict[SSAValue, ValueLocation]


@dataclass
class KernelItem:
    """A kernel and the places of its operands."""

    kernel: KernelOp
    places: list[ValueLocation]


@dataclass
class LoopItem:
    """A loop and its body."""

    loop: Loop
    items: list[Item]


@dataclass
class BranchItem:
    """A conditional and the bodies of its two branches."""

    op: ChooseOp
    predicate: ValueLocation
    branches: tuple[list[Item], list[Item]]


Item: TypeAlias = KernelItem | LoopItem | BranchItem


class ControlTree:
    """The kernels of a function and of all functions that it runs, in order, with the place of each operand.

    Args:
        module: The module that holds the functions.
        function: The function that runs the others.
        alignment: The alignment of offsets in bytes.
    """

    def __init__(self, module: ModuleOp, function: FuncOp, alignment: int):
        self.functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
        self.alignment = alignment
        self.roots: list[Root] = []
        self.step = 0
        self.dispatches = 0
        self.loops: list[Loop] = []
        self.in_place: set[Root] = set()
        env: Env = {}
        for argument in function.body.block.args:
            env[argument] = ValueLocation(Root(_size(argument), function.location, argument=argument))
        self.arguments = {argument: place.root for argument, place in env.items()}
        self.items = self._function(function, env, ())

    def _function(self, function: FuncOp, env: Env, loops: tuple[Loop, ...]) -> list[Item]:
        if not has_calls(function):
            return self._kernels(function, env, loops)
        ops = list(function.body.block.ops)
        for op in ops:
            if isinstance(op, RunOp) and op.count is not None:
                self._place_carried(op, op.count, env, loops)
        for op in ops:
            if isinstance(op, memref.AllocOp) and op.memref not in env:
                env[op.memref] = ValueLocation(self._root(_size(op.memref), op.location, loops))
        items: list[Item] = []
        for op in ops:
            if isinstance(op, RunOp):
                items += self._run(op, env, loops)
            elif isinstance(op, ChooseOp):
                items.append(self._choose(op, env, loops))
        return items

    def _callee(self, name: str, kinds: Sequence[Attribute]) -> FuncOp:
        function = self.functions.get(name)
        if function is None:
            raise DiagnosticException(f"there is no function @{name} to call")
        types = [argument.type for argument in function.body.block.args]
        if types != list(kinds):
            listed = [", ".join(map(str, group)) for group in (types, kinds)]
            raise DiagnosticException(f"@{name} takes ({listed[0]}), got ({listed[1]})")
        return function

    def _root(self, size: int, location: LocationAttr, loops: tuple[Loop, ...]) -> Root:
        root = Root(size, location, loops)
        self.roots.append(root)
        return root

    def _place_carried(self, op: RunOp, count: int, env: Env, loops: tuple[Loop, ...]) -> None:
        """Assigns each value that a loop carries one buffer if its update can be in place, else two."""
        function = self._callee(op.function, op.expected())
        arguments = op.arguments_of(function.body.block)
        old, new = arguments["init"], arguments["last"]
        in_place = _updates_in_place(function)
        for init, last, before, after in zip(op.init, op.last, old, new, strict=True):
            if in_place.get(after) is before:
                env[init] = env[last] = ValueLocation(self._root(_size(init), op.location, loops))
                continue
            stride = rounded_up(_size(init), self.alignment)
            root = self._root(2 * stride, op.location, loops)
            env[init], env[last] = ValueLocation(root), ValueLocation(root, stride * (count % 2))

    def _run(self, op: RunOp, env: Env, loops: tuple[Loop, ...]) -> list[Item]:
        function = self._callee(op.function, op.expected())
        if op.count is None:
            inner: Env = {a: env[value] for a, value in zip(function.body.block.args, op.operands, strict=True)}
            for new, old in _updates_in_place(function).items():
                if new in inner:
                    self.in_place.add(inner[new].root)
                    inner[new] = inner[old]
            return self._function(function, inner, loops)
        loop = Loop(op.count, op.location)
        self.loops.append(loop)
        iteration: AffineExpr = AffineDimExpr(0)
        position = iteration * -1 + (op.count - 1) if op.reverse is not None else iteration
        arguments = op.arguments_of(function.body.block)
        inner = dict[SSAValue, ValueLocation]()
        whole = *arguments["consts"], *arguments["constants"]
        for value, argument in zip((*op.consts, *op.constants), whole, strict=True):
            inner[argument] = env[value]
        for value, argument in zip((*op.over, *op.stacks), (*arguments["over"], *arguments["stacks"]), strict=True):
            inner[argument] = env[value].row(loop, position, row_type(value.type).element_count())
        for init, before, after in zip(op.init, arguments["init"], arguments["last"], strict=True):
            place = env[init]
            inner[before] = inner[after] = place
            if place.root.size != _size(init):
                stride = place.root.size // 2 // element_bytes(element_of(init))
                inner[before] = place.row(loop, iteration % 2, stride)
                inner[after] = place.row(loop, (iteration + 1) % 2, stride)
        loop.first = self.step
        items = self._function(function, inner, (*loops, loop))
        loop.last = max(self.step - 1, loop.first)
        return [LoopItem(loop, items)] if items else []

    def _choose(self, op: ChooseOp, env: Env, loops: tuple[Loop, ...]) -> Item:
        place = env[op.predicate]
        first = self.step
        self.step += 1
        branches: list[list[Item]] = []
        for number, name in enumerate(op.functions):
            function = self._callee(name, [value.type for value in op.operands_of(number)])
            arguments = function.body.block.args
            inner: Env = {a: env[value] for a, value in zip(arguments, op.operands_of(number), strict=True)}
            branches.append(self._function(function, inner, loops))
        # Operands of either branch are live throughout both: which one runs is known only at run time.
        for step in (first, max(self.step - 1, first)):
            place.root.uses.append((step, loops))
            for value in op.operands:
                env[value].root.uses.append((step, loops))
        return BranchItem(op, place, (branches[0], branches[1]))

    def _kernels(self, function: FuncOp, env: Env, loops: tuple[Loop, ...]) -> list[Item]:
        order = KernelGraph.of(function).order()
        for op in function.body.block.ops:
            if isinstance(op, memref.AllocOp):
                env[op.memref] = ValueLocation(self._root(_size(op.memref), op.location, loops))
        steps, starts = steps_of(order), starts_of(order)
        items: list[Item] = []
        highest = -1
        for kernel in order:
            places = [env[operand] for operand in kernel.operands]
            for place in places:
                place.root.uses.append((self.step + steps[kernel], loops))
            for result in kernel.outputs if kernel in starts else ():
                env[result].root.uses.append((self.step + steps[starts[kernel]], loops))
            number = kernel.dispatch_number
            if number is not None:
                highest = max(highest, number)
                kernel.properties["dispatch"] = IntegerAttr(self.dispatches + number, i64)
            items.append(KernelItem(kernel, places))
        self.dispatches += highest + 1
        self.step += max(steps.values(), default=-1) + 1
        return items


def _size(value: SSAValue) -> int:
    return buffer_bytes(cast(Buffer, value.type))


def _updates_in_place(function: FuncOp) -> dict[SSAValue, SSAValue]:
    """Returns the new values that may overwrite old ones, each mapped to the old value."""
    if has_calls(function):
        return {}
    graph = KernelGraph.of(function)
    execution = ExecutionOrder.of(graph.order())
    results: dict[SSAValue, SSAValue] = {}
    for old, new in graph.updates.items():
        writer = graph.writer(new)
        if writer is None or new not in graph.in_place or execution.reads_after(old, writer):
            continue
        if writes_in_place(writer, old, new):
            results[new] = old
    return results
