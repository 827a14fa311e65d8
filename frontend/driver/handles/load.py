"""`tg.load`: loads a saved program on a device, without the compiler."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from tensorgrad.driver.device import described, load_program
from tensorgrad.driver.device_loss import SNAPSHOT_EVERY, OnDeviceLost, check_may_be_lost, snapshots
from tensorgrad.errors import NoAdapterError, OptionError, ProgramError
from tensorgrad.runtime.cpu import CpuDevice
from tensorgrad.runtime.generator import LoadedGenerator
from tensorgrad.runtime.inputs import is_timeout
from tensorgrad.runtime.loaded import Loaded, LoadedFunction, LoadedTraining
from tensorgrad.runtime.saved import FUNCTION, GENERATOR, Saved
from tensorgrad.surface.calls import public

if TYPE_CHECKING:
    from tensorgrad.driver.device import ProgramDevice

__all__ = ["LoadedFunction", "LoadedGenerator", "LoadedTraining", "load"]

for _loaded in (LoadedFunction, LoadedGenerator, LoadedTraining):  # the runtime knows nothing of the public surface
    public(_loaded)

DEVICES = ("auto", "wgpu", "cpu")
PATIENCE = 300.0
"""The default timeout of the device for a call, in seconds: files are not trusted."""


def load(
    path: str | os.PathLike[str],
    *,
    device: str = "auto",
    timeout: float | None = PATIENCE,
    on_device_lost: OnDeviceLost = "raise",
    snapshot_every: int = SNAPSHOT_EVERY,
) -> Loaded:
    """Loads a file of `Inference.save`, `Training.save` or `tg.save_generator`; no compiler is needed.

    Files are not trusted: nothing in them runs on the host, all of it is validated, shaders stay within their memory,
    and the device is abandoned if it does not answer in time. Native code can do anything, so a program that contains
    it runs only with an explicit `device="cpu"`.

    Args:
        path: The file.
        device: "auto" or "wgpu" for the best adapter, software ones included; "cpu" for a program of native code, if
            you trust the file.
        timeout: For how many seconds to wait for an adapter; `None` waits forever. A device that takes longer can't be
            stopped, so this process can't use it any more.
        on_device_lost: "raise" or "restart", as for `tg.compile`.
        snapshot_every: With "restart", as for `tg.compile`.

    Returns:
        A `LoadedFunction` to call, a `LoadedTraining` to step, or a `LoadedGenerator` that continues texts.

    Raises:
        ProgramError: The file contains no program, one of another format version, or a malformed one.
        TargetError: The device lacks a feature or limit that the program needs; names it.
        OptionError: `device`, `timeout`, `on_device_lost` or `snapshot_every` is invalid.
        NoAdapterError: There is no adapter; says what to install.
        DeviceError: What the device reported.
        OSError: The file can't be read.

    Example:
        >>> import tempfile
        >>> model, loss = tg.nn.Linear(3, 2), lambda model, x: tg.mean(model(x) ** 2)
        >>> training = tg.compile(model, loss=loss, optimizer=tg.optim.sgd(0.1), inputs={"x": (4, 3)}, device="cpu")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     training.save(f"{folder}/step.tgp")
        ...     again = tg.load(f"{folder}/step.tgp", device="cpu")
        >>> float(again.step(x=np.ones((4, 3)))) == float(training.step(x=np.ones((4, 3))))
        True
    """
    if device not in DEVICES:
        raise OptionError(f"load: device must be one of {', '.join(DEVICES)}, got {device!r}")
    if timeout is not None and not is_timeout(timeout):
        raise OptionError(f"load: timeout must be a positive number of seconds, or None, got {timeout!r}")
    every = snapshots(on_device_lost, snapshot_every)
    if every is not None:
        check_may_be_lost(device)
    saved = Saved.load(path)
    if saved.host is None:
        raise ProgramError(f"{path} holds a program alone, which an executable of `tensorgrad.runtime` runs")
    is_native = any(kernel.language == "llvm" for kernel in saved.program.kernels)
    if is_native and device != "cpu":
        raise OptionError(
            f'load: {path} holds native code, which can do anything: if you trust the file, ask for the device "cpu", '
            "which runs it; save(path, target='webgpu-default') writes one that need not be trusted"
        )
    program_device: ProgramDevice = CpuDevice() if device == "cpu" else _adapter()
    name, patience = described(program_device), None if device == "cpu" else timeout
    load_kernels = partial(load_program, program_device, trusted=False, timeout=patience)
    executable = load_kernels(saved.program, snapshot_every=every)
    if saved.host.kind == FUNCTION:
        return LoadedFunction(saved, executable, name)
    others = None
    if saved.others is not None:
        others = load_kernels(saved.others, executable, in_turn=True)
    kind = LoadedGenerator if saved.host.kind == GENERATOR else LoadedTraining
    return kind(saved, executable, name, others)


def _adapter() -> ProgramDevice:
    try:
        from tensorgrad.runtime.webgpu import WebGPUDevice
    except ImportError as error:
        raise NoAdapterError(f"load needs the package wgpu: pip install wgpu ({error})") from error
    return WebGPUDevice()
