"""`tensor` and `Tensor.to`: tensors that live on a device, and the devices that hold them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.signature import arguments_of, results_of
from tensorgrad.dialects.tg.base import NumpyArray
from tensorgrad.driver.compiling.compilation import compile_recipe
from tensorgrad.driver.compiling.recipe import Recipe
from tensorgrad.driver.compiling.running import Phases
from tensorgrad.driver.device import DeviceName, check_name, find_device
from tensorgrad.driver.device_loss import SNAPSHOT_EVERY
from tensorgrad.eager.blocks import NAME, RunBlock
from tensorgrad.eager.devices import EagerDevice, NumpyDevice, RecordingDevice
from tensorgrad.errors import ArgumentError, DTypeError, OptionError, TraceError
from tensorgrad.passes.pipelines import forward_passes
from tensorgrad.runtime.backend import Executable
from tensorgrad.runtime.cpu import CpuExecutable
from tensorgrad.runtime.outputs import OutputHandle, array_of
from tensorgrad.tracing.dtypes import DType, as_dtype
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Array, Tensor, Traced
from tensorgrad.tracing.tracer import as_array, current_trace

if TYPE_CHECKING:
    from tensorgrad.driver.device import ProgramDevice

INTERPRETED = 1
"""How often a block runs in NumPy on the CPU before it is compiled: values read only once need no compiler."""


def eager_device_named(name: str) -> EagerDevice:
    """Returns the device of eager tensors that a name denotes.

    Args:
        name: As `tg.tensor` takes it.

    Raises:
        OptionError: There is no such device.
        DeviceError: It can't be used.
    """
    check_name(name)
    return _cached("numpy", None) if name == "numpy" else eager_device_on(find_device(name))


def eager_device_on(device: ProgramDevice | None) -> EagerDevice:
    """Returns the device of eager tensors whose programs run on `device`; `None` is numpy."""
    if device is None:
        return _cached("numpy", None)
    return _cached("cpu" if device.target.native else "wgpu", device)


def _cached(name: str, device: ProgramDevice | None) -> EagerDevice:
    key = name, None if device is None else device.info
    result = _eager_devices.get(key)
    if result is None:
        is_native = device is not None and device.target.native
        result = (
            NumpyDevice() if device is None else new_eager_device(name, device, INTERPRETED + 1 if is_native else 1)
        )
        if isinstance(result, RecordingDevice) and is_native and hasattr(os, "register_at_fork"):
            # A child has no thread that would end what another one of the parent is recording.
            os.register_at_fork(
                before=result.lock.acquire, after_in_parent=result.lock.release, after_in_child=result.lock.release
            )
        _eager_devices[key] = result
    return result


_eager_devices: dict[tuple[str, object], EagerDevice] = {}
"""By name and adapter, so that tensors keep theirs when the device that runs their programs is lost and replaced."""


def new_eager_device(name: str, device: ProgramDevice, compiled_at: int) -> RecordingDevice:
    """Returns a device of eager tensors that shares no program with another.

    Args:
        name: The device's name.
        device: The device that programs run on.
        compiled_at: How many times a block must occur before it is compiled.
    """

    def load(module: ModuleOp) -> RunBlock:
        recipe = Recipe(NAME, module, lambda _, target: forward_passes(target), device, snapshot_every=SNAPSHOT_EVERY)
        executable = compile_recipe(recipe, Phases()).executable
        function = find_function(module, None)
        inputs, outputs = ([slot.name for slot in slots] for slots in (arguments_of(function), results_of(function)))
        if isinstance(executable, CpuExecutable):
            call, places = executable.caller(inputs, outputs), range(len(outputs))
            return lambda arguments: zip(repeat(call(arguments)), places)
        return lambda arguments: _called(executable, dict(zip(inputs, map(array_of, arguments), strict=True)), outputs)

    lacks = frozenset[DType]() if device.target.native else frozenset({np.dtype(np.float64)})
    lacks |= frozenset[DType]() if device.target.int64 else frozenset({np.dtype(np.int64), np.dtype(np.uint64)})
    return RecordingDevice(name, load, compiled_at, lacks)


def _called(executable: Executable, inputs: Mapping[str, NumpyArray], outputs: Sequence[str]) -> list[OutputHandle]:
    results = executable.step({}, {}, inputs)
    return [results[name] for name in outputs]


def tensor(
    x: TensorLike, dtype: object = None, *, device: DeviceName | None = None, requires_grad: bool = False
) -> Tensor:
    """Returns a tensor that lives on a device: ops on it are recorded, and computed once a value is read.

    It supports gradients, `x.backward()`, and in-place changes, `x += 1`. Inside a trace it is a constant, as `array`
    returns.

    Args:
        x: Numbers: a nested list, an array, or a tensor, which is copied without its autograd graph.
        dtype: The dtype; float64 values are rounded to f32 unless f64 is requested.
        device: "auto" for a hardware adapter if there is one, else the CPU; "cpu", "wgpu" or "numpy". By default the
            device of `x` if it is a tensor that lives on one, else "auto".
        requires_grad: Whether its gradient is accumulated in `grad`.

    Raises:
        DTypeError: Values don't convert, or the device doesn't support the dtype.
        GradientError: A gradient is requested for a non-float tensor; or a list holds tensors that require gradients,
            which `tg.stack` joins into one tensor.
        OptionError: There is no such device, or a gradient is requested inside a trace.

    Example:
        >>> x = tg.tensor([1.0, 2.0, 3.0], device="cpu", requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad.tolist()
        [2.0, 4.0, 6.0]
    """
    target_dtype = None if dtype is None else as_dtype(dtype)
    if isinstance(x, Traced) or current_trace() is not None:
        if requires_grad:
            raise OptionError("tensor: requires_grad is for tensors outside a trace; tg.grad is for inside")
        if isinstance(x, Traced):
            return x if target_dtype is None else x.astype(target_dtype)
        return Array(np.array(as_array(x, target_dtype)))
    if device is None and isinstance(x, Array) and x.tensor_device is not None:
        eager_device = cast(EagerDevice, x.tensor_device)
    else:
        eager_device = eager_device_named("auto" if device is None else device)
    result = eager_device.made(np.array(as_array(x.detach() if isinstance(x, Array) else x, target_dtype)))
    return result.requires_grad_() if requires_grad else result


def moved(x: Tensor, target: Any, dtype: object, device: Any, copy: bool) -> Tensor:
    """Returns a tensor on another device, of another dtype, or both; see `Tensor.to`."""
    place, target_dtype = _destination(x, target, dtype, device)
    trace = x.trace if isinstance(x, Traced) else current_trace()
    if trace is not None and place is not None:
        raise TraceError(
            f"to: inside {trace.name}, which is traced, a tensor is on no device of its own: all of it "
            "runs where the program does. x.to(dtype) changes the dtype; move tensors before they are given"
        )
    eager_device = None if place is None else eager_device_named(place)
    if not isinstance(x, Array) or eager_device is None or eager_device is x.tensor_device:
        result = x.astype(target_dtype)
    elif x.tensor_device is None:
        result = eager_device.made(np.array(x.astype(target_dtype)), "to")
    else:  # use the narrower of the two dtypes for the transfer, unless the new device lacks it
        is_first = target_dtype.itemsize < x.dtype.itemsize or not eager_device.has(x.dtype)
        source = x.astype(target_dtype) if is_first else x
        assert isinstance(source, Array)
        result = eager_device.moved(source).astype(target_dtype)
    return result.clone() if copy and result is x else result


def _destination(x: Tensor, target: Any, dtype: object, device: Any) -> tuple[str | None, DType]:
    """Returns the device that `Tensor.to` asks for, or `None` if `x` is already there, and the dtype."""
    devices: list[Any] = [] if device is None else [device]
    dtypes: list[object] = [] if dtype is None else [dtype]
    if isinstance(target, Tensor):
        dtypes.append(target.dtype)
        if isinstance(target, Array) and target.tensor_device is not None and current_trace() is None:
            devices.append(target.device)  # inside a trace all tensors are on the program's device
    elif isinstance(target, str) and not _is_dtype(target):
        devices.append(target)
    elif target is not None:
        dtypes.append(target)
    for what, candidates in (("device", devices), ("dtype", dtypes)):
        if len(candidates) > 1:
            raise ArgumentError(f"to: the {what} is given twice")
    place: str | None = devices[0] if devices and devices[0] != x.device else None
    if place is not None:
        try:
            check_name(place)
        except OptionError as error:
            hint = "; it is no dtype either" if place is target else ""
            hint = "; tg.array(x.detach()) makes an array of the host" if place == "host" else hint
            raise OptionError(f"to: {error.message}{hint}") from None
    return place, as_dtype(dtypes[0]) if dtypes else x.dtype


def _is_dtype(name: str) -> bool:
    try:
        as_dtype(name)
    except DTypeError:
        return False
    return True
