"""Reads of mapped buffers: no other thread takes part, whatever ends them."""

from __future__ import annotations

import signal
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import wgpu
from runtime_programs import SCALARS, step_inputs, training_program
from wgpu.backends.wgpu_native import _api, _poller

from tensorgrad.runtime.errors import DeviceError
from tensorgrad.runtime.webgpu import WebGPUDevice, WebGPUExecutable, encoding, mapping
from tensorgrad.runtime.webgpu.device import STAGING

VALUES = np.arange(8, dtype=np.float32)


@pytest.fixture
def library() -> Any:
    """The native library, whose functions tests replace."""
    return encoding.native_library()


@pytest.fixture
def handovers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lists the promises made by wgpu-py, and the requests to its thread."""
    seen: list[str] = []

    def watch(owner: Any, name: str, what: str) -> None:
        original = getattr(owner, name)

        def record(*args: Any, **kwargs: Any) -> Any:
            seen.append(what)
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, record)

    watch(_api.GPUPromise, "__init__", "promise")
    watch(_poller.PollThread, "get_token", "thread")
    return seen


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has reads ask until there is an answer, however busy the machine is."""
    monkeypatch.setattr(mapping, "SPIN_SECONDS", 1e3)


def written(device: WebGPUDevice) -> wgpu.GPUBuffer:
    buffer = device.create_buffer("values", VALUES.nbytes)
    device.write_range(buffer, 0, VALUES)
    return buffer


def read(device: WebGPUDevice, buffer: wgpu.GPUBuffer) -> np.ndarray:
    return device.read_ranges([(buffer, 0, VALUES.nbytes)])[0].view(np.float32)


def unanswered() -> set[Exception]:
    """Returns the requests that no device has answered; one that was lost in another test never answers its own."""
    return {answer for answer, _ in mapping._unanswered.values() if not answer.args}


@pytest.mark.usefixtures("patient")
def test_a_read_is_handed_over_to_no_thread(device: WebGPUDevice, handovers: list[str]) -> None:
    buffer = written(device)
    for _ in range(3):
        np.testing.assert_array_equal(read(device, buffer), VALUES)
        device.wait()
    executable = WebGPUExecutable(training_program(), device)
    executable.step(step_inputs(), SCALARS)["y"].numpy()
    executable.read()
    assert handovers == []


def test_a_long_wait_is_left_to_a_thread(
    device: WebGPUDevice, handovers: list[str], library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapping, "SPIN_SECONDS", -1.0)
    buffer = written(device)
    with monkeypatch.context() as patch:
        patch.setattr(library, "poll", lambda *_: 0)
        np.testing.assert_array_equal(read(device, buffer), VALUES)
    assert handovers == ["promise", "thread"]
    monkeypatch.setattr(mapping, "SPIN_SECONDS", 1e3)
    np.testing.assert_array_equal(read(device, buffer), VALUES)
    assert handovers == ["promise", "thread"]


@pytest.mark.usefixtures("encoder")
def test_both_ways_read_the_same(device: WebGPUDevice) -> None:
    buffer = written(device)
    for _ in range(2):
        np.testing.assert_array_equal(read(device, buffer), VALUES)


def test_buffers_without_handles_are_read_by_their_methods(device: WebGPUDevice, handovers: list[str]) -> None:
    class Buffer:
        """A buffer of another version of wgpu-py."""

        def __init__(self, own: wgpu.GPUBuffer):
            self.map_sync, self.read_mapped, self.unmap = own.map_sync, own.read_mapped, own.unmap

    other: Any = Buffer(device.wgpu_device.create_buffer(size=16, usage=STAGING))
    found: list[np.ndarray] = []
    mapping.read_mapped(device.wgpu_device, other, 16, lambda mapped: found.append(mapped.copy()))
    assert [part.tolist() for part in found] == [[0] * 16]
    assert handovers == ["promise", "thread"]


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Has SIGINT raise, also where this process was started in the background and ignores it."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


@pytest.mark.usefixtures("patient", "interruptible")
def test_an_interrupt_ends_a_wait(device: WebGPUDevice, library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait asks again and again, and Python handles signals in between; the buffer that it mapped is given up."""
    buffer = written(device)
    read(device, buffer)
    staging: Any = device._staging
    earlier = unanswered()
    polls: list[int] = []

    def poll(*_: object) -> int:
        polls.append(1)
        if len(polls) == 3:
            signal.raise_signal(signal.SIGINT)
        return 0

    with monkeypatch.context() as patch:
        patch.setattr(library, "poll", poll)
        with pytest.raises(KeyboardInterrupt):
            read(device, buffer)
    assert len(polls) == 3 and device._staging is None
    assert len(unanswered() - earlier) == 1
    np.testing.assert_array_equal(read(device, buffer), VALUES)
    assert device._staging is not staging
    del staging
    read(device, buffer)
    assert unanswered() <= earlier


def test_what_is_called_back_runs_no_python() -> None:
    """So that no signal's handler runs in it, whose exception native code would discard, and the answer with it."""
    answer = mapping._Answer()
    assert isinstance(answer.__init__, types.MethodWrapperType)
    answer.__init__(1, None, None, None)
    assert answer.args[0] == 1


@pytest.mark.usefixtures("patient")
def test_errors_are_raised(device: WebGPUDevice, library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = written(device)

    def never(mapped: np.ndarray) -> None:
        raise AssertionError

    with pytest.raises(wgpu.GPUError, match="MAP_READ"):
        mapping.read_mapped(device.wgpu_device, buffer, VALUES.nbytes, never)
    handle: Any = None
    map_buffer = library.map_buffer

    def noting(*arguments: Any) -> Any:
        nonlocal handle
        handle = arguments[0]
        return map_buffer(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(library, "map_buffer", noting)
        patch.setattr(library, "poll", lambda *_: library.unmap(handle))  # withdraws what is asked for
        with pytest.raises(DeviceError, match=r"reading results: a buffer could not be mapped \(status 4\)"):
            read(device, buffer)
    np.testing.assert_array_equal(read(device, buffer), VALUES)
    assert not device.is_lost
