"""Our compiler's kernels run without the checks of indices and loops that wgpu adds; those of files run with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from models import batch, compiled
from runtime_programs import SCALARS, expected_step, step_inputs, training_program
from wgpu.backends import wgpu_native
from wgpu.backends.wgpu_native import _api

import tensorgrad as tg
from tensorgrad.runtime.errors import DeviceError
from tensorgrad.runtime.program import Program
from tensorgrad.runtime.webgpu import WebGPUDevice, WebGPUExecutable, encoding
from tensorgrad.runtime.webgpu.encoding import native_library

WEIGHT_VALUE = np.array([1, 2, 3, 4, 5], np.float32)
CREATE = "wgpuDeviceCreateShaderModule"
TRUSTED = encoding.TRUSTED_MODULE
LIBRARY: Any = wgpu_native.lib


@pytest.fixture
def created(device: WebGPUDevice, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lists the native functions that create shader modules, with the checks that are asked for."""
    calls: list[str] = []
    assert device.target  # found by probes, which are shaders too

    def watch(owner: Any, name: str, what: str) -> None:
        original = getattr(owner, name)

        def record(*arguments: Any) -> Any:
            calls.append(what if len(arguments) < 3 else f"{what} {arguments[2]}")
            return original(*arguments)

        monkeypatch.setattr(owner, name, record)

    watch(_api.libf, CREATE, "checked")
    watch(native_library(), "create_trusted_module", "trusted")
    return calls


def shaders(program: Program) -> int:
    return len({kernel.code for kernel in program.kernels})


def trusted(device: WebGPUDevice) -> str:
    return "trusted 2" if device.target.software else "trusted 0"


def test_loops_are_bounded_where_that_compiles_faster(
    device: WebGPUDevice, created: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Indices are unchecked on both kinds of adapters."""
    for software, expected in ((True, "trusted 2"), (False, "trusted 0")):
        created.clear()
        monkeypatch.setattr(device, "target", replace(device.target, software=software))
        run(WebGPUExecutable(training_program(), device, trusted=True))
        assert set(created) == {expected}


def run(executable: WebGPUExecutable) -> None:
    executable.write({"weight": WEIGHT_VALUE})
    inputs = step_inputs(1)
    y, _ = expected_step(WEIGHT_VALUE, inputs)
    np.testing.assert_allclose(executable.step(inputs, SCALARS)["y"], y, rtol=1e-6, atol=1e-6)


def test_whether_kernels_are_trusted_decides(device: WebGPUDevice, created: list[str]) -> None:
    program = training_program()
    run(WebGPUExecutable(program, device, trusted=True))
    assert created == [trusted(device)] * shaders(program)
    created.clear()
    run(WebGPUExecutable(program, device))
    assert created == ["checked"] * shaders(program)


@pytest.mark.parametrize("options", [{}, {"on_device_lost": "restart"}], ids=["raise", "restart"])
def test_what_is_compiled_is_trusted_and_what_is_loaded_is_not(
    device: WebGPUDevice, options: dict[str, Any], created: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what is found in the user's cache, whose native code runs too."""
    monkeypatch.setenv("TENSORGRAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TENSORGRAD_CACHE_PROGRAMS")
    compiled(device="wgpu", accumulate=2, **options)
    training = compiled(device="wgpu", accumulate=2, **options)
    assert set(created) == {trusted(device)}
    created.clear()
    training.save(tmp_path / "training.tgp")
    loaded: Any = tg.load(tmp_path / "training.tgp", device="wgpu", **options)
    assert set(created) == {"checked"}
    for number in range(2):
        assert float(loaded.step(**batch(number))) == float(training.step(**batch(number)))


def test_a_target_with_checks_has_them_in_all_kernels(
    device: WebGPUDevice, created: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the target of `TG_DEBUG=bounds`."""
    assert not device.target.check_bounds
    monkeypatch.setattr(device, "target", replace(device.target, check_bounds=True))
    run(WebGPUExecutable(training_program(), device, trusted=True))
    assert set(created) == {"checked"}


def test_debug_flags_are_read_for_the_target(device: WebGPUDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    target: Callable[[WebGPUDevice], Any] = WebGPUDevice.__dict__["target"].func
    monkeypatch.setenv("TG_DEBUG", "bounds")
    assert target(device) == replace(device.target, check_bounds=True)
    monkeypatch.setenv("TG_DEBUG", "speed")
    with pytest.raises(DeviceError, match="unknown speed"):
        target(device)


def library_with(**functions: Any) -> Any:
    """wgpu-py's native backend with different functions, and others left out."""
    names = (*encoding.SIGNATURES, "WGPUCallbackMode_AllowProcessEvents", "WGPUSType_ShaderSourceWGSL")
    lib = SimpleNamespace(**{name: getattr(LIBRARY, name) for name in names}, **functions)
    return SimpleNamespace(lib=lib, ffi=wgpu_native.ffi, _api=wgpu_native._api)


@pytest.mark.parametrize(
    "functions",
    [{}, {TRUSTED: LIBRARY.wgpuDeviceCreateShaderModule}],
    ids=["no function", "another signature"],
)
def test_an_older_library_checks(
    device: WebGPUDevice, created: list[str], functions: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "wgpu_native", library_with(**functions))
    library = native_library.__wrapped__()
    assert library is not None and library.create_trusted_module is None
    monkeypatch.setattr(encoding, "native_library", lambda: library)
    run(WebGPUExecutable(training_program(), device, trusted=True))
    assert set(created) == {"checked"}


def test_no_native_library_checks(device: WebGPUDevice, created: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "native_library", lambda: None)
    run(WebGPUExecutable(training_program(), device, trusted=True))
    assert set(created) == {"checked"}


def test_a_trusted_kernel_that_does_not_compile_is_named(device: WebGPUDevice) -> None:
    program = training_program()
    first, *others = program.kernels
    broken = replace(program, kernels=(replace(first, code=first.code + "\nfn nothing() -> u32 { }"), *others))
    for trusted in (False, True):
        with pytest.raises(DeviceError, match=r"^compiling kernel 'update' \(update weight\): (?s:.*)nothing"):
            WebGPUExecutable(broken, device, trusted=trusted)
    run(WebGPUExecutable(program, device, trusted=True))
