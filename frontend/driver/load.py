"""`tg.load`: a saved program on a device, without the compiler."""

from __future__ import annotations

import os

from tensorgrad.errors import NoAdapterError, OptionError, ProgramError
from tensorgrad.runtime.backend import is_timeout
from tensorgrad.runtime.loaded import LoadedFunction, LoadedTraining
from tensorgrad.runtime.saved import FUNCTION, Saved

__all__ = ["LoadedFunction", "LoadedTraining", "load"]

DEVICES = ("auto", "wgpu")
PATIENCE = 300.0
"""For how many seconds the device may be at work on a call, unless said otherwise: files are not trusted."""


def load(
    path: str | os.PathLike[str], *, device: str = "auto", timeout: float | None = PATIENCE
) -> LoadedFunction | LoadedTraining:
    """Loads what `Inference.save` or `Training.save` wrote, with its parameters; no compiler is needed.

    A file is not trusted: nothing of it runs on the host, all of it is checked, and the device is given up if it
    does not answer in time.

    Args:
        path: The file.
        device: "auto" or "wgpu", the best adapter that there is; saved programs are for WebGPU devices, of which a
            software one will do.
        timeout: For how many seconds to wait for the device; `None` waits for ever. A device that takes longer can't be
            stopped, so this process can't use it any more.

    Returns:
        A function to call, or a training to step.

    Raises:
        ProgramError: The file holds no program, one of another format version, or a malformed one.
        TargetError: The device lacks what the program needs; says what.
        OptionError: The device or the time is none.
        NoAdapterError: There is no adapter; says what to install.
        DeviceError: What the device reported.
        OSError: The file can't be read.
    """
    if device not in DEVICES:
        raise OptionError(f"load: device must be one of {', '.join(DEVICES)}, got {device!r}: programs run on WebGPU")
    if timeout is not None and not is_timeout(timeout):
        raise OptionError(f"load: timeout must be a positive number of seconds, or None, got {timeout!r}")
    saved = Saved.load(path)
    if saved.host is None:
        raise ProgramError(f"{path} holds a program alone, which `tensorgrad.runtime.webgpu.WebGPUExecutable` runs")
    try:
        from tensorgrad.runtime.webgpu import WebGPUDevice, WebGPUExecutable
    except ImportError as error:
        raise NoAdapterError(f"load needs the package wgpu: pip install wgpu ({error})") from error
    found = WebGPUDevice()
    name = f"wgpu ({found.info.name}, {found.info.backend}, {found.info.type})"
    executable = WebGPUExecutable(saved.program, found, timeout=timeout)
    if saved.host.kind == FUNCTION:
        return LoadedFunction(saved, executable, name)
    others = None
    if saved.others is not None:
        others = WebGPUExecutable(saved.others, found, executable, in_turn=True, timeout=timeout)
    return LoadedTraining(saved, executable, name, others)
