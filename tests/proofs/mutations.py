"""Mutation operators on emitted kernels: each plants one fault, as a wrong lowering could."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from xdsl.dialects import arith, memref, scf, vector
from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerAttr, MemRefType, ModuleOp, i1, i64
from xdsl.ir import Block, Operation, SSAValue

from tensorgrad.dialects import cpu, wgsl
from tensorgrad.dialects.buf import DispatchOp

Plant = Callable[[Operation], None]
"""Changes a copy of an op in place."""


@dataclass(frozen=True)
class Operator:
    """A kind of fault.

    Attributes:
        name: Its name.
        places: Whether an op can have it.
        plant: Plants it.
    """

    name: str
    places: Callable[[Operation], bool]
    plant: Plant


def _constant(value: SSAValue) -> int | None:
    op = value.owner
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr) and op.result.type == IndexType():
        return op.value.value.data
    return None


def _before(op: Operation, new: Operation) -> SSAValue:
    block = op.parent
    assert isinstance(block, Block)
    block.insert_op_before(new, op)
    return new.results[0]


def _changed(place: int, change: Callable[[int], int]) -> Plant:
    """Returns what changes a constant operand of an op, and of this op alone."""

    def plant(op: Operation) -> None:
        number = _constant(op.operands[place])
        assert number is not None
        op.operands[place] = _before(op, arith.ConstantOp(IntegerAttr(change(number), IndexType())))

    return plant


def _shifted(place: int) -> Plant:
    """Returns what adds 1 to an index."""

    def plant(op: Operation) -> None:
        one = _before(op, arith.ConstantOp(IntegerAttr(1, IndexType())))
        op.operands[place] = _before(op, arith.AddiOp(op.operands[place], one))

    return plant


def _erase(op: Operation) -> None:
    op.detach()
    op.erase()


def _always(op: Operation) -> None:
    op.operands[0] = _before(op, arith.ConstantOp(IntegerAttr(1, i1)))


def _halved(op: Operation) -> None:
    """Replaces workgroup memory by one of half the size."""
    assert isinstance(op, wgsl.WorkgroupAllocOp) and isinstance(op.memref.type, MemRefType)
    shape = [max(extent // 2, 1) for extent in op.memref.type.get_shape()]
    small = wgsl.WorkgroupAllocOp(MemRefType(op.memref.type.element_type, shape))
    block = op.parent
    assert block is not None
    block.insert_op_before(small, op)
    op.memref.replace_all_uses_with(small.memref)
    _erase(op)


def _fewer(op: Operation) -> None:
    """Dispatches a workgroup less along the longest axis."""
    assert isinstance(op, DispatchOp)
    groups = list(op.groups)
    groups[groups.index(max(groups))] -= 1
    op.properties["workgroups"] = DenseArrayBase.from_list(i64, groups)


def _has(kind: type[Operation], place: int, least: int = 0) -> Callable[[Operation], bool]:
    return lambda op: isinstance(op, kind) and (_constant(op.operands[place]) or 0) > least


def _is_store(op: Operation) -> bool:
    return isinstance(op, memref.StoreOp | vector.StoreOp)


def _is_load(op: Operation) -> bool:
    return isinstance(op, memref.LoadOp | vector.LoadOp)


OPERATORS = (
    Operator("a barrier is missing", lambda op: isinstance(op, wgsl.BarrierOp), _erase),
    Operator("a guard is missing", lambda op: isinstance(op, wgsl.ReturnIfOp), _erase),
    Operator("a branch is always taken", lambda op: isinstance(op, scf.IfOp), _always),
    Operator("an edge is one too far", _has(arith.CmpiOp, 1), _changed(1, lambda n: n + 1)),
    Operator("an edge is one too near", _has(arith.CmpiOp, 1), _changed(1, lambda n: n - 1)),
    Operator("a loop runs once too often", _has(scf.ForOp, 1), _changed(1, lambda n: n + 1)),
    Operator("a loop ends too early", _has(scf.ForOp, 1), _changed(1, lambda n: n - 1)),
    Operator("a loop skips iterations", _has(scf.ForOp, 2), _changed(2, lambda n: 2 * n)),
    Operator("a stride is too long", _has(arith.MuliOp, 1, 1), _changed(1, lambda n: n + 1)),
    Operator("a stride is too short", _has(arith.MuliOp, 1, 1), _changed(1, lambda n: n - 1)),
    Operator("a divisor is too large", _has(arith.DivUIOp, 1, 1), _changed(1, lambda n: n + 1)),
    Operator("a period is too long", _has(arith.RemUIOp, 1, 1), _changed(1, lambda n: n + 1)),
    Operator("a clamp is one too far", _has(arith.MinUIOp, 1), _changed(1, lambda n: n + 1)),
    Operator("a store is shifted", _is_store, _shifted(2)),
    Operator("a load is shifted", _is_load, _shifted(1)),
    Operator("workgroup memory is too small", lambda op: isinstance(op, wgsl.WorkgroupAllocOp), _halved),
    Operator("a workgroup is missing", lambda op: isinstance(op, DispatchOp) and max(op.groups) > 1, _fewer),
)


def mutants(module: ModuleOp, each: int) -> Iterator[tuple[str, ModuleOp]]:
    """Yields copies of a module with one fault in each, at up to `each` places per operator, evenly spread."""
    kernels = [op for op in module.walk() if isinstance(op, wgsl.KernelOp | cpu.KernelOp)]
    roots: list[Operation] = [*kernels, *(op for op in module.walk() if isinstance(op, DispatchOp))]
    within = {op for root in roots for op in root.walk()}
    for operator in OPERATORS:
        places = [number for number, op in enumerate(module.walk()) if op in within and operator.places(op)]
        chosen = places if len(places) <= each else [places[i * len(places) // each] for i in range(each)]
        for number in chosen:
            copy = module.clone()
            operator.plant(list(copy.walk())[number])
            yield f"{operator.name}, op {number}", copy
