"""The device `cpu`: bits independent of threads, the pool, cached object code, and moving between devices."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from native_programs import HELPERS, SHAPES, Network, batch, compiled, module

import tensorgrad as tg
from tensorgrad.errors import CompilerError, DeviceError, OptionError
from tensorgrad.passes.codegen.llvm.convert_to_llvm import ConvertToLlvmPass
from tensorgrad.runtime import cache
from tensorgrad.runtime.cpu import CpuExecutable, code, compiler, compiling, objects, stepping, threads
from tensorgrad.runtime.cpu.profile import profile
from tensorgrad.runtime.debugging import debug_flags
from tensorgrad.runtime.errors import TargetError
from tensorgrad.runtime.files import PART
from tensorgrad.runtime.outputs import LEAST_GIVEN, SMALL_BYTES, RingSlot
from tensorgrad.runtime.program import (
    Binding,
    Buffer,
    Collective,
    Copy,
    Dispatch,
    Exchange,
    Kernel,
    Program,
    Repeat,
    TensorSlot,
)

RUN = """
import sys
import numpy as np
sys.path.insert(0, {folder!r})
from native_programs import batch, compiled
training = compiled()
losses = [float(training.step(**batch(i))) for i in range(5)]
np.savez({path!r}, losses=losses, **training.parameters())
"""


def run(python: str, path: Path, **environment: str) -> dict[str, np.ndarray]:
    """Returns the results of five steps in a separate process."""
    program = RUN.format(folder=HELPERS, path=str(path))
    done = subprocess.run(
        [python, "-c", program], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    with np.load(path) as saved:
        return dict(saved)


def test_any_number_of_threads_gives_the_same_bits(tmp_path: Path, python: str) -> None:
    alone, two, four = (run(python, tmp_path / f"{n}.npz", TG_NUM_THREADS=str(n)) for n in (1, 2, 4))
    assert alone.keys() == two.keys() == four.keys()
    for name, value in alone.items():
        np.testing.assert_array_equal(two[name], value)
        np.testing.assert_array_equal(four[name], value)


def test_it_trains_as_the_reference_does() -> None:
    native, reference = compiled(), compiled(device="numpy")
    reference.load_parameters(native.parameters())
    for number in range(10):
        actual, expected = native.step(**batch(number)), reference.step(**batch(number))
        assert float(actual) == pytest.approx(float(expected), rel=1e-4)
    assert native.device.startswith("cpu (")
    assert native.stats()["submits"] == 1


@pytest.mark.nightly
def test_a_run_moves_between_devices(tmp_path: Path) -> None:
    """Through a checkpoint, from the CPU to an adapter and back."""
    path, devices = tmp_path / "checkpoint.safetensors", ("cpu", "wgpu", "cpu")
    plain = compiled()
    expected = [float(plain.step(**batch(number))) for number in range(6)]
    actual: list[float] = []
    for turn, device in enumerate(devices):
        training = compiled(device=device)
        if turn:
            training.load_checkpoint(path)
        actual += [float(training.step(**batch(number))) for number in (2 * turn, 2 * turn + 1)]
        training.save_checkpoint(path)
    np.testing.assert_allclose(actual, expected, rtol=1e-3)


def test_f64_is_fused() -> None:
    @tg.jit(device="cpu")
    def function(x: Any) -> Any:
        wide = tg.cast(x, "f64")
        return tg.sum(tg.tanh(wide) * tg.exp(wide), axis=1)

    x = np.random.default_rng(0).normal(size=(7, 33)).astype(np.float32)
    wide = x.astype(np.float64)
    actual = np.asarray(function(x))
    assert actual.dtype == np.float64
    np.testing.assert_allclose(actual, (np.tanh(wide) * np.exp(wide)).sum(axis=1), rtol=1e-13)
    assert function.stats()["dispatches"] == 1


@pytest.mark.nightly
def test_two_threads_of_python() -> None:
    """Concurrent programs share the pool or run without it; none deadlocks, and all results are correct."""
    trainings = [compiled() for _ in range(2)]
    alone = compiled()
    expected = [float(alone.step(**batch(number))) for number in range(20)]
    losses: list[list[float]] = [[], []]

    def steps(which: int) -> None:
        for number in range(20):
            losses[which].append(float(trainings[which].step(**batch(number))))

    threads = [threading.Thread(target=steps, args=(which,)) for which in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert losses == [expected, expected]


VIEWS: dict[str, Callable[[np.ndarray], Any]] = {
    "array": lambda array: array,
    "slice": lambda array: array[5:7],
    "reshaped": lambda array: array.reshape(2, -1).T,
    "iterator": lambda array: array.flat,
    "buffer": lambda array: memoryview(array.data),
    "PyTorch": torch.from_dlpack,
}
"""What someone may keep of a result."""


@pytest.mark.parametrize("view", VIEWS)
def test_results_stay_while_someone_has_a_part_of_them(view: str) -> None:
    function = tg.jit(lambda x: (x * 2.0, x + 1.0), device="cpu")
    x = np.arange(LEAST_GIVEN, dtype=np.float32)
    kept = VIEWS[view](np.asarray(function(x)[0]))
    expected = np.asarray(VIEWS[view](x * 2.0)).copy()
    for number in range(1, 6):
        assert np.asarray(function(x + number)[0])[0] == 2 * number
    np.testing.assert_array_equal(np.asarray(kept), expected)


def test_memory_of_results_that_nobody_has_is_used_again() -> None:
    function = tg.jit(lambda x: x * 2.0, device="cpu")
    x = np.arange(LEAST_GIVEN, dtype=np.float32)
    places = {np.asarray(function(x)).ctypes.data for _ in range(5)}
    assert len(places) == 1
    first, second = (np.asarray(function(x + number)) for number in range(2))
    assert first.ctypes.data != second.ctypes.data
    np.testing.assert_array_equal(second - first, np.full_like(x, 2.0))


def test_a_fork_has_a_pool_of_its_own(python: str) -> None:
    program = """
