"""The kernel check names a kernel that a device computes wrongly, and no kernel that it computes correctly."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from case import Case
from cases import CASES, fits_devices
from differences import float_positions, mid_graph, mid_graph_inputs
from harness import Names, NumpyArray, specs
from hypothesis import given
from kernel_by_kernel import BUGS, DEVICES, Compiled, device_of
from programs import Program as RandomProgram
from programs import programs
from rounding import parsed
from test_programs import differentiated, some

import tensorgrad as tg
from benchmarks.workloads import NAMES, workload
from tensorgrad.checks.dispatches import KernelRun, PlannedSteps
from tensorgrad.checks.kernels import _fault
from tensorgrad.driver.compiling.recipe import passes_to_kernels
from tensorgrad.errors import ExecutionError, NumericsError
from tensorgrad.nn.attention import scaled_dot_product_attention
from tensorgrad.passes.codegen import build_program as building
from tensorgrad.runtime.program import Copy, Dispatch, Repeat, runs
from tensorgrad.tools.tg_opt import main as tg_opt
from tensorgrad.tracing.tracer import trace
from tensorgrad.transforms.grad import grad, value_and_grad

EACH = 96
"""One in this many cases is run for every change; `make nightly` runs all."""

QUICK = ("mlp", "sine")
"""The workloads that are run for every change."""


def recurrence(xs: Any, w: Any) -> Any:
    return tg.scan(lambda carry, x: (tg.tanh(carry @ w) + x, carry), xs[0], xs)[0]


def choices(x: Any, y: Any) -> Any:
    """Nested branches, with kernels of several kinds."""
    total = tg.sum(x)

    def inner(x: Any) -> Any:
        return tg.cond(total > 0, lambda x: tg.cumsum(tg.sort(x * 2), 0) + tg.softmax(x), lambda x: tg.sort(x) - x, x)

    return tg.cond(tg.sum(x * y) > 0, inner, lambda x: tg.sort(tg.softmax(x)) + 1, x)


def choice_in_loop(xs: Any, w: Any) -> Any:
    def body(carry: Any, x: Any) -> Any:
        chosen = tg.cond(
            tg.sum(carry * x) > 0,
            lambda carry: tg.tanh(tg.sort(carry @ w) + x),
            lambda carry: tg.softmax(carry @ w) - x,
            carry,
        )
        return chosen, tg.sum(chosen)

    return grad(lambda xs, w: tg.sum(tg.scan(body, xs[0], xs)[0]), argnums=(0, 1))(xs, w)


def attention(q: Any, k: Any, v: Any) -> Any:
    return scaled_dot_product_attention(q * 2.0, k, v, is_causal=True)


def narrow(x: Any, y: Any) -> Any:
    return (tg.exp((x @ y).astype("f16")) * tg.softmax(x.astype("f16"))).astype("f32"), tg.sum(y.astype("f16"))


def not_floats(x: Any, y: Any) -> Any:
    return x > y, tg.argmax(x @ y, axis=-1), (x > 0) & (y > 0.3), tg.argsort(x * y)


def numbers(x: Any) -> Any:
    key = tg.random.key(3)
    return tg.random.normal(key, (17, 5)) + tg.random.uniform(key, (17, 5)), tg.random.bits(key, (9,)), x


FUNCTIONS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "pointwise": (lambda x, y: tg.exp(x * y - x), [(38, 6)] * 2),
    "softmax": (lambda x, y: tg.softmax(x - y, axis=-1), [(8, 33)] * 2),
    "contraction": (lambda x, y: tg.tanh(x @ y), [(37, 19), (19, 22)]),
    "attention": (attention, [(1, 2, 128, 32)] * 3),
    "sort": (lambda x, y: tg.sort(x * y, axis=-1), [(4, 33)] * 2),
    "scatter": (
        lambda x, y: tg.tanh(tg.zeros((6, 4)).at[(x[:, 0] * 2).astype("i32") % 6].add(y)),
        [(16, 4)] * 2,
    ),
    "loop": (recurrence, [(5, 3, 4), (4, 4)]),
}
"""Functions whose kernels are of every archetype."""

OTHERS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "branches": (choices, [(8,)] * 2),
    "branches in loops": (choice_in_loop, [(5, 4, 4), (4, 4)]),
    "attention's derivative": (grad(lambda *x: tg.sum(attention(*x) ** 2), argnums=(0, 1, 2)), [(1, 2, 40, 16)] * 3),
    "f16": (narrow, [(6, 6)] * 2),
    "integers and bools": (not_floats, [(7, 7)] * 2),
    "random numbers": (numbers, [(2,)]),
}


@cache
def compiled(name: str, device: str) -> Compiled:
    function, shapes = {**FUNCTIONS, **OTHERS}[name]
    return Compiled.of(trace(function, *map(tg.spec, shapes)), device)


@pytest.mark.in_turns(13)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", [*FUNCTIONS, *OTHERS])
def test_nothing_is_said_of_kernels_that_are_right(name: str, device: str) -> None:
    for seed in range(3):
        compiled(name, device).check(seed=seed)


@pytest.mark.in_turns(7)
@pytest.mark.parametrize("name", [*FUNCTIONS, *OTHERS])
def test_kernels_give_the_same_in_f64_and_nearly_so_when_they_are_moved(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[KernelRun] = []
    run = PlannedSteps.run

    def noted(self: PlannedSteps, step: Dispatch | Copy, times: tuple[int, ...]) -> list[KernelRun]:
        ran.extend(records := run(self, step, times))
        return records

    monkeypatch.setattr(PlannedSteps, "run", noted)
    compiled(name, "cpu").check()
    moves = 0
    for record in ran:
        precision = 2e-3 if any(array.dtype == np.float16 for array in (*record.before, *record.after)) else 1e-5
        for value, wide, moved in zip(record.after, record.again(), record.again(1), strict=True):
            if value.dtype.kind != "f":
                np.testing.assert_array_equal(value, wide)
                continue
            assert wide.dtype == np.float64
            scale = max(1.0, float(np.abs(wide).max()))
            np.testing.assert_allclose(value, wide, rtol=0, atol=precision * scale)
            np.testing.assert_allclose(moved, wide, rtol=0, atol=1e-5 * scale)
            moves += not np.array_equal(moved, wide)
    assert moves


HARMLESS = {("sort", "wgpu", "edge", "contraction0")}
"""A bound that another condition makes superfluous at this size."""


@pytest.mark.in_turns(6)
@pytest.mark.parametrize("bug", ["sign", "index", "edge"])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_planted_bug_is_blamed_on_its_kernel(name: str, device: str, bug: str) -> None:
    """Planted in each of the program's kernels in turn."""
    right, planted = compiled(name, device), 0
    for kernel in right.program.kernels:
        wrong = right.damaged(kernel.entry, bug)
        if wrong is None or (name, device, bug, kernel.entry) in HARMLESS:
            continue
        planted += 1
        with pytest.raises(NumericsError, match=rf"^kernel '{kernel.entry}' \({re.escape(__file__)}:\d+\) gives "):
            wrong.check()
    assert planted


