"""Runs programs on a WebGPU device, by wgpu: the only module that imports it."""

from __future__ import annotations

import contextlib
import logging
import math
import operator
import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
import wgpu
from wgpu.backends import wgpu_native

from tensorgrad.runtime.backend import OutputHandle, OutputRing, ScalarInputs, check_inputs
from tensorgrad.runtime.errors import DeviceError, InputError, NoAdapterError, ProgramError
from tensorgrad.runtime.program import PERSISTENT_ROLES, Copy, Dispatch, Program, TensorSlot, runs, unrolled
from tensorgrad.runtime.sharing import persistent_in, temporary_in
from tensorgrad.runtime.target import Target
from tensorgrad.runtime.wgpu_types import know_types

know_types(getattr(wgpu_native, "ffi", None))

STORAGE = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
STAGING = wgpu.BufferUsage.MAP_READ | wgpu.BufferUsage.COPY_DST
LEAST_STAGING, MOST_STAGING = 1 << 16, 1 << 26
"""Bytes of the buffer that reads go through; larger reads go through it in pieces."""

OPTIONAL_FEATURES = ("shader-f16", "subgroup", "timestamp-query")
TARGET_LIMITS = (
    "max_storage_buffers_per_shader_stage",
    "max_storage_buffer_binding_size",
    "max_buffer_size",
    "max_compute_workgroup_size_x",
    "max_compute_workgroup_size_y",
    "max_compute_workgroup_size_z",
    "max_compute_invocations_per_workgroup",
    "max_compute_workgroup_storage_size",
    "max_compute_workgroups_per_dimension",
    "min_storage_buffer_offset_alignment",
)
ADAPTER_TYPES = ("DiscreteGPU", "IntegratedGPU", "Unknown", "CPU")
"""What wgpu calls kinds of adapter, the best first."""
BACKENDS = ("Vulkan", "Metal", "D3D12", "OpenGL")
VARYING_SUBGROUP_VENDORS = (0x8086,)
"""Intel's drivers choose the subgroup size per kernel, so that no probe can tell it."""

PROBE = """
@group(0) @binding(0) var<storage, read_write> result: array<u32>;
@compute @workgroup_size({size})
fn probe(@builtin(local_invocation_index) lane: u32, @builtin(subgroup_size) size: u32) {{
  if (lane == 0u) {{ result[0] = size; }}
}}
"""

Range: TypeAlias = tuple[wgpu.GPUBuffer, int, int]
"""A buffer, an offset and a size in bytes."""
Batch: TypeAlias = Sequence[tuple[Range, np.ndarray]]
"""Ranges, each with where its bytes go."""


class _LateErrors(logging.Handler):
    """Collects what wgpu reports outside of a call: it logs that, and raises nothing."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.pending: list[str] = []
        self.lost: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Takes the reports of wgpu's error handler; what Rust logs besides is no error of ours."""
        if record.funcName != "log_error":
            return
        message = record.getMessage()
        if not message.startswith("The WGPU device was lost"):
            self.pending.append(message)
        elif "destroyed" not in message.splitlines()[0].lower():
            self.lost = message

    def check(self) -> None:
        """Raises what has been collected; a lost device is never found again."""
        if self.lost is not None:
            raise DeviceError(self.lost)
        if self.pending:
            messages, self.pending = self.pending, []
            raise DeviceError("the device reported: " + "\n".join(messages))


_late_errors = _LateErrors()
logging.getLogger("wgpu").addHandler(_late_errors)


@contextlib.contextmanager
def reporting(doing: str) -> Iterator[None]:
    """Turns whatever the device reports within the block, or has reported since, into a `DeviceError`."""
    _late_errors.check()
    try:
        yield
    except DeviceError:
        raise
    except (wgpu.GPUError, wgpu.GPUPipelineError, RuntimeError, MemoryError) as error:
        raise DeviceError(f"{doing}: {error}") from error
    _late_errors.check()


@dataclass(frozen=True)
class AdapterInfo:
    """What there is to run on. `type` is "hardware", or "software" where a CPU plays the GPU."""

    name: str
    backend: str
    type: str
    driver: str


def _rank(adapter: wgpu.GPUAdapter) -> tuple[int, int]:
    def place(names: Sequence[str], name: str, default: str) -> int:
        return names.index(name if name in names else default)

    info = adapter.info
    return (
        place(ADAPTER_TYPES, str(info["adapter_type"]), "Unknown"),
        place(BACKENDS, str(info["backend_type"]), BACKENDS[-1]),
    )


