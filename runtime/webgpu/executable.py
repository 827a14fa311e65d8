"""A program loaded on a WebGPU device: its buffers, steps, parameters and state."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from threading import RLock
from typing import Any, TypeVar

import numpy as np
import wgpu

from tensorgrad.runtime.backend import NOTHING
from tensorgrad.runtime.errors import DeviceError
from tensorgrad.runtime.executable import ProgramExecutable
from tensorgrad.runtime.outputs import OutputHandle, OutputRing
from tensorgrad.runtime.profile import busiest, named
from tensorgrad.runtime.program import Collective, Copy, Dispatch, Leaf, Program, ProgramRole, Wait, runs, unrolled
from tensorgrad.runtime.stepwise import Stepwise
from tensorgrad.runtime.webgpu.device import LOCK, WebGPUDevice
from tensorgrad.runtime.webgpu.encoding import LOOP_CHECKS, NO_CHECKS, Command, CopyCommand, Recording, Segment
from tensorgrad.runtime.webgpu.exchanging import Exchanging, UnderWay, Waiting
from tensorgrad.runtime.webgpu.patient_device import PatientDevice
from tensorgrad.runtime.webgpu.pipelines import Pipeline, pipelines_of

LEAST_GAP = 1 << 12
"""Ranges to upload with a smaller gap between them, in bytes, are merged."""

OUT_OF_MEMORY = ("not enough memory", "out of memory", "outofmemory")
"""Phrases in reports of failed allocations; wgpu reports some of them as validation errors."""

Result = TypeVar("Result")


def _lock_of(program: Program) -> RLock:
    """Returns the lock of a program's steps: its own if it waits for other processes, which threads may simulate."""
    waits = any(isinstance(step, Collective) for step, _ in runs(program.plan))
    return RLock() if waits else LOCK