def edited(right: Compiled, entry: str, old: str, new: str) -> Compiled:
    """Returns the program with another text for one kernel."""
    kernels = [
        replace(kernel, code=re.sub(old, new, kernel.code)) if kernel.entry == entry else kernel
        for kernel in right.program.kernels
    ]
    assert kernels != list(right.program.kernels)
    return replace(right, program=replace(right.program, kernels=tuple(kernels)))


def test_an_error_names_the_kernel_its_line_the_device_and_the_worst_element() -> None:
    line = 1 + double.__code__.co_firstlineno
    right = Compiled.of(trace(double, tg.spec((2, 4))), "cpu")
    wrong = right.damaged("loops0", "sign")
    assert wrong is not None
    x = np.array([[1, 2, 0, 0], [3, 0, 8, 5]], np.float32)
    with pytest.raises(NumericsError) as caught:
        wrong.check({"x": x})
    info = device_of("cpu").info
    assert str(caught.value) == (
        f"kernel 'loops0' ({__file__}:{line}) gives something else on cpu ({info.name}, {info.backend}) than in numpy: "
        "5 of 8 elements of output 'result0', the worst at [1, 2], is -16.0 and should be 16.0; 0.000122 is allowed"
    )


def double(x: Any) -> Any:
    return x + x


def test_an_error_names_the_iteration() -> None:
    right = compiled("loop", "cpu")
    entry = next(kernel.entry for kernel in right.program.kernels if kernel.entry.startswith("packed"))
    wrong = right.damaged(entry, "sign")
    assert wrong is not None
    with pytest.raises(
        NumericsError, match=r"than in numpy, in iteration \[0\] of its loops: \d+ of 12 elements of its"
    ):
        wrong.check()


def test_what_a_kernel_writes_outside_of_its_results_is_found() -> None:
    """A write to a buffer that the kernel only reads, and that others write."""
    wrong = edited(compiled("loop", "wgpu"), "thread2", r"\n\}\s*$", "\n  b1[v0] = 7.0f;\n}\n")
    message = (
        r"^kernel 'thread2' .* leaves something else on wgpu .*, in iteration \[0\] of its loops: \d+ bytes outside "
    )
    with pytest.raises(NumericsError, match=rf"{message}of its results of buffer '\w+', the first at \d+$"):
        wrong.check()


