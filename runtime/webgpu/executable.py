"""A program that is loaded on a device: its buffers, its steps, its parameters and state."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import wgpu

from tensorgrad.runtime.backend import OutputHandle, OutputRing, ScalarInputs, check_inputs
from tensorgrad.runtime.errors import InputError, ProgramError
from tensorgrad.runtime.program import PERSISTENT_ROLES, Copy, Dispatch, Program, TensorSlot, runs, unrolled
from tensorgrad.runtime.sharing import persistent_in, temporary_in
from tensorgrad.runtime.webgpu.device import MOST_STAGING, WebGPUDevice
from tensorgrad.runtime.webgpu.encoding import Command, Recording, Segment
from tensorgrad.runtime.webgpu.patience import PatientDevice
from tensorgrad.runtime.webgpu.pipelines import pipelines_of
from tensorgrad.runtime.webgpu.reporting import reporting

LEAST_GAP = 1 << 12
"""Ranges to upload that are nearer to each other, in bytes, are uploaded as one."""

Result = TypeVar("Result")


class WebGPUExecutable:
    """A program on a device, with parameters and state that start at zero. It is for one thread at a time.

    Args:
        program: What to run.
        device: Where.
        share: An executable on the same device whose parameters and state this one uses too, instead of its own.
        in_turn: Whether to use the memory of its inputs and temporary values too, as far as that suffices. That is safe
            between any steps, which run one after another.
        timeout: For how many seconds to wait for the device at a time, `None` for as long as it takes.

    Attributes:
        shared_bytes: How much of the memory that the program takes is that of `share`.

    Raises:
        ProgramError: The program is malformed, or its parameters are not those of `share`.
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
    ):
        program.validate()
        program.check_fits(device.target)
        self.program = program
        self.device = device
        self.program_inputs: Mapping[str, TensorSlot] = program.slots("input")
        self.persistent: Mapping[str, TensorSlot] = program.slots(*PERSISTENT_ROLES)
        self._scalar_slots = program.slots("scalar")
        self._scalars = ScalarInputs(list(self._scalar_slots.values()))
        self.scalar_names = self._scalars.names
        indirect = _indirect_buffers(program)
        shared = {} if share is None else self._shared(share, in_turn, indirect)
        self.shared_bytes = sum(program.buffers[index].size for index in shared)
        self.timeout = timeout
        self._pipelines = self._within(
            "compiling", lambda: pipelines_of(program, device.wgpu_device, device.compile_threads)
        )
        self._buffers = self._within("allocating", lambda: self._create_buffers(shared, indirect))
        self._ring = OutputRing(program, device if timeout is None else PatientDevice(device, device.worker, timeout))
        self._groups: dict[tuple[object, ...], wgpu.GPUBindGroup] = {}
        self._recordings: dict[int, Recording] = {}
        self._prepare_inputs()

    def _within(self, doing: str, call: Callable[[], Result]) -> Result:
        """Calls what talks to the device, which is waited for so long as was said.

        Raises:
            DeviceError: It took longer, or what the device reported.
        """
        if self.timeout is None:
            return call()
        return self.device.worker.run(f"{doing} {self.program.name!r}", call, self.timeout)

    def _shared(self, share: WebGPUExecutable, in_turn: bool, indirect: Collection[int]) -> dict[int, wgpu.GPUBuffer]:
        """Returns the other executable's buffers that this one uses, by our index."""
        if share.device is not self.device:
            raise ProgramError("parameters can be shared on one device only")
        found = persistent_in(self.program, share.program)
        if in_turn:
            found |= {i: other for i, other in temporary_in(self.program, share.program).items() if i not in indirect}
        return {index: share._buffers[other] for index, other in found.items()}

    def _create_buffers(
        self, shared: Mapping[int, wgpu.GPUBuffer], indirect: Collection[int]
    ) -> dict[int, wgpu.GPUBuffer]:
        """Returns all buffers by index, but the outputs', which the ring has."""
        buffers: dict[int, wgpu.GPUBuffer] = {}
        for index, buffer in enumerate(self.program.buffers):
            if buffer.role == "output":
                continue
            if index in shared:
                buffers[index] = shared[index]
                continue
            buffers[index] = self.device.create_buffer(buffer.name, buffer.size, indirect=index in indirect)
            if buffer.data:
                padded = buffer.data + bytes(-len(buffer.data) % 4)
                self.device.write_range(buffers[index], 0, padded)
        return buffers

    def _prepare_inputs(self) -> None:
        """One host array holds all inputs and scalars, with a view for each."""
        indices = [i for i, buffer in enumerate(self.program.buffers) if buffer.role == "input"]
        self._input_buffer = self._buffers[indices[0]] if indices else None
        self._host = np.zeros(self.program.buffers[indices[0]].size if indices else 0, np.uint8)
        self._input_views, self._scalar_views = (
            {name: slot.view(self._host, slot.offset) for name, slot in slots.items()}
            for slots in (self.program_inputs, self._scalar_slots)
        )
        self._uploaded: Mapping[str, Any] = {}
        self._new_ranges = [(0, len(self._host))]

    def step(
        self, inputs: Mapping[str, Any], scalars: Mapping[str, float], constant: Collection[str] = ()
    ) -> dict[str, OutputHandle]:
        """Runs the program once, without waiting for it.

        Args:
            inputs: One array for each of `program_inputs`.
            scalars: What the scalars are, or what their formulas are computed from.
            constant: The inputs whose arrays never change: one that was given in the last step is not uploaded again.

        Returns:
            A handle for each output.

        Raises:
            InputError: Something is missing, unknown, or of the wrong shape or dtype; nothing has changed.
            DeviceError: What the device reported.
        """
        self._fill(inputs, scalars, constant)
        return self._ring.handles(self._within("running", self._submit))

    def _submit(self) -> int:
        """Runs the program with what was filled in; the slot of the ring that has its outputs."""
        with reporting(f"running {self.program.name!r}"):
            index = self._next()
            if index not in self._recordings:
                self._recordings[index] = self.device.recorded(self._segments(index))
            self._recordings[index].submit()
        return index

    def prepare(self, inputs: Mapping[str, Any], scalars: Mapping[str, float]) -> list[Segment]:
        """Prepares a step without running it; it has no outputs.

        Returns:
            The commands, for the caller to run before any other step.

        Raises:
            InputError, DeviceError: As `step`.
        """
        self._fill(inputs, scalars)
        with reporting(f"preparing {self.program.name!r}"):
            return self._segments(self._next())

    def _fill(self, inputs: Mapping[str, Any], scalars: Mapping[str, float], constant: Collection[str] = ()) -> None:
        """Checks what a step is given, and puts what is new of it where it is uploaded from."""
        arrays = check_inputs(self.program_inputs, inputs)
        numbers = self._scalars.evaluate(scalars)
        uploaded = {name: inputs[name] for name in constant if self._uploaded.get(name) is inputs[name]}
        for name, array in arrays.items():
            if name not in uploaded:
                self._input_views[name][...] = array
        for name, number in numbers.items():
            self._scalar_views[name][...] = number
        self._new_ranges = self._ranges_without(uploaded)
        self._uploaded = {name: inputs[name] for name in constant}

    def _ranges_without(self, uploaded: Collection[str]) -> list[tuple[int, int]]:
        """Returns the ranges of the input buffer to upload, where some inputs are on the device: starts and ends."""
        if not uploaded:
            return [(0, len(self._host))]
        slots = [*self.program_inputs.values(), *self._scalar_slots.values()]
        found: list[tuple[int, int]] = []
        for slot in sorted(slots, key=lambda slot: slot.offset):
            if slot.name in uploaded and slot.name in self.program_inputs:
                continue
            start, end = slot.offset, slot.offset + -(-slot.size // 4) * 4
            if found and start - found[-1][1] < LEAST_GAP:
                found[-1] = (found[-1][0], end)
            else:
                found.append((start, end))
        return found

    def _next(self) -> int:
        """Uploads what the next step is given; the slot of the ring that it uses."""
        index = self._ring.acquire()
        if self._input_buffer is not None:
            for start, end in self._new_ranges:
                self.device.write_range(self._input_buffer, start, self._host[start:end])
        return index

    def _segments(self, index: int) -> list[Segment]:
        """Returns the plan with this ring slot's buffers; dispatches that touch no output share their bind groups."""
        buffers = {**self._buffers, **self._ring.buffers(index)}
        segments: list[Segment] = []
        known: dict[int, Command] = {}
        for step, times in unrolled(self.program.plan):
            if isinstance(step, Copy):
                ends = buffers[step.source], step.source_offset, buffers[step.destination]
                segments.append((*ends, step.destination_offset, step.size))
                continue
            if not segments or not isinstance(segments[-1], list):
                segments.append([])
            if id(step) not in known:
                known[id(step)] = self._command(step, buffers)
            command = known[id(step)]
            if times and command.strides:
                offsets = [sum(map(operator.mul, strides, times)) for strides in command.strides]
                command = replace(command, offsets=tuple(offsets))
            commands = segments[-1]
            assert isinstance(commands, list)
            commands.append(command)
        return segments

    def _command(self, step: Dispatch, buffers: Mapping[int, wgpu.GPUBuffer]) -> Command:
        """Returns a dispatch at the first time of the loops around it."""
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
            with reporting(f"binding the buffers of dispatch {step.label!r}"):
                self._groups[key] = self.device.wgpu_device.create_bind_group(layout=layout, entries=entries)
        return self._groups[key]

    def read(self, names: Iterable[str] | None = None) -> dict[str, np.ndarray]:
        """Returns the present values of these parameters and state, or of all.

        Raises:
            InputError: There is no parameter or state of that name.
            DeviceError: What the device reported.
        """
        chosen = list(self.persistent if names is None else names)
        unknown = [name for name in chosen if name not in self.persistent]
        if unknown:
            known = ", ".join(sorted(self.persistent))
            raise InputError(f"no parameter or state {', '.join(map(repr, unknown))} (there are: {known})")
        slots = [self.persistent[name] for name in chosen]
        ranges = [(self._buffers[s.buffer], s.offset, s.size) for s in slots]
        raws = self._within("reading", lambda: self.device.read_ranges(ranges))
        return {name: slot.decode(raw) for name, slot, raw in zip(chosen, slots, raws, strict=True)}

    def write(self, values: Mapping[str, Any]) -> None:
        """Sets parameters and state by name.

        Raises:
            InputError: A name is unknown, a shape differs or a value doesn't convert; nothing has changed.
            DeviceError: What the device reported.
        """
        arrays = check_inputs(self.persistent, values, what="parameter or state", partial=True)
        self._within("writing to", lambda: self._write(arrays))

    def _write(self, arrays: Mapping[str, np.ndarray]) -> None:
        written = 0
        with reporting("writing parameters"):
            for name, array in arrays.items():
                slot = self.persistent[name]
                if slot.size:
                    self.device.write_range(self._buffers[slot.buffer], slot.offset, slot.encode(array))
                written += slot.size
                if written >= MOST_STAGING:
                    self.device.flush_writes()
                    written = 0

    def statistics(self) -> dict[str, Any]:
        """Returns the program's statistics, such as the `peak_bytes` that it plans, with what a step runs.

        `device_bytes` is what this executable takes on the device by now: the planned buffers, but those that it shares
        count for both, the outputs of steps that have not been read, and the buffer that reads go through.
        """
        steps = [(step, math.prod(counts)) for step, counts in runs(self.program.plan)]
        dispatches = [(step, times) for step, times in steps if isinstance(step, Dispatch)]
        copies = sum(times for step, times in steps if isinstance(step, Copy))
        buffers = sum(buffer.size for buffer in self._buffers.values())
        return {
            **self.program.statistics,
            "dispatches": sum(times for _, times in dispatches),
            "copies": copies,
            "submits": 1,
            "kernels": len({step.kernel for step, _ in dispatches}),
            "device_bytes": buffers + self._ring.bytes + self.device.staging_bytes,
        }


def _indirect_buffers(program: Program) -> set[int]:
    """Returns those that hold numbers of workgroups."""
    steps = (step for step, _ in runs(program.plan))
    return {step.indirect[0] for step in steps if isinstance(step, Dispatch) and step.indirect is not None}
