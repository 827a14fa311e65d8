"""Measures what kernels reach on a device at best: the roofline that a report compares kernels with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.context import Context

from tensorgrad.dialects.signature import Role, Slot, slots_attribute
from tensorgrad.driver.device import described, load_program
from tensorgrad.errors import DeviceError
from tensorgrad.passes.codegen.build_program import build_program
from tensorgrad.passes.pipelines import device_passes, forward_passes
from tensorgrad.runtime.cpu import CpuExecutable
from tensorgrad.runtime.cpu.profile import profile as profile_on_cpu
from tensorgrad.runtime.profile import Cost, Peaks, Profile, costs_of
from tensorgrad.tracing.dtypes import Spec
from tensorgrad.tracing.tracer import checked_module, trace_call

if TYPE_CHECKING:
    from tensorgrad.driver.device import ProgramDevice
    from tensorgrad.runtime.executable import ProgramExecutable

MOVED = 1 << 24
"""The elements of f32 that are read, and as many written, to measure memory: no cache holds them."""

EXTENT, EXTENT_OF_GPUS = 512, 4096
"""The rows and columns of the matrices whose product measures arithmetic."""

STEPS = 5
"""How often each is measured; the median counts."""

_KNOWN: dict[str, Peaks | None] = {}


def peaks_of(device: ProgramDevice) -> Peaks | None:
    """Returns what kernels reach on a device, measured once in a process; `None` if it can't measure them."""
    name = described(device)
    if name not in _KNOWN:
        try:
            _KNOWN[name] = _measured(device)
        except DeviceError:  # it has no timestamps, or too little memory
            _KNOWN[name] = None
    return _KNOWN[name]


def _measured(device: ProgramDevice) -> Peaks | None:
    target = device.target
    extent = EXTENT if target.native or target.software else EXTENT_OF_GPUS
    moved, seconds = _timed(device, lambda x: -x, (MOVED,))
    product, seconds_of_product = _timed(device, lambda x: x @ x, (extent, extent))
    if not seconds or not seconds_of_product:  # timestamps are too coarse
        return None
    return Peaks(moved.bytes / seconds, product.flops / seconds_of_product)


def _timed(device: ProgramDevice, function: Callable[[Any], Any], shape: tuple[int, ...]) -> tuple[Cost, float]:
    """Returns the cost of a function of one input, and the time that its kernels take together."""
    traced, _ = trace_call("peak", function, [Spec(shape, np.dtype(np.float32))], [Slot("x", Role.INPUT)])
    traced.properties["res_attrs"] = slots_attribute([Slot("y", Role.OUTPUT)])
    module, context = checked_module(traced), Context()
    for pass_ in (*forward_passes(device.target), *device_passes(device.target, None, False, None)):
        pass_.apply(context, module)
    executable = load_program(device, build_program(module, device.target))
    inputs = {"x": np.full(shape, 1.0 / shape[-1], np.float32)}
    costs = costs_of(executable.program)
    cost = Cost(sum(cost.bytes for cost in costs), sum(cost.flops for cost in costs))
    return cost, _profiled(executable, inputs).device_seconds


def _profiled(executable: ProgramExecutable[Any, Any], inputs: dict[str, np.ndarray]) -> Profile:
    if isinstance(executable, CpuExecutable):
        return profile_on_cpu(executable, inputs, {}, STEPS)
    from tensorgrad.runtime.webgpu import WebGPUExecutable
    from tensorgrad.runtime.webgpu.profile import profile as profile_on_adapter

    assert isinstance(executable, WebGPUExecutable)
    return profile_on_adapter(executable, inputs, {}, STEPS)
