"""Faults in a page are one clear error: damaged files, inputs that don't fit, devices that lack features."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from damage import cases, contents, damaged_program
from playwright.sync_api import Browser
from safetensors.numpy import save_file

import tensorgrad as tg
from tensorgrad.errors import ProgramError
from tensorgrad.runtime.saved import Saved

pytestmark = pytest.mark.web

Evaluate: TypeAlias = Callable[..., Any]
Site: TypeAlias = tuple[Path, str]
DAMAGED = 200

SAID = """
    const said = async (act) => {
      try { return await act() } catch (error) {
        if (!(error instanceof T.TensorgradError)) throw error;
        return `${error.name}: ${error.message}`;
      }
    };
"""


def training(**options: Any) -> tg.Training:
    return tg.compile(
        tg.nn.Linear(3, 2),
        loss=lambda model, x, y: tg.cross_entropy(model(x), y),
        optimizer=tg.optim.adam(1e-2),
        inputs={"x": (4, 3), "y": tg.spec(4, "i32")},
        device="numpy",
        **options,
    )


@pytest.fixture
def file(site: Site) -> Path:
    """A file with a saved training."""
    training().save(site[0] / "training.tg", target="webgpu-default")
    return site[0] / "training.tg"


def test_damaged_files_are_loaded_or_refused(site: Site, evaluate: Evaluate) -> None:
    """None hangs or raises an error that isn't ours; if one is loaded, a step finishes."""
    good = site[0] / "good.tg"
    training(accumulate=2).save(good, target="webgpu-default")
    for number, draw in cases(1, DAMAGED):
        (site[0] / f"{number}.tg").write_bytes(damaged_program(good, number, draw))
    found = evaluate(
        SAID + "const results = [];"
        "for (let number = 0; number < given; number++) {"
        "  const slow = new Promise((_, no) => setTimeout(() => no(new Error(`${number} takes too long`)), 60000));"
        "  results.push(await Promise.race([slow, said(async () => {"
        "    const training = await T.Training.load(`${number}.tg`);"
        "    const zeros = Object.entries(training.inputs).map(([name, {shape, dtype}]) => {"
        "      const count = shape.reduce((product, extent) => product * extent, 1);"
        "      return [name, dtype === 'f32' ? new Float32Array(count) : new Uint8Array(count)] });"
        "    await T.read(training.step(Object.fromEntries(zeros)));"
        "    training.device.destroy(); return 'loaded' })]));"
        "} return results;",
        DAMAGED,
    )
    loaded = found.count("loaded")
    assert 5 < loaded < DAMAGED / 2, f"{loaded} of {DAMAGED} are loaded"
    assert all(len(message) < 500 for message in found)


