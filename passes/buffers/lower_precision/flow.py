"""Data flow between the buffers of a module, through kernels, functions, loops and branches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Operation, SSAValue

from tensorgrad.dialects.attention import FORWARD, AttentionOp
from tensorgrad.dialects.buf import KernelOp, PackOp, is_shape_only, iterators_of, maps_of
from tensorgrad.dialects.buf_control import GROUPS, ChooseOp, RunOp
from tensorgrad.dialects.collective import CollectiveOp
from tensorgrad.dialects.counting_sort import CountingSortOp
from tensorgrad.dialects.functions import defined_functions
from tensorgrad.passes.analyses.affine import used_dims
from tensorgrad.passes.analyses.walking import reached


@dataclass(eq=False)
class Value:
    """One tensor of the program, with all SSA values that refer to it.

    Attributes:
        names: The buffers, arguments and locals that hold it.
        writers: The stages that compute it, each with the position of the output.
        made_from: The values that it is computed from.
        carried: Whether a loop carries it.
    """

    names: list[SSAValue] = field(default_factory=list[SSAValue])
    writers: list[tuple[GenericOp | AttentionOp, int]] = field(
        default_factory=list[tuple[GenericOp | AttentionOp, int]]
    )
    made_from: dict[Value, None] = field(default_factory=dict["Value", None])
    carried: bool = False


class Flow:
    """The values of a module of kernels before `plan-memory`, and the dependences between them.

    Args:
        module: A module of `buf` functions; private functions are run by others.

    Attributes:
        stages: The stages of all kernels except attentions.
    """

    def __init__(self, module: ModuleOp):
        self._functions = {op.sym_name.data: op for op in defined_functions(module)}
        self._above: dict[SSAValue, SSAValue] = {}
        carried: list[SSAValue] = []
        for function in self._functions.values():
            for op in function.body.block.ops:
                self._join_names(op, carried)
        self._values: dict[SSAValue, Value] = {}
        self.stages: list[GenericOp] = []
        for function in self._functions.values():
            for argument in function.body.block.args:
                self.value_of(argument)  # also one that a branch doesn't read
            for op in function.body.block.ops:
                self._note(op)
        for name in carried:
            self.value_of(name).carried = True

    def value_of(self, name: SSAValue) -> Value:
        """Returns the value that a buffer, an argument or a local holds."""
        root = self._root(name)
        if root not in self._values:
            self._values[root] = Value()
        value = self._values[root]
        if name not in value.names:
            value.names.append(name)
        return value

    def values(self) -> list[Value]:
        """Returns all values that kernels touch."""
        return list(self._values.values())

    def needed_for(self, values: Iterable[Value]) -> set[Value]:
        """Returns the values and all values that they depend on."""
        results, pending = set[Value](), list(values)
        while pending:
            value = pending.pop()
            if value not in results:
                results.add(value)
                pending += value.made_from
        return results

    def depending_on(self, values: Iterable[Value]) -> set[Value]:
        """Returns the values and all values that depend on them."""
        makes: dict[Value, list[Value]] = {}
        for value in self.values():
            for source in value.made_from:
                makes.setdefault(source, []).append(value)
        results, pending = set[Value](), list(values)
        while pending:
            value = pending.pop()
            if value not in results:
                results.add(value)
                pending += makes.get(value, ())
        return results

    # Names of one value

    def _root(self, name: SSAValue) -> SSAValue:
        while (above := self._above.get(name, name)) is not name:
            self._above[name] = self._above.get(above, above)
            name = above
        return name

    def _join(self, first: SSAValue, second: SSAValue) -> None:
        root, other_root = self._root(first), self._root(second)
        if root is not other_root:
            self._above[other_root] = root

    def _join_names(self, op: Operation, carried: list[SSAValue]) -> None:
        """Joins the operands of an op with the arguments of the regions or functions that it runs."""
        if isinstance(op, KernelOp):
            for argument, operand in zip(op.body.block.args, op.operands, strict=True):
                self._join(operand, argument)
        elif isinstance(op, PackOp):
            for part in op.parts:
                self._join(op.result, part)
        elif isinstance(op, RunOp):
            block = self._functions[op.function].body.block
            operands = [operand for name in GROUPS for operand in getattr(op, name)]
            for argument, operand in zip(block.args, operands, strict=True):
                self._join(operand, argument)
            if op.count is not None:
                for init, last, argument in zip(op.init, op.last, op.arguments_of(block)["init"], strict=True):
                    self._join(init, last)
                    self._join(init, argument)
                    carried.append(init)
        elif isinstance(op, ChooseOp):
            for branch, name in enumerate(op.functions):
                arguments = self._functions[name].body.block.args
                for argument, operand in zip(arguments, op.operands_of(branch), strict=True):
                    self._join(operand, argument)

    # Dependences

    def _note(self, op: Operation) -> None:
        if isinstance(op, ChooseOp):
            for out in op.outs:
                self.value_of(out).made_from[self.value_of(op.predicate)] = None
        elif isinstance(op, memref.AllocOp | PackOp):
            self.value_of(op.results[0])
        elif isinstance(op, RunOp):
            for operand in op.operands:
                self.value_of(operand)
        elif isinstance(op, KernelOp):
            for operand, argument in zip(op.operands, op.body.block.args, strict=True):
                self.value_of(operand)
                self.value_of(argument)
            for inner in op.body.block.ops:
                if isinstance(inner, GenericOp | AttentionOp):
                    self._note_stage(inner)
                elif isinstance(inner, CountingSortOp):
                    for result in inner.outputs:
                        self.value_of(result).made_from[self.value_of(inner.numbers)] = None
                elif isinstance(inner, CollectiveOp):
                    for source, result in zip(inner.sources, inner.outputs, strict=True):
                        self.value_of(result).made_from[self.value_of(source)] = None

    def _note_stage(self, stage: GenericOp | AttentionOp) -> None:
        if isinstance(stage, GenericOp):
            self.stages.append(stage)
        for position, output in enumerate(stage.outputs):
            value = self.value_of(output)
            value.writers.append((stage, position))
            read = stage.inputs if isinstance(stage, AttentionOp) else sources(stage, position)
            for source in read:
                value.made_from[self.value_of(source)] = None


def sources(stage: GenericOp, position: int) -> list[SSAValue]:
    """Returns the buffers and locals that one output of a stage is computed from."""
    return sources_of(stage, yielded(stage, position))


def sources_of(stage: GenericOp, scalar: SSAValue) -> list[SSAValue]:
    """Returns the buffers and locals that a scalar of a stage's body is computed from."""
    inputs: dict[SSAValue, SSAValue] = {
        argument: operand
        for argument, operand in zip(stage.body.block.args, stage.inputs, strict=False)
        if not is_shape_only(operand)
    }
    sources: dict[SSAValue, None] = {}
    for value in reached(scalar):
        if value in inputs:
            sources[inputs[value]] = None
        elif isinstance(value.owner, memref.LoadOp):
            sources[value.owner.memref] = None
    return list(sources)