import os, sys, warnings
import numpy as np
sys.path.insert(0, {folder!r})
warnings.simplefilter("ignore")  # Python warns of forks with threads
from native_programs import batch, compiled
training = compiled()
training.step(**batch(0))
child = os.fork()
if child == 0:
    value = float(training.step(**batch(1)))
    os._exit(0 if np.isfinite(value) else 1)
assert os.waitpid(child, 0)[1] == 0
assert np.isfinite(float(training.step(**batch(1))))
"""
    text = program.format(folder=HELPERS)
    done = subprocess.run([python, "-c", text], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


def test_object_code_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(objects.CACHE_VARIABLE, str(tmp_path))
    text = "define void @f(ptr %x) {\n  store i32 7, ptr %x\n  ret void\n}\n"
    first, second = code.NativeCode(text), code.NativeCode(text)
    assert (first.cached, second.cached) == (0, 1)
    (entry,) = tmp_path.glob("*.o")
    entry.write_bytes(entry.read_bytes()[:-1] + b"?")
    damaged, whole = code.NativeCode(text), code.NativeCode(text)
    assert (damaged.cached, whole.cached) == (0, 1)
    monkeypatch.setattr(objects, "CACHE_BYTES", entry.stat().st_size)
    monkeypatch.setattr(cache, "TRIM_SHARE", 0.0)
    code.NativeCode(text.replace("7", "8"))
    assert len(list(tmp_path.glob("*.o"))) == 1 and not entry.exists()
    monkeypatch.setenv(objects.CACHE_VARIABLE, "0")
    assert objects.cache_folder() is None
    assert code.NativeCode(text).cached == 0


@pytest.mark.parametrize("executable", [sys.executable, "/nowhere/python", ""])
def test_modules_are_compiled_beside_each_other(monkeypatch: pytest.MonkeyPatch, executable: str) -> None:
    """In one process per share; in this process if no other can be started."""
    monkeypatch.setenv(objects.CACHE_VARIABLE, "0")
    monkeypatch.setenv(threads.THREADS_VARIABLE, "3")
    monkeypatch.setattr(compiling, "LEAST_SHARE", 1)
    monkeypatch.setattr(sys, "executable", executable)
    started: list[object] = []
    start = subprocess.Popen

    def counted(*args: Any, **options: Any) -> Any:
        started.append(args)
        return start(*args, **options)

    monkeypatch.setattr(subprocess, "Popen", counted)
    names = [f"f{number}" for number in range(6)]
    native = code.NativeCode(*(module(name, called) for name, called in zip(names, ["", *names], strict=False)))
    assert len(started) == (2 if executable else 0)
    number = np.zeros(1, np.int32)
    native.function("f5", ctypes.c_void_p)(number.ctypes.data)
    assert number[0] == 6


def run_with_features(python: str, features: str, program: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, compiler.FEATURES_VARIABLE: features}
    command = [python, "-c", f"import sys; sys.path.insert(0, {HELPERS!r})\n{program}"]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.nightly
@pytest.mark.parametrize(("features", "width"), [("-avx512f", 32), ("-avx2", 16), ("-avx512f, -avx", 16)])
def test_a_cpu_may_be_taken_for_one_with_fewer_features(features: str, width: int, python: str) -> None:
    host = code.host_cpu()
    if "avx2" not in host.features:
        width = host.vector_bytes
    program = """