NO_DEVICE = "InputError: load: device must be a Device, as Device.request() returns, got "
MISTAKES = (
    ("training.step({x: zeros})", "InputError: missing input y (expected: x, y)"),
    ("training.step({x: zeros, y: labels, z: 1, w: 2})", "InputError: unknown inputs z, w (expected: x, y)"),
    ("training.step({x: 1, y: labels})", "InputError: input 'x' has shape [], expected [4,3]"),
    ("training.step({x: [[1, 2, 3]], y: labels})", "InputError: input 'x' has shape [1,3], expected [4,3]"),
    ("training.step({x: [[1, 2], [3]], y: labels})", "InputError: input 'x' has rows of different shapes"),
    (
        "training.step({x: new Float32Array(11), y: labels})",
        "InputError: input 'x' has 11 elements, expected 12 in shape [4,3]",
    ),
    ("training.step({x: null, y: labels})", "InputError: input 'x' is null, which is not an array"),
    ("training.step({x: zeros, y: [0, 1, 0.5, 1]})", "InputError: input 'y' has 0.5, which is not an integer"),
    ("training.step({x: zeros, y: [0, 1, 2 ** 31, 1]})", "InputError: input 'y' has 2147483648, outside of i32"),
    (
        "training.step({x: zeros, y: new Float32Array(4)})",
        "InputError: input 'y' is a Float32Array, which does not convert to i32",
    ),
    (
        "training.step({x: Array(4).fill([0, 1e39, 0]), y: labels})",
        "InputError: input 'x' has values too large for f32, whose largest is 3.4028234663852886e+38",
    ),
    (
        "training.set({rate: 1})",
        "InputError: set: no setting 'rate'; the settings are learning_rate, beta1, beta2, eps",
    ),
    ("training.set({learning_rate: NaN})", "InputError: set: learning_rate must be a finite number, got NaN"),
    (
        "training.set(Promise.resolve({learning_rate: 1}))",
        "InputError: set: settings must be an object of values by name, got a Promise: await it",
    ),
    (
        "training.loadParameters(training.parameters())",
        "InputError: parameters must be an object of values by name, got a Promise: await it",
    ),
    ("training.loadParameters(5)", "InputError: parameters must be an object of values by name, got 5"),
    ("training.loadParameters({})", "InputError: missing parameters weight, bias (expected: weight, bias)"),
    ("training.loadParameters({bias: [1, 2]})", "InputError: missing parameter weight (expected: weight, bias)"),
    (
        "training.loadParameters({weight: [], bias: 0, none: 1})",
        "InputError: unknown parameter none (expected: weight, bias)",
    ),
    (
        "training.loadParameters({weight: new Float32Array(6), bias: [1, 2, 3]})",
        "InputError: parameter 'bias' has shape [3], expected [2]",
    ),
    (
        "training.step({x: Array.from({length: 4}, () => Array(3)), y: labels})",
        "InputError: input 'x' has undefined among its numbers",
    ),
    (
        "training.step({x: [[1, undefined, 3], ...zeros], y: labels})",
        "InputError: input 'x' has undefined among its numbers",
    ),
    ("training.step()", "InputError: inputs must be an object of values by name, got undefined"),
    (
        "training.step(training.parameters())",
        "InputError: inputs must be an object of values by name, got a Promise: await it",
    ),
    (
        "T.read(Promise.resolve(null))",
        "InputError: results must be an object of values by name, got a Promise: await it",
    ),
    ("training.restore(null)", "ProgramError: source must be a URL, a Blob, a Response or bytes, got null"),
    ("training.run(0, {})", "InputError: run: steps must be a positive integer, got 0"),
    ("T.Inference.load('training.tg')", "ProgramError: training.tg holds a training: load it with Training.load"),
    (
        "T.Training.load(new Uint8Array(4))",
        "ProgramError: the file is not a safetensors file: it has 4 bytes",
    ),
    (
        "T.Training.load('training.tg', {onprogress: 1})",
        "InputError: load: no option 'onprogress'; the nearest is 'onProgress'",
    ),
    (
        "T.Training.load('training.tg', {gpu: 1})",
        "InputError: load: no option 'gpu'; the options are device, onProgress, signal",
    ),
    ("T.Inference.load('training.tg', {onProgress: 1})", "InputError: load: onProgress must be a function, got 1"),
    (
        "T.Training.load('training.tg', {signal: 'none'})",
        "InputError: load: signal must be an AbortSignal, got 'none'",
    ),
    ("T.Training.load('training.tg', training.device.gpu)", NO_DEVICE + "GPUDevice"),
    ("T.Training.load('training.tg', {device: training.device.gpu})", NO_DEVICE + "GPUDevice"),
    ("T.Training.load('training.tg', {device: {gpu: training.device.gpu}})", NO_DEVICE + "Object"),
    ("T.TextGenerator.load('training.tg', T.Device.request())", NO_DEVICE + "a Promise: await it"),
    (
        "training.attach('training.tg', {device: training.device})",
        "InputError: attach: no option 'device'; the options are onProgress, signal",
    ),
    (
        "training.restore('training.tg', 5)",
        "InputError: restore: options must be an object of values by name, got 5",
    ),
    (
        "T.readArrays('training.tg', {on_progress: 1})",
        "InputError: readArrays: no option 'on_progress'; the nearest is 'onProgress'",
    ),
    (
        "T.Device.request({powerPreference: 'most'})",
        "InputError: request: powerPreference must be low-power or high-performance, got 'most'",
    ),
    (
        "training.restore('other.tg')",
        "ProgramError: the file is of another training: parameters, state or settings differ",
    ),
)


