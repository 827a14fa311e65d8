"""Devices that don't respond, and child processes that can't use their parent's device."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tensorgrad as tg
from tensorgrad.driver.stepping.nested_inputs import Nesting
from tensorgrad.errors import OptionError

FOLDER = Path(__file__).parents[1] / "helpers"


def run(code: str, seconds: float = 240) -> str:
    """Returns the output of a process that has to end by itself."""
    command = [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=FOLDER, timeout=seconds)
    assert done.returncode == 0, done.stderr
    return done.stdout


ENDLESS = """
import asyncio, dataclasses, sys, time
from runtime_programs import SCALARS, step_inputs, training_program
from tensorgrad.runtime.errors import DeviceError
from tensorgrad.runtime.program import Repeat
from tensorgrad.runtime.webgpu import RestartingExecutable, WebGPUDevice, WebGPUExecutable

program, device, how = training_program(), WebGPUDevice(), sys.argv[1] if len(sys.argv) > 1 else HOW
fine = WebGPUExecutable(program, device, timeout=200.0)
for number in range(3):
    y = fine.step(step_inputs(number), SCALARS)["y"]
assert fine.read().keys() == fine.persistent.keys()
asyncio.run(y.wait())
# Loops end after 65,535 iterations on lavapipe, and the number of workgroups wraps around at 2^32.
slow = "for (var k = 0u; k < 60000u; k++) { y[i] = y[i] * 0.5 + 1.0; }"
code = program.kernels[0].code.replace("  y[i] = value;", slow).replace("let i = id.x;", "let i = id.x % 5u;")
kernels = (dataclasses.replace(program.kernels[0], code=code), *program.kernels[1:])
most = dataclasses.replace(program.plan[0], workgroups=(30000, 60000, 1))
endless = dataclasses.replace(program, kernels=kernels, plan=(most, *program.plan[1:]))
kind = RestartingExecutable if how == "restart" else WebGPUExecutable
executable = kind(endless, device, timeout=4.0)
start = time.monotonic()

def report(call):
    try:
        call()
        print("answered")
    except DeviceError as error:
        print(type(error).__name__, str(error).split(".")[0])

handles = []
def work():
    for _ in range(2):
        handles.append(executable.step(step_inputs(), SCALARS)["y"])
    if how == "read":
        handles[0].numpy()
    elif how == "await":
        asyncio.run(handles[0].wait())
    else:
        executable.read()

report(work)
print(time.monotonic() - start < 100)
report(lambda: fine.step(step_inputs(), SCALARS)["y"].numpy())
report(lambda: WebGPUExecutable(program, device))
report(WebGPUDevice)
"""


@pytest.mark.nightly
@pytest.mark.parametrize("how", ["read", "await", "state", "restart"])
def test_a_kernel_without_end_is_given_up(how: str) -> None:
    first, in_time, *others = run(f"HOW = {how!r}\n{ENDLESS}").splitlines()
    assert "in which kernel 'update' (update weight) has the most to do: " in first
    assert "the device has not answered within timeout=4 seconds" in first and first.startswith("DeviceError")
    assert in_time == "True"
    assert others == [first] * 3


OUT_OF_MEMORY = """
import resource
import numpy as np, tensorgrad as tg
from tensorgrad.runtime.webgpu import WebGPUDevice

WebGPUDevice()
def loss(model, x):
    return tg.mean(model["w"] * x)

def compiled(size):
    options = {"optimizer": tg.optim.adam(1e-3), "inputs": {"x": (size,)}, "device": "wgpu"}
    return tg.compile({"w": np.zeros(size, np.float32)}, loss=loss, **options)

compiled(4)
used = 4096 * int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (used + (400 << 20),) * 2)
try:
    compiled(32 << 20)
except tg.errors.DeviceError as error:
    print(type(error).__name__, *str(error).splitlines())
