"""What a step says to the device: commands that are resolved once, then encoded and submitted step by step.

wgpu-py's methods look for errors around each call into the native library, which is most of what a dispatch costs here.
`NativeRecording` makes the calls itself and looks for errors once for each stage of a step. It needs private parts of
wgpu-py: where they are not what is expected, `MethodRecording` does the same by the public methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, TypeAlias, TypeVar

import wgpu
from wgpu.backends import wgpu_native

SIGNATURES = {
    "wgpuDeviceCreateCommandEncoder": (
        "struct WGPUCommandEncoderImpl *(*)(struct WGPUDeviceImpl *, WGPUCommandEncoderDescriptor *)"
    ),
    "wgpuCommandEncoderBeginComputePass": (
        "struct WGPUComputePassEncoderImpl *(*)(struct WGPUCommandEncoderImpl *, WGPUComputePassDescriptor *)"
    ),
    "wgpuComputePassEncoderSetPipeline": (
        "void(*)(struct WGPUComputePassEncoderImpl *, struct WGPUComputePipelineImpl *)"
    ),
    "wgpuComputePassEncoderSetBindGroup": (
        "void(*)(struct WGPUComputePassEncoderImpl *, uint32_t, struct WGPUBindGroupImpl *, size_t, uint32_t *)"
    ),
    "wgpuComputePassEncoderDispatchWorkgroups": (
        "void(*)(struct WGPUComputePassEncoderImpl *, uint32_t, uint32_t, uint32_t)"
    ),
    "wgpuComputePassEncoderDispatchWorkgroupsIndirect": (
        "void(*)(struct WGPUComputePassEncoderImpl *, struct WGPUBufferImpl *, uint64_t)"
    ),
    "wgpuComputePassEncoderEnd": "void(*)(struct WGPUComputePassEncoderImpl *)",
    "wgpuComputePassEncoderRelease": "void(*)(struct WGPUComputePassEncoderImpl *)",
    "wgpuCommandEncoderCopyBufferToBuffer": (
        "void(*)(struct WGPUCommandEncoderImpl *, struct WGPUBufferImpl *, uint64_t, struct WGPUBufferImpl *, uint64_t,"
        " uint64_t)"
    ),
    "wgpuCommandEncoderFinish": (
        "struct WGPUCommandBufferImpl *(*)(struct WGPUCommandEncoderImpl *, WGPUCommandBufferDescriptor *)"
    ),
    "wgpuCommandEncoderRelease": "void(*)(struct WGPUCommandEncoderImpl *)",
    "wgpuQueueSubmit": "void(*)(struct WGPUQueueImpl *, size_t, struct WGPUCommandBufferImpl * *)",
    "wgpuCommandBufferRelease": "void(*)(struct WGPUCommandBufferImpl *)",
}
"""The functions of the native library that a step calls, with the C types that this module was written for."""


@dataclass(frozen=True)
class Command:
    """A dispatch with all that it needs.

    Attributes:
        pipeline: The kernel.
        group: Its buffers.
        workgroups: How many there are, unless `indirect` says so.
        offsets: Where the bindings that move are now.
        indirect: A buffer, and the offset in it, that holds the number of workgroups.
        strides: The stride of each moving binding, per iteration of each loop around the dispatch.
    """

    pipeline: wgpu.GPUComputePipeline
    group: wgpu.GPUBindGroup
    workgroups: tuple[int, int, int]
    offsets: tuple[int, ...] = ()
    indirect: tuple[wgpu.GPUBuffer, int] | None = None
    strides: tuple[tuple[int, ...], ...] = ()


CopyCommand: TypeAlias = tuple[wgpu.GPUBuffer, int, wgpu.GPUBuffer, int, int]
"""A source, an offset in it, a destination, an offset in it, and a size in bytes."""
Segment: TypeAlias = list[Command] | CopyCommand
"""The commands of one compute pass, or a copy between passes."""


class Recording(Protocol):
    """A plan that is ready to run again and again."""

    def submit(self) -> None:
        """Encodes the plan and runs it, as one submit.

        Raises:
            wgpu.GPUError: What the device reported.
        """
        ...


def recorded(device: wgpu.GPUDevice, segments: Sequence[Segment]) -> Recording:
    """Prepares a plan: a compute pass for each list of commands, with copies in between."""
    library = native_library()
    if library is not None:
        try:
            return NativeRecording(library, device, segments)
        except NoHandleError:
            pass
    return MethodRecording(device, segments)


Change: TypeAlias = tuple[wgpu.GPUComputePipeline | None, wgpu.GPUBindGroup | None, Command]
"""A command, with its pipeline and its bind group where they are not those of the command before."""


def _changes(commands: Sequence[Command]) -> Iterator[Change]:
    """Yields what differs from the command before: a pass keeps its pipeline and bind group until others are set."""
    pipeline: wgpu.GPUComputePipeline | None = None
    group: wgpu.GPUBindGroup | None = None
    offsets: tuple[int, ...] = ()
    for command in commands:
        bound = command.group is group and command.offsets == offsets
        yield None if command.pipeline is pipeline else command.pipeline, None if bound else command.group, command
        pipeline, group, offsets = command.pipeline, command.group, command.offsets


class MethodRecording:
    """A plan that wgpu-py's methods encode."""

    def __init__(self, device: wgpu.GPUDevice, segments: Sequence[Segment]):
        self._device = device
        self._segments: list[list[Change] | CopyCommand] = [
            list(_changes(segment)) if isinstance(segment, list) else segment for segment in segments
        ]

    def submit(self) -> None:
        """See `Recording`."""
        encoder = self._device.create_command_encoder()
        self.encode(encoder)
        self._device.queue.submit([encoder.finish()])

    def encode(self, encoder: wgpu.GPUCommandEncoder) -> None:
        """Encodes the plan, and submits nothing."""
        for segment in self._segments:
            if isinstance(segment, list):
                self._encode_pass(encoder, segment)
            else:
                encoder.copy_buffer_to_buffer(*segment)

    def _encode_pass(self, encoder: wgpu.GPUCommandEncoder, changes: Sequence[Change]) -> None:
        compute = encoder.begin_compute_pass()
        for pipeline, group, command in changes:
            encode_command(compute, pipeline, group, command)
        compute.end()