def test_mistakes_have_one_clear_message_and_change_nothing(file: Path, site: Site, evaluate: Evaluate) -> None:
    other = tg.compile(
        tg.nn.Linear(3, 4),
        loss=lambda model, x: tg.mean(model(x) ** 2),
        optimizer=tg.optim.sgd(0.1),
        inputs={"x": (4, 3)},
        device="numpy",
    )
    other.save(site[0] / "other.tg", target="webgpu-default")
    calls = ", ".join(f"() => {call}" for call, _ in MISTAKES)
    messages, before, after = evaluate(
        f"{SAID} const training = await T.Training.load('training.tg');"
        "const [zeros, labels] = [new Float32Array(12), [0, 1, 0, 1]];"
        "const before = await training.save();"
        f"const messages = []; for (const act of [{calls}]) messages.push(await said(act));"
        "return [messages, Array.from(before), Array.from(await training.save())]"
    )
    assert messages == [message for _, message in MISTAKES]
    assert before == after


def test_results_stay_those_of_the_training(file: Path, site: Site, evaluate: Evaluate) -> None:
    """Restoring a file of the same parameters whose loss has metrics changes the state, not the results' structure."""
    other = tg.compile(
        tg.nn.Linear(3, 2),
        loss=lambda model, x, y: (tg.cross_entropy(model(x), y), {"metric": tg.sum(x)}),
        optimizer=tg.optim.adam(1e-2),
        inputs={"x": (4, 3), "y": tg.spec(4, "i32")},
        device="numpy",
        seed=5,
    )
    other.step(x=np.ones((4, 3)), y=[0, 1, 0, 1])
    other.save(site[0] / "other.tg", target="webgpu-default")
    loss, saved = evaluate(
        "const training = await T.Training.load('training.tg'); await training.restore('other.tg');"
        "const loss = await training.step({x: new Float32Array(12).fill(1), y: [0, 1, 0, 1]}).item();"
        "return [loss, Array.from(await training.save())]"
    )
    assert loss == pytest.approx(float(other.step(x=np.ones((4, 3)), y=[0, 1, 0, 1])[0]), rel=1e-5)
    file.write_bytes(bytes(saved))
    loaded = tg.load(file)
    assert isinstance(loaded, tg.LoadedTraining) and loaded.step_count == 2


def test_a_loop_without_steps_is_refused(file: Path, evaluate: Evaluate) -> None:
    """It could run forever without a command."""
    metadata, tensors = contents(file)
    program = json.loads(metadata["program"])
    program["plan"].append({"op": "repeat", "count": 2**53 - 1, "steps": []})
    save_file(tensors, file, metadata={**metadata, "program": json.dumps(program)})
    message = "training.tg holds a malformed program: "
    assert message_of_load(evaluate) == f"ProgramError: {message}a loop has no steps"
    with pytest.raises(ProgramError, match="holds a malformed program: a loop has no steps"):
        Saved.load(file)