def _is_software(adapter: wgpu.GPUAdapter) -> bool:
    return adapter.info["adapter_type"] == "CPU"


def _adapters() -> list[wgpu.GPUAdapter]:
    """Every adapter, the best first."""
    # Without this variable, which has no use here, EGL writes complaints to stderr.
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
    with reporting("looking for adapters"):
        return sorted(wgpu.gpu.enumerate_adapters_sync(), key=_rank)


def list_adapters() -> list[AdapterInfo]:
    """Every adapter of this machine, the best first; none is no error."""
    return [
        AdapterInfo(
            str(adapter.info["device"]),
            str(adapter.info["backend_type"]),
            "software" if _is_software(adapter) else "hardware",
            str(adapter.info["description"]),
        )
        for adapter in _adapters()
    ]


def request_adapter(software: bool | None = None) -> wgpu.GPUAdapter:
    """The best adapter.

    Args:
        software: True for a CPU that plays the GPU, False for hardware, None for hardware where there is some.

    Raises:
        NoAdapterError: There is none; says what to install.
    """
    for adapter in _adapters():
        if software is None or _is_software(adapter) == software:
            return adapter
    kind = {None: "", True: "software ", False: "hardware "}[software]
    advice = (
        "install your GPU's Vulkan driver"
        if software is False
        else "install a Vulkan driver; one that needs no GPU, on Debian: apt-get install mesa-vulkan-drivers"
    )
    raise NoAdapterError(f"there is no {kind}WebGPU adapter: {advice}")