def encode_command(
    compute: wgpu.GPUComputePassEncoder,
    pipeline: wgpu.GPUComputePipeline | None,
    group: wgpu.GPUBindGroup | None,
    command: Command,
) -> None:
    """Encodes a dispatch by wgpu-py's methods, and what is to be set before it."""
    if pipeline is not None:
        compute.set_pipeline(pipeline)
    if group is not None:
        compute.set_bind_group(0, group, command.offsets)
    if command.indirect is None:
        compute.dispatch_workgroups(*command.workgroups)
    else:
        compute.dispatch_workgroups_indirect(*command.indirect)


class NoHandleError(Exception):
    """An object of wgpu-py has no native handle where this module looks for it."""


Result = TypeVar("Result")


class NativeLibrary:
    """The functions of the native library, and where wgpu-py puts the errors that it reports.

    Attributes:
        create_encoder, begin_pass, …: The functions of `SIGNATURES`, without any check for errors.
        null: A pointer to nothing.
    """

    def __init__(self, ffi: Any, lib: Any, errors: Any):
        self._ffi = ffi
        self._errors = errors
        self.null = ffi.NULL
        self.create_encoder = lib.wgpuDeviceCreateCommandEncoder
        self.begin_pass = lib.wgpuCommandEncoderBeginComputePass
        self.set_pipeline = lib.wgpuComputePassEncoderSetPipeline
        self.set_bind_group = lib.wgpuComputePassEncoderSetBindGroup
        self.dispatch = lib.wgpuComputePassEncoderDispatchWorkgroups
        self.dispatch_indirect = lib.wgpuComputePassEncoderDispatchWorkgroupsIndirect
        self.end_pass = lib.wgpuComputePassEncoderEnd
        self.release_pass = lib.wgpuComputePassEncoderRelease
        self.copy = lib.wgpuCommandEncoderCopyBufferToBuffer
        self.finish = lib.wgpuCommandEncoderFinish
        self.release_encoder = lib.wgpuCommandEncoderRelease
        self.queue_submit = lib.wgpuQueueSubmit
        self.release_commands = lib.wgpuCommandBufferRelease

    def handle(self, owner: Any) -> Any:
        """Returns the native handle of an object of wgpu-py, which has to be kept as long as the handle is used.

        Raises:
            NoHandleError: There is none.
        """
        found = getattr(owner, "_internal", None)
        if not isinstance(found, self._ffi.CData):
            raise NoHandleError(f"{type(owner).__name__} has no native handle")
        return found

    def array(self, type_name: str, values: Sequence[int] | int) -> Any:
        """Returns an array that C reads, of these values or of so many zeros."""
        return self._ffi.new(type_name, values)

    def checked(self, call: Callable[..., Result], *arguments: Any) -> Result:
        """Calls the library, directly or in many calls, and raises what it reports, as wgpu-py does for each call.

        Raises:
            wgpu.GPUError: What was reported last; what was reported before is raised by the next `reporting`.
        """
        self._errors.capture("step")
        try:
            result = call(*arguments)
        finally:
            reported = self._errors.release("step")
        if reported is not None:
            raise wgpu.GPUError(reported[1])
        return result