@pytest.mark.parametrize("device", DEVICES)
def test_a_wrong_choice_of_branches_is_found(device: str) -> None:
    right = compiled("branches", device)
    entry = next(kernel.entry for kernel in right.program.kernels if kernel.entry.startswith("choice"))
    first = {"wgpu": (r"(b\d+\[0u\]) = ([^;]+);", r"\1 = \2 + 1i;"), "cpu": (r"i32 1,", "i32 2,")}[device]
    wrong = edited(right, entry, *first)
    with pytest.raises(NumericsError, match=rf"^kernel '{entry}' \(.*\) leaves .*: \d+ bytes of buffer 'branches\d', "):
        for seed in range(4):
            wrong.check(seed=seed)


UPDATED = """
func.func @f(%w: tensor<8x8xf32> {tg.name = "w", tg.role = "parameter"})
    -> (tensor<8x8xf32> {tg.name = "w", tg.role = "update"}) {
  %t = tg.transpose %w permutation = [1, 0] : tensor<8x8xf32>
  %s = tg.add %w, %t : tensor<8x8xf32>, tensor<8x8xf32>
  func.return %s : tensor<8x8xf32>
}
"""


@pytest.mark.parametrize("device", DEVICES)
def test_copies_are_compared(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Compiled.of(parsed(UPDATED), device)
    right.check()
    assert any(isinstance(step, Copy) for step, _ in runs(right.program.plan))
    run = PlannedSteps.run

    def wrong(self: PlannedSteps, step: Dispatch | Copy, times: tuple[int, ...]) -> Any:
        records = run(self, step, times)
        if isinstance(step, Copy):
            self.memory[step.destination][step.destination_offset] += 1
        return records

    monkeypatch.setattr(PlannedSteps, "run", wrong)
    with pytest.raises(
        NumericsError, match=r"^the copy to buffer '\w+' leaves .*: 1 bytes of buffer '\w+', the first at 0"
    ):
        right.check()


def jump(x: Any) -> Any:
    return tg.sum(x, axis=1) > 0


def test_an_element_next_to_a_jump_is_not_blamed() -> None:
    """The sign of a sum that cancels depends on the order of rounding."""
    program = Compiled.of(trace(jump, tg.spec((3, 64))), "cpu")
    assert program.planned is not None
    x = np.random.default_rng(0).normal(size=(3, 64)).astype(np.float32)
    x[0, 0] -= np.float32(x[0].astype(np.float64).sum())
    x[1, 0] += 100
    x[2, 0] -= 100
    steps = PlannedSteps(program.planned, program.lowered, program.program)
    steps.memory = {index: np.zeros(buffer.size, np.uint8) for index, buffer in enumerate(program.program.buffers)}
    (slot,) = program.program.slots("input").values()
    slot.view(steps.memory[slot.buffer], slot.offset)[...] = x
    (step,) = program.program.plan
    assert isinstance(step, Dispatch)
    (run,) = steps.run(step, ())
    (value,) = run.after
    assert value.tolist() == [int(x[0].sum() > 0), 1, 0]
    assert _fault(run, 0, np.array([1 - value[0], 1, 0], np.uint32)) is None
    for row in (1, 2):
        wrong = value.copy()
        wrong[row] = 1 - wrong[row]
        fault = _fault(run, 0, wrong)
        assert fault is not None
        assert (fault.count, fault.worst) == (1, (row,))


def test_a_program_that_is_not_that_of_the_function() -> None:
    program = compiled("loop", "cpu")
    assert program.planned is not None
    first, *others = program.program.plan
    loop = next(step for step in others if isinstance(step, Repeat))
    for plan in ((*others,), (first, *others, first), tuple(first if step is loop else step for step in others)):
        with pytest.raises(ExecutionError, match=r"the program|the dispatch"):
            PlannedSteps(program.planned, program.lowered, replace(program.program, plan=plan))


# In the compiler


def hidden(model: tg.nn.Module, x: tg.Tensor) -> tg.Tensor:
    """A loss that hardly depends on some of its kernels."""
    return tg.mean(model(x) ** 2) + 1e-14 * tg.sum(tg.cumsum(tg.tanh(x), 0)[-1])


def verified(device: Any, **options: Any) -> tg.Training:
    settings: Any = {"optimizer": tg.optim.adam(0.1), "inputs": {"x": (16, 8)}, **options}
    return tg.compile(tg.nn.Linear(8, 8), loss=hidden, device=device, verify=True, **settings)


STORED = r"(?m)^(\s*b\d+\[.*\]) = (.*);$"
EMITTERS = {"wgpu": ("emit_kernel", "wgsl"), "cpu": ("emit_function", "llvm")}


def plant(monkeypatch: pytest.MonkeyPatch, device: str, entry: str) -> None:
    """Plants an emitter bug that flips a sign in one kernel."""
    shared = entry.startswith("shared")
    name, language = EMITTERS[device]
    emit = getattr(building, name)

    def wrong(*arguments: Any) -> str:
        code = emit(*arguments)
        if not re.search(rf"(fn |@){entry}\(", code):
            return code
        # Kernels that share a dispatch store one after the other; the bug is in the first of them.
        planted = re.sub(STORED, r"\1 = -(\2);", code, count=1) if shared else BUGS[language]["sign"](code)
        assert planted not in (None, code)
        return planted

    monkeypatch.setattr(building, name, wrong)


@pytest.mark.in_turns(2, 1)
@pytest.mark.parametrize(("device", "entry"), [("cpu", "loops1"), ("wgpu", "shared0")])
def test_a_kernel_that_hardly_matters_is_named_with_a_file_that_shows_it_again(
    device: str,
    entry: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    plant(monkeypatch, device, entry)
    with pytest.raises(NumericsError, match=rf"^kernel '{entry}' \({re.escape(__file__)}:\d+\) gives ") as caught:
        verified(device)
    (file,) = tmp_path.iterdir()
    assert f"; the module before it is in {file}, whose first line says" in str(caught.value)
    _, _, *again = shlex.split(file.read_text(encoding="utf-8").splitlines()[0])[1:]
    assert tg_opt([str(file), *again]) == 1
    shown = rf"kernel '{entry}' \({re.escape(str(file))}:\d+\) gives something else on {device}"
    assert re.search(shown, capsys.readouterr().err)


@pytest.mark.parametrize(("device", "entry"), [("cpu", "packed0"), ("wgpu", "group0")])
def test_a_kernel_that_changes_a_result_is_named_with_the_pass(
    device: str, entry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, device, entry)
    kernel = rf"; kernel '{entry}' \({re.escape(__file__)}:\d+\) gives something else on {device} "
    with pytest.raises(NumericsError, match=rf"^lower-buf-to-\w+ changes \w+/\w+, .* is allowed{kernel}"):
        verified(device)


@pytest.mark.nightly
@pytest.mark.parametrize("device", DEVICES)
def test_attached_and_accumulating_programs_are_compared(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    training = verified(device, accumulate=2)
    accumulating = training._programs.declared.accumulation
    assert accumulating is not None
    assert accumulating.compilation.recipe.verify
    plant(monkeypatch, device, {"cpu": "loops0", "wgpu": "group0"}[device])
    with pytest.raises(NumericsError, match=r"kernel '(loops0|group0)' "):
        training.attach(lambda model, x: tg.softmax(tg.exp(x)), inputs={"x": (4, 8)})


# Correct kernels are not reported


def silent(case: Case, device: str) -> None:
    """Checks the kernels of a case, and of its gradient if it has one."""
    pairs: list[tuple[Callable[..., Any], Sequence[NumpyArray]]] = [(case.function, list(case.inputs))]
    if case.derivative:
        inputs = [np.asarray(x, np.float32) if x.dtype.kind == "f" else x for x in mid_graph_inputs(case)]
        pairs.append((value_and_grad(mid_graph(case.function), argnums=tuple(float_positions(inputs))), inputs))
    for function, inputs in pairs:
        module = trace(function, *specs(inputs))
        values = dict(zip(Names(module).arguments, inputs, strict=True))
        Compiled.of(module, device).check(values)


@pytest.mark.nightly
@pytest.mark.parametrize("case", CASES[::EACH], ids=lambda case: case.id)
def test_nothing_is_said_of_some_cases(case: Case) -> None:
    for device in DEVICES if fits_devices(case) else DEVICES[:1]:
        silent(case, device)


@pytest.mark.nightly
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_nothing_is_said_of_any_case(case: Case) -> None:
    for device in DEVICES if fits_devices(case) else DEVICES[:1]:
        silent(case, device)


def check_workload(name: str, device: Any) -> None:
    training, batch = workload(name)(device)
    recipe, choice = training._compilation.recipe, training._compilation.choice
    Compiled.of(recipe.traced.clone(), device, passes_to_kernels(recipe, choice)).check(batch)


@pytest.mark.nightly
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", QUICK)
def test_nothing_is_said_of_small_workloads(name: str, device: str) -> None:
    check_workload(name, device)


@pytest.mark.nightly
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", [name for name in NAMES if name not in QUICK])
def test_nothing_is_said_of_large_workloads(name: str, device: str) -> None:
    check_workload(name, device)


def check_program(program: RandomProgram) -> None:
    inputs = {f"x{i}": np.asarray(x, np.float32) for i, x in enumerate(program.samples(0))}
    for device in DEVICES:
        Compiled.of(differentiated(program), device).check(inputs)


@pytest.mark.nightly
@some(3)
@given(programs())
def test_nothing_is_said_of_some_random_programs(program: RandomProgram) -> None:
    check_program(program)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@some(500)
@given(programs())
def test_nothing_is_said_of_random_programs(program: RandomProgram) -> None:
    check_program(program)
