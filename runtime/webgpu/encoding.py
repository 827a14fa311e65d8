"""Encoding of steps: commands are resolved once, then encoded and submitted in every step.

wgpu-py's methods check for errors around each native call, which is most of the cost of a dispatch here.
`NativeRecording` makes the native calls itself and checks for errors once per stage of a step. It relies on wgpu-py
internals: if they are not as expected, `MethodRecording` does the same with the public methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Protocol, TypeAlias, TypeVar

import wgpu
from wgpu.backends import wgpu_native

from tensorgrad.runtime.counting import RunCount

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
    "wgpuBufferMapAsync": (
        "WGPUFuture(*)(struct WGPUBufferImpl *, uint64_t, size_t, size_t, WGPUBufferMapCallbackInfo)"
    ),
    "wgpuDevicePoll": "uint32_t(*)(struct WGPUDeviceImpl *, uint32_t, uint64_t *)",
    "wgpuBufferGetConstMappedRange": "void *(*)(struct WGPUBufferImpl *, size_t, size_t)",
    "wgpuBufferUnmap": "void(*)(struct WGPUBufferImpl *)",
}
"""The native functions that a step and a read call, with the C signatures that this package was written for."""

TRUSTED_MODULE = "wgpuDeviceCreateShaderModuleTrusted"
TRUSTED_MODULE_SIGNATURE = (
    "struct WGPUShaderModuleImpl *(*)(struct WGPUDeviceImpl *, WGPUShaderModuleDescriptor *, uint64_t)"
)

NO_CHECKS, LOOP_CHECKS = 0, 2
"""`WGPUShaderRuntimeChecks_None` and `WGPUShaderRuntimeChecks_ForceLoopBounding`."""

MAP_CALLBACK = "void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)"


@dataclass(frozen=True)
class Command:
    """A resolved dispatch.

    Attributes:
        pipeline: The kernel's pipeline.
        group: The bind group of its buffers.
        workgroups: The workgroup counts, unless `indirect` is set.
        offsets: The current dynamic offsets of the bindings with strides.
        indirect: A buffer and an offset in it, which hold the workgroup counts.
        strides: For each binding with strides, its stride per iteration of each enclosing loop.
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
    """A plan that is prepared for repeated submits."""

    def submit(self, runs: RunCount | None = None) -> None:
        """Encodes the plan and submits it once.

        Args:
            runs: Counts the submit, as one with it.

        Raises:
            wgpu.GPUError: The device reported an error.
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


def _counted(submit: Callable[[], object], runs: RunCount | None) -> Callable[[], object]:
    return submit if runs is None else partial(runs.count_with, submit)


Change: TypeAlias = tuple[wgpu.GPUComputePipeline | None, wgpu.GPUBindGroup | None, Command]
"""A command, with its pipeline and bind group where they differ from those of the previous command."""


def _changes(commands: Sequence[Command]) -> Iterator[Change]:
    """Yields the state changes of each command: a pass keeps its pipeline and bind group until others are set."""
    pipeline: wgpu.GPUComputePipeline | None = None
    group: wgpu.GPUBindGroup | None = None
    offsets: tuple[int, ...] = ()
    for command in commands:
        bound = command.group is group and command.offsets == offsets
        yield None if command.pipeline is pipeline else command.pipeline, None if bound else command.group, command
        pipeline, group, offsets = command.pipeline, command.group, command.offsets


class MethodRecording:
    """A plan that is encoded with wgpu-py's methods."""

    def __init__(self, device: wgpu.GPUDevice, segments: Sequence[Segment]):
        self._device = device
        self._segments: list[list[Change] | CopyCommand] = [
            list(_changes(segment)) if isinstance(segment, list) else segment for segment in segments
        ]

    def submit(self, runs: RunCount | None = None) -> None:
        """See `Recording`; the method that submits is in Python, so it is not quite one with the count."""
        encoder = self._device.create_command_encoder()
        self.encode(encoder)
        submit = partial(self._device.queue.submit, [encoder.finish()])
        _counted(submit, runs)()

    def encode(self, encoder: wgpu.GPUCommandEncoder) -> None:
        """Encodes the plan without submitting it."""
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
    """Encodes a dispatch with wgpu-py's methods, after setting the pipeline and bind group that changed."""
    if pipeline is not None:
        compute.set_pipeline(pipeline)
    if group is not None:
        compute.set_bind_group(0, group, command.offsets)
    if command.indirect is None:
        compute.dispatch_workgroups(*command.workgroups)
    else:
        compute.dispatch_workgroups_indirect(*command.indirect)


class NoHandleError(Exception):
    """A wgpu-py object has no native handle where this module expects it."""


Result = TypeVar("Result")


