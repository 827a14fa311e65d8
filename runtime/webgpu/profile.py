"""What each dispatch of a step takes on the device, by timestamps that the device itself writes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import wgpu
from wgpu.backends import wgpu_native

from tensorgrad.runtime.errors import DeviceError
from tensorgrad.runtime.profile import Profile
from tensorgrad.runtime.program import Dispatch, unrolled
from tensorgrad.runtime.webgpu.device import WebGPUDevice
from tensorgrad.runtime.webgpu.encoding import Command, NoHandleError, Segment, encode_command, native_library
from tensorgrad.runtime.webgpu.executable import WebGPUExecutable
from tensorgrad.runtime.webgpu.reporting import reporting

MOST_DISPATCHES = 2048
"""How many dispatches one set of timestamps is for: WebGPU's sets have 4096 at most."""


def profile(
    executable: WebGPUExecutable, inputs: Mapping[str, Any], scalars: Mapping[str, float], steps: int
) -> Profile:
    """Runs steps, and measures what their dispatches take: medians over the steps.

    These are steps as any others, so parameters and state change. Each dispatch has a compute pass of its own, which
    keeps neighbours from running at the same time where a device would.

    Args:
        executable: What to run.
        inputs: As for its `step`.
        scalars: As for its `step`.
        steps: How many are measured, twice: dispatch by dispatch, and as a whole. One more runs first.

    Raises:
        InputError: Inputs or scalars don't fit.
        DeviceError: The device has no timestamps, or what it reported.
    """
    stamps = _Timestamps(executable.device)
    plan = executable.program.plan
    _wait(executable, inputs, scalars)
    measured: dict[int, list[float]] = {}
    for _ in range(steps):
        seconds: dict[int, float] = {}
        order = (step for step, _ in unrolled(plan) if isinstance(step, Dispatch))
        with reporting(f"measuring {executable.program.name!r}"):
            for step, taken in zip(order, stamps.measure(executable.prepare(inputs, scalars)), strict=True):
                seconds[id(step)] = seconds.get(id(step), 0.0) + taken
        for key, taken in seconds.items():
            measured.setdefault(key, []).append(taken)
    whole = [_wait(executable, inputs, scalars) for _ in range(steps)]
    return Profile.of(executable.program, measured, whole)


def _wait(executable: WebGPUExecutable, inputs: Mapping[str, Any], scalars: Mapping[str, float]) -> float:
    """Runs a step and waits for its end; the seconds that took."""
    start = time.perf_counter()
    executable.step(inputs, scalars)
    executable.device.wait()
    return time.perf_counter() - start


class _Timestamps:
    """Runs commands with timestamps before and behind each dispatch."""

    def __init__(self, device: WebGPUDevice):
        self._device = device
        self._seconds = _timestamp_seconds(device)
        self._set = device.wgpu_device.create_query_set(type=wgpu.QueryType.timestamp, count=2 * MOST_DISPATCHES)
        usage = wgpu.BufferUsage.QUERY_RESOLVE | wgpu.BufferUsage.COPY_SRC
        self._resolved = device.wgpu_device.create_buffer(label="timestamps", size=16 * MOST_DISPATCHES, usage=usage)

    def measure(self, segments: Sequence[Segment]) -> Iterator[float]:
        """Runs commands and copies in order; the seconds of each dispatch."""
        encoder, count = self._device.wgpu_device.create_command_encoder(), 0
        for segment in segments:
            if not isinstance(segment, list):
                encoder.copy_buffer_to_buffer(*segment)
                continue
            for command in segment:
                self._encode(encoder, command, count)
                count += 1
                if count == MOST_DISPATCHES:
                    yield from self._finish(encoder, count)
                    encoder, count = self._device.wgpu_device.create_command_encoder(), 0
        yield from self._finish(encoder, count)

    def _encode(self, encoder: wgpu.GPUCommandEncoder, command: Command, place: int) -> None:
        compute = encoder.begin_compute_pass(
            timestamp_writes={
                "query_set": self._set,
                "beginning_of_pass_write_index": 2 * place,
                "end_of_pass_write_index": 2 * place + 1,
            }
        )
        encode_command(compute, command.pipeline, command.group, command)
        compute.end()

    def _finish(self, encoder: wgpu.GPUCommandEncoder, count: int) -> list[float]:
        if count:
            encoder.resolve_query_set(self._set, 0, 2 * count, self._resolved, 0)
        self._device.wgpu_device.queue.submit([encoder.finish()])
        if not count:
            return []
        (raw,) = self._device.read_ranges([(self._resolved, 0, 16 * count)])
        stamps = raw.view(np.uint64).reshape(count, 2)
        # A difference of unsigned numbers is right across an overflow too.
        return [self._seconds * float(ticks) for ticks in stamps[:, 1] - stamps[:, 0]]


def _timestamp_seconds(device: WebGPUDevice) -> float:
    """Returns what one tick of the device's timestamps takes.

    Raises:
        DeviceError: There are no timestamps, or nothing says what a tick takes.
    """
    if "timestamp-query" not in device.wgpu_device.features:
        raise DeviceError(f"{device.info.name} has no timestamps (WebGPU's feature timestamp-query)")
    library = native_library()
    period = getattr(wgpu_native.lib, "wgpuQueueGetTimestampPeriod", None)
    try:
        if library is not None and period is not None:
            return 1e-9 * float(period(library.handle(device.wgpu_device.queue)))
    except NoHandleError:
        pass
    raise DeviceError("this version of wgpu does not tell what a timestamp stands for")