import numpy as np
from tensorgrad.runtime.cpu import CpuDevice
from native_programs import batch, compiled
trainings = compiled(), compiled(device="numpy")
losses = [[float(training.step(**batch(seed))) for seed in range(3)] for training in trainings]
np.testing.assert_allclose(*losses, rtol=1e-5)
print(CpuDevice().target.vector_bytes)
"""
    done = run_with_features(python, features, program)
    assert (done.stderr, done.stdout) == ("", f"{width}\n")


@pytest.mark.parametrize("features", ["avx512f", "-nonsense", "+"])
def test_a_feature_that_there_is_not_is_refused(features: str, python: str) -> None:
    done = run_with_features(python, features, "from tensorgrad.runtime.cpu import CpuDevice; CpuDevice()")
    assert f"DeviceError: LLVM generates no code for this CPU: TG_CPU_FEATURES: {features!r} is not" in done.stderr


READY = "import sys; out = sys.stdout.buffer; out.write(bytes([18]) + bytes(7) + b'tensorgrad object\\n'); out.flush()"
GIVEN = f"{READY}; sys.stdin.buffer.read(8)"


@pytest.mark.in_turns(9, 4)
@pytest.mark.parametrize(
    "helper",
    [
        "raise SystemExit(1)",
        "print('configured')",
        "import sys; sys.stdout.buffer.write(bytes([3]) + bytes(7) + b'abc')",
        "import sys; sys.stdout.buffer.write(b'\\xff' * 8)",
        "import time; time.sleep(60)",
        READY,
        f"{READY}; out.write(bytes(8))",
        f"{GIVEN}; out.write(bytes([9]) + bytes(7) + b'half')",
        f"{GIVEN}; import time; time.sleep(60)",
    ],
)
def test_what_a_process_fails_to_compile_this_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, helper: str
) -> None:
    monkeypatch.setenv(objects.CACHE_VARIABLE, "0")
    monkeypatch.setenv(threads.THREADS_VARIABLE, "2")
    monkeypatch.setattr(compiling, "LEAST_SHARE", 1)
    monkeypatch.setattr(compiling, "HELPER_SECONDS", 1.0)
    file = tmp_path / "helper.py"
    file.write_text(helper, encoding="utf-8")
    start = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda _, **options: start([sys.executable, str(file)], **options))
    with objects.compiling_ahead() as ahead:
        ahead.add(module("f"))
        ahead.add(module("g", "f"))
        if helper.startswith(READY):
            time.sleep(0.5)  # until it has both
        native = code.NativeCode(module("f"), module("g", "f"))
    number = np.zeros(1, np.int32)
    native.function("g", ctypes.c_void_p)(number.ctypes.data)
    assert number[0] == 2


def test_a_malformed_text_is_refused_wherever_it_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(objects.CACHE_VARIABLE, "0")
    monkeypatch.setenv(threads.THREADS_VARIABLE, "2")
    monkeypatch.setattr(compiling, "LEAST_SHARE", 1)
    with objects.compiling_ahead() as ahead, pytest.raises(DeviceError, match="LLVM refuses the code"):
        ahead.add("define nonsense")
        code.NativeCode("define nonsense")


@pytest.mark.nightly
def test_a_program_is_compiled_while_it_is_being_lowered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Kernels are compiled one by one; the result is the same as with one pass after another."""
    monkeypatch.setenv(objects.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setenv("TENSORGRAD_CACHE_PROGRAMS", "0")
    added: list[list[str]] = [[]]
    add, of = objects.Objects.add, objects.Objects.of

    def noted(self: objects.Objects, text: str) -> None:
        added[-1].append(text)
        add(self, text)

    def asked(self: objects.Objects, texts: Sequence[str]) -> tuple[list[bytes], int]:
        added.append([])
        return of(self, texts)

    monkeypatch.setattr(objects.Objects, "add", noted)
    monkeypatch.setattr(objects.Objects, "of", asked)
    training = compiled()
    ahead = added[0]
    expected = [kernel.text for kernel in stepping.native_kernels(training.program)]
    assert len(expected) > 1
    assert sorted(set(ahead) & set(expected)) == sorted(expected)
    caplog.set_level("DEBUG", "tensorgrad.passes")  # which is told of every pass
    assert compiled().program == training.program
    assert "convert-to-llvm" in caplog.text


@pytest.mark.nightly
def test_a_crash_on_one_kernel_names_its_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although it runs within `lower-buf-to-cpu`; the file has the whole module before the pass."""
    monkeypatch.setenv("TENSORGRAD_CACHE_PROGRAMS", "0")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def crash(self: ConvertToLlvmPass, ctx: object, op: object) -> None:
        raise ValueError("planted")

    monkeypatch.setattr(ConvertToLlvmPass, "rewrite", crash)
    with pytest.raises(CompilerError, match=r"convert-to-llvm crashed at .*planted") as caught:
        compiled()
    assert "lower-buf-to-cpu" not in str(caught.value)
    (written,) = tmp_path.glob("**/*.mlir")
    text = written.read_text(encoding="utf-8")
    assert text.count("cpu.kernel") == len(set(re.findall(r"cpu.kernel @(\w+)", text))) > 1


def test_the_compilers_source_need_not_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(objects.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setattr(objects.compiler, "__file__", str(tmp_path / "nowhere.py"))
    objects._compiler_digest.cache_clear()
    assert code.NativeCode(module("f")).cached == 0
    assert code.NativeCode(module("f")).cached == 1


def test_a_program_of_one_file_starts_itself_no_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a frozen application, `sys.executable` is the application, not Python."""
    monkeypatch.setenv(objects.CACHE_VARIABLE, "0")
    monkeypatch.setenv(threads.THREADS_VARIABLE, "2")
    monkeypatch.setattr(compiling, "LEAST_SHARE", 1)
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    assert code.NativeCode(module("f"), module("g", "f")).cached == 0


@pytest.mark.nightly
def test_processes_trim_what_is_kept_beside_each_other(tmp_path: Path) -> None:
    """A file that another process has removed is no error, and leftovers of killed writers are removed."""
    unfinished = tmp_path / f"x{PART}"
    unfinished.write_bytes(b"")
    os.utime(unfinished, (0, 0))
    program = f"""
import sys
sys.path.insert(0, {HELPERS!r})
from tensorgrad.runtime import cache
from tensorgrad.runtime.cpu import code, objects
from native_programs import module
objects.CACHE_BYTES, cache.TRIM_SHARE = 4000, 0.0
for number in range(20):
    code.NativeCode(module(f"f{{sys.argv[1]}}_{{number}}"))
"""
    environment = {**os.environ, objects.CACHE_VARIABLE: str(tmp_path)}
    commands = [[sys.executable, "-c", program, str(number)] for number in range(3)]
    running = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) for command in commands]
    for process in running:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
    assert not list(tmp_path.glob(f"*{PART}"))
    assert 0 < sum(path.stat().st_size for path in tmp_path.glob("*.o")) <= 4000 + 3 * 2000