class WebGPUDevice:
    """A device, shared by everything in this process that asks for the same adapter. It is for one thread at a time.

    Args:
        software: True for a CPU that plays the GPU, False for hardware, None for hardware where there is some.

    Raises:
        NoAdapterError: There is no such adapter; says what to install.
        DeviceError: The adapter gives no device.
    """

    _by_request: ClassVar[dict[bool | None, WebGPUDevice]] = {}
    _by_adapter: ClassVar[dict[tuple[str, ...], WebGPUDevice]] = {}

    info: AdapterInfo
    wgpu_device: wgpu.GPUDevice

    def __new__(cls, software: bool | None = None) -> WebGPUDevice:
        """The one device of the adapter that `software` asks for; see the class."""
        if software not in cls._by_request:
            adapter = request_adapter(software)
            key = tuple(str(value) for value in adapter.info.values())
            if key not in cls._by_adapter:
                cls._by_adapter[key] = cls._open(adapter)
            cls._by_request[software] = cls._by_adapter[key]
        return cls._by_request[software]

    @classmethod
    def _open(cls, adapter: wgpu.GPUAdapter) -> WebGPUDevice:
        device = super().__new__(cls)
        features = [name for name in OPTIONAL_FEATURES if name in adapter.features]
        name = str(adapter.info["device"])
        kind = "software" if _is_software(adapter) else "hardware"
        device.info = AdapterInfo(name, str(adapter.info["backend_type"]), kind, str(adapter.info["description"]))
        device._vendor = int(adapter.info["vendor_id"])
        with reporting(f"opening {name}"):
            # Without required limits, wgpu-py asks for the adapter's own.
            device.wgpu_device = adapter.request_device_sync(required_features=features)
        return device

    _vendor: int
    _staging: wgpu.GPUBuffer | None = None

    @cached_property
    def target(self) -> Target:
        """What this device can do: its limits and features, and the subgroup size that a kernel finds."""
        limits, features = self.wgpu_device.limits, self.wgpu_device.features
        subgroups = "subgroup" in features
        return Target(
            name=self.info.name,
            f16="shader-f16" in features,
            subgroups=subgroups,
            subgroup_size=self._probe_subgroup_size() if subgroups else None,
            software=self.info.type == "software",
            shader_dialect="naga",
            **{name: int(limits[name.replace("_", "-")]) for name in TARGET_LIMITS},
        )

    def _probe_subgroup_size(self) -> int | None:
        """The size that workgroups of several sizes find, if they find the same."""
        if self._vendor in VARYING_SUBGROUP_VENDORS:
            return None
        found: set[int] = set()
        with reporting("probing the subgroup size"):
            buffer = self.create_buffer("probe", 4)
            for size in (32, 64, 256):
                module = self.wgpu_device.create_shader_module(code=PROBE.format(size=size))
                pipeline = self.wgpu_device.create_compute_pipeline(
                    layout=wgpu.AutoLayoutMode.auto, compute={"module": module, "entry_point": "probe"}
                )
                entry = {"binding": 0, "resource": {"buffer": buffer, "offset": 0, "size": 4}}
                group = self.wgpu_device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=[entry])
                self.submit([[_Command(pipeline, group, (1, 1, 1))]])
                found.add(int(self.read_ranges([(buffer, 0, 4)])[0].view(np.uint32)[0]))
        return found.pop() if len(found) == 1 else None

    def create_buffer(self, label: str, size: int, *, indirect: bool = False) -> wgpu.GPUBuffer:
        """A zeroed buffer for kernels and copies; an `indirect` one may also hold numbers of workgroups.

        Raises:
            DeviceError: There is no memory for it.
        """
        with reporting(f"allocating {size} bytes for {label}"):
            usage = STORAGE | wgpu.BufferUsage.INDIRECT if indirect else STORAGE
            return self.wgpu_device.create_buffer(label=label, size=size, usage=usage)

    def submit(self, segments: Sequence[Segment]) -> None:
        """Runs a plan as one submit: a compute pass for each list of commands, with copies in between."""
        encoder = self.wgpu_device.create_command_encoder()
        for segment in segments:
            if isinstance(segment, list):
                _encode_pass(encoder, segment)
            else:
                encoder.copy_buffer_to_buffer(*segment)
        self.wgpu_device.queue.submit([encoder.finish()])

    def write_range(self, buffer: wgpu.GPUBuffer, offset: int, data: np.ndarray | bytes) -> None:
        """Writes bytes, after everything submitted before."""
        self.wgpu_device.queue.write_buffer(buffer, offset, data)

    def flush_writes(self) -> None:
        """Lets go of the memory that writes take until the next submit."""
        self.wgpu_device.queue.submit([])

    def read_ranges(self, ranges: Sequence[Range]) -> list[np.ndarray]:
        """The bytes of ranges, after everything submitted before, through one mapped buffer that is kept.

        Raises:
            DeviceError: What the device reported.
        """
        results = [np.empty(size, np.uint8) for _, _, size in ranges]
        for batch in _batches(ranges, results):
            with reporting("reading results"):
                staging, total = self._stage(batch)
                staging.map_sync(wgpu.MapMode.READ, 0, total)
                self._unstage(staging, total, batch)
        return results

    async def read_ranges_async(self, ranges: Sequence[Range]) -> list[np.ndarray]:
        """`read_ranges` that lets the event loop run while it waits; reads at the same time get their own buffers."""
        results = [np.empty(size, np.uint8) for _, _, size in ranges]
        for batch in _batches(ranges, results):
            with reporting("reading results"):
                staging, total = self._stage(batch)
                await staging.map_async(wgpu.MapMode.READ, 0, total)
                self._unstage(staging, total, batch)
        return results

    def _stage(self, batch: Batch) -> tuple[wgpu.GPUBuffer, int]:
        """Has the device copy ranges into a buffer that can be mapped; gives it and how many bytes are used."""
        total = sum(size for (_, _, size), _ in batch)
        # Taken while in use: should the wait be interrupted, the mapped buffer is never used again.
        staging, self._staging = self._staging, None
        if staging is None or staging.size < total:
            size = max(LEAST_STAGING, 1 << (total - 1).bit_length())
            staging = self.wgpu_device.create_buffer(label="staging", size=size, usage=STAGING)
        segments: list[Segment] = []
        position = 0
        for (buffer, offset, size), _ in batch:
            segments.append((buffer, offset, staging, position, size))
            position += size
        self.submit(segments)
        return staging, total

    def _unstage(self, staging: wgpu.GPUBuffer, total: int, batch: Batch) -> None:
        view: Any = staging.read_mapped(0, total, copy=False)
        mapped = np.frombuffer(view, np.uint8)
        position = 0
        for (_, _, size), destination in batch:
            destination[:] = mapped[position : position + size]
            position += size
        del mapped, view
        staging.unmap()
        self._staging = staging

    @property
    def staging_bytes(self) -> int:
        """What the buffer for reads takes."""
        return self._staging.size if self._staging is not None else 0


def _batches(ranges: Sequence[Range], results: Sequence[np.ndarray]) -> Iterator[Batch]:
    """Ranges and where they go, in pieces of what is read at a time."""
    batch: list[tuple[Range, np.ndarray]] = []
    room = MOST_STAGING
    for (buffer, offset, size), result in zip(ranges, results, strict=True):
        done = 0
        while done < size:
            if room == 0:
                yield batch
                batch, room = [], MOST_STAGING
            piece = min(size - done, room)
            batch.append(((buffer, offset + done, piece), result[done : done + piece]))
            done, room = done + piece, room - piece
    if batch:
        yield batch