@cache
def native_library() -> NativeLibrary | None:
    """Returns the native library, where wgpu-py is made as this module expects."""
    lib, ffi = getattr(wgpu_native, "lib", None), getattr(wgpu_native, "ffi", None)
    errors = getattr(getattr(wgpu_native, "_api", None), "error_handler", None)
    if not all(callable(getattr(errors, name, None)) for name in ("capture", "release")):
        return None
    try:
        found = {name: ffi.typeof(getattr(lib, name)).cname for name in SIGNATURES} if ffi is not None else {}
    except (AttributeError, TypeError):
        return None
    return NativeLibrary(ffi, lib, errors) if found == SIGNATURES else None


Row: TypeAlias = tuple[Any, Any, int, Any, Any, int, int, int]
"""A pipeline or none, a bind group or none, its offsets' count and array, a buffer or none, and three numbers: those of
workgroups, or first where the buffer has them."""


class NativeRecording:
    """A plan that is encoded by the native library's functions.

    Raises:
        NoHandleError: An object has no native handle.
    """

    def __init__(self, library: NativeLibrary, device: wgpu.GPUDevice, segments: Sequence[Segment]):
        self._library = library
        self._kept = device, list(segments)  # the handles are theirs
        self._device, self._queue = library.handle(device), library.handle(device.queue)
        self._submitted = library.array("WGPUCommandBuffer[]", 1)
        self._segments: list[list[Row] | tuple[Any, ...]] = [
            [self._row(*change) for change in _changes(segment)] if isinstance(segment, list) else self._copy(segment)
            for segment in segments
        ]

    def _row(self, pipeline: wgpu.GPUComputePipeline | None, group: wgpu.GPUBindGroup | None, command: Command) -> Row:
        library, count = self._library, len(command.offsets)
        kernel = None if pipeline is None else library.handle(pipeline)
        buffers = None if group is None else library.handle(group)
        offsets = library.array("uint32_t []", command.offsets) if count else library.null
        if command.indirect is not None:
            buffer, place = command.indirect
            return kernel, buffers, count, offsets, library.handle(buffer), place, 0, 0
        return kernel, buffers, count, offsets, None, *command.workgroups

    def _copy(self, command: CopyCommand) -> tuple[Any, ...]:
        source, source_offset, destination, destination_offset, size = command
        ends = self._library.handle(source), source_offset, self._library.handle(destination)
        return *ends, destination_offset, size

    def submit(self) -> None:
        """See `Recording`."""
        library = self._library
        encoder = library.checked(library.create_encoder, self._device, library.null)
        try:
            library.checked(self.encode, encoder)
            self._submitted[0] = commands = library.checked(library.finish, encoder, library.null)
        finally:
            library.release_encoder(encoder)
        try:
            library.checked(library.queue_submit, self._queue, 1, self._submitted)
        finally:
            library.release_commands(commands)

    def encode(self, encoder: Any) -> None:
        """Encodes the plan by the handle of an encoder, and submits nothing; errors are the caller's to look for."""
        for segment in self._segments:
            if isinstance(segment, list):
                self._encode_pass(encoder, segment)
            else:
                self._library.copy(encoder, *segment)

    def _encode_pass(self, encoder: Any, rows: Sequence[Row]) -> None:
        """The hot loop of a step."""
        library = self._library
        set_pipeline, set_bind_group, dispatch = library.set_pipeline, library.set_bind_group, library.dispatch
        compute = library.begin_pass(encoder, library.null)
        try:
            for pipeline, group, count, offsets, indirect, x, y, z in rows:
                if pipeline is not None:
                    set_pipeline(compute, pipeline)
                if group is not None:
                    set_bind_group(compute, 0, group, count, offsets)
                if indirect is None:
                    dispatch(compute, x, y, z)
                else:
                    library.dispatch_indirect(compute, indirect, x)
            library.end_pass(compute)
        finally:
            library.release_pass(compute)
