"""The WebGPU device: buffers, writes, submits and reads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from threading import RLock
from typing import ClassVar, TypeAlias

import numpy as np
import wgpu
from wgpu.backends import wgpu_native

from tensorgrad.runtime.debugging import BOUNDS, debug_flags
from tensorgrad.runtime.errors import DeviceError, DeviceLostError
from tensorgrad.runtime.target import Target
from tensorgrad.runtime.webgpu.adapters import AdapterInfo, is_software, request_adapter
from tensorgrad.runtime.webgpu.c_types import know_types
from tensorgrad.runtime.webgpu.encoding import Command, Recording, Segment, recorded
from tensorgrad.runtime.webgpu.mapping import read_and_unmap, read_mapped
from tensorgrad.runtime.webgpu.patience import Worker
from tensorgrad.runtime.webgpu.reporting import check_usable, reporting, take_loss

know_types(getattr(wgpu_native, "ffi", None))

STORAGE = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
STAGING = wgpu.BufferUsage.MAP_READ | wgpu.BufferUsage.COPY_DST
LEAST_STAGING, MOST_STAGING = 1 << 16, 1 << 26
"""The minimum and maximum size in bytes of the staging buffer for reads; larger reads are split."""

MOST_THREADS = 8
"""The most threads that compile kernels."""

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
"""Intel's drivers choose the subgroup size per kernel, so a probe can't determine it."""

PROBE = """
@group(0) @binding(0) var<storage, read_write> result: array<u32>;
@compute @workgroup_size({size})
fn probe(@builtin(local_invocation_index) lane: u32, @builtin(subgroup_size) size: u32) {{
  if (lane == 0u) {{ result[0] = size; }}
}}
"""

LOST = (
    "the device was lost, and all that it held: compile again and load a checkpoint; with "
    "on_device_lost='restart', a program resumes by itself"
)
"""What a `DeviceLostError` says in addition to the device's report."""

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
"""Counts a loop's iterations; compilers can't know that the buffer holds zeros."""

Range: TypeAlias = tuple[wgpu.GPUBuffer, int, int]
"""A buffer, an offset and a size in bytes."""
Batch: TypeAlias = Sequence[tuple[Range, np.ndarray]]
"""Ranges, each with the host memory to read it into."""


LOCK = RLock()
"""Held while a program uses a device: neither the devices nor the staging memory are safe to use in several threads."""