def test_a_fork_beside_a_compilation(tmp_path: Path, python: str) -> None:
    """The child can compile: no LLVM lock is left held by a thread that it doesn't have."""
    program = f"""
import os, sys, threading, warnings
sys.path.insert(0, {HELPERS!r})
warnings.simplefilter("ignore")  # Python warns of forks with threads
from tensorgrad.runtime.cpu import code
from native_programs import module
going = True
def compile_on():
    number = 0
    while going:
        number += 1
        code.NativeCode(module(f"f{{number}}"))
thread = threading.Thread(target=compile_on)
thread.start()
for number in range(5):
    child = os.fork()
    if child == 0:
        code.NativeCode(module(f"g{{number}}"))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
going = False
thread.join()
"""
    environment = {**os.environ, objects.CACHE_VARIABLE: "0"}
    command = [python, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_plan_is_a_table() -> None:
    """Loops, strides, copies and empty dispatches are instructions; kernel arguments are slots of the frame."""
    binding = Binding(0, 8, 4, "read")
    moving = Binding(1, 0, 4, "read", (16,))
    steps = (
        Copy(0, 4, 1, 8, 12),
        Repeat(3, (Dispatch(1, (binding, moving), (7, 1, 1), "inner", indirect=(2, 4)),)),
        Collective("all_gather", "sum", 0, 2, "f32", (Exchange(0, 4, 3, 1, 8, 6),), "gathered"),
    )
    frame = stepping.FrameLayout({}, indices=3, arguments=5, size=7)
    assert stepping.table(stepping.instructions(steps, frame, [100, 200], lambda step: (300, 5))).tolist() == [
        [stepping.Opcode.ADDRESS, 5, 0, 4],
        [stepping.Opcode.ADDRESS, 6, 1, 8],
        [stepping.Opcode.COPY, 12, 5, 6],
        [stepping.Opcode.SET, 3, 0, 0],
        [stepping.Opcode.ADDRESS, 5, 2, 4],
        [stepping.Opcode.SKIP, 4, 5, 0],
        [stepping.Opcode.ADDRESS, 5, 0, 8],
        [stepping.Opcode.ADDRESS, 6, 1, 0],
        [stepping.Opcode.MOVE, 6, 3, 16],
        [stepping.Opcode.CALL, 200, 7, 5],
        [stepping.Opcode.REPEAT, 3, 6, 3],
        [stepping.Opcode.ADDRESS, 5, 0, 4],
        [stepping.Opcode.ADDRESS, 6, 1, 8],
        [stepping.Opcode.HOST, 300, 5, 5],
        [stepping.Opcode.END, 0, 0, 0],
    ]


def test_a_module_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program with the same kernel finds its object code."""
    monkeypatch.setenv(objects.CACHE_VARIABLE, str(tmp_path))
    assert code.NativeCode(module("f"), module("g")).cached == 0
    assert code.NativeCode(module("f"), module("h", "f")).cached == 1
    assert len(list(tmp_path.glob("*.o"))) == 3


def test_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeviceError, match="LLVM refuses the code"):
        code.NativeCode("define void @f( {")
    monkeypatch.setenv(threads.THREADS_VARIABLE, "many")
    with pytest.raises(DeviceError, match="TG_NUM_THREADS must be a positive integer, got 'many'"):
        threads.thread_count()
    monkeypatch.setenv(objects.CACHE_VARIABLE, "0")
    with pytest.raises(DeviceError, match=r"^TG_NUM_THREADS must be"):
        code.NativeCode(module("f"))
    with pytest.raises(OptionError, match="timeout is for a device that is waited for"):
        compiled(timeout=1.0)


@pytest.mark.nightly
def test_a_program_is_for_its_device(tmp_path: Path) -> None:
    """Native code only runs if it is trusted, and shaders don't run as native code."""
    function = tg.jit(lambda x: x * 2, device="cpu")
    training = compiled()
    training.save(tmp_path / "native.tg")
    with pytest.raises(OptionError, match="holds native code, which can do anything"):
        tg.load(tmp_path / "native.tg")
    loaded = tg.load(tmp_path / "native.tg", device="cpu")
    assert isinstance(loaded, tg.LoadedTraining) and loaded.device.startswith("cpu (")
    assert float(loaded.step(**batch(0))) == float(training.step(**batch(0)))
    training.save(tmp_path / "shaders.tg", target="webgpu-default")
    with pytest.raises(TargetError, match="has kernels in wgsl, target 'cpu' runs llvm"):
        tg.load(tmp_path / "shaders.tg", device="cpu")
    assert float(np.asarray(function(3.0))) == 6.0


@pytest.mark.nightly
def test_profiles_are_of_steps() -> None:
    """Each dispatch is measured, including loops and branches, in steps with the usual results."""

    def loss(model: Any, x: Any, y: Any) -> Any:
        total = tg.scan(lambda carry, row: (carry + tg.sum(model(row[None])), carry), 0.0, x[:5])[0]
        return tg.cond(total > 0.0, lambda: tg.mse(model(x), y), lambda: tg.mse(model(x) * 2.0, y))

    profiled, stepped = (
        tg.compile(Network(), loss=loss, optimizer=tg.optim.sgd(0.1), inputs=SHAPES, device="cpu") for _ in range(2)
    )
    executables = [training._executable for training in (profiled, stepped)]
    for executable in executables:
        assert isinstance(executable, CpuExecutable)
    first, second = executables
    assert isinstance(first, CpuExecutable)
    scalars = dict.fromkeys(first.scalar_names, 0.1)
    measured = profile(first, batch(0), scalars, steps=2)
    for _ in range(5):
        second.step(batch(0), scalars)
    for name, value in second.read().items():
        np.testing.assert_array_equal(first.read()[name], value)
    assert sum(dispatch.times for dispatch in measured.dispatches) == first.statistics()["dispatches"]
    assert all(dispatch.seconds >= 0 for dispatch in measured.dispatches) and measured.step_seconds > 0


def plan_of_inputs(access: str, copied_to: int) -> Program:
    """Two inputs of 64 KiB: a dispatch binds the first, and a copy writes to offset `copied_to` of their buffer."""
    size = 1 << 16
    kernel = Kernel("llvm", "f", "define void @f(ptr %x)", (1, 1, 1), 0)
    buffers = (Buffer("inputs", 3 * size, "input"), Buffer("outputs", size, "output"))
    first, second = (TensorSlot(name, "input", (size // 4,), "f32", 0, i * size) for i, name in enumerate("xy"))
    flags = TensorSlot("flags", "input", (size // 4,), "bool", 0, 2 * size)
    dispatch = Dispatch(0, (Binding(0, 0, size, access), Binding(1, 0, size, "read_write")), (1, 1, 1), "f")
    copy = Copy(1, 0, 0, copied_to, 4)
    return Program("p", (kernel,), buffers, (first, second, flags), (dispatch, copy))


@pytest.mark.parametrize(
    ("access", "copied_to", "names"),
    [("read", 3 << 16, "xy"), ("read_write", 3 << 16, "y"), ("read", 1 << 16, "x"), ("read", 0, "y")],
)
def test_only_what_is_not_written_is_borrowed(access: str, copied_to: int, names: str) -> None:
    """Bools have to be converted; the caller's arrays are never written to."""
    program = plan_of_inputs(access, copied_to)
    assert "".join(tensor.name for tensor in stepping.borrowed_inputs(program)) == names
    odd = [replace(tensor, dtype="f16", shape=((1 << 15) - 1,)) for tensor in program.tensors]
    assert stepping.borrowed_inputs(replace(program, tensors=tuple(odd))) == []


def test_large_arrays_are_not_copied() -> None:
    """Inputs are read in place if contiguous and of the right dtype; results are returned without a copy."""
    function = tg.jit(lambda x, y: x @ y + x, device="cpu")
    x, y = (np.random.default_rng(i).normal(size=(128, 128)).astype(np.float32) for i in range(2))
    first = function(x, y)
    (specialization,) = function._by_key.values()
    executable = specialization._executable
    assert isinstance(executable, CpuExecutable)
    assert not any(view.any() for view in executable._input_views.values())
    values = np.asarray(first)
    assert any(np.shares_memory(values, slot.buffers[i]) for slot in executable._ring._slots for i in slot.buffers)
    np.testing.assert_allclose(values, x @ y + x, rtol=1e-4, atol=1e-4)
    original, x2 = values.copy(), x * 2
    for _ in range(20):
        np.testing.assert_allclose(np.asarray(function(x2, y)), x2 @ y + x2, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(values, original)
    assert len(executable._ring._slots) <= 2 and not values.flags.writeable
    for strange in (x2.T, x2.astype(np.float64), x2[::-1]):
        expected = np.asarray(strange, np.float32) @ y + np.asarray(strange, np.float32)
        np.testing.assert_allclose(np.asarray(function(strange, y)), expected, rtol=1e-4, atol=1e-4)
    chained = function(function(x, y), y)
    np.testing.assert_allclose(np.asarray(chained), original @ y + original, rtol=1e-4, atol=1e-3)
    x2[:] = 0
    assert not np.asarray(function(x2, y)).any()


def test_results_given_out_stay_what_they_are() -> None:
    """Also if other results of their steps are unread, so that all memory is to be reused."""
    function = tg.jit(lambda x: (x + 1, x * 2), device="cpu")
    x = np.arange(1 << 15, dtype=np.float32)
    results: list[Any] = []
    values: list[np.ndarray] = []
    for number in range(12):
        results.append(function(x * number))
        values.append(np.asarray(results[-1][0]))
    for number, value in enumerate(values):
        np.testing.assert_array_equal(value, x * number + 1)
        np.testing.assert_array_equal(np.asarray(results[number][1]), x * number * 2)


def test_reading_a_result_looks_at_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else reading all of many would take time in proportion to the square of their number."""
    function = tg.jit(lambda *arrays: [array + 1 for array in arrays], device="cpu")
    results = function(*[np.ones(SMALL_BYTES + 1, np.uint8)] * 3, np.ones(3, np.uint8))
    monkeypatch.delattr(RingSlot, "pending")
    for result in results:
        assert (np.asarray(result) == 2).all()


CHECKED = """
import re, sys
from dataclasses import replace
sys.path.insert(0, {folder!r})
from native_programs import batch, compiled
from tensorgrad.runtime.cpu import CpuDevice, CpuExecutable
training = compiled()
print([float(training.step(**batch(number))).hex() for number in range(3)])
program = training.program
kernel = next(kernel for kernel in program.kernels if "icmp uge" in kernel.code)
code = re.sub(r"(icmp uge i64 %\\d+), \\d+", r"\\1, 0", kernel.code, count=1)
kernels = tuple(replace(kernel, code=code) if one is kernel else one for one in program.kernels)
executable = CpuExecutable(replace(program, kernels=kernels), CpuDevice())
for _ in range(2):
    try:
        executable.step(batch(0), dict.fromkeys(executable.scalar_names, 0.1))
    except Exception as error:
        print(type(error).__name__, error)
"""


@pytest.mark.nightly
def test_every_index_is_checked_where_that_is_asked_for(tmp_path: Path) -> None:
    """`TG_DEBUG=bounds` names the kernel, the line, the index and the number of elements."""
    environment = {**os.environ, "TG_DEBUG": "bounds", objects.CACHE_VARIABLE: "0"}
    command = [sys.executable, "-c", CHECKED.format(folder=HELPERS)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    losses, *errors = done.stdout.splitlines()
    training = compiled()
    losses_of_process = [float.fromhex(text) for text in re.findall(r"'(.*?)'", losses)]
    np.testing.assert_allclose(
        losses_of_process, [float(training.step(**batch(number))) for number in range(3)], rtol=1e-5
    )
    message = (
        r"DeviceError kernel '\w+' of '\w+' \(.*native_programs.py:\d+.*\): index \d+ in memory of \d+ elements; .*"
    )
    assert [bool(re.fullmatch(message, error)) for error in errors] == [True, True], errors


def test_debug_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, expected in (("", set[str]()), ("bounds", {"bounds"}), (" bounds ,", {"bounds"})):
        monkeypatch.setenv("TG_DEBUG", text)
        assert debug_flags() == expected
    monkeypatch.setenv("TG_DEBUG", "bounds,speed")
    with pytest.raises(DeviceError, match=r"^TG_DEBUG: unknown speed; there is: bounds$"):
        debug_flags()


@pytest.mark.nightly
def test_memory_stays_flat() -> None:
    training = compiled()
    inputs = batch(0)
    for _ in range(5):
        training.step(**inputs)
    before = training.stats()["device_bytes"]
    for _ in range(2000):
        training.step(**inputs)
    assert training.stats()["device_bytes"] == before


def test_a_deep_expression_of_one_element() -> None:
    """LLVM's vectorizer takes 2**40 steps for it in a loop (see `hoist_invariants`)."""

    def function(table: tg.Tensor) -> tg.Tensor:
        x = tg.take(table, np.zeros(3, np.int32), axis=0)
        for _ in range(40):
            x = x * x + x
        return x

    table = np.array([-0.5], np.float32)
    result, expected = (np.asarray(tg.jit(function, device=device)(table)) for device in ("cpu", "numpy"))
    np.testing.assert_allclose(result, expected, rtol=1e-6)