class NativeLibrary:
    """The functions of the native library, and wgpu-py's error handling.

    Attributes:
        create_encoder, begin_pass, …: The functions of `SIGNATURES`, without error checks.
        create_trusted_module: The function that creates shader modules with chosen run-time checks, or None.
        null: A null pointer.
    """

    def __init__(self, ffi: Any, lib: Any, errors: Any, wrap_module: Callable[..., wgpu.GPUShaderModule] | None = None):
        self._ffi = ffi
        self._lib = lib
        self._errors = errors
        self._wrap_module = wrap_module
        self.null = ffi.NULL
        self._allow_process_events = lib.WGPUCallbackMode_AllowProcessEvents
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
        self.map_buffer = lib.wgpuBufferMapAsync
        self.poll = lib.wgpuDevicePoll
        self.mapped_range = lib.wgpuBufferGetConstMappedRange
        self.unmap = lib.wgpuBufferUnmap
        create = getattr(lib, TRUSTED_MODULE, None)  # which older libraries lack
        is_known = wrap_module is not None and create is not None
        is_known = is_known and ffi.typeof(create).cname == TRUSTED_MODULE_SIGNATURE
        self.create_trusted_module = create if is_known else None

    def handle(self, owner: Any) -> Any:
        """Returns the native handle of a wgpu-py object, which must be kept alive while the handle is used.

        Raises:
            NoHandleError: It has none.
        """
        attr = getattr(owner, "_internal", None)
        if not isinstance(attr, self._ffi.CData):
            raise NoHandleError(f"{type(owner).__name__} has no native handle")
        return attr

    def array(self, type_name: str, values: Sequence[int] | int) -> Any:
        """Returns a C array of these values, or of this many zeros."""
        return self._ffi.new(type_name, values)

    def map_callback(self, call: Callable[..., object]) -> Any:
        """Returns what `map_buffer` takes to call a function; it must be kept alive until then."""
        info = self._ffi.new("WGPUBufferMapCallbackInfo *")
        info.mode = self._allow_process_events
        info.callback = callback = self._ffi.callback(MAP_CALLBACK, call)
        return info, callback

    def trusted_module(self, device: wgpu.GPUDevice, label: str, code: str, checks: int) -> wgpu.GPUShaderModule | None:
        """Creates a shader module as `create_shader_module` of wgpu-py does, with some of its run-time checks.

        Returns:
            The module, or None if the library creates them with all checks only.

        Raises:
            wgpu.GPUError: It doesn't compile.
        """
        if self.create_trusted_module is None:
            return None
        ffi, lib = self._ffi, self._lib
        texts = [ffi.new("char []", text.encode()) for text in (label, code)]  # kept until the call has ended
        source = ffi.new("WGPUShaderSourceWGSL *")
        source.chain.sType = lib.WGPUSType_ShaderSourceWGSL
        descriptor = ffi.new("WGPUShaderModuleDescriptor *")
        descriptor.nextInChain = ffi.cast("WGPUChainedStruct *", source)
        for view, text in zip((descriptor.label, source.code), texts, strict=True):
            view.data, view.length = text, len(text) - 1
        handle = self.checked(self.create_trusted_module, self.handle(device), descriptor, checks)
        assert self._wrap_module is not None
        return self._wrap_module(label, handle, device)

    def memory(self, pointer: Any, size: int) -> Any:
        """Returns the memory at a pointer, as a buffer of Python's."""
        return self._ffi.buffer(pointer, size)

    def checked(self, call: Callable[..., Result], *arguments: Any) -> Result:
        """Makes a native call, or several, and raises the error that it reports, as wgpu-py does for each call.

        Raises:
            wgpu.GPUError: The last reported error; earlier ones are raised by the next `reporting`.
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
    """Returns the native library, or None if wgpu-py's internals are not as expected."""
    lib, ffi = getattr(wgpu_native, "lib", None), getattr(wgpu_native, "ffi", None)
    errors = getattr(getattr(wgpu_native, "_api", None), "error_handler", None)
    if not all(callable(getattr(errors, name, None)) for name in ("capture", "release")):
        return None
    try:
        signatures = {name: ffi.typeof(getattr(lib, name)).cname for name in SIGNATURES} if ffi is not None else {}
    except (AttributeError, TypeError):
        return None
    if signatures != SIGNATURES:
        return None
    return NativeLibrary(ffi, lib, errors, getattr(wgpu_native._api, "GPUShaderModule", None))


Row: TypeAlias = tuple[Any, Any, int, Any, Any, int, int, int]
"""A pipeline or null, a bind group or null, the count and array of its dynamic offsets, an indirect buffer or null, and
three numbers: the workgroup counts, or the indirect buffer's offset first."""


class NativeRecording:
    """A plan that is encoded with native calls.

    Raises:
        NoHandleError: An object has no native handle.
    """

    def __init__(self, library: NativeLibrary, device: wgpu.GPUDevice, segments: Sequence[Segment]):
        self._library = library
        self._kept = device, list(segments)  # they own the handles
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

    def submit(self, runs: RunCount | None = None) -> None:
        """See `Recording`."""
        library, before = self._library, 0 if runs is None else runs.number
        encoder = library.checked(library.create_encoder, self._device, library.null)
        try:
            library.checked(self.encode, encoder)
            self._submitted[0] = commands = library.checked(library.finish, encoder, library.null)
        finally:
            library.release_encoder(encoder)
        try:
            library.checked(_counted(partial(library.queue_submit, self._queue, 1, self._submitted), runs))
        except wgpu.GPUError:  # nothing was submitted
            if runs is not None:
                runs.number = before
            raise
        finally:
            library.release_commands(commands)

    def encode(self, encoder: Any) -> None:
        """Encodes the plan with an encoder's handle, without submitting it; the caller checks for errors."""
        for segment in self._segments:
            if isinstance(segment, list):
                self._encode_pass(encoder, segment)
            else:
                self._library.copy(encoder, *segment)

    def _encode_pass(self, encoder: Any, rows: Sequence[Row]) -> None:
        """Encodes a compute pass; the hot loop of a step."""
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