x = np.ones(4, np.float32)
print(float(compiled(4).step(x=x)))
"""


@pytest.mark.nightly
def test_a_device_without_memory_for_a_program() -> None:
    error, loss = run(OUT_OF_MEMORY).splitlines()
    assert error.startswith("DeviceError allocating ")
    assert "'loss' takes " in error and " bytes on the device in all; with a memory_limit a training is" in error
    assert loss == "0.0"


def test_timeouts_are_positive_numbers_of_seconds() -> None:
    def compiled(device: tg.DeviceName, timeout: object) -> tg.Training:
        return tg.compile(
            tg.nn.Linear(2, 1),
            loss=lambda model, x: tg.mean(model(x)),
            optimizer=tg.optim.sgd(0.1),
            inputs={"x": (3, 2)},
            device=device,
            timeout=timeout,  # type: ignore[arg-type]
        )

    for timeout in (0, -1.0, float("inf"), float("nan"), True, "soon"):
        with pytest.raises(OptionError, match="timeout must be a positive number of seconds"):
            compiled("wgpu", timeout)
    with pytest.raises(OptionError, match="numpy and cpu run in the call"):
        compiled("numpy", 1.0)
    training = compiled("wgpu", 500)
    predict = training.attach(lambda model, x: tg.mean(model(x)), inputs={"x": (3, 2)})
    x = [[1.0, 2.0]] * 3
    assert float(predict(x=x)) == float(training.step(x=x))
    assert predict._compiled_for(predict._declared or {}, Nesting({"x": x}))._compilation.recipe.timeout == 500


FORKED = """
import gc, os, multiprocessing, sys, time
import numpy as np
from models import batch, compiled
from tensorgrad.errors import DeviceError
PARENT

def child(queue):
    def report(call):
        try:
            queue.put(("fine", float(call())))
        except DeviceError as error:
            queue.put(("DeviceError", str(error)))
    queue.put(("fine", float(batch(1)["x"].shape[0])))
    CHILD
    report(lambda: compiled(device="numpy").step(**batch(0)))
    gc.collect()

if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    found = [queue.get(timeout=150) for _ in range(COUNT)]
    process.join(100)
    assert process.exitcode == 0, process.exitcode
    for kind, text in found:
        print(kind, str(text).replace(chr(10), " "))
    AFTER
"""

USED = """
training = compiled(device="wgpu")
pending = training.step(**batch(0))
attached = training.attach(lambda model, x: model(x), inputs={"x": (4, 3)})
"""
CALLS = """
    report(lambda: training.step(**batch(1)))
    report(lambda: attached(x=batch(1)["x"]).numpy().sum())
    report(lambda: np.asarray(pending))
    report(lambda: training.state_dict()["training/step"])
    report(lambda: training.load_parameters(training.parameters()))
    report(lambda: compiled(device="wgpu").step(**batch(0)))
    globals().pop("training"); globals().pop("attached"); globals().pop("pending")
"""


@pytest.mark.nightly
def test_a_forked_child_says_that_it_can_not_use_its_parents_device() -> None:
    code = FORKED.replace("PARENT", USED).replace("CHILD", CALLS.strip()).replace("COUNT", "8")
    code = code.replace("AFTER", "print('parent', float(training.step(**batch(2))) > 0, float(pending) > 0)")
    first, *refused, numpy, parent = run(code).splitlines()
    assert first == "fine 4.0" and numpy.startswith("fine") and parent == "parent True True"
    assert len(refused) == 6
    for line in refused:
        assert line.startswith("DeviceError") and "was forked from one that uses a GPU" in line, line
        assert "get_context('spawn')" in line and "device='numpy'" in line


@pytest.mark.nightly
def test_a_forked_child_has_a_device_of_its_own_where_its_parent_has_none() -> None:
    code = FORKED.replace("PARENT", "import wgpu, tensorgrad.runtime.webgpu").replace("COUNT", "3")
    code = code.replace("CHILD", 'report(lambda: compiled(device="wgpu").step(**batch(0)))')
    code = code.replace("AFTER", "print('parent', float(compiled(device='wgpu').step(**batch(2))) > 0)")
    lines = run(code).splitlines()
    assert [line.split()[0] for line in lines] == ["fine", "fine", "fine", "parent"]
