"""Merges the two kernels of an attention's derivative into one, in native code."""

from __future__ import annotations

from tensorgrad.dialects.attention import BACKWARD, KEYS, QUERIES, AttentionOp
from tensorgrad.dialects.buf import element_bytes
from tensorgrad.passes.analyses.machine import CpuModel, machine_of
from tensorgrad.passes.analyses.stages import Parts
from tensorgrad.passes.tensors.attention_cost import joins_cotangents
from tensorgrad.runtime.target import Target


def as_one(queries: Parts, keys: Parts, target: Target) -> Parts | None:
    """Returns one kernel for all cotangents of an attention, or `None` if two are faster or the kernels don't match.

    Args:
        queries: The kernel that computes the queries' cotangent.
        keys: The kernel that computes the cotangents of keys and values.
        target: The device.
    """
    first, second, machine = queries.single, keys.single, machine_of(target)
    if not isinstance(first, AttentionOp) or not isinstance(second, AttentionOp) or not isinstance(machine, CpuModel):
        return None
    if not target.native or (first.part.data, second.part.data) != (QUERIES, KEYS):
        return None
    a, count = first.attention, len(first.inputs)
    first_maps, maps = first.affine_maps(), second.affine_maps()
    same = list(first.inputs) == list(second.inputs) and first_maps[:count] == maps[:count]
    if not same or first.parameters != second.parameters:
        return None
    if not joins_cotangents(a, machine, element_bytes(first.computed_in)):
        return None
    outputs = [*first.outputs, *second.outputs]
    whole = AttentionOp.of(BACKWARD, a, first.inputs, outputs, [*first_maps, *maps[count:]])
    whole.location = first.location
    return Parts(whole.grid, [], outputs, [], queries.location, whole)