class WebGPUDevice:
    """A device, shared by all users of the same adapter in this process. It is not thread-safe; see `LOCK`.

    After a device loss, the next request for the adapter creates a new device.

    Args:
        software: True for a GPU emulated on the CPU, False for hardware, None for hardware if there is any.

    Attributes:
        info: The adapter.
        wgpu_device: The wgpu device.
        compile_threads: The number of threads that compile a program's kernels.

    Raises:
        NoAdapterError: There is no such adapter; says what to install.
        DeviceError: The adapter can't create a device.
    """

    _by_request: ClassVar[dict[bool | None, WebGPUDevice]] = {}
    _by_adapter: ClassVar[dict[tuple[str, ...], WebGPUDevice]] = {}

    info: AdapterInfo
    wgpu_device: wgpu.GPUDevice
    compile_threads: int
    is_host = False

    def __new__(cls, software: bool | None = None) -> WebGPUDevice:
        """Returns the shared device of the adapter that `software` selects; see the class."""
        check_usable()
        result = cls._by_request.get(software)
        if result is None or result.is_lost:
            adapter = request_adapter(software)
            key = tuple(str(value) for value in adapter.info.values())
            result = cls._by_adapter.get(key)
            if result is None or result.is_lost:
                result = cls._by_adapter[key] = cls._open(adapter)
            cls._by_request[software] = result
        return result

    @classmethod
    def _open(cls, adapter: wgpu.GPUAdapter) -> WebGPUDevice:
        device = super().__new__(cls)
        features = [name for name in OPTIONAL_FEATURES if name in adapter.features]
        name = str(adapter.info["device"])
        kind = "software" if is_software(adapter) else "hardware"
        device.info = AdapterInfo(name, str(adapter.info["backend_type"]), kind, str(adapter.info["description"]))
        device._vendor = int(adapter.info["vendor_id"])
        # Software adapters compile a kernel when it first runs, so threads gain little here.
        device.compile_threads = 1 if kind == "software" else min(MOST_THREADS, os.cpu_count() or 1)
        with reporting(f"opening {name}"):
            # Without required limits, wgpu-py requests the adapter's own limits.
            device.wgpu_device = adapter.request_device_sync(required_features=features)
        return device

    _vendor: int
    _loss: str | None = None
    """The device's report of its loss."""
    _staging: wgpu.GPUBuffer | None = None

    @contextmanager
    def reporting(self, doing: str) -> Iterator[None]:
        """Converts errors that the device reports in the block, or has reported since the last one, to a `DeviceError`.

        Raises:
            DeviceLostError: The device has been lost, in the block or before.
            DeviceError: The device reported any other error.
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
        """Returns whether an error means that the device is lost, by whether the smallest allocation fails."""
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
        """Whether the device is lost, with everything on it."""
        return self._is_lost_by("it gives no buffer")

    def successor(self) -> WebGPUDevice:
        """Returns a device to replace this one after its loss.

        Raises:
            NoAdapterError: There is no adapter any more.
            DeviceLostError: The adapter is now a different one, which this device's programs were not compiled for.
            DeviceError: The adapter can't create a device.
        """
        device = WebGPUDevice(software=self.info.type == "software")
        if device.target != self.target:
            raise DeviceLostError(
                f"{self.info.name} was lost, and the adapter that replaces it, {device.info.name}, differs: compile "
                "again, and load a checkpoint"
            )
        return device

    @cached_property
    def worker(self) -> Worker:
        """The thread that makes device calls with a timeout."""
        return Worker()

    @cached_property
    def target(self) -> Target:
        """The device's limits and features, and its subgroup size as found by a probe."""
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
            bf16_dot=False,
            check_bounds=BOUNDS in debug_flags(),
            **{name: int(limits[name.replace("_", "-")]) for name in TARGET_LIMITS},
        )

    def _probe_subgroup_size(self) -> int | None:
        """Returns the subgroup size that workgroups of several sizes observe, or None if it differs."""
        if self._vendor in VARYING_SUBGROUP_VENDORS:
            return None
        probes = {self.probe("the subgroup size", PROBE.format(size=size)) for size in (32, 64, 256)}
        return probes.pop() if len(probes) == 1 else None

    def _probe_loop_iterations(self) -> int | None:
        """Returns the number of iterations after which the device cuts loops off, or None."""
        probed = self.probe("the length of loops", LOOP_PROBE.format(trips=LONGEST_LOOP))
        return probed if probed < LONGEST_LOOP else None

    def probe(self, what: str, code: str) -> int:
        """Runs a kernel on a zeroed buffer, and returns the number that it writes there."""
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
        """Returns a zeroed buffer for kernels and copies; an `indirect` one may also hold workgroup counts.

        Raises:
            DeviceError: Out of memory.
        """
        with self.reporting(f"allocating {size} bytes for {label}"):
            usage = STORAGE | wgpu.BufferUsage.INDIRECT if indirect else STORAGE
            return self.wgpu_device.create_buffer(label=label, size=size, usage=usage)

    def recorded(self, segments: Sequence[Segment]) -> Recording:
        """Prepares a plan to run as one submit: a compute pass for each list of commands, with copies in between."""
        return recorded(self.wgpu_device, segments)

    def write_range(self, buffer: wgpu.GPUBuffer, offset: int, data: np.ndarray | bytes) -> None:
        """Writes bytes, ordered after all earlier submits."""
        self.wgpu_device.queue.write_buffer(buffer, offset, data)

    def write_ranges(self, ranges: Iterable[tuple[wgpu.GPUBuffer, int, np.ndarray]], doing: str) -> None:
        """Writes bytes to ranges, ordered after all earlier submits: by one submit for each `MOST_STAGING` bytes.

        Args:
            ranges: Buffers, offsets and bytes.
            doing: The operation's name in error messages.

        Raises:
            DeviceError: The device reported an error. Nothing has changed, if the bytes fit one submit.
        """
        given = list(ranges)
        places = [(buffer, offset, data.size) for buffer, offset, data in given]
        for batch in _batches(places, [data for _, _, data in given]):
            with self.reporting(doing):
                staging = self.create_buffer("staging", sum(size for (_, _, size), _ in batch))
                self.write_range(staging, 0, np.concatenate([data for _, data in batch]))
                segments: list[Segment] = []
                position = 0
                for (buffer, offset, size), _ in batch:
                    segments.append((staging, position, buffer, offset, size))
                    position += size
                self.recorded(segments).submit()

    def read_ranges(self, ranges: Sequence[Range], doing: str = "reading results") -> list[np.ndarray]:
        """Reads ranges through a persistent staging buffer, ordered after all earlier submits; returns their bytes.

        Args:
            ranges: The ranges to read.
            doing: The operation's name in error messages.

        Raises:
            DeviceError: The device reported an error.
        """
        results = [np.empty(size, np.uint8) for _, _, size in ranges]
        for batch in _batches(ranges, results):
            with self.reporting(doing):
                staging, total = self._stage(batch)
                read_mapped(self.wgpu_device, staging, total, partial(_split, batch))
                self._staging = staging
        return results

    async def read_ranges_async(self, ranges: Sequence[Range], doing: str = "reading results") -> list[np.ndarray]:
        """`read_ranges` without blocking the event loop; concurrent reads get their own staging buffers."""
        results = [np.empty(size, np.uint8) for _, _, size in ranges]
        for batch in _batches(ranges, results):
            with self.reporting(doing):
                staging, total = self._stage(batch)
                await staging.map_async(wgpu.MapMode.READ, 0, total)
                # The device may have been destroyed meanwhile: reading from it then would abort the process.
                if self.is_lost:
                    self._check_lost(doing)
                read_and_unmap(staging, total, partial(_split, batch))
                self._staging = staging
        return results

    @cached_property
    def _waited_for(self) -> wgpu.GPUBuffer:
        return self.create_buffer("waited for", 4)

    def wait(self) -> None:
        """Waits until all submitted work has completed.

        Raises:
            DeviceError: The device reported an error.
        """
        self.read_ranges([(self._waited_for, 0, 4)])

    def _stage(self, batch: Batch) -> tuple[wgpu.GPUBuffer, int]:
        """Submits copies of ranges to a staging buffer; returns it and the number of bytes used."""
        total = sum(size for (_, _, size), _ in batch)
        # Taken while in use: if the wait is interrupted, the mapped buffer must never be reused.
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

    @property
    def staging_bytes(self) -> int:
        """The size of the staging buffer for reads."""
        return self._staging.size if self._staging is not None else 0


def _split(batch: Batch, mapped: np.ndarray) -> None:
    """Copies what a batch has staged to its destinations."""
    position = 0
    for (_, _, size), destination in batch:
        destination[:] = mapped[position : position + size]
        position += size


def _batches(ranges: Sequence[Range], results: Sequence[np.ndarray]) -> Iterator[Batch]:
    """Splits ranges and their destinations into batches that fit the staging buffer."""
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