class WebGPUExecutable(ProgramExecutable[WebGPUDevice, wgpu.GPUBuffer]):
    """A program on a device, with parameters and state initialized to zero.

    Args:
        program: The program to run.
        device: The device to run it on.
        share: An executable on the same device whose parameters and state this one shares, instead of its own.
        in_turn: Whether to reuse its inputs and temporaries too, where they are large enough. That is safe between
            steps, which never overlap.
        timeout: How many seconds to wait for the device in one call; `None` for no limit.
        trusted: Whether our compiler wrote the kernels, now or for its cache. They run without the checks that keep
            what others wrote within its own memory, unless the target has `check_bounds`.

    Raises:
        ProgramError: The program is malformed, or its parameters are laid out differently from those of `share`.
        TargetError: The program doesn't fit the device.
        DeviceError: A kernel doesn't compile (says which), or there is not enough memory.
    """

    def __init__(
        self,
        program: Program,
        device: WebGPUDevice,
        share: WebGPUExecutable | None = None,
        in_turn: bool = False,
        timeout: float | None = None,
        trusted: bool = False,
    ):
        super().__init__(program, device, device.target, _lock_of(program) if share is None else share.lock)
        self._indirect = _indirect_buffers(program)
        self.timeout = timeout
        self._trusted = trusted
        most = busiest(program)
        self._described = f"{program.name!r}" + (f", in which {most} has the most to do" if most else "")
        self._running = f"running {self._described}"
        self._load(share, in_turn)

    def _load(self, share: WebGPUExecutable | None, in_turn: bool) -> None:
        """Creates the pipelines and zeroed buffers; see the class."""
        self._pipelines = self._within("compiling", self._compile)
        self._buffers = self._within("allocating", lambda: self._allocated(share, in_turn))
        self._ring = self._new_ring(PatientDevice(self.device, self.timeout, self._described))
        self._groups: dict[tuple[object, ...], wgpu.GPUBindGroup] = {}
        self._recordings: dict[int, tuple[list[Recording | Exchanging | Waiting], Recording]] = {}
        self._under_way: UnderWay = {}
        self._prepare_inputs()

    def _compile(self) -> dict[Dispatch, Pipeline]:
        with self.device.reporting(f"loading {self.program.name!r}"):
            return pipelines_of(self.program, self.device.wgpu_device, self.device.compile_threads, self._checks)

    @property
    def _checks(self) -> int | None:
        """What kernels check at run time; see `pipelines.shader_module`."""
        target = self.device.target
        if not self._trusted or target.check_bounds:
            return None
        # A software adapter's LLVM unrolls loops that aren't bounded, and compiles for half as long again, for nothing.
        return LOOP_CHECKS if target.software else NO_CHECKS

    def _allocated(self, share: WebGPUExecutable | None, in_turn: bool) -> dict[int, wgpu.GPUBuffer]:
        """Returns the buffers; see `_allocate`."""
        try:
            return self._allocate(share, in_turn, self._indirect)
        except DeviceError as error:
            if not any(words in str(error).lower() for words in OUT_OF_MEMORY):
                raise
            total = sum(buffer.size for buffer in self.program.buffers)
            raise DeviceError(
                f"{error}\n{self.program.name!r} takes {total} bytes on the device in all; with a memory_limit a "
                "training is compiled to take less"
            ) from error

    def _new_ring(self, device: PatientDevice) -> OutputRing[wgpu.GPUBuffer]:
        return OutputRing(self.program, device, self.lock)

    def _within(self, doing: str, call: Callable[[], Result]) -> Result:
        """Makes a device call with the executable's timeout.

        Raises:
            DeviceError: It timed out, or the device reported an error.
        """
        if self.timeout is None:
            return call()
        return self.device.worker.run(f"{doing} {self._described}", call, self.timeout)

    def _new_buffer(self, index: int) -> wgpu.GPUBuffer:
        """Returns a new buffer for the program's buffer of this index, with its initial data."""
        buffer = self.program.buffers[index]
        result = self.device.create_buffer(buffer.name, buffer.size, indirect=index in self._indirect)
        if buffer.data:
            self.device.write_range(result, 0, buffer.data + bytes(-len(buffer.data) % 4))
        return result

    def _read_ranges(self, ranges: Sequence[tuple[wgpu.GPUBuffer, int, int]]) -> list[np.ndarray]:
        """Returns the bytes of (buffer, offset, size) ranges, after all submitted work has completed."""
        doing = f"reading parameters of {self._described}"
        return self._within("reading parameters of", lambda: self.device.read_ranges(ranges, doing))

    def _write_ranges(self, ranges: Iterable[tuple[wgpu.GPUBuffer, int, np.ndarray]]) -> None:
        """Writes bytes to buffers at the given offsets, ordered after all earlier submits."""
        doing = f"writing parameters of {self.program.name!r}"
        self._within("writing to", lambda: self.device.write_ranges(ranges, doing))

    def _prepare_inputs(self) -> None:
        """Creates one host array for all inputs and scalars, with a view for each."""
        indices = [i for i, buffer in enumerate(self.program.buffers) if buffer.role == ProgramRole.INPUT]
        self._input_buffer = self._buffers[indices[0]] if indices else None
        self._host = np.zeros(self.program.buffers[indices[0]].size if indices else 0, np.uint8)
        self._input_views, self._scalar_views = (
            {name: slot.view(self._host, slot.offset) for name, slot in slots.items()}
            for slots in (self.program_inputs, self._scalar_slots)
        )
        self._new_ranges = [(0, len(self._host))]

    def step(
        self, inputs: Mapping[str, Any], scalars: Mapping[str, float], constant: Mapping[str, np.ndarray] = NOTHING
    ) -> dict[str, OutputHandle]:
        """Runs the program once, asynchronously.

        Args:
            inputs: An array for each of `program_inputs` that is not in `constant`.
            scalars: The scalars, including those that formulas read.
            constant: The inputs that never change: an array that was passed in the last step is not uploaded again,
                and a mapping that was passed there not looked at.

        Returns:
            A handle for each output.

        Raises:
            InputError: An input is missing, unknown, or of the wrong shape or dtype; nothing has changed.
            DeviceError: The device reported an error.
        """
        with self.lock:
            before, filled = self._filled, self._fill(inputs, scalars, constant)
            if filled is not before or not filled.constant:
                self._new_ranges = self._ranges_without(filled.unchanged)
            index = self._within("running", self._submit)
            self._filled = filled
            return self._ring.handles(index)

    def _submit(self) -> int:
        """Submits a step with the filled-in inputs; returns the ring slot of its outputs."""
        with self.device.reporting(self._running):
            index = self._next()
            if index not in self._recordings:
                self._recordings[index] = self._recorded(index)
            parts, last = self._recordings[index]
            try:
                for part in parts:
                    part.submit()
                last.submit(self.runs)
            finally:
                self._under_way.clear()  # left over from a step that failed
        return index

    def _recorded(self, index: int) -> tuple[list[Recording | Exchanging | Waiting], Recording]:
        """Returns the plan with this ring slot's buffers: submits, with group exchanges in between; and the last."""
        buffers = {**self._buffers, **self._ring.buffers(index)}
        parts: list[Recording | Exchanging | Waiting] = []
        submitted: list[Segment] = []
        for segment in self._segments(index):
            if not isinstance(segment, Collective | Wait):
                submitted.append(segment)
                continue
            if submitted:
                parts.append(self.device.recorded(submitted))
                submitted = []
            if isinstance(segment, Wait):
                parts.append(Waiting(segment, self._under_way))
            else:
                parts.append(Exchanging(self.device, segment, buffers, self._under_way))
        return parts, self.device.recorded(submitted)

    def prepare(self, inputs: Mapping[str, Any], scalars: Mapping[str, float]) -> tuple[list[Segment], int]:
        """Prepares a step without running it.

        Returns:
            The commands, to be run before any other step, and the index to pass to `outputs` afterwards.

        Raises:
            InputError: As `step`.
            DeviceError: As `step`, or the program has collectives.
        """
        if any(isinstance(step, Collective) for step, _ in runs(self.program.plan)):
            raise DeviceError(f"{self.program.name!r} has collectives: such a step can be measured on the CPU alone")
        self._new_ranges = self._ranges_without(self._fill(inputs, scalars).unchanged)
        with self.device.reporting(f"preparing {self.program.name!r}"):
            index = self._next()
            return [segment for segment in self._segments(index) if not isinstance(segment, Collective | Wait)], index

    def stepwise(self, inputs: Mapping[str, Any], scalars: Mapping[str, float]) -> Stepwise[wgpu.GPUBuffer]:
        """Prepares a step; see `ProgramExecutable.stepwise`."""
        self._new_ranges = self._ranges_without(self._fill(inputs, scalars).unchanged)
        with self.device.reporting(f"preparing {self.program.name!r}"):
            index = self._next()
        buffers = {**self._buffers, **self._ring.buffers(index)}

        def run(step: Leaf, times: tuple[int, ...]) -> None:
            if isinstance(step, Collective):
                Exchanging(self.device, step, buffers, self._under_way).submit()
                return
            if isinstance(step, Wait):
                Waiting(step, self._under_way).submit()
                return
            doing = "copying" if isinstance(step, Copy) else f"running {named(self.program, step)}"
            with self.device.reporting(doing):
                segment = (
                    _copied(step, buffers) if isinstance(step, Copy) else [_at(self._command(step, buffers), times)]
                )
                self.device.recorded([segment]).submit()

        return Stepwise(buffers, run, self._read_ranges, self._write_ranges)

    def outputs(self, index: int) -> dict[str, OutputHandle]:
        """Returns the outputs of a prepared step that has run."""
        self.runs.count_with(int)
        return self._ring.handles(index)

    def _ranges_without(self, uploaded: Collection[str]) -> list[tuple[int, int]]:
        """Returns the (start, end) ranges of the input buffer to upload, without inputs already on the device."""
        if not uploaded:
            return [(0, len(self._host))]
        slots = [*self.program_inputs.values(), *self._scalar_slots.values()]
        results: list[tuple[int, int]] = []
        for slot in sorted(slots, key=lambda slot: slot.offset):
            if slot.name in uploaded and slot.name in self.program_inputs:
                continue
            start, end = slot.offset, slot.offset + -(-slot.size // 4) * 4
            if results and start - results[-1][1] < LEAST_GAP:
                results[-1] = (results[-1][0], end)
            else:
                results.append((start, end))
        return results

    def _next(self) -> int:
        """Uploads the inputs of the next step; returns the ring slot that it uses."""
        index = self._ring.acquire()
        if self._input_buffer is not None:
            for start, end in self._new_ranges:
                self.device.write_range(self._input_buffer, start, self._host[start:end])
        return index

    def _segments(self, index: int) -> list[Segment | Collective | Wait]:
        """Returns the plan with this ring slot's buffers; dispatches that touch no output share their bind groups."""
        buffers = {**self._buffers, **self._ring.buffers(index)}
        segments: list[Segment | Collective | Wait] = []
        known: dict[int, Command] = {}
        for step, times in unrolled(self.program.plan):
            if isinstance(step, Collective | Wait):
                segments.append(step)
                continue
            if isinstance(step, Copy):
                segments.append(_copied(step, buffers))
                continue
            if not segments or not isinstance(segments[-1], list):
                segments.append([])
            if id(step) not in known:
                known[id(step)] = self._command(step, buffers)
            commands = segments[-1]
            assert isinstance(commands, list)
            commands.append(_at(known[id(step)], times))
        return segments

    def _command(self, step: Dispatch, buffers: Mapping[int, wgpu.GPUBuffer]) -> Command:
        """Resolves a dispatch for the first iteration of its enclosing loops."""
        pipeline = self._pipelines[step]
        indirect = None if step.indirect is None else (buffers[step.indirect[0]], step.indirect[1])
        strides = tuple(binding.strides for binding in step.bindings if binding.strides)
        group = self._group(step, pipeline.layout, buffers)
        return Command(pipeline.compiled, group, step.workgroups, (0,) * len(strides), indirect, strides)

    def _group(
        self, step: Dispatch, layout: wgpu.GPUBindGroupLayout, buffers: Mapping[int, wgpu.GPUBuffer]
    ) -> wgpu.GPUBindGroup:
        resources = [{"buffer": buffers[b.buffer], "offset": b.offset, "size": b.size} for b in step.bindings]
        key = (id(layout), *((id(r["buffer"]), r["offset"], r["size"]) for r in resources))
        if key not in self._groups:
            entries = [{"binding": i, "resource": resource} for i, resource in enumerate(resources)]
            with self.device.reporting(f"binding the buffers of {named(self.program, step)}"):
                self._groups[key] = self.device.wgpu_device.create_bind_group(layout=layout, entries=entries)
        return self._groups[key]

    def statistics(self) -> dict[str, Any]:
        """Returns `ProgramExecutable.statistics`, including the staging buffer for reads."""
        statistics = super().statistics()
        return {**statistics, "device_bytes": statistics["device_bytes"] + self.device.staging_bytes}


def _copied(step: Copy, buffers: Mapping[int, wgpu.GPUBuffer]) -> CopyCommand:
    ends = buffers[step.source], step.source_offset, buffers[step.destination]
    return (*ends, step.destination_offset, step.size)


def _at(command: Command, times: tuple[int, ...]) -> Command:
    """Returns a command for these iteration indices of its enclosing loops."""
    if not times or not command.strides:
        return command
    offsets = [sum(map(operator.mul, strides, times)) for strides in command.strides]
    return replace(command, offsets=tuple(offsets))


def _indirect_buffers(program: Program) -> set[int]:
    """Returns the buffers that hold workgroup counts."""
    steps = (step for step, _ in runs(program.plan))
    return {step.indirect[0] for step in steps if isinstance(step, Dispatch) and step.indirect is not None}