@dataclass(frozen=True)
class _Command:
    """A dispatch, ready to encode."""

    pipeline: wgpu.GPUComputePipeline
    group: wgpu.GPUBindGroup
    workgroups: tuple[int, int, int]
    offsets: tuple[int, ...] = ()
    indirect: tuple[wgpu.GPUBuffer, int] | None = None
    strides: tuple[tuple[int, ...], ...] = ()


CopyCommand: TypeAlias = tuple[wgpu.GPUBuffer, int, wgpu.GPUBuffer, int, int]
Segment: TypeAlias = list[_Command] | CopyCommand


def _encode_pass(encoder: wgpu.GPUCommandEncoder, commands: Sequence[_Command]) -> None:
    """The hot loop of a step: sets only what differs from the command before."""
    compute = encoder.begin_compute_pass()
    pipeline = group = None
    offsets: tuple[int, ...] = ()
    for command in commands:
        if command.pipeline is not pipeline:
            pipeline = command.pipeline
            compute.set_pipeline(pipeline)
        if command.group is not group or command.offsets != offsets:
            group, offsets = command.group, command.offsets
            compute.set_bind_group(0, group, offsets)
        if command.indirect is None:
            compute.dispatch_workgroups(*command.workgroups)
        else:
            compute.dispatch_workgroups_indirect(*command.indirect)
    compute.end()


class WebGPUExecutable:
    """A program on a device, with parameters and state that start at zero. It is for one thread at a time.

    Args:
        program: What to run.
        device: Where.
        share: An executable on the same device whose parameters and state this one uses too, instead of its own.
        in_turn: Whether to use the memory of its inputs and temporary values too, as far as that suffices. That is safe
            between any steps, which run one after another.

    Attributes:
        shared_bytes: How much of the memory that the program takes is that of `share`.

    Raises:
        ProgramError: The program is malformed, or its parameters are not those of `share`.
        TargetError: The program doesn't fit the device.
        DeviceError: A kernel doesn't compile (says which), or there is not enough memory.
    """

    def __init__(
        self, program: Program, device: WebGPUDevice, share: WebGPUExecutable | None = None, in_turn: bool = False
    ):
        program.validate()
        program.check_fits(device.target)
        self.program = program
        self.device = device
        self.program_inputs: Mapping[str, TensorSlot] = program.slots("input")
        self.persistent: Mapping[str, TensorSlot] = program.slots(*PERSISTENT_ROLES)
        self._scalar_slots = program.slots("scalar")
        self._scalars = ScalarInputs(list(self._scalar_slots.values()))
        indirect = _indirect_buffers(program)
        shared = {} if share is None else self._shared(share, in_turn, indirect)
        self.shared_bytes = sum(program.buffers[index].size for index in shared)
        self._pipelines = _compile(program, device)
        self._buffers = self._create_buffers(shared, indirect)
        self._ring = OutputRing(program, device)
        self._groups: dict[tuple[object, ...], wgpu.GPUBindGroup] = {}
        self._segments: dict[int, list[Segment]] = {}
        self._prepare_inputs()

    def _shared(self, share: WebGPUExecutable, in_turn: bool, indirect: Collection[int]) -> dict[int, wgpu.GPUBuffer]:
        """The other executable's buffers that this one uses, by our index."""
        if share.device is not self.device:
            raise ProgramError("parameters can be shared on one device only")
        found = persistent_in(self.program, share.program)
        if in_turn:
            found |= {i: other for i, other in temporary_in(self.program, share.program).items() if i not in indirect}
        return {index: share._buffers[other] for index, other in found.items()}

    def _create_buffers(
        self, shared: Mapping[int, wgpu.GPUBuffer], indirect: Collection[int]
    ) -> dict[int, wgpu.GPUBuffer]:
        """All buffers by index, but the outputs', which the ring has."""
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

    def step(self, inputs: Mapping[str, Any], scalars: Mapping[str, float]) -> dict[str, OutputHandle]:
        """Runs the program once, without waiting for it.

        Args:
            inputs: One array for each of `program_inputs`.
            scalars: What the scalars are, or what their formulas are computed from.

        Returns:
            A handle for each output.

        Raises:
            InputError: Something is missing, unknown, or of the wrong shape or dtype; nothing has changed.
            DeviceError: What the device reported.
        """
        arrays = check_inputs(self.program_inputs, inputs)
        numbers = self._scalars.evaluate(scalars)
        for name, array in arrays.items():
            self._input_views[name][...] = array
        for name, number in numbers.items():
            self._scalar_views[name][...] = number
        with reporting(f"running {self.program.name!r}"):
            index = self._ring.acquire()
            segments = self._segments.get(index) or self._prepare(index)
            if self._input_buffer is not None:
                self.device.write_range(self._input_buffer, 0, self._host)
            self.device.submit(segments)
        return self._ring.handles(index)

    def _prepare(self, index: int) -> list[Segment]:
        """The plan with this ring slot's buffers; dispatches that touch no output share their bind groups."""
        buffers = {**self._buffers, **self._ring.buffers(index)}
        segments: list[Segment] = []
        known: dict[int, _Command] = {}
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
        self._segments[index] = segments
        return segments

    def _command(self, step: Dispatch, buffers: Mapping[int, wgpu.GPUBuffer]) -> _Command:
        """A dispatch at the first time of the loops around it."""
        pipeline, layout = self._pipelines[step]
        indirect = None if step.indirect is None else (buffers[step.indirect[0]], step.indirect[1])
        strides = tuple(binding.strides for binding in step.bindings if binding.strides)
        group = self._group(step, layout, buffers)
        return _Command(pipeline, group, step.workgroups, (0,) * len(strides), indirect, strides)

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
        """The present values of these parameters and state, or of all.

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
        raws = self.device.read_ranges([(self._buffers[s.buffer], s.offset, s.size) for s in slots])
        return {name: slot.decode(raw) for name, slot, raw in zip(chosen, slots, raws, strict=True)}

    def write(self, values: Mapping[str, Any]) -> None:
        """Sets parameters and state by name.

        Raises:
            InputError: A name is unknown, a shape differs or a value doesn't convert; nothing has changed.
            DeviceError: What the device reported.
        """
        arrays = check_inputs(self.persistent, values, what="parameter or state", partial=True)
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
        """The program's statistics, such as the `peak_bytes` that it plans, with what a step runs.

        `device_bytes` is what this executable takes on the device by now: the planned buffers, but those that it shares
        count for both, the outputs of the steps that nobody has read, and the buffer that reads go through.
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