def repeats(depth: int, plan: list[Any]) -> list[Any]:
    for _ in range(depth):
        plan = [{"op": "repeat", "count": 1, "steps": plan}]
    return plan


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda program: {"plan": repeats(400, program["plan"])}, "its program is nested too deeply"),
        (lambda program: {"format_version": 3}, "format version 3; this release reads version 2: update tensorgrad"),
        (
            lambda program: {"format_version": 1},
            "format version 1; this release reads version 2: save the program again",
        ),
        (lambda program: {"more": 1}, 'program: unknown field "more"'),
        (
            lambda program: {"kernels": [{**program["kernels"][0], "more": 1}]},
            'program.kernels[0]: unknown field "more"',
        ),
        (lambda program: {"plan": []}, "no step of the plan writes output 'loss'"),
        (lambda program: {"plan": repeats(33, program["plan"])}, "more than 32 loops are nested"),
        (lambda program: {"name": "\ud800"}, "its program has text that is not Unicode"),
        (lambda program: {"statistics": {"\udfff": 1}}, "its program has text that is not Unicode"),
        (
            lambda program: {"tensors": [{**program["tensors"][0], "shape": [0] * 70}]},
            "program.tensors[0].shape has 70 axes, at most 64",
        ),
    ],
)
def test_what_python_refuses_is_refused(
    change: Callable[[Any], Any], message: str, file: Path, evaluate: Evaluate
) -> None:
    metadata, tensors = contents(file)
    program = json.loads(metadata["program"])
    save_file(tensors, file, metadata={**metadata, "program": json.dumps({**program, **change(program)})})
    assert message_of_load(evaluate) == f"ProgramError: training.tg holds a malformed program: {message}"
    with pytest.raises(ProgramError, match="holds a malformed program"):
        Saved.load(file)


def test_pages_of_results_are_given_back(file: Path, evaluate: Evaluate) -> None:
    """Unawaited steps, and a training destroyed with results in flight, leak no buffer."""
    values, made, left = evaluate(
        "const device = await T.Device.request(); const live = new Set(); let made = 0;"
        "const create = device.gpu.createBuffer.bind(device.gpu);"
        "device.gpu.createBuffer = (wanted) => { const buffer = create(wanted); live.add(buffer); made++;"
        "  const destroy = buffer.destroy.bind(buffer);"
        "  buffer.destroy = () => { live.delete(buffer); destroy() }; return buffer };"
        "const training = await T.Training.load('training.tg', device); const own = live.size;"
        "const values = []; const batch = {x: new Float32Array(12), y: [0, 1, 0, 1]};"
        "for (let index = 0; index < 1000; index++) values.push(training.step(batch));"
        "const before = await T.read(values.slice(0, 500)); const pages = live.size - own;"
        "training.destroy(); const after = await T.read(values.slice(500));"
        "return [[...before, ...after], pages, live.size]"
    )
    assert len(values) == 1000 and np.isfinite(values).all() and values[-1] < values[0]
    assert made <= 1000 // 64 + 2
    assert left == 0


def test_an_error_is_not_lost_with_results_that_nobody_reads(file: Path, evaluate: Evaluate) -> None:
    message, value = evaluate(
        f"{SAID} const training = await T.Training.load('training.tg');"
        "const batch = {x: new Float32Array(12), y: [0, 1, 0, 1]}; const first = training.step(batch);"
        "training.device.gpu.createBuffer({size: 4, usage: 0xffff});"  # a mistake of someone else's
        "await new Promise((resolve) => setTimeout(resolve, 200));"
        "const steps = () => { for (let index = 0; index < 70; index++) training.step(batch) };"
        "return [await said(steps), await first.item()]"
    )
    assert message.startswith("DeviceError: ")
    assert np.isfinite(value)


def test_the_order_of_a_file_is_kept(file: Path, evaluate: Evaluate) -> None:
    """Python can read what a page saves, whatever the order of its parts."""
    saved = evaluate("const training = await T.Training.load('training.tg'); return Array.from(await training.save())")
    copy = file.with_name("copy.tg")
    copy.write_bytes(bytes(saved))
    first, second = Saved.load(file), Saved.load(copy)
    assert (first.program, first.host, first.others) == (second.program, second.host, second.others)
    assert first.state.keys() == second.state.keys()
    assert all(np.array_equal(first.state[name], second.state[name]) for name in first.state)


