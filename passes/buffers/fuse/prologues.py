"""Decides when contractions should compute an operand instead of reading it: the costs and savings of prologues.

A prologue saves a dispatch, and storing and loading the operand; on a CPU, its bytes count where caches don't hold it.
In return, the contraction computes each element once for each block of results that needs it, and may load more
operands; native code does so when it packs the operand, once for each tile, in vectors. Costs are in the unit of the
target's schedules: cycles of one core while all are busy on a CPU, bytes of memory on a GPU. A prologue pays if the
other side of the contraction is only a few blocks wide, or if the operand is cheap to compute from few others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr

from tensorgrad.passes.analyses.affine import used_dims
from tensorgrad.passes.analyses.identity import block_structure
from tensorgrad.passes.analyses.kinds import contraction_of
from tensorgrad.passes.analyses.machine import MOST_PROLOGUE_OPS, CpuModel, GpuModel, machine_of
from tensorgrad.passes.analyses.stages import Parts, put_together
from tensorgrad.passes.analyses.walking import operations
from tensorgrad.passes.buffers.fuse import cost
from tensorgrad.passes.buffers.fuse.inline import inline
from tensorgrad.passes.codegen.choose import contraction_cost
from tensorgrad.passes.codegen.common.weights import weight_of
from tensorgrad.runtime.target import Target


def reads_in_sum(reader: Parts, source: SSAValue) -> bool:
    """Returns whether a contraction reads a buffer inside its sum, rather than only in an epilogue."""
    return reader.contraction is not None and source in reader.contraction.buffers()


def prologue_fits(producer: Parts, reader: Parts) -> bool:
    """Returns whether a contraction remains short enough with a prologue: drivers compile long ones slowly."""
    assert reader.contraction is not None
    together = (producer.stages[0].body, reader.contraction.body)
    return sum(weight_of(operations(body)) for body in together) <= MOST_PROLOGUE_OPS


def prologue_pays(producer: Parts, readers: Sequence[Parts], costs: Costs, alone: bool = True) -> bool:
    """Returns whether it pays to compute a kernel in all of its readers instead of storing its result.

    Args:
        producer: A kernel of one pointwise stage with one output.
        readers: All readers of the output, some of them in the sum of a contraction.
        costs: The costs of contractions on the target.
        alone: Whether the producer would be a separate dispatch, rather than run after the reduction of its rows.
    """
    machine = machine_of(costs.target)
    if isinstance(machine, CpuModel):
        return _saved_cycles(producer, readers, machine, costs, alone) > 0
    return _saved_bytes(producer, readers, machine, costs, alone) > 0


def recomputing_is_slow(producer: Parts, reader: Parts, target: Target) -> bool:
    """Returns whether computing a kernel's elements wherever they are read takes longer, on a CPU, than its dispatch.

    What doesn't depend on inner loops of the reader is computed outside of them.
    """
    machine, source = machine_of(target), producer.outputs[0]
    if not isinstance(machine, CpuModel):
        return False
    times = -cost.points(producer.grid)
    for stage in reader.stages:
        for m in (m for buffer, m in stage.reads if buffer is source):
            loops = [result.position for result in m.results if isinstance(result, AffineDimExpr)]
            times += cost.points(stage.extents[: max(loops, default=-1) + 1])
    weight = sum(weight_of(operations(stage.body)) for stage in producer.stages)
    computing = _loading(producer, machine) + machine.operation * weight
    return _vectors([times], machine) * (computing - machine.load) > machine.saved_dispatch


# On a CPU


def _saved_cycles(producer: Parts, readers: Sequence[Parts], machine: CpuModel, costs: Costs, alone: bool) -> float:
    stage, source = producer.stages[0], producer.outputs[0]
    computing = _loading(producer, machine) + machine.operation * weight_of(operations(stage.body))
    saved = machine.saved_dispatch * alone + _vectors(producer.grid, machine) * (computing + machine.load)
    if cost.bytes_of([source]) > machine.near_bytes * machine.cores:
        saved += machine.byte * _unmoved_bytes(producer, readers) / machine.cores
    for reader in readers:
        if reads_in_sum(reader, source):
            before, after = (costs.of(reader, prologue) for prologue in (None, producer))
            saved -= machine.prologue_margin * (after - before)
            if saved <= 0:
                break  # further readers only add to the cost
        else:
            points = sum(_vectors(stage.extents, machine) for stage in reader.stages if source in stage.buffers())
            saved -= machine.prologue_margin * points * (computing - machine.load)
    return saved


def _loading(kernel: Parts, machine: CpuModel) -> float:
    """Returns the cost on a CPU of loading the operands of one point; operands that many points share cost less."""
    stage, points = kernel.stages[0], cost.points(kernel.grid)
    whole = sum(1 for _, m in stage.reads if cost.points([kernel.grid[loop] for loop in used_dims(m)]) == points)
    direct = machine.load * whole + machine.uniform_load * (len(stage.reads) - whole)
    return direct + machine.gather * len(stage.loads())


def _vectors(extents: Sequence[int], machine: CpuModel) -> float:
    """Returns the number of vectors of points that each core of a CPU computes."""
    return cost.points(extents) / (machine.lanes * machine.cores)


def _unmoved_bytes(producer: Parts, readers: Sequence[Parts]) -> float:
    """Returns the bytes that are neither stored nor loaded if readers load what the producer does."""
    size = cost.bytes_of(producer.outputs)
    again = sum(cost.bytes_of(v for v in producer.inputs if v not in reader.inputs) for reader in readers)
    return size * (1 + len(readers)) + cost.bytes_of(producer.inputs) - again


# On a GPU


def _saved_bytes(producer: Parts, readers: Sequence[Parts], machine: GpuModel, costs: Costs, alone: bool) -> float:
    source = producer.outputs[0]
    size = cost.bytes_of([source])
    read = cost.bytes_of(producer.inputs)
    saved = size + (machine.dispatch + read if alone else machine.cached * read)
    for reader in readers:
        saved += size - cost.bytes_of(value for value in producer.inputs if value not in reader.inputs)
        if reads_in_sum(reader, source):
            before, after = (costs.of(reader, prologue) for prologue in (None, producer))
            saved -= after - before
            if saved <= 0:
                break  # further readers only add to the cost
    return saved


# On both


@dataclass
class Costs:
    """The costs of contractions on a target, each estimated once for all layers that have it.

    Attributes:
        target: The device.
    """

    target: Target
    _known: dict[object, float] = field(default_factory=dict[object, float])

    def of(self, reader: Parts, producer: Parts | None) -> float:
        """Returns the cost of a reader's contraction, by itself or with a producer inlined."""
        structure = _structure(reader, producer)
        cost_of_structure = self._known.get(structure)
        if cost_of_structure is None:
            cost_of_structure = self._known[structure] = _contraction_cost(reader, producer, self.target)
        return cost_of_structure


