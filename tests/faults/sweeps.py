"""Strikes operations one by one, and checks what is left: of each kind of fault, on each device.

`python tests/faults/sweeps.py` prints how many faults were injected, and how many were survived.
"""

from __future__ import annotations

import argparse
import errno
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

import injection
import operations
from exports import EXPORTS
from injection import Fault, Injector
from operations import CACHE, Operation, Undisturbed

from tensorgrad.errors import DeviceError, DeviceLostError
from tensorgrad.runtime.files import PART

OPERATIONS: Mapping[str, type[Operation]] = {**operations.OPERATIONS, **EXPORTS}


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    Attributes:
        inject: Strikes.
        raises: The exceptions that may come of it.
        lasts: Whether operations may go on to fail.
        names_file: Whether the message has to name a file that the user knows.
        operations: What it strikes; by default everything.
    """

    inject: Injector
    raises: tuple[type[BaseException], ...]
    lasts: Sequence[bool] = (False, True)
    names_file: bool = False
    operations: Sequence[str] = tuple(OPERATIONS)
    devices: Sequence[str] = ("numpy", "cpu", "wgpu")


ON_FILES = tuple(name for name in OPERATIONS if name not in ("steps", "evaluate"))
WRITING = ("compile", "save_checkpoint", "save", "fit", *EXPORTS)
RUNNING = ("compile", "steps", "evaluate", "load", "fit")

KINDS: Mapping[str, Kind] = {
    "no space": Kind(
        injection.files(injection.raising(errno.ENOSPC)), (OSError,), names_file=True, operations=ON_FILES
    ),
    "I/O error": Kind(injection.files(injection.raising(errno.EIO)), (OSError,), names_file=True, operations=ON_FILES),
    "short write": Kind(injection.full(100), (OSError,), names_file=True, operations=WRITING),
    "empty write": Kind(injection.full(0), (OSError,), names_file=True, operations=WRITING),
    "no memory": Kind(injection.memory, (MemoryError, DeviceError)),
    "SIGINT at a file": Kind(
        injection.files(injection.signalling(signal.SIGINT)), (KeyboardInterrupt,), (False,), operations=ON_FILES
    ),
    "SIGINT at a run": Kind(
        injection.runs(injection.signalling(signal.SIGINT)), (KeyboardInterrupt,), (False,), operations=RUNNING
    ),
    "device refuses": Kind(injection.gpu(injection.invalid), (DeviceError,), (False,), devices=("wgpu",)),
    "device has no memory": Kind(injection.gpu(injection.out_of_memory), (DeviceError,), devices=("wgpu",)),
    # In a submit, wgpu-native ends the process if the device was lost since the call before.
    "device is lost": Kind(injection.gpu(injection.lose, False), (DeviceLostError,), (False,), devices=("wgpu",)),
}


@contextmanager
def caches(folder: Path) -> Iterator[None]:
    """Keeps the user's caches in a folder, programs too."""
    variables = {
        "TENSORGRAD_CACHE": str(folder / CACHE),
        "TENSORGRAD_CACHE_PROGRAMS": "1",
        "TENSORGRAD_CACHE_OBJECTS": str(folder / CACHE / "objects"),
    }
    with patch.dict(os.environ, variables), patch.object(tempfile, "tempdir", str(folder)):
        yield


def points(count: int, most: int | None, first: int) -> Sequence[int]:
    """Returns which operations to strike: all, or so many, evenly; those next to each other in different sweeps."""
    if most is None or count <= most:
        return range(1, count + 1)
    return range(1 + first % (count // most), count + 1, count // most)


def check_error(kind: Kind, error: BaseException | None, folder: Path) -> None:
    """Checks that an exception is of the documented kind, and names what failed."""
    if error is None:
        return
    assert isinstance(error, kind.raises), repr(error)
    if kind.names_file:
        message = str(error)
        assert str(folder) in message and PART not in message, message


def check_leftovers(folder: Path) -> None:
    """Checks that no temporary file is left."""
    left = [str(path) for path in folder.rglob("*") if PART in path.name]
    assert not left, left


def strike(operation: Operation, kind: Kind, fault: Fault) -> None:
    """Runs an operation with a fault, and checks what is left."""
    operation.prepare()
    error: BaseException | None = None
    try:
        with kind.inject(fault, operation.folder):
            operation.run()
    except BaseException as raised:
        error = raised.with_traceback(None)
    if isinstance(error, AssertionError):
        raise error
    check_error(kind, error, operation.folder)
    check_leftovers(operation.folder)
    operation.reference.revive()
    operation.check()


def swept(operation: Operation, kind: Kind, most: int | None = None) -> int:
    """Strikes an operation at its points; returns how often. Each fault is survived, or an `AssertionError` raised."""
    operation.prepare()
    unharmed = Fault(0)
    with kind.inject(unharmed, operation.folder):
        operation.run()
    operation.check()
    struck = 0
    for lasts in kind.lasts:
        for at in points(unharmed.count, most, 7 * lasts):
            fault = Fault(at, lasts)
            try:
                strike(operation, kind, fault)
            except AssertionError as error:
                raise AssertionError(f"fault {at} of {unharmed.count}, lasting: {lasts}: {error}") from error
            struck += fault.has_struck
    return struck


def sweep(device: Any, name: str, kind: Kind, folder: Path, most: int | None = None) -> int:
    """Sweeps an operation on a device; see `swept`."""
    own = folder / "own"
    with caches(own):
        return swept(OPERATIONS[name](undisturbed(device), own), kind, most)


_undisturbed: dict[str, Undisturbed] = {}


def undisturbed(device: Any) -> Undisturbed:
    """Returns the training of a device, which all operations on it share."""
    if device not in _undisturbed:
        _undisturbed[device] = Undisturbed(device)
    return _undisturbed[device]


def main() -> None:
    parser = argparse.ArgumentParser(description="Injects faults, and prints how many were survived.")
    parser.add_argument("--most", type=int, help="how many points of an operation to strike; by default all")
    parser.add_argument("--devices", nargs="+", default=["numpy", "cpu", "wgpu"])
    parser.add_argument("--kinds", nargs="+", default=list(KINDS))
    parser.add_argument("--operations", nargs="+", default=list(OPERATIONS))
    options = parser.parse_args()
    print("| fault |", " | ".join(options.devices), "|")
    print("|---" * (1 + len(options.devices)) + "|")
    for kind in options.kinds:
        counts = []
        for device in options.devices:
            count = 0
            for name in KINDS[kind].operations:
                if name in options.operations and device in OPERATIONS[name].devices and device in KINDS[kind].devices:
                    with tempfile.TemporaryDirectory() as folder:
                        count += sweep(device, name, KINDS[kind], Path(folder), options.most)
            counts.append(str(count))
        print(f"| {kind} |", " | ".join(counts), "|", flush=True)


if __name__ == "__main__":
    main()