Accesses: TypeAlias = tuple[tuple[str, bool], ...]
"""For each binding, how it is used, and whether its offset is given with each dispatch."""

Pipeline: TypeAlias = tuple[wgpu.GPUComputePipeline, wgpu.GPUBindGroupLayout]


def _compile(program: Program, device: WebGPUDevice) -> dict[Dispatch, Pipeline]:
    """The pipeline of each dispatch; each kernel is compiled once per use of buffers."""
    layouts: dict[Accesses, wgpu.GPUBindGroupLayout] = {}
    modules: dict[str, wgpu.GPUShaderModule] = {}
    pipelines: dict[tuple[str, str, Accesses], Pipeline] = {}
    result: dict[Dispatch, Pipeline] = {}
    for step, _ in runs(program.plan):
        if not isinstance(step, Dispatch):
            continue
        kernel = program.kernels[step.kernel]
        accesses = tuple((binding.access, bool(binding.strides)) for binding in step.bindings)
        key = (kernel.code, kernel.entry, accesses)
        if key not in pipelines:
            with reporting(f"compiling kernel {kernel.entry!r}"):
                if accesses not in layouts:
                    layouts[accesses] = _layout(device, accesses)
                if kernel.code not in modules:
                    modules[kernel.code] = device.wgpu_device.create_shader_module(label=kernel.entry, code=kernel.code)
                pipeline = device.wgpu_device.create_compute_pipeline(
                    label=kernel.entry,
                    layout=device.wgpu_device.create_pipeline_layout(bind_group_layouts=[layouts[accesses]]),
                    compute={"module": modules[kernel.code], "entry_point": kernel.entry},
                )
            pipelines[key] = pipeline, layouts[accesses]
        result[step] = pipelines[key]
    return result


def _layout(device: WebGPUDevice, accesses: Accesses) -> wgpu.GPUBindGroupLayout:
    kinds = {"read": wgpu.BufferBindingType.read_only_storage, "read_write": wgpu.BufferBindingType.storage}
    entries = [
        {
            "binding": i,
            "visibility": wgpu.ShaderStage.COMPUTE,
            "buffer": {"type": kinds[access], "has_dynamic_offset": moving},
        }
        for i, (access, moving) in enumerate(accesses)
    ]
    return device.wgpu_device.create_bind_group_layout(entries=entries)


def _indirect_buffers(program: Program) -> set[int]:
    """Those that hold numbers of workgroups."""
    steps = (step for step, _ in runs(program.plan))
    return {step.indirect[0] for step in steps if isinstance(step, Dispatch) and step.indirect is not None}
