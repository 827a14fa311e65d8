"""Profiles the dispatches of a step with device timestamps."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import wgpu
from wgpu.backends import wgpu_native

from tensorgrad.runtime.errors import DeviceError
from tensorgrad.runtime.outputs import OutputHandle
from tensorgrad.runtime.profile import Profile, Span, profiled
from tensorgrad.runtime.program import Dispatch, runs, unrolled
from tensorgrad.runtime.webgpu.device import WebGPUDevice
from tensorgrad.runtime.webgpu.encoding import Command, NoHandleError, Segment, encode_command, native_library
from tensorgrad.runtime.webgpu.executable import WebGPUExecutable

MOST_DISPATCHES = 2048
"""The most dispatches per timestamp query set: WebGPU's sets hold at most 4096 timestamps."""


def profile(
    executable: WebGPUExecutable, inputs: Mapping[str, Any], scalars: Mapping[str, float], steps: int
) -> Profile:
    """Profiles steps; see `tensorgrad.runtime.profile.profiled`.

    Raises:
        InputError: Inputs or scalars don't fit.
        DeviceError: The device has no timestamps, or reported an error.
    """

    def step(inputs: Mapping[str, Any], scalars: Mapping[str, float]) -> None:
        executable.step(inputs, scalars)
        executable.device.wait()

    return profiled(executable.program, WebGPUTimer(executable), step, inputs, scalars, steps)


class WebGPUTimer:
    """Runs steps with a separate compute pass for each dispatch, with timestamps around it.

    So adjacent dispatches don't overlap, even on devices that could run them concurrently.

    Raises:
        DeviceError: The device has no timestamps.
    """

    def __init__(self, executable: WebGPUExecutable):
        self._executable = executable
        self._stamps = _Timestamps(executable.device)

    def step(
        self, inputs: Mapping[str, Any], scalars: Mapping[str, float]
    ) -> tuple[dict[str, OutputHandle], list[Span]]:
        """Runs a step; see `StepTimer`."""
        program = self._executable.program
        start = time.perf_counter()
        segments, index = self._executable.prepare(inputs, scalars)
        if self._stamps.device is not self._executable.device:  # the device was lost and replaced
            self._stamps = _Timestamps(self._executable.device)
        prepared = time.perf_counter()
        with self._executable.device.reporting(f"measuring {program.name!r}"):
            measured = list(self._stamps.measure(segments))
        end = time.perf_counter()
        numbers = {id(step): number for number, (step, _) in enumerate(runs(program.plan))}
        order = (step for step, _ in unrolled(program.plan) if isinstance(step, Dispatch))
        # The device clock has its own origin: assume that its last dispatch ends when the host observes the completion.
        last = measured[-1][1] if measured else 0.0
        kernels = [
            Span(
                program.kernels[step.kernel].entry,
                step.label,
                True,
                numbers[id(step)],
                end - last + begun,
                done - begun,
            )
            for step, (begun, done) in zip(order, measured, strict=True)
        ]
        host = [
            Span("upload", "", False, -1, start, prepared - start),
            Span("submit and wait", "", False, -1, prepared, end - prepared),
        ]
        return self._executable.outputs(index), [*host, *kernels]


class _Timestamps:
    """Runs commands with timestamps before and after each dispatch."""

    def __init__(self, device: WebGPUDevice):
        self.device = device
        self._seconds = _timestamp_seconds(device)
        self._set = device.wgpu_device.create_query_set(type=wgpu.QueryType.timestamp, count=2 * MOST_DISPATCHES)
        usage = wgpu.BufferUsage.QUERY_RESOLVE | wgpu.BufferUsage.COPY_SRC
        self._resolved = device.wgpu_device.create_buffer(label="timestamps", size=16 * MOST_DISPATCHES, usage=usage)

    def measure(self, segments: Sequence[Segment]) -> Iterator[tuple[float, float]]:
        """Runs commands and copies in order; yields the begin and end of each, in seconds since the first began."""
        self._first: np.uint64 | None = None
        encoder, count = self.device.wgpu_device.create_command_encoder(), 0
        for segment in segments:
            if not isinstance(segment, list):
                encoder.copy_buffer_to_buffer(*segment)
                continue
            for command in segment:
                self._encode(encoder, command, count)
                count += 1
                if count == MOST_DISPATCHES:
                    yield from self._finish(encoder, count)
                    encoder, count = self.device.wgpu_device.create_command_encoder(), 0
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

    def _finish(self, encoder: wgpu.GPUCommandEncoder, count: int) -> list[tuple[float, float]]:
        if count:
            encoder.resolve_query_set(self._set, 0, 2 * count, self._resolved, 0)
        self.device.wgpu_device.queue.submit([encoder.finish()])
        if not count:
            return []
        (raw,) = self.device.read_ranges([(self._resolved, 0, 16 * count)])
        stamps = raw.view(np.uint64).reshape(count, 2)
        first = stamps[0, 0] if self._first is None else self._first
        self._first = first
        # Unsigned differences are correct across a wraparound.
        return [
            (self._seconds * float(begun), self._seconds * float(done))
            for begun, done in zip(stamps[:, 0] - first, stamps[:, 1] - first, strict=True)
        ]


def _timestamp_seconds(device: WebGPUDevice) -> float:
    """Returns the period of the device's timestamps in seconds.

    Raises:
        DeviceError: There are no timestamps, or their period is unknown.
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