def _structure(reader: Parts, producer: Parts | None) -> object:
    """Returns what the cost of a reader's contraction depends on, wherever its buffers are."""
    assert reader.contraction is not None
    stages = [reader.contraction, *(() if producer is None else producer.stages)]
    accesses = [(*stage.reads, *stage.writes) for stage in stages]
    buffers = [buffer for stage in stages for buffer in (*stage.buffers(), *(buffer for buffer, _ in stage.writes))]
    numbers = {buffer: number for number, buffer in enumerate(dict.fromkeys(buffers))}
    types = tuple(buffer.type for buffer in numbers)
    maps = tuple(tuple((numbers[buffer], m) for buffer, m in accessed) for accessed in accesses)
    loops = tuple((stage.extents, stage.own) for stage in stages)
    return reader.grid, types, maps, loops, tuple(tuple(block_structure(stage.body, numbers)) for stage in stages)


def _contraction_cost(reader: Parts, producer: Parts | None, target: Target) -> float:
    """Estimates the cost of a reader's contraction, by itself or with a producer inlined.

    The cost is infinite if the result is no longer a contraction: if the producer's values are the same for all rows,
    or for all columns, a block of results can't reuse them, and each result would recompute all of them.
    """
    assert reader.contraction is not None
    stage = reader.contraction.copy()
    parts = Parts(reader.grid, [stage], [buffer for buffer, _ in stage.writes], [])
    if producer is not None:
        inline(producer, parts)
    kernel = put_together(parts)
    contraction = contraction_of(kernel)
    result = math.inf if contraction is None else contraction_cost(kernel, contraction, target)
    kernel.erase()
    return result
