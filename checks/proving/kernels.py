"""Kernels of a module as subjects of proofs, for each grid in which they are dispatched."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerType, MemRefType, ModuleOp
from xdsl.ir import Block, SSAValue

from tensorgrad.checks.proving import solver
from tensorgrad.checks.proving.accesses import WRITES, Accesses, Uniformity
from tensorgrad.checks.proving.facts import Renaming
from tensorgrad.checks.proving.properties import Instances, Property, Status, Subject, Verdict, verdicts
from tensorgrad.checks.proving.symbols import Symbols
from tensorgrad.checks.proving.terms import Condition, Linear, Variable, nonnegative, number, of_atom
from tensorgrad.dialects import cpu, wgsl
from tensorgrad.dialects.buf import DispatchOp
from tensorgrad.dialects.buf_control import view_of
from tensorgrad.dialects.signature import read_slot
from tensorgrad.dialects.tg.base import dense_to_numpy

AXES = "xyz"


@dataclass(frozen=True)
class Proved:
    """What is known of a kernel.

    Attributes:
        kernel: The kernel's name.
        dialect: The dialect of the kernel, `wgsl` or `cpu`.
        groups: The numbers of workgroups of the dispatch.
        verdicts: What is known of each property.
    """

    kernel: str
    dialect: str
    groups: tuple[int, int, int]
    verdicts: tuple[Verdict, ...]

    def of(self, property_: Property) -> Verdict:
        """Returns what is known of a property."""
        return next(verdict for verdict in self.verdicts if verdict.property is property_)

    @property
    def open(self) -> Iterator[Verdict]:
        """Yields what is not proved."""
        return (verdict for verdict in self.verdicts if verdict.status is not Status.PROVED)

    @property
    def refuted(self) -> Iterator[Verdict]:
        """Yields what doesn't hold."""
        return (verdict for verdict in self.verdicts if verdict.status is Status.REFUTED)


def prove_module(module: ModuleOp) -> list[Proved]:
    """Proves what holds of each kernel of a module, in each of its dispatches, with z3 if it is installed.

    Args:
        module: A module of `wgsl` or `cpu` kernels and the functions that dispatch them.
    """
    asks = solver.is_installed()
    kernels = {op.sym_name.data: op for op in module.walk() if isinstance(op, wgsl.KernelOp | cpu.KernelOp)}
    results: dict[tuple[object, ...], Proved] = {}
    for dispatch in module.walk():
        if not isinstance(dispatch, DispatchOp):
            continue
        kernel = kernels.get(dispatch.kernel.root_reference.data)
        if kernel is not None:
            contents = _contents(dispatch)
            key = (kernel.sym_name.data, dispatch.groups, tuple(sorted(contents.items())))
            if key not in results:
                results[key] = _proved(kernel, dispatch, contents, asks)
    return list(results.values())


def _proved(
    kernel: wgsl.KernelOp | cpu.KernelOp, dispatch: DispatchOp, contents: dict[int, tuple[int, ...]], asks: bool
) -> Proved:
    block = kernel.body.block
    stored = {op.operands[1] for op in kernel.walk() if isinstance(op, WRITES)}
    constant = frozenset(argument for argument in block.args if argument not in stored)
    known: dict[SSAValue, tuple[int, ...]] = {block.args[place]: held for place, held in contents.items()}
    if isinstance(kernel, wgsl.KernelOp):
        subject = _of_shader(kernel, block, dispatch, known, constant, asks)
    else:
        subject = _of_native(block, dispatch, known, constant, asks)
    dialect = kernel.name.partition(".")[0]
    return Proved(kernel.sym_name.data, dialect, dispatch.groups, tuple(verdicts(subject)))


def _of_shader(
    kernel: wgsl.KernelOp,
    block: Block,
    dispatch: DispatchOp,
    contents: dict[SSAValue, tuple[int, ...]],
    constant: frozenset[SSAValue],
    asks: bool,
) -> Subject:
    size = tuple(kernel.workgroup_size.get_values())
    groups = dispatch.groups
    local = [_counter(f"local_id.{axis}", extent) for axis, extent in zip(AXES, size, strict=True)]
    group = [_counter(f"workgroup_id.{axis}", extent) for axis, extent in zip(AXES, groups, strict=True)]
    place = local[0].plus(local[1], size[0]).plus(local[2], size[0] * size[1])

    def leaf(value: SSAValue) -> Linear | None:
        match value.owner:
            case wgsl.LocalIdOp(dim=dim):
                return local[dim.value.data]
            case wgsl.WorkgroupIdOp(dim=dim):
                return group[dim.value.data]
            case wgsl.GlobalIdOp(dim=dim):
                return group[dim.value.data].times(size[dim.value.data]).plus(local[dim.value.data])
            case wgsl.NumWorkgroupsOp(dim=dim):
                return number(groups[dim.value.data])
            case wgsl.LocalIndexOp():
                return place
            case wgsl.SubgroupLaneOp():
                return of_atom(Variable("subgroup_lane", (0, min(math.prod(size), 128) - 1), True))
            case _:
                return None

    symbols = Symbols(leaf, 32, contents, constant)
    own = _variables(local)
    instances = Instances((*own, *_variables(group)), own)
    return Subject(symbols, Accesses(symbols, block), Uniformity(constant), instances, (), asks)


def _counter(name: str, extent: int) -> Linear:
    return of_atom(Variable(name, (0, extent - 1))) if extent > 1 else number(0)


def _variables(values: list[Linear]) -> tuple[Variable, ...]:
    return tuple(atom for value in values for atom in value.terms if isinstance(atom, Variable))


def _of_native(
    block: Block,
    dispatch: DispatchOp,
    contents: dict[SSAValue, tuple[int, ...]],
    constant: frozenset[SSAValue],
    asks: bool,
) -> Subject:
    tasks = math.prod(dispatch.groups)
    first, last = Variable("first", (0, tasks - 1)), Variable("last", (1, tasks))
    begin, end = block.args[-2:]

    def leaf(value: SSAValue) -> Linear | None:
        return of_atom(first) if value is begin else of_atom(last) if value is end else None

    symbols = Symbols(leaf, 64, contents, constant)
    ordered: Condition = nonnegative(of_atom(last).minus(of_atom(first)).plus(number(-1)))
    later = nonnegative(Renaming().variable(first).minus(of_atom(last)))
    instances = Instances((first,), (), (later,), ((first, number(0)), (last, number(tasks))))
    return Subject(symbols, Accesses(symbols, block), Uniformity(constant), instances, (ordered,), asks)


def _contents(dispatch: DispatchOp) -> dict[int, tuple[int, ...]]:
    """Returns the integers in a dispatch's bindings whose contents are constant."""
    result: dict[int, tuple[int, ...]] = {}
    for place, value in enumerate(dispatch.bindings):
        if isinstance(value.type, MemRefType):
            held = read_slot(view_of(value).attributes).value
            if held is not None and isinstance(value.type.element_type, IntegerType):
                array = dense_to_numpy(cast("DenseIntOrFPElementsAttr[IntegerType]", held)).reshape(-1)
                result[place] = tuple(array.tolist())
    return result
