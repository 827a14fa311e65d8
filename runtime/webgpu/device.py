"""The device: buffers, writes, submits and reads."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
import wgpu
from wgpu.backends import wgpu_native

from tensorgrad.runtime.errors import DeviceError, DeviceLostError
from tensorgrad.runtime.target import Target
from tensorgrad.runtime.webgpu.adapters import AdapterInfo, is_software, request_adapter
from tensorgrad.runtime.webgpu.c_types import know_types
from tensorgrad.runtime.webgpu.encoding import Command, Recording, Segment, recorded
from tensorgrad.runtime.webgpu.patience import Worker
from tensorgrad.runtime.webgpu.reporting import check_usable, reporting, take_loss

know_types(getattr(wgpu_native, "ffi", None))

STORAGE = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
STAGING = wgpu.BufferUsage.MAP_READ | wgpu.BufferUsage.COPY_DST
LEAST_STAGING, MOST_STAGING = 1 << 16, 1 << 26
"""Bytes of the buffer that reads go through; larger reads go through it in pieces."""

MOST_THREADS = 8
"""How many threads compile kernels at most."""

OPTIONAL_FEATURES = ("shader-f16", "shader-int64", "subgroup", "timestamp-query")
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
VARYING_SUBGROUP_VENDORS = (0x8086,)
"""Intel's drivers choose the subgroup size per kernel, so that no probe can tell it."""

PROBE = """
@group(0) @binding(0) var<storage, read_write> result: array<u32>;
@compute @workgroup_size({size})
fn probe(@builtin(local_invocation_index) lane: u32, @builtin(subgroup_size) size: u32) {{
  if (lane == 0u) {{ result[0] = size; }}
}}
"""

LOST = (
    "the device was lost, and all that it held: compile again and load a checkpoint, or let "
    "on_device_lost='restart' do better"
)
"""What a `DeviceLostError` says besides what was reported."""

LONGEST_LOOP = 1 << 20
LOOP_PROBE = """
@group(0) @binding(0) var<storage, read_write> result: array<u32>;
@compute @workgroup_size(1)
fn probe() {{
  var count = 0u;
  let zero = result[0];
  for (var i = zero; i < {trips}u; i += 1u) {{ count += 1u + zero * i; }}
  result[0] = count;
}}
"""
"""Counts a loop's iterations; that the buffer holds zeros, no compiler knows."""

Range: TypeAlias = tuple[wgpu.GPUBuffer, int, int]
"""A buffer, an offset and a size in bytes."""
Batch: TypeAlias = Sequence[tuple[Range, np.ndarray]]
"""Ranges, each with where its bytes go."""