def is_product(stage: GenericOp | AttentionOp, position: int) -> bool:
    """Returns whether a stage sums products of two different reads, some of which don't depend on all grid loops.

    This holds for matrix products and convolutions, but not for statistics of rows, such as variances.
    """
    if isinstance(stage, AttentionOp):
        return stage.part.data != FORWARD or position == 0  # the second output holds the logarithms of sums
    kernel = stage.parent_op()
    assert isinstance(kernel, KernelOp)
    rank = len(kernel.extents)
    own = iterators_of(stage)[rank:]
    total = yielded(stage, position)
    if not own or IteratorType.PARALLEL in own or not isinstance(total.owner, arith.AddfOp):
        return False
    grid = set(range(rank))
    read = [
        used_dims(map_)
        for operand, map_ in zip(stage.inputs, maps_of(stage), strict=False)
        if not is_shape_only(operand)
    ]
    if all(grid <= dims for dims in read):
        return False
    multiplied = (value.owner for value in reached(total) if isinstance(value.owner, arith.MulfOp))
    return any(_are_different(stage, op) for op in multiplied)


def _are_different(stage: GenericOp, op: arith.MulfOp) -> bool:
    lhs, rhs = ({value for value in reached(operand) if _is_read(stage, value)} for operand in op.operands)
    return bool(lhs) and bool(rhs) and lhs != rhs


def _is_read(stage: GenericOp, scalar: SSAValue) -> bool:
    """Returns whether a scalar is an element that a stage reads from a buffer."""
    return scalar in stage.body.block.args or isinstance(scalar.owner, memref.LoadOp)


def yielded(stage: GenericOp, position: int) -> SSAValue:
    """Returns the scalar that a stage yields for one output."""
    last = stage.body.block.last_op
    assert isinstance(last, YieldOp)
    return last.operands[position]