def test_a_device_that_is_lost_says_so_wherever_it_is_used(file: Path, evaluate: Evaluate) -> None:
    found = evaluate(
        f"{SAID} const training = await T.Training.load('training.tg');"
        "const batch = {x: new Float32Array(12), y: [0, 1, 0, 1]};"
        "await training.run(3, batch); const kept = await training.save();"
        "const waiting = training.step(batch); training.device.destroy();"
        "const reading = said(() => waiting.item());"
        "const lost = await training.lost;"
        "const messages = [`${lost.name}: ${lost.message}`, await reading, await said(() => training.step(batch)),"
        "  await said(() => training.save()),"
        "  await said(() => training.loadParameters({weight: new Float32Array(6), bias: [1, 2]}))];"
        "const again = await T.Training.load(kept);"
        "return [messages, again.stepCount, await again.step(batch).item()]",
    )
    messages, steps, loss = found
    text = "DeviceLostError: the device was lost, with all that it held: Device was destroyed. Load the last checkpoint"
    assert messages == [text] * 5
    assert steps == 3 and np.isfinite(loss)


def test_a_page_without_webgpu_says_so(file: Path, site: Site, browser: Browser) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script("Object.defineProperty(Navigator.prototype, 'gpu', {get: () => undefined})")
    page.goto(f"{site[1]}/blank.html")
    absent, message = page.evaluate(
        f"async () => {{ const T = await import('/tensorgrad.js'); {SAID}"
        "return [await said(() => T.Training.load('none.tg')), await said(() => T.Training.load('training.tg'))] }"
    )
    context.close()
    assert absent == "ProgramError: none.tg can't be loaded: 404 File not found"
    assert message == (
        "NoAdapterError: WebGPU is not available: use a current browser, a page from https:// or localhost, and "
        "hardware acceleration"
    )


def changed(file: Path, **kernel: Any) -> None:
    """Replaces fields of the first kernel in a file."""
    saved = Saved.load(file)
    first, *rest = saved.program.kernels
    program = replace(saved.program, kernels=(replace(first, **kernel), *rest))
    replace(saved, program=program).save(file)


def message_of_load(evaluate: Evaluate) -> str:
    return evaluate(f"{SAID} return said(() => T.Training.load('training.tg'))")


def test_what_the_device_lacks_is_named(file: Path, evaluate: Evaluate) -> None:
    first = Saved.load(file).program.kernels[0]
    elsewhere = "save the program with target='webgpu-default', which every WebGPU device runs"
    changed(file, code=f"enable f16;\n{first.code}")
    assert message_of_load(evaluate) == (
        f"TargetError: kernel '{first.entry}' uses shader-f16, which this device lacks: {elsewhere}"
    )
    changed(file, code=first.code, workgroup_storage=1 << 30)
    assert f"kernel '{first.entry}': {1 << 30} exceeds maxComputeWorkgroupStorageSize" in message_of_load(evaluate)
    changed(file, workgroup_storage=0, code=first.code.replace("{", "{ let lanes = subgroupAdd(1u);", 1))
    assert message_of_load(evaluate) == (
        f"TargetError: kernel '{first.entry}' uses subgroups without 'enable subgroups;', which browsers require: "
        f"{elsewhere}"
    )


def test_a_kernel_that_does_not_compile_is_named_with_its_line(file: Path, evaluate: Evaluate) -> None:
    first = Saved.load(file).program.kernels[0]
    changed(file, code=first.code.rstrip() + "\nfn more() { let x: f32 = 1u; }\n")
    message = message_of_load(evaluate)
    line = len(first.code.splitlines()) + 1
    assert message.startswith(f"DeviceError: compiling kernel '{first.entry}' of "), message
    assert f"test_faults.py:{training.__code__.co_firstlineno + 3}: line {line}: cannot initialize" in message


def test_programs_for_other_devices_are_refused(site: Site, evaluate: Evaluate) -> None:
    tg.compile(
        tg.nn.Linear(3, 4),
        loss=lambda model, x: tg.mean(model(x) ** 2),
        optimizer=tg.optim.sgd(0.1),
        inputs={"x": (4, 3)},
        device="cpu",
    ).save(site[0] / "training.tg")
    message = message_of_load(evaluate)
    assert "is in llvm; pages run wgsl: save it with target='webgpu-default'" in message