class WebGPUDevice:
    """A device, shared by everything in this process that asks for the same adapter. It is for one thread at a time.

    One that has been lost stays so; whoever asks for the adapter then gets a new one.

    Args:
        software: True for a CPU that plays the GPU, False for hardware, None for hardware where there is some.

    Attributes:
        info: The adapter.
        wgpu_device: What wgpu calls a device.
        compile_threads: How many kernels of a program are compiled at a time.

    Raises:
        NoAdapterError: There is no such adapter; says what to install.
        DeviceError: The adapter gives no device.
    """

    _by_request: ClassVar[dict[bool | None, WebGPUDevice]] = {}
    _by_adapter: ClassVar[dict[tuple[str, ...], WebGPUDevice]] = {}

    info: AdapterInfo
    wgpu_device: wgpu.GPUDevice
    compile_threads: int
    is_host = False

    def __new__(cls, software: bool | None = None) -> WebGPUDevice:
        """Returns the one device of the adapter that `software` asks for; see the class."""
        check_usable()
        found = cls._by_request.get(software)
        if found is None or found.is_lost:
            adapter = request_adapter(software)
            key = tuple(str(value) for value in adapter.info.values())
            found = cls._by_adapter.get(key)
            if found is None or found.is_lost:
                found = cls._by_adapter[key] = cls._open(adapter)
            cls._by_request[software] = found
        return found

    @classmethod
    def _open(cls, adapter: wgpu.GPUAdapter) -> WebGPUDevice:
        device = super().__new__(cls)
        features = [name for name in OPTIONAL_FEATURES if name in adapter.features]
        name = str(adapter.info["device"])
        kind = "software" if is_software(adapter) else "hardware"
        device.info = AdapterInfo(name, str(adapter.info["backend_type"]), kind, str(adapter.info["description"]))
        device._vendor = int(adapter.info["vendor_id"])
        # A CPU that plays the GPU compiles a kernel when it first runs, so that threads gain little here.
        device.compile_threads = 1 if kind == "software" else min(MOST_THREADS, os.cpu_count() or 1)
        with reporting(f"opening {name}"):
            # Without required limits, wgpu-py asks for the adapter's own.
            device.wgpu_device = adapter.request_device_sync(required_features=features)
        return device

    _vendor: int
    _loss: str | None = None
    """What the device reported when it was lost."""
    _staging: wgpu.GPUBuffer | None = None

    @contextmanager
    def reporting(self, doing: str) -> Iterator[None]:
        """Turns whatever this device reports within the block, or has reported since, into a `DeviceError`.

        Raises:
            DeviceLostError: It has been lost, in the block or before.
            DeviceError: Anything else that it reported.
        """
        self._check_lost(doing)
        try:
            with reporting(doing):
                yield
        except DeviceError as error:
            if isinstance(error, DeviceLostError) or self._is_lost_by(str(error)):
                raise DeviceLostError(f"{doing}: {self._loss}\n{LOST}") from error.__cause__
            raise
        self._check_lost(doing)

    def _check_lost(self, doing: str) -> None:
        self._loss = self._loss or take_loss()
        if self._loss is not None:
            raise DeviceLostError(f"{doing}: {self._loss}\n{LOST}")

    def _is_lost_by(self, error: str) -> bool:
        """Returns whether an error, whatever it says, is that the device is lost: it can't give the smallest buffer."""
        check_usable()
        self._loss = self._loss or take_loss()
        try:
            self.wgpu_device.create_buffer(label="smallest", size=4, usage=STORAGE)
        except (wgpu.GPUError, RuntimeError) as smallest:
            if "memory" not in str(smallest).lower():
                self._loss = self._loss or error.strip().splitlines()[-1].strip()
        return self._loss is not None

    @property
    def is_lost(self) -> bool:
        """Whether the device is gone, with all that it held."""
        return self._is_lost_by("it gives no buffer")

    def successor(self) -> WebGPUDevice:
        """Returns a device that does what this one did before it was lost.

        Raises:
            NoAdapterError: There is no adapter any more.
            DeviceLostError: There is another adapter now, which programs for this one were not made for.
            DeviceError: The adapter gives no device.
        """
        found = WebGPUDevice(software=self.info.type == "software")
        if found.target != self.target:
            raise DeviceLostError(
                f"{self.info.name} was lost, and what there is instead, {found.info.name}, is not the same: compile "
                "again, and load a checkpoint"
            )
        return found

    @cached_property
    def worker(self) -> Worker:
        """The thread that talks to this device while a call has a deadline."""
        return Worker()

    @cached_property
    def target(self) -> Target:
        """What this device can do: its limits and features, and the subgroup size that a kernel finds."""
        limits, features = self.wgpu_device.limits, self.wgpu_device.features
        subgroups = "subgroup" in features
        return Target(
            name=self.info.name,
            f16="shader-f16" in features,
            int64="shader-int64" in features,
            subgroups=subgroups,
            subgroup_size=self._probe_subgroup_size() if subgroups else None,
            software=self.info.type == "software",
            max_loop_iterations=self._probe_loop_iterations() if self.info.type == "software" else None,
            shader_dialect="naga",
            language="wgsl",
            vector_bytes=32,
            check_bounds=False,
            **{name: int(limits[name.replace("_", "-")]) for name in TARGET_LIMITS},
        )

    def _probe_subgroup_size(self) -> int | None:
        """Returns the size that workgroups of several sizes find, if they find the same."""
        if self._vendor in VARYING_SUBGROUP_VENDORS:
            return None
        found = {self.probe("the subgroup size", PROBE.format(size=size)) for size in (32, 64, 256)}
        return found.pop() if len(found) == 1 else None

    def _probe_loop_iterations(self) -> int | None:
        """After how many iterations loops end too early, if they do."""
        found = self.probe("the length of loops", LOOP_PROBE.format(trips=LONGEST_LOOP))
        return found if found < LONGEST_LOOP else None

    def probe(self, what: str, code: str) -> int:
        """Returns the number that a kernel leaves in its buffer, which holds zeros."""
        with self.reporting(f"probing {what}"):
            buffer = self.create_buffer("probe", 4)
            module = self.wgpu_device.create_shader_module(code=code)
            pipeline = self.wgpu_device.create_compute_pipeline(
                layout=wgpu.AutoLayoutMode.auto, compute={"module": module, "entry_point": "probe"}
            )
            entry = {"binding": 0, "resource": {"buffer": buffer, "offset": 0, "size": 4}}
            group = self.wgpu_device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=[entry])
            self.recorded([[Command(pipeline, group, (1, 1, 1))]]).submit()
            return int(self.read_ranges([(buffer, 0, 4)])[0].view(np.uint32)[0])

    def create_buffer(self, label: str, size: int, *, indirect: bool = False) -> wgpu.GPUBuffer:
        """Returns a zeroed buffer for kernels and copies; an `indirect` one may also hold numbers of workgroups.

        Raises:
            DeviceError: There is no memory for it.
        """
        with self.reporting(f"allocating {size} bytes for {label}"):
            usage = STORAGE | wgpu.BufferUsage.INDIRECT if indirect else STORAGE
            return self.wgpu_device.create_buffer(label=label, size=size, usage=usage)

    def recorded(self, segments: Sequence[Segment]) -> Recording:
        """Prepares a plan, to be run as one submit: a compute pass for each list of commands, with copies between."""
        return recorded(self.wgpu_device, segments)

    def write_range(self, buffer: wgpu.GPUBuffer, offset: int, data: np.ndarray | bytes) -> None:
        """Writes bytes, after everything submitted before."""
        self.wgpu_device.queue.write_buffer(buffer, offset, data)

    def flush_writes(self) -> None:
        """Lets go of the memory that writes take until the next submit."""
        self.wgpu_device.queue.submit([])

    def read_ranges(self, ranges: Sequence[Range], doing: str = "reading results") -> list[np.ndarray]:
        """Returns the bytes of ranges, after everything submitted before, through one mapped buffer that is kept.

        Args:
            ranges: What to read.
            doing: What messages say that this does.

        Raises:
            DeviceError: What the device reported.
        """
        results = [np.empty(size, np.uint8) for _, _, size in ranges]
        for batch in _batches(ranges, results):
            with self.reporting(doing):
                staging, total = self._stage(batch)
                staging.map_sync(wgpu.MapMode.READ, 0, total)
                self._unstage(staging, total, batch)
        return results

    async def read_ranges_async(self, ranges: Sequence[Range], doing: str = "reading results") -> list[np.ndarray]:
        """`read_ranges` that lets the event loop run while it waits; reads at the same time get their own buffers."""
        results = [np.empty(size, np.uint8) for _, _, size in ranges]
        for batch in _batches(ranges, results):
            with self.reporting(doing):
                staging, total = self._stage(batch)
                await staging.map_async(wgpu.MapMode.READ, 0, total)
                # Others may have destroyed the device meanwhile: the native library ends a process that reads then.
                if self.is_lost:
                    self._check_lost(doing)
                self._unstage(staging, total, batch)
        return results

    @cached_property
    def _waited_for(self) -> wgpu.GPUBuffer:
        return self.create_buffer("waited for", 4)

    def wait(self) -> None:
        """Waits until everything submitted before has run.

        Raises:
            DeviceError: What the device reported.
        """
        self.read_ranges([(self._waited_for, 0, 4)])

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
        self.recorded(segments).submit()
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
